"""Whole pools change: killed at each request, with nodes that fail, pods that stay, and declarations that change meanwhile.

The changers are the real ones, on a pool in memory (tests/verifier/pool_world.py).
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.change import Change
from gpu_pools.verifier.changer.commands import Release
from gpu_pools.verifier.changer.living_node import LivingNode
from gpu_pools.verifier.changer.rollout_slots import RolloutSlots
from gpu_pools.verifier.changer.rollout_steps import Target
from gpu_pools.verifier.names import CONFIG_LABEL, MIG_CONFIG_LABEL
from tests.tiers import these
from tests.verifier.deploys import POOL_LABEL, Deploys
from tests.verifier.pool_world import (
    GPU,
    MANNER,
    NFD_LABELS,
    OPERATORS,
    POOL,
    VERIFIERS,
    Asks,
    Changer,
    KilledError,
    Pod,
    World,
    bound,
    left_over,
    stale,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SEVENTHS: Final = Target({CONFIG_LABEL: "mig-1", MIG_CONFIG_LABEL: "layout-1"}, {"nvidia.com/mig-1g.10gb": 7})
HALVES: Final = Target({CONFIG_LABEL: "mig-2", MIG_CONFIG_LABEL: "layout-3"}, {"nvidia.com/mig-3g.40gb": 2})
WHOLE: Final = Target({CONFIG_LABEL: "exclusive-x", MIG_CONFIG_LABEL: "all-disabled"}, {GPU: 1})
SLICED: Final = {number: Target({CONFIG_LABEL: f"time-slicing-{number}-x"}, {GPU: number}) for number in (2, 4, 8)}
#: Of GPUs with MIG and of others: a pool has one kind, and on the first kind each target says what MIG is to be.
CUT_OR_NOT: Final = tuple(
    replace(one, labels={MIG_CONFIG_LABEL: "all-disabled", **one.labels}) for one in (SEVENTHS, HALVES, WHOLE, *SLICED.values())
)
NEVER_CUT: Final = (Target({CONFIG_LABEL: "exclusive-x"}, {GPU: 1}), *SLICED.values())
CLIENTS: Final = Target({CONFIG_LABEL: "mps-4-x"}, {GPU: 4})
MORE_CLIENTS: Final = Target({CONFIG_LABEL: "mps-10-x"}, {GPU: 10})
SEQUENCES: Final = 1_000


def start(*, nodes: int, replicas: int, least: int, target: Target) -> World:
    """A pool that is as declared, with its Deployment."""
    world = World(tuple("abcdefghij"[:nodes]), least=least)
    finish(world, changers(world, target, "1"))
    world.replicas = replicas
    for _ in range(3):
        world.wait(5)
    assert len(world.pods) == replicas
    world.most_away, world.fewest, world.requests = 0, None, 0
    return world


def changers(world: World, target: Target, most: str) -> list[Changer]:
    return [Changer(world, name, target, most) for name in world.nodes]


def rounds(world: World, changing: list[Changer], count: int) -> None:
    """Let all of them go on, one after the other; who is killed begins anew."""
    for _ in range(count):
        for one in changing:
            try:
                one.step()
            except KilledError:
                one.killed()
        world.wait(5)


def finish(world: World, changing: list[Changer]) -> None:
    for _ in range(800):
        if all(one.done for one in changing):
            return
        rounds(world, changing, 1)
    pytest.fail(f"it does not end: {[(one.name, one.why) for one in changing if not one.done]}, {left_over(world)}")


def is_as_declared(world: World, target: Target) -> bool:
    return all(
        node["metadata"]["labels"][key] == value for node in world.nodes.values() for key, value in target.labels.items()
    ) and all(world.offers(name) for name in world.nodes)


def test_ten_nodes_change_within_the_budget_and_nobody_loses_a_share() -> None:
    world = start(nodes=10, replicas=15, least=12, target=SEVENTHS)
    finish(world, changers(world, HALVES, "25%"))
    assert is_as_declared(world, HALVES)
    assert left_over(world) == []
    assert world.harmed == []
    assert world.fewest is not None
    assert world.fewest >= 12
    assert 2 <= world.most_away <= 3, "a quarter of ten, rounded up"


def test_a_failed_node_stops_the_rest_and_the_old_declaration_takes_the_changed_ones_back() -> None:
    world = start(nodes=4, replicas=5, least=4, target=SEVENTHS)
    world.broken["b"] = "failed"
    changing = changers(world, HALVES, "1")
    rounds(world, changing, 60)
    done = {one.name for one in changing if one.done}
    assert "b" not in done
    assert "also after it was started anew" in changing[1].why
    assert {world.nodes[name]["metadata"]["labels"][MIG_CONFIG_LABEL] for name in "cd"} == {"layout-1"}
    assert world.offers("c"), "it works on as before"
    world.broken.clear()
    finish(world, changers(world, SEVENTHS, "1"))
    assert is_as_declared(world, SEVENTHS)
    assert left_over(world) == []


def _killed_at(point: int, *, after: bool, again: bool) -> tuple[World, int]:
    """A change of three nodes in which the changer that asks at that request is killed, before the request or after it."""
    world = start(nodes=3, replicas=4, least=3, target=SEVENTHS)
    world.pod("a", replica=False, grace=8.0)
    killed: list[str] = []

    def kill(name: str) -> None:
        if world.requests == point + after and (again or not killed):
            killed.append(name)
            raise KilledError(name)

    changing = changers(world, HALVES, "1")
    world.before, world.after = (lambda _: None, kill) if after else (kill, lambda _: None)
    rounds(world, changing, 40)
    world.before = world.after = lambda _: None
    # The next run: other pods, other processes.
    finish(world, changers(world, HALVES, "1"))
    assert is_as_declared(world, HALVES)
    assert left_over(world) == []
    assert world.harmed == []
    assert world.most_away <= 1
    assert world.fewest is not None
    assert world.fewest >= 3
    return world, len(killed)


def _requests(began: Target = SEVENTHS, target: Target = HALVES) -> int:
    world = start(nodes=3, replicas=4, least=3, target=began)
    world.pod("a", replica=False, grace=8.0)
    finish(world, changers(world, target, "1"))
    return world.requests


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_request_the_next_run_ends_as_declared_and_nothing_is_left(after: bool) -> None:  # noqa: FBT001
    points = range(_requests())
    assert len(points) >= 40
    assert sum(_killed_at(point, after=after, again=False)[1] for point in points) == len(points)


def _mps_change(point: int = -1, *, restarts: bool = True) -> World:
    """Three nodes get more MPS clients; the changer that asks at that request is killed after it."""
    world = start(nodes=3, replicas=4, least=3, target=CLIENTS)
    assert set(world.splits.values()) == {"mps-4-x"}
    killed: list[str] = []

    def kill(name: str) -> None:
        if world.requests == point + 1 and not killed:
            killed.append(name)
            raise KilledError(name)

    world.after = kill
    finish(world, [replace(one, manner=replace(MANNER, restarts_mps=restarts)) for one in changers(world, MORE_CLIENTS, "1")])
    assert is_as_declared(world, MORE_CLIENTS)
    assert left_over(world) == []
    assert world.harmed == []
    return world


def test_a_daemon_that_learns_of_no_change_is_restarted_in_the_node_s_turn_wherever_the_changer_is_killed() -> None:
    points = range(_mps_change().requests)
    for point in points:
        assert set(_mps_change(point).splits.values()) == {"mps-10-x"}, point


def test_without_that_it_would_keep_its_old_split() -> None:
    """What the rollout did before, and what the world does without it: the test above can fail."""
    assert set(_mps_change(restarts=False).splits.values()) == {"mps-4-x"}


@pytest.mark.parametrize("point", [5, 15, 25, 35])
def test_killed_at_the_same_request_again_and_again_nothing_is_lost_either(point: int) -> None:
    assert _killed_at(point, after=False, again=True)[1] >= 1


@pytest.mark.parametrize(
    ("began", "target"),
    [(SEVENTHS, HALVES), (NEVER_CUT[0], SLICED[4]), (SLICED[4], NEVER_CUT[0]), (SLICED[4], CLIENTS)],
    ids=["layouts", "sliced", "whole", "by-mps"],
)
def test_a_pod_that_comes_at_any_request_in_spite_of_the_cordon_keeps_no_share_of_what_was_before(
    began: Target, target: Target
) -> None:
    came: list[Pod] = []
    for point in range(_requests(began, target)):
        world = start(nodes=3, replicas=4, least=3, target=began)

        def come(_: str, world: World = world, point: int = point) -> None:
            away = [name for name, node in world.nodes.items() if node["spec"].get("unschedulable")]
            if world.requests == point and away and (pod := world.bind(away[0])):
                came.append(pod)

        world.before = come
        finish(world, changers(world, target, "1"))
        assert is_as_declared(world, target)
        assert stale(world) == []
        assert left_over(world) == []
        assert world.harmed == []
    assert len(came) >= 10


@pytest.mark.parametrize("staying", ["wait", "stop", "delete"])
def test_a_pod_that_came_late_and_does_not_go_is_treated_as_the_pool_wants(staying: str) -> None:
    world = start(nodes=2, replicas=0, least=0, target=SEVENTHS)
    changing = [replace(one, manner=replace(MANNER, staying=staying)) for one in changers(world, HALVES, "1")]
    came: list[Pod] = []

    def come(_: str) -> None:
        if not came and world.nodes["a"]["metadata"]["labels"][MIG_CONFIG_LABEL] == "layout-3" and (pod := world.bind("a")):
            pod.stays = True
            came.append(pod)

    world.before = come
    rounds(world, changing, 40)
    (pod,) = came
    if staying == "delete":
        finish(world, changing)
    else:
        assert pod.uid in world.pods
        assert world.nodes["a"]["spec"]["unschedulable"], "its labels are set: it is not given back as it was"
        assert not any(one.done for one in changing)
        assert ("these pods did not go in 60 s" in changing[0].why) == (staying == "stop")
        pod.stays = False
        finish(world, changing)
    assert is_as_declared(world, HALVES)
    assert stale(world) == left_over(world) == []


ANSWERS: Final = {
    "conflict": ApiError("PATCH x", 409, "the object has been modified"),
    "too-many": ApiError("GET x", 429, "too many requests"),
    "broken": ApiError("GET x", 500, "etcdserver: request timed out"),
    "no-answer": ApiError("GET x", None, "connection refused"),
}


def _answered(point: int, error: ApiError, *, done: bool, seconds: float) -> None:
    """One request, or all of them for so long, end with an error; where it was `done` only the answer is lost."""
    world = start(nodes=3, replicas=4, least=3, target=SEVENTHS)
    until: list[float] = []

    def answer(_: str) -> None:
        if world.requests == point + done and not until:
            until.append(world.now + seconds)
            raise error
        if until and world.now < until[0]:
            raise error

    changing = changers(world, HALVES, "1")
    world.before, world.after = (lambda _: None, answer) if done else (answer, lambda _: None)
    finish(world, changing)
    assert until
    assert is_as_declared(world, HALVES)
    assert left_over(world) == []
    assert world.harmed == []
    assert world.most_away <= 1


@pytest.mark.parametrize(
    ("answer", "done"),
    these(
        [("conflict", False), ("no-answer", True), ("too-many", False), ("broken", False), ("broken", True)],
        fast=[("conflict", False), ("no-answer", True)],
    ),
)
def test_whatever_a_request_is_answered_the_same_processes_come_to_the_end(answer: str, *, done: bool) -> None:
    for point in range(_undisturbed()):
        _answered(point, ANSWERS[answer], done=done, seconds=0)


def test_an_api_server_that_is_away_for_a_minute_costs_that_minute() -> None:
    for point in range(0, _undisturbed(), 3):
        _answered(point, ANSWERS["no-answer"], done=False, seconds=60)


def _undisturbed() -> int:
    world = start(nodes=3, replicas=4, least=3, target=SEVENTHS)
    finish(world, changers(world, HALVES, "1"))
    return world.requests


def _taken_by(world: World, name: str) -> None:
    world.leases["change-p-0"] = {"metadata": {"name": "change-p-0", "resourceVersion": "x"}, "spec": {"holderIdentity": name}}


def test_who_waits_for_a_turn_asks_for_leases_alone_ever_more_rarely_and_sees_when_one_is_free() -> None:
    world = start(nodes=2, replicas=0, least=0, target=SEVENTHS)
    first, second = changers(world, HALVES, "1")
    _taken_by(world, "b")
    asked: list[tuple[float, int]] = []
    for _ in range(1200):
        before = world.requests
        first.step()
        if world.requests > before:
            asked.append((world.now, world.requests - before))
        world.wait(0.25)
    pauses = [later - earlier for (earlier, _), (later, _) in pairwise(asked)]
    assert pauses[0] == 2
    assert max(pauses) == pauses[-1] == pytest.approx(15, abs=1), "a twentieth of five minutes"
    assert sum(count > 1 for _, count in asked) == 3, "all is looked at anew every two minutes"
    _taken_by(world, "")
    finish(world, [first])
    finish(world, [second])


def test_nodes_that_wait_do_not_ask_in_step() -> None:
    world = start(nodes=1, replicas=0, least=0, target=SEVENTHS)
    _taken_by(world, "b")
    world.add("b")
    for chance, pause in ((0.0, 1.5), (1.0, 2.5)):
        one = Changer(world, "a", HALVES, "1", chance=lambda chance=chance: chance)
        one.step()
        assert one._wakes - world.now == pause


def test_a_change_without_mig_ends_although_the_plugin_does_not_follow_and_the_proof_tells() -> None:
    world = start(nodes=1, replicas=0, least=0, target=SLICED[4])
    (one,) = changers(world, NEVER_CUT[0], "1")
    del world.advertised["exclusive-x", ""]
    began = world.now
    while isinstance(one._doing, Change) or one._doing is None:
        rounds(world, [one], 1)
        assert world.now - began < 60
    assert world.now - began >= 30
    finish(world, [one])


def test_requests_that_fail_are_asked_again_ever_more_rarely() -> None:
    world = start(nodes=1, replicas=0, least=0, target=SEVENTHS)
    (one,) = changers(world, HALVES, "1")

    def answer(_: str) -> None:
        raise ANSWERS["no-answer"]

    world.before, pauses = answer, list[float]()
    for _ in range(8):
        one.step()
        pauses.append(one._wakes - world.now)
        world.wait(pauses[-1])
    assert pauses[:3] == [2, 3, 4.5]
    assert pauses[-1] == 15
    world.before = lambda _: None
    finish(world, [one])


def test_what_is_forbidden_ends_the_container_with_what_the_server_said() -> None:
    world = start(nodes=1, replicas=0, least=0, target=SEVENTHS)
    (one,) = changers(world, HALVES, "1")

    def answer(_: str) -> None:
        raise ApiError("GET x", 403, "forbidden")

    world.before = answer
    one.step()
    assert one.why == "GET x: 403: forbidden"
    world.before = lambda _: None
    finish(world, [one])


def _release(world: World) -> Release:
    api: Any = Asks(world, "a")
    node, slots = LivingNode(api, "a", OPERATORS), RolloutSlots(api, VERIFIERS, POOL, "1", "a")
    return Release(node, slots, now=lambda: world.now, sleep=world.wait)


def _proven() -> World:
    """A node that was changed and is not given back yet."""
    world = start(nodes=1, replicas=0, least=0, target=SEVENTHS)
    (one,) = changers(world, HALVES, "1")
    while not world.offers("a") or world.nodes["a"]["metadata"]["labels"][MIG_CONFIG_LABEL] != "layout-3":
        rounds(world, [one], 1)
    assert left_over(world) == ["a is cordoned", "a is marked", "change-p-0 is held"]
    return world


def test_what_may_not_be_given_back_is_told_at_once_and_an_api_server_that_is_away_after_minutes() -> None:
    for error, seconds in ((ApiError("PATCH x", 403, "forbidden"), 0.0), (ANSWERS["no-answer"], 180.0)):
        world = _proven()

        def answer(_: str, error: ApiError = error) -> None:
            raise error

        began, world.before = world.now, answer
        with pytest.raises(ApiError):
            _release(world).run()
        assert world.now - began == pytest.approx(seconds, abs=2)
        world.before = lambda _: None
        _release(world).run()
        assert left_over(world) == []


def test_it_does_not_end_before_the_turn_is_free_although_others_write_to_it() -> None:
    world = _proven()
    lease, wrote = world.leases["change-p-0"], list[int]()

    def write(_: str) -> None:
        if len(wrote) < 4:
            wrote.append(1)
            lease["metadata"]["resourceVersion"] = f"another {len(wrote)}"

    world.before = write
    _release(world).run()
    assert len(wrote) == 4
    assert left_over(world) == []


@pytest.mark.parametrize(("staying", "ends"), [("wait", False), ("stop", False), ("delete", True)])
def test_what_becomes_of_a_pod_that_does_not_go(staying: str, *, ends: bool) -> None:
    world = start(nodes=2, replicas=2, least=0, target=SEVENTHS)
    pod = world.pod("a", stays=True, replica=False, grace=30.0)
    changing = [replace(one, manner=replace(MANNER, staying=staying)) for one in changers(world, HALVES, "1")]
    rounds(world, changing, 30)
    assert (pod.uid not in world.pods) == ends, "with its grace, and whatever its budget says"
    assert world.harmed == []
    if ends:
        finish(world, changing)
    else:
        cordoned = {name for name, node in world.nodes.items() if node["spec"].get("unschedulable")}
        assert cordoned == ({"a"} if staying == "wait" else set())
        assert not any(one.done for one in changing), "the others wait"
        pod.stays = False
        finish(world, changing)
    assert is_as_declared(world, HALVES)
    assert left_over(world) == []


@pytest.mark.parametrize(("staying", "stays", "least"), [("stop", False, 50.0), ("delete", True, 60.0 + 50.0)])
def test_soon_after_the_last_pod_has_gone_the_change_goes_on(staying: str, least: float, *, stays: bool) -> None:
    """One that needs 50 s to end, and one that is deleted when its time is over; each node keeps others waiting meanwhile."""
    world = start(nodes=1, replicas=0, least=0, target=SEVENTHS)
    world.pod("a", stays=stays, replica=False, grace=50.0)
    (one,) = [replace(one, manner=replace(MANNER, staying=staying)) for one in changers(world, HALVES, "1")]
    begun, seen = world.now, dict[str, float]()
    while len(seen) < 2 and world.now < begun + 3 * least:
        one.step()
        world.wait(1)
        if not world.pods:
            seen.setdefault("gone", world.now - begun)
        if world.nodes["a"]["metadata"]["labels"][MIG_CONFIG_LABEL] == "layout-3":
            seen.setdefault("set", world.now - begun)
    assert least <= seen["gone"] <= least + 4
    assert seen["set"] <= seen["gone"] + 7


def test_a_node_that_joined_and_whose_mig_manager_fails_is_mended_too() -> None:
    world = World(("a",))
    world.broken["a"] = "failed"
    changing = changers(world, SEVENTHS, "1")
    rounds(world, changing, 4)
    assert not world.offers("a")
    world.broken.clear()
    finish(world, changing)
    assert is_as_declared(world, SEVENTHS)


def test_a_mig_manager_that_hangs_is_started_anew_although_each_container_gives_up_before() -> None:
    world = start(nodes=2, replicas=0, least=0, target=SEVENTHS)
    world.broken["a"] = "hangs"
    changing = changers(world, HALVES, "1")
    rounds(world, changing, 200)
    assert "the GPUs were not as declared in 120 s" in changing[0].why
    assert world.broken, "mig-manager may be waiting for its clients so long"
    finish(world, changing)
    assert is_as_declared(world, HALVES)
    assert left_over(world) == []


def test_a_node_that_is_gone_in_its_turn_and_comes_back_has_no_say_over_the_others() -> None:
    world = start(nodes=3, replicas=3, least=0, target=SEVENTHS)
    changing = changers(world, HALVES, "1")
    while not any(node["spec"].get("unschedulable") for node in world.nodes.values()):
        rounds(world, changing, 1)
    (gone,) = [name for name, node in world.nodes.items() if node["spec"].get("unschedulable")]
    world.remove(gone)
    others = [one for one in changing if one.name != gone]
    finish(world, others)
    world.add(gone)
    finish(world, [Changer(world, gone, HALVES, "1")])
    assert is_as_declared(world, HALVES)
    assert left_over(world) == []


def course(seed: int) -> None:
    """Declarations that change while others are under way, failures, kills and reverts; then the last one, undisturbed."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    most, targets = chance.choice(["1", "2", "50%"]), chance.choice([CUT_OR_NOT, NEVER_CUT])
    nodes, replicas, least = chance.randint(2, 4), chance.randint(0, 4), chance.randint(0, 2)
    world = start(nodes=nodes, replicas=replicas, least=least, target=chance.choice(targets))
    (user,) = chance.sample([*world.nodes], 1)
    cordoned = chance.random() < 0.3
    if cordoned:
        world.nodes[user]["spec"]["unschedulable"] = True
    target, changing, at_work = SEVENTHS, [], set[str]()

    def interrupt(name: str) -> None:
        """Others may act between two requests, and whoever asks may be killed."""
        at_work.add(name)
        if chance.random() < 0.02:
            raise KilledError(name)
        others = [one for one in changing if one.name not in at_work]
        if others and chance.random() < 0.1:
            step(chance.choice(others))

    def step(one: Changer) -> None:
        try:
            one.step()
        except KilledError:
            one.killed()
        finally:
            at_work.discard(one.name)

    world.before = world.after = interrupt
    for _ in range(chance.randint(1, 4)):
        target = chance.choice(targets)
        changing = [replace(one, target=target) for one in changers(world, target, most)]
        for _ in range(chance.randint(0, 12)):
            _happens(world, chance)
            for one in changing:
                step(one)
            world.wait(5)
            changing += [one for one in changers(world, target, most) if one.name not in {other.name for other in changing}]
    _heals(world)
    finish(world, changers(world, target, most))
    assert is_as_declared(world, target)
    assert world.harmed == []
    assert world.most_away <= bound(most, world)
    _check_cordons(world, user, cordoned=cordoned)


