"""Checks an existing file: recognises it, runs the checks of each part, and those that need several parts at once.

The result is data; gpu_pools/cli/existing.py prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.existing.config_names import check_plugin_keys
from gpu_pools.existing.documents import read_existing_file
from gpu_pools.existing.dra_check import check_device_parameters, check_resource_names
from gpu_pools.existing.findings import Findings, path_text
from gpu_pools.existing.kinds import WORDS
from gpu_pools.existing.mig_parted_check import check_disabled_key, check_mig_parted
from gpu_pools.existing.operator_check import (
    check_default,
    check_mig_file,
    check_operator_values,
    check_policy,
    owned_map,
    strategy_of,
)
from gpu_pools.existing.plugin_check import check_plugin_config
from gpu_pools.existing.plugin_schema import plugin_schema, plugin_version
from gpu_pools.existing.run_context import RunContext
from gpu_pools.hardware.operands import brought, overridden, parse_version, version_text
from gpu_pools.stack.charts import VERSIONS
from gpu_pools.text.errors import show
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.existing.documents import Document, ExistingFile
    from gpu_pools.existing.findings import Finding
    from gpu_pools.existing.yaml_tree import Path
    from gpu_pools.hardware.models import Version
    from gpu_pools.hardware.operands import Operand

#: Namespaces in which NVIDIA's own documents put the operator or the plugin.
_USUAL_NAMESPACES: Final = ("gpu-operator", "nvidia-gpu-operator", "nvidia-device-plugin", "gpu-operator-resources")
_OPERATOR_DEFAULT: Final = "single"


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        file: as it was given.
        documents: (place, what it is) of each document; the place is ``""`` where the file is one document.
        versions: device-plugin versions that were asked about.
        mig_parted: the mig-parted version that was asked about; empty: all.
        findings: in the order of the file.
    """

    file: str
    documents: tuple[tuple[str, str], ...]
    versions: tuple[str, ...]
    mig_parted: str
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """The result for machines."""
        return {
            "file": self.file,
            "documents": [{"path": path, "kind": kind} for path, kind in self.documents],
            "devicePluginVersions": list(self.versions),
            "migPartedVersion": self.mig_parted or None,
            "findings": [finding.as_json() for finding in self.findings],
            "errors": [],
        }


def check_file(name: str, version: str | None = None, mig_parted: Version | None = None) -> Checked:
    """Check a file against one device-plugin version (``0.19``) and one of mig-parted, or against all known ones.

    Where none is given, that of chart values or a ClusterPolicy in the file counts.

    Raises:
        UnreadableFileError: if it cannot be read, or nothing in it is recognised.
    """
    file = read_existing_file(name)
    mine = version or plugin_version(_named_version(file, "devicePlugin"))
    parted = mig_parted or parse_version(_named_version(file, "migManager"))
    findings = Findings(file.lines, (mine,) if mine else plugin_schema().versions, parted, file.places)
    _check_reading(file, findings)
    context = _run_context(file)
    for document in file.documents:
        _check_document(document, file, findings, context)
    _check_together(file, findings)
    if not version:
        _check_versions(file, findings)
    documents = tuple((_place(document, file), document.title) for document in file.documents)
    return Checked(name, documents, findings.versions, version_text(parted or ()), findings.sorted())


def _place(document: Document, file: ExistingFile) -> str:
    return path_text(file.places.of(document.path)) if document.path else ""


def _named_version(file: ExistingFile, operand: Operand) -> str:
    """The version of an operand that the file itself names, or that a chart brings whose version it names."""
    documents = [(document, spec) for document in file.documents if (spec := spec_of(document)) is not None]
    given = next((text for _, spec in documents if (text := overridden(spec, operand))), "")
    return given or next((text for document, _ in documents if (text := brought(document.version).get(operand))), "")


