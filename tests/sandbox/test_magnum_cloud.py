"""The stand-in for Magnum: what it refuses, how it loses operations, and what its drivers put on nodes."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.clouds import magnum_rules as rules
from sandbox.clouds.host import Host
from sandbox.clouds.magnum import MagnumCloud, Outcome
from sandbox.clouds.magnum_rules import MagnumError, effective_labels, node_marks
from sandbox.providers.base import PartialFailure, Request, ServiceError
from sandbox.providers.openstack import OpenStackStandIn
from sandbox.providers.values import UNKNOWN, Secret

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.machine_groups import MachineGroup

SEED = {
    "flavors": {
        "m2.large": {"vcpus": 4, "ramMiB": 8192, "gpuModel": None, "gpuProduct": None, "gpus": 0},
        "g2.5xlarge": {
            "vcpus": 16,
            "ramMiB": 131072,
            "gpuModel": "a100-40gb",
            "gpuProduct": "NVIDIA A100-PCIE-40GB",
            "gpus": 1,
        },
    },
    "images": ["fcos-40", {"name": "bare", "osDistro": ""}],
    "keypairs": ["admin"],
    "networks": ["public"],
    "templates": {"given": {"image": "fcos-40", "flavor": "m2.large"}},
}
TEMPLATE = {"name": "gpu", "coe": "kubernetes", "image": "fcos-40", "flavor": "m2.large"}


@dataclass(frozen=True)
class FakeCluster:
    kubeconfig: Path
    server: str = "https://127.0.0.1:6443"
    ca_pem: str = "ca"
    client_cert_pem: str = "cert"
    client_key_pem: str = "key"


@dataclass
class FakeHost:
    machines: dict[str, MachineGroup] = field(default_factory=dict)
    booted: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)

    def host(self) -> Host:
        return Host(
            boot=self.boot,
            erase=lambda folder: self.erased.append(folder.name),
            load=lambda folder: FakeCluster(folder / "kubeconfig"),
            put=lambda _, group: self.machines.update({group.id: group}),
            remove=lambda _, id_: self.machines.pop(id_, None),
        )

    def boot(self, folder: Path, name: str) -> FakeCluster:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kubeconfig").write_text(f"name: {name}")
        self.booted.append(name)
        return FakeCluster(folder / "kubeconfig")

    def named(self, word: str) -> MachineGroup:
        return next(group for group in self.machines.values() if word in group.node_prefix)


@pytest.fixture
def fake() -> FakeHost:
    return FakeHost()


@pytest.fixture
def make(tmp_path: Path, fake: FakeHost) -> Callable[..., MagnumCloud]:
    """A service with the given options, over the seeded cloud."""
    seed = tmp_path / "cloud" / "openstack-seed.json"
    seed.parent.mkdir(exist_ok=True)
    seed.write_text(json.dumps(SEED))

    def build(**options: Any) -> MagnumCloud:
        return MagnumCloud(tmp_path, fake.host(), **{"sleep": lambda _: None, **options})

    return build


@pytest.fixture
def cloud(make: Callable[..., MagnumCloud]) -> MagnumCloud:
    return make()


def new_cluster(cloud: MagnumCloud, **values: Any) -> str:
    template = cloud.create_template(TEMPLATE)
    return cloud.create_cluster({"name": "gpu", "clusterTemplateId": template, **values}).id


def new_group(cloud: MagnumCloud, cluster: str, name: str = "nb", **values: Any) -> Outcome:
    return cloud.create_group(cluster, {"name": name, "flavorId": "g2.5xlarge", **values})


class TestTemplates:
    @pytest.mark.parametrize(
        ("values", "text"),
        [
            ({"image": "none"}, "Image none could not be found."),
            ({"image": "bare"}, "Image bare doesn't contain os_distro field."),
            ({"flavor": "x"}, "Unable to find flavor x."),
            ({"masterFlavor": "x"}, "Unable to find flavor x."),
            ({"externalNetworkId": "x"}, "Unable to find external network x."),
            ({"fixedNetwork": "x"}, "Unable to find fixed network x."),
            ({"fixedSubnet": "x"}, "Unable to find fixed subnet x."),
            ({"coe": "swarm"}, "field/attribute coe. Value: 'swarm'. Value should be one of: kubernetes"),
            ({"networkDriver": "weave"}, "Network driver type weave is not supported"),
            ({"volumeDriver": "rexray"}, "Volume driver type rexray is not supported"),
            ({"name": ""}, "minimum character requirement of 1"),
            ({"name": "a" * 256}, "maximum character requirement of 255"),
            ({"dnsNameserver": "bad"}, "field/attribute dns_nameserver"),
            ({"serverType": "pod"}, "field/attribute server_type"),
        ],
    )
    def test_refuses(self, cloud: MagnumCloud, values: dict[str, Any], text: str) -> None:
        with pytest.raises(MagnumError) as refusal:
            cloud.create_template({**TEMPLATE, **values})
        assert text in str(refusal.value)
        assert refusal.value.status == 400

    def test_accepts_what_magnum_accepts(self, cloud: MagnumCloud) -> None:
        first, second = cloud.create_template(TEMPLATE), cloud.create_template({**TEMPLATE, "keypairId": "none"})
        assert first != second
        with pytest.raises(MagnumError, match="Multiple ClusterTemplates exist") as refusal:
            cloud.find_template("gpu")
        assert refusal.value.status == 409

    def test_one_in_use_stays_as_it_is(self, cloud: MagnumCloud) -> None:
        new_cluster(cloud)
        id_, values = cloud.find_template("gpu")
        text = f"ClusterTemplate {id_} is referenced by one or multiple clusters."
        with pytest.raises(MagnumError, match=text):
            cloud.update_template(id_, values)
        with pytest.raises(MagnumError, match=text):
            cloud.delete_template(id_)

    def test_given_templates(self, cloud: MagnumCloud) -> None:
        id_, values = cloud.find_template("given")
        assert values["image"] == "fcos-40"
        assert cloud.create_cluster({"name": "gpu", "clusterTemplateId": id_}).status == "CREATE_COMPLETE"


class TestClusters:
    @pytest.mark.parametrize(
        ("values", "status", "text"),
        [
            ({"keypair": "none"}, 404, "Unable to find keypair none."),
            ({"clusterTemplateId": "none"}, 404, "ClusterTemplate none could not be found."),
            ({"name": "1abc"}, 400, "Value should match the pattern ^[a-zA-Z][a-zA-Z0-9_.-]*$"),
            ({"name": "a b"}, 400, "Value should match the pattern"),
            ({"name": "a" * 243}, 400, "maximum character requirement of 242"),
            ({"masterCount": 2}, 400, "cannot be an even number."),
            ({"masterCount": 3}, 400, "master_count must be 1 when master_lb_enabled is False"),
            ({"nodeCount": -1}, 400, "field/attribute node_count"),
            ({"flavor": "x"}, 400, "Unable to find flavor x."),
        ],
    )
    def test_refuses(self, cloud: MagnumCloud, values: dict[str, Any], status: int, text: str) -> None:
        with pytest.raises(MagnumError) as refusal:
            new_cluster(cloud, **values)
        assert text in str(refusal.value)
        assert refusal.value.status == status

    def test_it_comes_with_its_default_groups(self, cloud: MagnumCloud, fake: FakeHost) -> None:
        id_ = new_cluster(cloud, nodeCount=2, labels={"a": "b"})
        shown = cloud.cluster(id_)
        assert shown is not None
        assert shown["apiAddress"] == "https://127.0.0.1:6443"
        master, worker = fake.named("-master-"), fake.named("-node-")
        assert master.control_plane
        assert master.taints == [{"key": "node-role.kubernetes.io/control-plane", "value": "", "effect": "NoSchedule"}]
        assert worker.count == 2
        assert worker.labels == {
            "magnum.openstack.org/role": "worker",
            "magnum.openstack.org/nodegroup": "default-worker",
        }

    def test_no_workers_and_a_duplicate_name_are_accepted(self, cloud: MagnumCloud) -> None:
        assert new_cluster(cloud, nodeCount=0) != new_cluster_again(cloud)

    def test_the_default_workers_are_resized(self, cloud: MagnumCloud, fake: FakeHost) -> None:
        id_ = new_cluster(cloud)
        assert cloud.update_cluster(id_, node_count=3).status == "UPDATE_COMPLETE"
        assert fake.named("-node-").count == 3
        assert cloud.cluster(id_)["nodeCount"] == 3  # type: ignore[index]

    def test_delete(self, cloud: MagnumCloud, fake: FakeHost) -> None:
        id_ = new_cluster(cloud)
        cloud.delete_cluster(id_)
        cloud.delete_cluster(id_)
        assert len(fake.erased) == 1
        assert cloud.cluster(id_) is None


def new_cluster_again(cloud: MagnumCloud) -> str:
    return cloud.create_cluster({"name": "gpu", "clusterTemplateId": cloud.find_template("gpu")[0]}).id


class TestGroups:
    @pytest.mark.parametrize(
        ("values", "status", "text"),
        [
            ({"name": "default-worker"}, 409, "A node group with name default-worker already exists in the cluster gpu."),
            ({"minNodeCount": 3, "maxNodeCount": 2, "nodeCount": 3}, 409, "max_node_count for nb is invalid (min_node_count (3)"),
            ({"maxNodeCount": 2, "nodeCount": 3}, 409, "max_node_count for nb is invalid (node_count (3) should be less"),
            ({"minNodeCount": 2}, 409, "min_node_count for nb is invalid (min_node_count (2) should be less or equal to"),
            ({"role": "master"}, 400, "Creating master nodegroups is currently not supported."),
            ({"flavorId": "x"}, 400, "Unable to find flavor x."),
            ({"nodeCount": -1}, 400, "field/attribute node_count"),
        ],
    )
    def test_refuses(self, cloud: MagnumCloud, values: dict[str, Any], status: int, text: str) -> None:
        cluster = new_cluster(cloud)
        with pytest.raises(MagnumError) as refusal:
            new_group(cloud, cluster, **values)
        assert text in str(refusal.value)
        assert refusal.value.status == status
        assert json.loads(refusal.value.body)["errors"][0]["detail"] == str(refusal.value)

    def test_cluster_missing(self, cloud: MagnumCloud) -> None:
        with pytest.raises(MagnumError, match=r"Cluster x could not be found\."):
            new_group(cloud, "x")

    def test_a_group_becomes_machines(self, cloud: MagnumCloud, fake: FakeHost) -> None:
        outcome = new_group(cloud, new_cluster(cloud), "notebooks-gpu", nodeCount=2, labels={"a": "b"})
        assert outcome.status == "CREATE_COMPLETE"
        group = fake.named("gpu-notebooks")
        assert group.count == 2
        assert group.hardware.gpu_model == "a100-40gb"
        assert group.hardware.memory_gib == 128
        assert group.labels == {
            "magnum.openstack.org/role": "worker",
            "magnum.openstack.org/nodegroup": "notebooks-gpu",
        }
        assert len(group.node_prefix.split("-")[-3]) == 12

    def test_zero_nodes_and_an_unknown_image_are_accepted(self, cloud: MagnumCloud) -> None:
        cluster = new_cluster(cloud)
        assert new_group(cloud, cluster, nodeCount=0).status == "CREATE_COMPLETE"
        assert new_group(cloud, cluster, "other", imageId="none").status == "CREATE_FAILED"

    def test_resize(self, cloud: MagnumCloud, fake: FakeHost) -> None:
        id_ = new_group(cloud, new_cluster(cloud), maxNodeCount=3).id
        cloud.update_group(id_, limits={}, node_count=3)
        assert fake.named("gpu-nb").count == 3
        with pytest.raises(MagnumError, match="Resizing nb outside the allowed range: min_node_count = 0, max_node_count = 3"):
            cloud.update_group(id_, limits={}, node_count=4)
        with pytest.raises(MagnumError, match="min_node_count for nb is invalid") as refusal:
            cloud.update_group(id_, limits={"minNodeCount": 5, "maxNodeCount": 9}, node_count=None)
        assert refusal.value.status == 409

    def test_the_autoscaler_stays_within_the_limits(self, cloud: MagnumCloud, fake: FakeHost) -> None:
        new_group(cloud, new_cluster(cloud), minNodeCount=1, maxNodeCount=3)
        cloud.scale("gpu", "nb", 3)
        assert fake.named("gpu-nb").count == 3
        for count in (0, 4):
            with pytest.raises(MagnumError, match="outside the allowed range"):
                cloud.scale("gpu", "nb", count)
        with pytest.raises(MagnumError, match="Nodegroup x could not be found"):
            cloud.scale("gpu", "x", 1)

    def test_default_groups_cannot_be_deleted(self, cloud: MagnumCloud) -> None:
        new_cluster(cloud)
        default = next(iter(cloud._records.read()["groups"]))
        with pytest.raises(MagnumError, match="Deleting a default nodegroup is not supported"):
            cloud.delete_group(default)

    def test_delete(self, cloud: MagnumCloud, fake: FakeHost) -> None:
        id_ = new_group(cloud, new_cluster(cloud)).id
        assert cloud.delete_group(id_).status == "DELETE_COMPLETE"
        assert cloud.delete_group(id_).status == "DELETE_COMPLETE"
        assert len(fake.machines) == 2


class TestTwoAtOnce:
    """The API accepts both; what becomes of the second is the driver's affair."""

    @pytest.fixture
    def race(self, make: Callable[..., MagnumCloud]) -> Callable[[str], tuple[MagnumCloud, Outcome, Outcome]]:
        def run(driver: str) -> tuple[MagnumCloud, Outcome, Outcome]:
            started, go_on = threading.Event(), threading.Event()

            def wait(_: float) -> None:
                started.set()
                go_on.wait(5)

            cloud = make(driver=driver, sleep=wait)
            cluster = new_cluster(cloud)
            outcomes: list[Outcome] = []
            first = threading.Thread(target=lambda: outcomes.append(new_group(cloud, cluster, "first")))
            first.start()
            started.wait(5)
            second = new_group(cloud, cluster, "second")
            go_on.set()
            first.join()
            return cloud, outcomes[0], second

        return run

    @pytest.mark.parametrize("driver", [rules.HEAT, rules.CAPI_HELM])
    def test_the_second_fails(self, race: Any, fake: FakeHost, driver: str) -> None:
        cloud, first, second = race(driver)
        assert first.status == "CREATE_COMPLETE"
        assert second.status == "CREATE_FAILED"
        assert cloud.group(second.id)["name"] == "second"
        assert len(fake.machines) == 3

    def test_the_second_is_lost(self, race: Any) -> None:
        cloud, first, second = race(rules.CLUSTER_API)
        assert first.status == "CREATE_COMPLETE"
        assert second.status == "DELETE_COMPLETE"
        assert cloud.group(second.id) is None

    def test_one_after_the_other_works(self, cloud: MagnumCloud) -> None:
        cluster = new_cluster(cloud)
        assert {new_group(cloud, cluster, name).status for name in ("a", "b", "c")} == {"CREATE_COMPLETE"}


