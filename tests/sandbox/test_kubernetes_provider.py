"""The Kubernetes stand-in does to objects what the real provider does, at a real API server."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import yaml

from sandbox import cluster, toolchain
from sandbox.progress import Progress
from sandbox.providers import helm, kube_rules
from sandbox.providers.await_ready import AwaitError, Waiter, judge, pod_reports, timeout_of, wait_conditions
from sandbox.providers.base import PartialFailure, Request, ServiceError
from sandbox.providers.chart_sources import ChartSources
from sandbox.providers.claims import Claims
from sandbox.providers.kube_api import Api, UnreachableError, read_kubeconfig
from sandbox.providers.kubernetes import KubernetesStandIn, diff_provider, settings_of
from sandbox.providers.values import UNKNOWN, Secret

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

    def test_the_namespace_and_the_label_are_filled_in_unless_given(self) -> None:
        filled = self.fill({"metadata": {"name": "a"}})
        assert filled["metadata"] == {"name": "a", "namespace": "team", "labels": {kube_rules.MANAGED_BY: "pulumi"}}
        given = {"metadata": {"name": "a", "namespace": "n", "labels": {kube_rules.MANAGED_BY: "me"}}}
        assert self.fill(given) == given

    def test_unknown_metadata_is_let_through(self) -> None:
        assert self.fill({"metadata": UNKNOWN}) == {"metadata": UNKNOWN}
        assert self.fill({"metadata": {"name": UNKNOWN}})["metadata"]["name"] is UNKNOWN


class TestDifferences:
    @pytest.mark.parametrize(
        ("kind", "old", "new", "replaces"),
        [
            ("ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, ["data"]),
            ("Job", {"spec": {"template": {"x": 1}}}, {"spec": {"template": {"x": 2}}}, ["spec"]),
            ("Job", {"spec": {"parallelism": 1}}, {"spec": {"parallelism": 2}}, []),
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
        unseen = judge(self.daemon_set(**{**full, "observedGeneration": 1}))
        assert unseen.missing == "its controller has not seen this version yet"
        assert judge(self.daemon_set(**{**full, "updatedNumberScheduled": 1})).missing == "updatedNumberScheduled is 1 of 3"
        assert judge(self.daemon_set(observedGeneration=2, desiredNumberScheduled=0)).ready

    def test_a_job_ends_well_or_badly(self) -> None:
        job = {"kind": "Job", "metadata": {}, "spec": {}}
        done = {"conditions": [{"type": "Complete", "status": "True"}]}
        failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"}]}
        assert judge({**job, "status": done}).ready
        assert judge({**job, "status": failed}).failed == "[BackoffLimitExceeded] limit"
        assert "1 active" in judge({**job, "status": {"active": 1}}).missing

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

    @pytest.mark.parametrize("wanted", ["", "ready", "jsonpath={.a[*]}=1", "jsonpath=.a", "[]", "[1]", "[", "condition="])
    def test_wait_for_that_makes_no_sense(self, wanted: str) -> None:
        with pytest.raises(ValueError, match="expected jsonpath="):
            wait_conditions(wanted)

    def test_the_time_to_wait(self) -> None:
        annotated = {"metadata": {"annotations": {"pulumi.com/timeoutSeconds": "30"}}}
        assert (timeout_of(annotated, 5), timeout_of(annotated, 0), timeout_of({}, 0)) == (5, 30, 600)

    def test_pods_tell_why_they_wait_and_how_they_ended(self) -> None:
        ended = {"exitCode": 2, "reason": "Error", "message": "expected 7 MIG devices, found 0\n"}
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}
        status = {
            "initContainerStatuses": [{"name": "assert", "state": {"waiting": waiting}, "lastState": {"terminated": ended}}],
            "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}],
        }
        pod = {"metadata": {"name": "v-1", "namespace": "n"}, "spec": {"nodeName": "gpu0"}, "status": status}
        well = {"metadata": {"name": "v-2", "namespace": "n"}, "status": {"phase": "Running"}}
        assert pod_reports([well, pod]) == [
            (
                "[Pod n/v-1 on gpu0]: container 'assert': [CrashLoopBackOff] back-off 10s -- "
                "container 'assert' terminated: [Error] exit code 2: expected 7 MIG devices, found 0"
            )
        ]


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

    def as_(self, name: str) -> Any:
        return self.stand_in.answering(Request(urn=f"urn:pulumi:t::p::{name}", name=name, random_seed=b"s"))

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

    def update(self, type_: str, name: str, olds: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        checked = self.check(type_, name, inputs, olds)
        with self.as_(name):
            return self.stand_in.update(type_, "", olds, olds, checked, preview=False)

    def delete(self, type_: str, name: str, id_: str, outputs: dict[str, Any]) -> None:
        with self.as_(name):
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
        ("type_", "kind"),
        [("kubernetes:core/v1:NamespacePatch", "Namespace"), ("kubernetes:helm.sh/v4:Chart", "Chart")],
    )
    def test_what_it_cannot_do_is_refused(self, type_: str, kind: str) -> None:
        stand_in = KubernetesStandIn()
        _, failures = stand_in.check(type_, {}, {"kind": kind})
        assert "does not support" in failures[0][1]

    def test_a_bad_wait_for_is_refused_by_the_check(self) -> None:
        inputs = {"metadata": {"name": "a", "annotations": {"pulumi.com/waitFor": "soon"}}}
        _, failures = KubernetesStandIn().check(CONFIG_MAP, {}, inputs)
        assert failures[0][0] == 'metadata.annotations["pulumi.com/waitFor"]'


# ---------------------------------------------------------------------------------------- with a cluster


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    folder = tmp_path_factory.mktemp("clusters") / "provider"
    tools = toolchain.find_tools(Progress(), only=toolchain.PLATFORM_TOOLS)
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
def api(place: cluster.Cluster) -> Api:
    return Api(read_kubeconfig(str(place.kubeconfig)), "")


def set_status(api: Api, obj: dict[str, Any], status: dict[str, Any]) -> None:
    metadata = obj["metadata"]
    path = api.kind(obj["apiVersion"], obj["kind"]).path(metadata["namespace"], metadata["name"])
    api.request("PATCH", f"{path}/status", {"status": status}, content="application/merge-patch+json")


@pytest.mark.programs
class TestObjects:
    def test_the_life_of_an_object(self, driver: Driver, api: Api) -> None:
        first = {"metadata": {"name": "life"}, "data": {"a": "1", "b": "2"}}
        id_, made = driver.create(CONFIG_MAP, "life", first)
        assert id_ == "default/life"
        assert made["metadata"]["labels"] == {kube_rules.MANAGED_BY: "pulumi"}
        assert made["metadata"]["uid"]
        changed = driver.update(CONFIG_MAP, "life", made, {"metadata": {"name": "life"}, "data": {"a": "8"}})
        assert changed["data"] == {"a": "8"}  # what is not declared any more is gone
        live = api.get("v1", "ConfigMap", "default", "life")
        assert live is not None
        assert live["data"] == {"a": "8"}
        assert driver.stand_in.read(CONFIG_MAP, id_, {}, changed) is not None
        driver.delete(CONFIG_MAP, "life", id_, changed)
        assert driver.stand_in.read(CONFIG_MAP, id_, {}, changed) is None
        driver.delete(CONFIG_MAP, "life", id_, changed)

    def test_an_object_that_exists_is_an_error_in_preview_and_update(self, driver: Driver) -> None:
        inputs = {"metadata": {"name": "twice"}, "data": {}}
        driver.create(CONFIG_MAP, "one", inputs)
        text = (
            'resource default/twice was not successfully created by the Kubernetes API server: configmaps "twice" already exists'
        )
        for preview in (True, False):
            with pytest.raises(ServiceError, match=text):
                driver.create(CONFIG_MAP, "other", inputs, preview=preview)

    def test_what_an_interrupted_create_of_the_same_resource_left_is_adopted(self, driver: Driver) -> None:
        driver.create(CONFIG_MAP, "again", {"metadata": {"name": "again"}, "data": {"a": "1", "b": "2"}})
        _, outputs = driver.create(CONFIG_MAP, "again", {"metadata": {"name": "again"}, "data": {"a": "2"}})
        assert outputs["data"] == {"a": "2"}

    def test_the_servers_validation_shows_in_the_preview(self, driver: Driver) -> None:
        bad = workload("DaemonSet", "Bad_Name")
        with pytest.raises(ServiceError, match="Invalid value"):
            driver.create("kubernetes:apps/v1:DaemonSet", "bad", bad, preview=True)

    def test_a_preview_changes_nothing_and_shows_defaults(self, driver: Driver, api: Api) -> None:
        _, outputs = driver.create("kubernetes:apps/v1:DaemonSet", "dry", workload("DaemonSet", "dry"), preview=True)
        assert outputs["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        assert "uid" not in outputs["metadata"]
        assert api.get("apps/v1", "DaemonSet", "default", "dry") is None

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
        with pytest.raises(ServiceError, match="cannot change roleRef"):
            driver.update(type_, "bind", made, {**inputs, "roleRef": {**role, "name": "edit"}})
        driver.delete(type_, "bind", "bind", made)

    def test_fields_of_others_are_not_taken_away(self, driver: Driver, api: Api) -> None:
        type_ = "kubernetes:apps/v1:Deployment"
        skipped = workload("Deployment", "owned", replicas=1)
        skipped["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
        _, made = driver.create(type_, "owned", skipped)
        api.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "owned", "namespace": "default"},
                   "spec": {"replicas": 3}}, manager="autoscaler", force=True)  # fmt: skip
        changed = {**skipped, "spec": {**skipped["spec"], "replicas": 2}}
        with pytest.raises(ServiceError, match="field conflict detected"):
            driver.update(type_, "owned", made, changed)
        changed["metadata"]["annotations"]["pulumi.com/patchForce"] = "true"
        assert driver.update(type_, "owned", made, changed)["spec"]["replicas"] == 2
        driver.delete(type_, "owned", "default/owned", made)
        assert api.get("apps/v1", "Deployment", "default", "owned") is None

    def test_an_update_of_an_object_that_is_gone_is_an_error(self, driver: Driver) -> None:
        gone = {"metadata": {"name": "gone", "namespace": "default"}}
        with pytest.raises(ServiceError, match="does not exist any more"):
            driver.update(CONFIG_MAP, "gone", gone, {"metadata": {"name": "gone"}, "data": {}})

    def test_a_secrets_data_is_secret(self, driver: Driver) -> None:
        inputs = {"metadata": {"name": "s"}, "stringData": {"k": "v"}}
        _, outputs = driver.create("kubernetes:core/v1:Secret", "s", inputs)
        assert isinstance(outputs["data"], Secret)

    def test_a_namespace_goes_with_everything_in_it(self, driver: Driver, api: Api) -> None:
        type_ = "kubernetes:core/v1:Namespace"
        id_, made = driver.create(type_, "ns", {"metadata": {"name": "team-a"}})
        assert id_ == "team-a"
        driver.create(CONFIG_MAP, "inside", {"metadata": {"name": "inside", "namespace": "team-a"}, "data": {}})
        driver.delete(type_, "ns", id_, made)
        assert api.get("v1", "Namespace", "", "team-a") is None

    def test_a_namespace_that_comes_a_little_later_is_waited_for(self, driver: Driver) -> None:
        late = {"metadata": {"name": "a", "namespace": "late"}, "data": {}}
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(driver.create(CONFIG_MAP, "late-cm", late)))
        thread.start()
        time.sleep(0.3)
        driver.create("kubernetes:core/v1:Namespace", "late", {"metadata": {"name": "late"}})
        thread.join(15)
        assert made[0][0] == "late/a"

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
        spec = {"backoffLimit": 0, "template": {"spec": pod_spec(restartPolicy="Never")}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def test_a_failed_job_tells_what_its_pod_wrote(self, driver: Driver, api: Api) -> None:
        def fail() -> None:
            while not (pods := api.find("v1", "Pod", "default", {"job-name": "verify"})):
                time.sleep(0.05)
            ended = {"exitCode": 1, "reason": "Error", "message": "gpu 0: MIG is off, declared: on", "containerID": "sim://1"}
            container = {
                "name": "main", "ready": False, "restartCount": 0, "image": "i", "imageID": "i", "state": {"terminated": ended},
            }  # fmt: skip
            set_status(api, {**pods[0], "apiVersion": "v1", "kind": "Pod"}, {"phase": "Failed", "containerStatuses": [container]})

        thread = threading.Thread(target=fail)
        thread.start()
        with pytest.raises(PartialFailure) as caught:
            driver.create(self.type_, "verify", self.job("verify"))
        thread.join()
        assert caught.value.resource_id == "default/verify"
        assert "was successfully created, but the Kubernetes API server reported that it failed" in caught.value.reasons[0]
        assert "BackoffLimitExceeded" in caught.value.reasons[0]
        assert any("gpu 0: MIG is off, declared: on" in reason for reason in caught.value.reasons[1:])

    def test_a_job_that_is_marked_for_it_is_replaced_while_it_is_not_ready(self, driver: Driver, api: Api) -> None:
        marked = self.job("again")
        marked["metadata"]["annotations"] = {kube_rules.REPLACE_UNREADY: "true"}
        with pytest.raises(PartialFailure):
            driver.create(self.type_, "again", marked, timeout=1)
        found = driver.diff(self.type_, "again", marked)
        assert (found.changes, found.replaces, found.delete_before_replace) == (True, ["metadata"], True)
        assert not driver.diff(self.type_, "again", self.job("again")).replaces
        live = api.get("batch/v1", "Job", "default", "again")
        assert live
        done = {"status": "True", "lastTransitionTime": live["metadata"]["creationTimestamp"]}
        ended = {"startTime": live["metadata"]["creationTimestamp"], "completionTime": live["metadata"]["creationTimestamp"]}
        conditions = [{**done, "type": "SuccessCriteriaMet"}, {**done, "type": "Complete"}]
        set_status(api, live, {**ended, "succeeded": 1, "conditions": conditions, "active": 0, "uncountedTerminatedPods": {}})
        assert not driver.diff(self.type_, "again", marked).changes

    def test_the_time_runs_out(self, driver: Driver) -> None:
        with pytest.raises(PartialFailure, match=r"timed out waiting to be Ready after 5 s: .*is 0 of 1") as caught:
            driver.create("kubernetes:apps/v1:Deployment", "slow", workload("Deployment", "slow"), timeout=5)
        assert any("Unschedulable" in reason for reason in caught.value.reasons[1:])

    def test_cancel_ends_the_wait(self, driver: Driver) -> None:
        threading.Timer(0.5, driver.stand_in.cancelled.set).start()
        start = time.monotonic()
        with pytest.raises(PartialFailure, match="cancelled"):
            driver.create(self.type_, "endless", self.job("endless"), timeout=60)
        assert time.monotonic() - start < 40

    def test_a_finalizer_that_nobody_removes_is_named(self, driver: Driver, api: Api) -> None:
        metadata = {"name": "held", "namespace": "default", "finalizers": ["example.com/held"]}
        live = api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, manager="test")
        api.delete(live, "Background")
        with pytest.raises(AwaitError, match=r"timed out waiting to be deleted.*example.com/held"):
            Waiter(api, (driver.stand_in.cancelled,)).until_gone(live, 0.3)
        api.patch(live, [{"op": "remove", "path": "/metadata/finalizers"}])

    def test_a_daemon_set_without_nodes_is_ready(self, driver: Driver) -> None:
        _, outputs = driver.create("kubernetes:apps/v1:DaemonSet", "none", workload("DaemonSet", "none"))
        assert outputs["status"]["observedGeneration"] == 1


@pytest.mark.programs
class TestReleases:
    repository: ClassVar[dict[str, str]] = {"repo": "https://helm.ngc.nvidia.com/nvidia"}

    def release(self, **more: Any) -> dict[str, Any]:
        values = {"nfd": {"enabled": False}, "mig": {"strategy": "mixed"}}
        base = {
            "chart": "gpu-operator", "version": "v26.7.0", "name": "gpu-operator", "namespace": "gpu-operator",
            "createNamespace": True, "repositoryOpts": self.repository, "skipAwait": True, "values": values,
        }  # fmt: skip
        return {**base, **more}

    def strategy(self, api: Api) -> Any:
        policy = api.get("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy")
        return None if policy is None else policy["spec"]["mig"].get("strategy")

    def test_the_life_of_a_release(self, driver: Driver, api: Api) -> None:
        _, planned = driver.create(helm.TYPE, "op", self.release(), preview=True)
        assert "gpu-operator/gpu-operator" in planned["resourceNames"]["Deployment.apps/apps/v1"]
        assert planned["status"] is UNKNOWN
        id_, made = driver.create(helm.TYPE, "op", self.release())
        assert id_ == "gpu-operator/gpu-operator"
        assert driver.notes[-1].startswith("chart gpu-operator v26.7.0 from the stand-in, repository https://")
        expected = {
            "name": "gpu-operator", "namespace": "gpu-operator", "revision": 1, "status": "deployed",
            "chart": "gpu-operator", "version": "v26.7.0", "appVersion": "v26.7.0",
        }  # fmt: skip
        assert made["status"] == expected
        assert self.strategy(api) == "mixed"
        values = {"nfd": {"enabled": False}, "mig": {"strategy": ""}, "driver": {"enabled": False}}
        changed = driver.update(helm.TYPE, "op", made, self.release(values=values))
        assert changed["status"]["revision"] == 2
        assert self.strategy(api) is None
        found = driver.stand_in.read(helm.TYPE, id_, self.release(values=values), changed)
        assert found is not None
        assert found[1] == self.release(values=values)
        driver.delete(helm.TYPE, "op", id_, changed)
        assert driver.stand_in.read(helm.TYPE, id_, self.release(), changed) is None
        assert api.get("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy") is None
        driver.delete(helm.TYPE, "op", id_, changed)

    def test_what_the_crd_refuses_is_an_error(self, driver: Driver) -> None:
        bad = self.release(name="bad", namespace="bad", values={"nfd": {"enabled": False}, "mig": {"strategy": "both"}})
        with pytest.raises((ServiceError, PartialFailure), match=r"spec.mig.strategy: Unsupported value"):
            driver.create(helm.TYPE, "bad", bad)
        driver.delete(helm.TYPE, "bad", "bad/bad", bad)

    def test_what_the_chart_refuses_shows_in_the_preview(self, driver: Driver) -> None:
        with pytest.raises(ServiceError, match=r"failed to render release .*set nfd.enabled=false"):
            driver.create(helm.TYPE, "op", self.release(values={}), preview=True)

    def test_an_unknown_version_is_not_found(self, driver: Driver) -> None:
        with pytest.raises(ServiceError, match=r'chart "gpu-operator" version "v26\.7\.9" not found in'):
            driver.create(helm.TYPE, "op", self.release(version="v26.7.9"), preview=True)

    @pytest.mark.parametrize("state", ["pending-install", "pending-upgrade"])
    def test_a_release_that_a_killed_run_left_pending_is_finished(
        self, driver: Driver, api: Api, place: cluster.Cluster, state: str
    ) -> None:
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
        _, outputs = driver.create(helm.TYPE, name, {**inputs, "values": without_gc})
        assert outputs["status"]["status"] == "deployed"
        assert api.get("apps/v1", "Deployment", "nfd", f"{name}-node-feature-discovery-gc") is None
        driver.delete(helm.TYPE, name, f"nfd/{name}", outputs)

    def test_values_and_kubeconfig_are_no_arguments(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []
        popen = subprocess.Popen

        def spy(command: list[str], **more: Any) -> Any:
            seen.extend(command)
            return popen(command, **more)

        monkeypatch.setattr(subprocess, "Popen", spy)
        values = {"nfd": {"enabled": False}, "driver": {"secretEnv": "hunter2"}}
        driver.create(helm.TYPE, "op", self.release(values=values), preview=True)
        assert seen
        assert not any("hunter2" in part or "certificate" in part for part in seen)


def leave_pending(place: cluster.Cluster, name: str, revision: int, state: str) -> None:
    """Do to helm's record of a release what a kill in the middle of an operation leaves."""
    import base64  # noqa: PLC0415  (only here)
    import gzip  # noqa: PLC0415

    api = Api(yaml.safe_load(place.kubeconfig.read_text()), "")
    record = f"sh.helm.release.v1.{name}.v{revision}"
    secret = api.get("v1", "Secret", "nfd", record)
    assert secret is not None
    release = gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))).decode()
    text = release.replace('"status":"deployed"', f'"status":"{state}"')
    assert text != release
    packed = base64.b64encode(base64.b64encode(gzip.compress(text.encode()))).decode()
    api.patch(
        {**secret, "apiVersion": "v1", "kind": "Secret"},
        [
            {"op": "replace", "path": "/data/release", "value": packed},
            {"op": "replace", "path": "/metadata/labels/status", "value": state},
        ],
    )


@pytest.mark.programs
def test_an_api_without_a_server_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="Connection refused"):
        Api(read_kubeconfig(KUBECONFIG), "").probe()