def deploy_course(seed: int, *, mixed: bool) -> None:
    """Deploys that are killed after any of their writes, with NFD; the last one goes to its end.

    Args:
        seed: of the course.
        mixed: whether deploys without `rollout` are among them: those change all nodes at once, and end pods.
    """
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    most, targets = chance.choice(["1", "2", "50%"]), chance.choice([CUT_OR_NOT, NEVER_CUT])
    world = World(tuple("abcd"[: chance.randint(2, 4)]), rule={}, volume=set())
    stack, interrupt = _deploys(world, most, chance)
    _deploy(stack, chance.choice(targets), rollout=not mixed or chance.random() < 0.5)
    world.replicas, world.most_away = chance.randint(0, 4), 0
    world.before = world.after = interrupt
    for _ in range(chance.randint(1, 4)):
        deploy = stack.begin(chance.choice(targets), rollout=not mixed or chance.random() < 0.6)
        for _ in range(chance.randint(0, 30)):
            _happens(world, chance)
            if chance.random() < 0.1:
                world.resync()
            stack.look_for_new()
            if next(deploy, True):
                break
        # It was killed; the cluster goes on by itself.
        for _ in range(chance.randint(0, 5)):
            stack.pass_time()
    _heals(world)
    last = chance.choice(targets)
    _deploy(stack, last, rollout=True)
    _check_deployed(stack, last)
    if not mixed:
        assert world.harmed == stale(world) == []
        assert world.most_away <= bound(most, world)


