"""The play of a rollout: a pool that changes node by node, while pods compute on its GPUs that count what they lose.

The node is one, so pods that have gone have nowhere else to go: what others keep of a service meanwhile is for tests of many
nodes. Here the kubelet, its containers, the GPU and what holds it are the real ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.verifier.changer.living_node import ANNOTATION
from sandbox.cli import commands
from sandbox.cli.commands import EngineFailedError
from sandbox.gpu_node import breaking, pods
from sandbox.gpu_node.machine import NODE_BY_NODE
from sandbox.gpu_node.stage import EXCLUSIVE, NODE, POD_SECONDS, STACK, VERIFIER_PODS, Stage, time_slicing, until
from sandbox.stack import real_nodes

_BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{VERIFIER_NAMESPACE}/leases"
_FIRST, _MORE, _FEWER = 4, 8, 2
#: How long pods may take to go, how long these take, and how long the one that is killed would.
_DRAIN_SECONDS, _UNIT_SECONDS, _TOO_LONG_SECONDS = 30, 6.0, 300.0
_PROGRAM: Final = Path(__file__).parents[2]
_CHANGE_SECONDS: Final = 180.0


class Rollout(Stage):
    """A change of a living node, with pods that go, that stay and that are killed, and with who changes it killed."""

    def run(self, folder: Path) -> None:
        """Play all of it."""
        del folder
        self._manner("stop")
        self._declare(f"time-slicing {_FIRST}, node by node", time_slicing(_FIRST), _FIRST)
        self._work(_FIRST)
        self._declare(f"time-slicing {_MORE}: nobody has to go", time_slicing(_MORE), _MORE)
        self._work(_MORE)
        self._refused()
        self._drained("exclusive, once it may go", EXCLUSIVE, 1)
        self._work(1)
        self._drained(f"time-slicing {_MORE} again", time_slicing(_MORE), _MORE)
        self._killed()
        self._forced()

    def _manner(self, staying: str) -> None:
        self._rollout = NODE_BY_NODE.format(seconds=_DRAIN_SECONDS, staying=staying)

    # --- what happens ---------------------------------------------------------------------------------------

    def _refused(self) -> None:
        """One pod may not be evicted: the deploy fails with its name, and the node works on as it was."""
        begun, (stays, before) = time.monotonic(), next(iter(self._computing().items()))
        self._protect(stays)
        failed = self._fails(EXCLUSIVE)
        why = str(self._mark().get("why", "nothing"))
        offered, wanted = self._allocatable(), self._machine.gpus * _MORE
        good = failed and f"default/{stays} (a bare pod)" in why and offered == wanted and not self._cordoned()
        declared = f"up fails and names default/{stays}; gpu {wanted}, not cordoned"
        observed = f"up {'failed' if failed else 'ended well'}: {why}; gpu {offered}{', cordoned' * self._cordoned()}"
        self._told("exclusive, with a pod that may not go", begun, declared, observed, good=good)
        self._untouched("exclusive, with a pod that may not go", {stays: before})
        self._work(_FIRST)
        self._unprotect(stays)

    def _drained(self, name: str, sharing: str, replicas: int) -> None:
        """A change that ends running shares: whoever has one goes, and loses nothing."""
        working = len(self._computing())
        self._declare(name, sharing, replicas, ends_pods=True)
        self._ended(name, working, [])

    def _killed(self) -> None:
        """The engine is killed while pods go, then whoever changes the node; what is there goes on, and the next `up` ends it."""
        name = f"time-slicing {_FEWER}, engine and changer killed meanwhile"
        self._work(_MORE)
        begun, working = time.monotonic(), len(self._computing())
        self._write(time_slicing(_FEWER))
        seen = [self._kill_engine(), self._kill_changer()]
        self._told(f"{name}: in time", begun, "both, with pods still there", f"{sum(seen)} of 2", good=all(seen))
        self._declare(name, time_slicing(_FEWER), _FEWER, ends_pods=True)
        self._ended(name, working, [])

    def _forced(self) -> None:
        """A pod that minds neither its budget nor SIGTERM is deleted where that is declared: it alone loses what it had."""
        name, stays = "exclusive, pods that stay are deleted", "minds-nothing"
        self._manner("delete")
        pods.make(self._api(), stays, NODE, work=pods.Work(_TOO_LONG_SECONDS, grace=3))
        self._work(_FEWER)
        self._protect(stays)
        working = len(self._computing())
        self._declare(name, EXCLUSIVE, 1, ends_pods=True)
        self._ended(name, working, [stays])
        self._unprotect(stays)

    # --- pods -----------------------------------------------------------------------------------------------

    def _work(self, replicas: int) -> None:
        """Make pods until there are so many a GPU, and wait until they compute."""
        begun, wanted = time.monotonic(), self._machine.gpus * replicas
        for _ in range(wanted - len(self._pods())):
            pods.make(self._api(), f"work-{self._made}", NODE, work=pods.Work(_UNIT_SECONDS))
            self._made += 1
        good = until(lambda: len(self._computing()) == wanted, POD_SECONDS)
        self._told(
            f"{wanted} pod{'s' * (wanted > 1)}", begun, f"{wanted} compute", f"{len(self._computing())} compute", good=good
        )

    def _ended(self, name: str, working: int, told: list[str]) -> None:
        """Whoever worked has gone and lost what was told, and nothing of the change is left on the node."""
        begun = time.monotonic()
        until(lambda: not self._pods() and not self._left(), POD_SECONDS)
        still = self._pods()
        lost = pods.lost(self._place, {one.uid for one in still.values()})
        observed, declared = _outcome(working, len(still), lost, self._left()), _outcome(working, 0, told, "")
        self._told(f"{name}: their work", begun, declared, observed, good=observed == declared)

    def _left(self) -> str:
        """What of a change is still there."""
        slots = [lease["metadata"]["name"] for lease in self._api().list(_LEASES)["items"] if lease["spec"].get("holderIdentity")]
        return ", ".join([*(["mark"] if self._mark() else []), *(["cordon"] if self._cordoned() else []), *slots])

    def _mark(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._node()["metadata"].get("annotations") or {}).get(ANNOTATION, "{}"))
        return found

    def _cordoned(self) -> bool:
        return bool(self._node()["spec"].get("unschedulable"))

    def _protect(self, name: str) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {pods.NAME: name}}}
        self._api().create(
            _BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        )

    def _unprotect(self, name: str) -> None:
        self._api().delete(f"{_BUDGETS}/{name}")

    # --- deploys --------------------------------------------------------------------------------------------

    def _fails(self, sharing: str) -> bool:
        self._write(sharing)
        try:
            commands.up(STACK, self._progress, real_nodes.OWN)
        except EngineFailedError:
            return True
        return False

    def _kill_engine(self) -> bool:
        """As soon as the first pod has been told to go; whether it came to that."""
        up = subprocess.Popen(
            [sys.executable, "-m", "sandbox", "up", STACK, "--nodes", real_nodes.OWN],
            cwd=_PROGRAM,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return until(lambda: bool(self._going()) or up.poll() is not None, _CHANGE_SECONDS) and up.poll() is None
        finally:
            os.killpg(up.pid, signal.SIGKILL)
            up.wait()

    def _kill_changer(self) -> bool:
        """Kill its processes in the midst; whether anybody was still to go."""
        going = self._going()
        for pod in self._named(VERIFIER_PODS):
            breaking.kill(self._place, pod["metadata"]["uid"])
        return bool(going)

    def _going(self) -> list[str]:
        return [name for name, one in self._pods().items() if one.is_going]


def _outcome(working: int, still: int, lost: list[str], left: str) -> str:
    return f"{working} worked, {still} are there; lost: {', '.join(lost) or 'nothing'}; left on the node: {left or 'nothing'}"
