"""The client of the API, and what is written to the node through it, against a server that answers as an API server does."""

from __future__ import annotations

import json
import socket
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier import evidence as marking
from gpu_pools.verifier.api import Api, ApiError, in_cluster
from gpu_pools.verifier.evidence import ANNOTATION, Origin, evidence, mark
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.node import NodeReader
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.reading import Unreadable
from gpu_pools.verifier.report import termination_message
from gpu_pools.verifier.untaint import untaint
from sandbox.system.pki import make_pki
from tests.verifier import nodes

if TYPE_CHECKING:
    from tests.verifier.api_server import ApiServer

NODE = "/api/v1/nodes/gpu-1"
AT = "2026-03-04T05:06:07Z"


def refused(act: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        act()
    return caught.value


# --- requests ---------------------------------------------------------------------------------------------


def test_a_request_is_made_as_the_account_whose_token_the_file_has_now(answering: ApiServer) -> None:
    answering.say(f"GET {NODE}", {"kind": "Node"})
    assert answering.api.get(NODE) == {"kind": "Node"}
    (answering.folder / "token").write_text("renewed\n")
    answering.api.get(NODE, fieldSelector="spec.nodeName=a b", limit="1")
    first, second = answering.asked
    assert (first.method, first.path, first.query, first.body) == ("GET", NODE, {}, None)
    wanted = {"Authorization": "Bearer secret", "Accept": "application/json", "User-Agent": "gpu-pools-verifier"}
    assert {name: first.headers.get(name) for name in wanted} == wanted
    assert "Content-Type" not in first.headers
    assert (second.query, second.headers["Authorization"]) == (
        {"fieldSelector": "spec.nodeName=a b", "limit": "1"},
        "Bearer renewed",
    )


def test_changes_tell_who_makes_them_and_in_which_form(answering: ApiServer) -> None:
    answering.say(f"PATCH {NODE}", {"changed": 1}, {"changed": 2})
    operations = [{"op": "remove", "path": "/spec/taints/0"}]
    assert answering.api.patch(NODE, {"metadata": {"labels": {}}}) == {"changed": 1}
    assert answering.api.change(NODE, operations) == {"changed": 2}
    assert [(one.method, one.query, one.headers["Content-Type"], one.body) for one in answering.asked] == [
        ("PATCH", {"fieldManager": "gpu-pools-verifier"}, "application/strategic-merge-patch+json", {"metadata": {"labels": {}}}),
        ("PATCH", {"fieldManager": "gpu-pools-verifier"}, "application/json-patch+json", operations),
    ]


def test_a_proxy_of_the_environment_does_not_come_between(answering: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answering.say(f"GET {NODE}", {})
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert answering.api.get(NODE) == {}


def test_each_kind_of_request_has_its_time_limit(answering: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answering.say(f"GET {NODE}", {})
    limits: list[float] = []
    opened = urllib.request.OpenerDirector.open

    def limited(self: Any, asked: Any, timeout: float) -> Any:
        limits.append(timeout)
        return opened(self, asked, timeout=timeout)

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", limited)
    answering.api.get(NODE)
    list(answering.api.watch(NODE, 300))
    assert limits == pytest.approx([10.0, 315.0], abs=1.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"kind": "Status", "message": "nodes is forbidden"}, "nodes is forbidden"),
        ({"message": "x" * 400}, "x" * 300),
        ({"reason": "none"}, '{"reason": "none"}'),
        ([1], "[1]"),
        (b"<html>\n  some   proxy </html>", "<html> some proxy </html>"),
        (b"y" * 400, "y" * 300),
        (b"\xff", "�"),
        (b"", "Forbidden"),
    ],
)
def test_a_refusal_is_told_in_the_server_s_words(answering: ApiServer, body: Any, message: str) -> None:
    answering.say(f"GET {NODE}", (403, body))
    answering.say(f"PATCH {NODE}", (403, body))
    for act, request in (
        (lambda: answering.api.get(NODE), f"GET {NODE}"),
        (lambda: answering.api.patch(NODE, {}), f"PATCH {NODE}"),
        (lambda: answering.api.change(NODE, []), f"PATCH {NODE}"),
        (lambda: list(answering.api.watch(NODE, 1)), f"WATCH {NODE}"),
    ):
        error = refused(act)
        assert (error.request, error.status, error.message) == (request, 403, message)
        assert str(error) == f"{request}: 403: {message}"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, b"[]"), "the answer is not an object"),
        ((200, b"no JSON"), "Expecting value: line 1 column 1 (char 0)"),
        ((0, b"no HTTP\r\n\r\n"), "no HTTP"),
    ],
)
def test_an_answer_that_is_none_has_no_status(answering: ApiServer, answer: tuple[int, bytes], message: str) -> None:
    answering.say(f"GET {NODE}", answer)
    error = refused(lambda: answering.api.get(NODE))
    assert (error.request, error.status, error.message.strip()) == (f"GET {NODE}", None, message)
    assert str(error).startswith(f"GET {NODE}: no answer: {message}")


