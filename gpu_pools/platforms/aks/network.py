"""The network of an AKS cluster as a stack declares it, with the rules that hold within it.

Names and values are Azure's. Rules: azure-aks-docs at fb060abe (concepts-network-ip-address-planning, azure-cni-overlay,
azure-cni-powered-by-cilium, use-network-policies, egress-outboundtype, load-balancer-standard). The network itself, its
routes and gateways are a platform team's; here they are named by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.pool_options import SUBNET
from gpu_pools.reading.azure_names import resource_id, resource_ids
from gpu_pools.reading.fields import Kind, Row, inner, one_of, row, whole_number
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.reading.section import Section

#: Ranges that AKS keeps for itself.
_KEPT: Final = tuple(map(IPv4Network, ("169.254.0.0/16", "172.30.0.0/16", "172.31.0.0/16", "192.0.2.0/24")))
_LARGEST_SERVICES: Final = 12
_WITH_A_NETWORK: Final = ("userDefinedRouting", "userAssignedNATGateway")

#: Place below the section, what is wrong, what is allowed, the remedy.
Rule = tuple[str, str, str, str]


def _range(section: Section, one: Row) -> str | None:
    written = section.text(one.key)
    if written is None:
        return None
    found = network_of(written)
    if found is None or any(found.overlaps(kept) for kept in _KEPT):
        section.problems.add(
            section.at(one.key),
            f"{show(written)} " + ("is not a range of addresses" if found is None else "is kept by AKS for itself"),
            allowed="an IPv4 range whose host part is 0, e.g. 10.244.0.0/16",
            remedy=f"Choose one outside {', '.join(map(str, _KEPT))}, in which no network of yours lies.",
        )
        return None
    return written


def network_of(written: str) -> IPv4Network | None:
    """The range of addresses that a text is; None: it is none."""
    try:
        return IPv4Network(written) if "/" in written else None
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def _address(section: Section, one: Row) -> str | None:
    written = section.text(one.key)
    try:
        return None if written is None else str(IPv4Address(written))
    except AddressValueError:
        section.problems.add(
            section.at(one.key),
            f"{show(written)} is not an address",
            allowed="an IPv4 address, e.g. 10.0.0.10",
            remedy="Choose an address of `serviceCidr`, but not its first.",
        )
        return None


_RANGE: Final = Kind(_range, "str")


@dataclass(frozen=True)
class LoadBalancer:
    """How nodes reach outside through the cluster's load balancer."""

    managed_ips: int | None = row(
        "Public addresses that Azure makes, 1 to 100.",
        whole_number(1, 100),
        sets="networkProfile.loadBalancerProfile.managedOutboundIPs.count",
        change="updates",
    )
    ips: tuple[str, ...] = row(
        "Ids of public addresses of your own.",
        resource_ids("Microsoft.Network/publicIPAddresses"),
        (),
        sets="networkProfile.loadBalancerProfile.outboundIPs.publicIPs.id",
        change="updates",
    )
    prefixes: tuple[str, ...] = row(
        "Ids of prefixes of public addresses of your own.",
        resource_ids("Microsoft.Network/publicIPPrefixes"),
        (),
        sets="networkProfile.loadBalancerProfile.outboundIPPrefixes.publicIPPrefixes.id",
        change="updates",
    )
    allocated_outbound_ports: int | None = row(
        "Ports of each node, 0 to 64000, by eights; 0: Azure decides.",
        whole_number(0, 64000),
        sets="networkProfile.loadBalancerProfile.allocatedOutboundPorts",
        change="updates",
    )
    idle_timeout: int | None = row(
        "Minutes until an idle connection is cut, 4 to 120.",
        whole_number(4, 120),
        key="idleTimeoutInMinutes",
        sets="networkProfile.loadBalancerProfile.idleTimeoutInMinutes",
        change="updates",
    )
    backend_pool_type: str | None = row(
        "NodeIPConfiguration or NodeIP.",
        one_of(("NodeIPConfiguration", "NodeIP")),
        sets="networkProfile.loadBalancerProfile.backendPoolType",
        change="updates",
    )


