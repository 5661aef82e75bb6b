"""The machines daemon against a real control plane and the real nfd-master: what is applied with kubectl shows on the nodes."""

from __future__ import annotations

import calendar
import contextlib
import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster import node_tools
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put, remove, scale
from sandbox.machines import objects, work
from sandbox.machines.config_volumes import SYNC_SECONDS
from sandbox.machines.ending import ENDS_AFTER, NEVER
from sandbox.nvml import simulated, state
from sandbox.system import processes
from tests.sandbox.machines.mps import name_process_rightly
from tests.sandbox.machines.site import IMAGE, OPERATOR, POLICY, Site, install, running, workload

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.programs

A100 = Hardware(24, 220, "a100-80gb", "NVIDIA A100 80GB PCIe", 2)
SKU = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
AKS = {"kubernetes.azure.com/agentpool": "gpu"}
CONFIGS = {
    "exclusive": "version: v1",
    "ts4": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
    "renamed": "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
    "mps10": "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}",
    "one": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}",
    "single": "flags: {migStrategy: single}",
    "mixed": "flags: {migStrategy: mixed}",
}
LAYOUTS = """
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  seven: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  mix: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 2g.20gb: 2}}]
  too-much: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}]
"""
SPEC: dict[str, Any] = {
    "operator": {"runtimeClass": "nvidia-container-runtime"},
    "daemonsets": {"tolerations": [{"key": "sku", "operator": "Exists"}]},
    "validator": IMAGE,
    "driver": {"enabled": False},
    "toolkit": {"enabled": False},
    "devicePlugin": {**IMAGE, "enabled": True, "config": {"name": "sharing", "default": "exclusive"}},
    "dcgm": {"enabled": False},
    "dcgmExporter": {**IMAGE, "enabled": True},
    "gfd": {**IMAGE, "enabled": True},
    "nodeStatusExporter": {"enabled": False},
    "mig": {},
    "migManager": {**IMAGE, "enabled": True, "config": {"name": "layouts", "default": "all-disabled"}},
}

REAL = pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("machines")
    with running(folder) as here:
        name_process_rightly(here.api)
        put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        put(folder, MachineGroup("gpu", "gpu", 1, A100, labels=AKS, taints=[SKU], driver_preinstalled=True))
        install(here.api, SPEC, CONFIGS, LAYOUTS)
        here.until(lambda: here.offered() == {"gpu": "2"})
        yield here
    assert on_nodes(folder) == []


