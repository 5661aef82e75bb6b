"""Whose replacement the stack's own configuration acknowledges; gpu_pools/stack/acknowledged.py reads the section.

An engine shows its policies no state, so no rule can tell a replacement. But it hands them the configuration of the stack; from
it the plan says what is acknowledged as exactly what is declared now, and so unprotected. Other stacks acknowledge nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.policies import kinds
from gpu_pools.stack.acknowledged import CLUSTER
from gpu_pools.stack.settings import NAMESPACE
from gpu_pools.text.errors import InvalidStackError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan

#: Platform -> (type of a cluster, type of a pool).
_TYPES: Final = {
    "aks": (kinds.MANAGED_CLUSTER, kinds.AGENT_POOL),
    "magnum": (kinds.MAGNUM_CLUSTER, kinds.NODE_GROUP),
}


def acknowledged_by(config: Mapping[str, object]) -> dict[tuple[str, str], bool]:
    """(type, name in the cloud) of a resource -> whether its protection is lifted.

    False: an acknowledgement of another change stands there, so that what is deployed may be unprotected still.

    Args:
        config: the stack's configuration, with namespaces.
    """
    if f"{NAMESPACE}:acknowledged" not in config:
        return {}
    from gpu_pools.plan.planning import plan_config  # noqa: PLC0415 - a good part of the time that the pack takes to start

    try:
        plan = plan_config(config, complete=False)
    except InvalidStackError:
        # The program itself tells what is wrong.
        return {}
    return _of_plan(plan) if plan.platform in _TYPES else {}


def _of_plan(plan: Plan) -> dict[tuple[str, str], bool]:
    cluster, pool = _TYPES[plan.platform]
    named = {one.resource for one in plan.settings.acknowledged if one.of_replacement}
    found = {
        (pool, one.name): lifted
        for one in plan.pools
        if (lifted := one.pool.protect and not one.protect) or (one.pool.protect and one.name in named)
    }
    declared = plan.settings.cluster
    if getattr(declared, "protect", False) and (CLUSTER in named or not plan.protect):
        found[cluster, getattr(declared, "name", "")] = not plan.protect
    return found
