"""NFD on the simulated machines: the real nfd-master. nfd-worker is in nfd_worker, nfd-gc in nfd_gc.

It runs beside the daemon as long as a pod of it runs, with the pod's arguments and its mounted configuration, but as the
cluster's administrator (RBAC of its service account is not tried), without its health and metrics server, and without leader
election: of several replicas one runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.outcomes import Creating, Finished, Outcome, Up
from sandbox.machines.world import LOG
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json, write_atomic

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

NFD_MASTER_VARIABLE = "GPU_POOLS_NFD_MASTER"
_PROCESS = "nfd-master"
_MASTER_CONFIG = "nfd-master.conf"


def is_nfd(pod: Json, role: str) -> bool:
    """Whether a pod runs nfd-<role>, by its command or by the chart's label."""
    return f"nfd-{role}" in objects.program(pod) or (
        objects.labels(pod).get("app.kubernetes.io/name") == "node-feature-discovery" and objects.labels(pod).get("role") == role
    )


@dataclass(frozen=True)
class _Run:
    """What nfd-master was started for."""

    pod: str
    config: str
    attempt: int


class NfdMasterPod:
    """nfd-master: starts and stops the real program; also runs it once for the chart's prune job."""

    def __init__(self, folder: Path) -> None:
        """Take over nothing: a program left from an earlier daemon is stopped."""
        self._folder = folder
        self._run: _Run | None = None
        self._prunes: dict[str, subprocess.Popen[bytes]] = {}
        processes.stop(folder, [_PROCESS])

    def runs(self, pod: Json) -> bool:
        """By command or label."""
        return is_nfd(pod, "master")

    def evaluate(self, context: Context) -> Outcome:
        """Keep the program running."""
        program = _find_program(self._folder)
        if program is None:
            return Creating("ErrImagePull", "Failed", f"nfd-master is not there: set {NFD_MASTER_VARIABLE} to the program")
        if "-prune" in arguments(context.pod):
            return self._prune(context, program)
        run = _Run(objects.uid(context.pod), mounted(context, _MASTER_CONFIG), sum(context.restarts.values()))
        if self._run is not None and self._run.pod != run.pod and self._owner_lives(context):
            return Up()
        # As the real one, it reads an edited configuration only when it starts.
        if self._run is None or (self._run.pod, self._run.attempt) != (run.pod, run.attempt):
            self._start(context, program, run)
        if _PROCESS in processes.running(self._folder):
            return Up()
        return Up({objects.containers(context.pod["spec"])[0]["name"]: processes.log_tail(self._folder, _PROCESS, 5)})

    def absent(self, world: World, machine: Machine) -> None:
        """Only the pod of this machine counts; see stop_orphan."""

    def stop_orphan(self, world: World) -> None:
        """Stop the program when no machine has a pod of it."""
        live = {objects.uid(pod) for pod in world.pods if self.runs(pod) and objects.running(pod)}
        if self._run is not None and self._run.pod not in live:
            processes.stop(self._folder, [_PROCESS])
            self._run = None
            world.moved = True

    def stop(self) -> None:
        """Stop the program together with the daemon."""
        processes.stop(self._folder, [_PROCESS])

    def _owner_lives(self, context: Context) -> bool:
        return any(
            self._run is not None and objects.uid(pod) == self._run.pod and objects.running(pod) for pod in context.world.pods
        )

    def _start(self, context: Context, program: Path, run: _Run) -> None:
        processes.stop(self._folder, [_PROCESS])
        config = self._folder / "machines" / _MASTER_CONFIG
        write_atomic(config, run.config)
        kept = [
            item
            for item in arguments(context.pod)
            if not item.lstrip("-").startswith(("enable-leader-election", "port", "config", "kubeconfig"))
        ]
        # Its health and metrics server would listen on every address; with a port that cannot be it goes on without one.
        argv = [str(program), *kept, "-port=-1", f"-config={config}", f"-kubeconfig={self._folder / 'kubeconfig'}"]
        try:
            processes.spawn(self._folder, _PROCESS, argv, env=self._environment(context))
            LOG.info("nfd-master started for pod %s", objects.name(context.pod))
        except SandboxError as error:
            LOG.warning("nfd-master: %s", error.message)
        self._run = run

    def _prune(self, context: Context, program: Path) -> Outcome:
        pod = objects.uid(context.pod)
        if pod not in self._prunes:
            argv = [str(program), *arguments(context.pod), f"-kubeconfig={self._folder / 'kubeconfig'}", "-config="]
            self._prunes[pod] = subprocess.Popen(
                argv, env=self._environment(context), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        code = self._prunes[pod].poll()
        if code is None:
            context.world.again_in(0.2)
            return Up()
        return Finished() if code == 0 else Finished("Error", f"nfd-master -prune exited with {code}", code)

    @staticmethod
    def _environment(context: Context) -> dict[str, str]:
        own = {
            "NODE_NAME": context.machine.node,
            "KUBERNETES_NAMESPACE": objects.namespace(context.pod),
            "NO_PROXY": "127.0.0.1,localhost",
        }
        return {**os.environ, **own}


def mounted(context: Context, key: str) -> str:
    """The content of a mounted configuration file, empty without one."""
    for source in objects.config_map_volumes(context.pod).values():
        data = (context.mounted.get(source["name"]) or {}).get("data") or {}
        if key in data:
            return str(data[key])
    return ""


def arguments(pod: Json) -> list[str]:
    """The arguments of a pod's first container."""
    container = objects.containers(pod["spec"])[0]
    return [*(container.get("command") or [])[1:], *(container.get("args") or [])]


def _find_program(folder: Path) -> Path | None:
    """The program: where the environment says, where the cluster's boot found it, or on PATH."""
    booted = (read_json(folder / "cluster.json").get("tools") or {}).get("nfd_master")
    for candidate in (os.environ.get(NFD_MASTER_VARIABLE), booted, shutil.which("nfd-master")):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    return None
