"""An AKS pool whose nodes change in turn: given a rollout while it lives, a layout, a node that joins meanwhile, back, and away.

The tests share a stack, and run in the order they are written; what they look at is in tests/engine/test_rollout.py. The API
server refuses what AKS refuses of labels that the agent pool has (sandbox/machines/pool_guard.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.changes.blast import blast_radius
from gpu_pools.changes.steps import Preview
from gpu_pools.stack.kubernetes_names import CHANGED_LABELS, DEVICE_PLUGIN_CONFIG_LABEL
from sandbox.cluster.api_errors import ApiError
from tests.engine.marks import ON_NODES
from tests.engine.served import PODS, running
from tests.engine.test_rollout import (
    BUDGET,
    MIXED,
    REPLICAS,
    SEVEN,
    SLICE,
    Watch,
    _allocatable,
    _hold,
    _nothing_left,
    _serve,
)
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [*ON_NODES, at_night("a rollout on an existing cluster is for the day")]

STACK: Final = """
config:
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:operator: {migStrategy: mixed}
  gpu-pools:sharing:
    cut: {mig: {layout: {1g.10gb: 7}}}
  gpu-pools:verification: {deadlineSeconds: 60, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: cut, vmSize: Standard_NC24ads_A100_v4, nodes: {min: 2, max: 3}, sharing: cut, labels: {team: ml}}
"""


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def test_a_living_pool_gets_a_rollout_and_keeps_its_pods(trial: Trial) -> None:
    assert _refused(trial), "labels of the agent pool"
    holder = _hold(trial, "held", SLICE)
    told, _ = _told(trial, lambda config: config["gpu-pools:pools"][0].update(rollout={"drainTimeoutSeconds": 120}))
    assert "AKS takes the labels of `cut` away, and each node's verifier puts them back" in told
    with Watch(trial) as watch:
        trial.up().ok()
    trial.wait_until(trial.holds, "AKS and the verifiers agree")
    assert watch.cordoned == set()
    assert trial.get(f"{PODS}/held")["metadata"]["uid"] == holder
    _nothing_left(trial)
    assert {_manager(node) for node in trial.nodes("cut")} == {"gpu-pools-verifier"}


def test_labels_that_are_taken_away_come_back_without_a_deploy(trial: Trial) -> None:
    """As AKS would take them, were it to drop what others have set when it replaces a pool's labels."""
    uid = trial.get(f"{PODS}/held")["metadata"]["uid"]
    for node in trial.nodes("cut"):
        trial.cloud_api().patch(_path(node), {"metadata": {"labels": dict.fromkeys(CHANGED_LABELS)}})
    trial.wait_until(trial.holds, "the labels are back", 90)
    assert trial.get(f"{PODS}/held")["metadata"]["uid"] == uid
    trial.api().delete(f"{PODS}/held")
    for node in trial.nodes("cut"):
        trial.cloud_api().patch(_path(node), {"metadata": {"labels": dict.fromkeys(CHANGED_LABELS, "by-hand")}})
    trial.wait_until(trial.holds, "the labels are as declared again", 120)


def test_a_layout_changes_node_after_node_and_a_node_that_joins_gets_it_at_once(trial: Trial) -> None:
    _serve(trial)
    first = {node["metadata"]["name"] for node in trial.nodes("cut")}
    told, _ = _told(trial, lambda config: config["gpu-pools:sharing"].update(cut={"mig": {"layout": MIXED}}))
    assert "One node of `cut` at a time" in told
    assert _asked_of_azure(trial) == []
    with Watch(trial) as watch:
        trial.up_and_scale("cut", 3, once=lambda: watch.cordoned, what="a node is cordoned")
    assert watch.cordoned == {1}, "as it was told"
    assert watch.fewest >= BUDGET
    assert len({node["metadata"]["name"] for node in trial.nodes("cut")} - first) == 1
    assert {_allocatable(node, SLICE) for node in trial.nodes("cut")} == {4}
    trial.wait_until(lambda: running(trial) == REPLICAS, "all replicas run again")
    _nothing_left(trial)


def test_the_old_declaration_takes_it_back_node_by_node(trial: Trial) -> None:
    told, away = _told(trial, lambda config: config["gpu-pools:sharing"].update(cut={"mig": {"layout": SEVEN}}))
    assert "One node of `cut` at a time" in told
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.cordoned == {1}
    assert watch.away <= away == 1, "as it was told"
    assert watch.fewest >= BUDGET
    assert {_allocatable(node, SLICE) for node in trial.nodes("cut")} == {7}
    _nothing_left(trial)


def test_without_it_the_labels_are_the_agent_pools_again(trial: Trial) -> None:
    assert not _refused(trial)
    told, away = _told(trial, _without_rollout)
    assert "`cut` loses its rollout" in told
    assert away == 0
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.cordoned == set()
    assert (watch.away, watch.fewest) == (0, REPLICAS), "nothing became of the nodes"
    assert _refused(trial)
    _nothing_left(trial)
    assert _asked_of_azure(trial) == []


def _without_rollout(config: dict[str, Any]) -> None:
    del config["gpu-pools:pools"][0]["rollout"]


def _told(trial: Trial, change: Callable[[dict[str, Any]], None]) -> tuple[str, int]:
    """Edits the stack file; what the report of changes tells of it, and how many GPUs are away at most."""
    before = trial.plan()
    trial.edit(change)
    radius = blast_radius(Preview((), (), (), complete=True), before, trial.plan())
    text = " ".join(sentence for _, sentences in radius.steps for sentence in sentences)
    return text, sum(dip.most or 0 for dip in radius.dips)


def _asked_of_azure(trial: Trial) -> list[str]:
    """What the next deploy would change of agent pools."""
    return [step["urn"] for step in trial.planned_steps() if "::azure-native:" in step["urn"].replace("$", "::")]


def _path(node: dict[str, Any]) -> str:
    return f"/api/v1/nodes/{node['metadata']['name']}"


def _refused(trial: Trial) -> bool:
    """Whether AKS keeps the labels as those of the agent pool; nothing is changed."""
    node = trial.nodes("cut")[0]
    labels = {DEVICE_PLUGIN_CONFIG_LABEL: "another"}
    try:
        trial.api().patch(f"{_path(node)}?dryRun=All", {"metadata": {"labels": labels}})
    except ApiError as error:
        return "configured on node pool" in str(error)
    return False


def _manager(node: dict[str, Any]) -> str:
    """Who has set the label."""
    entries = node["metadata"]["managedFields"]
    key = f"f:{DEVICE_PLUGIN_CONFIG_LABEL}"
    (manager,) = [one["manager"] for one in entries if key in one["fieldsV1"].get("f:metadata", {}).get("f:labels", {})]
    return str(manager)
