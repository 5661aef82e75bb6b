"""The options of the commands that ask a Prometheus: its address, the time, a token, an authority."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from gpu_pools.observing.prometheus import Prometheus, refused
from gpu_pools.observing.times import Span, span
from gpu_pools.text.files import read_text

#: The token, where no file has it.
TOKEN: Final = "GPU_POOLS_PROMETHEUS_TOKEN"  # noqa: S105 - the variable's name
_LONGEST_TOKEN: Final = 64 << 10


def add_options(parser: argparse.ArgumentParser, over: str) -> None:
    """Add them, with a time that holds where none is named."""
    add = parser.add_argument
    add("--prometheus", required=True, metavar="URL", help="its address, as it is before /api/v1")
    add("--over", type=_over, default=over, metavar="TIME", help=f"how long until now: 90m, 24h, 7d, 2w ({over})")
    add("--token-file", metavar="FILE", help=f"a bearer token; without it {TOKEN} of the environment, if it is set")
    add("--ca", type=Path, metavar="FILE", help="certificates of the authority that vouches for it (this machine's own)")


def prometheus_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Prometheus:
    """The one that the options name; ends the command where they are wrong."""
    try:
        token = read_text(options.token_file, _LONGEST_TOKEN).strip() if options.token_file else os.environ.get(TOKEN, "")
        if options.ca:
            read_text(options.ca)
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{options.token_file or options.ca} cannot be read: {getattr(error, 'strerror', None) or 'not text'}")
    if why := refused(options.prometheus, with_token=bool(token)):
        parser.error(f"--prometheus: {why}")
    if not token.isascii() or not token.isprintable():
        parser.error("the token has letters that no header can carry")
    return Prometheus(options.prometheus, token, options.ca)


def _over(text: str) -> Span:
    try:
        return span(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
