"""Which way out there is of what a verifier has found on a node, by the key of the cause (gpu_pools/verifier/causes.json).

There are four kinds: set the declared labels, restart a pod of the node, set a label of the operator again, or have a person
reset or replace the hardware. A cause without a way is one of the declaration or of the cluster, or one that passes:
repairing a node does not help.

The driver's pod is not restarted: that is no reset. Its manager leaves a loaded driver alone that has the wanted version
(NVIDIA/k8s-driver-manager, cmd/driver-manager/main.go, shouldSkipUninstall). A reset of a GPU needs root on the node and no
program on the GPU, and GPUs that are linked are reset together, so a reboot is what always works.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.evidence.consequences import root_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Way(enum.Enum):
    """What is done; in the order in which it is."""

    REPLACE = "its machine is replaced"
    HAND = "somebody reboots it, or resets its GPUs"
    UPGRADE = "the operator is to try its driver's upgrade again"
    LABEL = "its labels are set to the declared values"
    MIG = "mig-manager starts anew, and applies the layout"
    MPS = "the MPS control daemon starts anew"
    PLUGIN = "the device plugin starts anew"
    GFD = "gpu-feature-discovery starts anew"
    POD = "the pod that is stuck starts anew"
    VERIFIER = "the verifier starts anew"


#: The app label of the pods that start anew.
APPS: Final[Mapping[Way, str]] = {
    Way.MIG: "nvidia-mig-manager",
    Way.MPS: "nvidia-device-plugin-mps-control-daemon",
    Way.PLUGIN: "nvidia-device-plugin-daemonset",
    Way.GFD: "gpu-feature-discovery",
}
#: For these, pods that hold GPUs have to go first: their GPUs change, or end.
_NEED_FREE_GPUS: Final = frozenset({Way.REPLACE, Way.HAND, Way.UPGRADE, Way.LABEL, Way.MIG, Way.MPS})
#: These end everything on the node.
_NEED_EMPTY_NODE: Final = frozenset({Way.REPLACE, Way.HAND})

_BY_CAUSE: Final[Mapping[Way, str]] = {
    Way.REPLACE: "memory-broken inforom",
    Way.HAND: (
        "node-not-ready nvml-hang driver-mismatch gpu-lost gpu-missing gpu-reset memory-repair-pending memory-errors ecc-pending "
        "nvml-error"
    ),
    Way.UPGRADE: "driver-upgrade-stuck",
    Way.LABEL: "label-other label-missing",
    Way.MIG: (
        "mig-stuck mig-config-failed mig-config-unset mig-blocked mig-pending mig-not-on mig-not-off mig-empty mig-one-differs "
        "mig-layout"
    ),
    Way.MPS: "mps-dead mps-fault mps-split",
    Way.PLUGIN: "plugin-outdated unhealthy nothing-offered left-over mps-split",
    Way.GFD: "gfd-absent gfd-stale gfd-other",
    Way.POD: "config-wedged",
    Way.VERIFIER: "container-lost-gpu reader-crashed",
}
#: Something on the node goes on changing: an operand that ends at each start does that, and so does one that is at work.
_UNSTEADY: Final = "unsteady"


@dataclass(frozen=True)
class Finding:
    """What a verifier has found, as far as it matters here.

    Attributes:
        cause: the key of the likely cause.
        where: on what.
        text: the cause, for people.
        remedy: what helps, for people.
    """

    cause: str
    where: str
    text: str
    remedy: str


def ways_of(cause: str) -> frozenset[Way]:
    """The ways out of a cause; none where repairing the node does not help."""
    return frozenset(way for way, causes in _BY_CAUSE.items() if cause in causes.split())


def chosen(causes: Collection[str], *, replaced: bool) -> tuple[Way, ...]:
    """What is done about these, in its order.

    Args:
        causes: the most important first, as reports have them: one explains those behind it.
        replaced: whether the machine is to be replaced, which cures the rest.

    Returns:
        Nothing where the first cause has no way: what follows from it would come back. Of a node that goes on changing only
        what ends nobody's work.
    """
    if replaced:
        return (Way.REPLACE,)
    first = next(iter(causes), None)
    if first == _UNSTEADY:
        found = chosen([cause for cause in causes if cause != _UNSTEADY], replaced=False)
        return () if frees_gpus(found) else found
    if first is None or not ways_of(first):
        return ()
    # What the node makes of another label follows the label.
    causes = [cause for cause in causes if root_of(cause, causes) is None]
    wanted = {way for cause in causes for way in ways_of(cause)}
    # With the machine replaced nothing of it is left to be put right.
    return (Way.REPLACE,) if Way.REPLACE in wanted else tuple(way for way in Way if way in wanted)


def frees_gpus(ways: Collection[Way]) -> bool:
    """Whether pods that hold GPUs have to go."""
    return bool(_NEED_FREE_GPUS & set(ways))


def empties_node(ways: Collection[Way]) -> bool:
    """Whether all pods have to go, but those that belong to every node."""
    return bool(_NEED_EMPTY_NODE & set(ways))
