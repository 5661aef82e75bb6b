"""What Magnum's drivers put on the nodes of a node group: labels, taints, and nothing else of what a stack asks for.

Sources: openstack/magnum stable/2025.1 (heat: the minions' kubelet arguments), vexxhost/magnum-cluster-api 0.38.1 and
openstack/magnum-capi-helm 1.4.0 (labels of machine deployments); the kubelet's own rules for labels (KubeletLabels).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.clouds import azure_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAT: Final = "heat"
CLUSTER_API: Final = "magnum-cluster-api"
CAPI_HELM: Final = "capi-helm"
_KUBELET_LABEL_PREFIX: Final = re.compile(r"(.*\.)?(kubelet|node)\.kubernetes\.io")


@dataclass(frozen=True)
class NodeMarks:
    """What the nodes of a group carry when they join.

    Attributes:
        labels: node labels.
        taints: node taints.
        joins: False when the kubelet would not start with the options that it was given.
    """

    labels: dict[str, str]
    taints: list[dict[str, str]]
    joins: bool = True


def node_marks(driver: str, group: str, role: str, labels: Mapping[str, str]) -> NodeMarks:
    """What a driver puts on a group's nodes. The group's Magnum labels do not reach them.

    Args:
        driver: the Magnum driver.
        group: the group's name.
        role: its role.
        labels: its effective Magnum labels; heat reads the kubelet's options from them.
    """
    if driver == CLUSTER_API:
        return NodeMarks({f"node-role.kubernetes.io/{role}": "", "node.cluster.x-k8s.io/nodegroup": group}, [])
    if driver == CAPI_HELM:
        return NodeMarks({"capi.stackhpc.com/node-group": group}, [])
    own = {"magnum.openstack.org/role": role, "magnum.openstack.org/nodegroup": group}
    options = _kubelet_options(labels.get("kubelet_options", ""))
    return NodeMarks({**own, **options.labels}, options.taints, options.joins)


def _kubelet_options(text: str) -> NodeMarks:
    """Labels and taints that the kubelet's command line asks for."""
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    for word in shlex.split(text):
        flag, _, value = word.partition("=")
        items = [item for item in value.split(",") if item]
        if flag == "--node-labels":
            labels.update(item.partition("=")[::2] for item in items)
        elif flag == "--register-with-taints":
            parsed = [azure_rules.parse_taint(item) for item in items]
            if None in parsed:
                return NodeMarks(labels, taints, joins=False)
            taints += [taint for taint in parsed if taint]
    return NodeMarks(labels, taints, joins=all(_kubelet_may_set(key) for key in labels))


def _kubelet_may_set(key: str) -> bool:
    """Whether the kubelet starts with that label in --node-labels."""
    prefix = key.rpartition("/")[0]
    if prefix not in {"kubernetes.io", "k8s.io"} and not prefix.endswith((".kubernetes.io", ".k8s.io")):
        return True
    return _KUBELET_LABEL_PREFIX.fullmatch(prefix) is not None
