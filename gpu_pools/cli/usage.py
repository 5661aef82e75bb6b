"""``gpu-pools usage STACKFILE --prometheus URL``: what was allocated, used and wasted over a time, and what it cost.

Exit codes: 0 all of it is known; 2 it cannot be told: Prometheus cannot be asked or lacks all recorded series, or a file or
the command line is wrong; 3 something is unknown, since a series or a price is not there: it is said which.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from gpu_pools.cli.prometheus import (
    CANNOT_TELL,
    REPORT_SECONDS,
    UNKNOWN,
    add_options,
    exit_code_of,
    prometheus_of,
    refuse_without_rules,
)
from gpu_pools.hardware.prices import read_prices
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.usage.questions import asked
from gpu_pools.usage.report import usage
from gpu_pools.usage.showing import usage_json, usage_table

if TYPE_CHECKING:
    import argparse

    from gpu_pools.observing.prometheus import Prometheus
    from gpu_pools.usage.report import Usage


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``usage``."""
    parser = commands.add_parser("usage", help="what pods were given, used and wasted over a time, by a Prometheus")
    add_options(parser, "24h")
    parser.add_argument("--prices", metavar="FILE", help="the team's prices, as for `changes`")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    prometheus = prometheus_of(parser, options)
    return exit_code_of(lambda: _shown(options, prometheus))


def _shown(options: argparse.Namespace, prometheus: Prometheus) -> int:
    try:
        report = _report(options, prometheus)
    except ValueError as error:
        print(f"error: {error}.", file=sys.stderr)
        return CANNOT_TELL
    print(usage_json(report, options.stackfile) if options.json else usage_table(report))
    return 0 if report.is_whole else UNKNOWN


def _report(options: argparse.Namespace, prometheus: Prometheus) -> Usage:
    plan = plan_config(read_stack_file(options.stackfile), complete=False)
    prices = read_prices(options.prices) if options.prices else None
    answers = asked(prometheus.within(REPORT_SECONDS), options.over, [pool.name for pool in plan.pools])
    refuse_without_rules(options.prometheus, answers.covered)
    return usage(plan, answers, options.over, prices)
