"""Reads YAML as the checked programs read it, and keeps what they forget: line numbers and duplicate keys.

NVIDIA's programs parse with Go's YAML library: there ``1:0`` is a text (PyYAML makes it 60), ``4e0`` a number, every key a
text, and a key that is given twice silently has its last value. So this is not `gpu_pools.stack.stack_file.load_yaml`, which
refuses duplicates at once: here they are findings among others. PyYAML's own composer is used, not libyaml's: libyaml ends the
whole process on a few thousand nested brackets. Nothing here knows what the files mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A place in a file: keys and list positions from its top.
Path = tuple[str | int, ...]

#: Far more than any real file has; an alias bomb has more.
_MOST_NODES: Final = 50_000
_DEEPEST: Final = 60
#: Python prints no longer ones.
_LONGEST_NUMBER: Final = 64
_MERGE: Final = "tag:yaml.org,2002:merge"
_PREFIX: Final = "tag:yaml.org,2002:"
#: What is not a number, truth value or null stays a text, as JSON has it.
_SCALARS: Final = frozenset({"null", "bool", "int", "float", "str", "timestamp", "binary"})
_TRUE: Final = frozenset({"y", "yes", "true", "on"})


class _Composer(yaml.SafeLoader):
    """PyYAML's loader with the scalars of Go's YAML library; only its composer is used."""

    yaml_implicit_resolvers: ClassVar = {}  # type: ignore[misc]


_Composer.add_implicit_resolver(f"{_PREFIX}null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Composer.add_implicit_resolver(f"{_PREFIX}merge", re.compile(r"<<$"), ["<"])
_Composer.add_implicit_resolver(
    f"{_PREFIX}bool",
    re.compile(r"(y|Y|n|N|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$"),
    list("yYnNtTfFoO"),
)
_Composer.add_implicit_resolver(
    f"{_PREFIX}int", re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$"), list("-+0123456789")
)
_Composer.add_implicit_resolver(
    f"{_PREFIX}float",
    re.compile(r"([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
    list("-+.0123456789"),
)


@dataclass
class Tree:
    """One YAML document.

    Attributes:
        value: mappings (keys as texts), lists and scalars.
        lines: the line, from 1, on which each place begins.
        blocks: for each text written as a literal block, the line on which its content begins.
        duplicates: places of keys that are given twice in one mapping; the last one wins, here as in Go.
    """

    value: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    blocks: dict[Path, int] = field(default_factory=dict)
    duplicates: list[Path] = field(default_factory=list)


def parse_documents(text: str) -> list[Tree]:
    """Every document of a YAML text; empty ones have the value None.

    Raises:
        yaml.YAMLError: if it is not YAML, is nested or aliased beyond reason, or has keys or tags that no JSON could carry.
    """
    try:
        return list(_documents(text))
    except (RecursionError, ValueError) as error:
        raise yaml.YAMLError(str(error)) from error


def _documents(text: str) -> Iterator[Tree]:
    loader = _Composer(text)
    try:
        while loader.check_node():
            yield _Reader().read(loader.get_node())
    finally:
        loader.dispose()


class _Reader:
    """Turns the nodes of one document into a `Tree`."""

    def __init__(self) -> None:
        self._tree = Tree()
        self._left = _MOST_NODES

    def read(self, node: yaml.Node | None) -> Tree:
        if node is not None:
            self._tree.value = self._value(node, ())
        return self._tree

    def _value(self, node: yaml.Node, path: Path) -> object:
        self._left -= 1
        if self._left < 0 or len(path) > _DEEPEST:
            raise _unreadable(node, "nested too deep, or too large (aliases count each time)")
        self._tree.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(entry, (*path, index)) for index, entry in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.style == "|":
            self._tree.blocks[path] = node.start_mark.line + 2
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        merged: dict[str, object] = {}
        own: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = {**self._merge(value_node, path), **merged}
                continue
            key = _key(key_node)
            if key in own:
                self._tree.duplicates.append((*path, key))
            self._tree.lines[*path, key] = key_node.start_mark.line + 1
            own[key] = self._value(value_node, (*path, key))
        return {**merged, **own}

    def _merge(self, node: yaml.Node, path: Path) -> dict[str, object]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, object] = {}
        for source in reversed(sources):
            value = self._value(source, path)
            if not isinstance(value, dict):
                raise _unreadable(source, "`<<` merges mappings only")
            merged.update(value)
        return merged


def _key(node: yaml.Node) -> str:
    """Keys become texts, as in JSON."""
    if not isinstance(node, yaml.ScalarNode):
        raise _unreadable(node, "a key that is a mapping or a list")
    value = _scalar(node)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _scalar(node: yaml.Node) -> object:
    text: str = node.value
    tag = node.tag
    if tag.removeprefix(_PREFIX) not in _SCALARS:
        raise _unreadable(node, f"the tag {tag} belongs to no plain YAML")
    kind = tag.removeprefix(_PREFIX)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in _TRUE
    if kind == "int":
        return _whole(text.replace("_", ""))
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")) if kind == "float" else text


def _whole(text: str) -> int:
    octal = re.fullmatch(r"([-+]?)0([0-7]+)", text)
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(octal[1] + octal[2], 8) if octal else int(text, 0)


def _unreadable(node: yaml.Node, reason: str) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, reason, node.start_mark)