def _deploys(world: World, most: str, chance: random.Random) -> tuple[Deploys, Callable[[str], None]]:
    """A stack, and what interrupts its changers: they are killed, get errors for answers, or others act in between."""
    at_work = set[str]()

    def step(one: Changer) -> None:
        at_work.add(one.name)
        try:
            one.step()
        except KilledError:
            one.killed(pod=chance.random() < 0.5)
        finally:
            at_work.discard(one.name)

    def interrupt(name: str) -> None:
        if chance.random() < 0.01:
            raise KilledError(name)
        if chance.random() < 0.02:
            raise chance.choice([*ANSWERS.values()])
        if chance.random() < 0.05:
            stack.interrupt(lambda there: chance.choice([one for one in there if one.name not in at_work] or [None]))

    stack = Deploys(world, most, step)
    return stack, interrupt


def _check_deployed(stack: Deploys, last: Target) -> None:
    world = stack.world
    assert is_as_declared(world, last)
    assert left_over(world) == []
    assert stack.keys == {last.labels[CONFIG_LABEL]}
    assert world.missed == []
    for node in world.nodes.values():
        assert node["metadata"]["annotations"] == {NFD_LABELS: POOL_LABEL}, "NFD has let go of the two labels"


def _deploy(stack: Deploys, target: Target, *, rollout: bool) -> None:
    """To its end."""
    for count, done in enumerate(stack.begin(target, rollout=rollout)):
        if done:
            return
        if count > 800:
            pytest.fail(f"it does not end: {left_over(stack.world)}")


