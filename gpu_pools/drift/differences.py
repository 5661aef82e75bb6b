"""The differences that a refresh tells, one a property, with both values.

azure-native writes every pool of a cluster into the cluster's inputs, place by place of a list in Azure's order. So these are
compared by their names, as Azure has told them then and now; a pool that is a resource of the stack is left to that resource.
Lists of plain values, as taints are, count as one property.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.drift.paths import MISSING, SECRET, Nothing, Step, steps_of, text_of, value_at
from gpu_pools.platforms.aks import azure_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.drift.refreshed import Resource

POOL: Final = "azure-native:containerservice:AgentPool"
CLUSTER: Final = "azure-native:containerservice:ManagedCluster"
PROFILES: Final = "agentPoolProfiles"
_SECRET_TYPE: Final = "kubernetes:core/v1:Secret"  # noqa: S105 - a type token
_SECRET_INPUTS: Final = {"data", "stringData"}


@dataclass(frozen=True)
class Difference:
    """One property of one resource, or the whole resource.

    Attributes:
        resource: whose.
        steps: where it lies; none: the whole resource.
        was: the state's value, MISSING or SECRET.
        now: the real one, MISSING or SECRET.
        kind: as the engine calls it, e.g. ``update-replace``; ``gone``: the resource is not there any more.
        around: the inputs beside the property, as the state has them: of a pool in a cluster's list that pool's.
        pool: the pool in a cluster's list in which it lies; ``""``: none.
        repeats: how many pools of the stack the cluster's list repeats, where that is the whole difference; else 0.
        foreign: whether it is a pool that no resource of the stack is, and that the state's inputs did not have.
    """

    resource: Resource
    steps: tuple[Step, ...]
    was: Any = MISSING
    now: Any = MISSING
    kind: str = "update"
    around: Mapping[str, Any] = field(default_factory=dict)
    pool: str = ""
    repeats: int = 0
    foreign: bool = False

    @property
    def place(self) -> str:
        """The path of the property, for people."""
        if self.pool:
            return ".".join([f"{PROFILES}[{self.pool}]", *filter(None, [text_of(self.steps)])])
        return text_of(self.steps)

    @property
    def path(self) -> str:
        """The path without places and names of pools, as tables of properties have it."""
        return ".".join([*([PROFILES] if self.pool else []), *(step for step in self.steps if isinstance(step, str))])


def differences(resources: Sequence[Resource]) -> Iterator[Difference]:
    """All of them, in the order in which the engine tells of the resources."""
    pools = {_pool(one.before.inputs) for one in resources if one.type == POOL}
    for one in resources:
        if one.op == "delete":
            yield Difference(one, (), kind="gone")
        elif one.op == "update":
            yield from _updated(one, pools)


def _pool(inputs: Mapping[str, Any]) -> tuple[object, object]:
    return inputs.get("resourceName"), inputs.get("agentPoolName")


def _updated(resource: Resource, pools: set[tuple[object, object]]) -> Iterator[Difference]:
    changes = _unnamed(resource) if resource.changes is None else resource.changes
    by_name: list[Difference] = []
    if in_list := [path for path in changes if resource.type == CLUSTER and steps_of(path)[0] == PROFILES]:
        own = {str(name) for cluster, name in pools if cluster == resource.before.inputs.get("resourceName")}
        by_name = [*_pools(resource, own)]
        # Nothing that could be told apart by name: then what the engine says, as it says it.
        changes = {path: kind for path, kind in changes.items() if path not in in_list or not by_name}
    found = [_difference(resource, path, kind) for path, kind in changes.items()]
    # The engine says that it differs, and not in what.
    all_of_them = [*by_name, *found] or [Difference(resource, ())]
    yield from {(one.pool, one.steps): one for one in all_of_them}.values()


def _unnamed(resource: Resource) -> Mapping[str, str]:
    """What differs where the engine does not say it: outputs, which it has compared then, or if these are the same inputs."""
    for before, now in ((resource.before.outputs, resource.now.outputs), (resource.before.inputs, resource.now.inputs)):
        if keys := sorted(key for key in {*before, *now} if before.get(key) != now.get(key)):
            return dict.fromkeys((f'["{key}"]' for key in keys), "update")
    return {}


def _difference(resource: Resource, path: str, kind: str) -> Difference:
    steps = steps_of(path)
    sides = [(resource.before.inputs, resource.now.inputs), (resource.before.outputs, resource.now.outputs)]
    for place, step in enumerate(steps):
        if isinstance(step, int) and any(_plain(value_at(side, steps[:place])) for pair in sides for side in pair):
            steps, kind = steps[:place], "update"
            break
    pairs = [(value_at(before, steps), value_at(now, steps)) for before, now in sides]
    was, now = next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])
    hidden = SECRET in {one for pair in pairs for one in pair if isinstance(one, Nothing)}
    if hidden or (resource.type == _SECRET_TYPE and steps[0] in _SECRET_INPUTS):
        was = now = SECRET
    return Difference(resource, steps, was, now, kind, resource.before.inputs)


def _plain(value: object) -> bool:
    """Whether it is a list of values that are no mappings or lists."""
    return isinstance(value, list) and bool(value) and not any(isinstance(one, dict | list) for one in value)


def _pools(cluster: Resource, own: set[str]) -> Iterator[Difference]:
    declared = _by_name(cluster.before.inputs)
    before, now = _by_name(cluster.before.outputs), _by_name(cluster.now.outputs)
    # Also after a refresh that was written into the state, which has them among the inputs until the next `up`.
    if repeated := {name for name in own if before.get(name) != now.get(name) or (name in now and name not in declared)}:
        yield Difference(cluster, (PROFILES,), repeats=len(repeated))
    for name in sorted({*before, *now} - own):
        if name in before and name in now:
            yield from _profile(cluster, name, before[name], now[name], declared.get(name))
        else:
            kind = "delete" if name in before else "add"
            yield Difference(cluster, (), kind=kind, pool=name, foreign=name not in declared)


def _by_name(values: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    profiles = values.get(PROFILES)
    return {str(one.get("name")): one for one in profiles if isinstance(one, dict)} if isinstance(profiles, list) else {}


def _profile(
    cluster: Resource, name: str, before: Mapping[str, Any], now: Mapping[str, Any], declared: Mapping[str, Any] | None
) -> Iterator[Difference]:
    """What differs of what the plugin could be asked for; the rest only Azure says, as the version of the image of its nodes."""
    for key in sorted(azure_types.types()["ManagedClusterAgentPoolProfile"]):
        was, real = value_at(before, (key,)), value_at(now, (key,))
        if was != real:
            kind = "add" if was is MISSING else "delete" if real is MISSING else "update"
            yield Difference(cluster, (key,), was, real, kind, declared or {}, pool=name, foreign=declared is None)
