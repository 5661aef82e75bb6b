"""nfd-worker on the simulated machines: the real program, which looks at a machine and publishes what it finds.

It runs with its pod's arguments and variables, the configuration that the pod mounted as its container started, and as the pod's
own service account: its rights are tried. What it sees of a machine is in nfd_view.

A node's nfd-worker runs on and looks every 60 s. Here each look is a run of its own (``-oneshot``): when the container starts and
when something has changed that it looks at, at once, so that nobody waits a minute; and every 60 s, if its NodeFeature is another
one than at the last such look, since nothing else could give another result. A run that fails is the end of the container.
``-owner-refs``, of a later chart than this program, is left out: it says what the program does unless told otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.cluster.gpu_host import namespaces
from sandbox.machines import objects
from sandbox.machines.nfd import arguments, is_nfd, mounted
from sandbox.machines.nfd_view import View, entering, put, view
from sandbox.machines.outcomes import Creating, Outcome, Up
from sandbox.machines.pod_request import variables
from sandbox.machines.pod_volumes import PodVolumes
from sandbox.machines.program_logs import last_line
from sandbox.machines.world import LOG
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_CONFIG: Final = "nfd-worker.conf"
_INTERVAL_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.5
#: A look takes some 100 ms; only an API server that hangs makes it take long.
_LOOK_SECONDS: Final = 60.0
#: Ours, or unknown to the program.
_NOT_PASSED: Final = ("config", "kubeconfig", "oneshot", "owner-refs")


@dataclass(frozen=True)
class _Start:
    """What a container is started with.

    Attributes:
        attempt: how often it was started again.
        config: the configuration as it was mounted then.
    """

    attempt: int
    config: str


@dataclass
class _Worker:
    """The worker of one pod.

    Attributes:
        folder: its own; goes with the pod.
        start: of its container.
        seen: what the machine was at the last look.
        due: when to look at the NodeFeature (monotonic).
        version: of the NodeFeature, at the last such look.
        look: the last look; empty where it went well, else its last words.
        published: whether one went well since the container was started.
        process: the program, while it runs.
        ended: nobody wants it any more.
    """

    folder: Path
    start: _Start
    seen: View | None = None
    due: float = 0.0
    version: str = ""
    look: Future[str] | None = None
    published: bool = False
    process: subprocess.Popen[str] | None = None
    ended: bool = False

    def end(self) -> None:
        """End what runs of it."""
        self.ended = True
        if self.look is not None:
            self.look.cancel()
        if self.process is not None:
            self.process.kill()


class NfdWorkerPod:
    """nfd-worker: one NodeFeature per node."""

    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        """Nothing runs.

        Args:
            folder: the cluster's.
            wake: called, by any thread, when a look is over.
        """
        self._folder, self._wake = folder, wake
        #: Where whoever booted the cluster has found it.
        self._program = str((read_json(folder / "cluster.json").get("tools") or {}).get("nfd_worker", ""))
        self._volumes = PodVolumes()
        #: Node -> pod -> its worker: one, where nobody has installed two NFDs.
        self._workers: dict[str, dict[str, _Worker]] = {}
        self._pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="nfd-worker")

    def runs(self, pod: Json) -> bool:
        """By command or label."""
        return is_nfd(pod, "worker")

    def evaluate(self, context: Context) -> Outcome:
        """See that it looks when it has to; what has become of it."""
        if not self._program:
            return Creating("ErrImagePull", "Failed", "nfd-worker is not there: bring the stack up again")
        worker = self._worker(context)
        name = objects.containers(context.pod["spec"])[0]["name"]
        if worker.look is not None and not worker.look.done():
            return self._up(context, worker, name)
        if worker.look is not None and (words := worker.look.result()):
            if worker.start.attempt == _attempt(context):
                return Up({name: words})
            worker.published = False
        try:
            self._look(context, worker)
        except SandboxError as error:
            context.world.again_in(_RETRY_SECONDS)
            return Creating("CreateContainerConfigError", "Failed", f"Error: {error.message}")
        return self._up(context, worker, name)

    def absent(self, world: World, machine: Machine) -> None:
        """End it; the NodeFeature goes with its owners."""
        del world
        for worker in self._workers.pop(machine.node, {}).values():
            self._end(worker)

    def stop(self) -> None:
        """End everything together with the daemon."""
        for workers in self._workers.values():
            for worker in workers.values():
                worker.end()
        self._pool.shutdown(cancel_futures=True)

    def _worker(self, context: Context) -> _Worker:
        node, pod = context.machine.node, objects.uid(context.pod)
        mine = self._workers.setdefault(node, {})
        for gone in mine.keys() - {objects.uid(one) for one in context.world.pods_on(node)}:
            self._end(mine.pop(gone))
        if pod not in mine:
            folder = self._folder / "machines" / node / "pods" / f"{pod}-nfd-worker"
            mine[pod] = _Worker(folder, _started(context))
        return mine[pod]

    def _end(self, worker: _Worker) -> None:
        worker.end()
        self._pool.submit(_clear, worker)

    def _look(self, context: Context, worker: _Worker) -> None:
        """Begin a look where there is a reason."""
        seen = view(context.machine)
        changed = worker.look is None or seen != worker.seen
        if worker.start.attempt != _attempt(context):
            worker.start, changed = _started(context), True
        context.world.again_in(_INTERVAL_SECONDS)
        if context.world.now >= worker.due:
            worker.due = context.world.now + _INTERVAL_SECONDS
            before, worker.version = worker.version, _version(context)
            changed = changed or worker.version != before
        if not changed:
            return
        worker.seen = seen
        files = {**seen.files(), _CONFIG: worker.start.config, **self._account(context)}
        kept = [word for word in arguments(context.pod) if not word.lstrip("-").startswith(_NOT_PASSED)]
        argv = [self._program, *kept, "-oneshot", f"-config={_CONFIG}", "-kubeconfig=kubeconfig"]
        environment = {
            **variables(context.pod, objects.containers(context.pod["spec"])[0], {}),
            "KUBERNETES_NAMESPACE": objects.namespace(context.pod),
            "PATH": os.environ.get("PATH", ""),
            "NO_PROXY": "127.0.0.1,localhost",
            **processes.own_mark(),
        }
        worker.look = self._pool.submit(_run, worker, files, argv, environment)
        worker.look.add_done_callback(lambda _: self._wake())

    def _account(self, context: Context) -> dict[str, str]:
        """A kubeconfig of the pod's service account, and what it names; without a token where none is mounted."""
        account = [volume for volume in context.pod["spec"].get("volumes") or [] if volume["name"].startswith("kube-api-access")]
        files = {name: text.decode() for volume in account for name, text in self._volumes.files(context, volume).items()}
        cluster = {"server": context.world.api.server, "certificate-authority": "ca.crt"}
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "clusters": [{"name": "pod", "cluster": cluster}],
            "users": [{"name": "pod", "user": {"tokenFile": "token"} if "token" in files else {}}],
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        }
        return {"namespace": objects.namespace(context.pod), **files, "kubeconfig": json.dumps(kubeconfig)}

    @staticmethod
    def _up(context: Context, worker: _Worker, name: str) -> Outcome:
        """It is ready once a look went well; one that was ready before this daemon stays so."""
        if worker.look is not None and worker.look.done() and not worker.look.result():
            worker.published = True
        ready = worker.published or objects.condition(context.pod, "Ready").get("status") == "True"
        return Up(unready=frozenset() if ready else frozenset({name}))


