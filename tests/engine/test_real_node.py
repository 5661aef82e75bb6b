"""`make up NODES=real`: a stack with one real node and, beside it, a simulated one of the same declaration.

What a real kubelet makes of the same objects is compared with what the stand-ins make of them. Each known difference stands here
with its reason; any other one fails. The tests share a stack and run in the order they are written.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.proof.smoke_test import SMOKE_TEST_NAMESPACE
from sandbox.cluster import node_tools
from sandbox.machines.ending import ENDS_AFTER, NEVER
from sandbox.real_node import allowed
from sandbox.system import cgroups
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import REAL_NODE
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engine.trial import Trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
  gpu-pools:verification: {deadlineSeconds: 300}
  gpu-pools:pools:
    - {name: real, nodeSelector: {pool: real}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
    - {name: beside, nodeSelector: {pool: beside}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
"""
REAL, BESIDE = "real-0", "beside-0"
#: Labels and annotations that may differ, by how they begin -> why.
DIFFER: Final = {
    "feature.node.kubernetes.io/kernel-": "a real node has this machine's kernel",
    "feature.node.kubernetes.io/storage-": "a simulated machine has no disks",
    "feature.node.kubernetes.io/cpu-": "a real node has all that nfd-worker sees of this machine's processors",
    "nvidia.com/gpu.machine": "there is no DMI table below a real node's /sys",
    "nvidia.com/gfd.timestamp": "when it was written",
    "gpu-pools/verification": "it has node, pool and time in it; the verdict is compared below",
    "nfd.node.kubernetes.io/feature-labels": "the list of the labels above",
    "sandbox.gpu-pools/machine-group": "the simulated machines' own",
    "volumes.kubernetes.io/controller-managed-attach-detach": "the kubelet's; nothing here attaches volumes",
    "kubernetes.io/hostname": "the name",
    "gpu-pools/pool": "the name",
    "pool": "the name",
}
OPERATOR, NFD = "gpu-operator", "node-feature-discovery"
KEY: Final = "nvidia.com/device-plugin.config"
PLUGIN: Final = "app=nvidia-device-plugin-daemonset"
SHARES, RESTARTS = "allocatable", "restarts of config-manager"
#: Seconds: by how much a real kubelet and the stand-in may differ in a change that neither waits with; what a container needs to
#: start and to end, on a machine that is busy, too.
APART, SLACK = 15.0, 8.0
#: Programs of a Deployment, which are on some node.
ANYWHERE: Final = ("node-feature-discovery-master", "node-feature-discovery-gc", "gpu-operator-")


def brought_up(made: Callable[..., Trial], stack: str) -> Trial:
    """A stack that has been brought up with a real node; skips where this machine allows none."""
    if refused := allowed.obstacle():
        pytest.skip(f"no real node was tried: {refused}")
    try:
        obtain(REAL_NODE, Progress())
    except SandboxError as error:
        pytest.skip(f"no real node was tried: {error.message}")
    trial = made(stack)
    trial.up("--nodes", "real").ok()
    return trial


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    return brought_up(shared_sandbox, STACK)


def node(trial: Trial, name: str) -> dict[str, Any]:
    found: dict[str, Any] = trial.get(f"/api/v1/nodes/{name}")
    return found


def pods(trial: Trial, name: str) -> list[dict[str, Any]]:
    """The pods of a node, but those that are anywhere."""
    found = trial.api().list(f"/api/v1/pods?fieldSelector=spec.nodeName={name}")["items"]
    return [one for one in found if not one["metadata"]["name"].startswith(ANYWHERE)]


def workload(pod: dict[str, Any]) -> str:
    """The name of what made a pod, whatever its pool is called."""
    name: str = pod["metadata"]["ownerReferences"][0]["name"]
    return name.replace("-real", "-…").replace("-beside", "-…")


def advertised(trial: Trial, name: str) -> str:
    found: str = node(trial, name)["status"]["allocatable"].get("nvidia.com/gpu", "")
    return found


