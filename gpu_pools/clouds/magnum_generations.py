"""The node groups of a living cluster under the names that the stack gives its pools, where these follow each other (``replace``).

Such a group may be called otherwise, and while one succeeds the other two are there. Magnum cannot change a group's labels, so a
group that was there before `replace` says nowhere of which generation it is: it is the declared one if it is made of the same. An
older one stands under no pool: its machines are given back only after the new ones are made, so they count for nothing. Pure.

Deletions of groups that never were in one program come at the same time. Heat deletes a stack for each (openstack/magnum
stable/2025.1, drivers/heat/driver.py), magnum-cluster-api takes a lock (3890a36, driver.py). magnum-capi-helm (a8b82c2, driver.py,
delete_nodegroup) writes the cluster anew with all groups but the one: the second deletion makes the machines of the first again,
which then waits for their end for ever. So there a third generation is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from gpu_pools.plan.generations import is_called
from gpu_pools.plan.placing import node_group_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_pools.clouds.magnum_answers import Group, Magnum
    from gpu_pools.plan.planned import PoolPlan
    from gpu_pools.stack.placements import MagnumPlacement
    from gpu_pools.text.errors import Problems


def as_declared(magnum: Magnum, exchanged: Iterable[PoolPlan], driver: str | None) -> Magnum:
    """What Magnum says, with each such group under its pool's name, if it is there.

    Args:
        magnum: what it says.
        exchanged: the pools with ``replace``.
        driver: of the cloud.
    """
    groups = dict(magnum.groups)
    for planned in exchanged:
        groups.pop(planned.name, None)
        if name := _called(planned, magnum.groups, driver):
            groups[planned.name] = replace(magnum.groups[name], called=name)
    return replace(magnum, groups=groups)


def judge_third(exchanged: Iterable[PoolPlan], magnum: Magnum, driver: str | None, problems: Problems) -> None:
    """A generation that is declared while two others are there, and the driver would lose one of their deletions.

    Args:
        exchanged: the pools with ``replace``.
        magnum: what it says, by Magnum's own names.
        driver: of the cloud.
        problems: are added to.
    """
    for planned in exchanged if driver == "capi-helm" else ():
        others = _others(planned, magnum.groups, driver)
        if len(others) > 1:
            problems.add(
                f"{planned.pool.path}.replace",
                f"{' and '.join(others)} would be deleted at the same time, and the driver capi-helm then makes one of them again",
                allowed="one other node group of the pool",
                remedy="Deploy the declaration of before, so that what has failed goes; then change the pool again.",
            )


def _others(planned: PoolPlan, groups: Mapping[str, Group], driver: str | None) -> Sequence[str]:
    mine = _called(planned, groups, driver)
    return sorted(name for name in groups if is_called(planned, name) and name != mine)


def _called(planned: PoolPlan, groups: Mapping[str, Group], driver: str | None) -> str | None:
    """What Magnum calls the pool that is declared; in place it is replaced, and so it is whichever is there."""
    if (name := f"{planned.stem}{planned.generation}") in groups:
        return name
    if planned.pool.exchange == "inPlace":
        return next((name for name in groups if is_called(planned, name)), None)
    there = groups.get(planned.name)
    return planned.name if there and _is_as_declared(planned, there, driver) else None


def _is_as_declared(planned: PoolPlan, group: Group, driver: str | None) -> bool:
    """Magnum shows names as they were given; what is not written may be anything."""
    placement = cast("MagnumPlacement", planned.pool.placement)
    wanted = ((placement.flavor, group.flavor), (placement.image, group.image), (placement.docker_volume_size, group.volume))
    same = all(written is None or written == has for written, has in wanted)
    return same and node_group_labels(planned, driver).items() <= group.labels.items()
