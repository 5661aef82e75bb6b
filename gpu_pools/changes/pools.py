"""What becomes of each pool: from the plans before and after, and from what the engine would do with the pool's resource.

The engine decides what is created, replaced and deleted; the plans what changes on nodes that stay. What that means for pods is
known from incidents (docs/reference/rules.md): a GPU that is repartitioned must be free of pods, for mig-manager evicts none
and waits for ever (R01); pods keep the shares that they were given (R06); leaving MPS may leave a GPU in exclusive mode (R14).

Nodes of an existing cluster are nobody's to make or delete: a pool there takes nodes over, and leaves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.changes.resource_types import POOL_TYPES
from gpu_pools.mig.change import change
from gpu_pools.plan.placing import pool_called
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_pools.changes.steps import Step
    from gpu_pools.changes.upkeep import Upkeep
    from gpu_pools.mig.change import MigChange
    from gpu_pools.plan.planned import Plan, PoolPlan

_UNTOUCHED: Final = "untouched"
#: What the engine does with a pool -> its effect.
_OPS: Final = {"replace": "replaced", "create": "created", "delete": "deleted", "rotate": "rotated"}
#: Effects by which pods on a pool's nodes end, whatever it advertises afterwards; the rest leaves them where they are.
ENDS_PODS: Final = ("replaced", "rotated", "deleted", "shrunk", "rebooted", "repartitioned", "upgraded")
#: Those of them by which GPUs are away meanwhile: an upgrade takes its nodes one by one.
_TAKES_GPUS: Final = {"replaced", "deleted", "shrunk", "rebooted", "repartitioned"}


@dataclass(frozen=True)
class GpuChange:
    """What a new layout does to GPUs of one kind in a pool: `indices` on each node, all alike."""

    indices: tuple[int, ...]
    mig: MigChange


@dataclass(frozen=True)
class ResourceChange:
    """An advertised resource of a pool: per node, and on all nodes that are always there."""

    name: str
    before: int
    after: int
    total_before: int
    total_after: int

    @property
    def word(self) -> str:
        """What it does: ``appears``, ``vanishes``, ``grows``, ``shrinks`` or ``stays``."""
        if self.total_before == self.total_after and self.before == self.after:
            return "stays"
        if not self.before or not self.after:
            return "vanishes" if self.before else "appears"
        return "grows" if (self.after, self.total_after) > (self.before, self.total_before) else "shrinks"


@dataclass(frozen=True)
class PoolChange:
    """What becomes of one pool.

    Attributes:
        name: the pool's.
        before: its plan before; None: it is new.
        after: its plan afterwards; None: it goes.
        effects: ``created``, ``deleted``, ``replaced``, ``rotated``, ``shrunk``, ``rebooted``, ``repartitioned``,
            ``reallocated``, ``reshared``, ``reloaded``, ``resized``, ``relabelled``, ``upgraded``, ``cordoned``; of nodes that
            are there already ``joined``, ``left`` and ``renamed`` instead of the first two; or ``untouched`` alone.
        because: the inputs that force a replacement; empty where it follows the cluster's.
        resources: by name.
        gpus: what a new layout does, by kinds of GPUs.
        drain: why its nodes must be free of pods first; empty: they need not, or the rollout empties them.
        creates_first: whether its replacement is there before it goes.
    """

    name: str
    before: PoolPlan | None
    after: PoolPlan | None
    effects: tuple[str, ...]
    because: tuple[str, ...]
    resources: tuple[ResourceChange, ...]
    gpus: tuple[GpuChange, ...]
    drain: tuple[str, ...]
    creates_first: bool = False

    @property
    def touched(self) -> bool:
        """Whether anything becomes of it."""
        return self.effects != (_UNTOUCHED,)

    @property
    def renames(self) -> bool:
        """Whether a pool that is there before and after advertises under another name."""
        words = {one.word for one in self.resources}
        return self.before is not None and self.after is not None and {"vanishes", "appears"} <= words

    @property
    def ends_pods(self) -> bool:
        """Whether the pods on its nodes must end, however much it advertises afterwards."""
        return self.before is not None and bool(set(ENDS_PODS) & set(self.effects))

    @property
    def by_rollout(self) -> bool:
        """Whether its nodes change a few at a time, and are emptied then."""
        return all(one is not None and one.pool.rollout is not None for one in (self.before, self.after))

    @property
    def away(self) -> bool:
        """Whether its GPUs are away for a time, or for good."""
        takes = self.before is not None and bool(_TAKES_GPUS & set(self.effects))
        return takes and not (self.creates_first and self.after is not None)


def pool_changes(
    before: Plan | None,
    after: Plan,
    steps: Iterable[Step],
    renewed: Iterable[Upkeep] = (),
    *,
    with_cluster: bool = False,
) -> tuple[PoolChange, ...]:
    """Of all pools: those of the plan after in its order, then those that go.

    Args:
        before: the plan of what is deployed.
        after: the plan of what shall be.
        steps: of the engine.
        renewed: what is on nodes that stay.
        with_cluster: whether all pools are replaced with their cluster, although no step tells it.
    """
    by_pool: dict[str, list[Step]] = {}
    declared = pools_of(before, after)
    for one in steps:
        if (pool := pool_name(one, declared)) is not None:
            by_pool.setdefault(pool, []).append(one)
    new = {pool.name: pool for pool in after.pools}
    old = {_name_now(pool, new): pool for pool in before.pools} if before else {}
    untold = "replace" if with_cluster else "same"
    renewals = [(one.effect, one.pools) for one in renewed if one.effect]
    found = []
    for name in dict.fromkeys([*new, *old]):
        effects = tuple(dict.fromkeys(effect for effect, pools in renewals if name in pools))
        found.append(_change(name, old.get(name), new.get(name), by_pool.get(name, []), untold, effects))
    return tuple(found)


def _name_now(pool: PoolPlan, new: Mapping[str, PoolPlan]) -> str:
    """What a pool of nodes that are there already is called now, if another one selects just these; else as it was."""
    if pool.name in new or not pool.pool.placement.selects_nodes:
        return pool.name
    return next((name for name, other in new.items() if other.pool.placement == pool.pool.placement), pool.name)


def pools_of(*plans: Plan | None) -> tuple[PoolPlan, ...]:
    """All pools of some plans."""
    return tuple(pool for plan in plans if plan for pool in plan.pools)


def pool_name(step: Step, declared: Iterable[PoolPlan]) -> str | None:
    """The name of a pool; None for a step of anything else.

    Of pools that follow each other under one name Azure's say it by their nodes' label, and Magnum's by what they are called.

    Args:
        step: of the engine.
        declared: the pools of the plans before and after.
    """
    if step.type not in POOL_TYPES:
        return None
    inputs = step.new or step.old
    labels = inputs.get("nodeLabels")
    pool = labels.get(POOL_LABEL) if isinstance(labels, dict) and REPLACEMENT_LABEL in labels else None
    return str(pool) if pool else pool_called(str(inputs.get(POOL_TYPES[step.type])), declared)


def is_replaced_by_surge(steps: Sequence[Step]) -> bool:
    """Whether of several pools under one name an old one goes, and another one is there or comes."""
    ops = [step.op for step in steps]
    return "delete" in ops and any(op != "delete" for op in ops)


def _change(
    name: str, before: PoolPlan | None, after: PoolPlan | None, steps: list[Step], untold: str, renewals: tuple[str, ...]
) -> PoolChange:
    step = steps[0] if len(steps) == 1 else None
    op = step.op if step else "rotate" if is_replaced_by_surge(steps) else untold
    gpus = tuple(_gpu_changes(before, after)) if before and after and op != "rotate" else ()
    return PoolChange(
        name=name,
        before=before,
        after=after,
        effects=tuple(_effects(before, after, op, gpus, renewals)) or (_UNTOUCHED,),
        because=step.because if step and op == "replace" else (),
        resources=tuple(_resources(before, after)),
        gpus=gpus,
        drain=tuple(_drain(before, after, gpus)) if op not in {"replace", "rotate"} else (),
        creates_first=step is not None and step.creates_first,
    )


def _effects(
    before: PoolPlan | None, after: PoolPlan | None, op: str, gpus: tuple[GpuChange, ...], renewals: tuple[str, ...]
) -> Iterator[str]:
    if before is None or after is None:
        yield _comes(after) if before is None and after else _goes(before)
        return
    if op in _OPS:
        # Created although it was planned before: it never was, or the state lost it.
        yield _OPS[op]
        return
    yield from _on_nodes(before, after, gpus)
    yield from renewals


def _on_nodes(before: PoolPlan, after: PoolPlan, gpus: tuple[GpuChange, ...]) -> Iterator[str]:
    """What becomes of a pool whose nodes stay, but for those that it loses."""
    if before.name != after.name:
        yield "renamed"
    if any(one.mig.mode_change_needs in {"reboot", "gpu-reset-or-reboot"} for one in gpus):
        yield "rebooted"
    if before.allocation != after.allocation:
        yield "reallocated"
    if gpus:
        yield "repartitioned"
    elif before.sharing != after.sharing:
        yield "reshared"
    elif before.config_key != after.config_key:
        yield "reloaded"
    if (before.pool.min_nodes, before.pool.max_nodes) != (after.pool.min_nodes, after.pool.max_nodes):
        yield "shrunk" if _loses_nodes(before, after) else "resized"
    if (before.pool.labels, before.taints) != (after.pool.labels, after.taints):
        yield "relabelled"


def _comes(pool: PoolPlan) -> str:
    return "joined" if pool.pool.placement.selects_nodes else "created"


def _goes(pool: PoolPlan | None) -> str:
    return "left" if pool and pool.pool.placement.selects_nodes else "deleted"


def _loses_nodes(before: PoolPlan, after: PoolPlan) -> bool:
    """Whether a fixed number is less than what may be there; an autoscaler's lower limit takes no node away (azure-aks-docs)."""
    most, now = before.pool.max_nodes, after.pool.max_nodes
    return not after.pool.autoscaled and most is not None and now is not None and now < most


