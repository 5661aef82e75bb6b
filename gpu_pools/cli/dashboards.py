"""``gpu-pools dashboards STACKFILE --prometheus URL``: what Grafana's dashboards would show, as one HTML page, without a Grafana.

With ``--serve`` the page is served to whoever has its address, at this machine only, and drawn anew as long as somebody looks.

Exit codes: 0 every panel has data, or it is known that there is nothing; 2 it cannot be told: Prometheus cannot be asked or lacks
all recorded series, or a file or the command line is wrong; 3 of some panel nothing is known: it is said why.
"""

from __future__ import annotations

import argparse
import secrets
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.cli.prometheus import (
    CANNOT_TELL,
    REPORT_SECONDS,
    UNKNOWN,
    add_options,
    exit_code_of,
    prometheus_of,
    refuse_without_rules,
)
from gpu_pools.dashboards.asking import MOST_STEPS, asked
from gpu_pools.dashboards.page import dashboards_page
from gpu_pools.dashboards.server import Live, Server
from gpu_pools.dashboards.showing import dashboards_table
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.files import write_whole

if TYPE_CHECKING:
    from gpu_pools.observing.prometheus import Prometheus

_HOST: Final = "127.0.0.1"
_SECRET_BYTES: Final = 16
_PORTS: Final = range(65536)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``dashboards``."""
    parser = commands.add_parser("dashboards", help="draw the dashboards of a stack by a Prometheus, without a Grafana")
    add_options(parser, "6h")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--html", metavar="FILE", type=Path, help="write them as one HTML page there")
    port = f"serve them live at {_HOST}, until Ctrl-C; at a free port, or at this one"
    how.add_argument("--serve", metavar="PORT", type=_port, nargs="?", const=0, help=port)
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    prometheus = prometheus_of(parser, options)
    return exit_code_of(lambda: (_shown if options.serve is None else _served)(options, prometheus))


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) not in _PORTS:
        message = f"{text!r}: a port is needed, from 0 (a free one) to {_PORTS[-1]}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _served(options: argparse.Namespace, prometheus: Prometheus) -> int:
    """Serve until somebody ends it."""
    plan = plan_config(read_stack_file(options.stackfile), complete=False)
    # What is wrong with the address is told here, not on a page.
    prometheus.ask("vector(1)")
    try:
        listener = socket.create_server((_HOST, options.serve))
    except OSError as error:
        print(f"error: port {options.serve} of {_HOST} cannot be had: {error.strerror}. Name another one.", file=sys.stderr)
        return CANNOT_TELL
    live = Live(_name(options), plan, prometheus, options.over.text, secrets.token_urlsafe(_SECRET_BYTES))
    with Server(live, listener) as server:
        print(f"{server.url}\nThe dashboards are there until Ctrl-C, for whoever has this address.", flush=True)
        server.serve_forever()
    return 0


def _shown(options: argparse.Namespace, prometheus: Prometheus) -> int:
    plan = plan_config(read_stack_file(options.stackfile), complete=False)
    boards = asked(prometheus.within(REPORT_SECONDS), plan, options.over.window(time.time(), MOST_STEPS))
    refuse_without_rules(options.prometheus, boards.covered)
    if options.html:
        try:
            write_whole(options.html, dashboards_page(_name(options), plan, boards))
        except OSError as error:
            print(f"error: {options.html} cannot be written: {error.strerror}.", file=sys.stderr)
            return CANNOT_TELL
    print(dashboards_table(boards))
    return 0 if boards.is_whole else UNKNOWN


def _name(options: argparse.Namespace) -> str:
    """Of the stack."""
    return Path(options.stackfile).stem.removeprefix("Pulumi.")
