"""Which nodes of a pool still get another driver, by their labels. Pure: nodes come in.

The operator changes drivers node by node and minutes apart, long after its release is ready, and a proof has one deadline for
all nodes. So a proof begins when nothing of this is left (components/_drivers_first.py). Not looked at: nodes that tell no driver
yet, which get the new one at once; nodes whose driver is their image's own; and why a driver does not come, which the proof says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.releases import number
from gpu_pools.plan.before_upgrade import FAILED, HAS, OVER, STATE
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What its pod writes on a node with a driver of its own (k8s-driver-manager 0c04c810, cmd/driver-manager/main.go).
_DEPLOY: Final = ("nvidia.com/gpu.deploy.driver", "pre-installed")


@dataclass(frozen=True)
class Due:
    """What is left.

    Attributes:
        pool: names of the pool's nodes that wait for a driver, or get it now.
        cluster: how many nodes of the cluster do: one policy holds for all of them.
        failed: names of nodes of the cluster whose upgrade has failed: others may wait for them without an end.
    """

    pool: tuple[str, ...]
    cluster: int
    failed: tuple[str, ...]


def drivers_due(nodes: Iterable[Mapping[str, Any]], pool: str, version: str) -> Due:
    """Those of a pool.

    Args:
        nodes: all of the cluster.
        pool: its name.
        version: the driver's, or the beginning of one.
    """
    labels = {str(node["metadata"]["name"]): node["metadata"].get("labels") or {} for node in nodes}
    due = {name for name, own in labels.items() if _waits(own, version)}
    failed = {name for name, own in labels.items() if own.get(STATE) == FAILED} - due
    of_pool = sorted(name for name in due if labels[name].get(POOL_LABEL) == pool)
    return Due(tuple(of_pool), len(due), tuple(sorted(failed)))


def _waits(labels: Mapping[str, str], version: str) -> bool:
    if labels.get(_DEPLOY[0]) == _DEPLOY[1]:
        return False
    state, has, wanted = labels.get(STATE, ""), labels.get(HAS), number(version)
    other = has is not None and number(has)[: len(wanted)] != wanted
    # A failed one that has what is declared gets out by itself: that is the way back.
    return not other if state == FAILED else other or state not in OVER
