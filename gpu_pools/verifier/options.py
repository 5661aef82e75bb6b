"""The command line of an assertion, read without argparse, which takes longer to load than to read a GPU.

Whatever is not written in the plain way, is unknown or wrong is left to gpu_pools/verifier/usage.py, which knows the same options
with their help.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

#: Seconds.
NVML, PAUSE, EVERY, INTERVAL = 30.0, 1.0, 10.0, 300.0
PORT: Final = 9409
PROCESSES: Final = "/proc"
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
ONLY: Final = ("nvml",)


class Options:
    """What a command line says; those that its command does not have stay as they are by default."""

    def __init__(self, command: str = "") -> None:
        self.command = command
        self.only: str | None = None
        self.node: str | None = os.environ.get("NODE_NAME")
        self.account = ACCOUNT
        self.nvml_seconds = NVML
        self.processes = PROCESSES
        self.pause = PAUSE
        self.expect = ""
        self.expect_sha256: str | None = None
        self.untaint: str | None = None
        self.mark = False
        self.json = False
        self.wait = 0.0
        self.every = EVERY
        self.termination_log: str | None = None
        self.interval: float | None = None
        self.listen: tuple[str, int] = ("", PORT)
        self.keep = False
        self.drain = 0.0
        self.staying = ""
        self.restart_mps = False
        self.window: list[str] = []
        self.turns = ""
        self.turns_in = ""


def seconds(text: str) -> float:
    """A number of seconds.

    Raises:
        ValueError: where it is none.
    """
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


def _only(text: str) -> str:
    if text not in ONLY:
        raise ValueError
    return text


#: Options of `assert` that have a value -> how it is read.
VALUES: Final[dict[str, Callable[[str], Any]]] = {
    "--expect": str,
    "--expect-sha256": str,
    "--untaint": str,
    "--wait": seconds,
    "--every": seconds,
    "--termination-log": str,
    "--only": _only,
    "--node": str,
    "--account": str,
    "--nvml-seconds": seconds,
    "--processes": str,
    "--pause": seconds,
}
SWITCHES: Final = ("--mark", "--json")


def read_assert(arguments: Sequence[str]) -> Options | None:
    """The options of a plain `assert`; None where the line is anything else, or has something wrong in it."""
    if arguments[:1] != ["assert"]:
        return None
    options, rest = Options("assert"), list(arguments[1:])
    while rest:
        name = rest.pop(0)
        if name in SWITCHES:
            value: Any = True
        elif name in VALUES and rest and not rest[0].startswith("-"):
            try:
                value = VALUES[name](rest.pop(0))
            except ValueError:
                return None
        else:
            return None
        setattr(options, name[2:].replace("-", "_"), value)
    return options if options.expect else None
