"""``gpu-pools usage STACKFILE --prometheus URL``: what was allocated, used and wasted over a time, and what it cost.

Exit codes: 0 all of it is known; 2 it cannot be told: Prometheus cannot be asked or lacks all recorded series, or a file or
the command line is wrong; 3 something is unknown, since a series or a price is not there: it is said which.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.prices import read_prices
from gpu_pools.observing.series import DECLARED_GPUS
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.files import read_text
from gpu_pools.usage.prometheus import CannotAskError, Prometheus, refused
from gpu_pools.usage.questions import asked, span
from gpu_pools.usage.report import usage
from gpu_pools.usage.showing import usage_json, usage_table

if TYPE_CHECKING:
    from gpu_pools.usage.questions import Span
    from gpu_pools.usage.report import Usage

_CANNOT_TELL: Final = 2
_UNKNOWN: Final = 3
#: The token, where no file has it.
TOKEN: Final = "GPU_POOLS_PROMETHEUS_TOKEN"  # noqa: S105 - the variable's name
_LONGEST_TOKEN: Final = 64 << 10


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``usage``."""
    parser = commands.add_parser("usage", help="what pods were given, used and wasted over a time, by a Prometheus")
    add = parser.add_argument
    add("stackfile", help="a stack file, e.g. stacks/Pulumi.aks-dev.yaml; - for the standard input")
    add("--prometheus", required=True, metavar="URL", help="its address, as it is before /api/v1")
    add("--over", type=_over, default="24h", metavar="TIME", help="how long until now: 90m, 24h, 7d, 2w (24h)")
    add("--prices", metavar="FILE", help="the team's prices, as for `changes`")
    add("--token-file", metavar="FILE", help=f"a bearer token; without it {TOKEN} of the environment, if it is set")
    add("--ca", type=Path, metavar="FILE", help="certificates of the authority that vouches for it (this machine's own)")
    add("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=partial(_run, parser))


def _over(text: str) -> Span:
    try:
        return span(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
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
    try:
        report = _report(options, Prometheus(options.prometheus, token, options.ca))
    except InvalidStackError as error:
        print(error, file=sys.stderr)
        return _CANNOT_TELL
    except ValueError as error:
        print(f"error: {error}.", file=sys.stderr)
        return _CANNOT_TELL
    except CannotAskError as error:
        print(f"cannot tell: {error.message}\n{error.remedy}", file=sys.stderr)
        return _CANNOT_TELL
    print(usage_json(report, options.stackfile) if options.json else usage_table(report))
    return 0 if report.is_whole else _UNKNOWN


def _report(options: argparse.Namespace, prometheus: Prometheus) -> Usage:
    plan = plan_config(read_stack_file(options.stackfile), complete=False)
    prices = read_prices(options.prices) if options.prices else None
    answers = asked(prometheus, options.over, [pool.name for pool in plan.pools])
    if not answers.covered:
        message = f"{options.prometheus} has no {DECLARED_GPUS} of these pools in that time"
        remedy = "Does the stack have gpu-pools:observability, and does this Prometheus select its PrometheusRule?"
        raise CannotAskError(message, remedy)
    return usage(plan, answers, options.over, prices)
