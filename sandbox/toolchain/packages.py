"""The Python environment of this checkout: `python -m sandbox.toolchain.packages FOLDER` makes it, or finds it made.

Run by any Python, with the standard library alone. One command at a time makes it: two `pip` in one folder would each see the
other's half-written packages. A second one says that it waits.

Of Azure's SDK only what is used here is compiled: its other 250 services would take longer than all else. What Python cannot
compile stays as it is, as with pip.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.text.interrupts import answered, terminate_in_order
from sandbox.system.errors import SandboxError
from sandbox.system.files import locked
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

HASHES: Final = Path(__file__).resolve().parents[2] / "hashes.txt"
_MARKER: Final = ".installed"
#: As the standard library's module venv writes it.
_VERSION: Final = re.compile(r"^version(?:_info)? = (?P<minor>\d+\.\d+)", re.MULTILINE)
_COMPILED: Final = "_|alertsmanagement|authorization|containerservice|dashboard|monitor|network|resources"


def install(folder: Path, progress: Progress, hashes: Path = HASHES) -> None:
    """Make the environment, unless it was made of these versions.

    Args:
        folder: of the environment.
        progress: told what is done and what is waited for.
        hashes: the versions, with their hashes.

    Raises:
        SandboxError: if a package cannot be installed, or the environment is of another version of Python.
    """
    place = folder.resolve()
    with locked(place, lambda: progress.step(f"Waiting for another command that installs the Python packages into {folder}")):
        _require_same_python(folder)
        if _is_made(place, hashes):
            return
        with progress.long_step("Installing the Python packages (first time only)"):
            _run([sys.executable, "-m", "venv", str(place)])
            own = str(place / "bin" / "python")
            quiet = ("--no-compile", "--quiet", "--disable-pip-version-check")
            _run([own, "-m", "pip", "install", *quiet, "--require-hashes", "-r", str(hashes)])
            unused = f"pulumi_azure_native/(?!{_COMPILED})[a-z]+/"
            _ended([own, "-m", "compileall", "-qq", "-x", unused, str(place / "lib")])
            (place / _MARKER).touch()


def _require_same_python(folder: Path) -> None:
    """Refuse an environment of another minor version of Python: its packages are of that one, and sandboxes may run by it.

    Raises:
        SandboxError: with what to do.
    """
    with contextlib.suppress(FileNotFoundError):
        written = _VERSION.search((folder / "pyvenv.cfg").read_text(encoding="utf-8"))
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        if written and written["minor"] != running:
            message = f"{folder}: made with Python {written['minor']}; PYTHON ({sys.executable}) is Python {running}."
            go_on = f"Set PYTHON=python{written['minor']} to go on with it"
            replaced = "or run `make clean`, which stops every sandbox and removes it, and then the same command again"
            raise SandboxError(message, f"{go_on}; {replaced}; or name another folder with VENV=.")


def _is_made(folder: Path, hashes: Path) -> bool:
    marker = folder / _MARKER
    return marker.exists() and marker.stat().st_mtime >= hashes.stat().st_mtime


def _run(command: Sequence[str]) -> None:
    """Run a program whose messages are shown.

    Raises:
        SandboxError: if it fails.
    """
    status = _ended(command)
    if status != 0:
        message = f"{' '.join(command)}: exit status {status}; its messages stand above."
        raise SandboxError(message, "Check the network and pip's settings (PIP_INDEX_URL), then run the same command again.")


def _ended(command: Sequence[str]) -> int:
    """How a program ended; it does not outlive this one."""
    with subprocess.Popen(command) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            raise


def main() -> int:
    """Make the environment that is named; returns the exit status."""
    terminate_in_order()
    parser = argparse.ArgumentParser(prog="python -m sandbox.toolchain.packages", description="Make the Python environment.")
    parser.add_argument("folder", type=Path, help="of the environment")
    parser.add_argument("--shared-terminal", action="store_true", help="another command redraws a line of the same terminal")
    asked = parser.parse_args()
    try:
        install(asked.folder, Progress(shared_terminal=asked.shared_terminal))
    except SandboxError as error:
        sys.stderr.write(f"error: {error.message}\n{error.remedy}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(answered(main))
