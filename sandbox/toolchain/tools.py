"""How the programs are called here, and which versions of a program that the machine has fit the others.

A controller-manager, for example, must be of the API server's minor version. Not here: looking for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sandbox.toolchain.gpu_operator import GpuOperator
    from sandbox.toolchain.version import Version


@dataclass(frozen=True)
class Tools:
    """Where the programs are. A tool that was not asked for keeps its bare name and has no origin.

    Attributes:
        kubernetes_plugin: the real Kubernetes provider when this machine has it.
        openstack_plugin: the real OpenStack provider when this machine has it.
        gpu_operator: the real GPU operator, where one was looked for and is there.
        newest_config_manager: config-manager of k8s-device-plugin v0.20.0 or newer, where somebody has named one.
        nvml: the simulated libnvidia-ml.so.1; None where the nodes are not to run the programs of GPU nodes.
        origin: tool -> "PATH", "KUBEBUILDER_ASSETS", "downloaded", "built" or "cache".
    """

    pulumi: Path = Path("pulumi")
    etcd: Path = Path("etcd")
    kube_apiserver: Path = Path("kube-apiserver")
    kube_controller_manager: Path = Path("kube-controller-manager")
    kube_scheduler: Path = Path("kube-scheduler")
    helm: Path = Path("helm")
    nfd_master: Path = Path("nfd-master")
    nfd_worker: Path = Path("nfd-worker")
    gpu_feature_discovery: Path = Path("gpu-feature-discovery")
    nvidia_device_plugin: Path = Path("nvidia-device-plugin")
    mps_control_daemon: Path = Path("mps-control-daemon")
    nvidia_mig_parted: Path = Path("nvidia-mig-parted")
    config_manager: Path = Path("config-manager")
    kubernetes_plugin: Path | None = None
    openstack_plugin: Path | None = None
    gpu_operator: GpuOperator | None = None
    newest_config_manager: Path | None = None
    nvml: Path | None = None
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Search:
    """How to recognise a program that this machine has.

    Attributes:
        tool: the name in Tools.
        program: the file name.
        made_by: the name of the Program that it comes with where the machine has none.
        version_arguments: makes the program print its version.
        accepts: says whether a version (second) fits the pinned one (first).
        wanted: the accepted versions in words.
        assets: whether KUBEBUILDER_ASSETS may hold it.
        made_only: whether one that this machine has is never taken: it would look for its files elsewhere.
    """

    tool: str
    program: str
    made_by: str
    version_arguments: tuple[str, ...]
    accepts: Callable[[Version, Version], bool]
    wanted: str
    assets: bool = False
    made_only: bool = False


def _same_minor(pinned: Version, found: Version) -> bool:
    return found[:2] == pinned[:2]


def _same_major_from(minor: int) -> Callable[[Version, Version], bool]:
    return lambda pinned, found: found[0] == pinned[0] and found[1] >= minor


_VERSION_FLAG: Final = ("--version",)
_SAME_MINOR: Final = "the minor version of Kubernetes in programs/kubernetes/go.mod"
_SAME_PLUGIN: Final = "the minor version of the device plugin in programs/kubernetes/go.mod"
SEARCHES: Final[tuple[Search, ...]] = (
    Search("pulumi", "pulumi", "pulumi", ("version",), _same_major_from(200), "3.200 or newer, below 4"),
    Search("etcd", "etcd", "etcd", _VERSION_FLAG, _same_major_from(5), "3.5 or newer, below 4", assets=True),
    Search("kube_apiserver", "kube-apiserver", "kubernetes", _VERSION_FLAG, _same_minor, _SAME_MINOR, assets=True),
    Search(
        "kube_controller_manager",
        "kube-controller-manager",
        "kubernetes",
        _VERSION_FLAG,
        _same_minor,
        _SAME_MINOR,
    ),
    Search("kube_scheduler", "kube-scheduler", "kubernetes", _VERSION_FLAG, _same_minor, _SAME_MINOR),
    Search("helm", "helm", "helm", ("version", "--short"), _same_major_from(8), "3.8 or newer, below 4"),
    Search("nfd_master", "nfd-master", "nfd", ("-version",), _same_major_from(17), "0.17 or newer"),
    Search("nfd_worker", "nfd-worker", "nfd", ("-version",), _same_major_from(17), "0.17 or newer", made_only=True),
    Search("gpu_feature_discovery", "gpu-feature-discovery", "device-plugin-v0.19", _VERSION_FLAG, _same_minor, _SAME_PLUGIN),
    Search("nvidia_device_plugin", "nvidia-device-plugin", "device-plugin-v0.19", _VERSION_FLAG, _same_minor, _SAME_PLUGIN),
    Search("mps_control_daemon", "mps-control-daemon", "device-plugin-v0.19", _VERSION_FLAG, _same_minor, _SAME_PLUGIN),
    Search("nvidia_mig_parted", "nvidia-mig-parted", "mig-parted", _VERSION_FLAG, _same_major_from(10), "0.10 or newer"),
    Search("config_manager", "config-manager", "config-manager", _VERSION_FLAG, _same_minor, _SAME_PLUGIN),
)
TOOLS: Final[tuple[str, ...]] = tuple(search.tool for search in SEARCHES)
GPU_TOOLS: Final[frozenset[str]] = frozenset(
    {"gpu_feature_discovery", "nvidia_device_plugin", "mps_control_daemon", "nvidia_mig_parted", "config_manager"}
)
"""What runs on a GPU node; sandbox.cluster.node_tools says where they can."""
NODE_PROGRAMS: Final = "GPU_POOLS_NODE_PROGRAMS"
RULES: Final = "rules"
"""The environment variable, and its value, that ask for none of these."""
PLATFORM_TOOLS: Final[frozenset[str]] = frozenset(TOOLS) - GPU_TOOLS
"""What bringing a stack up needs in any case."""


def table(tools: Tools, only: Collection[str] = TOOLS) -> str:
    """A table of the tools: name, origin, path."""
    rows = [("TOOL", "ORIGIN", "PATH")]
    rows += [(tool, tools.origin[tool], str(getattr(tools, tool))) for tool in only if tool in tools.origin]
    for name, plugin in (("kubernetes", tools.kubernetes_plugin), ("openstack", tools.openstack_plugin)):
        rows.append((f"{name} plugin", "installed" if plugin else "stand-in", str(plugin or "-")))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}" for row in rows)
