"""Provokes many faults at once, each on a node of its own, and keeps what came of each: a fault, found, repaired, gone.

Nothing is judged while they run, and nothing fails: a test per fault does, so that one that is not found hides no other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.system.patience import Patience
from tests.engine.fleet import LONGEST_SECONDS, POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.engine.faults import Fault
    from tests.engine.fleet import Condition, Fleet


@dataclass
class Course:
    """What came of a fault.

    Attributes:
        node: where it was.
        fault: what it was.
        undo: repairs it.
        to_be_found: how long that may take.
        causes: what the node's verifier has found, by its last report.
        judged: whether that is what it should be, or the time is over.
        to_be_green: how long that may take since it was repaired; None while it is not.
        before: the node's conditions from the fault to the repair.
        green_at_last: whether the node was verified again after the repair.
    """

    node: str
    fault: Fault
    undo: Callable[[], object]
    to_be_found: Patience = field(default_factory=lambda: Patience(LONGEST_SECONDS))
    causes: tuple[str, ...] = ()
    judged: bool = False
    to_be_green: Patience | None = None
    before: list[Condition] = field(default_factory=list)
    green_at_last: bool = False

    @property
    def condition(self) -> Condition:
        """The last one before the repair."""
        return self.before[-1]

    @property
    def false_green(self) -> bool:
        """Whether the node was said to be verified after it was said to be not, and before the repair."""
        statuses = [condition.status for condition in self.before]
        red = next((at for at, status in enumerate(statuses) if status != "True"), len(statuses))
        return "True" in statuses[red:]

    def look(self, fleet: Fleet, condition: Condition) -> None:
        """Take in what is said now."""
        if not self.before or self.before[-1] != condition:
            self.before.append(condition)
        if condition.status != "True":
            self.causes = fleet.causes(self.node)
        found = condition.status == self.fault.status and condition.causes[:1] == self.fault.causes[:1]
        over = self.to_be_found.is_over()
        self.judged = over or (found and self.causes == self.fault.causes)

    def repair(self) -> None:
        """Undo the fault."""
        self.undo()
        self.to_be_green = Patience(LONGEST_SECONDS)

    def ends(self, condition: Condition) -> bool:
        """Whether the node is green again, or has had time enough."""
        assert self.to_be_green is not None
        self.green_at_last = condition.status == "True"
        return self.green_at_last or self.to_be_green.is_over()


def run(fleet: Fleet, faults: Mapping[str, Fault], *, first: Callable[[], object] | None = None) -> dict[str, Course]:
    """Provoke faults, on each node one after the other; each is repaired as soon as it is found, and the next begins then.

    Args:
        fleet: the fleet, all green.
        faults: by name.
        first: where given, no fault is repaired before all are found, and this before any of them; then each node has one.
    """
    waiting: dict[str, list[tuple[str, Fault]]] = defaultdict(list)
    for name, fault in faults.items():
        waiting[fleet.node(fault.pool, fault.index)].append((name, fault))
    courses: dict[str, Course] = {}
    running: dict[str, Course] = {}
    while waiting or running:
        for node in set(waiting) - set(running):
            name, fault = waiting[node].pop(0)
            waiting = defaultdict(list, {key: rest for key, rest in waiting.items() if rest})
            running[node] = courses[name] = Course(node, fault, fault.happens(fleet, node))
        seen = fleet.look()
        for node, course in running.items():
            if course.to_be_green is None and not course.judged:
                course.look(fleet, seen[node])
        held = first is not None and (waiting or not all(course.judged for course in running.values()))
        if not held and first is not None:
            first, _ = None, first()
        running = {node: course for node, course in running.items() if not _ended(course, seen[node], held=bool(held))}
        time.sleep(POLL_SECONDS)
    return courses


def _ended(course: Course, condition: Condition, *, held: bool) -> bool:
    if course.to_be_green is not None:
        return course.ends(condition)
    if course.judged and not held:
        course.repair()
    return False


def found_and_repaired(course: Course) -> None:
    """Fail where a fault was not found with its causes, was overlooked for a moment, or did not go with its repair."""
    assert course.causes == course.fault.causes, f"{course.node}: {course.condition}"
    assert course.condition.status == course.fault.status, course.condition
    assert course.condition.causes[0] == course.fault.causes[0], course.condition
    assert not course.false_green, [condition.status for condition in course.before]
    assert course.green_at_last, f"{course.node} was not verified again after the repair"
