"""Pools whose GPUs pods get through resource claims: what is declared, refused, installed and expected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.allocation.dra import device_classes, devices
from gpu_pools.cli.main import main
from gpu_pools.plan.cluster_checks import check_kubernetes
from gpu_pools.plan.document import plan_json, plan_table
from gpu_pools.plan.dra_checks import too_old_for_claims
from gpu_pools.plan.rollouts import becomes, closed
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_rights import policy_spec
from gpu_pools.stack.kubernetes_names import ALLOCATION_LABELS, DRA_DRIVER_LABEL, DRIVER_MANAGER_LABEL
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.verifier.expectation import parse_expectation

from .stacks import aks, existing, plan_of, pool_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.plan.planned import PoolPlan

H100 = {"gpuModel": "h100-80gb", "gpusPerNode": 2}
CLAIMS = {"allocation": "dra"}


def claiming(sharing: dict[str, Any], pool: dict[str, Any] | None = None, **sections: Any) -> str:
    """A stack of an existing cluster whose only pool is allocated by claims."""
    return existing({**H100, **CLAIMS, **(pool or {})}, sharing={"shared": sharing}, **sections)


def problems(stack: str) -> list[str]:
    """What is wrong with a stack: path and message."""
    with pytest.raises(InvalidStackError) as caught:
        plan_of(stack)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


# --- what a node announces -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sharing", "announced", "asked"),
    [
        ({"exclusive": {}}, [("gpu", None, 2, None)], {"nvidia.com/gpu": 2}),
        ({"timeSlicing": {"replicas": 4}}, [("gpu", None, 2, 4)], {"nvidia.com/gpu": 2}),
        ({"timeSlicing": {"replicas": 3, "renameByDefault": True}}, [("gpu", None, 2, 3)], {"nvidia.com/gpu.shared": 2}),
        (
            {"mig": {"layout": {"1g.10gb": 3, "2g.20gb": 2}}},
            [("mig", "1g.10gb", 6, None), ("mig", "2g.20gb", 4, None)],
            {"nvidia.com/mig-1g.10gb": 6, "nvidia.com/mig-2g.20gb": 4},
        ),
    ],
)
def test_each_mode_announces_devices_and_pods_ask_as_before(
    sharing: dict[str, Any], announced: list[tuple[Any, ...]], asked: dict[str, int]
) -> None:
    pool = pool_of(claiming(sharing))
    assert [(one.type, one.profile, one.count, one.shares) for one in pool.devices] == announced
    # Two shares are of two GPUs, so nobody gets more than there are devices.
    assert {request.resource: request.most for request in pool.pod_requests} == asked
    # Pods stay as they are: the names are those that the device plugin would have used.
    by_plugin = pool_of(existing(H100, sharing={"shared": sharing}, operator={"migStrategy": "mixed"}))
    assert dict(pool.advertises) == dict(by_plugin.advertises)


@given(replicas=st.integers(2, 1000), gpus=st.integers(1, 16), rename=st.booleans())
def test_shares_are_as_many_as_the_device_plugin_would_offer(replicas: int, gpus: int, rename: bool) -> None:  # noqa: FBT001
    sharing = {"timeSlicing": {"replicas": replicas, "renameByDefault": rename}}
    pool = pool_of(claiming(sharing, {"gpusPerNode": gpus}))
    assert sum(one.count * (one.shares or 1) for one in pool.devices) == sum(pool.advertises.values()) == replicas * gpus


def test_the_cluster_says_it_for_all_pools_and_a_pool_may_differ() -> None:
    pools = [
        {"name": "a", **H100, "nodeSelector": {"p": "a"}, "sharing": "shared"},
        {"name": "b", **H100, "nodeSelector": {"p": "b"}, "sharing": "shared", "allocation": "devicePlugin"},
    ]
    plan = plan_of(existing(pools=pools, sharing={"shared": {"timeSlicing": {"replicas": 4}}}, cluster=CLAIMS))
    assert [pool.allocation for pool in plan.pools] == ["dra", "devicePlugin"]
    assert ", by claims" in plan_table(plan)
    first, second = plan_json(plan)["pools"]
    assert first["allocation"] == "dra"
    assert "allocation" not in second


def test_labels_start_the_driver_and_stop_the_device_plugin() -> None:
    labels = pool_of(claiming({"timeSlicing": {"replicas": 4}})).labels
    assert labels[DRA_DRIVER_LABEL] == "shares-4"
    assert labels[DRIVER_MANAGER_LABEL] == "true"
    assert labels["nvidia.com/gpu.deploy.device-plugin"] == "false"
    # gpu-feature-discovery reads this one; it must not write that GPUs are shared by the plugin.
    assert labels["nvidia.com/device-plugin.config"].startswith("exclusive-")


def test_who_says_device_plugin_gets_it_back() -> None:
    said, silent = (pool_of(existing({**H100, **more})).labels for more in ({"allocation": "devicePlugin"}, {}))
    assert {key: said[key] for key in ALLOCATION_LABELS} == {
        DRA_DRIVER_LABEL: "none",
        DRIVER_MANAGER_LABEL: "false",
        "nvidia.com/gpu.deploy.device-plugin": "true",
    }
    assert not set(ALLOCATION_LABELS) & set(silent)


def test_what_a_stack_without_claims_has_stays_as_it_was() -> None:
    plan = plan_of(existing(H100))
    assert plan.dra is None
    assert not {"validator", "manager"} & {*plan.operator_values, *plan.operator_values["driver"]}
    assert "claims" not in node_expectation(plan, plan.pools[0])["node"]


# --- what is installed -------------------------------------------------------------------------------------------


def test_each_number_of_shares_has_a_daemon_set_and_the_chart_serves_the_rest() -> None:
    names = ("whole", "two", "four", "again")
    pools = [{"name": name, **H100, "nodeSelector": {"p": name}, "sharing": name} for name in names]
    sharing = {
        "whole": {"exclusive": {}},
        "two": {"timeSlicing": {"replicas": 2}},
        "four": {"timeSlicing": {"replicas": 4}},
        "again": {"timeSlicing": {"replicas": 4, "renameByDefault": True}},
    }
    needed = plan_of(existing(pools=pools, sharing=sharing, cluster=CLAIMS)).dra
    assert needed is not None
    assert list(needed.share_pods) == [2, 4]
    assert needed.values["gpuResourcesEnabledOverride"] is True
    assert needed.values["resources"] == {"computeDomains": {"enabled": False}}
    chosen = {
        _label(needed.values["kubeletPlugin"]["affinity"]),
        *(_label(_pod(one)["affinity"]) for one in needed.share_pods.values()),
    }
    assert chosen == {"exclusive", "shares-2", "shares-4"}
    environment = {entry["name"]: entry.get("value") for entry in _pod(needed.share_pods[4])["containers"][0]["env"]}
    assert environment["CONSUMABLE_SHARES"] == "4"
    assert environment["FEATURE_GATES"] == "ConsumableShares=true"
    assert environment["NVIDIA_DRIVER_ROOT"] == "/run/nvidia/driver"


def _pod(spec: Any) -> Any:
    return spec["template"]["spec"]


def _label(affinity: Any) -> str:
    """The value of the driver's label that every term asks for."""
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (value,) = {one["values"][0] for term in terms for one in term["matchExpressions"] if one["key"] == DRA_DRIVER_LABEL}
    return str(value)


