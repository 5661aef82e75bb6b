"""The pods of NVIDIA's DRA driver: a container that runs gpu-kubelet-plugin is the real program, as long as its pod lives.

Such a container is in the DaemonSet of the driver's chart, and in any other DaemonSet that has the same container with other
variables. It is known by its command, not by a name. As on a real node

- the init container waits until the NVIDIA driver is at NVIDIA_DRIVER_ROOT: where the operator's driver container puts it, or
  at the root of a machine whose image brings it. Nothing of its script (kubelet-plugin-prestart.sh) runs; a pod without it
  starts at once, and the program says by itself that it finds no driver;
- the container counts as started once its startup probe would pass, that is once the driver has registered and answers;
- the claims of other pods stay prepared when the driver's pod ends.

Only the variables that the program decides by reach it. Its ports for metrics and health are left out (dra_node). Refused in
words are other folders than a kubelet's usual ones, and the gate PassthroughSupport, by which the program would change devices
of the machine that all this runs on. The chart's other program, compute-domain-kubelet-plugin, is not here: its container ends
and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sandbox.machines import objects
from sandbox.machines.device_plugin import Crash
from sandbox.machines.dra_node import PROGRAM
from sandbox.machines.node_programs import DraDriverRequest
from sandbox.machines.outcomes import Creating, InitWaiting, Outcome, Up
from sandbox.machines.pod_request import variables
from sandbox.machines.pod_volumes import PodVolumes
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.machine import Machine
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_COMPUTE_DOMAINS: Final = "compute-domain-kubelet-plugin"
_NO_COMPUTE_DOMAINS: Final = (
    "the sandbox has no compute-domain-kubelet-plugin: set the chart's value resources.computeDomains.enabled to false"
)
#: The volume that the API server adds to pods for their service account.
_ACCOUNT: Final = "kube-api-access"
_DRIVER_ROOT: Final = "NVIDIA_DRIVER_ROOT"
#: Where the operator's driver container puts the driver, and an image that brings one.
_OF_OPERATOR, _OF_IMAGE = "/run/nvidia/driver", "/"
#: What of the container's variables the program decides by.
_PASSED: Final = (
    *("NODE_NAME", "NAMESPACE", "IMAGE_NAME", "IMAGE_PULL_SECRETS", "IMAGE_PULL_POLICY", "SERVICE_ACCOUNT_NAME"),
    *(_DRIVER_ROOT, "NVIDIA_CDI_HOOK_PATH", "ADDITIONAL_XIDS_TO_IGNORE", "CONSUMABLE_SHARES", "FEATURE_GATES"),
)
#: Variable -> the values that a simulated node has; none is as good.
_FOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "KUBELET_REGISTRAR_DIRECTORY_PATH": ("/var/lib/kubelet/plugins_registry",),
    "KUBELET_PLUGINS_DIRECTORY_PATH": ("/var/lib/kubelet/plugins",),
    "CDI_ROOT": ("/var/run/cdi", "/run/cdi"),
}
_PASSTHROUGH: Final = "PassthroughSupport=true"
_VERBOSITY: Final = "LOG_VERBOSITY"


class DraDriverPod:
    """dra-driver-nvidia-gpu-kubelet-plugin, and its like."""

    def __init__(self, programs: NodePrograms) -> None:
        """Know who runs programs on the machines."""
        self._programs = programs
        self._volumes = PodVolumes()

    def runs(self, pod: Json) -> bool:
        """By the command of a container."""
        return _container(pod) is not None

    def evaluate(self, context: Context) -> Outcome:
        """See that it runs."""
        mine = [pod for pod in context.world.pods_on(context.machine.node) if self.runs(pod) and not objects.deleted(pod)]
        self._programs.keep_dra_drivers(context.machine, frozenset(map(objects.uid, mine)))
        container = _container(context.pod) or {}
        try:
            environment = variables(context.pod, container, {})
            _check_folders(environment)
            request = self._request(context, container, environment)
        except SandboxError as error:
            return Creating("CreateContainerConfigError", "Failed", f"Error: {error.message}")
        inits = objects.containers(context.pod["spec"], init=True)
        if inits and not request.has_driver:
            return InitWaiting(inits[0]["name"])
        answer = self._programs.serve_claims(context.machine, request)
        if answer is None:
            return InitWaiting(inits[0]["name"]) if inits else Creating("ContainerCreating", "", "")
        crashed = dict.fromkeys(_compute_domains(context.pod), _NO_COMPUTE_DOMAINS)
        if isinstance(answer, Crash):
            name = container["name"]
            return Up({**crashed, name: answer.message}, {name: answer.code})
        probed = bool(container.get("startupProbe")) and not answer.registered
        return Up(crashed, unready=frozenset({container["name"]} if probed else ()))

    def absent(self, world: World, machine: Machine) -> None:
        """What ran for it ends."""
        del world
        self._programs.keep_dra_drivers(machine, frozenset())

    def _request(self, context: Context, container: Json, environment: Mapping[str, str]) -> DraDriverRequest:
        volumes = [volume for volume in context.pod["spec"].get("volumes") or [] if volume["name"].startswith(_ACCOUNT)]
        return DraDriverRequest(
            pod=objects.uid(context.pod),
            attempt=context.restarts.get(container["name"], 0),
            verbosity=environment.get(_VERBOSITY) or "0",
            environment={name: environment[name] for name in _PASSED if environment.get(name)},
            has_driver=_has_driver(context.machine, environment.get(_DRIVER_ROOT, "")),
            server=context.world.api.server,
            account={name: text for volume in volumes for name, text in self._volumes.files(context, volume).items()},
        )


def _container(pod: Json) -> Json | None:
    return next((one for one in objects.containers(pod["spec"]) if _runs(one, PROGRAM)), None)


def _compute_domains(pod: Json) -> list[str]:
    return [one["name"] for one in objects.containers(pod["spec"]) if _runs(one, _COMPUTE_DOMAINS)]


def _runs(container: dict[str, Any], program: str) -> bool:
    """Whether a container runs a program: as its command, or as the last line of a script that is its last argument."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    lines = words[-1].strip().splitlines() if words else []
    first = [text.split()[0] for text in (words[0] if words else "", lines[-1] if lines else "") if text.split()]
    return any(word.rpartition("/")[2] == program for word in first)


def _has_driver(machine: Machine, root: str) -> bool:
    """Whether the NVIDIA driver is loaded, and its files are below a folder of the node."""
    place = _OF_IMAGE if machine.group.driver_preinstalled else _OF_OPERATOR
    return machine.driver is not None and (root.rstrip("/") or "/") == place


def _check_folders(environment: Mapping[str, str]) -> None:
    """Refuse what a simulated node does not have.

    Raises:
        SandboxError: with what that is.
    """
    for name, known in _FOLDERS.items():
        value = environment.get(name, "")
        if value and value.rstrip("/") not in known:
            message = f"not understood: {name}={value} (only {' or '.join(known)})"
            raise SandboxError(message, "Leave it as the driver's chart has it.")
    if _PASSTHROUGH in environment.get("FEATURE_GATES", "").replace(" ", "").split(","):
        message = f"not understood: the gate {_PASSTHROUGH}, which changes devices of the machine"
        raise SandboxError(message, "Leave it out.")
