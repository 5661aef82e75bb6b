"""What was allocated, used and wasted, of each pool, GPU, share and pod, in hours; and what it cost.

Hours of shares: a pod that has two shares for three hours has six. Those of a pod are one of

- *used*: it used a hundredth of its GPU or MIG instance or more, in the mean of all it has there;
- *idle*: it used less. This, and its cost, is what is wasted;
- *unmeasured*: its use is not its own or not told (docs/reference/observability.md), or not for all of the time. Where nothing
  was measured both others are unknown; those of a pool are of its other pods.

What is not known is None, never 0, and `missing` says which series is not there. A pool of which no node was seen has no figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum  # `sum` rounds floats otherwise before Python 3.12
from typing import TYPE_CHECKING, Final

from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import GPU_KEY, POOL, UNIT_KEY
from gpu_pools.plan.planned import node_price, share_of_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpu_pools.hardware.prices import Prices
    from gpu_pools.observing.prometheus import Sample
    from gpu_pools.observing.times import Span
    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.usage.questions import Answers

_HOLDER: Final = ("instance", "namespace", "pod")
#: Series -> what is unknown of a pool whose nodes were seen, where it has no row.
_NEEDED: Final = {
    rules.GPU_ACTIVE: "how much GPUs were used: no exporter has told it (gpu-operator's DCGM exporter)",
    shares.NODE_ALLOCATABLE: "how many shares nodes offered: neither kube-state-metrics nor a verifier is scraped",
    shares.NODE_ALLOCATED: "what was allocated, used and idle: kube-state-metrics is not scraped into this Prometheus",
}


@dataclass(frozen=True)
class PodUsage:
    """A pod on a node, by resource; hours of shares."""

    pool: str
    instance: str
    namespace: str
    pod: str
    resource: str
    allocated: float
    used: float | None
    idle: float | None
    unmeasured: float
    active: float | None
    cost: float | None
    idle_cost: float | None


@dataclass(frozen=True)
class UnitUsage:
    """A GPU, or a MIG instance; `hours`: in which its use was told, `active`: its mean use, 0 to 1."""

    pool: str
    instance: str
    gpu: str
    uuid: str
    gpu_instance: str
    profile: str
    hours: float
    active: float


@dataclass(frozen=True)
class PoolUsage:
    """A pool; hours of nodes, GPUs and shares.

    Attributes:
        pool: its name.
        nodes: hours in which nodes were seen.
        gpus: hours in which GPUs answered.
        active: the mean use of its GPUs.
        offered: hours of shares that nodes offered.
        allocated: of these, what pods had.
        used: as said above, as the two next.
        idle: the same.
        unmeasured: the same.
        cost: of its nodes.
        idle_cost: of shares that were idle.
        free_cost: of shares that nobody had.
        missing: what is not known of it, and why.
    """

    pool: str
    nodes: float
    gpus: float | None
    active: float | None
    offered: float | None
    allocated: float | None
    used: float | None
    idle: float | None
    unmeasured: float | None
    cost: float | None
    idle_cost: float | None
    free_cost: float | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Usage:
    """All of it; `hours` of the time, `covered` of which there are recorded series at all."""

    hours: float
    covered: float
    currency: str
    pools: tuple[PoolUsage, ...]
    gpus: tuple[UnitUsage, ...]
    shares: tuple[UnitUsage, ...]
    pods: tuple[PodUsage, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing that was asked is unknown, but for use that is not a pod's own."""
        return not any(pool.missing for pool in self.pools)


def usage(plan: Plan, answers: Answers, over: Span, prices: Prices | None) -> Usage:
    """The report."""
    tools = {pool.name: _Costs.of(pool, prices) for pool in plan.pools}
    pods = tuple(_pods(answers, over, tools))
    pools = tuple(_pool(pool, answers, over, pods, tools[pool.name], priced=prices is not None) for pool in plan.pools)
    return Usage(
        over.hours(over.steps),
        over.hours(min(answers.covered, over.steps)),
        prices.currency if prices else "",
        pools,
        tuple(_units(answers, over, rules.GPU_ACTIVE, GPU_KEY)),
        tuple(_units(answers, over, rules.UNIT_ACTIVE, UNIT_KEY)),
        pods,
    )


@dataclass(frozen=True)
class _Costs:
    """What a share of a pool costs an hour."""

    node: float | None
    parts: Mapping[str, float]

    @classmethod
    def of(cls, pool: PoolPlan, prices: Prices | None) -> _Costs:
        return cls(node_price(pool, prices), share_of_node(pool))

    def cost(self, resource: str, hours: float) -> float | None:
        # One that the stack has declared before, and does not now, has no part.
        part = self.parts.get(resource)
        return None if self.node is None or part is None else hours * self.node * part


def _by(rows: Iterable[Sample], *names: str) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for row in rows:
        found[row.key(*names)] = found.get(row.key(*names), 0) + row.value
    return found


def _most(rows: Iterable[Sample], *names: str) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for row in rows:
        found[row.key(*names)] = max(found.get(row.key(*names), 0), row.value)
    return found


