"""The programs of the machines by rule: what device_plugin, gfd and mig_parted say, at once.

For where the real programs cannot run, which is decided before (sandbox.cluster.node_tools). Nothing runs here, and nothing but
config-manager's links is kept: the GPUs are those of the machine's own record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox.machines import device_plugin, gfd, mig_parted
from sandbox.machines.config_manager import ConfigManager
from sandbox.machines.device_plugin import Crash
from sandbox.machines.dra_manager import not_registered
from sandbox.machines.gpu import DEFAULT_MODE, EXCLUSIVE_PROCESS
from sandbox.machines.mig_parted import MigPartedError
from sandbox.machines.node_programs import MACHINE_TYPE, LayoutAnswer, LayoutRequest
from sandbox.machines.plugin_config import MissingFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.machines.device_plugin import Advertised
    from sandbox.machines.dra_manager import ClaimRequest
    from sandbox.machines.gfd import Labels
    from sandbox.machines.machine import Loaded, Machine
    from sandbox.machines.node_programs import ConfigRequest, Configured, DraDriver, DraDriverRequest
    from sandbox.machines.outcomes import Outcome
    from sandbox.machines.pod_request import PodRequest

_STRATEGY = "MIG_STRATEGY"


class RuledPrograms:
    """Answers by rule."""

    def __init__(self, folder: Path) -> None:
        """From now on the records are the truth: the real programs' state files are old as soon as a rule changes a GPU.

        Args:
            folder: machines/ of the cluster.
        """
        for path in folder.glob("*/state"):
            path.unlink()
        #: By node and program.
        self._configs: dict[tuple[str, str], tuple[str, ConfigManager]] = {}

    def attend(self, machines: Mapping[str, Machine]) -> None:
        """The machines' records are the truth."""

    def has_changed(self) -> bool:
        """Nothing runs."""
        return False

    def forget(self, node: str) -> None:
        """Nothing runs."""
        self._configs = {key: value for key, value in self._configs.items() if key[0] != node}

    def close(self) -> None:
        """Nothing runs."""

    def configure(self, machine: Machine, request: ConfigRequest) -> Configured | None:
        """By its rules."""
        key = (machine.node, request.program)
        pod, manager = self._configs.get(key) or ("", None)
        if manager is None or pod != request.pod:
            manager = ConfigManager(request)
            self._configs[key] = (request.pod, manager)
        return manager.follow(request)

    def deconfigure(self, machine: Machine, program: str) -> None:
        """Its link goes with the pod."""
        self._configs.pop((machine.node, program), None)

    def discover(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Labels | Crash | None:
        """As the GPUs were when it looked."""
        if machine.driver is None:
            return None
        return gfd.discover(_config(loaded), environment.get(_STRATEGY), loaded.gpus, machine.driver, MACHINE_TYPE)

    def serve(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Advertised | Crash | None:
        """As the GPUs were when it started."""
        daemon = machine.mps_replicas is not None
        return device_plugin.advertise(_config(loaded), environment.get(_STRATEGY), loaded.gpus, mps_daemon=daemon)

    def stop_serving(self, machine: Machine) -> None:
        """Nothing runs."""

    def serve_mps(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Crash | None:
        """Serve what it has read, or end."""
        answer = device_plugin.mps_daemon(_config(loaded), environment.get(_STRATEGY), loaded.gpus)
        self._switch_mps(machine, answer if isinstance(answer, int) else None)
        return answer if isinstance(answer, Crash) else None

    def stop_mps(self, machine: Machine) -> None:
        """Give the GPUs back."""
        self._switch_mps(machine, None)

    @staticmethod
    def _switch_mps(machine: Machine, replicas: int | None) -> None:
        before, machine.mps_replicas = machine.mps_replicas, replicas
        if (replicas is None) != (before is None):
            mode = DEFAULT_MODE if replicas is None else EXCLUSIVE_PROCESS
            machine.gpus = tuple(replace(gpu, compute_mode=mode) for gpu in machine.gpus)

    def serve_claims(self, machine: Machine, request: DraDriverRequest) -> DraDriver | Crash | None:
        """No rule says what a DRA driver publishes."""
        del machine, request
        return Crash("the sandbox has no rules for NVIDIA's DRA driver: it runs where NVIDIA's own programs run")

    def keep_dra_drivers(self, machine: Machine, pods: frozenset[str]) -> None:
        """Nothing runs."""

    def prepare_claims(self, machine: Machine, pod: str, wanted: tuple[ClaimRequest, ...]) -> str | None:
        """No driver is registered."""
        del machine, pod
        return not_registered(wanted)

    def release_claims(self, machine: Machine, pod: str) -> bool:
        """Nothing is prepared."""
        del machine, pod
        return True

    def keep_claims(self, machine: Machine, pods: frozenset[str]) -> None:
        """Nothing is prepared."""

    def silent_drivers(self, machine: Machine) -> Mapping[str, float]:
        """No driver has registered."""
        del machine
        return {}

    def forget_driver(self, machine: Machine, driver: str) -> None:
        """No driver has registered."""

    def run_pod(self, machine: Machine, request: PodRequest) -> Outcome | None:
        """Nothing runs."""

    def keep_pods(self, machine: Machine, pods: frozenset[str]) -> None:
        """Nothing runs."""

    def check_layout(self, machine: Machine, request: LayoutRequest) -> LayoutAnswer | None:
        """Read the file, compare."""
        try:
            entries = _entries(request)
        except MigPartedError as error:
            return LayoutAnswer(holds=False, error=str(error))
        return LayoutAnswer(holds=mig_parted.holds(machine.gpus, entries))

    def apply_layout(self, machine: Machine, request: LayoutRequest) -> LayoutAnswer | None:
        """Change the record."""
        try:
            entries = _entries(request)
        except MigPartedError as error:
            return LayoutAnswer(holds=False, error=str(error))
        machine.gpus, failure = mig_parted.apply(machine.gpus, entries)
        holds = mig_parted.holds(machine.gpus, entries)
        return LayoutAnswer(holds, failure or ("" if holds else mig_parted.NOT_APPLIED))


def _config(loaded: Loaded) -> str | MissingFile:
    return MissingFile() if loaded.text is None else loaded.text


def _entries(request: LayoutRequest) -> tuple[mig_parted.Entry, ...]:
    if request.text is None:
        message = "error parsing config file: read error: open /mig-parted-config/config.yaml: no such file or directory"
        raise MigPartedError(message)
    return mig_parted.read_config(request.text, request.selected)
