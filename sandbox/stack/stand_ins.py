"""Starts and stops what the engine talks to: the provider stand-ins, one background process, and for Magnum a real OpenStack.

Stand-ins are left out where they are not needed: those of Kubernetes and OpenStack where the real plugin is on this machine, that
of OpenStack where the stack is not on Magnum. What runs is kept, unless it was started for something else or by other code.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.magnum.cluster import MagnumSettings
from sandbox.openstack import service
from sandbox.openstack.magnum_api import MagnumApi, MagnumError
from sandbox.stack.names import PROJECT
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json
from sandbox.system.own_code import own_code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan
    from sandbox.stack.state import Sandbox
    from sandbox.system.progress import Progress
    from sandbox.toolchain.tools import Tools

NAME: Final = "providers"
_START_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Attached:
    """What the engine is given.

    Attributes:
        ports: provider name -> port of its stand-in.
        login: variables with which a plugin logs in to OpenStack; none where there is none.
        resource_manager: port of the stand-in of Azure's Resource Manager; 0 where it is not known.
    """

    ports: Mapping[str, int] = field(default_factory=dict)
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    resource_manager: int = 0


def start_openstack(sandbox: Sandbox, plan: Plan, progress: Progress) -> dict[str, str]:
    """Make a real Keystone and Magnum run where the stack is on Magnum, and let Magnum finish what it was asked for.

    Before the clusters are started: it may be about to delete one.

    Returns:
        The variables with which its clients log in; none where the stack is elsewhere.

    Raises:
        SandboxError: if it does not come up, or what it was asked for does not end.
    """
    cluster = plan.settings.cluster
    if not isinstance(cluster, MagnumSettings):
        return {}
    login = service.start(
        sandbox.openstack, seed=sandbox.openstack_seed, clusters=sandbox.clusters, driver=cluster.driver, progress=progress
    ).login()
    try:
        MagnumApi(login).settle()
    except MagnumError as error:
        raise SandboxError(f"Magnum: {error}", f"Read {sandbox.openstack}/logs/magnum.log; `make clean` starts over.") from error
    return login


def start(sandbox: Sandbox, tools: Tools, login: Mapping[str, str]) -> Attached:
    """Make the provider stand-ins run.

    Args:
        sandbox: whose they are; its clusters run.
        tools: where the programs are.
        login: what start_openstack has returned.

    Raises:
        SandboxError: if they do not come up.
    """
    if login:
        _await_addresses(sandbox, MagnumApi(login))
    return _attached(_start_providers(sandbox, tools, login), login)


def attached(sandbox: Sandbox) -> Attached:
    """What has been started by whoever works on the sandbox; nothing is started."""
    login = service.load(sandbox.openstack).login() if service.exists(sandbox.openstack) else {}
    return _attached(read_json(sandbox.providers_record), login)


def _attached(record: Mapping[str, Any], login: Mapping[str, str]) -> Attached:
    return Attached(dict(record.get("ports") or {}), login, record.get("resourceManager") or 0)


def died(sandbox: Sandbox) -> list[str]:
    """The names of what ended by itself: the provider stand-ins, or none."""
    return [name for name in processes.died(sandbox.folder) if name == NAME]


def stop(sandbox: Sandbox) -> None:
    """Stop the provider stand-ins; what they recorded stays, and so does OpenStack."""
    processes.stop(sandbox.folder, [NAME])
    sandbox.providers_record.unlink(missing_ok=True)


def magnum(sandbox: Sandbox) -> MagnumApi | None:
    """The Magnum of a sandbox; None where it has none."""
    return MagnumApi(service.load(sandbox.openstack).login()) if service.exists(sandbox.openstack) else None


def _start_providers(sandbox: Sandbox, tools: Tools, login: Mapping[str, str]) -> Mapping[str, Any]:
    """Their record."""
    alive = processes.running(sandbox.folder).get(NAME)
    record = read_json(sandbox.providers_record)
    keystone = None if tools.openstack_plugin else login.get("OS_AUTH_URL")
    if alive and (record.get("pid"), record.get("openstack"), record.get("code")) == (alive.pid, keystone, own_code()):
        return record
    processes.stop(sandbox.folder, [NAME])
    sandbox.providers_record.unlink(missing_ok=True)
    command = [sys.executable, "-m", "sandbox.providers", "--state", str(sandbox.folder)]
    if tools.kubernetes_plugin:
        command += ["--without", "kubernetes"]
    if not keystone:
        command += ["--without", "openstack"]
    # It is not started by the engine, so it gets none of the engine's variables: of no kubeconfig it would take the user's own.
    own = {
        "PYTHONPATH": str(PROJECT),
        "PATH": os.pathsep.join([str(sandbox.programs), os.environ.get("PATH", os.defpath)]),
        "GPU_POOLS_HELM": str(tools.helm),
        "KUBECONFIG": str(sandbox.kubeconfig),
    }
    environment = {**os.environ, **own}
    processes.spawn(sandbox.folder, NAME, command, env=environment, cwd=PROJECT)
    processes.wait_until(lambda: _settled(sandbox), timeout=_START_SECONDS, what="the provider stand-ins")
    if not sandbox.providers_record.exists():
        message = f"The provider stand-ins ended at once:\n{processes.describe_end(sandbox.folder, NAME)}"
        raise SandboxError(message, f"Read {sandbox.folder}/logs/{NAME}.log; `make clean` starts over.")
    return read_json(sandbox.providers_record)


def _settled(sandbox: Sandbox) -> bool:
    return sandbox.providers_record.exists() or NAME not in processes.running(sandbox.folder)


def _await_addresses(sandbox: Sandbox, api: MagnumApi) -> None:
    """Wait until Magnum knows where clusters are that were started again on other ports."""

    def known() -> bool:
        addresses = {id_[:6]: address for id_, address in api.addresses().items()}
        records = {path.parent.name.rpartition("-")[2]: read_json(path) for path in sandbox.clusters.glob("*/cluster.json")}
        return all(addresses[id_].endswith(f":{records[id_]['ports']['api']}") for id_ in addresses.keys() & records.keys())

    processes.wait_until(known, timeout=_START_SECONDS, what="Magnum knows the addresses of its clusters")
