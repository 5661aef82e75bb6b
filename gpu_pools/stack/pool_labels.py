"""Labels and taints of a pool: whether they are distinct, and whether NFD brings labels to the nodes.

What a label or a taint is at all is in gpu_pools/stack/kubernetes_names.py; how they get there, in gpu_pools/plan/placing.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.stack.kubernetes_names import refused_by_nfd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.reading.section import Section
    from gpu_pools.stack.kubernetes_names import Taint


def check_distinct(taints: tuple[Taint, ...], section: Section) -> None:
    """Kubernetes tells taints apart by key and effect, not by value."""
    seen: set[tuple[str, str]] = set()
    for taint in taints:
        if (taint.key, taint.effect) in seen:
            section.problems.add(
                section.at("taints"),
                f'"{taint.key}" is given twice with the effect {taint.effect}',
                allowed="each key once per effect",
                remedy="Remove one of the two; Kubernetes refuses the node otherwise.",
            )
        seen.add((taint.key, taint.effect))


def check_labels_by_nfd(labels: Mapping[str, str], section: Section) -> None:
    """Add a problem for each label that NFD does not set."""
    for key in labels:
        if reason := refused_by_nfd(key):
            section.problems.add(
                f"{section.at('labels')}.{key}",
                f'"{key}" cannot reach the nodes: {reason}',
                allowed="a prefixed key outside kubernetes.io, e.g. example.com/team",
                remedy="Choose such a key; on this platform NFD sets the labels, so that new nodes get them too.",
            )
