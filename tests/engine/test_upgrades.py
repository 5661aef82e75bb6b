"""The operator over its versions and back, the driver forth and back, nodes that are stranded: what was told, and what happens.

The tests share a stack on an existing cluster, and run in the order they are written. Helm, its hooks and the engine's hooks are
real; the operator is the stand-in, with the charts of four versions. Which step is refused of all there are is in
tests/unit/test_operator_upgrade.py.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from gpu_pools.changes.blast import blast_radius
from gpu_pools.changes.steps import Preview
from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.plan.operator_upgrade import STATE
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import CONDITION, VERIFIER_NAMESPACE
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from sandbox.machines.operands import DRIVER
from tests.engine.marks import ON_NODES
from tests.tiers import at_night, these

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tests.engine.trial import Trial

pytestmark = ON_NODES

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:operator:
    version: v25.3.4
    driverUpgrade: {drainTimeoutSeconds: 60}
  gpu-pools:sharing:
    whole: {exclusive: {}}
  gpu-pools:verification: {deadlineSeconds: 60, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: a, nodeSelector: {pool: a}, gpuModel: NVIDIA A10, gpusPerNode: 1, count: 2, sharing: whole}
"""
PODS: Final = "/api/v1/namespaces/default/pods"
POLICY: Final = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
CRD: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com"
HAS: Final = "nvidia.com/cuda.driver-version.full"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def test_a_release_that_is_left_out_is_refused_in_the_preview_and_in_the_deploy(trial: Trial) -> None:
    _operator(trial, version="v26.7.0")
    for done in (trial.preview(), trial.up()):
        assert done.code
        assert "v26.7.0 leaves out v25.10.1, v26.3.3: v25.3.4 is deployed" in done.text
        assert "Deploy v25.10.1, then v26.3.3, then v26.7.0, each as a deploy of its own." in done.text
    assert _drivers(trial) == {"580.82.07"}
    _operator(trial, version="v25.3.4")


@pytest.mark.parametrize(("version", "driver"), [("v25.10.1", "580.105.08"), ("v26.3.3", "580.126.20"), ("v26.7.0", "595.91.07")])
def test_one_release_after_the_other_with_its_definitions_and_as_it_was_told(trial: Trial, version: str, driver: str) -> None:
    before = trial.plan()
    holder = _hold(trial, "bare")
    _operator(trial, version=version)
    told = {one.what: one for one in blast_radius(Preview(()), before, trial.plan()).renewed}
    with Watch(trial) as watch:
        trial.up().ok()
    # Each verifier has seen it: the chart's own driver is demanded as one that is written.
    assert _drivers(trial) == {driver}
    _has_the_operands_of(trial, version)
    # Helm alone leaves the definitions as they were.
    _has_the_definitions_of(trial, version)
    # What was told, and what happened.
    assert (told["the driver"].effect, told["the driver"].after) == ("upgraded", driver)
    assert "One node after the other: cordoned, its pods that ask for a GPU evicted" in told["the driver"].happens
    assert set(told["the GPU operator"].restarts) | {DRIVER} >= watch.renewed
    assert DRIVER in watch.renewed
    assert watch.cordoned == {1}
    assert holder not in _uids(trial)
    _nothing_left(trial)


def test_a_bare_pod_strands_its_node_where_nothing_is_declared_and_the_old_driver_gets_it_out(trial: Trial) -> None:
    holder = _hold(trial, "bare")
    _operator(trial, driverUpgrade=None, values={"driver": {"version": "580.126.20"}})
    failed = trial.up()
    assert failed.code
    assert "upgrade-failed" in failed.text
    (stranded,) = _in_state(trial, "upgrade-failed")
    assert stranded["spec"]["unschedulable"]
    assert holder in _uids(trial)
    # Another driver is refused meanwhile; the one that it has is the way back, and ends no pod.
    _operator(trial, values={"driver": {"version": "580.105.08"}})
    refused = trial.up()
    assert refused.code
    assert f"node {stranded['metadata']['name']}: its last driver upgrade has failed" in refused.text
    _operator(trial, values={})
    trial.up().ok()
    assert _drivers(trial) == {"595.91.07"}
    assert holder in _uids(trial)
    _nothing_left(trial)


