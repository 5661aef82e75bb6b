"""The verifier's pods on simulated nodes: the real program, with its own token, before the real API server; and smoke tests."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.mig_parted import MIG_PARTED_CONFIG_MAP
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.smoke_test import SMOKE_TEST_NAMESPACE, smoke_tests
from gpu_pools.proof.verifier_pods import EXPECTATION_FILE, PROGRAM_FILE, VERIFIER_APP, expectation_file, verifier_daemon_set_spec
from gpu_pools.proof.verifier_rights import CONDITION, ROLE, VERIFIER_NAMESPACE, cluster_rules
from gpu_pools.text.yaml_text import load_yaml
from gpu_pools.verifier import archive
from gpu_pools.verifier.mps_daemons import read_processes
from sandbox.cluster import node_tools
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from tests.granted import RBAC, grant
from tests.sandbox.machines import mps
from tests.sandbox.machines.site import IMAGE, Site, install, running
from tests.sandbox.unprivileged import hold_in_user_namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_pools.plan.planned import Plan, PoolPlan

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]

STACK = """
config:
  gpu-pools:cluster: {platform: existing}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
    served: {mps: {replicas: 3}}
    parted: {mig: {layout: {3g.40gb: 1, 2g.20gb: 2}}}
  gpu-pools:operator: {driver: preinstalled}
  gpu-pools:verification: {deadlineSeconds: 12, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: ts, nodeSelector: {pool: ts}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
    - {name: mps, nodeSelector: {pool: mps}, gpuModel: NVIDIA L40S, gpusPerNode: 2, sharing: served}
    - {name: mig, nodeSelector: {pool: mig}, gpuModel: NVIDIA A100-SXM4-80GB, gpusPerNode: 2, sharing: parted}
"""
PLAN = plan_config(load_yaml(STACK)["config"])
PROGRAM = archive.archive()
PROGRAM_SHA256 = hashlib.sha256(PROGRAM).hexdigest()
POOLS = {pool_plan.name: pool_plan for pool_plan in PLAN.pools}
#: (resource, pool) -> what a node of it advertises.
PLAN_SHARES = {(name, pool_plan.name): count for pool_plan in PLAN.pools for name, count in pool_plan.advertises.items()}
SETS = f"/apis/apps/v1/namespaces/{VERIFIER_NAMESPACE}/daemonsets"
CONFIG_MAPS = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/configmaps"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
#: Pods are replaced, operands restarted, the verifier asked again: each takes seconds, and more where everything is slow.
LONG = 150.0
SPEC: dict[str, Any] = {
    "operator": {"runtimeClass": "nvidia"},
    "daemonsets": {"tolerations": [dict(toleration) for toleration in PLAN.tolerations]},
    "validator": IMAGE,
    "driver": {"enabled": False},
    "toolkit": {"enabled": False},
    "devicePlugin": {**IMAGE, "enabled": True, "config": {"name": DEVICE_PLUGIN_CONFIG_MAP, "default": PLAN.default_config_key}},
    "dcgm": {"enabled": False},
    "dcgmExporter": {"enabled": False},
    "gfd": {**IMAGE, "enabled": True},
    "nodeStatusExporter": {"enabled": False},
    # As the chart does it: each node decides where the plan leaves it open.
    "mig": {"strategy": PLAN.cluster_mig_strategy} if PLAN.cluster_mig_strategy else {},
    "migManager": {**IMAGE, "enabled": True, "config": {"name": MIG_PARTED_CONFIG_MAP, "default": "all-disabled"}},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("verified")
    with running(folder) as here:
        mps.name_process_rightly(here.api)
        put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        for name, pool_plan in POOLS.items():
            hardware = Hardware(24, 220, pool_plan.hardware.model.key, pool_plan.hardware.product, pool_plan.hardware.gpus)
            labels = {"pool": name, **pool_plan.labels}
            put(folder, MachineGroup(name, name, 1, hardware, labels=labels, driver_preinstalled=True))
        names = (DEVICE_PLUGIN_CONFIG_MAP, MIG_PARTED_CONFIG_MAP)
        install(here.api, SPEC, PLAN.device_plugin_configs, PLAN.mig_parted_config, names=names)
        install_verifier(here)
        yield here
    assert not folder.exists()


def install_verifier(site: Site, plan: Plan = PLAN) -> None:
    """What components/proof/verification.py puts into a cluster."""
    grant(site.api)
    api = site.api
    program = base64.b64encode(PROGRAM).decode()
    api.create(CONFIG_MAPS, {"metadata": {"name": "program"}, "binaryData": {PROGRAM_FILE: program}})
    for pool_plan in plan.pools:
        file = expectation_file(plan, pool_plan)
        api.create(CONFIG_MAPS, {"metadata": {"name": file.name}, "data": {EXPECTATION_FILE: file.text}})
        api.create(SETS, daemon_set(pool_plan, plan))


def daemon_set(pool_plan: PoolPlan, plan: Plan = PLAN) -> dict[str, Any]:
    spec = verifier_daemon_set_spec(plan, pool_plan, "program", PROGRAM_SHA256)
    return {"metadata": {"name": f"{VERIFIER_APP}-{pool_plan.name}"}, "spec": spec}


def pods(site: Site, pool: str) -> list[dict[str, Any]]:
    found = site.api.list(f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods")["items"]
    return [pod for pod in found if pod["metadata"]["labels"]["gpu-pools/pool"] == pool and not _going(pod)]


def _going(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def ready(site: Site, pool: str) -> bool:
    (pod, *more) = pods(site, pool) or [{"status": {}}]
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
    return not more and conditions.get("Ready") == "True"


def last_termination(site: Site, pool: str) -> dict[str, Any]:
    """How the init container ended last; empty where it has not."""
    for pod in pods(site, pool):
        for one in pod["status"].get("initContainerStatuses", []):
            ended: dict[str, Any] = (one.get("lastState") or {}).get("terminated") or {}
            return ended
    return {}


def condition(site: Site, pool: str) -> dict[str, Any]:
    """What the verifier has written on the pool's node."""
    (found,) = [one for one in site.node(f"{pool}0")["status"]["conditions"] if one["type"] == CONDITION]
    return dict(found)


def all_ready(site: Site) -> None:
    for pool in POOLS:
        site.until(lambda pool=pool: ready(site, pool), LONG)  # type: ignore[misc]


@pytest.fixture(autouse=True)
def verified(site: Site) -> None:
    """Each test begins with nodes that hold."""
    all_ready(site)


@pytest.mark.sweep
def test_in_a_user_namespace_nodes_are_verified_too(tmp_path: Path) -> None:
    """Without the right to mount: the pods' processes, and the kubelet's probes of them, included."""
    hold_in_user_namespaces(f"{__file__}::test_nodes_of_every_strategy_are_verified", tmp_path / "inner")


def test_nodes_of_every_strategy_are_verified(site: Site) -> None:
    for pool in POOLS:
        (pod,) = pods(site, pool)
        (init,) = pod["status"]["initContainerStatuses"]
        assert init["state"]["terminated"]["exitCode"] == 0
        assert pod["spec"]["nodeName"] == f"{pool}0"
        assert condition(site, pool)["status"] == "True"
        assert "as declared" in condition(site, pool)["message"]


def test_as_many_pods_run_at_once_as_a_node_has_shares_and_one_waits(site: Site) -> None:
    """The smoke tests of all strategies, placed by the real scheduler; what is seen is what a watch of their pods tells."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    site.api.create("/api/v1/namespaces", {"metadata": {"name": SMOKE_TEST_NAMESPACE, "labels": labels}})
    path = f"/api/v1/namespaces/{SMOKE_TEST_NAMESPACE}/pods"
    begin = site.api.list(path)["metadata"]["resourceVersion"]
    tests = {test.name: test for pool_plan in POOLS.values() for test in smoke_tests(PLAN, pool_plan)}
    for name, test in tests.items():
        job = {"metadata": {"name": name}, "spec": test.spec}
        site.api.create(f"/apis/batch/v1/namespaces/{SMOKE_TEST_NAMESPACE}/jobs", job)
    seen: dict[str, dict[str, Any]] = {name: {} for name in tests}
    full: set[str] = set()
    for event in site.api.watch(path, begin):
        pod = event["object"]
        name = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        seen[name][pod["metadata"]["name"]] = pod
        running, waiting = _phase(seen[name], "Running"), _phase(seen[name], "Pending")
        shares = PLAN_SHARES[tests[name].resource, pod["spec"]["nodeSelector"]["pool"]]
        assert len(running) <= shares
        words = [one.get("message", "") for left in waiting for one in left["status"].get("conditions", [])]
        if len(running) == shares and len(waiting) == 1 and any(f"Insufficient {tests[name].resource}" in one for one in words):
            full.add(name)
        if all(len(_phase(pods, "Succeeded")) == tests[job].spec["completions"] for job, pods in seen.items()):
            break
    assert full == set(tests), site.story()
    for pods in seen.values():
        assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 1


def _phase(pods: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [pod for pod in pods.values() if pod["status"]["phase"] == phase]


@pytest.mark.sweep
def test_a_verified_node_that_loses_its_sharing_is_not_ready_until_it_has_it_again(site: Site) -> None:
    path = "/api/v1/nodes/ts0"
    site.api.patch(path, {"metadata": {"labels": {CONFIG_LABEL: None}}})
    try:
        site.until(lambda: not ready(site, "ts"), LONG)
        site.until(lambda: ready(site, "mig"), LONG)
        assert condition(site, "ts")["status"] == "False"
        assert f"label {CONFIG_LABEL} is missing" in condition(site, "ts")["message"]
    finally:
        site.api.patch(path, {"metadata": {"labels": {CONFIG_LABEL: POOLS["ts"].config_key}}})
    site.until(lambda: ready(site, "ts") and condition(site, "ts")["status"] == "True", LONG)


@pytest.mark.sweep
def test_a_node_that_is_not_what_was_declared_never_gets_past_the_gate_until_it_is(site: Site) -> None:
    path = "/api/v1/nodes/ts0"
    site.api.patch(path, {"metadata": {"labels": {CONFIG_LABEL: PLAN.default_config_key}}})
    try:
        site.until(lambda: not ready(site, "ts"), LONG)
        (before,) = pods(site, "ts")
        site.api.delete(f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods/{before['metadata']['name']}")
        site.until(lambda: last_termination(site, "ts"), LONG)
        ended = last_termination(site, "ts")
        assert ended["exitCode"] == 1
        assert f"label {CONFIG_LABEL} is {PLAN.default_config_key}" in ended["message"], ended
        assert not ready(site, "ts")
    finally:
        site.api.patch(path, {"metadata": {"labels": {CONFIG_LABEL: POOLS["ts"].config_key}}})
    site.until(lambda: ready(site, "ts"), LONG)


@pytest.mark.sweep
def test_a_verifier_without_permission_cannot_tell_and_is_no_pass(site: Site) -> None:
    path = f"{RBAC}/clusterroles/{ROLE}"
    site.api.patch(path, {"rules": None})
    try:
        (before,) = pods(site, "mps")
        site.api.delete(f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods/{before['metadata']['name']}")
        site.until(lambda: last_termination(site, "mps"), LONG)
        ended = last_termination(site, "mps")
        assert (ended["exitCode"], "cannot get resource" in ended["message"]) == (2, True), ended
    finally:
        site.api.patch(path, {"rules": cluster_rules()})
    site.until(lambda: ready(site, "mps"), LONG)


@pytest.mark.sweep
def test_what_a_killed_daemon_ran_is_run_again_by_the_next_one(site: Site) -> None:
    names = {pool: pods(site, pool)[0]["metadata"]["name"] for pool in POOLS}
    site.kill_daemon()
    site.boot()
    all_ready(site)
    assert {pool: pods(site, pool)[0]["metadata"]["name"] for pool in POOLS} == names
    # It is asked, not remembered: a node that changes now shows.
    site.api.patch("/api/v1/nodes/mig0", {"metadata": {"labels": {CONFIG_LABEL: None}}})
    try:
        site.until(lambda: not ready(site, "mig"), LONG)
    finally:
        site.api.patch("/api/v1/nodes/mig0", {"metadata": {"labels": {CONFIG_LABEL: POOLS["mig"].config_key}}})
    site.until(lambda: ready(site, "mig"), LONG)


@pytest.mark.sweep
def test_another_split_than_the_declared_one_is_found_in_the_daemon(site: Site) -> None:
    machine = site.folder / "machines" / "mps0"
    before = mps.asked(machine, "get_default_active_thread_percentage")
    assert mps.clients(machine) == 3
    mps.asked(machine, "set_default_active_thread_percentage 50")
    try:
        site.until(lambda: "active thread percentage is 50.0" in condition(site, "mps")["message"], LONG)
    finally:
        mps.asked(machine, f"set_default_active_thread_percentage {before}")
    site.until(lambda: condition(site, "mps")["status"] == "True", LONG)


@pytest.mark.sweep
def test_a_daemon_that_hangs_is_found_where_it_lives(site: Site) -> None:
    (operand,) = site.pods(mps.MPS, "mps0")
    (daemon,) = read_processes(site.folder / "machines" / "mps0" / "host" / "proc").daemons
    assert (daemon.pod, daemon.shared) == (operand["metadata"]["uid"], True)
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        site.until(lambda: "no answer within 10 s" in condition(site, "mps")["message"], LONG)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    site.until(lambda: condition(site, "mps")["status"] == "True", LONG)
