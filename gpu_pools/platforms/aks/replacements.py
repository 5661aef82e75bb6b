"""The pools of a living cluster under the names that the stack gives them, where they follow each other (``replace: surge``).

Such a pool is called otherwise in Azure, and while one succeeds the other two are there. By the labels of their nodes the one
that is declared is found, and stands under the pool's name. An older one stands under none: its machines are given back only
after the new ones are made, so they count for nothing. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.platforms.aks.answers import MadeCluster
    from gpu_pools.platforms.aks.machines import Machines
    from gpu_pools.text.errors import Problems


def as_declared(made: MadeCluster, replacement_ids: Mapping[str, str]) -> MadeCluster:
    """The cluster with each such pool under its declared name, if it is there.

    Args:
        made: the cluster as Azure shows it.
        replacement_ids: name of each pool with ``replace`` -> the id of the declared one.
    """
    pools, subnets = dict(made.pools), dict(made.subnets)
    for name, replacement_id in replacement_ids.items():
        if name in pools and pools[name].replacement_id not in {"", replacement_id}:
            pools.pop(name)
            subnets.pop(name, None)
        for called, pool in made.pools.items():
            if (pool.pool, pool.replacement_id) == (name, replacement_id):
                pools[name] = pool
                subnets[name] = made.subnets.get(called, ("", ""))
    return replace(made, pools=pools, subnets=subnets)


def judge_first_replacement(
    wanted: Sequence[Machines], made: MadeCluster, replacement_ids: Mapping[str, str], problems: Problems
) -> None:
    """Refuse to replace a pool that has no id yet: the engine takes it for the declared one, and would delete the old one first.

    Args:
        wanted: all pools of the stack.
        made: the cluster, as `as_declared` gives it.
        replacement_ids: as there.
        problems: are added to.
    """
    for one in wanted:
        found = made.pools.get(one.name)
        if one.name in replacement_ids and found and not found.replacement_id and one.made(made) is None:
            problems.add(
                one.at("replace"),
                f"is not deployed yet, and the pool that is there is of another size ({show(found.size)}): it would be deleted "
                "first, with the pods on it",
                allowed="`replace` before the change that needs another pool",
                remedy="Deploy `replace: surge` with the pool as it is; then change it.",
            )
