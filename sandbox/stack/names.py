"""Which stacks there are: the files of a folder. `python -m sandbox.stack.names STACK` ends with 2 where there is no such stack.

`make` asks before it installs anything, by any Python, so this needs the standard library alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from gpu_pools.text.terminal import guarded
from sandbox.system.errors import SandboxError

PROJECT: Final = Path(__file__).resolve().parents[2]
UNKNOWN: Final = 2
"""The exit code where there is no such stack, as where a stack file is wrong: nothing was started."""


class UnknownStackError(SandboxError):
    """There is no stack of that name."""


def stacks() -> Path:
    """The folder of stack files."""
    return Path(os.environ.get("GPU_POOLS_STACKS_DIR") or PROJECT / "stacks").resolve()


def find_stack_file(stack: str, folder: Path) -> Path:
    """The file of a stack.

    Args:
        stack: its name.
        folder: of stack files.

    Raises:
        UnknownStackError: if there is none of that name.
    """
    stack_file = folder / f"Pulumi.{stack}.yaml"
    # A name with a slash would be a path out of here, of what is read and of what is removed.
    if "/" not in stack and stack_file.is_file():
        return stack_file
    known = sorted(path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in folder.glob("Pulumi.*.yaml"))
    message = f"{stack_file}: there is no such stack; there are {', '.join(known) or 'none'}."
    raise UnknownStackError(message, "Choose one with STACK=<name>, or write that file.")


@guarded()
def main(stack: str) -> int:
    """See that a stack exists; returns the exit status."""
    try:
        find_stack_file(stack, stacks())
    except UnknownStackError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy}\n")
        return UNKNOWN
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
