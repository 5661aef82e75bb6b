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

PROJECT = Path(__file__).resolve().parents[2]
#: As the Makefile starts them.
HELD_BACK = ("env", "--block-signal=INT")
PROGRAMS = {
    "sandbox": ("status", "aks-dev"),
    "gpus": ("plan", "stacks/Pulumi.aks-dev.yaml"),
    "evidence": ("aks-dev",),
    "changes": ("nowhere.jsonl", "--after", "stacks/Pulumi.aks-dev.yaml"),
}
MOMENTS = (0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2)


def _interrupted(program: str, seconds: float) -> tuple[int, str]:
    command = [*HELD_BACK, sys.executable, "-m", program, *PROGRAMS[program]]
    with subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    return process.returncode, said


def _holds_back() -> bool:
    return bool(shutil.which("env")) and subprocess.run([*HELD_BACK, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _holds_back(), reason="this machine's env cannot hold a signal back")
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_early_ctrl_c_ends_a_command_without_a_traceback(program: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda seconds: _interrupted(program, seconds), MOMENTS))
    for seconds, (code, said) in zip(MOMENTS, ended, strict=True):
        assert "Traceback" not in said, f"after {seconds} s"
        # By the signal, which a shell tells as 130; or by its own word. Some are over by then, on a fast machine.
        assert code in {-signal.SIGINT, 128 + signal.SIGINT, 0, 1, 2}, f"after {seconds} s"
    assert ended[0][0] == -signal.SIGINT
