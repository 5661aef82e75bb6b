"""A pool of a Magnum cluster whose nodes change in turn: another layout, the old one again, and what was told of both beforehand.

The tests share a stack, and run in the order they are written; what they look at is in tests/engine/test_rollout.py. Magnum is
told nothing: a layout is the nodes' own affair there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.engine.marks import ON_NODES
from tests.engine.served import running
from tests.engine.test_rollout import BUDGET, MIXED, REPLICAS, SEVEN, SLICE, Watch, _allocatable, _nothing_left, _serve
from tests.engine.test_rollout_aks import _told
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [*ON_NODES, at_night("rollouts of the other platforms are for the day")]

STACK: Final = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: gpu-dev
    driver: heat
    template:
      image: fedora-coreos-42
      externalNetwork: public
      flavor: m2.large
      masterFlavor: m2.medium
      labels: {kube_tag: v1.34.2}
    keypair: gpu-admin
    masters: 1
    workers: 1
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: a100-80gb, gpusPerNode: 1, vcpus: 28, memoryGiB: 168}
  gpu-pools:operator: {migStrategy: mixed}
  gpu-pools:sharing:
    cut: {mig: {layout: {1g.10gb: 7}}}
  gpu-pools:verification: {deadlineSeconds: 60, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: cut, flavor: g2.5xlarge, nodes: {min: 3, max: 4}, sharing: cut, rollout: {drainTimeoutSeconds: 120}}
"""


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    _serve(made)
    return made


@pytest.mark.parametrize(
    ("layout", "slices"),
    [
        pytest.param(MIXED, 4, id="another"),
        pytest.param(SEVEN, 7, id="the old one again"),
    ],
)
def test_a_layout_changes_node_after_node_as_it_was_told(trial: Trial, layout: dict[str, int], slices: int) -> None:
    told, away = _told(trial, lambda config: config["gpu-pools:sharing"].update(cut={"mig": {"layout": layout}}))
    assert "One node of `cut` at a time" in told
    assert _asked_of_magnum(trial) == []
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.cordoned == {1}
    assert watch.away <= away == 1
    assert watch.fewest >= BUDGET
    assert {_allocatable(node, SLICE) for node in trial.nodes("cut")} == {slices}
    trial.wait_until(lambda: running(trial) == REPLICAS, "all replicas run again")
    _nothing_left(trial)


def test_a_node_that_the_autoscaler_brings_meanwhile_is_born_in_the_new_state(trial: Trial) -> None:
    """While two of the others still have the old layout; and it takes no turn, since nobody uses it."""
    before = {_allocatable(node, SLICE) for node in trial.nodes("cut")}
    layout = SEVEN if before == {4} else MIXED
    _told(trial, lambda config: config["gpu-pools:sharing"].update(cut={"mig": {"layout": layout}}))
    with Watch(trial) as watch:
        trial.up_and_scale("cut", 4, once=lambda: watch.cordoned, what="the first node is cordoned")
    assert watch.cordoned == {1}
    assert watch.fewest >= BUDGET
    slices = layout["1g.10gb"]
    trial.wait_until(lambda: [_allocatable(node, SLICE) for node in trial.nodes("cut")] == [slices] * 4, "all four have it", 120)
    trial.wait_until(trial.holds, "the node that joined is proven")
    _nothing_left(trial)


def _asked_of_magnum(trial: Trial) -> list[dict[str, Any]]:
    return [step for step in trial.planned_steps() if "::openstack:" in step["urn"].replace("$", "::")]