def test_declared_it_is_evicted_and_the_driver_goes_back_and_a_node_that_joins_meanwhile_has_it_at_once(trial: Trial) -> None:
    holder = _hold(trial, "bare") if "bare" not in _names(trial) else trial.get(f"{PODS}/bare")["metadata"]["uid"]
    first = {node["metadata"]["name"] for node in trial.nodes("a")}
    _operator(trial, driverUpgrade={"drainTimeoutSeconds": 60}, values={"driver": {"version": "580.126.20"}})
    with Watch(trial) as watch:
        trial.up_and_scale("a", 3, once=lambda: watch.cordoned, what="a node is cordoned")
    assert watch.cordoned == {1}
    assert _drivers(trial) == {"580.126.20"}
    assert holder not in _uids(trial)
    trial.wait_until(lambda: len(trial.nodes("a")) == 3 and trial.holds(), "the node that joined is as declared")
    (new,) = {node["metadata"]["name"] for node in trial.nodes("a")} - first
    trial.wait_until(lambda: _proven(trial, new), "the node that joined is proven")
    _nothing_left(trial)
    trial.scale("a", 2).ok()
    trial.wait_until(lambda: len(trial.nodes("a")) == 2, "it is gone again")


@pytest.mark.parametrize("env", [[{"name": "PROXY", "value": "a"}], []], ids=["with", "without"])
@at_night("another step of the same cluster")
def test_another_variable_of_the_same_driver_is_waited_for_and_proven_as_it_was_told(
    trial: Trial, env: list[dict[str, str]]
) -> None:
    """Nothing but the revision of the driver's pods tells which nodes have it, least of all that one is gone again."""
    before = trial.plan()
    _operator(trial, values={"driver": {"version": "580.126.20", "env": env}})
    (told,) = blast_radius(Preview(()), before, trial.plan()).renewed
    assert (told.what, told.effect) == ("the driver", "upgraded")
    assert "up waits for it before it proves the nodes" in told.happens
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.cordoned == {1}
    assert DRIVER in watch.renewed
    assert [_proxies(pod) for pod in _pods(trial, OPERATOR_NAMESPACE, DRIVER)] == [[one["value"] for one in env]] * 2
    _proven_since_the_drivers(trial)
    _nothing_left(trial)


@pytest.mark.parametrize(
    ("version", "driver"), these([("v26.3.3", "580.126.20"), ("v25.10.1", "580.105.08"), ("v25.3.4", "580.82.07")], (), by_day=1)
)
@at_night("another step of the same cluster")
def test_a_step_back_is_taken_once_it_is_acknowledged(trial: Trial, version: str, driver: str) -> None:
    _operator(trial, version=version, values={})
    refused = trial.preview()
    assert refused.code
    entry = {"resource": "cluster", "change": cluster_use(trial.plan()), "reason": "the newer one broke our jobs"}
    assert entry["change"] in refused.text
    trial.edit(lambda config: config.update({"gpu-pools:acknowledged": [entry]}))
    trial.up().ok()
    # The first step keeps the driver that the nodes have, so only the pods tell that another operator has renewed it.
    _proven_since_the_drivers(trial)
    assert _drivers(trial) == {driver}
    _has_the_operands_of(trial, version)
    _has_the_definitions_of(trial, version)
    assert trial.get(POLICY)["spec"]["daemonsets"]["labels"]["helm.sh/chart"] == f"gpu-operator-{version}"
    _nothing_left(trial)


@dataclass
class Watch:
    """What nodes and operands show while something is done.

    Attributes:
        trial: whose.
        cordoned: every number of cordoned nodes but 0 that was seen.
        renewed: DaemonSets of the operator of which another pod was seen than at the beginning.
    """

    trial: Trial
    cordoned: set[int] = field(default_factory=set)
    renewed: set[str] = field(default_factory=set)
    _before: dict[str, str] = field(default_factory=dict)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._before = self._operands()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        if self._thread:
            self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.2):
            self.cordoned |= {sum(bool(node["spec"].get("unschedulable")) for node in self.trial.nodes())} - {0}
            self.renewed |= {name for uid, name in self._operands().items() if uid not in self._before}

    def _operands(self) -> dict[str, str]:
        """Uid of a pod -> the operator's DaemonSet that it is of."""
        pods = self.trial.api().list("/api/v1/namespaces/gpu-operator/pods")["items"]
        owned = [(pod, owner) for pod in pods for owner in pod["metadata"].get("ownerReferences", ())]
        return {
            pod["metadata"]["uid"]: owner["name"]
            for pod, owner in owned
            if owner["kind"] == "DaemonSet" and not owner["name"].startswith("gpu-pools")
        }


