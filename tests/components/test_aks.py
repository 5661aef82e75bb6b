"""AKS components, by the inputs that the engine gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.aks import cluster as aks
from gpu_pools.components.aks.cluster import AksCluster, AksGpuNodePool
from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.components.sharing import Mig, TimeSlicing
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import aks as aks_stack
from tests.unit.stacks import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.components.aks.cluster import AksClusterArgs, AksPoolArgs

    from .conftest import Recorder, Registered

    Run = Callable[[Callable[[], Any]], Recorder]

CLUSTER: AksClusterArgs = {
    "name": "gpu_dev",
    "location": "westeurope",
    "system_pool": {"vm_size": "Standard_D4s_v5", "nodes": {"min": 2, "max": 4}, "zones": ["1"]},
    "tags": {"environment": "dev"},
    "protect": True,
}
A100 = "Standard_NC24ads_A100_v4"


def pool_of(run: Run, mig_strategy: str | None = None, **pool: Any) -> Registered:
    """The agent pool that such a declaration leads to."""
    declared: Any = {"name": "nb", "vm_size": A100, "count": 2, "sharing": {"timeSlicing": {"replicas": 4}}, **pool}
    args: Any = {"cluster_name": "c", "resource_group_name": "g", "pool": declared}
    if mig_strategy:
        args["mig_strategy"] = mig_strategy
    return run(lambda: AksGpuNodePool("nb", args)).one("AgentPool")


class TestCluster:
    """The managed cluster."""

    def test_has_one_inline_system_pool_whose_changes_are_looked_at_before_they_are_made(self, run: Run) -> None:
        recorded = run(lambda: AksCluster("c", CLUSTER))
        (system,) = recorded.one("ManagedCluster").inputs["agentPoolProfiles"]
        assert (system["mode"], system["minCount"], system["maxCount"], system["enableAutoScaling"]) == ("System", 2, 4, True)
        assert list(recorded.options("c-cluster").ignoreChanges) == []
        assert list(recorded.options("c-cluster").hooks.before_update) == ["c-cluster-change"]

    def test_bounds_that_are_the_same_leave_the_system_pool_to_the_autoscaler(self, run: Run) -> None:
        declared: AksClusterArgs = {**CLUSTER, "system_pool": {"vm_size": "Standard_D4s_v5", "nodes": {"min": 3, "max": 3}}}
        (system,) = run(lambda: AksCluster("c", declared)).one("ManagedCluster").inputs["agentPoolProfiles"]
        assert (system["enableAutoScaling"], system["minCount"], system["maxCount"]) == (True, 3, 3)

    def test_what_is_not_declared_protected_is_left_to_the_protection_of_the_component(self, run: Run) -> None:
        declared: AksClusterArgs = {**CLUSTER, "protect": False}
        recorded = run(lambda: AksCluster("c", declared, pulumi.ResourceOptions(protect=True)))
        assert not [request.name for request in recorded.requests.values() if request.HasField("protect") and not request.protect]

    def test_alone_it_tells_of_values_that_no_enumeration_lists(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        said: list[str] = []
        monkeypatch.setattr(aks.log, "warn", lambda text, _resource=None: said.append(text))
        declared: AksClusterArgs = {**CLUSTER, "properties": {"supportPlan": "LongTerm"}}
        run(lambda: AksCluster("c", declared))
        (warning,) = [one for one in said if "supportPlan" in one]
        assert warning.startswith('properties of the cluster.supportPlan: "LongTerm" is not among the values of ')

    def test_protects_the_cluster_alone_so_that_pools_can_be_replaced(self, run: Run) -> None:
        recorded = run(lambda: AksCluster("c", CLUSTER))
        protected = {request.name for request in recorded.requests.values() if request.protect}
        assert protected == {"c-cluster"}

    def test_dns_prefix_has_no_underscore(self, run: Run) -> None:
        assert run(lambda: AksCluster("c", CLUSTER)).one("ManagedCluster").inputs["dnsPrefix"] == "gpu-dev"

    def test_kubeconfig_is_decoded_and_secret(self, run: Run) -> None:
        seen: list[Any] = []

        def program() -> None:
            AksCluster("c", CLUSTER).kubeconfig.apply(seen.append)

        recorded = run(program)
        assert "very-secret-token" in seen[0]
        assert recorded.is_secret("c-kubernetes", "kubeconfig")

    def test_the_provider_is_bound_to_the_cluster_id_and_keeps_config_maps(self, run: Run) -> None:
        inputs = run(lambda: AksCluster("c", CLUSTER)).one("providers:kubernetes").inputs
        assert inputs["clusterIdentifier"] == "c-cluster-id"
        assert inputs["enableConfigMapMutable"] in {True, "true"}

    def test_wrong_arguments_are_refused_all_at_once(self, run: Run) -> None:
        def program() -> None:
            wrong: Any = {"name": "c", "locaton": "westeurope", "system_pool": {"vm_size": "D4", "count": 0}}
            with pytest.raises(InvalidStackError) as refused:
                AksCluster("c", wrong)
            paths = {problem.path for problem in refused.value.problems}
            assert {"AksCluster(c).location", "AksCluster(c).locaton", "AksCluster(c).systemPool.vmSize"} <= paths

        assert run(program).resources == []


class TestPool:
    """One agent pool."""

    def test_carries_the_labels_and_taints_of_the_plan(self, run: Run) -> None:
        inputs = pool_of(run, taints=["sku=gpu:NoSchedule"], labels={"team": "a"}).inputs
        assert inputs["nodeTaints"] == ["sku=gpu:NoSchedule"]
        assert inputs["nodeLabels"]["team"] == "a"
        assert inputs["nodeLabels"]["gpu-pools/pool"] == "nb"
        assert inputs["nodeLabels"]["nvidia.com/device-plugin.config"].startswith("time-slicing-4-")
        assert inputs["nodeLabels"]["nvidia.com/mig.config"] == "all-disabled"

    def test_with_a_rollout_the_two_labels_are_the_components_input_alone(self, run: Run) -> None:
        (pool_plan,) = plan_of(aks_stack({"rollout": {}, "labels": {"team": "ml"}}, verification={})).pools
        place: Any = {"cluster_name": "c", "resource_group_name": "g"}
        recorded = run(lambda: AksGpuNodePool("nb", place, planned=pool_plan))
        assert recorded.one("AgentPool").inputs["nodeLabels"] == {"gpu-pools/pool": "gpu", "team": "ml"}
        assert recorded.one("AksGpuNodePool").inputs == {"changedLabels": pool_plan.changed_labels}
        without = run(lambda: AksGpuNodePool("nb", {**place, "pool": FIXED}))
        assert without.one("AksGpuNodePool").inputs == {}

    def test_a_fixed_pool_keeps_its_count(self, run: Run) -> None:
        recorded = run(lambda: AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": FIXED}))
        inputs = recorded.one("AgentPool").inputs
        assert (inputs["count"], inputs["enableAutoScaling"], "minCount" in inputs) == (2, False, False)
        assert list(recorded.options("nb-pool").ignoreChanges) == []

    def test_the_count_of_an_autoscaled_pool_belongs_to_the_autoscaler(self, run: Run) -> None:
        declared: AksPoolArgs = {"name": "nb", "vm_size": A100, "nodes": {"min": 0, "max": 4}, "sharing": {"exclusive": {}}}
        recorded = run(lambda: AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared}))
        inputs = recorded.one("AgentPool").inputs
        assert (inputs["count"], inputs["minCount"], inputs["maxCount"]) == (0, 0, 4)
        assert list(recorded.options("nb-pool").ignoreChanges) == ["count"]

    def test_bounds_that_are_the_same_leave_the_pool_to_the_autoscaler(self, run: Run) -> None:
        declared: AksPoolArgs = {"name": "nb", "vm_size": A100, "nodes": {"min": 3, "max": 3}, "sharing": {"exclusive": {}}}
        recorded = run(lambda: AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared}))
        inputs = recorded.one("AgentPool").inputs
        assert (inputs["enableAutoScaling"], inputs["minCount"], inputs["maxCount"]) == (True, 3, 3)
        assert list(recorded.options("nb-pool").ignoreChanges) == ["count"]

    def test_names_the_version_of_the_cluster_where_it_is_given_one(self, run: Run) -> None:
        assert "orchestratorVersion" not in pool_of(run).inputs
        args: Any = {"cluster_name": "c", "resource_group_name": "g", "pool": FIXED, "kubernetes_version": "1.35"}
        assert run(lambda: AksGpuNodePool("nb", args)).one("AgentPool").inputs["orchestratorVersion"] == "1.35"

    def test_what_azure_does_not_change_on_a_living_pool_replaces_it(self, run: Run) -> None:
        recorded = run(lambda: AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": FIXED}))
        replacing = set(recorded.options("nb-pool").replaceOnChanges)
        assert {"availabilityZones", "scaleSetPriority", "spotMaxPrice", "osDiskType", "maxPods", "vnetSubnetID"} <= replacing
        assert not {"count", "minCount", "maxCount", "nodeLabels", "nodeTaints", "orchestratorVersion", "tags"} & replacing

    def test_what_is_not_declared_protected_is_left_to_the_protection_of_the_component(self, run: Run) -> None:
        args: Any = {"cluster_name": "c", "resource_group_name": "g", "pool": FIXED}
        recorded = run(lambda: AksGpuNodePool("nb", args, pulumi.ResourceOptions(protect=True)))
        assert not recorded.options("nb-pool").HasField("protect") or recorded.options("nb-pool").protect

    @pytest.mark.parametrize("protect", [False, True])
    def test_is_protected_where_it_is_declared(self, run: Run, *, protect: bool) -> None:
        declared: AksPoolArgs = {**FIXED, "protect": protect}
        recorded = run(lambda: AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared}))
        protected = {request.name for request in recorded.requests.values() if request.protect}
        assert protected == ({"nb-pool"} if protect else set())

    def test_the_operator_owning_the_driver_keeps_aks_from_installing_one(self, run: Run) -> None:
        assert pool_of(run).inputs["gpuProfile"] == {"driver": "None"}

    def test_a_preinstalled_driver_is_installed_by_aks(self, run: Run) -> None:
        assert pool_of(run, driver="preinstalled").inputs["gpuProfile"] == {"driver": "Install"}

    def test_aks_partitions_where_it_is_told_to(self, run: Run) -> None:
        sharing = {"mig": {"layout": {"1g.10gb": 7}}}
        inputs = pool_of(run, sharing=sharing, partitioned_by="aks", driver="preinstalled").inputs
        assert inputs["gpuInstanceProfile"] == "MIG1g"
        assert "nvidia.com/mig.config" not in inputs["nodeLabels"]

    def test_a_spot_pool_has_no_surge(self, run: Run) -> None:
        inputs = pool_of(run, spot={"max_price": 1.5}).inputs
        assert (inputs["scaleSetPriority"], inputs["scaleSetEvictionPolicy"], inputs["spotMaxPrice"]) == ("Spot", "Delete", 1.5)
        assert "upgradeSettings" not in inputs

    def test_a_spot_pool_sends_what_azure_put_into_its_labels_and_taints(self, run: Run) -> None:
        inputs = pool_of(run, spot={}).inputs
        assert inputs["nodeLabels"]["kubernetes.azure.com/scalesetpriority"] == "spot"
        assert inputs["nodeTaints"] == ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]
        assert "kubernetes.azure.com/scalesetpriority" not in pool_of(run).inputs["nodeLabels"]

    def test_a_replacement_frees_the_name_first(self, run: Run) -> None:
        recorded = run(lambda: AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": FIXED}))
        assert recorded.options("nb-pool").deleteBeforeReplace

    def test_takes_a_sharing_component(self, run: Run) -> None:
        def program() -> None:
            declared: AksPoolArgs = {"name": "nb", "vm_size": A100, "count": 1, "sharing": TimeSlicing("nb", {"replicas": 8})}
            AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared})

        labels = run(program).one("AgentPool").inputs["nodeLabels"]
        assert labels["nvidia.com/device-plugin.config"].startswith("time-slicing-8-")

    @pytest.mark.parametrize(
        ("sharing", "same"), [({"timeSlicing": {"replicas": 4}}, True), ({"mig": {"layout": {"1g.10gb": 7}}}, False)]
    )
    def test_the_strategy_of_the_cluster_decides_the_config_key_of_mig_pools_alone(
        self, run: Run, sharing: dict[str, Any], *, same: bool
    ) -> None:
        keys = {
            pool_of(run, strategy, sharing=sharing).inputs["nodeLabels"]["nvidia.com/device-plugin.config"]
            for strategy in (None, "mixed")
        }
        assert (len(keys) == 1) is same

    def test_a_pool_whose_config_the_operator_lacks_is_refused(self, run: Run) -> None:
        def program(*, strategy: str) -> None:
            sections: Any = {
                "cluster": {"platform": "aks"},
                "sharing": {"even": {"mig": {"layout": {"1g.10gb": 7}}}, "uneven": {"mig": {"layout": {"3g.40gb": 1}}}},
                "pools": [
                    {"name": "even", "vmSize": A100, "count": 1, "sharing": "even"},
                    {"name": "uneven", "vmSize": A100, "count": 1, "sharing": "uneven"},
                ],
                "operator": {"migStrategy": "mixed"},
            }
            operator = GpuOperator("op", {"config": sections})
            declared: AksPoolArgs = {"name": "even", "vm_size": A100, "count": 1, "sharing": {"mig": {"layout": {"1g.10gb": 7}}}}
            place: Any = {"cluster_name": "c", "resource_group_name": "g", "config_keys": operator.config_keys}
            AksGpuNodePool("even", {**place, "pool": declared, "mig_strategy": strategy})

        assert run(lambda: program(strategy="mixed")).of("AgentPool")
        with pytest.raises(InvalidStackError, match=r"AksGpuNodePool\(even\)\.sharing: .* is not one that the operator has"):
            run(lambda: program(strategy="single"))

    def test_problems_name_the_component(self, run: Run) -> None:
        def program() -> None:
            sharing = Mig("m", {"layout": {"1g.5gb": 7}})
            declared: Any = {"name": "a-name-too-long", "vm_size": A100, "count": 1, "sharing": sharing}
            with pytest.raises(InvalidStackError) as refused:
                AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared})
            paths = {problem.path for problem in refused.value.problems}
            assert paths == {"AksGpuNodePool(nb).name", "AksGpuNodePool(nb).sharing.mig.layout.1g.5gb"}

        run(program)

    def test_a_sharing_that_is_none_says_what_to_write(self, run: Run) -> None:
        def program() -> None:
            declared: Any = {"name": "nb", "vm_size": A100, "count": 1, "sharing": "notebooks"}
            with pytest.raises(InvalidStackError, match="a sharing component"):
                AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g", "pool": declared})

        run(program)

    def test_neither_pool_nor_plan_is_refused(self, run: Run) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError, match="exactly one of the two"):
                AksGpuNodePool("nb", {"cluster_name": "c", "resource_group_name": "g"})

        run(program)


FIXED: AksPoolArgs = {"name": "nb", "vm_size": A100, "count": 2, "sharing": {"exclusive": {}}}
