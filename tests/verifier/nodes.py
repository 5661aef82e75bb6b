"""Healthy nodes of a planned pool: what NVML, the MPS daemon and Kubernetes say there, made without the expectation document.

NVML's side follows from the simulated GPU's state (a test holds `reading_of` against the real reading of that state), the
node's side from the sandbox's device plugin and gpu-feature-discovery, given the plan's config files.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import place
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.sharing.mig import Mig
from gpu_pools.text.yaml_text import load_yaml
from gpu_pools.verifier.expectation import parse_expectation
from gpu_pools.verifier.mps import MpsReading
from gpu_pools.verifier.names import compute_mode
from gpu_pools.verifier.node import ConfigReading, NodeReading, Pod
from gpu_pools.verifier.reading import ComputeInstance, Gpu, GpuInstance, Mode, Process, Profile, Reading, RemappedRows, failed
from sandbox.cluster.machine_groups import Hardware
from sandbox.machines import device_plugin, gfd, gpu
from sandbox.nvml import from_tables, simulated
from tests.unit.stacks import existing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.verifier.expectation import Expectation

DRIVER, CUDA = "580.95.05", "13.0"
OPERATOR: dict[str, Any] = {"values": {"driver": {"version": DRIVER}}}
STARTED = "2026-01-02T03:04:05Z"
STARTED_SECONDS = 1767323045
KNOWN = [key for key in model_keys() if model(key).profiles is not None and model(key).products]


@dataclass(frozen=True)
class Declaration:
    """A pool's: its sharing, GPU model, GPUs per node, and how many nodes it has."""

    sharing: dict[str, Any]
    key: str
    count: int
    nodes: int


@dataclass(frozen=True)
class Node:
    """A node and what was declared for it."""

    expected: Expectation
    machine: simulated.Machine
    nvml: Reading
    mps: MpsReading | None
    kubernetes: NodeReading


def plan_and_pool(sharing: dict[str, Any], *, key: str = "a100-80gb", count: int = 1, **pool: Any) -> tuple[Plan, PoolPlan]:
    """A stack with one pool of an existing cluster."""
    text = existing({"gpuModel": key, "gpusPerNode": count, **pool}, sharing={"declared": sharing}, operator=OPERATOR)
    plan = plan_config(load_yaml(text)["config"])
    return plan, plan.pools[0]


def planned_fleet(declared: Sequence[Declaration]) -> Plan:
    """A stack with a pool for each declaration."""
    pools = [
        {
            "name": f"pool-{number}",
            "gpuModel": one.key,
            "gpusPerNode": one.count,
            "sharing": f"sharing-{number}",
            "nodeSelector": {"pool": str(number)},
        }
        for number, one in enumerate(declared)
    ]
    sharing = {f"sharing-{number}": one.sharing for number, one in enumerate(declared)}
    # Not by way of a text: reading YAML would take most of the time of a thousand fleets.
    cluster = {"platform": "existing"}
    return plan_config(
        {"gpu-pools:cluster": cluster, "gpu-pools:operator": OPERATOR, "gpu-pools:sharing": sharing, "gpu-pools:pools": pools}
    )


def healthy(plan: Plan, pool: PoolPlan, node: str = "gpu-1") -> Node:
    """A node that is as the pool declares."""
    machine = machine_of(pool, node)
    percentage = pool.nvml.mps and f"{pool.nvml.mps.active_thread_percentage}.0"
    limit = pool.nvml.mps and pool.nvml.mps.pinned_memory_mib
    mps = (
        MpsReading(
            None,
            asked=True,
            percentage=percentage,
            memory_limits=(f"{limit // 1024}G" if limit else "",) * len(machine.gpus),
            faulty_servers=(),
        )
        if percentage
        else None
    )
    return Node(
        expected=parse_expectation(node_expectation(plan, pool)),
        machine=machine,
        nvml=reading_of(machine),
        mps=mps,
        kubernetes=kubernetes_of(plan, pool, node),
    )


def alike(first: Node, pool: PoolPlan, name: str) -> Node:
    """Another node of the same pool; what the operands said is the same there, and not worked out again."""
    machine = machine_of(pool, name)
    labels = {**first.kubernetes.labels, "kubernetes.io/hostname": name}
    kubernetes = replace(first.kubernetes, name=name, labels=labels)
    return replace(first, machine=machine, nvml=reading_of(machine), kubernetes=kubernetes)


def healthy_fleet(declared: Sequence[Declaration]) -> list[Node]:
    """The nodes of a stack with a pool for each declaration."""
    plan = planned_fleet(declared)
    fleet = []
    for pool, one in zip(plan.pools, declared, strict=True):
        first = healthy(plan, pool, f"{pool.name}-0")
        fleet += [first, *(alike(first, pool, f"{pool.name}-{number}") for number in range(1, one.nodes))]
    return fleet


