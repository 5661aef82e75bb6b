"""The stand-in for Azure: what it refuses, with the service's words, and which machines come of its pools."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sandbox.clouds import azure_ids
from sandbox.clouds import azure_rules as rules
from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_rules import check_label, parse_taint, vm_size
from sandbox.clouds.entra import TENANT
from sandbox.clouds.host import Host
from sandbox.providers.azure_native import AzureNativeStandIn
from sandbox.providers.base import Request, ServiceError
from sandbox.providers.values import UNKNOWN, Secret

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.cluster.machine_groups import MachineGroup

GPU = "Standard_NC24ads_A100_v4"
SYSTEM = {"name": "system", "mode": "System", "vmSize": "Standard_D4s_v5", "count": 1}
CLUSTER = {
    "location": "westeurope",
    "dnsPrefix": "gpu",
    "identity": {"type": "SystemAssigned"},
    "agentPoolProfiles": [SYSTEM],
}


@dataclass(frozen=True)
class FakeCluster:
    kubeconfig: Path
    server: str = "https://127.0.0.1:6443"
    ca_pem: str = "ca"
    client_cert_pem: str = "cert"
    client_key_pem: str = "key"


@dataclass
class FakeHost:
    """Clusters that are folders with a kubeconfig, and machines that are a dict."""

    machines: dict[str, MachineGroup] = field(default_factory=dict)
    booted: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)
    broken: bool = False
    trusted: dict[str, str] = field(default_factory=dict)
    administered: dict[str, list[str]] = field(default_factory=dict)
    defined: list[str] = field(default_factory=list)

    def host(self) -> Host:
        return Host(
            boot=self.boot,
            erase=self.erase,
            load=self.load,
            put=self.put,
            remove=lambda _, id_: self.machines.pop(id_, None),
            trust=lambda folder, authority: self.trusted.update({folder.name: authority}),
            administer=lambda folder, groups: self.administered.update({folder.name: list(groups)}),
            define=lambda folder: self.defined.append(folder.name),
        )

    def boot(self, folder: Path, name: str) -> FakeCluster:
        if self.broken:
            raise RuntimeError("etcd does not start")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kubeconfig").write_text(f"name: {name}")
        self.booted.append(name)
        return self.load(folder)

    def load(self, folder: Path) -> FakeCluster:
        return FakeCluster(folder / "kubeconfig")

    def erase(self, folder: Path) -> None:
        self.erased.append(folder.name)

    def put(self, _folder: Path, group: MachineGroup) -> None:
        self.machines[group.id] = group


@pytest.fixture
def fake() -> FakeHost:
    return FakeHost()


@pytest.fixture
def empty(tmp_path: Path, fake: FakeHost) -> AzureCloud:
    return AzureCloud(tmp_path, fake.host())


@pytest.fixture
def cloud(empty: AzureCloud) -> AzureCloud:
    """A cloud with the cluster `gpu` in the group `dev`."""
    empty.put_group("dev", {"location": "westeurope"})
    empty.put_cluster("dev", "gpu", CLUSTER)
    return empty


def put(cloud: AzureCloud, name: str = "nb", **body: Any) -> dict[str, Any]:
    return cloud.put_pool("dev", "gpu", name, {"vmSize": GPU, "count": 1, "mode": "User", **body})


NETWORK = {"location": "westeurope", "addressSpace": {"addressPrefixes": ["10.8.0.0/16"]}}
NODES = {"name": "nodes", "addressPrefix": "10.8.0.0/20"}
OTHER = {"name": "other", "addressPrefix": "10.8.16.0/20"}


class TestNetworks:
    @pytest.fixture
    def inside(self, empty: AzureCloud) -> AzureCloud:
        """A cloud with two networks, and a cluster whose system pool lies in the subnet `nodes`."""
        empty.put_group("dev", {"location": "westeurope"})
        empty.put_network("dev", "net", {**NETWORK, "subnets": [NODES, OTHER]})
        empty.put_network("dev", "far", {**NETWORK, "subnets": [NODES]})
        empty.put_cluster("dev", "gpu", {**CLUSTER, "agentPoolProfiles": [{**SYSTEM, "vnetSubnetID": self.subnet()}]})
        return empty

    @staticmethod
    def subnet(network: str = "net", name: str = "nodes") -> str:
        return f"{azure_ids.network_id('dev', network)}/subnets/{name}"

    @pytest.mark.parametrize(
        ("subnets", "code"),
        [
            ([{"name": "out", "addressPrefix": "10.9.0.0/24"}], "NetcfgSubnetRangeOutsideVnet"),
            ([NODES, {"name": "twice", "addressPrefix": "10.8.1.0/24"}], "NetcfgSubnetRangesOverlap"),
            ([{"name": "crooked", "addressPrefix": "10.8.0.1/20"}], "InvalidCIDRNotation"),
        ],
    )
    def test_subnets_lie_in_the_network_and_beside_each_other(self, cloud: AzureCloud, subnets: Any, code: str) -> None:
        with pytest.raises(AzureError) as refused:
            cloud.put_network("dev", "net", {**NETWORK, "subnets": subnets})
        assert refused.value.code == code

    def test_a_network_is_answered_with_the_ids_of_its_subnets(self, inside: AzureCloud) -> None:
        answer = inside.get(azure_ids.network_id("dev", "net")) or {}
        assert [subnet["id"] for subnet in answer["subnets"]] == [self.subnet(), self.subnet(name="other")]

    @pytest.mark.parametrize(
        ("subnet", "text"),
        [
            ("none", "agentPoolProfile.vnetSubnetID is invalid"),
            ("far", "must lie in the same virtual network"),
            ("", "The Agentpool nb does not have subnet defined"),
        ],
    )
    def test_all_pools_of_a_cluster_lie_in_subnets_of_one_network(self, inside: AzureCloud, subnet: str, text: str) -> None:
        where = {"vnetSubnetID": self.subnet(subnet)} if subnet else {}
        with pytest.raises(AzureError, match=text):
            put(inside, **where)
        put(inside, vnetSubnetID=self.subnet(name="other"))

    def test_a_pool_cannot_lie_in_a_subnet_where_the_others_lie_in_none(self, cloud: AzureCloud) -> None:
        cloud.put_network("dev", "net", {**NETWORK, "subnets": [NODES]})
        with pytest.raises(AzureError, match="The Agentpool system does not have subnet defined"):
            put(cloud, vnetSubnetID=self.subnet())

    def test_a_subnet_that_is_used_stays_as_it_is(self, inside: AzureCloud) -> None:
        for subnets, code in (
            ([OTHER], "InUseSubnetCannotBeDeleted"),
            ([{**NODES, "addressPrefix": "10.8.0.0/21"}, OTHER], "InUseSubnetCannotBeUpdated"),
        ):
            with pytest.raises(AzureError) as refused:
                inside.put_network("dev", "net", {**NETWORK, "subnets": subnets})
            assert refused.value.code == code
        with pytest.raises(AzureError, match="is in use by"):
            inside.delete_network("dev", "net")
        inside.put_network("dev", "net", {**NETWORK, "subnets": [NODES]})
        inside.delete_cluster("dev", "gpu")
        inside.delete_network("dev", "net")
        assert inside.made() == {azure_ids.group_id("dev").lower(), azure_ids.network_id("dev", "far").lower()}

    def test_the_group_takes_its_networks_with_it(self, inside: AzureCloud) -> None:
        inside.delete_group("dev")
        assert inside.made() == set()

    def test_what_no_stack_knows_goes(self, inside: AzureCloud) -> None:
        inside.remove_unknown([azure_ids.group_id("dev"), azure_ids.network_id("dev", "far")])
        assert inside.made() == {azure_ids.group_id("dev").lower(), azure_ids.network_id("dev", "far").lower()}


class TestPoolRules:
    @pytest.mark.parametrize(
        ("name", "body", "text"),
        [
            ("NB", {}, "parameter agentPoolProfile.name is invalid"),
            ("a23456789abcd", {}, "parameter agentPoolProfile.name is invalid"),
            ("gpu-nb", {}, "parameter agentPoolProfile.name is invalid"),
            ("1nb", {}, "parameter agentPoolProfile.name is invalid"),
            (
                "nb",
                {"vmSize": "Standard_NC1"},
                "AgentPoolProfile:nb is not allowed in your subscription in location 'westeurope'",
            ),
            ("nb", {"vmSize": "Standard_NC6s_v3"}, "is not allowed in your subscription"),
            ("nb", {"count": -1}, "agentPoolProfile.count is invalid"),
            ("nb", {"count": 1001}, "agentPoolProfile.count is invalid"),
            ("nb", {"mode": "System", "count": 0}, "agentPoolProfile.count is invalid"),
            ("nb", {"minCount": 1}, "minCount cannot be set when enableAutoScaling is false"),
            ("nb", {"maxCount": 1}, "maxCount cannot be set when enableAutoScaling is false"),
            ("nb", {"enableAutoScaling": True, "maxCount": 2}, "Required parameter properties.minCount is missing"),
            ("nb", {"enableAutoScaling": True, "minCount": 0}, "Required parameter properties.maxCount is missing"),
            (
                "nb",
                {"enableAutoScaling": True, "minCount": 3, "maxCount": 2, "count": 3},
                "maxCount 2 must be at least minCount 3",
            ),
            (
                "nb",
                {"enableAutoScaling": True, "minCount": 2, "maxCount": 3, "count": 1},
                "not in the range of minCount 2 and maxCount 3",
            ),
            (
                "nb",
                {"enableAutoScaling": True, "minCount": 0, "maxCount": 2, "count": 3},
                "not in the range of minCount 0 and maxCount 2",
            ),
            ("nb", {"mode": "System", "enableAutoScaling": True, "minCount": 0, "maxCount": 2}, "agentPoolProfile.minCount"),
            ("nb", {"gpuInstanceProfile": "MIG5g"}, "'MIG5g' is not one of MIG1g, MIG2g, MIG3g, MIG4g, MIG7g"),
            (
                "nb",
                {"gpuInstanceProfile": "MIG1g", "vmSize": "Standard_NC4as_T4_v3"},
                "not supported on VM size Standard_NC4as_T4_v3",
            ),
            ("nb", {"gpuInstanceProfile": "MIG1g", "vmSize": "Standard_D4s_v5"}, "not supported on VM size Standard_D4s_v5"),
            ("nb", {"gpuProfile": {"driver": "Skip"}}, "'Skip' is not one of Install, None"),
            ("nb", {"gpuProfile": {"driverType": "CUDA"}}, "driverType cannot be set on Linux"),
            ("nb", {"spotMaxPrice": -1}, "spotMaxPrice can only be set when scaleSetPriority is Spot"),
            ("nb", {"scaleSetEvictionPolicy": "Delete"}, "scaleSetEvictionPolicy can only be set"),
            ("nb", {"scaleSetPriority": "Spot", "spotMaxPrice": 0}, "neither -1 nor greater than zero"),
            ("nb", {"scaleSetPriority": "Cheap"}, "'Cheap' is not one of Spot, Regular"),
            ("nb", {"scaleSetPriority": "Spot", "upgradeSettings": {"maxSurge": "33%"}}, "Spot pools can't set max surge"),
            ("nb", {"mode": "System", "scaleSetPriority": "Spot"}, "System agent pools cannot be Spot"),
            ("nb", {"mode": "System", "vmSize": "Standard_A1_v2"}, "SystemPoolSkuTooLow"),
            ("nb", {"mode": "System", "nodeTaints": ["sku=gpu:NoSchedule"]}, "only CriticalAddonsOnly=true:NoSchedule"),
            ("nb", {"mode": "Worker"}, "'Worker' is not one of System, User"),
            ("nb", {"osType": "Windows"}, "no Windows nodes"),
            ("nb", {"osDiskType": "Fast"}, "'Fast' is not one of Managed, Ephemeral"),
            ("nb", {"maxPods": 5}, "maxPods"),
            ("nb", {"availabilityZones": ["4"]}, "'4' is not one of 1, 2, 3"),
            ("nb", {"nodeTaints": ["sku=gpu"]}, "invalid taint spec: sku=gpu"),
            ("nb", {"nodeTaints": ["sku=gpu:Never"]}, "invalid taint spec"),
            ("nb", {"nodeTaints": ["=gpu:NoSchedule"]}, "invalid taint spec"),
            ("nb", {"nodeTaints": ["a=b:NoSchedule", "a=c:NoSchedule"]}, "duplicated taints"),
            ("nb", {"nodeLabels": {"kubernetes.azure.com/x": "y"}}, "'kubernetes.azure.com' prefix is preserved by aks"),
            ("nb", {"nodeTaints": ["kubernetes.azure.com/x=y:NoSchedule"]}, "prefix is reserved by AKS"),
            ("nb", {"nodeTaints": ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]}, "prefix is reserved by AKS"),
            ("nb", {"nodeLabels": {"kubernetes.azure.com/scalesetpriority": "spot"}}, "prefix is preserved by aks"),
            ("nb", {"nodeLabels": {"kubernetes.io/x": "y"}}, "must begin with an allowed prefix"),
            ("nb", {"nodeLabels": {"a b": "y"}}, "does not meet syntax and character specifications"),
            ("nb", {"nodeLabels": {"a": "y" * 64}}, "does not meet syntax and character specifications"),
        ],
    )
    def test_refuses(self, cloud: AzureCloud, name: str, body: dict[str, Any], text: str) -> None:
        with pytest.raises(AzureError, match="Code=") as refusal:
            put(cloud, name, **body)
        assert text in str(refusal.value)
        assert cloud.get(azure_ids.pool_id("dev", "gpu", name)) is None

    def test_the_shape_is_the_one_that_the_plugin_prints(self, cloud: AzureCloud) -> None:
        with pytest.raises(AzureError) as refusal:
            put(cloud, "NB")
        assert str(refusal.value) == (
            'Code="InvalidParameter" Message="The value of parameter agentPoolProfile.name is invalid. '
            'Please see https://aka.ms/aks-naming-rules for more details." Target="agentPoolProfile.name"'
        )
        assert refusal.value.status == 400

    @pytest.mark.parametrize("key", ["nvidia.com/mig.config", "node.kubernetes.io/x", "node-role.kubernetes.io/gpu", "team"])
    def test_accepts_labels_of_others(self, key: str) -> None:
        check_label(key, "v")

    def test_taints(self) -> None:
        assert parse_taint("a/b=:NoExecute") == {"key": "a/b", "value": "", "effect": "NoExecute"}
        assert parse_taint("a:PreferNoSchedule") == {"key": "a", "value": "", "effect": "PreferNoSchedule"}
        assert parse_taint("a=b=c:NoSchedule") is None

    def test_sizes(self) -> None:
        assert vm_size("standard_d4s_v5", {}) == vm_size("Standard_D4s_v5", {})
        fraction = vm_size("Standard_NV6ads_A10_v5", {})
        assert fraction is not None
        assert fraction.gpus == 1

    def test_parent_missing(self, cloud: AzureCloud) -> None:
        with pytest.raises(AzureError, match="ParentResourceNotFound") as refusal:
            cloud.put_pool("dev", "other", "nb", {"vmSize": GPU})
        assert refusal.value.status == 404


class TestPoolChanges:
    @pytest.mark.parametrize(
        ("body", "path"),
        [
            ({"osDiskType": "Ephemeral"}, "properties.osDiskType"),
            ({"maxPods": 30}, "properties.maxPods"),
            ({"gpuProfile": {"driver": "None"}}, "properties.gpuProfile.driver"),
            ({"scaleSetPriority": "Spot"}, "properties.scaleSetPriority"),
            ({"availabilityZones": ["1"]}, "properties.availabilityZones"),
            ({"vmSize": "Standard_NC48ads_A100_v4"}, "properties.vmSize"),
        ],
    )
    def test_what_is_fixed(self, cloud: AzureCloud, body: dict[str, Any], path: str) -> None:
        put(cloud)
        with pytest.raises(AzureError, match="PropertyChangeNotAllowed") as refusal:
            put(cloud, **body)
        assert f"Changing property '{path}' is not allowed." in str(refusal.value)

    def test_labels_and_taints_reach_the_machines_and_go_again(self, cloud: AzureCloud, fake: FakeHost) -> None:
        put(cloud, nodeLabels={"team": "ml"}, nodeTaints=["sku=gpu:NoSchedule"])
        assert fake.machines["nb"].labels["team"] == "ml"
        assert fake.machines["nb"].taints == [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
        put(cloud, nodeLabels={}, nodeTaints=[])
        assert "team" not in fake.machines["nb"].labels
        assert fake.machines["nb"].taints == []

    def test_labels_that_a_request_leaves_out_stay_and_a_set_that_it_names_is_replaced_whole(
        self, cloud: AzureCloud, fake: FakeHost
    ) -> None:
        put(cloud, scaleSetPriority="Spot")
        put(cloud, scaleSetPriority="Spot")
        assert "kubernetes.azure.com/scalesetpriority" in fake.machines["nb"].labels
        put(cloud, scaleSetPriority="Spot", nodeLabels={"team": "ml"}, nodeTaints=[])
        assert "kubernetes.azure.com/scalesetpriority" not in fake.machines["nb"].labels
        assert fake.machines["nb"].taints == []

    def test_node_auto_provisioning_and_the_autoscaler_exclude_each_other(self, cloud: AzureCloud) -> None:
        auto = {**CLUSTER, "nodeProvisioningProfile": {"mode": "Auto"}}
        limits = {"enableAutoScaling": True, "minCount": 1, "maxCount": 2}
        put(cloud)
        cloud.put_cluster("dev", "gpu", auto)
        for name in ("nb", "new"):
            with pytest.raises(AzureError, match=r"OperationNotAllowed.*agent pool '\w+' since the cluster enables"):
                put(cloud, name, **limits)
        cloud.put_cluster("dev", "gpu", {**auto, "nodeProvisioningProfile": {"mode": "Manual"}})
        put(cloud, **limits)
        with pytest.raises(AzureError, match="agent pool 'nb' since the cluster enables"):
            cloud.put_cluster("dev", "gpu", auto)
        with pytest.raises(AzureError, match="agent pool 'system' since the cluster enables"):
            cloud.put_cluster("dev", "other", {**auto, "agentPoolProfiles": [{**SYSTEM, **limits}]})

    def test_tags_of_a_cluster_and_disks_of_a_pool_have_limits(self, cloud: AzureCloud) -> None:
        with pytest.raises(AzureError, match="InvalidTags"):
            cloud.put_cluster("dev", "other", {**CLUSTER, "tags": {f"t{number}": "" for number in range(51)}})
        with pytest.raises(AzureError, match="VMCacheSizeTooSmall"):
            put(cloud, vmSize="standard_nc4as_t4_v3", osDiskType="Ephemeral", osDiskSizeGB=1024)

    def test_turning_autoscaling_on_needs_a_count(self, cloud: AzureCloud) -> None:
        put(cloud)
        body = {"vmSize": GPU, "enableAutoScaling": True, "minCount": 0, "maxCount": 2}
        with pytest.raises(AzureError, match=r"Required parameter properties\.count is missing"):
            cloud.put_pool("dev", "gpu", "nb", body)

    def test_a_put_with_the_old_count_does_not_undo_the_autoscaler(self, cloud: AzureCloud, fake: FakeHost) -> None:
        limits = {"enableAutoScaling": True, "minCount": 1, "maxCount": 5}
        put(cloud, **limits)
        cloud.scale("gpu", "nb", 3)
        put(cloud, **limits, nodeLabels={"a": "b"})
        assert fake.machines["nb"].count == 3
        put(cloud, **{**limits, "maxCount": 2})
        assert fake.machines["nb"].count == 2

    def test_the_autoscaler_stays_within_the_limits(self, cloud: AzureCloud) -> None:
        put(cloud, enableAutoScaling=True, minCount=1, maxCount=3)
        with pytest.raises(AzureError, match="count 4 is not in the range"):
            cloud.scale("gpu", "nb", 4)
        with pytest.raises(AzureError, match="ResourceNotFound"):
            cloud.scale("gpu", "other", 1)

    def test_a_system_pool_stays(self, cloud: AzureCloud) -> None:
        with pytest.raises(AzureError, match=r"There has to be at least one agent pool\."):
            cloud.delete_pool("dev", "gpu", "system")
        put(cloud)
        with pytest.raises(AzureError, match=r"There has to be at least one system agent pool\."):
            cloud.delete_pool("dev", "gpu", "system")
        with pytest.raises(AzureError, match="at least one system agent pool"):
            cloud.put_pool("dev", "gpu", "system", {**SYSTEM, "mode": "User"})
        put(cloud, "system2", mode="System", vmSize="Standard_D4s_v5")
        cloud.delete_pool("dev", "gpu", "system")
        assert cloud.get(azure_ids.pool_id("dev", "gpu", "system")) is None


class TestVersions:
    """The control plane first, one minor version at a time; pools never before it."""

    @pytest.fixture
    def old(self, empty: AzureCloud) -> AzureCloud:
        """A cloud with the cluster `gpu` of Kubernetes 1.34 and the pool `nb`."""
        empty.put_group("dev", {"location": "westeurope"})
        empty.put_cluster("dev", "gpu", {**CLUSTER, "kubernetesVersion": "1.34"})
        put(empty)
        return empty

    @staticmethod
    def of(cloud: AzureCloud, pool: str) -> str:
        shown = cloud.get(azure_ids.pool_id("dev", "gpu", pool))
        assert shown is not None
        return str(shown["currentOrchestratorVersion"])

    def test_a_raised_control_plane_leaves_its_pools_behind_until_they_name_the_version(self, old: AzureCloud) -> None:
        shown = old.put_cluster("dev", "gpu", {**CLUSTER, "kubernetesVersion": "1.35"})
        assert shown["currentKubernetesVersion"] == "1.35.0"
        assert (self.of(old, "system"), self.of(old, "nb")) == ("1.34.0", "1.34.0")
        put(old, orchestratorVersion="1.35")
        assert self.of(old, "nb") == "1.35.0"
        put(old, "new")
        assert self.of(old, "new") == "1.35.0"

    @pytest.mark.parametrize(("version", "text"), [("1.36", "1.34.0 to 1.36 is not allowed"), ("1.33", "1.34.0 to 1.33 is not")])
    def test_the_control_plane_skips_nothing_and_never_goes_back(self, old: AzureCloud, version: str, text: str) -> None:
        with pytest.raises(AzureError, match=text):
            old.put_cluster("dev", "gpu", {**CLUSTER, "kubernetesVersion": version})

    def test_no_pool_goes_before_the_control_plane(self, old: AzureCloud) -> None:
        with pytest.raises(AzureError, match="Minor version of node pool version 35 is bigger than control plane version 34"):
            put(old, orchestratorVersion="1.35")
        with pytest.raises(AzureError, match="NodePoolMcVersionIncompatible"):
            put(old, "new", orchestratorVersion="1.34.7")

    def test_the_request_of_the_cluster_takes_versions_of_all_pools_or_of_none(self, old: AzureCloud) -> None:
        inline = [{**SYSTEM, "orchestratorVersion": "1.35"}]
        with pytest.raises(AzureError, match="NotAllAgentPoolOrchestratorVersionSpecifiedAndUnchanged"):
            old.put_cluster("dev", "gpu", {**CLUSTER, "kubernetesVersion": "1.35", "agentPoolProfiles": inline})
        old.delete_pool("dev", "gpu", "nb")
        old.put_cluster("dev", "gpu", {**CLUSTER, "kubernetesVersion": "1.35", "agentPoolProfiles": inline})
        assert self.of(old, "system") == "1.35.0"

    def test_a_cluster_that_was_left_alone_goes_on_as_it_is(self, old: AzureCloud) -> None:
        old.put_cluster("dev", "gpu", CLUSTER)
        shown = old.put_cluster("dev", "gpu", {**CLUSTER, "kubernetesVersion": "1.34"})
        assert shown["currentKubernetesVersion"] == "1.34.0"


class TestOperations:
    """One at a time on a cluster and on each pool."""

    @pytest.fixture
    def asked(self, cloud: AzureCloud, fake: FakeHost, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What is refused while the pool `nb` is made and changed."""
        refused: list[str] = []
        original = fake.put

        def during(folder: Path, group: MachineGroup) -> None:
            original(folder, group)
            for request in (
                lambda: cloud.put_cluster("dev", "gpu", CLUSTER),
                lambda: cloud.put_pool("dev", "gpu", "nb", {"vmSize": GPU, "count": 2}),
                lambda: cloud.delete_pool("dev", "gpu", "nb"),
            ):
                with pytest.raises(AzureError, match="OperationNotAllowed") as refusal:
                    request()
                refused.append(str(refusal.value))

        monkeypatch.setattr(cloud, "_host", replace(fake.host(), put=during))
        return refused

    def test_a_second_one_is_refused_until_the_first_has_ended(self, cloud: AzureCloud, asked: list[str]) -> None:
        put(cloud)
        put(cloud, nodeLabels={"a": "b"})
        assert len(asked) == 6
        assert "(nb - Creating) is in progress" in asked[0]
        assert "(nb - Updating) is in progress" in asked[3]

    def test_other_pools_are_made_meanwhile(self, cloud: AzureCloud) -> None:
        """As the engine does it: all at once."""
        put(cloud)
        with cloud._records.change() as data:
            for record in data["pools"].values():
                record["state"] = "Creating"
        assert cloud.put_pool("dev", "gpu", "other", {"vmSize": GPU, "count": 1})["name"] == "other"

    def test_a_change_that_was_interrupted_has_been_made(self, cloud: AzureCloud, tmp_path: Path, fake: FakeHost) -> None:
        with cloud._records.change() as data:
            for record in (*data["clusters"].values(), *data["pools"].values()):
                record["state"] = "Updating"
        AzureCloud(tmp_path, fake.host()).recover()
        put(cloud)


