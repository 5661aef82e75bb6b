"""The report as a table for people, and as JSON for machines. What is unknown is `?` and null."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gpu_pools.text.table import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_pools.usage.report import PodUsage, UnitUsage, Usage

#: Rows of GPUs and pods that a table has; JSON has all.
_MOST: Final = 20
_LEAST_SHOWN: Final = 0.05


def usage_json(report: Usage, stack: str) -> str:
    """All of it, two spaces deep."""
    return json.dumps({"version": 1, "stack": stack, **asdict(report)}, indent=2)


def usage_table(report: Usage) -> str:
    """Pools, then the GPUs that were used least, then the pods that wasted most."""
    return "\n".join(_lines(report))


def _lines(report: Usage) -> Iterator[str]:
    yield f"The last {_number(report.hours)} hours, of which {_number(report.covered)} are recorded; all in hours."
    yield ""
    yield from _pools(report)
    yield from _part(
        "GPUs that were used least", ("POOL", "NODE", "GPU", "USE", "HOURS"), _least_used(report.gpus), len(report.gpus)
    )
    costs = (f"IDLE {report.currency}",) if report.currency else ()
    header = ("POOL", "POD", "NODE", "SHARE", "ALLOCATED", "USED", "IDLE", "UNMEASURED", *costs)
    wasting = sorted(report.pods, key=lambda pod: (-(pod.idle or 0), pod.pool, pod.namespace, pod.pod))
    yield from _part("Pods, most idle first", header, [_pod(pod, priced=bool(costs)) for pod in wasting[:_MOST]], len(wasting))
    unknown = [f"{pool.pool}: {what}" for pool in report.pools for what in pool.missing]
    if unknown:
        yield from ("", "Unknown (?), since a series is not there:", *(f"  {line}" for line in unknown))
    unseen = [pool.pool for pool in report.pools if not pool.nodes]
    if unseen:
        yield from (
            "",
            f"Of {', '.join(unseen)} no node was seen: there was none, or neither its exporter nor a verifier is scraped.",
        )


def _pools(report: Usage) -> Iterator[str]:
    header = ["POOL", "NODES", "GPUS", "USE", "SHARES", "ALLOCATED", "USED", "IDLE", "UNMEASURED"]
    header += [f"{name} {report.currency}" for name in ("COST", "IDLE", "FREE")] if report.currency else []
    rows = []
    for pool in report.pools:
        hours = (pool.offered, pool.allocated, pool.used, pool.idle, pool.unmeasured)
        row = [pool.pool, _number(pool.nodes), _number(pool.gpus), _part_of_one(pool.active), *map(_number, hours)]
        rows.append(row + ([_money(one) for one in (pool.cost, pool.idle_cost, pool.free_cost)] if report.currency else []))
    yield table(header, rows)


def _least_used(gpus: Iterable[UnitUsage]) -> list[Sequence[str]]:
    ordered = sorted(gpus, key=lambda one: (one.active, one.pool, one.instance, one.gpu))
    return [(one.pool, one.instance, one.gpu, _part_of_one(one.active), _number(one.hours)) for one in ordered[:_MOST]]


def _pod(pod: PodUsage, *, priced: bool) -> Sequence[str]:
    hours = map(_number, (pod.allocated, pod.used, pod.idle, pod.unmeasured))
    share = pod.resource.removeprefix("nvidia.com/")
    return (pod.pool, f"{pod.namespace}/{pod.pod}", pod.instance, share, *hours, *([_money(pod.idle_cost)] if priced else []))


def _part(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], of: int) -> Iterator[str]:
    if rows:
        yield from ("", title, table(header, rows))
    if of > len(rows):
        yield f"… and {of - len(rows)} more; --json has all."


def _number(hours: float | None) -> str:
    if hours is None:
        return "?"
    return "<0.1" if 0 < hours < _LEAST_SHOWN else f"{hours:.1f}"


def _money(cost: float | None) -> str:
    return "?" if cost is None else f"{cost:.2f}"


def _part_of_one(use: float | None) -> str:
    return "?" if use is None else f"{use:.0%}"
