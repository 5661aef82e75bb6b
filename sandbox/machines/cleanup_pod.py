"""The pods of hooks that take from the nodes what was done to them: their programs really run, since what they leave counts.

They run beside the daemon, on no machine: they ask the API server only. What the pod names is what runs (the text after ``-c``
and its arguments), as the pod's own service account, so that its rights are tried. Image, limits and security context say nothing
here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpu_pools.rendering import node_cleanup, node_leaving
from sandbox.machines import objects
from sandbox.machines.outcomes import Creating, Finished, Outcome, Up
from sandbox.system import processes
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_ROOT_CA = "kube-root-ca.crt"
_POLL_SECONDS = 0.2
_TOKEN_SECONDS = 600
_MOST_WORDS = 2048


@dataclass(frozen=True)
class _Run:
    folder: Path
    process: subprocess.Popen[bytes]


class CleanupPod:
    """gpu-pools-node-cleanup, gpu-pools-leave."""

    def __init__(self, folder: Path) -> None:
        """Nothing runs.

        Args:
            folder: the cluster's.
        """
        self._folder = folder
        self._runs: dict[str, _Run] = {}

    def runs(self, pod: Json) -> bool:
        """By label."""
        return objects.labels(pod).get("app.kubernetes.io/name") in {node_cleanup.NAME, node_leaving.NAME}

    def evaluate(self, context: Context) -> Outcome:
        """Run it once, and say how it has ended."""
        uid = objects.uid(context.pod)
        run = self._runs.get(uid)
        if run is None:
            authority = context.world.config_maps.get(f"{objects.namespace(context.pod)}/{_ROOT_CA}")
            if authority is None:
                context.world.again_in(_POLL_SECONDS)
                return Creating("ContainerCreating", "FailedMount", f'configmap "{_ROOT_CA}" not found')
            run = self._runs[uid] = self._start(context, authority["data"]["ca.crt"])
        code = run.process.poll()
        if code is None:
            context.world.again_in(_POLL_SECONDS)
            return Up()
        words = (run.folder / "log").read_text(encoding="utf-8", errors="replace")[-_MOST_WORDS:]
        return Finished() if code == 0 else Finished("Error", words, code)

    def absent(self, world: World, machine: Machine) -> None:
        """It is on one machine at most; what has ended is forgotten with its pod."""
        del machine
        present = {objects.uid(pod) for pod in world.pods}
        for uid in set(self._runs) - present:
            self._end(self._runs.pop(uid))

    def stop(self) -> None:
        """End what runs together with the daemon."""
        while self._runs:
            self._end(self._runs.popitem()[1])

    @staticmethod
    def _end(run: _Run) -> None:
        run.process.kill()
        run.process.wait()
        shutil.rmtree(run.folder, ignore_errors=True)

    def _start(self, context: Context, authority: str) -> _Run:
        pod = context.pod
        folder = make_folder(self._folder / "machines" / f"cleanup-{objects.uid(pod)}")
        where = f"/api/v1/namespaces/{objects.namespace(pod)}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _TOKEN_SECONDS}}
        write_atomic(folder / "token", str(context.world.api.create(where, wanted)["status"]["token"]))
        write_atomic(folder / "ca.crt", authority)
        server = urlsplit(context.world.api.server)
        command = objects.containers(pod["spec"])[0]["command"]
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "ACCOUNT_FOLDER": str(folder),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            **processes.own_mark(),
        }
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([sys.executable, *command[1:]], env=environment, stdout=log, stderr=log)
        return _Run(folder, process)
