"""A pod in which the real config-manager runs beside its program: the init container, the sidecar, and what they share.

The program that is signalled is the device plugin or mps-control-daemon itself, which whoever starts it starts in here, or, for
gpu-feature-discovery, which has no process of its own on simulated machines, a shell of that name that counts the signals. As in
a real pod, config-manager sees the pod's processes only (and, in a pod with hostPID, one without a command line), is told by the
pod's variables whom to signal, makes its link in an emptyDir that outlives its containers and goes with the pod, and reads the
node with the pod's own token.

Which of its versions runs follows from the pod's image (plugin_release). The newest is on no module proxy. It differs from the
one before in a single statement, by which it skips processes without a command line (k8s-device-plugin v0.20.0, main.go
findPidToSignal). So where nobody has named one, the one before runs, in a pod without such a process: there both do the same.

A pod that ran before this daemon did starts its sidecar anew, which a kubelet would not: for its first look, which finds no
label, what is linked is its default, so that nothing changes by that; once the label goes, another one takes its place, which
knows the true default.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.machines.config_manager import EMPTY, SOURCE, Link
from sandbox.machines.config_volumes import write_volume
from sandbox.machines.node_programs import Configured
from sandbox.machines.pod_sandbox import PodSandbox
from sandbox.machines.program_life import container_code
from sandbox.machines.program_logs import last_line
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sandbox.cluster.gpu_host import GpuHost
    from sandbox.machines.node_programs import ConfigRequest

#: The program in whose place a shell is signalled.
SHELL: Final = "gpu-feature-discovery"
#: The node's folder for pipes of MPS, below the machine's folder, where the pods that mount it find it.
MPS_FOLDER: Final = "host/run/nvidia/mps"
_SECONDS: Final = 60.0
_LISTENS_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.005
_ACCOUNT: Final = "/run/secrets/kubernetes.io/serviceaccount"
#: The init container's variables, as far as they are not the sidecar's.
_ONCE: Final = {"ONESHOT": "true", "SEND_SIGNAL": "false", "SIGNAL": "", "PROCESS_TO_SIGNAL": ""}
# $0: the file that counts the signals.
_COUNTER: Final = 'trap \'echo >> "$0"\' HUP; : >> "$0"; while :; do sleep 3600 & wait $! || kill $! 2> /dev/null; done'


@dataclass(frozen=True)
class ConfigManagers:
    """The versions of config-manager that a machine has.

    Attributes:
        usual: of v0.18.2 to v0.19.
        newest: of v0.20.0 or newer; None where there is none.
        older: gives that of v0.17.0 to v0.18.1; it may have to be built.
    """

    usual: Path
    newest: Path | None
    older: Callable[[], Path]

    def of(self, request: ConfigRequest) -> Path:
        """The one of a pod.

        Beside the device plugin and gpu-feature-discovery the usual one plays the older ones: to these it makes a difference
        for a moment only, and building takes longer than everything else that such a node does.

        Raises:
            SandboxError: where it is not there and cannot be made.
        """
        if request.release.waits_for_node and request.host_pid:
            return self.older()
        return self.newest or self.usual if request.release.skips_nameless else self.usual


class ConfigPod:
    """One such pod on one machine. All that starts processes is done by the machine's thread."""

    def __init__(
        self,
        request: ConfigRequest,
        folder: Path,
        programs: ConfigManagers,
        host: Callable[[], GpuHost],
        do: Callable[[Callable[[], None]], object],
        wake: Callable[[], None],
        *,
        heard: Callable[[], int] | None = None,
    ) -> None:
        """Begin it.

        Args:
            request: what is asked for first.
            folder: of the machine; the pod's own is made in it.
            programs: the versions of config-manager.
            host: gives the machine's namespaces; for the machine's thread only.
            do: has the machine's thread do something.
            wake: called when something has changed.
            heard: tells how often the program was signalled; None for one that cannot be asked.
        """
        self._request, self._programs, self._host, self._do, self._wake = request, programs, host, do, wake
        self._pipes = folder / MPS_FOLDER
        self._folder = make_folder(folder / "pods" / f"{request.pod}-config")
        self._stands_in, self._resumed = (
            request.program == SHELL,
            request.read is not None and (self._folder / "config" / "config.yaml").is_symlink(),
        )
        #: What the program had read, where it starts anew with its daemon, which on a node it would not: shown until it is read.
        self._held = (
            {self._linked().removeprefix(f"{SOURCE}/"): request.read or ""} if self._resumed and not self._stands_in else {}
        )
        self._sandbox: PodSandbox | None = None
        self._sidecar: subprocess.Popen[bytes] | None = None
        self._initialized, self._init_message, self._init_code = self._resumed, "", 1
        self._failure, self._asked, self._ended = "", False, False
        #: Whether the sidecar that runs takes what was linked for its default.
        self._bent = False
        self._init_attempt, self._sidecar_attempt = request.init_restarts, request.sidecar_restarts
        self._files: Mapping[str, str] | None = None
        self._last_link, self._links = "", 0
        self._heard = heard
        self._write()
        self._do(self._begin)

    @property
    def pod(self) -> str:
        """The pod's uid."""
        return self._request.pod

    def follow(self, request: ConfigRequest) -> Configured | None:
        """Follow what has changed, and say what has become of it."""
        self._request = request
        self._write()
        if request.init_restarts != self._init_attempt:
            self._init_attempt, self._init_message = request.init_restarts, ""
            self._do(self._begin)
        if request.sidecar_restarts != self._sidecar_attempt:
            self._sidecar_attempt, self._sidecar, self._failure = request.sidecar_restarts, None, ""
            self._do(self._start_sidecar)
        elif self._bent and not request.label:
            self._bent = False
            self._do(self._replace_sidecar)
        elif self._initialized and self._stands_in and not self._asked:
            self.program_started(self._counter.exists)
        if not self._initialized and not self._init_message:
            return None
        ended = self._sidecar.poll() if self._sidecar is not None else None
        code = 1 if self._failure or not ended else container_code(ended)
        return Configured(self._text(), self._signals(), self._init_message, self._sidecar_message(), self._init_code, code)

    def start(self, argv: tuple[str | Path, ...], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the pod's program; by the machine's thread only.

        Raises:
            SandboxError: where that is not possible.
        """
        return self._living().start(argv, log, environment)

    def program_started(self, listens: Callable[[], bool]) -> None:
        """The program's container is there, so that the sidecar's turn has come.

        Args:
            listens: whether signals reach the program yet. A kubelet takes longer to start a container than the program takes
                to listen; here the sidecar waits for it.
        """
        if self._asked:
            return
        self._asked = True

        def work() -> None:
            end = time.monotonic() + _LISTENS_SECONDS
            while not listens() and time.monotonic() < end and not self._ended:
                time.sleep(_POLL_SECONDS)
            self._start_sidecar()

        self._do(work)

    def program_has_read(self) -> None:
        """The program has read its configuration."""
        self._held = {}

    def left_over(self) -> dict[int, tuple[str, ...]]:
        """Process -> command line of what its containers have left running here."""
        sandbox = self._sandbox
        return sandbox.left_over() if sandbox is not None and sandbox.lives else {}

    def end(self) -> None:
        """End it; its emptyDir goes with it. By the machine's thread, or after that has ended."""
        self._ended = True
        if self._sandbox is not None:
            self._sandbox.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        """End what runs of it, as the daemon ends; its folder stays for the next one."""
        self._ended = True
        if self._sandbox is not None:
            self._sandbox.end()

    # ------------------------------------------------------------------ the machine's thread

    def _begin(self) -> None:
        """Run the init container, unless the pod was past that."""
        try:
            if not self._initialized:
                done = self._living().run((self._program(),), {**self._request.environment, **_ONCE}, _SECONDS)
                if done.returncode != 0:
                    self._init_code = container_code(done.returncode)
                    self._init_message = last_line(done.stdout + done.stderr) or f"ended with {done.returncode}"
            self._initialized = not self._init_message
        except (SandboxError, OSError, subprocess.TimeoutExpired) as error:
            self._init_message = str(error)
        self._wake()

    def _start_sidecar(self) -> None:
        if self._ended:
            return
        log = self._folder / "config-manager.log"
        log.unlink(missing_ok=True)
        environment = dict(self._request.environment)
        self._bent, self._resumed = self._resumed, False
        if self._bent:
            environment["DEFAULT_CONFIG"] = self._linked().removeprefix(f"{SOURCE}/").replace(EMPTY, "")
        try:
            self._sidecar = self._living().start((self._program(),), log, environment, own_proc=True)
        except (SandboxError, OSError) as error:
            self._failure = str(error)
            self._wake()
            return
        threading.Thread(target=self._wake_after, args=(self._sidecar,), daemon=True).start()

    def _replace_sidecar(self) -> None:
        before, self._sidecar = self._sidecar, None
        if before is not None:
            before.kill()
            before.wait()
        self._start_sidecar()

    def _wake_after(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._wake()

    def _living(self) -> PodSandbox:
        if self._ended:
            message = f"{self._folder.name}: the pod is gone"
            raise SandboxError(message, "")
        if self._sandbox is None or not self._sandbox.lives:
            mounts = {"/config": "config", SOURCE: "volume", _ACCOUNT: "account"}
            folders = {path: make_folder(self._folder / name) for path, name in mounts.items()} | {
                "/mps": make_folder(self._pipes)
            }
            nameless = self._request.host_pid and (not self._request.release.skips_nameless or self._programs.newest is not None)
            self._sandbox = PodSandbox(self._host(), self._folder / "sandbox", folders, processes.own_mark(), nameless=nameless)
            if self._stands_in:
                counter = (self._request.program, "-c", _COUNTER, self._counter)
                self._sandbox.start(counter, self._folder / "program.log", {})
        return self._sandbox

    # ------------------------------------------------------------------ its files

    @property
    def _counter(self) -> Path:
        return self._folder / "signals"

    def _program(self) -> Path:
        return self._programs.of(self._request)

    def _linked(self) -> str:
        link = self._folder / "config" / "config.yaml"
        return str(link.readlink()) if link.is_symlink() else ""

    def _text(self) -> str | None:
        return Link(self._linked()).read(self._shown())

    def _shown(self) -> dict[str, str]:
        """The files of the volume, with what the program had read in the place of its key."""
        return {**self._request.files, **{key: text for key, text in self._held.items() if key in self._request.files}}

    def _signals(self) -> int:
        """Those that the shell has counted, or that the program says it has heard.

        A device plugin is not asked: each other link is taken for one.
        """
        if self._heard is not None:
            return self._heard()
        if self._stands_in:
            return self._counter.stat().st_size if self._counter.exists() else 0
        if self._linked() != self._last_link:
            self._last_link, self._links = self._linked(), self._links + 1
        return self._links

    def _sidecar_message(self) -> str:
        if self._failure:
            return self._failure
        if self._sidecar is None or self._sidecar.poll() is None:
            return ""
        log = self._folder / "config-manager.log"
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return last_line(said) or f"ended with {self._sidecar.returncode}"

    def _write(self) -> None:
        """The volumes, where they have changed."""
        if (files := self._shown()) != self._files:
            self._files = files
            write_volume(self._folder / "volume", files)
        for name, content in self._request.account.items():
            path = self._folder / "account" / name
            if not path.exists() or path.read_bytes() != content:
                write_atomic(path, content.decode())
