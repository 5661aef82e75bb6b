"""What is missing or in the way on the user's machine: one clear message each, or the sandbox finds its own way."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Final

import pytest

from sandbox.system.files import read_json
from sandbox.system.processes import port_is_free
from tests.patience import output_of
from tests.tiers import at_night
from tests.unit.stacks import aks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK: Final = aks(sharing={"nb": {"timeSlicing": {"replicas": 4}}})
FAILED: Final = 1
#: Nobody listens there.
NO_PROXY_THERE: Final = "http://127.0.0.1:9"


def _check_refused(run: Run, *words: str, code: int = FAILED) -> None:
    """Ended with the code of a failure and a short message, not with a traceback."""
    assert run.code == code, run.text
    for word in words:
        assert word in run.err
    assert "Traceback" not in run.text


def test_no_such_stack(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    for command in ("up", "preview", "status", "down"):
        refused = trial.run(command, "smal")
        _check_refused(refused, "Pulumi.smal.yaml: there is no such stack; there are small.", "STACK=<name>", code=2)
    assert not trial.root.exists()


def test_not_up(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    _check_refused(trial.status(), "small is not up.", "make up STACK=small")
    _check_refused(trial.scale("gpu", 3), "small is not up.", "make up STACK=small")
    # There 1 would say that a node differs.
    _check_refused(trial.run("verify", "small"), "small is not up.", "make up STACK=small", code=2)
    assert not trial.root.exists()


def test_a_state_folder_that_cannot_be_made(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    a_file = trial.base / "a-file"
    a_file.write_text("not a folder")
    # The second is read-only for everybody, the administrator included.
    for folder in (a_file, "/proc/sandbox"):
        refused = trial.run("up", trial.stack, GPU_POOLS_SANDBOX_DIR=str(folder))
        _check_refused(refused, f"{folder}/small: cannot create it", "GPU_POOLS_SANDBOX_DIR")
    assert trial.processes() == {}
    assert a_file.read_text() == "not a folder"


def test_neither_programs_nor_go(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    _check_refused(_up_with_nothing(trial, PATH=str(trial.base)), "Go", "1.26")
    assert trial.processes() == {}


def test_neither_programs_nor_network(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    cache = {"GOMODCACHE": str(trial.base / "modules"), "GOPROXY": NO_PROXY_THERE, "GOFLAGS": "-modcacherw"}
    _check_refused(_up_with_nothing(trial, **cache), "GOPROXY")
    assert trial.processes() == {}


def _up_with_nothing(trial: Trial, **environment: str) -> Run:
    """Bring a stack up with an empty cache and nowhere to download from."""
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NO_PROXY_THERE)
    nothing = {
        "GPU_POOLS_CACHE": str(trial.base / "cache"),
        "KUBEBUILDER_ASSETS": "",
        "NO_PROXY": "",
        "no_proxy": "",
        "GPU_POOLS_PROGRAMS": "",
    }
    return trial.run("up", trial.stack, **proxies, **nothing, **environment)


def test_one_command_at_a_time(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    first = trial.start("up", trial.stack)
    try:
        trial.wait_until((trial.folder / "cloud").exists, "the first command at work")
        _check_refused(
            trial.up(), "Another command is working on the sandbox of small: `make up` (process ", "Wait for it to end"
        )
        trial.wait_until(lambda: trial.clusters, "a cluster that can be looked at")
        for look in ("status", "verify"):
            assert f"`make up` (process {first.pid}) works on small right now" in trial.run(look, "small").err
        shown = trial.run("shell", "small", "sh", "-c", "echo $GPU_POOLS_STACK")
        assert shown.out == "small\n"
        assert "right now" in shown.err
    finally:
        out, err = output_of(first, 120)
    assert first.returncode == 0, f"{out}\n{err}"


@at_night("it waits for a minute and a half")
def test_the_ports_are_taken_meanwhile(sandbox: Callable[..., Trial]) -> None:
    """After a restart of the machine somebody else may listen where the sandbox did: it moves, and keeps what it has."""
    trial = sandbox(STACK)
    trial.up().ok()
    uids = {node["metadata"]["uid"] for node in trial.nodes()}
    (folder,) = trial.clusters
    before = read_json(folder / "cluster.json")["ports"]
    trial.kill_everything()
    # What has been killed holds its ports until the last of its threads is gone.
    trial.wait_until(lambda: all(map(port_is_free, before.values())), "the end of all listening")
    with _taken(before.values()):
        again = trial.up().ok()
        after = read_json(folder / "cluster.json")["ports"]
        assert not set(before.values()) & set(after.values())
        assert "created" not in again.out
        assert trial.holds()
        assert {node["metadata"]["uid"] for node in trial.nodes()} == uids
        trial.down().ok()
    assert trial.processes() == {}


@contextlib.contextmanager
def _taken(ports: Iterable[int]) -> Iterator[None]:
    """Listen on loopback ports."""
    with contextlib.ExitStack() as stack:
        for port in ports:
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
        yield
