"""GPU node groups in a Magnum cluster that is there: added, changed, removed, and the cluster itself as it was.

One stack for the file; the tests run in their order.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sandbox.openstack import service
from sandbox.openstack.magnum_api import MagnumApi
from tests.engine.trial import PROJECT
from tests.engine.whole_cluster import check_as_before, settled
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Trial
    from tests.engine.whole_cluster import Objects

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("an existing cluster of AKS is for the day")]

STACK = """
config:
  gpu-pools:cluster:
    platform: magnum
    driver: heat
    existing: {name: platform}
  gpu-pools:flavors:
    g2: {gpuModel: a100-40gb, gpusPerNode: 1, vcpus: 8, memoryGiB: 64}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
    whole: {exclusive: {}}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: gpu, flavor: g2, count: 1, sharing: shared, taints: ["sku=gpu:NoSchedule"]}
"""
#: Of a cluster, what Magnum itself writes when a group of it changes: the last operation, and the nodes of all groups.
ITS_OWN = ("status", "status_reason", "health_status", "health_status_reason", "updated_at", "node_count", "node_addresses")
THEIRS = {"default-master", "default-worker", "apps"}


def shown(trial: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the cluster, its node groups by name), as Magnum shows them."""
    magnum = MagnumApi(service.load(trial.folder / "openstack").login())
    cluster = magnum.get("clusters/platform")
    listed = magnum.get(f"clusters/{cluster['uuid']}/nodegroups")["nodegroups"]
    groups = {one["name"]: magnum.get(f"clusters/{cluster['uuid']}/nodegroups/{one['uuid']}") for one in listed}
    return {key: value for key, value in cluster.items() if key not in ITS_OWN}, groups


def magnum(trial: Trial) -> dict[str, list[dict[str, Any]]]:
    """All that the project has: templates, clusters, node groups."""
    return {kind: [{k: v for k, v in one.items() if k not in ITS_OWN} for one in rows] for kind, rows in trial.magnum().items()}


@dataclass(frozen=True)
class Before:
    """What its owner had before the stack: the cluster, the groups of it, all else of Magnum, and what is inside."""

    cluster: dict[str, Any]
    groups: dict[str, Any]
    magnum: dict[str, Any]
    inside: Objects


@pytest.fixture(scope="module")
def made(shared_sandbox: Callable[..., Trial]) -> tuple[Trial, Before]:
    trial = shared_sandbox(STACK)
    # A preview needs the cluster, so it is there before anything is deployed to it.
    trial.preview().ok()
    trial.wait_until(lambda: len(trial.nodes()) == 3, "the nodes of the existing cluster")
    found = Before(*shown(trial), magnum(trial), settled(trial.api()))
    trial.up().ok()
    return trial, found


@pytest.fixture(scope="module")
def trial(made: tuple[Trial, Before]) -> Trial:
    return made[0]


@pytest.fixture(scope="module")
def before(made: tuple[Trial, Before]) -> Before:
    return made[1]


def own_groups(trial: Trial) -> dict[str, Any]:
    return {name: group for name, group in shown(trial)[1].items() if name not in THEIRS}


def is_as_before(trial: Trial, before: Before) -> None:
    cluster, groups = shown(trial)
    assert cluster == before.cluster
    assert {name: groups[name] for name in THEIRS} == before.groups


def test_its_group_is_proven_and_is_all_that_the_stack_has_of_the_cloud(trial: Trial) -> None:
    (group,) = own_groups(trial).values()
    assert group["labels"]["gpu_pools_stack"] == "gpu-pools/small"
    (node,) = trial.nodes("gpu")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert trial.holds()
    state = trial.exported()["resources"]
    assert {one["type"] for one in state if one["type"].startswith("openstack:")} == {
        "openstack:containerinfra/nodeGroup:NodeGroup"
    }


def test_a_second_up_changes_nothing_although_magnum_has_signed_another_certificate(trial: Trial) -> None:
    assert trial.planned_steps() == []


@pytest.mark.sweep
def test_groups_are_added_changed_and_removed_and_nothing_else(trial: Trial, before: Before) -> None:
    def more(config: dict[str, Any]) -> None:
        config["gpu-pools:sharing"]["shared"] = {"timeSlicing": {"replicas": 8}}
        config["gpu-pools:pools"].append({"name": "more", "flavor": "g2", "count": 1, "sharing": "whole"})

    trial.edit(more)
    trial.up().ok()
    assert set(own_groups(trial)) == {"gpu", "more"}
    assert trial.nodes("gpu")[0]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    is_as_before(trial, before)

    trial.write(STACK)
    trial.up().ok()
    assert set(own_groups(trial)) == {"gpu"}
    is_as_before(trial, before)


