"""What `make` does before there is a Python environment: it refuses, waits and gives up as it should."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import scaled

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
    assert time.monotonic() - began < scaled(20)
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
    said = [one.communicate(timeout=scaled(120))[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sorted("Installing the Python packages" in one for one in said) == [False, True]
    (waited,) = (one for one in said if "Installing" not in one)
    assert f"Waiting for another command that installs the Python packages into {tmp_path / 'venv'} … " in waited
    third = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=scaled(60))
    assert third.stderr == ""
    assert (tmp_path / "venv" / "bin" / "python").exists()


def _installed(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """`make venv` by this Python, where an environment of some version is made already."""
    (folder / "venv").mkdir()
    (folder / "venv" / ".installed").touch()
    (folder / "venv" / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    command = ["make", "--no-print-directory", "venv", f"VENV={folder / 'venv'}", f"PYTHON={sys.executable}"]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60)


def test_an_environment_of_another_python_is_neither_used_nor_mixed(tmp_path: Path) -> None:
    """It went on with the old one, and nothing said so."""
    ended = _installed(tmp_path, "3.9.2")
    assert ended.returncode == 2
    assert (
        f"{tmp_path / 'venv'}: made with Python 3.9; PYTHON ({sys.executable}) is Python 3.{sys.version_info.minor}."
        in ended.stderr
    )
    assert "Set PYTHON=python3.9 to go on with it; or run `make clean`" in ended.stderr
    assert sorted(path.name for path in (tmp_path / "venv").iterdir()) == [".installed", "pyvenv.cfg"]


def test_another_patch_of_the_same_python_goes_on(tmp_path: Path) -> None:
    ended = _installed(tmp_path, f"3.{sys.version_info.minor}.99")
    assert (ended.returncode, ended.stderr) == (0, "")
