"""A Magnum cluster whose autoscaler is on, and the numbers of nodes that a stack declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.platforms.magnum.answers import Group, MadeOf, Template
from tests.unit.test_magnum_cloud import CLOUD, MADE, NEW, SAYS, judged, magnum, problems, settings

if TYPE_CHECKING:
    from gpu_pools.platforms.magnum.answers import Cloud

ON = {"auto_scaling_enabled": "true"}
CLUSTER_API: dict[str, Any] = {
    "driver": "magnum-cluster-api",
    "template": {**MADE, "networkDriver": "cilium"},
    "labels": ON,
    "workers": 3,
}
HELD = Group(3, fewest=3, most=3)


def alive(groups: dict[str, Group], labels: dict[str, str] | None = None) -> Cloud:
    made = MadeOf(frozenset({"t-1"}), {**SAYS, "networkDriver": "cilium", "labels": {}})
    there = {"default-worker": HELD, **groups}
    return magnum(clusters=("mine",), made_of=made, status="CREATE_COMPLETE", labels=labels or ON, groups=there)


@pytest.mark.parametrize("group", [Group(2, fewest=2, most=2), Group(2, fewest=0)])
def test_limits_that_the_present_number_fits_are_the_plugins_business(group: Group) -> None:
    assert problems(settings(**CLUSTER_API), alive({"a": group})) == {}


@pytest.mark.parametrize(
    ("driver", "group", "commands"),
    [
        ("magnum-cluster-api", Group(0, fewest=0), ("--max-nodes 2 ", "--nodegroup a mine 2 ", "--min-nodes 2`")),
        ("magnum-cluster-api", Group(3, fewest=3, most=3), ("--min-nodes 2 ", "--nodegroup a mine 2 ", "--max-nodes 2`")),
        ("capi-helm", Group(1, fewest=1, most=1), ("--max-nodes 2 ", "--nodegroup a mine 2 ", "--min-nodes 2`")),
    ],
)
def test_another_number_goes_by_magnums_client_in_steps_that_it_takes(
    driver: str, group: Group, commands: tuple[str, ...]
) -> None:
    ((path, text),) = problems(settings(**{**CLUSTER_API, "driver": driver}), alive({"a": group})).items()
    assert path.endswith(".count")
    assert f"the node group a has {group.nodes} nodes" in text
    places = [text.index(command) for command in commands]
    assert places == sorted(places)


def test_where_the_number_decides_nothing_is_asked_of_limits() -> None:
    assert problems(settings(labels=ON), alive({"a": Group(1)})) == {}
    off = {**CLUSTER_API, "labels": {}}
    assert problems(settings(**off), alive({"a": Group(1)}, {"x": "y"})) == {}


def test_workers_that_are_kept_at_another_number_are_told_of() -> None:
    seen = judged(settings(**CLUSTER_API), alive({"a": Group(2, fewest=2, most=2), "default-worker": Group(1, fewest=0)}))
    (note,) = seen.notes
    assert note.startswith("the autoscaler keeps the cluster's own workers between 0 and 1, and not at `workers: 3` (W86)")
    assert "nodegroup update mine default-worker --max-nodes 3 &&" in note


def test_a_given_template_that_turns_the_autoscaler_on_must_be_said_in_the_stack() -> None:
    given = Template("t-9", "theirs", "m", "m", load_balancer=True, labels=ON, network_driver="cilium")
    new = {**CLUSTER_API, "template": None, "templateId": "theirs", "labels": None}
    there = magnum(templates=(*NEW.templates, given))
    found = problems(settings(**new), there)
    assert list(found) == ["gpu-pools:cluster.labels"]
    assert problems(settings(**{**new, "labels": ON}), there) == {}
    assert problems(settings(**{**new, "labels": {"auto_scaling_enabled": "false"}}), there) == {}
    assert problems(settings(**{**new, "driver": "heat"}), there) == {}
    off = magnum(templates=(*NEW.templates, Template("t-9", "theirs", "m", "m", load_balancer=True, network_driver="cilium")))
    assert problems(settings(**new), off) == {}
    scaled = {"count": None, "nodes": {"min": 1, "max": 2}}
    assert "nobody scales a (W87)" in " ".join(judged(settings(scaled, **new), off).notes)


def test_a_living_cluster_of_a_given_template_says_what_its_groups_are_kept_at() -> None:
    cluster = {**CLUSTER_API, "labels": None}
    seen = judged(settings(**cluster), alive({"a": Group(1, fewest=0)}))
    assert seen.problems == ()
    assert any("the node group a is kept between 0 and 1 nodes" in note for note in seen.notes)


def test_nothing_is_said_of_a_cloud_without_the_cluster() -> None:
    assert judged(settings(**CLUSTER_API), CLOUD).notes == ()
