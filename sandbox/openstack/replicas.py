"""How many machines a node group has under each of Magnum's drivers: its number, or what its limits make of it.

Source: vexxhost/magnum-cluster-api 3890a36. resources.py, mutate_machine_deployment: where the cluster's label
auto_scaling_enabled is on, the replicas of a worker group are left out, and its limits are annotations; utils.py,
get_node_group_max_node_count and get_cluster_label_as_bool. The chart values there set enforce-node-group-min-size, so the
autoscaler raises a group to its lower limit; nothing takes machines away for the upper one. That a new MachineDeployment
without replicas starts at the lower limit, and that one which lives keeps its number, is the defaulting webhook of kubernetes-
sigs/cluster-api (internal/webhooks/machinedeployment.go, calculateMachineDeploymentReplicas). Other drivers take the number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sandbox.openstack.marks import CLUSTER_API

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRUE: Final = frozenset({"1", "t", "true", "on", "y", "yes"})
_MOST: Final = "max_node_count"


def machines(driver: str, autoscaling: str, group: Mapping[str, Any], present: int | None) -> int:
    """How many machines a group is to have.

    Args:
        driver: Magnum's driver that is played.
        autoscaling: the cluster's label auto_scaling_enabled; empty where it has none.
        group: the row of the node group.
        present: how many machines it has; None for a new group.
    """
    if not goes_by_limits(driver, autoscaling) or group["role"] == "master":
        return int(group["node_count"])
    fewest, _ = limits(group)
    return fewest if present is None else max(present, fewest)


def goes_by_limits(driver: str, autoscaling: str) -> bool:
    """Whether the number that Magnum is asked for says nothing.

    Args:
        driver: Magnum's driver that is played.
        autoscaling: the cluster's label auto_scaling_enabled; empty where it has none.
    """
    return driver == CLUSTER_API and autoscaling.strip().lower() in _TRUE


def limits(group: Mapping[str, Any]) -> tuple[int, int]:
    """The limits that the driver writes for the autoscaler.

    Args:
        group: the row of the node group.
    """
    fewest, most = int(group.get("min_node_count") or 0), group.get(_MOST)
    return fewest, int(group["labels"].get(_MOST, fewest + 1) if most is None else most)
