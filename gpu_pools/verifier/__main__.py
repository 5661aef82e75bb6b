"""``verifier export | assert | watch | change | release``: what a GPU node is, and whether that is what was declared.

Exit codes: 0 the node is as declared, 1 it differs, 2 that cannot be told (or the command line is wrong), 130
interrupted, 143 terminated. What the commands do is in gpu_pools/verifier/commands.py.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .plain import Plain
from .process import Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .windows import Window

#: Seconds.
_NVML, _PAUSE, _EVERY, _INTERVAL = 30.0, 1.0, 10.0, 300.0
_PORT: Final = 9409
_WIDTH: Final = 100
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CANNOT_TELL: Final = 2
_INTERRUPTED: Final = 130
_SIGNALLED: Final = 128


def run(child: Process | None = None) -> int:
    """`main` as a program of its own: it ends when it is told to; returns the exit code."""
    # The first process of a container gets no signal that it does not handle.
    signal.signal(signal.SIGTERM, _end)
    streams: Any = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and Plain(stream) for stream in streams)
    try:
        return main(child=child)
    except Exception:  # noqa: BLE001 - Python would end with 1, which says that the node differs
        import traceback  # noqa: PLC0415 - as a rule it is not needed

        traceback.print_exc()
        return _CANNOT_TELL


def main(arguments: Sequence[str] | None = None, child: Process | None = None) -> int:
    """Run the command line; returns the exit code.

    Args:
        arguments: the command line; that of the process by default.
        child: a process that can read NVML, where one has been started.
    """
    options = _parser().parse_args(arguments)
    child = child or Process()
    # It takes its first reading while all the rest is loaded.
    child.ask()
    try:
        from .child import Reader  # noqa: PLC0415 - see above
        from .commands import run_command  # noqa: PLC0415

        reader = Reader(options.nvml_seconds, child)
        try:
            return run_command(options, reader)
        finally:
            reader.release()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _end(number: int, frame: object) -> None:
    del frame
    sys.exit(_SIGNALLED + number)


class _Help(argparse.HelpFormatter):
    """Of a fixed width: to find out the terminal's takes time to load, and argparse asks for it with each argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_WIDTH)


def _parser() -> argparse.ArgumentParser:
    about = "Compare a GPU node with what was declared for it."
    parser = argparse.ArgumentParser(prog="verifier", description=about, formatter_class=_Help)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", formatter_class=_Help, help="print what this node is")
    holds = commands.add_parser("assert", formatter_class=_Help, help="compare this node with an expectation")
    _add_expectation(holds)
    holds.add_argument("--json", action="store_true", help="print the report for machines")
    holds.add_argument(
        "--wait", type=_seconds, default=0.0, metavar="SECONDS", help="assert again until it holds, so long at most"
    )
    holds.add_argument(
        "--every", type=_seconds, default=_EVERY, metavar="SECONDS", help="pause between two assertions of --wait (10)"
    )
    holds.add_argument("--termination-log", type=Path, metavar="FILE", help="write a line about what does not hold there")
    about = "assert again and again, and serve the result over HTTP"
    watches = commands.add_parser("watch", formatter_class=_Help, help=about)
    _add_expectation(watches)
    watches.add_argument("--interval", type=_seconds, default=_INTERVAL, metavar="SECONDS", help="between two assertions (300)")
    watches.add_argument(
        "--listen", type=_address, default=("", _PORT), metavar="[ADDRESS:]PORT", help=f"where to serve ({_PORT})"
    )
    about = "put the labels of the last change back where somebody has taken them away"
    watches.add_argument("--keep", action="store_true", help=about)
    about = "bring this living node to an expectation, in its turn"
    changes = commands.add_parser("change", formatter_class=_Help, help=about)
    changes.add_argument("--drain", type=_seconds, required=True, metavar="SECONDS", help="how long pods may take to go")
    about = "of pods that do not go in time"
    changes.add_argument("--staying", choices=("wait", "stop", "delete"), required=True, help=about)
    changes.add_argument("--wait", type=_seconds, required=True, metavar="SECONDS", help="how long the GPUs may take")
    changes.add_argument("--restart-mps", action="store_true", help="replace the MPS daemon's pod once the labels are set")
    about = "when it may begin, such as 'Saturday 22:00 6h +01:00'; several are possible"
    changes.add_argument("--window", type=_window, action="append", default=[], metavar="WINDOW", help=about)
    about = "give this node back after a change, and its turn"
    releases = commands.add_parser("release", formatter_class=_Help, help=about)
    for command in (changes, releases):
        _add_document(command)
        about = "how many nodes change at the same time, or which share of them"
        command.add_argument("--turns", required=True, metavar="COUNT|PERCENT", help=about)
        about = "where the Leases of the turns are"
        command.add_argument("--turns-in", required=True, metavar="NAMESPACE", help=about)
        command.add_argument("--termination-log", type=Path, metavar="FILE", help="write a line about what failed there")
    for command in (export, holds, watches, changes, releases):
        _add_surroundings(command)
    return parser


def _add_expectation(command: argparse.ArgumentParser) -> None:
    _add_document(command)
    command.add_argument("--untaint", metavar="KEY", help="remove the node's taint of that key once an assertion held")
    command.add_argument("--mark", action="store_true", help="write each verdict to the node: condition and annotation")


def _add_document(command: argparse.ArgumentParser) -> None:
    command.add_argument("--expect", type=Path, required=True, metavar="FILE", help="the expectation: gpu-pools expect")
    command.add_argument("--expect-sha256", metavar="HEX", help="the SHA-256 of that file; another one is not asserted")


def _add_surroundings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--only", choices=("nvml",), help="nvml: leave Kubernetes out")
    command.add_argument("--node", default=os.environ.get("NODE_NAME"), help="this node's name (the variable NODE_NAME)")
    command.add_argument("--account", type=Path, default=_ACCOUNT, metavar="FOLDER", help="token and ca.crt of a service account")
    command.add_argument(
        "--nvml-seconds",
        type=_seconds,
        default=_NVML,
        metavar="SECONDS",
        help="how long one call of NVML may take (30)",
    )
    about = "the node's list of processes (/proc)"
    command.add_argument("--processes", type=Path, default=Path("/proc"), metavar="FOLDER", help=about)
    command.add_argument("--pause", type=_seconds, default=_PAUSE, metavar="SECONDS", help="between two readings (1)")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


def _window(text: str) -> Window:
    from .windows import read_window  # noqa: PLC0415 - only a change needs it

    return read_window(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(run())
