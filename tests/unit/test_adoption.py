"""An operator or an NFD that a cluster has already: what is changed of it, and what the plan says that it cannot know."""

from __future__ import annotations

import pytest

from gpu_pools.plan.adoption import cluster_policy_changes
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.yaml_text import load_yaml
from tests.unit.stacks import aks, existing, magnum, plan_of, pool_of

ADOPTED = {"install": False}
MIXED = {"cut": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}}


def test_only_what_the_plan_decides_is_changed_of_a_cluster_policy() -> None:
    plan = plan_of(existing(operator={**ADOPTED, "driver": "preinstalled"}, sharing=MIXED))
    changes = cluster_policy_changes(plan.operator_values)
    assert set(changes) == {"daemonsets", "driver", "toolkit", "mig", "devicePlugin", "migManager"}
    assert changes["driver"] == changes["toolkit"] == {"enabled": False}
    assert changes["mig"] == {"strategy": "mixed"}
    assert changes["devicePlugin"] == {
        "config": {"name": "gpu-pools-device-plugin", "default": plan.default_config_key},
    }
    assert set(changes["migManager"]) == {"enabled", "config"}
    assert changes["migManager"]["config"] == {"name": "gpu-pools-mig-parted", "default": "all-disabled"}


@pytest.mark.parametrize("stack", [aks(), magnum(), existing(), existing(operator={"install": True})])
def test_an_operator_is_installed_unless_the_stack_says_that_there_is_one(stack: str) -> None:
    plan = plan_of(stack)
    assert not plan.settings.operator.adopted
    assert not plan.settings.nfd.adopted


@pytest.mark.parametrize("install", [True, False])
def test_on_capi_helm_a_deploy_goes_on_once_both_are_said(install: bool) -> None:  # noqa: FBT001
    said = {"install": install}
    stack = magnum(cluster={"driver": "capi-helm"}, operator=said, nodeFeatureDiscovery=said)
    plan = plan_config(load_yaml(stack)["config"], complete=True)
    assert plan.settings.operator.adopted is not install
    assert plan.settings.nfd.adopted is not install


def test_what_operands_of_another_owner_know_is_not_taken_for_granted() -> None:
    text = " ".join(pool_of(existing(operator=ADOPTED, sharing={"inf": {"mps": {"replicas": 4}}})).warnings)
    assert "the operator that is there must bring devicePlugin 0.15.0 or newer" in text
    small = {"gpuModel": "a100-40gb"}
    cut = {"cut": {"mig": {"layout": {"1g.10gb": 4}}}}
    mig = " ".join(pool_of(existing(small, operator=ADOPTED, sharing=cut)).warnings)
    assert "whether the operator that is there installs it cannot be checked" in mig
    minimum = existing({"minimum": {"driver": "570.124.06"}}, operator=ADOPTED, verification={})
    assert "the operator installs driver of a version that no source gives" in " ".join(pool_of(minimum).warnings)


@pytest.mark.parametrize(("driver", "said"), [("capi-helm", True), ("magnum-cluster-api", True), ("heat", False)])
def test_taints_that_an_nfd_of_another_owner_may_not_set_are_warned_of(driver: str, said: bool) -> None:  # noqa: FBT001
    stack = magnum({"taints": ["nvidia.com/gpu=true:NoSchedule"]}, cluster={"driver": driver}, nodeFeatureDiscovery=ADOPTED)
    assert ("master.enableTaints" in " ".join(pool_of(stack).warnings)) is said


def test_taints_are_nobody_s_matter_where_the_stack_s_own_nfd_sets_them_or_there_are_none() -> None:
    capi = {"cluster": {"driver": "capi-helm"}}
    tainted = {"taints": ["nvidia.com/gpu=true:NoSchedule"]}
    for stack in (magnum(tainted, **capi), magnum(**capi, nodeFeatureDiscovery=ADOPTED)):
        assert "master.enableTaints" not in " ".join(pool_of(stack).warnings)


@pytest.mark.parametrize("stack", [aks({"adopted": True}), magnum({"adopted": True})])
def test_nobody_else_can_have_made_a_pool_in_a_cluster_that_the_stack_makes(stack: str) -> None:
    with pytest.raises(InvalidStackError) as caught:
        plan_config(load_yaml(stack)["config"])
    (problem,) = [one for one in caught.value.problems if one.path.endswith(".adopted")]
    assert problem.message.startswith("true, and the stack makes the cluster")
