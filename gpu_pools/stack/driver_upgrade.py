"""How the GPU operator replaces drivers: a mapping ``driverUpgrade`` of the operator's section, in the words of ``rollout``.

Only settings; what the operator is told is in gpu_pools/plan/driver_upgrades.py. Not here is `podsThatStay: delete`: the
operator's controller evicts, and has no way to delete what a disruption budget keeps (NVIDIA/k8s-operator-libs
pkg/upgrade/pod_manager.go, as vendored in gpu-operator v26.7.0). Nor that a node is given back where pods stay, which is what
`stop` means in a rollout: it stays cordoned as `upgrade-failed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.reading.fields import Kind, Row, one_of, read_inner, row, whole_number
from gpu_pools.stack.rollout import DAY_SECONDS, DRAIN_SECONDS, MOST_AT_ONCE

if TYPE_CHECKING:
    from gpu_pools.reading.section import Section

#: What becomes of a node whose pods do not go in time.
Kept = Literal["wait", "stop"]
_KEPT: Final = ("wait", "stop")


@dataclass(frozen=True)
class DriverUpgrade:
    """How drivers are replaced on living nodes.

    Attributes:
        max_unavailable: on how many nodes at the same time.
        drain_seconds: how long the pods that hold GPUs of a node may take to go.
        pods_that_stay: what follows where they do not.
    """

    max_unavailable: int = row(
        "On how many nodes the driver is replaced at the same time.",
        whole_number(1, MOST_AT_ONCE),
        1,
    )
    drain_seconds: int = row(
        "How long pods that hold GPUs may take to go, in seconds.",
        whole_number(1, DAY_SECONDS),
        DRAIN_SECONDS,
        key="drainTimeoutSeconds",
    )
    pods_that_stay: Kept = row(
        "Of pods that do not go in time: wait or stop.",
        one_of(_KEPT, "The operator evicts, and can delete nothing that a disruption budget keeps."),
        "stop",
    )


def _driver_upgrade(section: Section, one: Row) -> DriverUpgrade | None:
    return read_inner(DriverUpgrade, section, one, "a mapping with maxUnavailable, drainTimeoutSeconds or podsThatStay")


#: The key, in the operator's section.
DRIVER_UPGRADE: Final = Row("driverUpgrade", "How drivers are replaced on living nodes.", Kind(_driver_upgrade, DriverUpgrade))
