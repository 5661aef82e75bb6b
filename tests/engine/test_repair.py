"""`gpu-pools repair` of broken nodes, with the real API, scheduler, eviction, device plugin, config-manager and verifiers.

The tests of the first stack share it, and run in the order they are written.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.repairing.looking import ANNOTATION
from gpu_pools.verifier.names import MIG_STATE_LABEL
from sandbox.clouds.azure import AzureCloud
from sandbox.machines import container_logs
from sandbox.machines.config_volumes import SYNC_SECONDS
from sandbox.nvml import simulated
from sandbox.stack.engine import Engine
from sandbox.stack.stand_ins import attached
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.engine.fleet import CONFIG_LABEL, CONFIG_MAP, Fleet
from tests.engine.marks import ON_NODES
from tests.engine.trial import PROJECT
from tests.patience import output_of
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Run, Trial

pytestmark = ON_NODES

STACK: Final = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:operator: {driver: preinstalled, migStrategy: mixed}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
    cut: {mig: {layout: {1g.10gb: 7}}}
  gpu-pools:verification: {deadlineSeconds: 120, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: ts, vmSize: Standard_NC4as_T4_v3, count: 2, sharing: sliced}
    - {name: cut, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: cut}
"""
MAGNUM: Final = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: magnum-cluster-api
    template: {image: ubuntu-24.04, externalNetwork: public, flavor: m2.large, networkDriver: calico, labels: {kube_tag: v1.36.3}}
    keypair: gpu-admin
    workerFlavor: m2.large
  gpu-pools:flavors:
    g2: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:verification: {deadlineSeconds: 120, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: grows, flavor: g2, nodes: {min: 1, max: 4}, sharing: shared, rollout: {}}
