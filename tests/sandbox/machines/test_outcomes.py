from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.machines import kubelet, objects
from sandbox.machines.outcomes import Creating, Finished, InitCrash, InitWaiting, Outcome, Up, pod_address, pod_status

FROM_LOG = "FallbackToLogsOnError"
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def status(
    outcome: Outcome, old: dict[str, Any] | None = None, *, restarts: int = 0, backoff: float = 10, policy: str = FROM_LOG
) -> dict[str, Any]:
    pod = {
        "metadata": {"name": "pod", "uid": "u"},
        "spec": {
            "nodeName": "node",
            "initContainers": [{"name": name, "terminationMessagePolicy": policy} for name in ("i1", "i2")],
            "containers": [{"name": name, "terminationMessagePolicy": policy} for name in ("c1", "c2")],
        },
        "status": old or {"phase": "Pending", "conditions": [SCHEDULED]},
    }
    names = ("i1", "i2", "c1", "c2")
    return pod_status(pod, outcome, dict.fromkeys(names, restarts), dict.fromkeys(names, backoff))


def states(found: dict[str, Any], key: str = "containerStatuses") -> list[str]:
    return [next(iter(item["state"])) for item in found[key]]


def conditions(found: dict[str, Any]) -> dict[str, str]:
    return {item["type"]: item["status"] for item in found["conditions"]}


def test_a_pod_that_runs_is_ready() -> None:
    found = status(Up())
    assert found["phase"] == "Running"
    assert states(found) == ["running", "running"]
    assert states(found, "initContainerStatuses") == ["terminated", "terminated"]
    assert conditions(found) == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    assert found["podIP"].startswith("10.")


def test_a_status_that_still_holds_is_not_written_again() -> None:
    first = status(Up())
    assert status(Up(), old=first) == first