def _heals(world: World) -> None:
    """Nobody is killed any more, mig-manager works, and every pod may be evicted."""
    world.before = world.after = lambda _: None
    world.broken.clear()
    world.least = 0
    for pod in world.pods.values():
        pod.stays = False


def _check_cordons(world: World, user: str, *, cordoned: bool) -> None:
    """Nothing is left, but what a user has cordoned, unless that node was replaced."""
    kept = cordoned and world.nodes[user]["spec"].get("unschedulable")
    assert left_over(world) == ([f"{user} is cordoned"] if kept else [])
    assert kept or not cordoned or world.nodes[user].get("anew")


def _happens(world: World, chance: random.Random) -> None:
    """What goes on around a change."""
    name = chance.choice([*world.nodes])
    what = chance.random()
    if what < 0.1:
        world.broken[name] = chance.choice(["failed", "pending", "paused"])
    elif what < 0.2:
        world.broken.clear()
    elif what < 0.25 and len(world.nodes) > 1:
        world.remove(name)
        world.add(name)
        world.nodes[name] |= {"anew": True, "new": True}
    elif what < 0.3 and world.offers(name) and not world.nodes[name]["spec"].get("unschedulable"):
        world.pod(name, stays=True, replica=False)
    elif what < 0.35:
        for pod in world.pods.values():
            pod.stays = False


@pytest.mark.parametrize("first", these(range(0, SEQUENCES, 100), fast=[0, 100, 200]))
def test_sequences_of_changes_failures_and_reverts_end_as_the_last_declaration_says(first: int) -> None:
    for seed in range(first, first + 100):
        try:
            course(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("mixed", [False, True], ids=["by-turns", "with-deploys-of-all-at-once"])
@pytest.mark.parametrize("first", these(range(0, SEQUENCES // 2, 100), fast=[0]))
def test_deploys_killed_after_any_write_end_as_the_last_one_says_with_nfd_and_its_rules(first: int, *, mixed: bool) -> None:
    for seed in range(first, first + 100):
        try:
            deploy_course(seed, mixed=mixed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
