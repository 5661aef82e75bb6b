"""What is told of a change of a pool whose nodes change in turn."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.changes.blast import Dip, blast_radius
from gpu_pools.changes.pools import pool_changes
from gpu_pools.changes.steps import Preview
from tests.unit.stacks import aks, existing, magnum, plan_of

SEVEN, HALVES = {"mig": {"layout": {"1g.10gb": 7}}}, {"mig": {"layout": {"3g.40gb": 2}}}
FOUR, EIGHT = {"timeSlicing": {"replicas": 4}}, {"timeSlicing": {"replicas": 8}}
ROLLOUT = {"rollout": {"maxUnavailable": 2, "drainTimeoutSeconds": 30, "podsThatStay": "wait"}}


def stack(sharing: Any, **pool: Any) -> Any:
    return plan_of(existing({"count": 5, **pool}, sharing={"s": sharing}, verification={}))


def advice(before: Any, after: Any) -> str:
    radius = blast_radius(Preview((), (), (), complete=True), before, after)
    return " ".join(sentence for _, sentences in radius.steps for sentence in sentences)


def test_nobody_has_to_empty_the_nodes_first_and_few_gpus_are_away() -> None:
    before, after = stack(SEVEN, **ROLLOUT), stack(HALVES, **ROLLOUT)
    (pool,) = pool_changes(before, after, ())
    assert (pool.effects, pool.drain) == (("repartitioned",), ())
    told = advice(before, after)
    assert "2 nodes of `gpu` at a time: cordoned, emptied of pods that hold GPUs" in told
    assert "Where pods do not go in 30 s the change waits for them." in told
    radius = blast_radius(Preview((), (), (), complete=True), before, after)
    assert radius.dips == (Dip("gpu", 2, 2, "each node in the rollout is free of pods and partitioned anew"),)


def test_a_share_of_the_nodes_is_counted_and_windows_are_told() -> None:
    share = {"rollout": {"maxUnavailable": "25%", "windows": [{"day": "Saturday", "startTime": "22:00", "durationHours": 6}]}}
    before, after = stack(SEVEN, **share), stack(HALVES, **share)
    told = advice(before, after)
    assert "25% of the nodes, at least one, of `gpu` at a time" in told
    assert "begin to change only in its windows: `Saturday 22:00 6h +00:00`" in told
    (dip,) = blast_radius(Preview((), (), (), complete=True), before, after).dips
    assert (dip.least, dip.most) == (2, 2), "a quarter of five, rounded up"
    unbounded = {**share, "count": None}
    (dip,) = blast_radius(Preview((), (), (), complete=True), stack(SEVEN, **unbounded), stack(HALVES, **unbounded)).dips
    assert dip.most is None


def test_without_it_all_nodes_are_to_be_emptied_first() -> None:
    (pool,) = pool_changes(stack(SEVEN), stack(HALVES), ())
    assert pool.drain
    assert "at a time" not in advice(stack(SEVEN), stack(HALVES))


def test_more_replicas_drain_no_node_and_fewer_do() -> None:
    assert "no node of `gpu` is drained" in advice(stack(FOUR, **ROLLOUT), stack(EIGHT, **ROLLOUT))
    assert "at a time" in advice(stack(EIGHT, **ROLLOUT), stack(FOUR, **ROLLOUT))


@pytest.mark.parametrize(("sharing", "drains"), [(FOUR, False), (SEVEN, True)])
def test_a_living_pool_that_gets_a_rollout_loses_its_labels_for_a_moment(sharing: Any, drains: bool) -> None:  # noqa: FBT001
    told = advice(stack(sharing), stack(sharing, **ROLLOUT))
    assert "NFD takes the labels of `gpu` away" in told
    assert ("cordon and drain the nodes of `gpu` before the deploy" in told) == drains


@pytest.mark.parametrize(("sharing", "drains"), [(FOUR, False), (SEVEN, True)])
def test_on_aks_it_is_the_agent_pool_that_loses_them(sharing: Any, drains: bool) -> None:  # noqa: FBT001
    before, after = (plan_of(aks({"count": 5, **more}, sharing={"s": sharing}, verification={})) for more in ({}, ROLLOUT))
    told = advice(before, after)
    assert "AKS takes the labels of `gpu` away" in told
    assert ("cordon and drain the nodes of `gpu` before the deploy" in told) == drains
    assert "2 nodes of `gpu` at a time" in advice(after, plan_of(aks({"count": 5, **ROLLOUT}, verification={})))


def test_a_rollout_is_not_taken_away_in_the_midst_of_a_change() -> None:
    assert "then stays cordoned" in advice(stack(FOUR, **ROLLOUT), stack(FOUR))


def test_a_pool_that_goes_leaves_its_labels_on_nodes_that_stay() -> None:
    one = {"name": "a", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"pool": "a"}, "sharing": "whole"}
    other = {**one, "name": "b", "nodeSelector": {"pool": "b"}}
    adopted = {"install": False}
    before = plan_of(existing(pools=[{**one, **ROLLOUT}, other], verification={}, operator=adopted))
    after = plan_of(existing(pools=[other], verification={}, operator=adopted))
    assert "take `rollout` out first" in advice(before, after)


def test_the_stacks_own_operator_gives_the_nodes_of_a_pool_that_goes_back() -> None:
    one = {"name": "a", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"pool": "a"}, "sharing": "whole"}
    other = {**one, "name": "b", "nodeSelector": {"pool": "b"}}
    before = plan_of(existing(pools=[{**one, **ROLLOUT}, other], verification={}))
    told = advice(before, plan_of(existing(pools=[other], verification={})))
    assert "Let end what holds GPUs of the nodes of `a` before the deploy" in told
    assert "take `rollout` out first" not in told


def test_an_unchanged_pool_is_not_told_of() -> None:
    same = plan_of(magnum(ROLLOUT, verification={}))
    assert advice(same, same) == ""