def test_one_crashing_container_of_two() -> None:
    found = status(Up({"c2": "it broke"}), restarts=3)
    broken = found["containerStatuses"][1]
    assert found["phase"] == "Running"
    assert broken["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert broken["lastState"]["terminated"]["message"] == "it broke"
    assert broken["restartCount"] == 3
    assert [item["ready"] for item in found["containerStatuses"]] == [True, False]
    assert conditions(found)["Ready"] == "False"


def test_a_container_that_runs_and_is_not_ready() -> None:
    found = status(Up(unready=frozenset({"c1"})))
    assert found["phase"] == "Running"
    assert states(found) == ["running", "running"]
    assert [item["ready"] for item in found["containerStatuses"]] == [False, True]
    assert conditions(found)["Ready"] == "False"
    assert conditions(found)["Initialized"] == "True"


def test_exit_codes_are_those_of_the_programs() -> None:
    found = status(Up({"c1": "no", "c2": "killed"}, {"c2": 137}))
    assert [item["lastState"]["terminated"]["exitCode"] for item in found["containerStatuses"]] == [1, 137]
    found = status(InitCrash("i1", "cannot tell", 2))
    assert found["initContainerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 2


def test_what_an_init_container_said_is_kept_while_it_tries_again() -> None:
    first = status(InitCrash("i1", "it differs"), restarts=1)
    again = status(InitWaiting("i1"), old=first, restarts=1)["initContainerStatuses"][0]
    assert list(again["state"]) == ["running"]
    assert (again["lastState"]["terminated"]["message"], again["restartCount"]) == ("it differs", 1)


@pytest.mark.parametrize("outcome", [Up({"c2": "it broke"}), InitCrash("i2", "it broke"), Finished("Error", "it broke", 1)])
def test_the_log_of_a_container_is_in_its_status_only_where_its_policy_says_so(outcome: Outcome) -> None:
    ended = [last_end(status(outcome, policy=policy)) for policy in ("File", FROM_LOG)]
    assert ["message" in one for one in ended] == [False, True]
    assert {one["exitCode"] for one in ended} == {1}


@pytest.mark.parametrize(
    "outcome",
    [
        Up({"c2": "a line of the log"}, left={"c2": "it broke"}),
        InitCrash("i2", "a line of the log", left="it broke"),
        Finished("Error", "a line of the log", 1, left="it broke"),
    ],
)
@pytest.mark.parametrize("policy", ["File", FROM_LOG])
def test_what_a_container_leaves_for_it_is_in_its_status(outcome: Outcome, policy: str) -> None:
    assert last_end(status(outcome, policy=policy))["message"] == "it broke"


def last_end(found: dict[str, Any]) -> dict[str, Any]:
    """How the last container that has ended with an error has ended."""
    items = [*found["initContainerStatuses"], *found["containerStatuses"]]
    ends = [item["state"].get("terminated") or (item.get("lastState") or {}).get("terminated") for item in items]
    last: dict[str, Any] = [end for end in ends if end and end["exitCode"]][-1]
    return last


def test_pods_that_really_listen_have_an_address_to_listen_on() -> None:
    pod = {"metadata": {"name": "v", "uid": "u", "labels": {"app.kubernetes.io/name": "gpu-pools-verifier"}}, "spec": {}}
    assert pod_address(pod).startswith("127.")
    assert pod_address({**pod, "metadata": {"name": "v", "uid": "u"}}).startswith("10.")


def test_init_containers_that_wait_or_crash() -> None:
    waiting = status(InitWaiting("i2"))
    assert waiting["phase"] == "Pending"
    assert states(waiting, "initContainerStatuses") == ["terminated", "running"]
    assert states(waiting) == ["waiting", "waiting"]
    crashing = status(InitCrash("i1", "no such key"), restarts=1)
    assert crashing["initContainerStatuses"][0]["lastState"]["terminated"]["message"] == "no such key"
    assert states(crashing, "initContainerStatuses") == ["waiting", "waiting"]
    assert conditions(crashing)["Initialized"] == "False"


def test_what_cannot_be_created() -> None:
    found = status(Creating("CreateContainerConfigError", "Failed", "no such map"))
    assert found["containerStatuses"][0]["state"]["waiting"] == {"reason": "CreateContainerConfigError", "message": "no such map"}
    assert "podIP" not in found


def test_the_end_of_a_pod() -> None:
    assert status(Finished())["phase"] == "Succeeded"
    rejected = status(Finished("UnexpectedAdmissionError", "too many"))
    assert (rejected["phase"], rejected["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "containerStatuses" not in rejected
    failed = status(Finished("Error", "no", 3))
    assert (failed["phase"], failed.get("reason")) == ("Failed", None)
    assert [one["state"]["terminated"]["exitCode"] for one in failed["containerStatuses"]] == [3, 3]


def test_a_container_that_is_started_again_at_once_shows_why_it_had_ended() -> None:
    ended = status(Up({"c2": "it broke"}), backoff=0)
    assert ended["containerStatuses"][1]["state"]["terminated"]["message"] == "it broke"
    running = status(Up(), old=ended, restarts=1)["containerStatuses"][1]
    assert running["lastState"]["terminated"]["message"] == "it broke"
    assert (running["restartCount"], running["ready"]) == (1, True)


def test_an_init_container_that_ended_well_after_all_shows_that() -> None:
    failed = status(InitCrash("i2", "not yet"), backoff=0)
    assert failed["initContainerStatuses"][1]["state"]["terminated"]["exitCode"] == 1
    done = status(Up(), old=failed, restarts=1)["initContainerStatuses"][1]
    assert done["state"]["terminated"]["exitCode"] == 0


def test_a_container_that_ends_again_has_ended_now_and_what_was_told_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "timestamp", lambda: "then")
    first = status(Up({"c2": "it broke"}))
    monkeypatch.setattr(objects, "timestamp", lambda: "now")
    assert status(Up({"c2": "it broke"}), old=first) == first
    again = status(Up({"c2": "it broke"}), old=first, restarts=1)["containerStatuses"][1]
    assert again["lastState"]["terminated"]["finishedAt"] == "now"


@pytest.mark.parametrize(
    ("amount", "rejected"), [("1", False), ("2", True), ("1k", True), ("2e0", True), (2, True), ("0", False)]
)
def test_more_than_one_share_of_a_request_is_rejected_in_any_notation(amount: str | int, rejected: bool) -> None:  # noqa: FBT001
    pod = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": amount}}}]}}
    context = SimpleNamespace(pod=pod, machine=SimpleNamespace(one_per_request={"nvidia.com/gpu"}))
    assert (kubelet._rejected(context) is not None) is rejected
