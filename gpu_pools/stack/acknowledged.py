"""The section ``gpu-pools:acknowledged``: what somebody wants although it ends pods, and for which change.

An entry names a resource and, by an id, what it shall become. There are three kinds of ids:

- ``c…``: replaced. It follows from all that is declared of the resource and may force its replacement; so it holds for becoming
  exactly that, and only it lifts a protection, which is back by itself after any other edit. Counts and labels are left out:
  clouds change them in place, and a pool's labels follow from other pools too. A cluster is replaced with everything in it, so
  its id holds for its pools too, as they are declared.
- ``u…``: used otherwise where it is: a pool with other partitions or fewer nodes, a cluster with other versions.
- ``g…``: gone. The stack file then declares no pool of that name any more.

This is only about what is declared. What the engine would really replace, and which entries are used up, changes/ tells.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.plan.placing import node_group_labels
from gpu_pools.stack.clusters import MagnumSettings
from gpu_pools.stack.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.plan.planning import Plan, PoolPlan
    from gpu_pools.stack.clusters import ClusterSettings
    from gpu_pools.text.errors import Problems

#: Begins with a letter, and is nothing that some reader of YAML takes for a number.
_CHANGE: Final = "[cgu][0-9a-f]{8}"
_BECOMES, _GOES, _USED = "c", "g", "u"
#: What the section calls the cluster, whatever name it has in the cloud.
CLUSTER: Final = "cluster"
_LEAST_REASON: Final = 10
#: Settings of a cluster by which its nodes run another Kubernetes.
_VERSIONS: Final = ("kubernetes_version", "template", "template_id")


@dataclass(frozen=True)
class Acknowledgement:
    """One entry.

    Attributes:
        resource: a pool's name, or ``cluster``.
        change: the id of what it shall become.
        reason: why that is right.
    """

    resource: str
    change: str
    reason: str

    @property
    def of_replacement(self) -> bool:
        """Whether it is of a kind that lifts the protection of what it fits."""
        return self.change.startswith(_BECOMES)


def parse_acknowledged(value: object, path: str, pools: Iterable[str], problems: Problems) -> tuple[Acknowledgement, ...]:
    """The section.

    Args:
        value: as YAML gave it; None where the section is absent.
        path: of the section.
        pools: the names of the pools that the stack file declares.
        problems: where what is wrong is told. An id that fits nothing any more is not wrong: its change has been made.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.add(
            path, "is not a list", allowed="a list of `resource`, `change` and `reason`", remedy="Start each entry with a dash."
        )
        return ()
    found: list[Acknowledgement] = []
    for index, entry in enumerate(value):
        where = f"{path}[{index}]"
        one = _parse(entry, where, (CLUSTER, *pools), problems)
        if one is None:
            continue
        if any((other.resource, other.change) == (one.resource, one.change) for other in found):
            problems.add(
                where,
                f"acknowledges {one.resource} and {one.change} a second time",
                allowed="one entry for a change",
                remedy="Keep one of the two.",
            )
        found.append(one)
    return tuple(found)


def _parse(entry: object, where: str, resources: tuple[str, ...], problems: Problems) -> Acknowledgement | None:
    section = Section(entry, where, problems, what="a mapping with `resource`, `change` and `reason`")
    goes = str(section.raw("change")).startswith(_GOES)
    # What goes is declared no more.
    resource = section.text("resource", required=True, choices=None if goes else resources)
    change = section.text(
        "change",
        required=True,
        pattern=_CHANGE,
        allowed="the id that `python -m gpu_pools changes` shows, e.g. c42267e62",
        remedy="Take over the entry that `python -m gpu_pools changes` prints.",
    )
    reason = section.text(
        "reason", required=True, pattern=rf"\s*\S.{{{_LEAST_REASON - 1},}}", allowed="a sentence of 10 characters or more"
    )
    section.finish()
    return Acknowledgement(resource, change, reason) if resource and change and reason else None


def pool_change(planned: PoolPlan, cluster: ClusterSettings) -> str:
    """The id of a pool as it is planned."""
    return _id(_BECOMES, "pool", _pool(planned, cluster))


def pool_goes(planned: PoolPlan) -> str:
    """The id of the going of a pool that is deployed as it is planned."""
    return _id(_GOES, "pool", planned.change)


def pool_use(planned: PoolPlan) -> str:
    """The id of a pool's being shared as it is planned, by as many nodes."""
    declared = dataclasses.asdict(planned.sharing)
    declared.pop("needs")
    return _id(_USED, "pool", [planned.name, declared, planned.pool.min_nodes, planned.pool.max_nodes])


def cluster_use(plan: Plan) -> str:
    """The id of a cluster's running what is planned: Kubernetes, operator, driver."""
    cluster, operator = plan.settings.cluster, plan.settings.operator
    versions = {key: value for key, value in dataclasses.asdict(cluster).items() if key in _VERSIONS}
    return _id(_USED, CLUSTER, [versions, operator.chart.version, plan.operator_values["driver"]])


def cluster_change(cluster: ClusterSettings, pools: Iterable[PoolPlan]) -> str:
    """The id of a cluster and the pools in it as they are planned."""
    own = {key: value for key, value in dataclasses.asdict(cluster).items() if key != "protect"}
    if "system_pool" in own:
        # In the words of the ids that stand in stack files; who scales it replaces nothing.
        nodes = own["system_pool"].pop("nodes")
        own["system_pool"] |= {"min_nodes": nodes["fewest"], "max_nodes": nodes["most"]}
    return _id(_BECOMES, CLUSTER, [own, [_pool(planned, cluster) for planned in pools]])


def _pool(planned: PoolPlan, cluster: ClusterSettings) -> Mapping[str, Any]:
    """Whatever of it may force a replacement; on Magnum that is every label of the node group, where taints may be too."""
    placed = dataclasses.asdict(planned.pool.placement)
    if isinstance(cluster, MagnumSettings):
        return {"name": planned.name, **placed, "labels": node_group_labels(planned, cluster.driver)}
    return {"name": planned.name, **placed, "driver": planned.driver, "gpuInstanceProfile": planned.gpu_instance_profile}


def _id(change: str, kind: str, declared: object) -> str:
    return f"{change}{hashlib.sha256(json.dumps([kind, declared], sort_keys=True).encode()).hexdigest()[:8]}"
