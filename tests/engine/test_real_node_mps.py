"""MPS on a real node: NVIDIA's daemon and config-manager in containers of a real kubelet, beside a simulated node.

That the real operator's DaemonSet names the wrong process, and that the stack's admission policy corrects it, is seen here by the
programs themselves. GPUs, NVML, nvidia-smi and the control program of MPS are the sandbox's. The tests share a stack and run in
the order they are written.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.rendering.mps_signal import APP, CONTAINER, POLICY, has_wrong_name, probe_pod
from sandbox.real_node.node import entering
from sandbox.real_node.place import Place
from tests.engine import test_real_node
from tests.engine.test_real_node import BESIDE, OPERATOR, REAL, advertised, brought_up, node, pods, seen_of, verdict, workload
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [*test_real_node.pytestmark, at_night("another strategy on the same kind of node, three minutes")]

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:sharing:
    served: {mps: {replicas: 4}}
  gpu-pools:verification: {deadlineSeconds: 300, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: real, nodeSelector: {pool: real}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: served}
    - {name: beside, nodeSelector: {pool: beside}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: served}
"""
BINDING: Final = f"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/{POLICY}"
PODS: Final = f"/api/v1/namespaces/{OPERATOR}/pods"
NODES: Final = (REAL, BESIDE)
DAEMON: Final = "mps-control-daemon-ctr"
SHM: Final = "/run/nvidia/mps/shm"
#: All of the node ends but its first process, and what a machine has in memory is gone: mounts, /run, control groups. What is on
#: its disk stays. Its first process starts containerd and the kubelet again. The first line is for a shell on another machine.
REBOOT: Final = r"""
grep -q real_node.keeper /proc/1/cmdline && [ "$(cat /proc/$$/comm)" = sh ] || exit 1
kill -9 -1
mounted=$(sed -E 's/^([^ ]+ ){4}([^ ]+) .*/\2/' /proc/self/mountinfo | grep -E '^/run/(containerd|netns|nvidia/mps)' | sort -r)
for point in $mounted; do umount -l "$point"; done
rm -rf /run/containerd /run/nvidia/mps /run/nvidia/driver /run/nvidia/toolkit /run/nvidia/validations
find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} +
"""


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    return brought_up(shared_sandbox, STACK)


def evidence(trial: Trial, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node(trial, name)["metadata"]["annotations"]["gpu-pools/verification"])
    return found


def serves(trial: Trial, name: str) -> tuple[str, str, str]:
    """Shares, the split that the daemon tells the verifier, and the GPU's compute mode as NVML has it."""
    seen = evidence(trial, name)["observed"]
    return advertised(trial, name), seen["mps"]["activeThreadPercentage"], seen["gpus"][0]["computeMode"]


def daemon(trial: Trial, name: str) -> dict[str, Any]:
    """The pod of the MPS daemon; empty while there is none."""
    found = trial.api().list(f"{PODS}?labelSelector=app%3D{APP}&fieldSelector=spec.nodeName={name}")["items"]
    return next((pod for pod in found if "deletionTimestamp" not in pod["metadata"]), {})


def status(trial: Trial, name: str, container: str) -> dict[str, Any]:
    """Of a container of that pod."""
    found: dict[str, Any] = next(one for one in daemon(trial, name)["status"]["containerStatuses"] if one["name"] == container)
    return found


def on_the_node(trial: Trial, script: str) -> str:
    (folder,) = trial.clusters
    command = [*entering(Place(folder, REAL)), "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_real_and_a_simulated_node_serve_what_is_declared(trial: Trial) -> None:
    assert [serves(trial, name) for name in NODES] == [("4", "25.0", "EXCLUSIVE_PROCESS")] * 2
    assert [verdict(trial, name) for name in NODES] == ["holds"] * 2
    real, beside = ({workload(pod): seen_of(pod) for pod in pods(trial, name)} for name in NODES)
    assert APP in real
    assert real == beside


def test_the_init_container_has_mounted_the_node_s_memory_for_mps(trial: Trial) -> None:
    """By Bidirectional propagation: the node sees what its container has mounted, and the plugin's pods get it from there."""
    mounts = [line for line in on_the_node(trial, "cat /proc/self/mountinfo").splitlines() if f" {SHM} " in line]
    assert [line.partition(" - ")[2].split()[:2] for line in mounts] == [["tmpfs", "shm"]]


def test_other_replicas_reach_both_daemons_by_the_signal_alone(trial: Trial) -> None:
    before = {name: daemon(trial, name)["metadata"]["uid"] for name in NODES}
    trial.edit(lambda config: config["gpu-pools:sharing"].update(served={"mps": {"replicas": 10}}))
    trial.up().ok()
    assert [serves(trial, name) for name in NODES] == [("10", "10.0", "EXCLUSIVE_PROCESS")] * 2
    assert {name: daemon(trial, name)["metadata"]["uid"] for name in NODES} == before
    assert [status(trial, name, DAEMON)["restartCount"] for name in NODES] == [0, 0]


@at_night("the same kubelet, after everything on its node has ended")
def test_a_node_that_is_booted_again_serves_again(trial: Trial) -> None:
    """The link of config-manager is on the node's disk; it decides nothing, since the init containers run again."""
    before = evidence(trial, REAL)["time"]
    on_the_node(trial, REBOOT)
    trial.wait_until(lambda: advertised(trial, REAL) != "10", "the node offers nothing", seconds=60)
    trial.wait_until(lambda: advertised(trial, REAL) == "10", "the node offers what it did", seconds=120)

    def holds() -> bool:
        found = evidence(trial, REAL)
        return found["verdict"] == "holds" and found["time"] > before

    trial.wait_until(holds, "the verifier says that it holds", seconds=60)
    assert serves(trial, REAL) == ("10", "10.0", "EXCLUSIVE_PROCESS")


def test_without_the_policy_no_signal_arrives_on_either(trial: Trial) -> None:
    """config-manager of the real node looks through the node's own processes."""
    api, before = trial.api(), {name: daemon(trial, name)["metadata"]["uid"] for name in NODES}
    api.delete(BINDING)
    # API servers learn of it a moment later.
    trial.wait_until(lambda: has_wrong_name(api.create(f"{PODS}?dryRun=All", probe_pod())), "the policy is out of force", 60)
    for name in NODES:
        api.delete(f"{PODS}/{daemon(trial, name)['metadata']['name']}")

    def unheard(name: str) -> bool:
        pod = daemon(trial, name)
        causes = {one.get("cause", "") for one in evidence(trial, name)["differences"]}
        return bool(pod) and pod["metadata"]["uid"] != before[name] and "mps-unheard" in causes

    for name in NODES:
        trial.wait_until(lambda name=name: unheard(name), f"{name}: the verifier names the cause", seconds=90)
        manager = status(trial, name, CONTAINER)
        ended = manager["state"].get("terminated") or manager["lastState"]["terminated"]
        assert (ended["exitCode"], ended.get("message", "")) == (1, "")
