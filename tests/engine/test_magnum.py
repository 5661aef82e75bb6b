"""What a real Magnum teaches a stack: what it refuses, loses, drops and forgets, and what the next run makes of it.

The tests share one stack and run in the order they are written: it is refused until nothing is wrong any more, then it is up,
and things happen to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from sandbox import processes
from sandbox.files import read_json, write_json
from sandbox.openstack import environment
from sandbox.openstack.identity import ADMIN
from sandbox.openstack.magnum_api import MagnumApi
from sandbox.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs]

STACK = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: magnum-cluster-api
    template: {image: ubuntu-24.04, externalNetwork: public, flavor: m2.large, networkDriver: calico}
    keypair: gpu-admin
    checkCloud: false  # what Magnum itself refuses is looked at here
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: steady, flavor: g2.5xlarge, count: 2, sharing: shared}
    - {name: grows, flavor: g2.5xlarge, nodes: {min: 1, max: 4}, sharing: shared}
"""
POOLS = {"steady", "grows"}
DEFAULT = {"default-master", "default-worker"}


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A stack whose cloud is there and that was never brought up."""
    made = shared_sandbox(STACK)
    made.preview().ok()
    return made


def _up(trial: Trial) -> Run:
    """The engine alone: nothing of the sandbox sees to the cloud before."""
    return trial.engine("up", "--yes", "--skip-preview")


def _groups(trial: Trial) -> dict[str, dict[str, Any]]:
    return {group["name"]: group for group in trial.magnum()["groups"]}


def _cluster(trial: Trial) -> str:
    (cluster,) = trial.magnum()["clusters"]
    return str(cluster["uuid"])


def _administrator(trial: Trial) -> MagnumApi:
    password = read_json(trial.sandbox.openstack / "passwords.json")["admin"]
    return MagnumApi({**trial.login(), "OS_USERNAME": ADMIN, "OS_PROJECT_NAME": ADMIN, "OS_PASSWORD": password})


def _disturb(trial: Trial, **what: Any) -> None:
    path = trial.sandbox.openstack / "driver.json"
    write_json(path, {**read_json(path), "disturbances": what})


# ---------------------------------------------------------------------- before it is up


@pytest.mark.parametrize(
    ("missing", "resource", "text"),
    [
        ("images", "openstack:containerinfra:ClusterTemplate (gpu-template)", "Image ubuntu-24.04 could not be found."),
        ("networks", "openstack:containerinfra:ClusterTemplate (gpu-template)", "Unable to find external network public."),
        ("flavors", "openstack:containerinfra:ClusterTemplate (gpu-template)", "Unable to find flavor m2.large."),
        ("keypairs", "openstack:containerinfra:Cluster (gpu-cluster)", "Unable to find keypair gpu-admin."),
    ],
)
def test_what_the_cloud_does_not_have_is_named_at_its_resource(trial: Trial, missing: str, resource: str, text: str) -> None:
    seed = read_json(trial.sandbox.openstack_seed)
    write_json(trial.sandbox.openstack_seed, {**seed, missing: {} if missing == "flavors" else []})
    try:
        _check_refused(_up(trial), resource, text)
    finally:
        write_json(trial.sandbox.openstack_seed, seed)


def test_a_cluster_over_the_quota_is_refused_at_the_cluster(trial: Trial) -> None:
    administrator, stack = _administrator(trial), MagnumApi(trial.login())
    administrator._log_in()
    stack._log_in()
    quota = {"project_id": stack._project, "resource": "Cluster", "hard_limit": 0}
    administrator._call("POST", "quotas", quota)
    refused = _up(trial)
    administrator._call("DELETE", f"quotas/{stack._project}/Cluster")
    _check_refused(
        refused, "openstack:containerinfra:Cluster (gpu-cluster)", "You have reached the maximum clusters per project, 0."
    )


def _check_refused(run: Run, resource: str, text: str) -> None:
    assert run.code != 0
    assert text in run.text
    told = run.text[run.text.index("Diagnostics:") :]
    assert told.index(resource) < told.index(text)
    assert "Traceback" not in run.text


def test_up_goes_on_where_it_was_refused(trial: Trial) -> None:
    assert len(trial.magnum()["templates"]) == 1, "what was made before the refusal is kept"
    _disturb(trial, seconds=0)
    trial.up().ok()
    assert trial.holds()
    assert len(trial.magnum()["templates"]) == 1
    assert set(_groups(trial)) == POOLS | DEFAULT


# ---------------------------------------------------------------------- up


def test_the_real_client_lists_the_pools_of_the_stack(trial: Trial) -> None:
    python = environment.find(Progress())
    command = [python, "-m", "openstackclient.shell", "coe", "nodegroup", "list", "small", "-f", "json"]
    login = {**os.environ, **trial.login(), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=login, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    listed = {group["name"]: (group["flavor_id"], group["node_count"]) for group in json.loads(done.stdout)}
    declared = {pool.name: (pool.pool.placement.flavor, pool.pool.min_nodes) for pool in trial.plan().pools}
    assert {name: group for name, group in listed.items() if name not in DEFAULT} == declared


def test_a_fixed_pool_is_resized_by_its_count(trial: Trial) -> None:
    uuid = _groups(trial)["steady"]["uuid"]
    for count in (3, 2):
        trial.edit(lambda config, count=count: config["gpu-pools:pools"][0].update(count=count))
        trial.up().ok()
        assert len(trial.nodes("steady")) == count
        assert (_groups(trial)["steady"]["uuid"], _groups(trial)["steady"]["node_count"]) == (uuid, count)


def test_a_refused_update_is_not_taken_for_done(trial: Trial) -> None:
    """The plugin keeps in the state what Magnum has refused: the next `up` must look at the cloud, or it finds nothing to do."""
    trial.edit(lambda config: config["gpu-pools:pools"][1].update(nodes={"min": 3, "max": 4}))
    refused = trial.up()
    assert refused.code == 1
    _check_refused(refused, "openstack:containerinfra:NodeGroup (gpu-grows-group)", "min_node_count for grows is invalid")
    again = trial.up()
    assert "min_node_count for grows is invalid" in again.text, "it is tried again, and not silently taken for done"
    # As Magnum wants it: first the nodes, then the limit.
    trial.scale("grows", 3).ok()
    trial.up().ok()
    assert _groups(trial)["grows"]["node_count"] == 3
    api = MagnumApi(trial.login())
    assert api._call("GET", f"clusters/{_cluster(trial)}/nodegroups/grows")["min_node_count"] == 3


def test_a_group_that_was_resized_or_deleted_outside_comes_back(trial: Trial) -> None:
    api, cluster = MagnumApi(trial.login()), _cluster(trial)
    steady, grows = (_groups(trial)[name]["uuid"] for name in ("steady", "grows"))
    api.update_group(f"{cluster}/{steady}", limits={}, node_count=1)
    api.delete_group(f"{cluster}/{grows}")
    drift = trial.engine("preview", "--refresh", "--diff").ok()
    assert "gpu-steady-group" in drift.out
    assert "gpu-grows-group" in drift.out
    trial.up().ok()
    assert trial.holds()
    groups = _groups(trial)
    assert set(groups) == POOLS | DEFAULT
    assert (groups["steady"]["uuid"], groups["steady"]["node_count"]) == (steady, 2)
    assert groups["grows"]["uuid"] != grows


def test_a_group_that_the_driver_loses_is_made_by_the_next_run(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:pools"].append({**config["gpu-pools:pools"][0], "name": "late", "count": 1}))
    _disturb(trial, seconds=0, lose=["late"])
    lost = trial.up()
    _check_refused(lost, "openstack:containerinfra:NodeGroup (gpu-late-group)", "unexpected state 'DELETE_COMPLETE'")
    _disturb(trial, seconds=0)
    trial.up().ok()
    assert trial.holds()
    assert set(_groups(trial)) == POOLS | DEFAULT | {"late"}


def test_an_operation_that_the_conductor_drops_is_shown_by_the_next_preview(trial: Trial) -> None:
    """Magnum answers 202 to a change of the cluster while a group is made, and only its log says that nothing comes of it."""
    _disturb(trial, seconds=6)
    api, cluster = MagnumApi(trial.login()), _cluster(trial)
    trial.edit(lambda config: config["gpu-pools:cluster"].update(workers=2))
    api._call("POST", f"clusters/{cluster}/nodegroups", {"name": "outside", "flavor_id": "m2.large", "node_count": 1})
    _up(trial).ok()
    _disturb(trial, seconds=0)
    assert _groups(trial)["default-worker"]["node_count"] == 1
    assert [step["op"] for step in trial.planned_steps() if "Cluster::" in step["urn"]] == ["update"]
    trial.up().ok()
    assert _groups(trial)["default-worker"]["node_count"] == 2
    assert "outside" not in _groups(trial), "what no stack knows is taken away in the sandbox"


def test_a_part_of_openstack_that_died_is_named_and_started_again(trial: Trial) -> None:
    os.killpg(processes.running(trial.sandbox.openstack)["magnum"].pid, signal.SIGKILL)
    trial.wait_until(lambda: "magnum" not in processes.running(trial.sandbox.openstack), "the end of Magnum")
    seen = trial.status()
    assert seen.code == 1
    assert "not running any more: magnum" in seen.err
    trial.preview().ok()
    trial.status().ok()
    assert set(_groups(trial)) == POOLS | DEFAULT | {"late"}


def test_a_changed_label_of_a_protected_cluster_is_refused_by_the_preview(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:cluster"].update(protect=True))
    trial.up().ok()
    trial.edit(lambda config: config["gpu-pools:cluster"].update(labels={"auto_scaling_enabled": "true"}))
    refused = trial.engine("preview")
    assert refused.code != 0
    assert "protect" in refused.text


def test_down_leaves_nothing(trial: Trial) -> None:
    """It asks Magnum itself what is left."""
    trial.down().ok()
    assert not trial.root.exists()
    assert trial.processes() == {}
