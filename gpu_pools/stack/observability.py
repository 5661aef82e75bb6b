"""The section ``gpu-pools:observability``: whether GPUs are measured, how often, and who is to read it.

Only settings. What the exporter collects is gpu_pools/rendering/dcgm_exporter.py, what Prometheus and Grafana get is
gpu_pools/observing. Not here: Azure's Managed Prometheus, and a Prometheus that the stack would install itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.stack.fields import Kind, Row, flag, one_of, read, row, text, whole_number
from gpu_pools.stack.kubernetes_names import check_labels
from gpu_pools.stack.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.text.errors import Problems

PATH: Final = "gpu-pools:observability"
PROMETHEUS: Final = "prometheus"
NONE: Final = "none"
#: What the exporter itself collects at, where nobody says it (DCGM_EXPORTER_INTERVAL).
INTERVAL_SECONDS: Final = 30
#: Prometheus forgets a series after five minutes, and a rate over five minutes needs two values.
_LONGEST_INTERVAL: Final = 120
_SHORTEST_INTERVAL: Final = 10
#: What the sidecar of Grafana's own chart, and so of kube-prometheus-stack, looks for.
DASHBOARD_LABELS: Final[Mapping[str, str]] = {"grafana_dashboard": "1"}


def _labels() -> Kind:
    return Kind(_read_labels, "dict[str, str]")


def _read_labels(section: Section, one: Row) -> dict[str, str] | None:
    if not section.given(one.key):
        return None
    labels = section.texts(one.key)
    check_labels(labels, section.at(one.key), section.problems)
    return labels


@dataclass(frozen=True)
class ObservabilitySettings:
    """How GPUs are observed.

    Attributes:
        enabled: whether they are.
        to: who reads it: a Prometheus operator that the cluster has, or nobody.
        interval_seconds: between two values, of the exporter as of the scrapes.
        labels: of the monitors and the PrometheusRule.
        runbooks: where docs/runbooks can be read; empty: alerts name the file alone.
        dashboards: whether there are ConfigMaps of dashboards.
        dashboard_labels: of these ConfigMaps.
    """

    enabled: bool = False
    to: str = row(
        "Who reads the metrics: prometheus, an operator that the cluster has (monitoring.coreos.com), or none.",
        one_of((PROMETHEUS, NONE)),
        PROMETHEUS,
        doc="Who reads the metrics. `prometheus`: a Prometheus Operator that the cluster has gets a ServiceMonitor and a "
        "PrometheusRule (`monitoring.coreos.com/v1`). `none`: the exporter alone is configured.",
    )
    interval_seconds: int = row(
        "Seconds between two values, of the exporter as of the scrapes.",
        whole_number(_SHORTEST_INTERVAL, _LONGEST_INTERVAL),
        INTERVAL_SECONDS,
        doc="Between two values: the exporter collects and Prometheus scrapes at this interval.",
    )
    labels: Mapping[str, str] = row(
        "Labels of the monitors and the PrometheusRule, by which a Prometheus selects them.",
        _labels(),
        {},
        doc="Labels of the monitors and the PrometheusRule, by which a Prometheus selects them; kube-prometheus-stack "
        "selects `release: <its release>` by default.",
    )
    runbooks: str = row(
        "URL of the folder docs/runbooks, where people can read it; alerts then have a link.",
        text(r"https?://[^\s]+", "a URL that begins with https:// or http://", "Write the folder's URL."),
        "",
        doc="URL of a copy of [docs/runbooks](../runbooks): each alert then has `runbook_url`. Left out, it names the file only.",
    )
    dashboards: bool = row(
        "Whether Grafana dashboards are made, as ConfigMaps.",
        flag(),
        default=True,
        doc="Whether there are Grafana dashboards, as ConfigMaps; `true` by default.",
    )
    dashboard_labels: Mapping[str, str] = row(
        "Labels of those ConfigMaps, by which Grafana's sidecar selects them.",
        _labels(),
        DASHBOARD_LABELS,
        doc='Labels of these ConfigMaps, by which Grafana\'s sidecar selects them; `grafana_dashboard: "1"` by default.',
    )

    @property
    def monitored(self) -> bool:
        """Whether a Prometheus operator gets objects."""
        return self.enabled and self.to == PROMETHEUS


def parse_observability(value: object, path: str, problems: Problems) -> ObservabilitySettings:
    """The section; absent means that nothing is observed and nothing changes, an empty one that all pools are."""
    if value is None:
        return ObservabilitySettings()
    section = Section(value, path, problems)
    found = read(ObservabilitySettings, section, enabled=True)
    section.finish()
    return found
