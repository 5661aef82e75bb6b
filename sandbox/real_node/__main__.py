"""Real nodes of a cluster that runs: started, stopped, entered, read.

    python -m sandbox.real_node up <cluster's folder> [--node NAME]
    python -m sandbox.real_node down <cluster's folder>
    python -m sandbox.real_node run <cluster's folder> [--node NAME] -- <command>
    python -m sandbox.real_node log <cluster's folder> [--node NAME]

The folder is one below `clusters/` of a sandbox (GPU_POOLS_SANDBOX_DIR). Exit codes: 0, 1 where something failed, and those of
`run`'s command.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.text.interrupts import answered
from gpu_pools.text.terminal import guarded
from sandbox.real_node import node
from sandbox.real_node.place import Place, places
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME: Final = "real-0"
_NAMES: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_TAIL_LINES: Final = 40


def main(arguments: Sequence[str]) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments)
    progress = Progress()
    folder = Path(options.cluster).resolve()
    try:
        place = _place(folder, options.node)
        if options.command == "up":
            node.up(place, progress)
        elif options.command == "down":
            found = node.down_all(folder)
            progress.note(f"real nodes taken down: {', '.join(found) or 'there were none'}")
        elif options.command == "log":
            _show_logs(place)
        else:
            command = [*node.entering(place), *options.arguments]
            sys.stdout.flush()
            os.execvp(command[0], command)  # noqa: S606
    except SandboxError as error:
        print(f"error: {error.message}\n  {error.remedy}", file=sys.stderr)
        return 1
    return 0


def _place(folder: Path, name: str) -> Place:
    if not _NAMES.fullmatch(name):
        message = f"--node: {name!r} is not a name for a node; allowed are lower case letters, digits, - and dots within."
        raise SandboxError(message, f"Name it as in --node {_NAME}.")
    return Place(folder, name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox.real_node", description="Real nodes of a cluster that runs.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("up", "start a node, and wait until it is ready"),
        ("down", "take all real nodes of the cluster down"),
        ("run", "run a command on a node"),
        ("log", "the last lines of what its programs and pods said"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("cluster", help="the cluster's folder")
        command.add_argument("--node", default=_NAME, help="its name (%(default)s)")
        if name == "run":
            command.add_argument("arguments", nargs="+", metavar="-- command", help="as in: -- ls /var/lib/kubelet")
    return parser


def _show_logs(place: Place) -> None:
    if place not in places(place.cluster):
        message = f"{place.cluster}: there is no real node {place.node!r}."
        known = ", ".join(one.node for one in places(place.cluster)) or "none"
        raise SandboxError(message, f"Its real nodes: {known}.")
    logs = [place.cluster / "logs" / f"{place.process}.log", *sorted(place.logs.glob("*.log"))]
    logs += sorted(place.root.glob("var/log/pods/*/*/*.log"))
    for path in logs:
        if path.exists():
            print(f"--- {path}")
            print("\n".join(path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]))


if __name__ == "__main__":
    with guarded():
        sys.exit(answered(lambda: main(sys.argv[1:])))