def test_a_server_that_is_away_has_not_answered(answering: ApiServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = replace(answering.api, server=f"https://127.0.0.1:{free.getsockname()[1]}")
    for act in (lambda: away.get(NODE), lambda: list(away.watch(NODE, 1))):
        error = refused(act)
        assert (error.status, error.message) == (None, "[Errno 111] Connection refused")


def test_a_server_of_another_authority_is_not_believed_and_gets_no_token(answering: ApiServer, tmp_path: Path) -> None:
    (answering.folder / "ca.crt").write_text(make_pki(tmp_path / "other", "10.96.0.1").text("ca.crt"))
    error = refused(lambda: answering.api.get(NODE))
    assert error.status is None
    assert "CERTIFICATE_VERIFY_FAILED" in error.message
    assert answering.asked == []


def test_without_a_token_nothing_is_asked(answering: ApiServer) -> None:
    (answering.folder / "token").unlink()
    assert refused(lambda: answering.api.get(NODE)).status is None
    assert answering.asked == []


def test_a_watch_gives_each_event_as_it_comes(answering: ApiServer) -> None:
    events = [{"type": "ADDED", "object": {}}, {"type": "MODIFIED", "object": {}}]
    answering.say("GET /api/v1/nodes", (200, "".join(f"{json.dumps(one)}\n" for one in events).encode()))
    assert list(answering.api.watch("/api/v1/nodes", 300, fieldSelector="metadata.name=n")) == events
    (asked,) = answering.asked
    assert asked.query == {"fieldSelector": "metadata.name=n", "watch": "true", "timeoutSeconds": "300"}


@pytest.mark.parametrize(("answer", "told"), [((200, b'{}\n{"type": "AD'), "Unterminated"), ((0, b"no HTTP\r\n\r\n"), "no HTTP")])
def test_a_watch_that_breaks_off_is_told(answering: ApiServer, answer: tuple[int, bytes], told: str) -> None:
    answering.say("GET /api/v1/nodes", answer)
    error = refused(lambda: list(answering.api.watch("/api/v1/nodes", 300)))
    assert (error.request, error.status) == ("WATCH /api/v1/nodes", None)
    assert told in error.message


HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@pytest.mark.parametrize(
    ("environment", "server"),
    [
        ({HOST: "10.0.0.1", PORT: "443"}, "https://10.0.0.1:443"),
        ({HOST: "fd00::1", PORT: "6443"}, "https://[fd00::1]:6443"),
        ({HOST: "10.0.0.1"}, None),
        ({PORT: "443"}, None),
        ({HOST: "", PORT: "443"}, None),
        ({HOST: "10.0.0.1", PORT: ""}, None),
    ],
)
def test_a_pod_knows_where_the_api_is(environment: dict[str, str], server: str | None) -> None:
    folder = Path("/run/account")
    assert in_cluster(environment, folder) == (server and Api(server, folder / "token", folder / "ca.crt"))


# --- the condition ----------------------------------------------------------------------------------------

HEALTHY = nodes.healthy(*nodes.plan_and_pool({"timeSlicing": {"replicas": 4}}))
ORIGIN = Origin("e" * 64, "f" * 64, 300.0)
PAST = "2026-01-01T00:00:00Z"
DIFFERS, UNKNOWN, HOLDS = ("False", "Differs"), ("Unknown", "CannotTell"), ("True", "AsDeclared")


def asserted(verdict: tuple[str, str] = HOLDS) -> Assertion:
    findings = Findings()
    if verdict is DIFFERS:
        findings.differs(Where("node"), "allocatable", 4, "x" * 2000, "count-other")
    if verdict is UNKNOWN:
        findings.cannot_tell(Where("node"), "answer", 4, 1, "api-unreachable")
    return Assertion(findings, Observation(Unreadable("not looked at"), None, HEALTHY.kubernetes), 2, 0.5)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(marking, "moment", lambda: AT)
    return AT


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("verdict", [HOLDS, DIFFERS, UNKNOWN])
@pytest.mark.parametrize("before", [None, "True", "False", "Unknown"])
def test_a_verdict_is_written_with_its_evidence_in_one_request(
    answering: ApiServer, verdict: tuple[str, str], before: str | None
) -> None:
    ready = {"type": "Ready", "status": before, "lastTransitionTime": "2025-01-01T00:00:00Z"}
    own = {"type": "GpuSharingVerified", "status": before, "lastTransitionTime": PAST}
    answering.say(f"GET {NODE}", {"status": {"conditions": [ready, own]}} if before else {})
    answering.say(f"PATCH {NODE}/status", {})
    assertion = asserted(verdict)
    assert mark(NodeReader(answering.api, "gpu-1"), ORIGIN, HEALTHY.expected, assertion) is None
    _, written = answering.asked
    assert written.body == {
        "metadata": {"annotations": {ANNOTATION: evidence(HEALTHY.expected, assertion, ORIGIN, node="gpu-1", at=AT)}},
        "status": {
            "conditions": [
                {
                    "type": "GpuSharingVerified",
                    "status": verdict[0],
                    "reason": verdict[1],
                    "message": termination_message(HEALTHY.expected, assertion, 1024),
                    "lastHeartbeatTime": AT,
                    "lastTransitionTime": PAST if verdict[0] == before else AT,
                }
            ]
        },
    }


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    "node",
    [
        {"status": None},
        {"status": {"conditions": None}},
        {"status": {"conditions": [{"type": "GpuSharingVerified", "status": "True"}]}},
    ],
)
def test_a_transition_that_nobody_has_dated_is_one_of_now(answering: ApiServer, node: dict[str, Any]) -> None:
    answering.say(f"GET {NODE}", node)
    answering.say(f"PATCH {NODE}/status", {})
    assert mark(NodeReader(answering.api, "gpu-1"), ORIGIN, HEALTHY.expected, asserted()) is None
    assert answering.asked[-1].body["status"]["conditions"][0]["lastTransitionTime"] == AT


