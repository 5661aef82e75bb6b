"""What `make up` leaves out where nothing has changed, and what it must not leave out."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from sandbox.cli import commands
from sandbox.cli.look import Look
from sandbox.cluster.api_errors import ApiError, UnknownKindError, UnreachableError
from sandbox.stack import missing_objects, recovery
from sandbox.stack.engine import Engine
from sandbox.stack.stand_ins import Attached
from sandbox.system.progress import Progress
from tests.sandbox.small_sandbox import prepared

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.stack.state import Sandbox

#: Long before the calm that `settle` waits for.
LONG_AGO = 60.0
PLAN: Any = SimpleNamespace(settings=SimpleNamespace(verification=SimpleNamespace(enabled=False)))


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return prepared(tmp_path, monkeypatch)


def _engine(sandbox: Sandbox, script: str) -> Engine:
    """The engine, of which a script plays the program."""
    program = sandbox.folder / "pulumi-program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    tools = SimpleNamespace(pulumi=program, kubernetes_plugin=None, openstack_plugin=None)
    return Engine(sandbox, cast("Any", tools), Attached())


class TestSettling:
    @staticmethod
    def _looks(monkeypatch: pytest.MonkeyPatch, *troubles: str) -> list[str]:
        """Have looks find these troubles, the last one again and again; returns what they have found."""
        found: list[str] = []

        def look(*_: object) -> Look:
            found.append(troubles[min(len(found), len(troubles) - 1)])
            return Look((), tuple(filter(None, found[-1:])))

        monkeypatch.setattr(commands, "look", look)
        return found

    def test_one_look_is_enough_where_nothing_has_changed_for_a_while(
        self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It once waited two seconds more, for what nobody had touched."""
        found = self._looks(monkeypatch, "")
        assert commands.settle(sandbox, PLAN, Progress(), quiet_since=time.monotonic() - LONG_AGO).holds
        assert found == [""]

    def test_what_has_just_changed_must_hold_for_a_while(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        found = self._looks(monkeypatch, "")
        began = time.monotonic()
        assert commands.settle(sandbox, PLAN, Progress()).holds
        assert time.monotonic() - began >= commands._CALM_SECONDS
        assert len(found) > 1

    def test_what_did_not_hold_at_first_must_hold_for_a_while(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        """That nobody has changed anything says nothing of what is not as declared: something is at work there."""
        found = self._looks(monkeypatch, "not ready", "")
        began = time.monotonic()
        assert commands.settle(sandbox, PLAN, Progress(), quiet_since=began - LONG_AGO).holds
        assert time.monotonic() - began >= commands._CALM_SECONDS
        assert found[:2] == ["not ready", ""]
        assert len(found) > 2

    def test_what_does_not_hold_is_red(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self._looks(monkeypatch, "not ready")
        seen = commands.settle(sandbox, PLAN, Progress(), timeout=0.3, quiet_since=time.monotonic() - LONG_AGO)
        assert not seen.holds


class TestWhatTheEngineHasDone:
    #: As the engine writes it of an update that has left everything as it was.
    RECORD: ClassVar = {"kind": "update", "startTime": 1000, "result": "succeeded", "resourceChanges": {"read": 1, "same": 62}}

    @staticmethod
    def _has_changed_nothing(sandbox: Sandbox, *records: Mapping[str, object], begun: float = 1000.7) -> bool:
        folder = sandbox.backend / ".pulumi" / "history" / "gpu-pools" / "small"
        folder.mkdir(parents=True)
        for number, record in enumerate(records):
            (folder / f"small-179580897612586496{number}.history.json").write_text(json.dumps(record))
        return _engine(sandbox, "exit 1").has_changed_nothing(begun)

    def test_everything_was_the_same(self, sandbox: Sandbox) -> None:
        assert self._has_changed_nothing(sandbox, self.RECORD)

    @pytest.mark.parametrize(
        "differs",
        [
            {"resourceChanges": {"same": 61, "update": 1}},
            {"resourceChanges": {"same": 61, "create-replacement": 1, "delete-replaced": 1}},
            {"resourceChanges": {"delete": 1}},
            {"resourceChanges": {}},
            {"result": "failed"},
            {"kind": "refresh"},
            {"startTime": 999},
        ],
        ids=str,
    )
    def test_else_something_may_have_changed(self, sandbox: Sandbox, differs: Mapping[str, object]) -> None:
        assert not self._has_changed_nothing(sandbox, self.RECORD | differs)

    def test_the_last_record_counts(self, sandbox: Sandbox) -> None:
        assert not self._has_changed_nothing(sandbox, self.RECORD, self.RECORD | {"resourceChanges": {"update": 1}})

    def test_without_a_record_something_may_have_changed(self, sandbox: Sandbox) -> None:
        assert not self._has_changed_nothing(sandbox)


class TestAWholeState:
    def test_the_engine_is_not_asked_for_it(self, sandbox: Sandbox) -> None:
        """To decrypt the secrets of a state takes the engine most of a second: they are needed for a refresh only."""
        recovery.recover(_engine(sandbox, "touch asked; exit 1"))
        self._write(sandbox, [])
        recovery.recover(_engine(sandbox, "exit 1"))

    def test_what_was_begun_is_looked_at_by_the_engine(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recovery.stand_ins, "start", lambda *_: Attached())
        asked = sandbox.folder / "asked"
        resource = {"urn": "urn:pulumi:small::p::random:index:R::r", "type": "random:index:R"}
        self._write(sandbox, [{"resource": resource, "type": "creating"}])
        recovery.recover(_engine(sandbox, f'echo "$*" >> {asked}; echo "{{}}"'))
        exported, refreshed = asked.read_text().splitlines()
        assert exported.startswith("stack export --show-secrets")
        assert refreshed.startswith("refresh --yes --skip-preview --clear-pending-creates")

    @staticmethod
    def _write(sandbox: Sandbox, pending: list[dict[str, object]]) -> None:
        sandbox.state_file.parent.mkdir(parents=True)
        latest = {"resources": [], "pending_operations": pending}
        sandbox.state_file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))


class _Server:
    """An API server that has some objects: (apiVersion, kind, namespace) -> objects; a refusal is raised."""

    def __init__(self, has: Mapping[tuple[str, str, str], object]) -> None:
        self.has, self.asked = has, 0

    def find(self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]) -> object:
        assert labels == {}
        self.asked += 1
        found = self.has.get((api_version, kind, namespace), [])
        if isinstance(found, Exception):
            raise found
        return found