def _operator(trial: Trial, **changes: Any) -> None:
    """Declare something else of the operator; None takes a key out."""

    def edit(config: dict[str, Any]) -> None:
        section = {**config["gpu-pools:operator"], **changes}
        config["gpu-pools:operator"] = {key: value for key, value in section.items() if value is not None}

    trial.edit(edit)


def _has_the_definitions_of(trial: Trial, version: str) -> None:
    spec = _schema(trial)
    assert ("secretEnv" in spec["driver"]["properties"]) is (version != "v25.3.4")
    assert ("nriPluginEnabled" in spec["cdi"]["properties"]) is version.startswith("v26.")
    assert ("kubeletRootDir" in spec["hostPaths"]["properties"]) is (version == "v26.7.0")


def _has_the_operands_of(trial: Trial, version: str) -> None:
    """Once `up` is over no pod of another operator is there."""
    pods = trial.api().list("/api/v1/namespaces/gpu-operator/pods")["items"]
    operands = [
        pod["metadata"]["labels"]
        for pod in pods
        if pod["metadata"]["labels"].get("app.kubernetes.io/managed-by") == "gpu-operator"
    ]
    assert DRIVER in {labels["app"] for labels in operands}
    assert {labels["helm.sh/chart"] for labels in operands} == {f"gpu-operator-{version}"}


def _schema(trial: Trial) -> dict[str, Any]:
    crd = trial.get(CRD)
    spec: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return spec


def _drivers(trial: Trial) -> set[str]:
    return {node["metadata"]["labels"].get(HAS, "") for node in trial.nodes("a")}


def _proven(trial: Trial, name: str) -> bool:
    """Whether the node's own verifier says that it holds."""
    (node,) = (one for one in trial.nodes("a") if one["metadata"]["name"] == name)
    return any(one["type"] == CONDITION and one["status"] == "True" for one in node["status"]["conditions"])


def _in_state(trial: Trial, state: str) -> list[dict[str, Any]]:
    return [node for node in trial.nodes("a") if node["metadata"]["labels"].get(STATE) == state]


def _hold(trial: Trial, name: str) -> str:
    """A bare pod that holds a GPU; its uid."""
    spec = {"containers": [{"name": "c", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    trial.api().create(PODS, {"metadata": {"name": name}, "spec": spec})
    trial.wait_until(lambda: trial.get(f"{PODS}/{name}")["status"]["phase"] == "Running", f"{name} runs")
    return str(trial.get(f"{PODS}/{name}")["metadata"]["uid"])


def _proven_since_the_drivers(trial: Trial) -> None:
    """Each node's verifier has begun when all drivers were there."""
    drivers, verifiers = _pods(trial, OPERATOR_NAMESPACE, DRIVER), _pods(trial, VERIFIER_NAMESPACE, VERIFIER_APP)
    assert min(_begun(pod) for pod in verifiers) >= max(_begun(pod) for pod in drivers)


def _pods(trial: Trial, namespace: str, app: str) -> list[dict[str, Any]]:
    """The two pods of a program that are on the pool's nodes."""
    found = trial.api().list(f"/api/v1/namespaces/{namespace}/pods")["items"]
    pods = [pod for pod in found if pod["metadata"]["name"].startswith(app)]
    assert len(pods) == 2
    return pods


def _proxies(pod: dict[str, Any]) -> list[str]:
    (driver,) = (one for one in pod["spec"]["containers"] if one["name"] == "nvidia-driver-ctr")
    return [one["value"] for one in driver.get("env", ()) if one["name"] == "PROXY"]


def _begun(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["creationTimestamp"])


def _uids(trial: Trial) -> set[str]:
    return {pod["metadata"]["uid"] for pod in trial.api().list(PODS)["items"]}


def _names(trial: Trial) -> set[str]:
    return {pod["metadata"]["name"] for pod in trial.api().list(PODS)["items"]}


def _nothing_left(trial: Trial) -> None:
    trial.wait_until(lambda: len(_in_state(trial, "upgrade-done")) == len(trial.nodes("a")), "every node is upgrade-done")
    assert [node["metadata"]["name"] for node in trial.nodes() if node["spec"].get("unschedulable")] == []
    assert trial.holds()
