"""nvidia-mig-manager as it is, on a node of a simulated cluster: what its DaemonSet of gpu-operator v26.7.0 gives it, it has.

It runs in a namespace of the node's with the node's simulated NVML, as its own service account, beside the daemon, which plays
the pods of all other operands. That of v0.10.0 is a Go module; a later one can be built elsewhere and named by a variable.

Other than on a node: its driver is not the host's (WITH_SHUTDOWN_HOST_GPU_CLIENTS is false), so that it asks nobody to stop
services; there is no CDI. Of systemd it finds a bus on which nobody answers, which is all that v0.15.0 then asks for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from sandbox.cluster import node_tools
from sandbox.cluster.gpu_host import GpuHost
from sandbox.nvml.library import find_library
from sandbox.system.files import make_folder, write_atomic
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.conformance import reals
from tests.sandbox.machines.accounts import kubeconfig_of
from tests.sandbox.machines.site import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.cluster.api import Api

NODE: Final = "gpu0"
PROGRAM: Final = "nvidia-mig-manager"
_BUS: Final = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow eavesdrop="false"/></policy>
</busconfig>
"""
#: Of gpu-operator's default-gpu-clients; none of them is asked for here.
_CLIENTS: Final = "version: v1\nsystemd-services: [nvsm.service, nvidia-dcgm.service, dcgm.service]\n"


class MigManager:
    """One process of it after the other, on the node."""

    def __init__(self, cluster: Path, api: Api, program: Path) -> None:
        """Nothing runs yet.

        Args:
            cluster: the cluster's folder.
            api: as an administrator.
            program: the folder with it and with the nvidia-mig-parted that it calls.
        """
        self._cluster, self._api, self._program = cluster, api, program
        self._place = make_folder(cluster / "mig-manager")
        self.config, self.log = self._place / "config.yaml", self._place / "log"
        self._host: GpuHost | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._bus: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """As its container is started; returns when it waits for its label, or has ended."""
        self._start_bus()
        write_atomic(self._place / "clients.yaml", _CLIENTS)
        write_atomic(self._place / "kubeconfig", kubeconfig_of(self._cluster, self._api, OPERATOR, PROGRAM))
        self.log.write_bytes(b"")
        self._host = GpuHost(self._cluster / "machines" / NODE, find_library(Progress()))
        self._process = self._host.start([self._program / PROGRAM], self.log, environment=self._environment(self._host))
        end = Patience(20)
        while "Waiting for change" not in self.log.read_text() and self._process.poll() is None:
            assert not end.is_over(), self.log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """As its container is killed: with all that it has started."""
        if self._process is not None and self._host is not None:
            self._host.close()
            self._process.wait(10)
            self._process = self._host = None

    def close(self) -> None:
        """End everything."""
        self.stop()
        if self._bus is not None:
            self._bus.kill()
            self._bus.wait()

    @property
    def idle(self) -> bool:
        """Whether it has ended what it had to do."""
        return "Waiting for change" in self.log.read_text(errors="replace").rstrip().rpartition("\n")[2]

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def _environment(self, host: GpuHost) -> Mapping[str, str]:
        return {
            "PATH": f"{self._program}:{host.environment['PATH']}",
            "KUBECONFIG": str(self._place / "kubeconfig"),
            "NO_PROXY": "127.0.0.1,localhost",
            "NODE_NAME": NODE,
            "POD_NAME": PROGRAM,
            "POD_NAMESPACE": OPERATOR,
            "CONFIG_FILE": str(self.config),
            "GPU_CLIENTS_FILE": str(self._place / "clients.yaml"),
            "DEFAULT_GPU_CLIENTS_NAMESPACE": OPERATOR,
            "WITH_SHUTDOWN_HOST_GPU_CLIENTS": "false",
            # Never the machine's own root: it would be asked to reboot.
            "HOST_ROOT_MOUNT": str(self._place / "host"),
            # Of v0.10.0, which is a watcher and this script.
            "RECONFIGURE_SCRIPT": str(self._program / "reconfigure-mig.sh"),
        }

    def _start_bus(self) -> None:
        if self._bus is not None:
            return
        socket = make_folder(self._place / "host" / "run" / "dbus") / "system_bus_socket"
        write_atomic(self._place / "bus.conf", _BUS.format(socket=socket))
        self._bus = subprocess.Popen(["dbus-daemon", f"--config-file={self._place / 'bus.conf'}", "--nofork"])
        end = Patience(10)
        while not socket.exists():
            assert not end.is_over(), "dbus-daemon does not listen"
            time.sleep(0.02)


def program_or_skip(version: str, folder: Path) -> Path:
    """The folder with it and with the nvidia-mig-parted that it calls; its tests are skipped where something is not there."""
    refused = node_tools.obstacle()
    if refused is not None:
        pytest.skip(f"NOT tried against the real mig-manager: {refused}")
    needed = [name for name in ("kubectl", "bash", "dbus-daemon") if shutil.which(name) is None]
    if needed:
        pytest.skip(f"NOT tried against the real mig-manager, which needs {', '.join(needed)}")
    if version == reals.MIG_MANAGER_MODULE:
        program = make_folder(folder / "mig-manager-programs")
        for name in ("mig-manager", "mig-parted"):
            for path in find_built(name, Progress()).iterdir():
                (program / path.name).symlink_to(path)
        return program
    found = os.environ.get(reals.MIG_MANAGER_VARIABLE)
    if not found:
        pytest.skip(f"no mig-manager {version} on this machine: {reals.MIG_MANAGER_VARIABLE}=<folder with it and its mig-parted>")
    return Path(found)
