"""The objects for a Prometheus Operator and a Grafana that a cluster has: monitors, PrometheusRule, dashboards.

Read in prometheus-operator v0.93.0 (generateServiceMonitorConfig in pkg/prometheus/promcfg.go, and the definitions of both
kinds): our relabelings come after its own. They make `instance` the node's name and `gpu_pool` the label of the node's pool. They
take away the target's pod, namespace and container, which are the exporter's: then the labels of that name in its rows, which
are those of the pods with GPUs, stay as they are. For the pool's label Prometheus must be allowed to list and watch nodes.

A pod whose init containers still wait for the driver has an address already; it is scraped once it runs. The verifiers are
scraped as pods, since they have no Service; their pods carry the pool's label themselves (podmonitor_types.go at 053d84e6: pods
that wait are targets, too, unless they are left out).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.observing.alerts import alert_group
from gpu_pools.observing.dashboards import dashboards
from gpu_pools.observing.rules import recording_group
from gpu_pools.observing.series import JOB, POOL
from gpu_pools.observing.shares import claimed_pools
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan

API_VERSION: Final = "monitoring.coreos.com/v1"
MONITOR: Final = "gpu-pools-dcgm-exporter"
VERIFIERS: Final = "gpu-pools-verifiers"
RULES: Final = "gpu-pools"
DASHBOARDS: Final = "gpu-pools-dashboard"
#: The port of the exporter's Service (gpu-operator v26.7.0, assets/state-dcgm-exporter/0400_service.yaml).
_PORT: Final = "gpu-metrics"
_TARGET_LABELS: Final = "pod|namespace|container|service|endpoint"
_POOL_META: Final = re.sub(r"[^A-Za-z0-9_]", "_", POOL_LABEL)


def service_monitor_spec(plan: Plan) -> dict[str, Any]:
    """Scrapes the operator's exporter, once for each node."""
    return {
        "jobLabel": "app",
        "selector": {"matchLabels": {"app": JOB}},
        "attachMetadata": {"node": True},
        "endpoints": [_scraped(plan, _PORT, f"__meta_kubernetes_node_label_{_POOL_META}")],
    }


def pod_monitor_spec(plan: Plan) -> dict[str, Any]:
    """Scrapes the verifiers, once for each node; `job` is set here, since a PodMonitor's own has the monitor's name in it."""
    job = {"action": "replace", "targetLabel": "job", "replacement": VERIFIER_APP}
    return {
        "namespaceSelector": {"matchNames": [VERIFIER_NAMESPACE]},
        "selector": {"matchLabels": {"app.kubernetes.io/name": VERIFIER_APP}},
        "podMetricsEndpoints": [_scraped(plan, "http", f"__meta_kubernetes_pod_label_{_POOL_META}", job)],
    }


def _scraped(plan: Plan, port: str, pool: str, *more: Mapping[str, str]) -> dict[str, Any]:
    seconds = plan.settings.observability.interval_seconds
    return {
        "port": port,
        "path": "/metrics",
        "interval": f"{seconds}s",
        "scrapeTimeout": f"{min(seconds, 10)}s",
        "honorLabels": False,
        "relabelings": [
            {"action": "keep", "sourceLabels": ["__meta_kubernetes_pod_phase"], "regex": "Running"},
            {"action": "replace", "sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"},
            {"action": "replace", "sourceLabels": [pool], "targetLabel": POOL},
            *more,
            {"action": "labeldrop", "regex": _TARGET_LABELS},
        ],
    }


def rule_groups(plan: Plan) -> list[dict[str, Any]]:
    """All recording rules, then all alerts; those on the verifiers only where there are some."""
    settings = plan.settings
    verifiers = settings.verification if settings.verification.enabled else None
    return [recording_group(plan), alert_group(settings.observability.runbooks, verifiers, claimed_pools(plan))]


def prometheus_rule_spec(plan: Plan) -> dict[str, Any]:
    """The rules; what promtool reads as a file is the same."""
    return {"groups": rule_groups(plan)}


def dashboard_config_maps(plan: Plan) -> Mapping[str, Mapping[str, str]]:
    """Name of a ConfigMap -> its data: a dashboard each."""
    return {
        f"{DASHBOARDS}-{name}": {f"gpu-pools-{name}.json": json.dumps(board, indent=1, sort_keys=True) + "\n"}
        for name, board in dashboards(plan).items()
    }
