"""What is asked of the API about a node, and what of the answers is kept: each field, and each way in which one can be absent."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier import node as verifier_node
from gpu_pools.verifier.marks import changed_label, set_by
from gpu_pools.verifier.node import ApiFailure, ConfigReading, NodeReader, NodeReading, Pod, PolicyReading, belongs
from tests.verifier import nodes

if TYPE_CHECKING:
    from gpu_pools.verifier.expectation import NodeExpectation
    from tests.verifier.api_server import ApiServer

HEALTHY = nodes.healthy(*nodes.plan_and_pool({"timeSlicing": {"replicas": 4}}))
AT = "2026-03-04T05:06:07Z"
STARTED, ENDED, EARLIER = "2026-01-02T03:04:05Z", "2026-01-02T03:00:00Z", "2026-01-02T02:00:00Z"
PLUGIN = "nvidia-device-plugin-daemonset"
NODE, PODS = "/api/v1/nodes/gpu-1", "/api/v1/namespaces/gpu-operator/pods"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"


def expected() -> NodeExpectation:
    assert HEALTHY.expected.node
    return replace(
        HEALTHY.expected.node, searched_namespaces=("kube-system", "default"), operands=(PLUGIN, "gpu-feature-discovery")
    )


CONFIG = f"/api/v1/namespaces/gpu-operator/configmaps/{expected().device_plugin_config.name}"
KEY = expected().device_plugin_config.key
STATE = {"f:metadata": {"f:labels": {"f:nvidia.com/mig.config.state": {}}}}

OBJECT: dict[str, Any] = {
    "metadata": {
        "name": "gpu-1",
        "labels": {"nvidia.com/b": "2", "a": "1", "nvidia.com/mig.config.state": "success"},
        "managedFields": [
            {"manager": "nvidia-mig-manager", "time": EARLIER, "fieldsV1": STATE},
            {"manager": "nvidia-mig-manager", "time": ENDED, "fieldsV1": STATE},
            {"manager": "kubelet", "time": STARTED, "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}},
        ],
    },
    "spec": {
        "unschedulable": True,
        "taints": [{"key": "z", "effect": "NoExecute"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
    },
    "status": {
        "allocatable": {"nvidia.com/gpu": "8k", "cpu": "96", "memory": "1Gi", "nvidia.com/a": "0"},
        "capacity": {"nvidia.com/gpu": "9k"},
        "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
    },
}


def pod_object(
    name: str,
    namespace: str = "gpu-operator",
    app: str = PLUGIN,
    image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.17",
    **status: Any,
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], **status},
    }


CONFIG_MAP: dict[str, Any] = {
    "metadata": {"creationTimestamp": EARLIER, "managedFields": [{"time": ENDED}, {"time": STARTED}, {"time": EARLIER}, {}]},
    "data": {KEY: "version: v1\n", "another": ""},
}


@pytest.fixture
def api(answering: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    monkeypatch.setattr(verifier_node, "moment", lambda: AT)
    answering.say(f"GET {NODE}", OBJECT)
    answering.say(f"GET {PODS}", {"items": [pod_object(f"{PLUGIN}-1")]})
    for namespace in ("kube-system", "default"):
        answering.say(f"GET /api/v1/namespaces/{namespace}/pods", {"items": []})
    answering.say(f"GET {CONFIG}", CONFIG_MAP)
    return answering


def read(api: ApiServer, wanted: NodeExpectation | None = None) -> NodeReading:
    return NodeReader(api.api, "gpu-1").read(wanted or expected())


PLUGIN_POD = Pod(
    namespace="gpu-operator",
    name=f"{PLUGIN}-1",
    uid=f"uid-{PLUGIN}-1",
    app=PLUGIN,
    device_plugin=True,
    ready=True,
    started=None,
    trouble=None,
    words="",
    config_failed=None,
)
#: Without an expectation.
BARE = NodeReading(
    name="gpu-1",
    failure=None,
    ready=True,
    labels={"a": "1", "nvidia.com/b": "2", "nvidia.com/mig.config.state": "success"},
    taints=("k=v:NoSchedule", "z:NoExecute"),
    allocatable={"nvidia.com/a": 0, "nvidia.com/gpu": 8000},
    capacity={"nvidia.com/gpu": 9000},
    pods=None,
    foreign_pods=None,
    config=None,
    cordoned=True,
    mig_state_since=ENDED,
)


def test_a_node_is_read_whole(api: ApiServer) -> None:
    found = read(api)
    assert found == replace(
        BARE,
        pods=(PLUGIN_POD,),
        foreign_pods=(),
        config=ConfigReading(tuple(sorted([KEY, "another"])), hashlib.sha256(b"version: v1\n").hexdigest(), STARTED),
        set_by=set_by(OBJECT, expected(), BARE.taints),
    )
    assert found.moment == AT
    assert list(found.labels) == ["a", "nvidia.com/b", "nvidia.com/mig.config.state"]
    assert list(found.allocatable) == ["nvidia.com/a", "nvidia.com/gpu"]
    own = {"fieldSelector": "spec.nodeName=gpu-1"}
    assert [(one.path, one.query) for one in api.asked] == [
        (NODE, {}),
        (PODS, own),
        ("/api/v1/namespaces/kube-system/pods", own),
        ("/api/v1/namespaces/default/pods", own),
        (CONFIG, {}),
    ]


def test_without_an_expectation_only_the_node_is_asked_for(api: ApiServer) -> None:
    assert NodeReader(api.api, "gpu-1").read(None) == BARE
    assert [one.path for one in api.asked] == [NODE]


def test_a_node_that_says_little_is_read_as_one_that_has_nothing(api: ApiServer) -> None:
    api.say(f"GET {NODE}", {"metadata": {}, "spec": {}, "status": {}})
    found = NodeReader(api.api, "gpu-1").read(None)
    nothing: dict[str, Any] = {"labels": {}, "taints": (), "allocatable": {}, "capacity": {}, "mig_state_since": None}
    assert found == replace(BARE, ready=False, cordoned=False, **nothing)


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_only_ready_is_ready(api: ApiServer, status: str) -> None:
    changed = deepcopy(OBJECT)
    changed["status"]["conditions"] = [{"type": "Ready", "status": status}, {"type": "GpuSharingVerified", "status": "True"}]
    api.say(f"GET {NODE}", changed)
    assert not read(api).ready


def failed(api: ApiServer) -> NodeReading:
    """What comes of a node that cannot be read; nothing else is asked then."""
    found = read(api)
    assert found.failure
    assert found == NodeReading("gpu-1", found.failure, False, {}, (), {}, {}, None, None, None)  # noqa: FBT003
    assert [one.path for one in api.asked] == [NODE]
    return found


def test_a_node_that_may_not_be_read_is_told_as_the_api_says_it(api: ApiServer) -> None:
    api.say(f"GET {NODE}", (403, {"message": "nodes is forbidden"}))
    failure = failed(api).failure
    assert failure == ApiFailure(f"GET {NODE}", 403, "nodes is forbidden")
    assert str(failure) == f"403 to GET {NODE}: nodes is forbidden"
    assert str(replace(failure, status=None)) == f"no answer to GET {NODE}: nodes is forbidden"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "KeyError('metadata')"),
        ({**OBJECT, "metadata": None}, "AttributeError"),
        ({**OBJECT, "spec": {"taints": 1}}, "TypeError"),
        ({**OBJECT, "spec": {"taints": [{"key": "k"}]}}, "KeyError('effect')"),
        ({**OBJECT, "status": {"allocatable": {"nvidia.com/gpu": "half"}}}, "ValueError"),
        ({**OBJECT, "status": {"allocatable": [1]}}, "AttributeError"),
    ],
)
def test_what_is_no_node_is_no_answer(api: ApiServer, wrong: dict[str, Any], told: str) -> None:
    api.say(f"GET {NODE}", wrong)
    failure = failed(api).failure
    assert failure
    assert (failure.request, failure.status) == (f"GET {NODE}", None)
    assert failure.message.startswith("the answer is not a node: ")
    assert told in failure.message


# --- pods -------------------------------------------------------------------------------------------------


def test_pods_that_are_going_do_not_count_and_the_others_are_sorted(api: ApiServer) -> None:
    going = pod_object("going")
    going["metadata"]["deletionTimestamp"] = STARTED
    api.say(f"GET {PODS}", {"items": [pod_object("b"), going, pod_object("a")]})
    pods = read(api).pods
    assert isinstance(pods, tuple)
    assert [one.name for one in pods] == ["a", "b"]


def test_of_other_namespaces_device_plugins_are_kept(api: ApiServer) -> None:
    for namespace in ("kube-system", "default"):
        path = f"GET /api/v1/namespaces/{namespace}/pods"
        api.say(path, {"items": [pod_object("plugin", namespace), pod_object("other", namespace, image="other")]})
    found = read(api).foreign_pods
    assert isinstance(found, tuple)
    assert [(one.namespace, one.name) for one in found] == [("default", "plugin"), ("kube-system", "plugin")]


@pytest.mark.parametrize(
    ("path", "field"), [(PODS, "pods"), ("/api/v1/namespaces/default/pods", "foreign_pods"), (CONFIG, "config")]
)
def test_what_may_not_be_read_beside_the_node_is_told_in_its_place(api: ApiServer, path: str, field: str) -> None:
    api.say(f"GET {path}", (403, {"message": "no"}))
    found = read(api)
    assert getattr(found, field) == ApiFailure(f"GET {path}", 403, "no")
    assert found.failure is None
    assert POLICY not in [one.path for one in api.asked]


@pytest.mark.parametrize("items", [{}, {"items": None}])
def test_a_list_without_items_is_empty(api: ApiServer, items: dict[str, Any]) -> None:
    api.say(f"GET {PODS}", items)
    assert read(api).pods == ()


def only_pod(api: ApiServer, described: dict[str, Any]) -> Pod:
    api.say(f"GET {PODS}", {"items": [described]})
    pods = read(api).pods
    assert isinstance(pods, tuple)
    return pods[0]


def test_a_pod_that_says_little_is_kept(api: ApiServer) -> None:
    found = only_pod(api, {"metadata": {"name": "p", "namespace": "gpu-operator"}, "spec": {}})
    unknown: dict[str, Any] = {"trouble": "other", "words": "phase unknown"}
    assert found == replace(PLUGIN_POD, name="p", uid="", app="", device_plugin=False, ready=False, **unknown)


@pytest.mark.parametrize(
    ("name", "container", "image", "is_one"),
    [
        ("nvidia-device-plugin-1", "main", "k8s-device-plugin", True),
        ("plugin", "nvidia-device-plugin", "x", True),
        ("plugin", "x", "registry/NVIDIA/K8s-Device-Plugin", True),
        ("gpu-plugin", "device-plugin", "x", True),
        ("plugin", "device-plugin", "gpu", True),
        ("plugin", "device-plugin", "x", False),
        ("nvidia", "x", "y", False),
        ("nvidia-device-plugin-mps-control-daemon-1", "x", "nvidia/k8s-device-plugin", False),
        ("gpu-feature-discovery-1", "x", "nvidia/k8s-device-plugin", False),
        ("a-config-manager", "x", "nvidia/k8s-device-plugin", False),
        ("p", "mps-control", "nvidia/k8s-device-plugin", False),
        ("p", "gpu-feature-discovery", "nvidia/k8s-device-plugin", False),
        ("p", "config-manager", "nvidia/k8s-device-plugin", False),
        *(("gpu", "x", f"{vendor}/device-plugin", False) for vendor in ("amd", "intel", "rocm", "rdma", "sriov")),
    ],
)
def test_a_device_plugin_is_known_by_its_names(api: ApiServer, name: str, container: str, image: str, is_one: bool) -> None:  # noqa: FBT001
    described = pod_object(name)
    described["spec"]["containers"] = [{"name": "sidecar"}, {"name": container, "image": image}]
    assert only_pod(api, described).device_plugin is is_one


def status(name: str, *, ready: bool = True, last: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "state": state, **({"lastState": {"terminated": last}} if last else {})}


RUNNING = {"startedAt": STARTED}


@pytest.mark.parametrize(
    ("containers", "started"),
    [
        ([status("config-manager", running={"startedAt": EARLIER}), status("main", running=RUNNING)], STARTED),
        ([status("config-manager-2", running={"startedAt": EARLIER}), status("main", running=RUNNING)], STARTED),
        ([status("main", running=RUNNING), status("other", running={"startedAt": EARLIER})], STARTED),
        ([status("main", waiting={})], None),
        ([{"name": "main"}], None),
        ([status("main", running={})], None),
        ([status("config-manager", running=RUNNING)], None),
        ([], None),
        (None, None),
    ],
)
def test_a_pod_has_started_with_its_main_container(api: ApiServer, containers: Any, started: str | None) -> None:
    assert only_pod(api, pod_object("p", containerStatuses=containers)).started == started


UNREADY = {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "False"}]}
WAITS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
BROKEN = {"exitCode": 1, "finishedAt": ENDED}


@pytest.mark.parametrize(
    ("told", "trouble", "words"),
    [
        ({"phase": "Pending"}, "other", "phase Pending"),
        ({"containerStatuses": [status("a", **WAITS)]}, "other", "phase unknown"),
        ({"containerStatuses": [status("a"), status("b", ready=False, **WAITS)]}, "crash", "container b: CrashLoopBackOff"),
        (
            {"containerStatuses": [status("a", ready=False, last={"message": "no\n  such GPU"}, **WAITS)]},
            "crash",
            "container a: CrashLoopBackOff: no such GPU",
        ),
        (
            {"containerStatuses": [status("a", ready=False, waiting={"reason": "ContainerCreating", "message": "x  y"})]},
            "other",
            "container a: ContainerCreating: x y",
        ),
        *(
            (
                {"containerStatuses": [status(name, ready=False, waiting={"reason": reason, "message": "not found"})]},
                "image",
                f"container {name}: {reason}: not found",
            )
            for reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
            for name in ("a", "config-manager")
        ),
        *(
            (
                {"containerStatuses": [status("a", ready=False, terminated={"reason": reason, "message": "m"})]},
                "crash",
                f"container a: {reason}",
            )
            for reason in ("CrashLoopBackOff", "Error", "RunContainerError")
        ),
        ({"containerStatuses": [status("a", ready=False, waiting={})]}, "other", "container a: waiting"),
        ({"containerStatuses": [status("a", ready=False, terminated={})]}, "other", "container a: terminated"),
        ({"containerStatuses": [status("a", ready=False, running={})]}, "other", "container a: running, not ready"),
        ({"containerStatuses": [{"name": "a"}]}, "other", "container a: running, not ready"),
        (
            {"containerStatuses": [status("config-manager", ready=False, **WAITS)]},
            "config",
            "container config-manager: CrashLoopBackOff",
        ),
        (
            {
                "initContainerStatuses": [
                    status("i", terminated={"exitCode": 0}),
                    status("config-manager-init", terminated=BROKEN),
                ]
            },
            "config",
            "container config-manager-init: terminated",
        ),
        (
            {"initContainerStatuses": [status("i", running={})], "containerStatuses": [status("a", ready=False)]},
            "other",
            "container i: running, not ready",
        ),
        ({"initContainerStatuses": [status("i", terminated={})]}, "other", "container i: terminated"),
    ],
)
def test_why_a_pod_is_not_ready_is_told(api: ApiServer, told: dict[str, Any], trouble: str, words: str) -> None:
    found = only_pod(api, pod_object("p", **UNREADY, **told))
    assert (found.ready, found.trouble, found.words) == (False, trouble, words)


@pytest.mark.parametrize(
    ("containers", "failed_at"),
    [
        ([status("main"), status("config-manager", ready=False, terminated=BROKEN)], ENDED),
        ([status("config-manager", ready=False, last={**BROKEN, "finishedAt": EARLIER}, **WAITS)], EARLIER),
        ([status("config-manager", ready=False, last={**BROKEN, "finishedAt": EARLIER}, terminated=BROKEN)], ENDED),
        ([status("main", last=BROKEN), status("config-manager", ready=False, **WAITS)], None),
        ([{"name": "config-manager", "ready": False}], None),
    ],
)
def test_when_config_manager_last_failed_is_kept(api: ApiServer, containers: Any, failed_at: str | None) -> None:
    found = only_pod(api, pod_object("p", **UNREADY, containerStatuses=containers))
    assert (found.trouble, found.config_failed) == ("config", failed_at)


def mps_pod(code: int, *, signals: str = "/usr/bin/mps-control-daemon", image: str = "plugin:v0.20.0") -> dict[str, Any]:
    """A pod of the MPS daemon whose config-manager ended with that code."""
    helper = {"name": "config-manager", "image": image, "env": [{"name": "PROCESS_TO_SIGNAL", "value": signals}]}
    main = {"name": "mps-control-daemon-ctr", "image": image, "command": ["mps-control-daemon"]}
    ended = {**BROKEN, "exitCode": code}
    statuses = [status("config-manager", ready=False, last=ended, **WAITS), status("mps-control-daemon-ctr", running=RUNNING)]
    pod = pod_object("p", **UNREADY, containerStatuses=statuses)
    pod["spec"]["containers"] = [main, helper]
    return pod


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (mps_pod(1), "config-manager signals /usr/bin/mps-control-daemon, and the daemon's process is mps-control-daemon"),
        (mps_pod(1, image="plugin@sha256:00"), "config-manager signals /usr/bin/mps-control-daemon, and the daemon's process is"),
        (mps_pod(2, image="plugin:v0.19.3"), "config-manager ended with 2: it cannot read processes without a command line"),
        (mps_pod(2, signals="mps-control-daemon", image="plugin:v0.18.2"), "config-manager ended with 2"),
        (mps_pod(1, signals="mps-control-daemon"), ""),
        (mps_pod(2, image="registry:5000/plugin:v0.18.1"), ""),
        (mps_pod(1, image="plugin:v0.17.4"), ""),
    ],
)
def test_that_a_signal_reaches_no_mps_daemon_follows_from_the_pod_and_the_exit_code(
    api: ApiServer, pod: dict[str, Any], words: str
) -> None:
    found = only_pod(api, pod)
    assert found.trouble == "config"
    assert found.unsignalled.startswith(words)
    assert bool(found.unsignalled) is bool(words)


def test_a_device_plugin_that_fails_says_nothing_of_the_mps_daemon(api: ApiServer) -> None:
    pod = mps_pod(1)
    pod["spec"]["containers"][0]["name"] = "nvidia-device-plugin"
    assert only_pod(api, pod).unsignalled == ""


def test_that_config_manager_once_failed_says_nothing_of_another_trouble(api: ApiServer) -> None:
    containers = [status("config-manager", last=BROKEN, running=RUNNING), status("main", ready=False, **WAITS)]
    assert only_pod(api, pod_object("p", **UNREADY, containerStatuses=containers)).config_failed is None


def test_an_operand_s_pods_are_known_by_their_label() -> None:
    kernel = replace(PLUGIN_POD, app="nvidia-driver-daemonset-5.15")
    assert belongs(kernel, "nvidia-driver-daemonset")
    assert belongs(replace(kernel, app="nvidia-driver-daemonset"), "nvidia-driver-daemonset")
    assert not belongs(replace(kernel, app="nvidia-driver-daemonsets"), "nvidia-driver-daemonset")


# --- the configuration and the operator -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config_map", "reading"),
    [
        ({"metadata": {"creationTimestamp": EARLIER}}, ConfigReading((), None, EARLIER)),
        ({"metadata": {"managedFields": None}, "data": None}, ConfigReading((), None, None)),
        (
            {"metadata": {"creationTimestamp": EARLIER, "managedFields": [{}]}, "data": {"other": "x"}},
            ConfigReading(("other",), None, EARLIER),
        ),
        ({"metadata": {}, "data": {KEY: ""}}, ConfigReading((KEY,), hashlib.sha256(b"").hexdigest(), None)),
    ],
)
def test_a_configuration_is_read_as_far_as_it_is_there(api: ApiServer, config_map: Any, reading: ConfigReading) -> None:
    api.say(f"GET {CONFIG}", config_map)
    assert read(api).config == reading


def condition(kind: str, value: str, **said: str) -> dict[str, str]:
    return {"type": kind, "status": value, **said}


@pytest.mark.parametrize(
    ("policy", "reading"),
    [
        ({"status": {"state": "ready", "conditions": [condition("Ready", "True", message="well")]}}, PolicyReading("ready", "")),
        (
            {
                "status": {
                    "state": "notReady",
                    "conditions": [condition("Error", "True", reason="ReconcileFailed", message="no\n  OS")],
                }
            },
            PolicyReading("notReady", "ReconcileFailed: no OS"),
        ),
        (
            {
                "status": {
                    "state": "notReady",
                    "conditions": [
                        condition("Error", "False", message="old"),
                        condition("Ready", "False", reason="Empty", message=""),
                        condition("Ready", "False", message="waits"),
                        condition("Error", "True", message="later"),
                    ],
                }
            },
            PolicyReading("notReady", ": waits"),
        ),
        ({"status": {"state": "", "conditions": None}}, PolicyReading("unknown", "")),
        ({"status": None}, PolicyReading("unknown", "")),
        ({}, PolicyReading("unknown", "")),
        ((404, {"message": "none"}), ApiFailure(f"GET {POLICY}", 404, "none")),
    ],
)
def test_where_no_operand_is_there_the_operator_is_asked_why(api: ApiServer, policy: Any, reading: Any) -> None:
    api.say(f"GET {PODS}", {"items": [pod_object("p", app="nvidia-dcgm-exporter")]})
    api.say(f"GET {POLICY}", policy)
    assert read(api).policy == reading


@pytest.mark.parametrize("app", [PLUGIN, "gpu-feature-discovery", f"{PLUGIN}-2"])
def test_where_one_is_there_it_is_not(api: ApiServer, app: str) -> None:
    api.say(f"GET {PODS}", {"items": [pod_object("p", app=app), pod_object("q", app="other")]})
    assert read(api).policy is None
    assert POLICY not in [one.path for one in api.asked]


# --- who has set what -------------------------------------------------------------------------------------


def test_when_a_label_was_last_written_is_that_of_its_last_writer() -> None:
    metadata = OBJECT["metadata"]
    assert changed_label(metadata, "nvidia.com/mig.config.state") == ENDED
    assert changed_label(metadata, "a") == STARTED
    assert changed_label(metadata, "b") is None
    undated = {"managedFields": [{"manager": "x", "fieldsV1": STATE}]}
    assert changed_label(undated, "nvidia.com/mig.config.state") is None
