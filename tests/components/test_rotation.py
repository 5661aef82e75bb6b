"""A pool with `replace: surge` as it is registered: names by which old and new stand beside each other, and what drains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from components.aks import AksGpuNodePool
from components.platform import GpuPlatform
from components.verification import Verification
from gpu_pools.stack.kubernetes_names import GENERATION_LABEL, POOL_LABEL
from gpu_pools.text.errors import InvalidStackError

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


def test_another_generation_is_another_resource_under_another_name_in_azure(run: Run) -> None:
    made = {size: deployed(run, vmSize=size).one("AgentPool") for size in (A100, T4)}
    for pool in made.values():
        digits = pool.inputs["nodeLabels"][GENERATION_LABEL]
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
    assert _aliases(recorded.options(pool.name)) == {f"gpu-serving-pool-{pool.inputs['nodeLabels'][GENERATION_LABEL]}"}
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


def _aliases(options: Any) -> set[str]:
    """Other names; the SDK of azure-native adds other types."""
    return {alias.spec.name for alias in options.aliases} - {""}
