"""``change``, ``release`` and ``watch --keep``, once the command line is read. Prints; decides no step."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from ..api import ApiError
from ..findings import Verdict
from ..observation import Observer
from ..sources import UsageError, expectation_of, node_reader, terminate
from .change import Change, ChangeError, Manner, target_of
from .keep import keep
from .living_node import LivingNode
from .release import Release
from .rollout_slots import RolloutSlots
from .windows import opens_in, read_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..expectation import Expectation
    from ..node import NodeReader
    from ..observation import Assertion
    from ..options import Options
    from ..sources import Reader


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
