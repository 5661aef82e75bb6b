"""The real programs on the machines of a cluster: a GpuNode for each machine that has GPUs.

Carries questions there and answers back; what a machine has is looked at once a pass. Machines without GPUs run none of the
programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.machines.device_plugin import Advertised, Crash
from sandbox.machines.dra_manager import not_registered
from sandbox.machines.gfd import Labels
from sandbox.machines.gpu_node import GpuNode
from sandbox.machines.node_programs import Configured, LayoutAnswer, LayoutRequest
from sandbox.machines.world import LOG
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sandbox.cluster.node_tools import NodeTools
    from sandbox.machines.dra_manager import ClaimRequest
    from sandbox.machines.gfd import Driver
    from sandbox.machines.machine import Loaded, Machine
    from sandbox.machines.node_programs import ConfigRequest, DraDriver, DraDriverRequest
    from sandbox.machines.outcomes import Outcome
    from sandbox.machines.pod_request import PodRequest


class RealPrograms:
    """Answers of the programs themselves."""

    def __init__(self, folder: Path, tools: NodeTools, wake: Callable[[], None]) -> None:
        """Nothing runs yet.

        Args:
            folder: machines/ of the cluster.
            tools: the programs.
            wake: called, by any thread, when another pass is worth while.
        """
        self._folder, self._tools, self._wake = folder, tools, wake
        self._nodes: dict[str, GpuNode] = {}
        self._drivers: dict[str, Driver | None] = {}

    def attend(self, machines: Mapping[str, Machine]) -> None:
        """Make what is missing; take over what the state files say."""
        for node, machine in machines.items():
            if machine.group.hardware.gpus:
                try:
                    self._look(node, machine)
                    self._nodes[node].dra.look()
                except SandboxError as error:
                    LOG.warning("%s: %s", node, error.message)

    def has_changed(self) -> bool:
        """Whether DRA drivers have come or gone."""
        return any(node.dra.has_changed() for node in self._nodes.values())

    def forget(self, node: str) -> None:
        """End the machine's namespace; its files belong to whoever forgets it."""
        self._drivers.pop(node, None)
        known = self._nodes.pop(node, None)
        if known is not None:
            known.close()

    def close(self) -> None:
        """End all namespaces."""
        for node in list(self._nodes):
            self.forget(node)

    def configure(self, machine: Machine, request: ConfigRequest) -> Configured | None:
        """Run it beside its program; where a machine has no GPUs, nothing is."""
        node = self._nodes.get(machine.node)
        return Configured("") if node is None else node.configure(request)

    def deconfigure(self, machine: Machine, program: str) -> None:
        """End it."""
        node = self._nodes.get(machine.node)
        if node is not None:
            node.deconfigure(program)

    def discover(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Labels | Crash | None:
        """Run gpu-feature-discovery."""
        node = self._nodes.get(machine.node)
        if node is None or machine.driver is None:
            return Labels({})
        if self._drivers.get(machine.node) != machine.driver:
            # Replaced in this very pass: NVML has to tell the new one's version before anybody asks it.
            self._look(machine.node, machine)
        return node.labels(loaded, machine.driver, environment)

    def serve(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Advertised | Crash | None:
        """See that nvidia-device-plugin runs."""
        node = self._nodes.get(machine.node)
        return Advertised({}) if node is None else node.resources(loaded, environment)

    def stop_serving(self, machine: Machine) -> None:
        """End nvidia-device-plugin."""
        node = self._nodes.get(machine.node)
        if node is not None:
            node.stop_plugin()

    def serve_mps(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Crash | None:
        """See that mps-control-daemon runs."""
        node = self._nodes.get(machine.node)
        return None if node is None else node.serve_mps(loaded, environment)

    def stop_mps(self, machine: Machine) -> None:
        """Tell mps-control-daemon to end."""
        node = self._nodes.get(machine.node)
        if node is not None:
            node.stop_mps()

    def check_layout(self, machine: Machine, request: LayoutRequest) -> LayoutAnswer | None:
        """Run nvidia-mig-parted."""
        node = self._nodes.get(machine.node)
        return LayoutAnswer(holds=True) if node is None else node.check_layout(request)

    def apply_layout(self, machine: Machine, request: LayoutRequest) -> LayoutAnswer | None:
        """Run nvidia-mig-parted."""
        node = self._nodes.get(machine.node)
        if node is None:
            return LayoutAnswer(holds=True)
        answer = node.apply_layout(request)
        if answer is not None:
            self._look(machine.node, machine)
        return answer

    def serve_claims(self, machine: Machine, request: DraDriverRequest) -> DraDriver | Crash | None:
        """See that NVIDIA's DRA driver runs."""
        node = self._nodes.get(machine.node)
        return Crash("this machine has no GPUs") if node is None else node.dra.serve(request)

    def keep_dra_drivers(self, machine: Machine, pods: frozenset[str]) -> None:
        """End the others."""
        node = self._nodes.get(machine.node)
        if node is not None:
            node.dra.keep_drivers(pods)

    def prepare_claims(self, machine: Machine, pod: str, wanted: tuple[ClaimRequest, ...]) -> str | None:
        """Ask the drivers; a machine without GPUs has none."""
        node = self._nodes.get(machine.node)
        return not_registered(wanted) if node is None else node.dra.prepare(pod, wanted)

    def release_claims(self, machine: Machine, pod: str) -> bool:
        """Ask the drivers."""
        node = self._nodes.get(machine.node)
        return node is None or node.dra.release(pod)

    def keep_claims(self, machine: Machine, pods: frozenset[str]) -> None:
        """Ask the drivers."""
        node = self._nodes.get(machine.node)
        if node is not None:
            node.dra.keep_claims(pods)

    def silent_drivers(self, machine: Machine) -> Mapping[str, float]:
        """As the machine's DRA manager knows it."""
        node = self._nodes.get(machine.node)
        return {} if node is None else node.dra.silent()

    def forget_driver(self, machine: Machine, driver: str) -> None:
        """Tell the machine's DRA manager."""
        node = self._nodes.get(machine.node)
        if node is not None:
            node.dra.forget(driver)

    def run_pod(self, machine: Machine, request: PodRequest) -> Outcome | None:
        """Run its containers beside them."""
        node = self._nodes.get(machine.node)
        return None if node is None else node.run_pod(request)

    def keep_pods(self, machine: Machine, pods: frozenset[str]) -> None:
        """End the others."""
        node = self._nodes.get(machine.node)
        if node is not None:
            node.keep_pods(pods)

    def _look(self, name: str, machine: Machine) -> None:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = GpuNode(self._folder / name, self._tools, self._wake)
            node.furnish(machine.gpus, machine.driver, registered=bool(machine.advertised))
        if self._drivers.get(name) != machine.driver:
            self._drivers[name] = machine.driver
            node.new_driver()
        found = node.changed_gpus(machine.group.hardware.gpu_model or "", machine.driver)
        if found is not None:
            machine.gpus = found
