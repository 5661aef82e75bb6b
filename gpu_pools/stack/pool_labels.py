"""Labels and taints of a pool: whether its platform has a way to bring them to the nodes.

What a label or a taint is at all is in gpu_pools/stack/kubernetes_names.py; how they get there, in gpu_pools/plan/placing.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.stack.kubernetes_names import label_refused_by_aks, refused_by_nfd, taint_refused_by_aks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.platforms import Platform
    from gpu_pools.reading.section import Section
    from gpu_pools.stack.kubernetes_names import Taint

#: Labels by which driver manager and mig-manager pause the operator's pods on a node.
_DEPLOY_SWITCH: Final = "nvidia.com/gpu.deploy."


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


def check_labels_arrive(labels: Mapping[str, str], section: Section, platform: Platform) -> None:
    """Labels must have a way to the nodes on this platform."""
    if platform == "aks":
        _check_aks_labels(labels, section)
        return
    for key in labels:
        if reason := refused_by_nfd(key):
            section.problems.add(
                f"{section.at('labels')}.{key}",
                f'"{key}" cannot reach the nodes: {reason}',
                allowed="a prefixed key outside kubernetes.io, e.g. example.com/team",
                remedy="Choose such a key; on this platform NFD sets the labels, so that new nodes get them too.",
            )


def check_taints_arrive(taints: tuple[Taint, ...], section: Section, platform: Platform, driver: str | None) -> None:
    """Taints must have a way to the nodes on this platform; `driver`: Magnum's."""
    if platform == "aks":
        _check_aks_taints(taints, section)
    elif platform == "magnum" and driver in {"magnum-cluster-api", "capi-helm"}:
        for index, taint in enumerate(taints):
            if reason := refused_by_nfd(taint.key):
                section.problems.add(
                    f"{section.at('taints')}[{index}]",
                    f'"{taint}" cannot reach the nodes: {reason}, and the driver {driver} sets no taints',
                    allowed="a prefixed key outside kubernetes.io, e.g. nvidia.com/gpu=true:NoSchedule",
                    remedy="Choose such a key, or use the heat driver, whose kubelets register with taints.",
                )


def _check_aks_labels(labels: Mapping[str, str], section: Section) -> None:
    for key, value in labels.items():
        if reason := label_refused_by_aks(key):
            section.problems.add(
                f"{section.at('labels')}.{key}",
                f'"{key}" is reserved by AKS: {reason}',
                allowed="any prefix but kubernetes.azure.com/, kubernetes.io/ and k8s.io/",
                remedy="Choose another prefix, e.g. example.com/team; AKS refuses the whole pool otherwise.",
            )
        elif key.startswith(_DEPLOY_SWITCH) and value != "false":
            section.problems.add(
                f"{section.at('labels')}.{key}",
                f'"{value}" could not be paused by driver and MIG managers: AKS lets nobody change a pool\'s label on its nodes',
                allowed='"false", which nobody changes',
                remedy="Leave the label out: the GPU operator sets it to true by itself.",
            )


def _check_aks_taints(taints: tuple[Taint, ...], section: Section) -> None:
    for index, taint in enumerate(taints):
        if taint_refused_by_aks(taint, spot=section.given("spot")):
            section.problems.add(
                f"{section.at('taints')}[{index}]",
                f'"{taint}" is refused by AKS, which keeps the prefix kubernetes.azure.com for itself',
                allowed="any other prefix, e.g. sku=gpu:NoSchedule",
                remedy="Choose another key; the taint of spot pools comes with `spot: {}`.",
            )
