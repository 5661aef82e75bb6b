"""Grafana dashboards as JSON: the fleet, a pool, a GPU, and pods. Written from the plan, the same plan always the same text.

They ask the recorded series only (gpu_pools/observing/rules.py), so that no panel can count anything twice. What cannot be had of
a pod has no series, and the panel of pods says which pools that concerns. The schema is Grafana's of version 10 and newer; they
were not opened in a Grafana here. gpu_pools/dashboards/ asks and draws what they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import DECLARED_GPUS, DECLARED_REPLICAS, DECLARED_SHARES, POOL, measures_pods_of, replicas_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.plan.planned import Plan
    from gpu_pools.sharing.mode import Sharing

_SCHEMA: Final = 39
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDE: Final = 24
_HEIGHT: Final = 8
_CHOSEN_POOL: Final = f'{POOL}=~"$pool"'
_CHOSEN_GPU: Final = f'{_CHOSEN_POOL}, instance=~"$node", UUID=~"$gpu"'
_UNIT: Final = "{{instance}} GPU {{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"
_GPU: Final = "{{instance}} GPU {{gpu}}"
_POD: Final = "{{namespace}}/{{pod}} on " + _UNIT
_NOT_HERE: Final = """Shares that pods hold or wait for are told by kube-state-metrics, what is proven by the stack's verifiers.
Without these the panels are empty, which is not 0. Cost needs prices, which no series has:
`gpu-pools usage STACKFILE --prometheus URL --prices FILE` tells it."""
_Kind = Literal["timeseries", "stat", "table", "text"]


@dataclass(frozen=True)
class _Panel:
    """One panel; `queries` are (expression, legend)."""

    title: str
    queries: tuple[tuple[str, str], ...] = ()
    unit: str = "short"
    kind: _Kind = "timeseries"
    says: str = ""
    width: int = 12


@dataclass(frozen=True)
class _Variable:
    """What can be chosen above the panels: values of a label of a series, narrowed by what was chosen before."""

    name: str
    label: str
    series: str


def dashboards(plan: Plan) -> Mapping[str, dict[str, Any]]:
    """Name -> dashboard."""
    pool = _Variable("pool", POOL, DECLARED_GPUS)
    node = _Variable("node", "instance", f"{rules.GPU_ACTIVE}{{{_CHOSEN_POOL}}}")
    gpu = _Variable("gpu", "UUID", f'{rules.GPU_ACTIVE}{{{_CHOSEN_POOL}, instance=~"$node"}}')
    return {
        "fleet": _board("fleet", "GPU fleet", tuple(_fleet()), ()),
        "pool": _board("pool", "GPU pool", tuple(_pool()), (pool,)),
        "gpu": _board("gpu", "GPU", tuple(_gpu()), (pool, node, gpu)),
        "pods": _board("pods", "GPU pods", tuple(_pods(plan)), (pool,)),
    }


def _fleet() -> Iterator[_Panel]:
    yield _Panel("GPUs that answer", ((f"sum({rules.NODE_GPUS})", "GPUs"),), kind="stat", width=8)
    yield _Panel("Use of all GPUs", ((f"avg({rules.GPU_ACTIVE})", "use"),), "percentunit", "stat", width=8)
    # Without an exporter there is nothing, not 0.
    unused = f"count({rules.GPU_ACTIVE} < {rules.IDLE_BELOW}) or 0 * count({rules.GPU_ACTIVE})"
    yield _Panel("GPUs not used at all", ((unused, "GPUs"),), kind="stat", width=8)
    proven = ((f"sum by ({POOL}) ({rules.NODE_VERIFIED})", "{{gpu_pool}}"),)
    yield _Panel("Nodes that are proven to be as declared", proven)
    yield _Panel(
        "Age of a node's last report, the oldest of a pool",
        ((f"max by ({POOL}) ({rules.NODE_REPORT_AGE})", "{{gpu_pool}}"),),
        "s",
    )
    offered = (shares.POOL_ALLOCATABLE, "offered {{gpu_pool}} {{resource}}")
    yield _Panel("Shares: offered, and held by pods", (offered, (shares.POOL_ALLOCATED, "held {{gpu_pool}} {{resource}}")))
    yield _Panel("Shares that pods wait for", ((shares.WAITING, "{{resource}}"),))
    yield _Panel("Pods that hold a share and use nothing", ((f"sum by ({POOL}) ({rules.POD_IDLE})", "{{gpu_pool}}"),))
    yield _Panel("Use by pool", ((rules.POOL_ACTIVE, "{{gpu_pool}}"),), "percentunit")
    yield _Panel("GPUs by pool", ((rules.POOL_GPUS, "{{gpu_pool}}"),))
    memory = f"sum by ({POOL}) ({rules.GPU_MEMORY_USED}) / sum by ({POOL}) ({rules.GPU_MEMORY})"
    yield _Panel("Memory in use by pool", ((memory, "{{gpu_pool}}"),), "percentunit")
    yield _Panel("Power by pool", ((f"sum by ({POOL}) ({rules.GPU_POWER})", "{{gpu_pool}}"),), "watt")
    yield _Panel("Declared GPUs of a node", ((DECLARED_GPUS, ""),), kind="table")
    yield _Panel("Declared shares of a node", ((DECLARED_SHARES, ""),), kind="table")
    yield _Panel("What is not here", kind="text", says=_NOT_HERE, width=_WIDE)


def _pool() -> Iterator[_Panel]:
    yield _Panel("Use by GPU", ((f"{rules.GPU_ACTIVE}{{{_CHOSEN_POOL}}}", _GPU),), "percentunit", width=_WIDE)
    yield _Panel("Memory in use by GPU", ((f"{rules.GPU_MEMORY_USED}{{{_CHOSEN_POOL}}}", _GPU),), "bytes")
    yield _Panel("Use by share", ((f"{rules.UNIT_ACTIVE}{{{_CHOSEN_POOL}}}", _UNIT),), "percentunit")
    held = (f"{shares.NODE_ALLOCATED}{{{_CHOSEN_POOL}}}", "held {{instance}} {{resource}}")
    offered = (f"{shares.NODE_ALLOCATABLE}{{{_CHOSEN_POOL}}}", "offered {{instance}} {{resource}}")
    yield _Panel("Shares by node: offered, and held by pods", (offered, held))
    yield _Panel("GPUs by node", ((f"{rules.NODE_GPUS}{{{_CHOSEN_POOL}}}", "{{instance}}"),))
    xids = f"max by (instance, gpu, xid) ({rules.XIDS}{{{_CHOSEN_POOL}}}) > 0"
    yield _Panel("Xids of the last five minutes", ((xids, "{{instance}} GPU {{gpu}} Xid {{xid}}"),))
    yield _Panel(
        "Declared pods per GPU or MIG instance", ((f"{DECLARED_REPLICAS}{{{_CHOSEN_POOL}}}", ""),), kind="table", width=_WIDE
    )


def _gpu() -> Iterator[_Panel]:
    yield _Panel("Use of the whole GPU", ((f"{rules.GPU_ACTIVE}{{{_CHOSEN_GPU}}}", _GPU),), "percentunit")
    yield _Panel("Use by MIG instance", ((f"{rules.UNIT_ACTIVE}{{{_CHOSEN_GPU}}}", _UNIT),), "percentunit")
    yield _Panel("Memory by MIG instance", ((f"{rules.UNIT_MEMORY_USED}{{{_CHOSEN_GPU}}}", _UNIT),), "bytes")
    yield _Panel("Power", ((f"{rules.GPU_POWER}{{{_CHOSEN_GPU}}}", _GPU),), "watt")
    yield _Panel("Temperature", ((f"{rules.GPU_TEMPERATURE}{{{_CHOSEN_GPU}}}", _GPU),), "celsius")
    xids = f"max by (instance, gpu, xid) ({rules.XIDS}{{{_CHOSEN_GPU}}}) > 0"
    yield _Panel("Xids of the last five minutes", ((xids, "Xid {{xid}}"),))


def _pods(plan: Plan) -> Iterator[_Panel]:
    yield _Panel("What is shown", kind="text", says="\n".join(_of_pods(plan)), width=_WIDE)
    use = f"{rules.POD_ACTIVE}{{{_CHOSEN_POOL}}}"
    yield _Panel("Use by pod, of its GPU or MIG instance", ((use, _POD),), "percentunit", width=_WIDE)
    yield _Panel("Memory by pod", ((f"{rules.POD_MEMORY_USED}{{{_CHOSEN_POOL}}}", _POD),), "bytes", width=_WIDE)
    held = f"{shares.POD_ALLOCATED}{{{_CHOSEN_POOL}}}"
    yield _Panel("Shares by pod", ((held, "{{namespace}}/{{pod}} {{resource}}"),), width=_WIDE)
    idle = f"{rules.POD_ACTIVE}{{{_CHOSEN_POOL}}} < {rules.IDLE_BELOW}"
    yield _Panel("Pods that use nothing", ((idle, _POD),), "percentunit", "table", width=_WIDE)


def _of_pods(plan: Plan) -> Iterator[str]:
    """What a pod's value is in each pool."""
    measured = measures_pods_of(plan)
    for pool in plan.pools:
        shared = any(replicas > 1 for replicas in replicas_of(pool).values())
        yield f"- **{pool.name}** ({pool.sharing.strategy}): {_whose(pool.sharing, measured=measured, shared=shared)}"