class TestMissingObjects:
    MAPS = ("v1", "ConfigMap", "gpu")

    @staticmethod
    def _resource(name: str, kind: str = "ConfigMap", **more: object) -> dict[str, Any]:
        inputs = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "gpu"}, **more}
        return {"urn": name, "type": f"kubernetes:core/v1:{kind}", "inputs": inputs}

    @staticmethod
    def _missing(
        monkeypatch: pytest.MonkeyPatch, resources: list[dict[str, Any]], *servers: _Server, tmp_path: Path
    ) -> list[str]:
        left = iter(servers)
        monkeypatch.setattr(missing_objects, "shared_client", lambda _: None)
        monkeypatch.setattr(missing_objects, "Objects", lambda _: next(left))
        return missing_objects.urns_of_missing(resources, [tmp_path] * len(servers))

    def test_many_objects_are_one_question(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A stack of 300 pools once asked 900 times."""
        names = [f"m{number}" for number in range(300)]
        server = _Server({self.MAPS: [{"metadata": {"name": name}} for name in names if name != "m7"]})
        resources = [self._resource(name) for name in names]
        assert self._missing(monkeypatch, resources, server, tmp_path=tmp_path) == ["m7"]
        assert server.asked == 1

    def test_it_may_be_in_any_cluster(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        first, second = _Server({}), _Server({self.MAPS: [{"metadata": {"name": "here"}}]})
        assert not self._missing(monkeypatch, [self._resource("here")], first, second, tmp_path=tmp_path)

    @pytest.mark.parametrize(
        "refusal", [UnknownKindError("no such kind"), ApiError(404, "NotFound", "gone")], ids=["kind", "path"]
    )
    def test_of_a_kind_that_is_gone_everything_is(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusal: Exception
    ) -> None:
        server = _Server({self.MAPS: refusal})
        assert self._missing(monkeypatch, [self._resource("a")], server, tmp_path=tmp_path) == ["a"]

    @pytest.mark.parametrize(
        "refusal", [ApiError(403, "Forbidden", "no"), UnreachableError("no answer")], ids=["refused", "silent"]
    )
    def test_who_does_not_answer_lacks_nothing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusal: Exception) -> None:
        server = _Server({self.MAPS: refusal})
        assert self._missing(monkeypatch, [self._resource("a")], server, tmp_path=tmp_path) == []

    def test_keys_of_an_object_are_looked_at(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        patch = self._resource("shared", data={"mine": "x"}) | {"type": "kubernetes:core/v1:ConfigMapPatch"}
        others = {self.MAPS: [{"metadata": {"name": "shared"}, "data": {"theirs": "y"}}]}
        ours = {self.MAPS: [{"metadata": {"name": "shared"}, "data": {"theirs": "y", "mine": "z"}}]}
        assert self._missing(monkeypatch, [patch], _Server(others), tmp_path=tmp_path) == ["shared"]
        assert self._missing(monkeypatch, [patch], _Server(ours), tmp_path=tmp_path) == []
