"""A cluster of any make, by its Kubernetes objects alone: GPU nodes become pools of a stack for a cluster that exists.

Nodes belong together that have the same GPUs, share them in the same way and have the same taints. What tells them from all
others must be a label that stays when they share in another way: not one of gpu-feature-discovery's, whose product gets another
name under time-slicing and MIG. Nothing of the cloud comes into the state, so there is nothing to import.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import Adopted, NotAdoptableError, Taken, Unsaid
from gpu_pools.adopting.labelled import COUNT, PRODUCT, Labelled, labelled
from gpu_pools.adopting.pools import planned_alone, put_in
from gpu_pools.adopting.sharing import shared_as
from gpu_pools.adopting.surroundings import attach
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.adopting.inside import Inside, Node

GET: Final = "kubectl get nodes --output json"
#: Labels by which clouds and tools name the group that a node came from; sources: their own documentation of node labels.
_GROUPS: Final = (
    *("eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool"),
    *("magnum.openstack.org/nodegroup", "capi.stackhpc.com/node-group", "node.cluster.x-k8s.io/nodegroup"),
    *("topology.cluster.x-k8s.io/deployment-name", "machine.openshift.io/machineset", "kops.k8s.io/instancegroup"),
    *("doks.digitalocean.com/node-pool", "oci.oraclecloud.com/node-pool", "ibm-cloud.kubernetes.io/worker-pool-name"),
    *("alpha.eksctl.io/nodegroup-name", "karpenter.sh/provisioner-name", "vks.vmware.com/nodepool"),
)
_HOST: Final = "kubernetes.io/hostname"
#: Whoever writes them writes something else on the day that the nodes share in another way, or on each node, or with each version
#: of the nodes' image; or they say what a node does for the cluster.
_NO_SELECTORS: Final = re.compile(
    r"nvidia\.com/.*|feature\.node\.kubernetes\.io/.*|gpu-pools/.*|(beta\.)?kubernetes\.io/(arch|os|hostname|instance-type|role)"
    r"|(failure-domain\.beta|topology)\.kubernetes\.io/.*|node(-role)?\.kubernetes\.io/.*|.*\.csi\..*"
    r"|k8s\.io/.*|([a-z0-9-]+\.)*(amazonaws\.com|eksctl\.io|azure\.com|cloud\.google\.com|vmware\.com|karpenter\.sh|openshift\.io)/.*"
)


def adopt_existing(inside: Inside, context: str) -> Adopted:
    """A stack for the cluster's GPU nodes.

    Args:
        inside: what is in the cluster.
        context: of the kubeconfig; empty: its current one.

    Raises:
        NotAdoptableError: if no node has a GPU.
    """
    gpus = [node for node in inside.nodes if node.has_gpu]
    if not gpus:
        message = f"none of {len(inside.nodes)} nodes has a label of gpu-feature-discovery ({PRODUCT}) or NFD that tells of a GPU"
        remedy = "Adopt it once the operator, or NFD, has looked at its nodes; or write the pools by hand."
        raise NotAdoptableError([Problem("the nodes", message, "nodes with GPUs", remedy)])
    cluster = {"platform": "existing", **({"context": context} if context else {})}
    adopted = Adopted({"cluster": cluster})
    adopted.managed.append("of the nodes: nothing but labels, by NFD")
    attach(adopted, inside, "")
    for nodes in _alike(gpus):
        _put(nodes, inside, adopted)
    return adopted


def _alike(nodes: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in nodes:
        seen = labelled(node.labels)
        shares: tuple[object, ...] = (node.labels.get(DEVICE_PLUGIN_CONFIG_LABEL), node.labels.get(MIG_CONFIG_LABEL))
        if isinstance(seen, Labelled) and shares == (None, None):
            shares = (seen.replicas, *sorted(seen.instances.items()))
        lasting = tuple(sorted(taint for taint in node.taints if not taint.startswith("node.kubernetes.io/")))
        group = next((node.labels[key] for key in _GROUPS if key in node.labels), "")
        gpu = seen if isinstance(seen, str) else seen.model.key
        groups.setdefault((gpu, node.labels.get(COUNT), shares, lasting, group), []).append(node)
    yield from (tuple(group) for group in groups.values())


def _put(nodes: Sequence[Node], inside: Inside, adopted: Adopted) -> None:
    where = f"nodes {', '.join(node.name for node in nodes)}"
    seen = labelled(nodes[0].labels)
    if isinstance(seen, str):
        adopted.unsaid.append(Unsaid(where, f"{seen}: write the pool by hand, with gpuModel and gpusPerNode"))
        return
    selector = _selector(nodes, inside.nodes)
    if not selector:
        why = (
            "no label that lasts tells them from all others: label them, e.g. `kubectl label node NAME example.com/gpu-pool=gpu`"
        )
        adopted.unsaid.append(Unsaid(where, why))
        return
    name = _pool_name(selector, seen.model.key, [pool["name"] for pool in adopted.sections.get("pools", [])])
    shared = shared_as(name, nodes[0].labels, inside)
    gpus = seen.gpus(shared.layout)
    if gpus is None:
        why = f"they show {seen.told}, which does not tell how many GPUs there are: write the pool by hand, with gpusPerNode"
        adopted.unsaid.append(Unsaid(where, why))
        return
    entry: dict[str, Any] = {
        "name": name,
        "nodeSelector": selector,
        "gpuModel": seen.product or seen.model.key,
        "gpusPerNode": gpus,
        "count": len(nodes),
    }
    if taints := sorted({taint for node in nodes for taint in node.taints if not taint.startswith("node.kubernetes.io/")}):
        entry["taints"] = taints
    found = planned_alone(adopted.sections, entry, shared.candidates)
    if isinstance(found, str):
        adopted.unsaid.append(Unsaid(where, f"are not adopted: {found}"))
        return
    adopted.unsaid += shared.unsaid
    (named, sharing), _ = found
    if why := put_in(adopted, Taken({**entry, "sharing": named}, sharing)):
        adopted.unsaid.append(Unsaid(where, f"are not adopted: {why}"))


def _selector(nodes: Sequence[Node], all_nodes: Sequence[Node]) -> dict[str, str]:
    """One label that these nodes have with one value, and no other node: a group's by preference; of a single node its name."""
    common = dict(set.intersection(*(set(node.labels.items()) for node in nodes)))
    mine = {node.name for node in nodes}
    keys = [
        *(key for key in _GROUPS if key in common),
        *sorted(key for key in common if not _NO_SELECTORS.fullmatch(key) and key not in _GROUPS),
    ]
    for key in [*keys, *([_HOST] if len(nodes) == 1 and _HOST in common else [])]:
        if {node.name for node in all_nodes if node.labels.get(key) == common[key]} == mine:
            return {key: common[key]}
    return {}


def _pool_name(selector: Mapping[str, str], model: str, taken: Sequence[str]) -> str:
    (key, value) = next(iter(selector.items()))
    plain = (
        re.sub(r"[^a-z0-9-]+", "-", (value if value not in {"", "true"} else key.rpartition("/")[2]).lower())
        .strip("-")[:36]
        .strip("-")
    )
    name = plain if re.match(r"[a-z]", plain) else f"{model}-{plain}".strip("-")[:36].strip("-")
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}-{number}", number + 1
    return unique
