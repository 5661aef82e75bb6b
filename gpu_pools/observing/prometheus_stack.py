"""Values of the chart kube-prometheus-stack: a Prometheus that reads this stack's objects, a Grafana that shows its dashboards.

Read in prometheus-community/helm-charts at cf408a29 (charts/kube-prometheus-stack 88.5.3) and grafana-community/helm-charts at
864f7794 (charts/grafana 12.11.1). What is not here is as the chart has it: requests and limits, retention, its own rules and
dashboards, an Alertmanager that sends nothing.

By default the chart's Prometheus takes objects with the label of its release from all namespaces. The GPU operator makes a
ServiceMonitor of its own, without that label, so here the namespace selects: whoever may write into another one has nothing
scraped. By default Grafana may read all ConfigMaps and Secrets of the cluster, for its sidecar. Here it reads those of its own
namespace, and that is where the dashboards are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.stack.charts import merge_values
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan
    from gpu_pools.stack.registry import RegistrySettings

NAMESPACE: Final = "monitoring"
#: The chart finds them as pods or Services of the cluster; AKS runs them where nobody sees them.
_CONTROL_PLANE: Final = ("kubeControllerManager", "kubeScheduler", "kubeEtcd", "kubeProxy")


def prometheus_stack_values(plan: Plan) -> dict[str, Any]:
    """What the chart gets; the user's own values were merged last."""
    settings = plan.settings
    values = {**_read_by_prometheus(), **_of_registry(settings.registry)}
    values["grafana"] = _grafana(dict(settings.observability.dashboard_labels))
    if settings.cluster.hides_control_plane:
        values |= {part: {"enabled": False} for part in _CONTROL_PLANE}
    return merge_values(values, settings.observability.prometheus_stack.values)


def _read_by_prometheus() -> dict[str, Any]:
    names = {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [NAMESPACE, OPERATOR_NAMESPACE]}]
    }
    spec: dict[str, Any] = {}
    for kind in ("serviceMonitor", "podMonitor", "rule"):
        # Else an empty selector means the label of the release.
        spec |= {f"{kind}SelectorNilUsesHelmValues": False, f"{kind}NamespaceSelector": names}
    for kind in ("probe", "scrapeConfig"):
        spec[f"{kind}NamespaceSelector"] = names
    return {"prometheus": {"prometheusSpec": spec}}


def _grafana(labels: dict[str, str]) -> dict[str, Any]:
    """The sidecar selects by one label; with more than one the first by name does."""
    dashboards: dict[str, Any] = {"searchNamespace": ""}
    if labels:
        key = min(labels)
        dashboards |= {"label": key, "labelValue": labels[key]}
    return {"rbac": {"namespaced": True}, "sidecar": {"dashboards": dashboards}}


def _of_registry(registry: RegistrySettings) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if registry.mirror:
        # Every chart in it puts this in the place of the image's host, as a mirror keeps an image's path.
        values["imageRegistry"] = registry.mirror
    if registry.pull_secret:
        values["imagePullSecrets"] = registry.pull_secrets
    return {"global": values} if values else {}
