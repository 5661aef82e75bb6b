"""A pod whose containers really run on a simulated machine: processes in its namespaces, with the files that its volumes hold.

Each container has a mount namespace of its own inside the machine's, where its volumes lie at their paths; the programs are the
machine's own (the image is not looked at). The network is each container's own, too: it reaches the API server and nothing else,
and only the kubelet reaches it. A thread per pod starts the init containers one after
the other, then the others, and asks for their readiness. What has ended stays so until the kubelet asks for another attempt.

As a kubelet: the files of volumes follow their source; what a container leaves at its path for last words is kept.
Unlike one: readiness is asked for several times a second until it is first there, and again as soon as a probe fails; a pod that
is ended gets no grace; nobody asks whether a container still lives.
"""

from __future__ import annotations

import http.client
import shutil
import signal
import threading
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Final

from sandbox.cluster.gpu_host import children
from sandbox.machines.outcomes import InitCrash, InitWaiting, Outcome, Up
from sandbox.machines.program_life import container_code
from sandbox.machines.world import LOG
from sandbox.nvml.library import CONTAINED
from sandbox.system import private_network, processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, make_folder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.cluster.gpu_host import GpuHost
    from sandbox.machines.pod_request import Container, PodRequest, Probe

_POLL_SECONDS: Final = 0.1
_HURRIED_SECONDS: Final = 0.3
#: How long a pod that was ready before this daemon began counts as ready although it has not been asked yet.
_RESUMED_SECONDS: Final = 30.0
_MOST_WORDS: Final = 4096
_KILLED: Final = 128 + signal.SIGKILL
_OK: Final = range(200, 400)

# Pairs of source and target below /run, --, the command. Each first folder below /run is covered, so that nothing is made on the
# machine that all this runs on.
_CONTAINER: Final = """
set -eu
for path in $COVERED; do
    mkdir -p "$path"
    mount -t tmpfs container "$path"
done
unset COVERED
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "${2%/*}"; : > "$2"; fi
    mount --bind "$1" "$2"
    shift 2
done
shift
exec "$@"
"""


class _EndedError(Exception):
    """The pod is to end."""


