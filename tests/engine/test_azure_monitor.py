"""Azure's Managed Prometheus and Grafana for an AKS cluster of the stack's own: refused together, made, changed, gone again.

No Azure was asked: the stand-in knows the resources, their rules as far as they were read, and the kinds of the cluster's add-on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.observing.objects import pod_monitor_spec, service_monitor_spec
from sandbox.system.files import read_json
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    at_night("the component and its policies are judged in seconds elsewhere"),
]

STACK: Final = """
config:
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
    tags: {team: ml}
  gpu-pools:sharing: {turns: {timeSlicing: {replicas: 4}}}
  gpu-pools:pools:
    - {name: nb, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: turns}
  gpu-pools:verification: {}
"""
ADMINS: Final = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
GROUP: Final = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/small"
TOLD: Final = f"{GROUP}/providers/Microsoft.Insights/actionGroups/on-call"
WORKSPACE: Final = f"{GROUP}/providers/Microsoft.Monitor/accounts/gpu-pools-small"
MONITORS: Final = "/apis/azmonitoring.coreos.com/v1/namespaces/gpu-operator"


def records(trial: Trial) -> dict[str, Any]:
    return read_json(trial.folder / "cloud" / "azure.json")


def observing(trial: Trial) -> dict[str, list[Any]]:
    """ARM's type -> the bodies of that type."""
    found: dict[str, list[Any]] = {}
    for record in records(trial)["observing"].values():
        found.setdefault(record["type"].partition("/")[2], []).append(record)
    return found


def test_the_target_comes_is_changed_and_goes(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    section: dict[str, Any] = {"to": "azure", "azure": {"grafanaAdmins": [ADMINS], "actionGroups": [TOLD]}}
    trial.edit(lambda config: config.update({"gpu-pools:observability": section}))
    trial.up().ok()
    plan, made = trial.plan(), observing(trial)
    (workspace,), (endpoint,), (rule,) = made["accounts"], made["dataCollectionEndpoints"], made["dataCollectionRules"]
    assert workspace["id"] == WORKSPACE
    assert workspace["body"]["tags"] == {"team": "ml"}
    # From the cluster to the workspace, and nothing of the way is missing.
    assert rule["body"]["dataCollectionEndpointId"] == endpoint["id"]
    assert rule["body"]["destinations"]["monitoringAccounts"][0]["accountResourceId"] == WORKSPACE
    (cluster,) = records(trial)["clusters"].values()
    assert cluster["body"]["azureMonitorProfile"]["metrics"]["enabled"] is True
    (association,) = made["dataCollectionRuleAssociations"]
    assert association["id"].startswith(f"{cluster['id']}/")
    assert association["body"]["dataCollectionRuleId"] == rule["id"]
    # Rules: all of them, in groups that Azure takes, of this cluster's series.
    groups = made["prometheusRuleGroups"]
    names = [one.get("record") or one["alert"] for group in groups for one in group["body"]["rules"]]
    assert "gpu_pools:pool_active:ratio" in names
    assert "GpuNodeNotAsDeclared" in names
    assert {group["body"]["clusterName"] for group in groups} == {"small"}
    assert {tuple(group["body"]["scopes"]) for group in groups} == {(WORKSPACE,)}
    alerts = [one for group in groups for one in group["body"]["rules"] if "alert" in one]
    assert all(one["actions"] == [{"actionGroupId": TOLD}] for one in alerts)
    # Grafana shows the workspace, may read it, and has its administrators.
    (grafana,) = made["grafana"]
    rights = {one["body"]["roleDefinitionId"].rpartition("/")[2]: one["body"] for one in records(trial)["assignments"].values()}
    reads, admins = rights["b0d8363b-8ddd-447d-831f-62ca05bff136"], rights["22926164-76b3-42b3-bc55-97df8dab3e41"]
    assert (reads["scope"], reads["principalType"]) == (WORKSPACE, "ServicePrincipal")
    assert (admins["scope"], admins["principalId"]) == (grafana["id"], ADMINS)
    # In the cluster: monitors of Azure's kinds, and nothing was pruned; no rules, which are Azure's.
    assert trial.get(f"{MONITORS}/servicemonitors/gpu-pools-dcgm-exporter")["spec"] == service_monitor_spec(plan)
    assert trial.get(f"{MONITORS}/podmonitors/gpu-pools-verifiers")["spec"] == pod_monitor_spec(plan)
    assert trial.api().get("/apis/monitoring.coreos.com/v1") is None
    trial.engine("preview", "--expect-no-changes").ok()
    trial.engine("refresh", "--yes", "--skip-preview").ok()
    # The cluster itself shows its pools then, as ever (components/aks/cluster.py); of all that observes nothing has changed.
    assert "gpu-observability" not in trial.engine("preview").ok().text

    # A change of pools changes constants in the rules, and what stays is what it was.
    section["azure"] = {"grafanaAdmins": [ADMINS]}
    trial.edit(lambda config: config.update({"gpu-pools:sharing": {"turns": {"timeSlicing": {"replicas": 2}}}}))
    trial.edit(lambda config: config.update({"gpu-pools:observability": section}))
    trial.up().ok()
    later = observing(trial)
    assert "actions" not in str(later["prometheusRuleGroups"])
    assert "vector(2)" in str(later["prometheusRuleGroups"])
    assert later["accounts"] == made["accounts"]

    section.pop("azure")
    trial.edit(lambda config: config.update({"gpu-pools:observability": section}))
    trial.up().ok()
    assert "grafana" not in observing(trial)

    trial.edit(lambda config: config.pop("gpu-pools:observability"))
    trial.up().ok()
    assert observing(trial) == {}
    assert records(trial)["assignments"] == {}


def test_logs_get_a_rule_of_their_own_that_goes_with_the_key(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    logs = f"{GROUP}/providers/Microsoft.OperationalInsights/workspaces/logs"
    trial.edit(lambda config: config["gpu-pools:cluster"].update(monitoring={"workspace": logs}))
    trial.up().ok()
    made = observing(trial)
    (rule,), (association,) = made["dataCollectionRules"], made["dataCollectionRuleAssociations"]
    assert rule["body"]["destinations"]["logAnalytics"][0]["workspaceResourceId"] == logs
    (cluster,) = records(trial)["clusters"].values()
    assert (
        association["id"]
        == f"{cluster['id']}/providers/Microsoft.Insights/dataCollectionRuleAssociations/ContainerInsightsExtension"
    )
    assert association["body"]["dataCollectionRuleId"] == rule["id"]
    trial.engine("preview", "--expect-no-changes").ok()
    trial.edit(lambda config: config["gpu-pools:cluster"].pop("monitoring"))
    trial.up().ok()
    assert not {"dataCollectionRules", "dataCollectionRuleAssociations"} & observing(trial).keys()
