"""What the nodes of a pool and the operator must agree on: the key that the pool's label names.

Pools decide for each other (the cluster's MIG strategy), so a pool that is planned by itself may name a key that the operator's
ConfigMap lacks; the device plugin on its nodes would not start. Whoever makes a pool's nodes is given the operator that knows all
pools, and takes the pool's plan from there. Where that cannot be handed over, from another language, it is given the operator's
`mig_strategy` and `config_keys`, and checked against these in the preview. What is part of a platform needs neither.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pulumi

from gpu_pools.components.arguments.to_stack import one_of, pool_keys
from gpu_pools.plan.planned import PoolPlan
from gpu_pools.text.errors import InvalidStackError, Problem

if TYPE_CHECKING:
    from gpu_pools.components.gpu_operator.operator import GpuOperator

_T = TypeVar("_T")


def once_agreed(
    what: str, pool_plan: PoolPlan, config_keys: pulumi.Input[Sequence[str]] | None, value: _T
) -> "_T | pulumi.Output[_T]":
    """What carries the pool's label, once its key is known to be one of the operator's.

    Args:
        what: the component, for messages.
        pool_plan: the pool.
        config_keys: the operator's output; None: nobody asked for a check.
        value: what carries the label.
    """
    if config_keys is None:
        return value
    known: pulumi.Output[Any] = pulumi.Output.from_input(config_keys)
    return known.apply(lambda keys: _checked(what, pool_plan, keys, value))


def _checked(what: str, pool_plan: PoolPlan, keys: Sequence[str], value: _T) -> _T:
    if pool_plan.config_key in keys:
        return value
    problem = Problem(
        f"{what}.sharing",
        f"its device plugin config {pool_plan.config_key} is not one that the operator has",
        ", ".join(keys),
        "Give the GpuOperator this pool among its pools, and the pool the operator (in Python), or its output mig_strategy.",
    )
    raise InvalidStackError([problem])


def find_pool_plan(
    what: str,
    args: object,
    pool_plan: PoolPlan | None,
    operator: "GpuOperator | None",
    alone: Callable[[Any], PoolPlan],
) -> PoolPlan:
    """The plan of the pool whose nodes a component makes or labels.

    Args:
        what: the component, for messages.
        args: its arguments, with the pool where there is no plan of it.
        pool_plan: the pool as part of a plan.
        operator: the one that was given the pool.
        alone: plans a pool by itself.

    Raises:
        InvalidStackError: if there is neither or both of pool and plan, or the operator knows the pool not, or otherwise.
    """
    given = cast("Mapping[str, Any]", args)
    pool = given.get("pool")
    # Where programs of earlier versions hand it over.
    pool_plan = given.get("planned", pool_plan)
    if isinstance(pool_plan, PoolPlan) and pool is None:
        return pool_plan
    if pool_plan is not None or pool is None:
        raise InvalidStackError([one_of(what, "pool", "planned")])
    return alone(pool) if operator is None else _of_operator(what, pool, operator)


def _of_operator(what: str, pool: object, operator: "GpuOperator") -> PoolPlan:
    written = pool_keys(pool, f"{what}.pool")
    name = written.get("name")
    known = operator.pools.get(str(name))
    if known is None:
        names = ", ".join(operator.pools) or "none: it was given no `pools`"
        problem = f'"{name}" is not a pool that the operator was given'
        raise InvalidStackError([Problem(f"{what}.pool.name", problem, names, "Add it to `pools` of the GpuOperator.")])
    if differing := sorted(key for key in {*written, *known} if written.get(key) != known.get(key)):
        problem = f"is declared otherwise to the operator: {', '.join(differing)}"
        remedy = "Declare the pool once (AksPool, MagnumPool, ExistingPool), and hand it to both."
        raise InvalidStackError([Problem(f"{what}.pool", problem, "one declaration", remedy)])
    return next(pool_plan for pool_plan in operator.planned.pools if pool_plan.name == name)


def after_operator(opts: pulumi.ResourceOptions | None, operator: "GpuOperator | None") -> pulumi.ResourceOptions | None:
    """The options of a component that comes after the operator, whose last part waits for the kubelets."""
    if operator is None:
        return opts
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[operator]))