def _check_versions(file: ExistingFile, findings: Findings) -> None:
    """Versions of the device plugin that the file names, and that are not known here."""
    known = plugin_schema().versions
    for document in file.documents:
        text = overridden(spec_of(document) or {}, "devicePlugin")
        if text is not None and plugin_version(text) is None:
            findings.add(
                (*_spec_path(document), "devicePlugin", "version"),
                "unknown",
                f"device plugin {text} is not known here",
                really=f"the findings are those of {known[0]} to {known[-1]}; before 0.15 there is no MPS",
                allowed=f"{known[0]} to {known[-1]}",
                remedy="Leave the version to the chart, or name the nearest with --device-plugin.",
            )


def _spec_path(document: Document) -> Path:
    return document.path if document.kind == "operator-values" else (*document.path, "spec")


def _check_reading(file: ExistingFile, findings: Findings) -> None:
    for path in file.duplicates:
        findings.add(
            path,
            "overridden",
            f"`{path[-1]}` is given twice",
            really="the last one wins; the one before it is dropped without a word",
            allowed="each key once",
            remedy="Keep one of the two.",
        )
    for path, what in file.unread:
        findings.add(
            path,
            "unknown",
            f"{what or 'a source of values'} is not read",
            really="what it gives is merged with the values here, and is not known",
            allowed="all values in one file",
            remedy="Check what it holds as well.",
        )
    for path, winner in file.dropped:
        findings.add(
            path,
            "overridden",
            f"`{path[-1]}` beside {winner}",
            really=f"Argo CD takes {winner} alone; nothing of this reaches the chart",
            allowed="one of the two",
            remedy="Move what is still needed, and remove the rest.",
        )
    for fault in file.faults:
        findings.add(
            fault.path,
            "crash" if fault.severe else "ignored",
            fault.message,
            really=fault.really,
            allowed=fault.allowed,
            remedy=fault.remedy,
        )


def _run_context(file: ExistingFile) -> RunContext:
    """What chart values or a ClusterPolicy in the file say about all its configs."""
    for document in file.documents:
        spec = spec_of(document)
        if spec is not None:
            strategy = strategy_of(spec, default=_OPERATOR_DEFAULT if document.kind == "operator-values" else "")
            default = at(spec, "migManager", "config", "default")
            return RunContext("operator", strategy, disabled_key=default != "")
        if document.kind == "chart-values":
            given = at(document.value, "migStrategy")
            return RunContext("chart", given if isinstance(given, str) else "")
    return RunContext()


def spec_of(document: Document) -> Mapping[str, object] | None:
    """The operator's settings in a document, None where it has none."""
    value = document.value if document.kind == "operator-values" else at(document.value, "spec")
    return value if document.kind in {"operator-values", "cluster-policy"} and isinstance(value, dict) else None


def _check_document(document: Document, file: ExistingFile, findings: Findings, context: RunContext) -> None:
    for part in document.parts:
        if part.kind == "plugin":
            check_plugin_config(part.value, part.path, findings, context)
        else:
            check_mig_parted(part.value, part.path, findings, context)
            if document.kind != "mig-parted" and context.disabled_key:
                check_disabled_key(part.value, part.path, findings)
    _check_plugin_keys(document, findings)
    spec = spec_of(document)
    if document.kind == "operator-values" and spec is not None:
        driver_objects = any(at(other.value, "kind") == "NVIDIADriver" for other in file.documents)
        version = _chart_version(document, findings)
        check_operator_values(spec, document.path, findings, version, has_driver_objects=driver_objects)
    elif document.kind == "cluster-policy" and spec is not None:
        check_policy(spec, (*document.path, "spec"), findings)
    elif document.kind == "chart-values":
        _check_chart(document, findings)
    elif document.kind in {"plugin-map", "mig-parted-map"}:
        _check_map(document, findings)
    elif document.kind in {"resource-claim", "device-class"}:
        check_device_parameters(document, findings)
    elif document.kind == "other":
        _say_unchecked(document, file, findings)


#: Where the names of device-plugin configs stand in each kind of document, and which of them needs no label.
_PLUGIN_KEYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "operator-values": (("devicePlugin", "config", "data"), ("devicePlugin", "config", "default")),
    "chart-values": (("config", "map"), ("config", "default")),
    "plugin-map": (("data",), ()),
}


