"""Puts the labels that a change has set back onto the verifier's own node, where somebody has taken them away since.

Nobody but the changer sets them, so nobody else puts them back. A person may take them away, or a cloud: AKS takes those off
living nodes that a pool no longer has (Azure/AKS#3152), maybe later than it answers; whether it also takes labels that others
have set was not to be read. They are put back only where that needs no turn (gpu_pools/verifier/steps.py): no pod holds a GPU of
the node, or NVML says what is declared. Everything else waits for the next ``change``. Another value is left as it is: whoever
wrote it may have meant it, and the assertion tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .api import ApiError
from .operands import CONFIG_LABEL
from .steps import Step, next_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from .living_node import LivingNode
    from .observation import Assertion
    from .steps import Target


def keep(node: LivingNode, target: Target, nvml: Callable[[], bool], assertion: Assertion) -> str | None:
    """Put them back where the assertion found none; returns what was done, or why not, and None where nothing is to be done.

    Args:
        node: the node.
        target: what it was changed to.
        nvml: whether NVML says what is declared; asked only where pods hold GPUs.
        assertion: the last one.
    """
    seen = assertion.observation.node
    if seen is None or CONFIG_LABEL in seen.labels:
        return None
    try:
        now = node.read()
        there = node.seen(now, turn=False, is_open=True, as_declared=lambda _, __, held: held and nvml())
        if CONFIG_LABEL in there.labels or there.mark is not None or next_step(target, there) is not Step.SET:
            return None
        node.set_labels(now, target.labels)
    except ApiError as error:
        return f"the labels of the last change cannot be put back: {error}"
    return f"somebody has taken the label {CONFIG_LABEL} away: it is put back"
