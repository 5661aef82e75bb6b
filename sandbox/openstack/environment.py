"""The Python environment of Keystone and Magnum: made once in the cache of programs, shared by all checkouts.

Apart from the project's own, since these programs bring 130 packages that the project has no use for. The versions stand in
requirements.txt, and the folder is named after it: other versions are another folder. Installed by hash (hashes.txt, made by
.ci/hashes), so that no index can give other files of these versions.

`python -m sandbox.openstack.environment` makes it and prints where it is.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import hashlib
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from gpu_pools.text.interrupts import answered
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.cache import cache_folder, make_once

REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")
_HASHES: Final = REQUIREMENTS.with_name("hashes.txt")
_OUTPUT_LINES: Final = 15


def find(progress: Progress) -> Path:
    """The Python that has Keystone and Magnum; makes the environment when it is not there.

    Raises:
        SandboxError: when the packages cannot be installed.
    """
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    target = cache_folder() / f"openstack-{_version('keystone')}-{_version('magnum')}-{digest}"
    text = f"Installing Keystone {_version('keystone')} and Magnum {_version('magnum')} (first time only, 300 MB)"
    make_once(target, text, _make, progress, "built")
    return target / "bin" / "python"


def _make(folder: Path) -> None:
    # Without a pip of its own: the project's can install into it, and the folder is renamed afterwards, which scripts would not
    # survive but the interpreter does.
    venv.EnvBuilder(symlinks=True, clear=True).create(folder)
    python = folder / "bin" / "python"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]
    done = subprocess.run([*command, "-r", str(_HASHES)], capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_OUTPUT_LINES:])
        message = f"{_HASHES}: pip could not install it (exit status {done.returncode}):\n{tail}"
        raise SandboxError(message, "Check the network and pip's settings (PIP_INDEX_URL), then try again.")


def _version(package: str) -> str:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))


def main() -> int:
    """Make the environment and print its Python; returns the exit status."""
    try:
        python = find(Progress())
    except SandboxError as error:
        sys.stderr.write(f"error: {error.message}\n{error.remedy}\n")
        return 1
    sys.stdout.write(f"Keystone {_version('keystone')} and Magnum {_version('magnum')}  {python}\n")
    return 0


if __name__ == "__main__":
    sys.exit(answered(main))