class TestMachines:
    def test_a_gpu_pool(self, cloud: AzureCloud, fake: FakeHost) -> None:
        put(cloud, count=2, availabilityZones=["2"])
        group = fake.machines["nb"]
        assert [name[-6:] for name in group.node_names] == ["000000", "000001"]
        assert group.node_prefix.startswith("aks-nb-")
        assert len(group.node_prefix.split("-")[2]) == 8
        assert group.hardware.gpu_model == "a100-80gb"
        assert group.hardware.gpus == 1
        assert group.driver_preinstalled
        assert {
            "agentpool": "nb",
            "kubernetes.azure.com/agentpool": "nb",
            "kubernetes.azure.com/mode": "user",
            "kubernetes.azure.com/accelerator": "nvidia",
            "kubernetes.azure.com/cluster": "MC_dev_gpu_westeurope",
            "node.kubernetes.io/instance-type": GPU,
            "topology.kubernetes.io/region": "westeurope",
            "topology.kubernetes.io/zone": "westeurope-2",
        }.items() <= group.labels.items()

    def test_names_are_stable(self, cloud: AzureCloud, fake: FakeHost) -> None:
        put(cloud)
        before = fake.machines["nb"].node_prefix
        cloud.delete_pool("dev", "gpu", "nb")
        assert "nb" not in fake.machines
        put(cloud)
        assert fake.machines["nb"].node_prefix == before

    def test_spot_puts_its_label_and_taint(self, cloud: AzureCloud, fake: FakeHost) -> None:
        shown = put(cloud, scaleSetPriority="Spot")
        key = "kubernetes.azure.com/scalesetpriority"
        assert fake.machines["nb"].labels[key] == "spot"
        assert fake.machines["nb"].taints == [{"key": key, "value": "spot", "effect": "NoSchedule"}]
        assert shown["spotMaxPrice"] == -1

    def test_driver_and_mig_as_asked(self, cloud: AzureCloud, fake: FakeHost) -> None:
        put(cloud, gpuProfile={"driver": "None"})
        assert not fake.machines["nb"].driver_preinstalled
        put(cloud, "mig", gpuInstanceProfile="MIG1g")
        assert fake.machines["mig"].cloud_mig_profile == "MIG1g"

    def test_a_pool_without_a_gpu(self, fake: FakeHost, cloud: AzureCloud) -> None:
        assert cloud.get(azure_ids.pool_id("dev", "gpu", "system"))
        assert fake.machines["system"].hardware.gpus == 0
        assert "kubernetes.azure.com/accelerator" not in fake.machines["system"].labels