def _pods(answers: Answers, over: Span, tools: Mapping[str, _Costs]) -> Iterator[PodUsage]:
    there = _by(answers.counts[shares.POD_ALLOCATED], *_HOLDER, "resource")
    idle, active = _by(answers.sums[rules.POD_IDLE], *_HOLDER), _by(answers.sums[rules.POD_ACTIVE], *_HOLDER)
    rows, told = _by(answers.counts[rules.POD_IDLE], *_HOLDER), _most(answers.counts[rules.POD_IDLE], *_HOLDER)
    for row in sorted(answers.sums[shares.POD_ALLOCATED], key=lambda one: one.key(POOL, *_HOLDER, "resource")):
        holder = row.key(*_HOLDER)
        pool, instance, namespace, pod, resource = row.key(POOL, *_HOLDER, "resource")
        allocated = over.hours(row.value)
        steps, unused = rows.get(holder), idle.get(holder)
        is_told = bool(steps) and unused is not None
        # Without its own counts nothing of it is known to have been measured.
        measured = allocated * (_part(told.get(holder), there.get((*holder, resource))) or 0) if is_told else 0.0
        wasted = min(measured, measured * unused / steps) if steps and unused is not None else None
        costs = tools[pool]
        yield PodUsage(
            pool,
            instance,
            namespace,
            pod,
            resource,
            allocated,
            None if wasted is None else measured - wasted,
            wasted,
            allocated - measured,
            _part(active.get(holder), rows.get(holder)),
            costs.cost(resource, allocated),
            None if wasted is None else costs.cost(resource, wasted),
        )


def _part(sum_of: float | None, count: float | None) -> float | None:
    """A mean of shares of a whole; None where it is not known."""
    return None if sum_of is None or not count else min(1.0, sum_of / count)


def _units(answers: Answers, over: Span, series: str, key: Sequence[str]) -> Iterator[UnitUsage]:
    counts = _by(answers.counts[series], *key)
    for row in sorted(answers.sums[series], key=lambda one: one.key(*UNIT_KEY)):
        steps = counts.get(row.key(*key))
        if not steps:
            # Told as missing of its pool.
            continue
        instance, pool, gpu, uuid, number, profile = row.key(*UNIT_KEY)
        yield UnitUsage(pool, instance, gpu, uuid, number, profile, over.hours(steps), row.value / steps)


def _pool(pool: PoolPlan, answers: Answers, over: Span, pods: Iterable[PodUsage], costs: _Costs, *, priced: bool) -> PoolUsage:
    def total(series: str, *, count: bool = False) -> float | None:
        rows = [row.value for row in (answers.counts if count else answers.sums)[series] if row.labels.get(POOL) == pool.name]
        return fsum(rows) if rows else None

    def hours(steps: float | None) -> float | None:
        return None if steps is None else over.hours(steps)

    nodes = over.hours(total(shares.NODE_POOL) or 0)
    use, told = total(rules.GPU_ACTIVE), total(rules.GPU_ACTIVE, count=True)
    own = [pod for pod in pods if pod.pool == pool.name]
    allocated = hours(total(shares.NODE_ALLOCATED))
    known = allocated is not None
    return PoolUsage(
        pool.name,
        nodes,
        hours(total(rules.NODE_GPUS)),
        None if use is None or not told else use / told,
        hours(total(shares.NODE_ALLOCATABLE)),
        allocated,
        _known(pod.used for pod in own) if known else None,
        _known(pod.idle for pod in own) if known else None,
        fsum(pod.unmeasured for pod in own) if known else None,
        None if costs.node is None or not nodes else costs.node * nodes,
        _known(pod.idle_cost for pod in own) if known and costs.node is not None else None,
        _free_cost(pool.name, answers, over, costs) if known else None,
        (*_missing(total, nodes, costs, priced=priced), *_uncounted(pool.name, answers)),
    )


def _uncounted(pool: str, answers: Answers) -> Iterator[str]:
    """Series with rows of which Prometheus says a sum, and not in how many steps they were there."""
    for series, rows in answers.sums.items():
        counted = {_labels(row) for row in answers.counts[series] if row.value}
        lost = sum(row.labels.get(POOL) == pool and _labels(row) not in counted for row in rows)
        if lost:
            yield f"{series}: of {lost} of its rows Prometheus does not say how long they were there"


def _labels(row: Sample) -> frozenset[tuple[str, str]]:
    return frozenset(row.labels.items())


def _known(values: Iterable[float | None]) -> float | None:
    """Of what is known; nothing is, where there are values and none is known."""
    found = list(values)
    known = [value for value in found if value is not None]
    return None if found and not known else fsum(known)


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return fsum(known) if len(known) == len(found) else None


def _free_cost(pool: str, answers: Answers, over: Span, costs: _Costs) -> float | None:
    if costs.node is None:
        return None
    offered, given = (
        _by([row for row in answers.sums[name] if row.labels.get(POOL) == pool], "resource")
        for name in (shares.NODE_ALLOCATABLE, shares.NODE_ALLOCATED)
    )
    return _sum(costs.cost(key[0], over.hours(max(0.0, steps - given.get(key, 0)))) for key, steps in offered.items())


def _missing(total: Callable[[str], float | None], nodes: float, costs: _Costs, *, priced: bool) -> Iterator[str]:
    if nodes:
        yield from (f"{series}: {what}" for series, what in _NEEDED.items() if total(series) is None)
    if priced and costs.node is None:
        yield "price: nobody has given one for its nodes"
