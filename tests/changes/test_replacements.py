"""What is told of a pool that is replaced with `surge`."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.changes.blast import BlastRadius, Limits, blast_radius
from gpu_pools.changes.markdown import comment
from gpu_pools.changes.replacements import ExtraGpus
from gpu_pools.changes.report_basis import ReportBasis
from gpu_pools.changes.steps import Preview, Step
from gpu_pools.hardware.prices import Prices
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from tests.unit.stacks import A100, GONE, T4, aks, magnum, plan_of

GROUP = "openstack:containerinfra/nodeGroup:NodeGroup"
POOL = "azure-native:containerservice:AgentPool"
PRICES = Prices("EUR", {A100: 4.0, T4: 0.5}, {})
SCALED: Any = {"count": GONE, "nodes": {"min": 0, "max": 4}}


def plan(size: str = A100, acknowledged: Any = (), **pool: Any) -> Any:
    sections = {"acknowledged": acknowledged} if acknowledged else {}
    return plan_of(aks({"count": 2, "vmSize": size, "replace": "surge", **pool}, verification={}, **sections))


def step(op: str, whole: Any, name: str = "") -> Step:
    (pool,) = whole.pools
    labels = {POOL_LABEL: pool.name, REPLACEMENT_LABEL: pool.replacement_id}
    inputs = {"agentPoolName": name or pool.made_name, "nodeLabels": labels}
    old, new = ({}, inputs) if op == "create" else (inputs, {}) if op == "delete" else (inputs, inputs)
    return Step(op, f"urn:pulumi:a::b::{POOL}::gpu-gpu-pool-{pool.replacement_id}", POOL, old, new)


def told(before: Any, after: Any, *steps: Step, limits: Limits | None = None) -> BlastRadius:
    return blast_radius(Preview(steps), before, after, prices=PRICES, limits=limits)


def replaced_by_surge(limits: Limits | None = None, **pool: Any) -> BlastRadius:
    before, after = plan(**pool), plan(T4, **pool)
    return told(before, after, step("create", after), step("delete", before, "gpu"), limits=limits)


def test_a_new_pool_beside_an_old_one_is_one_change_of_one_pool_and_takes_no_gpu_away() -> None:
    radius = replaced_by_surge()
    (pool,) = radius.pools
    assert (pool.effects, pool.drain, pool.gpus) == (("rotated",), (), ())
    assert not pool.away
    assert radius.dips == ()


def test_what_is_there_twice_is_told_in_numbers() -> None:
    radius = replaced_by_surge()
    assert radius.extra_gpus == (ExtraGpus("gpu", 2, 2, 8.0),)
    text = comment("s", radius, ReportBasis("", ""))
    assert "- `gpu`: 2 GPUs more, up to 8.00 EUR an hour, until the old nodes are empty and deleted" in text
    assert "another pool is made beside it and proven; then its nodes are drained, and go" in text
    assert replaced_by_surge(**SCALED).extra_gpus == (ExtraGpus("gpu", 0, 4, 16.0),)


def test_how_it_goes_is_told() -> None:
    advice = " ".join(sentence for _, sentences in replaced_by_surge(drainTimeoutSeconds=77).steps for sentence in sentences)
    assert "do not go in 77 s the deploy fails, and nothing of the old pool is deleted" in advice
    assert "begins with" not in advice
    scaled = " ".join(sentence for _, sentences in replaced_by_surge(**SCALED).steps for sentence in sentences)
    assert "`gpu` begins with 1 node, to be proven. Evicted pods that find no room there wait until the autoscaler" in scaled


def test_both_count_for_the_most_gpus_that_a_change_may_add() -> None:
    assert replaced_by_surge(Limits(more_gpus=2)).broken == ()
    assert replaced_by_surge(Limits(more_gpus=1)).broken == (
        "the change adds up to 2 GPUs while old and new pools are there; allowed: 1",
    )


def test_it_is_acknowledged_as_a_replacement_is() -> None:
    before, after = plan(), plan(T4)
    (ending,) = replaced_by_surge().endings
    assert (ending.resource, ending.how, ending.id) == ("gpu", "is replaced by another pool", after.pools[0].change)
    assert replaced_by_surge().blocked == ("the pool gpu is replaced by another pool, and nobody acknowledged it",)
    read = plan(T4, [{"resource": "gpu", "change": ending.id, "reason": "smaller ones will do"}])
    assert told(before, read, step("create", read), step("delete", before)).blocked == ()


@pytest.mark.parametrize("op", ["same", "update"])
def test_a_failed_new_pool_that_goes_again_is_a_replacement_as_well(op: str) -> None:
    before, after = plan(T4), plan()
    radius = told(before, after, step(op, after, "gpu"), step("delete", before))
    assert radius.pools[0].effects == ("rotated",)


def test_one_that_only_comes_or_goes_is_told_so() -> None:
    whole = plan()
    assert told(None, whole, step("create", whole)).pools[0].effects == ("created",)
    other = plan(name="other")
    assert [one.effects for one in told(whole, other, step("create", other), step("delete", whole)).pools] == [
        ("created",),
        ("deleted",),
    ]


def test_where_nothing_fixed_changes_nothing_is_replaced() -> None:
    radius = told(plan(), plan(count=3), step("update", plan(), "gpu"))
    assert (radius.pools[0].effects, radius.extra_gpus) == (("resized",), ())


def on_magnum(flavor: str, **pool: Any) -> Any:
    flavors = {name: {"gpuModel": "a30", "gpusPerNode": gpus} for name, gpus in (("one", 1), ("two", 2))}
    return plan_of(magnum({"count": 2, "flavor": flavor, "replace": "surge", **pool}, verification={}, flavors=flavors))


def group(op: str, name: str) -> Step:
    old, new = {"create": ({}, {"name": name}), "delete": ({"name": name}, {})}[op]
    return Step(op, f"urn:pulumi:a::b::{GROUP}::gpu-gpu-group-abc", GROUP, old, new)


@pytest.mark.parametrize("old", ["gpu", "gpu-0a1b2c"])
def test_groups_of_magnum_are_known_by_their_names(old: str) -> None:
    """Also one that failed, which is in neither of the two stack files."""
    before, after = on_magnum("one"), on_magnum("two")
    radius = told(before, after, group("create", after.pools[0].made_name), group("delete", old))
    assert [pool.effects for pool in radius.pools] == [("rotated",)]
    assert [(one.pool, one.least, one.most) for one in radius.extra_gpus] == [("gpu", 2, 2)]
    assert radius.blocked == ("the pool gpu is replaced by another pool, and nobody acknowledged it",)


def test_a_pool_that_would_be_deleted_first_all_the_same_is_not_deployed() -> None:
    after = plan(T4)
    (reason, _) = told(plan(replace=GONE), after, step("replace", after)).blocked[::-1]
    assert reason.startswith("the pool gpu would be deleted before its successor is made")
    assert "deploy `replace: surge` by itself first" in reason


def test_in_place_it_is_replaced_and_drained_before() -> None:
    before, after = plan(replace="inPlace"), plan(T4, replace="inPlace", drainTimeoutSeconds=9)
    radius = told(before, after, step("replace", after))
    assert (radius.pools[0].effects, radius.extra_gpus) == (("replaced",), ())
    assert "The nodes of `gpu` are cordoned and drained before that; where pods do not go in 9 s" in str(radius.steps)
    undrained = told(plan(replace=GONE), after, step("replace", after))
    assert "drained before that" not in str(undrained.steps)
