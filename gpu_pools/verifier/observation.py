"""One look at the node, and two equal looks: what an assertion is made of.

A single look may fall between two steps of mig-manager or the device plugin. Only two equal ones in a row count as a pass or
as a difference; what healthy nodes change all the time (processes, counters of requests) is left out of "equal". The last look of
one assertion is the one before the first of the next: as long as a node stays as it is, each assertion looks once.
"""

from __future__ import annotations

import time

from .compare_gpus import compare_gpus
from .documents import Record, as_json
from .findings import Findings, Where
from .mps_daemons import UNSEEN, compare_daemons, read_processes
from .reading import Failed, Hung, Reading, Unreadable, steady

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any, Final

    from .expectation import Expectation
    from .mps import MpsReading
    from .mps_daemons import NodeProcesses
    from .node import NodeReader, NodeReading
    from .reading import Process
    from .sources import Reader

_MOST_LOOKS: Final = 6
PROCESSES: Final = "/proc"
_MPS: Final = "nvidia-device-plugin-mps-control-daemon"


class Observation(Record):
    """One look.

    Attributes:
        nvml: what NVML said.
        mps: what the MPS daemon said; None where it was not asked.
        node: what Kubernetes said; None where it was not asked.
        processes: what the list of processes said.
    """

    nvml: Reading | Hung | Unreadable
    mps: MpsReading | None
    node: NodeReading | None
    processes: NodeProcesses = UNSEEN

    def as_json(self) -> dict[str, Any]:
        """For reports and `export`."""
        return {name: as_json(getattr(self, name)) for name in ("nvml", "mps", "node", "processes")}


class Assertion(Record):
    """An expectation held against a node.

    Attributes:
        findings: what was found.
        observation: the last look.
        looks: how many there were, the one that is left from the assertion before included.
        seconds: how long it took.
    """

    findings: Findings
    observation: Observation
    looks: int
    seconds: float


class Observer:
    """Looks at the node that it runs on.

    Args:
        reader: reads NVML.
        node: reads the node's objects; None leaves Kubernetes out.
        pause_seconds: between two looks.
        processes: the node's list of processes.
    """

    def __init__(
        self, reader: Reader, node: NodeReader | None, pause_seconds: float, processes: str | PathLike[str] = PROCESSES
    ) -> None:
        self._reader = reader
        self._processes = processes
        self._node = node
        self._pause = pause_seconds
        #: The last look of the last assertion.
        self._last: Observation | None = None

    def look(self, expected: Expectation | None) -> Observation:
        """Look once; MPS is asked only where it is declared."""
        try:
            return self._look(expected)
        finally:
            self._reader.release()

    def hold(self, expected: Expectation) -> Assertion:
        """Hold the expectation against the node: look until two looks in a row are equal."""
        try:
            assertion = self._hold(expected)
        finally:
            self._reader.release()
        self._last = assertion.observation
        return assertion

    def _look(self, expected: Expectation | None, *, again: bool = False) -> Observation:
        # The other process reads NVML at the same time.
        self._reader.ask()
        processes = read_processes(self._processes)
        nvml = self._reader.read(again=again)
        asked = expected is not None and expected.mps is not None
        return Observation(
            nvml=nvml,
            mps=_read_mps(_gpu_count(nvml)) if asked else None,
            node=self._node.read(expected.node if expected else None) if self._node else None,
            processes=processes,
        )

    def _hold(self, expected: Expectation) -> Assertion:
        began = time.monotonic()
        # Whether a driver that hung still hangs has to be seen again.
        kept = None if self._last is None or isinstance(self._last.nvml, Hung) else self._last
        before, looks = kept or self._look(expected, again=not self._pause), 1
        # A hung driver is proven by one look, and each more would take as long.
        while not isinstance(before.nvml, Hung):
            if kept is None or looks > 1:
                time.sleep(self._pause)
            now = self._look(expected)
            looks += 1
            equal = _steady(now) == _steady(before)
            before = now
            if equal:
                break
            if looks == _MOST_LOOKS:
                findings = _compared(expected, now)
                findings.cannot_tell(Where("node"), "readings", "two equal ones", f"{looks} different ones", "unsteady")
                return Assertion(findings, now, looks, time.monotonic() - began)
        return Assertion(_compared(expected, before), before, looks, time.monotonic() - began)


def _compared(expected: Expectation, observation: Observation) -> Findings:
    findings = Findings()
    compare_gpus(expected, observation.nvml, findings)
    if expected.mps is not None and observation.mps is not None:
        from .mps import compare_mps  # noqa: PLC0415 - what not everybody needs takes time to load

        compare_mps(expected.mps, observation.mps, findings)
    compare_daemons(expected, observation.processes, _operators(observation), _on_gpus(observation), findings)
    if expected.node is not None and observation.node is not None:
        from .compare_node import compare_node  # noqa: PLC0415

        compare_node(expected, observation.node, observation.nvml, findings)
    return findings


def _operators(observation: Observation) -> frozenset[str] | None:
    """The uids of the operator's own MPS daemon's pods; None where nobody says."""
    pods = observation.node.pods if observation.node else None
    return frozenset(pod.uid for pod in pods if pod.app == _MPS) if isinstance(pods, tuple) else None


def _on_gpus(observation: Observation) -> list[Process]:
    nvml = observation.nvml
    if not isinstance(nvml, Reading) or isinstance(nvml.gpus, Failed):
        return []
    return [one for gpu in nvml.gpus if not isinstance(gpu.processes, Failed) for one in gpu.processes]


def _steady(observation: Observation) -> tuple[object, object, object, object]:
    nvml = steady(observation.nvml) if isinstance(observation.nvml, Reading) else observation.nvml
    return nvml, observation.mps, observation.node, observation.processes


def _read_mps(gpus: int) -> MpsReading:
    from .mps import read_mps  # noqa: PLC0415

    return read_mps(gpus)


def _gpu_count(nvml: Reading | Hung | Unreadable) -> int:
    return 0 if not isinstance(nvml, Reading) or isinstance(nvml.gpus, Failed) else len(nvml.gpus)
