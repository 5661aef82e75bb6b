"""The part of a Python module that is used: the statements that some names need, their text unchanged.

pynvml has 12,000 lines and the verifier needs a dozen of its structs; all of it would be loaded at each start. What is
kept: the head (with the licence), what runs when the module is loaded, the wanted names and all that they refer to, imports among
them. Names that a module makes or looks up by text cannot be seen here and have to be wanted explicitly.
"""

from __future__ import annotations

import ast
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TRIES: Final = 5


def part_of(source: str, wanted: Callable[[str], bool], *, effects: bool = True) -> str:
    """The part of the module that the wanted names need.

    Args:
        source: the module.
        wanted: whether a name of the module is needed in any case.
        effects: whether expressions are kept that run when the module is loaded; without them only what is defined is.
    """
    statements = _parsed(source).body
    definers: dict[str, list[ast.stmt]] = {}
    for statement in statements:
        for name in _defined(statement):
            definers.setdefault(name, []).append(statement)

    def needed(statement: ast.stmt) -> bool:
        return _always(statement, effects=effects) or any(map(wanted, _defined(statement)))

    kept: set[ast.stmt] = set()
    open_ends = [statement for statement in statements if needed(statement)]
    while open_ends:
        statement = open_ends.pop()
        if statement not in kept:
            kept.add(statement)
            open_ends += [definer for name in _referred(statement) for definer in definers.get(name, ())]
    lines = source.splitlines(keepends=True)
    head = lines[: _first_line(statements[0]) - 1]
    return "".join([*head, *(_text(lines, statement) for statement in statements if statement in kept)])


def _parsed(source: str) -> ast.Module:
    """The tree; Python before 3.11.8 and 3.12.2 may count depths wrong where another thread runs meanwhile (cpython#106905)."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)


def _always(statement: ast.stmt, *, effects: bool) -> bool:
    """What is run for its effect, and imports of nobody knows what; of expressions not the bare texts."""
    if isinstance(statement, ast.Expr):
        return effects and not isinstance(statement.value, ast.Constant)
    return not _defined(statement)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [name for target in statement.targets for name in _names(target)]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names if alias.name != "*"]
    return []


def _referred(statement: ast.stmt) -> Iterable[str]:
    return set(_names(statement))


def _names(node: ast.AST) -> list[str]:
    return [found.id for found in ast.walk(node) if isinstance(found, ast.Name)]


def _first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else []
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _text(lines: list[str], statement: ast.stmt) -> str:
    return "".join(lines[_first_line(statement) - 1 : statement.end_lineno])
