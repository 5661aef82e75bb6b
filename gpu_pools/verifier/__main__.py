"""``verifier export | assert | watch | change | release``: what a GPU node is, and whether that is what was declared.

Exit codes: 0 the node is as declared, 1 it differs, 2 that cannot be told (or the command line is wrong), 130
interrupted, 143 terminated. What the commands do is in gpu_pools/verifier/commands.py.
"""

from __future__ import annotations

import sys

from .options import read_assert
from .plain import Plain
from .process import Process

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from .options import Options

_CANNOT_TELL: Final = 2
_INTERRUPTED: Final = 130
_SIGNALLED: Final = 128


def run(child: Process | None = None) -> int:
    """`main` as a program of its own: it ends when it is told to; returns the exit code."""
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
    arguments = sys.argv[1:] if arguments is None else arguments
    plain = read_assert(arguments)
    options = plain or _parsed(arguments)
    child = child or Process()
    # It takes its first reading while all the rest is loaded.
    child.ask()
    if plain is None or plain.wait:
        _end_when_told()
    try:
        from .commands import run_command  # noqa: PLC0415
        from .sources import Reader  # noqa: PLC0415 - see above

        reader = Reader(options.nvml_seconds, child)
        try:
            return run_command(options, reader)
        finally:
            reader.release()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parsed(arguments: Sequence[str]) -> Options:
    from .usage import parse  # noqa: PLC0415 - argparse takes long to load

    return parse(arguments)


def _end_when_told() -> None:
    """Have SIGTERM end the program: the first process of a container gets no signal that it does not handle.

    An assertion that does not wait ends by itself, and sooner than this is loaded.
    """
    import signal  # noqa: PLC0415 - see above

    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> None:
    del frame
    sys.exit(_SIGNALLED + number)


if __name__ == "__main__":
    sys.exit(run())