def on_nodes(folder: Path) -> list[str]:
    """What runs on the machines, or keeps them: whatever is given their folders and is not part of the control plane."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = [(path / name).read_bytes().decode(errors="replace").replace("\0", " ") for name in ("cmdline", "environ")]
            if any(f"{folder}/machines/" in text for text in told):
                found.append(told[0])
    return [command for command in found if "nfd-master" not in command]


@pytest.fixture(autouse=True)
def exclusive_again(site: Site) -> Iterator[None]:
    """Each test starts with a node that shares nothing."""
    yield
    site.label(mig_config="all-disabled", device__plugin_config=None)
    site.until(lambda: site.offered() == {"gpu": "2"} and site.labels().get("nvidia.com/mig.config.state") == "success")


def test_a_label_changes_what_the_node_offers(site: Site) -> None:
    site.share("ts4")
    site.until(lambda: site.offered() == {"gpu": "8"})
    site.until(lambda: site.labels().get("nvidia.com/gpu.replicas") == "4")
    site.share("renamed")
    site.until(lambda: site.offered() == {"gpu.shared": "8"})
    assert site.node("gpu0")["status"]["capacity"]["nvidia.com/gpu"] == "8"


def test_mps_brings_its_daemon_by_way_of_gfd_and_nfd(site: Site) -> None:
    site.share("mps10")
    site.until(lambda: site.offered() == {"gpu": "20"})
    assert site.labels()["nvidia.com/mps.capable"] == "true"
    assert site.labels()["nvidia.com/gpu.product"] == "NVIDIA-A100-80GB-PCIe-SHARED"


@pytest.mark.sweep
def test_mistakes_show_in_the_pods(site: Site) -> None:
    site.share("nobody-has-this")
    # config-manager starts anew, sees no label at first, and takes the default: what was shared is not any more.
    site.until(lambda: site.waiting("nvidia-device-plugin-daemonset") == ["specified config nobody-has-this does not exist"])
    site.until(lambda: site.offered() == {"gpu": "2"})
    site.share("one")
    site.until(lambda: any("must be >= 2" in words for words in site.waiting("nvidia-device-plugin-daemonset")))
    site.until(lambda: site.offered() == {})
    site.until(lambda: (site.api.get(f"{POLICY}/cluster-policy") or {})["status"]["state"] == "notReady")


@pytest.mark.sweep
def test_an_edit_under_the_same_key_changes_nothing(site: Site) -> None:
    site.share("ts4")
    site.until(lambda: site.offered() == {"gpu": "8"})
    path = f"/api/v1/namespaces/{OPERATOR}/configmaps/sharing"
    site.api.patch(path, {"data": {"ts4": CONFIGS["ts4"].replace("4", "8")}})
    time.sleep(1.5 * SYNC_SECONDS + 0.5)
    assert site.offered() == {"gpu": "8"}
    site.share("exclusive")
    site.until(lambda: site.offered() == {"gpu": "2"})
    site.share("ts4")
    site.until(lambda: site.offered() == {"gpu": "16"})
    site.api.patch(path, {"data": {"ts4": CONFIGS["ts4"]}})


def test_mig_layouts(site: Site) -> None:
    site.share("single")
    site.label(mig_config="seven")
    site.until(lambda: site.offered() == {"gpu": "14"})
    assert site.labels()["nvidia.com/mig.config.state"] == "success"
    site.share("mixed")
    site.label(mig_config="mix")
    site.until(lambda: site.offered() == {"mig-3g.40gb": "2", "mig-2g.20gb": "4"})
    site.label(mig_config="too-much")
    site.until(lambda: site.labels().get("nvidia.com/mig.config.state") == "failed")
    # A change has succeeded before, so this one does not bring the clients back: see test_mig_manager.
    assert site.labels()["nvidia.com/gpu.deploy.device-plugin"] == "paused-for-mig-change"


def test_a_pod_with_a_gpu_keeps_mig_from_changing(site: Site) -> None:
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {"metadata": {"name": "train"}, "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}
    site.api.create("/api/v1/namespaces/default/pods", pod)
    path = "/api/v1/namespaces/default/pods/train"
    site.until(lambda: (site.api.get(path) or {})["status"].get("phase") == "Running")
    site.label(mig_config="seven")
    site.until(lambda: site.labels().get("nvidia.com/mig.config.state") == "failed")
    site.api.delete(path)
    site.until(lambda: site.api.get(path) is None)
    # As a change has succeeded before, the clients stay paused until mig-manager starts anew: see test_mig_manager.
    for manager in site.pods("nvidia-mig-manager"):
        site.api.delete(f"/api/v1/namespaces/{OPERATOR}/pods/{manager['metadata']['name']}")


@pytest.mark.sweep
def test_groups_grow_shrink_and_relabel_their_nodes(site: Site) -> None:
    labels = {**AKS, "nvidia.com/device-plugin.config": "ts4", "team": "red"}
    group = MachineGroup("more", "more", 1, A100, labels=labels, taints=[SKU], driver_preinstalled=True)
    put(site.folder, group)
    site.until(lambda: site.offered("more0") == {"gpu": "8"})
    scale(site.folder, "more", 2)
    site.until(lambda: site.offered("more1") == {"gpu": "8"})
    site.label("more0", by_hand="kept")
    effect = {"key": "x", "value": "y", "effect": "NoSchedule"}
    put(site.folder, replace(group, labels={**AKS, "team": "blue"}, taints=[effect]))
    site.until(lambda: site.offered("more0") == {"gpu": "2"})
    assert site.labels("more0")["team"] == "blue"
    assert site.labels("more0")["nvidia.com/by.hand"] == "kept"
    site.until(lambda: [taint["key"] for taint in site.node("more0")["spec"]["taints"]] == ["x"])
    site.until(lambda: not site.node("more1")["metadata"])
    remove(site.folder, "more")
    site.until(lambda: not site.node("more0")["metadata"])
    site.until(lambda: not (site.folder / "machines" / "more0.json").exists())


def test_aks_can_partition_a_machine_before_it_joins(site: Site) -> None:
    labels = {**AKS, "nvidia.com/device-plugin.config": "single", "nvidia.com/mig.config": "seven"}
    group = MachineGroup("born", "born", 1, A100, labels=labels, driver_preinstalled=True, cloud_mig_profile="MIG1g")
    put(site.folder, group)
    site.until(lambda: site.offered("born0") == {"gpu": "14"})
    remove(site.folder, "born")


def test_a_taint_that_nobody_tolerates_keeps_the_node_dark(site: Site) -> None:
    put(site.folder, MachineGroup("dark", "dark", 1, A100, taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]))
    site.until(lambda: site.node("dark0")["metadata"])
    time.sleep(2)
    assert not any("nvidia" in key or "feature.node" in key for key in site.labels("dark0"))
    remove(site.folder, "dark")


@pytest.mark.sweep
def test_driver_and_runtime_have_one_owner_each(site: Site) -> None:
    """A bare machine waits for the operator's driver and toolkit; a machine with a driver refuses another one."""
    put(site.folder, MachineGroup("bare", "bare", 1, A100, taints=[SKU]))
    site.until(lambda: site.pods("nvidia-device-plugin-daemonset", "bare0"))
    time.sleep(1)
    assert site.offered("bare0") == {}
    on = {
        "operator": {"runtimeClass": "nvidia"},
        "driver": {**IMAGE, "enabled": True, "version": "595.91.07", "manager": IMAGE},
        "toolkit": {**IMAGE, "enabled": True},
    }
    site.api.patch(f"{POLICY}/cluster-policy", {"spec": on})
    site.until(lambda: site.offered("bare0") == {"gpu": "2"})
    site.until(lambda: site.labels("bare0").get("nvidia.com/cuda.driver-version.full") == "595.91.07")
    _what_runs_goes_on_and_what_starts_anew_says_so(site, "bare0")
    site.until(
        lambda: (
            site.waiting("nvidia-driver-daemonset", "gpu0") == ["Could not unload NVIDIA driver kernel modules, driver is in use"]
        ),
    )
    site.api.patch(f"{POLICY}/cluster-policy", {"spec": {key: SPEC[key] for key in on}})
    remove(site.folder, "bare")
    site.until(lambda: site.offered("gpu0") == {"gpu": "2"})


