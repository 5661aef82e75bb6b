"""One machine with GPUs, on which NVIDIA's own programs run.

They are gpu-feature-discovery, nvidia-device-plugin, mps-control-daemon, config-manager, nvidia-mig-parted, and the DRA driver
(dra_node). They run in the machine's own namespace (sandbox.cluster.gpu_host) on the simulated NVML, one after the other, in a
thread of the machine: a pass of the daemon never waits for them. It asks, gets None while the answer is being worked on, and
is woken when it is there.

The state file of the simulated NVML is the truth about the GPUs; it and what lies beside it are in machines/<node>/ of the
cluster's folder and outlive the daemon. The programs do not: whoever ends the daemon, however, ends them. How devices get into
containers is not their matter here (there are none): the plugin is told to hand out environment variables, whatever its
configuration says. Of a container's variables only those are passed on that the programs decide by.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.cluster.gpu_host import DEVICE_PLUGINS, GpuHost
from sandbox.machines import gpu_state, process_list
from sandbox.machines.config_manager import TARGET
from sandbox.machines.config_pod import SHELL, ConfigManagers, ConfigPod
from sandbox.machines.containers import PodRun
from sandbox.machines.device_manager import DeviceManager
from sandbox.machines.device_plugin import Advertised, Crash
from sandbox.machines.dra_node import DraNode
from sandbox.machines.errands import Errands
from sandbox.machines.gfd import Labels
from sandbox.machines.mig_parted import NOT_APPLIED
from sandbox.machines.mps_daemon import CONTROL, PROGRAM, MpsDaemon
from sandbox.machines.node_programs import MACHINE_TYPE, LayoutAnswer, LayoutRequest
from sandbox.machines.program_life import PLUGIN_LISTENS, ProgramLife
from sandbox.machines.program_logs import last_line
from sandbox.nvml import from_tables, state
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, make_folder, write_atomic
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from sandbox.toolchain.programs import OLDER_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox.cluster.node_tools import NodeTools
    from sandbox.machines.gfd import Driver
    from sandbox.machines.gpu import Gpu
    from sandbox.machines.machine import Loaded
    from sandbox.machines.node_programs import ConfigRequest, Configured
    from sandbox.machines.outcomes import Outcome
    from sandbox.machines.pod_request import PodRequest

#: GFD and mig-parted take some 100 ms; only a GPU that hangs (an injected fault) makes them take long.
_SECONDS: Final = 60.0
_READY_SECONDS: Final = 10.0
#: How long a plugin that this daemon finds registered gets to register again before its silence counts.
_RESUMED_SECONDS: Final = 30.0
_TERM_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.01
#: Of a container's variables, those that the programs decide by. Others are about paths and devices of a real container.
_PASSED: Final = (
    *("MIG_STRATEGY", "FAIL_ON_INIT_ERROR", "DEVICE_ID_STRATEGY", "DEVICE_DISCOVERY_STRATEGY", "MPS_ROOT"),
    "CONFIG_FILE",
)
#: The name of the device plugin's process.
_PLUGIN: Final = "nvidia-device-plugin"
_INTERPRETER: Final = shlex.quote(str(Path(sys.executable).resolve()))
_PYTHON: Final = f'#!/bin/sh\nexec {_INTERPRETER} "$@"\n'
_CONTROL: Final = f'#!/bin/sh\nexec {_INTERPRETER} -I -S -B {shlex.quote(str(CONTROL))} "$@"\n'


class GpuNode:
    """A machine with GPUs."""

    def __init__(self, folder: Path, tools: NodeTools, wake: Callable[[], None]) -> None:
        """Know the machine; `furnish` makes it.

        Args:
            folder: for everything of the machine.
            tools: the programs.
            wake: called, by any thread, when an answer is there or a resource has changed.
        """
        self._folder, self._tools, self._wake = make_folder(folder), tools, wake
        self._state = folder / "state"
        self._seen: tuple[int, ...] = ()
        self._errands = Errands(folder.name, wake)
        self._host: GpuHost | None = None
        self._manager: DeviceManager | None = None
        self._plugin: ProgramLife | None = None
        self._mps: MpsDaemon | None = None
        self._found_registered = False
        self._pods: dict[str, PodRun] = {}
        self._configs: dict[str, ConfigPod] = {}
        self._closed = False
        #: What DRA is on this machine.
        self.dra = DraNode(self._folder, self._living_for_pods, wake)

    # ------------------------------------------------------------------ the GPUs

    def furnish(self, gpus: tuple[Gpu, ...], driver: Driver | None, *, registered: bool) -> None:
        """Write the state file where there is none, and begin to make the namespace.

        Args:
            gpus: what the machine's record says; only the first time, later the state file knows better.
            driver: the loaded one.
            registered: whether a plugin of the machine had registered something when the last daemon ended.
        """
        self._found_registered = registered
        if not self._state.exists():
            state.write(self._state, gpu_state.state_of(self._folder.name, gpus, driver))
        self._errands.ask("furnish", None, self._living)

    def changed_gpus(self, model: str, driver: Driver | None) -> tuple[Gpu, ...] | None:
        """The GPUs, where somebody has changed the state file since they were last asked for.

        Args:
            model: key of gpu_pools.hardware.models.
            driver: the loaded one; NVML tells its version from now on.
        """
        try:
            found = self._state.stat()
        except FileNotFoundError:
            return None
        seen = (found.st_mtime_ns, found.st_ino, found.st_size)
        if seen == self._seen:
            return None
        machine = state.read(self._state)
        self._seen = seen
        if driver is not None and machine.driver_version != driver.version:
            change = partial(from_tables.with_driver, driver_version=driver.version, cuda=driver.cuda)
            self._errands.ask("driver", driver, lambda: state.change(self._state, change))
        return gpu_state.gpus_of(model, machine)

    def new_driver(self) -> None:
        """Another driver is loaded: the state file needs another look."""
        self._seen = ()

    # ------------------------------------------------------------------ gpu-feature-discovery

    def labels(self, loaded: Loaded, driver: Driver, environment: Mapping[str, str]) -> Labels | Crash | None:
        """What gpu-feature-discovery writes; it runs again where anything that decides it is another."""
        passed = _passed(environment)
        question = (loaded.pod, loaded.attempt, loaded.text, loaded.gpus, driver, tuple(passed.items()))
        return self._errands.ask("labels", question, lambda: self._discover(loaded.text, passed))

    def _discover(self, config: str | None, passed: Mapping[str, str]) -> Labels | Crash:
        files = {name: self._folder / f"gfd-{name}" for name in ("config.yaml", "machine-type", "labels")}
        _write_or_remove(files["config.yaml"], config)
        write_atomic(files["machine-type"], MACHINE_TYPE)
        files["labels"].unlink(missing_ok=True)
        argv = (
            *(self._tools.gfd, "--oneshot", "--use-node-feature-api=false", "--no-timestamp"),
            *("--config-file", files["config.yaml"], "--machine-type-file", files["machine-type"]),
            *("--output-file", files["labels"]),
        )
        try:
            done = self._living().run(argv, seconds=_SECONDS, environment={**passed, **processes.own_mark()})
        except (SandboxError, OSError, subprocess.TimeoutExpired) as error:
            return Crash(str(error))
        if done.returncode != 0:
            return Crash(last_line(done.stdout + done.stderr) or f"ended with {done.returncode}")
        with explained(files["labels"], "read"):
            lines = files["labels"].read_text(encoding="utf-8").splitlines() if files["labels"].exists() else []
        return Labels(dict(line.split("=", 1) for line in lines if "=" in line))

    # ------------------------------------------------------------------ nvidia-device-plugin

    def resources(self, loaded: Loaded, environment: Mapping[str, str]) -> Advertised | Crash | None:
        """What the plugin has registered; it starts and restarts as its pod does, and reads anew when config-manager tells it."""
        passed = _passed(environment)
        life = (loaded.pod, loaded.attempt, tuple(passed.items()))
        plugin = self._plugin
        if plugin is None or plugin.life != life:
            before, self._found_registered = plugin, self._found_registered and plugin is None
            plugin = self._plugin = ProgramLife(life, self._folder / "plugin.log", PLUGIN_LISTENS)
            pod = self._config_pod(_PLUGIN, loaded.pod)
            self._errands.submit(self._start, before, plugin, pod, loaded.text, passed)
        words = plugin.last_line
        if words is not None:
            return Crash(words, plugin.code)
        return self._registered(plugin)

    def stop_plugin(self) -> None:
        """End the plugin, if there is one."""
        self._found_registered = False
        if self._plugin is not None:
            self._errands.submit(self._stop, self._plugin)
            self._plugin = None

    def _registered(self, plugin: ProgramLife) -> Advertised | None:
        # Before it runs, what is listed is its forerunner's.
        listed = self._manager.listed() if self._manager is not None and plugin.process is not None else {}
        plugin.seen = plugin.seen or bool(listed)
        if plugin.seen and (pod := self._configs.get(_PLUGIN)) is not None:
            pod.program_has_read()
        # The machine of a daemon that was ended had its plugin all the time.
        if not plugin.seen and self._found_registered and time.monotonic() - plugin.began < _RESUMED_SECONDS:
            return None
        return Advertised(
            {resource: listing.healthy for resource, listing in listed.items()},
            one_per_request=frozenset(resource for resource, listing in listed.items() if listing.one_per_request),
            unhealthy={resource: listing.devices - listing.healthy for resource, listing in listed.items()},
        )

    def _start(
        self,
        before: ProgramLife | None,
        plugin: ProgramLife,
        pod: ConfigPod | None,
        config: str | None,
        passed: Mapping[str, str],
    ) -> None:
        """Start it: in the pod that it shares with config-manager, or, where there is none, alone with a configuration."""
        if before is not None:
            self._stop(before)
        path = self._folder / "plugin-config.yaml"
        handed_out = ("--device-list-strategy", "envvar")
        try:
            host = self._living()
            plugin.log.unlink(missing_ok=True)
            if pod is None:
                _write_or_remove(path, config)
                argv = (self._tools.plugin, "--config-file", path, *handed_out)
                plugin.process = host.start(argv, plugin.log, environment={**passed, **processes.own_mark()})
            else:
                plugin.process = pod.start((_PLUGIN, "--config-file", TARGET, *handed_out), plugin.log, passed)
                pod.program_started(lambda: plugin.listens)
        except (SandboxError, OSError) as error:
            plugin.failure = str(error)
            self._wake()
            return
        threading.Thread(target=self._wake_after, args=(plugin.process,), daemon=True).start()

    def _wake_after(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._wake()

    def _look_for_mps(self) -> None:
        """MPS serves now: a plugin that waits for it looks again at once."""
        plugin = self._plugin
        waits = plugin is not None and plugin.process is not None and not (self._manager and self._manager.listed())
        if waits and plugin is not None:
            self._errands.submit(self._hang_up, plugin)

    def _hang_up(self, plugin: ProgramLife) -> None:
        """Let it look again; before it listens for signals it would end of one."""
        end = time.monotonic() + _READY_SECONDS
        while not plugin.listens and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        if plugin.process is not None and self._host is not None:
            self._host.signal(plugin.process, signal.SIGHUP)

    def _stop(self, plugin: ProgramLife) -> None:
        process, host = plugin.process, self._host
        if process is None:
            return
        if host is not None:
            host.signal(process, signal.SIGTERM)
        try:
            process.wait(_TERM_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._manager is not None:
            self._manager.forget()

    # ------------------------------------------------------------------ mps-control-daemon

    def serve_mps(self, loaded: Loaded, environment: Mapping[str, str]) -> Crash | None:
        """See that it runs in its pod; it starts and restarts as that does, and reads anew when config-manager tells it."""
        pod = self._config_pod(PROGRAM, loaded.pod)
        if pod is None:
            # Without config-manager it has no configuration, and so nothing to serve.
            return None
        passed = _passed(environment)
        life = (loaded.pod, loaded.attempt, tuple(passed.items()))
        daemon = self._mps
        if daemon is None or daemon.life != life:
            before = daemon
            daemon = self._mps = MpsDaemon(life, self._folder, pod, self._look_for_mps, self._wake)
            self._errands.submit(self._start_mps, before, daemon, passed)
        if daemon.has_read:
            pod.program_has_read()
        words = daemon.last_line
        return None if words is None else Crash(words, daemon.code)

    def _mps_signals(self) -> int:
        return self._mps.signals if self._mps is not None else 0

    def stop_mps(self) -> None:
        """End it, if there is one."""
        if self._mps is not None:
            self._errands.submit(self._stop_mps, self._mps)
            self._mps = None

    def _start_mps(self, before: MpsDaemon | None, daemon: MpsDaemon, passed: Mapping[str, str]) -> None:
        if before is not None:
            self._stop_mps(before)
        daemon.start(passed)

    def _stop_mps(self, daemon: MpsDaemon) -> None:
        if self._host is not None:
            daemon.stop(self._host.signal)

    # ------------------------------------------------------------------ nvidia-mig-parted

    def check_layout(self, request: LayoutRequest) -> LayoutAnswer | None:
        """Whether a layout is valid, and holds."""
        return self._errands.ask_once("check", request, lambda: self._check_layout(request))

    def apply_layout(self, request: LayoutRequest) -> LayoutAnswer | None:
        """Apply a layout, and look whether it holds."""
        return self._errands.ask_once("apply", request, lambda: self._apply_layout(request))

    def _check_layout(self, request: LayoutRequest) -> LayoutAnswer:
        error = self._parted(request, "assert", "--valid-config")
        return LayoutAnswer(holds=False, error=error) if error else LayoutAnswer(not self._parted(request, "assert"))

    def _apply_layout(self, request: LayoutRequest) -> LayoutAnswer:
        error = self._parted(request, "apply")
        missing = self._parted(request, "assert")
        return LayoutAnswer(not missing, error or missing)

    def _parted(self, request: LayoutRequest, *command: str) -> str:
        """Run it; its last words where it failed."""
        path = self._folder / "mig-parted.yaml"
        argv: tuple[str | Path, ...] = (self._tools.mig_parted, *command, "-f", path, "-c", request.selected)
        try:
            path.unlink(missing_ok=True)
            if request.text is not None:
                write_atomic(path, request.text)
            done = self._living().run(argv, seconds=_SECONDS, environment=processes.own_mark())
        except (SandboxError, OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return "" if done.returncode == 0 else last_line(done.stdout + done.stderr) or NOT_APPLIED

    # ------------------------------------------------------------------ config-manager

    def configure(self, request: ConfigRequest) -> Configured | None:
        """See that config-manager runs in a pod; what it has made of its configuration."""
        pod = self._configs.get(request.program)
        if pod is None or pod.pod != request.pod:
            self.deconfigure(request.program)
            pod = self._configs[request.program] = ConfigPod(
                request,
                self._folder,
                ConfigManagers(self._tools.config_manager, self._tools.newest_config_manager, _older_config_manager),
                self._living,
                self._errands.submit,
                self._wake,
                heard=self._mps_signals if request.program == PROGRAM else None,
            )
        return pod.follow(request)

    def _config_pod(self, program: str, uid: str) -> ConfigPod | None:
        """The pod that a program shares with config-manager, if it does."""
        found = self._configs.get(program)
        return found if found is not None and found.pod == uid else None

    def deconfigure(self, program: str) -> None:
        """End it in the pod of a program."""
        if program == PROGRAM:
            # Before its pod: it has something to give back.
            self.stop_mps()
        pod = self._configs.pop(program, None)
        if pod is not None:
            self._errands.submit(pod.end)

    # ------------------------------------------------------------------ pods whose containers really run

    def run_pod(self, request: PodRequest) -> Outcome:
        """See that a pod runs; what has become of it."""
        run = self._pods.get(request.pod)
        if run is None:
            run = self._pods[request.pod] = PodRun(request, self._living_for_pods, self._folder, self._wake)
        run.want(request)
        return run.outcome

    def keep_pods(self, pods: frozenset[str]) -> None:
        """End what runs for any other pod."""
        for pod in set(self._pods) - pods:
            self._pods.pop(pod).end()

    def _living_for_pods(self) -> GpuHost:
        return self._errands.submit(self._living).result()

    # ------------------------------------------------------------------ the namespace and its thread

    def close(self) -> None:
        """End everything that runs here."""
        self._closed = True
        ending = list(self._pods.values())
        self.keep_pods(frozenset())
        self._errands.cancel()
        # What the thread waits for ends with the namespace.
        self._end_namespace()
        self._errands.close()
        self.dra.close()
        for pod in ending:
            pod.join()
        for config in self._configs.values():
            config.leave()
        self._end_namespace()

    def _end_namespace(self) -> None:
        if self._manager is not None:
            self._manager.close()
        if self._host is not None:
            self._host.close()
        # After the drivers: nobody waits for an answer of theirs.
        self.dra.end()

    def _living(self) -> GpuHost:
        """The namespace, made where it is not there (any more); by the machine's thread only."""
        if self._host is None or not self._host.lives:
            if self._closed:
                message = f"{self._folder.name}: the machine is gone"
                raise SandboxError(message, "")
            self._end_namespace()
            host = GpuHost(self._folder, self._tools.library)
            write_atomic(host.folder / "bin" / "nvidia-cuda-mps-control", _CONTROL, mode=0o755)
            # Containers bring a Python of their own; here there are no images.
            write_atomic(host.folder / "bin" / "python3", _PYTHON, mode=0o755)
            process_list.begin(self._folder)
            _link(host.folder / "bin" / _PLUGIN, self._tools.plugin)
            _link(host.folder / "bin" / PROGRAM, self._tools.mps_daemon)
            _link(host.folder / "bin" / SHELL, Path("/bin/sh"))
            self._manager = DeviceManager(host.outside(DEVICE_PLUGINS), self._wake)
            self.dra.begin(host)
            self._host = host
        return self._host


def _older_config_manager() -> Path:
    """Built when a node first needs it, as a kubelet pulls an image that is not there."""
    return find_built(OLDER_PLUGIN, Progress()) / "config-manager"


def _link(path: Path, target: Path) -> None:
    """Programs are known by the name that they are called by."""
    with explained(path, "write"):
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def _write_or_remove(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        write_atomic(path, text)


def _passed(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in _PASSED if environment.get(name)}