def test_no_driver_runs_while_gpus_are_partitioned() -> None:
    needed = plan_of(claiming({"mig": {"layout": {"1g.10gb": 7}}})).dra
    assert needed is not None
    terms = needed.values["kubeletPlugin"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    states = [one for term in terms["nodeSelectorTerms"] for one in term["matchExpressions"] if "mig.config.state" in one["key"]]
    assert [(one["operator"], one.get("values")) for one in states] == [("In", ["success"]), ("DoesNotExist", None)]


def test_a_preinstalled_driver_is_looked_for_in_the_nodes_own_root() -> None:
    needed = plan_of(claiming({"timeSlicing": {"replicas": 4}}, operator={"driver": "preinstalled"})).dra
    assert needed is not None
    assert needed.values["nvidiaDriverRoot"] == "/"
    volumes = {one["name"]: one["hostPath"]["path"] for one in _pod(needed.share_pods[4])["volumes"]}
    assert volumes["driver-root"] == volumes["driver-root-parent"] == "/"


def test_each_resource_name_has_one_class_whoever_declares_it() -> None:
    layouts = [{"1g.10gb": 7}, {"1g.10gb": 3, "2g.20gb": 2}, {"1g.10gb+me": 1, "2g.20gb": 3}]
    found = device_classes(pool_of(claiming({"mig": {"layout": layout}})).sharing for layout in layouts)
    assert [(one.name, one.resource) for one in found] == [
        ("gpu-pools-mig-1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("gpu-pools-mig-1g.10gb.me", "nvidia.com/mig-1g.10gb.me"),
        ("gpu-pools-mig-2g.20gb", "nvidia.com/mig-2g.20gb"),
    ]
    assert "profile == '1g.10gb+me'" in found[1].expression


def test_whole_gpus_have_the_charts_own_class() -> None:
    assert device_classes([pool_of(claiming(one)).sharing for one in ({"exclusive": {}}, {"timeSlicing": {"replicas": 4}})]) == ()


def test_the_image_of_shares_comes_from_the_mirror_too() -> None:
    registry = {"mirror": "registry.example.com/m", "username": "robot", "password": "secret"}
    needed = plan_of(claiming({"timeSlicing": {"replicas": 4}}, registry=registry)).dra
    assert needed is not None
    pod = _pod(needed.share_pods[4])
    assert pod["containers"][0]["image"] == "registry.example.com/m/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.5.0"
    assert pod["imagePullSecrets"] == [{"name": "gpu-pools-registry"}]
    assert needed.values["image"]["repository"] == "registry.example.com/m/dra-driver-nvidia/dra-driver-nvidia-gpu"


def test_the_operator_is_told_of_claims() -> None:
    values = plan_of(claiming({"exclusive": {}})).operator_values
    assert values["driver"]["manager"]["env"] == [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": DRIVER_MANAGER_LABEL}]
    # On such a node its check of the device plugin never ends. That of the toolkit needs the GPUs, which its image leaves out.
    variables = {one["name"]: one["value"] for one in values["validator"]["plugin"]["env"]}
    assert variables == {"COMPONENT": "toolkit", "NVIDIA_VISIBLE_DEVICES": "all"}


def test_nodes_are_expected_to_offer_nothing_by_the_device_plugin() -> None:
    plan = plan_of(claiming({"timeSlicing": {"replicas": 4}}))
    expected = parse_expectation(node_expectation(plan, plan.pools[0]))
    assert expected.node is not None
    assert expected.node.allocatable == {}
    assert "nvidia-device-plugin-daemonset" in expected.node.excluded_operands
    assert "nvidia-device-plugin-daemonset" not in expected.node.operands
    assert expected.node.claims is not None
    assert [(one.resource, one.count, one.shares) for one in expected.node.claims.devices] == [("nvidia.com/gpu", 2, 4)]


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sharing", "pool", "sections", "told"),
    [
        ({"mps": {"replicas": 4}}, {}, {}, "is MPS"),
        ({"mig": {"layout": {"1g.10gb": 7}, "timeSlicing": {"replicas": 2}}}, {}, {}, "(E04)"),
        ({"exclusive": {}}, {}, {"operator": {"values": {"cdi": {"enabled": False}}}}, "(E11)"),
        ({"exclusive": {}}, {}, {"operator": {"values": {"driver": {"version": "560.35.03"}}}}, "(E02)"),
        ({"exclusive": {}}, {"labels": {"nvidia.com/gpu.deploy.device-plugin": "true"}}, {}, "(E06)"),
        ({"mig": {"layout": {"1g.10gb": 7}}}, {}, {"operator": {"migStrategy": "single"}}, "names of their profiles"),
    ],
)
def test_what_claims_cannot_do_is_refused_with_the_reason(
    sharing: dict[str, Any], pool: dict[str, Any], sections: dict[str, Any], told: str
) -> None:
    found = problems(claiming(sharing, pool, **sections))
    assert len(found) == 1, found
    assert told in found[0]
    # The same by the device plugin is none of these.
    if "labels" not in pool and "migStrategy" not in str(sections):
        plan_of(existing({**H100, **pool}, sharing={"shared": sharing}, **sections))


@pytest.mark.parametrize(
    ("version", "old"), [("1.35", True), ("1.35.9", True), ("1.36", False), ("1.36.3", False), ("1.37", False)]
)
def test_kubernetes_must_have_shares_and_names_by_default(version: str, old: bool) -> None:  # noqa: FBT001
    assert too_old_for_claims(version) is old
    stack = aks({"allocation": "dra"}, cluster={"kubernetesVersion": version})
    if old:
        assert any("(E01)" in problem for problem in problems(stack))
    else:
        plan_of(stack)


@pytest.mark.parametrize(("version", "refused"), [("1.35.4", True), ("1.36.0", False), (None, False)])
def test_a_cluster_that_is_found_to_be_older_is_refused(version: str | None, refused: bool) -> None:  # noqa: FBT001
    settings = plan_of(claiming({"exclusive": {}})).settings
    found = [problem.path for problem in check_kubernetes(settings, version, "the cluster has")]
    assert found == (["gpu-pools:pools[0].allocation"] if refused else [])


def test_a_pool_that_may_be_empty_is_refused() -> None:
    found = problems(
        aks({"allocation": "dra", "count": ..., "nodes": {"min": 0, "max": 3}}, cluster={"kubernetesVersion": "1.36"})
    )
    assert [problem for problem in found if "(E09)" in problem]


def test_everything_that_is_wrong_comes_out_at_once() -> None:
    stack = claiming({"mps": {"replicas": 4}}, operator={"values": {"cdi": {"enabled": False}}})
    assert len(problems(stack)) == 2


def test_an_unknown_word_is_refused_with_those_that_are_known() -> None:
    (found,) = problems(claiming({"exclusive": {}}, {"allocation": "DRA"}))
    assert "allocation" in found


# --- what is different -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sharing", "told"),
    [
        ({"timeSlicing": {"replicas": 4}}, "(E10)"),
        ({"timeSlicing": {"replicas": 4}}, "failRequestsGreaterThanOne"),
        ({"timeSlicing": {"replicas": 4, "renameByDefault": True}}, "a pod that asks for nvidia.com/gpu"),
        ({"exclusive": {}}, "(E01)"),
    ],
)
def test_what_pods_notice_is_a_warning(sharing: dict[str, Any], told: str) -> None:
    assert [warning for warning in pool_of(claiming(sharing)).warnings if told in warning]
    assert not [warning for warning in pool_of(existing(H100, sharing={"shared": sharing})).warnings if told in warning]


def test_a_driver_that_nvidia_does_not_document_is_a_warning() -> None:
    operator = {"values": {"driver": {"version": "570.124.06"}}}
    assert [warning for warning in pool_of(claiming({"exclusive": {}}, operator=operator)).warnings if "(E02)" in warning]


def test_devices_follow_from_the_layout_of_each_gpu() -> None:
    pool = pool_of(claiming({"mig": {"gpus": [{"index": [0], "layout": {"1g.10gb": 7}}, {"index": [1], "layout": {}}]}}))
    found = devices(pool.hardware, pool.sharing)
    assert [(one.type, one.count) for one in found] == [("gpu", 1), ("mig", 7)]


# --- claims of their own -----------------------------------------------------------------------------------------


def test_claims_ask_for_the_class_of_each_kind_of_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "stack.yaml"
    stack.write_text(claiming({"mig": {"layout": {"1g.10gb": 3, "2g.20gb": 2}}}, {"name": "cut"}))
    assert main(["claims", str(stack)]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [one["kind"] for one in found] == ["ResourceClaimTemplate", "Pod"] * 2
    (request,) = found[0]["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": "gpu-pools-mig-1g.10gb"}
    pod = found[1]["spec"]
    assert pod["nodeSelector"] == {"gpu-pools/pool": "cut"}
    assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == found[0]["metadata"]["name"]


def test_a_memory_budget_is_a_capacity_that_the_scheduler_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "stack.yaml"
    stack.write_text(claiming({"timeSlicing": {"replicas": 4}, "needs": {"memoryPerReplica": "12Gi"}}))
    assert main(["claims", str(stack), "--json"]) == 0
    template, _ = json.loads(capsys.readouterr().out)
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": "12288Mi"}}}


def test_a_pool_of_the_device_plugin_has_no_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "stack.yaml"
    stack.write_text(existing(H100))
    assert main(["claims", str(stack)]) == 2
    assert "allocation: dra" in capsys.readouterr().err


# --- moving by a rollout -----------------------------------------------------------------------------------------


def rolling(allocation: str | None, sharing: dict[str, Any]) -> PoolPlan:
    said = {"allocation": allocation} if allocation else {}
    window = {"day": "Sunday", "startTime": "02:00", "durationHours": 1}
    pool = {**H100, **said, "rollout": {"windows": [window]}}
    return pool_of(existing(pool, sharing={"shared": sharing}, verification={}))


def test_a_rollout_sets_the_labels_of_claims_itself() -> None:
    pool = rolling("dra", {"timeSlicing": {"replicas": 4}})
    assert {*ALLOCATION_LABELS} <= pool.changed_labels.keys()
    assert not {*ALLOCATION_LABELS} & pool.placed_labels.keys()
    assert becomes(pool)["gpu-pools/becomes-allocation"] == "shares-4"


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ((None, 4), ("dra", 4), True),
        (("dra", 4), ("devicePlugin", 4), True),
        # The driver counts the shares of claims anew.
        (("dra", 4), ("dra", 8), True),
        # More replicas of the device plugin end nothing.
        (("devicePlugin", 4), ("devicePlugin", 8), False),
        ((None, 4), ("devicePlugin", 4), False),
    ],
)
def test_outside_of_its_windows_no_pool_moves(before: tuple[Any, int], after: tuple[Any, int], refused: bool) -> None:  # noqa: FBT001
    old, new = (rolling(allocation, {"timeSlicing": {"replicas": replicas}}) for allocation, replicas in (before, after))
    inputs = [{"metadata": {"annotations": becomes(one)}} for one in (old, new)]
    monday_noon = 1_767_614_400.0
    assert (closed(new, *inputs, monday_noon) is not None) is refused


def test_a_changer_may_set_these_labels_only_where_a_pool_says_allocation() -> None:
    plain, wider = (str(policy_spec(changers=True, allocation=one)) for one in (False, True))
    for label in ALLOCATION_LABELS:
        assert label not in plain
        assert label in wider
