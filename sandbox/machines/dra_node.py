"""What DRA is on one machine: the drivers of its pods, which are NVIDIA's own program, and the kubelet's DRA manager.

A driver runs in the machine's namespaces as long as its pod, with the pod's variables and a token that is bound to the pod. It
finds the NVIDIA driver in the folder that a container would have mounted, registers with the manager as with a kubelet, and
publishes its ResourceSlices by itself. The program is built when a node first needs it, as a kubelet pulls an image that is
not there.

Left out are the ports of its metrics and of its health, which would be open to everybody on the machine that all this runs on.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Final

from sandbox.cluster.gpu_host import DRIVER_ROOT, PLUGINS, PLUGINS_REGISTRY
from sandbox.machines.device_plugin import Crash
from sandbox.machines.dra_manager import DraManager
from sandbox.machines.errands import Errands
from sandbox.machines.node_programs import DraDriver
from sandbox.machines.program_life import ProgramLife
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder, write_atomic
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from sandbox.toolchain.programs import DRA_DRIVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sandbox.cluster.gpu_host import GpuHost
    from sandbox.machines.dra_manager import ClaimRequest
    from sandbox.machines.node_programs import DraDriverRequest

DRIVER_NAME: Final = "gpu.nvidia.com"
PROGRAM: Final = "gpu-kubelet-plugin"
#: As long as a pod's end may take.
_GRACE_SECONDS: Final = 30.0
#: What its image has at this path of the node: the driver copies it there. Here it is a name in what it writes for a runtime.
_CDI_HOOK: Final = f"{PLUGINS}/{DRIVER_NAME}/nvidia-cdi-hook"


class DraNode:
    """DRA on one machine."""

    def __init__(self, folder: Path, living: Callable[[], GpuHost], wake: Callable[[], None]) -> None:
        """Nothing runs yet.

        Args:
            folder: of the machine.
            living: gives the machine's namespaces; called by this one's own thread only.
            wake: called, by any thread, when something has changed.
        """
        self._folder, self._living, self._wake = folder, living, wake
        self._errands = Errands(f"{folder.name} dra drivers", wake)
        self._host: GpuHost | None = None
        self._manager: DraManager | None = None
        self._drivers: dict[str, ProgramLife] = {}

    # ------------------------------------------------------------------ the machine's namespaces

    def begin(self, host: GpuHost) -> None:
        """The machine's namespaces are new."""
        self.end()
        self._host = host
        self._manager = DraManager(self._folder.name, host.outside, self._folder / "dra-claims.json", self._wake)

    def end(self) -> None:
        """The machine's namespaces end, and with them all that runs there."""
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.close()

    def close(self) -> None:
        """Take nothing on any more."""
        self._errands.cancel()
        self._errands.close()

    def has_changed(self) -> bool:
        """Whether drivers have come or gone since the last look."""
        return self._manager is not None and self._manager.has_changed()

    def look(self) -> None:
        """Notice drivers that have come or gone."""
        if self._manager is not None:
            self._manager.look()

    # ------------------------------------------------------------------ drivers

    def serve(self, request: DraDriverRequest) -> DraDriver | Crash | None:
        """See that a driver runs; None until it does."""
        life = (request.pod, request.attempt)
        driver = self._drivers.get(request.pod)
        if driver is None or driver.life != life:
            place = make_folder(self._folder / "pods" / f"{request.pod}-dra")
            driver = self._drivers[request.pod] = ProgramLife(life, place / "log", listens="")
            self._errands.submit(self._start, driver, request, place)
        self._write_account(request)
        words = driver.last_line
        if words is not None:
            return Crash(words, driver.code)
        if driver.process is None:
            return None
        return DraDriver(self._manager is not None and DRIVER_NAME in self._manager.registered())

    def keep_drivers(self, pods: frozenset[str]) -> None:
        """End the drivers of any other pod."""
        for pod in self._drivers.keys() - pods:
            self._errands.submit(self._stop, self._drivers.pop(pod))

    def _start(self, driver: ProgramLife, request: DraDriverRequest, place: Path) -> None:
        root = self._folder / DRIVER_ROOT
        try:
            program = find_built(DRA_DRIVER, Progress()) / PROGRAM
            host = self._living()
            host.put_driver_root()
            driver.log.unlink(missing_ok=True)
            environment = {
                "NVIDIA_CDI_HOOK_PATH": _CDI_HOOK,
                **request.environment,
                "KUBELET_PLUGINS_DIRECTORY_PATH": PLUGINS,
                "KUBELET_REGISTRAR_DIRECTORY_PATH": PLUGINS_REGISTRY,
                "DRIVER_ROOT_CTR_PATH": str(root if request.has_driver else make_folder(place / "no-driver")),
                "CDI_ROOT": "/run/cdi",
                "KUBECONFIG": str(place / "kubeconfig"),
                "HEALTHCHECK_PORT": "-1",
                **processes.own_mark(),
            }
            driver.process = host.start((program, "-v", request.verbosity), driver.log, environment=environment)
        except (SandboxError, OSError, CancelledError, RuntimeError) as error:
            # Of the last two: the machine is going away.
            driver.failure = str(error)
            self._wake()
            return
        threading.Thread(target=self._wake_after, args=(driver.process,), daemon=True).start()
        self._wake()

    def _stop(self, driver: ProgramLife) -> None:
        """End it as a kubelet does: it takes its registration back."""
        process, host = driver.process, self._host
        if process is not None and host is not None:
            host.signal(process, signal.SIGTERM)
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(driver.log.parent, ignore_errors=True)
        self._wake()

    def _wake_after(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._wake()

    def _write_account(self, request: DraDriverRequest) -> None:
        """A kubeconfig of the pod's service account, and its token, which is renewed now and then."""
        place = self._folder / "pods" / f"{request.pod}-dra"
        for name, content in request.account.items():
            path = place / name
            if not path.exists() or path.read_bytes() != content:
                write_atomic(path, content.decode())
        kubeconfig = place / "kubeconfig"
        if not kubeconfig.exists():
            write_atomic(kubeconfig, json.dumps(_kubeconfig(request.server, place)))

    # ------------------------------------------------------------------ claims

    def prepare(self, pod: str, wanted: tuple[ClaimRequest, ...]) -> str | None:
        """See DraManager.prepare."""
        return None if self._manager is None else self._manager.prepare(pod, wanted)

    def release(self, pod: str) -> bool:
        """See DraManager.release; before there is a manager nobody knows."""
        return self._manager is not None and self._manager.release(pod)

    def keep_claims(self, pods: frozenset[str]) -> None:
        """See DraManager.keep."""
        if self._manager is not None:
            self._manager.keep(pods)

    def silent(self) -> Mapping[str, float]:
        """See DraManager.silence."""
        return {} if self._manager is None else self._manager.silence()

    def forget(self, driver: str) -> None:
        """See DraManager.forget."""
        if self._manager is not None:
            self._manager.forget(driver)


def _kubeconfig(server: str, place: Path) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "clusters": [{"name": "pod", "cluster": {"server": server, "certificate-authority": str(place / "ca.crt")}}],
        "users": [{"name": "pod", "user": {"tokenFile": str(place / "token")}}],
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
    }
