"""In the section ``gpu-pools:observability``: what of Azure Monitor a stack makes, or names because it is there.

Only settings. What follows from them is gpu_pools/observing/azure_monitor.py. Not here: log workspaces, alerts on other
metrics than Prometheus', private links, and dashboards in a Managed Grafana, which reads no ConfigMaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.azure_names import group_id, resource_id, resource_ids
from gpu_pools.reading.fields import Kind, Row, row, text

if TYPE_CHECKING:
    from gpu_pools.reading.section import Section


def _groups(section: Section, one: Row) -> tuple[str, ...]:
    return section.each(one.key, lambda value, path: group_id(value, path, section.problems))


_REGION: Final = text(r"[a-z][a-z0-9]*", "an Azure region, e.g. westeurope")


@dataclass(frozen=True)
class AzureMonitorSettings:
    """In the section `observability`: Azure's Managed Prometheus and Grafana."""

    workspace: str | None = row(
        "Id of an Azure Monitor workspace that is there; by default the stack makes one.",
        # Unlike a cluster, this section must be known when it is read.
        Kind(resource_id("Microsoft.Monitor/accounts").read, "str"),
    )
    location: str | None = row("The workspace's region; the cluster's by default.", _REGION)
    grafana_admins: tuple[str, ...] = row(
        "Object ids of groups in Entra ID that administer a Managed Grafana; without any none is made.",
        Kind(_groups, "list[str]"),
        (),
    )
    action_groups: tuple[str, ...] = row(
        "Ids of action groups that receive the alerts.",
        Kind(resource_ids("Microsoft.Insights/actionGroups").read, "list[str]"),
        (),
    )
