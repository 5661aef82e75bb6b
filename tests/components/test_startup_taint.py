"""The startup taint as it is registered: there before the pools, one binding each, and never among a pool's own taints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.components.gpu_operator.startup_taint import StartupTaint
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.pools import ExistingPool
from gpu_pools.rendering.startup_taint import POLICY, STARTUP_TAINT
from gpu_pools.text.errors import InvalidStackError

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

SHARING = {"whole": {"exclusive": {}}}
VERIFIED = {"startupTaint": True}
SYSTEM_POOL = {"vmSize": "Standard_D4s_v5", "count": 1}
AKS: dict[str, Any] = {
    "cluster": {
        "platform": "aks", "name": "g", "location": "westeurope", "kubernetesVersion": "1.36", "systemPool": SYSTEM_POOL,
    },
    "sharing": SHARING,
    "pools": [
        {"name": name, "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole", "taints": ["sku=gpu:NoSchedule"]}
        for name in ("a", "b")
    ],
    "verification": VERIFIED,
}  # fmt: skip
MAGNUM: dict[str, Any] = {
    "cluster": {"platform": "magnum", "name": "g", "driver": "heat", "templateId": "t"},
    "flavors": {"g2": {"gpuModel": "a100-40gb", "gpusPerNode": 1}},
    "sharing": SHARING,
    "pools": [{"name": "a", "flavor": "g2", "count": 1, "sharing": "whole"}],
    "verification": VERIFIED,
}
EXISTING: dict[str, Any] = {
    "cluster": {"platform": "existing"},
    "sharing": SHARING,
    "pools": [{"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "whole"}],
    "verification": VERIFIED,
}


@pytest.fixture
def deploy(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Recorder]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return lambda settings: run(lambda: GpuPlatform("gpu", settings))  # type: ignore[arg-type]


def selectors(recorded: Recorder) -> dict[str, Any]:
    """Binding -> the labels of its nodes."""
    bindings = [one.inputs for one in recorded.of(":MutatingAdmissionPolicyBinding")]
    assert {one["spec"]["policyName"] for one in bindings} <= {POLICY}
    return {one["metadata"]["name"]: one["spec"]["matchResources"]["objectSelector"]["matchLabels"] for one in bindings}


def test_on_aks_the_api_server_taints_the_nodes_of_each_pool(deploy: Any) -> None:
    recorded = deploy(AKS)
    assert recorded.one(":MutatingAdmissionPolicy").inputs["metadata"]["name"] == POLICY
    assert selectors(recorded) == {f"{POLICY}-{pool}": {"kubernetes.azure.com/agentpool": pool} for pool in ("a", "b")}


def test_it_is_there_before_the_first_node(deploy: Any) -> None:
    recorded = deploy(AKS)
    for pool in recorded.of(":AgentPool"):
        assert {"gpu-startup-taint-policy", "gpu-startup-taint-a-binding"} <= recorded.depends_on(pool.name)


def test_it_is_no_taint_of_the_agent_pool_since_nobody_could_take_it_away(deploy: Any) -> None:
    for pool in deploy(AKS).of(":AgentPool"):
        assert pool.inputs["nodeTaints"] == ["sku=gpu:NoSchedule"]


def test_heat_s_kubelets_bring_it_themselves(deploy: Any) -> None:
    recorded = deploy(MAGNUM)
    (group,) = recorded.of(":NodeGroup")
    assert STARTUP_TAINT.key in group.inputs["labels"]["kubelet_options"]
    assert selectors(recorded) == {}


def test_on_an_existing_cluster_the_user_s_selector_tells_the_nodes(deploy: Any) -> None:
    assert selectors(deploy(EXISTING)) == {f"{POLICY}-a": {"p": "a"}}


@pytest.mark.parametrize("verification", [{}, {"enabled": False, "startupTaint": True}], ids=str)
def test_unasked_there_is_none(deploy: Any, verification: dict[str, Any]) -> None:
    assert not deploy({**AKS, "verification": verification}).of(":MutatingAdmissionPolicy")


def test_alone_it_takes_sections_of_a_stack_file(run: Run) -> None:
    recorded = run(lambda: StartupTaint("t", {"config": EXISTING}))
    assert selectors(recorded) == {f"{POLICY}-a": {"p": "a"}}


def pool() -> ExistingPool:
    given: Any = {
        "name": "a",
        "node_selector": {"p": "a"},
        "gpu_model": "NVIDIA A10",
        "gpus_per_node": 1,
        "sharing": SHARING["whole"],
    }
    return ExistingPool("a", given)


@pytest.mark.parametrize("by_operator", [False, True])
def test_who_was_not_told_of_it_would_never_start_so_that_is_refused(run: Run, *, by_operator: bool) -> None:
    def program() -> None:
        if by_operator:
            StartupTaint("t", {}, operator=GpuOperator("o", {"pools": [pool()]}))
        else:
            StartupTaint("t", {"pools": [pool()]})

    with pytest.raises(InvalidStackError) as refused:
        run(program)
    (problem,) = refused.value.problems
    assert problem.path == "StartupTaint(t).config.verification.startupTaint"
    assert "GpuOperator" in problem.remedy


def test_of_an_operator_it_takes_the_plan(run: Run) -> None:
    sections: Any = {"verification": {"startup_taint": True}}

    def program() -> None:
        StartupTaint("t", {}, operator=GpuOperator("o", {"pools": [pool()], "config": sections}))

    assert selectors(run(program)) == {f"{POLICY}-a": {"p": "a"}}
