"""MPS with the operator as it is: the admission policy, the pods that are older than it, and what a cluster is asked before."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.gpu_operator import mps_first
from gpu_pools.components.gpu_operator.mps_first import MpsPodsError, asks_about_mps, replace_old_pods
from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.rendering.mps_signal import APP, RIGHT, WRONG, has_wrong_name
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, POOL_LABEL
from gpu_pools.text.errors import InvalidStackError
from tests.api_server import ApiServer, kubeconfig
from tests.unit.stacks import existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.plan.planned import Plan

    from .conftest import Recorder

    Run = Callable[..., Recorder]

OLD_PLUGIN, NEW_PLUGIN, DEAF_PLUGIN = "v0.18.1", "v0.20.0", "v0.19.3"


def mps(pool: Any = None, replicas: int = 4, **operator: Any) -> Plan:
    more = {"verification": {}} if pool else {}
    return plan_of(existing(pool, sharing={"shared": {"mps": {"replicas": replicas}}}, operator=operator, **more))


# --- what is made ------------------------------------------------------------------------------------------


def test_the_policy_comes_before_the_operator(run: Run) -> None:
    made = run(lambda: GpuOperator("op", {}, planned=mps()))
    assert made.one("MutatingAdmissionPolicy").inputs["metadata"]["name"] == "gpu-pools-mps-signal"
    assert made.one("MutatingAdmissionPolicyBinding").inputs["spec"] == {"policyName": "gpu-pools-mps-signal"}
    assert any("op-mps-signal-done" in urn for urn in made.depends_on("op-release"))
    assert any("op-mps-signal-binding" in urn for urn in made.depends_on("op-mps-signal-done"))


@pytest.mark.parametrize("operator", [{"version": "v25.10.1"}, {"install": False}])
def test_where_it_cannot_help_or_is_not_ours_there_is_none(run: Run, operator: Any) -> None:
    made = run(lambda: GpuOperator("op", {}, planned=mps(**operator)))
    assert not made.of("MutatingAdmissionPolicy")


def test_without_mps_nothing_of_it_is_made(run: Run) -> None:
    made = run(lambda: GpuOperator("op", {}, planned=plan_of(existing(sharing={"s": {"timeSlicing": {"replicas": 4}}}))))
    assert not made.of("MutatingAdmissionPolicy")
    assert not [one for one in made.of("ConfigMap") if "mps" in one.name]


# --- pods that are older than the policy -------------------------------------------------------------------


def daemon_pod(node: str, number: int, name: str = WRONG) -> dict[str, Any]:
    helper = {"name": "config-manager", "env": [{"name": "PROCESS_TO_SIGNAL", "value": name}]}
    metadata = {"name": f"mps-{node}-{number}", "uid": f"{node}-{number}", "labels": {"app": APP}}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "main"}, helper]}}


class Cluster:
    """Pods of a DaemonSet: a deleted one is followed by another, corrected once the policy is in force."""

    def __init__(self, *nodes: str, in_force_after: int = 0, corrects: bool = True) -> None:
        self.pods = [daemon_pod(node, 0) for node in nodes]
        self.deleted: list[str] = []
        self.time = 0.0
        self._probes, self._after, self._corrects = 0, in_force_after, corrects
        self._made = 0

    def get(self, _path: str, **_query: str) -> dict[str, Any]:
        return {"items": copy.deepcopy(self.pods)}

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path.endswith("?dryRun=All")
        self._probes += 1
        made = copy.deepcopy(body)
        if self._probes > self._after:
            made["spec"]["containers"][0]["env"][0]["value"] = RIGHT
        return made

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        (pod,) = [one for one in self.pods if one["metadata"]["uid"] == uid]
        assert path.endswith(pod["metadata"]["name"])
        self.deleted.append(uid)
        self.pods.remove(pod)
        self._made += 1
        node = pod["spec"]["nodeName"]
        self.pods.append(daemon_pod(node, self._made, RIGHT if self._corrects else WRONG))
        return {}

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def replace(self) -> None:
        api: Any = self
        replace_old_pods(api, self.sleep, lambda: self.time)


def test_each_old_pod_is_replaced_once_the_policy_is_in_force() -> None:
    cluster = Cluster("a", "b", "c", in_force_after=5)
    cluster.replace()
    assert cluster.deleted == ["a-0", "b-0", "c-0"]
    assert not any(map(has_wrong_name, cluster.pods))
    assert cluster.time >= 5, "not before the policy was seen to be in force"


def test_where_no_pod_is_old_the_cluster_is_not_waited_for() -> None:
    cluster = Cluster("a", in_force_after=10**6)
    cluster.pods = [daemon_pod("a", 0, RIGHT), daemon_pod("b", 0, "another")]
    cluster.replace()
    assert (cluster.deleted, cluster.time) == ([], 0.0)


def test_a_policy_that_does_not_come_into_force_deletes_nothing() -> None:
    cluster = Cluster("a", in_force_after=10**6)
    with pytest.raises(MpsPodsError, match="not in force after 60 s"):
        cluster.replace()
    assert cluster.deleted == []


def test_a_pod_that_stays_wrong_is_not_restarted_for_ever() -> None:
    cluster = Cluster("a", corrects=False)
    with pytest.raises(MpsPodsError, match="node a was restarted 3 times"):
        cluster.replace()
    assert len(cluster.deleted) == 3


# --- what a cluster is asked before ------------------------------------------------------------------------


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(mps_first.log, "warn", heard.append)
    return heard


def plugin(version: str) -> dict[str, Any]:
    image = {"name": "nvidia-device-plugin", "image": f"registry:5000/nvidia/k8s-device-plugin:{version}"}
    metadata = {"name": "nvidia-device-plugin-daemonset", "labels": {"app": "nvidia-device-plugin-daemonset"}}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [image]}}}}


def node(name: str, key: str, pool: str = "gpu") -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {POOL_LABEL: pool, DEVICE_PLUGIN_CONFIG_LABEL: key}}}


def asked(run: Run, api: ApiServer, plan: Plan, given: str | None = None) -> None:
    api.items.setdefault("nodes", [])
    api.items.setdefault("clusterpolicies", [])
    api.items["version"] = {"major": "1", "minor": "36"}
    made: list[Any] = []
    run(lambda: made.append(asks_about_mps("n", plan, (pulumi.Output.secret(given or api.kubeconfig), None))), preview=True)
    (hook,) = made[0].before_create
    assert hook.opts.on_dry_run
    asyncio.get_event_loop().run_until_complete(hook.callback(pulumi.ResourceHookArgs("urn", "", "n", "ConfigMap")))


def test_only_the_keys_of_mps_are_asked_about(run: Run) -> None:
    def program() -> None:
        assert asks_about_mps("n", plan_of(existing()), ("kubeconfig", None)) is None
        assert asks_about_mps("n", mps(), (None, None)) is None

    run(program)


def test_replicas_that_running_daemons_would_not_serve_are_refused(run: Run, api: ApiServer) -> None:
    plan = mps(replicas=10, version="v25.10.1")
    api.items["nodes"] = [node("n1", "mps-4-aaaa"), node("n2", plan.pools[0].config_key), node("n3", "mps-4-aaaa", "other")]
    with pytest.raises(InvalidStackError) as refused:
        asked(run, api, plan)
    (problem,) = refused.value.problems
    assert problem.path == "gpu-pools:pools[0].sharing"
    assert "1 running nodes serve another MPS configuration (n1)" in problem.message
    assert problem.allowed == "mps-4-aaaa, or a pool with `rollout`"


@pytest.mark.parametrize("pool", [None, {"rollout": {}}])
def test_a_fresh_pool_or_one_with_a_rollout_may_have_any_replicas(run: Run, api: ApiServer, said: list[str], pool: Any) -> None:
    """What the remedy says is accepted: a rollout restarts the daemons itself."""
    api.items["nodes"] = [node("n1", "mps-4-aaaa")] if pool else [node("n1", "exclusive-1")]
    asked(run, api, mps(pool, replicas=10, version="v25.10.1"))
    assert said == []


def test_where_a_signal_reaches_the_daemons_any_change_may_come(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"] = [node("n1", "mps-4-aaaa")]
    asked(run, api, mps(replicas=10))
    assert said == []


@pytest.mark.parametrize(
    ("version", "corrected", "words"),
    [
        (DEAF_PLUGIN, False, "whose MPS daemon never receives a configuration"),
        (DEAF_PLUGIN, True, "whose MPS daemon never receives a configuration"),
        (NEW_PLUGIN, False, "nothing corrects the process name that its config-manager signals"),
        (NEW_PLUGIN, True, ""),
        (OLD_PLUGIN, False, ""),
        ("sha256-of-something", False, ""),
    ],
)
def test_an_operator_of_another_owner_is_told_what_it_lacks(
    run: Run,
    api: ApiServer,
    version: str,
    corrected: bool,  # noqa: FBT001
    words: str,
) -> None:
    api.items["daemonsets"] = [plugin(version)]
    api.admits["pods"] = lambda pod: _corrected(pod) if corrected else pod
    if not words:
        asked(run, api, mps(install=False))
        return
    with pytest.raises(InvalidStackError) as refused:
        asked(run, api, mps(install=False))
    (problem,) = refused.value.problems
    assert problem.path == "gpu-pools:operator.install"
    assert words in problem.message
    assert "docs/mps-signal.yaml" in problem.remedy


def test_before_it_has_a_node_its_cluster_policy_tells_the_version(run: Run, api: ApiServer) -> None:
    api.items["clusterpolicies"] = [{"metadata": {"name": "cluster-policy"}, "spec": {"devicePlugin": {"version": DEAF_PLUGIN}}}]
    api.admits["pods"] = lambda pod: pod
    with pytest.raises(InvalidStackError, match=r"device plugin v0\.19\.3"):
        asked(run, api, mps(install=False))


def test_old_replicas_are_refused_with_an_operator_of_another_owner_too(run: Run, api: ApiServer) -> None:
    api.items["daemonsets"] = [plugin(OLD_PLUGIN)]
    api.items["nodes"] = [node("n1", "mps-2-aaaa")]
    api.admits["pods"] = lambda pod: pod
    with pytest.raises(InvalidStackError, match="1 running nodes serve another MPS configuration"):
        asked(run, api, mps(install=False))


def test_a_cluster_that_cannot_be_asked_stops_nothing(run: Run, api: ApiServer, said: list[str]) -> None:
    asked(run, api, mps(), kubeconfig(1))
    assert len(said) == 1
    assert said[0].startswith("not checked before the deploy: whether the cluster can serve MPS")


def test_who_may_not_make_pods_is_told_that_the_policy_was_not_checked(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["daemonsets"] = [plugin(NEW_PLUGIN)]
    asked(run, api, mps(install=False))
    assert [text.partition(" (")[0] for text in said] == ["not checked before the deploy: the admission policy that MPS needs"]


def _corrected(pod: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(pod)
    made["spec"]["containers"][0]["env"][0]["value"] = RIGHT
    return made
