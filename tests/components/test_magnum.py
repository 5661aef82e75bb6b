"""Magnum components, by the inputs that the engine gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.magnum.cluster import MagnumCluster, MagnumGpuNodePool
from gpu_pools.text.errors import InvalidStackError

from .conftest import GIVEN_TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.components.magnum.cluster import MagnumClusterArgs

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

TEMPLATE: Any = {"image": "fcos", "external_network": "public", "flavor": "m2.large", "labels": {"kube_tag": "v1.34.2"}}
MADE: MagnumClusterArgs = {
    "name": "gpu",
    "driver": "heat",
    "template": TEMPLATE,
    "masters": 3,
    "labels": {"nvidia_gpu_enabled": "true"},
    "protect": True,
}
TAINT = "node-role.kubernetes.io/gpu=true:NoSchedule"


def group_args(driver: str = "heat", **pool: Any) -> Any:
    """Arguments of a node group that is used alone."""
    declared = {"name": "gpu-a", "flavor": "g2", "count": 1, "sharing": {"exclusive": {}}, **pool}
    flavor = {"gpu_model": "a100-40gb", "gpus_per_node": 1}
    return {"cluster_id": "c", "magnum_driver": driver, "pool": declared, "flavor": flavor}


class TestCluster:
    """The cluster and its template."""

    def test_makes_a_template_with_a_load_balancer_for_several_masters(self, run: Run) -> None:
        inputs = run(lambda: MagnumCluster("c", MADE)).one("ClusterTemplate").inputs
        assert (inputs["coe"], inputs["masterLbEnabled"], inputs["masterFlavor"]) == ("kubernetes", True, "m2.large")

    def test_a_template_in_use_is_replaced_not_changed(self, run: Run) -> None:
        recorded = run(lambda: MagnumCluster("c", MADE))
        assert list(recorded.options("c-template").replaceOnChanges) == ["*"]

    @pytest.mark.parametrize("given", [GIVEN_TEMPLATE, "k8s-1.34"])
    def test_uses_a_given_template_by_its_uuid(self, run: Run, given: str) -> None:
        recorded = run(lambda: MagnumCluster("c", {"name": "gpu", "driver": "capi-helm", "template_id": given}))
        assert recorded.of("ClusterTemplate") == []
        assert recorded.one(":Cluster").inputs["clusterTemplateId"] == GIVEN_TEMPLATE

    def test_labels_are_merged_with_the_template_s(self, run: Run) -> None:
        inputs = run(lambda: MagnumCluster("c", MADE)).one(":Cluster").inputs
        assert (inputs["labels"], inputs["mergeLabels"]) == ({"nvidia_gpu_enabled": "true"}, True)

    def test_only_the_cluster_is_protected(self, run: Run) -> None:
        recorded = run(lambda: MagnumCluster("c", MADE))
        assert {request.name for request in recorded.requests.values() if request.protect} == {"c-cluster"}

    def test_the_kubeconfig_is_secret(self, run: Run) -> None:
        recorded = run(lambda: MagnumCluster("c", MADE))
        assert recorded.is_secret("c-kubernetes", "kubeconfig")
        assert recorded.one("providers:kubernetes").inputs["clusterIdentifier"] == "c-cluster-id"

    def test_template_and_template_id_together_are_refused(self, run: Run) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError, match="gives both `template` and `templateId`"):
                MagnumCluster("c", {"name": "gpu", "driver": "heat", "template": TEMPLATE, "template_id": "t"})

        assert run(program).resources == []


class TestNodeGroup:
    """One node group."""

    def test_taints_come_from_the_kubelet_with_the_heat_driver(self, run: Run) -> None:
        args = group_args(taints=[TAINT], node_group_labels={"availability_zone": "a"})
        inputs = run(lambda: MagnumGpuNodePool("a", args)).one("NodeGroup").inputs
        assert inputs["labels"] == {"availability_zone": "a", "kubelet_options": f"--register-with-taints={TAINT}"}
        assert inputs["mergeLabels"] is True

    def test_other_drivers_get_no_kubelet_options(self, run: Run) -> None:
        args = group_args("capi-helm", taints=["nvidia.com/gpu=true:NoSchedule"])
        assert "labels" not in run(lambda: MagnumGpuNodePool("a", args)).one("NodeGroup").inputs

    @pytest.mark.parametrize("protect", [False, True])
    def test_is_protected_where_it_is_declared(self, run: Run, *, protect: bool) -> None:
        recorded = run(lambda: MagnumGpuNodePool("a", group_args(protect=protect)))
        protected = {request.name for request in recorded.requests.values() if request.protect}
        assert protected == ({"a-group"} if protect else set())

    def test_the_count_of_an_autoscaled_group_belongs_to_the_autoscaler(self, run: Run) -> None:
        args = group_args()
        del args["pool"]["count"]
        args["pool"]["nodes"] = {"min": 0, "max": 3}
        recorded = run(lambda: MagnumGpuNodePool("a", args))
        inputs = recorded.one("NodeGroup").inputs
        assert (inputs["nodeCount"], inputs["minNodeCount"], inputs["maxNodeCount"]) == (0, 0, 3)
        assert list(recorded.options("a-group").ignoreChanges) == ["nodeCount"]

    def test_bounds_that_are_the_same_leave_the_group_to_the_autoscaler(self, run: Run) -> None:
        args = group_args()
        del args["pool"]["count"]
        args["pool"]["nodes"] = {"min": 2, "max": 2}
        recorded = run(lambda: MagnumGpuNodePool("a", args))
        inputs = recorded.one("NodeGroup").inputs
        assert (inputs["nodeCount"], inputs["minNodeCount"], inputs["maxNodeCount"]) == (2, 2, 2)
        assert list(recorded.options("a-group").ignoreChanges) == ["nodeCount"]

    def test_what_is_not_declared_protected_is_left_to_the_protection_of_the_component(self, run: Run) -> None:
        recorded = run(lambda: MagnumGpuNodePool("a", group_args(), pulumi.ResourceOptions(protect=True)))
        assert not recorded.options("a-group").HasField("protect") or recorded.options("a-group").protect

    def test_a_fixed_group_has_no_limits_that_would_stand_in_the_way_of_its_next_size(self, run: Run) -> None:
        inputs = run(lambda: MagnumGpuNodePool("a", group_args())).one("NodeGroup").inputs
        assert (inputs["nodeCount"], inputs.get("maxNodeCount")) == (1, None)
        # Left out, the plugin would keep the lower limit of a pool that was autoscaled before.
        assert inputs["minNodeCount"] == 0

    @pytest.mark.parametrize(
        ("driver", "autoscaling", "limited"),
        [
            ("capi-helm", True, True),
            ("capi-helm", False, False),
            ("magnum-cluster-api", True, True),
            ("magnum-cluster-api", False, False),
            ("heat", True, False),
        ],
    )
    def test_a_fixed_group_has_limits_where_they_decide_how_many_nodes_there_are(
        self,
        run: Run,
        driver: str,
        autoscaling: bool,  # noqa: FBT001
        limited: bool,  # noqa: FBT001
    ) -> None:
        args: Any = {**group_args(driver, taints=[]), "autoscaling": autoscaling}
        inputs = run(lambda: MagnumGpuNodePool("a", args)).one("NodeGroup").inputs
        found = [inputs.get(key) for key in ("nodeCount", "minNodeCount", "maxNodeCount")]
        assert found == ([1, 1, 1] if limited else [1, 0, None])

    def test_a_group_waits_for_the_groups_that_it_depends_on(self, run: Run) -> None:
        def program() -> None:
            first = MagnumGpuNodePool("a", group_args())
            MagnumGpuNodePool("b", group_args(name="gpu-b"), pulumi.ResourceOptions(depends_on=[first]))

        assert "a-group" in run(program).depends_on("b-group")

    def test_problems_of_the_flavor_name_the_component(self, run: Run) -> None:
        def program() -> None:
            args = group_args()
            args["flavor"]["gpu_model"] = "a1000"
            with pytest.raises(InvalidStackError, match=r"MagnumGpuNodePool\(a\)\.flavor\.g2\.gpuModel"):
                MagnumGpuNodePool("a", args)

        run(program)


class TestDefaultWorkers:
    """magnum-cluster-api reads no number where the autoscaler is on: the limits come with the labels of a new cluster."""

    @staticmethod
    def _labels(run: Run, **changed: Any) -> tuple[Any, list[str]]:
        args: Any = {**MADE, "driver": "magnum-cluster-api", "workers": 3, **changed}
        args["template"] = {**TEMPLATE, "network_driver": "cilium", **changed.get("template", {})}
        recorded = run(lambda: MagnumCluster("c", args))
        return recorded.one(":Cluster").inputs.get("labels"), list(recorded.options("c-cluster").ignoreChanges)

    def test_get_limits_at_their_number_that_no_living_cluster_sees(self, run: Run) -> None:
        labels, ignored = self._labels(run, labels={"auto_scaling_enabled": "true"})
        assert labels == {"auto_scaling_enabled": "true", "min_node_count": "3", "max_node_count": "3"}
        assert ignored == ['labels["min_node_count"]', 'labels["max_node_count"]']

    def test_are_held_where_the_template_turns_the_autoscaler_on(self, run: Run) -> None:
        labels, ignored = self._labels(run, template={"labels": {"auto_scaling_enabled": "true"}}, labels={})
        assert labels == {"min_node_count": "3", "max_node_count": "3"}
        assert "mergeLabels" in ignored

    @pytest.mark.parametrize(
        "changed",
        [
            {"labels": {"auto_scaling_enabled": "true", "min_node_count": "1", "max_node_count": "5"}},
            {"labels": {"auto_scaling_enabled": "true"}, "driver": "heat"},
            {"labels": {"auto_scaling_enabled": "false"}},
        ],
    )
    def test_are_left_alone_elsewhere(self, run: Run, changed: dict[str, Any]) -> None:
        assert self._labels(run, **changed) == (changed["labels"], [])


class TestNeverAsked:
    """What Magnum would refuse and no stack file can ask for: these properties are all that is ever sent.

    So no volume_driver rexray, no public template (403), no driver that it lacks, no
    role master, no bad taint (409, API 1.14), no group without a name (500), no cluster of three masters without a load balancer
    but by a template that was given.
    """

    def test_of_a_template(self, run: Run) -> None:
        more: Any = {"master_flavor": "m", "network_driver": "calico", "docker_volume_size": 1, "dns_nameserver": "8.8.8.8"}
        more |= {"http_proxy": "http://p:1", "https_proxy": "http://p:1", "no_proxy": "10.0.0.1"}
        inputs = run(lambda: MagnumCluster("c", {**MADE, "template": {**TEMPLATE, **more}})).one("ClusterTemplate").inputs
        assert inputs.keys() == {
            *("httpProxy", "httpsProxy", "noProxy"),
            *("name", "coe", "image", "externalNetworkId", "flavor", "masterFlavor"),
            *("networkDriver", "dockerVolumeSize", "dnsNameserver", "masterLbEnabled", "labels"),
        }

    def test_of_a_cluster(self, run: Run) -> None:
        inputs = run(lambda: MagnumCluster("c", {**MADE, "keypair": "k", "worker_flavor": "w"})).one(":Cluster").inputs
        assert inputs.keys() == {
            *("name", "clusterTemplateId", "keypair", "masterCount", "nodeCount", "flavor", "labels", "mergeLabels")
        }

    def test_of_a_cluster_with_all_options(self, run: Run) -> None:
        options: Any = {
            "fixed_network": "private",
            "fixed_subnet": "private-1",
            "floating_ip": False,
            "master_load_balancer": True,
            "availability_zone": "nova-2",
            "boot_volume": {"size": 50, "type": "ssd"},
            "auto_healing": False,
        }
        inputs = run(lambda: MagnumCluster("c", {**MADE, **options})).one(":Cluster").inputs
        assert {key: inputs[key] for key in ("fixedNetwork", "fixedSubnet", "floatingIpEnabled", "masterLbEnabled")} == {
            "fixedNetwork": "private",
            "fixedSubnet": "private-1",
            "floatingIpEnabled": False,
            "masterLbEnabled": True,
        }
        assert inputs["mergeLabels"] is True
        assert inputs["labels"] == {
            "nvidia_gpu_enabled": "true",
            "availability_zone": "nova-2",
            "boot_volume_size": "50",
            "boot_volume_type": "ssd",
            "auto_healing_enabled": "false",
        }

    def test_of_a_node_group(self, run: Run) -> None:
        args = group_args(taints=[TAINT], image="i", docker_volume_size=1)
        del args["pool"]["count"]
        args["pool"]["nodes"] = {"min": 0, "max": 3}
        inputs = run(lambda: MagnumGpuNodePool("a", args)).one("NodeGroup").inputs
        assert inputs["role"] == "gpu"
        assert inputs.keys() == {
            *("name", "clusterId", "role", "flavorId", "imageId", "dockerVolumeSize"),
            *("nodeCount", "minNodeCount", "maxNodeCount", "labels", "mergeLabels"),
        }


def test_a_network_and_a_keypair_of_the_same_program_are_placed(run: Run) -> None:
    def program() -> None:
        made = pulumi.CustomResource("test:index:Network", "net", {})
        template = {"image": "i", "external_network": made.id, "flavor": "f"}
        args: Any = {"name": "c", "driver": "heat", "template": template, "check_cloud": False}
        MagnumCluster("c", {**args, "keypair": made.id, "fixed_network": made.id, "fixed_subnet": made.id})

    recorded = run(program)
    cluster, template = recorded.one("/cluster:Cluster").inputs, recorded.one(":ClusterTemplate").inputs
    assert {cluster[key] for key in ("keypair", "fixedNetwork", "fixedSubnet")} == {"net-id"}
    assert template["externalNetworkId"] == "net-id"
    assert "net" in recorded.depends_on("c-cluster")
