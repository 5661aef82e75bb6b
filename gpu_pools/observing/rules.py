"""The recording rules: what dashboards and alerts ask, with each GPU, MIG instance and pod once.

Rows of one unit that repeat its value, for each pod or each MIG instance, become one by `max`; only what differs is summed. A
partitioned GPU's use is the sum of each instance's use times its compute slices, by those of the GPU. Of a pod there is a series
only where its value is its own:

- alone on its GPU or MIG instance: the unit's;
- time-slicing of whole GPUs, where the exporter measures pods: its use and its memory;
- time-slicing of MIG instances: its memory alone, since a process has no use on MIG;
- MPS: its memory alone, where the exporter measures pods. NVML tells the memory of each client and the use of the server alone
  (docs/measured/h100-mps-nvml.json), so that the exporter's use of such a pod is 0, whatever it does.

What is declared, allocated and waiting is in gpu_pools/observing/shares.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.observing.series import (
    DECLARED_REPLICAS,
    DECLARED_SLICES,
    GPU_KEY,
    JOB,
    NODE_KEY,
    POD_KEY,
    POOL,
    UNIT_KEY,
    declared,
    measures_pods_of,
)
from gpu_pools.observing.shares import declared_shares, recorded_shares
from gpu_pools.proof.verifier_pods import VERIFIER_APP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.plan.planned import Plan

GROUP: Final = "gpu-pools.recorded"
UNIT_ACTIVE: Final = "gpu_pools:unit_active:ratio"
GPU_ACTIVE: Final = "gpu_pools:gpu_active:ratio"
POD_ACTIVE: Final = "gpu_pools:pod_active:ratio"
UNIT_MEMORY_USED: Final = "gpu_pools:unit_memory_used:bytes"
UNIT_MEMORY: Final = "gpu_pools:unit_memory:bytes"
POD_MEMORY_USED: Final = "gpu_pools:pod_memory_used:bytes"
GPU_MEMORY_USED: Final = "gpu_pools:gpu_memory_used:bytes"
GPU_MEMORY: Final = "gpu_pools:gpu_memory:bytes"
GPU_POWER: Final = "gpu_pools:gpu_power:watts"
GPU_TEMPERATURE: Final = "gpu_pools:gpu_temperature:celsius"
NODE_GPUS: Final = "gpu_pools:node_gpus:count"
POOL_GPUS: Final = "gpu_pools:pool_gpus:count"
POOL_ACTIVE: Final = "gpu_pools:pool_active:ratio"
XIDS: Final = "gpu_pools:gpu_xids:count"
NODE_VERIFIED: Final = "gpu_pools:node_verified:bool"
NODE_REPORT_AGE: Final = "gpu_pools:node_report_age:seconds"
POD_IDLE: Final = "gpu_pools:pod_idle:bool"
#: Less use than this is none.
IDLE_BELOW: Final = 0.01
#: Compute slices that a profile can have; its name begins with their number.
_SLICES: Final = (1, 2, 3, 4, 7)
_MIB: Final = 1048576
#: All rows of this stack's pools; pods' rows are those with a pod.
_OURS: Final = f'{POOL}!=""'
_WHOLE: Final = 'GPU_I_ID=""'
_INSTANCE: Final = 'GPU_I_ID!=""'
_POD: Final = 'pod!=""'
_NO_POD: Final = 'pod=""'


def recording_group(plan: Plan) -> dict[str, Any]:
    """The group of all recording rules, in the order in which they need each other."""
    constants = (*declared(plan), *declared_shares(plan))
    rules = [{"record": one.name, "expr": f"vector({one.value})", "labels": dict(one.labels)} for one in constants]
    recorded = (*_recorded(pods=measures_pods_of(plan)), *recorded_shares(plan))
    rules += [{"record": name, "expr": expression} for name, expression in recorded]
    return {"name": GROUP, "rules": rules}


def _recorded(*, pods: bool) -> Iterator[tuple[str, str]]:
    yield UNIT_ACTIVE, _top(UNIT_KEY, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    yield GPU_ACTIVE, _gpu_active()
    yield POD_ACTIVE, _pod_active(pods=pods)
    yield POD_IDLE, f"{POD_ACTIVE} < bool {IDLE_BELOW}"
    yield UNIT_MEMORY_USED, f"{_MIB} * {_used()}"
    yield UNIT_MEMORY, f"{_MIB} * ({_used()} + {_top(UNIT_KEY, 'DCGM_FI_DEV_FB_FREE')})"
    yield POD_MEMORY_USED, _pod_memory(pods=pods)
    yield GPU_MEMORY_USED, f"{_by('sum', GPU_KEY)} ({UNIT_MEMORY_USED})"
    yield GPU_MEMORY, f"{_by('sum', GPU_KEY)} ({UNIT_MEMORY})"
    yield GPU_POWER, _top(GPU_KEY, "DCGM_FI_DEV_POWER_USAGE")
    yield GPU_TEMPERATURE, _top(GPU_KEY, "DCGM_FI_DEV_GPU_TEMP")
    yield XIDS, _top((*GPU_KEY, "xid"), "DCGM_EXP_XID_ERRORS_COUNT", 'xid!=""')
    yield NODE_GPUS, _node_gpus()
    yield POOL_GPUS, f"sum by ({POOL}) ({NODE_GPUS})"
    verifier = f'{{job="{VERIFIER_APP}", {_OURS}}}'
    yield NODE_VERIFIED, f"{_by('max', NODE_KEY)} (gpu_pools_verified{verifier})"
    yield NODE_REPORT_AGE, f"{_by('max', NODE_KEY)} (time() - gpu_pools_last_assertion_timestamp_seconds{verifier})"
    yield POOL_ACTIVE, f"avg by ({POOL}) ({GPU_ACTIVE})"


def _gpu_active() -> str:
    """Of a whole GPU as it is; of a partitioned one by slices; else what NVML calls utilisation, where DCGM has no profiling."""
    parts = " or ".join(f'{count} * {UNIT_ACTIVE}{{GPU_I_PROFILE=~"{count}g[.].+"}}' for count in _SLICES)
    whole = f"{_by('max', GPU_KEY)} ({UNIT_ACTIVE}{{{_WHOLE}}})"
    partitioned = f"{_by('sum', GPU_KEY)} ({parts}) / on ({POOL}) group_left () {DECLARED_SLICES}"
    return f"{whole} or {partitioned} or {_own_row(GPU_KEY, 'DCGM_FI_DEV_GPU_UTIL')} / 100"


def _pod_active(*, pods: bool) -> str:
    alone = f"{_top(POD_KEY, 'DCGM_FI_PROF_GR_ENGINE_ACTIVE', _POD)} {_where_replicas('== 1')}"
    if not pods:
        return alone
    measured = f"{_top(POD_KEY, 'DCGM_FI_DEV_GPU_UTIL', _POD, _WHOLE)} / 100 {_where_replicas('> 1', time_slicing=True)}"
    return f"{alone} or {measured}"


def _pod_memory(*, pods: bool) -> str:
    of_pods = f"{_MIB} * {_top(POD_KEY, 'DCGM_FI_DEV_FB_USED', _POD)}"
    return f"{of_pods} {_where_replicas('>= 1' if pods else '== 1')}"


def _where_replicas(condition: str, *, time_slicing: bool = False) -> str:
    """Keeps what is on units of so many pods, as it is."""
    chosen = '{strategy="timeSlicing"}' if time_slicing else ""
    return f"and on ({POOL}, GPU_I_PROFILE) ({DECLARED_REPLICAS}{chosen} {condition})"


def _used() -> str:
    return f"({_own_row(UNIT_KEY, 'DCGM_FI_DEV_FB_USED')})"


def _own_row(key: Sequence[str], metric: str) -> str:
    """The unit's own row, where pods have theirs beside it; else the only one there is."""
    return f"({_top(key, metric, _NO_POD)} or {_top(key, metric)})"


def _node_gpus() -> str:
    """GPUs that answer; zero where the exporter does and no GPU."""
    there = f'group by ({", ".join(GPU_KEY)}) ({{__name__=~"DCGM_FI_DEV_(FB_USED|GPU_TEMP)", {_OURS}}})'
    up = f'0 * group by ({", ".join(NODE_KEY)}) (up{{job="{JOB}", {_OURS}}} == 1)'
    return f"{_by('count', NODE_KEY)} ({there}) or {up}"


def _top(key: Sequence[str], metric: str, *more: str) -> str:
    """One value for each key, of rows that repeat it."""
    return f"{_by('max', key)} ({metric}{{{', '.join((_OURS, *more))}}})"


def _by(operation: str, key: Sequence[str]) -> str:
    return f"{operation} by ({', '.join(key)})"