class TestClusters:
    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"agentPoolProfiles": None}, "Required parameter agentPoolProfiles is missing"),
            ({"agentPoolProfiles": [{**SYSTEM, "mode": "User"}]}, "Must define at least one system pool."),
            ({"agentPoolProfiles": [SYSTEM, SYSTEM]}, "names of agent pools must be unique"),
            ({"agentPoolProfiles": [{**SYSTEM, "vmSize": "Standard_Z"}]}, "AgentPoolProfile:system is not allowed"),
            ({"dnsPrefix": None}, "Required parameter dnsPrefix is missing"),
            ({"dnsPrefix": "-x"}, "parameter dnsPrefix is invalid"),
            ({"identity": None}, "Required parameter servicePrincipalProfile is missing"),
            ({"location": None}, "LocationRequired"),
            ({"kubernetesVersion": "latest"}, "parameter kubernetesVersion is invalid"),
            ({"kubernetesVersion": "1.99"}, "is on version 1.99 which is not supported in this region"),
            ({"location": "swedencentrl"}, "The provided location 'swedencentrl' is not available for resource type"),
            (
                {"kubernetesVersion": "1.34", "agentPoolProfiles": [{**SYSTEM, "orchestratorVersion": "1.35"}]},
                "NodePoolMcVersionIncompatible",
            ),
        ],
    )
    def test_refuses(self, empty: AzureCloud, fake: FakeHost, changes: dict[str, Any], text: str) -> None:
        empty.put_group("dev", {"location": "westeurope"})
        with pytest.raises(AzureError) as refusal:
            empty.put_cluster("dev", "gpu", {**CLUSTER, **changes})
        assert text in str(refusal.value)
        assert fake.booted == []

    def test_group_missing(self, empty: AzureCloud) -> None:
        with pytest.raises(AzureError, match=r"Resource group 'dev' could not be found\.") as refusal:
            empty.put_cluster("dev", "gpu", CLUSTER)
        assert refusal.value.status == 404

    def test_what_arm_returns(self, cloud: AzureCloud) -> None:
        shown = cloud.get(azure_ids.cluster_id("dev", "gpu"))
        assert shown is not None
        assert shown["provisioningState"] == "Succeeded"
        assert shown["fqdn"].startswith("gpu-")
        assert shown["fqdn"].endswith(".hcp.westeurope.azmk8s.io")
        assert shown["nodeResourceGroup"] == "MC_dev_gpu_westeurope"
        assert shown["agentPoolProfiles"][0]["currentOrchestratorVersion"]
        assert shown["identity"]["principalId"]

    def test_credentials(self, cloud: AzureCloud) -> None:
        assert base64.b64decode(cloud.credentials("dev", "gpu", admin=False)) == b"name: gpu"
        with pytest.raises(AzureError, match="ResourceNotFound"):
            cloud.credentials("dev", "other", admin=False)

    def test_a_new_inline_pool_is_refused(self, cloud: AzureCloud) -> None:
        more = [SYSTEM, {**SYSTEM, "name": "more"}]
        with pytest.raises(AzureError, match="A new agent pool was introduced"):
            cloud.put_cluster("dev", "gpu", {**CLUSTER, "agentPoolProfiles": more})

    def test_deleting_the_group_deletes_all(self, cloud: AzureCloud, fake: FakeHost) -> None:
        put(cloud)
        cloud.delete_group("dev")
        assert len(fake.erased) == 1
        assert cloud.get(azure_ids.pool_id("dev", "gpu", "nb")) is None
        assert cloud.get(azure_ids.group_id("dev")) is None

    def test_ids_ignore_case(self, cloud: AzureCloud) -> None:
        assert cloud.get(azure_ids.cluster_id("DEV", "GPU")) is not None


