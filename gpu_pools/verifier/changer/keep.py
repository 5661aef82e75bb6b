"""Sets the labels of the last change again on the verifier's own node, where somebody has removed or overwritten them since.

Nobody but the changer sets these labels, so nobody else resets them. A person may remove or overwrite them, and so may a cloud:
AKS removes labels that a pool no longer has from living nodes (Azure/AKS#3152), maybe later than it answers; whether it also
removes labels that others have set is not documented. A reset here needs no slot and ends no pod's work (may_set in
gpu_pools/verifier/changer/rollout_steps.py): no pod holds a GPU of the node, NVML says what is declared, or running pods keep
their shares. Anything else waits for a change with a rollout slot, which `gpu-pools repair` starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..api import ApiError
from .rollout_steps import has_labels, may_set, wrong_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..observation import Assertion
    from .living_node import LivingNode
    from .rollout_steps import Target


def keep(node: LivingNode, target: Target, nvml: Callable[[], bool], assertion: Assertion) -> str | None:
    """Set the labels where the assertion found others; returns what was done, or why not, and None where nothing is to be done.

    Args:
        node: the node.
        target: what it was changed to.
        nvml: whether NVML says what is declared; asked only where pods hold GPUs.
        assertion: the last one.
    """
    seen = assertion.observation.node
    if seen is None or has_labels(target, seen.labels):
        return None
    try:
        now = node.read()
        found = node.seen(now, has_slot=False, is_open=True, as_declared=lambda _, __, held: held and nvml())
        if found.mark is not None or not may_set(target, found):
            return None
        node.set_labels(now, target.labels)
    except ApiError as error:
        return f"the labels of the last change cannot be set again: {error}"
    wrong = [
        f"{key}={found.labels[key]}" if key in found.labels else f"no {key}"
        for key in sorted(wrong_labels(target.labels, found.labels))
    ]
    return f"somebody has changed the labels of this node ({', '.join(wrong)}): they are set again as declared"
