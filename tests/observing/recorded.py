"""Recorded series of a fleet over hours, with a known truth: use, memory, power, shares, pods, verifiers, an Xid, a gap."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import declared, units
from gpu_pools.observing.shares import declared_shares
from gpu_pools.sharing.mps import Mps

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gpu_pools.plan.planned import Plan, PoolPlan
    from tests.observing.history import History

#: A minute of each series that is not there on MIG pools' first GPU: (from, to) in minutes before now.
GAP: Final = (150, 170)
_GIB: Final = 1 << 30
Labels = dict[str, str]


@dataclass
class Recorded:
    """What was put, and of each series its value now.

    Attributes:
        made: the samples.
        minutes: so many before now, and ten after.
        away: pools without nodes.
        without: series that nobody tells.
    """

    made: History
    minutes: int
    away: Collection[str] = ()
    without: Collection[str] = ()
    last: dict[str, dict[frozenset[tuple[str, str]], float]] = field(default_factory=dict)

    def put(self, name: str, labels: Labels, value: Callable[[int], float]) -> None:
        """A series by a function of minutes before now; what is not a number is not there."""
        if name in self.without:
            return
        values = {ago: value(ago) for ago in range(-10, self.minutes + 1)}
        self.made.put(name, labels, {ago: one for ago, one in values.items() if not math.isnan(one)})
        if not math.isnan(values[0]):
            self.last.setdefault(name, {})[frozenset(labels.items())] = values[0]


def record(into: Recorded, plan: Plan) -> None:
    """All recorded series of a plan's pools, a node each."""
    for constant in (*declared(plan), *declared_shares(plan)):
        into.put(constant.name, dict(constant.labels), lambda _, value=constant.value: value)  # type: ignore[misc]
    for number, pool in enumerate(plan.pools):
        if pool.name not in into.away:
            _node(into, pool, number)
    for resource in sorted({name for pool in plan.pools for name in pool.advertises}):
        into.put(shares.WAITING, {"resource": resource}, lambda ago: 2 if 30 < ago < 60 else 0)


def _wave(phase: float, low: float, high: float) -> Callable[[int], float]:
    """Rounded, so that what is written is what was meant."""
    return lambda ago: round(low + (high - low) * (0.5 + 0.5 * math.sin(phase + ago / 37)), 4)


def _constant(value: float) -> Callable[[int], float]:
    return lambda _: value


def _node(into: Recorded, pool: PoolPlan, number: int) -> None:
    node = {"instance": f"{pool.name}-0", "gpu_pool": pool.name}
    of_pool = {"gpu_pool": pool.name}
    gpus = pool.hardware.gpus
    into.put(shares.NODE_POOL, node, _constant(1))
    into.put(rules.NODE_GPUS, node, _constant(gpus))
    into.put(rules.POOL_GPUS, of_pool, _constant(gpus))
    into.put(rules.NODE_VERIFIED, node, lambda ago: 0 if 80 < ago < 90 else 1)
    into.put(rules.NODE_REPORT_AGE, node, lambda ago: 5 + ago % 10 * 30)
    into.put(rules.POOL_ACTIVE, of_pool, _wave(number, 0.1, 0.8))
    for index in range(gpus):
        gpu = {**node, "gpu": str(index), "UUID": f"GPU-{pool.name}-{index}"}
        _gpu(into, pool, gpu, number + index / 3)
    for resource, count in pool.advertises.items():
        held = lambda ago, count=count: max(0, count - 1 - (ago > 200))  # type: ignore[misc] # noqa: E731
        for name in (shares.NODE_ALLOCATABLE, shares.POOL_ALLOCATABLE):
            into.put(name, {**(node if name.startswith("gpu_pools:node") else of_pool), "resource": resource}, _constant(count))
        into.put(shares.NODE_ALLOCATED, {**node, "resource": resource}, held)
        into.put(shares.POOL_ALLOCATED, {**of_pool, "resource": resource}, held)
        for one in range(count - 1):
            pod = {**node, "namespace": "team", "pod": f"{pool.name}-{resource.rpartition('/')[2]}-{one}", "resource": resource}
            into.put(shares.POD_ALLOCATED, pod, _constant(1))


def _gpu(into: Recorded, pool: PoolPlan, gpu: Labels, phase: float) -> None:
    def unless_gap(value: Callable[[int], float]) -> Callable[[int], float]:
        return lambda ago: math.nan if GAP[0] < ago < GAP[1] else value(ago)

    into.put(rules.GPU_ACTIVE, gpu, unless_gap(_wave(phase, 0.05, 0.9)))
    into.put(rules.GPU_POWER, gpu, unless_gap(_wave(phase, 90, 380)))
    into.put(rules.GPU_TEMPERATURE, gpu, unless_gap(_wave(phase, 34, 71)))
    into.put(rules.GPU_MEMORY, gpu, _constant(80 * _GIB))
    into.put(rules.GPU_MEMORY_USED, gpu, _wave(phase, 4 * _GIB, 66 * _GIB))
    if gpu["gpu"] == "0" and pool.name == "served":
        into.put(rules.XIDS, {**gpu, "xid": "109"}, lambda ago: 1 if 100 < ago < 106 else math.nan)
    for number, profile in enumerate(index for index in _units(pool)):
        unit = {**gpu, **({"GPU_I_ID": str(number), "GPU_I_PROFILE": profile} if profile else {})}
        into.put(rules.UNIT_ACTIVE, unit, unless_gap(_wave(phase + number, 0, 0.95)))
        into.put(rules.UNIT_MEMORY_USED, unit, _wave(phase + number, _GIB, 9 * _GIB))
        into.put(rules.UNIT_MEMORY, unit, _constant(10 * _GIB))
        pod = {**unit, "namespace": "team", "pod": f"{pool.name}-{gpu['gpu']}-{number}"}
        into.put(rules.POD_MEMORY_USED, pod, _wave(phase + number, _GIB, 8 * _GIB))
        if not isinstance(pool.sharing, Mps):
            idle = pool.name == "turns"
            into.put(rules.POD_ACTIVE, pod, _constant(0.002) if idle else _wave(phase + number, 0.02, 0.95))
            into.put(rules.POD_IDLE, pod, _constant(float(idle)))


def _units(pool: PoolPlan) -> list[str]:
    """Of one GPU."""
    return [*units(pool)][: -(-len([*units(pool)]) // pool.hardware.gpus)]
