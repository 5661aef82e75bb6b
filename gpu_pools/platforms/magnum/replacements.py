"""The node groups of a living cluster under the names that the stack gives its pools, where they follow each other (``replace``).

Such a group may be called otherwise, and while one succeeds the other two are there. Magnum cannot change a group's labels, so a
group that was there before `replace` does not say its id: it is the declared one if it is made of the same. An
older one stands under no pool: its machines are given back only after the new ones are made, so they count for nothing. Pure.

Deletions of groups that never were in one program come at the same time. Heat deletes a stack for each (openstack/magnum
stable/2025.1, drivers/heat/driver.py), magnum-cluster-api takes a lock (3890a36, driver.py). magnum-capi-helm (a8b82c2,
delete_nodegroup) writes the cluster anew with all groups but the one: the second deletion makes the machines of the first again,
which then waits for their end for ever. So there a third group is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_pools.platforms.magnum.answers import Group, Magnum
    from gpu_pools.platforms.magnum.cluster import MagnumDriver
    from gpu_pools.platforms.magnum.placement import MagnumPlacement
    from gpu_pools.stack.pools import Pool
    from gpu_pools.text.errors import Problems

_DIGITS: Final = frozenset("0123456789abcdef")


class ReplacedPool(NamedTuple):
    """A pool with ``replace``: what begins the names of its groups, its digits, and what its group is made of."""

    pool: Pool
    stem: str
    replacement_id: str
    placement: MagnumPlacement
    labels: Mapping[str, str]

    def is_called(self, name: str) -> bool:
        """Whether a group of that name is of this pool."""
        return name == self.pool.name or is_replacement_name(name, self.stem, self.replacement_id)


def is_replacement_name(name: str, stem: str, replacement_id: str) -> bool:
    """Whether a name in a cloud is a stem and digits like these."""
    digits = name.removeprefix(stem)
    return name.startswith(stem) and len(digits) == len(replacement_id) and _DIGITS.issuperset(digits)


def as_declared(magnum: Magnum, replaced_pools: Iterable[ReplacedPool]) -> Magnum:
    """What Magnum says, with each such group under its pool's name, if it is there."""
    groups = dict(magnum.groups)
    for one in replaced_pools:
        groups.pop(one.pool.name, None)
        if name := _called(one, magnum.groups):
            groups[one.pool.name] = replace(magnum.groups[name], called=name)
    return replace(magnum, groups=groups)


def judge_third_replacement(
    replaced_pools: Iterable[ReplacedPool], magnum: Magnum, driver: MagnumDriver | None, problems: Problems
) -> None:
    """Refuse a third group while two others are there, where the driver would lose one of their deletions.

    Args:
        replaced_pools: the pools with ``replace``.
        magnum: what it says, by Magnum's own names.
        driver: of the cloud.
        problems: are added to.
    """
    for one in replaced_pools if driver == "capi-helm" else ():
        others = _others(one, magnum.groups)
        if len(others) > 1:
            problems.add(
                f"{one.pool.path}.replace",
                f"{' and '.join(others)} would be deleted at the same time, and the driver capi-helm then makes one anew",
                allowed="one other node group of the pool",
                remedy="Deploy the declaration of before, so that what has failed goes; then change the pool again.",
            )


def _others(one: ReplacedPool, groups: Mapping[str, Group]) -> Sequence[str]:
    mine = _called(one, groups)
    return sorted(name for name in groups if one.is_called(name) and name != mine)


def _called(one: ReplacedPool, groups: Mapping[str, Group]) -> str | None:
    """What Magnum calls the pool that is declared; in place it is replaced, and so it is whichever is there."""
    if (name := f"{one.stem}{one.replacement_id}") in groups:
        return name
    if one.pool.replacement == "inPlace":
        return next((name for name in groups if one.is_called(name)), None)
    there = groups.get(one.pool.name)
    return one.pool.name if there and _is_as_declared(one, there) else None


def _is_as_declared(one: ReplacedPool, group: Group) -> bool:
    """Magnum shows names as they were given; what is not written may be anything."""
    of = one.placement
    written = ((of.flavor, group.flavor), (of.image, group.image), (of.docker_volume_size, group.volume))
    return all(wanted is None or wanted == has for wanted, has in written) and one.labels.items() <= group.labels.items()
