"""The startup taint in the plan: who registers with it, who tolerates it, what is said about it."""

from __future__ import annotations

import pytest

from gpu_pools.plan.document import pool_json
from gpu_pools.plan.placing import node_feature_rule, node_group_labels
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_pods import verifier_daemon_set_spec
from gpu_pools.rendering.startup_taint import STARTUP_TAINT, refusal
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import aks, existing, magnum, plan_of, pool_of

VERIFIED = {"startupTaint": True}
TOLERATION = {"key": STARTUP_TAINT.key, "operator": "Exists", "effect": "NoSchedule"}
GATED = {
    "aks": aks(cluster={"kubernetesVersion": "1.36"}, verification=VERIFIED),
    "magnum": magnum(verification=VERIFIED),
    "existing": existing(verification=VERIFIED),
}


def test_the_key_is_one_that_the_cluster_autoscaler_knows() -> None:
    assert str(STARTUP_TAINT) == "startup-taint.cluster-autoscaler.kubernetes.io/gpu-pools-unverified:NoSchedule"


@pytest.mark.parametrize("verification", [None, {}, {"startupTaint": False}, {"startupTaint": True, "enabled": False}], ids=str)
def test_no_node_has_it_unless_a_verifier_is_there_to_take_it_away(verification: object) -> None:
    plan = plan_of(aks(verification=verification))
    assert plan.pools[0].startup_taint is None
    assert TOLERATION not in plan.tolerations


@pytest.mark.parametrize("platform", GATED)
def test_whatever_makes_a_node_ready_tolerates_it(platform: str) -> None:
    plan = plan_of(GATED[platform])
    assert TOLERATION in plan.tolerations
    assert {"operator": "Exists", "effect": TOLERATION["effect"]} in plan.operator_values["daemonsets"]["tolerations"]
    assert TOLERATION in plan.nfd_values["worker"]["tolerations"]
    assert TOLERATION in verifier_daemon_set_spec(plan, plan.pools[0], "p", "5" * 64)["template"]["spec"]["tolerations"]