def _attempt(context: Context) -> int:
    return sum(context.restarts.values())


def _started(context: Context) -> _Start:
    """As the real one, it reads an edited configuration only when it starts."""
    return _Start(_attempt(context), mounted(context, _CONFIG))


def _version(context: Context) -> str:
    """Which NodeFeature of the node there is; empty without one."""
    key = f"{objects.namespace(context.pod)}/{context.machine.node}"
    known = context.world.store.by_name("nodefeatures").get(key)
    return str(known["metadata"]["resourceVersion"]) if known else ""


def _run(worker: _Worker, files: Mapping[str, str], argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Let it look once; its last words where it failed."""
    try:
        put(worker.folder, files)
        with subprocess.Popen(
            [*entering(namespaces()), *argv],
            cwd=worker.folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        ) as process:
            worker.process = process
            if worker.ended:
                process.kill()
            try:
                said, _ = process.communicate(timeout=_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"took longer than {_LOOK_SECONDS:g} s"
    except (SandboxError, OSError) as error:
        return str(error)
    if process.returncode == 0:
        return ""
    LOG.info("%s: %s", worker.folder.name, said)
    return last_line(said) or f"ended with {process.returncode}"


def _clear(worker: _Worker) -> None:
    """Remove what it had, once it has ended: what was asked of the pool before has begun before."""
    wait([worker.look] if worker.look is not None else [])
    shutil.rmtree(worker.folder, ignore_errors=True)
