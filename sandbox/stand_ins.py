"""Starts and stops the provider stand-ins of a sandbox: one background process that serves them all.

The Kubernetes stand-in is left out where the real plugin is on this machine.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from sandbox import processes
from sandbox.errors import SandboxError
from sandbox.files import read_json
from sandbox.state import PROJECT

if TYPE_CHECKING:
    from sandbox.state import Sandbox
    from sandbox.toolchain import Tools

NAME: Final = "providers"
#: The stand-in has no users, but like the plugin it demands an address even for a preview.
OPENSTACK_LOGIN: Final = {
    "OS_AUTH_URL": "http://127.0.0.1/identity/v3",
    "OS_USERNAME": "sandbox",
    "OS_PASSWORD": "sandbox",
    "OS_PROJECT_NAME": "sandbox",
    "OS_USER_DOMAIN_NAME": "Default",
    "OS_PROJECT_DOMAIN_NAME": "Default",
}
_START_SECONDS: Final = 60.0


def start(sandbox: Sandbox, tools: Tools, *, magnum_driver: str | None) -> dict[str, int]:
    """Make the stand-ins run; returns provider name -> port.

    Raises:
        SandboxError: if they do not come up.
    """
    alive = processes.running(sandbox.folder).get(NAME)
    record = read_json(sandbox.providers_record)
    if alive and record.get("pid") == alive.pid:
        return dict(record["ports"])
    processes.stop(sandbox.folder, [NAME])
    sandbox.providers_record.unlink(missing_ok=True)
    command = [sys.executable, "-m", "sandbox.providers", "--state", str(sandbox.folder)]
    if tools.kubernetes_plugin:
        command += ["--without", "kubernetes"]
    environment = {**os.environ, **OPENSTACK_LOGIN, "PYTHONPATH": str(PROJECT), "GPU_POOLS_HELM": str(tools.helm)}
    if magnum_driver:
        environment["GPU_POOLS_MAGNUM_DRIVER"] = magnum_driver
    processes.spawn(sandbox.folder, NAME, command, env=environment, cwd=PROJECT)
    processes.wait_until(lambda: _settled(sandbox), timeout=_START_SECONDS, what="the provider stand-ins")
    if not sandbox.providers_record.exists():
        message = f"The provider stand-ins ended at once:\n{processes.log_tail(sandbox.folder, NAME)}"
        raise SandboxError(message, f"Read {sandbox.folder}/logs/{NAME}.log; `make clean` starts over.")
    return dict(read_json(sandbox.providers_record)["ports"])


def stop(sandbox: Sandbox) -> None:
    """Stop the stand-ins; what they recorded stays."""
    processes.stop(sandbox.folder, [NAME])
    sandbox.providers_record.unlink(missing_ok=True)


def _settled(sandbox: Sandbox) -> bool:
    return sandbox.providers_record.exists() or NAME not in processes.running(sandbox.folder)
