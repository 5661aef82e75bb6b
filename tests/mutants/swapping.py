"""Puts a mutant into functions that are loaded already: a mistake in a function's body changes its code object and nothing else.

Not for what runs while a module loads (tables, defaults, class bodies): there the module has to be loaded anew.
"""

from __future__ import annotations

import gc
import inspect
import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: A function's code -> the code that it is to have.
Pair = tuple[CodeType, CodeType]


class Functions:
    """The functions that were loaded from a copy of the project, by the place of their code.

    Looks once: what is made later, as a function within a function is, has the code that its maker holds.
    """

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._found: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(f"{tree}/"):
                self._found.setdefault(_spot(one.__code__), []).append(one)

    def put(self, file: str, whole: str, changed: str) -> bool:
        """Put a mutant into them; whether that was possible. A file that nothing has loaded yet needs nothing.

        Args:
            file: below the root of the project.
            whole: its text without the mutant.
            changed: with it; the same text is put in everywhere.
        """
        if changed == whole:
            return True
        path = str(self._tree / file)
        if path not in self._files:
            return True
        pairs = differing(compile(whole, path, "exec"), compile(changed, path, "exec"))
        swaps = [(one, new) for old, new in pairs or () for one in self._found.get(_spot(old), ())]
        if not swaps:
            return False
        try:
            for function, new in swaps:
                function.__code__ = new
        except ValueError:  # it has other free variables
            return False
        return True


def _spot(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def differing(old: CodeType, new: CodeType) -> list[Pair] | None:
    """The functions that differ, with all that stands within them; None if what differs runs as the module loads."""
    function = bool(old.co_flags & inspect.CO_OPTIMIZED)
    found: list[Pair] = []
    if not _alike(old, new):
        return _nested(old, new) if function else None
    for before, after in zip(_within(old), _within(new), strict=True):
        part = differing(before, after)
        if part is None:
            return None
        found += part
    return _nested(old, new) if found and function else found


def _nested(old: CodeType, new: CodeType) -> list[Pair]:
    """A function may have made others while the module was loading: these have code of their own by now."""
    inner, other = _within(old), _within(new)
    pairs = [pair for before, after in zip(inner, other, strict=False) for pair in _nested(before, after)]
    return [(old, new), *pairs]


def _within(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _alike(old: CodeType, new: CodeType) -> bool:
    """Whether they are the same but for lines and what stands within them."""
    return _own(old) == _own(new)


def _own(code: CodeType) -> tuple[object, ...]:
    constants = [CodeType if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_name, code.co_flags, code.co_code, code.co_exceptiontable, names, constants
