"""The real GPU operator, where this machine has one: it takes the place of the stand-in (gpu_operator).

It runs beside the daemon while a pod of it runs, with the pod's arguments and variables and as the pod's own service account: its
rights are tried. Its assets lie at the path that is written into it, in a mount namespace of its own. When it ends, the pod's
container has ended, and is started again as the kubelet says. Beside a real node the stand-in plays (sandbox.stack.real_nodes).

Left out: election of a leader, since there is one; its metrics and health probes, which would listen for everybody.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster.gpu_host import namespaces
from sandbox.machines import objects
from sandbox.machines.outcomes import Creating, Outcome, Up
from sandbox.machines.pod_request import variables
from sandbox.machines.world import LOG
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder, write_atomic
from sandbox.toolchain.gpu_operator import ASSETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_PROCESS: Final = "gpu-operator"
_NOT_PASSED: Final = ("leader-elect", "metrics-bind-address", "health-probe-bind-address")
_TOKEN_SECONDS: Final = 24 * 3600
_RENEWED_AFTER: Final = 0.8
# $1: an empty folder, $2: the assets, then the command. What is in /opt stays in it, as links; see gpu_host.
_OVER: Final = f"""
set -eu
stage=$1 assets=$2
shift 2
mount -t tmpfs -o mode=755 gpu-operator "$stage"
mkdir "$stage/.under"
mount --rbind {ASSETS.parent} "$stage/.under"
(cd "$stage" && ln -s .under/* .)
rm -f "$stage/{ASSETS.name}"
mkdir "$stage/{ASSETS.name}"
mount --bind "$assets" "$stage/{ASSETS.name}"
mount --no-mtab --move "$stage" {ASSETS.parent}
exec "$@"
"""


@dataclass
class _Run:
    """What it was started for.

    Attributes:
        pod: uid.
        attempt: how often its container was started again.
        renew: when its token is to be renewed (monotonic).
    """

    pod: str
    attempt: int
    renew: float


class RealOperator:
    """The operator's pods."""

    def __init__(self, folder: Path, found: Mapping[str, str]) -> None:
        """Take over nothing: a program left from an earlier daemon is stopped.

        Args:
            folder: the cluster's.
            found: what its record says of the program.
        """
        self._folder = folder
        self._program, self._assets = found["program"], found["assets"]
        self._run: _Run | None = None
        processes.stop(folder, [_PROCESS])

    def runs(self, pod: Json) -> bool:
        """By the chart's label."""
        return objects.labels(pod).get("app") == "gpu-operator"

    def evaluate(self, context: Context) -> Outcome:
        """Keep it running."""
        name = _container(context.pod)["name"]
        try:
            lives = self._keep(context.world, context.pod, context.restarts.get(name, 0))
        except SandboxError as error:
            return Creating("CreateContainerError", "Failed", f"Error: {error.message}")
        return Up() if lives else Up({name: processes.log_tail(self._folder, _PROCESS, 3)})

    def absent(self, world: World, machine: Machine) -> None:
        """Only the cluster's pods count; see `step`."""

    def step(self, world: World) -> None:
        """Stop it where it has no pod any more."""
        pods = {objects.uid(pod) for pod in world.pods if self.runs(pod) and not objects.deleted(pod)}
        if self._run is not None and self._run.pod not in pods:
            self.stop()

    def stop(self) -> None:
        """Stop it, together with the daemon or with its pod."""
        processes.stop(self._folder, [_PROCESS])
        self._run = None

    def _keep(self, world: World, pod: Json, attempt: int) -> bool:
        """Whether it runs for a pod; started where it has not been for this attempt."""
        uid = objects.uid(pod)
        if self._run is not None and self._run.pod != uid and _PROCESS in processes.running(self._folder):
            # Of several replicas one leads.
            return True
        if self._run is None or (self._run.pod, self._run.attempt) != (uid, attempt):
            self._start(world, pod, attempt)
        elif world.now >= self._run.renew:
            self._write_token(world, pod)
            self._run.renew = world.now + _TOKEN_SECONDS * _RENEWED_AFTER
        return _PROCESS in processes.running(self._folder)

    def _start(self, world: World, pod: Json, attempt: int) -> None:
        processes.stop(self._folder, [_PROCESS])
        container = _container(pod)
        self._write_account(world, pod)
        kept = [word for word in container.get("args") or [] if not word.lstrip("-").startswith(_NOT_PASSED)]
        argv = [self._program, *kept, "--metrics-bind-address=0", "--health-probe-bind-address=0"]
        environment = {
            **variables(pod, container, {}),
            "PATH": os.environ.get("PATH", os.defpath),
            "KUBECONFIG": str(self._place / "kubeconfig"),
            "NO_PROXY": "127.0.0.1,localhost",
        }
        self._run = _Run(objects.uid(pod), attempt, world.now + _TOKEN_SECONDS * _RENEWED_AFTER)
        processes.spawn(self._folder, _PROCESS, [*self._entering(), *argv], env=environment)
        LOG.info("the real GPU operator has been started for pod %s", objects.name(pod))

    def _entering(self) -> list[str]:
        """Runs what follows with its assets at their place."""
        if Path(self._assets) == ASSETS:
            return []
        kind = namespaces()
        if kind is None:
            message = f"the GPU operator finds its assets at {ASSETS} only, and no mount namespace can be made here"
            raise SandboxError(message, f"Put {self._assets} there.")
        return [*kind.only_mounts(), "sh", "-c", _OVER, _PROCESS, str(make_folder(self._place / "stage")), self._assets]

    @property
    def _place(self) -> Path:
        return self._folder / "machines" / _PROCESS

    def _write_account(self, world: World, pod: Json) -> None:
        """A kubeconfig of the pod's service account."""
        authority = self._folder / "pki" / "ca.crt"
        user: dict[str, Any] = {"tokenFile": str(self._place / "token")}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "clusters": [{"name": "pod", "cluster": {"server": world.api.server, "certificate-authority": str(authority)}}],
            "users": [{"name": "pod", "user": user}],
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        }
        make_folder(self._place)
        self._write_token(world, pod)
        write_atomic(self._place / "kubeconfig", json.dumps(document))

    def _write_token(self, world: World, pod: Json) -> None:
        reference = {"kind": "Pod", "apiVersion": "v1", "name": objects.name(pod), "uid": objects.uid(pod)}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": reference},
        }
        account = pod["spec"].get("serviceAccountName") or "default"
        path = f"/api/v1/namespaces/{objects.namespace(pod)}/serviceaccounts/{account}/token"
        write_atomic(self._place / "token", str(world.api.create(path, body)["status"]["token"]))


def _container(pod: Json) -> Json:
    """The one that it has."""
    return objects.containers(pod["spec"])[0]
