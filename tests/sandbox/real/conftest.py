"""NVIDIA's own programs on simulated GPUs. Where the machine allows no mount namespaces, all of it is skipped, and says why."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.cluster.gpu_host import GpuHost, obstacle
from sandbox.nvml import from_tables
from sandbox.nvml.library import find_library
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture(scope="session")
def library() -> Path:
    refused = obstacle()
    if refused is not None:
        pytest.skip(f"NVIDIA's programs were NOT compared with the plan: no simulated GPU node can be made here: {refused}")
    return find_library(Progress())


@pytest.fixture(scope="session")
def shared_host(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuHost]:
    """One node for all tests that set its GPUs themselves."""
    folder = tmp_path_factory.mktemp("gpu-host")
    with GpuHost(folder, library, from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 1)) as made:
        yield made


@pytest.fixture
def host(library: Path, tmp_path: Path) -> Iterator[GpuHost]:
    """A node of its own: two A100 80GB."""
    with GpuHost(tmp_path / "node", library, from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 2)) as made:
        yield made


@pytest.fixture(scope="session")
def plugins(library: Path, pytestconfig: pytest.Config) -> Mapping[str, Path]:  # noqa: ARG001 nothing is built where nothing can run
    """Version -> folder with gpu-feature-discovery and nvidia-device-plugin, which are built when a test asks for them."""
    return Plugins(pytestconfig)


class Plugins(dict[str, Path]):
    """Built as they are asked for."""

    def __init__(self, config: pytest.Config) -> None:
        """None is built yet."""
        super().__init__()
        self._config = config

    def __missing__(self, version: str) -> Path:
        """Build it, or find it built."""
        return self.setdefault(version, built(f"device-plugin-v{version}", self._config))


@pytest.fixture(scope="session")
def mig_parted(library: Path, pytestconfig: pytest.Config) -> Path:  # noqa: ARG001
    return built("mig-parted", pytestconfig) / "nvidia-mig-parted"


@pytest.fixture(scope="session")
def config_manager(library: Path, pytestconfig: pytest.Config) -> Path:  # noqa: ARG001
    return built("config-manager", pytestconfig) / "config-manager"


def built(program: str, config: pytest.Config) -> Path:
    """The folder with a program. A first build takes minutes, so that its progress is shown and not kept for the report."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        return find_built(program, Progress())
