"""``gpu-pools completion SHELL``: a script that lets a shell complete the commands and their options; shtab writes it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

_SHELLS: Final = ("bash", "zsh", "fish")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser], whole: argparse.ArgumentParser) -> None:
    """Add ``completion``.

    Args:
        commands: where it goes.
        whole: the parser of all commands, which the script is about.
    """
    command = commands.add_parser("completion", help="print a script for your shell: source <(gpu-pools completion bash)")
    command.add_argument("shell", choices=_SHELLS)
    command.set_defaults(run=partial(_print, whole))


def _print(whole: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    import shtab  # noqa: PLC0415 - whoever only plans need not have it

    print(shtab.complete(whole, shell=options.shell))
    return 0
