"""Which nodes of a stack are real ones, and that they run (`make up NODES=real`): one pool's first, on a cluster that exists.

A pool with MIG stays simulated, since what it needs on a node has no program here (sandbox/real_node/operand_images.py), and so
does one whose machines bring a driver, and one with MPS whose operator brings a device plugin before v0.20.0, which is not what
runs on a real node. Its GPUs are simulated, or (OWN) those of the machine that this runs on; these get no pool with MPS, whose
daemon would set their compute mode. What was chosen stays so until the stack goes down. Not here: the nodes of AKS and Magnum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_pools.plan.mps_support import mps_update
from sandbox.cluster import machine_groups
from sandbox.cluster.machine_groups import RealNodes
from sandbox.real_node import allowed, gpus, node, own_gpus
from sandbox.real_node.place import Place
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan
    from sandbox.cluster.machine_groups import MachineGroup
    from sandbox.stack.state import Sandbox
    from sandbox.system.progress import Progress
    from sandbox.toolchain.tools import Tools

REAL, SIMULATED = "real", "simulated"
#: One real node, with the GPUs of this machine.
OWN: Final = "own"


def choose(sandbox: Sandbox, plan: Plan, asked: str | None) -> dict[str, RealNodes]:
    """Which nodes of each pool are real.

    Args:
        sandbox: whose they are.
        plan: of the stack.
        asked: REAL, OWN or SIMULATED; None: as they are.

    Raises:
        SandboxError: it cannot have any, or its nodes are of the other kind already.
    """
    known = machine_groups.groups(sandbox.existing_cluster)
    there = {name: RealNodes(group.real, group.own_gpus) for name, group in known.items() if group.real}
    pools = {pool_plan.name for pool_plan in plan.pools}
    kind = SIMULATED if not there else OWN if any(one.own_gpus for one in there.values()) else REAL
    if asked is None or (known.keys() & pools and asked == kind):
        return there
    if known.keys() & pools:
        message = f"NODES={asked}: the nodes of this stack are {kind} ones already."
        raise SandboxError(message, "Take it down first: make down.")
    return {} if asked == SIMULATED else {_chosen(plan, asked).name: RealNodes(1, asked == OWN)}


def tools_beside(tools: Tools, chosen: Mapping[str, RealNodes], progress: Progress) -> Tools:
    """The programs beside the nodes that were chosen: with a real node the GPU operator's stand-in plays.

    The real one asks the driver's pod for the kernel's module `nvidia` (assets/state-driver, startup-probe.sh), which a driver
    container's stand-in does not have.
    """
    if tools.gpu_operator is None or not any(one.count for one in chosen.values()):
        return tools
    progress.note("beside a real node a stand-in plays the GPU operator: the real one waits for the kernel's module nvidia there")
    return replace(tools, gpu_operator=None)


def start(sandbox: Sandbox, progress: Progress) -> None:
    """Have the real nodes run.

    Raises:
        SandboxError: the machine does not allow it, or one does not become ready.
    """
    folder = sandbox.existing_cluster
    for group in machine_groups.groups(folder).values():
        for name in group.node_names[: group.real]:
            node.up(Place(folder, name), progress, _role(name, group))


def _chosen(plan: Plan, asked: str) -> PoolPlan:
    """The pool that gets a real node.

    Raises:
        SandboxError: there is none that can.
    """
    allowed.require()
    with_mps = asked == REAL and mps_update(plan.settings) == "signal"
    fits = [one for one in plan.pools if _fits(one, with_mps=with_mps)]
    if plan.platform != "existing" or not fits:
        kinds = "MIG" if with_mps else "MIG and MPS"
        message = (
            f"NODES={asked}: this stack can have no real node: that takes a cluster that exists (platform: existing), and a pool "
            f"without {kinds} whose driver is the operator's."
        )
        raise SandboxError(message, "Leave NODES out, or take another stack, as in make up STACK=byo NODES=real.")
    return fits[0]


def _fits(pool: PoolPlan, *, with_mps: bool) -> bool:
    sharing = pool.sharing
    return not sharing.partitioned and (with_mps or not sharing.needs_mps_daemon) and pool.driver != "preinstalled"


def _role(name: str, group: MachineGroup) -> node.Role:
    hardware = group.hardware
    taints = tuple(f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in group.taints)
    if group.own_gpus:
        return node.Role(group.labels, taints, own_gpus.find())
    if hardware.gpu_model is None or hardware.gpu_product is None:
        return node.Role(group.labels, taints)
    return node.Role(group.labels, taints, gpus.simulated(name, hardware.gpu_model, hardware.gpu_product, hardware.gpus))