def machine_of(pool: PoolPlan, node: str = "gpu-1") -> simulated.Machine:
    """The pool's hardware, partitioned and in the mode that the declaration asks for."""
    known = pool.hardware.model
    product = pool.hardware.product or known.products[0]
    machine = from_tables.machine_state(known.key, product, pool.hardware.gpus, driver_version=DRIVER, cuda=CUDA, node=node)
    gpus = []
    for one in machine.gpus:
        layout = pool.sharing.layout_of(one.slot) if isinstance(pool.sharing, Mig) else {}
        mode = 3 if pool.sharing.strategy == "mps" else 0
        gpus.append(partitioned(replace(one, compute_mode=mode), known.key, layout))
    return replace(machine, gpus=tuple(gpus))


def partitioned(one: simulated.Gpu, key: str, layout: Any) -> simulated.Gpu:
    """The GPU with MIG on and these instances; as it is where there are none."""
    if not layout:
        return one
    assert one.mig
    by_name = {profile.name: profile for profile in one.mig.profiles}
    instances = tuple(
        simulated.GpuInstance(
            number, by_name[at.profile].id, at.start, (simulated.ComputeInstance(0, by_name[at.profile].slices, 0),)
        )
        for number, at in enumerate(place(model(key), layout) or (), start=1)
    )
    return replace(one, mig=replace(one.mig, current=True, pending=True, instances=instances))


def reading_of(machine: simulated.Machine) -> Reading:
    """What NVML says of a machine without faults."""
    return Reading(
        failure=None,
        driver=machine.driver_version,
        nvml=machine.nvml_version,
        cuda=f"{machine.cuda_version // 1000}.{machine.cuda_version % 1000 // 10}",
        gpus=tuple(_gpu(index, one) for index, one in enumerate(machine.gpus)),
    )


def _gpu(index: int, one: simulated.Gpu) -> Gpu:
    domain, bus, device = one.pci
    mig = one.mig
    current = bool(mig and mig.current)
    return Gpu(
        index=index,
        uuid=one.uuid,
        name=one.name,
        pci_bus=f"{domain:08X}:{bus:02X}:{device:02X}.0",
        memory_mib=one.memory_mib or failed(3, "nvmlDeviceGetMemoryInfo"),
        mig=Mode(int(mig.current), int(mig.pending)) if mig else failed(3, "nvmlDeviceGetMigMode"),
        profiles=_profiles(mig) if mig and (current or mig.listed_when_off) else (),
        instances=_instances(mig) if mig and current else (),
        compute_mode=compute_mode(0 if current else one.compute_mode),
        ecc=Mode(*one.ecc) if one.ecc else failed(3, "nvmlDeviceGetEccMode"),
        uncorrected_errors=one.ecc_errors[1],
        remapped_rows=RemappedRows(*one.remapped_rows) if one.remapped_rows else failed(3, "nvmlDeviceGetRemappedRows"),
        retired_pages_pending=failed(3, "nvmlDeviceGetRetiredPagesPendingStatus"),
        recovery_action=failed(3, "nvmlDeviceGetFieldValues"),
        processes=tuple(sorted((Process(run.pid, run.kind, run.name) for run in one.processes), key=lambda run: run.pid)),
    )


def _profiles(mig: simulated.Mig) -> tuple[Profile, ...]:
    return tuple(
        Profile(
            number=one.number,
            id=one.id,
            name=one.name,
            slices=one.slices,
            max_instances=one.max_instances,
            memory_mib=one.memory_mib or 0,
            placements=tuple((start, one.size) for start in one.starts),
        )
        for one in sorted(mig.profiles, key=lambda profile: profile.number)
    )


def _instances(mig: simulated.Mig) -> tuple[GpuInstance, ...]:
    sizes = {one.id: one.size for one in mig.profiles}
    return tuple(
        GpuInstance(
            one.id,
            one.profile_id,
            one.start,
            sizes[one.profile_id],
            tuple(ComputeInstance(made.id, made.slices, made.start) for made in one.computes),
        )
        for one in sorted(mig.instances, key=lambda instance: instance.id)
    )


# --- Kubernetes -------------------------------------------------------------------------------------------


