"""A Magnum cluster that is there: its GPU node groups become pools of a stack that has the cluster as `existing`.

Magnum tells of a group all that the plugin imports, but not which GPUs its flavor has: that is said by whoever adopts, or by the
nodes' labels. Labels of a living group never change, so an adopted one gets none of the stack's: it is known by `adopted: true`.
Sources: openstack/magnum 23.0.0 (api/controllers/v1/nodegroup.py), python-magnumclient's osc commands,
terraform-provider-openstack 3.4.0 (nodegroup resource: its id, and what it reads).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.adopting.adopted import Adopted, Imported, NotAdoptableError, Taken, Unsaid
from gpu_pools.adopting.documents import text_of
from gpu_pools.adopting.pools import planned_alone, put_in
from gpu_pools.adopting.sharing import gpus_of, shared_as
from gpu_pools.adopting.surroundings import attach
from gpu_pools.platforms.magnum.cluster import NODE_GROUP_LABELS, MagnumDriver
from gpu_pools.text.errors import Problem, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.adopting.inside import Inside, Node

SHOW: Final = "openstack coe cluster show NAME --format json"
SHOW_GROUPS: Final = "openstack coe nodegroup show NAME GROUP --format json"
_COMPONENT: Final = "gpu-pools:index:MagnumGpuNodePool"
_GROUP: Final = "openstack:containerinfra/nodeGroup:NodeGroup"
_KUBELETS: Final = "kubelet_options"
_TAINTS: Final = re.compile(r"--register-with-taints=(\S+)")
#: Magnum's own, which the plugin cannot manage as groups of a stack.
_DEFAULTS: Final = ("default-master", "default-worker")


@dataclass(frozen=True)
class Gpus:
    """What a flavor has.

    Attributes:
        model: a GPU model, as a stack file names it.
        count: of one machine.
    """

    model: str
    count: int


@dataclass(frozen=True)
class MagnumCluster:
    """What was read.

    Attributes:
        cluster: as `openstack coe cluster show` prints it.
        groups: as `openstack coe nodegroup show` prints each.
        driver: Magnum's, in this cloud.
    """

    cluster: Mapping[str, Any]
    groups: Sequence[Mapping[str, Any]]
    driver: str


def adopt_magnum(there: MagnumCluster, flavors: Mapping[str, Gpus], inside: Inside, platform: str) -> Adopted:
    """A stack for the cluster's GPU node groups.

    Args:
        there: the cluster.
        flavors: name or id -> its GPUs, as far as whoever adopts knows them.
        inside: what is in the cluster.
        platform: Pulumi name of the program's GpuPlatform.

    Raises:
        NotAdoptableError: if it is not a cluster, or the groups are not its own.
    """
    uuid = text_of(there.cluster, "uuid", "the cluster", SHOW)
    name = text_of(there.cluster, "name", "the cluster", SHOW)
    _check_groups(there.groups, uuid)
    section = {"platform": "magnum", "driver": there.driver, "existing": {"uuid": uuid}}
    adopted = Adopted({"cluster": section, "flavors": {}})
    adopted.managed.append(f"of the cluster {name}: nothing but the groups below")
    attach(adopted, inside, "", add_ons=there.driver == "capi-helm")
    for index, group in enumerate(there.groups):
        named = text_of(group, "name", f"node group {index}", SHOW_GROUPS)
        gpus = flavors.get(str(group.get("flavor_id"))) or _by_nodes(named, there.driver, inside)
        if gpus is None:
            continue
        taken = _taken(there, named, group, gpus, inside, adopted, platform)
        why = taken if isinstance(taken, str) else put_in(adopted, taken)
        if why:
            adopted.unsaid.append(Unsaid(f"node group {named}", f"is not adopted: {why}"))
    used = {pool["flavor"] for pool in adopted.sections.get("pools", [])}
    adopted.sections["flavors"] = {key: value for key, value in adopted.sections["flavors"].items() if key in used}
    return adopted


def _check_groups(groups: Sequence[Mapping[str, Any]], uuid: str) -> None:
    """Refuse node groups of another cluster: where the client tells whose they are, it must be this one."""
    problems = [
        Problem(
            f"node group {show(group.get('name', index))}",
            f"is of the cluster {group['cluster_id']}",
            f"node groups of the cluster {uuid}",
            "Print the groups of that cluster.",
        )
        for index, group in enumerate(groups)
        if group.get("cluster_id") not in (None, uuid)
    ]
    if problems:
        raise NotAdoptableError(problems)


def _nodes(name: str, driver: str, inside: Inside) -> tuple[Node, ...]:
    return inside.of_pool(NODE_GROUP_LABELS[cast("MagnumDriver", driver)], name)


def _by_nodes(name: str, driver: str, inside: Inside) -> Gpus | None:
    for node in _nodes(name, driver, inside):
        found = gpus_of(name, node.labels, inside)
        if found:
            return Gpus(found[1] or found[0].key, found[2])
    return None


def _taken(
    there: MagnumCluster, name: str, group: Mapping[str, Any], gpus: Gpus, inside: Inside, adopted: Adopted, platform: str
) -> Taken | str:
    if name in _DEFAULTS or group.get("is_default"):
        return "it is the cluster's own group of that kind, which goes with the cluster: Magnum deletes it with nothing else"
    flavor = text_of(group, "flavor_id", f"node group {name}", SHOW_GROUPS)
    adopted.sections["flavors"][flavor] = {"gpuModel": gpus.model, "gpusPerNode": gpus.count}
    entry: dict[str, Any] = {"name": name, "flavor": flavor, "adopted": True, **_numbers(group)}
    if group.get("image_id"):
        entry["image"] = group["image_id"]
    if group.get("docker_volume_size"):
        entry["dockerVolumeSize"] = group["docker_volume_size"]
    labels = {str(key): str(value) for key, value in (group.get("labels") or {}).items()}
    nodes = _nodes(name, there.driver, inside)
    if taints := _taints(labels, nodes):
        entry["taints"] = taints
    seen = {key: value for node in nodes[:1] for key, value in node.labels.items()}
    shared = shared_as(name, seen, inside)
    found = planned_alone(adopted.sections, entry, shared.candidates)
    if isinstance(found, str):
        return found
    adopted.unsaid += shared.unsaid
    if labels:
        why = "a living group's labels never change: they stay as they are, and are not in the stack file"
        adopted.unsaid.append(Unsaid(f"node group {name}: {len(labels)} labels of Magnum's driver", why))
    if (role := group.get("role")) not in {None, "gpu"}:
        adopted.unsaid.append(
            Unsaid(f"node group {name}: role = {role}", "stays as it is; groups that a stack makes have the role gpu")
        )
    component = f"{platform}-{name}"
    id_ = f"{adopted.sections['cluster']['existing']['uuid']}/{text_of(group, 'uuid', f'node group {name}', SHOW_GROUPS)}"
    imports = (Imported(_COMPONENT, component, platform), Imported(_GROUP, f"{component}-group", component, id_))
    (sharing, declaration), _ = found
    return Taken({**entry, "sharing": sharing}, declaration, imports)


def _numbers(group: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds where there is an upper one: without, nobody scales the group, and its number is the stack's."""
    low, high = group.get("min_node_count"), group.get("max_node_count")
    if high:
        return {"nodes": {"min": low or 0, "max": high}}
    return {"count": group.get("node_count", 0)}


def _taints(labels: Mapping[str, str], nodes: Sequence[Node]) -> list[str]:
    """Those that kubelets register with, or that the nodes show."""
    match = _TAINTS.search(labels.get(_KUBELETS, ""))
    if match:
        # Here the equals sign stands also where there is no value.
        return [taint.replace("=:", ":") for taint in match[1].split(",")]
    return sorted({taint for node in nodes for taint in node.taints if not taint.startswith("node.kubernetes.io/")})
