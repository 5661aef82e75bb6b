"""A pool with `replace: surge` as it is registered: names by which old and new stand beside each other, and what drains."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.aks.cluster import AksGpuNodePool
from gpu_pools.components.magnum.cluster import MagnumGpuNodePool
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof.verification import Verification
from gpu_pools.components.replacement import _Hook
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import aks, pool_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

A100, T4 = "Standard_NC24ads_A100_v4", "Standard_NC4as_T4_v3"


def config(**pool: Any) -> Any:
    return {
        "cluster": {"platform": "aks", "name": "c", "location": "westeurope", "checkCloud": False, "systemPool": SYSTEM},
        "sharing": {"slices": {"timeSlicing": {"replicas": 4}}},
        "pools": [{"name": "serving", "vmSize": A100, "count": 1, "sharing": "slices", **pool}],
        "verification": {},
    }


SYSTEM = {"vmSize": "Standard_D4s_v5", "count": 1}


def deployed(run: Run, **pool: Any) -> Recorder:
    return run(lambda: GpuPlatform("gpu", config(**{"replace": "surge", **pool})))


def test_a_replacement_is_another_resource_under_another_name_in_azure(run: Run) -> None:
    made = {size: deployed(run, vmSize=size).one("AgentPool") for size in (A100, T4)}
    for pool in made.values():
        digits = pool.inputs["nodeLabels"][REPLACEMENT_LABEL]
        assert pool.name == f"gpu-serving-pool-{digits}"
        assert pool.inputs["agentPoolName"] == f"servin{digits}"
        assert pool.inputs["nodeLabels"][POOL_LABEL] == "serving"
    assert len({pool.name for pool in made.values()}) == 2


def test_one_that_was_there_before_stays_it_and_keeps_its_name_in_azure(run: Run) -> None:
    recorded = deployed(run)
    (pool,) = recorded.of("AgentPool")
    options = recorded.options(pool.name)
    assert _aliases(options) == {"gpu-serving-pool"}
    assert "agentPoolName" in options.ignoreChanges


def test_a_pool_without_it_is_as_it_was(run: Run) -> None:
    recorded = run(lambda: GpuPlatform("gpu", config()))
    options = recorded.options("gpu-serving-pool")
    assert (_aliases(options), list(options.ignoreChanges)) == (set(), [])
    assert [one.name for one in recorded.of("ConfigMap") if one.name.endswith(("-wanted", "-emptied"))] == []


def test_the_old_nodes_are_emptied_after_the_proof_of_the_new_ones(run: Run) -> None:
    recorded = deployed(run)
    wanted, emptied = (f"gpu-serving-verification-{which}" for which in ("wanted", "emptied"))
    assert list(recorded.options(wanted).hooks.before_update) == ["gpu-serving-verification-given-back"]
    hooks = recorded.options(emptied).hooks
    assert list(hooks.before_create) == list(hooks.before_update) == [emptied]
    # No hook of a deletion: with one in its state the engine would ask each destroy for the program.
    (pool,) = recorded.of("AgentPool")
    assert not any(recorded.options(name).hooks.before_delete for name in (pool.name, wanted, emptied))
    assert "gpu-serving-verification-verifier" in recorded.depends_on(emptied)


def test_in_place_they_are_emptied_before_the_pool_is_another(run: Run) -> None:
    recorded = deployed(run, replace="inPlace")
    (pool,) = recorded.of("AgentPool")
    assert (pool.name, pool.inputs["agentPoolName"]) == ("gpu-serving-pool", "serving")
    assert _aliases(recorded.options(pool.name)) == {f"gpu-serving-pool-{pool.inputs['nodeLabels'][REPLACEMENT_LABEL]}"}
    assert recorded.options(pool.name).deleteBeforeReplace
    assert "gpu-serving-emptied" in recorded.depends_on(pool.name)
    assert list(recorded.options("gpu-serving-emptied").hooks.before_update) == ["gpu-serving-emptied"]
    assert [one.name for one in recorded.of("ConfigMap") if "verification-emptied" in one.name] == []


def test_in_place_and_by_itself_nothing_drains_it(run: Run) -> None:
    declared: Any = {"name": "nb", "vm_size": A100, "count": 2, "sharing": {"exclusive": {}}, "replace": "inPlace"}
    args: Any = {"cluster_name": "c", "resource_group_name": "g", "pool": declared}
    with pytest.raises(InvalidStackError, match="does not know how to reach its cluster"):
        run(lambda: AksGpuNodePool("nb", args))


def test_who_cannot_reach_the_cluster_cannot_drain(run: Run) -> None:
    args: Any = {"pool": "serving", "program": "verifier-1", "config": config(replace="surge")}
    with pytest.raises(InvalidStackError, match="nobody said how to reach the cluster, to drain the old pool"):
        run(lambda: Verification("v", args))


def test_a_pool_of_which_nothing_says_who_proves_and_drains_it_is_refused(run: Run) -> None:
    declared: Any = {"name": "nb", "vm_size": A100, "count": 2, "sharing": {"exclusive": {}}, "replace": "surge"}
    args: Any = {"cluster_name": "c", "resource_group_name": "g", "pool": declared}
    with pytest.raises(InvalidStackError, match='"surge" needs the verification'):
        run(lambda: AksGpuNodePool("nb", args))


def test_pods_go_to_a_replacement_that_is_new_here_only_once_a_node_of_it_is_proven(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes back was proven when it came; and in place there is none before."""
    asked: list[bool] = []
    monkeypatch.setattr("gpu_pools.components.replacement.Emptying.run", lambda emptying: asked.append(emptying.proven))
    monkeypatch.setattr("gpu_pools.components.replacement.cluster_at", lambda *_: None)
    for way in ("surge", "inPlace"):
        pool_plan = pool_of(aks({"replace": way}, verification={}))
        made: list[pulumi.ResourceHook] = []
        run(lambda pool_plan=pool_plan, made=made: made.append(_Hook(pool_plan, ("kubeconfig", None)).empty("n")))
        for last in (None, "another", pool_plan.replacement_id):
            before = None if last is None else {"data": {"generation": last}}
            called: Any = made[0].callback(pulumi.ResourceHookArgs("urn", "", "n", "ConfigMap", None, before))
            asyncio.run(called)
    assert asked == [False, True, False, False, False, False]


