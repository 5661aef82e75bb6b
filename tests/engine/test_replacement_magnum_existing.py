"""`replace: surge` in a Magnum cluster that is there, by the drivers for Cluster API, with the deploy killed on the way.

Each driver has a stack of its own. Engine, Keystone, Magnum, NFD, scheduler, controllers, eviction API and verifiers are the real
ones; Magnum's drivers are stand-ins. What heat does is in test_replacement_magnum.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.engine.marks import ON_NODES
from tests.engine.served import BUDGET, Served, cordoned, kill, leave, marked, serve
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [*ON_NODES, at_night("two clusters that are there, and a replacement with three kills in each")]

STACK: Final = """
config:
  gpu-pools:cluster:
    platform: magnum
    driver: {driver}
    existing: {{name: platform}}
  gpu-pools:flavors:
    g2.5xlarge: {{gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}}
    g2.10xlarge: {{gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 2}}
  gpu-pools:sharing:
    sliced: {{timeSlicing: {{replicas: 4}}}}
  gpu-pools:operator: {{install: true}}
  gpu-pools:nodeFeatureDiscovery: {{install: true}}
  gpu-pools:verification: {{deadlineSeconds: 60, intervalSeconds: 10}}
  gpu-pools:pools:
    - {{name: serving, flavor: g2.5xlarge, count: 2, sharing: sliced, replace: surge}}
"""
THEIRS: Final = {"default-master", "default-worker", "apps"}


@pytest.fixture(scope="module", params=["magnum-cluster-api", "capi-helm"])
def trial(request: pytest.FixtureRequest, shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK.format(driver=request.param))
    made.preview().ok()
    made.wait_until(lambda: len(made.nodes()) == 3, "the nodes of the existing cluster")
    made.up().ok()
    serve(made)
    return made


def test_killed_on_the_way_it_goes_on_and_those_who_are_served_notice_nothing(trial: Trial) -> None:
    (old,) = _made(trial)
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(flavor="g2.10xlarge"))
    moments: list[tuple[str, Callable[[], object]]] = [
        ("the new group is asked for", lambda: len(_made(trial)) == 2),
        ("the old nodes are cordoned", lambda: cordoned(trial)),
        ("the old group goes", lambda: _state(trial, old).startswith("DELETE") or old not in _made(trial)),
    ]
    with Served(trial) as served:
        for what, moment in moments:
            command = trial.start("up", trial.stack)
            trial.wait_until(moment, what, 300)
            kill(command)
        trial.up().ok()
    assert served.fewest >= BUDGET
    _is_as_declared(trial)


def test_the_old_declaration_takes_it_back(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(flavor="g2.5xlarge"))
    with Served(trial) as served:
        trial.up().ok()
    assert served.fewest >= BUDGET
    _is_as_declared(trial)
    leave(trial)
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    assert {group["name"] for group in trial.magnum()["groups"]} == THEIRS
    trial.down().ok()


def _is_as_declared(trial: Trial) -> None:
    assert _made(trial) == {trial.plan().pools[0].made_name}
    assert (cordoned(trial), list(marked(trial))) == ([], [])
    assert trial.holds()
    assert trial.planned_steps() == []


def _made(trial: Trial) -> set[str]:
    """The GPU pools that Magnum has."""
    return {group["name"] for group in trial.magnum()["groups"]} - THEIRS


def _state(trial: Trial, name: str) -> str:
    states: list[Any] = [group["status"] for group in trial.magnum()["groups"] if group["name"] == name]
    return str(states[0]) if states else ""
