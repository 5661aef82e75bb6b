"""What a machine must allow for a real node, tried before anything is started."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from sandbox.system import cgroups
from sandbox.system.errors import SandboxError

_PROGRAMS: Final = ("mount", "unshare", "nsenter", "ldd", "gcc", "go")
_REMEDY: Final = (
    "A real node needs Linux on x86-64 or arm64, root with all capabilities (in a container: --privileged), control groups of "
    "either version, and util-linux, gcc and Go. The simulated nodes need less: leave the real ones out."
)
#: All that the keeper makes, then a pair of network devices and containers' file systems, as far as the machine lets it.
_TRY_NAMESPACES: Final = ("unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork", "--mount-proc")
_OVERLAY: Final = 'mount -t overlay overlay -o "lowerdir=$1/l,upperdir=$1/u,workdir=$1/w" "$1/m" && touch "$1/m/x"'


def require() -> None:
    """See that a real node can run here.

    Raises:
        SandboxError: it cannot, and why.
    """
    if found := obstacle():
        message = f"no real node can run on this machine: {found}."
        raise SandboxError(message, _REMEDY)


def obstacle() -> str:
    """Why no real node can run here; empty where one can."""
    if sys.platform != "linux":
        return f"it runs {sys.platform}"
    if platform.machine() not in ("x86_64", "aarch64"):
        return f"its processor is {platform.machine()}"
    if os.geteuid() != 0:
        return f"this is the user {os.geteuid()}, not root"
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(missing)} not on PATH"
    return cgroups.obstacle() or _refused([*_TRY_NAMESPACES, "true"])


def snapshotter(folder: Path) -> str:
    """How containers' file systems are put together where a folder is: overlays where the kernel lets it, else copies."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        for part in "luwm":
            (Path(name) / part).mkdir()
        refused = _refused(["unshare", "--mount", "sh", "-c", _OVERLAY, "overlay", name])
    return "native" if refused else "overlayfs"


def _refused(command: list[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"{command[0]} ended with {done.returncode}"
