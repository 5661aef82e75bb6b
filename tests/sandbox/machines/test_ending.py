"""How long the containers of a deleted pod live, and how they end: the rules. On nodes: test_daemon.py, test_real_node.py."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.machines.ending import ENDS_AFTER, KILLED, NEVER, Ending, ending, takes_time


def pod(after: str | None, *hooks: dict[str, Any] | None) -> dict[str, Any]:
    containers = [
        {"name": str(number), **({"lifecycle": {"preStop": hook}} if hook else {})} for number, hook in enumerate(hooks)
    ]
    return {"metadata": {"annotations": {ENDS_AFTER: after} if after else {}}, "spec": {"containers": containers}}


def sleep(seconds: int) -> dict[str, Any]:
    return {"sleep": {"seconds": seconds}}


@pytest.mark.parametrize(
    ("after", "hook", "grace", "expected"),
    [
        pytest.param("3", None, 30, Ending(3, 0), id="it ends when it is told to"),
        pytest.param(NEVER, None, 5, Ending(5, KILLED), id="it is killed after its grace"),
        pytest.param("9", None, 5, Ending(5, KILLED), id="it is killed in the midst of it"),
        pytest.param(NEVER, None, 0, Ending(2, KILLED), id="two seconds are the least"),
        pytest.param("1", None, 0, Ending(1, 0), id="in which it may end"),
        pytest.param("3", sleep(4), 30, Ending(7, 0), id="its hook comes before SIGTERM"),
        pytest.param("7", sleep(4), 10, Ending(10, KILLED), id="and counts against the grace"),
        pytest.param("1", sleep(60), 5, Ending(6, 0), id="a hook is not waited for beyond the grace"),
        pytest.param(NEVER, sleep(60), 5, Ending(7, KILLED), id="and two seconds come after it"),
        pytest.param("1", {"exec": {"command": ["sh", "-c", "sleep 2"]}}, 30, Ending(3, 0), id="a hook that runs a command"),
    ],
)
def test_it_ends_as_a_kubelet_ends_it(after: str, hook: dict[str, Any] | None, grace: float, expected: Ending) -> None:
    assert ending(pod(after, hook), grace) == expected


def test_containers_end_side_by_side_and_the_last_one_counts() -> None:
    assert ending(pod("1", sleep(3), None), 30) == Ending(4, 0)
    assert ending(pod("2", sleep(3), None), 4) == Ending(5, KILLED)


def test_only_a_pod_that_says_how_it_ends_takes_time() -> None:
    assert [takes_time(pod(after, sleep(3))) for after in ("0", NEVER, None)] == [True, True, False]
