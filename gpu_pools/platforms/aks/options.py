"""Options of an AKS cluster besides those that GPU pools need: network, identities, access, upgrades, add-ons.

What a change of each does is gpu_pools/platforms/aks/properties.yaml; what goes with the pools,
gpu_pools/platforms/aks/together.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.access import ApiServer, Identity, identity_rules, server_rules
from gpu_pools.platforms.aks.asked import asked, place_of
from gpu_pools.platforms.aks.azure_types import properties
from gpu_pools.platforms.aks.network import Network, network_rules
from gpu_pools.platforms.aks.upkeep import Autoscaler, Maintenance, Upgrades
from gpu_pools.reading.azure_names import resource_id, resource_ids
from gpu_pools.reading.fields import Row, flag, inner, read, row, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.platforms.aks.network import Rule
    from gpu_pools.reading.section import Section

GROUP_NAME: Final = r"[-\w._()]{0,89}[-\w_()]"
GROUP_NAMES: Final = "1 to 90 letters, digits, - _ . ( )"
#: Channels by which Azure leaves no minor version alone.
MOVING_CHANNELS: Final = ("stable", "rapid")
#: What `properties` must leave to the stack -> the key to write instead.
_PLANNED: Final[Mapping[str, str]] = {
    "resourceName": "Write the cluster's `name`.",
    "resourceGroupName": "Write `resourceGroup` or `existingResourceGroup`.",
    "location": "Write the cluster's `location`.",
    "kubernetesVersion": "Write the cluster's `kubernetesVersion`.",
    "agentPoolProfiles": "Write `systemPool`, with `properties` of its own.",
    "aadProfile": "Write `entra`.",
    "disableLocalAccounts": "Write `entra`, with `localAccounts` where they shall stay.",
    "dnsPrefix": "It follows from the cluster's `name`.",
    "identity": "Write `identity`.",
}


@dataclass(frozen=True)
class KeyVaultSecrets:
    """Secrets of Azure Key Vault as volumes."""

    rotation: bool | None = row(
        "Whether changed secrets reach pods that run.",
        flag(),
        sets="addonProfiles.azureKeyvaultSecretsProvider",
        change="updates",
    )
    rotation_interval: str | None = row(
        "How often they are looked for, e.g. 2m.",
        text(r"\d+(s|m|h)", 'a time with its unit, e.g. "2m"'),
        sets="addonProfiles.azureKeyvaultSecretsProvider",
        change="updates",
    )


@dataclass(frozen=True)
class Monitoring:
    """Logs and metrics in Azure Monitor. Those of GPUs come from the operator's DCGM exporter, not from here."""

    workspace: str | None = row(
        "Id of a Log Analytics workspace for the logs of containers.",
        resource_id("Microsoft.OperationalInsights/workspaces"),
        sets="addonProfiles.omsagent",
        change="updates",
    )
    location: str | None = row(
        "The workspace's region; the cluster's by default.",
        text(r"[a-z0-9]+", "a region, e.g. westeurope"),
        doc="The region of `workspace`, in which the rule lies that sends it the logs; the cluster's by default.",
    )
    metrics: bool | None = row(
        "Whether metrics go to a managed Prometheus.", flag(), sets="azureMonitorProfile.metrics.enabled", change="updates"
    )


