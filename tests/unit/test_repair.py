"""What a repair does next, purely: from each place in which one can end, killed or not, to the node that is given back."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from gpu_pools.repairing.steps import Mark, NodeUnderRepair, Step, begun, blocking, failed, leaving, looked, next_step, read_mark
from gpu_pools.repairing.ways import APPS, Way, chosen, empties_node, frees_gpus, ways_of
from gpu_pools.verifier.causes import CAUSES
from gpu_pools.verifier.changer.rollout_steps import Holder
from gpu_pools.verifier.changer.rollout_steps import read_mark as read_change
from tests.examples import examples

GPU_POD = Holder("default", "trains", "u1", "ReplicaSet", {"nvidia.com/gpu": 1})
WEB_POD = Holder("default", "web", "u2", "ReplicaSet", {})
AGENT = Holder("default", "agent", "u3", "DaemonSet", {"nvidia.com/gpu": 1})
SEEN: Final = NodeUnderRepair(
    cordoned=False,
    ready=True,
    mark=None,
    holders=(GPU_POD,),
    others=(WEB_POD,),
    pods={"p1": "gpu-operator/plugin", "v1": "gpu-pools-verifier/verifier"},
    boot="b1",
    report="t1",
    causes=("gpu-lost", "unhealthy"),
    proven=False,
)


# --- ways -------------------------------------------------------------------------------------------------


def test_each_cause_that_has_a_way_is_one_of_the_verifier() -> None:
    from gpu_pools.repairing.ways import _BY_CAUSE  # noqa: PLC0415 - its table

    assert {cause for causes in _BY_CAUSE.values() for cause in causes.split()} <= set(CAUSES)
    assert all(_BY_CAUSE[way] for way in Way), "a way that nothing leads to"


@pytest.mark.parametrize(
    "words", ["reset", "reboot", "Reboot", "power-cycle", "GPU replaced", "Delete this pod, and", "Restart the device plugin"]
)
def test_what_the_verifier_says_helps_a_node_has_a_way(words: str) -> None:
    """Not where it is one of several, or only the last of them."""
    elsewhere = {"mig-config-rebooting", "driver-upgrading", "driver-other"}
    lacking = {key for key, cause in CAUSES.items() if words in cause.remedy and not ways_of(key)} - elsewhere
    assert lacking == set()


def test_the_first_cause_decides_whether_a_repair_helps() -> None:
    assert chosen(["gpu-lost", "unhealthy"], replaced=False) == (Way.HAND, Way.PLUGIN)
    assert chosen(["taint-missing", "unhealthy"], replaced=False) == (), "the taint would still be missing"
    assert chosen(["label-other", "unhealthy"], replaced=False) == (Way.LABEL, Way.PLUGIN)
    assert chosen([], replaced=False) == ()
    assert chosen(["mps-split"], replaced=False) == (Way.MPS, Way.PLUGIN), "the daemon, then the plugin"


@pytest.mark.parametrize("label", ["label-other", "label-missing"])
def test_what_follows_from_a_wrong_label_is_not_repaired_by_itself(label: str) -> None:
    follows = ["operand-config", "config-wedged", "nothing-offered", "count-other", "left-over", "gfd-other", "mig-layout"]
    assert chosen([label, *follows], replaced=False) == (Way.LABEL,)
    assert chosen(follows, replaced=False) == (), "config-manager's error stands above them"


def test_labels_are_set_once_no_pod_holds_a_gpu_and_until_they_are_as_declared() -> None:
    wrong = {"nvidia.com/device-plugin.config": "four"}
    assert next_step(_at((Way.LABEL,), labels=wrong)) is Step.EMPTY
    assert next_step(_at((Way.LABEL,), labels=wrong, holders=())) is Step.LABEL
    assert next_step(_at((Way.LABEL,), holders=())) is Step.RESTART, "the verifier looks again"
    assert next_step(_at((Way.PLUGIN,), labels=wrong, holders=())) is Step.RESTART, "that was not asked for"


def test_a_node_that_goes_on_changing_gets_only_what_ends_nobodys_work() -> None:
    stuck = ("unsteady", "config-wedged", "gfd-other")
    assert chosen(stuck, replaced=False) == (Way.GFD, Way.POD), "an operand that ends at each start is what changes"
    assert chosen(("unsteady", "mig-pending"), replaced=False) == (), "mig-manager may be at work"
    assert chosen(("unsteady", "label-missing", "unhealthy"), replaced=False) == ()
    assert chosen(("unsteady",), replaced=False) == ()
    assert chosen(("unsteady", "config-wedged"), replaced=True) == (Way.REPLACE,)


def test_a_broken_gpu_has_its_machine_replaced_and_nothing_else_is_done_to_it() -> None:
    assert chosen(["gpu-reset", "memory-broken"], replaced=False) == (Way.REPLACE,)
    assert chosen(["label-missing"], replaced=True) == (Way.REPLACE,)


# --- who has to go ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ways", "gone"),
    [
        ((Way.PLUGIN,), ()),
        ((Way.POD, Way.GFD), ()),
        ((Way.MIG,), (GPU_POD,)),
        ((Way.MPS, Way.PLUGIN), (GPU_POD,)),
        ((Way.HAND,), (GPU_POD, WEB_POD)),
        ((Way.REPLACE,), (GPU_POD, WEB_POD)),
    ],
)
def test_only_those_go_whose_gpus_or_node_end(ways: tuple[Way, ...], gone: tuple[Holder, ...]) -> None:
    assert leaving(ways, SEEN) == gone
    assert leaving(ways, replace(SEEN, holders=(GPU_POD, AGENT))) == gone, "it would come back"


def test_a_pod_that_comes_back_stands_against_a_change_of_gpus_and_not_against_a_reboot() -> None:
    static = replace(AGENT, name="static", owner="Node")
    seen = replace(SEEN, holders=(GPU_POD, AGENT, static))
    assert blocking((Way.MIG,), seen) == (AGENT, static)
    assert leaving((Way.MIG,), seen) == (GPU_POD,)
    assert blocking((Way.HAND,), seen) == blocking((Way.PLUGIN,), seen) == ()


# --- the mark ---------------------------------------------------------------------------------------------


def test_a_mark_says_what_begins() -> None:
    mark = begun((Way.HAND, Way.PLUGIN), ("p1", "v1"), SEEN, "now")
    assert mark == Mark(
        "repair",
        cordoned=True,
        since="now",
        ways=("HAND", "PLUGIN"),
        pods=("p1", "v1"),
        boot="b1",
        report="t1",
        last="",
        upgrade=False,
    )


def test_the_mark_is_read_as_it_was_written_also_by_who_gives_a_node_back() -> None:
    mark = begun((Way.HAND, Way.PLUGIN), ("p1", "v1"), SEEN, "now")
    assert read_mark(mark.text()) == mark
    assert mark.cordoned
    other = read_change(mark.text())
    assert other is not None
    assert other.cordoned, "LivingNode.give_back reads it so"


@pytest.mark.parametrize("text", ["x", "[]", "{}", '{"to": "repair", "cordoned": true, "since": ""}'])
def test_a_mark_that_cannot_be_read_is_done_anew_and_uncordons_nothing(text: str) -> None:
    mark = read_mark(text)
    assert mark is not None
    assert not mark.cordoned
    assert next_step(replace(SEEN, mark=mark, cordoned=True)) is Step.MARK
    assert not begun((Way.PLUGIN,), (), replace(SEEN, mark=mark, cordoned=True), "now").cordoned


def test_a_cordon_of_others_stays_theirs_and_ours_stays_ours_when_it_begins_anew() -> None:
    theirs = begun((Way.PLUGIN,), (), replace(SEEN, cordoned=True), "now")
    assert not theirs.cordoned
    assert not begun((Way.MIG,), (), replace(SEEN, cordoned=True, mark=theirs), "later").cordoned
    ours = begun((Way.PLUGIN,), (), SEEN, "now")
    assert begun((Way.MIG,), (), replace(SEEN, cordoned=True, mark=ours), "later").cordoned


# --- steps ------------------------------------------------------------------------------------------------


def _at(ways: tuple[Way, ...], **changes: object) -> NodeUnderRepair:
    mark = begun(ways, ("p1", "v1"), SEEN, "now")
    return replace(SEEN, cordoned=True, mark=mark, **changes)  # type: ignore[arg-type]


def test_from_the_beginning_to_the_end() -> None:
    assert next_step(SEEN) is Step.MARK
    empty: dict[str, object] = {"holders": (), "others": ()}
    assert next_step(_at((Way.HAND,))) is Step.EMPTY
    assert next_step(_at((Way.HAND,), holders=())) is Step.EMPTY, "a reboot ends the others, too"
    assert next_step(_at((Way.HAND,), **empty)) is Step.HAND
    assert next_step(_at((Way.HAND,), **empty, boot="b2", ready=False)) is Step.HAND, "it is still starting"
    rebooted: dict[str, object] = {**empty, "boot": "b2"}
    assert next_step(_at((Way.HAND,), **rebooted)) is Step.RESTART
    assert next_step(_at((Way.HAND,), **rebooted, pods={"p2": "", "v1": ""})) is Step.RESTART
    last = _at((Way.HAND,), **rebooted, pods={"p2": "", "v2": ""})
    assert next_step(last) is Step.LOOK
    assert last.mark is not None
    told = replace(last, mark=looked(last.mark, last))
    assert next_step(told) is Step.PROVE
    assert next_step(replace(told, proven=True)) is Step.PROVE, "that report was there before"
    assert next_step(replace(told, report="t2")) is Step.PROVE
    assert next_step(replace(told, report="t2", proven=True)) is Step.GIVE_BACK


@pytest.mark.parametrize(
    ("report", "causes", "step"),
    [
        ("t1", ("unhealthy",), Step.HAND),
        ("t2", ("gpu-lost",), Step.HAND),
        ("t2", None, Step.HAND),
        ("t2", ("unhealthy",), Step.RESTART),
        ("t2", (), Step.RESTART),
    ],
)
def test_a_reset_is_seen_by_what_a_new_report_no_longer_says(report: str, causes: tuple[str, ...] | None, step: Step) -> None:
    seen = _at((Way.HAND, Way.PLUGIN), holders=(), others=(), report=report, causes=causes)
    assert next_step(seen) is step


def test_a_machine_is_waited_for_until_it_is_gone() -> None:
    assert next_step(_at((Way.REPLACE,))) is Step.EMPTY
    assert next_step(_at((Way.REPLACE,), holders=(), others=(), boot="b2", report="t2", proven=True)) is Step.GONE


def test_the_operator_is_told_once_to_try_again() -> None:
    seen = _at((Way.UPGRADE,), holders=())
    assert next_step(seen) is Step.UPGRADE
    assert seen.mark is not None
    assert next_step(replace(seen, mark=replace(seen.mark, upgrade=True))) is Step.RESTART


def test_what_ended_without_a_proof_is_begun_anew() -> None:
    seen = _at((Way.PLUGIN,))
    assert seen.mark is not None
    ended = replace(seen, mark=looked(seen.mark, seen))
    assert not failed(seen)
    assert not failed(ended), "no new report yet"
    assert failed(replace(ended, report="t2"))
    assert not failed(replace(ended, report="t2", proven=True))
    assert not failed(replace(ended, report="t2", causes=None)), "it says nothing"


# --- in any order, killed anywhere ------------------------------------------------------------------------


@dataclass
class World:
    """A node that does what nodes do: pods go when they are asked to, reports come, somebody reboots it some time."""

    draw: random.Random
    ways: tuple[Way, ...]
    cordoned_before: bool
    seen: NodeUnderRepair = SEEN
    healed: bool = False
    number: int = 1
    trail: list[Step] = field(default_factory=list)

    def has_slot(self) -> None:
        """Something happens."""
        self.number += 1
        if Way.HAND in self.ways and self.draw.random() < 0.2 and not (self.seen.holders or self.seen.others):
            self.seen, self.healed = replace(self.seen, boot=f"b{self.number}"), True
        if self.draw.random() < 0.5:
            restarted = not {"p1", "v1"} & set(self.seen.pods)
            good = restarted and (self.healed or Way.HAND not in self.ways)
            self.seen = replace(self.seen, report=f"t{self.number}", proven=good, causes=() if good else SEEN.causes)

    def do(self, step: Step) -> None:
        """As repair.py does it."""
        self.trail.append(step)
        mark = self.seen.mark
        if step is Step.MARK:
            self.seen = replace(self.seen, mark=begun(self.ways, ("p1", "v1"), self.seen, "now"), cordoned=True)
        elif step is Step.EMPTY:
            gone = self.draw.choice(self.seen.going)
            left = {name: tuple(one for one in getattr(self.seen, name) if one != gone) for name in ("holders", "others")}
            self.seen = replace(self.seen, **left)
        elif step is Step.RESTART:
            pods = {uid: name for uid, name in self.seen.pods.items() if uid != self.seen.starting[0]}
            self.seen = replace(self.seen, pods=pods)
        elif step is Step.LABEL:
            self.seen = replace(self.seen, labels={})
        elif step is Step.UPGRADE and mark:
            self.seen = replace(self.seen, mark=replace(mark, upgrade=True))
        elif step is Step.LOOK and mark:
            self.seen = replace(self.seen, mark=looked(mark, self.seen))
        elif step is Step.GIVE_BACK and mark:
            self.seen = replace(self.seen, mark=None, cordoned=self.seen.cordoned and not mark.cordoned)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_it_ends_proven_with_the_cordon_as_it_was_wherever_it_is_killed(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same every time
    ways = draw.choice([(Way.PLUGIN,), (Way.MIG,), (Way.HAND, Way.PLUGIN), (Way.UPGRADE,), (Way.MPS, Way.PLUGIN)])
    cordoned = draw.random() < 0.5
    world = World(draw, ways, cordoned, replace(SEEN, cordoned=cordoned))
    for _ in range(400):
        world.has_slot()
        step = next_step(world.seen)
        # A kill between a look and its step leaves no more than what stands there.
        if draw.random() < 0.3:
            continue
        if step in {Step.RESTART, Step.UPGRADE}:
            assert world.seen.cordoned
            assert not (frees_gpus(ways) and world.seen.holders)
            assert not (empties_node(ways) and world.seen.others)
        world.do(step)
        if step is Step.GIVE_BACK:
            break
    assert world.trail[-1] is Step.GIVE_BACK, world.trail
    assert world.seen.proven
    assert (world.seen.cordoned, world.seen.mark) == (cordoned, None)
    assert not {"p1", "v1"} & set(world.seen.pods)


def test_marks_of_other_programs_say_nothing() -> None:
    assert Mark("repair", cordoned=True, since="", ways=("NEWER",)).what == ()


def test_the_pods_that_start_anew_are_those_that_a_node_must_have() -> None:
    from gpu_pools.proof.node_expectation import _ALWAYS, _MIG, _MPS  # noqa: PLC0415 - names of the operator's pods

    assert set(APPS.values()) == {*_ALWAYS, _MPS, _MIG}
