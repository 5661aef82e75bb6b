"""Pools with ``replace: surge``: which changes make another pool, what it is called, and which nodes are whose."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.placing import pool_selector
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.stack.kubernetes_names import GENERATION_LABEL, POOL_LABEL
from tests.unit.stacks import GONE, T4, aks, plan_of

SURGE: Any = {"replace": "surge"}


def plan(pool: Any = None, **more: Any) -> Any:
    return plan_of(aks({**SURGE, **(pool or {})}, **{"verification": {}, **more}))


def digits(pool: Any = None, **more: Any) -> str:
    return str(plan(pool, **more).pools[0].generation)


def test_the_digits_are_those_of_earlier_versions() -> None:
    """Other ones would exchange every such pool with the next version of gpu-pools."""
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
        {"count": GONE, "nodes": {"min": 0, "max": 4}},
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
    assert pool.made_name == f"{name[:6]}{pool.generation}"
    assert len(pool.made_name) <= 12


def test_pools_that_begin_alike_are_told_apart() -> None:
    assert digits({"name": "servinga"}) != digits({"name": "servingb"})


def test_nodes_are_selected_by_what_only_the_proven_pool_has() -> None:
    whole = plan()
    (pool,) = whole.pools
    selector = {POOL_LABEL: "gpu", GENERATION_LABEL: pool.generation}
    assert pool_selector(whole.settings.cluster, pool) == selector
    assert selector.items() <= dict(pool.labels).items()
    assert node_expectation(whole, pool)["node"]["labels"] == dict(pool.labels)


def test_in_place_it_keeps_its_name_and_the_same_digits() -> None:
    (pool,) = plan({"replace": "inPlace"}).pools
    assert (pool.made_name, pool.generation, pool.labels[GENERATION_LABEL]) == ("gpu", digits(), digits())


def test_a_pool_without_it_is_as_it_was() -> None:
    (pool,) = plan_of(aks(verification={})).pools
    assert (pool.generation, pool.made_name, GENERATION_LABEL in pool.labels) == ("", "gpu", False)