def verdict(trial: Trial, name: str) -> str:
    report = json.loads(node(trial, name)["metadata"]["annotations"]["gpu-pools/verification"])
    found: str = report["verdict"]
    return found


def known(key: str) -> bool:
    return any(key == one or (key.startswith(one) and one.endswith("-")) for one in DIFFER)


def seen_of(pod: dict[str, Any]) -> dict[str, Any]:
    """What of a pod that runs must not depend on who runs it; restarts are nobody's promise."""
    status = pod["status"]
    return {
        "phase": status["phase"],
        "class": status.get("qosClass"),
        "conditions": {one["type"]: one["status"] for one in status["conditions"]},
        "containers": {one["name"]: (one["ready"], sorted(one["state"])) for one in status["containerStatuses"]},
        "inits": {
            one["name"]: (one["ready"], one["state"]["terminated"]["exitCode"]) for one in status.get("initContainerStatuses", [])
        },
    }


class NodeEvents:
    """What became of something on each node, and when."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, str], list[tuple[float, str]]] = {}

    def note(self, name: str, what: str, value: str) -> None:
        """Of what is the same as before nothing is written down."""
        events = self._events.setdefault((name, what), [])
        if not events or events[-1][1] != value:
            events.append((time.monotonic(), value))

    def steps(self, name: str, what: str) -> list[str]:
        return [value for _, value in self._events.get((name, what), [])]

    def time(self, name: str, what: str, value: str) -> float:
        return next(moment for moment, found in self._events[name, what] if found == value)

    def moved(self, name: str, what: str) -> float:
        """When it was first another one."""
        return self._events[name, what][1][0]

    def gaps(self, name: str, what: str) -> list[float]:
        times = [moment for moment, _ in self._events[name, what]]
        return [after - before for before, after in itertools.pairwise(times)]


@contextlib.contextmanager
def recorded(trial: Trial) -> Iterator[NodeEvents]:
    """Look at both nodes several times a second, and once more when it is over."""
    seen, over = NodeEvents(), threading.Event()
    api = trial.api()

    def look() -> None:
        last = False
        while not last:
            last = over.wait(0.1)
            for name in (REAL, BESIDE):
                found = api.get(f"/api/v1/nodes/{name}") or {}
                seen.note(name, SHARES, found["status"]["allocatable"].get("nvidia.com/gpu", ""))
                seen.note(name, KEY, found["metadata"]["labels"].get(KEY, ""))
                listed = api.list(f"/api/v1/namespaces/{OPERATOR}/pods?fieldSelector=spec.nodeName={name}&labelSelector={PLUGIN}")
                for pod in listed["items"]:
                    for one in pod["status"].get("containerStatuses") or []:
                        if one["name"] == "config-manager":
                            seen.note(name, RESTARTS, str(one["restartCount"]))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def nfd_masters(trial: Trial) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trial.api().list(f"/api/v1/namespaces/{NFD}/pods?labelSelector=role=master")["items"]
    return found


def test_a_real_and_a_simulated_node_are_both_as_declared(trial: Trial) -> None:
    assert advertised(trial, REAL) == advertised(trial, BESIDE) == "4"
    assert verdict(trial, REAL) == verdict(trial, BESIDE) == "holds"
    runtimes = [node(trial, name)["status"]["nodeInfo"]["containerRuntimeVersion"] for name in (REAL, BESIDE)]
    assert runtimes == ["containerd://2.4.2", "containerd://simulated"]


@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_what_programs_write_on_the_nodes_is_the_same(trial: Trial, what: str) -> None:
    real, beside = (node(trial, name)["metadata"][what] for name in (REAL, BESIDE))
    differing = {key for key in real.keys() | beside.keys() if real.get(key) != beside.get(key)}
    assert {key: (real.get(key), beside.get(key)) for key in differing if not known(key)} == {}
    assert "nvidia.com/gpu.product" in real or what == "annotations"


def test_the_same_pods_are_in_the_same_state(trial: Trial) -> None:
    real, beside = ({workload(pod): seen_of(pod) for pod in pods(trial, name)} for name in (REAL, BESIDE))
    assert real.keys() == beside.keys()
    for name, seen in real.items():
        assert seen == beside[name], name


def test_a_change_reaches_both_by_the_same_steps_and_as_fast(trial: Trial) -> None:
    before = {workload(pod): pod["metadata"]["uid"] for pod in pods(trial, REAL)}
    trial.edit(lambda config: config["gpu-pools:sharing"].update(sliced={"timeSlicing": {"replicas": 8}}))
    with recorded(trial) as seen:
        trial.up().ok()
    # A kubelet that writes its status between a plugin's end and its registration tells none.
    steps = {name: [one for one in seen.steps(name, SHARES) if one != "0"] for name in (REAL, BESIDE)}
    assert steps[REAL] == steps[BESIDE] == ["4", "8"]
    # From the label, which one nfd-master moves on both; a kubelet and its stand-in look every two to three seconds.
    delays = {name: seen.time(name, SHARES, "8") - seen.moved(name, KEY) for name in (REAL, BESIDE)}
    assert abs(delays[REAL] - delays[BESIDE]) < APART, delays
    assert advertised(trial, REAL) == advertised(trial, BESIDE) == "8"
    after = {workload(pod): pod["metadata"]["uid"] for pod in pods(trial, REAL)}
    plugin = "nvidia-device-plugin-daemonset"
    assert after[plugin] == before[plugin], "the plugin's pod was replaced, not told"


@at_night("more of the same node, a minute each")
def test_a_label_that_names_no_key_plays_the_same_and_the_stand_in_s_waits_are_a_tenth(trial: Trial) -> None:
    """config-manager ends for want of the key, is started again after waits that double, and finds it once the label is right."""
    (folder,) = trial.clusters
    masters = f"/apis/apps/v1/namespaces/{NFD}/deployments/{NFD}-master"
    key = node(trial, REAL)["metadata"]["labels"][KEY]
    shares = advertised(trial, REAL)
    assert shares in {"4", "8"}, "as it was brought up, or as the test before has changed it"
    # It would put the label back.
    trial.api().patch(masters, {"spec": {"replicas": 0}})
    trial.wait_until(lambda: not nfd_masters(trial), "nfd-master is gone", seconds=60)
    try:
        with recorded(trial) as seen:
            for name in (REAL, BESIDE):
                trial.api().patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {KEY: "no-such-key"}}})
            trial.wait_until(lambda: len(seen.steps(REAL, RESTARTS)) > 3, f"three restarts; {folder}", seconds=90)
            for name in (REAL, BESIDE):
                trial.api().patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {KEY: key}}})
            trial.wait_until(
                lambda: all(advertised(trial, name) == shares for name in (REAL, BESIDE)), f"{shares} shares again", seconds=90
            )
    finally:
        trial.api().patch(masters, {"spec": {"replicas": 1}})
    # Without a label that is known the default key counts, of exclusive use, each time it is started.
    # A kubelet that writes its status between a plugin's end and the next one's registration tells none.
    for name in (REAL, BESIDE):
        assert set(seen.steps(name, SHARES)) <= {shares, "1", "0"}
        assert seen.steps(name, SHARES)[-1] == shares
    waits = {name: seen.gaps(name, RESTARTS)[1:3] for name in (REAL, BESIDE)}
    for real, beside, twice in zip(waits[REAL], waits[BESIDE], (1, 2), strict=True):
        assert 10 * twice <= real < 10 * twice + SLACK, waits
        assert twice <= beside < twice + SLACK, waits


def test_another_strategy_reaches_both(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:sharing"].update(sliced={"exclusive": {}}))
    trial.up().ok()
    assert advertised(trial, REAL) == advertised(trial, BESIDE) == "1"


def test_a_revert_reaches_both_and_the_smoke_test_s_pods_use_the_real_node(trial: Trial) -> None:
    trial.edit(
        lambda config: (
            config["gpu-pools:sharing"].update(sliced={"timeSlicing": {"replicas": 4}}),
            config["gpu-pools:verification"].update(smokeTest=True),
        )
    )
    trial.up().ok()
    assert advertised(trial, REAL) == advertised(trial, BESIDE) == "4"
    assert verdict(trial, REAL) == "holds"
    tested = [pod for pod in pods(trial, REAL) if pod["metadata"]["namespace"] == SMOKE_TEST_NAMESPACE]
    assert [pod["status"]["phase"] for pod in tested] == ["Succeeded"] * 5, "four shares, and one that waits for one of them"
    (folder,) = trial.clusters
    for pod in tested:
        asked = ["kubectl", f"--kubeconfig={folder / 'kubeconfig'}", "logs", "-n", SMOKE_TEST_NAMESPACE, pod["metadata"]["name"]]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
        assert said[0].startswith("GPU 0: NVIDIA A10 (UUID: GPU-")
        assert said[-1] == "round 1 is right"
    trial.edit(lambda config: config["gpu-pools:verification"].pop("smokeTest"))
    trial.up().ok()


@at_night("more of the same node, a minute each")
def test_every_pod_of_the_node_can_be_restarted(trial: Trial) -> None:
    uids = {pod["metadata"]["uid"] for pod in pods(trial, REAL)}
    for pod in pods(trial, REAL):
        meta = pod["metadata"]
        trial.api().delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")

    def all_new() -> bool:
        found = pods(trial, REAL)
        ready = [{c["type"]: c["status"] for c in one["status"].get("conditions", [])}.get("Ready") for one in found]
        return not uids & {one["metadata"]["uid"] for one in found} and set(ready) == {"True"} and len(found) == len(uids)

    trial.wait_until(all_new, "all pods of the real node are new and ready", seconds=180)
    trial.wait_until(lambda: trial.status().code == 0, "everything is as declared again", seconds=120)
    assert advertised(trial, REAL) == "4"


PODS: Final = "/api/v1/namespaces/default/pods"
IGNORES: Final = "trap '' TERM; while true; do sleep 0.1; done"
#: Name -> its program, what that needs after SIGTERM, its grace, its hook.
ENDINGS: Final[dict[str, tuple[str, str, int, int]]] = {
    "saves": ("trap 'sleep 3; exit 0' TERM; while true; do sleep 0.1; done", "3", 30, 0),
    "refuses": (IGNORES, NEVER, 6, 0),
    "hooked": ("trap 'exit 0' TERM; while true; do sleep 0.1; done", "0", 30, 4),
    "late": (IGNORES, NEVER, 3, 60),
    "hurried": (IGNORES, NEVER, 8, 0),
}


NEVER_RUNS: Final = "never-runs"


def ends(name: str, place: str, image: str) -> dict[str, Any]:
    program, after, grace, hook = ENDINGS[name]
    container: dict[str, Any] = {"name": "c", "image": image, "command": ["sh", "-c", program]}
    if hook:
        container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", str(hook)]}}}
    metadata = {"name": f"{name}-{place}", "labels": {"ends": "yes"}, "annotations": {ENDS_AFTER: after}}
    return {"metadata": metadata, "spec": {"nodeName": place, "terminationGracePeriodSeconds": grace, "containers": [container]}}


def never_runs(place: str, image: str) -> dict[str, Any]:
    """One whose volume nobody makes."""
    made = ends("saves", place, image)
    made["metadata"]["name"] = f"{NEVER_RUNS}-{place}"
    made["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "of-nobody"}}]
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    return made


def told_of(pod: dict[str, Any]) -> tuple[str, str, bool, int | None]:
    """What a pod's status says: phase, whether it is ready, whether it is to go, how its container has ended."""
    status = pod["status"]
    ready = {one["type"]: one["status"] for one in status.get("conditions", [])}.get("Ready", "")
    codes = [one["state"].get("terminated", {}).get("exitCode") for one in status.get("containerStatuses", [])]
    return status["phase"], ready, "deletionTimestamp" in pod["metadata"], codes[0] if codes else None


