"""What the commands that ask a Prometheus have alike: their options, their exit codes, and what is told where it cannot be told.

Options: the stack file, its address, the time, a token, an authority. Exit codes: 0 all is known, 2 it cannot be told, 3
something is unknown.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.observing.prometheus import CannotAskError, Prometheus, refused
from gpu_pools.observing.series import DECLARED_GPUS
from gpu_pools.observing.times import Span, span
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable

#: The token, where no file has it.
TOKEN: Final = "GPU_POOLS_PROMETHEUS_TOKEN"  # noqa: S105 - the variable's name
_LONGEST_TOKEN: Final = 64 << 10
#: In which all questions of one report have to be answered.
REPORT_SECONDS: Final = 600.0
CANNOT_TELL: Final = 2
UNKNOWN: Final = 3


def add_options(parser: argparse.ArgumentParser, over: str) -> None:
    """Add them, with a time that holds where none is named."""
    add = parser.add_argument
    add("stackfile", help="a stack file, e.g. stacks/Pulumi.aks-dev.yaml; - for the standard input")
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


def exit_code_of(ask: Callable[[], int]) -> int:
    """The exit code of what asks; what is wrong with the stack file, or with Prometheus, is told."""
    try:
        return ask()
    except InvalidStackError as error:
        print(error, file=sys.stderr)
    except CannotAskError as error:
        print(f"cannot tell: {error.message}\n{error.remedy}", file=sys.stderr)
    return CANNOT_TELL


def refuse_without_rules(url: str, covered: float) -> None:
    """Refuse a Prometheus that has nothing of these pools.

    Args:
        url: its address.
        covered: at how many steps the stack's rules were evaluated.

    Raises:
        CannotAskError: at none.
    """
    if not covered:
        message = f"{url} has no {DECLARED_GPUS} of these pools in that time"
        remedy = "Does the stack have gpu-pools:observability, and does this Prometheus select its PrometheusRule?"
        raise CannotAskError(message, remedy)


def _over(text: str) -> Span:
    try:
        return span(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
