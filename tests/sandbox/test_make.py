"""What `make` does before there is a Python environment: it refuses, waits and gives up as it should."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
#: Plays the Python that `make` begins with: it says what it is asked for, one thing a line.
FAKE = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
-c*) exit 0 ;;
*--platform*) sleep 0.5; exit {programs} ;;
*sandbox.stack.names*) exec {python} "$@" ;;
*) echo $$ > {pid}; exec sleep 50 ;;
esac
"""


def _fake(folder: Path, programs: int) -> Path:
    fake = folder / "python"
    fake.write_text(FAKE.format(log=folder / "log", pid=folder / "pid", programs=programs, python=sys.executable))
    fake.chmod(0o755)
    return fake


def _make(folder: Path, *words: str, programs: int = 0) -> subprocess.CompletedProcess[str]:
    given = [f"VENV={folder / 'venv'}", f"PYTHON={_fake(folder, programs)}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *words, *given],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_where_a_program_cannot_be_had_the_packages_are_not_waited_for(tmp_path: Path) -> None:
    """Without Go the message came at once, and `make` ended minutes later, when pip had."""
    began = time.monotonic()
    ended = _make(tmp_path, "first", programs=1)
    assert ended.returncode == 2
    assert time.monotonic() - began < 20
    assert not _lives(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("command", ["up", "preview", "status", "verify", "down", "shell"])
def test_an_unknown_stack_is_refused_before_anything_is_installed(tmp_path: Path, command: str) -> None:
    """It once took five minutes of installing to say so."""
    ended = _make(tmp_path, command, "STACK=nope")
    assert ended.returncode == 2
    assert "Pulumi.nope.yaml: there is no such stack; there are aks-dev, " in ended.stderr
    assert "sandbox.toolchain" not in (tmp_path / "log").read_text()
    assert "-m venv" not in (tmp_path / "log").read_text()


def test_with_an_environment_no_other_python_is_started(tmp_path: Path) -> None:
    """A version manager's Python took two tenths of a second of each command, to find out what the environment says."""
    environment = tmp_path / "venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").symlink_to(sys.executable)
    (tmp_path / "venv" / ".installed").touch()
    ended = _make(tmp_path, "known", "STACK=nope")
    assert ended.returncode == 2
    assert "Pulumi.nope.yaml: there is no such stack" in ended.stderr
    assert not (tmp_path / "log").exists()


INSTALL = """
import sys
from pathlib import Path
from sandbox.system.progress import Progress
from sandbox.toolchain.packages import install
install(Path(sys.argv[1]), Progress(heartbeat=0.5), Path(sys.argv[2]))
"""


def test_two_at_once_install_the_packages_once(tmp_path: Path) -> None:
    """Two `pip` in one folder see each other's half-written packages."""
    hashes = tmp_path / "hashes.txt"
    hashes.write_text("# none\n")
    command = [sys.executable, "-c", INSTALL, str(tmp_path / "venv"), str(hashes)]
    both = [subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=120)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sorted("Installing the Python packages" in one for one in said) == [False, True]
    (waited,) = (one for one in said if "Installing" not in one)
    assert f"Waiting for another command that installs the Python packages into {tmp_path / 'venv'} … " in waited
    third = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60)
    assert third.stderr == ""
    assert (tmp_path / "venv" / "bin" / "python").exists()