def ended(trial: Trial, listed: dict[str, Any], hurried: list[str]) -> tuple[dict[str, list[Any]], dict[str, float]]:
    """Delete pods, and some of them once more with a shorter grace: what was told of each, and when it was gone."""
    api, begun, took = trial.api(), time.monotonic(), dict[str, float]()
    seen: dict[str, list[Any]] = {pod["metadata"]["name"]: [told_of(pod)] for pod in listed["items"]}
    for name in seen:
        api.delete(f"{PODS}/{name}")
    time.sleep(1)
    for name in (name for name in seen if name.startswith(tuple(hurried))):
        api.delete(f"{PODS}/{name}", grace_seconds=2)
    for event in api.watch(PODS, listed["metadata"]["resourceVersion"]):
        name = event["object"]["metadata"].get("name")
        if name not in seen:
            continue
        if event["type"] == "DELETED":
            took[name] = time.monotonic() - begun
        if seen[name][-1] != told_of(event["object"]):
            seen[name].append(told_of(event["object"]))
        if len(took) == len(seen):
            break
    return seen, took


@at_night("more of the same node, a minute each")
def test_pods_end_by_the_same_steps_and_as_late(trial: Trial) -> None:
    """Also one whose grace is shortened while it ends, which a kubelet does not mind; and one that never ran."""
    api = trial.api()
    (marker,) = [pod for pod in pods(trial, REAL) if workload(pod).startswith("gpu-pools-marker-")]
    image = marker["spec"]["containers"][0]["image"]
    for name in ENDINGS:
        for place in (REAL, BESIDE):
            api.create(PODS, ends(name, place, image))
    for place in (REAL, BESIDE):
        api.create(PODS, never_runs(place, image))
    query = f"{PODS}?labelSelector=ends"
    # All but the two that never run.
    trial.wait_until(
        lambda: sorted(told_of(pod)[1] for pod in api.list(query)["items"]) == ["False"] * 2 + ["True"] * 2 * len(ENDINGS),
        "all run that can",
        seconds=90,
    )
    seen, took = ended(trial, api.list(query), ["hurried"])
    for name in (*ENDINGS, NEVER_RUNS):
        assert seen[f"{name}-{REAL}"] == seen[f"{name}-{BESIDE}"], (name, took)
        assert abs(took[f"{name}-{BESIDE}"] - took[f"{name}-{REAL}"]) < SLACK, (name, took)
    least = {"saves": 3, "refuses": 6, "hooked": 4, "late": 5, "hurried": 8}
    assert all(took[f"{name}-{BESIDE}"] >= seconds for name, seconds in least.items()), took


@at_night("more of the same node, a minute each")
def test_a_killed_node_comes_back_with_the_next_up(trial: Trial) -> None:
    (folder,) = trial.clusters
    trial.kill_everything()
    assert cgroups.left(folder), "what a kill leaves are cgroups"
    begun = time.monotonic()
    trial.up().ok()
    assert advertised(trial, REAL) == "4", time.monotonic() - begun
    assert verdict(trial, REAL) == "holds"


def test_other_nodes_are_refused_while_it_is_up_and_nothing_is_left_after_down(trial: Trial) -> None:
    (folder,) = trial.clusters
    refused = trial.up("--nodes", "simulated")
    assert (refused.code, "the nodes of this stack are real ones already" in refused.err) == (1, True)
    trial.down().ok()
    assert cgroups.left(folder) == []
    assert trial.processes() == {}