def _whose(sharing: Sharing, *, measured: bool, shared: bool) -> str:
    if not shared:
        return "use and memory are the pod's own."
    if not measured:
        return "nothing per pod where several share: this exporter copies the GPU's value to each. Look at the GPU."
    return sharing.measured_pods


def _board(name: str, title: str, panels: tuple[_Panel, ...], variables: tuple[_Variable, ...]) -> dict[str, Any]:
    return {
        "uid": f"gpu-pools-{name}",
        "title": title,
        "tags": ["gpu-pools"],
        "schemaVersion": _SCHEMA,
        "editable": False,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_data_source(), *map(_choice, variables)]},
        "panels": list(_placed(panels)),
    }


def _placed(panels: tuple[_Panel, ...]) -> Iterator[dict[str, Any]]:
    """Panels from left to right, in rows."""
    left = top = 0
    for number, panel in enumerate(panels, 1):
        if left + panel.width > _WIDE:
            left, top = 0, top + _HEIGHT
        yield _panel(number, panel, {"x": left, "y": top, "w": panel.width, "h": _HEIGHT})
        left += panel.width


def _panel(number: int, panel: _Panel, place: Mapping[str, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": number, "title": panel.title, "type": panel.kind, "gridPos": dict(place)}
    if panel.kind == "text":
        return {**shown, "options": {"mode": "markdown", "content": panel.says}}
    at_once = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + index),
            "expr": expression,
            "legendFormat": legend,
            "datasource": _SOURCE,
            **({"instant": True, "format": "table"} if at_once else {}),
        }
        for index, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        **shown,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, **({"min": 0} if panel.kind == "timeseries" else {})}, "overrides": []},
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _choice(variable: _Variable) -> dict[str, Any]:
    query = f"label_values({variable.series}, {variable.label})"
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": variable.name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }
