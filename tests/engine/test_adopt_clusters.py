"""Every cluster of tests/adopting/clusters goes through the real engine: adopted, imported, previewed, managed, released.

On AKS one sandbox is put into one recorded state after the other. What people have made there is compared before and after; what
the engine would do it says itself, resource by resource.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.adopting.aks.resources import as_inputs, flat
from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_ids import cluster_id, network_id, pool_id
from sandbox.openstack import service
from sandbox.openstack.magnum_api import MagnumApi
from tests.adopting.recorded import BEFORE, CASES, WITH_POOLS
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs]

PROJECT = Path(__file__).parents[2]
POOL = "azure-native:containerservice:AgentPool"
SUBNET = f"{network_id('platform-rg', 'platform-network')}/subnets/nodes"
#: Settled by the cluster that the recording is put into: its version, and its network.
OF_THE_CLUSTER = {"orchestratorVersion", "vnetSubnetID", "podSubnetID", "powerState"}


def of(platform: str) -> list[str]:
    return [name for name in WITH_POOLS if CASES[name]["platform"] == platform]


def kubernetes(case: dict[str, Any], folder: Path) -> list[str]:
    """The arguments that give what is in the cluster, as kubectl printed it."""
    if not case["kubernetes"]:
        return []
    (folder / "inside.json").write_text(json.dumps({"kind": "List", "items": case["kubernetes"]}))
    return ["--kubernetes", str(folder / "inside.json")]


def adopt(trial: Trial, folder: Path, *arguments: str) -> Run:
    """Adopt into the trial's stack file, and return what was said."""
    files = ["--stack", "small", "--stack-file", str(trial.file), "--import-file", str(folder / "import.json"), "--force"]
    return trial.gpu_pools("adopt", *arguments, *files)


def imported(trial: Trial, folder: Path) -> None:
    """As adopt says it."""
    config = ["--config-file", str(trial.sandbox.config_file)]
    options = ["--yes", "--skip-preview", "--generate-code=false", *config]
    trial.engine("import", "--file", str(folder / "import.json"), *options).ok()


def released(trial: Trial, folder: Path) -> None:
    """Let go, and nothing is left in the state."""
    trial.gpu_pools("release", "small", "--yes", "--saved", str(folder / "saved.json")).ok()
    assert not trial.exported().get("resources")


def manage(trial: Trial) -> None:
    """What a user does who wants the pools managed: one line less."""
    trial.edit(lambda config: config.pop("gpu-pools:adoption"))


def judged(trial: Trial) -> None:
    """The policies for production stop no stack that changes nothing: what its owner has made was there before them."""
    pack = ("--policy-pack", "policies/pack", "--policy-pack-config", "policies/levels/prod.json")
    assert "✅ gpu-pools@" in trial.engine("preview", *pack).ok().text


@pytest.fixture(scope="module")
def azure(shared_sandbox: Callable[..., Trial]) -> Trial:
    """A cluster in which nobody has GPUs yet."""
    made = shared_sandbox(BEFORE)
    made.preview().ok()
    return made


