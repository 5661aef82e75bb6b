"""What the nodes show is compared with the plan to the unit, however the API writes it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gpu_pools.plan.planning import plan_config
from sandbox.cli.observe import AS_IT_IS, observe, report_json, report_table

#: The API server writes a whole number of thousands with a suffix: 8 GPUs x 125 replicas are 1k.
CONFIG: Final[dict[str, object]] = {
    "gpu-pools:cluster": {
        "platform": "aks",
        "name": "dev",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    },
    "gpu-pools:sharing": {"many": {"timeSlicing": {"replicas": 125}}},
    "gpu-pools:pools": [{"name": "nb", "vmSize": "Standard_ND96asr_v4", "count": 1, "sharing": "many"}],
}


def differences(allocatable: dict[str, str]) -> tuple[str, ...]:
    plan = plan_config(CONFIG)
    [pool_plan] = plan.pools
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in pool_plan.taints]
    node: dict[str, Any] = {
        "metadata": {"name": "n", "labels": {"kubernetes.azure.com/agentpool": "nb", **pool_plan.labels, **pool_plan.gfd_labels}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "1930m", "memory": "28Gi", **allocatable}},
    }
    [pool] = observe(plan, [node], verifiers_run=True)
    [seen] = pool.nodes
    return seen.differences


@pytest.mark.parametrize("quantity", ["1k", "1000"])
def test_thousands_are_read(quantity: str) -> None:
    assert differences({"nvidia.com/gpu": quantity}) == ()


@pytest.mark.parametrize(
    ("allocatable", "difference"),
    [
        ({"nvidia.com/gpu": "999"}, "gpu 999 instead of 1000"),
        ({"nvidia.com/gpu": "1M"}, "gpu 1000000 instead of 1000"),
        ({"nvidia.com/gpu": "0"}, "gpu 0 instead of 1000"),
        ({"nvidia.com/gpu": "1k", "nvidia.com/gpu.shared": "1"}, "gpu.shared 1 instead of 0"),
    ],
)
def test_one_too_few_or_too_many_differs(allocatable: dict[str, str], difference: str) -> None:
    assert differences(allocatable) == (difference,)


def test_a_pool_that_is_only_held_is_compared_by_what_it_has_itself() -> None:
    """How it is to share is written for later; its own labels and taints, and a node that is away, are not."""
    pool = {
        "name": "nb",
        "vmSize": "Standard_ND96asr_v4",
        "count": 2,
        "sharing": "many",
        "adopted": True,
        "labels": {"team": "ml"},
    }
    existing = {"platform": "aks", "existing": {"resourceGroup": "rg", "name": "platform"}}
    plan = plan_config({**CONFIG, "gpu-pools:cluster": existing, "gpu-pools:adoption": "imported", "gpu-pools:pools": [pool]})
    labels = {
        "kubernetes.azure.com/agentpool": "nb",
        "team": "ml",
        "nvidia.com/mig.config": "x",
        "nvidia.com/mig.config.state": "failed",
    }
    node: dict[str, Any] = {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": "3"}}}
    other = {**node, "metadata": {"name": "o", "labels": {**labels, "team": "ops"}}}
    (seen,) = observe(plan, [node, other], verifiers_run=True)
    assert [one.differences for one in seen.nodes] == [(), ("label team=ops instead of ml",)]
    assert AS_IT_IS in report_table([seen])
    assert report_json([seen])[0]["expected"] == {}
    (lacking,) = observe(plan, [node], verifiers_run=True)
    assert not lacking.holds


# --- pools whose GPUs pods get through resource claims -----------------------------------------------------------


def by_claims(devices: list[dict[str, Any]], allocatable: dict[str, str] | None = None) -> tuple[Any, tuple[str, ...]]:
    """What is seen of a node with claims: resources, and differences."""
    pool = {"name": "nb", "gpuModel": "h100-80gb", "gpusPerNode": 2, "nodeSelector": {"p": "nb"}, "sharing": "four"}
    sharing = {"four": {"timeSlicing": {"replicas": 4}}}
    cluster = {"platform": "existing", "allocation": "dra"}
    plan = plan_config({"gpu-pools:cluster": cluster, "gpu-pools:sharing": sharing, "gpu-pools:pools": [pool]})
    (pool_plan,) = plan.pools
    node = {
        "metadata": {"name": "n", "labels": {"p": "nb", **pool_plan.labels, **pool_plan.gfd_labels}},
        "spec": {},
        "status": {"allocatable": allocatable or {}},
    }
    slices = [{"spec": {"driver": "gpu.nvidia.com", "nodeName": "n", "devices": devices}}]
    others = (("x", "n"), ("gpu.nvidia.com", "m"))
    slices += [{"spec": {"driver": driver, "nodeName": name, "devices": devices}} for driver, name in others]
    ((seen,),) = (one.nodes for one in observe(plan, [node], verifiers_run=True, slices=slices))
    return dict(seen.allocatable), seen.differences


def a_device(shares: str | None, kind: str = "gpu") -> dict[str, Any]:
    found: dict[str, Any] = {"name": "gpu", "attributes": {"type": {"string": kind}}}
    return found | ({"allowMultipleAllocations": True, "capacity": {"shares": {"value": shares}}} if shares else {})


def test_what_the_driver_announces_of_this_node_is_compared() -> None:
    assert by_claims([a_device("4"), a_device("4")]) == ({"nvidia.com/gpu": 8}, ())


@pytest.mark.parametrize(
    ("devices", "allocatable", "difference"),
    [
        ([a_device("4")], {}, "gpu 4 instead of 8"),
        ([a_device(None), a_device(None)], {}, "gpu 2 instead of 8"),
        ([], {}, "gpu 0 instead of 8"),
        ([a_device("4"), a_device("4")], {"nvidia.com/gpu": "2"}, "gpu 2 instead of 0"),
        ([a_device("4"), a_device("4"), a_device(None, "vfio")], {}, "device vfio 1 instead of 0"),
    ],
)
def test_other_devices_and_what_the_device_plugin_left_differ(
    devices: list[dict[str, Any]], allocatable: dict[str, str], difference: str
) -> None:
    assert by_claims(devices, allocatable)[1] == (difference,)
