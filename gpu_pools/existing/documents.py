"""Recognises what a file holds, and takes the configs out of what wraps them.

A file may be a config itself, a ConfigMap of them, chart values with configs inside, or several documents (or a List) of
those. What each part means is decided by the checks; what cannot be recognised is said, never guessed.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final, Literal

import yaml

from gpu_pools.existing.findings import plain
from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.existing.yaml_tree import Tree, parse_documents
from gpu_pools.stack.stack_file import STANDARD_INPUT
from gpu_pools.text.errors import Problem, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.existing.yaml_tree import Path

Kind = Literal[
    "plugin", "mig-parted", "operator-values", "chart-values", "cluster-policy", "plugin-map", "mig-parted-map", "other"
]
WORDS: Final[Mapping[Kind, str]] = {
    "plugin": "device-plugin config",
    "mig-parted": "nvidia-mig-parted config",
    "operator-values": "gpu-operator Helm values",
    "chart-values": "nvidia-device-plugin Helm values (only `config` is read)",
    "cluster-policy": "ClusterPolicy of the GPU operator",
    "plugin-map": "ConfigMap of device-plugin configs",
    "mig-parted-map": "ConfigMap of an nvidia-mig-parted config",
    "other": "something else",
}
MIG_FILE: Final = "config.yaml"
_SHAPES: Final = ", ".join(words for kind, words in WORDS.items() if kind != "other")
_OPERATOR_KEYS: Final = frozenset(
    {"devicePlugin", "migManager", "mig", "driver", "toolkit", "operator", "dcgmExporter", "gfd", "daemonsets", "nfd", "cdi"}
)
#: In the operator's own ConfigMap default-gpu-clients: what mig-manager stops, a `version` beside it.
_GPU_CLIENTS: Final = "systemd-services"
#: Larger files are not configs.
_LARGEST: Final = 2_000_000


class UnreadableFileError(Exception):
    """A file that cannot be read, or in which nothing is recognised."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


@dataclass(frozen=True)
class Fault:
    """A text inside a document that cannot be read as it must be."""

    path: Path
    message: str
    really: str
    remedy: str
    severe: bool = True


@dataclass(frozen=True)
class Part:
    """One config inside a document: ``plugin`` or ``mig-parted``."""

    kind: Kind
    path: Path
    value: object


@dataclass(frozen=True)
class Document:
    """One recognised document.

    Attributes:
        kind: what it is.
        path: where it stands in the file.
        value: its content.
        parts: the configs in it (the document itself where it is one).
        name: what it calls itself (a ConfigMap's name), or ``""``.
    """

    kind: Kind
    path: Path
    value: object
    parts: tuple[Part, ...]
    name: str = ""

    @property
    def title(self) -> str:
        """What it is, for people."""
        if self.kind == "other" and isinstance(self.value, dict) and isinstance(self.value.get("kind"), str):
            return plain(f"{self.value['kind']} {self.name}".rstrip())
        return WORDS[self.kind]


@dataclass
class ExistingFile:
    """A file that was read.

    Attributes:
        name: as it was given.
        documents: in the order of the file.
        lines: line of each place.
        duplicates: keys given twice, also inside embedded texts.
        faults: embedded texts that are not what they must be.
    """

    name: str
    documents: list[Document] = field(default_factory=list)
    lines: dict[Path, int] = field(default_factory=dict)
    duplicates: list[Path] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def read_existing_file(name: str) -> ExistingFile:
    """Read a file and recognise what is in it; ``-`` is the standard input.

    Raises:
        UnreadableFileError: if it cannot be read, is not YAML, or nothing in it is recognised.
    """
    return read_existing_text(name, _read(name))


def read_existing_text(name: str, text: str) -> ExistingFile:
    """The same with a text that is there already; the name is for messages.

    Raises:
        UnreadableFileError: if it is not YAML, or nothing in it is recognised.
    """
    trees = _parse(name, text)
    read = _Reader(ExistingFile(name), several=len(trees) > 1)
    for index, tree in enumerate(trees):
        read.document(tree, (index,) if len(trees) > 1 else ())
    if all(document.kind == "other" for document in read.file.documents):
        found = ", ".join(dict.fromkeys(document.title for document in read.file.documents)) or "nothing"
        if any(_is_stack(document.value) for document in read.file.documents):
            raise _unreadable(name, "is a stack file", f"Ask `python -m gpu_pools plan {name}`.")
        if any(_lost_indentation(document.value) for document in read.file.documents):
            raise _unreadable(name, "is a ConfigMap whose `data` is empty", "Indent what belongs below `metadata` and `data`.")
        raise _unreadable(name, f"holds nothing that is known here: {found}", f"Name one of: {_SHAPES}.")
    return read.file


