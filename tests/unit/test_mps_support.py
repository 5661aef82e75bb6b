"""Which device plugins can configure the MPS daemon, what a plan says of each, and that its remedies work."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.hardware.operands import parse_version
from gpu_pools.plan.mps_support import mps_update_of, needs_signal_policy
from gpu_pools.text.errors import InvalidStackError, Problem
from gpu_pools.verifier.node import _DEFAULT_FIRST

from .stacks import GONE, aks, existing, plan_of

MPS: Any = {"mps": {"replicas": 4}}


def problems_of(stack: str) -> list[Problem]:
    try:
        plan_of(stack)
    except InvalidStackError as error:
        return list(error.problems)
    return []


def with_operator(kubernetes: str | None = None, sharing: Any = MPS, **operator: Any) -> str:
    cluster = {"kubernetesVersion": kubernetes} if kubernetes else {}
    return aks(sharing={"shared": sharing}, cluster=cluster, operator=operator)


@pytest.mark.parametrize(
    ("plugin", "update"),
    [
        *((version, "restart") for version in ("v0.15.0", "v0.17.0", "v0.17.4", "v0.18.0", "v0.18.1")),
        *((version, "never") for version in ("v0.18.2", "v0.19.0", "v0.19.3")),
        *((version, "signal") for version in ("v0.20.0", "v0.20.1", "v1.0.0")),
    ],
)
def test_how_each_device_plugin_updates_the_mps_daemon(plugin: str, update: str) -> None:
    assert mps_update_of(parse_version(plugin) or ()) == update


def test_plan_and_verifier_draw_the_line_at_the_same_version() -> None:
    """The verifier stands alone, so it has the number by itself."""
    before = (*_DEFAULT_FIRST[:2], _DEFAULT_FIRST[2] - 1)
    assert mps_update_of(before) == "restart"
    assert mps_update_of(_DEFAULT_FIRST) == "never"


@pytest.mark.parametrize(
    ("stack", "path", "remedy"),
    [
        (
            with_operator(version="v26.3.3"),
            "gpu-pools:operator.version",
            "Set gpu-pools:operator.values.devicePlugin.version: v0.20.0.",
        ),
        (
            with_operator("1.34", version="v26.3.3"),
            "gpu-pools:operator.version",
            "Set gpu-pools:operator.version: v25.10.1, and remove other versions of its operands.",
        ),
        (
            with_operator(values={"devicePlugin": {"version": "v0.19.0"}}),
            "gpu-pools:operator.values.devicePlugin.version",
            "Set gpu-pools:operator.values.devicePlugin.version: v0.20.0.",
        ),
        (
            with_operator("1.35.2"),
            "gpu-pools:cluster.kubernetesVersion",
            'Set kubernetesVersion: "1.36", or set `gpu-pools:operator: {version: v25.10.1}`.',
        ),
    ],
)
def test_a_pool_that_would_share_nothing_is_refused(stack: str, path: str, remedy: str) -> None:
    (problem,) = problems_of(stack)
    assert (problem.path, problem.remedy) == (path, remedy)
    assert "(W49)" in problem.message


@pytest.mark.parametrize(
    "stack",
    [
        with_operator(version="v26.3.3", values={"devicePlugin": {"version": "v0.20.0"}}),
        with_operator("1.34", version="v25.10.1"),
        with_operator(values={"devicePlugin": {"version": "v0.20.0"}}),
        with_operator("1.36"),
        with_operator("1.36", values={"devicePlugin": {"version": "v0.18.1"}}),
    ],
)
def test_what_the_remedies_say_is_accepted(stack: str) -> None:
    assert problems_of(stack) == []


@pytest.mark.parametrize("sharing", [{"timeSlicing": {"replicas": 4}}, {"mig": {"layout": {"1g.10gb": 7}}}, {"exclusive": {}}])
def test_nothing_is_said_where_no_pool_has_mps(sharing: Any) -> None:
    plan = plan_of(with_operator("1.34", sharing=sharing, version="v26.3.3"))
    assert not needs_signal_policy(plan.settings)
    assert not any("W49" in warning for pool in plan.pools for warning in pool.warnings)


@pytest.mark.parametrize(
    ("operator", "policy", "words"),
    [
        ({}, True, "MPS works through the admission policy gpu-pools-mps-signal, which needs Kubernetes 1.36 or newer"),
        ({"version": "v25.10.1"}, False, "device plugin v0.18.1 passes no change of replicas on to a running MPS daemon"),
        ({"version": "v25.3.4"}, False, "device plugin v0.17.4 passes no change of replicas on to a running MPS daemon"),
        ({"values": {"devicePlugin": {"version": "latest"}}}, False, "which version of the device plugin runs cannot be told"),
        ({"install": False}, False, "the installed operator decides whether MPS works"),
    ],
)
def test_what_the_user_must_know_of_a_pool_that_works(operator: Any, policy: bool, words: str) -> None:  # noqa: FBT001
    plan = plan_of(existing(sharing={"shared": MPS}, operator=operator))
    assert needs_signal_policy(plan.settings) is policy
    (said,) = [warning for warning in plan.pools[0].warnings if "(W49)" in warning]
    assert said.startswith(words)


def test_with_a_rollout_an_old_device_plugin_needs_no_warning() -> None:
    stack = existing({"rollout": {}}, sharing={"shared": MPS}, operator={"version": "v25.10.1"}, verification={})
    assert not any("W49" in warning for pool in plan_of(stack).pools for warning in pool.warnings)


@pytest.mark.parametrize("sharing", [{"timeSlicing": {"replicas": 4}}, MPS], ids=["time-slicing", "mps"])
@pytest.mark.parametrize(
    ("plugin", "nodes", "verification", "warned"),
    [
        ("v0.20.0", {"min": 0, "max": 4}, {}, True),
        ("v0.20.0", {"min": 0, "max": 4}, {"startupTaint": True}, False),
        ("v0.20.0", None, {}, False),
        ("v0.18.1", {"min": 0, "max": 4}, {}, False),
    ],
)
def test_a_new_node_of_an_autoscaled_pool_serves_whole_gpus_first(
    sharing: Any,
    plugin: str,
    nodes: Any,
    verification: Any,
    warned: bool,  # noqa: FBT001
) -> None:
    stack = aks(
        {"nodes": nodes, "count": GONE} if nodes else None,
        sharing={"shared": sharing},
        cluster={"kubernetesVersion": "1.36"},
        operator={"values": {"devicePlugin": {"version": plugin}}},
        verification=verification,
    )
    (pool,) = plan_of(stack).pools
    assert any("(W50)" in warning for warning in pool.warnings) is warned
