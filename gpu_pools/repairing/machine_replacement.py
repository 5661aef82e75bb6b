"""How the machine of a node is replaced: what its owner runs, by what the engine's state knows of the pool. Runs nothing itself.

Only the cloud can take a machine away, so this needs rights that a kubeconfig does not give. Both clouds take the pool's number
down by one with it: for AKS users report it of `delete-machines`, Magnum's resize is given the number. An autoscaler brings
another when pods ask for it, else the next `pulumi up` after a refresh, since the number is not the declared one then.

What is printed is run by an administrator, and a kubelet writes its node's provider id and labels itself. So every word is
quoted, a provider id counts only where it ends in a UUID that no other node has, and the first command shows whether the machine
of that id is this node's.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.magnum.cluster import NODE_GROUP_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_AKS: Final = "azure-native:containerservice:AgentPool"
_MAGNUM: Final = "openstack:containerinfra/nodeGroup:NodeGroup"
#: AKS's own label of a pool's nodes.
_AGENT_POOL: Final = "kubernetes.azure.com/agentpool"
#: As cloud-provider-openstack writes it (pkg/openstack/instances.go): with the region since release 1.28, where it is told to.
_SERVER: Final = re.compile(r"openstack://[A-Za-z0-9_.-]*/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)


def commands(
    stack: str, resources: Sequence[Any], pool: str, node: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """What its owner runs, in this order; nothing where the stack does not know whose the machine is.

    Args:
        stack: its name.
        resources: of the state, as `pulumi stack export` has them.
        pool: the name of the node's pool.
        node: its object.
        nodes: all of the cluster.
    """
    for resource in resources:
        if not isinstance(resource, dict):
            continue
        inputs = {**_mapping(resource, "outputs"), **_mapping(resource, "inputs")}
        if str(resource.get("type")) == _AKS and _text(inputs, "agentPoolName") == _label(node, _AGENT_POOL):
            return (*_aks(inputs, node), *_again(stack, scaled=inputs.get("enableAutoScaling") is True))
        if str(resource.get("type")) == _MAGNUM and _text(inputs, "name") in _groups(pool, node):
            scaled = "nodeCount" in (resource.get("ignoreChanges") or ())
            return (*_magnum(inputs, node, nodes), *_again(stack, scaled=scaled))
    return ()


def _groups(pool: str, node: Mapping[str, Any]) -> set[str]:
    """What Magnum may call its group: one that was replaced has a name of its own, which its driver's label says."""
    return {name for label in NODE_GROUP_LABELS.values() if (name := _label(node, label))} or {pool}


def _aks(inputs: Mapping[str, Any], node: Mapping[str, Any]) -> Iterable[str]:
    # Azure/azure-cli, aks nodepool delete-machines; the name of a machine of a scale set is its node's.
    place = {"--resource-group": "resourceGroupName", "--cluster-name": "resourceName", "--name": "agentPoolName"}
    named = [word for option, key in place.items() for word in (option, _text(inputs, key))]
    yield shlex.join(["az", "aks", "nodepool", "delete-machines", *named, "--machine-names", _name(node)])


def _magnum(inputs: Mapping[str, Any], node: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    # magnum-cluster-api takes the last part of the provider's id for the server (driver.py, resize_cluster).
    server = _server(node)
    if server and [_server(one) for one in nodes].count(server) <= 1:
        shown = shlex.join(["openstack", "server", "show", server, "-f", "value", "-c", "name"])
        # Only the cloud knows better than the node which machine it is.
        yield f"{shown}        # has to say {shlex.quote(_name(node))}: if it does not, stop, it is another machine"
    else:
        server = "SERVER"
        yield f"{shlex.join(['openstack', 'server', 'show', _name(node), '-f', 'value', '-c', 'id'])}        # this is SERVER"
    cluster, group = _text(inputs, "clusterId"), _text(inputs, "name")
    # Not the state's number: of a group with an autoscaler that is an old one, and a resize to it would take more machines away.
    count = shlex.join(["openstack", "coe", "nodegroup", "show", cluster, group, "-f", "value", "-c", "node_count"])
    yield f"{count}        # COUNT is one less"
    resize = ["openstack", "coe", "cluster", "resize", "--nodegroup", group, "--nodes-to-remove", server, cluster, "COUNT"]
    yield shlex.join(resize)


def _again(stack: str, *, scaled: bool) -> Iterable[str]:
    if not scaled:
        yield f"{shlex.join(['pulumi', 'up', '--refresh', '--stack', stack])}        # makes the number what it was"


def _server(node: Mapping[str, Any]) -> str:
    """The server that the node says it is; empty where it says none."""
    found = _SERVER.fullmatch(str(_mapping(node, "spec").get("providerID") or ""))
    return found[1] if found else ""


def _name(node: Mapping[str, Any]) -> str:
    return str(_mapping(node, "metadata").get("name") or "")


def _text(values: Mapping[str, Any], key: str) -> str:
    return str(values.get(key) or key.upper())


def _label(node: Mapping[str, Any], key: str) -> str:
    return str(_mapping(_mapping(node, "metadata"), "labels").get(key) or "")


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}
