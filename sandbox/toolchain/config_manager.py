"""NVIDIA's config-manager of k8s-device-plugin v0.20.0 or newer, where somebody has one.

The module proxy has no version after v0.19.3, so the sandbox cannot build it. It differs from v0.19 in one statement, and
sandbox/machines/config_pod.py says what plays it where there is none. The program does not print its version, so only a named
one is taken, never one of PATH.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sandbox.system import trust
from sandbox.system.errors import SandboxError

#: Names the program.
VARIABLE: Final = "GPU_POOLS_CONFIG_MANAGER"


def find() -> Path | None:
    """The program that the variable names; None where it names none.

    Raises:
        SandboxError: the variable names something that cannot be run.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    path = Path(named).expanduser()
    why = "is no program" if not (path.is_file() and os.access(path, os.X_OK)) else trust.trouble(path)
    if why:
        remedy = f"Name the config-manager out of the image of k8s-device-plugin v0.20.0 or newer, or unset {VARIABLE}."
        raise SandboxError(f"{VARIABLE}={named}: {why}", remedy)
    return path.resolve()
