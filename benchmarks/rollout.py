"""What a change of 100 nodes in turn takes against what the nodes themselves need: `python benchmarks/rollout.py [NODES]`.

The changers are the program's own, on a pool in memory and its clock (tests/verifier/pool_world.py), each awake when its own
pause is over. So how busy this machine is does not matter. The floor is one node alone, in the same run: cordon, evict,
mig-manager's time, proof, uncordon; times the rounds that the budget makes. As a DaemonSet does, a pod is replaced as soon as
another one is ready; its start is in neither. `all at once` has every pod there from the beginning, as where the old ones were
not ready: what waiting for a rollout slot costs, and asks of the API server.
Not measured: a real API server, real mig-manager, pods that take long to go. Those make both sides longer.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_pools.verifier.changer.rollout_slots import at_once  # noqa: E402
from gpu_pools.verifier.changer.rollout_steps import Target  # noqa: E402
from gpu_pools.verifier.names import CONFIG_LABEL, MIG_CONFIG_LABEL  # noqa: E402
from tests.verifier.pool_world import Changer, World  # noqa: E402

NODES = 100
BUDGETS = ("1", "5%", "10%", "25%")
#: What acts by itself in the pool is looked at so often, in its seconds.
TICK = 0.25
OLD = Target({CONFIG_LABEL: "mig-1", MIG_CONFIG_LABEL: "layout-1"}, {})
NEW = Target({CONFIG_LABEL: "mig-2", MIG_CONFIG_LABEL: "layout-3"}, {})


def main() -> None:
    """Measure and print."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    alone, requests = _changed(1, "1", together=1)
    print(f"one node alone: {alone:.0f} s, {requests} requests")
    for budget in BUDGETS:
        count = at_once(budget, nodes)
        floor = alone * -(-nodes // count)
        for together, said in ((count, "as a DaemonSet replaces them"), (nodes, "all at once")):
            took, asked = _changed(nodes, budget, together=together)
            print(
                f"{nodes} nodes, {budget} at a time, pods {said}: {took:.0f} s, {took / floor:.2f} of the floor "
                f"({floor:.0f} s); {asked / nodes:.0f} requests a node, {asked / took:.1f} a second"
            )


def _changed(nodes: int, budget: str, *, together: int) -> tuple[float, int]:
    """Seconds and requests of a change, with so many pods that are not ready at the same time."""
    chance = random.Random(nodes)  # noqa: S311 - not for secrets
    world = World(tuple(f"n{number:03}" for number in range(nodes)))
    _run(world, [Changer(world, name, OLD, "100%") for name in world.nodes], nodes)
    world.replicas = nodes
    world.wait(TICK)
    began, world.requests = world.now, 0
    _run(world, [Changer(world, name, NEW, budget, chance=chance.random) for name in world.nodes], together)
    return world.now - began, world.requests


def _run(world: World, changers: list[Changer], together: int) -> None:
    # What each says on its container's log is not wanted here.
    with contextlib.redirect_stderr(io.StringIO()):
        waiting = iter(changers)
        there = list(itertools.islice(waiting, together))
        while there:
            for place, one in enumerate(there):
                one.step()
                while there[place].done and (following := next(waiting, None)):
                    there[place] = following
                    following.step()
            there = [one for one in there if not one.done]
            if there:
                world.wait(TICK)


if __name__ == "__main__":
    main()