@dataclass(frozen=True)
class Network:
    """Where nodes and pods lie, and how they talk."""

    node_subnet: str | None = row(
        "Id of the subnet of all nodes, the system pool's too; Azure makes one by default.",
        resource_id(SUBNET),
        sets="agentPoolProfiles.vnetSubnetID",
        change="refused",
        doc="Id of the subnet of all nodes, the system pool's too; GPU pools may have `subnet`s of their own in that network. "
        "By default Azure makes a network. The cluster's identity needs the right to join it.",
    )
    pod_subnet: str | None = row(
        "Id of the subnet of all pods; needs nodeSubnet, and is not for overlay.",
        resource_id(SUBNET),
        sets="agentPoolProfiles.podSubnetID",
        change="refused",
        doc="Id of the subnet of all pods; needs `nodeSubnet`, and then there is no overlay.",
    )
    plugin: str = row(
        "azure, kubenet or none.",
        one_of(("azure", "kubenet", "none")),
        "azure",
        sets="networkProfile.networkPlugin",
        change="replaces",
        doc="`azure`, `kubenet` (which Azure retires in 2028) or `none`: one of your own.",
    )
    plugin_mode: str | None = row(
        "overlay or none: whether pods have addresses of their own range, or of the nodes' network.",
        one_of(("overlay", "none")),
        sets="networkProfile.networkPluginMode",
        change="replaces",
        doc="`overlay`: pods have a range of their own; `none`: addresses of the network. By default `overlay`, where "
        "the plugin is `azure` and there is no `podSubnet`.",
    )
    dataplane: str | None = row(
        "azure or cilium.",
        one_of(("azure", "cilium")),
        sets="networkProfile.networkDataplane",
        change="replaces",
        doc="`azure`, Azure's default, or `cilium`.",
    )
    policy: str | None = row(
        "What enforces network policies: none, azure, calico or cilium.",
        one_of(("none", "azure", "calico", "cilium")),
        sets="networkProfile.networkPolicy",
        change="replaces",
        doc="What enforces network policies: `none`, `azure`, `calico`, or `cilium` with that dataplane.",
    )
    pod_cidr: str | None = row(
        "The pods' range, with overlay or kubenet; 10.244.0.0/16 where nothing is said.",
        _RANGE,
        sets="networkProfile.podCidr",
        change="replaces",
    )
    service_cidr: str | None = row(
        "The services' range, together with dnsServiceIp; 10.0.0.0/16 where nothing is said.",
        _RANGE,
        sets="networkProfile.serviceCidr",
        change="replaces",
        doc="The services' range, smaller than a /12, together with `dnsServiceIp`; 10.0.0.0/16 where nothing is said.",
    )
    dns_service_ip: str | None = row(
        "Address of the cluster's DNS: in serviceCidr, and not its first.",
        Kind(_address, "str"),
        sets="networkProfile.dnsServiceIP",
        change="replaces",
        doc="Address of the cluster's DNS: in `serviceCidr`, and not its first.",
    )
    outbound_type: str | None = row(
        "loadBalancer, managedNATGateway, userAssignedNATGateway or userDefinedRouting.",
        one_of(("loadBalancer", "managedNATGateway", "userAssignedNATGateway", "userDefinedRouting")),
        sets="networkProfile.outboundType",
        change="replaces",
        doc="How nodes reach outside: `loadBalancer`, Azure's default; `managedNATGateway`, in a network that Azure makes; "
        "`userAssignedNATGateway` or `userDefinedRouting`, in one of your own.",
    )
    load_balancer_sku: str | None = row(
        "standard; Azure has retired basic.",
        one_of(("standard",), "Write standard, or leave it out: Azure has retired basic load balancers on 2025-09-30."),
        sets="networkProfile.loadBalancerSku",
        change="replaces",
        doc="`standard`; Azure has retired `basic` on 2025-09-30.",
    )
    load_balancer: LoadBalancer | None = row(
        "Addresses and ports of the load balancer.",
        inner(LoadBalancer),
    )

    @property
    def mode(self) -> str | None:
        """The plugin's mode that holds."""
        if self.plugin_mode is not None:
            return self.plugin_mode if self.plugin_mode != "none" else None
        return "overlay" if self.plugin == "azure" and self.pod_subnet is None else None


def _pair(network: Network, written: object) -> Iterator[Rule]:
    """The range of services and its resolver go together; one that is written but wrong is a problem of its own."""
    services, address = network.service_cidr, network.dns_service_ip
    given, missing = ("serviceCidr", "dnsServiceIp") if address is None else ("dnsServiceIp", "serviceCidr")
    is_wrong = isinstance(written, dict) and written.get(missing) is not None
    if (services is None) != (address is None) and not is_wrong:
        yield (
            given,
            "serviceCidr and dnsServiceIp are written together or not at all",
            "both, e.g. 10.100.0.0/16 and 10.100.0.10",
            "Add the other; Azure's default of it does not lie in this range.",
        )


