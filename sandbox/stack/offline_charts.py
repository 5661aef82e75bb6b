"""The charts that a real Kubernetes plugin gets from this machine, where a chart's repository cannot be reached.

They are the sandbox's stand-ins, and the real chart of NVIDIA's DRA driver out of its Go module. The stand-in of that plugin
falls back on them by itself (sandbox.providers.chart_sources). A real one knows nothing of them: for it the engine's copy of the
stack file names their folders. Never the user's own file, and never another version than was asked for: that would be another
set of values and defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.stack.settings import NAMESPACE
from sandbox.providers.chart_sources import ChartRequest, answers, module_chart, stand_in_of
from sandbox.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from gpu_pools.stack.charts import ChartSettings
    from sandbox.stack.state import Sandbox
    from sandbox.system.progress import Progress

_NO_WRAPPING: Final = 1 << 20


def missing_charts(plan: Plan, reachable: Callable[[str], bool] = answers) -> dict[str, Path]:
    """Where the stack file declares a chart -> folder of its stand-in, of the charts that cannot be had.

    Args:
        plan: of the stack.
        reachable: whether anything answers at an address.
    """
    settings = plan.settings
    wanted = {"operator": (settings.operator.chart, settings.operator.adopted)}
    wanted["nodeFeatureDiscovery"] = (settings.nfd.chart, settings.nfd.adopted)
    wanted["observability.prometheusStack"] = (settings.observability.prometheus_stack, not settings.observability.installs)
    wanted["draDriver"] = (settings.dra_driver.chart, plan.dra is None)
    found = {section: _stand_in(chart, reachable) for section, (chart, adopted) in wanted.items() if not adopted}
    return {section: folder for section, folder in found.items() if folder is not None}


def _stand_in(chart: ChartSettings, reachable: Callable[[str], bool]) -> Path | None:
    address = chart.source.repository or chart.source.oci
    if address is None or reachable(address):
        return None
    request = ChartRequest(chart.name, chart.version, address)
    return module_chart(request) or stand_in_of(request)


def with_charts(text: str, charts: Mapping[str, Path]) -> str:
    """A stack file whose sections name folders for their charts.

    Args:
        text: of the stack file; an encrypted section stays as it is.
        charts: section, or a key of one after a dot -> folder.
    """
    document: dict[str, Any] = yaml.safe_load(text)
    config = document.setdefault("config", {})
    for place, folder in charts.items():
        section, _, inner = place.partition(".")
        key, chart = f"{NAMESPACE}:{section}", {"chart": {"path": str(folder)}}
        given = config.get(key) or {}
        if set(given) != {"secure"}:
            config[key] = {**given, **({inner: {**(given.get(inner) or {}), **chart}} if inner else chart)}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_NO_WRAPPING)


def use(sandbox: Sandbox, plan: Plan, progress: Progress) -> None:
    """Have the engine's copy of the stack file name the stand-ins of the charts that cannot be had."""
    with progress.step("Looking for the charts' repositories"):
        charts = missing_charts(plan)
        if charts:
            write_atomic(sandbox.config_file, with_charts(sandbox.config_file.read_text(encoding="utf-8"), charts))
