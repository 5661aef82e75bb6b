"""Reads a stack file (``Pulumi.<env>.yaml``) strictly.

PyYAML lets a later duplicate key win in silence, which is how a second ``sharing:`` block makes the first one vanish; here a
duplicate is a problem with its line. Only the ``config:`` mapping is returned: the engine's own keys (``encryptionsalt``,
``secretsprovider``, ``environment``) are left to the engine. Values are not checked here.
"""

from __future__ import annotations

import re
import sys
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.text.errors import InvalidStackError, Problem, show
from gpu_pools.text.files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SHAPE = "a YAML file with `config:` and under it `gpu-pools:cluster`, `gpu-pools:sharing` and `gpu-pools:pools`"
#: Stands for the standard input where a file is named.
STANDARD_INPUT: Final = "-"
#: PyYAML's C parser ends the whole process on some tens of thousands of levels.
_DEEPEST: Final = 1000
#: Larger files are not stack files, and longer numbers mean nothing.
_LARGEST: Final = 16 << 20
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
            key = getattr(key_node, "value", None)
            if isinstance(key, str) and key in seen:
                raise DuplicateKeyError(None, None, f"the key {key!r} is given twice", key_node.start_mark)
            seen.add(str(key))


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
    margins = max((len(margin) for margin in re.findall(r"^[ \t?:-]*", text, re.MULTILINE)), default=0)
    return brackets + 2 * margins


def read_stack_file(path: Path | str) -> Mapping[str, object]:
    """The ``config`` mapping of a stack file; ``-`` is the standard input.

    Raises:
        InvalidStackError: if the file cannot be read, is empty, is not YAML, or has no ``config`` mapping.
    """
    name = str(path)
    document = _parse(name, _read(name))
    if document is None:
        raise _refusal(name, "the file is empty", "Write the three sections; stacks/ has five examples.")
    if not isinstance(document, dict):
        raise _refusal(name, f"the file holds {show(document)}, not a mapping", "Start the file with `config:`.")
    config = document.get("config")
    if not isinstance(config, dict) or not config:
        found = f"`config` is {show(config)}" if "config" in document else "there is no `config:`"
        raise _refusal(name, f"{found}, so nothing is declared", "Put the three sections under `config:`.")
    return {str(key): value for key, value in config.items()}


def _read(name: str) -> str:
    try:
        if name == STANDARD_INPUT and sys.stdin:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return read_text(name, _LARGEST)
    except FileNotFoundError:
        raise _refusal(name, "there is no such file", "Name an existing stack file, e.g. stacks/Pulumi.aks-dev.yaml.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(name, f"the file cannot be read: {error}", "Name a readable UTF-8 text file.") from error


def _parse(name: str, text: str) -> object:
    try:
        return load_yaml(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise _refusal(f"{name}:{line}", str(error.problem), "Keep one of the two; YAML would silently keep the last.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        reason = getattr(error, "problem", None) or str(error)
        raise _refusal(where, f"not YAML: {reason}", "Mend the syntax at that line; indent with spaces.") from error


def _refusal(path: str, message: str, remedy: str) -> InvalidStackError:
    return InvalidStackError([Problem(path, message, _SHAPE, remedy)])