def _read(name: str) -> str:
    try:
        data = _read_bytes(name)
        if len(data) > _LARGEST:
            raise _unreadable(name, f"is larger than {_LARGEST} bytes", "Name a config file.")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise _unreadable(name, "there is no such file", "Name an existing file.") from None
    except (OSError, ValueError) as error:
        raise _unreadable(name, f"cannot be read: {error}", "Name a readable UTF-8 text file.") from error


def _read_bytes(name: str) -> bytes:
    """The file, or one byte more than is accepted."""
    if name == STANDARD_INPUT and sys.stdin:
        return sys.stdin.buffer.read(_LARGEST + 1)
    with FilePath(name).open("rb") as stream:
        return stream.read(_LARGEST + 1)


def _parse(name: str, text: str) -> list[Tree]:
    try:
        trees = [tree for tree in parse_documents(text) if tree.value is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        raise _unreadable(where, f"not YAML: {getattr(error, 'problem', None) or error}", "Mend the syntax there.") from error
    if not trees:
        raise _unreadable(name, "the file is empty", f"Name one of: {_SHAPES}.")
    return trees


def _unreadable(path: str, message: str, remedy: str) -> UnreadableFileError:
    return UnreadableFileError(Problem(plain(path), plain(message), _SHAPES, remedy))


class _Reader:
    """Fills an `ExistingFile`."""

    def __init__(self, file: ExistingFile, *, several: bool) -> None:
        self.file = file
        self._several = several

    def document(self, tree: Tree, base: Path) -> None:
        self._keep(tree, base, first_line=1)
        self._tree, self._base = tree, base
        for path, value in _listed(tree.value, base):
            self.file.documents.append(self._recognise(value, path))

    def _keep(self, tree: Tree, base: Path, *, first_line: int | None) -> None:
        """Remember lines and duplicates of a tree that stands at `base`."""
        if first_line is not None:
            for path, line in tree.lines.items():
                self.file.lines.setdefault((*base, *path), line + first_line - 1)
        self.file.duplicates.extend((*base, *path) for path in tree.duplicates)

    def _recognise(self, value: object, path: Path) -> Document:
        if not isinstance(value, dict):
            return Document("other", path, value, ())
        if "kind" in value and "apiVersion" in value:
            return self._object(value, path)
        kind = _kind_of(value)
        return Document(kind, path, value, tuple(self._parts(kind, value, path)))

    def _object(self, value: dict[str, object], path: Path) -> Document:
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        title = name if isinstance(name, str) else ""
        if value["kind"] == "ClusterPolicy":
            return Document("cluster-policy", path, value, (), title)
        data = value.get("data")
        if value["kind"] == "ConfigMap" and isinstance(data, dict) and data:
            kind, parts = self._config_map(data, (*path, "data"))
            return Document(kind, path, value, parts, title)
        return Document("other", path, value, (), title)

    def _config_map(self, data: dict[str, object], path: Path) -> tuple[Kind, tuple[Part, ...]]:
        kinds = {kind_of_text(text) for text in data.values()}
        if "mig-parted" in kinds:
            return "mig-parted-map", tuple(self._embedded(data, "mig-parted", path))
        if "plugin" in kinds:
            return "plugin-map", tuple(self._embedded(data, "plugin", path))
        return "other", ()

    def _embedded(self, data: Mapping[str, object], kind: Kind, path: Path) -> Iterator[Part]:
        """The configs in the texts of a ConfigMap, or of chart values that become one."""
        for key, text in data.items():
            here = (*path, key)
            if kind == "mig-parted" and key != MIG_FILE and MIG_FILE in data:
                self._fault(here, f"the key `{key}`", f"mig-manager reads only the key {MIG_FILE}", "Remove it.", severe=False)
                continue
            if not isinstance(text, str) and text is not None:
                error = "Kubernetes refuses the ConfigMap: its values must be texts"
                self._fault(here, f"{show(text)} is not a text", error, "Put `|-` after the key.")
                yield Part(kind, here, text)
                continue
            tree = self._text(text or "", here)
            if tree is not None:
                yield Part(kind, here, tree.value)

    def _text(self, text: str, path: Path) -> Tree | None:
        try:
            trees = parse_documents(text)
        except yaml.YAMLError as error:
            reason = getattr(error, "problem", None) or str(error)
            self._fault(path, f"not YAML: {reason}", "the program exits: `unmarshal error`", "Mend the syntax of this text.")
            return None
        if len(trees) > 1:
            self._fault(path, "several documents", "only the first is read", "Keep one document per key.", severe=False)
        tree = trees[0] if trees else Tree()
        block = self._tree.blocks.get(path[len(self._base) :])
        self._keep(tree, path, first_line=block)
        return tree

    def _parts(self, kind: Kind, value: dict[str, object], path: Path) -> Iterator[Part]:
        if kind in {"plugin", "mig-parted"}:
            yield Part(kind, path, value)
        if kind == "chart-values":
            yield from self._inner(value, ("config", "map"), "plugin", path)
        if kind == "operator-values":
            yield from self._inner(value, ("devicePlugin", "config", "data"), "plugin", path)
            yield from self._inner(value, ("migManager", "config", "data"), "mig-parted", path)

    def _inner(self, value: object, keys: tuple[str, ...], kind: Kind, path: Path) -> Iterator[Part]:
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, dict):
            yield from self._embedded(value, kind, (*path, *keys))

    def _fault(self, path: Path, message: str, really: str, remedy: str, *, severe: bool = True) -> None:
        self.file.faults.append(Fault(path, message, really, remedy, severe))


