"""Recognises what a file holds, and takes the configs out of what wraps them.

A file may be a config itself, a ConfigMap of them, chart values with configs inside, an object or an umbrella chart's values in
which such values stand (gpu_pools/existing/releases.py), or several documents (or a List) of those. What each part means is
decided by the checks; what cannot be recognised is said, never guessed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.existing.findings import plain
from gpu_pools.existing.kinds import (
    CONFIGS,
    DRA_GROUP,
    MAPS,
    MIG_FILE,
    OF_DRA,
    WORDS,
    Kind,
    charts_in,
    is_config,
    is_operators,
    kind_of,
    kind_of_text,
    mapping_in,
)
from gpu_pools.existing.layers import Merged, Places, is_empty_name
from gpu_pools.existing.releases import configs_in, releases_of
from gpu_pools.existing.yaml_tree import Tree, parse_documents
from gpu_pools.stack.stack_file import STANDARD_INPUT
from gpu_pools.text.errors import Problem, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.existing.releases import Layer, Release
    from gpu_pools.existing.yaml_tree import Path

_SHAPES: Final = ", ".join(words for kind, words in WORDS.items() if kind != "other")
#: What a ConfigMap's data must be.
_TEXTS: Final = "a mapping of names to texts"
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
    allowed: str = "one YAML document as a text"


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
        holder: the object that holds chart values (``HelmRelease gpu-operator``), or ``""``.
        version: the version of the chart as that object has it, or ``""``.
        version_path: the place of that version.
    """

    kind: Kind
    path: Path
    value: object
    parts: tuple[Part, ...]
    name: str = ""
    holder: str = ""
    version: str = ""
    version_path: Path = ()

    @property
    def title(self) -> str:
        """What it is, for people."""
        if self.holder and self.kind != "other":
            return f"{WORDS[self.kind]} of {self.holder}"
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
        places: where values stand that are checked as if they stood elsewhere.
        unread: (place, what it is) of chart values that lie elsewhere.
        dropped: (place, what wins) of chart values that count for nothing.
        around: (place, value) of what stands around chart values in an object or an umbrella chart.
    """

    name: str
    documents: list[Document] = field(default_factory=list)
    lines: dict[Path, int] = field(default_factory=dict)
    duplicates: list[Path] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    places: Places = field(default_factory=Places)
    unread: list[tuple[Path, str]] = field(default_factory=list)
    dropped: list[tuple[Path, str]] = field(default_factory=list)
    around: list[tuple[Path, object]] = field(default_factory=list)


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
    read = _Reader(ExistingFile(name))
    read.documents([(tree, (index,) if len(trees) > 1 else ()) for index, tree in enumerate(trees)])
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

    def __init__(self, file: ExistingFile) -> None:
        self.file = file
        self._configs: dict[str, tuple[Mapping[str, object], Path]] = {}
        #: For each text written as a literal block, the line of the file on which its content begins.
        self._blocks: dict[Path, int] = {}

    def documents(self, trees: Sequence[tuple[Tree, Path]]) -> None:
        objects = []
        for tree, base in trees:
            self._keep(tree, base, first_line=1)
            objects += list(_listed(tree.value, base))
        self._configs = configs_in(objects)
        for value, path in objects:
            self.file.documents.extend(self._recognise(value, path))

    def _keep(self, tree: Tree, base: Path, *, first_line: int | None) -> None:
        """Remember lines and duplicates of a tree that stands at `base`."""
        if first_line is not None:
            for path, line in tree.lines.items():
                self.file.lines.setdefault((*base, *path), line + first_line - 1)
            for path, line in tree.blocks.items():
                self._blocks[*base, *path] = line + first_line - 1
        self.file.duplicates.extend((*base, *path) for path in tree.duplicates)

    def _recognise(self, value: object, path: Path) -> list[Document]:
        if not isinstance(value, dict):
            return [Document("other", path, value, ())]
        if "kind" in value and "apiVersion" in value:
            return self._object(value, path)
        charts = charts_in(value)
        if any(inside for _, inside, _ in charts):
            self._surround(value, path, [(*path, *inside) for _, inside, _ in charts])
            return [self._document(kind, (*path, *inside), inner) for kind, inside, inner in charts]
        return [self._document(kind_of(value), path, value)]

    def _document(self, kind: Kind, path: Path, value: dict[str, object], release: Release | None = None) -> Document:
        parts = tuple(self._parts(kind, value, path))
        if release is None:
            return Document(kind, path, value, parts)
        return Document(kind, path, value, parts, "", release.title, release.version, release.version_path)

    def _object(self, value: dict[str, object], path: Path) -> list[Document]:
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        title = name if isinstance(name, str) else ""
        if value["kind"] == "ClusterPolicy":
            return [Document("cluster-policy", path, value, (), title)]
        of_dra = OF_DRA.get(str(value["kind"]))
        if of_dra is not None and str(value["apiVersion"]).startswith(DRA_GROUP):
            return [Document(of_dra, path, value, (), title)]
        if value["kind"] == "HelmChartConfig" and title in self._configs:
            return []
        releases = releases_of(value, path, self._configs)
        read = [self._release(release) for release in releases]
        found = [document for documents, _ in read for document in documents]
        if found:
            self._surround(value, path, [place for _, places in read for place in places])
            return found
        data = value.get("data")
        if value["kind"] == "ConfigMap" and data:
            return self._config_map(value, data, path, title)
        return [Document("other", path, value, (), title)]

    def _release(self, release: Release) -> tuple[list[Document], list[Path]]:
        """The known charts of one release, and the places of their values; other charts' values are nobody's business here."""
        faults, duplicates = len(self.file.faults), len(self.file.duplicates)
        merged = Merged()
        for layer in release.layers:
            values = self._layer(layer)
            if values is not None:
                merged.add(values, layer.path)
        for setting in release.settings:
            if not merged.set(setting.name, setting.value, setting.path):
                empty = is_empty_name(setting.name)
                error = "Helm passes over it" if empty else "Helm cannot follow the name: the release fails to render"
                remedy = "Write the names of mappings and of the value with dots between, e.g. driver.enabled."
                self._fault(
                    setting.path,
                    f"{show(setting.name)} names no value",
                    error,
                    remedy,
                    severe=not empty,
                    allowed="the dotted name of a value",
                )
        charts = charts_in(merged.value, release.chart)
        if not charts:
            del self.file.faults[faults:], self.file.duplicates[duplicates:]
            return [], []
        base = release.layers[0].path if release.layers else release.path
        merged.moved(base, self.file.places)
        self.file.unread.extend(release.unread)
        self.file.dropped.extend(release.dropped)
        documents = [
            # The version of an umbrella chart is not that of the operator.
            self._document(kind, (*base, *inside), value, replace(release, version="") if inside else release)
            for kind, inside, value in charts
        ]
        places = [(*layer.path, *inside) for layer in release.layers for _, inside, _ in charts]
        return documents, [*places, *(setting.path for setting in release.settings)]

    def _layer(self, layer: Layer) -> dict[str, object] | None:
        """The mapping that one place of values holds; None, and a fault, where it holds none."""
        value = layer.value
        if isinstance(value, str):
            if layer.form == "mapping":
                self._fault(
                    layer.path,
                    "a text in place of values",
                    "Kubernetes refuses the object",
                    "Remove the `|` after the key.",
                    allowed="a mapping",
                )
            tree = self._text(value, layer.path, "Helm refuses it, and nothing is installed")
            value = tree.value if tree else None
        elif layer.form == "text":
            self._fault(layer.path, "a mapping in place of a text", "Kubernetes refuses the object", "Put `|-` after the key.")
        if value is None or isinstance(value, dict):
            return value
        self._fault(layer.path, f"{show(value)} in place of values", "Helm refuses it", "Write a mapping.", allowed="a mapping")
        return None

    def _surround(self, value: object, path: Path, inside: Sequence[Path]) -> None:
        """Remember what stands around the values of known charts."""
        if path in inside:
            return
        if isinstance(value, dict) and value and any(known[: len(path)] == path for known in inside):
            for key, entry in value.items():
                self._surround(entry, (*path, key), inside)
        elif isinstance(value, list) and any(known[: len(path)] == path for known in inside):
            for index, entry in enumerate(value):
                self._surround(entry, (*path, index), inside)
        elif path[-1:] not in {("apiVersion",), ("kind",)}:
            self.file.around.append((path, value))

    def _config_map(self, value: dict[str, object], data: object, path: Path, name: str) -> list[Document]:
        here = (*path, "data")
        if isinstance(data, str):
            return self._config_map_of_text(value, data, path, name)
        texts = data if isinstance(data, dict) else {}
        for kind in CONFIGS:
            if is_config(kind, texts):
                return [Document(MAPS[kind], path, value, tuple(self._nameless(texts, kind, here)), name)]
        kinds = {kind_of_text(text) for text in texts.values()}
        if "mig-parted" in kinds:
            return [Document("mig-parted-map", path, value, tuple(self._embedded(texts, "mig-parted", here)), name)]
        if "plugin" in kinds:
            return [Document("plugin-map", path, value, tuple(self._embedded(texts, "plugin", here)), name)]
        found = [document for key, text in texts.items() for document in self._values_text(text, (*here, key), name)]
        if found:
            self._surround(value, path, [document.path for document in found])
        return found or [Document("other", path, value, (), name)]

    def _config_map_of_text(self, value: dict[str, object], text: str, path: Path, name: str) -> list[Document]:
        """A ConfigMap whose whole `data` is one text, with the configs in that."""
        here = (*path, "data")
        inner = mapping_in(text)
        kinds = {kind_of(inner), *(kind_of_text(entry) for entry in inner.values())}
        for kind in CONFIGS:
            if kind in kinds:
                return [Document(MAPS[kind], path, value, tuple(self._one_text(text, kind, here)), name)]
        return [Document("other", path, value, (), name)]

    def _one_text(self, text: str, kind: Kind, path: Path) -> Iterator[Part]:
        """The configs in a text that stands where a mapping of names to texts must stand."""
        self._fault(path, f"`{path[-1]}` is one text", _refused(path), f"Remove the `|` after `{path[-1]}`.", allowed=_TEXTS)
        tree = self._text(text, path)
        if tree is None or not isinstance(tree.value, dict):
            return
        if kind_of(tree.value) == kind and not any(kind_of_text(entry) == kind for entry in tree.value.values()):
            yield Part(kind, path, tree.value)
        else:
            yield from self._embedded(tree.value, kind, path)

    def _nameless(self, config: dict[str, object], kind: Kind, path: Path) -> Iterator[Part]:
        """A config that stands where a mapping of names to texts must stand."""
        example = MIG_FILE if kind == "mig-parted" else "any-name"
        remedy = f"Put `{example}: |-` before it, and indent it below that."
        self._fault(path, "a config without a name", _refused(path), remedy, allowed=_TEXTS)
        yield Part(kind, path, config)

    def _values_text(self, text: object, path: Path, name: str) -> list[Document]:
        """Chart values in a text of a ConfigMap: Flux reads such by `valuesFrom`."""
        value = mapping_in(text)
        if not any(kind == "operator-values" and is_operators(inner) for kind, _, inner in charts_in(value)):
            return []
        tree = self._text(str(text), path)
        charts = charts_in(tree.value) if tree and isinstance(tree.value, dict) else []
        holder = plain(f"ConfigMap {name}".rstrip())
        return [
            replace(self._document(kind, (*path, *inside), inner), holder=holder)
            for kind, inside, inner in charts
            if kind != "other"
        ]

    def _embedded(self, data: Mapping[str, object], kind: Kind, path: Path) -> Iterator[Part]:
        """The configs in the texts of a ConfigMap, or of chart values that become one."""
        for key, text in data.items():
            here = (*path, key)
            if kind == "mig-parted" and key != MIG_FILE and MIG_FILE in data:
                self._fault(here, f"the key `{key}`", f"mig-manager reads only the key {MIG_FILE}", "Remove it.", severe=False)
                continue
            if not isinstance(text, str) and text is not None:
                self._fault(here, f"{show(text)} is not a text", _refused(path), "Put `|-` after the key.")
                yield Part(kind, here, text)
                continue
            tree = self._text(text or "", here)
            if tree is not None:
                yield Part(kind, here, tree.value)

    def _text(self, text: str, path: Path, refused: str = "the program exits: `unmarshal error`") -> Tree | None:
        try:
            trees = parse_documents(text)
        except yaml.YAMLError as error:
            reason = getattr(error, "problem", None) or str(error)
            self._fault(path, f"not YAML: {reason}", refused, "Mend the syntax of this text.")
            return None
        if len(trees) > 1:
            self._fault(path, "several documents", "only the first is read", "Keep one document per key.", severe=False)
        tree = trees[0] if trees else Tree()
        block = self._blocks.get(self.file.places.of(path))
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
        here = (*path, *keys)
        if isinstance(value, dict) and is_config(kind, value):
            yield from self._nameless(value, kind, here)
        elif isinstance(value, dict):
            yield from self._embedded(value, kind, here)
        elif isinstance(value, str) and value:
            yield from self._one_text(value, kind, here)

    def _fault(self, path: Path, message: str, really: str, remedy: str, **more: Any) -> None:  # noqa: ANN401 - the rest of a Fault
        self.file.faults.append(Fault(path, message, really, remedy, **more))


def _refused(path: Path) -> str:
    """What becomes of a ConfigMap that has anything but texts in its data."""
    if path[-2:] == ("config", "map"):
        return "the plugin's chart does not render: it indents each value as a text"
    return "Kubernetes refuses the ConfigMap: its values must be texts"


def _listed(value: object, path: Path) -> Iterator[tuple[object, Path]]:
    """The value itself, or the items of a Kubernetes List."""
    items = value.get("items") if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") else None
    if isinstance(items, list):
        for index, item in enumerate(items):
            yield from _listed(item, (*path, "items", index))
    else:
        yield value, path


def _is_stack(value: object) -> bool:
    config = value.get("config") if isinstance(value, dict) else None
    return isinstance(config, dict) and any(key.startswith("gpu-pools:") for key in config)


def _lost_indentation(value: object) -> bool:
    """Whether it is a ConfigMap as it comes out of a text that lost its leading blanks: everything is at the top."""
    return isinstance(value, dict) and value.get("kind") == "ConfigMap" and "data" in value and value["data"] is None
