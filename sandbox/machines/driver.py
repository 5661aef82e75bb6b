"""Stand-ins for the GPU operator's driver and container toolkit pods, and its validator.

The driver pod "loads" the driver at once, where the real one compiles and loads kernel modules for minutes and evicts GPU
pods before an upgrade; on an image that brings a driver it fails as reported from AKS. The toolkit pod gives the container
runtime its ``nvidia`` handler without a restart of containerd. The validator waits for the same things as the real one
but runs no CUDA workload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.gfd import Driver
from sandbox.machines.outcomes import InitWaiting, Outcome, Up

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

IN_USE = "Could not unload NVIDIA driver kernel modules, driver is in use"
# Driver branch -> CUDA version, from the CUDA release notes; newer branches show the newest known one.
_CUDA = {"535": "12.2", "550": "12.4", "560": "12.6", "565": "12.7", "570": "12.8", "575": "12.9", "580": "13.0", "590": "13.1"}
_NEWEST_CUDA = "13.2"


def app(pod: Json) -> str:
    """The label by which the operator's pods are known."""
    return objects.labels(pod).get("app", "")


class DriverPod:
    """nvidia-driver-daemonset."""

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) == "nvidia-driver-daemonset"

    def evaluate(self, context: Context) -> Outcome:
        """Load the driver, or fail on one that is in use."""
        machine = context.machine
        if machine.group.driver_preinstalled:
            return Up({"nvidia-driver-ctr": IN_USE})
        image = objects.containers(context.pod["spec"])[0].get("image", "")
        version = image.rpartition(":")[2].partition("-")[0]
        if machine.group.hardware.gpus and (machine.driver is None or machine.driver.version != version):
            machine.driver = Driver(version, _CUDA.get(version.partition(".")[0], _NEWEST_CUDA))
        return Up()

    def absent(self, world: World, machine: Machine) -> None:
        """A driver container that ends takes its kernel modules along."""
        del world
        if not machine.group.driver_preinstalled:
            machine.driver = None


class ToolkitPod:
    """nvidia-container-toolkit-daemonset."""

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) == "nvidia-container-toolkit-daemonset"

    def evaluate(self, context: Context) -> Outcome:
        """Configure the runtime once there is a driver."""
        context.machine.toolkit = context.machine.driver is not None
        return Up() if context.machine.toolkit else InitWaiting("driver-validation")

    def absent(self, world: World, machine: Machine) -> None:
        """The toolkit takes its configuration along."""
        del world
        machine.toolkit = False


class ValidatorPod:
    """nvidia-operator-validator."""

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) == "nvidia-operator-validator"

    def evaluate(self, context: Context) -> Outcome:
        """Pass the validations in order, as nvidia-validator does it (cmd/nvidia-validator/main.go of v26.7.0).

        The last one looks for any GPU resource in the node's capacity, in whatever number, unless its variable COMPONENT has it
        check something that was checked before. The toolkit's check runs nvidia-smi, which the container gets only with the
        GPUs: its image has NVIDIA_VISIBLE_DEVICES=void (docker/Dockerfile).
        """
        machine = context.machine
        if machine.driver is None:
            return InitWaiting("driver-validation")
        if not machine.gpu_usable:
            return InitWaiting("toolkit-validation")
        last = _last_variables(context.pod)
        component = last.get("COMPONENT", "plugin")
        if component == "toolkit" and last.get("NVIDIA_VISIBLE_DEVICES", "void") == "void":
            return InitWaiting("plugin-validation")
        if component != "plugin":
            return Up()
        capacity = context.node.get("status", {}).get("capacity", {})
        counts = {**capacity, **machine.advertised}
        offered = any(int(count) for name, count in counts.items() if name.startswith(("nvidia.com/gpu", "nvidia.com/mig-")))
        return Up() if offered or objects.running(context.pod) else InitWaiting("plugin-validation")

    def absent(self, world: World, machine: Machine) -> None:
        """It leaves nothing on the machine."""


def _last_variables(pod: Json) -> dict[str, str]:
    """Return the variables of the container that checks the device plugin."""
    inits = pod["spec"].get("initContainers", [])
    variables: list[Json] = next((one.get("env", []) for one in inits if one["name"] == "plugin-validation"), [])
    return {one["name"]: str(one.get("value", "")) for one in variables}


class GpuClientPod:
    """Operands that only need a usable GPU: nvidia-dcgm and nvidia-dcgm-exporter."""

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) in {"nvidia-dcgm", "nvidia-dcgm-exporter"}

    def evaluate(self, context: Context) -> Outcome:
        """Wait for the toolkit, then run."""
        return Up() if context.machine.gpu_usable else InitWaiting("toolkit-validation")

    def absent(self, world: World, machine: Machine) -> None:
        """They leave nothing on the machine."""