def test_where_the_annotation_is_refused_the_condition_is_written_alone(answering: ApiServer) -> None:
    answering.say(f"GET {NODE}", {})
    answering.say(f"PATCH {NODE}/status", (422, {"message": "too long"}), {})
    trouble = mark(NodeReader(answering.api, "gpu-1"), ORIGIN, HEALTHY.expected, asserted())
    assert trouble == f"the annotation gpu-pools/verification cannot be written: PATCH {NODE}/status: 422: too long"
    _, whole, alone = answering.asked
    assert alone.body == {"status": whole.body["status"]}


@pytest.mark.parametrize(
    ("get", "patches", "requests", "told"),
    [
        ((403, {"message": "no"}), [{}], 1, f"GET {NODE}: 403: no"),
        ((200, {}), [(403, {"message": "no"})], 3, f"PATCH {NODE}/status: 403: no"),
        ((200, {}), [(0, b"no HTTP\r\n\r\n")], 2, f"PATCH {NODE}/status: no answer: no HTTP"),
    ],
)
def test_a_condition_that_cannot_be_written_is_told(
    answering: ApiServer, get: Any, patches: list[Any], requests: int, told: str
) -> None:
    answering.say(f"GET {NODE}", get)
    answering.say(f"PATCH {NODE}/status", *patches)
    trouble = mark(NodeReader(answering.api, "gpu-1"), ORIGIN, HEALTHY.expected, asserted())
    assert (trouble or "").strip() == f"the condition GpuSharingVerified cannot be written: {told}"
    assert len(answering.asked) == requests