class TestAks:
    """Agent pools."""

    @pytest.mark.parametrize("name", these(of("aks"), (), by_day=1))
    def test_nothing_is_changed_by_the_import_and_nothing_replaced_when_it_is_managed(
        self, azure: Trial, name: str, tmp_path: Path
    ) -> None:
        trial, case, cloud = azure, CASES[name], AzureCloud(azure.folder)
        for pool in self.pools(case):
            body = {key: value for key, value in as_inputs(pool, "AgentPool").items() if key not in OF_THE_CLUSTER}
            cloud.put_pool("platform-rg", "platform", pool["name"], {**body, "vnetSubnetID": SUBNET})
            cloud.belongs_to_others(pool_id("platform-rg", "platform", pool["name"]))
        before = self.shown(cloud, case)
        trial.write(BEFORE)
        (tmp_path / "cluster.json").write_text(json.dumps(cloud.get(cluster_id("platform-rg", "platform"))))
        run = adopt(trial, tmp_path, "aks", "--cluster", str(tmp_path / "cluster.json"), *kubernetes(case, tmp_path))
        assert run.code in {0, 1}, run.text
        config = yaml.safe_load(trial.file.read_text())["config"]
        assert self.without_network(config["gpu-pools:pools"]) == self.without_network(case["pools_expected"])
        assert config["gpu-pools:sharing"] == case["sharing_expected"]
        imported(trial, tmp_path)
        assert trial.planned_steps() == []
        judged(trial)

        manage(trial)
        steps = trial.planned_steps()
        assert {step["op"] for step in steps} <= {"create", "update"}
        pools = {step["urn"].rpartition("::")[2]: step for step in steps if step["urn"].split("::")[2].endswith(POOL)}
        assert set(pools) == {f"gpu-{one['name']}-pool" for one in case["pools_expected"]}
        for step in pools.values():
            assert step["op"] == "update"
            assert set(step["diffReasons"]) <= {"nodeLabels", "tags", "orchestratorVersion", "powerState"}
            assert not step.get("replaceReasons")
        assert {step["urn"] for step in steps if step["op"] == "update"} == {step["urn"] for step in pools.values()}

        released(trial, tmp_path)
        assert self.shown(cloud, case) == before
        for one in self.pools(case):
            cloud.delete_pool("platform-rg", "platform", one["name"])

    def pools(self, case: dict[str, Any]) -> list[dict[str, Any]]:
        """The pools with GPUs that can be adopted, as they were recorded."""
        listed = [flat(one) for one in case["pools"] or case["cluster"]["agentPoolProfiles"]]
        return [one for one in listed if one["name"] in {pool["name"] for pool in case["pools_expected"]}]

    def shown(self, cloud: AzureCloud, case: dict[str, Any]) -> list[Any]:
        """The cluster and the pools, as Azure shows them."""
        ids = [pool_id("platform-rg", "platform", one["name"]) for one in self.pools(case)]
        return [cloud.get(id_) for id_ in [cluster_id("platform-rg", "platform"), *ids]]

    def without_network(self, pools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in one.items() if key != "subnet"} for one in pools]


def magnum_stack(case: dict[str, Any]) -> str:
    """A stack that has the flavors and images of a recording, so that the sandbox's OpenStack has them."""
    options = dict(zip(case["arguments"][::2], case["arguments"][1::2], strict=True))
    pools = [
        {key: value for key, value in one.items() if key != "adopted"} | {"sharing": "whole"} for one in case["pools_expected"]
    ]
    gpus = {"gpuModel": "a100-40gb", "gpusPerNode": 1, "vcpus": 8, "memoryGiB": 64}
    there = {"install": False} if options["--driver"] == "capi-helm" else {}
    sections = {
        "cluster": {"platform": "magnum", "driver": options["--driver"], "existing": {"name": "platform"}},
        "flavors": {one["flavor"]: {**gpus} for one in pools},
        "sharing": {"whole": {"exclusive": {}}},
        "operator": {**there},
        "nodeFeatureDiscovery": {**there},
        "pools": pools,
    }
    return yaml.safe_dump({"config": {f"gpu-pools:{key}": value for key, value in sections.items()}}, sort_keys=False)


#: What Magnum itself writes of a group; of a cluster the last operation and the nodes of all groups, too.
ITS_OWN = {
    "status",
    "status_reason",
    "health_status",
    "health_status_reason",
    "updated_at",
    "node_addresses",
    "links",
    "stack_id",
}
#: Of a group, as people ask Magnum for it.
ASKED = {
    "flavor_id": "flavorId",
    "image_id": "imageId",
    "docker_volume_size": "dockerVolumeSize",
    "node_count": "nodeCount",
    "min_node_count": "minNodeCount",
    "max_node_count": "maxNodeCount",
    "role": "role",
    "labels": "labels",
}


