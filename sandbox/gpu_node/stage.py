"""What the plays of a stack on the machine's own GPUs have in common: a declaration is deployed, pods work, what is seen is told.

Each step looks until it sees what it should, or its time is over; then the next one goes on, since each tells something of its
own. Only what ends the stack ends a play.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.stack.allocation import DRA
from gpu_pools.verifier.quantities import read_count
from sandbox.cli import commands
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.gpu_node import pods, sharing_costs
from sandbox.gpu_node.document import Step
from sandbox.gpu_node.machine import POOL, stack_text
from sandbox.real_node.place import Place
from sandbox.stack import real_nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpu_pools.evidence.verdicts import Evidence
    from gpu_pools.stack.allocation import Allocation
    from sandbox.gpu_node.machine import Machine
    from sandbox.stack.state import Sandbox
    from sandbox.system.progress import Progress

STACK: Final = "gpu-node"
NODE: Final = f"{POOL}-0"
EXCLUSIVE: Final = "{exclusive: {}}"
POD_SECONDS: Final = 90.0
NODE_PATH: Final = f"/api/v1/nodes/{NODE}"
VERIFIERS: Final = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods"
VERIFIER_PODS: Final = f"{VERIFIERS}?labelSelector=app.kubernetes.io/name={VERIFIER_APP}"
_LOOK_SECONDS: Final = 0.5
#: What the scheduler says of a node without a free GPU: of the device plugin's, and of those that pods get by claims
#: (Kubernetes v1.36.3, pkg/scheduler/framework/plugins/noderesources/fit.go and dynamicresources/dynamicresources.go).
_NO_RESOURCE, _NO_CLAIM = "Insufficient nvidia.com/gpu", "cannot allocate all claims"


def time_slicing(replicas: int) -> str:
    """That sharing, as the stack file has it."""
    return f"{{timeSlicing: {{replicas: {replicas}}}}}"


class Stage(ABC):
    """One play on one machine; `steps` has what was seen so far."""

    def __init__(self, machine: Machine, sandbox: Sandbox, stack_file: Path, progress: Progress) -> None:
        """Nothing is declared yet."""
        self._machine, self._file, self._progress = machine, stack_file, progress
        self._folder = sandbox.existing_cluster
        self._place = Place(self._folder, NODE)
        self._made = 0
        #: How its pool changes, as machine.NODE_BY_NODE has it; empty: all at once.
        self._rollout = ""
        #: How its pods get GPUs, as the stack file has it; None: the key is not written.
        self._allocation: Allocation | None = None
        self.steps: list[Step] = []
        self.evidence: Evidence | None = None

    @abstractmethod
    def run(self, folder: Path) -> None:
        """Play all of it.

        Args:
            folder: for documents of its own.

        Raises:
            SandboxError: the stack cannot be brought up, or a program not be compiled.
        """

    def clear(self) -> None:
        """Take the pods away: a stack with pods that it does not know of is not taken down."""
        if not (self._folder / "kubeconfig").exists():
            return
        sharing_costs.remove_job(self._api())
        for name in self._pods():
            pods.remove(self._api(), name)
        until(lambda: not self._pods() and not sharing_costs.pods(self._api()), POD_SECONDS)

    def versions(self) -> dict[str, str]:
        """What the node object says of its kubelet and runtime; empty where there is none."""
        if not (self._folder / "kubeconfig").exists():
            return {}
        info: dict[str, Any] = ((self._node() or {}).get("status") or {}).get("nodeInfo") or {}
        return {key: str(info[key]) for key in ("kubeletVersion", "containerRuntimeVersion", "osImage") if key in info}

    def _write(self, sharing: str, *, smoke_test: bool = False) -> None:
        """Declare it."""
        text = stack_text(sharing, self._machine, smoke_test=smoke_test, rollout=self._rollout, allocation=self._allocation)
        self._file.write_text(text, encoding="utf-8")

    def _declare(self, name: str, sharing: str, replicas: int, *, smoke_test: bool = False, ends_pods: bool = False) -> None:
        """Declare it, bring it up, see that the verifier confirms it and that whoever computes was left alone.

        Args:
            name: of the step.
            sharing: as the stack file has it.
            replicas: of each GPU.
            smoke_test: whether that is declared, too.
            ends_pods: that whoever computes has to go.
        """
        before = {} if ends_pods else self._computing()
        wanted = self._machine.gpus * replicas
        self._write(sharing, smoke_test=smoke_test)
        begun = time.monotonic()
        seen = commands.up(STACK, self._progress, real_nodes.OWN)
        evidence = self._collect()
        # The first look has its evidence with it; what is kept is the last that proved everything.
        self.evidence = evidence if evidence and evidence.verdict is Verdict.PROVEN else self.evidence
        found = self._offered()
        verdict = evidence.verdict.value if evidence else "no evidence"
        good = seen.holds and found == wanted and verdict == Verdict.PROVEN.value
        self._told(name, begun, f"gpu {wanted}, proven", f"gpu {found}, {verdict}", good=good)
        if before:
            self._untouched(name, before)

    def _fill(self, replicas: int, how: str = "") -> None:
        """Make a pod for each share, and one more; see that all but one compute, and that the scheduler has no room for that one.

        Args:
            replicas: of each GPU.
            how: the end of the step's name.
        """
        wanted = self._machine.gpus * replicas
        begun = time.monotonic()
        for _ in range(wanted + 1 - len(self._pods())):
            pods.make(self._api(), f"work-{self._made}", NODE)
            self._made += 1
        good = until(lambda: self._count_pods() == (wanted, 1), POD_SECONDS)
        computing, waiting = self._count_pods()
        why = next((one.why for one in self._pods().values() if not one.rounds), "")
        observed = f"{computing} compute, {waiting} waits: {why.partition(', ')[0]}"
        self._told(f"{wanted + 1} pods{how}", begun, f"{wanted} compute, 1 waits", observed, good=good)

    def _count_pods(self) -> tuple[int, int]:
        """Return how many pods compute, and how many wait for a GPU."""
        no_room = _NO_CLAIM if self._allocation == DRA else _NO_RESOURCE
        waiting = [one for one in self._pods().values() if one.phase == "Pending" and no_room in one.why]
        return len(self._computing()), len(waiting)

    def _remove_pods(self, how: str = "") -> None:
        """Remove all pods of the play; `how` is the end of the step's name."""
        begun = time.monotonic()
        self.clear()
        left = len(self._pods())
        self._told(f"pods taken away{how}", begun, "none", str(left or "none"), good=not left)

    def _untouched(self, name: str, before: dict[str, pods.PodSnapshot]) -> None:
        begun = time.monotonic()

        def still() -> bool:
            now = self._pods()
            return all(pod in now and now[pod].goes_on(seen) for pod, seen in before.items())

        good = until(still, POD_SECONDS)
        now = self._pods()
        lost = [pod for pod, seen in before.items() if pod not in now or not now[pod].goes_on(seen)]
        observed = f"{len(before) - len(lost)} of {len(before)} go on" + (f"; not: {', '.join(lost)}" if lost else "")
        self._told(f"{name}: pods that computed", begun, "same containers, still computing", observed, good=good)

    def _computing(self) -> dict[str, pods.PodSnapshot]:
        return {name: one for name, one in self._pods().items() if one.phase == "Running" and one.rounds}

    def _told(self, name: str, begun: float, declared: str, observed: str, *, good: bool) -> None:
        step = Step(name, time.monotonic() - begun, declared, observed, good)
        self.steps.append(step)
        self._progress.note(f"{name}: {observed} ({'ok' if good else f'NOT as it should be: {declared}'}, {step.seconds:.1f} s)")

    def _collect(self) -> Evidence | None:
        try:
            return commands.verify(STACK, self._progress)
        except EvidenceError:
            return None

    def _api(self) -> Api:
        return Api.at(self._folder / "kubeconfig")

    def _node(self) -> Any:  # noqa: ANN401 - an object of the API
        return self._api().get(NODE_PATH)

    def _named(self, path: str) -> list[dict[str, Any]]:
        """The pods of a list that are on the node, and not about to go."""
        found: list[dict[str, Any]] = self._api().list(path)["items"]
        return [pod for pod in found if pod["spec"].get("nodeName") == NODE and "deletionTimestamp" not in pod["metadata"]]

    def _offered(self) -> int:
        """How many pods of a GPU or share each the node has room for, as it announces it."""
        return self._allocatable()

    def _allocatable(self) -> int:
        return read_count(((self._node() or {}).get("status") or {}).get("allocatable", {}).get("nvidia.com/gpu", 0)) or 0

    def _pods(self) -> dict[str, pods.PodSnapshot]:
        return pods.look(self._api(), self._place) if (self._folder / "kubeconfig").exists() else {}


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Look until something is so; whether it was within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # An API server that is busy for a moment is asked again.
        with contextlib.suppress(ApiError, UnreachableError):
            if holds():
                return True
        time.sleep(_LOOK_SECONDS)
    return False
