"""The startup taint: a workload waits until the verifier has passed its node, and stays out where the node differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.proof.verifier_rights import CONDITION, STARTUP_TAINT
from tests.engine.marks import ON_NODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = ON_NODES

#: No driver knows that CUDA version: the node differs for as long as it is asked for.
STACK: Final = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: gated
    location: westeurope
    kubernetesVersion: "1.36"
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing: {sliced: {timeSlicing: {replicas: 4}}}
  gpu-pools:verification: {startupTaint: true}
  gpu-pools:pools:
    - {name: ts, vmSize: Standard_NC4as_T4_v3, nodes: {min: 0, max: 1}, sharing: sliced, minimum: {cuda: "99.9"}}
"""
PODS: Final = "/api/v1/namespaces/default/pods"
POD: Final = {
    "metadata": {"name": "training"},
    "spec": {"containers": [{"name": "main", "image": "cuda", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}


def _node(trial: Trial) -> Any:
    nodes = trial.nodes("ts")
    return nodes[0] if nodes else None


def _verdict(trial: Trial) -> str | None:
    conditions = (_node(trial) or {}).get("status", {}).get("conditions", [])
    return next((str(one["status"]) for one in conditions if one["type"] == CONDITION), None)


def _tainted(trial: Trial) -> bool:
    return STARTUP_TAINT in {taint["key"] for taint in _node(trial)["spec"].get("taints", [])}


def _phase(trial: Trial) -> str:
    return str(trial.get(f"{PODS}/training")["status"]["phase"])


def _ask_for_less(config: dict[str, Any]) -> None:
    config["gpu-pools:pools"][0]["minimum"] = {"cuda": "12.0"}


def test_a_workload_waits_for_the_pass_of_its_node(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    trial.up().ok()
    trial.api().create(PODS, POD)
    trial.scale("ts", 1)
    trial.wait_until(lambda: _verdict(trial) == "False", "the verifier's verdict on the node", seconds=120)
    assert _node(trial)["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert _tainted(trial)
    assert _phase(trial) == "Pending"

    trial.edit(_ask_for_less)
    trial.up().ok()
    trial.wait_until(lambda: _phase(trial) == "Running", "the workload on its node")
    assert not _tainted(trial)
    assert _verdict(trial) == "True"

    # As one whose removal failed: it has no business on a node that holds, so the watch takes it away.
    node = _node(trial)
    taint = {"key": STARTUP_TAINT, "effect": "NoSchedule"}
    trial.api().patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": [taint]}})
    trial.engine("preview", "--expect-no-changes").ok()
    trial.wait_until(lambda: not _tainted(trial), "the watch that removes the taint")
    assert _phase(trial) == "Running"