"""
SLICE: Final = "nvidia.com/mig-1g.10gb"
PODS: Final = "/api/v1/namespaces/default/pods"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PAUSED: Final = "paused-for-mig-change"
_LOST: Final = 15  # NVML_ERROR_GPU_IS_LOST
_OPERATORS: Final = "/api/v1/namespaces/gpu-operator/pods"
_STUCK: Final = "error creating symlink"
_LONG_AGO: Final = "2026-01-01T00:00:00Z"
_PLUGIN: Final = "nvidia-device-plugin-daemonset"


@pytest.fixture(scope="module")
def fleet(shared_sandbox: Callable[..., Trial]) -> Fleet:
    trial = shared_sandbox(STACK)
    trial.up().ok()
    found = Fleet(trial)
    found.all_green()
    return found


def test_a_node_that_is_as_declared_is_left_alone(fleet: Fleet) -> None:
    done = repair(fleet, fleet.node("ts", 0), "--yes")
    assert (done.code, "it is as declared" in done.out) == (0, True), done.text
    _untouched(fleet, fleet.node("ts", 0))


def test_a_lost_gpu(fleet: Fleet) -> None:
    """Told first; pods that stay stop it; killed while it waits for a hand; the next one goes on; and it ends proven."""
    node = fleet.node("ts", 0)
    holder = _hold(fleet, "holder", "nvidia.com/gpu", node)
    budget = {"metadata": {"name": "stays"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "holder"}}}}
    fleet.api.create(BUDGETS, budget)
    mend = fleet.gpus(node, _lost)
    fleet.until(lambda _: fleet.causes(node)[:1] == ("gpu-lost",), "the lost GPU is found")

    file = str(fleet.trial.sandbox.config_file)
    drift = fleet.trial.gpu_pools("drift", fleet.trial.stack, "--config-file", file, "--declared")
    assert drift.code == 1, drift.text
    assert "Declared, and not deployed" not in drift.out
    assert f"nothing: gpu-pools repair {node}" in drift.out

    document = fleet.trial.base / "repair.json"
    preview = repair(fleet, node, "--json", str(document))
    assert preview.code == 0, preview.text
    written = json.loads(document.read_text(encoding="utf-8"))
    assert (written["ways"], written["evicted"], written["exitCode"]) == (["HAND", "PLUGIN"], ["default/holder"], 0)
    for words in ("it is cordoned", "default/holder (a bare pod)", "somebody has rebooted it", _PLUGIN, "Nothing was done"):
        assert words in preview.out, preview.text
    _untouched(fleet, node)

    refused = repair(fleet, node, "--yes", "--kubeconfig", str(_who_may_only_look(fleet)))
    assert refused.code == 2, refused.text
    for right in ("create pods/eviction in default", "delete pods in gpu-operator", "patch nodes"):
        assert right in refused.err
    _untouched(fleet, node)

    stopped = repair(fleet, node, "--yes", "--drain-timeout", "4")
    assert stopped.code == 1, stopped.text
    assert "default/holder (a bare pod): Cannot evict pod as it would violate the pod's disruption budget" in stopped.err
    _untouched(fleet, node)
    assert fleet.trial.get(f"{PODS}/holder")["metadata"]["uid"] == holder

    with started(fleet, node, "--yes", "--drain-timeout", "4", "--pods-that-stay", "delete") as running:
        fleet.trial.wait_until(lambda: fleet.api.get(f"{PODS}/holder") is None, "the pod is gone", 120)
        fleet.trial.wait_until(lambda: _cordoned(fleet, node), "it is cordoned")
        running.kill()
    assert _mark(fleet, node), "what is being done stands on the node"
    fleet.api.delete(f"{BUDGETS}/stays")

    with started(fleet, node, "--yes") as running:
        time.sleep(6)
        assert running.poll() is None, "it waits for a hand"
        mend()
        out, err = output_of(running, 240)
    assert running.returncode == 0, f"{out}\n{err}"
    assert "goes on where it was" in out
    assert "is proven, and given back" in out
    _untouched(fleet, node)
    assert fleet.look()[node].status == "True"


def test_config_manager_is_stuck(fleet: Fleet) -> None:
    """W22, as it comes about: the old key goes as the label moves. A pod that runs keeps its share."""
    node = fleet.node("ts", 0)
    holder = _hold(fleet, "keeps", "nvidia.com/gpu", node)
    _wedge(fleet, node)
    # The node was cordoned by somebody: that stays.
    fleet.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    done = repair(fleet, node, "--yes")
    assert done.code == 0, done.text
    assert "it is cordoned already, and stays so" in done.out
    assert _cordoned(fleet, node)
    assert _mark(fleet, node) is None
    assert fleet.trial.get(f"{PODS}/keeps")["metadata"]["uid"] == holder
    fleet.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    fleet.api.delete(f"{PODS}/keeps")


def test_mig_is_not_as_declared_and_mig_manager_hangs(fleet: Fleet) -> None:
    """W23's labels, and a GPU that somebody has cut by hand; killed again and again, it ends as declared."""
    node = fleet.node("cut", 0)
    _hold(fleet, "instance", SLICE, node)
    fleet.gpus(node, lambda machine: replace(machine, gpus=(simulated.partitioned(machine.gpus[0], [("7g.80gb", 0)]),)))
    fleet.until(lambda _: "mig-layout" in fleet.causes(node), "the other layout is found")
    paused = {"nvidia.com/gpu.deploy.device-plugin": PAUSED, "nvidia.com/gpu.deploy.gpu-feature-discovery": PAUSED}
    fleet.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {**paused, MIG_STATE_LABEL: "failed"}}})
    fleet.trial.wait_until(lambda: "mig-manager gave up" in repair(fleet, node).out, "it is known to hang", 120)
    for seconds in (3, 8):
        with started(fleet, node, "--yes") as running, contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(timeout=seconds)
    done = repair(fleet, node, "--yes")
    assert done.code == 0, done.text
    assert fleet.api.get(f"{PODS}/instance") is None, "what held an instance was evicted"
    _untouched(fleet, node)
    assert PAUSED not in _node(fleet, node)["metadata"]["labels"].values()
    assert _offers(fleet, node, SLICE) == 7


def test_a_broken_gpu_has_its_machine_replaced(fleet: Fleet) -> None:
    """The cloud's part is done here: it takes the machine and one of the pool's number; the next deploy brings another."""
    node, cloud = fleet.node("ts", 1), AzureCloud(fleet.trial.folder)
    uid = _node(fleet, node)["metadata"]["uid"]
    _hold(fleet, "computes", "nvidia.com/gpu", node)
    fleet.gpus(
        node, lambda machine: replace(machine, gpus=tuple(replace(gpu, remapped_rows=(0, 2, 0, 1)) for gpu in machine.gpus))
    )
    fleet.until(lambda _: fleet.causes(node)[:1] == ("memory-broken",), "the broken memory is found")
    with started(fleet, node, "--yes") as running:
        fleet.trial.wait_until(lambda: fleet.api.get(f"{PODS}/computes") is None, "the pod is gone", 120)
        cloud.scale("small", "ts", 1)
        fleet.trial.wait_until(lambda: len(fleet.trial.nodes("ts")) == 1, "the machine is gone")
        fleet.trial.engine("up", "--refresh", "--yes", "--skip-preview").ok()
        out, err = output_of(running, 240)
    assert running.returncode == 0, f"{out}\n{err}"
    command = f"az aks nodepool delete-machines --resource-group small-rg --cluster-name small --name ts --machine-names {node}"
    assert command in out
    assert "has come, and is proven" in out
    assert uid not in {one["metadata"]["uid"] for one in fleet.trial.nodes("ts")}


