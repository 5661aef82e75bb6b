"""Pools that are replaced with ``replace: surge``: the GPUs that are there twice, and what people must know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_pools.plan.planned import node_price

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpu_pools.changes.pools import PoolChange
    from gpu_pools.hardware.prices import Prices


@dataclass(frozen=True)
class ExtraGpus:
    """The GPUs of the old pool, from when the new pool is made until the old one is deleted.

    Attributes:
        pool: its name.
        least: GPUs of the old pool with as few nodes as it may have.
        most: with as many; None: no bound is known.
        per_hour: what the nodes of the old pool cost in an hour at most; None: no price was given.
    """

    pool: str
    least: int
    most: int | None
    per_hour: float | None

    def text(self, currency: str) -> str:
        """For people."""
        most = "any number of" if self.most is None else str(self.most)
        count = most if most == str(self.least) else f"{self.least} to {most}"
        cost = "" if self.per_hour is None else f", up to {self.per_hour:,.2f} {currency} an hour"
        return f"{count} GPU{'' if count == '1' else 's'} more{cost}, until the old nodes are empty and deleted"


def extra_gpus(pools: Iterable[PoolChange], prices: Prices | None) -> Iterator[ExtraGpus]:
    """Of each pool of which two are there for a time."""
    for pool in pools:
        if pool.before is not None and "rotated" in pool.effects:
            old = pool.before
            each, most, price = old.hardware.gpus, old.pool.max_nodes, node_price(old, prices)
            per_hour = None if price is None or most is None else price * most
            yield ExtraGpus(pool.name, each * old.pool.min_nodes, None if most is None else each * most, per_hour)


def describe_missed_surge(pools: Iterable[PoolChange]) -> Iterator[str]:
    """Why pools with ``surge`` would be replaced with the old pool deleted first: the engine takes that one for the new one."""
    for pool in pools:
        if pool.after is not None and pool.after.pool.replacement == "surge" and "replaced" in pool.effects:
            yield (
                f"the pool {pool.name} would be deleted before its successor is made, since `replace: surge` was not deployed "
                "for it yet, or what changes is not of the pool alone: deploy `replace: surge` by itself first"
            )


def describe_replacement(pool: PoolChange) -> Iterator[str]:
    """Yield sentences on how a pool is replaced."""
    before, after = pool.before, pool.after
    if before is None or after is None:
        return
    if "replaced" in pool.effects and before.replacement_id and after.pool.replacement == "inPlace":
        yield (
            f"The nodes of `{pool.name}` are cordoned and drained before that; where pods do not go in "
            f"{after.pool.drain_seconds} s the deploy fails, and nothing is replaced."
        )
    if "rotated" not in pool.effects:
        return
    yield (
        f"The new nodes of `{pool.name}` are proven first. Then all old ones are cordoned, and their pods asked to go by the "
        f"eviction API; where they do not go in {after.pool.drain_seconds} s the deploy fails, and nothing of the old pool is "
        "deleted. Bare pods do not come back, and what is in an emptyDir is gone."
    )
    if after.pool.autoscaled:
        first = after.pool.first_nodes
        yield (
            f"`{pool.name}` begins with {first} node{'' if first == 1 else 's'}, to be proven. Evicted pods that find no room "
            "there wait until the autoscaler has brought more, which are proven as they come."
        )
    yield (
        f"Pods that select nodes by what the cloud calls the pool find none any more: `gpu-pools/pool: {pool.name}` selects "
        "those of both pools."
    )
