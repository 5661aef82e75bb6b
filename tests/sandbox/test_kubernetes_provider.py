"""The Kubernetes stand-in does to objects what the real provider does, at a real API server."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import yaml

from sandbox.cluster import control_plane as cluster
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import UnreachableError
from sandbox.providers import helm, kube_rules
from sandbox.providers.await_ready import AwaitError, Waiter, judge, pod_message, timeout_of, wait_conditions
from sandbox.providers.base import PartialFailure, Request, ServiceError
from sandbox.providers.chart_sources import ChartSources
from sandbox.providers.claims import Claims
from sandbox.providers.kube_objects import Objects
from sandbox.providers.kube_settings import diff_provider, settings_of
from sandbox.providers.kubernetes import KubernetesStandIn
from sandbox.providers.values import UNKNOWN, Secret
from sandbox.stack import recovery
from sandbox.system import processes
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.tools import PLATFORM_TOOLS
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.providers.differences import Diff

KUBECONFIG = """
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}, {name: b, cluster: {server: "https://127.0.0.1:2"}}]
contexts: [{name: a, context: {cluster: a, user: u}}, {name: b, context: {cluster: b, user: u, namespace: team}}]
current-context: a
users: [{name: u, user: {token: t}}]
"""
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
#: Of the recovery of a patch no engine is asked for anything.
NO_ENGINE: Any = None


def pod_spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "registry.invalid/main"}], **more}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
    metadata = {"name": name, "namespace": "default"}
    selector = {"matchLabels": {"app": name}}
    spec = {"selector": selector, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


# ---------------------------------------------------------------------------------------- pure


class TestNames:
    def fill(self, news: dict[str, Any], olds: dict[str, Any] | None = None, seed: bytes = b"1") -> dict[str, Any]:
        return kube_rules.fill_in(news, olds or {}, name="cm", seed=seed, namespace="team")

    def test_a_missing_name_is_made_up_and_kept(self) -> None:
        first = self.fill({"kind": "ConfigMap"})
        name = first["metadata"]["name"]
        assert name.startswith("cm-")
        assert len(name) == len("cm-") + 8
        assert first["metadata"]["annotations"] == {kube_rules.AUTONAMED: "true"}
        assert self.fill({"kind": "ConfigMap"}, first, b"2")["metadata"]["name"] == name
        assert self.fill({"kind": "ConfigMap"}, seed=b"2")["metadata"]["name"] != name

    def test_a_name_that_was_chosen_is_not_kept(self) -> None:
        again = self.fill({"kind": "ConfigMap"}, {"metadata": {"name": "chosen"}})
        assert again["metadata"]["name"] != "chosen"

    def test_the_namespace_is_filled_in_unless_given(self) -> None:
        assert self.fill({"metadata": {"name": "a"}})["metadata"] == {"name": "a", "namespace": "team"}
        given = {"metadata": {"name": "a", "namespace": "n"}}
        assert self.fill(given) == given

    def test_only_what_has_the_label_already_is_said_to_be_managed_by_pulumi(self) -> None:
        labels = {kube_rules.MANAGED_BY: "pulumi"}
        before = {"metadata": {"name": "a", "labels": labels}}
        assert self.fill({"metadata": {"name": "a"}}, before)["metadata"]["labels"] == labels
        theirs = {"metadata": {"name": "a", "labels": {kube_rules.MANAGED_BY: "me"}}}
        assert "labels" not in self.fill({"metadata": {"name": "a"}}, theirs)["metadata"]

    def test_unknown_metadata_is_let_through(self) -> None:
        assert self.fill({"metadata": UNKNOWN}) == {"metadata": UNKNOWN}
        assert self.fill({"metadata": {"name": UNKNOWN}})["metadata"]["name"] is UNKNOWN


class TestDifferences:
    @pytest.mark.parametrize(
        ("kind", "old", "new", "replaces"),
        [
            ("ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, ["data"]),
            ("Job", {"spec": {"template": {"x": 1}}}, {"spec": {"template": {"x": 2}}}, ["spec"]),
            ("Job", {"spec": {"parallelism": 1}}, {"spec": {"parallelism": 2}}, ["spec"]),
            ("Job", {"spec": {"backoffLimit": 1}}, {"spec": {"backoffLimit": 2}}, []),
            ("Pod", {"spec": {"containers": [{"image": "a"}]}}, {"spec": {"containers": [{"image": "b"}]}}, ["spec"]),
            ("Service", {"spec": {"clusterIP": "10.0.0.1"}}, {"spec": {"clusterIP": "10.0.0.2"}}, ["spec"]),
            # Immutable, but no replacement: the API refuses the update.
            ("RuntimeClass", {"handler": "a"}, {"handler": "b"}, []),
            ("DaemonSet", {"spec": {"selector": {"a": 1}}}, {"spec": {"selector": {"a": 2}}}, ["spec"]),
            ("DaemonSet", {"spec": {"template": {"a": 1}}}, {"spec": {"template": {"a": 2}}}, []),
            ("RoleBinding", {"roleRef": {"name": "a"}}, {"roleRef": {"name": "b"}}, ["roleRef"]),
            ("NodeFeatureRule", {"spec": {"rules": []}}, {"spec": {"rules": [1]}}, []),
        ],
    )
    def test_immutable_fields_replace(self, kind: str, old: Any, new: Any, replaces: list[str]) -> None:
        base = {"kind": kind, "metadata": {"name": "a"}}
        found = kube_rules.differences({**base, **old}, {**base, **new})
        assert found.changes
        assert found.replaces == replaces
        assert found.delete_before_replace == bool(replaces)

    def test_an_automatic_name_lets_the_new_one_come_first(self) -> None:
        base = {"kind": "Job", "metadata": {"name": "a-1", "annotations": {kube_rules.AUTONAMED: "true"}}}
        found = kube_rules.differences({**base, "spec": {"template": 1}}, {**base, "spec": {"template": 2}})
        assert found.replaces == ["spec"]
        assert not found.delete_before_replace

    def test_another_name_is_another_object(self) -> None:
        found = kube_rules.differences(
            {"kind": "ConfigMap", "metadata": {"name": "a"}}, {"kind": "ConfigMap", "metadata": {"name": "b"}}
        )
        assert found.replaces == ["metadata"]
        assert not found.delete_before_replace

    def test_a_mutable_config_map_changes_in_place_unless_it_is_marked_immutable(self) -> None:
        old, new = {"kind": "ConfigMap", "data": {"a": "1"}}, {"kind": "ConfigMap", "data": {"a": "2"}}
        mutable = frozenset({"ConfigMap"})
        assert kube_rules.differences(old, new, mutable=mutable).replaces == []
        fixed = {**old, "immutable": True}
        assert kube_rules.differences(fixed, {**new, "immutable": True}, mutable=mutable).replaces == ["data"]
        # Whether it is to be immutable counts; that it was is then for the API to say.
        assert kube_rules.differences(fixed, new, mutable=mutable).replaces == []

    def test_fields_of_somebody_elses_object_change_in_place(self) -> None:
        old, new = {"kind": "ConfigMap", "data": {"a": "1"}}, {"kind": "ConfigMap", "data": {"a": "2"}}
        assert kube_rules.differences(old, new, patch=True).replaces == []


class TestLiveInputs:
    def test_only_what_was_declared_is_read_back(self) -> None:
        live = {"data": {"a": "2"}, "metadata": {"name": "n", "uid": "u"}, "status": {}}
        inputs = {"data": {"a": "1", "b": "1"}, "metadata": {"name": "n"}}
        assert kube_rules.live_object_inputs(inputs, live) == {"data": {"a": "2"}, "metadata": {"name": "n"}}

    def test_a_secrets_string_data_stays_while_it_is_still_true(self) -> None:
        inputs = {"stringData": {"k": "v"}}
        assert kube_rules.live_object_inputs(inputs, {"data": {"k": "dg=="}}) == inputs
        assert kube_rules.live_object_inputs(inputs, {"data": {"k": "eA=="}}) == {}


class TestProviderConfiguration:
    def test_kubeconfig_by_content_and_context(self) -> None:
        assert settings_of({"kubeconfig": KUBECONFIG}).namespace == "default"
        assert settings_of({"kubeconfig": KUBECONFIG, "context": "b"}).namespace == "team"
        assert settings_of({"kubeconfig": KUBECONFIG, "context": "b", "namespace": "mine"}).namespace == "mine"

    def test_switches_arrive_as_json_texts(self) -> None:
        settings = settings_of({"kubeconfig": KUBECONFIG, "enableConfigMapMutable": "true", "deleteUnreachable": "false"})
        assert settings.mutable == {"ConfigMap"}
        assert not settings.delete_unreachable

    def test_a_useless_kubeconfig_is_a_problem_and_no_crash(self) -> None:
        assert "has no clusters" in settings_of({"kubeconfig": "a: b\n"}).problem
        assert "unable to read kubeconfig file" in settings_of({"kubeconfig": "/nonexistent"}).problem
        assert settings_of({"kubeconfig": UNKNOWN}).unknown

    @pytest.mark.parametrize(
        ("old", "new", "replaces"),
        [
            ({"clusterIdentifier": "a"}, {"clusterIdentifier": "a", "kubeconfig": UNKNOWN}, []),
            ({"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}, ["clusterIdentifier"]),
            ({"clusterIdentifier": "a"}, {"clusterIdentifier": UNKNOWN}, ["clusterIdentifier"]),
            ({"kubeconfig": KUBECONFIG}, {"kubeconfig": UNKNOWN}, ["kubeconfig"]),
            ({"kubeconfig": KUBECONFIG}, {"kubeconfig": KUBECONFIG, "context": "b"}, ["kubeconfig"]),
            ({"kubeconfig": KUBECONFIG}, {"kubeconfig": KUBECONFIG.replace("token: t", "token: other")}, []),
            ({"kubeconfig": KUBECONFIG}, {"kubeconfig": KUBECONFIG.replace(":1", ":3")}, ["kubeconfig"]),
        ],
    )
    def test_another_cluster_replaces_the_provider(self, old: Any, new: Any, replaces: list[str]) -> None:
        assert diff_provider(old, new).replaces == replaces


class TestJudging:
    def daemon_set(self, **status: int) -> dict[str, Any]:
        return {"kind": "DaemonSet", "metadata": {"generation": 2}, "spec": {}, "status": status}

    def test_a_daemon_set_is_ready_when_every_node_has_the_new_pod(self) -> None:
        full = {
            "observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
            "updatedNumberScheduled": 3, "numberAvailable": 3, "numberReady": 3,
        }  # fmt: skip
        assert judge(self.daemon_set(**full)).ready
        assert not judge(self.daemon_set(**{**full, "observedGeneration": 1})).ready
        assert not judge(self.daemon_set(**{**full, "updatedNumberScheduled": 1})).ready
        # A pod too many is none too few.
        assert judge(self.daemon_set(**{**full, "currentNumberScheduled": 4})).ready
        assert judge(self.daemon_set(observedGeneration=2, desiredNumberScheduled=0)).ready

    def test_a_job_ends_well_or_badly(self) -> None:
        job = {"kind": "Job", "metadata": {}, "spec": {}}
        done = {"startTime": "now", "conditions": [{"type": "Complete", "status": "True"}]}
        failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"}]}
        assert judge({**job, "status": done}).ready
        assert judge({**job, "status": failed}).failed == "[BackoffLimitExceeded] limit"
        waiting = judge({**job, "status": {"active": 1}})
        assert (waiting.ready, waiting.failed) == (False, "")

    @pytest.mark.parametrize(
        "status",
        [
            {"conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}]},
            {"conditions": [{"type": "Suspended", "status": "True"}]},
        ],
    )
    def test_the_real_provider_waits_for_jobs_that_will_not_end(self, status: dict[str, Any]) -> None:
        found = judge({"kind": "Job", "metadata": {}, "spec": {}, "status": status})
        assert (found.ready, found.failed) == (False, "")

    @pytest.mark.parametrize(
        "obj",
        [
            {"kind": "Pod", "status": {"phase": "Failed", "reason": "Evicted"}},
            {
                "kind": "Deployment",
                "status": {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]},
            },
        ],
        ids=["pod", "deployment"],
    )
    def test_nothing_but_a_job_fails_before_its_time_is_over(self, obj: dict[str, Any]) -> None:
        found = judge({**obj, "metadata": {"generation": 1}, "spec": {}})
        assert (found.ready, found.failed) == (False, "")

    def test_skip_await_and_other_kinds_are_ready_at_once(self) -> None:
        skipped = {"pulumi.com/skipAwait": "true"}
        assert judge({"kind": "Job", "metadata": {"annotations": skipped}}).ready
        assert judge({"kind": "ConfigMap", "metadata": {}}).ready

    @pytest.mark.parametrize(
        ("wanted", "ready"),
        [
            ("jsonpath={.status.state}=ready", True),
            ("jsonpath={.status.state}=notReady", False),
            ("jsonpath={.status.missing}", False),
            ("jsonpath={.status.list[1].n}=2", True),
            ("condition=Ready", True),
            ("condition=Ready=False", False),
            ('["condition=Ready", "jsonpath={.status.state}=ready"]', True),
            ('["condition=Ready", "jsonpath={.status.state}=x"]', False),
        ],
    )
    def test_wait_for(self, wanted: str, ready: bool) -> None:  # noqa: FBT001
        status = {"state": "ready", "list": [{}, {"n": 2}], "conditions": [{"type": "Ready", "status": "True"}]}
        obj = {"kind": "ClusterPolicy", "metadata": {"annotations": {"pulumi.com/waitFor": wanted}}, "status": status}
        assert judge(obj).ready is ready

    @pytest.mark.parametrize(
        ("status", "ready"), [({}, True), ({"observedGeneration": 1}, False), ({"observedGeneration": 2}, True)]
    )
    def test_wait_for_a_path_waits_until_the_generation_was_observed(self, status: dict[str, Any], ready: bool) -> None:  # noqa: FBT001
        metadata = {"uid": "u", "generation": 2, "annotations": {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}}
        assert judge({"kind": "DaemonSet", "metadata": metadata, "status": status}).ready is ready

    @pytest.mark.parametrize("wanted", ["", "ready", "jsonpath={.a[*]}=1", "jsonpath=.a", "[]", "[1]", "[", "condition="])
    def test_wait_for_that_makes_no_sense(self, wanted: str) -> None:
        with pytest.raises(ValueError, match="expected jsonpath="):
            wait_conditions(wanted)

    def test_the_time_to_wait(self) -> None:
        annotated = {"metadata": {"annotations": {"pulumi.com/timeoutSeconds": "30"}}}
        assert (timeout_of(annotated, 5), timeout_of(annotated, 0), timeout_of({}, 0)) == (5, 30, 600)

    def pod(self, waits_for: str, *containers: dict[str, Any], **status: Any) -> dict[str, Any]:
        order = ("PodScheduled", "Initialized", "Ready")
        conditions = [
            {"type": type_, "status": "True"}
            if order.index(type_) < order.index(waits_for)
            else {"type": type_, "status": "False", "reason": "NotYet", "message": f"not {type_}: "}
            for type_ in order
        ]
        return {
            "metadata": {"name": "v-1", "namespace": "n"},
            "status": {"conditions": conditions, "containerStatuses": list(containers), **status},
        }

    def test_what_an_init_container_says_is_never_told(self) -> None:
        ended = {"exitCode": 1, "reason": "Error", "message": "gpu 0: MIG is off, declared: on"}
        main = {"name": "watch", "state": {"waiting": {"reason": "PodInitializing"}}}
        pod = self.pod("Initialized", main, initContainerStatuses=[{"name": "assert", "lastState": {"terminated": ended}}])
        assert pod_message(pod) == "[Pod n/v-1]: not Initialized: [PodInitializing] "

    def test_a_container_tells_how_it_ended_and_how_it_had_ended_before(self) -> None:
        ended = {"exitCode": 2, "reason": "Error", "finishedAt": "then"}
        crashed = {"name": "main", "state": {"terminated": {**ended, "message": "no GPU"}}, "lastState": {"terminated": ended}}
        assert pod_message(self.pod("Ready", crashed)) == (
            '[Pod n/v-1]: not Ready: [Error] no GPU\ncontainer "main" terminated at then (Error: exit code 2)'
        )
        silent = {"name": "main", "state": {"terminated": ended}}
        assert pod_message(self.pod("Ready", silent)).endswith('container "main" completed with exit code 2')

    def test_a_pod_that_finds_no_node_is_not_mentioned(self) -> None:
        assert pod_message(self.pod("PodScheduled")) == ""
        done = {"metadata": {"name": "v-2"}, "status": {"phase": "Running", "conditions": []}}
        assert pod_message(done) == ""


def test_a_newer_call_ends_the_waiting_of_an_older_one() -> None:
    claims, order = Claims(), []
    started = threading.Event()

    def older() -> None:
        with claims.hold("x") as overtaken:
            started.set()
            assert overtaken.wait(5)
            order.append("older")

    thread = threading.Thread(target=older)
    thread.start()
    started.wait(5)
    with claims.hold("x") as overtaken:
        order.append("newer")
        assert not overtaken.is_set()
    thread.join()
    assert order == ["older", "newer"]
    with claims.hold("x") as overtaken:
        assert not overtaken.is_set()


# ---------------------------------------------------------------------------------------- without a cluster


class Driver:
    """Calls a stand-in as the engine would."""

    def __init__(self, **config: Any) -> None:
        offline = ChartSources(helm.helm_program, reachable=lambda _: False)
        self.notes: list[str] = []
        self.stand_in = KubernetesStandIn(lambda stop: helm.Releases(stop, self.notes.append, offline))
        self.stand_in.configure({}, config)

    def as_(self, name: str, timeout: float = 0) -> Any:
        return self.stand_in.answering(Request(urn=f"urn:pulumi:t::p::{name}", name=name, random_seed=b"s", timeout=timeout))

    def check(self, type_: str, name: str, inputs: dict[str, Any], olds: dict[str, Any] | None = None) -> dict[str, Any]:
        with self.as_(name):
            checked, failures = self.stand_in.check(type_, olds or {}, inputs)
        assert not failures, failures
        return checked

    def create(self, type_: str, name: str, inputs: dict[str, Any], *, timeout: float = 20, preview: bool = False) -> Any:
        checked = self.check(type_, name, inputs)
        with self.as_(name):
            return self.stand_in.create(type_, name, checked, timeout, preview)

    def diff(self, type_: str, name: str, inputs: dict[str, Any]) -> Diff:
        """What is to be done where the inputs are those of last time."""
        checked = self.check(type_, name, inputs)
        with self.as_(name):
            return self.stand_in.diff(type_, "", checked, checked, checked)

    def update(
        self, type_: str, name: str, olds: dict[str, Any], inputs: dict[str, Any], *, timeout: float = 0, preview: bool = False
    ) -> dict[str, Any]:
        checked = self.check(type_, name, inputs, olds)
        with self.as_(name, timeout):
            return self.stand_in.update(type_, "", olds, olds, checked, preview)

    def delete(self, type_: str, name: str, id_: str, outputs: dict[str, Any], *, timeout: float = 0) -> None:
        with self.as_(name, timeout):
            self.stand_in.delete(type_, id_, {}, outputs)


class TestWithoutCluster:
    data: ClassVar[dict[str, Any]] = {"metadata": {"name": "a"}, "data": {"k": "v"}}

    def test_an_unknown_kubeconfig_is_not_contacted_and_the_inputs_come_back(self) -> None:
        _, outputs = Driver(kubeconfig=UNKNOWN).create(CONFIG_MAP, "a", self.data, preview=True)
        assert outputs["data"] == {"k": "v"}
        assert outputs["metadata"]["namespace"] == "default"

    def test_an_unreachable_cluster_is_a_warning_in_a_preview_and_an_error_in_an_update(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        driver = Driver(kubeconfig=KUBECONFIG)
        _, outputs = driver.create(CONFIG_MAP, "a", self.data, preview=True)
        assert outputs["data"] == {"k": "v"}
        assert "configured Kubernetes cluster is unreachable" in caplog.text
        with pytest.raises(ServiceError, match="configured Kubernetes cluster is unreachable: unable to load schema"):
            driver.create(CONFIG_MAP, "a", self.data)

    def test_objects_of_a_lost_cluster_can_be_forgotten(self) -> None:
        lost = {"apiVersion": "v1", "kind": "ConfigMap", **self.data}
        with pytest.raises(ServiceError, match="deleteUnreachable"):
            Driver(kubeconfig=KUBECONFIG).delete(CONFIG_MAP, "a", "default/a", lost)
        Driver(kubeconfig=KUBECONFIG, deleteUnreachable="true").delete(CONFIG_MAP, "a", "default/a", lost)

    def test_cluster_scoped_kinds_get_no_namespace(self) -> None:
        rule = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule", "metadata": {"name": "r"}}
        checked = Driver(kubeconfig=UNKNOWN).check("kubernetes:nfd.k8s-sigs.io/v1alpha1:NodeFeatureRule", "r", rule)
        assert "namespace" not in checked["metadata"]

    @pytest.mark.parametrize(
        ("type_", "kind", "why"),
        [
            ("kubernetes:core/v1:NamespacePatch", "Namespace", "patch resources require the `.metadata.name`"),
            ("kubernetes:helm.sh/v4:Chart", "Chart", "does not support"),
        ],
    )
    def test_what_it_cannot_do_is_refused(self, type_: str, kind: str, why: str) -> None:
        with pytest.raises(ServiceError, match=why):
            Driver(kubeconfig=UNKNOWN).stand_in.check(type_, {}, {"kind": kind})

    def test_a_generated_name_is_refused(self) -> None:
        inputs = {"kind": "ConfigMap", "metadata": {"generateName": "a-"}}
        with pytest.raises(ServiceError, match="not supported in Server-Side Apply mode"):
            Driver(kubeconfig=UNKNOWN).stand_in.check(CONFIG_MAP, {}, inputs)

    def test_a_bad_wait_for_is_refused_by_the_check(self) -> None:
        inputs = {"metadata": {"name": "a", "annotations": {"pulumi.com/waitFor": "soon"}}}
        _, failures = Driver(kubeconfig=UNKNOWN).stand_in.check(CONFIG_MAP, {}, inputs)
        assert failures[0][0] == 'metadata.annotations["pulumi.com/waitFor"]'


# ---------------------------------------------------------------------------------------- with a cluster


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    folder = tmp_path_factory.mktemp("clusters") / "provider"
    tools = find_tools(Progress(), only=PLATFORM_TOOLS)
    before = os.environ.get(helm.HELM_VARIABLE)
    os.environ[helm.HELM_VARIABLE] = str(tools.helm)
    try:
        yield cluster.boot(folder, "provider", tools, machines=False)
    finally:
        cluster.erase(folder)
        os.environ.pop(helm.HELM_VARIABLE) if before is None else os.environ.update({helm.HELM_VARIABLE: before})


@pytest.fixture
def driver(place: cluster.Cluster) -> Driver:
    return Driver(kubeconfig=place.kubeconfig.read_text(), enableConfigMapMutable="true")


@pytest.fixture
def objects(place: cluster.Cluster) -> Objects:
    return Objects(Api.at(place.kubeconfig))


def managers(objects: Objects, config_map: str) -> list[dict[str, Any]]:
    live = objects.get("v1", "ConfigMap", "default", config_map)
    assert live is not None
    found: list[dict[str, Any]] = live["metadata"]["managedFields"]
    return found


def set_status(objects: Objects, obj: dict[str, Any], status: dict[str, Any]) -> None:
    metadata = obj["metadata"]
    path = objects.api.path(obj["apiVersion"], obj["kind"], metadata["namespace"], metadata["name"])
    objects.api.patch(f"{path}/status", {"status": status})


@pytest.mark.programs
class TestObjects:
    def test_the_life_of_an_object(self, driver: Driver, objects: Objects) -> None:
        first = {"metadata": {"name": "life"}, "data": {"a": "1", "b": "2"}}
        id_, made = driver.create(CONFIG_MAP, "life", first)
        assert id_ == "default/life"
        assert made["metadata"]["uid"]
        changed = driver.update(CONFIG_MAP, "life", made, {"metadata": {"name": "life"}, "data": {"a": "8"}})
        assert changed["data"] == {"a": "8"}  # what is not declared any more is gone
        live = objects.get("v1", "ConfigMap", "default", "life")
        assert live is not None
        assert live["data"] == {"a": "8"}
        assert driver.stand_in.read(CONFIG_MAP, id_, {}, changed) is not None
        driver.delete(CONFIG_MAP, "life", id_, changed)
        assert driver.stand_in.read(CONFIG_MAP, id_, {}, changed) is None
        driver.delete(CONFIG_MAP, "life", id_, changed)

    def test_an_object_that_exists_is_an_error_whoever_made_it(self, driver: Driver) -> None:
        inputs = {"metadata": {"name": "twice"}, "data": {}}
        driver.create(CONFIG_MAP, "one", inputs)
        text = (
            '^resource "urn:pulumi:t::p::one" was not successfully created by the Kubernetes API server: '
            r'configmaps "twice" already exists\n\nThe resource already exists in the cluster\.'
        )
        with pytest.raises(ServiceError, match=text):
            driver.create(CONFIG_MAP, "one", inputs)

    def test_a_preview_says_nothing_of_an_object_that_exists(self, driver: Driver) -> None:
        inputs = {"metadata": {"name": "there"}, "data": {"a": "1"}}
        driver.create(CONFIG_MAP, "one", inputs)
        assert driver.create(CONFIG_MAP, "other", inputs, preview=True)[1]["data"] == {"a": "1"}

    def test_upsert_takes_over_what_exists(self, place: cluster.Cluster, driver: Driver) -> None:
        driver.create(CONFIG_MAP, "one", {"metadata": {"name": "upserted"}, "data": {"a": "1"}})
        upserting = Driver(kubeconfig=place.kubeconfig.read_text(), upsertExistingObjects="true", enablePatchForce="true")
        _, made = upserting.create(CONFIG_MAP, "two", {"metadata": {"name": "upserted"}, "data": {"a": "2"}})
        assert made["data"] == {"a": "2"}

    @pytest.mark.parametrize("manager", ["kubectl", "kubectl-edit"])
    def test_an_update_takes_over_what_kubectl_and_a_create_have_set(
        self, driver: Driver, objects: Objects, manager: str
    ) -> None:
        name = f"taken-from-{manager}"
        inputs = {"metadata": {"name": name}, "data": {"a": "1", "b": "1"}}
        _, made = driver.create(CONFIG_MAP, name, inputs)
        assert {entry["manager"] for entry in managers(objects, name)} == {"pulumi-kubernetes"}
        live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
        objects.apply({**live, "data": {"a": "9", "c": "9"}}, manager=manager, force=True)
        changed = driver.update(CONFIG_MAP, name, made, {"metadata": {"name": name}, "data": {"a": "2"}})
        assert changed["data"] == {"a": "2"}
        (mine,) = managers(objects, name)
        assert (mine["manager"], mine["operation"]) == (made["__fieldManager"], "Apply")

    def test_an_object_of_an_earlier_version_loses_what_is_declared_no_more(self, driver: Driver, objects: Objects) -> None:
        """Until creates had a manager of their own, the resource's own had created the object."""
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "earlier", "namespace": "default"}}
        made = {**objects.create({**obj, "data": {"a": "1", "b": "1"}}, manager="pulumi-kubernetes-0123abcd")}
        outputs = {**made, "__fieldManager": "pulumi-kubernetes-0123abcd"}
        changed = driver.update(CONFIG_MAP, "earlier", outputs, {"metadata": {"name": "earlier"}, "data": {"a": "2"}})
        assert changed["data"] == {"a": "2"}

    def test_an_update_that_is_refused_counts_as_made_and_not_whole(self, driver: Driver) -> None:
        inputs = {"metadata": {"name": "fixed"}, "data": {"a": "1"}, "immutable": True}
        _, made = driver.create(CONFIG_MAP, "fixed", inputs)
        text = '^the Kubernetes API server reported that "default/fixed" failed to fully initialize or become live: .*immutable'
        for preview in (True, False):
            with pytest.raises(PartialFailure, match=text) as caught:
                driver.update(CONFIG_MAP, "fixed", made, {**inputs, "data": {"a": "2"}}, preview=preview)
            assert caught.value.outputs["data"] == {"a": "1"}

    def test_a_patch_takes_fields_of_somebody_elses_object_and_gives_them_up(self, driver: Driver, objects: Objects) -> None:
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "default"}}
        objects.create({**theirs, "data": {"kept": "1", "taken": "1"}}, manager="helm")
        patch, place = "kubernetes:core/v1:ConfigMapPatch", {"name": "theirs", "namespace": "default"}
        forced = {**place, "annotations": {"pulumi.com/patchForce": "true"}}
        inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"taken": "2", "new": "2"}}
        with pytest.raises(ServiceError, match=r"(?s)server-side apply field conflict detected, .*conflict with .helm"):
            driver.create(patch, "mine", inputs)
        id_, made = driver.create(patch, "mine", {**inputs, "metadata": forced})
        live = objects.get("v1", "ConfigMap", "default", "theirs")
        assert live is not None
        assert live["data"] == {"kept": "1", "taken": "2", "new": "2"}
        assert "labels" not in live["metadata"], "it is not said to be managed by Pulumi"
        made = driver.update(patch, "mine", made, {**inputs, "metadata": forced, "data": {"taken": "3"}})
        assert made["data"] == {"kept": "1", "taken": "3"}
        driver.delete(patch, "mine", id_, made)
        left = objects.get("v1", "ConfigMap", "default", "theirs")
        assert left is not None
        assert left["data"] == {"kept": "1"}
        objects.delete(left, "Background")
        driver.delete(patch, "mine", id_, made)
        made_again = objects.get("v1", "ConfigMap", "default", "theirs")
        assert made_again is not None, "as by the real one, which applies an object without fields"
        assert "data" not in made_again

    def test_patches_of_one_object_are_nothing_to_each_other(self, driver: Driver, objects: Objects) -> None:
        place = {"name": "shared", "namespace": "default"}
        objects.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place}, manager="helm")

        def patch(key: str) -> None:
            inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {key: key}}
            driver.create("kubernetes:core/v1:ConfigMapPatch", key, inputs)

        keys = [f"key-{number}" for number in range(8)]
        with ThreadPoolExecutor(len(keys)) as pool:
            list(pool.map(patch, keys))
        live = objects.get("v1", "ConfigMap", "default", "shared")
        assert live is not None
        assert live["data"] == {key: key for key in keys}

    def test_the_servers_validation_shows_in_the_preview(self, driver: Driver) -> None:
        bad = workload("DaemonSet", "Bad_Name")
        with pytest.raises(ServiceError, match="Invalid value"):
            driver.create("kubernetes:apps/v1:DaemonSet", "bad", bad, preview=True)

    def test_a_preview_changes_nothing_and_shows_defaults(self, driver: Driver, objects: Objects) -> None:
        _, outputs = driver.create("kubernetes:apps/v1:DaemonSet", "dry", workload("DaemonSet", "dry"), preview=True)
        assert outputs["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        assert "uid" not in outputs["metadata"]
        assert objects.get("apps/v1", "DaemonSet", "default", "dry") is None

    def test_a_preview_goes_on_without_the_namespace_and_without_the_kind(self, driver: Driver) -> None:
        inputs = {"metadata": {"name": "a", "namespace": "to-come"}, "data": {"a": "b"}}
        assert driver.create(CONFIG_MAP, "a", inputs, preview=True)[1]["data"] == {"a": "b"}
        rule = {"apiVersion": "to.come/v1", "kind": "Rule", "metadata": {"name": "r"}, "spec": {}}
        assert driver.create("kubernetes:to.come/v1:Rule", "r", rule, preview=True)[1]["spec"] == {}

    def test_a_preview_of_a_replacement_finds_its_own_name_taken(self, driver: Driver) -> None:
        type_ = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        inputs = {"metadata": {"name": "bind"}, "roleRef": role, "subjects": []}
        _, made = driver.create(type_, "bind", inputs)
        before = driver.check(type_, "bind", inputs)
        checked = driver.check(type_, "bind", {**inputs, "roleRef": {**role, "name": "edit"}})
        with driver.as_("bind"):
            diff = driver.stand_in.diff(type_, "bind", before, made, checked)
            assert (diff.replaces, diff.delete_before_replace) == (["roleRef"], True)
            _, outputs = driver.stand_in.create(type_, "bind", checked, 0, preview=True)
        assert outputs["roleRef"]["name"] == "edit"
        with pytest.raises(PartialFailure, match="cannot change roleRef"):
            driver.update(type_, "bind", made, {**inputs, "roleRef": {**role, "name": "edit"}})
        driver.delete(type_, "bind", "bind", made)

    def test_fields_of_others_are_not_taken_away(self, driver: Driver, objects: Objects) -> None:
        type_ = "kubernetes:apps/v1:Deployment"
        skipped = workload("Deployment", "owned", replicas=1)
        skipped["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
        _, made = driver.create(type_, "owned", skipped)
        objects.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "owned", "namespace": "default"},
                   "spec": {"replicas": 3}}, manager="autoscaler", force=True)  # fmt: skip
        changed = {**skipped, "spec": {**skipped["spec"], "replicas": 2}}
        with pytest.raises(PartialFailure, match="field conflict detected"):
            driver.update(type_, "owned", made, changed)
        changed["metadata"]["annotations"]["pulumi.com/patchForce"] = "true"
        assert driver.update(type_, "owned", made, changed)["spec"]["replicas"] == 2
        driver.delete(type_, "owned", "default/owned", made)
        # With skipAwait nobody waits for the end of a workload either.
        processes.wait_until(lambda: objects.get("apps/v1", "Deployment", "default", "owned") is None, timeout=30, what="its end")

    def test_an_update_of_an_object_that_is_gone_is_an_error(self, driver: Driver) -> None:
        gone = {"metadata": {"name": "gone", "namespace": "default"}}
        with pytest.raises(ServiceError, match=r'(?s)update of resource "urn:.*" failed: ConfigMap "gone" not found'):
            driver.update(CONFIG_MAP, "gone", gone, {"metadata": {"name": "gone"}, "data": {}})

    def test_a_secrets_data_is_secret(self, driver: Driver) -> None:
        inputs = {"metadata": {"name": "s"}, "stringData": {"k": "v"}}
        _, outputs = driver.create("kubernetes:core/v1:Secret", "s", inputs)
        assert isinstance(outputs["data"], Secret)

    @pytest.mark.sweep
    def test_a_namespace_goes_with_everything_in_it(self, driver: Driver, objects: Objects) -> None:
        type_ = "kubernetes:core/v1:Namespace"
        id_, made = driver.create(type_, "ns", {"metadata": {"name": "team-a"}})
        assert id_ == "team-a"
        driver.create(CONFIG_MAP, "inside", {"metadata": {"name": "inside", "namespace": "team-a"}, "data": {}})
        driver.delete(type_, "ns", id_, made)
        assert objects.get("v1", "Namespace", "", "team-a") is None

    def test_a_namespace_that_comes_a_little_later_is_waited_for(self, driver: Driver) -> None:
        late = {"metadata": {"name": "a", "namespace": "late"}, "data": {}}
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(driver.create(CONFIG_MAP, "late-cm", late)))
        thread.start()
        time.sleep(0.3)
        driver.create("kubernetes:core/v1:Namespace", "late", {"metadata": {"name": "late"}})
        thread.join(15)
        assert made[0][0] == "late/a"

    def test_what_an_interrupted_patch_has_set_is_given_up(
        self, driver: Driver, objects: Objects, place: cluster.Cluster
    ) -> None:
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "half-patched", "namespace": "default"}}
        objects.create({**theirs, "data": {"kept": "1"}}, manager="helm")
        patch, inputs = "kubernetes:core/v1:ConfigMapPatch", {**theirs, "data": {"mine": "1"}}
        driver.create(patch, "killed", inputs)
        _, known = driver.create(patch, "known", {**theirs, "data": {"known": "1"}})
        of_the_killed = {"type": patch, "inputs": inputs}
        recovery.mend_object(NO_ENGINE, place.kubeconfig, of_the_killed, "creating", {known["__fieldManager"]})
        left = objects.get("v1", "ConfigMap", "default", "half-patched")
        assert left is not None
        assert left["data"] == {"kept": "1", "known": "1"}

    def test_many_at_once(self, driver: Driver) -> None:
        ids: list[str] = []

        def make(number: int) -> None:
            ids.append(driver.create(CONFIG_MAP, f"many-{number}", {"data": {"n": str(number)}})[0])

        threads = [threading.Thread(target=make, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(set(ids)) == 40


@pytest.mark.programs
class TestAwaiting:
    type_ = "kubernetes:batch/v1:Job"

    def job(self, name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default"}
        # The cluster's scheduler would write its own condition, at its own time, over the status that a test sets.
        pod = pod_spec(restartPolicy="Never", schedulerName="nobody")
        spec = {"backoffLimit": 0, "template": {"spec": pod}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def test_a_failed_job_tells_what_its_pod_wrote(self, driver: Driver, objects: Objects) -> None:
        def fail() -> None:
            while not (pods := objects.find("v1", "Pod", "default", {"job-name": "verify"})):
                time.sleep(0.05)
            ended = {"exitCode": 1, "reason": "Error", "message": "gpu 0: MIG is off, declared: on", "containerID": "sim://1"}
            container = {
                "name": "main", "ready": False, "restartCount": 0, "image": "i", "imageID": "i", "state": {"terminated": ended},
            }  # fmt: skip
            order = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            conditions = [{"type": type_, "status": "True" if order.index(type_) < 2 else "False"} for type_ in order]
            status = {"phase": "Failed", "containerStatuses": [container], "conditions": conditions}
            set_status(objects, {**pods[0], "apiVersion": "v1", "kind": "Pod"}, status)

        thread = threading.Thread(target=fail)
        thread.start()
        with pytest.raises(PartialFailure) as caught:
            driver.create(self.type_, "verify", self.job("verify"))
        thread.join()
        assert caught.value.resource_id == "default/verify"
        assert "was successfully created, but the Kubernetes API server reported that it failed" in caught.value.reasons[0]
        assert caught.value.reasons[0].endswith("Resource 'verify' was created but failed to initialize")
        assert any("[BackoffLimitExceeded]" in reason for reason in caught.value.reasons[1:])
        assert any("gpu 0: MIG is off, declared: on" in reason for reason in caught.value.reasons[1:])

    def test_a_job_that_is_marked_for_it_is_replaced_while_it_is_not_ready(self, driver: Driver, objects: Objects) -> None:
        marked = self.job("again")
        marked["metadata"]["annotations"] = {kube_rules.REPLACE_UNREADY: "true"}
        with pytest.raises(PartialFailure):
            driver.create(self.type_, "again", marked, timeout=1)
        found = driver.diff(self.type_, "again", marked)
        assert (found.changes, found.replaces, found.delete_before_replace) == (True, ["metadata"], True)
        assert not driver.diff(self.type_, "again", self.job("again")).replaces
        live = objects.get("batch/v1", "Job", "default", "again")
        assert live
        # Kubernetes' own controller may have begun it, in the next second even, and that stays.
        began = live.get("status", {}).get("startTime") or live["metadata"]["creationTimestamp"]
        done, ended = {"status": "True", "lastTransitionTime": began}, {"startTime": began, "completionTime": began}
        conditions = [{**done, "type": "SuccessCriteriaMet"}, {**done, "type": "Complete"}]
        set_status(objects, live, {**ended, "succeeded": 1, "conditions": conditions, "active": 0, "uncountedTerminatedPods": {}})
        assert not driver.diff(self.type_, "again", marked).changes

    def test_the_time_runs_out(self, driver: Driver) -> None:
        with pytest.raises(PartialFailure) as caught:
            driver.create("kubernetes:apps/v1:Deployment", "slow", workload("Deployment", "slow"), timeout=2)
        assert caught.value.reasons[0] == (
            'resource "urn:pulumi:t::p::slow" was successfully created, but the Kubernetes API server reported that it failed '
            "to fully initialize or become live: 'slow' timed out waiting to be Ready"
        )
        assert any("MinimumReplicasUnavailable" in reason for reason in caught.value.reasons[1:])

    @pytest.mark.sweep
    def test_the_time_of_an_update_is_its_own(self, driver: Driver) -> None:
        type_, inputs = "kubernetes:apps/v1:Deployment", workload("Deployment", "timed")
        skipped = {**inputs, "metadata": {**inputs["metadata"], "annotations": {"pulumi.com/skipAwait": "true"}}}
        _, made = driver.create(type_, "timed", skipped)
        begun = time.monotonic()
        text = "^the Kubernetes API server reported that \"default/timed\" failed to fully initialize or become live: 'timed'"
        with pytest.raises(PartialFailure, match=text):
            driver.update(type_, "timed", made, inputs, timeout=2)
        assert time.monotonic() - begun < scaled(30)

    def test_the_time_of_a_deletion_is_its_own(self, driver: Driver, objects: Objects) -> None:
        _, made = driver.create(CONFIG_MAP, "kept", {"metadata": {"name": "kept"}, "data": {}})
        objects.patch(made, [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/held"]}])
        with pytest.raises(PartialFailure, match=r"^timed out waiting for the condition$"):
            driver.delete(CONFIG_MAP, "kept", "default/kept", made, timeout=1)
        objects.patch(made, [{"op": "remove", "path": "/metadata/finalizers"}])

    def test_a_refresh_keeps_what_is_not_ready_as_that(self, driver: Driver) -> None:
        type_, inputs = "kubernetes:apps/v1:Deployment", workload("Deployment", "unready")
        with pytest.raises(PartialFailure) as caught:
            driver.create(type_, "unready", inputs, timeout=1)
        with pytest.raises(PartialFailure, match=r"^Resource 'unready' was created but failed to initialize"):
            driver.stand_in.read(type_, "default/unready", driver.check(type_, "unready", inputs), caught.value.outputs)
        assert driver.stand_in.read(type_, "default/unready", {}, {}) is not None

    def test_cancel_ends_the_wait(self, driver: Driver) -> None:
        threading.Timer(0.5, driver.stand_in.cancelled.set).start()
        start = time.monotonic()
        with pytest.raises(PartialFailure, match='Resource operation was cancelled for "endless"'):
            driver.create(self.type_, "endless", self.job("endless"), timeout=60)
        assert time.monotonic() - start < scaled(40)

    def test_a_finalizer_that_nobody_removes_ends_in_the_general_words(self, driver: Driver, objects: Objects) -> None:
        metadata = {"name": "held", "namespace": "default", "finalizers": ["example.com/held"]}
        live = objects.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, manager="test")
        objects.delete(live, "Background")
        with pytest.raises(AwaitError, match=r"^timed out waiting for the condition$"):
            Waiter(objects, (driver.stand_in.cancelled,)).until_gone(live, 0.3)
        objects.patch(live, [{"op": "remove", "path": "/metadata/finalizers"}])

    def test_a_daemon_set_without_nodes_is_ready(self, driver: Driver) -> None:
        _, outputs = driver.create("kubernetes:apps/v1:DaemonSet", "none", workload("DaemonSet", "none"))
        assert outputs["status"]["observedGeneration"] == 1


@pytest.mark.programs
class TestReleases:
    repository: ClassVar[dict[str, str]] = {"repo": "https://helm.ngc.nvidia.com/nvidia"}
    #: No machines here: the Job before an upgrade would never end.
    alone: ClassVar[dict[str, Any]] = {"nfd": {"enabled": False}, "operator": {"upgradeCRD": False}}

    def release(self, **more: Any) -> dict[str, Any]:
        values = {**self.alone, "mig": {"strategy": "mixed"}}
        base = {
            "chart": "gpu-operator", "version": "v26.7.0", "name": "gpu-operator", "namespace": "gpu-operator",
            "createNamespace": True, "repositoryOpts": self.repository, "skipAwait": True, "values": values,
        }  # fmt: skip
        return {**base, **more}

    def strategy(self, objects: Objects) -> Any:
        policy = objects.get("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy")
        return None if policy is None else policy["spec"]["mig"].get("strategy")

    def test_the_life_of_a_release(self, driver: Driver, objects: Objects) -> None:
        _, planned = driver.create(helm.TYPE, "op", self.release(), preview=True)
        assert planned["status"] is UNKNOWN
        assert planned["resourceNames"] is UNKNOWN
        id_, made = driver.create(helm.TYPE, "op", self.release())
        assert id_ == "gpu-operator/gpu-operator"
        assert driver.notes[-1].startswith("chart gpu-operator v26.7.0 from the stand-in, repository https://")
        expected = {
            "name": "gpu-operator", "namespace": "gpu-operator", "revision": 1, "status": "deployed",
            "chart": "gpu-operator", "version": "v26.7.0", "appVersion": "v26.7.0",
        }  # fmt: skip
        assert made["status"] == expected
        assert "gpu-operator/gpu-operator" in made["resourceNames"]["Deployment.apps/apps/v1"]
        with pytest.raises(ServiceError, match=r"^cannot re-use a name that is still in use$"):
            driver.create(helm.TYPE, "second", self.release())
        assert self.strategy(objects) == "mixed"
        values = {**self.alone, "mig": {"strategy": ""}, "driver": {"enabled": False}}
        changed = driver.update(helm.TYPE, "op", made, self.release(values=values))
        assert changed["status"]["revision"] == 2
        assert self.strategy(objects) is None
        found = driver.stand_in.read(helm.TYPE, id_, self.release(values=values), changed)
        assert found is not None
        assert found[1] == self.release(values=values)
        driver.delete(helm.TYPE, "op", id_, changed)
        assert driver.stand_in.read(helm.TYPE, id_, self.release(), changed) is None
        assert objects.get("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy") is None
        with pytest.raises(ServiceError, match="release: not found"):
            driver.delete(helm.TYPE, "op", id_, changed)

    def test_what_the_crd_refuses_is_an_error(self, driver: Driver) -> None:
        bad = self.release(name="bad", namespace="bad", values={**self.alone, "mig": {"strategy": "both"}})
        text = r'(?s)Helm release "bad/bad" was created, but failed to initialize completely\. .*strategy: Unsupported value'
        with pytest.raises(PartialFailure, match=text) as caught:
            driver.create(helm.TYPE, "bad", bad)
        assert caught.value.outputs["status"]["status"] == "failed"
        # The first installation failed: it is upgraded all the same.
        good = {**bad, "values": self.release()["values"]}
        assert driver.update(helm.TYPE, "bad", caught.value.outputs, good)["status"]["status"] == "deployed"
        driver.delete(helm.TYPE, "bad", "bad/bad", bad)

    def test_what_the_chart_refuses_shows_when_it_is_installed(self, driver: Driver) -> None:
        driver.create(helm.TYPE, "op", self.release(values={}), preview=True)
        with pytest.raises(ServiceError, match=r"set nfd.enabled=false"):
            driver.create(helm.TYPE, "op", self.release(values={}))

    def test_an_unknown_version_is_refused_by_the_check(self, driver: Driver) -> None:
        with driver.as_("op"):
            _, ((key, why),) = driver.stand_in.check(helm.TYPE, {}, self.release(version="v26.7.9"))
        assert key == "chart"
        assert 'chart "gpu-operator" version "v26.7.9" not found in' in why
        assert why.endswith("; check the chart name and repository configuration.")

    def test_the_version_is_the_chart_s_own(self, driver: Driver) -> None:
        checked = driver.check(helm.TYPE, "op", {key: value for key, value in self.release().items() if key != "version"})
        assert checked["version"] == "v26.7.0"

    @pytest.mark.sweep
    @pytest.mark.parametrize("state", ["pending-install", "pending-upgrade"])
    def test_a_release_that_a_killed_run_left_pending_stays_so(self, driver: Driver, place: cluster.Cluster, state: str) -> None:
        name = f"nfd-{state}"
        # No machines here: the chart's clean-up job would never end.
        values = {"postDeleteCleanup": False}
        without_gc = {**values, "gc": {"enable": False}}
        inputs = {
            "chart": "node-feature-discovery", "version": "0.19.0", "name": name, "namespace": "nfd", "createNamespace": True,
            "repositoryOpts": {"repo": "https://kubernetes-sigs.github.io/node-feature-discovery/charts"}, "skipAwait": True,
            "values": values,
        }  # fmt: skip
        _, made = driver.create(helm.TYPE, name, inputs)
        if state == "pending-upgrade":
            made = driver.update(helm.TYPE, name, made, {**inputs, "values": without_gc})
        revision = made["status"]["revision"]
        leave_pending(place, name, revision, state)
        with pytest.raises(ServiceError, match=r"another operation \(install/upgrade/rollback\) is in progress"):
            driver.update(helm.TYPE, name, made, {**inputs, "values": without_gc})
        driver.delete(helm.TYPE, name, f"nfd/{name}", made)

    def test_values_and_kubeconfig_are_no_arguments(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []
        popen = subprocess.Popen

        def spy(command: list[str], **more: Any) -> Any:
            seen.extend(command)
            return popen(command, **more)

        monkeypatch.setattr(subprocess, "Popen", spy)
        values = {"nfd": {"enabled": False}, "driver": {"secretEnv": "hunter2"}}
        id_, made = driver.create(helm.TYPE, "op", self.release(values=values))
        driver.delete(helm.TYPE, "op", id_, made)
        assert seen
        assert not any("hunter2" in part or "certificate" in part for part in seen)


def leave_pending(place: cluster.Cluster, name: str, revision: int, state: str) -> None:
    """Do to helm's record of a release what a kill in the middle of an operation leaves."""
    import base64  # noqa: PLC0415  (only here)
    import gzip  # noqa: PLC0415

    objects = Objects(Api.at(place.kubeconfig))
    record = f"sh.helm.release.v1.{name}.v{revision}"
    secret = objects.get("v1", "Secret", "nfd", record)
    assert secret is not None
    release = gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))).decode()
    text = release.replace('"status":"deployed"', f'"status":"{state}"')
    assert text != release
    packed = base64.b64encode(base64.b64encode(gzip.compress(text.encode()))).decode()
    objects.patch(
        {**secret, "apiVersion": "v1", "kind": "Secret"},
        [
            {"op": "replace", "path": "/data/release", "value": packed},
            {"op": "replace", "path": "/metadata/labels/status", "value": state},
        ],
    )


@pytest.mark.programs
def test_an_api_without_a_server_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="Connection refused"):
        Api(yaml.safe_load(KUBECONFIG)).probe()
