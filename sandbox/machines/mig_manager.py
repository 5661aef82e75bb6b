"""Stand-in for nvidia-mig-manager: brings the GPUs of a node to the layout that its label names.

As the real one (mig-parted v0.15.0, cmd/nvidia-mig-manager and pkg/mig/reconfigure), its faults included:

- It reads the file when the label is set, and never again for the same label: an entry that comes later is not noticed.
- It stops its own clients only, by their deploy labels, and waits up to five minutes for each; it evicts nobody. Where a client
  does not go it gives up and leaves ``pending`` and the paused labels as they are. Where a pod uses a GPU the change fails.
- Once a change has succeeded, one that fails later does not bring the clients back: that is remembered for the whole life of the
  process, not for one change.
- A label that is taken away while a change is made is followed as a layout without a name: the file's only one, or it fails.
- Without its file it does not start; once it runs, a file that is gone is a change that fails.

Unlike it: five minutes are half a minute, and polls are quicker; there are no host services to stop, no reboots, no CDI
specification; a pod that asks for a GPU is taken to use it. Afterwards it asserts the layout: the mig-parted that runs here
reports success for a profile that the GPU lacks, where that of v0.15.0 fails. tests/sandbox/machines/test_mig_manager.py runs
against the real ones, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sandbox.machines import mig_parted, objects
from sandbox.machines.driver import app
from sandbox.machines.machine import MigRun
from sandbox.machines.node_programs import LayoutRequest
from sandbox.machines.outcomes import InitWaiting, Outcome, Up

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

CONFIG_LABEL = "nvidia.com/mig.config"
STATE_LABEL = "nvidia.com/mig.config.state"
PAUSED = "paused-for-mig-change"
#: How long it waits for each client: really 300 s.
PATIENCE_SECONDS: Final = 30.0
_MOUNT = "/mig-parted-config"
_DEPLOY = "nvidia.com/gpu.deploy."
#: Its clients' pods, in the order in which it waits for them, and how it names them.
_WAITED: Final = {
    "nvidia-device-plugin-daemonset": "device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-dcgm-exporter": "dcgm-exporter",
    "nvidia-dcgm": "dcgm",
}
#: The clients whose labels it sets whether they are there or not; those of third parties only where they are.
_CLIENTS: Final = (*_WAITED.values(), "nvsm")
_THIRD_PARTIES: Final = "client"
#: Pods of the validator's that it deletes before it applies a layout.
_VALIDATED: Final = ("nvidia-cuda-validator", "nvidia-device-plugin-validator")
_NO_FILE: Final = "Error: failed to setup MIG config: failed to read custom config {path}: stat {path}: no such file or directory"
_POLL_SECONDS = 0.3


class MigManagerPod:
    """nvidia-mig-manager."""

    def __init__(self, programs: NodePrograms) -> None:
        """Nothing is being changed."""
        self._programs = programs
        #: Node -> the client that it waits for, and since when.
        self._waits: dict[str, tuple[str, float]] = {}

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) == "nvidia-mig-manager"

    def evaluate(self, context: Context) -> Outcome:
        """Follow the label."""
        machine = context.machine
        if not machine.gpu_usable:
            return InitWaiting("toolkit-validation")
        container = _container(context)
        attempt = context.restarts.get(container, 0)
        if (machine.mig.pod, machine.mig.attempt) != (objects.uid(context.pod), attempt):
            if container in context.ended or _text(context) is None:
                return Up({container: _NO_FILE.format(path=f"{_MOUNT}/config.yaml")})
            # A new process looks at the label anew; an interrupted change is taken up from its beginning.
            machine.mig = MigRun(objects.uid(context.pod), attempt)
        run, label = machine.mig, objects.labels(context.node).get(CONFIG_LABEL, "")
        if run.target is None and ((label and label != run.label) or (run.ended and label != run.seen)):
            run.target = run.seen = label
            run.pausing = False
            run.deployed = {
                client: objects.labels(context.node).get(f"{_DEPLOY}{client}", "") for client in (*_CLIENTS, _THIRD_PARTIES)
            }
        run.label, run.ended = label, False
        if run.target is not None:
            self._continue(context, run.target)
        return Up()

    def absent(self, world: World, machine: Machine) -> None:
        """The GPUs stay as they are."""

    def _continue(self, context: Context, target: str) -> None:
        run = context.machine.mig
        if not run.pausing:
            self._begin(context, target)
        elif self._clients_are_gone(context):
            self._apply(context, target)

    def _begin(self, context: Context, target: str) -> None:
        """Look whether there is anything to do; if so, pause the clients."""
        machine = context.machine
        answer = self._programs.check_layout(machine, _request(context, target))
        if answer is None:
            return
        if answer.error or answer.holds:
            self._end(context, answer.error)
            return
        self._waits.pop(machine.node, None)
        context.world.label_node(machine.node, {STATE_LABEL: "pending"})
        context.world.label_node(machine.node, _deploy(machine.mig, PAUSED))
        machine.mig.pausing = True
        context.world.again_in(_POLL_SECONDS)

    def _clients_are_gone(self, context: Context) -> bool:
        """Wait for one client after the other; give up where one does not go."""
        machine, world = context.machine, context.world
        left = next((client for client in (*_WAITED, _THIRD_PARTIES) if _is_there(context, client)), None)
        if left is None:
            return True
        waits_for, since = self._waits.get(machine.node, ("", 0.0))
        if waits_for != left:
            since = world.now
            self._waits[machine.node] = (left, since)
        if world.now - since > PATIENCE_SECONDS:
            name = f"{_WAITED[left]} pod" if left in _WAITED else "third-party gpu client pods"
            machine.mig.message = f"failed to wait for pods to be deleted: {name} did not shutdown: context deadline exceeded"
            machine.mig.target, machine.mig.ended = None, True
        world.again_in(_POLL_SECONDS)
        return False

    def _apply(self, context: Context, target: str) -> None:
        machine, world = context.machine, context.world
        users = [pod for pod in world.pods_on(machine.node) if objects.requests_gpu(pod) and objects.phase(pod) == "Running"]
        if users:
            names = ", ".join(objects.name(pod) for pod in users)
            self._end(context, f"The following GPUs could not be reset: In use by another client ({names})")
            return
        _delete(context, *_VALIDATED)
        answer = self._programs.apply_layout(machine, _request(context, target))
        if answer is None:
            return
        if not answer.error:
            _delete(context, "nvidia-operator-validator")
            world.label_node(machine.node, _deploy(machine.mig, "true"))
            machine.mig.succeeded = True
        self._end(context, answer.error)

    @staticmethod
    def _end(context: Context, message: str) -> None:
        run = context.machine.mig
        if not run.succeeded:
            context.world.label_node(context.machine.node, _deploy(run, "true"))
        context.world.label_node(context.machine.node, {STATE_LABEL: "failed" if message else "success"})
        run.target, run.message, run.ended = None, message, True


def _is_there(context: Context, client: str) -> bool:
    """Whether pods of a client are on the node: by name in its own namespace, those of third parties by what they select."""
    pods = context.world.pods_on(context.machine.node)
    if client != _THIRD_PARTIES:
        where = objects.namespace(context.pod)
        return any(app(pod) == client and objects.namespace(pod) == where for pod in pods)
    return any(
        f"{_DEPLOY}{client}" in (pod["spec"].get("nodeSelector") or {}) for pod in pods if objects.owners(pod, "DaemonSet")
    )


def _deploy(run: MigRun, value: str) -> dict[str, str]:
    """The clients' deploy labels, but for those that somebody has set to false."""
    wanted = [client for client in run.deployed if client != _THIRD_PARTIES or run.deployed[client]]
    return {f"{_DEPLOY}{client}": value for client in wanted if run.deployed[client] != "false"}


def _delete(context: Context, *apps: str) -> None:
    """Delete the pods of these programs on the node, in its own namespace."""
    for pod in context.world.pods_on(context.machine.node):
        if app(pod) in apps and objects.namespace(pod) == objects.namespace(context.pod):
            context.world.delete_pod(pod)


def _request(context: Context, selected: str) -> LayoutRequest:
    """The run of mig-parted for a layout."""
    return LayoutRequest(objects.uid(context.pod), _text(context), selected)


def _text(context: Context) -> str | None:
    """Its file as its volume shows it now, or, where its variables name none, as it makes it for the GPUs; None without one."""
    if "CONFIG_FILE" not in objects.env(context.pod, _container(context)):
        model = context.machine.group.hardware.gpu_model
        return mig_parted.generated_config(model) if model else None
    config_map = objects.mounted_config_map(context.pod, _MOUNT) or ""
    data = (context.mounted.get(config_map) or {}).get("data") or {}
    text: str | None = data.get("config.yaml")
    return text


def _container(context: Context) -> str:
    return str(objects.containers(context.pod["spec"])[0]["name"])
