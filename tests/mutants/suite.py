"""Runs chosen tests in a process of their own, forked from one that has loaded what is not ours: a third of a second for most.

The tests are those that need no programs. They run in a copy of the project, so that a mutant is a file there, which the programs
that a test starts read, too. Hypothesis tries the same examples each time and shrinks none.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).resolve().parents[2]
FAST = ("tests/unit", "tests/verifier", "tests/changes", "tests/policies", "tests/adopting", "tests/components")
_OURS = ("gpu_pools", "components", "policies", "pipelines", "sandbox", "tests")
#: A mutant may compute without end, and remember all of it.
_MEMORY = 6 * 2**30
#: How a process ends that the runner itself broke, and one that the mutant left no memory.
BROKEN, EXHAUSTED = 70, 71


def copied(target: Path) -> Path:
    """The project's files, as they are now, in a folder of their own."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        # Two of the packages are links to folders (gpu_pools/components), and no files.
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    # Bytecode that is held against its source, not against its time: a mutant has the size and the second of what it replaces.
    command = [sys.executable, "-m", "compileall", "-q", "-j0", "--invalidation-mode", "checked-hash", *_OURS]
    subprocess.run(command, cwd=target, check=True)
    return target


def preloaded(names: Iterable[str]) -> None:
    """Load modules that are not ours once, for every process that is forked from now on."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def forked(seconds: float, scratch: Path, run: Callable[[], int]) -> int | None:
    """How `run` ends in a process of its own; None if it had to be ended.

    Args:
        seconds: how long it may take.
        scratch: a folder for what it leaves, which is removed afterwards.
        run: gives the exit code.
    """
    # Processes that were killed a moment ago may have left something while it was removed.
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(exist_ok=True)
    child = begun(lambda: _limited(scratch, run))
    try:
        return _awaited(child, seconds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def begun(run: Callable[[], int]) -> int:
    """A process forked from this one, a group of its own, which runs that and ends with its exit code; its number."""
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            os.setsid()
            code = run()
        except MemoryError:
            code = EXHAUSTED
        finally:
            os._exit(code)
    return child


def _limited(scratch: Path, run: Callable[[], int]) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    return run()


def _awaited(child: int, seconds: float) -> int | None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _end_group(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    _end_group(child)
    os.waitpid(child, 0)
    return None


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def scratch(tree: Path) -> Path:
    """Where tests of that copy leave their files."""
    return tree.with_name(f"{tree.name}-scratch")


def run_there(tree: Path, paths: Sequence[str], *plugins: object, output: int | None = None) -> int:
    """Make this process one of that copy of the project, and run tests there.

    Args:
        tree: the copy.
        paths: which tests.
        plugins: of pytest.
        output: a file descriptor for what is printed; nowhere without.
    """
    os.chdir(tree)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    sys.path[:] = [str(tree), *(path for path in sys.path if path not in {"", str(ROOT)})]
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    silence = os.open(os.devnull, os.O_RDWR)
    for stream, target in enumerate((silence, output or silence, output or silence)):
        os.dup2(target, stream)
    return _tests(paths, plugins)


def _tests(paths: Sequence[str], plugins: Sequence[object]) -> int:
    settings.register_profile(
        "mutants",
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain", "-m", "not programs and not engine"]
    return int(pytest.main([*options, *paths], plugins=list(plugins)))
