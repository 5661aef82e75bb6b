"""What a simulated GPU node runs: NVIDIA's own programs on the simulated GPU, or rules, where they cannot run.

They need mount namespaces (sandbox.cluster.gpu_host) and a C compiler. Who boots a cluster finds or builds them and writes down
in its record where they are, or why not; its machines and `status` read that. Rules can be asked for, too:
GPU_POOLS_NODE_PROGRAMS=rules.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster import gpu_host
from sandbox.nvml.library import find_library
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json
from sandbox.toolchain import config_manager, gpu_operator
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import DRA_DRIVER, DRA_DRIVER_CHART, program
from sandbox.toolchain.tools import GPU_TOOLS, NODE_PROGRAMS, PLATFORM_TOOLS, RULES, Tools

if TYPE_CHECKING:
    from sandbox.system.progress import Progress

RECORD: Final = "nodePrograms"
#: What the record says of a real GPU operator; null where the stand-in plays.
OPERATOR: Final = "gpuOperator"
_UNKNOWN: Final = "whoever started the cluster has not looked for them"


@dataclass(frozen=True)
class NodeTools:
    """Where a node's programs are.

    Attributes:
        library: the simulated libnvidia-ml.so.1.
        gfd: gpu-feature-discovery.
        plugin: nvidia-device-plugin.
        mig_parted: nvidia-mig-parted.
        config_manager: config-manager.
        mps_daemon: mps-control-daemon.
        newest_config_manager: that of k8s-device-plugin v0.20.0 or newer; None where nobody has named one.
    """

    library: Path
    gfd: Path
    plugin: Path
    mig_parted: Path
    config_manager: Path
    mps_daemon: Path
    newest_config_manager: Path | None = None


def obstacle() -> str | None:
    """Why nodes here cannot run NVIDIA's programs, or are not to; None where they do."""
    if os.environ.get(NODE_PROGRAMS) == RULES:
        return f"{NODE_PROGRAMS}={RULES} asks for it"
    refused = gpu_host.obstacle()
    if refused is not None:
        return f"no mount namespaces here: {refused}"
    return None if shutil.which("gcc") else "they need gcc to be built, and it is not on PATH"


def find_platform_tools(progress: Progress) -> Tools:
    """Find or build everything that bringing a stack up needs.

    Args:
        progress: told about each download and build.

    Raises:
        SandboxError: when a program is neither there nor can be built.
    """
    tools = replace(find_tools(progress, only=PLATFORM_TOOLS), gpu_operator=gpu_operator.find(progress))
    if obstacle() is not None:
        return tools
    try:
        found, library = find_tools(progress, only=GPU_TOOLS), find_library(progress)
    except SandboxError as error:
        raise SandboxError(error.message, f"{error.remedy} Or let rules stand in for them: {NODE_PROGRAMS}={RULES}.") from error
    return replace(
        tools,
        nvml=library,
        newest_config_manager=config_manager.find(),
        origin={**tools.origin, **found.origin},
        **{tool: getattr(found, tool) for tool in GPU_TOOLS},
    )


def find_dra_driver(progress: Progress) -> None:
    """Build NVIDIA's DRA driver, and its chart, before a node needs it: a node would build it while Helm waits for its pod.

    Raises:
        SandboxError: when it cannot be built.
    """
    if obstacle() is None:
        obtain([program(DRA_DRIVER), program(DRA_DRIVER_CHART)], progress)


def as_json(tools: Tools) -> dict[str, str]:
    """What a cluster's record says of them."""
    if tools.nvml is None:
        return {"rulesBecause": obstacle() or _UNKNOWN}
    return {
        "library": str(tools.nvml),
        "gfd": str(tools.gpu_feature_discovery),
        "plugin": str(tools.nvidia_device_plugin),
        "migParted": str(tools.nvidia_mig_parted),
        "configManager": str(tools.config_manager),
        "mpsDaemon": str(tools.mps_control_daemon),
        **({"newestConfigManager": str(tools.newest_config_manager)} if tools.newest_config_manager else {}),
    }


def operator_as_json(tools: Tools) -> dict[str, str] | None:
    """What a cluster's record says of a real GPU operator."""
    found = tools.gpu_operator
    if found is None:
        return None
    return {"program": str(found.program), "assets": str(found.assets), "version": found.version}


def recorded_operator(cluster_folder: Path) -> dict[str, str] | None:
    """What the record says of a real GPU operator; None where the stand-in plays."""
    found: dict[str, str] | None = read_json(cluster_folder / "cluster.json").get(OPERATOR)
    return found


def recorded(cluster_folder: Path) -> NodeTools | str:
    """What the nodes of a cluster run, or why rules stand in."""
    raw: dict[str, Any] = read_json(cluster_folder / "cluster.json").get(RECORD) or {}
    keys = ("library", "gfd", "plugin", "migParted", "configManager", "mpsDaemon")
    # A record of an earlier version of the sandbox lacks the last ones.
    if not raw.keys() >= set(keys):
        return str(raw.get("rulesBecause", _UNKNOWN))
    newest = raw.get("newestConfigManager")
    found = NodeTools(*(Path(raw[key]) for key in keys))
    return replace(found, newest_config_manager=Path(newest)) if newest else found