def _gpu_changes(before: PoolPlan, after: PoolPlan) -> Iterator[GpuChange]:
    """Equal changes of GPUs together. Nodes of other hardware are new nodes: nothing is repartitioned on them."""
    model = after.hardware.model
    if (before.hardware.model.key, before.hardware.gpus) != (model.key, after.hardware.gpus) or not model.profiles:
        return
    kinds: dict[tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]], list[int]] = {}
    for old, new in zip(before.nvml.gpus, after.nvml.gpus, strict=True):
        if dict(old.instances) != dict(new.instances):
            key = tuple(sorted(old.instances.items())), tuple(sorted(new.instances.items()))
            kinds.setdefault(key, []).append(new.index)
    for (was, becomes), indices in kinds.items():
        yield GpuChange(tuple(indices), change(model, dict(was), dict(becomes), virtual=after.pool.placement.is_virtual))


def _resources(before: PoolPlan | None, after: PoolPlan | None) -> Iterator[ResourceChange]:
    old, new = (dict(one.advertises) if one else {} for one in (before, after))
    least = [one.pool.min_nodes if one else 0 for one in (before, after)]
    for name in dict.fromkeys([*old, *new]):
        was, becomes = old.get(name, 0), new.get(name, 0)
        yield ResourceChange(name, was, becomes, was * least[0], becomes * least[1])


def _drain(before: PoolPlan | None, after: PoolPlan | None, gpus: tuple[GpuChange, ...]) -> Iterator[str]:
    if before is None or after is None or (before.pool.rollout and after.pool.rollout):
        return
    if gpus:
        yield "mig-manager evicts no pod, and waits for ever for one that holds a GPU (R01)"
        return
    if before.allocation != after.allocation:
        yield "a GPU that a pod holds counts as free after the change between the device plugin and claims (E06, E08)"
    elif before.devices != after.devices:
        yield "shares that claims hold count as free under another number of shares, and pods that get them never start (E08)"
    yield from before.sharing.changed_to(after.sharing, reloaded=before.config_key != after.config_key)
    if any(one.after < one.before for one in _resources(before, after)):
        yield f"pods keep the shares that they were given under {before.sharing.text()} (R06)"
