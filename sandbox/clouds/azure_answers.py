"""What Azure's stand-in answers with: groups, clusters and pools as ARM shows them, kubeconfigs, and that something is not there.

Made from the records alone; what they hold, and what is refused, is not decided here.
"""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.platforms.aks.entra import SERVER_ID
from sandbox.clouds import azure_versions as versions
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_ids import digest, group_id
from sandbox.clouds.azure_machines import node_image, node_resource_group
from sandbox.clouds.entra import TENANT

if TYPE_CHECKING:
    from sandbox.clouds.azure_rules import Body
    from sandbox.clouds.host import RunningCluster
    from sandbox.clouds.records import Data

#: The application that logs users in to AKS, the same for all (Azure/kubelogin, docs/book/src/concepts/aks.md).
_KUBECTL: Final = "80faf920-1908-4b52-b5ef-a8e7bedfc67a"
API_VERSION: Final = "2025-09-01"
_NAMESPACE: Final = uuid.UUID("6f2f0d3e-6a55-4b8c-9a2e-7f7e5c1f0c11")


def version_of(record: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    """The release that a cluster or pool runs; records of before have none."""
    version: str = record.get("version") or versions.full((cluster or record)["body"].get("kubernetesVersion"))
    return version


def show_cluster(data: Data, cluster: dict[str, Any]) -> Body:
    """A managed cluster with its pools."""
    body, id_ = cluster["body"], cluster["id"]
    prefix = body.get("dnsPrefix") or body.get("fqdnSubdomain")
    host = f"{prefix}-{digest(id_)[:8]}.hcp.{body['location']}.azmk8s.io"
    pools = [
        {"name": pool["name"], **show_pool(pool, cluster, nested=True)}
        for pool in data["pools"].values()
        if pool["cluster"] == id_.lower()
    ]
    shown = {
        "id": id_,
        "name": cluster["name"],
        "type": "Microsoft.ContainerService/ManagedClusters",
        "azureApiVersion": API_VERSION,
        "enableRBAC": True,
        "disableLocalAccounts": False,
        "supportPlan": "KubernetesOfficial",
        "sku": {"name": "Base", "tier": "Free"},
        "kubernetesVersion": version_of(cluster),
        "servicePrincipalProfile": {"clientId": "msi"},
        **_with_tenant(body),
        "currentKubernetesVersion": version_of(cluster),
        "provisioningState": cluster["state"],
        "powerState": {"code": "Running"},
        "fqdn": host,
        "azurePortalFQDN": host.replace(".hcp.", ".portal.hcp.", 1),
        "maxAgentPools": 100,
        "nodeResourceGroup": node_resource_group(cluster),
        "resourceUID": digest(id_)[:24],
        "eTag": str(uuid.uuid5(_NAMESPACE, repr(body))),
        "agentPoolProfiles": pools,
        "identityProfile": {
            "kubeletidentity": {
                "clientId": str(uuid.uuid5(_NAMESPACE, f"{id_} kubelet client")),
                "objectId": str(uuid.uuid5(_NAMESPACE, f"{id_} kubelet object")),
                "resourceId": f"{group_id(node_resource_group(cluster))}/providers/Microsoft.ManagedIdentity/"
                f"userAssignedIdentities/{cluster['name']}-agentpool",
            },
        },
    }
    if body.get("identityProfile"):
        shown["identityProfile"] = body["identityProfile"]
    shown["networkProfile"] = {**_network_defaults(body), **(body.get("networkProfile") or {})}
    if (body.get("apiServerAccessProfile") or {}).get("enablePrivateCluster"):
        shown["privateFQDN"] = host.replace(".hcp.", ".privatelink.", 1)
    if body.get("identity"):
        own = body["identity"].get("userAssignedIdentities") or []
        shown["identity"] = {
            **body["identity"],
            # Asked for as a list, answered as a mapping.
            "userAssignedIdentities": {
                one: {"clientId": _guid(one, "client"), "principalId": _guid(one, "principal")} for one in own
            },
            "principalId": str(uuid.uuid5(_NAMESPACE, f"{id_} principal")),
            "tenantId": TENANT,
        }
    issuer = body.get("oidcIssuerProfile") or {}
    if issuer.get("enabled"):
        address = f"https://{body['location']}.oic.prod-aks.azure.com/{TENANT}/{digest(id_)[:36]}/"
        shown["oidcIssuerProfile"] = {**issuer, "issuerURL": address}
    return shown


def _guid(id_: str, what: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{id_} {what}"))


def _network_defaults(body: Body) -> Body:
    """What Azure fills in and answers with; an import takes it over (pulumi-azure-native#4401)."""
    profile = body.get("networkProfile") or {}
    own_range = profile.get("networkPluginMode") == "overlay" or profile.get("networkPlugin") == "kubenet"
    return {
        "networkPlugin": "azure",
        "networkDataplane": "azure",
        "networkPolicy": "none",
        "outboundType": "loadBalancer",
        "loadBalancerSku": "standard",
        "serviceCidr": "10.0.0.0/16",
        "dnsServiceIP": "10.0.0.10",
        "ipFamilies": ["IPv4"],
        **({"podCidr": "10.244.0.0/16"} if own_range else {}),
    }


def _with_tenant(body: Body) -> Body:
    """The properties with the tenant that a request may leave out."""
    profile = body.get("aadProfile")
    return {**body, "aadProfile": {"tenantID": TENANT, **profile}} if profile else body


def user_kubeconfig(cluster: dict[str, Any], running: RunningCluster) -> str:
    """As AKS hands it out from Kubernetes 1.24 on (azure-aks-docs, kubelogin-authentication); it asks for a device code."""
    name, tenant = cluster["name"], cluster["body"]["aadProfile"].get("tenantID") or TENANT
    user = f"clusterUser_{cluster['groupName']}_{name}"
    authority = base64.b64encode(running.ca_pem.encode()).decode()
    arguments = ["get-token", "--environment", "AzurePublicCloud", "--server-id", SERVER_ID, "--client-id", _KUBECTL]
    program = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "args": [*arguments, "--tenant-id", tenant, "--login", "devicecode"],
        "command": "kubelogin",
        "env": None,
        "installHint": "kubelogin is not installed: https://aka.ms/aks/kubelogin",
        "provideClusterInfo": False,
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"certificate-authority-data": authority, "server": running.server}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
        "preferences": {},
        "users": [{"name": user, "user": {"exec": program}}],
    }
    return yaml.safe_dump(config, sort_keys=False)


