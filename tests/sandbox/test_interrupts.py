"""Ctrl-C in the first moments of each command line: it ends as a shell expects it, and Python has nothing to say."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.patience import scaled

PROJECT = Path(__file__).resolve().parents[2]
#: As the Makefile starts them.
HELD_BACK = ("env", "--block-signal=INT")
#: Every command line that somebody types, or a job. What a program of ours or the engine starts gets no Ctrl-C of a terminal.
PROGRAMS = {
    "sandbox": ("status", "aks-dev"),
    "sandbox.toolchain": (),
    "sandbox.real_node": ("log", "nowhere"),
    "sandbox.openstack.environment": (),
    "gpu_pools plan": ("stacks/Pulumi.aks-dev.yaml",),
    "gpu_pools evidence": ("aks-dev",),
    "gpu_pools.evidence.pods": ("aks-dev",),
    "gpu_pools changes": ("nowhere.jsonl", "--after", "stacks/Pulumi.aks-dev.yaml"),
    "pipelines": ("comment",),
    "pipelines.release": ("/nowhere", "--commit", "0", "--sums", "hashes.txt", "--requirements", "requirements.txt"),
}
STARTED = (
    *("components", "examples.own-network", "gpu_pools.verifier", "policies"),
    *(
        "sandbox.machines",
        "sandbox.observing",
        "sandbox.providers",
        "tests.conformance",
        "tests.mutants",
        "tests.packages.platform",
        # A developer's own, by `make generate`: it writes files of the checkout, so it is not interrupted here.
        "tools.generate",
    ),
)
MOMENTS = (0, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3)
#: No program is at its end so early: Python alone takes nearly as long.
_AT_WORK_SECONDS = 0.05


def _interrupted(program: str, seconds: float) -> tuple[bool, int, str]:
    """(whether it was surely at work when the signal came, how it ended, what it said)."""
    began = time.monotonic()
    command = [*HELD_BACK, sys.executable, "-m", *program.split(), *PROGRAMS[program]]
    with subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        at_work = time.monotonic() - began < _AT_WORK_SECONDS
        _, said = process.communicate(timeout=scaled(60))
    return at_work, process.returncode, said


def _holds_back() -> bool:
    return bool(shutil.which("env")) and subprocess.run([*HELD_BACK, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _holds_back(), reason="this machine's env cannot hold a signal back")
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_early_ctrl_c_ends_a_command_without_a_traceback(program: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda seconds: _interrupted(program, seconds), MOMENTS))
    for seconds, (at_work, code, said) in zip(MOMENTS, ended, strict=True):
        # What else goes wrong may be told as it is, such as that no forge is here.
        assert "KeyboardInterrupt" not in said, f"after {seconds} s"
        # By the signal, which a shell tells as 130; or by its own word. Some are over by then, on a fast machine.
        interrupted = {-signal.SIGINT, 128 + signal.SIGINT}
        assert code in (interrupted if at_work else interrupted | {0, 1, 2}), f"after {seconds} s"
    assert ended[0][1] == -signal.SIGINT


def test_every_program_is_either_tried_or_started_by_another() -> None:
    folders = {str(path.parent.relative_to(PROJECT)).replace("/", ".") for path in PROJECT.glob("[a-z]*/**/__main__.py")}
    ours = {name for name in folders if not name.startswith(("venv", "."))}
    assert ours - {program.split()[0] for program in PROGRAMS} == set(STARTED)
