"""libseccomp for runc: the one library that a real node needs and that no Go module has.

The machine's own where its headers are installed; else Debian's or Ubuntu's package libseccomp-dev, fetched and checked by apt,
and unpacked for the time of the build: nothing is installed. Linked statically, so that the program runs where the library is
not. Go asks pkg-config for it; programs/runc/pkg-config answers, since a machine need not have one.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.system.errors import SandboxError
from sandbox.toolchain.programs import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PACKAGE: Final = "libseccomp-dev"
_ARCHIVE: Final = "libseccomp.a"
_FETCH_SECONDS: Final = 60
_REMEDY: Final = f"Install its headers and static library: on Debian and Ubuntu, apt-get install {_PACKAGE}."


@contextmanager
def settings() -> Iterator[Mapping[str, str]]:
    """The variables with which Go finds the library, as long as it is there.

    Raises:
        SandboxError: the machine has none, and none can be fetched.
    """
    if _installed():
        yield _variables("", f"-l:{_ARCHIVE}")
        return
    with tempfile.TemporaryDirectory(prefix="gpu-pools-libseccomp-") as name:
        archive = _fetched(Path(name))
        yield _variables(f"-I{name}/usr/include", f"-L{archive.parent} -l:{_ARCHIVE}")


def _variables(compiler: str, linker: str) -> dict[str, str]:
    answers = {"LIBSECCOMP_CFLAGS": compiler, "LIBSECCOMP_LIBS": linker}
    return {"PKG_CONFIG": str(FOLDER / "runc" / "pkg-config"), **answers}


def _installed() -> bool:
    """Whether the compiler finds header and library by itself."""
    compiler = shutil.which("gcc")
    if compiler is None:
        message = "runc: there is no gcc to build it with."
        raise SandboxError(message, "Install gcc.")
    asked = [compiler, "-E", "-x", "c", "-", "-o", "/dev/null"]
    header = subprocess.run(asked, input="#include <seccomp.h>", text=True, capture_output=True, check=False)
    library = subprocess.run([compiler, f"-print-file-name={_ARCHIVE}"], text=True, capture_output=True, check=False)
    # It repeats a name that it does not know.
    return header.returncode == 0 and Path(library.stdout.strip()).is_absolute()


def _fetched(folder: Path) -> Path:
    """Fetch the package and unpack it into a folder; returns the library."""
    # As root apt would fetch as a user of its own, who may not write here.
    _run(["apt-get", "-o", "APT::Sandbox::User=root", "download", _PACKAGE], folder)
    for package in folder.glob("*.deb"):
        _run(["dpkg", "-x", str(package), str(folder)], folder)
    found = next(folder.glob(f"usr/lib/*/{_ARCHIVE}"), None)
    if found is None:
        message = f"runc: the package {_PACKAGE} that apt fetched has no {_ARCHIVE}."
        raise SandboxError(message, _REMEDY)
    return found


def _run(command: list[str], folder: Path) -> None:
    why = f"runc: {_PACKAGE} is not installed, and"
    if shutil.which(command[0]) is None:
        message = f"{why} there is no {command[0]} to fetch it with."
        raise SandboxError(message, _REMEDY)
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        message = f"{why} {command[0]} did not bring it within {_FETCH_SECONDS} s."
        raise SandboxError(message, _REMEDY) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        message = f"{why} cannot be fetched: {' '.join(command)}:\n{said}"
        raise SandboxError(message, _REMEDY)