def not_found(what: str, group: str) -> AzureError:
    """The error for what is not there."""
    message = (
        f"The Resource 'Microsoft.ContainerService/{what}' under resource group '{group}' was not found. "
        "For more details please go to https://aka.ms/ARMResourceNotFoundFix"
    )
    return AzureError(404, "ResourceNotFound", message)


def show_group(group: dict[str, Any]) -> Body:
    """A resource group."""
    return {
        "id": group_id(group["name"]),
        "name": group["name"],
        "type": "Microsoft.Resources/resourceGroups",
        "azureApiVersion": "2024-03-01",
        "properties": {"provisioningState": "Succeeded"},
        **group["body"],
    }


def show_pool(pool: dict[str, Any], cluster: dict[str, Any], *, nested: bool = False) -> Body:
    """An agent pool, or what its cluster says of it."""
    body = pool["body"]
    version = version_of(pool, cluster)
    shown = {
        "upgradeSettings": {} if body.get("scaleSetPriority") == "Spot" else {"maxSurge": "10%"},
        **body,
        "count": pool["count"],
        "orchestratorVersion": body.get("orchestratorVersion") or version,
        "currentOrchestratorVersion": version,
        "nodeImageVersion": pool.get("image") or node_image(body),
        "provisioningState": pool["state"],
        "powerState": {"code": "Running"},
        "eTag": str(uuid.uuid5(_NAMESPACE, repr((body, pool["count"])))),
    }
    return shown if nested else {"id": pool["id"], "name": pool["name"], "azureApiVersion": API_VERSION, **shown}
