"""The steps of a change of a node, killed anywhere: pure, on a node that is played here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.verifier.changer.rollout_steps import (
    Holder,
    LivingNodeState,
    Mark,
    Step,
    Target,
    hangs,
    harmless,
    marked,
    next_step,
    read_mark,
    stopped,
    uncordons,
)
from gpu_pools.verifier.names import CONFIG_LABEL, MIG_CONFIG_LABEL, MIG_STATE_LABEL

GPU = "nvidia.com/gpu"
SLICED = {n: Target({CONFIG_LABEL: f"time-slicing-{n}-x"}, {GPU: n}) for n in (2, 4, 8)}
CUT = {
    "1g": Target({CONFIG_LABEL: "mig-1", MIG_CONFIG_LABEL: "layout-1"}, {"nvidia.com/mig-1g.10gb": 7}),
    "3g": Target({CONFIG_LABEL: "mig-1", MIG_CONFIG_LABEL: "layout-3"}, {"nvidia.com/mig-3g.40gb": 2}),
}
WHOLE = Target({CONFIG_LABEL: "exclusive-x", MIG_CONFIG_LABEL: "all-disabled"}, {GPU: 1})
EMPTY = LivingNodeState({}, frozenset(), cordoned=False, mark=None, holders=(), has_slot=False, as_declared=False)


def holder(name: str = "a", owner: str = "ReplicaSet", **holds: int) -> Holder:
    return Holder("work", name, name, owner, holds or {GPU: 1})


def on(target: Target, **more: object) -> LivingNodeState:
    return replace(EMPTY, labels=target.labels, as_declared=True, **more)


def test_what_is_as_declared_is_left_alone() -> None:
    assert next_step(SLICED[4], on(SLICED[4], holders=(holder(),))) is Step.DONE


def test_a_node_that_joins_gets_its_labels_without_a_turn() -> None:
    assert next_step(CUT["1g"], EMPTY) is Step.SET
    assert next_step(CUT["1g"], replace(EMPTY, labels={MIG_CONFIG_LABEL: "all-disabled"})) is Step.SET


def test_labels_that_were_taken_away_are_put_back_where_the_gpus_are_as_declared() -> None:
    there = replace(EMPTY, holders=(holder(),))
    assert next_step(CUT["1g"], replace(there, as_declared=True)) is Step.SET
    assert next_step(CUT["1g"], there) is Step.TAKE_SLOT


def test_a_change_begins_in_a_window_and_goes_on_to_its_end() -> None:
    closed = on(CUT["1g"], has_slot=True, open=False)
    assert next_step(CUT["3g"], closed) is Step.CLOSED
    mark = marked(CUT["3g"], closed, "now")
    assert next_step(CUT["3g"], replace(closed, mark=mark, cordoned=True)) is Step.SET
    given_up = stopped(mark, (holder("a"),), "it stays")
    assert next_step(CUT["3g"], replace(closed, mark=given_up)) is Step.CLOSED, "it would begin anew"
    assert next_step(CUT["3g"], replace(EMPTY, open=False)) is Step.SET, "a node that joins harms nobody"
    assert next_step(SLICED[8], on(SLICED[4], open=False)) is Step.SET, "nor do more replicas"


def test_a_node_that_has_joined_waits_for_mig_manager_where_nobody_would_be_harmed() -> None:
    joined = on(CUT["1g"])
    # Before it has said anything the operator may set its default over the layout.
    for labels in ({}, {MIG_STATE_LABEL: "failed"}, {MIG_STATE_LABEL: "pending"}, {"x": "paused-for-mig-change"}):
        seen = replace(joined, labels={**joined.labels, **labels}, as_declared=False)
        assert next_step(CUT["1g"], seen) is Step.WAIT
        used = replace(seen, holders=(holder(),))
        assert next_step(CUT["1g"], used) is (Step.TAKE_SLOT if "failed" in labels.values() else Step.DONE)
        assert next_step(CUT["1g"], replace(used, as_declared=True)) is Step.DONE
    assert next_step(CUT["1g"], replace(joined, labels={**joined.labels, MIG_STATE_LABEL: "success"})) is Step.DONE


def test_a_node_that_pods_use_and_whose_mig_manager_failed_is_emptied_in_its_turn() -> None:
    labels = {**CUT["1g"].labels, MIG_STATE_LABEL: "failed"}
    seen = replace(EMPTY, labels=labels, holders=(holder(),), has_slot=True)
    assert next_step(CUT["1g"], replace(seen, open=False)) is Step.CLOSED
    assert next_step(CUT["1g"], replace(seen, holders=(holder(owner="DaemonSet"),))) is Step.BLOCKED
    assert next_step(CUT["1g"], seen) is Step.MARK
    seen = replace(seen, mark=marked(CUT["1g"], seen, "now"), cordoned=True)
    assert next_step(CUT["1g"], seen) is Step.LATE
    assert next_step(CUT["1g"], replace(seen, holders=())) is Step.WAIT
    sliced = replace(EMPTY, labels={**SLICED[4].labels, MIG_STATE_LABEL: "failed"}, holders=(holder(),))
    assert next_step(SLICED[4], sliced) is Step.DONE, "MIG is not declared"


def test_who_comes_late_is_to_go_until_nothing_is_left_of_what_was_before() -> None:
    late = on(CUT["3g"], mark=marked(CUT["3g"], EMPTY, "now"), cordoned=True, holders=(holder(),), has_slot=True)
    assert next_step(CUT["3g"], late) is Step.DONE, "NVML says what is declared, so it holds that"
    assert next_step(CUT["3g"], replace(late, as_declared=False)) is Step.LATE
    comes_back = replace(late, as_declared=False, holders=(holder(owner="DaemonSet"),))
    assert next_step(CUT["3g"], comes_back) is Step.WAIT, "an eviction would not take it away"
    assert next_step(CUT["3g"], replace(late, as_declared=False, mark=marked(CUT["1g"], EMPTY, "now"))) is Step.WAIT, "reverted"


def test_without_mig_a_change_lasts_until_the_node_offers_what_is_declared() -> None:
    seen = on(SLICED[4], mark=marked(SLICED[4], EMPTY, "now"), cordoned=True, has_slot=True, offers={GPU: 1})
    assert next_step(SLICED[4], seen) is Step.WAIT
    assert next_step(SLICED[4], replace(seen, holders=(holder(),))) is Step.LATE
    done = replace(seen, offers={GPU: 4})
    assert next_step(SLICED[4], done) is Step.DONE
    assert next_step(SLICED[4], replace(done, holders=(holder(),))) is Step.LATE, "no NVML says whose share it has"
    assert next_step(SLICED[4], replace(seen, mark=None)) is Step.DONE, "nobody was to go"


def test_what_nfd_still_sets_is_waited_for() -> None:
    assert next_step(SLICED[4], on(SLICED[4], by_nfd=frozenset({CONFIG_LABEL}))) is Step.LET_GO
    assert next_step(SLICED[4], on(SLICED[4], by_nfd=frozenset({"team"}))) is Step.DONE


def test_more_replicas_harm_nobody_and_fewer_only_those_that_hold_more() -> None:
    three = tuple(holder(name) for name in "abc")
    assert harmless(SLICED[8], on(SLICED[4], holders=three))
    assert not harmless(SLICED[2], on(SLICED[4], holders=three))
    assert harmless(SLICED[2], on(SLICED[4], holders=three[:2]))
    assert not harmless(SLICED[4], on(WHOLE, holders=three[:1])), "another strategy"
    assert not harmless(CUT["3g"], on(CUT["1g"])), "the GPUs are away meanwhile"


def test_a_daemon_sets_pod_is_never_evicted() -> None:
    seen = on(CUT["1g"], holders=(holder(owner="DaemonSet"),), has_slot=True)
    assert next_step(CUT["3g"], seen) is Step.BLOCKED


def test_a_stopped_change_waits_for_its_pods_alone() -> None:
    seen = on(CUT["1g"], holders=(holder("a"), holder("b")), has_slot=True)
    mark = stopped(marked(CUT["3g"], seen, "now"), (holder("a"),), "it stays")
    assert next_step(CUT["3g"], replace(seen, mark=mark)) is Step.STOPPED
    assert next_step(CUT["3g"], replace(seen, mark=mark, holders=(holder("b"),))) is Step.MARK
    assert next_step(CUT["1g"], replace(seen, mark=mark)) is Step.DONE, "the old declaration: nothing was changed"
    assert not uncordons(mark)


def test_static_pods_come_back_too_and_messages_name_what_holds() -> None:
    seen = on(CUT["1g"], holders=(holder(owner="Node"),), has_slot=True)
    assert next_step(CUT["3g"], seen) is Step.BLOCKED
    told = {owner: str(holder("a", owner)) for owner in ("", "Node", "DaemonSet", "ReplicaSet")}
    assert told[""] == "work/a (a bare pod)"
    assert told["Node"] == "work/a (a static pod)"
    assert told["DaemonSet"] == "work/a (of a DaemonSet)"
    assert told["ReplicaSet"] == "work/a"


def test_a_change_that_gets_another_target_is_marked_anew_and_keeps_its_cordon() -> None:
    seen = on(CUT["1g"], has_slot=True)
    first = marked(CUT["3g"], seen, "now")
    under_way = replace(seen, mark=first, cordoned=True)
    assert next_step(WHOLE, under_way) is Step.MARK
    assert marked(WHOLE, under_way, "later").cordoned, "the cordon is of the change"
    given_up = replace(under_way, mark=stopped(first, (holder(),), "it stays"))
    assert not marked(WHOLE, given_up, "later").cordoned, "it was given back, so somebody else has cordoned it"
    assert not marked(WHOLE, replace(seen, cordoned=True), "now").cordoned


def test_only_more_replicas_of_the_same_mig_are_harmless() -> None:
    both = [replace(SLICED[n], labels={**SLICED[n].labels, MIG_CONFIG_LABEL: layout}) for n, layout in ((4, "a"), (8, "b"))]
    assert not harmless(both[1], on(both[0]))
    assert not harmless(SLICED[8], on(WHOLE))
    assert not harmless(WHOLE, on(SLICED[8]))
    assert not harmless(SLICED[8], on(SLICED[4], holders=(holder("a", "ReplicaSet", other=1),))), "it is not offered any more"


def test_one_resource_of_several_that_is_not_offered_yet_is_enough_to_wait() -> None:
    target = Target({CONFIG_LABEL: "mixed-x"}, {GPU: 1, "nvidia.com/gpu.shared": 4})
    seen = on(target, mark=marked(target, EMPTY, "now"), offers={GPU: 1})
    assert next_step(target, seen) is Step.WAIT


def test_a_change_that_was_given_up_evicts_nobody() -> None:
    target = CUT["3g"]
    seen = replace(on(target, holders=(holder(),)), mark=stopped(marked(target, EMPTY, "now"), (holder(),), "it stays"))
    assert next_step(target, replace(seen, as_declared=False)) is not Step.LATE


def test_a_target_has_one_name_in_whatever_order_its_labels_are() -> None:
    turned = Target(dict(reversed(CUT["1g"].labels.items())), {})
    assert turned.name == CUT["1g"].name


def test_a_mark_is_read_as_it_was_written_and_nonsense_uncordons_nothing() -> None:
    mark = Mark("x=y", cordoned=True, since="now", stopped=("a",), why="it stays")
    assert read_mark(mark.text()) == mark
    assert read_mark(None) is None
    for text in ("{", "[]", "{}", '{"to": 1}', "null", '"a"'):
        assert not uncordons(read_mark(text))


def test_when_mig_manager_hangs() -> None:
    assert hangs("failed", paused=False, seconds=30)
    assert not hangs("failed", paused=True, seconds=29)
    assert not hangs("pending", paused=True, seconds=1499)
    assert hangs("pending", paused=True, seconds=1500)
    assert hangs("success", paused=True, seconds=60)
    assert not hangs("success", paused=False, seconds=9999)
    assert not hangs("", paused=True, seconds=9999)


@dataclass
class Node:
    """A node that does at once what it is told; `log` is what was done to it."""

    seen: LivingNodeState
    log: list[Step] = field(default_factory=list)

    def do(self, target: Target) -> Step:
        """One step, or the giving back after the proof."""
        step = next_step(target, self.seen)
        self.log.append(step)
        seen = self.seen
        if step is Step.TAKE_SLOT:
            self.seen = replace(seen, has_slot=True)
        elif step is Step.MARK:
            self.seen = replace(seen, mark=marked(target, seen, "now"), cordoned=True)
        elif step in {Step.EMPTY, Step.LATE}:
            assert seen.cordoned
            self.seen = replace(seen, holders=seen.holders[1:])
        elif step is Step.SET:
            assert harmless(target, seen) or (seen.cordoned and seen.has_slot and not seen.holders)
            self.seen = replace(seen, labels={**seen.labels, **target.labels}, as_declared=False)
        elif step in {Step.WAIT, Step.DONE}:
            said = {MIG_STATE_LABEL: "success"} if MIG_CONFIG_LABEL in target.labels else {}
            self.seen = replace(seen, labels={**seen.labels, **said}, as_declared=True, offers=target.advertises)
        return step

    def give_back(self) -> None:
        """As LivingNode.give_back."""
        self.seen = replace(self.seen, cordoned=self.seen.cordoned and not uncordons(self.seen.mark), mark=None)

    def stop(self) -> None:
        """As where pods did not go in time."""
        mark = self.seen.mark
        if mark and not mark.stopped and self.seen.holders:
            cordoned = self.seen.cordoned and not uncordons(mark)
            self.seen = replace(self.seen, mark=stopped(mark, self.seen.holders, "they stay"), cordoned=cordoned)


TARGETS = st.sampled_from([*CUT.values(), *SLICED.values(), WHOLE])


@given(
    began=st.sampled_from([None, CUT["1g"], SLICED[4], WHOLE]),
    by_user=st.booleans(),
    holders=st.integers(0, 3),
    course=st.lists(st.tuples(TARGETS, st.integers(0, 6), st.booleans()), min_size=1, max_size=6),
)
def test_killed_anywhere_it_ends_as_the_last_declaration_says_and_leaves_nothing(
    began: Target | None, *, by_user: bool, holders: int, course: list[tuple[Target, int, bool]]
) -> None:
    pods = tuple(holder(str(number), **{GPU: 1}) for number in range(holders)) if began else ()
    seen = replace(EMPTY, labels=began.labels if began else {}, cordoned=by_user, holders=pods, as_declared=began is not None)
    node = Node(seen)
    for target, steps, stops in course:
        for _ in range(steps):
            node.do(target)
        if stops:
            node.stop()
    last = course[-1][0]
    # The pods for which a change was stopped have gone by themselves.
    node.seen = replace(node.seen, holders=())
    for _ in range(10):
        if node.do(last) is Step.DONE:
            break
    node.give_back()
    assert node.log[-1] is Step.DONE
    assert all(node.seen.labels[key] == value for key, value in last.labels.items())
    assert node.seen.mark is None
    assert node.seen.cordoned == by_user


# --- between the device plugin and resource claims ---------------------------------------------------------------

_SWITCH, _DRIVER = "nvidia.com/gpu.deploy.device-plugin", "gpu-pools/dra-driver"
#: The same replicas by claims; the plugin's config is that of whole GPUs there.
CLAIMED = {n: Target({CONFIG_LABEL: "exclusive-x", _DRIVER: f"shares-{n}", _SWITCH: "false"}, {}) for n in (2, 4)}
BACK = Target({CONFIG_LABEL: "time-slicing-4-x", _DRIVER: "none", _SWITCH: "true"}, {GPU: 4})


def test_a_node_moves_to_claims_only_when_it_is_empty() -> None:
    for before, after in ((SLICED[4], CLAIMED[4]), (CLAIMED[4], CLAIMED[2]), (CLAIMED[4], BACK)):
        used = on(before, holders=(holder(),), offers={GPU: 4})
        assert not harmless(after, used)
        assert next_step(after, used) is Step.TAKE_SLOT
        begun = replace(used, has_slot=True, mark=marked(after, used, "now"), cordoned=True)
        assert next_step(after, begun) is Step.EMPTY
        assert next_step(after, replace(begun, holders=())) is Step.SET


def test_claims_wait_until_the_device_plugin_offers_nothing() -> None:
    mark = marked(CLAIMED[4], EMPTY, "now")
    moved = on(CLAIMED[4], mark=mark, has_slot=True, cordoned=True)
    assert next_step(CLAIMED[4], replace(moved, offers={GPU: 4})) is Step.WAIT
    assert next_step(CLAIMED[4], replace(moved, offers={GPU: 0})) is Step.DONE
    # And back: until the plugin offers what is declared.
    back = on(BACK, mark=marked(BACK, EMPTY, "now"), has_slot=True, cordoned=True)
    assert next_step(BACK, replace(back, offers={GPU: 0})) is Step.WAIT
    assert next_step(BACK, replace(back, offers={GPU: 4})) is Step.DONE


def test_who_only_says_what_is_so_already_drains_nobody() -> None:
    """`allocation: devicePlugin` in a stack that never had claims: the node gets the labels of it, and keeps its pods."""
    for before in (SLICED[4], CUT["1g"], WHOLE):
        after = Target({**before.labels, _DRIVER: "none", _SWITCH: "true"}, before.advertises)
        assert next_step(after, on(before, holders=(holder(),))) is Step.SET
