"""``gpu-pools docs [PAGE]``: print the pages that messages name, where there is no checkout to read them in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from gpu_pools.text.pages import SHIPPED, find_section, read_page

if TYPE_CHECKING:
    import argparse

_INVALID: Final = 2


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``docs``; it sets ``run`` to what carries it out and returns the exit code."""
    command = commands.add_parser("docs", help="print a page that messages name, or list the pages")
    command.add_argument("page", nargs="?", default="", metavar="PAGE", help="as a message names it, e.g. reference/rules.md#c06")
    command.set_defaults(run=_print)


def _print(options: argparse.Namespace) -> int:
    page, _, section = str(options.page).removeprefix("docs/").partition("#")
    if not page:
        print("\n".join(SHIPPED))
        return 0
    if page not in SHIPPED:
        print(f'there is no page "{page}"; allowed: {", ".join(SHIPPED)}', file=sys.stderr)
        return _INVALID
    text = read_page(page)
    part = find_section(text, section) if section else text
    if not part:
        print(f'{page} has no part "{section}"; print the whole page: gpu-pools docs {page}', file=sys.stderr)
        return _INVALID
    sys.stdout.write(part)
    return 0
