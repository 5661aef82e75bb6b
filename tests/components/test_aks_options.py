"""What AKS components send for each option, by the inputs that the engine gets: goldens of all of them, Outputs, `properties`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pulumi
import pytest
import yaml

from gpu_pools.components.aks.cluster import AksCluster, AksGpuNodePool
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.text.errors import InvalidStackError
from tests.unit.bad_aks_options import GUID, id_of, subnet
from tests.unit.golden import golden

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder, Registered

    Run = Callable[[Callable[[], Any]], Recorder]

A100: Final = "Standard_NC24ads_A100_v4"
POOL: Final[dict[str, Any]] = {"name": "nb", "vm_size": A100, "count": 2, "sharing": {"exclusive": {}}}
EVERY: Final[dict[str, Any]] = {
    **POOL,
    "subnet": subnet("gpu"),
    "pod_subnet": subnet("pods"),
    "os_disk_size": 512,
    "os_disk_type": "Managed",
    "kubelet_disk_type": "OS",
    "max_pods": 60,
    "upgrade_settings": {
        "max_unavailable": "1",
        "drain_timeout_in_minutes": 120,
        "node_soak_duration_in_minutes": 10,
        "undrainable_node_behavior": "Cordon",
    },
    "kubernetes_version": "1.34",
    "scale_down_mode": "Delete",
    "capacity_reservation_group": id_of("Microsoft.Compute/capacityReservationGroups/held"),
    "proximity_placement_group": id_of("Microsoft.Compute/proximityPlacementGroups/near"),
    "host_group": id_of("Microsoft.Compute/hostGroups/own"),
    "kubelet_config": {
        "cpu_manager_policy": "static",
        "topology_manager_policy": "single-numa-node",
        "allowed_unsafe_sysctls": ["net.core.somaxconn"],
        "fail_swap_on": False,
        "pod_max_pids": 4096,
    },
    "linux_os_config": {"swap_file_size": 1024, "sysctls": {"netCoreRmemMax": 134217728}},
    "encryption_at_host": True,
    "fips": True,
    "public_ip": True,
    "public_ip_prefix": id_of("Microsoft.Network/publicIPPrefixes/few"),
    "tags": {"team": "ml"},
    "properties": {"enableUltraSSD": True, "securityProfile": {"sshAccess": "Disabled"}},
}


def pool_of(run: Run, declared: dict[str, Any], **more: Any) -> Registered:
    """The agent pool that a declaration leads to."""
    args: Any = {"cluster_name": "c", "resource_group_name": "g", "pool": declared, **more}
    return run(lambda: AksGpuNodePool("nb", args)).one("AgentPool")


@pytest.mark.parametrize(("name", "declared"), [("every", EVERY), ("least", POOL)])
def test_a_pool_asks_for_what_is_written_and_nothing_else(run: Run, name: str, declared: dict[str, Any]) -> None:
    inputs = pool_of(run, declared, tags={"team": "none", "cost": "7"}, kubernetes_version="1.36").inputs
    golden(f"aks-pool-{name}.yaml", yaml.safe_dump(inputs, sort_keys=True, width=130))


class TestPool:
    """What goes where."""

    def test_its_own_version_and_tags_go_before_the_clusters(self, run: Run) -> None:
        inputs = pool_of(run, EVERY, tags={"team": "none", "cost": "7"}, kubernetes_version="1.36").inputs
        assert (inputs["orchestratorVersion"], inputs["tags"]) == ("1.34", {"team": "ml", "cost": "7"})

    @pytest.mark.parametrize(
        ("written", "sent"),
        [
            ({}, {"maxSurge": "1"}),
            ({"max_unavailable": "1"}, {"maxSurge": "0", "maxUnavailable": "1"}),
            ({"max_surge": "2", "max_unavailable": "1"}, {"maxSurge": "2", "maxUnavailable": "1"}),
            ({"drain_timeout_in_minutes": 60}, {"maxSurge": "1", "drainTimeoutInMinutes": 60}),
        ],
    )
    def test_without_spare_quota_nodes_are_away_instead(self, run: Run, written: dict[str, Any], sent: dict[str, Any]) -> None:
        assert pool_of(run, {**POOL, "upgrade_settings": written}).inputs["upgradeSettings"] == sent

    def test_a_spot_pool_has_no_surge_and_keeps_its_label_and_taint(self, run: Run) -> None:
        declared = {**POOL, "spot": {"eviction_policy": "Deallocate"}, "upgrade_settings": {"drain_timeout_in_minutes": 9}}
        inputs = pool_of(run, {**declared, "labels": {"a": "b"}, "taints": ["c=d:NoSchedule"]}).inputs
        assert (inputs["scaleSetEvictionPolicy"], inputs["upgradeSettings"]) == ("Deallocate", {"drainTimeoutInMinutes": 9})
        assert inputs["nodeLabels"]["kubernetes.azure.com/scalesetpriority"] == "spot"
        assert "kubernetes.azure.com/scalesetpriority=spot:NoSchedule" in inputs["nodeTaints"]

    @pytest.mark.parametrize(("more", "region"), [({}, "westeurope"), ({"location": "northeurope"}, "northeurope")])
    def test_logs_get_the_rule_that_sends_them_and_its_association(self, run: Run, more: dict[str, str], region: str) -> None:
        logs = id_of("Microsoft.OperationalInsights/workspaces/logs")
        declared: Any = {**CLUSTER, "monitoring": {"workspace": logs, **more}}
        recorded = run(lambda: AksCluster("c", declared))
        rule = recorded.one("DataCollectionRule").inputs
        assert (rule["location"], rule["kind"]) == (region, "Linux")
        (extension,) = rule["dataSources"]["extensions"]
        (flow,) = rule["dataFlows"]
        (target,) = rule["destinations"]["logAnalytics"]
        assert extension["extensionName"] == "ContainerInsights"
        assert extension["streams"] == flow["streams"] == ["Microsoft-ContainerInsights-Group-Default"]
        assert flow["destinations"] == [target["name"]]
        assert target["workspaceResourceId"] == logs
        association = recorded.one("DataCollectionRuleAssociation").inputs
        assert association["associationName"] == "ContainerInsightsExtension"
        assert "c-logs-rule" in recorded.depends_on("c-logs-association")
        assert recorded.of("DataCollectionEndpoint") == []

    def test_without_a_workspace_there_is_no_rule(self, run: Run) -> None:
        recorded = run(lambda: AksCluster("c", cast("Any", {**CLUSTER, "monitoring": {"metrics": True}})))
        assert recorded.of("DataCollectionRule") == []

    def test_what_is_only_placed_may_be_an_output(self, run: Run) -> None:
        def program() -> None:
            made = pulumi.Output.from_input(subnet("made"))
            declared: Any = {**POOL, "subnet": made, "tags": {"a": made}, "properties": {"workloadRuntime": made}}
            AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared})

        inputs = run(program).one("AgentPool").inputs
        assert (inputs["vnetSubnetID"], inputs["tags"], inputs["workloadRuntime"]) == (
            subnet("made"),
            {"a": subnet("made")},
            subnet("made"),
        )

    def test_what_is_looked_into_may_not(self, run: Run) -> None:
        def program() -> None:
            later = pulumi.Output.from_input("x")
            declared: Any = {**POOL, "os_disk_type": later, "labels": {"a": later}}
            with pytest.raises(InvalidStackError) as refused:
                AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared})
            assert {problem.path for problem in refused.value.problems} == {
                "AksGpuNodePool(nb).pool.os_disk_type",
                "AksGpuNodePool(nb).pool.labels.a",
            }

        assert run(program).resources == []

    def test_properties_come_last_and_below_what_is_there(self, run: Run) -> None:
        written = {"upgradeSettings": {"maxSurge": "50%"}, "tags": {"b": "c"}}
        inputs = pool_of(run, {**POOL, "tags": {"a": "b"}, "properties": written}).inputs
        assert (inputs["upgradeSettings"]["maxSurge"], inputs["tags"]) == ("50%", {"a": "b", "b": "c"})


CLUSTER: Final[dict[str, Any]] = {
    "name": "gpu",
    "location": "westeurope",
    "system_pool": {"vm_size": "Standard_D4s_v5", "count": 2},
}
IDENTITY: Final = id_of("Microsoft.ManagedIdentity/userAssignedIdentities/gpu")
REGISTRY: Final = id_of("Microsoft.ContainerRegistry/registries/acr")
EVERY_CLUSTER: Final[dict[str, Any]] = {
    **CLUSTER,
    "existing_resource_group": "shared",
    "node_resource_group": "machines",
    "system_pool": {"vm_size": "Standard_D4s_v5", "count": 2, "properties": {"osDiskType": "Ephemeral"}},
    "network": {
        "node_subnet": subnet("nodes"),
        "dataplane": "cilium",
        "policy": "cilium",
        "pod_cidr": "10.128.0.0/14",
        "service_cidr": "10.9.0.0/16",
        "dns_service_ip": "10.9.0.10",
        "load_balancer_sku": "standard",
        "load_balancer": {
            "prefixes": [id_of("Microsoft.Network/publicIPPrefixes/out")],
            "allocated_outbound_ports": 8000,
            "idle_timeout_in_minutes": 10,
        },
    },
    "api_server": {
        "private": True,
        "private_dns_zone": id_of("Microsoft.Network/privateDnsZones/z"),
        "public_fqdn": False,
        "disable_run_command": True,
    },
    "identity": {"user_assigned": IDENTITY, "kubelet": {"id": IDENTITY, "client_id": GUID, "object_id": GUID}},
    "oidc_issuer": True,
    "workload_identity": True,
    "key_vault_secrets": {"rotation": True, "rotation_interval": "5m"},
    "upgrades": {"channel": "patch", "node_os_channel": "SecurityPatch"},
    "maintenance": {
        "cluster_upgrade": {"day": "Sunday", "start_time": "02:00", "duration_hours": 4, "utc_offset": "+01:00"},
        "node_os_upgrade": {"every": 3, "start_time": "23:00", "duration_hours": 6, "start_date": "2027-01-31"},
    },
    "autoscaler": {"expander": "priority", "max_node_provision_time": "30m", "ignore_daemonsets_utilization": True},
    "container_registries": [REGISTRY],
    "monitoring": {"workspace": id_of("Microsoft.OperationalInsights/workspaces/logs"), "metrics": True},
    "properties": {"storageProfile": {"blobCSIDriver": {"enabled": True}}},
}


def cluster_of(run: Run, declared: dict[str, Any]) -> Registered:
    """The managed cluster that a declaration leads to."""
    return run(lambda: AksCluster("c", cast("Any", declared))).one("ManagedCluster")


@pytest.mark.parametrize(("name", "declared"), [("every", EVERY_CLUSTER), ("least", CLUSTER)])
def test_a_cluster_asks_for_what_is_written_and_nothing_else(run: Run, name: str, declared: dict[str, Any]) -> None:
    recorded = run(lambda: AksCluster("c", cast("Any", declared)))
    found = {
        f"{one.type} {one.name}": one.inputs
        for one in recorded.resources
        if one.type.startswith("azure-native:") and one.type != "azure-native:resources:ResourceGroup"
    }
    golden(f"aks-cluster-{name}.yaml", yaml.safe_dump(found, sort_keys=True, width=130))


class TestCluster:
    """What goes where."""

    @pytest.mark.parametrize(
        ("network", "sent"),
        [
            ({}, {"networkPlugin": "azure", "networkPluginMode": "overlay"}),
            ({"policy": "calico"}, {"networkPlugin": "azure", "networkPluginMode": "overlay", "networkPolicy": "calico"}),
            ({"plugin": "kubenet"}, {"networkPlugin": "kubenet"}),
            ({"plugin_mode": "none"}, {"networkPlugin": "azure"}),
            ({"node_subnet": subnet("n"), "pod_subnet": subnet("p")}, {"networkPlugin": "azure"}),
        ],
    )
    def test_the_network_is_what_is_written_and_no_default_of_the_sdk(
        self, run: Run, network: dict[str, Any], sent: dict[str, Any]
    ) -> None:
        """The SDK's class would fill in podCidr, serviceCidr, dnsServiceIP and outboundType, and each replaces a cluster."""
        assert cluster_of(run, {**CLUSTER, "network": network}).inputs["networkProfile"] == sent

    def test_the_system_pool_lies_in_the_clusters_subnets(self, run: Run) -> None:
        network = {"node_subnet": subnet("nodes"), "pod_subnet": subnet("pods")}
        (system,) = cluster_of(run, {**CLUSTER, "network": network}).inputs["agentPoolProfiles"]
        assert (system["vnetSubnetID"], system["podSubnetID"]) == (subnet("nodes"), subnet("pods"))

    def test_so_do_pools_that_name_none(self, run: Run) -> None:
        network = {"nodeSubnet": subnet("nodes")}
        pool = {"vmSize": A100, "count": 1, "sharing": "whole"}
        stack: Any = {
            "cluster": {
                "platform": "aks",
                "name": "gpu",
                "location": "westeurope",
                "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
                "network": network,
            },
            "sharing": {"whole": {"exclusive": {}}},
            "pools": [{"name": "a", **pool}, {"name": "b", **pool, "subnet": subnet("gpu")}],
        }
        recorded = run(lambda: GpuPlatform("gpu", stack))
        lie = {one.name: one.inputs["vnetSubnetID"] for one in recorded.resources if one.type.endswith("AgentPool")}
        assert lie == {"gpu-a-pool": subnet("nodes"), "gpu-b-pool": subnet("gpu")}

    def test_what_is_only_placed_may_be_an_output(self, run: Run) -> None:
        def program() -> None:
            nodes, logs = (pulumi.Output.from_input(one) for one in (subnet("made"), "/made"))
            network = {"node_subnet": nodes, "load_balancer": {"ips": [logs]}}
            declared: Any = {**CLUSTER, "network": network, "monitoring": {"workspace": logs}, "tags": {"a": logs}}
            AksCluster("c", {**declared, "container_registries": [pulumi.Output.from_input(REGISTRY)]})

        recorded = run(program)
        inputs = recorded.one("ManagedCluster").inputs
        assert inputs["agentPoolProfiles"][0]["vnetSubnetID"] == subnet("made")
        assert inputs["networkProfile"]["loadBalancerProfile"]["outboundIPs"] == {"publicIPs": [{"id": "/made"}]}
        assert inputs["addonProfiles"]["omsagent"]["config"]["logAnalyticsWorkspaceResourceID"] == "/made"
        assert inputs["tags"] == {"a": "/made"} == recorded.one("ResourceGroup").inputs["tags"]
        assert recorded.one("RoleAssignment").inputs["scope"] == REGISTRY

    def test_what_it_keeps_for_good_replaces_it(self, run: Run) -> None:
        recorded = run(lambda: AksCluster("c", cast("Any", CLUSTER)))
        replacing = set(recorded.options("c-cluster").replaceOnChanges)
        assert {"apiServerAccessProfile.enablePrivateCluster", "networkProfile.loadBalancerSku", "enableRBAC"} <= replacing
        assert not {"networkProfile", "apiServerAccessProfile", "tags", "sku", "agentPoolProfiles"} & replacing
        assert recorded.options("c-cluster").deleteBeforeReplace
