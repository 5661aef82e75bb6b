"""Fleets of every way of sharing, as a stack declares them and as random pods use them: the truth that rules are held against."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.observing.series import measures_pods_of, replicas_of, units
from gpu_pools.plan.planning import plan_config
from sandbox.observing.exporter import Gpu, Node, Pod, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from gpu_pools.plan.planned import Plan, PoolPlan

SHARING: Final[dict[str, Any]] = {
    "whole": {"exclusive": {}},
    "turns": {"timeSlicing": {"replicas": 4}},
    "renamed": {"timeSlicing": {"replicas": 2, "renameByDefault": True}},
    "served": {"mps": {"replicas": 8}},
    "alike": {"mig": {"layout": {"1g.10gb": 7}}},
    "mixed": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}}},
    "some": {"mig": {"gpus": [{"index": [0], "layout": {"3g.40gb": 2}}, {"index": [1], "layout": {}}]}},
    "cut": {"mig": {"layout": {"3g.40gb": 2}, "timeSlicing": {"replicas": 3}}},
    "small": {"mig": {"layout": {"2g.12gb": 1, "1g.6gb": 2}}},
}
#: Pool -> GPU model, GPUs of a node; each is called as its sharing.
HARDWARE: Final = {name: ("a30-24gb", 1) if name == "small" else ("a100-80gb", 2) for name in SHARING}
NEWEST: Final = "v26.7.0"
#: Its exporter copies a GPU's value to each pod.
OLD: Final = "v25.10.1"


def stack(*, version: str = NEWEST, pools: tuple[str, ...] = tuple(SHARING), **section: Any) -> dict[str, Any]:
    """The configuration of a stack with these pools, observed."""
    return {
        "gpu-pools:cluster": {"platform": "existing"},
        "gpu-pools:sharing": {name: SHARING[name] for name in pools},
        "gpu-pools:operator": {"version": version, "driver": "preinstalled"},
        "gpu-pools:pools": [
            {
                "name": name,
                "nodeSelector": {"pool": name},
                "gpuModel": HARDWARE[name][0],
                "gpusPerNode": HARDWARE[name][1],
                "sharing": name,
            }
            for name in pools
        ],
        "gpu-pools:observability": section,
    }


def plan_of(**changed: Any) -> Plan:
    return plan_config(stack(**changed))


def fleet(plan: Plan, draw: Random, *, busy: bool = False) -> tuple[Node, ...]:
    """Nodes of each pool, with random pods; `busy`: each unit has as many as it may, and none idles or fills the memory."""
    virtual = measures_pods_of(plan)
    return tuple(
        Node(
            f"{pool.name}-{number}",
            pool.name,
            tuple(_gpus(pool, draw, busy=busy)),
            virtual=virtual,
            mps=pool.sharing.strategy == "mps",
        )
        for pool in plan.pools
        for number in range(draw.randint(1, 2))
    )


def _gpus(pool: PoolPlan, draw: Random, *, busy: bool) -> Iterator[Gpu]:
    whole = pool.hardware.model.memory_mib or 24576
    slices = pool.hardware.model.compute_slices
    profiling = bool(pool.nvml.gpus[0].instances) or busy or draw.random() < 0.8
    for gpu in pool.nvml.gpus:
        profiles = [profile for profile, count in gpu.instances.items() for _ in range(count)] or [""]
        made = []
        for number, profile in enumerate(profiles):
            memory = whole * int(profile[0]) // slices if profile else whole
            most = replicas_of(pool)[profile]
            pods = tuple(_pods(f"{pool.name}-{gpu.index}-{number}", memory, most, draw, busy=busy))
            made.append(Unit(profile, number + 1 if profile else 0, pods, memory))
        yield Gpu(gpu.index, tuple(made), draw.randint(50, 400), draw.randint(30, 80), profiling=profiling)


def _pods(name: str, memory: int, most: int, draw: Random, *, busy: bool) -> Iterator[Pod]:
    count = most if busy else draw.randint(0, most)
    left, devices = 100, most - count
    for number in range(count):
        use = draw.randint(2, 100 // count) if busy else draw.randint(0, left)
        left -= use
        share = memory // (2 * count) if busy else draw.randint(0, memory // count)
        more = draw.randint(0, min(devices, 1))
        devices -= more
        yield Pod(f"{name}-{number}", use, share, times=1 + more)


def with_gpu(nodes: tuple[Node, ...], pool: str, **changed: Any) -> tuple[Node, ...]:
    """The same, with the first GPU of the first node of a pool changed."""
    first = next(node for node in nodes if node.pool == pool)
    gpu = replace(first.gpus[0], **changed)
    return tuple(replace(node, gpus=(gpu, *node.gpus[1:])) if node is first else node for node in nodes)


def expected_units(plan: Plan) -> int:
    return sum(len(list(units(pool))) for pool in plan.pools)