def magnum(**pool: Any) -> Any:
    return {
        "cluster": {"platform": "magnum", "name": "c", "driver": "heat", "templateId": TEMPLATE, "checkCloud": False},
        "flavors": {name: {"gpuModel": "a30", "gpusPerNode": 1} for name in ("one", "two")},
        "sharing": {"slices": {"timeSlicing": {"replicas": 4}}},
        "pools": [
            {"name": "first", "flavor": "one", "count": 1, "sharing": "slices", "replace": "surge"},
            {"name": "serving", "flavor": "one", "count": 1, "sharing": "slices", "replace": "surge", **pool},
        ],
        "verification": {},
    }


TEMPLATE = "7e0b4d1c-6f0e-4b0a-9a57-0c6f1f5b3a11"


def groups(run: Run, **pool: Any) -> Recorder:
    return run(lambda: GpuPlatform("gpu", magnum(**pool)))


def test_on_magnum_a_replacement_is_another_group_with_a_rule_and_a_labeller_of_its_own(run: Run) -> None:
    made = {}
    for flavor in ("one", "two"):
        recorded = groups(run, flavor=flavor)
        (group,) = [one for one in recorded.of("NodeGroup") if one.name.startswith("gpu-serving")]
        digits = group.name.rpartition("-")[2]
        assert (group.name, group.inputs["name"]) == (f"gpu-serving-group-{digits}", f"serving-{digits}")
        options = recorded.options(group.name)
        assert (_aliases(options), list(options.ignoreChanges)) == ({"gpu-serving-group"}, ["name"])
        # Nodes keep their labels until the group is gone; and no two groups are made at the same time.
        assert f"gpu-serving-rule-{digits}" in recorded.depends_on(group.name)
        assert "first" in str(recorded.depends_on(group.name))
        marker = recorded.one("DaemonSet", f"gpu-serving-labels-marker-{digits}")
        label = {"magnum.openstack.org/nodegroup": f"serving-{digits}"}
        assert marker.inputs["spec"]["template"]["spec"]["nodeSelector"] == label
        verifier = recorded.one("DaemonSet", "gpu-serving-verification-verifier")
        assert verifier.inputs["spec"]["template"]["spec"]["nodeSelector"] == label
        made[digits] = {one.name for one in recorded.of("NodeFeatureRule")}
    first, second = made.values()
    assert len(first | second) == 3, "one of the pool that stays, and one of each generation"


def test_on_magnum_in_place_it_is_emptied_before_it_is_another(run: Run) -> None:
    recorded = groups(run, replace="inPlace")
    (group,) = [one for one in recorded.of("NodeGroup") if one.name.startswith("gpu-serving")]
    assert (group.name, group.inputs["name"]) == ("gpu-serving-group", "serving")
    assert "gpu-serving-emptied" in recorded.depends_on(group.name)


@pytest.mark.parametrize("way", ["surge", "inPlace"])
def test_a_group_by_itself_has_nobody_who_knows_its_name(run: Run, way: str) -> None:
    declared: Any = {"name": "nb", "flavor": "one", "count": 2, "sharing": {"exclusive": {}}, "replace": way}
    flavor: Any = {"gpu_model": "a30", "gpus_per_node": 1}
    args: Any = {"cluster_id": "c", "magnum_driver": "heat", "pool": declared, "flavor": flavor}
    with pytest.raises(InvalidStackError, match="replace"):
        run(lambda: MagnumGpuNodePool("nb", args))


def test_nor_has_a_verification_by_itself(run: Run) -> None:
    args: Any = {"pool": "serving", "program": "verifier-1", "config": magnum(), "kubeconfig": "k"}
    with pytest.raises(InvalidStackError, match="told apart by their group's name, which nobody said"):
        run(lambda: Verification("v", args))


def _aliases(options: Any) -> set[str]:
    """Other names. An alias without one would be of another type, which the SDK of azure-native adds."""
    return {alias.spec.name for alias in options.aliases}
