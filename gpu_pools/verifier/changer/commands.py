"""``change``, ``release`` and ``watch --keep``, once the command line is read. What a change does step by step is in change.py.

**release** uncordons the node after its proof, then frees its rollout slot: the next node begins only when this one works. As
in a change a request may fail, or be done although its answer is lost: then both are looked at anew. It does not end before the
slot is free, since nobody would free it afterwards: an init container that has ended well is not run again. Where that is not
possible for long, it fails and says why, and the kubelet tries again.

**keep** sets the labels of the last change again on the verifier's own node, where somebody has removed or overwritten them
since. Nobody but the changer sets these labels, so nobody else resets them. A person may remove or overwrite them, and so may a
cloud: AKS removes labels that a pool no longer has from living nodes (Azure/AKS#3152), maybe later than it answers; whether it
also removes labels that others have set is not documented. A reset here needs no slot and ends no pod's work (may_set in
gpu_pools/verifier/changer/rollout_steps.py): no pod holds a GPU of the node, NVML says what is declared, or running pods keep
their shares. Anything else waits for a change with a rollout slot, which `gpu-pools repair` starts.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ..api import ApiError
from ..findings import Verdict
from ..observation import Observer
from ..sources import UsageError, expectation_of, node_reader, terminate
from .change import Change, ChangeError, Manner, target_of, tell
from .living_node import LivingNode
from .rollout_slots import RolloutSlots
from .rollout_steps import has_labels, may_set, wrong_labels
from .windows import opens_in, read_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..expectation import Expectation
    from ..node import NodeReader
    from ..observation import Assertion
    from ..options import Options
    from ..sources import Reader
    from .rollout_steps import Target

# --- the command lines --------------------------------------------------------------------------------------------


def run_command(options: Options, reader: Reader) -> int:
    """Run a command; returns the exit code."""
    return {"change": _change, "release": _release}[options.command](options, reader)


def keeper(
    options: Options, node: NodeReader | None, expected: Expectation, reader: Reader
) -> Callable[[Assertion], str | None] | None:
    """Puts back what a change has set and somebody has taken away; None where that is not asked for."""
    if not options.keep or node is None or expected.node is None:
        return None
    living = LivingNode(node.api, node.name, expected.node.namespace)
    return partial(keep, living, target_of(expected), _nvml_holds(options, reader, expected))


def _change(options: Options, reader: Reader) -> int:
    expected, node, slots = _rollout_of(options)
    try:
        target, manner = target_of(expected), Manner(options.drain, options.staying, options.wait, options.restart_mps)
        windows = [read_window(text) for text in options.window]

        def opens() -> float:
            return opens_in(windows, slots.api.clock()) if windows else 0.0

        Change(target, node, slots, manner, _nvml_holds(options, reader, expected), opens).run()
    except ChangeError as error:
        print(f"not changed: {error}", file=sys.stderr)
        terminate(options.termination_log, f"not changed: {error}")
        return Verdict.DIFFERS.value
    return 0


def _release(options: Options, reader: Reader) -> int:
    del reader
    _, node, slots = _rollout_of(options)
    try:
        Release(node, slots).run()
    except ApiError as error:
        message = f"the node cannot be given back: {error}"
        raise UsageError(message) from None
    return 0


def _nvml_holds(options: Options, reader: Reader, expected: Expectation) -> Callable[[], bool]:
    """Whether NVML says what is declared, whatever the node object says."""
    observer = Observer(reader, None, options.pause, options.processes)
    return lambda: observer.hold(expected).findings.verdict is Verdict.HOLDS


def _rollout_of(options: Options) -> tuple[Expectation, LivingNode, RolloutSlots]:
    """What both sides of a change need."""
    (expected, _), reader = expectation_of(options), node_reader(options)
    if reader is None or expected.node is None:
        message = "a change is one of a node object: leave --only out."
        raise UsageError(message)
    slots = RolloutSlots(reader.api, options.turns_in, expected.pool, options.turns, reader.name)
    return expected, LivingNode(reader.api, reader.name, expected.node.namespace), slots


# --- release ------------------------------------------------------------------------------------------------------

_POLL_SECONDS: Final = 2.0
#: An API server may be away for a minute.
_PATIENCE_SECONDS: Final = 180.0
_FORBIDDEN: Final = 403


@dataclass
class Release:
    """Of a node.

    Attributes:
        node: the node.
        slots: of its pool.
        now, sleep: the clock.
    """

    node: LivingNode
    slots: RolloutSlots
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _began: float | None = None

    def run(self) -> None:
        """Go on until both are given back.

        Raises:
            ApiError: where that is not possible.
        """
        while not self.look():
            pass

    def look(self) -> bool:
        """Look once and give back what is still there; whether all is.

        Raises:
            ApiError: where that is not possible.
        """
        if self._began is None:
            self._began = self.now()
        try:
            if self.node.give_back(self.node.read()):
                tell("the node is given back")
            if self.slots.free():
                return True
        except ApiError as error:
            if error.status == _FORBIDDEN or self.now() - self._began >= _PATIENCE_SECONDS:
                raise
            tell(str(error))
        self.sleep(_POLL_SECONDS)
        return False


# --- keep ---------------------------------------------------------------------------------------------------------


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
