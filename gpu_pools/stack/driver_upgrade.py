"""How the GPU operator replaces drivers: a mapping ``driverUpgrade`` of the operator's section, in the words of ``rollout``.

Only settings; what the operator is told is in gpu_pools/plan/drivers.py. Not here is `podsThatStay: delete`: the
operator's controller evicts, and has no way to delete what a disruption budget keeps (NVIDIA/k8s-operator-libs
pkg/upgrade/pod_manager.go, as vendored in gpu-operator v26.7.0). Nor that a node is given back where pods stay, which is what
`stop` means in a rollout: it stays cordoned as `upgrade-failed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gpu_pools.reading.fields import one_of, row, whole_number
from gpu_pools.stack.rollout import DAY_SECONDS, DRAIN_SECONDS, MOST_AT_ONCE

#: What becomes of a node whose pods do not go in time.
Kept = Literal["wait", "stop"]
_KEPT: Final = ("wait", "stop")


@dataclass(frozen=True)
class DriverUpgrade:
    """How drivers are replaced on living nodes."""

    max_unavailable: int = row(
        "On how many nodes the driver is replaced at the same time.",
        whole_number(1, MOST_AT_ONCE),
        1,
        doc="On how many nodes at the same time, 1 to 100; the smallest `rollout.maxUnavailable` of a pool bounds it. Nodes that "
        "are cordoned or not ready already count.",
    )
    drain_seconds: int = row(
        "How long pods that hold GPUs may take to go, in seconds.",
        whole_number(1, DAY_SECONDS),
        DRAIN_SECONDS,
        key="drainTimeoutSeconds",
        doc="How long the pods of a node that hold GPUs may take to go, in seconds. All of them are evicted, also those without "
        "a controller, which nobody makes anew, and those with an emptyDir, whose data is lost.",
    )
    pods_that_stay: Kept = row(
        "Of pods that do not go in time: wait or stop.",
        one_of(_KEPT, "The operator evicts, and can delete nothing that a disruption budget keeps."),
        "stop",
        doc="What follows where they do not go in time: `wait` for them without an end, or `stop`: the node stays cordoned as "
        "`upgrade-failed` with its old driver, and no other node begins. The operator has no way to delete what a disruption "
        "budget keeps.",
    )
