"""Which steps between versions of the GPU operator are taken, and what must be over before another operator or driver comes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.plan.drivers import driver_pod_values
from gpu_pools.plan.operator_upgrade import STATE, Found, old_crd, operator_step, refusal, unacknowledged, unfinished, warnings
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.charts import VERSIONS
from gpu_pools.text.yaml_text import load_yaml
from sandbox.providers.chart_sources import STAND_INS

# --- steps between versions ---------------------------------------------------------------------------------------

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


# --- what must be over before -------------------------------------------------------------------------------------

HAS = "nvidia.com/cuda.driver-version.full"
ON_THE_WAY = (
    "upgrade-required",
    "cordon-required",
    "wait-for-jobs-required",
    "pod-deletion-required",
    "drain-required",
    "pod-restart-required",
    "validation-required",
    "uncordon-required",
)


def node(name: str = "a", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def in_state(state: str, has: str = "580.105.08") -> Found:
    return Found([node("b"), node("a", **{STATE: state, HAS: has})])


@pytest.mark.parametrize("operator", [True, False])
@pytest.mark.parametrize("state", ["", "upgrade-done"])
def test_a_node_that_is_done_stands_in_nobody_s_way(state: str, operator: bool) -> None:  # noqa: FBT001
    assert unfinished(in_state(state), "595.91.07", operator=operator) == ([], [])


@pytest.mark.parametrize("state", ON_THE_WAY)
def test_another_driver_may_be_declared_meanwhile_but_no_other_operator(state: str) -> None:
    problems, told = unfinished(in_state(state), "595.91.07", operator=False)
    assert (problems, len(told)) == ([], 1)
    assert "already on a: each node takes what is declared now" in told[0]
    (problem,), told = unfinished(in_state(state), "595.91.07", operator=True)
    assert f"the driver of a is being replaced ({state})" in problem.message
    assert told == []


@pytest.mark.parametrize("operator", [True, False])
def test_a_failed_node_is_helped_first_or_given_back_the_driver_that_it_has(operator: bool) -> None:  # noqa: FBT001
    (problem,), _ = unfinished(in_state("upgrade-failed"), "595.91.07", operator=operator)
    assert problem.path == "node a"
    assert "nvidia.com/gpu-driver-upgrade-state=upgrade-required --overwrite" in problem.remedy
    assert problem.remedy.endswith("the driver that it still has, 580.105.08.")
    assert unfinished(in_state("upgrade-failed"), "580.105.08", operator=operator) == ([], [])
    assert unfinished(in_state("upgrade-failed"), None, operator=operator)[0], "a version that is not known is no step back"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Found([node("a", **{"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"})]), "operands are paused on it"),
        (Found([node("a", **{"nvidia.com/mig.config.state": "pending"})]), "the GPUs of a are being partitioned"),
        (Found([node("a", **{"nvidia.com/mig.config.state": "rebooting"})]), "the GPUs of a are being partitioned"),
        (
            Found(
                policies=[
                    {
                        "metadata": {"name": "cluster-policy"},
                        "status": {"state": "notReady", "conditions": [{"type": "Error", "message": "no OS"}]},
                    }
                ]
            ),
            "its ClusterPolicy cluster-policy is notReady: no OS",
        ),
    ],
    ids=["paused", "pending", "rebooting", "policy"],
)
def test_what_stands_in_the_way_of_another_operator_alone(found: Found, says: str) -> None:
    (problem,), _ = unfinished(found, "595.91.07", operator=True)
    assert says in problem.message
    assert unfinished(found, "595.91.07", operator=False) == ([], [])


@pytest.mark.parametrize("status", [{"state": "ready"}, {}])
def test_a_policy_that_is_ready_or_says_nothing_does_not(status: dict[str, Any]) -> None:
    policy = {"metadata": {"name": "cluster-policy"}, "status": status}
    assert unfinished(Found([node("a", **{"nvidia.com/mig.config.state": "success"})], [policy]), None, operator=True) == ([], [])


def test_of_many_nodes_some_are_named() -> None:
    nodes = [node(f"n{index}", **{STATE: "drain-required"}) for index in range(8)]
    (problem,), _ = unfinished(Found(nodes), None, operator=True)
    assert "n0, n1, n2, n3, n4 and 3 more is being replaced" in problem.message


def test_nfd_s_own_definitions_are_told_from_older_ones() -> None:
    file = STAND_INS / "node-feature-discovery" / "crds" / "nfd.k8s-sigs.io.yaml"
    text = next(
        one for one in file.read_text(encoding="utf-8").split("\n---\n") if "name: nodefeaturerules.nfd.k8s-sigs.io" in one
    )
    newer = load_yaml(text)
    older = load_yaml("\n".join(line for line in text.splitlines() if line.strip() not in {"- Ge", "- Le", "- GeLe"}))
    assert old_crd(newer, "0.19.0") is None
    assert old_crd(None, "0.19.0") is None, "Helm makes what is not there"
    assert old_crd(older, "0.17.4") is None
    problem = old_crd(older, "0.19.0")
    assert problem
    assert "/v0.19.0/deployment/base/nfd-crds/nfd-api-crds.yaml" in problem.remedy


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ({"driver": {"enabled": True, "upgradePolicy": {"maxParallelUpgrades": 4}}}, True),
        ({"driver": {"version": "595.91.07"}}, True),
        ({"driver": {"version": "580.105.08"}}, False),
        ({"driver": {"resources": {"limits": {"cpu": "1"}}}}, False),
        ({"gds": {"enabled": True}}, False),
        ({"toolkit": {"version": "v1"}}, True),
    ],
    ids=str,
)
def test_what_makes_the_driver_s_pods(values: dict[str, Any], same: bool) -> None:  # noqa: FBT001
    assert (driver_pod_values(values, "595.91.07") == driver_pod_values({}, "595.91.07")) is same
