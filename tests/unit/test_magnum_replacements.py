"""Node groups that follow each other under one pool's name: which of a cloud's groups is the declared one."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.placing import replaced_pools
from gpu_pools.platforms.magnum.answers import Cloud, Free, Group, MachineFlavor, Magnum
from gpu_pools.platforms.magnum.cloud import judge
from gpu_pools.platforms.magnum.replacements import as_declared
from tests.unit.stacks import GONE, magnum, plan_of

SURGE: Any = {"replace": "surge", "flavor": "g2.5xlarge"}
SAME = Group(2, flavor="g2.5xlarge")
OLD, FAILED = "gpu-000000", "gpu-ffffff"


def plan(pool: Any = None, driver: str = "heat") -> Any:
    return plan_of(magnum({**SURGE, **(pool or {})}, cluster={"driver": driver}, verification={}))


def answers(**groups: Group) -> Magnum:
    return Magnum((1, 14), (), ("bad",), 3, frozenset({("cluster template", "kubernetes-1.34")}), groups)


def declared(whole: Any, **groups: Group) -> str | None:
    """What Magnum calls the pool that is declared, of these groups."""
    found = as_declared(answers(**groups), replaced_pools(whole)).groups.get("gpu")
    return found.called if found else None


def problems(whole: Any, *, machines: int = 10, **groups: Group) -> dict[str, str]:
    flavors = (MachineFlavor("1", "g2.5xlarge", 16, 65536),)
    cloud = Cloud(answers(**groups), flavors, (), (), (), Free(machines, None, None))
    judged = judge(whole.settings.cluster, whole.settings.pools, cloud, "", replaced_pools(whole))
    return {one.path: f"{one.message} | {one.remedy}" for one in judged.problems}


def test_it_is_the_one_with_its_digits_though_others_have_its_name() -> None:
    whole = plan()
    made = whole.pools[0].made_name
    assert declared(whole, gpu=SAME, **{made: Group(1), OLD: Group(2)}) == made


@pytest.mark.parametrize(
    ("pool", "group"),
    [
        ({}, SAME),
        ({"image": "fcos"}, Group(2, flavor="g2.5xlarge", image="fcos")),
        ({"dockerVolumeSize": 50}, Group(2, flavor="g2.5xlarge", volume=50)),
        ({"nodeGroupLabels": {"a": "b"}}, Group(2, flavor="g2.5xlarge", labels={"a": "b", "c": "d"})),
    ],
)
def test_one_that_was_there_before_is_it_where_it_is_made_of_the_same(pool: Any, group: Group) -> None:
    assert declared(plan(pool), gpu=group) == "gpu"
    assert declared(plan({**pool, "flavor": "g2.5xlarge", "image": "another"}), gpu=group) is None


@pytest.mark.parametrize("group", [Group(2, flavor="g2.10xlarge"), Group(2, flavor="g2.5xlarge", labels={"a": "c"})])
def test_one_that_is_made_of_another_thing_is_an_older_one(group: Group) -> None:
    assert declared(plan({"nodeGroupLabels": {"a": "b"}}), gpu=group) is None


def test_in_place_it_is_whichever_is_there() -> None:
    whole = plan({"replace": "inPlace"})
    assert declared(whole, gpu=Group(2, flavor="g2.10xlarge")) == "gpu"
    assert declared(whole, **{OLD: Group(2)}) == OLD
    assert declared(whole, other=SAME) is None


def test_a_pool_without_it_is_as_magnum_says() -> None:
    whole = plan_of(magnum(verification={}))
    assert as_declared(answers(gpu=SAME), replaced_pools(whole)) == answers(gpu=SAME)


def test_room_is_needed_for_the_new_one_beside_the_old_one() -> None:
    older, scaled = Group(2, flavor="g2.10xlarge"), {"count": GONE, "nodes": {"min": 0, "max": 4}}
    assert "3 more machines are asked for" in problems(plan({"count": 3}), machines=2, gpu=older)["gpu-pools:pools"]
    assert problems(plan({"count": 3}), machines=3, gpu=older) == {}
    # One that may be empty begins with a node, and needs no other once it is there.
    assert "1 more machines are asked for" in problems(plan(scaled), machines=0, gpu=older)["gpu-pools:pools"]
    assert problems(plan(scaled), machines=0, gpu=Group(0, flavor="g2.5xlarge")) == {}
    assert problems(plan({"replace": "inPlace"}), machines=0, gpu=older) == {}


def test_a_half_made_one_is_told_by_its_own_name() -> None:
    whole = plan()
    made = whole.pools[0].made_name
    (told,) = problems(whole, **{made: Group(0, "CREATE_FAILED")}).values()
    assert f"the node group {made} is CREATE_FAILED" in told
    assert f"`openstack coe nodegroup delete bad {made}`" in told
    # What is declared no more the engine deletes.
    assert problems(whole, **{made: SAME, OLD: Group(0, "CREATE_FAILED")}) == {}


@pytest.mark.parametrize("driver", ["heat", "capi-helm"])
def test_where_the_driver_loses_a_deletion_a_third_one_is_refused(driver: str) -> None:
    found = problems(plan(driver=driver), **{OLD: Group(2), FAILED: Group(2), "gpu-of-another": Group(1)})
    assert list(found) == (["gpu-pools:pools[0].replace"] if driver == "capi-helm" else [])
    assert all("gpu-000000 and gpu-ffffff would be deleted at the same time" in text for text in found.values())
    assert problems(plan(driver=driver), **{OLD: Group(2), plan(driver=driver).pools[0].made_name: SAME}) == {}
