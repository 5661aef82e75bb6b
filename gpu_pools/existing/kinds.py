"""Tells what a mapping or a text is, by its keys: a config, or values of which chart; what cannot be told is `other`.

Values of an umbrella chart have those of its charts below their names; below another name (an alias) the operator's are known by
their sections.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from typing import TYPE_CHECKING, Final, Literal

import yaml

from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.existing.yaml_tree import parse_documents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.existing.yaml_tree import Path

Kind = Literal[
    "plugin",
    "mig-parted",
    "operator-values",
    "chart-values",
    "cluster-policy",
    "plugin-map",
    "mig-parted-map",
    "resource-claim",
    "device-class",
    "other",
]
WORDS: Final[Mapping[Kind, str]] = {
    "plugin": "device-plugin config",
    "mig-parted": "nvidia-mig-parted config",
    "operator-values": "gpu-operator Helm values",
    "chart-values": "nvidia-device-plugin Helm values (only `config` is read)",
    "cluster-policy": "ClusterPolicy of the GPU operator",
    "plugin-map": "ConfigMap of device-plugin configs",
    "mig-parted-map": "ConfigMap of an nvidia-mig-parted config",
    "resource-claim": "ResourceClaim or ResourceClaimTemplate",
    "device-class": "DeviceClass",
    "other": "something else",
}
#: Objects of the API group resource.k8s.io, in any version.
OF_DRA: Final[Mapping[str, Kind]] = {
    "DeviceClass": "device-class",
    "ResourceClaim": "resource-claim",
    "ResourceClaimTemplate": "resource-claim",
}
DRA_GROUP: Final = "resource.k8s.io/"
MIG_FILE: Final = "config.yaml"
_OPERATOR_KEYS: Final = frozenset(
    {"devicePlugin", "migManager", "mig", "driver", "toolkit", "operator", "dcgmExporter", "gfd", "daemonsets", "nfd", "cdi"}
)
#: Sections that no other chart is known to have.
_OWN_KEYS: Final = frozenset({"devicePlugin", "migManager", "dcgmExporter", "gfd"})
#: A mapping below another name than the chart's is the operator's where it has as many of its sections.
_SECTIONS: Final = 2
#: Charts by the names that they have in repositories, and as subcharts.
_CHARTS: Final[Mapping[str, Kind]] = {"gpu-operator": "operator-values", "nvidia-device-plugin": "chart-values"}
#: Of a subchart's values Helm reads these itself.
_OF_HELM: Final = frozenset({"enabled", "global"})
#: The kinds of config that a ConfigMap may hold, and what the ConfigMap is then.
CONFIGS: Final[tuple[Kind, ...]] = ("mig-parted", "plugin")
MAPS: Final[Mapping[Kind, Kind]] = {"mig-parted": "mig-parted-map", "plugin": "plugin-map"}
#: A key of the operator's own ConfigMap default-gpu-clients, which lists what mig-manager stops; it has a `version`, too.
_GPU_CLIENTS: Final = "systemd-services"


def charts_in(values: dict[str, object], chart: str = "") -> list[tuple[Kind, Path, dict[str, object]]]:
    """(kind, keys that lead to it, values) of each known chart in some values.

    Args:
        values: those of a chart, or of an umbrella chart that has it as a subchart.
        chart: the name of the chart where it is known.
    """
    below: list[tuple[Kind, Path, dict[str, object]]] = [
        (kind, (key,), {name: entry for name, entry in inner.items() if name not in _OF_HELM})
        for key, inner in values.items()
        if isinstance(inner, dict) and (kind := _kind_of_subchart(key, inner, values)) is not None
    ]
    if below:
        return below
    named = next((kind for name, kind in _CHARTS.items() if name in chart), None)
    if named is not None:
        return [(named, (), values)]
    kind = kind_of(values)
    known = (kind == "operator-values" and is_operators(values)) or (kind in _CHARTS.values() and not chart)
    return [(kind, (), values)] if known else []


def _kind_of_subchart(key: str, inner: dict[str, object], values: Mapping[str, object]) -> Kind | None:
    """What stands below a key of an umbrella chart's values: the chart of that name, or the operator under an alias."""
    if key in _CHARTS:
        return _CHARTS[key]
    alias = not _OPERATOR_KEYS & values.keys() and key not in _OPERATOR_KEYS and is_operators(inner)
    return "operator-values" if alias else None


def is_operators(values: Mapping[str, object]) -> bool:
    """Whether values are the operator's beyond doubt, where nothing names the chart."""
    return bool(_OWN_KEYS & values.keys()) and len(_OPERATOR_KEYS & values.keys()) >= _SECTIONS


def mapping_in(text: object) -> dict[str, object]:
    """The mapping in a text; empty where it holds none."""
    if isinstance(text, dict):
        return text
    try:
        trees = parse_documents(text) if isinstance(text, str) else []
    except yaml.YAMLError:
        return {}
    value = trees[0].value if trees else None
    return value if isinstance(value, dict) else {}


def is_config(kind: Kind, data: Mapping[str, object]) -> bool:
    """Whether a mapping is a config itself, and no mapping of names to configs."""
    nested = any(isinstance(entry, dict) and kind_of_text(entry) != kind for entry in data.values())
    return nested and kind_of(data) == kind and not any(kind_of_text(entry) == kind for entry in data.values())


def kind_of(value: Mapping[str, object]) -> Kind:
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
        return kind_of(text) if isinstance(text, dict) else "other"
    if text.startswith("{"):
        # Documents of programs: JSON is read a hundred times faster than YAML.
        with contextlib.suppress(ValueError, RecursionError):
            return kind_of(json.loads(text))
    try:
        trees = parse_documents(text)
    except yaml.YAMLError:
        if "mig-configs" in text:
            return "mig-parted"
        return "plugin" if re.search(r"^\s*(sharing|timeSlicing|mps|flags):", text, re.MULTILINE) else "other"
    value = trees[0].value if trees else None
    return kind_of(value) if isinstance(value, dict) else "other"
