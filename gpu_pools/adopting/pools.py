"""Tries pools on the planner: whatever it refuses is not written into a stack file, and its own words say why.

A pool is tried alone, so that one that cannot be expressed does not take the others with it, and then with those before it: all
pools of a cluster have one owner of the driver, for instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_pools.adopting.adopted import problems_of
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.errors import InvalidStackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpu_pools.adopting.adopted import Adopted, Taken
    from gpu_pools.adopting.sharing import Named
    from gpu_pools.plan.planned import Plan, PoolPlan


def planned_alone(
    sections: Mapping[str, Any],
    entry: Mapping[str, Any],
    candidates: Iterable[Named],
    fits: Callable[[PoolPlan], bool] = lambda _: True,
) -> tuple[Named, PoolPlan] | str:
    """The first declaration with which the planner takes the pool, and the pool as it plans it; else why it takes none.

    Args:
        sections: of the stack file, besides sharing and pools.
        entry: of the pool, without `sharing`.
        candidates: declarations by name, the likeliest first.
        fits: what must hold of the plan besides.
    """
    why = "no declaration says how it shares its GPUs"
    for name, sharing in candidates:
        plan = _try({**sections, "sharing": {name: sharing}, "pools": [{**entry, "sharing": name}]})
        if isinstance(plan, str):
            why = plan
        elif fits(plan.pools[0]):
            return (name, sharing), plan.pools[0]
    return why


def put_in(adopted: Adopted, taken: Taken) -> str:
    """Add a pool to what is adopted; returns why it cannot stand beside the others, else nothing."""
    name, entry = (
        _named(adopted.sections.setdefault("sharing", {}), str(taken.entry["sharing"]), taken.sharing),
        dict(taken.entry),
    )
    entry["sharing"] = name
    sharing = {**adopted.sections["sharing"], name: dict(taken.sharing)}
    pools = [*adopted.sections.get("pools", []), entry]
    plan = _try({**adopted.sections, "sharing": sharing, "pools": pools})
    if isinstance(plan, str):
        return plan
    adopted.sections |= {"sharing": sharing, "pools": pools}
    adopted.imports += taken.imports
    adopted.changes[str(entry["name"])] = taken.changes
    return ""


def _named(there: Mapping[str, Any], name: str, sharing: Mapping[str, Any]) -> str:
    """A name that is free, or that has this very declaration."""
    unique, number = name, 2
    while unique in there and there[unique] != sharing:
        unique, number = f"{name}-{number}", number + 1
    return unique


def _try(sections: Mapping[str, Any]) -> Plan | str:
    try:
        return plan_config({f"gpu-pools:{key}": value for key, value in sections.items()})
    except InvalidStackError as error:
        return problems_of(error)


def majority(owners: Sequence[str]) -> str:
    """The owner of the driver that most pools have; the first of them where there are as many of each."""
    return max(dict.fromkeys(owners), key=owners.count) if owners else ""
