"""What a hook's Job has said reaches the deploy's output, where that Job is the cause and nowhere else; over HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from components import _gives_back
from components._gives_back import tells_what_stays
from tests.components.test_owners import kubeconfig
from tests.unit.stacks import aks, existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Recorder

    Run = Callable[..., Recorder]

FAILED = "1 error occurred:\n\t* job gpu-pools-leave failed: PodFailurePolicy"


def pod(at: str, message: str | None) -> dict[str, Any]:
    state = {"running": {}} if message is None else {"terminated": {"exitCode": 3, "message": message}}
    return {"metadata": {"creationTimestamp": at}, "status": {"containerStatuses": [{"state": state}]}}


class _Handler(BaseHTTPRequestHandler):
    pods: tuple[dict[str, Any], ...] | int = ()
    asked = ""

    def do_GET(self) -> None:
        type(self).asked = self.path
        self.send_response(self.pods if isinstance(self.pods, int) else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"items": [] if isinstance(self.pods, int) else self.pods}).encode())

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(_Handler, "asked", "")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def told(run: Run, monkeypatch: pytest.MonkeyPatch, port: int, error: str) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(_gives_back._log, "error", heard.append)
    made: list[Any] = []
    settings = plan_of(existing()).settings
    given = kubeconfig(port)
    run(lambda: made.append(tells_what_stays("n", settings, (pulumi.Output.secret(given), None), None)))
    (hook,) = made[0].on_error
    failed: Any = type("Failed", (), {"errors": [error]})()
    again = asyncio.get_event_loop().run_until_complete(hook.callback(failed))
    assert again is False, "it is never tried again"
    return heard


def test_the_newest_pod_that_ended_is_heard(run: Run, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    pods = (
        pod("2026-01-01T00:00:01Z", "old"),
        pod("2026-01-01T00:00:02Z", "n: default/x (a bare pod)\n"),
        pod("2026-01-02", None),
    )
    monkeypatch.setattr(_Handler, "pods", pods)
    (text,) = told(run, monkeypatch, port, FAILED)
    assert text.startswith(
        "nodes are not given back: n: default/x (a bare pod) (all of it: kubectl logs --namespace gpu-operator "
    )
    assert "/namespaces/gpu-operator/pods?labelSelector=app.kubernetes.io/name%3Dgpu-pools-leave" in _Handler.asked


@pytest.mark.parametrize(
    ("pods", "said"), [((), "its pods say nothing"), (403, "the cluster cannot be asked why: ForbiddenException")]
)
def test_what_cannot_be_read_is_said(run: Run, monkeypatch: pytest.MonkeyPatch, port: int, pods: Any, said: str) -> None:
    monkeypatch.setattr(_Handler, "pods", pods)
    assert f"nodes are not given back: {said} (" in told(run, monkeypatch, port, FAILED)[0]


def test_another_failure_asks_nobody(run: Run, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    assert told(run, monkeypatch, port, "timed out waiting for the condition") == []
    assert _Handler.asked == ""


def test_a_cluster_that_goes_with_the_stack_has_no_such_hook(run: Run) -> None:
    found: list[Any] = []
    run(lambda: found.append(tells_what_stays("n", plan_of(aks()).settings, ("k", None), None)))
    adopted = plan_of(existing(operator={"install": False})).settings
    run(lambda: found.append(tells_what_stays("n", adopted, ("k", None), None)))
    assert found == [None, None]