def _listed(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """The value itself, or the items of a Kubernetes List."""
    items = value.get("items") if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") else None
    if isinstance(items, list):
        for index, item in enumerate(items):
            yield from _listed(item, (*path, "items", index))
    else:
        yield path, value


def _is_stack(value: object) -> bool:
    config = value.get("config") if isinstance(value, dict) else None
    return isinstance(config, dict) and any(key.startswith("gpu-pools:") for key in config)


def _lost_indentation(value: object) -> bool:
    """Whether it is a ConfigMap as it comes out of a text that lost its leading blanks: everything is at the top."""
    return isinstance(value, dict) and value.get("kind") == "ConfigMap" and "data" in value and value["data"] is None


def _kind_of(value: Mapping[str, object]) -> Kind:
    """What a mapping is, by its keys; one that says by itself what it is, is nothing of NVIDIA's."""
    if {"apiVersion", "kind"} <= value.keys():
        return "other"
    fields = {name.lower() for name in plugin_schema().mappings[""].fields}
    config = value.get("config")
    if difflib.get_close_matches("mig-configs", value, n=1, cutoff=0.8):
        return "mig-parted"
    if _OPERATOR_KEYS & set(value):
        return "operator-values"
    if isinstance(config, dict) and {"map", "default", "name"} & set(config):
        return "chart-values"
    near = any(difflib.get_close_matches(key.lower(), fields, n=1, cutoff=0.8) for key in value)
    return "plugin" if near and _GPU_CLIENTS not in value else "other"


def kind_of_text(text: object) -> Kind:
    """What a value of a ConfigMap holds; a text that is not YAML is judged by the words in it."""
    if not isinstance(text, str):
        return _kind_of(text) if isinstance(text, dict) else "other"
    if text.startswith("{"):
        # Documents of programs: JSON is read a hundred times faster than YAML.
        with contextlib.suppress(ValueError, RecursionError):
            return _kind_of(json.loads(text))
    try:
        trees = parse_documents(text)
    except yaml.YAMLError:
        if "mig-configs" in text:
            return "mig-parted"
        return "plugin" if re.search(r"^\s*(sharing|timeSlicing|mps|flags):", text, re.MULTILINE) else "other"
    value = trees[0].value if trees else None
    return _kind_of(value) if isinstance(value, dict) else "other"
