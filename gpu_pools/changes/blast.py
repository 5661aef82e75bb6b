"""The blast radius of a change: pools, advertised resources, who asks for them, capacity, and how to avoid the worst of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.changes.acknowledged import endings, standing, whole
from gpu_pools.changes.pools import pool_changes, pool_name, pools_of
from gpu_pools.changes.replacements import describe_missed_surge, describe_replacement, extra_gpus
from gpu_pools.changes.rollouts import describe_rollout
from gpu_pools.changes.steps import name_of
from gpu_pools.changes.upkeep import upkeep
from gpu_pools.hardware.prices import HOURS_PER_MONTH
from gpu_pools.plan.operator_upgrade import operator_step, refusal
from gpu_pools.plan.planned import node_price
from gpu_pools.rendering.node_leaving import gives_back
from gpu_pools.verifier.changer.rollout_slots import at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_pools.changes.acknowledged import Ending, Standing
    from gpu_pools.changes.pools import PoolChange
    from gpu_pools.changes.replacements import ExtraGpus
    from gpu_pools.changes.steps import Finding, Preview
    from gpu_pools.changes.upkeep import Upkeep
    from gpu_pools.changes.workloads import Asking
    from gpu_pools.hardware.prices import Prices
    from gpu_pools.plan.planned import Plan, PoolPlan

_CLUSTER_STEPS: Final = (
    (
        "the cluster",
        (
            "Make a second stack with the new cluster beside this one, and deploy it.",
            "Then move the workloads, and wait until they run there.",
            "Then destroy the old stack.",
        ),
    ),
)


@dataclass(frozen=True)
class Affected:
    """Someone whose resource a pool takes away or makes fewer of.

    Attributes:
        asking: who.
        how: ``vanishes``; ``shrinks``; ``interrupted``: there is as much of it afterwards, and none in between.
        pools: where.
    """

    asking: Asking
    how: str
    pools: tuple[str, ...]


@dataclass(frozen=True)
class Dip:
    """GPUs of a pool that are away for a time.

    Attributes:
        pool: its name.
        least: with as few nodes as it may have.
        most: with as many; None: no bound is known.
        until: what has happened by then; ``""``: they are gone for good.
    """

    pool: str
    least: int
    most: int | None
    until: str

    @property
    def text(self) -> str:
        """For people."""
        most = "any number of" if self.most is None else str(self.most)
        count = most if most == str(self.least) else f"{self.least} to {most}"
        return f"{count} GPU{'' if count == '1' else 's'}, " + (f"until {self.until}" if self.until else "for good")


@dataclass(frozen=True)
class Sums:
    """Of a plan with every pool at its smallest and at its largest; a most of None has no bound, a cost of None no price."""

    gpus_least: int
    gpus_most: int | None
    per_month: float | None


@dataclass(frozen=True)
class Limits:
    """What a single change may add; None: no limit."""

    more_gpus: int | None = None
    more_per_month: float | None = None


@dataclass(frozen=True)
class BlastRadius:
    """All of it.

    Attributes:
        cluster_replaced: whether the cluster itself is.
        pools: in the order of the plan.
        renewed: what starts anew on nodes that stay.
        endings: what ends pods, each with its acknowledgement.
        standing: acknowledgements that none of these asks for.
        protected: names in the program of what the engine refuses to replace or delete.
        complete: whether the engine told all that happens.
        affected: workloads of the stack and pods.
        dips: by pool.
        extra_gpus: GPUs that are there only while a pool is replaced, by pool.
        steps: how to avoid what is bad about it, by pool (or for ``the cluster``).
        before: sums.
        after: sums.
        currency: of the costs; ``""``: no prices were given.
        refused: steps between versions that the deploy refuses.
        broken: limits of a change that it breaks.
        findings: of policies.
        mig_strategy: of the cluster, before and after; it decides what MIG devices are called, in every pool.
        verified_within: seconds that verifiers give a node after the deploy to be as declared; None: there are none.
    """

    cluster_replaced: bool
    pools: tuple[PoolChange, ...]
    renewed: tuple[Upkeep, ...]
    endings: tuple[Ending, ...]
    standing: tuple[Standing, ...]
    protected: tuple[str, ...]
    complete: bool
    affected: tuple[Affected, ...]
    dips: tuple[Dip, ...]
    extra_gpus: tuple[ExtraGpus, ...]
    steps: tuple[tuple[str, tuple[str, ...]], ...]
    before: Sums
    after: Sums
    currency: str
    refused: tuple[str, ...]
    broken: tuple[str, ...]
    findings: tuple[Finding, ...]
    mig_strategy: tuple[str, str]
    verified_within: int | None

    @property
    def totals(self) -> tuple[tuple[str, tuple[int, int | None], tuple[int, int | None]], ...]:
        """Resource, how many of it nodes advertise before and after, each at least and at most (None: no bound)."""
        names = sorted({one.name for pool in self.pools for one in pool.resources})
        return tuple(
            (name, _total(name, (pool.before for pool in self.pools)), _total(name, (pool.after for pool in self.pools)))
            for name in names
        )

    @property
    def blocked(self) -> tuple[str, ...]:
        """Why the change must not be deployed as it is."""
        unread = [one for one in self.endings if one.acknowledged is None]
        missing = [f"{one.called()} {one.how}, and {_lacking(one)}" for one in unread]
        kept = [f"the engine refuses to replace or delete {name}, which is protected" for name in self.protected]
        rules = [f"{one.rule}: {one.resource or 'the program'}" for one in self.findings if one.level == "mandatory"]
        return (*missing, *kept, *self.refused, *self.broken, *rules)


def _lacking(one: Ending) -> str:
    if one.used:
        return "its acknowledgement stood there before this change: it is used up"
    return "nobody acknowledged it" if one.id else "the stack file does not declare it, so nothing there can acknowledge it"


def blast_radius(
    preview: Preview,
    before: Plan | None,
    after: Plan,
    *,
    asking: tuple[Asking, ...] = (),
    prices: Prices | None = None,
    limits: Limits | None = None,
) -> BlastRadius:
    """What the change does.

    Args:
        preview: of the engine.
        before: the plan of what is deployed; None: nothing is.
        after: the plan of what shall be.
        asking: workloads and pods.
        prices: the team's.
        limits: of a change.
    """
    with_cluster = whole(preview)
    declared = pools_of(before, after)
    replaced = {name for step in preview.steps if step.op == "replace" and (name := pool_name(step, declared)) is not None}
    renewed = () if with_cluster else upkeep(before, after, replaced)
    pools = pool_changes(before, after, preview.steps, renewed, with_cluster=not preview.complete)
    old, new = _sums(before, prices), _sums(after, prices)
    found = endings(preview, before, after, pools, renewed)
    twice = tuple(extra_gpus(pools, prices))
    return BlastRadius(
        cluster_replaced=with_cluster,
        pools=pools,
        renewed=renewed,
        endings=found,
        standing=tuple(standing(found, after)),
        protected=tuple(map(name_of, preview.protected)),
        complete=preview.complete,
        affected=tuple(_affected(pools, asking)),
        dips=tuple(_dips(pools)),
        extra_gpus=twice,
        steps=_CLUSTER_STEPS
        if with_cluster
        else tuple(
            (pool.name, advice) for pool in pools if (advice := tuple(_advice(pool, gives_back=gives_back(after.settings))))
        ),
        before=old,
        after=new,
        currency=prices.currency if prices else "",
        refused=() if with_cluster or before is None else tuple(_refused(before, after)),
        broken=(*describe_missed_surge(pools), *_broken(old, new, limits or Limits(), prices, twice)),
        findings=preview.findings,
        mig_strategy=((before or after).mig_strategy, after.mig_strategy),
        verified_within=after.settings.verification.deadline_seconds if after.settings.verification.enabled else None,
    )


def _refused(before: Plan, after: Plan) -> Iterator[str]:
    """What the hook of the operator's release refuses, judged before a deploy (components/gpu_operator/upgrade_first.py)."""
    old, new = before.settings.operator, after.settings.operator
    if not old.adopted and not new.adopted and (problem := refusal(operator_step(old.chart.version, new.chart.version))):
        yield f"{problem.path}: {problem.message}. {problem.remedy.removesuffix('.')}"