class TestLabels:
    def test_they_replace_unless_merged(self) -> None:
        assert effective_labels({"a": "1"}, {"b": "2"}, merge=False) == {"b": "2"}
        assert effective_labels({"a": "1"}, {"b": "2"}, merge=True) == {"a": "1", "b": "2"}
        assert effective_labels({"a": "1"}, None, merge=False) == {"a": "1"}

    @pytest.mark.parametrize(
        ("driver", "labels"),
        [
            (rules.HEAT, {"magnum.openstack.org/role": "worker", "magnum.openstack.org/nodegroup": "nb"}),
            (rules.CLUSTER_API, {"node-role.kubernetes.io/worker": "", "node.cluster.x-k8s.io/nodegroup": "nb"}),
            (rules.CAPI_HELM, {"capi.stackhpc.com/node-group": "nb"}),
        ],
    )
    def test_only_the_drivers_labels_reach_nodes(self, driver: str, labels: dict[str, str]) -> None:
        asked = {"nvidia_gpu_enabled": "true", "kubelet_options": "--node-labels=x=y"}
        marks = node_marks(driver, "nb", "worker", asked)
        assert marks.labels == ({**labels, "x": "y"} if driver == rules.HEAT else labels)

    def test_heat_passes_the_kubelets_options_on(self) -> None:
        options = "--register-with-taints=node-role.kubernetes.io/gpu=true:NoSchedule,b:NoExecute --node-labels=x=y,z="
        marks = node_marks(rules.HEAT, "nb", "worker", {"kubelet_options": options})
        assert [taint["effect"] for taint in marks.taints] == ["NoSchedule", "NoExecute"]
        assert marks.labels["x"] == "y"
        assert marks.labels["z"] == ""
        assert marks.joins

    @pytest.mark.parametrize("options", ["--register-with-taints=a=b:Never", "--node-labels=kubernetes.io/x=y"])
    def test_a_kubelet_that_does_not_start_does_not_join(self, cloud: MagnumCloud, fake: FakeHost, options: str) -> None:
        assert new_group(cloud, new_cluster(cloud), labels={"kubelet_options": options}).status == "CREATE_COMPLETE"
        assert fake.named("gpu-nb").count == 0

    def test_driver_names(self, make: Callable[..., MagnumCloud]) -> None:
        with pytest.raises(ValueError, match="none of heat, magnum-cluster-api, capi-helm"):
            make(driver="swarm")
        strict = make(driver=rules.CLUSTER_API)
        with pytest.raises(MagnumError, match="Node group name My_Pool is not valid"):
            new_group(strict, new_cluster(strict), "My_Pool")


