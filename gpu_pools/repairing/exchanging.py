"""How the machine of a node is exchanged: what its owner runs, by what the engine's state knows of the pool. Runs nothing itself.

Only the cloud can take a machine away, so this needs rights that a kubeconfig does not give. Both clouds take the pool's number
down by one with it: for AKS users report it of `delete-machines`, Magnum's resize is given the number. An autoscaler brings
another when pods ask for it, else the next `pulumi up` after a refresh, since the number is not the declared one then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.stack.clusters import NODE_GROUP_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_AKS: Final = "azure-native:containerservice:AgentPool"
_MAGNUM: Final = "openstack:containerinfra/nodeGroup:NodeGroup"
#: AKS's own label of a pool's nodes.
_AGENT_POOL: Final = "kubernetes.azure.com/agentpool"
_OPENSTACK: Final = "openstack:///"


def commands(stack: str, resources: Sequence[Mapping[str, Any]], pool: str, node: Mapping[str, Any]) -> tuple[str, ...]:
    """What its owner runs, in this order; nothing where the stack does not know whose the machine is.

    Args:
        stack: its name.
        resources: of the state, as `pulumi stack export` has them.
        pool: the name of the node's pool.
        node: its object.
    """
    for resource in resources:
        inputs = {**(resource.get("outputs") or {}), **(resource.get("inputs") or {})}
        if str(resource.get("type")) == _AKS and _text(inputs, "agentPoolName") == _label(node, _AGENT_POOL):
            return (*_aks(inputs, node), *_again(stack, scaled=inputs.get("enableAutoScaling") is True))
        if str(resource.get("type")) == _MAGNUM and _text(inputs, "name") in _groups(pool, node):
            scaled = "nodeCount" in (resource.get("ignoreChanges") or ())
            return (*_magnum(inputs, node), *_again(stack, scaled=scaled))
    return ()


def _groups(pool: str, node: Mapping[str, Any]) -> set[str]:
    """What Magnum may call its group: one that was exchanged for another has a name of its own, which its driver's label says."""
    return {name for label in NODE_GROUP_LABELS.values() if (name := _label(node, label))} or {pool}


def _aks(inputs: Mapping[str, Any], node: Mapping[str, Any]) -> Iterable[str]:
    # Azure/azure-cli, aks nodepool delete-machines; the name of a machine of a scale set is its node's.
    yield (
        f"az aks nodepool delete-machines --resource-group {_text(inputs, 'resourceGroupName')} "
        f"--cluster-name {_text(inputs, 'resourceName')} --name {_text(inputs, 'agentPoolName')} "
        f"--machine-names {node['metadata']['name']}"
    )


def _magnum(inputs: Mapping[str, Any], node: Mapping[str, Any]) -> Iterable[str]:
    provider_id = str((node.get("spec") or {}).get("providerID") or "")
    # magnum-cluster-api takes the last part of the provider's id for the server (driver.py, resize_cluster).
    server = provider_id.rpartition("/")[2] if provider_id.startswith(_OPENSTACK) else "SERVER"
    if server == "SERVER":
        yield f"openstack server show {node['metadata']['name']} -f value -c id        # this is SERVER"
    cluster, group = _text(inputs, "clusterId"), _text(inputs, "name")
    # Not the state's number: of a group with an autoscaler that is an old one, and a resize to it would take more machines away.
    yield f"openstack coe nodegroup show {cluster} {group} -f value -c node_count        # COUNT is one less"
    yield f"openstack coe cluster resize --nodegroup {group} --nodes-to-remove {server} {cluster} COUNT"


def _again(stack: str, *, scaled: bool) -> Iterable[str]:
    if not scaled:
        yield f"pulumi up --refresh --stack {stack}        # makes the number what it was"


def _text(values: Mapping[str, Any], key: str) -> str:
    return str(values.get(key) or key.upper())


def _label(node: Mapping[str, Any], key: str) -> str:
    return str((node["metadata"].get("labels") or {}).get(key) or "")
