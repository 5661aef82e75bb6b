"""The verifier's pods: their containers really run here, since what they say is what a deploy waits for.

Nothing in here knows what a verifier does. It gathers what the pod's volumes hold and tells the machine to run it. Where rules
stand in for the programs of the nodes there is no NVML to ask: the pod is then shown as running like any other, and proves
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.outcomes import VERIFIER_APP, Creating, Outcome, Up
from sandbox.machines.pod_request import pod_request
from sandbox.machines.pod_volumes import PodVolumes, service_variables
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World


class VerifierPod:
    """gpu-pools-verifier-<pool>."""

    def __init__(self, programs: NodePrograms) -> None:
        """Know who runs programs on the machines."""
        self._programs = programs
        self._volumes = PodVolumes()

    def runs(self, pod: Json) -> bool:
        """By label."""
        return objects.labels(pod).get("app.kubernetes.io/name") == VERIFIER_APP

    def evaluate(self, context: Context) -> Outcome:
        """See that it runs."""
        mine = [pod for pod in context.world.pods_on(context.machine.node) if self.runs(pod) and not objects.deleted(pod)]
        self._programs.keep_pods(context.machine, frozenset(map(objects.uid, mine)))
        try:
            volumes = {
                volume["name"]: self._volumes.files(context, volume)
                for volume in context.pod["spec"].get("volumes") or []
                if "hostPath" not in volume
            }
            attempt = sum(context.restarts.values())
            request = pod_request(context.pod, attempt, volumes, service_variables(context.world.api.server))
        except SandboxError as error:
            return Creating("CreateContainerConfigError", "Failed", f"Error: {error.message}")
        return self._programs.run_pod(context.machine, request) or Up()

    def absent(self, world: World, machine: Machine) -> None:
        """What ran for it ends."""
        del world
        self._programs.keep_pods(machine, frozenset())
