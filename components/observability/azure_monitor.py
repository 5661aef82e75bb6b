"""What Azure Monitor needs besides the cluster's add-ons: a workspace, the way to it, rule groups, a Managed Grafana, logs' rule.

The way (endpoint, rule, association) is made for a cluster of the stack's own only: of one that is there its owner has switched
the metrics on, by a command that makes them, and a second way would bring every value twice. Grafana's rights are role
assignments: to read the workspace, as what it is; to administer it, as the groups that the stack names. No dashboard is put in.
"""

import uuid
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_azure_native import alertsmanagement, authorization, dashboard, monitor

from gpu_pools.components.engine.outputs import put_back
from gpu_pools.observing.azure_monitor import (
    GRAFANA_ADMIN,
    LOGS_ASSOCIATION,
    READS_METRICS,
    azure_rule_groups,
    collection_rule,
    grafana_name,
    logs_rule,
    resource_name,
)
from gpu_pools.plan.planned import Plan


@dataclass(frozen=True)
class AzureCluster:
    """Of the cluster.

    Attributes:
        name: in Azure.
        group: its resource group.
        id: its ARM id, where it is the stack's own; None: it was there.
        location: the workspace's region.
        tags: of all that is made.
    """

    name: str
    group: pulumi.Input[str]
    id: pulumi.Input[str] | None
    location: str
    tags: dict[str, pulumi.Input[str]]


def azure_monitor(name: str, plan: Plan, cluster: AzureCluster, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Make all of it.

    Args:
        name: of the component.
        plan: of the stack.
        cluster: whose metrics they are.
        opts: options of each resource.

    Returns:
        The workspace's id.
    """
    settings = plan.settings.observability.azure
    where: dict[str, Any] = {"resource_group_name": cluster.group, "location": cluster.location, "tags": cluster.tags}
    workspace = _workspace(name, settings.workspace, cluster, where, opts)
    if cluster.id is not None:
        _way(name, workspace, cluster, where, opts)
    for group, inputs in azure_rule_groups(plan, cluster.name).items():
        alertsmanagement.PrometheusRuleGroup(
            f"{name}-{group}", rule_group_name=group, scopes=[workspace], opts=opts, **where, **put_back(inputs)
        )
    if settings.grafana_admins:
        _grafana(name, settings.grafana_admins, workspace, cluster, (where, opts))
    return workspace


def _workspace(
    name: str, there: str | None, cluster: AzureCluster, where: dict[str, Any], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    if there is not None:
        return pulumi.Output.from_input(put_back(there))
    made = monitor.AzureMonitorWorkspace(
        f"{name}-workspace", azure_monitor_workspace_name=resource_name(cluster.name), opts=opts, **where
    )
    return made.id


def _way(
    name: str, workspace: pulumi.Output[str], cluster: AzureCluster, where: dict[str, Any], opts: pulumi.ResourceOptions
) -> None:
    named = resource_name(cluster.name)
    endpoint = monitor.DataCollectionEndpoint(
        f"{name}-endpoint", data_collection_endpoint_name=named, kind="Linux", opts=opts, **where
    )
    inputs = {"data_collection_endpoint_id": endpoint.id, **where, **collection_rule(workspace)}
    _rule_of(name, cluster, (named, named), inputs, opts)


def container_logs(name: str, workspace: pulumi.Input[str], cluster: AzureCluster, opts: pulumi.ResourceOptions) -> None:
    """Make what the logs of a cluster's containers need to arrive: a rule in the workspace's region, and its association.

    Args:
        name: of the component.
        workspace: id of the Log Analytics workspace.
        cluster: whose logs they are; `location` is the workspace's region.
        opts: options of each resource.
    """
    where: dict[str, Any] = {"resource_group_name": cluster.group, "location": cluster.location, "tags": cluster.tags}
    named = f"{resource_name(cluster.name)}-logs"
    _rule_of(f"{name}-logs", cluster, (named, LOGS_ASSOCIATION), {**where, **logs_rule(workspace)}, opts)


def _rule_of(
    name: str, cluster: AzureCluster, names: tuple[str, str], inputs: dict[str, Any], opts: pulumi.ResourceOptions
) -> None:
    """A rule and its association with the cluster, by these names."""
    rule = monitor.DataCollectionRule(f"{name}-rule", data_collection_rule_name=names[0], kind="Linux", opts=opts, **inputs)
    assert cluster.id is not None  # noqa: S101 - its caller has looked
    monitor.DataCollectionRuleAssociation(
        f"{name}-association", association_name=names[1], resource_uri=cluster.id, data_collection_rule_id=rule.id, opts=opts
    )


def _grafana(
    name: str,
    admins: tuple[str, ...],
    workspace: pulumi.Output[str],
    cluster: AzureCluster,
    rest: tuple[dict[str, Any], pulumi.ResourceOptions],
) -> None:
    where, opts = rest
    group = pulumi.Output.from_input(cluster.group)
    integrations = {"azureMonitorWorkspaceIntegrations": [{"azureMonitorWorkspaceResourceId": workspace}]}
    inputs: dict[str, Any] = {
        "sku": {"name": "Standard"},
        "identity": {"type": "SystemAssigned"},
        "properties": {"grafanaIntegrations": integrations},
    }
    made = dashboard.Grafana(
        f"{name}-grafana",
        workspace_name=group.apply(lambda known: grafana_name(known, cluster.name)),
        opts=opts,
        **where,
        **inputs,
    )
    # Asked for: an output is unknown in the preview of each update, and another principal replaces an assignment.
    answer = dashboard.get_grafana_output(
        resource_group_name=group,
        workspace_name=made.name,
        opts=pulumi.InvokeOutputOptions(parent=opts.parent, depends_on=[made]),
    )
    identity = answer.apply(lambda found: str(found.identity.principal_id if found.identity else ""))
    _assign(f"{name}-grafana-reads", workspace, READS_METRICS, (identity, "ServicePrincipal"), opts)
    for admin in admins:
        _assign(f"{name}-grafana-admin-{admin}", made.id, GRAFANA_ADMIN, (admin, "Group"), opts)


def _assign(
    name: str, scope: pulumi.Output[str], role: str, who: tuple[pulumi.Input[str], str], opts: pulumi.ResourceOptions
) -> None:
    principal, kind = who
    authorization.RoleAssignment(
        name,
        # A GUID of the user's choice; the same each time, so that it is found again.
        role_assignment_name=scope.apply(lambda id_: str(uuid.uuid5(uuid.NAMESPACE_URL, f"{id_}/{role}/{name}".lower()))),
        scope=scope,
        principal_id=principal,
        principal_type=kind,
        role_definition_id=scope.apply(
            lambda id_: f"/subscriptions/{id_.split('/')[2]}/providers/Microsoft.Authorization/roleDefinitions/{role}"
        ),
        opts=opts,
    )