def kubernetes_of(plan: Plan, pool: PoolPlan, node: str) -> NodeReading:
    """The node object, once every operand has done its work."""
    text = plan.device_plugin_configs[pool.config_key]
    strategy = plan.cluster_mig_strategy or None
    gpus = simulated_gpus(pool, node)
    offered = device_plugin.advertise(text, strategy, gpus, mps_daemon=True)
    assert isinstance(offered, device_plugin.Advertised), offered
    seen = gfd.discover(text, strategy, gpus, gfd.Driver(DRIVER, CUDA), "Simulated")
    assert isinstance(seen, gfd.Labels), seen
    labels = {
        **pool.labels,
        **seen.labels,
        "nvidia.com/gfd.timestamp": str(STARTED_SECONDS + 1),
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "kubernetes.io/hostname": node,
        **({"nvidia.com/mig.config.state": "success"} if pool.mig_config_key else {}),
    }
    operands = ["nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter"]
    operands += ["nvidia-mig-manager"] if pool.mig_config_key else []
    operands += ["nvidia-driver-daemonset"] if pool.driver == "operator" else []
    operands += ["nvidia-device-plugin-mps-control-daemon"] if pool.nvml.mps else []
    return NodeReading(
        name=node,
        failure=None,
        ready=True,
        labels=labels,
        taints=tuple(str(taint) for taint in pool.taints),
        allocatable=offered.resources,
        capacity=offered.resources,
        pods=tuple(pod(operand) for operand in sorted(operands)),
        foreign_pods=(),
        config=ConfigReading(
            tuple(plan.device_plugin_configs), hashlib.sha256(text.encode()).hexdigest(), "2026-01-01T00:00:00Z"
        ),
    )


def simulated_gpus(pool: PoolPlan, node: str) -> tuple[gpu.Gpu, ...]:
    known = pool.hardware.model
    made = gpu.new_gpus(node, Hardware(8, 64, known.key, pool.hardware.product, pool.hardware.gpus), None)
    if not isinstance(pool.sharing, Mig):
        return made
    layouts = [pool.sharing.layout_of(one.index) for one in made]
    return tuple(gpu.with_layout(one, layout) or one if layout else one for one, layout in zip(made, layouts, strict=True))


def pod(operand: str, **changes: Any) -> Pod:
    """A ready pod of an operand."""
    good = Pod(
        namespace="gpu-operator",
        name=f"{operand}-x7k2p",
        uid=f"uid-of-{operand}",
        app=operand,
        device_plugin=operand == "nvidia-device-plugin-daemonset",
        ready=True,
        started=STARTED,
        trouble=None,
        words="",
        config_failed=None,
    )
    return replace(good, **changes)


# --- random declarations ----------------------------------------------------------------------------------


@st.composite
def declarations(draw: st.DrawFn) -> Declaration:
    """A pool that can be planned."""
    key, count = draw(st.sampled_from(KNOWN)), draw(st.integers(1, 8))
    return Declaration(draw(_sharing(key, count)), key, count, draw(st.integers(1, 3)))


def fleets() -> st.SearchStrategy[list[Declaration]]:
    """Pools of one stack."""
    return st.lists(declarations(), min_size=1, max_size=4)


@st.composite
def declaration_pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], str, int]:
    """(one sharing, another sharing, GPU model, GPUs per node) of the same hardware."""
    key, count = draw(st.sampled_from(KNOWN)), draw(st.integers(1, 3))
    return draw(_sharing(key, count)), draw(_sharing(key, count)), key, count


@st.composite
def _sharing(draw: st.DrawFn, key: str, count: int) -> dict[str, Any]:
    strategy = draw(st.sampled_from(["exclusive", "timeSlicing", "mps", "mig", "mig"]))
    renamed = {"renameByDefault": True} if draw(st.booleans()) else {}
    if strategy == "mig" and model(key).profiles:
        layouts = [draw(_layouts(key)), *(draw(st.one_of(st.just({}), _layouts(key))) for _ in range(count - 1))]
        sliced = {"timeSlicing": {"replicas": draw(st.integers(2, 8)), **renamed}} if draw(st.booleans()) else {}
        gpus = [{"index": index, "layout": layout} for index, layout in enumerate(layouts)]
        return {"mig": {**({"layout": layouts[0]} if draw(st.booleans()) else {"gpus": gpus}), **sliced}}
    if strategy in {"timeSlicing", "mps"}:
        most = 16 if strategy == "mps" else 1000
        return {strategy: {"replicas": draw(st.integers(2, most)), **renamed}}
    return {"exclusive": {}}


@st.composite
def _layouts(draw: st.DrawFn, key: str) -> dict[str, int]:
    known = model(key)
    layout: Counter[str] = Counter()
    for profile in draw(st.lists(st.sampled_from(sorted(known.profiles or {})), min_size=1, max_size=6)):
        grown = layout + Counter([profile])
        if place(known, grown) is not None:
            layout = grown
    return dict(layout)
