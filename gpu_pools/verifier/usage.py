"""The command line with its help, and what is wrong with one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from .options import ACCOUNT, EVERY, INTERVAL, NVML, ONLY, PAUSE, PORT, PROCESSES, Options, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH: Final = 100


class _Help(argparse.HelpFormatter):
    """Of a fixed width: to find out the terminal's takes time to load, and argparse asks for it with each argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_WIDTH)


def parse(arguments: Sequence[str] | None) -> Options:
    """What the command line says.

    Args:
        arguments: those of the process by default.

    Raises:
        SystemExit: with 2 where it is wrong, with 0 for help; what there is to say has been printed.
    """
    return parser().parse_args(arguments, Options())


def parser() -> argparse.ArgumentParser:
    """All commands."""
    about = "Compare a GPU node with what was declared for it."
    made = argparse.ArgumentParser(prog="verifier", description=about, formatter_class=_Help)
    commands = made.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", formatter_class=_Help, help="print what this node is")
    holds = commands.add_parser("assert", formatter_class=_Help, help="compare this node with an expectation")
    _add_expectation(holds)
    holds.add_argument("--json", action="store_true", help="print the report for machines")
    about = "assert again until it holds, so long at most"
    holds.add_argument("--wait", type=seconds, default=0.0, metavar="SECONDS", help=about)
    about = "pause between two assertions of --wait (10)"
    holds.add_argument("--every", type=seconds, default=EVERY, metavar="SECONDS", help=about)
    holds.add_argument("--termination-log", metavar="FILE", help="write a line about what does not hold there")
    about = "assert again and again, and serve the result over HTTP"
    watches = commands.add_parser("watch", formatter_class=_Help, help=about)
    _add_expectation(watches)
    watches.add_argument("--interval", type=seconds, default=INTERVAL, metavar="SECONDS", help="between two assertions (300)")
    watches.add_argument("--listen", type=_address, default=("", PORT), metavar="[ADDRESS:]PORT", help=f"where to serve ({PORT})")
    about = "put the labels of the last change back where somebody has taken them away"
    watches.add_argument("--keep", action="store_true", help=about)
    about = "bring this living node to an expectation, once it has a rollout slot"
    changes = commands.add_parser("change", formatter_class=_Help, help=about)
    changes.add_argument("--drain", type=seconds, required=True, metavar="SECONDS", help="how long pods may take to go")
    about = "of pods that do not go in time"
    changes.add_argument("--staying", choices=("wait", "stop", "delete"), required=True, help=about)
    changes.add_argument("--wait", type=seconds, required=True, metavar="SECONDS", help="how long the GPUs may take")
    changes.add_argument("--restart-mps", action="store_true", help="replace the MPS daemon's pod once the labels are set")
    about = "when it may begin, such as 'Saturday 22:00 6h +01:00'; several are possible"
    changes.add_argument("--window", type=_window, action="append", default=[], metavar="WINDOW", help=about)
    about = "uncordon this node after a change, and free its rollout slot"
    releases = commands.add_parser("release", formatter_class=_Help, help=about)
    for command in (changes, releases):
        _add_document(command)
        about = "how many nodes change at the same time, or which share of them"
        command.add_argument("--turns", required=True, metavar="COUNT|PERCENT", help=about)
        about = "where the Leases of the rollout slots are"
        command.add_argument("--turns-in", required=True, metavar="NAMESPACE", help=about)
        command.add_argument("--termination-log", metavar="FILE", help="write a line about what failed there")
    for command in (export, holds, watches, changes, releases):
        _add_surroundings(command)
    return made


def _add_expectation(command: argparse.ArgumentParser) -> None:
    _add_document(command)
    command.add_argument("--untaint", metavar="KEY", help="remove the node's taint of that key once an assertion held")
    command.add_argument("--mark", action="store_true", help="write each verdict to the node: condition and annotation")


def _add_document(command: argparse.ArgumentParser) -> None:
    command.add_argument("--expect", required=True, metavar="FILE", help="the expectation: gpu-pools expect")
    command.add_argument("--expect-sha256", metavar="HEX", help="the SHA-256 of that file; another one is not asserted")


def _add_surroundings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--only", choices=ONLY, help="nvml: leave Kubernetes out")
    command.add_argument("--node", default=Options().node, help="this node's name (the variable NODE_NAME)")
    command.add_argument("--account", default=ACCOUNT, metavar="FOLDER", help="token and ca.crt of a service account")
    command.add_argument(
        "--nvml-seconds",
        type=seconds,
        default=NVML,
        metavar="SECONDS",
        help="how long one call of NVML may take (30)",
    )
    about = "the node's list of processes (/proc)"
    command.add_argument("--processes", default=PROCESSES, metavar="FOLDER", help=about)
    command.add_argument("--pause", type=seconds, default=PAUSE, metavar="SECONDS", help="between two readings (1)")


def _window(text: str) -> str:
    """A window that can be read; it is read again where it is used."""
    from .changer_file import find_changer  # noqa: PLC0415 - only a change needs it

    find_changer()
    from .changer.windows import read_window  # noqa: PLC0415

    read_window(text)
    return text


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