def network_rules(network: Network, written: object) -> Iterator[Rule]:
    """What of a network does not go together: (key, message, what is allowed, remedy).

    Args:
        network: what Azure is asked for.
        written: the mapping `network` as it is written.
    """
    yield from _pair(network, written)
    yield from _engines(network)
    yield from _subnets(network)
    yield from _ranges(network)
    if network.plugin_mode == "overlay" and network.plugin != "azure":
        yield "pluginMode", f"{network.plugin} has no overlay", "none, or plugin azure", "Take it out, or write `plugin: azure`."
    balancer, out = network.load_balancer, network.outbound_type
    if balancer and out not in {None, "loadBalancer"}:
        yield "loadBalancer", f"nodes reach outside by {out}", "outboundType loadBalancer", "Keep one of them."
    if balancer and sum(map(bool, (balancer.managed_ips, balancer.ips, balancer.prefixes))) > 1:
        yield (
            "loadBalancer",
            "gives more than one of managedIps, ips and prefixes",
            "one of them",
            "Keep one; Azure takes no two.",
        )


def _engines(network: Network) -> Iterator[Rule]:
    cilium = network.dataplane == "cilium"
    if cilium and network.plugin != "azure":
        yield "dataplane", f"cilium needs the plugin azure, not {network.plugin}", "plugin azure", "Write `plugin: azure`."
    if cilium and network.policy not in {None, "cilium"}:
        yield "policy", f"with the dataplane cilium it is cilium, not {network.policy}", "cilium", "Write cilium, or take it out."
    if network.policy == "cilium" and not cilium:
        yield "policy", "cilium needs the dataplane cilium", "none, azure or calico", "Write `dataplane: cilium` beside it."
    if network.policy == "azure" and network.plugin == "kubenet":
        yield "policy", "azure enforces nothing with kubenet", "none or calico", "Write calico, or `plugin: azure`."


def _subnets(network: Network) -> Iterator[Rule]:
    if network.pod_subnet and not network.node_subnet:
        yield "podSubnet", "the nodes have no subnet", "`nodeSubnet` beside it", "Write it, too."
    if network.pod_subnet and (network.plugin != "azure" or network.plugin_mode == "overlay"):
        yield (
            "podSubnet",
            "pods have a range of their own",
            "plugin azure without overlay",
            "Take `podSubnet` or the overlay out.",
        )
    out = network.outbound_type
    if out in _WITH_A_NETWORK and not network.node_subnet:
        yield "outboundType", f"{out} needs a network of your own", "`nodeSubnet` beside it", "Write it, or choose loadBalancer."
    if out == "managedNATGateway" and network.node_subnet:
        yield (
            "outboundType",
            "Azure makes a gateway in no network of yours",
            "userAssignedNATGateway",
            "Write that, or `loadBalancer`.",
        )


def _ranges(network: Network) -> Iterator[Rule]:
    if network.pod_cidr and network.mode != "overlay" and network.plugin != "kubenet":
        yield (
            "podCidr",
            "pods have addresses of the network",
            "overlay or kubenet",
            "Take it out, or write `pluginMode: overlay`.",
        )
    services, address = network.service_cidr, network.dns_service_ip
    if services is None:
        return
    found, pods = IPv4Network(services), IPv4Network(network.pod_cidr or "10.244.0.0/16")
    if found.prefixlen <= _LARGEST_SERVICES:
        yield "serviceCidr", f"{services} is too large", "a range smaller than a /12", "Choose e.g. a /16."
    if address and (IPv4Address(address) not in found or IPv4Address(address) == found.network_address + 1):
        yield (
            "dnsServiceIp",
            f"{address} is not an address for it in {services}",
            "one in serviceCidr, but not its first",
            f"Write e.g. {found.network_address + 10}.",
        )
    if found.overlaps(pods) and (network.pod_cidr or network.mode == "overlay" or network.plugin == "kubenet"):
        yield "serviceCidr", f"{services} overlaps the pods' range {pods}", "ranges apart from each other", "Choose another one."
