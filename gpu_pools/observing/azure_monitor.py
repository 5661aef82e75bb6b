"""What Azure Monitor gets of a plan: names, a collection rule, and rule groups within its limits. Pure.

Read in Azure/prometheus-collector at 39583fd5: AddonBicepTemplate (what makes an add-on's metrics arrive: endpoint, rule,
association, the cluster's profile; Grafana's integration, the roles), tools/az-prom-rules-converter (the schema of a rule
group: at most 20 rules, one scope, at most 10 labels, texts of at most 1,024 characters, severities 0 to 4), and the add-on's
definitions of azmonitoring.coreos.com/v1. An interval is 1 to 15 minutes (azure-native 3.29, PrometheusRuleGroup).

What differs from a Prometheus' own rules: groups are evaluated by themselves, so that a rule reads what one of another group
recorded a minute ago. An alert cannot be kept (`keep_firing_for`); it is resolved as long after it went instead. Several
clusters may share a workspace, so each recorded series and each alert says its cluster, and each group reads its cluster's
series only.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.observing.objects import rule_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.plan.planned import Plan
    from gpu_pools.stack.azure_monitor import AzureMonitorSettings

API_VERSION: Final = "azmonitoring.coreos.com/v1"
#: Built-in roles, by the id that they have in all subscriptions (prometheus-collector, FullAzureMonitorMetricsProfile.bicep).
READS_METRICS: Final = "b0d8363b-8ddd-447d-831f-62ca05bff136"
GRAFANA_ADMIN: Final = "22926164-76b3-42b3-bc55-97df8dab3e41"
MOST_RULES: Final = 20
LONGEST_TEXT: Final = 1024
_INTERVAL: Final = "PT1M"
_ACCOUNT: Final = "MonitoringAccount1"
_STREAM: Final = "Microsoft-PrometheusMetrics"
#: Of the logs: the name of their association (terraform-azurerm-aks#607, terraform-provider-azurerm#23510).
LOGS_ASSOCIATION: Final = "ContainerInsightsExtension"
_LOGS: Final = "Microsoft-ContainerInsights-Group-Default"
_LOGS_WORKSPACE: Final = "ciworkspace"
#: Azure's severities: 0 critical, 1 error, 2 warning, 3 informational, 4 verbose.
_SEVERITIES: Final[Mapping[str, int]] = {"critical": 0, "warning": 2, "info": 3}
_RESOLVED_AFTER: Final = "10m"
#: An endpoint's name is the shortest of all (prometheus-collector cuts it at 44).
_LONGEST_NAME: Final = 44


def resource_name(cluster: str) -> str:
    """Of workspace, endpoint, rule and association, by the cluster's name."""
    return ("gpu-pools-" + re.sub(r"[^A-Za-z0-9-]", "-", cluster))[:_LONGEST_NAME].rstrip("-")


def grafana_name(group: str, cluster: str) -> str:
    """Of a Managed Grafana: short, since 23 characters are the most, and another for each cluster."""
    return f"gpu-pools-{hashlib.sha256(f'{group}/{cluster}'.lower().encode()).hexdigest()[:8]}"


def collection_rule(workspace: object) -> dict[str, Any]:
    """From the add-on to the workspace.

    Args:
        workspace: its id, or an Output of it.
    """
    return {
        "data_sources": {
            "prometheusForwarder": [{"name": "PrometheusDataSource", "streams": [_STREAM], "labelIncludeFilter": {}}],
        },
        "destinations": {"monitoringAccounts": [{"accountResourceId": workspace, "name": _ACCOUNT}]},
        "data_flows": [{"streams": [_STREAM], "destinations": [_ACCOUNT]}],
    }


def logs_rule(workspace: object) -> dict[str, Any]:
    """From the containers' logs, as the add-on omsagent reads them, to a Log Analytics workspace.

    The add-on with `useAADAuth` sends nothing without it. Sources: terraform-provider-azurerm#23510 and
    Azure/terraform-azurerm-aks#607; the names of stream and extension are the same in each template that was found.

    Args:
        workspace: its id, or an Output of it.
    """
    settings = {"dataCollectionSettings": {"interval": "1m", "namespaceFilteringMode": "Off", "enableContainerLogV2": True}}
    extension = {
        "name": LOGS_ASSOCIATION,
        "extensionName": "ContainerInsights",
        "streams": [_LOGS],
        "extensionSettings": settings,
    }
    return {
        "data_sources": {"extensions": [extension]},
        "destinations": {"logAnalytics": [{"workspaceResourceId": workspace, "name": _LOGS_WORKSPACE}]},
        "data_flows": [{"streams": [_LOGS], "destinations": [_LOGS_WORKSPACE]}],
    }


def azure_rule_groups(plan: Plan, cluster: str) -> Mapping[str, dict[str, Any]]:
    """Name -> what a rule group says, but for where it is.

    Args:
        plan: of the stack.
        cluster: its name in Azure, which the add-on puts on each series.
    """
    found: dict[str, dict[str, Any]] = {}
    for group in rule_groups(plan):
        rules = [_rule(rule, cluster, plan.settings.observability.azure) for rule in group["rules"]]
        parts = [rules[start : start + MOST_RULES] for start in range(0, len(rules), MOST_RULES)]
        for number, part in enumerate(parts, 1):
            name = f"{group['name'].replace('.', '-')}-{number}-{resource_name(cluster).removeprefix('gpu-pools-')}"
            found[name] = {"cluster_name": cluster, "interval": _INTERVAL, "enabled": True, "rules": part}
    return found


def _rule(rule: Mapping[str, Any], cluster: str, settings: AzureMonitorSettings) -> dict[str, Any]:
    labels = {**rule.get("labels", {}), "cluster": cluster}
    if "record" in rule:
        return {"record": rule["record"], "expression": rule["expr"], "labels": labels, "enabled": True}
    return {
        "alert": rule["alert"],
        "expression": rule["expr"],
        "for": _iso(rule.get("for", "0s")),
        "severity": _SEVERITIES[labels["severity"]],
        "labels": labels,
        "annotations": dict(rule["annotations"]),
        "resolveConfiguration": {"autoResolved": True, "timeToResolve": _iso(rule.get("keep_firing_for", _RESOLVED_AFTER))},
        "enabled": True,
        **({"actions": [{"actionGroupId": one} for one in settings.action_groups]} if settings.action_groups else {}),
    }


def _iso(duration: str) -> str:
    """`PT1H30M` of `1h30m`."""
    return "PT" + "".join(f"{number}{unit.upper()}" for number, unit in _parts(duration))


def _parts(duration: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"(\d+)([hms])", duration)
