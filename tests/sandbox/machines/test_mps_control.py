"""The stand-in for NVIDIA's MPS control program, asked as mps-control-daemon, the plugin and the verifier ask it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_pools.verifier import mps as verifier
from sandbox.machines import mps_control
from sandbox.system import processes
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator


class Control:
    """A folder for pipes, and the program that is called with it."""

    def __init__(self, folder: Path) -> None:
        # Longer than a socket's path may be.
        self.pipes, self.logs = folder / ("p" * 120) / "pipe", folder / "log"
        self.pipes.mkdir(parents=True)
        self.logs.mkdir()

    def call(self, *arguments: str, said: str = "") -> tuple[int, str]:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self.logs)}
        argv = [sys.executable, "-I", "-S", "-B", mps_control.__file__, *arguments]
        done = subprocess.run(argv, input=said, capture_output=True, text=True, env=environment, check=False, timeout=scaled(20))
        return done.returncode, done.stdout

    def daemon(self) -> int:
        """The daemon's process id: it is in the folder for pipes."""
        found = [path for path in Path("/proc").glob("[0-9]*") if self._is_here(path)]
        return int(found[0].name)

    def _is_here(self, process: Path) -> bool:
        try:
            return (process / "cwd").readlink() == self.pipes
        except OSError:
            return False

    def ask(self, said: str) -> str:
        code, answer = self.call(said=said)
        assert code == 0, answer
        return answer


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path)
    yield made
    made.call(said="quit")


def test_a_daemon_that_nobody_has_limited(control: Control) -> None:
    assert control.call("-d") == (0, "")
    assert control.ask("get_default_active_thread_percentage") == "100.0\n"
    assert control.ask("get_default_device_pinned_mem_limit 0") == ""
    assert control.ask("get_server_list") == ""
    assert (control.logs / "control.log").exists(), "mps-control-daemon follows it"


@pytest.mark.parametrize(("limit", "shown"), [("20389M", "19G"), ("1024M", "1G"), ("1023M", "1023M"), ("7G", "7G")])
def test_limits_come_back_in_whole_gib(control: Control, limit: str, shown: str) -> None:
    control.call("-d")
    control.ask(f"set_default_device_pinned_mem_limit 1 {limit}")
    control.ask("set_default_active_thread_percentage 25")
    assert control.ask("get_default_device_pinned_mem_limit 1\nget_default_active_thread_percentage\n") == f"{shown}\n25.0\n"
    assert control.ask("get_default_device_pinned_mem_limit 0") == ""


def test_without_a_daemon_it_says_so(control: Control) -> None:
    assert control.call(said="get_server_list") == (1, "Cannot find MPS control daemon process\n")
    control.call("-d")
    control.ask("quit")
    assert control.call(said="get_server_list")[0] == 1


def test_there_is_one_daemon_for_a_folder_and_another_one_at_once_after_it(control: Control) -> None:
    control.call("-d")
    control.ask("set_default_active_thread_percentage 50")
    assert control.call("-d")[0] == 1
    assert control.ask("get_default_active_thread_percentage") == "50.0\n"
    control.ask("quit")
    assert control.call("-d")[0] == 0
    assert control.ask("get_default_active_thread_percentage") == "100.0\n"


def test_what_a_killed_daemon_left_hinders_no_other(control: Control) -> None:
    control.call("-d")
    os.kill(control.daemon(), signal.SIGKILL)
    assert (control.pipes / "control").exists()
    processes.wait_until(lambda: control.call("-d")[0] == 0, timeout=10, what="the kernel has let go of its lock")
    assert control.ask("get_default_active_thread_percentage") == "100.0\n"


def test_the_verifier_reads_it(control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / verifier.PROGRAM
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {mps_control.__file__} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(control.pipes))
    before = verifier.read_mps(1)
    assert (before.failure, before.asked) == ("exit code 1: Cannot find MPS control daemon process", True)
    control.call("-d")
    control.ask("set_default_device_pinned_mem_limit 0 4090M")
    assert verifier.read_mps(2) == verifier.MpsReading(
        None, asked=True, percentage="100.0", memory_limits=("3G", ""), faulty_servers=()
    )
