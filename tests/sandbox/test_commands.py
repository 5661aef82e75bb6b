"""What commands of the sandbox do where something has died, was killed or does not exist."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from sandbox.__main__ import main
from sandbox.cli import commands
from sandbox.stack import stand_ins, state
from sandbox.stack.engine import Engine
from sandbox.stack.names import PROJECT
from sandbox.stack.stand_ins import Attached
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from tests.patience import scaled
from tests.sandbox.small_sandbox import STACK, prepared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.stack.state import Sandbox

#: What stack files in several styles of YAML say.
SAYS = {"config": {"gpu-pools:cluster": {"name": "x", "version": "1.30"}, "gpu-pools:pools": [{"name": "gpu"}]}}
STYLES = (
    json.dumps(SAYS),
    json.dumps({"encryptionsalt": "v1:of another", **SAYS}, indent=2),
    "{config: {gpu-pools:cluster: {name: x, version: '1.30'},\n gpu-pools:pools: [{name: gpu}]}}\n",
    "---\nconfig:\n  gpu-pools:cluster: {name: x, version: '1.30'}\n  gpu-pools:pools: [{name: gpu}]\n",
    "  config:\n    gpu-pools:cluster: {name: x, version: '1.30'}\n    gpu-pools:pools: [{name: gpu}]\n",
)
SLEEP = ["/bin/sleep", "60"]


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    made = prepared(tmp_path, monkeypatch)
    yield made
    processes.stop(made.folder, grace=0.0)


class TestAStandInThatDies:
    @staticmethod
    def _engine(sandbox: Sandbox, script: str) -> Engine:
        """The engine, of which a script plays the program."""
        program = sandbox.folder / "pulumi-program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        tools = SimpleNamespace(pulumi=program, kubernetes_plugin=None, openstack_plugin=None)
        return Engine(sandbox, cast("Any", tools), Attached())

    def test_the_engine_is_ended_and_the_stand_in_named(self, sandbox: Sandbox) -> None:
        """It would wait minutes for it, or talk to whoever has taken its port."""
        process = processes.spawn(sandbox.folder, stand_ins.NAME, SLEEP)
        engine = self._engine(sandbox, f"kill -9 {process.pid}; exec sleep 50")
        began = time.monotonic()
        with pytest.raises(SandboxError, match="not running any more: providers") as error:
            commands._has_succeeded(engine, "up")
        assert time.monotonic() - began < scaled(20)
        assert "make up STACK=small" in error.value.remedy

    def test_an_engine_that_ended_well_meanwhile_has_not_succeeded(self, sandbox: Sandbox) -> None:
        """Somebody else may have answered in its place: an impostor once had `up` end green."""
        process = processes.spawn(sandbox.folder, stand_ins.NAME, SLEEP)
        with pytest.raises(SandboxError, match="not running any more: providers"):
            commands._has_succeeded(self._engine(sandbox, f"kill -9 {process.pid}; sleep 0.2"), "up")

    @pytest.mark.parametrize(("script", "succeeded"), [("exit 0", True), ("exit 1", False)])
    def test_elsewhere_the_engines_word_counts(self, sandbox: Sandbox, script: str, *, succeeded: bool) -> None:
        processes.spawn(sandbox.folder, stand_ins.NAME, SLEEP)
        assert commands._has_succeeded(self._engine(sandbox, script), "up") is succeeded

    def test_what_a_preview_leaves_running_is_named_with_the_way_to_stop_it(self, sandbox: Sandbox) -> None:
        """Keystone and Magnum once ran on for 80 minutes, and nobody had said so."""
        processes.spawn(sandbox.folder, stand_ins.NAME, SLEEP)
        processes.spawn(sandbox.openstack, "keystone", SLEEP)
        said = commands._what_keeps_running(sandbox)
        processes.stop(sandbox.openstack, grace=0.0)
        assert "providers, keystone" in said
        assert "`make down STACK=small` stops them" in said


def test_an_engine_that_was_left_running_ends_with_its_sandbox(sandbox: Sandbox) -> None:
    """As after a `make up` that was killed: the language host and the helpers of its network ran on for minutes."""
    with subprocess.Popen(SLEEP, env={**os.environ, "PULUMI_BACKEND_URL": f"file://{sandbox.backend}"}) as left:
        processes.wait_until(
            lambda: left.pid in processes.carrying("PULUMI_BACKEND_URL", f"file://{sandbox.backend}"),
            timeout=scaled(10),
            what="it has begun",
        )
        commands.throw_away("small", Progress())
        assert left.wait(10) < 0
    assert not sandbox.folder.exists()


class TestAFullDisk:
    #: As etcd ends: the cause, then the stacks of all its threads.
    DIES = "echo 'panic: write wal: no space left on device'; for n in $(seq 40); do echo goroutine $n; done; exit 2"

    def test_it_is_named_above_the_describe_end(self, sandbox: Sandbox) -> None:
        processes.spawn(sandbox.folder, "etcd", ["/bin/sh", "-c", self.DIES])
        processes.wait_until(lambda: "etcd" not in processes.running(sandbox.folder), timeout=10, what="its end")
        first, *rest = processes.describe_end(sandbox.folder, "etcd").splitlines()
        assert first.startswith(f"The disk is full ({sandbox.folder}: ")
        assert first.endswith("etcd has written: panic: write wal: no space left on device")
        assert rest[-1] == "goroutine 40"

    def test_an_earlier_one_is_not_blamed(self, sandbox: Sandbox) -> None:
        for script in (self.DIES, "echo another end"):
            processes.spawn(sandbox.folder, "etcd", ["/bin/sh", "-c", script])
            processes.wait_until(lambda: "etcd" not in processes.running(sandbox.folder), timeout=10, what="its end")
        assert processes.describe_end(sandbox.folder, "etcd").splitlines()[-1] == "another end"
        assert "disk" not in processes.describe_end(sandbox.folder, "etcd")

    def test_it_is_why_something_does_not_run_any_more(self, sandbox: Sandbox) -> None:
        processes.spawn(sandbox.folder, stand_ins.NAME, ["/bin/sh", "-c", self.DIES])
        processes.wait_until(lambda: stand_ins.died(sandbox) != [], timeout=10, what="its end")
        with pytest.raises(SandboxError, match="no space left on device") as error:
            commands._see_that_everything_lives(sandbox)
        assert error.value.remedy.startswith("Free space there")


@pytest.mark.parametrize("command", ["up", "preview", "status", "verify", "down", "openstack", "shell"])
def test_a_stack_that_does_not_exist_is_refused_as_a_wrong_file(
    sandbox: Sandbox, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del sandbox
    assert main([command, "smal"]) == 2
    assert "there is no such stack; there are small." in capsys.readouterr().err


class TestTheEnginesCopy:
    """The engine's salt is a line of its own in its copy of the stack file, whatever the user's file looks like."""

    @pytest.mark.parametrize("text", STYLES)
    def test_every_style_has_room_for_the_salt(self, sandbox: Sandbox, tmp_path: Path, text: str) -> None:
        written = tmp_path / "written.yaml"
        written.write_text("encryptionsalt: v1:abc\n")
        sandbox.stack_file.write_text(text)
        sandbox.config_file.unlink()
        state.prepare(sandbox)
        state.adopt_salt(sandbox, written)
        # A second run finds it again.
        state.prepare(sandbox)
        found = yaml.safe_load(sandbox.config_file.read_text())
        assert found.pop("encryptionsalt") == "v1:abc"
        found["config"].pop("gpu-pools:operator")
        assert found == SAYS
        assert sandbox.stack_file.read_text() == text

    def test_scalars_stay_as_they_were_written(self, sandbox: Sandbox) -> None:
        """Another reader of YAML may take `yes` for a text and `1.30` for a number: both are left to it."""
        sandbox.stack_file.write_text("{config: {a:b: yes, a:c: 1.30, a:d: '1.30', a:e: 0o17, a:f: 2026-01-01}}")
        state.prepare(sandbox)
        lines = [line.strip() for line in sandbox.config_file.read_text().splitlines()]
        assert {"a:b: yes", "a:c: 1.30", "a:d: '1.30'", "a:e: 0o17", "a:f: 2026-01-01"} <= set(lines)

    def test_a_file_in_block_style_stays_as_it_is(self, sandbox: Sandbox) -> None:
        sandbox.stack_file.write_text(f"# why\n{STACK}")
        state.prepare(sandbox)
        assert sandbox.config_file.read_text().startswith("# why\nconfig:\n")


class TestAVirtualEnvironmentOfAProgram:
    """The language host of the sandbox does not hear of it: the first Python on PATH ran the program, without its packages."""

    @staticmethod
    def _pulumi(folder: Path) -> subprocess.CompletedProcess[str]:
        """`pulumi` of `make shell`, in a folder; a script plays the engine, and says which Python it would find."""
        program = folder / "engine"
        program.write_text("#!/bin/sh\ncommand -v python3\n")
        program.chmod(0o755)
        around = {
            "GPU_POOLS_PROJECT": str(PROJECT),
            "GPU_POOLS_PYTHON": sys.executable,
            "GPU_POOLS_PULUMI": str(program),
            "PATH": "/usr/bin:/bin",
        }
        command = [PROJECT / "sandbox" / "on_path" / "pulumi", "preview"]
        return subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False, timeout=scaled(60))

    @pytest.mark.parametrize(
        "runtime",
        [
            "runtime: {name: python, options: {virtualenv: ../own}}",
            "runtime:\n  name: python\n  options:\n    toolchain: pip\n    virtualenv: ../own",
        ],
    )
    def test_its_python_runs_the_program(self, tmp_path: Path, runtime: str) -> None:
        venv.create(tmp_path / "own", with_pip=False)
        (tmp_path / "program").mkdir()
        (tmp_path / "program" / "Pulumi.yaml").write_text(f"name: one\n{runtime}\n")
        done = self._pulumi(tmp_path / "program")
        assert done.stdout.strip() == str(tmp_path / "own" / "bin" / "python3"), done.stderr

    @pytest.mark.parametrize("runtime", ["runtime: python", "runtime: {name: yaml}", "runtime: [", ""])
    def test_a_program_without_one_has_the_python_of_the_path(self, tmp_path: Path, runtime: str) -> None:
        (tmp_path / "Pulumi.yaml").write_text(f"name: one\n{runtime}\n")
        assert self._pulumi(tmp_path).stdout.strip() in {"/usr/bin/python3", "/bin/python3", ""}

    def test_one_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "Pulumi.yaml").write_text("name: one\nruntime: {name: python, options: {virtualenv: none}}\n")
        done = self._pulumi(tmp_path)
        assert done.returncode == 1
        assert f"{tmp_path / 'none'}: no virtual environment" in done.stderr