class TestKills:
    def test_a_cluster_that_does_not_start_leaves_nothing(self, empty: AzureCloud, fake: FakeHost) -> None:
        empty.put_group("dev", {"location": "westeurope"})
        fake.broken = True
        with pytest.raises(RuntimeError):
            empty.put_cluster("dev", "gpu", CLUSTER)
        assert empty.get(azure_ids.cluster_id("dev", "gpu")) is None
        assert len(fake.erased) == 1

    @pytest.mark.parametrize("state", ["Creating", "Deleting"])
    def test_what_was_under_way_is_gone_after_a_restart(
        self, cloud: AzureCloud, fake: FakeHost, tmp_path: Path, state: str
    ) -> None:
        put(cloud)
        with cloud._records.change() as data:
            data["pools"][azure_ids.pool_id("dev", "gpu", "nb").lower()]["state"] = state
        again = AzureCloud(tmp_path, fake.host())
        again.recover()
        assert again.get(azure_ids.pool_id("dev", "gpu", "nb")) is None
        assert "nb" not in fake.machines
        assert fake.booted == ["gpu", "gpu"]

    def test_what_was_acknowledged_stays(self, cloud: AzureCloud, fake: FakeHost, tmp_path: Path) -> None:
        put(cloud, nodeLabels={"a": "b"})
        fake.machines.clear()
        AzureCloud(tmp_path, fake.host()).recover()
        assert fake.machines["nb"].labels["a"] == "b"

    def test_what_no_stack_knows_can_be_removed(self, cloud: AzureCloud, fake: FakeHost) -> None:
        put(cloud)
        group, cluster, pool = (
            azure_ids.group_id("dev"),
            azure_ids.cluster_id("dev", "gpu"),
            azure_ids.pool_id("dev", "gpu", "nb"),
        )
        assert cloud.made() == {group.lower(), cluster.lower(), pool.lower()}
        cloud.remove_unknown([group, cluster, pool])
        assert cloud.get(pool) is not None
        cloud.remove_unknown([group, cluster])
        assert cloud.made() == {group.lower(), cluster.lower()}
        assert set(fake.machines) == {"system"}
        cloud.remove_unknown([])
        assert cloud.made() == set()
        assert len(fake.erased) == 1

    def test_a_busy_cluster_takes_no_pool(self, cloud: AzureCloud) -> None:
        with cloud._records.change() as data:
            data["clusters"][azure_ids.cluster_id("dev", "gpu").lower()]["state"] = "Deleting"
        with pytest.raises(AzureError, match="in progress deleting managed cluster operation") as refusal:
            put(cloud)
        assert refusal.value.status == 409