def _affected(pools: tuple[PoolChange, ...], asking: tuple[Asking, ...]) -> Iterator[Affected]:
    """A resource that vanishes in one pool and is to be had in another only shrinks, for whoever may run in both."""
    for who in asking:
        stays = [pool for pool in pools if pool.after and who.may_run(_labels(pool.after))]
        left = {one.name for pool in stays for one in pool.resources if one.after}
        less = {
            pool.name: one.word in {"vanishes", "shrinks"}
            for pool in pools
            if pool.before and who.may_run(_labels(pool.before))
            for one in pool.resources
            if one.name == who.resource and one.before and (one.word in {"vanishes", "shrinks"} or pool.ends_pods)
        }
        if less:
            how = "vanishes" if who.resource not in left else "shrinks" if any(less.values()) else "interrupted"
            yield Affected(who, how, tuple(less))


def _labels(pool_plan: PoolPlan) -> dict[str, str]:
    """Labels by which workloads tell a pool's nodes apart: its own, and the one that AKS sets."""
    return {"kubernetes.azure.com/agentpool": pool_plan.made_name, **pool_plan.labels}


def _dips(pools: tuple[PoolChange, ...]) -> Iterator[Dip]:
    for pool in pools:
        if pool.before and pool.away:
            least, most, each = pool.before.pool.min_nodes, pool.before.pool.max_nodes, pool.before.hardware.gpus
            if "shrunk" in pool.effects and pool.after:
                stay = pool.after.pool.min_nodes
                least, most = max(least - stay, 0), None if most is None else most - stay
            elif pool.by_rollout and pool.after and pool.after.pool.rollout and "replaced" not in pool.effects:
                least, most = _changing_at_once(str(pool.after.pool.rollout.max_unavailable), least, most)
            yield Dip(pool.name, each * least, None if most is None else each * most, _until(pool))


