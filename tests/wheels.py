"""The project's wheel, and environments that have it: what tests of an installed package share."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

from tests.patience import scaled

ROOT: Final = Path(__file__).resolve().parents[1]
#: The folders that a wheel is made of.
PACKAGES: Final = ("gpu_pools", "components", "policies", "docs")
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_ALONE: Final = ("--no-index", "--no-deps")
_LONGEST_SECONDS: Final = 300


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the tree; nobody asks a registry."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder / "source")
    said = _run(*_PIP, "wheel", *_ALONE, "--no-build-isolation", "--wheel-dir", str(folder), str(folder / "source"))
    assert "absent from the `packages` configuration" not in said
    (made,) = folder.glob("gpu_pools-*.whl")
    return made


def install_alone(folder: Path, wheel: Path) -> Path:
    """Make a Python environment that has the wheel and nothing else."""
    venv.create(folder, with_pip=False)
    _run(*_PIP, "--python", str(folder / "bin" / "python"), "install", *_ALONE, str(wheel))
    return folder


def install_beside_the_tests(folder: Path, wheel: Path) -> Path:
    """Make an environment that has the wheel, and finds what it depends on in that of the tests."""
    install_alone(folder, wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return folder


def _run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=scaled(_LONGEST_SECONDS), stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
