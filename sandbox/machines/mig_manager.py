"""Stand-in for nvidia-mig-manager: brings the GPUs of a node to the layout that its label names.

The order of the real one (mig-parted pkg/mig/reconfigure): read and validate, nothing to do if it holds already, else
state ``pending``, pause the GPU clients by their deploy labels, wait until their pods are gone, apply, restart the clients
and the validator, and report. As the real one it never evicts other pods: where one uses a GPU, the change fails; and
where the clients do not go within five minutes it gives up and leaves ``pending``. Afterwards it asserts the layout, which
only older versions did, so that a profile that the card lacks ends as ``failed``. There are no host services to stop and
no reboots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
_MOUNT = "/mig-parted-config"
_DEPLOY = "nvidia.com/gpu.deploy."
_CLIENTS = {
    "nvidia-device-plugin-daemonset": "device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-dcgm-exporter": "dcgm-exporter",
    "nvidia-dcgm": "dcgm",
}
_PATIENCE_SECONDS = 300.0
_POLL_SECONDS = 0.3


class MigManagerPod:
    """nvidia-mig-manager."""

    def __init__(self, programs: NodePrograms) -> None:
        """Nothing is being changed."""
        self._programs = programs
        self._since: dict[str, float] = {}

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) == "nvidia-mig-manager"

    def evaluate(self, context: Context) -> Outcome:
        """Follow the label."""
        machine = context.machine
        if not machine.gpu_usable:
            return InitWaiting("toolkit-validation")
        if machine.mig.pod != objects.uid(context.pod):
            # A new pod looks at the label anew; an interrupted change is taken up from its beginning.
            machine.mig = MigRun(objects.uid(context.pod))
        wanted = objects.labels(context.node).get(CONFIG_LABEL, "")
        if machine.mig.target is None and wanted and wanted != machine.mig.seen:
            self._begin(context, wanted)
        if machine.mig.target is not None:
            self._continue(context, machine.mig.target)
        return Up()

    def absent(self, world: World, machine: Machine) -> None:
        """The GPUs stay as they are."""

    def _begin(self, context: Context, wanted: str) -> None:
        machine = context.machine
        answer = self._programs.check_layout(machine, _request(context, wanted))
        if answer is None:
            return
        if answer.error:
            self._end(context, wanted, answer.error)
            return
        if answer.holds:
            self._end(context, wanted, "", restart=objects.labels(context.node).get(STATE_LABEL) == "pending")
            return
        machine.mig.target = wanted
        self._since[machine.node] = context.world.now
        context.world.label_node(machine.node, {STATE_LABEL: "pending", **_deploy(context.node, PAUSED)})
        context.world.again_in(_POLL_SECONDS)

    def _continue(self, context: Context, target: str) -> None:
        machine, world = context.machine, context.world
        if any(app(pod) in _CLIENTS for pod in world.pods_on(machine.node)):
            if world.now - self._since.setdefault(machine.node, world.now) > _PATIENCE_SECONDS:
                machine.mig = MigRun(machine.mig.pod, target, None, "failed to wait for pods to be deleted: timed out")
            world.again_in(_POLL_SECONDS)
            return
        users = [pod for pod in world.pods_on(machine.node) if objects.requests_gpu(pod) and objects.phase(pod) == "Running"]
        if users:
            names = ", ".join(objects.name(pod) for pod in users)
            self._end(context, target, f"The following GPUs could not be reset: In use by another client ({names})", restart=True)
            return
        answer = self._programs.apply_layout(machine, _request(context, target))
        if answer is None:
            return
        for pod in world.pods_on(machine.node):
            if app(pod) == "nvidia-operator-validator":
                world.delete_pod(pod)
        self._end(context, target, answer.error, restart=True)

    def _end(self, context: Context, wanted: str, message: str, *, restart: bool = False) -> None:
        context.machine.mig = MigRun(context.machine.mig.pod, wanted, None, message)
        labels = {STATE_LABEL: "failed" if message else "success"}
        context.world.label_node(context.machine.node, {**labels, **(_deploy(context.node, "true") if restart else {})})


def _deploy(node: Json, value: str) -> dict[str, str]:
    """The clients' deploy labels, but for those that somebody has set to false."""
    known = objects.labels(node)
    return {f"{_DEPLOY}{client}": value for client in _CLIENTS.values() if known.get(f"{_DEPLOY}{client}") != "false"}


def _request(context: Context, selected: str) -> LayoutRequest:
    """The run of mig-parted for a layout."""
    pod = objects.uid(context.pod)
    config_map = objects.mounted_config_map(context.pod, _MOUNT)
    if config_map is None:
        model = context.machine.group.hardware.gpu_model
        return LayoutRequest(pod, mig_parted.generated_config(model) if model else None, selected)
    data = context.world.config_maps.get(f"{objects.namespace(context.pod)}/{config_map}", {}).get("data") or {}
    return LayoutRequest(pod, data.get("config.yaml"), selected)
