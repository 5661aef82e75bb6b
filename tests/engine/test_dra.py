"""Resource claims by the real engine, with NVIDIA's DRA driver on the nodes and the real scheduler: the stack byo-dra.

The tests share the stack, and run in the order in which they are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.engine.fleet import Fleet
from tests.engine.marks import ON_NODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = ON_NODES

STACK: Final = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.byo-dra.yaml"
PODS: Final = "/api/v1/namespaces/default/pods"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
DAEMON_SETS: Final = "/apis/apps/v1/namespaces/dra-driver-nvidia-gpu/daemonsets"
NODES: Final = ("none", "time-sliced-4", "mig", "device-plugin")
#: (pool, what its pods ask for) -> how many of them a node of the pool takes.
FITTING: Final = {
    ("none", "nvidia.com/gpu"): 2,
    ("time-sliced-4", "nvidia.com/gpu"): 8,
    ("mig", "nvidia.com/mig-1g.10gb"): 3,
    ("mig", "nvidia.com/mig-2g.20gb"): 2,
    ("device-plugin", "nvidia.com/gpu"): 4,
}


@pytest.fixture(scope="module")
def fleet(shared_sandbox: Callable[..., Trial]) -> Fleet:
    trial = shared_sandbox(STACK.read_text(encoding="utf-8").replace("context: byo-dra", "context: small"))
    trial.up().ok()
    return Fleet(trial)


def pod(name: str, pool: str, resource: str) -> dict[str, Any]:
    """A pod as people have it: it knows nothing of claims."""
    container = {"name": "main", "image": "busybox:1.37", "resources": {"limits": {resource: 1}}}
    spec = {"nodeSelector": {"gpu-pools/pool": pool}, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def phases(fleet: Fleet) -> dict[str, str]:
    return {one["metadata"]["name"]: one["status"].get("phase", "") for one in fleet.api.list(PODS)["items"]}


def devices(fleet: Fleet, node: str) -> int:
    """How many devices the driver announces of a node."""
    found = [one["spec"] for one in fleet.api.list(SLICES)["items"] if one["spec"].get("nodeName") == node]
    return sum(len(one.get("devices", [])) for one in found)


def test_every_node_announces_what_is_declared_and_is_proven(fleet: Fleet) -> None:
    assert fleet.trial.holds()
    assert [devices(fleet, f"{pool}-0") for pool in NODES] == [2, 2, 5, 0]
    fleet.all_green()


def test_as_many_unchanged_pods_run_as_are_declared_and_one_more_waits(fleet: Fleet) -> None:
    wanted = {
        f"{pool}-{resource.rpartition('/')[2].replace('.', '-')}-{number}": (pool, resource)
        for (pool, resource), fitting in FITTING.items()
        for number in range(fitting + 1)
    }
    for name, (pool, resource) in wanted.items():
        fleet.api.create(PODS, pod(name, pool, resource))
    total = sum(FITTING.values())
    fleet.trial.wait_until(lambda: list(phases(fleet).values()).count("Running") == total, "all that fit run", 180)
    waiting = [name for name, phase in phases(fleet).items() if phase == "Pending"]
    # One of each kind; which of them is the scheduler's choice.
    assert {wanted[name] for name in waiting} == {*FITTING}
    assert len(waiting) == len(FITTING)
    allocated = [one for one in fleet.api.list(CLAIMS)["items"] if one.get("status", {}).get("allocation")]
    assert len(allocated) == total - FITTING["device-plugin", "nvidia.com/gpu"]


def test_what_ends_gives_its_devices_back(fleet: Fleet) -> None:
    for name in phases(fleet):
        fleet.api.delete(f"{PODS}/{name}")
    fleet.trial.wait_until(lambda: not fleet.api.list(PODS)["items"], "all pods are gone", 120)
    fleet.trial.wait_until(lambda: not fleet.api.list(CLAIMS)["items"], "all claims are gone", 120)


def test_a_second_update_changes_nothing(fleet: Fleet) -> None:
    before = fleet.api.list(SLICES)["items"]
    assert "unchanged" in fleet.trial.up().ok().text
    assert [one["metadata"]["uid"] for one in fleet.api.list(SLICES)["items"]] == [one["metadata"]["uid"] for one in before]


def test_another_number_of_shares_is_another_daemon_set_and_is_proven(fleet: Fleet) -> None:
    fleet.trial.edit(lambda config: config["gpu-pools:sharing"].__setitem__("time-sliced-4", {"timeSlicing": {"replicas": 2}}))
    fleet.trial.edit(lambda config: config["gpu-pools:pools"][3].__setitem__("sharing", "none"))
    fleet.trial.up().ok()
    assert fleet.trial.holds()
    names = {
        one["metadata"]["name"] for one in fleet.api.list("/apis/apps/v1/namespaces/dra-driver-nvidia-gpu/daemonsets")["items"]
    }
    assert names == {"dra-driver-nvidia-gpu-kubelet-plugin", "dra-driver-nvidia-gpu-kubelet-plugin-shares-2"}


def test_a_pool_goes_back_to_the_device_plugin_and_leaves_nothing_of_claims(fleet: Fleet) -> None:
    fleet.trial.edit(lambda config: config["gpu-pools:cluster"].__setitem__("allocation", "devicePlugin"))
    fleet.trial.up().ok()
    assert fleet.trial.holds()
    fleet.trial.wait_until(lambda: not fleet.api.list(SLICES)["items"], "the driver's devices are gone", 120)
    assert not fleet.api.list(CLASSES)["items"]
    drivers = {node["metadata"]["labels"].get("gpu-pools/dra-driver") for node in fleet.trial.nodes()}
    assert drivers == {"none", None}, "workers have no such label"
