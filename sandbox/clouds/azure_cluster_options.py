"""What the service refuses of a managed cluster's options, as pure functions: network, API server, identities, upgrades.

Stand-in: nothing here asks Azure. Rules: azure-aks-docs at fb060abe (private-clusters, egress-outboundtype,
load-balancer-standard, concepts-network-ip-address-planning, use-network-policies, workload-identity-deploy-cluster,
long-term-support), and azurerm's ForceNew properties of kubernetes_cluster_resource at 69697b7f. Texts marked "seen" are the
service's own; all others keep its pattern. Deliberately not modelled: whether a network, identity, registry, zone or workspace of
an id is there (but for subnets), and what any of it does.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks import azure_types
from sandbox.clouds.azure_errors import AzureError, invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.clouds.azure_rules import Body

#: Fixed at creation, and not replaced by the plugin: property -> those below it; empty: the whole.
IMMUTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "networkProfile": ("ipFamilies", "loadBalancerSku", "podCidrs"),
    "apiServerAccessProfile": ("enablePrivateCluster", "subnetId"),
    "enableRBAC": (),
    "extendedLocation": (),
    "kind": (),
}
_STAYS_ON: Final = (("oidcIssuerProfile", "enabled"), ("apiServerAccessProfile", "enableVnetIntegration"))
_NEEDS_SUBNET: Final = ("userDefinedRouting", "userAssignedNATGateway")
#: Of the API version that azure-native speaks; bounds of azure-aks-docs, load-balancer-standard.
_BALANCER: Final = {"allocatedOutboundPorts": (0, 64000), "idleTimeoutInMinutes": (4, 120)}


def check_cluster_options(body: Body) -> None:
    """Refuse options that no cluster may have.

    Raises:
        AzureError: the first rule that they break.
    """
    _check_enums("ManagedCluster", body, "")
    subnet = any(pool.get("vnetSubnetID") for pool in body.get("agentPoolProfiles") or [])
    _check_network(body.get("networkProfile") or {}, own_network=subnet)
    _check_identity(body)
    _check_server(body.get("apiServerAccessProfile") or {}, (body.get("identity") or {}).get("type"))
    workload = ((body.get("securityProfile") or {}).get("workloadIdentity") or {}).get("enabled")
    if workload and not (body.get("oidcIssuerProfile") or {}).get("enabled"):
        raise invalid("securityProfile.workloadIdentity", "workload identity requires the OIDC issuer to be enabled")
    if (body.get("supportPlan") == "AKSLongTermSupport") != ((body.get("sku") or {}).get("tier") == "Premium"):
        raise invalid("supportPlan", "AKSLongTermSupport and the Premium tier can only be used together")


def check_cluster_change(old: Body, new: Body) -> None:
    """Refuse the change of what is fixed at creation; what a request leaves out stays.

    Raises:
        AzureError: PropertyChangeNotAllowed (seen, as for pools).
    """
    for key, below in IMMUTABLE.items():
        for path in ((key, name) for name in below) if below else ((key,),):
            before, after = _at(old, path), _at(new, path)
            if after is not None and after != before and not (before is None and after is False):
                raise _fixed(path)
    for path in _STAYS_ON:
        if _at(old, path) and _at(new, path) is False:
            raise _fixed(path)
    zone = ("apiServerAccessProfile", "privateDNSZone")
    before, after = _at(old, zone), _at(new, zone)
    if after not in {None, before, "none"}:
        raise _fixed(zone)


def merged_cluster(old: Body, new: Body) -> Body:
    """What a cluster is after a request: what is left out of an object stays, tags are one set."""
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        deeper = key != "tags" and isinstance(before, dict) and isinstance(value, dict)
        result[key] = merged_cluster(before, value) if deeper and before is not None else value
    return result


def _at(body: Body, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - whatever lies there
    value: Any = body
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _fixed(path: tuple[str, ...]) -> AzureError:
    name = f"properties.{'.'.join(path)}"
    return AzureError(400, "PropertyChangeNotAllowed", f"Changing property '{name}' is not allowed.", name)


def _check_enums(type_: str, body: Mapping[str, Any], above: str) -> None:
    for key, kind in azure_types.types()[type_].items():
        value, values = body.get(key), azure_types.enums().get(kind)
        if isinstance(value, dict) and kind in azure_types.types():
            _check_enums(kind, value, f"{above}{key}.")
        elif values is not None and value is not None and value not in values:
            raise invalid(f"{above}{key}", f"'{value}' is not one of {', '.join(values)}")


def _check_network(profile: Mapping[str, Any], *, own_network: bool) -> None:
    plugin, mode, plane = (profile.get(key) for key in ("networkPlugin", "networkPluginMode", "networkDataplane"))
    policy, outbound = profile.get("networkPolicy"), profile.get("outboundType")
    if mode == "overlay" and plugin not in {None, "azure"}:
        raise invalid("networkProfile.networkPluginMode", f"overlay is not supported with network plugin {plugin}")
    if plane == "cilium" and policy not in {None, "cilium"}:
        raise invalid("networkProfile.networkPolicy", f"network dataplane cilium requires network policy cilium, not {policy}")
    if policy == "cilium" and plane != "cilium":
        raise invalid("networkProfile.networkPolicy", "network policy cilium requires network dataplane cilium")
    if policy == "azure" and plugin == "kubenet":
        raise invalid("networkProfile.networkPolicy", "network policy azure is not supported with network plugin kubenet")
    if outbound in _NEEDS_SUBNET and not own_network:
        raise invalid("networkProfile.outboundType", f"{outbound} requires a custom virtual network")
    if outbound == "managedNATGateway" and own_network:
        raise invalid("networkProfile.outboundType", "managedNATGateway is not supported in a custom virtual network")
    if profile.get("loadBalancerSku") == "basic":
        raise invalid("networkProfile.loadBalancerSku", "the basic load balancer has been retired")
    _check_balancer(profile.get("loadBalancerProfile") or {})
    _check_ranges(profile)


def _check_balancer(balancer: Mapping[str, Any]) -> None:
    for key, (least, most) in _BALANCER.items():
        if balancer.get(key) is not None and not least <= balancer[key] <= most:
            raise invalid(
                f"networkProfile.loadBalancerProfile.{key}", f"{balancer[key]} is not in the range of {least} to {most}"
            )
    kinds = [key for key in ("managedOutboundIPs", "outboundIPs", "outboundIPPrefixes") if balancer.get(key)]
    if len(kinds) > 1:
        raise invalid("networkProfile.loadBalancerProfile", f"{' and '.join(kinds)} are mutually exclusive")


def _check_ranges(profile: Mapping[str, Any]) -> None:
    service, dns = profile.get("serviceCidr") or "10.0.0.0/16", profile.get("dnsServiceIP") or "10.0.0.10"
    try:
        services, address = IPv4Network(service), IPv4Address(dns)
        pods = IPv4Network(profile.get("podCidr") or "10.244.0.0/16")
    except ValueError as error:
        raise AzureError(400, "InvalidCIDRNotation", f"A range of the network profile is invalid: {error}.") from error
    if address not in services:
        message = f"The specified DNS service IP {dns} is not within the service CIDR {service}."
        raise AzureError(400, "DnsServiceIpOutOfServiceCidr", message)
    if address == services.network_address + 1:
        raise invalid("networkProfile.dnsServiceIP", "the first address of the range is reserved for the kubernetes service")
    overlay = profile.get("networkPluginMode") == "overlay" or profile.get("networkPlugin") == "kubenet"
    if overlay and services.overlaps(pods):
        raise AzureError(400, "ServiceCidrOverlapPodCidr", f"The specified service CIDR {service} overlaps with pod CIDR {pods}.")


def _check_identity(body: Body) -> None:
    identity = body.get("identity") or {}
    own = identity.get("userAssignedIdentities") or []
    if identity.get("type") == "UserAssigned" and len(own) != 1:
        raise invalid("identity.userAssignedIdentities", "exactly one user-assigned identity is required")
    if identity.get("type") == "SystemAssigned" and own:
        raise invalid("identity.userAssignedIdentities", "they can only be set when the type is UserAssigned")
    kubelet = (body.get("identityProfile") or {}).get("kubeletidentity")
    if kubelet and identity.get("type") != "UserAssigned":
        # azure-aks-docs, pre-created-kubelet-managed-identity
        raise invalid(
            "identityProfile.kubeletidentity", "custom kubelet identity requires a user-assigned control plane identity"
        )


def _check_server(server: Mapping[str, Any], identity: str | None) -> None:
    private, zone = server.get("enablePrivateCluster"), server.get("privateDNSZone")
    if private and server.get("authorizedIPRanges"):
        raise invalid("apiServerAccessProfile.authorizedIPRanges", "they cannot be set on a private cluster")
    if not private and zone:
        raise invalid("apiServerAccessProfile.privateDNSZone", "it can only be set on a private cluster")
    if zone == "none" and server.get("enablePrivateClusterPublicFQDN") is False:
        raise invalid("apiServerAccessProfile.privateDNSZone", "none requires the public FQDN to be enabled")
    if zone and zone not in {"system", "none"} and identity != "UserAssigned":
        raise invalid("apiServerAccessProfile.privateDNSZone", "a custom private DNS zone requires a user-assigned identity")
