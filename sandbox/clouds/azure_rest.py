"""Azure Resource Manager's own API, as far as programs ask it: GET requests, and PUT of an agent pool, in its own shapes.

Stand-in: nothing here asks Azure. Pure: a request in, status and JSON out; sandbox/clouds/azure_server.py serves it. Shapes
are those of Azure/azure-rest-api-specs: Skus 2021-07-01, ComputeRP 2024-07-01, aks 2025-09-01, Microsoft.Network 2024-05-01
(usages of a network), subscriptions 2022-12-01; the metadata are those that pulumi-azure-native reads (azure/cloud/metadata). The
words of refusals were seen in the reports of others. A request for an agent pool is answered before it is done
(azure_operations); with `If-Match` it is refused where the pool is another one by now (azure-aks-docs, use-etags). A version of
an API that was not read is refused.

Deliberately not modelled: pages (each list is one), throttling, other resources in the list of SKUs but one, other Azures.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds import azure_subscription as subscriptions
from sandbox.clouds import azure_versions
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_ids import SUBSCRIPTION
from sandbox.clouds.azure_networks import KEPT_ADDRESSES, subnets_of
from sandbox.clouds.azure_operations import Operations
from sandbox.clouds.azure_pool_options import own_disks
from sandbox.clouds.azure_rules import regions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sandbox.clouds.azure import AzureCloud
    from sandbox.clouds.azure_rules import VmSize
    from sandbox.clouds.azure_subscription import Subscription
    from sandbox.clouds.records import Data

Answer = dict[str, Any]
METADATA: Final = "/metadata/endpoints"
_PREVIEW: Final = "2026-01-02-preview"
_CLUSTERS: Final = ("2025-09-01", _PREVIEW)
#: As AKS writes it into the addresses of operations.
_OPERATIONS: Final = "2016-03-30"
_BYTES_OF_MIB: Final = 1024**2
#: What of a resource ARM shows beside its properties.
_OUTSIDE: Final = ("id", "name", "type", "location", "tags", "sku", "identity", "eTag")


class ResourceManager:
    """Answers requests."""

    def __init__(self, cloud: AzureCloud, token: str) -> None:
        """Stand before a cloud.

        Args:
            cloud: whose records are shown.
            token: what requests must carry.
        """
        self._cloud = cloud
        self._token = token
        self._operations = Operations()

    def answer(self, address: str, path: str, query: Mapping[str, str], authorization: str | None) -> Answer:
        """What is answered to a GET.

        Args:
            address: under which the server is reached.
            path: of the request.
            query: its parameters.
            authorization: that header.

        Raises:
            AzureError: it is refused.
        """
        if path == METADATA:
            return _metadata(address)
        self._check_token(authorization)
        words = path.strip("/").split("/")
        if words[0].lower() != "subscriptions" or len(words) < 3:  # noqa: PLR2004 - subscriptions, its id, what of it
            raise AzureError(404, "ResourceNotFound", f"The resource {path} was not found.")
        if words[1].lower() != SUBSCRIPTION:
            raise AzureError(404, "SubscriptionNotFound", f"The subscription '{words[1]}' could not be found.")
        version = query.get("api-version")
        if version is None:
            message = "The api-version query parameter (?api-version=) is required for all requests."
            raise AzureError(400, "MissingApiVersionParameter", message)
        return self._of_subscription([word.lower() for word in words[2:]], path, version, query)

    def put(self, path: str, version: str, authorization: str | None, etag: str | None, body: Answer) -> tuple[Answer, str]:
        """What is answered to a PUT, which there is of agent pools alone.

        Args:
            path: of the request.
            version: of the API.
            authorization: that header.
            etag: the header If-Match.
            body: of the request.

        Returns:
            The pool as it is now, and the path under which the operation is followed.

        Raises:
            AzureError: it is refused.
        """
        self._check_token(authorization)
        match path.strip("/").split("/"):
            case ["subscriptions", subscription, _, group, _, _, _, cluster, kind, name] if (
                subscription.lower() == SUBSCRIPTION and kind.lower() == "agentpools"
            ):
                self._allow("Microsoft.ContainerService/managedClusters/agentPools/write", version, (_CLUSTERS[0],))
            case _:
                raise AzureError(404, "InvalidResourceType", f"The resource type of '{path}' could not be found.")
        id_ = f"/{path.strip('/')}"
        found = self._cloud.get(id_)
        if etag is not None and (found is None or etag not in {"*", found["eTag"]}):
            message = (
                f"The request was rejected: the value '{etag}' of the header If-Match is not the eTag of the agent pool {name}."
            )
            raise AzureError(412, "PreconditionFailed", message)
        work = self._cloud.begin_pool(group, cluster, name, body.get("properties") or {})
        region = self._found(id_.rsplit("/", 2)[0])["location"]
        operations = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.ContainerService/locations/{region}/operations"
        # Shown before it goes on: else it might be done already.
        shown = _pool(self._found(id_), version)
        return shown, f"{operations}/{self._operations.begin(work)}?api-version={_OPERATIONS}"

    def _operation(self, id_: str, version: str) -> Answer:
        found = self._operations.show(id_)
        if version != _OPERATIONS or found is None:
            raise AzureError(404, "NotFound", f"Resource {id_} not found.")
        return found

    def _check_token(self, authorization: str | None) -> None:
        if authorization is None:
            message = "Authentication failed. The 'Authorization' header is missing."
            raise AzureError(401, "AuthenticationFailed", message)
        if authorization != f"Bearer {self._token}":
            raise AzureError(401, "InvalidAuthenticationToken", "The access token is invalid.")

    def _of_subscription(self, words: list[str], path: str, version: str, query: Mapping[str, str]) -> Answer:
        match words:
            case ["locations"]:
                self._allow("Microsoft.Resources/subscriptions/locations/read", version, ("2022-12-01",))
                return {"value": [_region(name) for name in sorted(regions())]}
            case ["providers", "microsoft.compute", "skus"]:
                self._allow("Microsoft.Compute/skus/read", version, ("2021-07-01",))
                return {"value": list(self._skus(query.get("$filter")))}
            case ["providers", "microsoft.compute", "locations", region, "usages"]:
                self._allow("Microsoft.Compute/locations/usages/read", version, ("2024-07-01",), region)
                return {"value": list(self._usages(region))}
            case ["providers", "microsoft.containerservice", "locations", region, "kubernetesversions"]:
                self._allow("Microsoft.ContainerService/locations/kubernetesversions/read", version, _CLUSTERS, region)
                return {"values": azure_versions.offered()}
            case ["providers", "microsoft.containerservice", "locations", _, "operations", id_]:
                return self._operation(id_, version)
            case ["resourcegroups", _, "providers", provider, *rest]:
                return self._resource(f"/{path.strip('/')}", f"{provider}/{'/'.join(rest[::2])}", version)
        raise AzureError(404, "InvalidResourceType", f"The resource type of '{path}' could not be found.")

    def _allow(self, right: str, version: str, versions: tuple[str, ...], region: str | None = None) -> Subscription:
        """Refuse a version that is none, a region that is none, and who has no right to read it."""
        type_ = right.partition("/")[2].rpartition("/")[0]
        if version not in versions or (region is not None and region not in regions()):
            message = (
                f"No registered resource provider found for location '{region or ''}' and API version '{version}' for type "
                f"'{type_}'. The supported api-versions are '{', '.join(versions)}'. "
                f"The supported locations are '{', '.join(sorted(regions()))}'."
            )
            raise AzureError(400, "NoRegisteredProviderFound", message)
        subscription = self._cloud.subscription()
        if right in subscription.missing:
            message = (
                f"The client 'sandbox' with object id '00000000-0000-0000-0000-0000000000cc' does not have authorization to "
                f"perform action '{right}' over scope '/subscriptions/{SUBSCRIPTION}' or the scope is invalid. If access was "
                "recently granted, please refresh your credentials."
            )
            raise AzureError(403, "AuthorizationFailed", message)
        return subscription

    # ---------------------------------------------------------------- of a region

    def _skus(self, asked: str | None) -> Iterator[Answer]:
        subscription = self._cloud.subscription()
        named = (asked or "").removeprefix("location eq ").strip("'")
        for region in [named] if named else sorted(regions()):
            if region in regions():
                yield {"resourceType": "disks", "name": "Premium_LRS", "tier": "Premium", "size": "P4", "locations": [region]}
                for size in subscriptions.known_sizes(subscription.offered):
                    if subscription.is_in(size.name, region):
                        yield _sku(size, region, subscription)

    def _usages(self, region: str) -> Iterator[Answer]:
        data, subscription = self._cloud.read(), self._cloud.subscription()
        there = {key for key, cluster in data["clusters"].items() if cluster["body"]["location"] == region}
        used = subscriptions.used((pool for pool in data["pools"].values() if pool["cluster"] in there), subscription.offered)
        families = {subscriptions.family(size.name) for size in subscriptions.known_sizes(subscription.offered)}
        for quota in [subscriptions.ALL_CORES, subscriptions.SPOT_CORES, *sorted(filter(None, families))]:
            name = {"value": quota, "localizedValue": _LOCALIZED.get(quota, f"{quota} vCPUs")}
            yield {"unit": "Count", "currentValue": used.get(quota, 0), "limit": subscription.limit(quota), "name": name}

    # ---------------------------------------------------------------- resources

    def _resource(self, id_: str, type_: str, version: str) -> Answer:
        kinds: Mapping[str, tuple[str, tuple[str, ...], Callable[[str, str], Answer]]] = {
            "microsoft.containerservice/managedclusters": (
                "Microsoft.ContainerService/managedClusters/read",
                _CLUSTERS,
                self._cluster,
            ),
            "microsoft.containerservice/managedclusters/agentpools": (
                "Microsoft.ContainerService/managedClusters/agentPools/read",
                _CLUSTERS,
                self._pools,
            ),
            "microsoft.network/virtualnetworks/usages": (
                "Microsoft.Network/virtualNetworks/usages/read",
                ("2024-05-01",),
                self._subnets,
            ),
            "microsoft.network/virtualnetworks/subnets": (
                "Microsoft.Network/virtualNetworks/subnets/read",
                ("2024-05-01",),
                self._subnet,
            ),
            "microsoft.compute/capacityreservationgroups/capacityreservations": (
                "Microsoft.Compute/capacityReservationGroups/capacityReservations/read",
                ("2024-07-01",),
                self._reservations,
            ),
        }
        if type_ not in kinds:
            raise AzureError(404, "InvalidResourceType", f"The resource type '{type_}' could not be found.")
        right, versions, shown = kinds[type_]
        self._allow(right, version, versions)
        return shown(id_, version)

    def _found(self, id_: str) -> Answer:
        found = self._cloud.get(id_)
        if found is None:
            words = id_.split("/")
            message = (
                f"The Resource '{'/'.join(words[6:])}' under resource group '{words[4]}' was not found. For more details please "
                "go to https://aka.ms/ARMResourceNotFoundFix"
            )
            raise AzureError(404, "ResourceNotFound", message)
        return found

    def _cluster(self, id_: str, version: str) -> Answer:
        shown = _shaped(self._found(id_))
        pools = shown["properties"]["agentPoolProfiles"]
        return {**shown, "properties": {**shown["properties"], "agentPoolProfiles": [_of_version(one, version) for one in pools]}}

    def _pools(self, id_: str, version: str) -> Answer:
        if not id_.lower().endswith("/agentpools"):
            return _pool(self._found(id_), version)
        cluster = self._found(id_.rpartition("/")[0])
        return {"value": [_pool({**pool, "id": f"{id_}/{pool['name']}"}, version) for pool in cluster["agentPoolProfiles"]]}

    def _subnets(self, id_: str, _version: str) -> Answer:
        network = self._found(id_.rpartition("/")[0])
        data = self._cloud.read()
        usages = []
        for subnet, prefix in subnets_of(network["id"], network).items():
            limit, name = (
                ip_network(prefix).num_addresses - KEPT_ADDRESSES,
                {"value": "SubnetSpace", "localizedValue": "Subnet size and usage"},
            )
            usages.append({"id": subnet, "currentValue": _addresses(data, subnet), "limit": limit, "unit": "Count", "name": name})
        return {"value": usages}

    def _subnet(self, id_: str, _version: str) -> Answer:
        network = self._found(id_.lower().partition("/subnets/")[0])
        for one in network["subnets"]:
            if one["id"].lower() == id_.lower():
                return _shaped(one)
        raise AzureError(404, "NotFound", f"Resource {id_} not found.")

    def _reservations(self, id_: str, _version: str) -> Answer:
        group = id_.rpartition("/")[0]
        held = self._cloud.subscription().reserved(group)
        if held is None:
            self._found(group)
        return {
            "value": [
                {
                    "name": f"reservation-{number}",
                    "id": f"{group}/capacityReservations/reservation-{number}",
                    "type": "Microsoft.Compute/CapacityReservations",
                    "properties": {"provisioningState": "Succeeded"},
                    "sku": {"name": one["size"], "capacity": one["machines"]},
                    "zones": one.get("zones", []),
                }
                for number, one in enumerate(held or ())
            ]
        }


_LOCALIZED: Final = {"cores": "Total Regional vCPUs", "lowPriorityCores": "Total Regional Low-priority vCPUs"}


def _metadata(address: str) -> Answer:
    return {
        "name": "AzureSandbox",
        "resourceManager": f"{address}/",
        "authentication": {
            "loginEndpoint": f"{address}/",
            "audiences": [f"{address}/"],
            "tenant": "common",
            "identityProvider": "AAD",
        },
        "suffixes": {},
    }


def _region(name: str) -> Answer:
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}/locations/{name}",
        "name": name,
        "type": "Region",
        "displayName": name,
        "regionalDisplayName": name,
        "metadata": {"regionType": "Physical", "regionCategory": "Recommended"},
    }


def _sku(size: VmSize, region: str, subscription: Subscription) -> Answer:
    capabilities = {"vCPUs": size.vcpus, "MemoryGB": f"{size.memory_gib:g}", "GPUs": size.gpus, "LowPriorityCapable": "True"}
    if size.name in own_disks():
        capabilities |= {"EphemeralOSDiskSupported": "True", "MaxResourceVolumeMB": own_disks()[size.name] // _BYTES_OF_MIB}
    return {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.removeprefix("Standard_"),
        "family": subscriptions.family(size.name),
        "locations": [region],
        "locationInfo": [{"location": region, "zones": subscription.zones(size.name), "zoneDetails": []}],
        "capabilities": [{"name": name, "value": str(value)} for name, value in capabilities.items()],
        "restrictions": [_restriction(one, region) for one in subscription.restrictions(size.name)],
    }


def _restriction(one: Mapping[str, Any], region: str) -> Answer:
    info = {"locations": [region], **({"zones": one["zones"]} if one["type"] == "Zone" else {})}
    return {"type": one["type"], "values": [region], "restrictionInfo": info, "reasonCode": one["reasonCode"]}


def _shaped(found: Mapping[str, Any]) -> Answer:
    """A resource as ARM shows it: what is its own below `properties`; the plugin has taken that level out."""
    outside = {key: found[key] for key in _OUTSIDE if key in found}
    inside = {key: value for key, value in found.items() if key not in {*_OUTSIDE, "azureApiVersion"}}
    return {**outside, "properties": inside}


def _pool(found: Mapping[str, Any], version: str) -> Answer:
    """An agent pool of its own: what type and tags it has are properties, and so is its eTag (examples AgentPoolsGet)."""
    inside = {key: value for key, value in found.items() if key not in {"id", "name", "azureApiVersion"}}
    outside = {"id": found["id"], "name": found["name"], "type": "Microsoft.ContainerService/managedClusters/agentPools"}
    return {**outside, "properties": _of_version(inside, version)}


def _of_version(pool: Mapping[str, Any], version: str) -> Answer:
    """Only the preview shows who manages the GPUs of a pool."""
    gpu = {key: value for key, value in (pool.get("gpuProfile") or {}).items() if version == _PREVIEW or key != "nvidia"}
    return {**pool, **({"gpuProfile": gpu} if gpu else {})}


def _addresses(data: Data, subnet: str) -> int:
    """Addresses that the nodes of all clusters take of a subnet, and their pods where they have no range of their own."""
    taken = 0
    for pool in data["pools"].values():
        if str(pool["body"].get("vnetSubnetID") or "").lower() == subnet:
            profile = data["clusters"][pool["cluster"]]["body"].get("networkProfile") or {}
            flat = profile.get("networkPlugin") == "azure" and profile.get("networkPluginMode") != "overlay"
            pods = pool["body"]["maxPods"] if flat and not pool["body"].get("podSubnetID") else 0
            taken += pool["count"] * (1 + pods)
    return taken