@pytest.mark.sweep
def test_a_name_that_its_owner_has_taken_is_refused_before_anything_is_made(trial: Trial) -> None:
    def wrong(config: dict[str, Any]) -> None:
        pool = {"flavor": "g2", "count": 1, "sharing": "whole"}
        config["gpu-pools:pools"] += [{**pool, "name": "more"}, {**pool, "name": "apps"}]

    groups = own_groups(trial)
    trial.edit(wrong)
    for run in (trial.preview(), trial.up()):
        assert run.code != 0
        assert 'gpu-pools:pools[2].name: "apps" is a node group that the cluster has already, made by another' in run.text
        assert "nothing was created or changed" in run.text
    assert own_groups(trial) == groups
    trial.write(STACK)


@pytest.mark.sweep
def test_by_its_uuid_it_is_the_same_cluster(trial: Trial) -> None:
    uuid = shown(trial)[0]["uuid"]
    trial.edit(lambda config: config["gpu-pools:cluster"].update(existing={"uuid": uuid}))
    assert trial.planned_steps() == []
    trial.write(STACK)


@pytest.mark.sweep
def test_a_group_that_was_made_by_hand_is_adopted_without_being_changed(trial: Trial, tmp_path: Path) -> None:
    """Its labels can never be changed, so nothing of the group is: the first preview says `same`."""
    magnum = MagnumApi(service.load(trial.folder / "openstack").login())
    cluster = magnum.get("clusters/platform")
    made = magnum.create_group(cluster["uuid"], {"name": "byhand", "flavorId": "g2", "nodeCount": 1, "role": "ml"})
    group = magnum.get(f"clusters/{cluster['uuid']}/nodegroups/{made.id.rpartition('/')[2]}")
    nodes = {node["metadata"]["name"]: node["metadata"]["uid"] for node in trial.api().list("/api/v1/nodes")["items"]}
    for name, shown_by_openstack in (("cluster", cluster), ("group", group)):
        (tmp_path / name).write_text(json.dumps(shown_by_openstack))
    files = ["--cluster", tmp_path / "cluster", "--groups", tmp_path / "group", "--gpus", "g2=a100-40gb:1"]
    out = ["--stack", "small", "--stack-file", tmp_path / "stack.yaml", "--import-file", tmp_path / "import.json", "--add"]
    command = [sys.executable, "-m", "gpu_pools", "adopt", "magnum", "--driver", "heat", *map(str, (*files, *out))]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # its role, and what is in the cluster, are in no key
    config = yaml.safe_load((tmp_path / "stack.yaml").read_text())["config"]
    trial.edit(lambda ours: ours["gpu-pools:pools"].append(config["gpu-pools:pools"][0]))
    imported = ["import", "--file", str(tmp_path / "import.json"), "--yes", "--skip-preview", "--generate-code=false"]
    trial.engine(*imported, "--config-file", str(trial.sandbox.config_file)).ok()
    steps = {step["urn"].rpartition("::")[2]: step["op"] for step in trial.planned_steps() if "$openstack:" in step["urn"]}
    assert steps == {}
    trial.up().ok()
    after = magnum.get(f"clusters/{cluster['uuid']}/nodegroups/{made.id.rpartition('/')[2]}")
    assert {key: value for key, value in after.items() if key not in ITS_OWN} == {
        key: value for key, value in group.items() if key not in ITS_OWN
    }
    left = {node["metadata"]["name"]: node["metadata"]["uid"] for node in trial.api().list("/api/v1/nodes")["items"]}
    assert left.items() >= nodes.items()
    assert trial.holds()
    # The stack owns it now, and takes it away when it leaves the file.
    trial.write(STACK)
    trial.up().ok()
    assert set(own_groups(trial)) == {"gpu"}


@pytest.mark.sweep
def test_a_destroy_leaves_the_cluster_as_it_was(trial: Trial, before: Before) -> None:
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    assert own_groups(trial) == {}
    is_as_before(trial, before)
    assert magnum(trial) == before.magnum
    check_as_before(trial.api(), before.inside)
    trial.down().ok()
