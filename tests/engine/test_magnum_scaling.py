"""A cluster by magnum-cluster-api whose autoscaler is on: every node group has as many nodes as declared, and stays what it is.

Magnum and the engine are the real ones. The driver is a stand-in, which makes of limits and numbers what the real source does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.openstack.magnum_api import MagnumApi
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("test_lifecycle.py has one of it")]

STACK = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: magnum-cluster-api
    template: {image: ubuntu-24.04, externalNetwork: public, flavor: m2.large, networkDriver: calico, labels: {kube_tag: v1.36.3}}
    keypair: gpu-admin
    workerFlavor: m2.large
    workers: 2
    labels: {auto_scaling_enabled: "true"}
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: steady, flavor: g2.5xlarge, count: 2, sharing: shared}
    - {name: grows, flavor: g2.5xlarge, nodes: {min: 1, max: 2}, sharing: shared}
"""


def limits(trial: Trial) -> dict[str, tuple[int, int, int | None]]:
    """Name of each node group -> its number and its limits, which Magnum's list does not tell."""
    api = MagnumApi(trial.login())
    groups = [api.get(f"clusters/small/nodegroups/{one['uuid']}") for one in trial.magnum()["groups"]]
    return {one["name"]: (one["node_count"], one["min_node_count"], one["max_node_count"]) for one in groups}


def changed(trial: Trial, of: str) -> list[str]:
    return [step["op"] for step in trial.planned_steps() if of in step["urn"]]


def without_limits(trial: Trial, folder: Path) -> None:
    """The state as an earlier program had it, which gave a new cluster no such labels."""
    whole = trial.engine("stack", "export").ok().json()
    for resource in whole["deployment"]["resources"]:
        if resource["type"].endswith("containerinfra/cluster:Cluster"):
            for place in ("inputs", "outputs"):
                labels: dict[str, Any] = resource[place]["labels"]
                resource[place]["labels"] = {key: value for key, value in labels.items() if not key.endswith("_node_count")}
    file = folder / "state.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    trial.engine("stack", "import", "--file", str(file)).ok()


def test_what_is_declared_is_made_and_no_living_cluster_is_replaced(sandbox: Callable[..., Trial], tmp_path: Path) -> None:
    trial = sandbox(STACK)
    trial.up().ok()
    found = limits(trial)
    assert found["steady"] == (2, 2, 2)
    assert found["default-worker"][:2] == (2, 2)
    assert found["grows"] == (1, 1, 2)
    assert len(trial.nodes("steady")) == 2
    assert changed(trial, "Cluster::") == []

    # Within its limits it grows past Magnum, whose resize the driver does not read.
    trial.scale("grows", 2).ok()
    trial.wait_until(lambda: len(trial.nodes("grows")) == 2 and trial.holds(), "the autoscaler's node is as declared")
    refused = trial.scale("steady", 3)
    assert "the autoscaler keeps steady between 2 and 2 nodes" in refused.err

    # Another number goes by Magnum's client first, in the steps that the check of the cloud gives.
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(count=3))
    told = trial.engine("preview").text
    assert "the node group steady has 2 nodes: Magnum refuses limits of 3 until then (W89)" in told
    trial.run("openstack", trial.stack, "coe", "nodegroup", "update", "small", "steady", "--max-nodes", "3").ok()
    trial.run("openstack", trial.stack, "coe", "cluster", "resize", "--nodegroup", "steady", "small", "3").ok()
    trial.run("openstack", trial.stack, "coe", "nodegroup", "update", "small", "steady", "--min-nodes", "3").ok()
    trial.wait_until(lambda: len(trial.nodes("steady")) == 3, "the third node")
    trial.engine("refresh", "--yes", "--skip-preview", "--target", "**openstack:**").ok()
    trial.up().ok()
    assert limits(trial)["steady"] == (3, 3, 3)

    without_limits(trial, tmp_path)
    assert "replace" not in changed(trial, "Cluster::")
