"""A deploy fails at its end where a pool with a `count` has fewer nodes: over HTTP on loopback."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof import fixed_counts as component
from gpu_pools.components.proof.verification import Verification, Verifier
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.fixed_counts import fixed_counts, shortfalls, told
from tests.unit.stacks import aks, magnum, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.api_server import ApiServer

    from .conftest import Recorder

    Run = Callable[..., Recorder]

POOL: dict[str, Any] = {"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "s"}


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"p": "a"}}}


def daemon_set(ready: int) -> dict[str, Any]:
    return {"metadata": {"name": "gpu-pools-verifier-a", "labels": {}}, "status": {"numberReady": ready}}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(component, "log", SimpleNamespace(info=heard.append, warn=lambda text, _where: heard.append(text)))
    return heard


def config(reached: str, *, verified: bool = True, **pool: Any) -> dict[str, Any]:
    sections: dict[str, Any] = {
        "cluster": {"platform": "existing", "kubeconfigContent": reached},
        "sharing": {"s": {"timeSlicing": {"replicas": 4}}},
        "pools": [{**POOL, **pool}],
    }
    return {**sections, "verification": {}} if verified else sections


def deploy(run: Run, sections: Any, *, preview: bool = False) -> Recorder:
    return run(lambda: GpuPlatform("gpu", sections), preview=preview)


@pytest.mark.parametrize("verified", [False, True])
def test_a_node_that_is_missing_ends_the_deploy_with_its_pool_and_numbers(run: Run, api: ApiServer, *, verified: bool) -> None:
    api.items = {"nodes": [node("n1"), {"metadata": {"name": "other", "labels": {}}}], "daemonsets": []}
    with pytest.raises(pulumi.RunError) as caught:
        deploy(run, config(api.kubeconfig, verified=verified, count=2))
    text = str(caught.value)
    assert text.startswith("1 pool has fewer nodes than declared; everything else is deployed.\n")
    assert "gpu-pools:pools[0].count: pool a declares 2 nodes and has 1 (C16)" in text
    assert "present: n1" in text
    assert "kubectl get nodes -l p=a" in text


@pytest.mark.parametrize("declared", [{"count": 2}, {"count": 1}, {}, {"count": 0}])
def test_as_many_as_declared_or_more_end_it_well(run: Run, api: ApiServer, declared: dict[str, int]) -> None:
    api.items = {"nodes": [node("n1"), node("n2")], "daemonsets": []}
    deploy(run, config(api.kubeconfig, **declared))


def test_a_pool_whose_number_somebody_else_decides_is_not_looked_at(run: Run, api: ApiServer) -> None:
    api.items = {"nodes": [], "daemonsets": []}
    deploy(run, config(api.kubeconfig))
    assert not any("labelSelector" in path for path in api.asked)


def test_a_preview_ends_well(run: Run, api: ApiServer) -> None:
    api.items = {"nodes": [], "daemonsets": []}
    deploy(run, config(api.kubeconfig, count=2), preview=True)


def test_a_cluster_that_does_not_answer_is_no_missing_node(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items = {"nodes": 503}
    deploy(run, config(api.kubeconfig, count=2))
    assert any("whether all declared nodes are in the cluster is not known" in text for text in said)


def _joins(monkeypatch: pytest.MonkeyPatch, api: ApiServer, ready: int) -> None:
    """The second node joins once somebody has said that it is waited for."""
    api.items = {"nodes": [node("n1")], "daemonsets": [daemon_set(1)]}
    monkeypatch.setattr(component, "_seconds", lambda _plan: 0.5)

    def join(*_said: object) -> None:
        api.items = {"nodes": [node("n1"), node("n2")], "daemonsets": [daemon_set(ready)]}

    # Not in the module that all components share: others say something before.
    monkeypatch.setattr(component, "log", SimpleNamespace(info=join))


def test_a_node_that_joins_meanwhile_is_waited_for_with_its_proof(
    run: Run, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _joins(monkeypatch, api, ready=2)
    deploy(run, config(api.kubeconfig, count=2))


def test_one_whose_proof_does_not_come_ends_the_deploy(run: Run, api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    _joins(monkeypatch, api, ready=1)
    with pytest.raises(pulumi.RunError, match="nodes of a came late and are not verified yet"):
        deploy(run, config(api.kubeconfig, count=2))


def test_a_verification_of_ones_own_program_looks_as_well(run: Run, api: ApiServer) -> None:
    api.items = {"nodes": [], "daemonsets": []}
    sections = {f"gpu-pools:{key}": value for key, value in config(api.kubeconfig, count=1).items()}

    def program() -> None:
        verifier = Verifier("v", {})
        args: Any = {"pool": "a", "program": verifier.program, "config": sections, "kubeconfig": api.kubeconfig}
        Verification("a", args, pulumi.ResourceOptions(depends_on=[verifier]))

    with pytest.raises(pulumi.RunError, match="pool a declares 1 nodes and has 0"):
        run(program)


@pytest.mark.parametrize(
    ("stack", "commands"),
    [
        (aks({"count": 2}), ["az aks nodepool show --resource-group"]),
        (magnum({"count": 2}, cluster={"driver": "heat"}), ["openstack coe nodegroup show", "pulumi refresh --target"]),
    ],
)
def test_the_remedy_names_the_command_that_shows_what_the_cloud_has(stack: str, commands: list[str]) -> None:
    counts = fixed_counts(plan_of(stack))
    nodes: Mapping[str, list[str]] = {}
    text = told(shortfalls(counts, nodes))
    assert all(command in text for command in commands)
    assert "present: none" in text
    scaled = aks({"count": ..., "nodes": {"min": 2, "max": 3}})
    assert fixed_counts(plan_of(scaled)) == ()


def test_all_pools_are_told_together() -> None:
    sections = config("x", count=1)
    sections["pools"].append({**POOL, "name": "b", "nodeSelector": {"p": "b"}, "count": 3})
    plan = plan_config({f"gpu-pools:{key}": value for key, value in sections.items()})
    text = told(shortfalls(fixed_counts(plan), {"b": ["n1", "n2"]}))
    assert text.startswith("2 pools have fewer nodes than declared")
    assert "pool b declares 3 nodes and has 2" in text
