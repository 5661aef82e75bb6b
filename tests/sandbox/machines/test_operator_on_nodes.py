"""NVIDIA's operator on a real control plane, the stand-in and the real one: what it refuses, delays, and does node by node.

The real one runs with the rights of its chart where this machine has one (GPU_POOLS_GPU_OPERATOR, tests/conformance). A node that
gets another driver takes it two minutes, its own wait.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.plan.operands_due import SELECTOR as DRIVER_PODS
from gpu_pools.plan.operands_due import followed, is_of_the_driver, older
from gpu_pools.rendering.node_cleanup import NAME, cleanup_objects
from sandbox.cluster.api_errors import ApiError
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.machines.operands import DRIVER
from sandbox.system.patience import Patience
from tests.conformance.reals import BOTH, STAND_IN, operator_or_skip
from tests.sandbox.machines.site import IMAGE, NFD, OPERATOR, POLICY, Site, install, operator_rights, running, workload
from tests.selectors import is_chosen
from tests.unit.stacks import existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs

NODES = ("gpu0", "gpu1")
#: Of the real one, which waits two minutes where a label tells nothing.
_PATIENCE = 8.0
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
STATE = "nvidia.com/gpu-driver-upgrade-state"
PLUGIN = "nvidia-device-plugin-daemonset"
SETS = f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets"
REVISIONS = f"/apis/apps/v1/namespaces/{OPERATOR}/controllerrevisions"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
SPEC: dict[str, Any] = {
    "operator": {"runtimeClass": "nvidia"},
    "daemonsets": {"tolerations": [TOLERATION], "rollingUpdate": {"maxUnavailable": "1"}},
    "validator": IMAGE,
    "driver": {
        **IMAGE,
        "enabled": True,
        "version": "595.91.07",
        "manager": IMAGE,
        "upgradePolicy": {
            "autoUpgrade": True,
            "maxParallelUpgrades": 1,
            "maxUnavailable": "25%",
            "podDeletion": {"force": False, "timeoutSeconds": 300, "deleteEmptyDir": False},
        },
    },
    "toolkit": {**IMAGE, "enabled": True},
    "devicePlugin": {**IMAGE, "enabled": True, "config": {"name": "sharing", "default": "exclusive"}},
    "dcgm": {"enabled": False},
    "dcgmExporter": {**IMAGE, "enabled": True},
    "gfd": {**IMAGE, "enabled": True},
    "nodeStatusExporter": {"enabled": False},
    "mig": {"strategy": "single"},
    "migManager": {**IMAGE, "enabled": True, "config": {"name": "layouts", "default": "all-disabled"}},
}


@pytest.fixture(scope="module", params=BOTH)
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from operator_or_skip(request.param)


@pytest.fixture(scope="module")
def site(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("operator")
    with running(folder) as here:
        here.patience = 1.0 if version == STAND_IN else _PATIENCE
        put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        put(folder, MachineGroup("gpu", "gpu", len(NODES), Hardware(4, 16, "t4-16gb", "Tesla T4", 1)))
        rights = [] if version == STAND_IN else operator_rights()
        install(here.api, SPEC, {"exclusive": "version: v1"}, "version: v1\nmig-configs: {}\n", rights=rights)
        settled(here)
        yield here


@pytest.fixture(autouse=True)
def as_before(site: Site) -> Iterator[None]:
    yield
    if not policy(site):
        return
    site.api.patch(f"{POLICY}/cluster-policy", {"spec": SPEC})
    settled(site)


def policy(site: Site) -> dict[str, Any]:
    return site.api.get(f"{POLICY}/cluster-policy") or {}


def state(site: Site) -> str:
    found: str = policy(site).get("status", {}).get("state", "")
    return found


def conditions(site: Site) -> dict[str, tuple[str, str, str]]:
    found = policy(site).get("status", {}).get("conditions", [])
    return {item["type"]: (item["status"], item["reason"], item["message"]) for item in found}


def settled(site: Site) -> None:
    def holds() -> bool:
        pods = [pod for node in NODES for pod in site.pods(DRIVER, node)]
        images = {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}
        keys = {toleration.get("key") for pod in pods for toleration in pod["spec"]["tolerations"]}
        return len(pods) == len(NODES) and images == {"595.91.07-ubuntu24.04"} and "team" not in keys

    site.until(holds)
    site.until(lambda: all(site.labels(node).get(STATE) == "upgrade-done" for node in NODES))
    site.until(lambda: all(site.offered(node) == {"gpu": "1"} for node in NODES) and state(site) == "ready")


def change(site: Site, **spec: Any) -> str:
    """Change the policy; returns the version of everything before that, for a watch."""
    version: str = site.api.list("/api/v1/nodes")["metadata"]["resourceVersion"]
    site.api.patch(f"{POLICY}/cluster-policy", {"spec": spec})
    return version


def drivers(site: Site) -> dict[str, str]:
    return {node: pod["metadata"]["uid"] for node in NODES for pod in site.pods(DRIVER, node)}


def watched(site: Site, begin: str) -> tuple[set[str], int, set[str]]:
    """(upgrade states, most nodes cordoned at once, states of the policy) from a change until every node is through it.

    All come from watches, so that nothing that was there for a moment only is missed.
    """
    seen: set[str] = set()
    nodes: dict[str, dict[str, Any]] = {}
    most = 0
    for event in site.api.watch("/api/v1/nodes", begin):
        node = event["object"]
        if event["type"] == "BOOKMARK" or node["metadata"]["name"] not in NODES:
            continue
        nodes[node["metadata"]["name"]] = node
        now = [one["metadata"]["labels"].get(STATE, "") for one in nodes.values()]
        seen.update(now)
        most = max(most, sum(bool(one["spec"].get("unschedulable")) for one in nodes.values()))
        if len(nodes) == len(NODES) and len(seen) > 1 and set(now) == {"upgrade-done"}:
            break
    states: set[str] = set()
    for event in site.api.watch(POLICY, begin):
        told = event["object"].get("status", {}).get("state", "")
        states.add(told)
        if len(states) > 1 and told == "ready":
            break
    return seen, most, states


@pytest.mark.sweep
def test_a_changed_driver_version_goes_node_by_node(site: Site) -> None:
    before = drivers(site)
    begin = change(site, driver={"version": "580.105.08"})
    seen, most, states = watched(site, begin)
    assert {"upgrade-required", "pod-restart-required", "validation-required"} <= seen
    assert most == 1
    assert "notReady" in states
    for node in NODES:
        site.until(lambda node=node: site.labels(node).get("nvidia.com/cuda.driver-version.full") == "580.105.08")
    assert not set(drivers(site).values()) & set(before.values())
    assert not any(site.node(node)["spec"].get("unschedulable") for node in NODES)


@pytest.mark.sweep
def test_a_policy_that_does_not_say_how_pods_are_deleted_never_gets_past_them(site: Site) -> None:
    """The chart always says it; a policy that somebody has written need not."""
    before = drivers(site)
    change(site, driver={"version": "580.105.08", "upgradePolicy": {"podDeletion": None}})
    site.until(lambda: "pod-deletion-required" in [site.labels(node).get(STATE) for node in NODES])
    time.sleep(5)
    assert sorted(site.labels(node)[STATE] for node in NODES) == ["pod-deletion-required", "upgrade-required"]
    assert drivers(site) == before


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["DaemonSet", "budget"])
def test_pods_that_cannot_be_evicted_fail_their_node_and_the_old_version_gets_it_out(site: Site, kind: str) -> None:
    """A DaemonSet's pod at once, whatever is forced; one that its disruption budget keeps after the policy's time."""
    spec = {"containers": [{"name": "c", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    labels = {"app": "stays"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    if kind == "DaemonSet":
        body: dict[str, Any] = {"spec": {"selector": {"matchLabels": labels}, "template": template}}
        made = [("/apis/apps/v1/namespaces/default/daemonsets", body)]
    else:
        budget = {"spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}}}
        made = [
            ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget),
            ("/api/v1/namespaces/default/pods", template),
        ]
    for path, body in made:
        about = {**body.get("metadata", {}), "name": "stays"}
        site.api.create(path, {**body, "metadata": about})
    pods = "/api/v1/namespaces/default/pods"
    site.until(lambda: any(pod["status"].get("phase") == "Running" for pod in site.api.list(pods)["items"]))
    before = drivers(site)
    deletion = {"force": True, "deleteEmptyDir": True, "timeoutSeconds": 5}
    change(site, driver={"version": "580.105.08", "upgradePolicy": {"podDeletion": deletion, "maxUnavailable": "100%"}})
    site.until(lambda: "upgrade-failed" in [site.labels(node).get(STATE) for node in NODES])
    (failed, *more) = [node for node in NODES if site.labels(node).get(STATE) == "upgrade-failed"]
    assert more == [], "a failed node counts as one that is being upgraded"
    assert drivers(site)[failed] == before[failed]
    assert site.node(failed)["spec"]["unschedulable"]
    change(site, driver={"version": "595.91.07"})
    site.until(lambda: all(site.labels(node).get(STATE) == "upgrade-done" for node in NODES))
    assert drivers(site)[failed] == before[failed], "its pod is of the newest template again"
    assert not site.node(failed)["spec"].get("unschedulable")
    for path, _ in made:
        site.api.delete(f"{path}/stays")


@pytest.mark.sweep
def test_a_new_toleration_restarts_every_driver_with_a_cordon_and_leaves_its_version(site: Site) -> None:
    before = drivers(site)
    begin = change(site, daemonsets={"tolerations": [TOLERATION, {"key": "team", "operator": "Exists"}]})
    seen, most, _ = watched(site, begin)
    assert (most, "pod-restart-required" in seen, "cordon-required" in seen) == (1, True, False)
    assert not set(drivers(site).values()) & set(before.values())
    assert site.labels()["nvidia.com/cuda.driver-version.full"] == "595.91.07"


@pytest.mark.sweep
@pytest.mark.parametrize(
    "spec",
    [
        {"driver": {"env": [{"name": "PROXY", "value": "a"}]}},
        {"daemonsets": {"tolerations": [TOLERATION, {"key": "team", "operator": "Exists"}]}},
    ],
    ids=["variable", "toleration"],
)
def test_from_when_the_operator_has_followed_the_revision_tells_which_driver_s_pods_are_old(
    site: Site, spec: dict[str, Any]
) -> None:
    """By this `up` waits for a driver of the same version: it may not take an old pod for a new one at any moment."""
    old = set(drivers(site).values())
    change(site, **spec)
    deadline, said = Patience(400), 0
    while old & set(drivers(site).values()):
        assert not deadline.is_over()
        sets, revisions = (site.api.list(f"{path}?labelSelector={DRIVER_PODS}")["items"] for path in (SETS, REVISIONS))
        pods = [pod for pod in site.api.list(f"/api/v1/namespaces/{OPERATOR}/pods")["items"] if is_of_the_driver(pod)]
        if followed([policy(site)], sets):
            selector, said = older(sets, revisions) or "", said + 1
            assert {pod["metadata"]["uid"] for pod in pods if is_chosen(pod, selector)} == old & {
                pod["metadata"]["uid"] for pod in pods
            }
        time.sleep(0.1)
    assert said
    assert all(site.labels(node)["nvidia.com/cuda.driver-version.full"] == "595.91.07" for node in NODES)


@pytest.mark.sweep
def test_a_node_that_was_cordoned_before_stays_so(site: Site) -> None:
    """It counts as unavailable all the while: with 25% of two nodes the other one would wait for ever."""
    site.api.patch("/api/v1/nodes/gpu1", {"spec": {"unschedulable": True}})
    begin = change(site, daemonsets={"tolerations": [TOLERATION, {"key": "team", "operator": "Exists"}]})
    noted = False
    for event in site.api.watch("/api/v1/nodes", begin):
        about = event["object"]["metadata"]
        if about.get("name") == "gpu1":
            noted = noted or "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable" in about["annotations"]
            if noted and about["labels"][STATE] == "upgrade-done":
                break
    assert site.labels("gpu0")[STATE] == "upgrade-required"
    change(site, driver={"upgradePolicy": {"maxUnavailable": "100%"}})
    site.until(lambda: site.labels("gpu0")[STATE] == "upgrade-done")
    assert [bool(site.node(node)["spec"].get("unschedulable")) for node in NODES] == [False, True]
    site.api.patch("/api/v1/nodes/gpu1", {"spec": {"unschedulable": None}})


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("nvcr.io/nvidia/gpu-operator:v25.10.1", "cannot update it"),
        ("nvcr.io/nvidia/gpu-operator:v1.0.0", "no image gpu-operator:v1.0.0"),
    ],
)
def test_definitions_are_not_applied_without_the_right_nor_of_an_image_that_nobody_has(
    site: Site, image: str, words: str
) -> None:
    args = ["apply", "--filepath=/opt/gpu-operator/nvidia.com_clusterpolicies.yaml"]
    container = {"name": "upgrade-crd", "image": image, "command": ["/usr/bin/manage-crds"], "args": args}
    pods, jobs = f"/api/v1/namespaces/{OPERATOR}/pods", f"/apis/batch/v1/namespaces/{OPERATOR}/jobs"
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    site.api.create(jobs, {"metadata": {"name": "crds"}, "spec": {"backoffLimit": 0, "template": template}})

    def failed() -> list[dict[str, Any]]:
        mine = [pod for pod in site.api.list(pods)["items"] if pod["metadata"]["name"].startswith("crds-")]
        return [pod for pod in mine if pod["status"].get("phase") == "Failed"]

    site.until(failed)
    assert words in site.log_end(failed()[0], "upgrade-crd")
    site.api.delete(f"{jobs}/crds")
    site.until(lambda: not failed())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"daemonsets": {"tolerations": [{"key": "a", "operator": "Exist"}]}}, 'Unsupported value: "Exist"'),
        ({"daemonsets": {"rollingUpdate": {"maxUnavailable": "abc"}}}, "failed to apply rolling update config"),
        ({"gfd": {"version": ""}}, "invalid image specification: repository, image and version must all be set"),
        ({"devicePlugin": {"config": {"name": "sha.ring"}}}, "must not contain dots"),
    ],
    ids=["toleration", "maxUnavailable", "version", "dots"],
)
def test_what_cannot_be_a_daemon_set_is_told_with_its_cause(site: Site, spec: dict[str, Any], words: str) -> None:
    before = drivers(site)
    change(site, **spec)
    site.until(lambda: conditions(site)["Error"][1] == "ReconcileFailed")
    assert state(site) == "notReady"
    assert words in conditions(site)["Error"][2]
    assert conditions(site)["Ready"][:2] == ("False", "Error")
    assert drivers(site) == before


def test_what_an_earlier_sandbox_made_with_another_selector_is_made_anew(site: Site, version: str) -> None:
    if version != STAND_IN:
        pytest.skip("the stand-in's alone: the selectors of the real one have never changed")
    path, other = f"{SETS}/nvidia-operator-validator", workload("DaemonSet", "nvidia-operator-validator", OPERATOR, "sh")

    def is_made() -> bool:
        site.api.delete(path)
        try:
            site.api.create(SETS, other | {"metadata": {**other["metadata"], "labels": {"app": "old"}}})
        except ApiError:
            return False
        return True

    site.until(is_made)
    site.until(lambda: (site.api.get(path) or other)["spec"]["selector"] != other["spec"]["selector"])
    site.until(lambda: state(site) == "ready")


def test_a_runtime_class_that_is_there_is_taken_over_or_ends_it_all(site: Site) -> None:
    found = {item["metadata"]["name"]: item for item in site.api.list(CLASSES)["items"]}
    assert set(found) == {"nvidia", "nvidia-cdi", "nvidia-legacy"}
    site.api.delete(f"{CLASSES}/nvidia-cdi")
    body = {"metadata": {"name": "nvidia-cdi", "labels": {"mine": "yes"}}, "handler": "nvidia-cdi"}
    change(site, operator={"runtimeClass": "other"})
    site.until(lambda: site.api.get(f"{CLASSES}/other"))
    site.api.patch(f"{CLASSES}/nvidia-cdi", {"metadata": body["metadata"]})
    site.until(lambda: "mine" not in (site.api.get(f"{CLASSES}/nvidia-cdi") or {})["metadata"]["labels"])
    site.api.create(CLASSES, {"metadata": {"name": "foreign"}, "handler": "runc"})
    change(site, operator={"runtimeClass": "foreign"})
    site.until(lambda: "field is immutable" in conditions(site)["Error"][2])
    assert conditions(site)["Error"][1:2] == ("ReconcileFailed",)
    assert "pre-requisites" in conditions(site)["Error"][2]


def test_nfd_without_the_system_source_leaves_no_operating_system_to_the_operator(site: Site) -> None:
    path = f"/api/v1/namespaces/{NFD}/configmaps/worker"
    before = (site.api.get(path) or {})["data"]["nfd-worker.conf"]
    for text, failed in (
        (before.replace("sources: ", "core: {labelSources: [pci, local]}\nsources: ", 1), True),
        (before, False),
    ):
        site.api.patch(path, {"data": {"nfd-worker.conf": text}})
        # As the real one, it reads its configuration when it starts.
        for node in NODES:
            for pod in site.pods("nfd-worker", node):
                site.api.delete(f"/api/v1/namespaces/{NFD}/pods/{pod['metadata']['name']}")
        site.until(lambda failed=failed: ("feature.node.kubernetes.io/system-os_release.ID" in site.labels()) is not failed)
        # The real one is not told of these labels: it notices with whatever it is told of next.
        change(site, gfd={"env": [{"name": "NEXT", "value": str(failed)}]})
        site.until(lambda failed=failed: ("GPU node OS info" in conditions(site)["Error"][2]) is failed)


def test_what_is_put_back_and_what_is_not(site: Site) -> None:
    site.label("gpu0", gpu_deploy_dcgm=None)
    plugin = site.api.get(f"{SETS}/{PLUGIN}") or {}
    site.api.delete(f"{SETS}/{PLUGIN}")
    site.until(lambda: (site.api.get(f"{SETS}/{PLUGIN}") or plugin)["metadata"]["uid"] != plugin["metadata"]["uid"])
    site.api.patch(f"{SETS}/gpu-feature-discovery", {"spec": {"template": {"metadata": {"labels": {"by": "hand"}}}}})
    time.sleep(2)
    assert (site.api.get(f"{SETS}/gpu-feature-discovery") or {})["spec"]["template"]["metadata"]["labels"]["by"] == "hand"
    assert "nvidia.com/gpu.deploy.dcgm" not in site.labels()
    change(site, nodeStatusExporter={**IMAGE, "enabled": True})
    site.until(lambda: site.labels().get("nvidia.com/gpu.deploy.dcgm") == "true")
    site.until(lambda: site.pods("nvidia-node-status-exporter"))


def test_a_second_policy_is_not_even_told_that_it_is_ignored(site: Site) -> None:
    body = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "second"}, "spec": SPEC}
    site.api.create(POLICY, body)
    time.sleep(1.5)
    assert "state" not in (site.api.get(f"{POLICY}/second") or {}).get("status", {})
    site.api.delete(f"{POLICY}/second")


def test_everything_that_the_operands_need_is_there(site: Site) -> None:
    listed = site.api.list(f"/api/v1/namespaces/{OPERATOR}/serviceaccounts")["items"]
    accounts = {item["metadata"]["name"] for item in listed} - {"default"}
    assert accounts == {
        "nvidia-driver", "nvidia-container-toolkit", "nvidia-operator-validator", "nvidia-device-plugin", "nvidia-dcgm-exporter",
        "nvidia-gpu-feature-discovery", "nvidia-mig-manager", "nvidia-device-plugin-mps-control-daemon",
    }  # fmt: skip
    names = {item["metadata"]["name"] for item in site.api.list(f"/api/v1/namespaces/{OPERATOR}/configmaps")["items"]}
    assert "default-gpu-clients" in names
    assert "default-mig-parted-config" not in names
    notes = site.node("gpu0")["metadata"]["annotations"]
    assert notes["nvidia.com/gpu-driver-upgrade-enabled"] == "true"


def test_zz_after_the_operator_its_traces_go_too(site: Site) -> None:
    """Last: the operator goes, as its release would, and the hook after it runs."""
    before = {"team": "red", "nvidia.com/gpu.deploy.client": "false"}
    site.api.patch("/api/v1/nodes/gpu1", {"metadata": {"labels": before}})
    site.api.delete(f"{POLICY}/cluster-policy")
    site.api.delete(f"/apis/apps/v1/namespaces/{OPERATOR}/deployments/gpu-operator")
    time.sleep(1)
    assert site.labels()["nvidia.com/gpu.present"] == "true"
    paths = {
        "ServiceAccount": f"/api/v1/namespaces/{OPERATOR}/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Job": f"/apis/batch/v1/namespaces/{OPERATOR}/jobs",
    }
    for item in cleanup_objects(plan_of(existing()).settings):
        text = json.dumps(item).replace("{{ .Release.Namespace }}", OPERATOR)
        site.api.create(paths[item["kind"]], json.loads(text))
    job = f"{paths['Job']}/{NAME}"
    site.until(lambda: (site.api.get(job) or {}).get("status", {}).get("succeeded") == 1)
    for node in NODES:
        names = [*site.labels(node), *site.node(node)["metadata"]["annotations"]]
        kept = {
            key for key in names if key.startswith(("nvidia.com/gpu.deploy", "nvidia.com/gpu-driver", "nvidia.com/mig.config"))
        }
        assert kept == ({"nvidia.com/gpu.deploy.client"} if node == "gpu1" else set())
        assert "nvidia.com/gpu.present" not in names