def _check_plugin_keys(document: Document, findings: Findings) -> None:
    where, default = _PLUGIN_KEYS.get(document.kind, ((), ()))
    configs = at(document.value, *where) if where else None
    # A config without a name stands there itself.
    if isinstance(configs, dict) and all(part.path != (*document.path, *where) for part in document.parts):
        check_plugin_keys(configs, at(document.value, *default) if default else None, (*document.path, *where), findings)


def _chart_version(document: Document, findings: Findings) -> str:
    """The version of the operator's chart by whose keys values are judged; one that is not known here is reported."""
    known = VERSIONS["gpu-operator"]
    written = document.version
    version = written if written.startswith("v") or not written else f"v{written}"
    if version in known:
        return version
    if written:
        findings.add(
            document.version_path,
            "unknown",
            f"the chart version {show(written)} is not known here",
            really=f"the findings are those of {known[0]}",
            allowed=", ".join(known),
            remedy="Compare with what `helm show values` prints of that version.",
        )
    return known[0]


def _check_chart(document: Document, findings: Findings) -> None:
    """The plugin's own chart: a default must exist, and there must be a fallback where none is given."""
    config = at(document.value, "config")
    configs = at(config, "map")
    if not isinstance(config, dict) or not isinstance(configs, dict) or not configs:
        return
    path = (*document.path, "config")
    default = config.get("default")
    if config.get("name"):
        findings.add(
            (*path, "map"),
            "crash",
            "`name` and `map` together",
            really="the chart takes either an existing ConfigMap or an inline one",
            allowed="exactly one of name and map",
            remedy="Remove one.",
        )
    if default:
        check_default(default, tuple(configs), (*path, "default"), findings)
    elif len(configs) > 1 and "default" not in configs:
        findings.add(
            path,
            "crash",
            f"{len(configs)} configs and no default",
            really="`no config was set, no default was provided, and all fallbacks failed` on nodes without the label",
            allowed="config.default, or a key called default, or a single key",
            remedy="Set config.default.",
        )


def _check_map(document: Document, findings: Findings) -> None:
    data = at(document.value, "data")
    keys = tuple(data) if isinstance(data, dict) else ()
    if document.kind == "mig-parted-map":
        if keys:
            check_mig_file(keys, (*document.path, "data"), findings)
        if document.name == "default-mig-parted-config":
            owned_map((*document.path, "metadata", "name"), findings)
    namespace = at(document.value, "metadata", "namespace")
    if isinstance(namespace, str) and namespace not in _USUAL_NAMESPACES:
        findings.add(
            (*document.path, "metadata", "namespace"),
            "unknown",
            f"the namespace {namespace}",
            really="the ConfigMap is read only where the operator, or the plugin, runs in the same namespace",
            allowed="the operator's own namespace",
            remedy="Compare with `helm list -A`.",
        )


def _say_unchecked(document: Document, file: ExistingFile, findings: Findings) -> None:
    findings.add(
        document.path,
        "unknown",
        f"{document.title} is not checked",
        really=f"nothing here reads it; the rest of {len(file.documents)} documents was checked",
        allowed=", ".join(words for kind, words in WORDS.items() if kind != "other"),
        remedy="Nothing, where it has no configs in it.",
    )


def _check_together(file: ExistingFile, findings: Findings) -> None:
    """Names that one document uses, and another one gives."""
    check_resource_names(file.documents, findings)
    maps = {document.name: document for document in file.documents if document.kind in {"plugin-map", "mig-parted-map"}}
    for document in file.documents:
        spec = spec_of(document)
        if spec is None:
            continue
        base = _spec_path(document)
        config = at(spec, "devicePlugin", "config")
        name, default = at(config, "name"), at(config, "default")
        target = maps.get(name) if isinstance(name, str) else None
        data = at(target.value, "data") if target else None
        if default and isinstance(data, dict):
            check_default(default, tuple(data), (*base, "devicePlugin", "config", "default"), findings)
