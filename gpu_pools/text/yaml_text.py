"""Reads YAML strictly, whoever wrote it.

PyYAML lets a later duplicate key win in silence, which is how a second ``sharing:`` block makes the first one vanish; and some
texts end the process that reads them, or hold numbers that nothing can print. All of that is an error here.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, Final

import yaml

#: PyYAML's C parser ends the whole process on some tens of thousands of levels.
_DEEPEST: Final = 1000
#: Longer numbers mean nothing.
_LONGEST_NUMBER: Final = 64
_STEPS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DuplicateKeyError(yaml.constructor.ConstructorError):
    """A mapping that gives one key twice."""


class _StrictLoader(_Loader):  # type: ignore[misc,valid-type]
    """PyYAML's safe loader, refusing duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        # The plain mapping comes first: it is the fast path, and a shorter result is the sign of a duplicate.
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            self._refuse_duplicates(node)
        return mapping

    def _refuse_duplicates(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not node.start_mark.index <= key_node.start_mark.index < node.end_mark.index:
                continue  # merged in by `<<` from elsewhere: what is written here may override it
            # Of a scalar: lists and mappings were refused as keys before.
            key = key_node.value
            if key in seen:
                raise DuplicateKeyError(None, None, f"the key {key!r} is given twice", key_node.start_mark)
            seen.add(key)


def _whole_number(loader: _StrictLoader, node: yaml.ScalarNode) -> int:
    """Python reads a number of any length in hexadecimal, and then refuses to print it."""
    if len(node.value) > _LONGEST_NUMBER:
        raise yaml.constructor.ConstructorError(None, None, f"a number of {len(node.value)} digits", node.start_mark)
    number: int = loader.construct_yaml_int(node)
    return number


_StrictLoader.add_constructor("tag:yaml.org,2002:int", _whole_number)


def load_yaml(text: str) -> Any:  # noqa: ANN401 - YAML is whatever its author wrote
    """Parse YAML, refusing duplicate keys.

    Raises:
        yaml.YAMLError: if it is not YAML, or a mapping has a key twice.
    """
    if _depth_bound(text) > _DEEPEST:
        message = f"it may be nested deeper than {_DEEPEST} levels"
        raise yaml.YAMLError(message)
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a subclass of the safe loader
    except (ValueError, RecursionError) as error:  # PyYAML's own slips: 2026-99-99, 0x_, a thousand brackets
        raise yaml.YAMLError(str(error)) from error


def _depth_bound(text: str) -> int:
    """How deep a YAML text may be: by its open brackets, and by how far in its lines begin (not by brackets within texts)."""
    steps = (_STEPS[bracket] for bracket in re.findall(r"[][{}]", text))
    brackets = max(accumulate(steps, lambda depth, step: max(0, depth + step)), default=0)
    margins = max(len(margin) for margin in re.findall(r"^[ \t?:-]*", text, re.MULTILINE))
    return brackets + 2 * margins