def _changing_at_once(max_unavailable: str, least: int, most: int | None) -> tuple[int, int | None]:
    """How many nodes are away at once, of a pool that has so many."""
    if most is None and max_unavailable.endswith("%"):
        return min(least, at_once(max_unavailable, least)), None
    fewest = min(least, at_once(max_unavailable, least))
    return fewest, at_once(max_unavailable, 0) if most is None else min(most, at_once(max_unavailable, most))


def _until(pool: PoolChange) -> str:
    """A pool keeps its name, which is given once in a cluster: the old one must be gone before the new one can be made."""
    if {"deleted", "shrunk"} & set(pool.effects):
        return ""
    if "replaced" in pool.effects:
        driver = pool.after is not None and pool.after.driver == "operator"
        return "the old nodes are deleted, and new ones have started" + (" and have their driver" if driver else "")
    reboot = " and rebooted" if "rebooted" in pool.effects else ""
    each = "each node in the rollout" if pool.by_rollout else "every node"
    return f"{each} is free of pods and partitioned anew{reboot}"


def _advice(pool: PoolChange, *, gives_back: bool) -> Iterator[str]:
    kept = pool.before is not None and pool.before.protect
    if "replaced" in pool.effects:
        yield (
            f"First commit: leave `{pool.name}` as it is, and add a pool beside it, under another name, that is as "
            f"`{pool.name}` shall be{_freed(pool) if kept else ''}; deploy; wait until its nodes advertise what they should."
        )
        yield f"Then cordon and drain the nodes of `{pool.name}`."
        yield f"Second commit: take `{pool.name}` out{', and its acknowledgement' if kept else ''}."
    elif "deleted" in pool.effects and kept:
        yield f"First commit: leave `{pool.name}` as it is{_freed(pool)}; deploy."
        yield f"Then cordon and drain the nodes of `{pool.name}`."
        yield f"Second commit: take `{pool.name}` out, and its acknowledgement."
    elif "deleted" in pool.effects:
        yield f"Cordon and drain the nodes of `{pool.name}` before the deploy."
        yield "Was it to be renamed: no cloud renames a pool. Keep both, move the workloads, and take the old one out afterwards."
    elif pool.drain:
        yield f"Either cordon and drain the nodes of `{pool.name}` before the deploy, because {'; '.join(pool.drain)}."
        yield "Or first make a pool with the new sharing beside it, and take this one out in a second commit: no GPU is away."
    if "left" in pool.effects and gives_back:
        yield (
            f"Let end what holds GPUs of the nodes of `{pool.name}` before the deploy: it stops at such a pod, before it changes "
            "anything. Then MIG is switched off there and waited for, and labels and traces of this stack go."
        )
    if "replaced" not in pool.effects:
        yield from describe_rollout(pool, gives_back=gives_back)
    yield from describe_replacement(pool)
    if "shrunk" in pool.effects:
        yield f"Which nodes of `{pool.name}` go is the cloud's choice: let end what must not be interrupted, wherever in it."
    if pool.renames:
        gone = ", ".join(f"`{one.name}`" for one in pool.resources if one.word == "vanishes")
        new = ", ".join(f"`{one.name}`" for one in pool.resources if one.word == "appears")
        yield f"Pods and quotas that ask for {gone} must ask for {new}; until then they stay Pending."


