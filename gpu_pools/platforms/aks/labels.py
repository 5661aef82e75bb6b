"""Labels and taints of a pool on AKS: which of them Azure refuses, or lets nobody change afterwards.

Sources: AKS reserves prefixes of labels (MicrosoftDocs/azure-aks-docs, use-labels; its own words in Azure/AKS#1937 and #2866;
node roles since #4628) and of taints (Azure/karpenter-provider-azure#1830 tells that AKS blocks them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.stack.kubernetes_names import Taint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.reading.section import Section

#: Labels by which driver manager and mig-manager pause the operator's pods on a node.
_DEPLOY_SWITCH: Final = "nvidia.com/gpu.deploy."
#: Below kubernetes.io and k8s.io: what a kubelet may give its own node, and node roles, which AKS sets by itself.
_OPEN_TO_KUBELETS: Final = ("node", "kubelet", "node-role")
#: What AKS puts on the nodes of a spot pool; so reads its label, too.
AKS_SPOT_TAINT: Final = Taint("kubernetes.azure.com/scalesetpriority", "spot", "NoSchedule")


def check_labels(labels: Mapping[str, str], section: Section) -> None:
    """Add a problem for each label that Azure refuses, or that the operator could not change later."""
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


def check_taints(taints: tuple[Taint, ...], section: Section) -> None:
    """Add a problem for each taint that Azure refuses."""
    for index, taint in enumerate(taints):
        if taint_refused_by_aks(taint, spot=section.given("spot")):
            section.problems.add(
                f"{section.at('taints')}[{index}]",
                f'"{taint}" is refused by AKS, which keeps the prefix kubernetes.azure.com for itself',
                allowed="any other prefix, e.g. sku=gpu:NoSchedule",
                remedy="Choose another key; the taint of spot pools comes with `spot: {}`.",
            )


def label_refused_by_aks(key: str) -> str | None:
    """Why AKS refuses the label in a node pool; None if it takes it."""
    prefix = key.rpartition("/")[0]
    if _within(prefix, "kubernetes.azure.com"):
        return "AKS keeps the prefix kubernetes.azure.com for itself"
    for namespace in ("kubernetes.io", "k8s.io"):
        if _within(prefix, namespace) and not any(_within(prefix, f"{part}.{namespace}") for part in _OPEN_TO_KUBELETS):
            return f"no kubelet may set a label below {namespace} but those of {', '.join(_OPEN_TO_KUBELETS)}"
    return None


def taint_refused_by_aks(taint: Taint, *, spot: bool) -> bool:
    """Whether AKS refuses the taint in a node pool."""
    return _within(taint.key.rpartition("/")[0], "kubernetes.azure.com") and not (spot and taint == AKS_SPOT_TAINT)


def _within(prefix: str, namespace: str) -> bool:
    return prefix == namespace or prefix.endswith(f".{namespace}")
