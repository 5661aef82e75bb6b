"""Virtual networks with the subnets in them, as pure functions: what Azure refuses of them, and of pools that lie in them.

Stand-in: nothing here asks Azure. Texts marked "seen" were read as the service's answers to others: azure-docs#123869 (ranges),
cluster-api-provider-azure#172 (deletion), Azure/AKS#695 and #2927 (pools), and, of azurerm, #7687 (a subnet in use) and #8677
(either all pools lie in subnets or none); AKS-Construction#701 and Azure/AKS#3653 for addresses that run out, whose exact sum was
not to be read: people were told of more than this counts.

Deliberately not modelled: addresses that others than clusters take, subnets as resources of their own, peerings, security groups,
rights of the cluster's identity, and who owns a network while a pool is made in it (Azure/AKS#4522).
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds.azure_errors import AzureError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from ipaddress import IPv4Network, IPv6Network

    from sandbox.clouds.azure_rules import Body

API_VERSION: Final = "2024-05-01"
#: Addresses of each subnet that Azure keeps for itself.
KEPT_ADDRESSES: Final = 5


def subnets_of(network: str, body: Body) -> dict[str, str]:
    """ARM id, in lower case -> address range of each subnet of a network.

    Args:
        network: its ARM id.
        body: its properties.
    """
    return {f"{network}/subnets/{subnet['name']}".lower(): subnet["addressPrefix"] for subnet in body.get("subnets") or []}


def shown(network: Mapping[str, Any]) -> Body:
    """A network as ARM returns it."""
    done = {"provisioningState": "Succeeded"}
    body = network["body"]
    subnets = [{**subnet, "id": f"{network['id']}/subnets/{subnet['name']}", **done} for subnet in body.get("subnets") or []]
    return {
        "id": network["id"],
        "name": network["name"],
        "type": "Microsoft.Network/virtualNetworks",
        "azureApiVersion": API_VERSION,
        **body,
        **done,
        "subnets": subnets,
    }


def check_network(name: str, body: Body) -> None:
    """Refuse what cannot be a virtual network.

    Raises:
        AzureError: the first rule that it breaks.
    """
    spaces = [_range(prefix) for prefix in (body.get("addressSpace") or {}).get("addressPrefixes") or []]
    if not spaces:
        raise AzureError(400, "InvalidRequestFormat", f"Virtual network '{name}' has no address space.")
    taken: list[IPv4Network | IPv6Network] = []
    for subnet in body.get("subnets") or []:
        its = _range(subnet.get("addressPrefix"))
        if not any(its.version == space.version and its.subnet_of(space) for space in spaces):  # type: ignore[arg-type]
            message = (
                f"Subnet '{subnet['name']}' is not valid because its IP address range is outside the IP address range of virtual "
                f"network '{name}'."
            )
            raise AzureError(400, "NetcfgSubnetRangeOutsideVnet", message)  # seen
        if any(its.overlaps(other) for other in taken):
            message = (
                f"Subnet '{subnet['name']}' is not valid because its IP address range overlaps with that of an existing subnet "
                f"in virtual network '{name}'."
            )
            raise AzureError(400, "NetcfgSubnetRangesOverlap", message)  # seen
        taken.append(its)


def _range(prefix: object) -> IPv4Network | IPv6Network:
    try:
        return ip_network(str(prefix))
    except ValueError as error:
        raise AzureError(400, "InvalidCIDRNotation", f"The address prefix {prefix} has an invalid CIDR notation.") from error


def check_network_change(network: str, old: Body, new: Body | None, pools: Iterable[Mapping[str, Any]]) -> None:
    """Refuse that a subnet goes, or gets other addresses, while a pool lies in it.

    Args:
        network: its ARM id.
        old: its properties now.
        new: those that it shall have; None: it goes.
        pools: records of all agent pools.

    Raises:
        AzureError: InUseSubnetCannotBeDeleted (seen), InUseSubnetCannotBeUpdated (its code was seen).
    """
    before, after = subnets_of(network, old), subnets_of(network, new or {})
    for pool in pools:
        subnet = str(pool["body"].get("vnetSubnetID") or "").lower()
        if subnet not in before or after.get(subnet) == before[subnet]:
            continue
        name, what = subnet.rpartition("/")[2], "Updated" if subnet in after else "Deleted"
        raise AzureError(
            400, f"InUseSubnetCannotBe{what}", f"Subnet {name} is in use by {pool['id']} and cannot be {what.lower()}."
        )


def check_pools(networks: Iterable[Mapping[str, Any]], pools: Mapping[str, Body]) -> None:
    """Refuse pools of one cluster that lie in no subnet that there is, in several networks, or only some of them in any.

    Args:
        networks: records of all virtual networks.
        pools: name -> properties of all pools of the cluster, as they shall be.

    Raises:
        AzureError: the first rule that they break.
    """
    known = {subnet for network in networks for subnet in subnets_of(network["id"], network["body"])}
    lie = {name: str(body.get("vnetSubnetID") or "").lower() for name, body in pools.items()}
    for subnet in filter(None, lie.values()):
        if subnet not in known:
            raise invalid("agentPoolProfile.vnetSubnetID")  # seen
    if not any(lie.values()):
        return
    for name, subnet in lie.items():
        if not subnet:
            # Seen of a pool with a subnet beside one without; the other way round it is taken to be the same.
            raise AzureError(400, "InvalidParameter", f"The Agentpool {name} does not have subnet defined.")
    if len({subnet.partition("/subnets/")[0] for subnet in lie.values()}) > 1:
        raise invalid("agentPoolProfile.vnetSubnetID", "all agent pools of a cluster must lie in the same virtual network")


def check_addresses(networks: Iterable[Mapping[str, Any]], pools: Mapping[str, Body], cluster: Body) -> None:
    """Refuse pools whose nodes and pods cannot all have an address of their subnet; of an autoscaled one its most nodes count.

    Args:
        networks: records of all virtual networks.
        pools: name -> properties of all pools of the cluster, as they shall be.
        cluster: its properties.

    Raises:
        AzureError: InsufficientSubnetSize (seen).
    """
    profile = cluster.get("networkProfile") or {}
    if profile.get("networkPlugin") != "azure" or profile.get("networkPluginMode") == "overlay":
        return
    ranges = {id_: prefix for network in networks for id_, prefix in subnets_of(network["id"], network["body"]).items()}
    wanted: dict[str, int] = {}
    for body in pools.values():
        subnet = str(body.get("vnetSubnetID") or "").lower()
        pods = 0 if body.get("podSubnetID") else body["maxPods"]
        wanted[subnet] = wanted.get(subnet, 0) + (body.get("maxCount") or body["count"]) * (1 + pods)
    for subnet, addresses in wanted.items():
        if subnet in ranges and addresses > (free := _range(ranges[subnet]).num_addresses - KEPT_ADDRESSES):
            message = (
                f"Pre-allocated IPs {addresses} exceeds IPs available {free} in Subnet Cidr {ranges[subnet]}, Subnet Name "
                f"{subnet.rpartition('/')[2]}. If Autoscaler is enabled, the max-count from each nodepool is counted towards "
                "this total (which means that pre-allocated IPs count represents a theoretical max value, not the actual number "
                "of IPs requested). http://aka.ms/aks/insufficientsubnetsize"
            )
            raise AzureError(400, "InsufficientSubnetSize", message)