class TestMagnum:
    """Node groups of a real Magnum."""

    @pytest.mark.parametrize("name", these(of("magnum"), (), by_day=0))
    def test_nothing_is_changed_by_the_import_and_no_group_when_it_is_managed(
        self, sandbox: Callable[..., Trial], name: str, tmp_path: Path
    ) -> None:
        case = CASES[name]
        trial = sandbox(magnum_stack(case))
        trial.preview().ok()
        magnum = MagnumApi(service.load(trial.sandbox.openstack).login())
        uuid = magnum.get("clusters/platform")["uuid"]
        wanted = {one["name"] for one in case["pools_expected"]}
        ids = []
        for group in (one for one in case["groups"] if one["name"] in wanted):
            values = {theirs: group[ours] for ours, theirs in ASKED.items() if group.get(ours) is not None}
            ids.append(magnum.create_group(uuid, {"name": group["name"], **values, "mergeLabels": True}).id.rpartition("/")[2])
        before = self.shown(magnum, uuid, ids)
        (tmp_path / "cluster.json").write_text(json.dumps(magnum.get(f"clusters/{uuid}")))
        (tmp_path / "groups.json").write_text(json.dumps([magnum.get(f"clusters/{uuid}/nodegroups/{id_}") for id_ in ids]))
        read = ["--cluster", str(tmp_path / "cluster.json"), "--groups", str(tmp_path / "groups.json")]
        run = adopt(trial, tmp_path, "magnum", *case["arguments"], *read, *kubernetes(case, tmp_path))
        assert run.code in {0, 1}, run.text
        config = yaml.safe_load(trial.file.read_text())["config"]
        assert config["gpu-pools:pools"] == case["pools_expected"]
        assert config["gpu-pools:sharing"] == case["sharing_expected"]
        imported(trial, tmp_path)
        assert trial.planned_steps() == []
        judged(trial)
        self.refused(trial)
        assert self.shown(magnum, uuid, ids) == before
        trial.wait_until(lambda: trial.status().code == 0, "its nodes, as they are", 120)
        looked = json.loads(trial.run("status", "small", "--json").ok().out)
        assert {one["pool"]: (one["expected"], one["holds"]) for one in looked["pools"]} == {name: ({}, True) for name in wanted}

        manage(trial)
        steps = trial.planned_steps()
        assert {step["op"] for step in steps} == {"create"}
        assert not [step for step in steps if "$openstack:" in step["urn"]]

        released(trial, tmp_path)
        assert self.shown(magnum, uuid, ids) == before

    def refused(self, trial: Trial) -> None:
        """No edit of a group that is only held is sent, and none takes it away."""
        text = trial.file.read_text()

        def more(config: dict[str, Any]) -> None:
            pool = config["gpu-pools:pools"][0]
            if "count" in pool:
                pool["count"] += 1
            else:
                pool["nodes"]["max"] += 1

        trial.edit(more)
        for run in (trial.engine("preview"), trial.engine("up", "--yes", "--skip-preview")):
            assert run.code != 0
            assert "gpu-pools:adoption is imported: nothing of the pool is changed" in run.text
        trial.write(text)

    def shown(self, magnum: MagnumApi, uuid: str, groups: list[str]) -> list[Any]:
        """The cluster and the groups, as Magnum shows them."""
        paths = [f"clusters/{uuid}", *(f"clusters/{uuid}/nodegroups/{id_}" for id_ in groups)]
        return [{key: value for key, value in magnum.get(path).items() if key not in ITS_OWN} for path in paths]


class TestExisting:
    """Clusters of any make: nothing of them is a cloud's, so nothing is imported."""

    @pytest.mark.parametrize("name", these(of("existing"), (), by_day=2))
    def test_the_first_preview_makes_objects_and_changes_and_replaces_none(
        self, sandbox: Callable[..., Trial], name: str, tmp_path: Path
    ) -> None:
        trial = sandbox("config: {}\n")
        run = adopt(trial, tmp_path, "existing", *kubernetes(CASES[name], tmp_path))
        assert run.code in {0, 1}, run.text
        assert not (tmp_path / "import.json").exists()
        preview = trial.preview()
        if preview.code:
            # MPS with device plugin v0.20.0 needs a policy, which belongs to whoever owns the operator: the remedy is followed.
            assert "(W49; Kubernetes 1.36)" in preview.text
            assert "kubectl apply -f docs/mps-signal.yaml" in preview.text
            trial.run("shell", "small", "kubectl", "apply", "-f", str(PROJECT / "docs/mps-signal.yaml")).ok()
            trial.preview().ok()
        steps = trial.planned_steps()
        assert {step["op"] for step in steps} == {"create"}
        types = {step["urn"].split("::")[2].rpartition("$")[2].partition(":")[0] for step in steps}
        assert types <= {"gpu-pools", "kubernetes", "pulumi"}