@at_night("the same on another platform, four minutes")
def test_a_node_that_magnums_autoscaler_brought_is_proven_and_can_be_replaced(sandbox: Callable[..., Trial]) -> None:
    """Its pool has a rollout: a node that joins is neither cordoned nor drained, and proven as all others."""
    trial = sandbox(MAGNUM)
    trial.up().ok()
    trial.scale("grows", 2).ok()
    fleet = Fleet(trial)
    fleet.until(lambda seen: len(seen) == 2 and all(one.status == "True" for one in seen.values()), "both are proven")
    assert trial.gpu_pools("evidence", trial.stack).code == 0
    other, node = fleet.node("grows", 0), fleet.node("grows", 1)
    _untouched(fleet, node)

    _overwritten_labels(fleet, node)

    # The changer's verifier starts anew in the middle of it, and gives nothing back.
    mend = fleet.gpus(other, _lost)
    fleet.until(lambda _: fleet.causes(other)[:1] == ("gpu-lost",), "the lost GPU is found")
    with started(fleet, other, "--yes") as running:
        trial.wait_until(lambda: _cordoned(fleet, other), "it is cordoned", 120)
        mend()
        out, err = output_of(running, 240)
    assert running.returncode == 0, f"{out}\n{err}"
    _untouched(fleet, other)

    with started(fleet, node, "--yes", "--replace") as running:
        trial.wait_until(lambda: _cordoned(fleet, node), "it is cordoned", 120)
        trial.scale("grows", 1).ok()
        out, err = output_of(running, 240)
    assert running.returncode == 0, f"{out}\n{err}"
    assert "openstack coe cluster resize --nodegroup grows --nodes-to-remove SERVER" in out
    assert "pulumi up --refresh" not in out, "the autoscaler decides the number"
    assert "grows has as many nodes as it must have" in out


def _overwritten_labels(fleet: Fleet, node: str) -> None:
    """Somebody overwrites the node's label: its verifier sets it again, and where a pod holds a share `repair` does."""
    declared = _node(fleet, node)["metadata"]["labels"][CONFIG_LABEL]
    fleet.label(node, CONFIG_LABEL, "by-hand")
    set_again = lambda: _node(fleet, node)["metadata"]["labels"][CONFIG_LABEL] == declared  # noqa: E731 - it is used twice
    fleet.trial.wait_until(set_again, "the verifier sets the label again", 90)
    fleet.all_green()

    _hold(fleet, "holds", "nvidia.com/gpu", node)
    fleet.label(node, CONFIG_LABEL, "by-hand")
    fleet.until(lambda _: fleet.causes(node)[:1] == ("label-other",), "the label is found")
    assert not set_again()
    done = repair(fleet, node, "--yes")
    assert done.code == 0, done.text
    assert done.out.count("remedy:") == 1, done.out
    assert f"its labels are set to the declared values: {CONFIG_LABEL}={declared}" in done.out
    assert set_again()
    assert fleet.api.get(f"{PODS}/holds") is None
    _untouched(fleet, node)


# --- means ------------------------------------------------------------------------------------------------


def repair(fleet: Fleet, node: str, *more: str) -> Run:
    return fleet.trial.gpu_pools("repair", node, "--stack", fleet.trial.stack, *more)


class started:  # noqa: N801 - it reads as what it does
    """A repair that runs meanwhile; killed at the end where it still does."""

    def __init__(self, fleet: Fleet, node: str, *more: str) -> None:
        tools = find_tools(Progress(), only={"pulumi", "helm"})
        engine = Engine(fleet.trial.sandbox, tools, attached(fleet.trial.sandbox))
        command = [sys.executable, "-m", "gpu_pools", "repair", node, "--stack", fleet.trial.stack, *more]
        self._process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=engine.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> subprocess.Popen[str]:
        return self._process

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        out, err = self._process.communicate()
        # Shown where the test fails.
        sys.stderr.write(f"--- repair, killed or ended ---\n{out}\n{err}\n")