# --- the startup taint ------------------------------------------------------------------------------------

KEY = "gpu-pools/unverified"
MINE, OTHER = {"key": KEY, "effect": "NoSchedule"}, {"key": "other", "value": KEY, "effect": "NoSchedule"}
TAINTED = {"spec": {"taints": [MINE, OTHER, {**MINE, "effect": "NoExecute"}]}}


def tainted(taints: tuple[str, ...] = (f"{KEY}:NoSchedule",), verdict: tuple[str, str] = HOLDS) -> Assertion:
    assertion = asserted(verdict)
    return replace(assertion, observation=replace(assertion.observation, node=replace(HEALTHY.kubernetes, taints=taints)))


@pytest.mark.parametrize("seen", [(f"{KEY}:NoSchedule",), ("a:NoExecute", f"{KEY}=value:NoSchedule")])
def test_a_node_that_is_as_declared_loses_its_startup_taints_and_no_other(answering: ApiServer, seen: tuple[str, ...]) -> None:
    answering.say(f"GET {NODE}", TAINTED)
    answering.say(f"PATCH {NODE}", {})
    assert untaint(NodeReader(answering.api, "gpu-1"), KEY, tainted(seen)) is None
    assert answering.asked[-1].body == [
        {"op": "test", "path": "/spec/taints/2", "value": {**MINE, "effect": "NoExecute"}},
        {"op": "remove", "path": "/spec/taints/2"},
        {"op": "test", "path": "/spec/taints/0", "value": MINE},
        {"op": "remove", "path": "/spec/taints/0"},
    ]


@pytest.mark.parametrize(
    "assertion",
    [
        tainted(verdict=DIFFERS),
        tainted(verdict=UNKNOWN),
        tainted(()),
        tainted(("other:NoSchedule", f"other={KEY}:NoSchedule")),
        replace(asserted(), observation=Observation(Unreadable("x"), None, None)),
    ],
)
def test_of_any_other_node_nothing_is_asked(answering: ApiServer, assertion: Assertion) -> None:
    assert untaint(NodeReader(answering.api, "gpu-1"), KEY, assertion) is None
    assert answering.asked == []


@pytest.mark.parametrize("node", [{"spec": {"taints": [OTHER]}}, {"spec": {"taints": None}}, {"spec": None}, {}])
def test_a_taint_that_somebody_else_has_removed_meanwhile_is_left_alone(answering: ApiServer, node: dict[str, Any]) -> None:
    answering.say(f"GET {NODE}", node)
    assert untaint(NodeReader(answering.api, "gpu-1"), KEY, tainted()) is None
    assert [one.method for one in answering.asked] == ["GET"]


@pytest.mark.parametrize("status", [409, 422])
def test_where_the_taints_have_changed_it_is_tried_again_five_times_in_all(answering: ApiServer, status: int) -> None:
    answering.say(f"GET {NODE}", TAINTED)
    changed = (status, {"message": "changed"})
    answering.say(f"PATCH {NODE}", *[changed] * 4, {})
    assert untaint(NodeReader(answering.api, "gpu-1"), KEY, tainted()) is None
    answering.asked.clear()
    answering.say(f"PATCH {NODE}", changed)
    told = untaint(NodeReader(answering.api, "gpu-1"), KEY, tainted())
    assert told == f"the taint {KEY} cannot be removed: PATCH {NODE}: {status}: changed"
    assert [one.method for one in answering.asked] == ["GET", "PATCH"] * 5


def test_a_refusal_is_not_asked_again(answering: ApiServer) -> None:
    answering.say(f"GET {NODE}", (403, {"message": "no"}))
    assert (
        untaint(NodeReader(answering.api, "gpu-1"), KEY, tainted()) == f"the taint {KEY} cannot be removed: GET {NODE}: 403: no"
    )
    assert len(answering.asked) == 1
