"""Pools with ``replace: surge``: which changes make another pool, what it is called, and which nodes are whose."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.placing import pool_called, pool_selector
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from tests.unit.stacks import GONE, T4, aks, magnum, plan_of

SURGE: Any = {"replace": "surge"}
SCALED: Any = {"count": GONE, "nodes": {"min": 0, "max": 4}}
FLAVORS: Any = {"g2.5xlarge": {"gpuModel": "a100-40gb", "gpusPerNode": 1}, "g9": {"gpuModel": "a30", "gpusPerNode": 1}}


def plan(pool: Any = None, **more: Any) -> Any:
    return plan_of(aks({**SURGE, **(pool or {})}, **{"verification": {}, **more}))


def digits(pool: Any = None, **more: Any) -> str:
    return str(plan(pool, **more).pools[0].replacement_id)


def test_the_digits_are_those_of_earlier_versions() -> None:
    """Other ones would replace every such pool with the next version of gpu-pools."""
    assert digits() == "292b24"
    assert digits({"zones": ["1"], "osDiskSize": 256, "spot": {}}) == "800f04"


@pytest.mark.parametrize(
    "fixed",
    [{"vmSize": T4}, {"zones": ["1"]}, {"osDiskSize": 256}, {"spot": {}}, {"maxPods": 40}, {"name": "other"}],
    ids=lambda fixed: next(iter(fixed)),
)
def test_what_azure_fixes_makes_another_pool(fixed: Any) -> None:
    assert digits(fixed) != digits()


@pytest.mark.parametrize(
    "changed",
    [
        {"count": 3},
        SCALED,
        {"labels": {"a": "b"}},
        {"taints": ["a=b:NoSchedule"]},
        {"tags": {"a": "b"}},
        {"osSku": "AzureLinux"},
        {"drainTimeoutSeconds": 5},
    ],
    ids=lambda changed: list(changed)[-1],
)
def test_what_azure_changes_on_a_living_pool_makes_none(changed: Any) -> None:
    assert digits(changed) == digits()


def test_another_way_of_sharing_makes_another_pool_only_where_azure_partitions() -> None:
    sliced: Any = {"sharing": {"s": {"timeSlicing": {"replicas": 2}}}}
    assert digits({"sharing": "s"}, **sliced) == digits()


@pytest.mark.parametrize("name", ["a", "gpu", "exactlytwelv"])
def test_a_name_in_azure_has_at_most_twelve_characters_and_ends_in_the_digits(name: str) -> None:
    (pool,) = plan({"name": name}).pools
    assert pool.made_name == f"{name[:6]}{pool.replacement_id}"
    assert len(pool.made_name) <= 12


def test_pools_that_begin_alike_are_told_apart() -> None:
    assert digits({"name": "servinga"}) != digits({"name": "servingb"})


def test_nodes_are_selected_by_what_only_the_proven_pool_has() -> None:
    whole = plan()
    (pool,) = whole.pools
    selector = {POOL_LABEL: "gpu", REPLACEMENT_LABEL: pool.replacement_id}
    assert pool_selector(whole.settings.cluster, pool) == selector
    assert selector.items() <= dict(pool.labels).items()
    assert node_expectation(whole, pool)["node"]["labels"] == dict(pool.labels)


def test_in_place_it_keeps_its_name_and_the_same_digits() -> None:
    (pool,) = plan({"replace": "inPlace"}).pools
    assert (pool.made_name, pool.replacement_id, pool.labels[REPLACEMENT_LABEL]) == ("gpu", digits(), digits())


def test_a_pool_without_it_is_as_it_was() -> None:
    (pool,) = plan_of(aks(verification={})).pools
    assert (pool.replacement_id, pool.made_name, REPLACEMENT_LABEL in pool.labels) == ("", "gpu", False)


def on_magnum(pool: Any = None, driver: str = "heat", **more: Any) -> Any:
    sections = {"verification": {}, "flavors": FLAVORS, **more}
    return plan_of(magnum({**SURGE, **(pool or {})}, cluster={"driver": driver}, **sections))


def of_magnum(pool: Any = None, driver: str = "heat", **more: Any) -> str:
    return str(on_magnum(pool, driver, **more).pools[0].replacement_id)


def test_the_digits_on_magnum_are_those_of_earlier_versions() -> None:
    assert of_magnum() == "b792f7"
    assert of_magnum({"image": "fcos", "dockerVolumeSize": 50, "taints": ["a=b:NoSchedule"]}) == "65d90a"


@pytest.mark.parametrize(
    "fixed",
    [
        {"flavor": "g9"},
        {"image": "fcos"},
        {"dockerVolumeSize": 50},
        {"nodeGroupLabels": {"a": "b"}},
        {"taints": ["a=b:NoSchedule"]},
        {"name": "other"},
    ],
    ids=lambda fixed: next(iter(fixed)),
)
def test_what_magnum_fixes_makes_another_group(fixed: Any) -> None:
    assert of_magnum(fixed) != of_magnum()


def test_the_startup_taint_is_what_heat_s_kubelets_register_with() -> None:
    assert of_magnum(verification={"startupTaint": True}) != of_magnum()


@pytest.mark.parametrize(
    "changed",
    [{"count": 3}, SCALED, {"labels": {"example.com/a": "b"}}, {"drainTimeoutSeconds": 5}],
    ids=lambda changed: list(changed)[-1],
)
def test_what_magnum_changes_on_a_living_group_makes_none(changed: Any) -> None:
    assert of_magnum(changed) == of_magnum()


def test_taints_that_nfd_sets_make_no_other_group() -> None:
    tainted = {"taints": ["example.com/a=b:NoSchedule"]}
    assert of_magnum(tainted, "capi-helm") == of_magnum(driver="capi-helm")


@pytest.mark.parametrize("name", ["a", "gpu", "a" * 40, f"{'a' * 32}-{'b' * 7}"])
def test_a_group_s_name_is_no_longer_than_a_stack_may_write_it(name: str) -> None:
    (pool,) = on_magnum({"name": name}).pools
    assert pool.made_name == f"{name[:33].rstrip('-')}-{pool.replacement_id}"
    assert len(pool.made_name) <= 40


def test_nodes_of_a_group_are_told_apart_by_its_name_before_nfd_has_labelled_them() -> None:
    whole = on_magnum()
    (pool,) = whole.pools
    label = "magnum.openstack.org/nodegroup"
    assert pool_selector(whole.settings.cluster, pool, "gpu") == {label: "gpu"}
    assert pool_selector(whole.settings.cluster, pool, pool.made_name) == {label: pool.made_name}
    assert pool_selector(whole.settings.cluster, pool) == {POOL_LABEL: "gpu", REPLACEMENT_LABEL: pool.replacement_id}


def test_names_in_the_cloud_are_known_again_whichever_replacement_they_are_of() -> None:
    pools = [*on_magnum().pools, *on_magnum({"name": "gpu-two"}).pools]
    for name, pool in {"gpu": "gpu", "gpu-0a1b2c": "gpu", "gpu-two-0a1b2c": "gpu-two", "gpu-two": "gpu-two"}.items():
        assert pool_called(name, pools) == pool
    for name in ("gpu-0a1b2", "gpu-0a1b2cd", "gpu-0a1b2g", "gpu0a1b2c", "other-0a1b2c"):
        assert pool_called(name, pools) == name
    assert pool_called("gpu-0a1b2c", plan_of(magnum()).pools) == "gpu-0a1b2c"


@pytest.mark.parametrize("stack", [plan, on_magnum])
def test_one_beside_another_begins_with_a_node_though_it_may_be_empty(stack: Any) -> None:
    assert stack(SCALED).pools[0].pool.first_nodes == 1
    assert stack({**SCALED, "nodes": {"min": 2, "max": 4}}).pools[0].pool.first_nodes == 2
    # What nobody scales, and what stands in the old one's place, is as it is declared.
    assert stack({"count": 0}).pools[0].pool.first_nodes == 0
    assert stack({**SCALED, "replace": "inPlace"}).pools[0].pool.first_nodes == 0
