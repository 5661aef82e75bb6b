"""A GPU pool that somebody has made by hand comes under management without a node of it being touched, and is let go again.

One sandbox for the file; the tests run in their order. The pool is made through Azure's stand-in, adopted from what that shows,
imported by the engine's own command, and proven by the first `up`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_ids import cluster_id, network_id, pool_id
from tests.adopting.recorded import BEFORE
from tests.engine.trial import PROJECT, Run
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("recorded clusters are adopted by day")]

CLUSTER = cluster_id("platform-rg", "platform")
POOL = pool_id("platform-rg", "platform", "byhand")
BODY: dict[str, Any] = {
    # As people write it: Azure keeps the case.
    "vmSize": "standard_nc24ads_a100_v4",
    "count": 1,
    "mode": "User",
    "osType": "Linux",
    "osDiskSizeGB": 256,
    "maxPods": 60,
    "nodeLabels": {"team": "ml"},
    "nodeTaints": ["sku=gpu:NoSchedule"],
    "tags": {"costs": "4711"},
    "gpuProfile": {"driver": "None"},
    "messageOfTheDay": "aGVsbG8=",
    "vnetSubnetID": f"{network_id('platform-rg', 'platform-network')}/subnets/nodes",
}


def shown(trial: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the pool, the cluster without pools and what Azure itself writes), as Azure shows them."""
    cloud = AzureCloud(trial.folder)
    pool, cluster = cloud.get(POOL), cloud.get(CLUSTER)
    assert pool
    assert cluster
    return pool, {key: value for key, value in cluster.items() if key not in {"eTag", "agentPoolProfiles"}}


def machines(trial: Trial) -> list[tuple[str, str]]:
    """(name, UID) of the pool's nodes: a node that was made anew has another UID."""
    nodes = trial.api().list("/api/v1/nodes")["items"]
    mine = [node["metadata"] for node in nodes if node["metadata"]["labels"].get("kubernetes.azure.com/agentpool") == "byhand"]
    return sorted((node["name"], node["uid"]) for node in mine)


def gpu_pools(*arguments: str | Path, **environment: str) -> Run:
    command = [sys.executable, "-m", "gpu_pools", *map(str, arguments)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, env=environment or None)
    return Run(" ".join(command), done.returncode, done.stdout, done.stderr, 0)


