"""What of GPU sharing is in a cluster already: nodes, the operator's ClusterPolicy, its ConfigMaps, NFD, other device plugins.

Read from Kubernetes objects as `kubectl get … -o json` prints them. Secrets are never asked for, and what one sends of them is
passed over. Sources: NVIDIA/gpu-operator v26.7.0 (api/nvidia/v1/clusterpolicy_types.go; labels of its operands),
node-feature-discovery v0.18 (labels `feature.node.kubernetes.io/`), NVIDIA/k8s-device-plugin (static manifests, chart).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.labelled import PRODUCT
from gpu_pools.stack.adoption import CLUSTER_POLICY
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: A label that only NFD sets on a node with an NVIDIA GPU, by the chart's own whitelist of device classes.
_NFD_PREFIX: Final = "feature.node.kubernetes.io/"
#: Names under which images of the device plugin are known; AKS' and the community's manifests use the same image.
_PLUGIN: Final = ("k8s-device-plugin", "nvidia-gpu-device-plugin")


@dataclass(frozen=True)
class Node:
    """A node, as far as pools go."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[str, ...]

    @property
    def has_gpu(self) -> bool:
        """Whether gpu-feature-discovery or NFD has seen an NVIDIA GPU."""
        return PRODUCT in self.labels or "feature.node.kubernetes.io/pci-10de.present" in self.labels


@dataclass(frozen=True)
class Inside:
    """A cluster from within.

    Attributes:
        nodes: all of them.
        policy_name: of the ClusterPolicy; empty where there is none.
        policy: its spec.
        config_maps: (namespace, name) -> data.
        nfd: whether NFD runs.
        plugins: namespace/name of DaemonSets that run a device plugin and are not the operator's.
        looked: whether anything of it was read.
    """

    nodes: tuple[Node, ...] = ()
    policy_name: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    config_maps: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    nfd: bool = False
    plugins: tuple[str, ...] = ()
    looked: bool = False

    @property
    def operator(self) -> bool:
        """Whether there is a GPU operator."""
        return bool(self.policy_name)

    def config_of(self, operand: str) -> tuple[str, str, Mapping[str, str]]:
        """(name, default key, data) of the ConfigMap that the ClusterPolicy names for an operand."""
        config = at(self.policy, operand, "config")
        config = config if isinstance(config, dict) else {}
        name, default = config.get("name"), config.get("default")
        name = name if isinstance(name, str) else ""
        data = self.config_maps.get((OPERATOR_NAMESPACE, name), {})
        return name, default if isinstance(default, str) else "", data

    def of_pool(self, key: str, value: str) -> tuple[Node, ...]:
        """The nodes with that label."""
        return tuple(node for node in self.nodes if node.labels.get(key) == value)


def look(objects: Iterable[Mapping[str, Any]]) -> Inside:
    """What is in the cluster, from its objects in any order; Lists are taken apart."""
    known = list(_each(objects))
    policy = next((one for one in known if one.get("kind") == "ClusterPolicy"), None)
    sets = [one for one in known if one.get("kind") in {"DaemonSet", "Deployment"}]
    nodes = tuple(_node(one) for one in known if one.get("kind") == "Node")
    return Inside(
        nodes=nodes,
        policy_name=_name(policy) if policy else "",
        policy=_mapping(policy.get("spec")) if policy else {},
        config_maps={(_namespace(one), _name(one)): _texts(one.get("data")) for one in known if one.get("kind") == "ConfigMap"},
        nfd=any(_is_nfd(one) for one in sets) or any(key.startswith(_NFD_PREFIX) for node in nodes for key in node.labels),
        plugins=tuple(sorted(f"{_namespace(one)}/{_name(one)}" for one in sets if _is_other_plugin(one))),
        looked=bool(known),
    )


def _each(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for one in objects:
        items = one.get("items")
        if isinstance(items, list):
            # The items of a typed list do not say what they are.
            kind = str(one.get("kind", "")).removesuffix("List")
            inner = [{**({"kind": kind} if kind else {}), **item} for item in items if isinstance(item, dict)]
            yield from _each(inner)
        else:
            yield one


def _is_nfd(workload: Mapping[str, Any]) -> bool:
    labels = _texts(_mapping(workload.get("metadata")).get("labels"))
    named = labels.get("app.kubernetes.io/name") or labels.get("app") or ""
    return named in {"node-feature-discovery", "nfd"} or any("node-feature-discovery" in image for image in _images(workload))


def _is_other_plugin(workload: Mapping[str, Any]) -> bool:
    return (
        workload.get("kind") == "DaemonSet"
        and _namespace(workload) != OPERATOR_NAMESPACE
        and any(part in image for image in _images(workload) for part in _PLUGIN)
    )


def _images(workload: Mapping[str, Any]) -> Iterator[str]:
    containers = at(workload, "spec", "template", "spec", "containers")
    for container in containers if isinstance(containers, list) else []:
        if isinstance(container, dict) and isinstance(container.get("image"), str):
            yield container["image"]


def _node(one: Mapping[str, Any]) -> Node:
    taints = _mapping(one.get("spec")).get("taints") or []
    return Node(
        name=_name(one),
        labels=_texts(_mapping(one.get("metadata")).get("labels")),
        taints=tuple(_taint(taint) for taint in taints if isinstance(taint, dict) and taint.get("key") and taint.get("effect")),
    )


def _taint(taint: Mapping[str, Any]) -> str:
    value = taint.get("value")
    return f"{taint['key']}={value}:{taint['effect']}" if value else f"{taint['key']}:{taint['effect']}"


def _name(one: Mapping[str, Any]) -> str:
    return str(_mapping(one.get("metadata")).get("name") or "")


def _namespace(one: Mapping[str, Any]) -> str:
    return str(_mapping(one.get("metadata")).get("namespace") or "")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> dict[str, str]:
    return {str(key): one for key, one in _mapping(value).items() if isinstance(one, str)}


def other_policy(inside: Inside) -> str:
    """Why an operator that is there cannot be used as it is; empty: it can."""
    if inside.operator and inside.policy_name != CLUSTER_POLICY:
        return (
            f"its ClusterPolicy is called {inside.policy_name}, and a stack changes {CLUSTER_POLICY}, as NVIDIA's chart names it"
        )
    return ""
