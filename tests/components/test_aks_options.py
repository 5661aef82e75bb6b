"""What AKS components send for each option, by the inputs that the engine gets: goldens of all of them, Outputs, `properties`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pulumi
import pytest
import yaml

from components.aks import AksGpuNodePool
from gpu_pools.text.errors import InvalidStackError
from tests.unit.bad_aks_options import id_of, subnet
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
                "AksGpuNodePool(nb).osDiskType",
                "AksGpuNodePool(nb).labels.a",
            }

        assert run(program).resources == []

    def test_properties_come_last_and_below_what_is_there(self, run: Run) -> None:
        written = {"upgradeSettings": {"maxSurge": "50%"}, "tags": {"b": "c"}}
        inputs = pool_of(run, {**POOL, "tags": {"a": "b"}, "properties": written}).inputs
        assert (inputs["upgradeSettings"]["maxSurge"], inputs["tags"]) == ("50%", {"a": "b", "b": "c"})