def of_cloud(steps: list[dict[str, Any]]) -> dict[str, str]:
    """Pulumi name -> what the preview does with it, of all resources of the cloud."""
    return {step["urn"].rpartition("::")[2]: step["op"] for step in steps if "$azure-native:" in step["urn"]}


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A cluster with a pool that somebody made by hand, and no stack."""
    made = shared_sandbox(BEFORE)
    made.preview().ok()
    cloud = AzureCloud(made.folder)
    cloud.put_pool("platform-rg", "platform", "byhand", BODY)
    cloud.belongs_to_others(POOL)
    made.wait_until(lambda: machines(made), "the pool's node")
    return made


@pytest.fixture(scope="module")
def before(trial: Trial) -> tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]:
    pool, cluster = shown(trial)
    return pool, cluster, machines(trial)


def test_the_import_changes_nothing_and_what_is_managed_then_replaces_nothing_of_the_cloud(
    trial: Trial, before: tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]], tmp_path: Path
) -> None:
    document, imports = tmp_path / "cluster.json", tmp_path / "import.json"
    document.write_text(json.dumps(AzureCloud(trial.folder).get(CLUSTER)))
    adopt = [
        "adopt",
        "aks",
        "--cluster",
        document,
        "--stack",
        "small",
        "--stack-file",
        trial.file,
        "--import-file",
        imports,
        "--force",
    ]
    run = gpu_pools(*adopt)
    assert run.code == 1, run.text  # the message of the day is in no key, and nobody looked into the cluster
    assert 'messageOfTheDay = "aGVsbG8=": no key says it' in run.out
    config = ["--config-file", str(trial.sandbox.config_file)]
    trial.engine("import", "--file", str(imports), "--yes", "--skip-preview", "--generate-code=false", *config).ok()
    assert trial.planned_steps() == []
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(count=2))
    refused = trial.engine("preview")
    assert refused.code != 0
    assert (
        "pool gpu-byhand: count: would be 2, and gpu-pools:adoption is imported: nothing of the pool is changed" in refused.text
    )
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(count=1))
    held(trial)
    pool, cluster = shown(trial)
    assert (pool, cluster, machines(trial)) == before

    trial.edit(lambda config: config.pop("gpu-pools:adoption"))
    steps = trial.planned_steps()
    assert of_cloud(steps) == {"gpu-byhand-pool": "update"}
    assert {step["op"] for step in steps} == {"create", "update"}
    (pool,) = [step for step in steps if step["op"] == "update"]
    # Version and power state are sent no more, so that Azure leaves them as they are.
    assert set(pool["diffReasons"]) == {"nodeLabels", "tags", "orchestratorVersion", "powerState"}


def held(trial: Trial) -> None:
    """A stack that only holds its pool is deployed, looked at, and judged by the policies: all of it says what it is."""
    run = trial.up().ok()
    assert "as it is" in run.out
    for node, _ in machines(trial):
        assert node in trial.status().ok().out
    looked = json.loads(trial.run("status", "small", "--json").ok().out)
    assert looked["troubles"] == []
    (pool,) = looked["pools"]
    assert (pool["expected"], pool["holds"]) == ({}, True)
    proven = trial.run("verify", "small")
    assert proven.code == 2
    assert "Nothing is verified: gpu-pools:adoption is imported" in proven.err
    assert "Take gpu-pools:adoption out of the stack file" in proven.err
    for level in ("dev", "prod"):
        pack = ("--policy-pack", "policies/pack", "--policy-pack-config", f"policies/levels/{level}.json")
        trial.engine("preview", "--expect-no-changes", *pack).ok()


def test_the_first_up_proves_the_pool_and_leaves_its_machines_and_the_cluster_as_they_were(
    trial: Trial, before: tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]
) -> None:
    trial.up().ok()
    pool, cluster = shown(trial)
    assert machines(trial) == before[2]
    assert cluster == before[1]
    changed = {key for key in pool.keys() | before[0].keys() if pool.get(key) != before[0].get(key)}
    assert changed <= {"nodeLabels", "tags", "eTag"}
    assert pool["nodeLabels"].items() >= {("team", "ml"), ("gpu-pools/pool", "byhand")}
    assert pool["tags"] == {"costs": "4711", "gpu-pools": "gpu-pools/small"}
    assert trial.holds()
    assert trial.planned_steps() == []


def test_what_is_released_runs_on_and_is_taken_back_whole(trial: Trial, tmp_path: Path) -> None:
    pool, cluster = shown(trial)
    nodes, saved = machines(trial), tmp_path / "saved.json"
    objects = {one["metadata"]["name"] for one in trial.api().list("/apis/apps/v1/daemonsets")["items"]}
    told = trial.gpu_pools("release", "small")
    assert "would run on, managed by nobody" in told.ok().out
    assert "azure-native:containerservice:AgentPool: gpu-byhand-pool" in told.out
    assert trial.exported()["resources"]

    trial.gpu_pools("release", "small", "--yes", "--saved", str(saved)).ok()
    assert not trial.exported().get("resources")
    assert saved.stat().st_mode & 0o077 == 0
    assert (shown(trial), machines(trial)) == ((pool, cluster), nodes)
    assert {one["metadata"]["name"] for one in trial.api().list("/apis/apps/v1/daemonsets")["items"]} == objects
    assert trial.gpu_pools("release", "small").code == 2

    again = trial.engine("up", "--yes", "--skip-preview")
    assert again.code != 0
    assert (shown(trial), machines(trial)) == ((pool, cluster), nodes), again.text
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    assert (shown(trial), machines(trial)) == ((pool, cluster), nodes)
    assert {one["metadata"]["name"] for one in trial.api().list("/apis/apps/v1/daemonsets")["items"]} == objects

    trial.engine("stack", "import", "--file", str(saved)).ok()
    assert trial.planned_steps() == []


#: A cluster of another make with an operator and NFD of its owner's, who shares its GPUs by hand.
OWNERS = """
config:
  gpu-pools:cluster: {platform: existing}
  gpu-pools:sharing: {whole: {exclusive: {}}}
  gpu-pools:operator: {install: false}
  gpu-pools:nodeFeatureDiscovery: {install: false}
  gpu-pools:pools:
    - {name: a, nodeSelector: {example.com/rack: a}, gpuModel: NVIDIA A100-SXM4-80GB, gpusPerNode: 2, count: 2, sharing: whole}
"""
FOUR = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
READ = {
    "NodeList": "/api/v1/nodes",
    "ClusterPolicyList": "/apis/nvidia.com/v1/clusterpolicies",
    "ConfigMapList": "/api/v1/namespaces/gpu-operator/configmaps",
    "DaemonSetList": "/apis/apps/v1/daemonsets",
}


def test_nodes_of_another_cluster_go_on_sharing_as_their_owner_had_it(sandbox: Callable[..., Trial], tmp_path: Path) -> None:
    trial = sandbox(OWNERS)
    trial.preview().ok()
    api = trial.api()

    def shares() -> dict[str, str]:
        nodes = [node for node in api.list("/api/v1/nodes")["items"] if node["metadata"]["labels"].get("example.com/rack") == "a"]
        return {node["metadata"]["uid"]: node["status"]["allocatable"].get("nvidia.com/gpu") for node in nodes}

    by_hand = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "time-slicing"}, "data": {"four": FOUR}}
    api.create("/api/v1/namespaces/gpu-operator/configmaps", by_hand)
    policy = {"spec": {"devicePlugin": {"config": {"name": "time-slicing", "default": "four"}}}}
    api.patch("/apis/nvidia.com/v1/clusterpolicies/cluster-policy", policy)
    trial.wait_until(lambda: list(shares().values()) == ["8", "8"], "its owner's time-slicing", 120)
    before = shares()
    for kind, path in READ.items():
        (tmp_path / kind).write_text(json.dumps({**api.list(path), "kind": kind}))
    files = ["--stack-file", trial.file, "--import-file", tmp_path / "import.json", "--force"]
    run = gpu_pools("adopt", "existing", "--stack", "small", *files, "--kubernetes", *(tmp_path / kind for kind in READ))
    assert run.code == 1, run.text  # its owner's ConfigMap stays, and is said
    assert {step["op"] for step in trial.planned_steps()} == {"create"}
    trial.up().ok()
    assert shares() == before
    assert trial.holds()
    assert trial.get("/api/v1/namespaces/gpu-operator/configmaps/time-slicing")["data"] == {"four": FOUR}