@dataclass(frozen=True)
class AksClusterOptions:
    """All of them."""

    existing_resource_group: str | None = row(
        "Name of a resource group that is there, instead of one that the stack makes.",
        text(GROUP_NAME, GROUP_NAMES),
        sets="resourceGroupName",
        change="replaces",
        doc="Name of a resource group that is there, instead of one that the stack makes: only read, never deleted.",
    )
    node_resource_group: str | None = row(
        "Name of the group that Azure makes for machines and disks.",
        text(GROUP_NAME, GROUP_NAMES),
        sets="nodeResourceGroup",
        change="replaces",
        doc="Name of the group that Azure makes for machines and disks; `MC_<group>_<cluster>_<region>` by default.",
    )
    network: Network | None = row("Where nodes and pods lie, and how they talk.", inner(Network, "a mapping"))
    api_server: ApiServer | None = row("Who can reach the API server.", inner(ApiServer, "a mapping"))
    identity: Identity | None = row("As whom the cluster acts in Azure.", inner(Identity, "a mapping"))
    oidc_issuer: bool | None = row(
        "An issuer of tokens that Entra ID trusts.",
        flag(),
        sets="oidcIssuerProfile.enabled",
        change="updates",
        doc="An issuer of tokens that Entra ID trusts; on for good. New clusters have one from Kubernetes 1.34 on.",
    )
    workload_identity: bool | None = row(
        "Pods act as identities of Entra ID; needs oidcIssuer.",
        flag(),
        sets="securityProfile.workloadIdentity.enabled",
        change="updates",
        doc="Pods act as identities of Entra ID; needs `oidcIssuer: true`.",
    )
    key_vault_secrets: KeyVaultSecrets | None = row(
        "Secrets of Azure Key Vault as volumes; {} for the defaults.",
        inner(KeyVaultSecrets, "a mapping, {} for the defaults"),
        sets="addonProfiles.azureKeyvaultSecretsProvider",
        change="updates",
        doc="Secrets of Azure Key Vault as volumes; `{}` for the defaults.",
    )
    upgrades: Upgrades | None = row("Upgrades that Azure makes by itself.", inner(Upgrades, "a mapping with channel"))
    maintenance: Maintenance | None = row(
        "When Azure may upgrade by itself.", inner(Maintenance, "a mapping with clusterUpgrade or nodeOsUpgrade")
    )
    autoscaler: Autoscaler | None = row("The cluster autoscaler, the same for all pools.", inner(Autoscaler, "a mapping"))
    container_registries: tuple[str, ...] = row(
        "Ids of registries that the nodes may pull from.",
        resource_ids("Microsoft.ContainerRegistry/registries"),
        (),
        doc="Ids of registries that the nodes may pull from: each gets a role assignment AcrPull, which whoever deploys must be "
        "allowed to make.",
    )
    monitoring: Monitoring | None = row("Logs and metrics in Azure Monitor.", inner(Monitoring, "a mapping with workspace"))
    properties: Mapping[str, Any] = row(
        "Properties of azure-native's ManagedCluster, merged last into what is sent.",
        properties("ManagedCluster", _PLANNED),
        {},
        doc="Properties of azure-native's `ManagedCluster` in its own words, merged last: see [below](#properties).",
    )

    @property
    def asked(self) -> AksClusterOptions:
        """What Azure is asked for, with what `properties` says in the place of keys: for judging only."""
        return asked(self, self.properties)

    @property
    def own_identity(self) -> bool:
        """Whether the cluster acts as an identity of the user's."""
        return bool(self.identity and self.identity.user_assigned)


def cluster_options(section: Section, _one: Row) -> AksClusterOptions:
    """The options of a cluster, with the rules that hold between them, by whichever way each value is written."""
    options = read(AksClusterOptions, section)
    for key, message, allowed, remedy in _rules(asked(options, options.properties), section):
        place = place_of(AksClusterOptions, key, options.properties)
        section.problems.add(section.at(place), message, allowed=allowed, remedy=remedy)
    return options


def _rules(options: AksClusterOptions, section: Section) -> Iterator[Rule]:
    for place, found in (
        ("network", network_rules(options.network, section.raw("network")) if options.network else ()),
        ("apiServer", server_rules(options.api_server) if options.api_server else ()),
        ("identity", identity_rules(options.identity) if options.identity else ()),
    ):
        yield from ((f"{place}.{key}", message, allowed, remedy) for key, message, allowed, remedy in found)
    if options.existing_resource_group and section.given("resourceGroup"):
        yield "existingResourceGroup", "`resourceGroup` is written, too", "one of the two", "Keep the one that is meant."
    if options.workload_identity and not options.oidc_issuer:
        yield "workloadIdentity", "it needs the issuer of tokens", "`oidcIssuer: true` beside it", "Write it, too."
    zone = options.api_server.private_dns_zone if options.api_server else None
    if zone not in {None, "system", "none"} and not options.own_identity:
        yield (
            "apiServer.privateDnsZone",
            "an identity that Azure makes has no rights on a zone of yours",
            "`identity.userAssigned`, or system",
            "Write an identity that is a Private DNS Zone Contributor there.",
        )
    yield from _upgrade_rules(options, section)


def _upgrade_rules(options: AksClusterOptions, section: Section) -> Iterator[Rule]:
    channel = options.upgrades.channel if options.upgrades else None
    version = section.raw("kubernetesVersion")
    if channel in MOVING_CHANNELS and version is not None:
        yield (
            "kubernetesVersion",
            f"the channel {channel} moves it, and Azure never goes back to what is written",
            "nothing, or the channel patch",
            "Take it out, or write `upgrades: {channel: patch}`.",
        )
    if channel == "patch" and isinstance(version, str) and version.count(".") > 1:
        yield (
            "kubernetesVersion",
            f"the channel patch moves on from {version}, and Azure never goes back to it",
            "a minor version",
            f'Write "{version.rpartition(".")[0]}".',
        )
    windows = options.maintenance
    if windows and windows.cluster_upgrade and channel in {None, "none"}:
        yield (
            "maintenance.clusterUpgrade",
            "Azure upgrades nothing by itself",
            "`upgrades.channel`",
            "Write a channel, or take it out.",
        )
    images = options.upgrades.node_os_channel if options.upgrades else None
    if windows and windows.node_os_upgrade and images in {"None", "Unmanaged"}:
        yield (
            "maintenance.nodeOsUpgrade",
            "Azure exchanges no node images",
            "`nodeOsChannel` NodeImage",
            "Write it, or take it out.",
        )
