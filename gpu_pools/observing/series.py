"""How series are keyed so that nothing counts twice, what the plan adds to them, and how many there are.

An exporter gives a row for each GPU, or for each of its MIG instances, and on shared GPUs a further row for each pod.
`instance` is the node's name, `gpu_pool` the pool's: the ServiceMonitor puts both there (gpu_pools/observing/objects.py). So a
restarted exporter goes on with its series, and nobody counts the rows of another scrape of it, which have no `gpu_pool`. A MIG
instance has no UUID of its own there: it is one of `GPU_I_ID` of its GPU's UUID.

What a query cannot know of a value, whose it is, the plan tells it, as series with constant values: see `declared`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.dcgm_fields import dcgm_fields, per_pod_fields
from gpu_pools.rendering.dcgm_exporter import measures_each_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.sharing.mode import Sharing

#: The exporter's job: its Service's label `app`.
JOB: Final = "nvidia-dcgm-exporter"
POOL: Final = "gpu_pool"
NODE_KEY: Final = ("instance", POOL)
GPU_KEY: Final = (*NODE_KEY, "gpu", "UUID")
#: A GPU that is not partitioned, or one MIG instance.
UNIT_KEY: Final = (*GPU_KEY, "GPU_I_ID", "GPU_I_PROFILE")
POD_KEY: Final = (*UNIT_KEY, "namespace", "pod")
#: Reasons for lowered clocks that the exporter tells apart (4.5.3, clock_events_collector.go).
_CLOCK_EVENTS: Final = 9
#: Different Xids of one GPU within five minutes; more were not seen anywhere, but nothing forbids them.
_XIDS: Final = 4
_COUNTED: Final = {"DCGM_EXP_CLOCK_EVENTS_COUNT": _CLOCK_EVENTS, "DCGM_EXP_XID_ERRORS_COUNT": _XIDS}


@dataclass(frozen=True)
class Declared:
    """A series with a constant value.

    Attributes:
        name: of the series.
        labels: of it.
        value: of it.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: int


DECLARED_GPUS: Final = "gpu_pools:declared_gpus:node"
DECLARED_REPLICAS: Final = "gpu_pools:declared_replicas:unit"
DECLARED_SLICES: Final = "gpu_pools:declared_slices:gpu"
DECLARED_SHARES: Final = "gpu_pools:declared_shares:node"


def declared(plan: Plan) -> Iterator[Declared]:
    """What the plan tells the queries.

    - `declared_gpus:node`: how many GPUs a node of the pool has.
    - `declared_replicas:unit`: how many pods may be on a unit: with one its values are that pod's own. Of MIG by profile.
    - `declared_slices:gpu`: how many compute slices a GPU of the pool has: 7, and 4 on smaller ones.
    """
    for pool in plan.pools:
        strategy = ("strategy", pool.sharing.strategy)
        yield Declared(DECLARED_GPUS, ((POOL, pool.name), ("model", pool.hardware.model.key), strategy), pool.hardware.gpus)
        for profile, replicas in sorted(replicas_of(pool).items()):
            labels = ((POOL, pool.name), *([("GPU_I_PROFILE", profile)] if profile else []), strategy)
            yield Declared(DECLARED_REPLICAS, labels, replicas)
        if pool.sharing.partitioned:
            yield Declared(DECLARED_SLICES, ((POOL, pool.name),), pool.hardware.model.compute_slices)


def replicas_of(pool: PoolPlan) -> dict[str, int]:
    """Profile -> pods on an instance of it; the empty profile is a GPU that is not partitioned."""
    sharing = pool.sharing
    found: dict[str, int] = {}
    for index in range(pool.hardware.gpus):
        layout = sharing.layout_of(index)
        found |= {profile: _replicas(sharing, profile) for profile in layout} if layout else {"": _replicas(sharing, None)}
    # Other drivers give some profiles other names.
    others = pool.hardware.model.other_names
    return found | {other: found[own] for other, own in others.items() if own in found}


def _replicas(sharing: Sharing, profile: str | None) -> int:
    shared = sharing.replication_of(profile)
    return shared.replicas if shared else 1


def units(pool: PoolPlan) -> Iterator[str]:
    """The profile of each unit of a node; empty: a whole GPU."""
    for gpu in pool.nvml.gpus:
        for profile, count in gpu.instances.items():
            yield from [profile] * count
        if not gpu.instances:
            yield ""


def measures_pods_of(plan: Plan) -> bool:
    """Whether this plan's exporter measures pods that share a GPU."""
    version = plan.settings.operator.chart.version
    return measures_each_pod(version, [pool.sharing for pool in plan.pools])


def most_series(plan: Plan, pool: PoolPlan) -> int:
    """The most series that a node of the pool has in one scrape.

    Where pods are measured every field is given once for each pod that is on the unit, and those of a pod's own once more.
    Profiling fields are missing where DCGM has none; then there are fewer.
    """
    replicas, pods = replicas_of(pool), measures_pods_of(plan)
    total = 0
    for profile in units(pool):
        on_unit = replicas[profile] if pods else 1
        for field in dcgm_fields():
            if field.type == "label" or (profile and field.mig == "none"):
                continue
            own = 1 if pods and field.name in per_pod_fields() else 0
            total += _COUNTED.get(field.name, 1) * on_unit + own
    return total
