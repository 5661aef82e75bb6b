"""Tells who put the pool's labels and taints on the node, where several could have: its kubelet, NFD, or somebody else.

NFD lists what it has set in annotations of its own. Of other labels the object itself tells who wrote them last, by the names of
their field managers, and when these last wrote anything; the list of taints has one manager as a whole, so of a taint it is only
known that NFD has not set it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .expectation import NodeExpectation

#: As the kubelet calls itself when it registers a node.
KUBELET: Final = "kubelet"
NFD: Final = "nfd"
MISSING: Final = "missing"
#: Of a taint.
OTHERS: Final = "others than nfd"
_UNKNOWN: Final = "unknown"
#: node-feature-discovery, api/nfd/v1alpha1/annotations_labels.go; of an NFD with an instance name a prefix comes before.
_LABELS: Final = "nfd.node.kubernetes.io/feature-labels"
_TAINTS: Final = "nfd.node.kubernetes.io/taints"


def set_by(node: dict[str, Any], expected: NodeExpectation, taints: Iterable[str]) -> dict[str, str]:
    """``label KEY`` or ``taint KEY=VALUE:EFFECT`` of the expectation -> who has set it.

    Args:
        node: the object.
        expected: what should be on it.
        taints: what taints it has.
    """
    metadata = node["metadata"]
    labels, there = metadata.get("labels") or {}, frozenset(taints)
    by_nfd, tainted = listed_by_nfd(metadata), _listed(metadata, _TAINTS)
    writers = {}
    for key in expected.labels:
        writers[f"label {key}"] = MISSING if key not in labels else NFD if key in by_nfd else _manager(metadata, key)
    for taint in expected.taints:
        writers[f"taint {taint}"] = MISSING if taint not in there else NFD if taint in tainted else OTHERS
    return writers


def changed_label(metadata: dict[str, Any], key: str) -> str | None:
    """When the writer of a label last wrote to the node's labels or annotations, RFC 3339; None where nobody has it."""
    return max((str(entry["time"]) for entry in _entries(metadata, key) if entry.get("time")), default=None)


def listed_by_nfd(metadata: dict[str, Any]) -> frozenset[str]:
    """The labels that NFD has set, and takes away once it sets them no more."""
    return _listed(metadata, _LABELS)


def _listed(metadata: dict[str, Any], name: str) -> frozenset[str]:
    annotations = metadata.get("annotations") or {}
    # NFD's own way to write a taint has an equals sign only where there is a value, and so has ours.
    return frozenset(entry for key, text in annotations.items() if key.endswith(name) for entry in str(text).split(","))


def _manager(metadata: dict[str, Any], key: str) -> str:
    managers = sorted(set(_managers(metadata, key)))
    return KUBELET if KUBELET in managers else ", ".join(managers) or _UNKNOWN


def _managers(metadata: dict[str, Any], key: str) -> Iterator[str]:
    return (str(entry.get("manager") or _UNKNOWN) for entry in _entries(metadata, key))


def _entries(metadata: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    for entry in metadata.get("managedFields") or []:
        fields = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if f"f:{key}" in (fields.get("f:labels") or {}):
            yield entry