def _freed(pool: PoolChange) -> str:
    """The engine deletes nothing that is protected in its state: that must go first, by what acknowledges the pool as it is."""
    change = pool.before.change if pool.before else ""
    return f", and take its protection off with the acknowledgement `{{resource: {pool.name}, change: {change}, reason: …}}`"


def _sums(plan: Plan | None, prices: Prices | None) -> Sums:
    pools = plan.pools if plan else ()
    least, most = _bounds((pool, pool.hardware.gpus) for pool in pools)
    cost, priced = 0.0, True
    for pool in pools:
        price, largest = node_price(pool, prices), pool.pool.max_nodes
        priced = priced and price is not None and largest is not None
        cost += (price or 0) * (largest or 0) * HOURS_PER_MONTH
    return Sums(least, most, cost if priced else None)


def _total(name: str, pools: Iterable[PoolPlan | None]) -> tuple[int, int | None]:
    return _bounds((pool, pool.advertises.get(name, 0)) for pool in pools if pool)


def _bounds(pools: Iterable[tuple[PoolPlan, int]]) -> tuple[int, int | None]:
    """How many there are with every pool at its smallest and at its largest (None: no bound), given how many a node has."""
    least, most, bounded = 0, 0, True
    for pool, each in pools:
        least += each * pool.pool.min_nodes
        most += each * (pool.pool.max_nodes or 0)
        bounded = bounded and not (each and pool.pool.max_nodes is None)
    return least, most if bounded else None


def _broken(before: Sums, after: Sums, limits: Limits, prices: Prices | None, twice: Sequence[ExtraGpus]) -> Iterator[str]:
    if limits.more_gpus is not None:
        extra = sum(one.most or 0 for one in twice)
        if after.gpus_most is None or any(one.most is None for one in twice):
            yield "a pool has no upper bound, so that the GPUs which the change adds cannot be counted"
        elif (more := after.gpus_most + extra - (before.gpus_most or 0)) > limits.more_gpus:
            while_both = " while old and new pools are there" if extra else ""
            yield f"the change adds up to {more} GPUs{while_both}; allowed: {limits.more_gpus}"
    if limits.more_per_month is not None:
        if prices is None or after.per_month is None:
            yield "what the change costs cannot be told: prices are missing"
        elif (dearer := after.per_month - (before.per_month or 0)) > limits.more_per_month:
            yield f"the change adds up to {dearer:.0f} {prices.currency} a month; allowed: {limits.more_per_month:g}"