class PodRun:
    """One pod on one machine, from its start to its end."""

    def __init__(self, request: PodRequest, host: Callable[[], GpuHost], machine_folder: Path, wake: Callable[[], None]) -> None:
        """Start it.

        Args:
            request: what is to run.
            host: gives the machine's namespaces; called by the pod's thread only.
            machine_folder: of the machine; the pod's own folder is made in it.
            wake: called when the outcome has changed.
        """
        self._request, self._host, self._wake = request, host, wake
        self._machine_folder = machine_folder
        self._folder = make_folder(machine_folder / "pods" / request.pod)
        self._again, self._end = threading.Event(), threading.Event()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        #: The attempt that the thread is at, and what came of it.
        self._attempt = request.attempt
        self._reported: tuple[int, Outcome] = (request.attempt, _before(request))
        self._write_volumes()
        self._thread = threading.Thread(target=self._live, name=f"pod {request.pod}", daemon=True)
        self._thread.start()

    @property
    def outcome(self) -> Outcome:
        """What has become of the pod; a crash counts until another attempt is asked for."""
        attempt, outcome = self._reported
        return outcome if attempt == self._request.attempt else _tried_again(outcome)

    def want(self, request: PodRequest) -> None:
        """Follow what has changed of the request: files of volumes, and whether to try again what has ended."""
        before, self._request = self._request, request
        if request.volumes != before.volumes:
            self._write_volumes()
        if request.attempt != before.attempt:
            self._again.set()

    def end(self) -> None:
        """Begin to end it, without grace; its files go with it."""
        self._end.set()
        self._again.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    # ------------------------------------------------------------------ the pod's thread

    def _live(self) -> None:
        try:
            if not self._request.initialized:
                for container in self._request.inits:
                    self._initialize(container)
            self._run()
        except _EndedError:
            for process in self._processes.values():
                process.kill()
                process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _initialize(self, container: Container) -> None:
        """Run an init container until it ends well."""
        while True:
            self._tell(InitWaiting(container.name))
            code = self._start(container)
            while code is None:
                self._pause(_POLL_SECONDS)
                code = self._processes[container.name].poll()
            if code == 0:
                return
            left, log = self._last_texts(container)
            self._tell(InitCrash(container.name, log, container_code(code), left))
            self._until_again()

    def _run(self) -> None:
        """Run the containers; those that end are started again when that is asked for."""
        ready = dict.fromkeys((one.name for one in self._request.mains if one.probe), self._request.ready)
        began, due = time.monotonic(), dict.fromkeys(ready, 0.0)
        stopped: dict[str, tuple[int, tuple[str, str]]] = {}
        for container in self._request.mains:
            self._begin(container, stopped)
        while True:
            for container in self._request.mains:
                if container.name in stopped:
                    continue
                code = self._processes[container.name].poll()
                if code is not None:
                    stopped[container.name] = (container_code(code), self._last_texts(container))
                elif container.probe and time.monotonic() >= due[container.name]:
                    holds = _asked(self._processes[container.name].pid, self._request.address, container.probe)
                    presumed = self._request.initialized and time.monotonic() - began < _RESUMED_SECONDS
                    ready[container.name] = holds or (presumed and ready[container.name])
                    due[container.name] = time.monotonic() + (container.probe.period_seconds if holds else _HURRIED_SECONDS)
            crashed = {name: log for name, (_, (_, log)) in stopped.items()}
            words = {name: left for name, (_, (left, _)) in stopped.items() if left}
            codes = {name: code for name, (code, _) in stopped.items()}
            unready = frozenset(name for name, holds in ready.items() if not holds and name not in stopped)
            self._tell(Up(crashed, codes, unready, words))
            if stopped and self._again.is_set():
                self._next_attempt()
                for container in self._request.mains:
                    if stopped.pop(container.name, None) is not None:
                        self._begin(container, stopped)
            self._pause(_POLL_SECONDS)

    def _begin(self, container: Container, stopped: dict[str, tuple[int, tuple[str, str]]]) -> None:
        code = self._start(container)
        if code is not None:
            stopped[container.name] = (container_code(code), self._last_texts(container))

    def _start(self, container: Container) -> int | None:
        """Start a container; the exit code where not even that is possible."""
        place = make_folder(self._folder / container.name)
        message = place / "termination-log"
        message.write_text("")
        covered = {"/".join(path.split("/")[:3]) for path in (container.message_path, *(m.path for m in container.mounts))}
        pairs = [(message, container.message_path)]
        pairs += [(self._source(mount.volume, mount.node_path), mount.path) for mount in container.mounts]
        argv: list[str] = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _CONTAINER, container.name]
        argv += [str(word) for pair in pairs for word in pair] + ["--", *container.command]
        environment = {**container.environment, "COVERED": " ".join(sorted(covered)), **processes.own_mark(), **CONTAINED}
        log = place / "log"
        log.unlink(missing_ok=True)
        try:
            api = container.environment.get("KUBERNETES_SERVICE_PORT")
            argv = private_network.command(place, [int(api)] if api else [], argv)
            self._processes[container.name] = self._host().start(argv, log, environment=environment)
        except (SandboxError, OSError, CancelledError, RuntimeError, ValueError) as error:
            # The machine is going away, or cannot be made: the kubelet tries again, if it is still there.
            LOG.warning("container %s: %s", container.name, error)
            message.write_text(str(error))
            return _KILLED
        return None

    def _source(self, volume: str, node_path: str) -> Path:
        if node_path:
            return make_folder(self._machine_folder / "host" / node_path.lstrip("/"))
        return self._folder / "volumes" / volume

    def _last_texts(self, container: Container) -> tuple[str, str]:
        """What it left for that, and the end of its log."""
        place = self._folder / container.name
        paths = (place / "termination-log", place / "log")
        left, log = (path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else "" for path in paths)
        return left[-_MOST_WORDS:], log[-_MOST_WORDS:]

    def _write_volumes(self) -> None:
        for volume, files in self._request.volumes.items():
            folder = make_folder(self._folder / "volumes" / volume)
            for name, content in files.items():
                path = folder / name
                with explained(path, "write"):
                    if path.exists() and path.read_bytes() == content:
                        continue
                    rest = path.with_name(f".{name}.new")
                    rest.touch(mode=0o600)
                    rest.write_bytes(content)
                    rest.replace(path)

    def _tell(self, outcome: Outcome) -> None:
        reported = (self._attempt, outcome)
        if reported != self._reported:
            self._reported = reported
            self._wake()

    def _until_again(self) -> None:
        self._again.wait()
        self._next_attempt()
        self._pause(0.0)

    def _next_attempt(self) -> None:
        # In this order: an attempt that is asked for in between is not lost.
        self._again.clear()
        self._attempt = self._request.attempt

    def _pause(self, seconds: float) -> None:
        if self._end.wait(seconds):
            raise _EndedError


def _before(request: PodRequest) -> Outcome:
    if request.inits and not request.initialized:
        return InitWaiting(request.inits[0].name)
    return Up(unready=frozenset() if request.ready else frozenset(one.name for one in request.mains if one.probe))


def _tried_again(outcome: Outcome) -> Outcome:
    """What is shown of a crash until the next attempt has shown something."""
    if isinstance(outcome, InitCrash):
        return InitWaiting(outcome.container)
    return Up(unready=outcome.unready | frozenset(outcome.crashed)) if isinstance(outcome, Up) else outcome


def _asked(process: int, address: str, probe: Probe) -> bool:
    """Ask a container, in whose network what runs below that process is."""
    connection = http.client.HTTPConnection(address, probe.port, timeout=probe.timeout_seconds)
    try:
        inside = next(iter(children(process)), process)
        connection.sock = private_network.connected(inside, address, probe.port, probe.timeout_seconds)
        connection.request("GET", probe.path)
        return connection.getresponse().status in _OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
