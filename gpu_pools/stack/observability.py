"""The section ``gpu-pools:observability``: whether GPUs are measured, how often, and who is to read it.

Only settings. What the exporter collects is gpu_pools/rendering/dcgm_exporter.py, what Prometheus and Grafana get is
gpu_pools/observing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import Kind, Row, flag, one_of, read, read_inner, row, text, whole_number
from gpu_pools.reading.section import Section
from gpu_pools.stack.azure_monitor import AzureMonitorSettings
from gpu_pools.stack.charts import ChartSection, ChartSettings, default_chart, parse_chart
from gpu_pools.stack.kubernetes_names import check_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.text.errors import Problems

PATH: Final = "gpu-pools:observability"
PROMETHEUS: Final = "prometheus"
STACK: Final = "kube-prometheus-stack"
AZURE: Final = "azure"
NONE: Final = "none"
#: What the exporter itself collects at, where nobody says it (DCGM_EXPORTER_INTERVAL).
INTERVAL_SECONDS: Final = 30
#: Prometheus forgets a series after five minutes, and a rate over five minutes needs two values.
_LONGEST_INTERVAL: Final = 120
_SHORTEST_INTERVAL: Final = 10
#: What the sidecar of Grafana's own chart, and so of kube-prometheus-stack, looks for.
DASHBOARD_LABELS: Final[Mapping[str, str]] = {"grafana_dashboard": "1"}


_SELECTED: Final = ("serviceMonitor", "podMonitor", "rule")
#: Values of kube-prometheus-stack that are not the user's -> what decides them.
_DERIVED: Final[Mapping[str, str]] = {
    **{f"prometheus.prometheusSpec.{kind}Selector": f"{PATH}: its own objects are among those" for kind in _SELECTED},
    **{
        f"prometheus.prometheusSpec.{kind}SelectorNilUsesHelmValues": f"{PATH}: its own objects have no such label"
        for kind in _SELECTED
    },
    "prometheus.enabled": "nothing: without Prometheus nobody reads",
    "prometheusOperator.enabled": "nothing: without the operator nobody reads monitors and rules",
    "crds.enabled": "nothing: monitors and rules need their definitions",
    "namespaceOverride": "nothing: the chart is in a namespace of its own",
    "grafana.rbac.namespaced": "nothing: else Grafana may read every Secret of the cluster",
    "grafana.adminPassword": "the chart, which makes one up; for one of your own name a Secret in grafana.admin.existingSecret",
}


def _read_labels(section: Section, one: Row) -> dict[str, str] | None:
    if not section.given(one.key):
        return None
    labels = section.texts(one.key)
    check_labels(labels, section.at(one.key), section.problems)
    return labels


def _read_azure(section: Section, one: Row) -> AzureMonitorSettings | None:
    found = read_inner(AzureMonitorSettings, section, one, "a mapping with workspace, location, grafanaAdmins, actionGroups")
    if found is not None:
        _check_to(section, one.key, AZURE, "what to make of Azure Monitor")
    return found


def _check_to(section: Section, key: str, to: str, what: str) -> None:
    if section.raw("to") != to:
        section.problems.add(
            section.at(key),
            f"says {what}, and `to` is not {to}",
            allowed=f"`to: {to}` beside it",
            remedy=f"Write `to: {to}`, or leave this out.",
        )


def _read_stack_chart(section: Section, one: Row) -> ChartSettings | None:
    written = section.raw(one.key)
    if one.key not in section.written():
        return None
    what = "a mapping with version, chart, values, valuesFile"
    within = ChartSection(written, section.at(one.key), section.problems, STACK, what=what)
    chart = parse_chart(within, _DERIVED)
    within.finish()
    _check_to(section, one.key, STACK, "what to install")
    return chart


@dataclass(frozen=True)
class ObservabilitySettings:
    """A stack file's section `observability`: what is measured of the GPUs, and who reads it."""

    enabled: bool = False
    to: str = row(
        "prometheus, which the cluster has; kube-prometheus-stack, which is installed; azure, on AKS; none: nobody reads.",
        one_of((PROMETHEUS, STACK, AZURE, NONE)),
        PROMETHEUS,
        doc="Who reads the metrics. `prometheus`: a Prometheus Operator that the cluster has gets a ServiceMonitor and a "
        "PrometheusRule (`monitoring.coreos.com/v1`). `kube-prometheus-stack`: the stack "
        "[installs](observability.md#a-prometheus-of-the-stacks-own) Prometheus and Grafana, too. "
        "`azure`: on AKS [Managed Prometheus and Grafana](observability.md#azure-monitor). "
        "`none`: the exporter alone is configured.",
    )
    prometheus_stack: ChartSettings = row(
        "Of the chart kube-prometheus-stack.",
        Kind(_read_stack_chart, "PrometheusStackArgs"),
        default_chart(STACK),
        doc="With `to: kube-prometheus-stack`: `version`, `chart`, `values`, `valuesFile`, each as in "
        "[`gpu-pools:operator`](#gpu-poolsoperator-gpu-poolsnodefeaturediscovery), of that chart.",
    )
    azure: AzureMonitorSettings = row(
        "Of Azure Monitor.",
        Kind(_read_azure, AzureMonitorSettings),
        AzureMonitorSettings(),
        doc="With `to: azure`: the resources of Azure Monitor that exist already, and who can read the metrics.",
    )
    interval_seconds: int = row(
        "Between two values, of the exporter as of the scrapes; 30 by default.",
        whole_number(_SHORTEST_INTERVAL, _LONGEST_INTERVAL),
        INTERVAL_SECONDS,
        doc="Seconds between two values: the exporter collects and Prometheus scrapes at this interval.",
    )
    labels: Mapping[str, str] = row(
        "Of the monitors and the PrometheusRule, by which a Prometheus selects them.",
        Kind(_read_labels, "dict[str, str]"),
        {},
        doc="Labels of the monitors and the PrometheusRule, by which a Prometheus selects them; kube-prometheus-stack "
        "selects `release: <its release>` by default.",
    )
    runbooks: str = row(
        "URL of a copy of docs/runbooks.",
        text(r"https?://[^\s]+", "a URL that begins with https:// or http://", "Write the folder's URL."),
        "",
        doc="URL of a copy of [docs/runbooks](../runbooks): each alert then has `runbook_url`. Left out, it names the file only.",
    )
    dashboards: bool = row("Whether there are Grafana dashboards, as ConfigMaps; true by default.", flag(), default=True)
    dashboard_labels: Mapping[str, str] = row(
        'Of these ConfigMaps; grafana_dashboard: "1" by default.',
        Kind(_read_labels, "dict[str, str]"),
        DASHBOARD_LABELS,
        doc='Labels of these ConfigMaps, by which Grafana\'s sidecar selects them; `grafana_dashboard: "1"` by default.',
    )

    @property
    def monitored(self) -> bool:
        """Whether a Prometheus operator gets objects."""
        return self.enabled and self.to in (PROMETHEUS, STACK)

    @property
    def azure_reads(self) -> bool:
        """Whether Azure's Managed Prometheus gets them."""
        return self.enabled and self.to == AZURE

    @property
    def installs(self) -> bool:
        """Whether the stack installs that operator, with a Prometheus and a Grafana."""
        return self.enabled and self.to == STACK


def parse_observability(value: object, path: str, problems: Problems) -> ObservabilitySettings:
    """The section; absent means that nothing is observed and nothing changes, an empty one that all pools are."""
    if value is None:
        return ObservabilitySettings()
    section = Section(value, path, problems)
    found = read(ObservabilitySettings, section, enabled=True)
    section.finish()
    return found
