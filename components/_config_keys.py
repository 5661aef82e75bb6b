"""The one thing that a pool used alone and an operator used alone must agree on: the key that the pool's label names.

Each is planned by itself. Where pools of the operator's plan decide what a lone pool cannot know (the cluster's MIG strategy),
the key would be one that the operator's ConfigMap lacks, and the device plugin on the pool's nodes would not start. A pool that
is given the operator's `config_keys` is checked against them in the preview; one that is part of a platform needs no check.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import pulumi

from gpu_pools.plan.planned import PoolPlan
from gpu_pools.text.errors import InvalidStackError, Problem

_T = TypeVar("_T")


def once_agreed(
    what: str, planned: PoolPlan, config_keys: pulumi.Input[Sequence[str]] | None, value: _T
) -> "_T | pulumi.Output[_T]":
    """What carries the pool's label, once its key is known to be one of the operator's.

    Args:
        what: the component, for messages.
        planned: the pool.
        config_keys: the operator's output; None: nobody asked for a check.
        value: what carries the label.
    """
    if config_keys is None:
        return value
    known: pulumi.Output[Any] = pulumi.Output.from_input(config_keys)
    return known.apply(lambda keys: _checked(what, planned, keys, value))


def _checked(what: str, planned: PoolPlan, keys: Sequence[str], value: _T) -> _T:
    if planned.config_key in keys:
        return value
    problem = Problem(
        f"{what}.sharing",
        f"its device plugin config {planned.config_key} is not one that the operator has",
        ", ".join(keys),
        "Declare this sharing in the operator's config too, and give the pool the operator's mig_strategy where it has one.",
    )
    raise InvalidStackError([problem])