POOL = "azure-native:containerservice:AgentPool"
MANAGED = "azure-native:containerservice:ManagedCluster"
GROUP = "azure-native:resources:ResourceGroup"
PLACE = {"resourceGroupName": "dev", "resourceName": "gpu"}


@pytest.fixture
def plugin(cloud: AzureCloud) -> AzureNativeStandIn:
    stand_in = AzureNativeStandIn(cloud)
    stand_in.configure({}, {})
    return stand_in


class TestPlugin:
    """What the azure-native plugin does on its own side."""

    def test_schema_failures_are_found_in_preview(self, plugin: AzureNativeStandIn) -> None:
        news = {"resourceGroupName": UNKNOWN, "agentPoolName": "gpu_nb", "count": "2", "nodeTaints": "a"}
        _, failures = plugin.check(POOL, {}, news)
        assert [reason for _, reason in failures] == [
            "missing required property 'resourceName'",
            "'count' should be of type 'integer' but got a string",
            "'nodeTaints' should be of type 'array' but got a string",
            "'agentPoolName' does not match expression '^[a-z][a-z0-9]{0,11}$'",
        ]

    def test_service_rules_are_not(self, plugin: AzureNativeStandIn) -> None:
        news = {**PLACE, "agentPoolName": "nb", "vmSize": "Standard_Z", "gpuInstanceProfile": "MIG9g"}
        assert plugin.check(POOL, {}, news)[1] == []

    def test_inline_pools_are_checked_too(self, plugin: AzureNativeStandIn) -> None:
        news = {"resourceGroupName": "dev", "agentPoolProfiles": [{"count": "1"}]}
        reasons = [reason for _, reason in plugin.check(MANAGED, {}, news)[1]]
        assert "missing required property 'agentPoolProfiles[0].name'" in reasons
        assert "'agentPoolProfiles[0].count' should be of type 'integer' but got a string" in reasons

    def test_automatic_names(self, plugin: AzureNativeStandIn) -> None:
        with plugin.answering(Request(name="rg", random_seed=b"\x01\x02\x03\x04\x05")):
            inputs, _ = plugin.check(GROUP, {}, {"location": "westeurope"})
            assert inputs["resourceGroupName"] == "rg01020304"
            again, _ = plugin.check(GROUP, {"resourceGroupName": "rgold"}, {"location": "westeurope"})
            assert again["resourceGroupName"] == "rgold"
            assert plugin.check(POOL, {}, PLACE)[0]["agentPoolName"] == "rg"

    def test_location_comes_from_the_group(self, plugin: AzureNativeStandIn) -> None:
        assert plugin.check(MANAGED, {}, {"resourceGroupName": "dev"})[0]["location"] == "westeurope"
        assert plugin.check(MANAGED, {}, {"resourceGroupName": UNKNOWN})[0]["location"] is UNKNOWN
        reasons = [reason for _, reason in plugin.check(MANAGED, {}, {"resourceGroupName": "other"})[1]]
        assert any("missing required property 'location'" in reason for reason in reasons)

    @pytest.mark.parametrize(
        ("type_", "old", "new", "replaces"),
        [
            (POOL, {"vmSize": "a"}, {"vmSize": "b"}, ["vmSize"]),
            (POOL, {}, {"gpuInstanceProfile": "MIG1g"}, ["gpuInstanceProfile"]),
            (POOL, {"agentPoolName": "a"}, {"agentPoolName": "b"}, ["agentPoolName"]),
            (POOL, {"osDiskType": "a"}, {"osDiskType": "b"}, []),
            (POOL, {"nodeLabels": {"a": "b"}}, {"nodeLabels": {"a": "c"}}, []),
            (MANAGED, {"dnsPrefix": "a"}, {"dnsPrefix": "b"}, ["dnsPrefix"]),
            (MANAGED, {"networkProfile": {"podCidr": "a"}}, {"networkProfile": {"podCidr": "b"}}, ["networkProfile"]),
            (MANAGED, {"networkProfile": {"loadBalancerSku": "a"}}, {"networkProfile": {"loadBalancerSku": "b"}}, []),
            (MANAGED, {"networkProfile": {"podCidrs": ["a"]}}, {"networkProfile": {"podCidrs": ["b"]}}, []),
            (GROUP, {"location": "a"}, {"location": "b"}, ["location"]),
            (GROUP, {"tags": {}}, {"tags": {"a": "b"}}, []),
        ],
    )
    def test_replacements(self, plugin: AzureNativeStandIn, type_: str, old: Any, new: Any, replaces: list[str]) -> None:
        diff = plugin.diff(type_, "id", old, {}, new)
        assert diff.changes
        assert diff.replaces == replaces
        assert diff.delete_before_replace is bool(replaces)

    def test_a_random_name_is_replaced_create_first(self, plugin: AzureNativeStandIn) -> None:
        note = {"__createBeforeDelete": True}
        assert not plugin.diff(GROUP, "id", {"location": "a", **note}, {}, {"location": "b", **note}).delete_before_replace

    def test_create_refuses_what_exists(self, plugin: AzureNativeStandIn) -> None:
        inputs = {**PLACE, "agentPoolName": "nb", "vmSize": GPU, "count": 1}
        id_, outputs = plugin.create(POOL, "nb", inputs, 0, preview=False)
        assert id_.endswith("/resourceGroups/dev/providers/Microsoft.ContainerService/managedClusters/gpu/agentPools/nb")
        assert outputs["provisioningState"] == "Succeeded"
        with pytest.raises(ServiceError, match="cannot create already existing resource '/subscriptions/"):
            plugin.create(POOL, "nb", inputs, 0, preview=False)

    def test_preview_tells_what_is_known(self, plugin: AzureNativeStandIn) -> None:
        inputs = {**PLACE, "agentPoolName": "nb", "vmSize": GPU, "nodeLabels": {"a": UNKNOWN}}
        assert plugin.create(POOL, "nb", inputs, 0, preview=True) == ("", {"vmSize": GPU})
        assert plugin._cloud.get(azure_ids.pool_id("dev", "gpu", "nb")) is None

    def test_a_refresh_shows_the_scaled_count(self, plugin: AzureNativeStandIn, cloud: AzureCloud) -> None:
        inputs = {**PLACE, "agentPoolName": "nb", "vmSize": GPU, "count": 1}
        limits = {"enableAutoScaling": True, "minCount": 0, "maxCount": 3}
        id_, outputs = plugin.create(POOL, "nb", {**inputs, **limits}, 0, preview=False)
        cloud.scale("gpu", "nb", 3)
        found = plugin.read(POOL, id_, {**inputs, **limits}, outputs)
        assert found is not None
        assert found[1]["count"] == 3
        assert found[2]["count"] == 3
        plugin.delete(POOL, id_, {}, {})
        assert plugin.read(POOL, id_, inputs, outputs) is None

    def test_a_refresh_writes_every_pool_into_the_inputs_of_the_cluster(
        self, plugin: AzureNativeStandIn, cloud: AzureCloud
    ) -> None:
        id_ = azure_ids.cluster_id("dev", "gpu")
        outputs = cloud.get(id_) or {}
        put(cloud)
        found = plugin.read(MANAGED, id_, {**CLUSTER, **PLACE}, outputs)
        assert found is not None
        assert found[1]["agentPoolProfiles"][0] == SYSTEM
        assert [pool["name"] for pool in found[1]["agentPoolProfiles"]] == ["system", "nb"]
        assert "provisioningState" not in found[1]["agentPoolProfiles"][1]
        assert found[1]["dnsPrefix"] == "gpu"

    def test_the_preview_of_an_update_knows_only_what_cannot_change(self, plugin: AzureNativeStandIn) -> None:
        inputs = {**PLACE, "agentPoolName": "nb", "vmSize": GPU, "count": 1}
        id_, outputs = plugin.create(POOL, "nb", inputs, 0, preview=False)
        told = plugin.update(POOL, id_, inputs, outputs, {**inputs, "count": 2}, preview=True)
        assert (told["name"], told["count"], told["provisioningState"]) == ("nb", 2, UNKNOWN)

    def test_credentials_are_secret(self, plugin: AzureNativeStandIn) -> None:
        token = "azure-native:containerservice:listManagedClusterUserCredentials"  # noqa: S105
        result, failures = plugin.invoke(token, PLACE)
        assert failures == []
        assert isinstance(result["kubeconfigs"][0]["value"], Secret)
        assert plugin.invoke(token, {})[1]

    def test_versioned_tokens(self, plugin: AzureNativeStandIn) -> None:
        assert plugin.check("azure-native:containerservice/v20250901:AgentPool", {}, {**PLACE, "agentPoolName": "nb"})[1] == []
        with pytest.raises(ServiceError, match="not found"):
            plugin.check("azure-native:storage:StorageAccount", {}, {})