class TestKills:
    def test_what_was_under_way_is_gone_after_a_restart(self, cloud: MagnumCloud, make: Any, fake: FakeHost) -> None:
        cluster = new_cluster(cloud)
        kept, lost = new_group(cloud, cluster).id, new_group(cloud, cluster, "other").id
        with cloud._records.change() as data:
            data["groups"][lost]["status"] = "CREATE_IN_PROGRESS"
        again = make()
        again.recover()
        assert again.group(lost) is None
        assert again.group(kept) is not None
        assert fake.booted == ["gpu", "gpu"]

    def test_what_no_stack_knows_can_be_removed(self, cloud: MagnumCloud) -> None:
        cluster = new_cluster(cloud)
        group = new_group(cloud, cluster).id
        template = cloud.find_template("gpu")[0]
        assert cloud.made() == {template, cluster, group}
        cloud.remove_unknown([cluster, template, group])
        assert cloud.group(group) is not None
        cloud.remove_unknown([cluster, template])
        assert cloud.made() == {template, cluster}
        cloud.remove_unknown([])
        assert cloud.made() == set()

    def test_a_failed_group_is_removed_though_it_is_known(self, cloud: MagnumCloud) -> None:
        cluster, template = new_cluster(cloud), cloud.find_template("gpu")[0]
        failed = cloud.create_group(cluster, {"name": "one", "imageId": "no-such-image"})
        assert failed.status == "CREATE_FAILED"
        assert cloud.made() == {template, cluster}
        cloud.remove_unknown([cluster, template, failed.id])
        assert cloud.group(failed.id) is None
        assert cloud.cluster(cluster) is not None


