"""From options to the inputs of azure-native's resources, by the path that each row says it sets.

A row whose `sets` is one path needs nothing else to be sent; a list of ids at `….id` is one of mappings with that key. What has
another shape is written out below: the network's defaults, identities, add-ons, maintenance windows.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.network import Network
from gpu_pools.reading.fields import on, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.platforms.aks.options import AksClusterOptions
    from gpu_pools.platforms.aks.upkeep import Maintenance, Window

#: How paths begin whose values are sent in another shape.
_SHAPED: Final = ("agentPoolProfiles", "addonProfiles")


def sent(options: object) -> dict[str, Any]:
    """What options ask for, as the plugin's inputs; what they leave out is not in it."""
    inputs: dict[str, Any] = {}
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        value, row = getattr(options, field.name), row_of(field)
        if row is None or value is None or value in ((), {}):
            continue
        if dataclasses.is_dataclass(value):
            inputs = merged(inputs, sent(value))
        elif (path := on(row.sets, "aks")) and "," not in path and not path.startswith(_SHAPED):
            inputs = merged(inputs, _below(path.split("."), list(value) if isinstance(value, tuple) else value))
    return inputs


def cluster_inputs(options: AksClusterOptions) -> dict[str, Any]:
    """What the options of a cluster ask for, but for its system pool."""
    # The mode is a default of the plugin's, by whichever way that is written.
    network = options.asked.network or Network()
    asked = sent(dataclasses.replace(options, existing_resource_group=None))
    profile = {key: value for key, value in asked.pop("networkProfile", {}).items() if key != "networkPluginMode"}
    # The network can never be changed, and the API's own default is the network that Azure retires in 2028.
    plugin = {"networkPlugin": network.plugin, **({"networkPluginMode": network.mode} if network.mode else {})}
    shaped: dict[str, Any] = {"networkProfile": {**plugin, **profile}, "identity": _identity(options)}
    if addons := _addons(options):
        shaped["addonProfiles"] = addons
    return merged(asked, shaped)


def subnets(network: Network | None) -> dict[str, Any]:
    """Where the cluster's nodes and pods lie, as a pool says it."""
    given = {"vnetSubnetID": network.node_subnet, "podSubnetID": network.pod_subnet} if network else {}
    return {key: value for key, value in given.items() if value is not None}


def _identity(options: AksClusterOptions) -> dict[str, Any]:
    own = options.identity and options.identity.user_assigned
    return {"type": "UserAssigned", "userAssignedIdentities": [own]} if own else {"type": "SystemAssigned"}


def _addons(options: AksClusterOptions) -> dict[str, Any]:
    """By the names that Azure answers with; values are texts."""
    found: dict[str, Any] = {}
    if (secrets := options.key_vault_secrets) is not None:
        config = {
            **({} if secrets.rotation is None else {"enableSecretRotation": str(secrets.rotation).lower()}),
            **({} if secrets.rotation_interval is None else {"rotationPollInterval": secrets.rotation_interval}),
        }
        found["azureKeyvaultSecretsProvider"] = {"enabled": True, **({"config": config} if config else {})}
    if options.monitoring and (workspace := options.monitoring.workspace):
        config = {"logAnalyticsWorkspaceResourceID": workspace, "useAADAuth": "true"}
        found["omsagent"] = {"enabled": True, "config": config}
    return found


def maintenance_windows(maintenance: Maintenance | None) -> dict[str, dict[str, Any]]:
    """Name that Azure has for it -> window."""
    if maintenance is None:
        return {}
    windows = {
        "aksManagedAutoUpgradeSchedule": maintenance.cluster_upgrade,
        "aksManagedNodeOSUpgradeSchedule": maintenance.node_os_upgrade,
    }
    return {name: _window(window) for name, window in windows.items() if window is not None}


def _window(window: Window) -> dict[str, Any]:
    every = window.every or 1
    weekly = {"weekly": {"dayOfWeek": window.day, "intervalWeeks": every}}
    inputs = {
        "schedule": weekly if window.day else {"daily": {"intervalDays": every}},
        "startTime": window.start_time,
        "durationHours": window.duration_hours,
        "utcOffset": window.utc_offset,
        "startDate": window.start_date,
    }
    return {key: value for key, value in inputs.items() if value is not None}


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, mappings in them too; of what both have the second counts, also a list as a whole."""
    result = dict(first)
    for key, value in second.items():
        before = result.get(key)
        result[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def _below(path: list[str], value: object) -> dict[str, Any]:
    first, *rest = path
    if rest == ["id"] and isinstance(value, list):
        return {first: [{"id": one} for one in value]}
    return {first: _below(rest, value) if rest else value}
