"""Serve the provider stand-ins of one sandbox: `python -m sandbox.providers --state .sandbox/<stack>`.

All of them in one process, each on a free loopback port, and Azure's Resource Manager on another one. When they answer,
`<state>/providers.json` tells the process id, the ports, and the Keystone that they log in to; it is removed at the end. Runs
until TERM or INT. Before it serves, the stand-in of Azure finishes or undoes what a kill interrupted; that of OpenStack has a
real Magnum behind it.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.text.terminal import guarded
from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_server import Server
from sandbox.clouds.host import simulated_host
from sandbox.openstack import service
from sandbox.openstack.magnum_api import MagnumApi
from sandbox.providers.azure_native import AzureNativeStandIn
from sandbox.providers.base import StandIn, serve
from sandbox.providers.openstack import OpenStackStandIn
from sandbox.system import files
from sandbox.system.errors import SandboxError
from sandbox.system.own_code import own_code

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGES = ("azure-native", "openstack", "kubernetes")
_GRACE_SECONDS = 5.0


def _stand_ins(state: Path, packages: Sequence[str]) -> list[StandIn]:
    """The stand-ins wanted, their clouds in order."""
    made: list[StandIn] = []
    if "azure-native" in packages:
        azure = AzureCloud(state, simulated_host())
        azure.recover()
        made.append(AzureNativeStandIn(azure))
    if "openstack" in packages:
        login = service.load(state / "openstack").login()
        made.append(OpenStackStandIn(MagnumApi(login), login))
    if "kubernetes" in packages:
        # Imported here: where the real plugin is used, its stand-in is not needed, nor what that imports.
        from sandbox.providers.kubernetes import KubernetesStandIn  # noqa: PLC0415

        made.append(KubernetesStandIn())
    return made


def _resource_manager(stand_in: AzureNativeStandIn, state: Path) -> Server:
    """Serve Azure's own API, for what no function of the plugin tells."""
    server = Server(stand_in.resource_manager, state)
    server.serve()
    return server


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.providers", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="state folder of the sandbox")
    parser.add_argument("--without", action="append", default=[], choices=_PACKAGES, help="leave one out")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        return _run(options.state, [name for name in _PACKAGES if name not in options.without])
    except SandboxError as error:
        print(f"{error.message}\n{error.remedy}", file=sys.stderr)
        return 1


def _run(state: Path, packages: Sequence[str]) -> int:
    files.make_folder(state)
    record = state / "providers.json"
    servers, ports = [], {}
    stand_ins = _stand_ins(state, packages)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopping.set())
    for stand_in in stand_ins:
        server, ports[stand_in.package] = serve(stand_in)
        servers.append(server)
    manager = next((_resource_manager(one, state) for one in stand_ins if isinstance(one, AzureNativeStandIn)), None)
    keystone = service.load(state / "openstack").keystone_url if "openstack" in packages else None
    known = {"pid": os.getpid(), "ports": ports, "openstack": keystone, "code": own_code()}
    files.write_json(record, {**known, "resourceManager": manager.port if manager else None})
    stopping.wait()
    record.unlink(missing_ok=True)
    # Whatever still waits for a cluster gives up now, and takes its helm process with it.
    for stand_in in stand_ins:
        stand_in.cancelled.set()
    for ending in [server.stop(_GRACE_SECONDS) for server in servers]:
        ending.wait(_GRACE_SECONDS)
    return 0


if __name__ == "__main__":
    # Its log is read on terminals, and holds what others have named.
    with guarded():
        sys.exit(main())