@pytest.mark.parametrize("platform", GATED)
def test_both_containers_of_the_verifier_take_it_away(platform: str) -> None:
    plan = plan_of(GATED[platform])
    pod = verifier_daemon_set_spec(plan, plan.pools[0], "p", "5" * 64)["template"]["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["args"][container["args"].index("--untaint") + 1] == STARTUP_TAINT.key


def test_without_it_no_taint_is_taken_away() -> None:
    plan = plan_of(aks(verification={}))
    pod = verifier_daemon_set_spec(plan, plan.pools[0], "p", "5" * 64)["template"]["spec"]
    assert not [one for one in (*pod["initContainers"], *pod["containers"]) if "--untaint" in one["args"]]


@pytest.mark.parametrize("platform", GATED)
def test_neither_its_presence_nor_its_absence_is_a_difference(platform: str) -> None:
    plan = plan_of(GATED[platform])
    assert plan.pools[0].taints == ()
    assert node_expectation(plan, plan.pools[0])["node"]["taints"] == []


def test_heat_s_kubelets_register_with_it_beside_the_pool_s_own() -> None:
    pool_plan = pool_of(magnum({"taints": ["sku=gpu:NoSchedule"]}, verification=VERIFIED))
    assert node_group_labels(pool_plan, MagnumSettings(driver="heat")) == {
        "kubelet_options": f"--register-with-taints=sku=gpu:NoSchedule,{STARTUP_TAINT.key}=:NoSchedule"
    }


def test_nfd_never_puts_it_on_since_it_would_come_back() -> None:
    assert "taints" not in node_feature_rule(pool_of(existing(verification=VERIFIED)))["rules"][0]


def test_each_platform_has_its_means() -> None:
    found = {platform: plan_of(stack).settings.cluster.tainted_by for platform, stack in GATED.items()}
    assert found == {"aks": "admission", "magnum": "kubelet", "existing": "admission"}


@pytest.mark.parametrize("version", [None, "1.36", "1.36.2", "1.37", "2.0"])
def test_nothing_stands_against_it_where_nodes_can_register_with_it(version: str | None) -> None:
    assert refusal(AksSettings(kubernetes_version=version)) == ""
    # A Magnum section without driver is not complete yet: nothing is known of its nodes.
    assert refusal(MagnumSettings()) == refusal(MagnumSettings(driver="heat")) == refusal(ExistingSettings()) == ""


@pytest.mark.parametrize("version", ["1.35", "1.35.9", "1.9"])
def test_an_older_kubernetes_stands_against_it(version: str) -> None:
    text = f"needs Kubernetes 1.36, and gpu-pools:cluster.kubernetesVersion is {version}"
    assert refusal(AksSettings(kubernetes_version=version)) == text


def test_what_a_deploy_may_find_out_too_late_is_said() -> None:
    assert pool_of(GATED["aks"]).warnings == ()
    (azure,) = pool_of(aks(verification=VERIFIED)).warnings
    assert "startupTaint needs Kubernetes 1.36 or newer: whether Azure's own default is cannot be checked" in azure
    # The second is about the cluster (W41).
    own, _ = pool_of(GATED["existing"]).warnings
    assert "nodes that are there already get none" in own


@pytest.mark.parametrize(("verification", "warned"), [({}, True), (VERIFIED, False)])
def test_c06_pods_cannot_start_before_the_layout_is_there(verification: object, warned: bool) -> None:  # noqa: FBT001
    sharing = {"cut": {"mig": {"layout": {"1g.10gb": 7}}}}
    pool = pool_of(aks({"count": ..., "nodes": {"min": 1, "max": 2}}, sharing=sharing, verification=verification))
    assert any("(C06)" in warning for warning in pool.warnings) is warned


SLICED = {"cut": {"mig": {"layout": {"1g.10gb": 7}}}}
SCALED = {"count": ..., "nodes": {"min": 1, "max": 2}}


def _c06(stack: str) -> str:
    (warning,) = [text for text in pool_of(stack).warnings if "(C06)" in text]
    return warning


def test_c06_recommends_what_the_cluster_takes() -> None:
    told = "set gpu-pools:verification.startupTaint, which needs Kubernetes 1.36"
    assert told in _c06(aks(SCALED, sharing=SLICED, cluster={"kubernetesVersion": "1.36"}))
    assert plan_of(aks(SCALED, sharing=SLICED, cluster={"kubernetesVersion": "1.36"}, verification=VERIFIED)).pools


def test_c06_recommends_nothing_that_is_refused() -> None:
    old = {"kubernetesVersion": "1.34"}
    told = "select nodes by nvidia.com/mig.config.state=success (no startupTaint here: needs Kubernetes 1.36"
    assert told in _c06(aks(SCALED, sharing=SLICED, cluster=old))
    with pytest.raises(InvalidStackError):
        plan_of(aks(SCALED, sharing=SLICED, cluster=old, verification=VERIFIED))


@pytest.mark.parametrize(
    ("driver", "told"),
    [("heat", ": set gpu-pools:verification.startupTaint."), ("capi-helm", "no startupTaint here: nodes of Magnum's")],
)
def test_c06_on_magnum_speaks_of_what_its_driver_can(driver: str, told: str) -> None:
    warning = _c06(magnum(SCALED, sharing={"cut": {"mig": {"layout": {"1g.5gb": 7}}}}, cluster={"driver": driver}))
    assert told in f"{warning}."


def test_the_plan_for_machines_tells_it() -> None:
    assert pool_json(pool_of(GATED["aks"]))["startupTaint"] == str(STARTUP_TAINT)
    assert pool_json(pool_of(aks()))["startupTaint"] is None


@pytest.mark.parametrize(
    ("stack", "path", "allowed", "remedy"),
    [
        (
            aks(cluster={"kubernetesVersion": "1.35"}, verification=VERIFIED),
            "gpu-pools:verification.startupTaint",
            "true with Kubernetes 1.36 or newer",
            'Set kubernetesVersion: "1.36", or leave startupTaint out.',
        ),
        (
            magnum(cluster={"driver": "capi-helm"}, verification=VERIFIED),
            "gpu-pools:verification.startupTaint",
            "true on AKS, with Magnum's driver heat and on existing clusters",
            "Leave it out; the deploy still waits until the nodes have passed.",
        ),
        (
            existing({"taints": ["a:NoSchedule", f"{STARTUP_TAINT.key}:NoSchedule"]}, verification=VERIFIED),
            "gpu-pools:pools[0].taints[1]",
            "taints that stay",
            "Remove it: `startupTaint: true` puts it on new nodes, and the verifier takes it away.",
        ),
    ],
)
def test_where_it_cannot_be_a_stack_is_refused(stack: str, path: str, allowed: str, remedy: str) -> None:
    with pytest.raises(InvalidStackError) as refused:
        plan_of(stack)
    assert [(one.path, one.allowed, one.remedy) for one in refused.value.problems] == [(path, allowed, remedy)]
