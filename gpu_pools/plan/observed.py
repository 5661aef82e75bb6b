"""What goes with the section ``gpu-pools:observability``: an operator of this stack's own, and an exporter that is the plan's.

Rules and dashboards are written for what the plan has the exporter do. Another list of fields, a second monitor or an exporter
that is off would make them wrong without a word. An operator that is there already keeps its exporter as its owner has it, so
there is nothing to write rules for yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.rendering.dcgm_exporter import INTERVAL, RESOURCE_NAMES, VIRTUAL_GPUS
from gpu_pools.stack.adoption import OPERATOR
from gpu_pools.stack.observability import PATH
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

_VALUES: Final = "gpu-pools:operator.values.dcgmExporter"
#: Which rows there are and how they are keyed (NVIDIA/dcgm-exporter d5e5f510, pkg/cmd/app.go) -> where it is said instead.
_VARIABLES: Final[Mapping[str, str]] = {
    INTERVAL: f"{PATH}.intervalSeconds",
    VIRTUAL_GPUS: "the pools",
    RESOURCE_NAMES: "the pools",
    "DCGM_EXPORTER_COLLECTORS": "nothing: the rules need these fields",
    "DCGM_EXPORTER_CONFIGMAP_DATA": "nothing: the rules need these fields",
    "DCGM_EXPORTER_CONFIG_FILE": "nothing: the rules need these fields",
    "DCGM_EXPORTER_KUBERNETES": "nothing: without it no value has a pod",
    "DCGM_EXPORTER_DEVICES_STR": "nothing: with other devices a GPU and its MIG instances would both count",
    "DCGM_EXPORTER_USE_OLD_NAMESPACE": "nothing: the rules need the labels' newer names",
}
#: The exporter's options for the same, which win over its variables (the same file).
_OPTIONS: Final[Mapping[str, str]] = {
    "-c": INTERVAL,
    "--collect-interval": INTERVAL,
    "--kubernetes-virtual-gpus": VIRTUAL_GPUS,
    "-f": "DCGM_EXPORTER_COLLECTORS",
    "--collectors": "DCGM_EXPORTER_COLLECTORS",
    "-m": "DCGM_EXPORTER_CONFIGMAP_DATA",
    "--configmap-data": "DCGM_EXPORTER_CONFIGMAP_DATA",
    "-k": "DCGM_EXPORTER_KUBERNETES",
    "--kubernetes": "DCGM_EXPORTER_KUBERNETES",
    "-d": "DCGM_EXPORTER_DEVICES_STR",
    "--devices": "DCGM_EXPORTER_DEVICES_STR",
    "-o": "DCGM_EXPORTER_USE_OLD_NAMESPACE",
    "--use-old-namespace": "DCGM_EXPORTER_USE_OLD_NAMESPACE",
}
#: (value of the chart, what must not stand there, why).
_KEYS: Final[tuple[tuple[str, object, str], ...]] = (
    ("enabled", False, "there would be no exporter to read"),
    ("hostPID", False, "the exporter finds the processes of pods by it"),
    ("enablePodUID", False, "the exporter finds pods by it"),
)


def check_observability(settings: Settings, problems: Problems) -> None:
    """Problems of the section with the rest of the stack."""
    if not settings.observability.enabled:
        return
    if settings.operator.adopted:
        problems.add(
            PATH,
            f"needs an operator of this stack's own, and {OPERATOR} is false: its owner decides what its exporter does",
            allowed="the section beside an operator that the stack installs",
            remedy="Leave the section out; the owner's metrics stay as they are.",
        )
    if settings.observability.azure_reads:
        _check_azure(settings, problems)
    exporter = settings.operator.chart.values.get("dcgmExporter")
    if isinstance(exporter, dict):
        for path, value, why in _contradictions(exporter):
            problems.add(
                f"{_VALUES}{path}",
                f"{show(value)} goes against {PATH}: {why}",
                allowed="what the section makes of it",
                remedy=f"Take it out, or leave {PATH} out and configure the exporter by hand.",
            )


def _check_azure(settings: Settings, problems: Problems) -> None:
    """What only AKS has, and what of it is a cluster's own."""
    cluster, azure = settings.cluster, settings.observability.azure
    if not cluster.has_azure_monitor:
        problems.add(
            f"{PATH}.to",
            f"azure, and the platform is {cluster.platform}: the add-on that reads for it is AKS's",
            allowed="prometheus, kube-prometheus-stack or none on this platform",
            remedy="Write `to: kube-prometheus-stack`, or `to: prometheus` where the cluster has a Prometheus Operator.",
        )
        return
    if cluster.was_there and not (azure.workspace and azure.location):
        problems.add(
            f"{PATH}.azure",
            "names no workspace with its location, and where metrics of a cluster that is there go its owner says",
            allowed="workspace and location of where the cluster's metrics go",
            remedy="Name both here. Where the cluster has none: `az aks update --resource-group GROUP --name NAME "
            "--enable-azure-monitor-metrics --azure-monitor-workspace-resource-id ID`.",
        )
    monitoring = cast("AksSettings", cluster).options.asked.monitoring
    if monitoring is not None and monitoring.metrics is False:
        problems.add(
            "gpu-pools:cluster.monitoring.metrics",
            f"false goes against {PATH}.to: azure: the add-on brings the kinds of its monitors",
            allowed="true, or left out",
            remedy="Leave it out.",
        )


def _contradictions(exporter: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """(path below dcgmExporter, value, why it contradicts the section)."""
    for key, wrong, why in _KEYS:
        if key in exporter and exporter[key] is wrong:
            yield f".{key}", wrong, why
    if exporter.get("config"):
        yield ".config", exporter["config"], "the rules need the fields of the stack's own list"
    monitor = exporter.get("serviceMonitor")
    if isinstance(monitor, dict) and monitor.get("enabled") is True:
        yield ".serviceMonitor.enabled", True, "beside the stack's own ServiceMonitor everything would be scraped twice"
    env = exporter.get("env")
    for index, entry in enumerate(env if isinstance(env, list) else []):
        if isinstance(entry, dict) and entry.get("name") in _VARIABLES:
            yield f".env[{index}]", entry["name"], f"it is decided by {_VARIABLES[entry['name']]}"
    args = exporter.get("args")
    for index, argument in enumerate(args if isinstance(args, list) else []):
        variable = _OPTIONS.get(_to_option(argument))
        if variable:
            yield f".args[{index}]", argument, f"it is decided by {_VARIABLES[variable]}"


def _to_option(argument: object) -> str:
    """Return the name of an option as `_OPTIONS` has it: urfave/cli takes one dash or two."""
    name = str(argument).partition("=")[0]
    dashes = "-" if len(name.lstrip("-")) == 1 else "--"
    return dashes + name.lstrip("-") if name.startswith("-") else ""