def _who_may_only_look(fleet: Fleet) -> Path:
    """A kubeconfig of somebody who may read everything."""
    fleet.api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "looks"}})
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looks"}
    subjects = [{"kind": "ServiceAccount", "name": "looks", "namespace": "default"}]
    fleet.api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "looks"}, "rules": rules})
    binding = {"metadata": {"name": "looks"}, "roleRef": role, "subjects": subjects}
    fleet.api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    asked: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = fleet.api.create("/api/v1/namespaces/default/serviceaccounts/looks/token", asked)["status"]["token"]
    config = yaml.safe_load((fleet.folder / "kubeconfig").read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token}
    path = fleet.trial.base / "looks"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def _lost(machine: simulated.Machine) -> simulated.Machine:
    return replace(machine, gpus=tuple(replace(gpu, faults=(simulated.Fault("*", error=_LOST),)) for gpu in machine.gpus))


def _wedge(fleet: Fleet, node: str) -> None:
    """The node takes up a key that goes before the label has left it.

    A verifier tells a stuck config-manager from a late kubelet by the age of the ConfigMap, so that is made old.
    """
    key = _node(fleet, node)["metadata"]["labels"][CONFIG_LABEL]
    text = fleet.trial.get(CONFIG_MAP)["data"][key]
    fleet.api.patch(CONFIG_MAP, {"data": {"by-hand": text.replace("replicas: 4", "replicas: 8")}})
    time.sleep(2 * SYNC_SECONDS)
    fleet.label(node, CONFIG_LABEL, "by-hand")
    fleet.trial.wait_until(lambda: _offers(fleet, node, "nvidia.com/gpu") == 8, "the node offers 8")
    fleet.api.patch(CONFIG_MAP, {"data": {"by-hand": None}})
    time.sleep(2 * SYNC_SECONDS)
    fleet.label(node, CONFIG_LABEL, key)
    fleet.trial.wait_until(lambda: _STUCK in _config_manager_log(fleet, node), "it is stuck")
    fields = fleet.trial.get(CONFIG_MAP)["metadata"]["managedFields"]
    fleet.api.patch(CONFIG_MAP, {"metadata": {"managedFields": [{**one, "time": _LONG_AGO} for one in fields]}})
    fleet.until(lambda _: "config-wedged" in fleet.causes(node), "the stuck config-manager is found")


def _config_manager_log(fleet: Fleet, node: str) -> str:
    """What config-manager of the node's device plugin said last; a pod's status has none of it."""
    log = container_logs.folder_of(fleet.machine(node), fleet.pod(_OPERATORS, node, _PLUGIN)) / "config-manager.log"
    return log.read_text(encoding="utf-8") if log.exists() else ""


def _hold(fleet: Fleet, name: str, resource: str, node: str) -> str:
    """A bare pod that holds a GPU of a node; its uid."""
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "a:1", "resources": {"limits": {resource: 1}}}]}
    fleet.api.create(PODS, {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
    fleet.trial.wait_until(lambda: fleet.trial.get(f"{PODS}/{name}")["status"]["phase"] == "Running", f"{name} runs")
    return str(fleet.trial.get(f"{PODS}/{name}")["metadata"]["uid"])


def _offers(fleet: Fleet, node: str, resource: str) -> int:
    return int(_node(fleet, node)["status"].get("allocatable", {}).get(resource, 0))


def _node(fleet: Fleet, node: str) -> dict[str, Any]:
    found: dict[str, Any] = fleet.trial.get(f"/api/v1/nodes/{node}")
    return found


def _cordoned(fleet: Fleet, node: str) -> bool:
    return bool(_node(fleet, node)["spec"].get("unschedulable"))


def _mark(fleet: Fleet, node: str) -> str | None:
    mark: str | None = (_node(fleet, node)["metadata"].get("annotations") or {}).get(ANNOTATION)
    return mark


def _untouched(fleet: Fleet, node: str) -> None:
    assert (_cordoned(fleet, node), _mark(fleet, node)) == (False, None)
