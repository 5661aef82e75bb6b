"""What NVIDIA's programs on a machine decide: one interface, for the real programs (real) and for the rules (ruled).

When pods of them start, read, restart and fail is the same for both (gpu_programs, mig_manager). Only answers are exchanged: the
labels, the resources, the MIG layout. An answer of None means that the program is still at work; a pass comes as soon as it is
there. Neither side talks to the API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.device_plugin import Advertised, Crash
    from sandbox.machines.dra_manager import ClaimRequest
    from sandbox.machines.gfd import Labels
    from sandbox.machines.machine import Loaded, Machine
    from sandbox.machines.outcomes import Outcome
    from sandbox.machines.plugin_release import PluginRelease
    from sandbox.machines.pod_request import PodRequest

MACHINE_TYPE: Final = "Simulated-Machine"
"""What the machines' firmware says that they are."""


@dataclass(frozen=True)
class LayoutRequest:
    """A run of nvidia-mig-parted.

    Attributes:
        pod: uid of the pod that asks.
        text: the configuration file; None where there is none.
        selected: the name of a layout in it.
    """

    pod: str
    text: str | None
    selected: str


@dataclass(frozen=True)
class LayoutAnswer:
    """What came of it.

    Attributes:
        holds: whether the GPUs are what the layout says.
        error: the program's last words where it failed; that a layout does not hold is not a failure of asking for it.
    """

    holds: bool
    error: str = ""


@dataclass(frozen=True)
class ConfigRequest:
    """A pod whose program takes its configuration from config-manager: an init container and a sidecar.

    Attributes:
        pod: uid of the pod.
        program: the name that the pod's program calls itself by: the first word of its command line.
        release: how the pod's config-manager behaves.
        host_pid: whether the pod sees the node's processes.
        environment: the sidecar's variables; the init container's differ in that it runs once and signals nobody.
        files: the ConfigMap as the pod's volume shows it.
        account: the files of its service account.
        label: the node's label that chooses one of them, as it is now.
        init_restarts: how often the init container was started again.
        sidecar_restarts: how often the sidecar was.
        program_runs: whether the pod's program runs.
        read: what the program had read when this daemon found the pod; None for a pod that it has seen start.
    """

    pod: str
    program: str
    release: PluginRelease
    host_pid: bool
    environment: Mapping[str, str]
    files: Mapping[str, str]
    account: Mapping[str, bytes]
    label: str
    init_restarts: int
    sidecar_restarts: int
    program_runs: bool
    read: str | None


@dataclass(frozen=True)
class Configured:
    """What config-manager has made of it.

    Attributes:
        text: the program's configuration file; empty for the empty configuration, None where there is no such file.
        signals: how often the program was told to read it again; counted anew by each daemon.
        init_message: last words of the init container; empty where it has ended well.
        sidecar_message: last words of the sidecar; empty while it runs.
        init_code: the init container's exit code, where it has last words.
        sidecar_code: the sidecar's.
    """

    text: str | None
    signals: int = 0
    init_message: str = ""
    sidecar_message: str = ""
    init_code: int = 1
    sidecar_code: int = 1


@dataclass(frozen=True)
class DraDriverRequest:
    """A container of NVIDIA's DRA driver that is to run.

    Attributes:
        pod: uid of its pod.
        attempt: how often it was started again.
        verbosity: of its log.
        environment: its variables, those alone that the driver decides by.
        has_driver: whether the NVIDIA driver is where the container looks for it.
        server: the API server's address.
        account: the files of its service account.
    """

    pod: str
    attempt: int
    verbosity: str
    environment: Mapping[str, str]
    has_driver: bool
    server: str
    account: Mapping[str, bytes]


@dataclass(frozen=True)
class DraDriver:
    """A DRA driver that runs.

    Attributes:
        registered: whether it has registered with the kubelet, and answers.
    """

    registered: bool


class NodePrograms(Protocol):
    """The programs of all machines of a cluster."""

    def attend(self, machines: Mapping[str, Machine]) -> None:
        """Look at the machines, at the beginning of a pass: what their GPUs are now goes into ``Machine.gpus``."""

    def has_changed(self) -> bool:
        """Whether a pass would see something else of the machines, of which nobody tells; asked often."""

    def forget(self, node: str) -> None:
        """End what runs on a machine that is gone for good."""

    def close(self) -> None:
        """End everything that runs; the machines stay as they are."""

    def configure(self, machine: Machine, request: ConfigRequest) -> Configured | None:
        """See that config-manager runs in a pod; None until its init container has ended for the first time."""

    def deconfigure(self, machine: Machine, program: str) -> None:
        """The machine has no pod of that program any more."""

    def discover(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Labels | Crash | None:
        """What gpu-feature-discovery finds, the timestamp left out.

        Args:
            machine: with a driver.
            loaded: what it has read.
            environment: its container's variables.
        """

    def serve(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Advertised | Crash | None:
        """What nvidia-device-plugin has registered by now.

        Args:
            machine: with a driver.
            loaded: what it has read; something else than before makes it start anew.
            environment: its container's variables.
        """

    def stop_serving(self, machine: Machine) -> None:
        """There is no nvidia-device-plugin on the machine any more, if there was one."""

    def serve_mps(self, machine: Machine, loaded: Loaded, environment: Mapping[str, str]) -> Crash | None:
        """See that mps-control-daemon runs; why it ended, None while it has not.

        Args:
            machine: with a driver.
            loaded: what it has read.
            environment: its container's variables.
        """

    def stop_mps(self, machine: Machine) -> None:
        """There is no mps-control-daemon on the machine any more, if there was one: the GPUs are given back."""

    def serve_claims(self, machine: Machine, request: DraDriverRequest) -> DraDriver | Crash | None:
        """See that NVIDIA's DRA driver runs; None until it does, which takes minutes where it has to be built first."""

    def keep_dra_drivers(self, machine: Machine, pods: frozenset[str]) -> None:
        """End the DRA drivers of any other pod (uids)."""

    def prepare_claims(self, machine: Machine, pod: str, wanted: tuple[ClaimRequest, ...]) -> str | None:
        """Have the machine's DRA drivers prepare the claims of a pod.

        Args:
            machine: that the pod is bound to.
            pod: its uid.
            wanted: its claims.

        Returns:
            Why they cannot, empty where they have; None while that is worked on.
        """

    def release_claims(self, machine: Machine, pod: str) -> bool:
        """Have the claims of a pod that has ended unprepared; whether none is left that is not."""

    def keep_claims(self, machine: Machine, pods: frozenset[str]) -> None:
        """Have what was prepared for any other pod (uids) unprepared."""

    def silent_drivers(self, machine: Machine) -> Mapping[str, float]:
        """DRA driver -> since when it cannot be asked (monotonic), of those that have registered before."""

    def forget_driver(self, machine: Machine, driver: str) -> None:
        """The ResourceSlices of a DRA driver that cannot be asked are removed."""

    def check_layout(self, machine: Machine, request: LayoutRequest) -> LayoutAnswer | None:
        """``nvidia-mig-parted assert``: whether a layout is valid, and holds."""

    def apply_layout(self, machine: Machine, request: LayoutRequest) -> LayoutAnswer | None:
        """``nvidia-mig-parted apply``, and ``assert`` afterwards."""

    def run_pod(self, machine: Machine, request: PodRequest) -> Outcome | None:
        """See that the containers of a pod run; what has become of them, None where no container can run."""

    def keep_pods(self, machine: Machine, pods: frozenset[str]) -> None:
        """End what runs for any other pod (uids)."""
