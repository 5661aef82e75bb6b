"""NVIDIA's DRA driver on a real node: its chart, its image as it is run, and a container that gets the claim's device by CDI.

The driver's program, the script of its init container, kubelet, containerd and runc are the real ones. The NVIDIA driver's
container is the sandbox's stand-in, on simulated GPUs.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.nvml import from_tables
from sandbox.real_node import allowed, gpus, node
from sandbox.real_node.place import Place
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built, find_tools
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import DRA_CHART, DRA_DRIVER, DRA_DRIVER_CHART, REAL_NODE, program
from sandbox.toolchain.tools import PLATFORM_TOOLS
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

NODE, WHERE = "real-0", "dra-driver-nvidia-gpu"
PODS: Final = "/api/v1/namespaces/default/pods"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
MODEL, PRODUCT = "h100-80gb", "NVIDIA H100 80GB HBM3"
GPUS: Final = 2


def until(holds: Callable[[], object], what: str) -> None:
    processes.wait_until(lambda: bool(holds()), timeout=scaled(120), what=what)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if refused := allowed.obstacle():
        pytest.skip(f"NVIDIA's DRA driver was NOT run on a real node: {refused}")
    progress = Progress()
    try:
        obtain([*REAL_NODE, program(DRA_DRIVER), program(DRA_DRIVER_CHART)], progress)
    except SandboxError as error:
        pytest.skip(f"NVIDIA's DRA driver was NOT run on a real node: {error.message}")
    folder = tmp_path_factory.mktemp("d") / "c"
    tools = find_tools(progress, only=PLATFORM_TOOLS)
    try:
        control_plane.boot(folder, "dra", tools, machines=False)
        role = node.Role({"nvidia.com/gpu.present": "true"}, gpus=gpus.simulated(NODE, MODEL, PRODUCT, GPUS))
        node.up(Place(folder, NODE), progress, role)
        install(folder, tools.helm)
        yield folder
    finally:
        node.down_all(folder)
        control_plane.erase(folder)


def install(folder: Path, helm: Path) -> None:
    """The driver's container, as the operator has it, and the chart."""
    volume = {"name": "run", "hostPath": {"path": "/run/nvidia", "type": "DirectoryOrCreate"}}
    container = {
        "name": "driver",
        "image": "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04",
        "command": ["nvidia-driver", "init"],
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "run", "mountPath": "/run/nvidia"}],
    }
    Api.at(folder / "kubeconfig").create(
        PODS, {"metadata": {"name": "driver"}, "spec": {"containers": [container], "volumes": [volume]}}
    )
    values = "gpuResourcesEnabledOverride=true,resources.computeDomains.enabled=false,nvidiaDriverRoot=/run/nvidia/driver"
    chart = find_built(DRA_DRIVER_CHART, Progress()) / DRA_CHART
    command = [helm, "install", "dra", chart, "--namespace", WHERE, "--create-namespace", "--set", values]
    done = subprocess.run(
        [*map(str, command), "--kubeconfig", str(folder / "kubeconfig")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def said(place: Place, name: str) -> list[str]:
    """What a pod has printed."""
    command = [*node.entering(place), "sh", "-c", f"cat /var/log/pods/default_{name}_*/main/*.log"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split(" ", 3)[3] for line in lines]


def phase(api: Api, name: str) -> str:
    return str((api.get(f"{PODS}/{name}") or {"status": {}})["status"].get("phase"))


def test_a_container_gets_the_gpu_of_its_claim_and_no_other(cluster: Path) -> None:
    api, place = Api.at(cluster / "kubeconfig"), Place(cluster, NODE)
    sets = f"/apis/apps/v1/namespaces/{WHERE}/daemonsets/dra-driver-nvidia-gpu-kubelet-plugin"
    until(lambda: (api.get(sets) or {"status": {}})["status"].get("numberReady"), "the driver is ready")
    until(lambda: api.list(SLICES)["items"], "its slices")
    [published] = api.list(SLICES)["items"]
    assert sorted(device["name"] for device in published["spec"]["devices"]) == ["gpu-0", "gpu-1"]
    names = [f"uses{number}" for number in range(GPUS)]
    for name in names:
        container: dict[str, Any] = {
            "name": "main",
            "image": "busybox:1.37",
            "command": ["sh", "-c", "nvidia-smi -L && ls /dev | grep -x 'nvidia[0-9]*'"],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        api.create(PODS, {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}})
    until(lambda: all(phase(api, name) in {"Succeeded", "Failed"} for name in names), "the pods end")
    # NVML counts the GPUs that a container has from 0.
    seen = [said(place, name) for name in names]
    machine = from_tables.machine_state(MODEL, PRODUCT, GPUS, node=NODE)
    expected = [[f"GPU 0: {PRODUCT} (UUID: {gpu.uuid})", f"nvidia{gpu.minor}"] for gpu in machine.gpus]
    assert sorted(seen) == sorted(expected)
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    for name in names:
        api.delete(f"{PODS}/{name}")
    until(lambda: not api.list(claims)["items"], "the claims are gone")
