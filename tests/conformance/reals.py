"""The real ones that suites may be run against beside the stand-ins: where they are, and their versions.

Tests hold the stand-in of the GPU operator to what they say, whatever the machine has: so whoever starts tests has no real one,
and what the environment named is kept aside, for the suites that ask for it here. The plugins' stand-ins play as well, unless
GPU_POOLS_PLUGINS says otherwise: then every engine test uses the real ones that are here, as `make up` does.
"""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from sandbox.system.progress import Progress
from sandbox.toolchain import gpu_operator, plugin_releases
from sandbox.toolchain.download import SWITCH
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.programs import pinned_version, program
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

STAND_IN, REAL = "stand-in", "real"
#: The mig-manager that is a Go module, and where a later one is, with the nvidia-mig-parted that it calls.
MIG_MANAGER_MODULE: Final = "v0.10.0"
MIG_MANAGER_VARIABLE: Final = "GPU_POOLS_MIG_MANAGER"
_KEPT: Final = "GPU_POOLS_CONFORMANCE_OPERATOR"
#: Implementations as parameters; real ones cost more.
BOTH: Final = (STAND_IN, pytest.param(REAL, marks=pytest.mark.sweep))


#: Suites whose real ones are programs that are made here: what they are called, and the Program they come from.
_MADE: Final = {
    "kubelet": [
        ("kubelet", "kubelet"), ("containerd", "containerd"), ("runc", "runc"), ("toolkit", "nvidia-container-toolkit"),
    ],
    "dra-manager": [("kubelet", "kubelet")],
    "node-programs": [("device plugin", "device-plugin-v0.19"), ("mig-parted", "mig-parted")],
    "kubelogin": [("kubelogin", "kubelogin")],
    "mig-manager": [("mig-manager", "mig-manager")],
    "nfd-gc": [("nfd-gc", "nfd-gc")],
    "kube-state-metrics": [("kube-state-metrics", "kube-state-metrics")],
}  # fmt: skip


def keep_aside() -> None:
    """Let nothing that tests start find a real operator or plugin by itself."""
    os.environ.setdefault(plugin_releases.VARIABLE, plugin_releases.NO)
    asked = os.environ.get(gpu_operator.VARIABLE, "")
    if asked != gpu_operator.NO:
        os.environ[_KEPT] = asked
        os.environ[gpu_operator.VARIABLE] = gpu_operator.NO


def operator(monkeypatch: pytest.MonkeyPatch) -> gpu_operator.GpuOperator | None:
    """The real GPU operator of this machine, from here on that of all that is started; nothing is downloaded for a test."""
    monkeypatch.setenv(gpu_operator.VARIABLE, os.environ.get(_KEPT, gpu_operator.NO))
    downloads = os.environ.get(SWITCH)
    monkeypatch.setenv(SWITCH, "no")
    found = gpu_operator.find(Progress())
    if downloads is None:
        monkeypatch.delenv(SWITCH)
    else:
        monkeypatch.setenv(SWITCH, downloads)
    return found


def operator_or_skip(which: str) -> Iterator[str]:
    """For a fixture: the version of the implementation that is asked for; skipped where it is not there."""
    if which == STAND_IN:
        yield STAND_IN
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = operator(monkeypatch)
        if found is None:
            pytest.skip(f"no real GPU operator on this machine: {gpu_operator.VARIABLE}=<folder laid out as its image>")
        yield found.version


def versions() -> dict[str, str]:
    """Suite (suites.yaml) -> the versions of the real ones that are here; of those that are not nothing."""
    found = {name: ", ".join(f"{one} {pinned_version(program(made))}" for one, made in parts) for name, parts in _MADE.items()}
    found["nvml"] = found["mps-daemon"] = "readings of an H100 and an H200, driver 580.159.04"
    if charts := os.environ.get("GPU_POOLS_REAL_CHARTS"):
        named = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(Path(charts).glob("*/Chart.yaml"))]
        found["charts"] = ", ".join(f"{one['name']} {one['version']}" for one in named)
    if later := os.environ.get(MIG_MANAGER_VARIABLE):
        said = subprocess.run([f"{later}/nvidia-mig-manager", "--version"], capture_output=True, text=True, check=True).stdout
        found["mig-manager"] += f", {' '.join(said.split()[-1:])}"
    if sdk := os.environ.get("GPU_POOLS_AZURE_SDK"):
        (described,) = Path(sdk).glob("azure_mgmt_containerservice-*.dist-info")
        version = described.name.removesuffix(".dist-info").rpartition("-")[2]
        found["azure-native"] = f"azure-mgmt-containerservice {version}, SDK {metadata.version('pulumi-azure-native')}"
    with pytest.MonkeyPatch.context() as monkeypatch:
        real = operator(monkeypatch)
        if real is not None:
            found["gpu-operator"] = real.version
    tools = find_tools(Progress(), only=())
    for name, plugin in (("kubernetes-plugin", tools.kubernetes_plugin), ("openstack-plugin", tools.openstack_plugin)):
        if plugin is not None:
            found[name] = f"v{_plugin_version(plugin)}"
    return found


def _plugin_version(plugin: Path) -> str:
    """What a provider plugin says of itself; it has no option for it, but answers whoever speaks Pulumi's protocol."""
    # Here: all tests import this module.
    import grpc  # noqa: PLC0415
    from google.protobuf import empty_pb2  # noqa: PLC0415
    from pulumi.runtime.proto import provider_pb2_grpc  # noqa: PLC0415

    with subprocess.Popen([plugin, "127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
                answer = provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty(), timeout=scaled(30))
            return str(answer.version)
        finally:
            process.kill()