TEMPLATE_TYPE = "openstack:containerinfra/clusterTemplate:ClusterTemplate"
CLUSTER_TYPE = "openstack:containerinfra/cluster:Cluster"
GROUP_TYPE = "openstack:containerinfra/nodeGroup:NodeGroup"


@pytest.fixture
def plugin(cloud: MagnumCloud) -> OpenStackStandIn:
    return OpenStackStandIn(cloud, environment={})


class TestPlugin:
    """What the openstack plugin does on its own side."""

    def test_it_wants_an_address(self, cloud: MagnumCloud, plugin: OpenStackStandIn) -> None:
        with pytest.raises(ServiceError, match="One of 'auth_url' or 'cloud' must be specified"):
            plugin.configure({}, {})
        plugin.configure({"openstack:config:authUrl": "https://keystone.invalid"}, {})
        plugin.configure({}, {"cloud": "dev"})
        OpenStackStandIn(cloud, environment={"OS_AUTH_URL": "x"}).configure({}, {})

    def test_check(self, plugin: OpenStackStandIn) -> None:
        with plugin.answering(Request(name="nb", random_seed=b"\xab\xcd\xef\x01")):
            inputs, failures = plugin.check(GROUP_TYPE, {}, {})
        assert inputs["name"] == "nb-abcdef0"
        assert failures[0][0] == "clusterId"
        assert 'The argument "cluster_id" is required' in failures[0][1]

    @pytest.mark.parametrize(
        ("type_", "old", "new", "replaces"),
        [
            (GROUP_TYPE, {"nodeCount": 1}, {"nodeCount": 2}, []),
            (GROUP_TYPE, {"minNodeCount": 1}, {"minNodeCount": 2}, []),
            (GROUP_TYPE, {"labels": {"a": "b"}}, {"labels": {"a": "c"}}, ["labels"]),
            (GROUP_TYPE, {"flavorId": "a"}, {"flavorId": "b"}, ["flavorId"]),
            (CLUSTER_TYPE, {"nodeCount": 1}, {"nodeCount": 2}, []),
            (CLUSTER_TYPE, {"clusterTemplateId": "a"}, {"clusterTemplateId": "b"}, []),
            (CLUSTER_TYPE, {"labels": {}}, {"labels": {"a": "b"}}, ["labels"]),
            (CLUSTER_TYPE, {"masterCount": 1}, {"masterCount": 3}, ["masterCount"]),
            (TEMPLATE_TYPE, {"labels": {}}, {"labels": {"a": "b"}}, []),
        ],
    )
    def test_replacements(self, plugin: OpenStackStandIn, type_: str, old: Any, new: Any, replaces: list[str]) -> None:
        diff = plugin.diff(type_, "id", old, old, new)
        assert diff.changes
        assert diff.replaces == replaces
        assert diff.delete_before_replace is bool(replaces)

    def test_a_refusal_comes_in_the_plugins_frame(self, plugin: OpenStackStandIn) -> None:
        with pytest.raises(ServiceError) as refusal:
            plugin.create(TEMPLATE_TYPE, "t", {**TEMPLATE, "image": "none"}, 0, preview=False)
        text = str(refusal.value)
        assert text.startswith("Error creating openstack_containerinfra_clustertemplate_v1: Expected HTTP response code")
        assert "but got 400 instead" in text
        assert "Image none could not be found." in text

    def test_a_cluster_shows_a_secret_kubeconfig(self, plugin: OpenStackStandIn, cloud: MagnumCloud) -> None:
        template = cloud.create_template(TEMPLATE)
        inputs = {"name": "gpu", "clusterTemplateId": template}
        _, outputs = plugin.create(CLUSTER_TYPE, "c", inputs, 0, preview=False)
        assert isinstance(outputs["kubeconfig"], Secret)
        assert outputs["kubeconfig"].value["raw_config"] == "name: gpu"
        assert set(outputs["kubeconfig"].value) == {
            *("raw_config", "host", "cluster_ca_certificate", "client_certificate", "client_key")
        }

    def test_a_failed_group_is_kept_with_the_plugins_sentence(self, plugin: OpenStackStandIn, cloud: MagnumCloud) -> None:
        inputs = {"clusterId": new_cluster(cloud), "name": "nb", "flavorId": "g2.5xlarge", "imageId": "none"}
        with pytest.raises(PartialFailure) as failure:
            plugin.create(GROUP_TYPE, "nb", inputs, 0, preview=False)
        assert failure.value.resource_id.startswith(f"{inputs['clusterId']}/")
        assert failure.value.reasons[0].endswith(
            "to become ready: unexpected state 'CREATE_FAILED', wanted target 'CREATE_COMPLETE'. last error: %!s(<nil>)"
        )

    def test_a_refused_update_is_kept_until_a_refresh(self, plugin: OpenStackStandIn, cloud: MagnumCloud) -> None:
        inputs = {"clusterId": new_cluster(cloud), "name": "nb", "flavorId": "g2.5xlarge", "maxNodeCount": 3}
        id_, outputs = plugin.create(GROUP_TYPE, "nb", inputs, 0, preview=False)
        wanted = {**inputs, "nodeCount": 9}
        with pytest.raises(PartialFailure, match="outside the allowed range") as failure:
            plugin.update(GROUP_TYPE, id_, inputs, outputs, wanted, preview=False)
        state = failure.value.outputs
        assert not plugin.diff(GROUP_TYPE, id_, inputs, state, wanted).changes
        plugin.update(GROUP_TYPE, id_, inputs, state, wanted, preview=False)
        found = plugin.read(GROUP_TYPE, id_, wanted, state)
        assert found is not None
        assert found[1]["nodeCount"] == 1

    def test_merged_labels_do_not_show_as_drift(self, plugin: OpenStackStandIn, cloud: MagnumCloud) -> None:
        cluster = new_cluster(cloud, labels={"kube_tag": "v1"})
        inputs = {"clusterId": cluster, "name": "nb", "flavorId": "g2.5xlarge", "labels": {"a": "b"}, "mergeLabels": True}
        id_, outputs = plugin.create(GROUP_TYPE, "nb", inputs, 0, preview=False)
        found = plugin.read(GROUP_TYPE, id_, inputs, outputs)
        assert found is not None
        assert found[1] == inputs

    def test_preview_and_lookup(self, plugin: OpenStackStandIn, cloud: MagnumCloud) -> None:
        assert plugin.create(GROUP_TYPE, "nb", {"clusterId": UNKNOWN, "name": "nb"}, 0, preview=True) == ("", {"name": "nb"})
        token = "openstack:containerinfra/getClusterTemplate:getClusterTemplate"  # noqa: S105
        assert plugin.invoke(token, {"name": "given"})[0]["image"] == "fcos-40"
        with pytest.raises(ServiceError, match="ClusterTemplate x could not be found"):
            plugin.invoke(token, {"name": "x"})
        assert cloud.group("x/y") is None
