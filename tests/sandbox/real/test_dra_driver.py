"""NVIDIA's real DRA driver finds its GPUs on the simulated NVML, whatever model they are. No API server answers it."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from gpu_pools.hardware.models import model, model_keys
from sandbox.cluster.gpu_host import DRIVER_ROOT, PLUGINS, PLUGINS_REGISTRY, GpuHost
from sandbox.nvml import from_tables, simulated
from sandbox.system.patience import Patience
from tests.sandbox.real.conftest import built
from tests.tiers import these

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs

MODELS: Final = [key for key in model_keys() if model(key).products]
#: Without it the driver ends; no source of the project's tables has it for these.
NO_CAPABILITY: Final = {"jetson-thor-igpu", "rtx-pro-4500-blackwell", "rtx-pro-5000-blackwell"}
#: Nobody listens there.
KUBECONFIG: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "users": [{"name": "none", "user": {}}],
}


@pytest.fixture(scope="session")
def driver(library: Path, pytestconfig: pytest.Config) -> Path:  # noqa: ARG001 nothing is built where nothing can run
    return built("dra-driver", pytestconfig) / "gpu-kubelet-plugin"


def started(host: GpuHost, driver: Path, gates: str = "") -> str:
    """What the driver says until it has registered or ended; it ends here."""
    (host.folder / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    root = str(host.folder / DRIVER_ROOT)
    environment = {
        "NODE_NAME": "node",
        "IMAGE_NAME": "image",
        "KUBECONFIG": str(host.folder / "kubeconfig"),
        "DRIVER_ROOT_CTR_PATH": root,
        "NVIDIA_CDI_HOOK_PATH": f"{PLUGINS}/nvidia-cdi-hook",
        "CDI_ROOT": "/run/cdi",
        "FEATURE_GATES": gates,
    }
    log, socket = host.folder / "driver.log", host.outside(PLUGINS_REGISTRY) / "gpu.nvidia.com-reg.sock"
    process = host.start((driver, "-v", "4"), log, environment={name: value for name, value in environment.items() if value})
    end = Patience(60)
    while process.poll() is None and not socket.exists():
        assert not end.is_over(), log.read_text()
        time.sleep(0.02)
    said = log.read_text()
    host.signal(process, signal.SIGTERM)
    process.wait(60)
    return said


def error(said: str) -> str:
    """Why the driver has ended; empty where it has registered."""
    return next((line for line in said.splitlines() if line.startswith("Error: ")), "")


@pytest.mark.sweep
@pytest.mark.parametrize("key", these(MODELS, [], by_day=4))
def test_the_driver_knows_gpus_of_every_model(key: str, library: Path, tmp_path: Path, driver: Path) -> None:
    product = next(iter(model(key).products))
    with GpuHost(tmp_path, library, from_tables.machine_state(key, product, 2)) as host:
        said = started(host, driver)
    if key in NO_CAPABILITY:
        assert error(said).endswith("error getting CUDA compute capability: Not Supported")
        return
    assert error(said) == ""
    for gpu in host.machine.gpus:
        assert gpu.uuid in said, said


@pytest.mark.sweep
@pytest.mark.parametrize("key", ["a100-80gb", "h100-80gb"])
def test_the_driver_knows_partitions(key: str, library: Path, tmp_path: Path, driver: Path) -> None:
    machine = from_tables.machine_state(key, next(iter(model(key).products)), 1)
    parted = tuple(simulated.partitioned(gpu, [("1g.10gb", 0), ("3g.40gb", 4)]) for gpu in machine.gpus)
    with GpuHost(tmp_path, library, replace(machine, gpus=parted)) as host:
        said = started(host, driver)
    assert error(said) == ""
    for name in ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-3g40gb-9-4"):
        assert name in said, said


@pytest.mark.sweep
def test_the_driver_can_make_partitions_itself(library: Path, tmp_path: Path, driver: Path) -> None:
    """It asks how the GPU is virtualized then. Afterwards it asks the API server for its version, and ends."""
    with GpuHost(tmp_path, library, from_tables.machine_state("h100-80gb", "NVIDIA H100 80GB HBM3", 1)) as host:
        said = started(host, driver, gates="DynamicMIG=true")
    assert "API server version detection failed" in error(said)
    assert "Destroy unknown MIG devices: done" in said
