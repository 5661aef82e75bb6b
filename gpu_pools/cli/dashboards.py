"""``gpu-pools dashboards STACKFILE --prometheus URL``: what Grafana's dashboards would show, as one HTML page, without a Grafana.

Exit codes: 0 every panel has data, or it is known that there is nothing; 2 it cannot be told: Prometheus cannot be asked or lacks
all recorded series, or a file or the command line is wrong; 3 of some panel nothing is known: it is said why.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.cli.prometheus import CANNOT_TELL, UNKNOWN, add_options, exit_code_of, prometheus_of, refuse_without_rules
from gpu_pools.dashboards.asking import MOST_STEPS, asked
from gpu_pools.dashboards.page import dashboards_page
from gpu_pools.dashboards.showing import dashboards_table
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.files import write_whole

if TYPE_CHECKING:
    import argparse

    from gpu_pools.observing.prometheus import Prometheus


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``dashboards``."""
    parser = commands.add_parser("dashboards", help="draw the dashboards of a stack by a Prometheus, without a Grafana")
    add_options(parser, "6h")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write them as one HTML page there")
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    prometheus = prometheus_of(parser, options)
    return exit_code_of(lambda: _shown(options, prometheus))


def _shown(options: argparse.Namespace, prometheus: Prometheus) -> int:
    plan = plan_config(read_stack_file(options.stackfile), complete=False)
    boards = asked(prometheus, plan, options.over.window(time.time(), MOST_STEPS))
    refuse_without_rules(options.prometheus, boards.covered)
    if options.html:
        name = Path(options.stackfile).stem.removeprefix("Pulumi.")
        try:
            write_whole(options.html, dashboards_page(name, plan, boards))
        except OSError as error:
            print(f"error: {options.html} cannot be written: {error.strerror}.", file=sys.stderr)
            return CANNOT_TELL
    print(dashboards_table(boards))
    return 0 if boards.is_whole else UNKNOWN
