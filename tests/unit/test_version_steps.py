"""Which steps between versions of the GPU operator are taken, refused, or need an acknowledgement."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.plan.planning import plan_config
from gpu_pools.plan.version_steps import operator_step, refusal, unacknowledged, warnings
from gpu_pools.stack.charts import VERSIONS

KNOWN = tuple(reversed(VERSIONS["gpu-operator"]))


def plan(version: str = "v26.3.3", acknowledged: list[dict[str, str]] | None = None) -> Any:
    config: dict[str, Any] = {
        "gpu-pools:cluster": {"platform": "existing"},
        "gpu-pools:operator": {"version": version},
        "gpu-pools:sharing": {"whole": {"exclusive": {}}},
        "gpu-pools:pools": [
            {"name": "a", "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "whole", "nodeSelector": {"pool": "a"}}
        ],
        "gpu-pools:acknowledged": acknowledged or [],
    }
    return plan_config(config)


@pytest.mark.parametrize(("before", "after"), [*itertools.product(KNOWN, repeat=2)], ids="-".join)
def test_every_step_between_the_known_charts(before: str, after: str) -> None:
    steps = KNOWN.index(after) - KNOWN.index(before)
    found = operator_step(before, after)
    assert found.way == {0: "same", 1: "next", -1: "back"}.get(steps, "skips" if steps > 0 else "far back")
    refused = refusal(found)
    assert (refused is not None) == (abs(steps) > 1)
    if refused:
        # What is to be taken first is one step, and so is each one after it.
        way = (before, *found.through)
        assert way[-1] == after
        assert {operator_step(*pair).way for pair in itertools.pairwise(way)} == {"next" if steps > 0 else "back"}
        assert refused.allowed == found.through[0]
    assert bool(found.brings) == (steps == 1)
    assert bool(found.lost) == (steps == -1)


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ("v26.3.1", "v26.3.3", "within"),
        ("v26.3.3", "v26.3.1", "back"),
        ("26.3.3", "v26.3.3", "same"),
        ("v24.9.2", "v25.3.4", "next"),
        ("v24.6.1", "v25.3.4", "skips"),
        ("v26.7.0", "v26.9.0", "unknown"),
        ("v26.3.3", "v26.9.0", "skips"),
        ("v26.9.0", "v26.7.0", "back"),
        ("v26.9.0", "v26.3.3", "far back"),
        ("latest", "v26.7.0", "unknown"),
    ],
)
def test_versions_that_are_not_known(before: str, after: str, way: str) -> None:
    assert operator_step(before, after).way == way


def test_a_skipped_release_is_told_with_the_steps_to_take() -> None:
    refused = refusal(operator_step("v25.3.4", "v26.7.0"))
    assert refused
    assert refused.path == "gpu-pools:operator.version"
    assert "leaves out v25.10.1, v26.3.3: v25.3.4 is deployed" in refused.message
    assert refused.remedy == "Deploy v25.10.1, then v26.3.3, then v26.7.0, each as a deploy of its own."


def test_a_step_back_needs_the_entry_for_exactly_these_versions() -> None:
    back = operator_step("v26.7.0", "v26.3.3")
    problem = unacknowledged(back, plan())
    assert problem
    assert "advertised under the plain profile's name again" in problem.message
    entry = {"resource": "cluster", "change": cluster_use(plan()), "reason": "v26.7.0 broke our jobs"}
    assert entry["change"] in problem.remedy
    assert unacknowledged(back, plan(acknowledged=[entry])) is None
    assert unacknowledged(back, plan("v25.10.1", [entry]))


@pytest.mark.parametrize("after", ["v26.3.3", "v26.7.0", "v26.3.4"])
def test_a_step_forward_needs_none(after: str) -> None:
    assert unacknowledged(operator_step("v26.3.3", after), plan()) is None


def test_what_a_step_brings_is_told() -> None:
    assert any("NodeFeature" in one for one in warnings(operator_step("v25.10.1", "v26.3.3")))
    (told,) = warnings(operator_step("v26.7.0", "v27.1.0"))
    assert "whether that is one step cannot be told" in told
    assert not list(warnings(operator_step("v26.3.1", "v26.3.3")))