def _what_runs_goes_on_and_what_starts_anew_says_so(site: Site, node: str) -> None:
    """gpu-feature-discovery when the toolkit's pod is replaced, and when the driver's is."""
    path = f"/api/v1/namespaces/{OPERATOR}/pods"

    def replaced(app: str) -> None:
        (pod,) = site.pods(app, node)
        site.api.delete(f"{path}/{pod['metadata']['name']}")
        site.until(lambda: [one for one in site.pods(app, node) if one["metadata"]["uid"] != pod["metadata"]["uid"]])
        site.until(lambda: all(objects.condition(one, "Ready").get("status") == "True" for one in site.pods(app, node)))

    def started() -> str:
        (pod,) = site.pods("gpu-feature-discovery", node)
        running = (pod["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("running") or {}
        return str(running.get("startedAt", ""))

    def stamped() -> float:
        return float(site.labels(node).get("nvidia.com/gfd.timestamp", 0))

    site.until(started)
    first, stamp = started(), stamped()
    replaced("nvidia-container-toolkit-daemonset")
    time.sleep(2)
    assert (started(), stamped()) == (first, stamp)
    replaced("nvidia-driver-daemonset")
    site.until(lambda: started() > first)
    again = calendar.timegm(time.strptime(started(), "%Y-%m-%dT%H:%M:%SZ"))
    site.until(lambda: stamped() > stamp)
    assert stamped() >= again - 5


@pytest.mark.sweep
def test_a_labeller_and_a_rule_label_the_nodes_of_a_pool(site: Site) -> None:
    labeller = workload("DaemonSet", "marker", OPERATOR, "sh", tolerations=[{"operator": "Exists"}], nodeSelector=AKS)
    template = labeller["spec"]["template"]
    template["metadata"]["labels"]["app.kubernetes.io/name"] = "gpu-pools-marker"
    template["spec"]["containers"][0]["env"] = [{"name": "GPU_POOLS_POOL", "value": "nb"}]
    match = {"feature": "local.feature", "matchExpressions": {"gpu-pools/pool": {"op": "In", "value": ["nb"]}}}
    rule = {"name": "nb", "labels": {"nvidia.com/device-plugin.config": "ts4"}, "matchFeatures": [match]}
    body = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeatureRule",
        "metadata": {"name": "pools"},
        "spec": {"rules": [rule]},
    }
    site.api.create("/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules", body)
    site.api.create(f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets", labeller)
    site.until(lambda: site.offered() == {"gpu": "8"})
    # The file outlives the labeller, so that restarting it never takes a label away; the rule decides.
    site.api.delete(f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets/marker")
    time.sleep(2)
    assert site.offered() == {"gpu": "8"}
    site.api.delete("/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules/pools")
    site.until(lambda: site.offered() == {"gpu": "2"})


def test_jobs_finish_and_missing_mounts_are_told(site: Site) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job"}]}}
    site.api.create(jobs, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": template}})
    site.until(lambda: (site.api.get(f"{jobs}/job") or {}).get("status", {}).get("succeeded") == 1)
    volumes = [{"name": "v", "configMap": {"name": "missing"}}]
    pod = {"metadata": {"name": "mounts"}, "spec": {"containers": [{"name": "main", "image": "x"}], "volumes": volumes}}
    site.api.create("/api/v1/namespaces/default/pods", pod)
    events = "/api/v1/namespaces/default/events"
    site.until(lambda: any(event["reason"] == "FailedMount" for event in site.api.list(events)["items"]))
    site.api.delete("/api/v1/namespaces/default/pods/mounts")
    site.api.delete(f"{jobs}/job")
    site.until(lambda: not site.api.list("/api/v1/namespaces/default/pods")["items"])


@pytest.mark.sweep
def test_a_restarted_daemon_goes_on_where_it_was(site: Site) -> None:
    site.share("ts4")
    site.until(lambda: site.offered() == {"gpu": "8"})
    before = [(pod["metadata"]["uid"], pod["status"]) for pod in site.pods("nvidia-device-plugin-daemonset")]
    path = f"/api/v1/namespaces/{OPERATOR}/configmaps/sharing"
    site.api.patch(path, {"data": {"ts4": CONFIGS["ts4"].replace("4", "8")}})
    processes.stop(site.folder, ["machines"])
    site.boot()
    site.until(lambda: site.offered() == {"gpu": "8"})
    time.sleep(3)
    assert site.offered() == {"gpu": "8"}
    assert [(pod["metadata"]["uid"], pod["status"]) for pod in site.pods("nvidia-device-plugin-daemonset")] == before
    site.api.patch(path, {"data": {"ts4": CONFIGS["ts4"]}})
    # The next test's plugin would read what the volume still has, and nobody would tell it of the new text.
    volumes = site.folder.glob("machines/gpu0/pods/*/volume/ts4")
    site.until(lambda paths=list(volumes): {path.read_text() for path in paths} <= {CONFIGS["ts4"]})


@REAL
def test_a_fault_that_is_injected_into_a_gpu_shows_on_the_node(site: Site) -> None:
    """An Xid: the plugin marks one replica of eight. Allocatable says so, capacity and the siblings do not."""
    site.share("ts4")
    site.until(lambda: site.offered() == {"gpu": "8"})
    numbers = itertools.count(1)

    def hurt() -> bool:
        # Who registers for events is told of later ones only.
        xid = simulated.Event(next(numbers), 8, 79)
        path = site.folder / "machines" / "gpu0" / "state"
        state.change(path, lambda seen: replace(seen, gpus=(replace(seen.gpus[0], events=(xid,)), *seen.gpus[1:])))
        return site.offered() == {"gpu": "7"}

    site.until(hurt)
    assert site.node("gpu0")["status"]["capacity"]["nvidia.com/gpu"] == "8"


@pytest.mark.sweep
@REAL
def test_nothing_of_the_nodes_outlives_a_daemon_that_is_killed(site: Site) -> None:
    site.share("mixed")
    site.label(mig_config="mix")
    site.until(lambda: site.offered() == {"mig-3g.40gb": "2", "mig-2g.20gb": "4"})
    assert any("nvidia-device-plugin" in command for command in on_nodes(site.folder))
    site.kill_daemon()
    site.until(lambda: not on_nodes(site.folder))
    site.boot()
    site.until(lambda: on_nodes(site.folder))
    site.until(lambda: site.offered() == {"mig-3g.40gb": "2", "mig-2g.20gb": "4"})


@pytest.mark.sweep
def test_where_the_real_programs_cannot_run_rules_take_over_and_say_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.share("single")
    site.label(mig_config="seven")
    site.until(lambda: site.offered() == {"gpu": "14"})
    monkeypatch.setenv(node_tools.NODE_PROGRAMS, "rules")
    site.boot()
    said = "rules stand in for NVIDIA's programs on the nodes: GPU_POOLS_NODE_PROGRAMS=rules asks for it"
    site.until(lambda: said in processes.log_tail(site.folder, "machines"))
    site.share("mixed")
    site.until(lambda: site.offered() == {"mig-1g.10gb": "14"})
    site.label(mig_config="mix")
    site.until(lambda: site.offered() == {"mig-3g.40gb": "2", "mig-2g.20gb": "4"})
    assert on_nodes(site.folder) == []

    # And back again, with what the rules have left.
    monkeypatch.delenv(node_tools.NODE_PROGRAMS)
    site.boot()
    site.until(lambda: on_nodes(site.folder) or node_tools.obstacle())
    site.share("single")
    site.label(mig_config="seven")
    site.until(lambda: site.offered() == {"gpu": "14"})


PODS, LEDGERS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"


def works(site: Site, name: str, after: str, grace: int = 30) -> None:
    """A pod that has begun to work, and needs so long to save that."""
    metadata = {"name": name, "annotations": {ENDS_AFTER: after, work.LEDGER: "ledger"}}
    containers = [{"name": "c", "image": "a:1"}]
    spec = {"nodeName": "gpu0", "terminationGracePeriodSeconds": grace, "restartPolicy": "Never", "containers": containers}
    site.api.create(PODS, {"metadata": metadata, "spec": spec})


def lost(site: Site) -> list[str]:
    present = {objects.uid(pod) for pod in site.api.list(PODS)["items"]}
    return work.lost(site.api.get(f"{LEDGERS}/ledger") or {}, present)


@pytest.mark.sweep
def test_a_pod_has_its_grace_and_what_it_cannot_save_in_it_is_lost(site: Site) -> None:
    works(site, "saves", "2")
    site.until(lambda: "its ledger, ConfigMap ledger, is not there" in processes.log_tail(site.folder, "machines"))
    assert (site.api.get(f"{PODS}/saves") or {})["status"]["phase"] == "Pending"
    site.api.create(LEDGERS, {"metadata": {"name": "ledger"}})
    for name, after, grace in (("refuses", NEVER, 3), ("late", "20", 3), ("forced", "1", 30), ("forced-late", "4", 30)):
        works(site, name, after, grace)
    site.until(lambda: {one["status"].get("phase") for one in site.api.list(PODS)["items"]} == {"Running"})
    assert len((site.api.get(f"{LEDGERS}/ledger") or {})["data"]) == 5
    for name in ("saves", "refuses", "late"):
        site.api.delete(f"{PODS}/{name}")
    site.api.delete(f"{PODS}/refuses", grace_seconds=1)
    for name in ("forced", "forced-late"):
        site.api.delete(f"{PODS}/{name}", grace_seconds=0)
    assert sorted(one["metadata"]["name"] for one in site.api.list(PODS)["items"]) == ["late", "refuses", "saves"]
    assert {one["status"]["phase"] for one in site.api.list(PODS)["items"]} == {"Running"}
    # What was removed by force is gone for who asks, and has not ended: one of the two still comes to save.
    assert lost(site) == ["forced", "forced-late"]
    site.until(lambda: not site.api.list(PODS)["items"])
    site.until(lambda: lost(site) == ["forced-late", "late", "refuses"])


@pytest.mark.sweep
def test_a_pod_that_never_ran_has_failed_before_it_goes(site: Site) -> None:
    metadata = {"name": "never", "annotations": {ENDS_AFTER: "2", work.LEDGER: "of-nobody"}}
    site.api.create(PODS, {"metadata": metadata, "spec": {"nodeName": "gpu0", "containers": [{"name": "c", "image": "a:1"}]}})
    site.until(lambda: "its ledger, ConfigMap of-nobody, is not there" in processes.log_tail(site.folder, "machines"))
    listed = site.api.list(PODS)
    site.api.delete(f"{PODS}/never")
    phases = list[str]()
    for event in site.api.watch(PODS, listed["metadata"]["resourceVersion"]):
        phases.append(event["object"]["status"]["phase"])
        if event["type"] == "DELETED":
            break
    assert phases[0] == "Pending"
    assert phases[-1] == "Failed"


def test_zz_without_a_policy_the_operands_go(site: Site) -> None:
    """Last: it takes the operator's work away (and puts it back)."""
    site.api.delete(f"{POLICY}/cluster-policy")
    site.until(lambda: site.offered() == {} and not site.pods("nvidia-device-plugin-daemonset"))
    site.until(lambda: "nvidia.com/gpu.product" not in site.labels())
    site.api.create(
        POLICY, {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": SPEC}
    )
    site.until(lambda: site.offered() == {"gpu": "2"})
