"""Turns existing files into the sharing section of a stack file, and says everything that it could not carry over.

A config of the device plugin becomes one declaration named after its key; a named config of mig-parted becomes one declaration
per distinct layout. Whatever a declaration has no place for (flags, renames, chart values) is listed with the reason: nothing
is lost in silence. What comes out is parsed by gpu_pools/sharing/modes.py before it is printed, so the planner accepts it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.existing.documents import read_existing_file, read_existing_text
from gpu_pools.existing.findings import Findings, path_text, plain
from gpu_pools.existing.losses import Loss, Losses
from gpu_pools.existing.mig_parted_check import read_mig_configs
from gpu_pools.existing.mig_parted_import import mig_declarations
from gpu_pools.existing.mig_targets import MigTargets, mig_targets, used_profiles
from gpu_pools.existing.plugin_import import plugin_declaration
from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.sharing.modes import parse_sharing
from gpu_pools.text.errors import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.existing.documents import Document, ExistingFile, Part
    from gpu_pools.existing.yaml_tree import Path

#: Values that the plan derives or that have a setting of their own -> where that is.
_SETTINGS: Final = {
    "mig": "gpu-pools:operator.migStrategy gives it, where it is not derived from the pools",
    "driver": "gpu-pools:operator.driver says who installs the driver; other values go to gpu-pools:operator.values",
    "toolkit": "gpu-pools:operator.driver decides it; other values go to gpu-pools:operator.values",
    "daemonsets": "tolerations follow from the taints of the pools; other values go to gpu-pools:operator.values",
    "nfd": "gpu-pools:nodeFeatureDiscovery.install decides it",
    "devicePlugin": "names and defaults of ConfigMaps are made by the plan; other values go to gpu-pools:operator.values",
    "migManager": "names and defaults of ConfigMaps are made by the plan; other values go to gpu-pools:operator.values",
}
_PLUGIN_CHART: Final = "a value of the plugin's own chart: the GPU operator brings the plugin, and the plan names its configs"
_AROUND: Final = (
    "how the chart is installed, or a value of another chart: the stack installs the operator itself, gpu-pools:operator"
)
_OTHER_VALUE: Final = "a value of the chart, no sharing: write it under gpu-pools:operator.values"


@dataclass(frozen=True)
class Declaration:
    """One declaration that came out.

    Attributes:
        name: its key in the section.
        sharing: as it is written in a stack file.
        source: where it comes from.
        comments: what a reader should know.
    """

    name: str
    sharing: dict[str, Any]
    source: str
    comments: tuple[str, ...] = ()


@dataclass
class Imported:
    """Everything that came out of some files.

    Attributes:
        declarations: with unique names, in the order of the files.
        lost: what could not be carried over.
    """

    declarations: list[Declaration] = field(default_factory=list)
    lost: list[Loss] = field(default_factory=list)

    @property
    def sharing(self) -> dict[str, Any]:
        """The section ``gpu-pools:sharing``."""
        return {declaration.name: declaration.sharing for declaration in self.declarations}

    def as_json(self) -> dict[str, Any]:
        """The result for machines."""
        return {
            "sharing": self.sharing,
            "declarations": [
                {"name": each.name, "source": each.source, "comments": list(each.comments)} for each in self.declarations
            ],
            "lost": [loss.as_json() for loss in self.lost],
            "errors": [],
        }

    def as_yaml(self) -> str:
        """The section as YAML with comments."""
        lines = ["config:", "  gpu-pools:sharing:" if self.declarations else "  gpu-pools:sharing: {}"]
        for declaration in self.declarations:
            lines += [f"    # {plain(text)}" for text in (f"from {declaration.source}", *declaration.comments)]
            body = yaml.safe_dump({declaration.name: declaration.sharing}, sort_keys=False, default_flow_style=None, width=1000)
            lines += [f"    {line}" for line in body.splitlines()]
        if self.lost:
            lines.append("# Not carried over:")
            lines += [f"# - {loss}" for loss in self.lost]
        return "\n".join(lines) + "\n"


def import_files(names: Sequence[str]) -> Imported:
    """Turn files into declarations.

    Raises:
        UnreadableFileError: if one of them cannot be read, or nothing in it is recognised.
    """
    return _imported([read_existing_file(name) for name in names])


def import_texts(texts: Mapping[str, str]) -> Imported:
    """Turn texts into declarations.

    Args:
        texts: what they are called in messages -> the text.

    Raises:
        UnreadableFileError: if nothing in one of them is recognised.
    """
    return _imported([read_existing_text(name, text) for name, text in texts.items()])


def _imported(files: Sequence[ExistingFile]) -> Imported:
    imported = Imported()
    importers = [_Importer(file, imported) for file in files]
    for importer in importers:
        importer.run()
    layouts = [declaration for declaration in imported.declarations if "mig" in declaration.sharing]
    for importer in importers:
        importer.join(layouts)
    return imported


class _Importer:
    """Adds one file to the result."""

    def __init__(self, file: ExistingFile, imported: Imported) -> None:
        self._file = file
        self._imported = imported
        self._losses = Losses(file.name, imported.lost, file.places)
        self._targets: list[MigTargets] = []

    def run(self) -> None:
        for path in self._file.duplicates:
            self._losses.add(path, None, "given twice in one mapping: the earlier value is dropped, as the real software does")
        for fault in self._file.faults:
            self._losses.add(fault.path, None, f"{fault.message}: {fault.really}")
        for path, what in self._file.unread:
            self._losses.add(path, what, "values that lie elsewhere are not read: import them as well")
        for path, winner in self._file.dropped:
            self._losses.add(path, None, f"{winner} wins, and this counts for nothing")
        for document in self._file.documents:
            self._document(document)
        for path, value in self._file.around:
            self._losses.add(path, value, _AROUND)

    def join(self, layouts: Sequence[Declaration]) -> None:
        """Add the layouts once more that have MIG resources which a config of this file time-slices."""
        for targets in self._targets:
            used: set[str] = set()
            for layout in layouts:
                joined = targets.joined(layout.sharing)
                if joined is not None:
                    sharing, comments = joined
                    used |= used_profiles(layout.sharing)
                    self._add(
                        f"{layout.name}-{targets.name}", sharing, targets.path, (*layout.comments, *comments), layout.source
                    )
            targets.lose(used, self._losses)

    def _document(self, document: Document) -> None:
        for part in document.parts:
            if part.kind == "plugin":
                self._plugin(part)
            else:
                self._mig(part)
        if document.kind == "other":
            self._losses.add(document.path, None, f"{document.title} holds no sharing that is known here")
        elif document.kind not in {"plugin", "mig-parted"}:
            self._rest(document)

    def _plugin(self, part: Part) -> None:
        name = _name(part.path, "imported")
        sharing, comments = plugin_declaration(part.value, part.path, self._losses)
        if sharing is not None:
            self._add(name, sharing, part.path, comments)
        targets = mig_targets(part.value, name, part.path)
        if targets is not None:
            self._targets.append(targets)

    def _mig(self, part: Part) -> None:
        findings = Findings({}, plugin_schema().versions, places=self._file.places)
        configs = read_mig_configs(part.value, part.path, findings)
        for finding in findings.sorted():
            if finding.severity == "crash":
                self._losses.add_text(finding.path, None, f"the real software refuses it: {finding.message}")
        for name, entries in configs.items():
            path = (*part.path, "mig-configs", name)
            raw = part.value["mig-configs"][name] if isinstance(part.value, dict) else None
            complete = isinstance(raw, list) and len(raw) == len(entries)
            if not complete:
                self._losses.add(path, None, "not all of its entries can be read, so none is carried over")
                continue
            for suffix, sharing, comments in mig_declarations(entries, path, self._losses):
                self._add(_name(path, "imported") + suffix, sharing, path, comments)

    def _add(self, name: str, sharing: dict[str, Any], path: Path, comments: tuple[str, ...], beside: str = "") -> None:
        problems = Problems()
        parse_sharing(sharing, path_text(path), problems)
        if problems.found:
            self._losses.add(path, None, f"this project does not accept it: {problems.found[0].message}")
            return
        taken = {declaration.name for declaration in self._imported.declarations}
        unique, number = name, 2
        while unique in taken:
            unique, number = f"{name}-{number}", number + 1
        here = plain(f"{self._file.name}: {path_text(self._file.places.of(path))}")
        source = f"{beside} and {here}" if beside else here
        self._imported.declarations.append(Declaration(unique, sharing, source, comments))

    def _rest(self, document: Document) -> None:
        """What surrounds the configs: metadata, chart values."""
        if document.holder and not document.value:
            # An object that installs the chart without any values.
            return
        carried = [part.path for part in document.parts]
        for path, value in _leaves(document.value, document.path):
            inside = path[len(document.path) :]
            if any(path[: len(known)] == known for known in carried) or inside in {("apiVersion",), ("kind",)}:
                continue
            if document.kind in {"plugin-map", "mig-parted-map"}:
                known = inside and inside[0] == "metadata"
                why = "the plan names and labels its own ConfigMaps" if known else "no sharing"
            else:
                section = next((part for part in inside if part != "spec"), "")
                why = _PLUGIN_CHART if document.kind == "chart-values" else _SETTINGS.get(str(section), _OTHER_VALUE)
            self._losses.add(path, value, why)


def _leaves(value: object, path: Path) -> list[tuple[Path, object]]:
    if isinstance(value, dict) and value:
        return [leaf for key, entry in value.items() for leaf in _leaves(entry, (*path, key))]
    return [(path, value)]


def _name(path: Path, otherwise: str) -> str:
    """A declaration's name, after the last key of a place."""
    key = next((part for part in reversed(path) if isinstance(part, str)), otherwise)
    return re.sub(r"[^-\w.+]", "-", plain(key)) or otherwise
