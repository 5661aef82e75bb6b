"""Declared, expected, observed: what the nodes of each pool show, compared to the unit.

The sandbox's own look at the API server. It reads allocatable (never capacity), labels and taints; what NVML says is the business
of the verifier on the node, whose verdict counts where a stack has one. Of pools that a stack only holds as they were imported
(gpu_pools/stack/imported.py) its file says sharing for later: there only what the pool itself has is compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.allocation.dra import DRA_DRIVER
from gpu_pools.plan.placing import pool_selector
from gpu_pools.proof.verifier_rights import CONDITION
from gpu_pools.text.table import resources_text, table
from gpu_pools.verifier.quantities import read_count
from sandbox.cluster.rollout import node_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan

_PREFIX: Final = "nvidia.com/"
#: Expected of a pool that is only held: whatever it has.
AS_IT_IS: Final = "as it is"
_SHORTEST_ELLIPSIS: Final = 3


@dataclass(frozen=True)
class NodeObservation:
    """One node of a pool.

    Attributes:
        name: the node.
        allocatable: nvidia.com resources above zero.
        differences: in words; empty where the node is as declared.
    """

    name: str
    allocatable: Mapping[str, int]
    differences: tuple[str, ...]


@dataclass(frozen=True)
class PoolObservation:
    """One pool: its plan and its nodes."""

    pool_plan: PoolPlan
    nodes: tuple[NodeObservation, ...]

    @property
    def enough_nodes(self) -> bool:
        """Whether at least the declared minimum of nodes is there."""
        return len(self.nodes) >= self.pool_plan.pool.min_nodes

    @property
    def holds(self) -> bool:
        """Whether everything that is there is as declared."""
        return self.enough_nodes and not any(node.differences for node in self.nodes)


def observe(
    plan: Plan,
    nodes: Iterable[Mapping[str, Any]],
    *,
    verifiers_run: bool,
    said: Mapping[str, str] | None = None,
    slices: Iterable[Mapping[str, Any]] = (),
) -> tuple[PoolObservation, ...]:
    """Compare node objects of the API with the plan.

    Args:
        plan: what must be there.
        nodes: what is there.
        verifiers_run: whether a node that no verifier has said anything of is still to be verified; else none runs there.
        said: node -> the first cause that its verifier names, or why its report proves nothing; only where there is such.
        slices: ResourceSlices of the cluster, for pools whose GPUs pods get through claims.
    """
    known, looked = list(nodes), _Looked(plan, verifiers_run, said or {}, tuple(slices))
    return tuple(looked.pool(pool_plan, known) for pool_plan in plan.pools)


@dataclass(frozen=True)
class _Looked:
    """What all nodes are compared with."""

    plan: Plan
    verifiers_run: bool
    said: Mapping[str, str]
    slices: tuple[Mapping[str, Any], ...]

    def pool(self, pool_plan: PoolPlan, nodes: list[Mapping[str, Any]]) -> PoolObservation:
        selector = pool_selector(self.plan.settings.cluster, pool_plan)
        mine = [node for node in nodes if selector.items() <= _labels(node).items()]
        return PoolObservation(
            pool_plan, tuple(sorted((self._node(pool_plan, node) for node in mine), key=lambda node: node.name))
        )

    def _node(self, pool_plan: PoolPlan, node: Mapping[str, Any]) -> NodeObservation:
        raw = node.get("status", {}).get("allocatable", {})
        # What is not a count is -1, which nobody declares.
        read = {name: read_count(value) for name, value in raw.items() if name.startswith(_PREFIX)}
        counts = {name: -1 if count is None else count for name, count in read.items()}
        found = {name: count for name, count in counts.items() if count}
        differing = () if pool_plan.imported else _resource_differences(pool_plan.advertises, found)
        if pool_plan.devices:
            # Of the device plugin nothing may be left there.
            left = _resource_differences({}, found)
            found = announced(pool_plan, node["metadata"]["name"], self.slices)
            differing = (*left, *_resource_differences(pool_plan.advertises, found))
        # Causes before what follows from them: counts come last, and stand in a column of their own.
        differences = [
            *node_states(node),
            *(() if pool_plan.imported else _mig_difference(_labels(node))),
            *self._verdict(node),
            *_label_differences({**pool_plan.labels, **({} if pool_plan.imported else pool_plan.gfd_labels)}, _labels(node)),
            *_taint_differences(pool_plan, node),
            *differing,
        ]
        return NodeObservation(node["metadata"]["name"], dict(sorted(found.items())), tuple(differences))

    def _verdict(self, node: Mapping[str, Any]) -> Iterable[str]:
        """What the verifier on the node says, unless it confirms the node."""
        if not self.plan.settings.verification.enabled:
            return
        cause = self.said.get(node["metadata"]["name"], "")
        said = [condition for condition in node.get("status", {}).get("conditions", []) if condition["type"] == CONDITION]
        if self.verifiers_run and not said:
            yield "not verified yet"
        elif cause:
            yield cause
        else:
            yield from (f"{CONDITION} is {one['status']}: {one['reason']}" for one in said if one["status"] != "True")


def announced(pool_plan: PoolPlan, node: str, slices: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """What the DRA driver announces of a node, as the resources by which pods ask for it; what nobody declared has its type."""
    declared: dict[tuple[Any, Any], str] = {(one.type, one.profile): one.resource for one in pool_plan.devices}
    found: Counter[str] = Counter()
    for one in slices:
        spec = one["spec"]
        for device in (spec.get("devices") or []) if (spec.get("nodeName"), spec["driver"]) == (node, DRA_DRIVER) else ():
            attributes = {name: value.get("string") for name, value in (device.get("attributes") or {}).items()}
            kind, profile = attributes.get("type"), attributes.get("profile")
            resource = declared.get((kind, profile if kind == "mig" else None), f"device {kind}")
            found[resource] += _shares(device)
    return dict(found)


def _shares(device: Mapping[str, Any]) -> int:
    if not device.get("allowMultipleAllocations"):
        return 1
    return read_count(device["capacity"]["shares"]["value"]) or 0


def _resource_differences(expected: Mapping[str, int], found: Mapping[str, int]) -> Iterable[str]:
    for name in sorted({*expected, *found}):
        if expected.get(name, 0) != found.get(name, 0):
            yield f"{name.removeprefix(_PREFIX)} {found.get(name, 0)} instead of {expected.get(name, 0)}"


def _label_differences(expected: Mapping[str, str], found: Mapping[str, str]) -> Iterable[str]:
    for name, value in sorted(expected.items()):
        if name not in found:
            yield f"label {name} missing"
        elif found[name] != value:
            yield f"label {name}={found[name]} instead of {value}"


def _mig_difference(found: Mapping[str, str]) -> Iterable[str]:
    state = found.get("nvidia.com/mig.config.state")
    if "nvidia.com/mig.config" in found and state not in {None, "success"}:
        yield f"mig.config.state={state}"


def _taint_differences(pool_plan: PoolPlan, node: Mapping[str, Any]) -> Iterable[str]:
    present = {(taint["key"], taint.get("value", ""), taint["effect"]) for taint in node.get("spec", {}).get("taints", [])}
    for taint in pool_plan.taints:
        if (taint.key, taint.value, taint.effect) not in present:
            yield f"taint {taint} missing"


def _labels(node: Mapping[str, Any]) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def report_table(pools: Iterable[PoolObservation]) -> str:
    """The table for people, one line a node."""
    rows = [row for pool in pools for row in _rows(pool)]
    return table(("POOL", "NODE", "DECLARED", "EXPECTED", "OBSERVED", ""), rows)


def notes(pools: Iterable[PoolObservation]) -> Iterable[str]:
    """What is not a fault, but nobody has declared it: a pool of a fixed size that somebody has made larger."""
    for pool in pools:
        most, there = pool.pool_plan.pool.max_nodes, len(pool.nodes)
        if most is not None and there > most:
            yield f"pool {pool.pool_plan.name} has {there} nodes; the stack file declares {most}: somebody else has scaled it."


def _rows(pool: PoolObservation) -> Iterable[tuple[str, ...]]:
    declared, expected = pool.pool_plan.sharing.text(), resources_text(pool.pool_plan.advertises)
    if pool.pool_plan.imported:
        declared, expected = f"{declared}, later", AS_IT_IS
    for node in pool.nodes:
        verdict = "ok" if not node.differences else _short(node.differences)
        yield pool.pool_plan.name, node.name, declared, expected, resources_text(node.allocatable), verdict
    if not pool.nodes:
        verdict = "not yet proven" if pool.enough_nodes else f"{pool.pool_plan.pool.min_nodes} nodes missing"
        yield pool.pool_plan.name, "no node yet", declared, expected, "-", verdict


def _short(differences: tuple[str, ...]) -> str:
    more = f" (+{len(differences) - _SHORTEST_ELLIPSIS} more)" if len(differences) > _SHORTEST_ELLIPSIS else ""
    return "; ".join(differences[:_SHORTEST_ELLIPSIS]) + more


def report_json(pools: Iterable[PoolObservation]) -> list[dict[str, Any]]:
    """The same for machines."""
    return [
        {
            "pool": pool.pool_plan.name,
            "holds": pool.holds,
            "expected": {} if pool.pool_plan.imported else dict(pool.pool_plan.advertises),
            "nodes": [
                {"name": node.name, "observed": dict(node.allocatable), "differences": list(node.differences)}
                for node in pool.nodes
            ],
        }
        for pool in pools
    ]