GROUP_ID = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
ENTRA = {"managed": True, "adminGroupObjectIDs": [GROUP_ID]}


class TestEntra:
    """Log-in with Entra ID, and local accounts."""

    @staticmethod
    def _change(cloud: AzureCloud, **body: Any) -> dict[str, Any]:
        return cloud.put_cluster("dev", "gpu", {**CLUSTER, **body})

    @staticmethod
    def _kubeconfig(cloud: AzureCloud, *, admin: bool = False) -> str:
        return base64.b64decode(cloud.credentials("dev", "gpu", admin=admin)).decode()

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            ({"disableLocalAccounts": True}, "disableLocalAccounts can only be set on Azure AD integration enabled cluster"),
            ({"aadProfile": {"adminGroupObjectIDs": [GROUP_ID]}}, "aadProfile.managed is invalid"),
            ({"aadProfile": {**ENTRA, "serverAppID": "a"}}, "aadProfile.serverAppID is invalid"),
            ({"aadProfile": {**ENTRA, "adminGroupObjectIDs": ["admins"]}}, "'admins' is not an object id"),
            ({"aadProfile": ENTRA, "enableRBAC": False}, "it needs Kubernetes RBAC"),
        ],
    )
    def test_what_azure_refuses_is_refused_for_new_and_for_living_clusters(
        self, empty: AzureCloud, body: dict[str, Any], text: str
    ) -> None:
        empty.put_group("dev", {"location": "westeurope"})
        with pytest.raises(AzureError, match=text):
            self._change(empty, **body)
        self._change(empty)
        with pytest.raises(AzureError, match=text):
            self._change(empty, **body)

    def test_a_cluster_trusts_the_tenant_and_binds_the_groups(self, cloud: AzureCloud, fake: FakeHost) -> None:
        assert fake.trusted == {}
        self._change(cloud, aadProfile=ENTRA)
        assert list(fake.administered.values()) == [[GROUP_ID]]
        assert all("BEGIN CERTIFICATE" in one for one in fake.trusted.values())

    def test_it_is_never_switched_off(self, cloud: AzureCloud) -> None:
        self._change(cloud, aadProfile=ENTRA)
        with pytest.raises(AzureError, match=r"Changing property 'properties.aadProfile.managed' is not allowed"):
            rules.check_entra_change({"aadProfile": ENTRA}, {"aadProfile": {"managed": False}})
        shown = self._change(cloud)
        assert shown["aadProfile"] == {**ENTRA, "tenantID": TENANT}

    def test_attack_asking_for_an_administrators_credential(self, cloud: AzureCloud) -> None:
        """Whoever may call Azure asks for the static credential of a cluster whose local accounts are off, and again later."""
        self._change(cloud, aadProfile=ENTRA, disableLocalAccounts=True)
        for _ in range(2):
            with pytest.raises(AzureError, match="Getting static credential is not allowed"):
                self._kubeconfig(cloud, admin=True)
        self._change(cloud, aadProfile=ENTRA, disableLocalAccounts=False)
        assert self._kubeconfig(cloud, admin=True) == "name: gpu"

    def test_attack_taking_entra_id_out_of_the_request_to_get_one(self, cloud: AzureCloud) -> None:
        """A request that says nothing of Entra ID does not turn the user's kubeconfig into an administrator's."""
        self._change(cloud, aadProfile=ENTRA, disableLocalAccounts=True)
        self._change(cloud)
        assert "kubelogin" in self._kubeconfig(cloud)

    def test_attack_looking_for_a_credential_in_the_users_kubeconfig(self, cloud: AzureCloud) -> None:
        """It only says how to log in."""
        self._change(cloud, aadProfile=ENTRA)
        config = yaml.safe_load(self._kubeconfig(cloud))
        (user,) = config["users"]
        assert (user["name"], set(user["user"]), user["user"]["exec"]["command"]) == (
            "clusterUser_dev_gpu",
            {"exec"},
            "kubelogin",
        )
        assert set(config["clusters"][0]["cluster"]) == {"server", "certificate-authority-data"}

    def test_without_it_the_users_kubeconfig_is_the_administrators(self, cloud: AzureCloud) -> None:
        assert self._kubeconfig(cloud) == self._kubeconfig(cloud, admin=True)
