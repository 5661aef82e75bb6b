"""What follows from the version of the operator's chart that a stack has chosen, besides what its operands can do.

The last four minor versions are known (gpu_pools/stack/charts); for another one there is a file of the user's own. Steps between
versions are not judged here: a plan knows one version. What NVIDIA supports of them docs/reference/stack.md says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.hardware.operands import documented_kubernetes, parse_version, version_text
from gpu_pools.stack.doubtful_values import driver_of_nobody, strategy_without_cdi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.stack.settings import Settings

#: The chart's value by which the nodes of a cluster that stays are cleaned (gpu_pools/rendering/node_cleanup.py).
HOOKS = "extraObjects"


def chart_warnings(settings: Settings, driver: str) -> Iterator[str]:
    """What of the chosen chart, and of the values for it, works otherwise than it seems, or cannot be known.

    Args:
        settings: the stack's.
        driver: who installs the driver and the toolkit.
    """
    chart = settings.operator.chart
    if settings.operator.adopted:
        return
    if chart.own:
        yield (
            f"gpu-operator {chart.version} is known by its default values alone: whether it means by them what the plan means "
            "cannot be checked before the deploy"
        )
    if settings.cluster.was_there and HOOKS not in chart.keys:
        yield (
            f"gpu-operator {chart.version} has no value {HOOKS}, so nothing cleans the nodes when the stack goes: labels and "
            "annotations of the operator stay on them (W48)"
        )
    yield from _kubernetes(settings)
    if driver == "operator":
        yield from _doubtful(settings)


def _doubtful(settings: Settings) -> Iterator[str]:
    """Values of the user's own that leave pods, or nodes, without a driver (W93, W94)."""
    chart = settings.operator.chart
    found = [strategy_without_cdi(chart.values, parse_version(chart.version)), driver_of_nobody(chart.values)]
    for one in found:
        if one is not None:
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one.place)
            yield f"gpu-pools:operator.values{place}: {one.what}: {one.why}. {one.remedy}"


def _kubernetes(settings: Settings) -> Iterator[str]:
    chart, cluster = settings.operator.chart, settings.cluster
    documented = documented_kubernetes(chart.version)
    version = parse_version(cluster.kubernetes_version or "")
    if documented is None or version is None or documented[0] <= version[:2] <= documented[1]:
        return
    oldest, newest = map(version_text, documented)
    has = version_text(version[:2])
    yield f"gpu-operator {chart.version} is documented for Kubernetes {oldest} to {newest}, and the cluster has {has}"
