"""A real Keystone and a real Magnum on loopback, asked by the real client: clusters and node groups come, change and go."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import socket
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster import control_plane as clusters
from sandbox.cluster.api import Api
from sandbox.openstack import environment, identity, magnum_api, service
from sandbox.openstack.disturbances import Disturbances
from sandbox.openstack.identity import USER, Passwords
from sandbox.openstack.login import DOMAIN
from sandbox.openstack.magnum_api import MagnumApi, MagnumError
from sandbox.providers.base import PartialFailure, ServiceError
from sandbox.providers.openstack import OpenStackStandIn
from sandbox.providers.values import Secret
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json, write_json
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CPU = {"vcpus": 4, "ramMiB": 8192, "gpuModel": None, "gpuProduct": None, "gpus": 0}
GPU = {"vcpus": 16, "ramMiB": 131072, "gpuModel": "a100-40gb", "gpuProduct": "NVIDIA A100-PCIE-40GB", "gpus": 1}
#: A stack may name a template by its UUID, too.
GIVEN_UUID = "5f1c2a3e-9c1b-4a57-8f27-3d8e4b6a7c10"
SEED = {
    "flavors": {"m2.large": CPU, "g2.5xlarge": GPU},
    "images": ["fcos-40", {"name": "bare", "osDistro": ""}],
    "keypairs": ["admin"],
    "networks": ["public"],
    "templates": {
        name: {"image": "fcos-40", "flavor": "m2.large", "masterFlavor": "m2.large", "masterLbEnabled": True}
        for name in ("given", GIVEN_UUID)
    },
}
TEMPLATE = {
    "coe": "kubernetes",
    "image_id": "fcos-40",
    "external_network_id": "public",
    "flavor_id": "m2.large",
    "master_flavor_id": "m2.large",
}
CLIENT = Path(__file__).with_name("magnum_client.py")
PATIENCE = 180.0
TEMPLATE_TYPE = "openstack:containerinfra/clusterTemplate:ClusterTemplate"
GROUP_TYPE = "openstack:containerinfra/nodeGroup:NodeGroup"
CLUSTER_TYPE = "openstack:containerinfra/cluster:Cluster"

pytestmark = pytest.mark.programs


@dataclass(frozen=True)
class Cloud:
    base: Path

    @property
    def openstack(self) -> service.OpenStack:
        return service.load(self.base / "openstack")

    def calls(self, *calls: tuple[str, str, list[Any], dict[str, Any]]) -> list[Any]:
        command = [str(environment.find(Progress())), str(CLIENT)]
        env = {**os.environ, **self.openstack.login(), "PYTHONWARNINGS": "ignore"}
        return list(json.loads(ended_well(command, env, json.dumps(calls))))

    def call(self, manager: str, method: str, *positional: Any, **keywords: Any) -> Any:
        return self.calls((manager, method, list(positional), keywords))[0]

    def client(self, *arguments: str, login: Mapping[str, str] | None = None) -> str:
        """What `make openstack` runs, and what it says."""
        command, env = service.client(self.base / "openstack", arguments, Progress())
        return ended_well(command, {**env, **(login or {})})

    def disturb(self, **what: Any) -> None:
        service.disturb(self.openstack.folder, Disturbances(**what))

    def status(self, manager: str, *names: str) -> str:
        """The status; "gone" when there is none. Asked for without the client, which takes a second to start."""
        paths = {"clusters": "clusters/{}", "nodegroups": "clusters/{}/nodegroups/{}"}
        found = MagnumApi(self.openstack.login())._find(paths[manager].format(*names))
        return "gone" if found is None else str(found["status"])

    def await_status(self, wanted: str, manager: str, *names: str) -> None:
        what = f"{manager} {names} is {wanted}"
        processes.wait_until(lambda: self.status(manager, *names) == wanted, timeout=PATIENCE, what=what)

    def cluster_folder(self, name: str) -> Path:
        (folder,) = (self.base / "clusters").glob(f"{name}-*")
        return folder


def ended_well(command: list[str], env: Mapping[str, str], given: str = "") -> str:
    done = subprocess.run(command, input=given, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(base: Path) -> None:
    seed = base / "seed.json"
    write_json(seed, SEED)
    service.start(base / "openstack", seed=seed, clusters=base / "clusters", driver="heat", progress=Progress())


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    base = tmp_path_factory.mktemp("cloud")
    try:
        start(base)
        yield Cloud(base)
    finally:
        service.stop(base / "openstack")
        for folder in (base / "clusters").glob("*"):
            clusters.erase(folder)


@pytest.fixture(scope="module")
def template(cloud: Cloud) -> Iterator[str]:
    uuid = cloud.call("cluster_templates", "create", name="gpu", **TEMPLATE)["uuid"]
    yield uuid
    assert cloud.call("cluster_templates", "delete", uuid) is None


@pytest.fixture(scope="module")
def cluster(cloud: Cloud, template: str) -> Iterator[str]:
    asked = {"cluster_template_id": template, "keypair": "admin", "node_count": 1, "master_count": 1}
    uuid = cloud.call("clusters", "create", name="one", **asked)["uuid"]
    cloud.await_status("CREATE_COMPLETE", "clusters", uuid)
    yield uuid
    folder = cloud.cluster_folder("one")
    assert cloud.call("clusters", "delete", uuid) is None
    cloud.await_status("gone", "clusters", uuid)
    assert not folder.exists()


def nodes(cloud: Cloud, group: str) -> list[dict[str, Any]]:
    selector = f"magnum.openstack.org%2Fnodegroup%3D{group}"
    api = Api.at(cloud.cluster_folder("one") / "kubeconfig")
    return list(api.list(f"/api/v1/nodes?labelSelector={selector}")["items"])


def await_nodes(cloud: Cloud, group: str, count: int) -> None:
    what = f"{group} has {count} nodes"
    processes.wait_until(lambda: len(nodes(cloud, group)) == count, timeout=PATIENCE, what=what)


def test_only_loopback_listens_and_no_command_line_has_a_password(cloud: Cloud) -> None:
    running = processes.running(cloud.openstack.folder)
    passwords = [*read_json(cloud.openstack.folder / "passwords.json").values(), cloud.openstack.credential.secret]
    assert set(running) == {"keystone", "magnum", "catalogue"}
    for process in running.values():
        line = Path(f"/proc/{process.pid}/cmdline").read_text()
        log = (cloud.openstack.folder / "logs" / f"{process.name}.log").read_text()
        assert not [password for password in passwords if password in line or password in log]
    ports = {f"{port:04X}" for port in read_json(cloud.openstack.folder / "openstack.json")["ports"].values()}
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    listening = {row[1] for row in rows if row[3] == "0A" and row[1].rpartition(":")[2] in ports}
    assert listening == {f"0100007F:{port}" for port in ports}


@pytest.mark.sweep
def test_a_cluster_of_a_template_without_a_flavor_for_masters_is_refused(cloud: Cloud) -> None:
    """So the template that a stack only names has one here (sandbox/stack/prerequisites.py)."""
    headless = {key: value for key, value in TEMPLATE.items() if key != "master_flavor_id"}
    template = cloud.call("cluster_templates", "create", name="headless", **headless)["uuid"]
    answer = cloud.call("clusters", "create", name="x", cluster_template_id=template, keypair="admin", node_count=1)
    assert "Unable to find flavor None" in str(answer["error"])
    cloud.call("cluster_templates", "delete", template)


def test_what_is_filled_again_is_kept_and_an_address_that_has_changed_is_corrected(cloud: Cloud) -> None:
    def images() -> set[str]:
        (service_,) = [one for one in MagnumApi(login).authenticate().service_catalog.catalog if one["type"] == "image"]
        return {endpoint["url"] for endpoint in service_["endpoints"]}

    url, login = cloud.openstack.keystone_url, cloud.openstack.login()
    passwords = Passwords(**read_json(cloud.openstack.folder / "passwords.json"))
    (before,) = images()
    for address in ("http://127.0.0.1:9/image", before):
        identity.fill(url, passwords, {"image": ("glance", address)})
        assert images() == {address}
    assert identity.application_credential(url, passwords.user, cloud.openstack.credential) == cloud.openstack.credential
    with pytest.raises(SandboxError, match=r"Keystone did not accept .*\(HTTP 401\)") as refused:
        identity.application_credential(url, "a-wrong-password", None)
    assert "a-wrong-password" not in str(refused.value)


def test_a_member_makes_no_public_template(cloud: Cloud) -> None:
    answer = cloud.call("cluster_templates", "create", name="bad", **{**TEMPLATE, "public": True})
    assert answer["error"][0] == 403


def test_magnums_certificates_open_the_cluster(
    cloud: Cloud, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client fails without it, and a pipeline has none.
    monkeypatch.delenv("SHELL", raising=False)
    cloud.client("coe", "cluster", "config", cluster, "--dir", str(tmp_path), "--force")
    spaces = Api.at(tmp_path / "config").list("/api/v1/namespaces")["items"]
    assert "kube-system" in {space["metadata"]["name"] for space in spaces}


@pytest.mark.sweep
def test_a_node_group_joins_is_resized_and_goes(cloud: Cloud, cluster: str) -> None:
    asked = {"name": "gpus", "flavor_id": "g2.5xlarge", "node_count": 1, "max_node_count": 3}
    assert "error" not in cloud.call("nodegroups", "create", cluster, **asked)
    cloud.await_status("CREATE_COMPLETE", "nodegroups", cluster, "gpus")
    await_nodes(cloud, "gpus", 1)

    shown = cloud.client("coe", "nodegroup", "list", cluster, "-f", "json")
    assert {one["name"] for one in json.loads(shown)} == {"default-master", "default-worker", "gpus"}

    resize = [("clusters", "resize", [cluster, count], {"nodegroup": "gpus"}) for count in (2, 4)]
    resized, refused = cloud.calls(*resize)
    assert resized is None or "error" not in resized
    assert refused["error"][0] == 400
    await_nodes(cloud, "gpus", 2)

    cloud.call("nodegroups", "delete", cluster, "gpus")
    cloud.await_status("gone", "nodegroups", cluster, "gpus")
    await_nodes(cloud, "gpus", 0)


@pytest.mark.sweep
def test_a_group_can_be_made_to_fail_and_to_be_lost(cloud: Cloud, cluster: str) -> None:
    cloud.disturb(seconds=0, fail=("broken",), lose=("lost",))
    try:
        # One after the other: this driver does one thing at a time.
        for name, status in (("broken", "CREATE_FAILED"), ("lost", "gone")):
            assert "error" not in cloud.call("nodegroups", "create", cluster, name=name, flavor_id="g2.5xlarge")
            cloud.await_status(status, "nodegroups", cluster, name)
        cloud.await_status("UPDATE_FAILED", "clusters", cluster)
        assert not nodes(cloud, "broken")
        assert not nodes(cloud, "lost")
        cloud.call("nodegroups", "delete", cluster, "broken")
        cloud.await_status("gone", "nodegroups", cluster, "broken")
        cloud.await_status("UPDATE_COMPLETE", "clusters", cluster)
    finally:
        cloud.disturb(seconds=0)


@pytest.mark.sweep
def test_what_was_made_outlives_a_stop_and_what_was_being_made_is_finished(cloud: Cloud, cluster: str) -> None:
    cloud.disturb(seconds=2)
    assert "error" not in cloud.call("nodegroups", "create", cluster, name="late", flavor_id="m2.large")
    processes.wait_until(
        lambda: cloud.status("nodegroups", cluster, "late") != "gone", timeout=PATIENCE, what="the group is noted"
    )
    service.stop(cloud.openstack.folder)
    assert not processes.running(cloud.openstack.folder)

    before = cloud.openstack.magnum_url
    with socket.socket() as taken:
        # Who comes back finds the way by Keystone's catalogue.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(before.rpartition(":")[2].partition("/")[0])))
        taken.listen()
        start(cloud.base)
    assert cloud.openstack.magnum_url != before
    cloud.await_status("CREATE_COMPLETE", "nodegroups", cluster, "late")
    cloud.await_status("UPDATE_COMPLETE", "clusters", cluster)
    await_nodes(cloud, "late", 1)


def user(cloud: Cloud) -> dict[str, str]:
    """The login of the user himself, with his password."""
    password = read_json(cloud.openstack.folder / "passwords.json")["user"]
    own = {"OS_USERNAME": USER, "OS_PASSWORD": password, "OS_PROJECT_NAME": USER}
    domains = {"OS_USER_DOMAIN_ID": DOMAIN, "OS_PROJECT_DOMAIN_ID": DOMAIN}
    return {"OS_AUTH_URL": cloud.openstack.keystone_url, **own, **domains}


def credential(cloud: Cloud, name: str, **what: Any) -> dict[str, str]:
    """The login of a new application credential."""
    login = user(cloud)
    own = MagnumApi(login).client
    url = f"{login['OS_AUTH_URL']}/users/{own.get_user_id()}/application_credentials"
    made = own.post(url, json={"application_credential": {"name": name, **what}}).json()["application_credential"]
    return {
        "OS_AUTH_URL": cloud.openstack.keystone_url,
        "OS_APPLICATION_CREDENTIAL_ID": made["id"],
        "OS_APPLICATION_CREDENTIAL_SECRET": made["secret"],
    }


@pytest.fixture
def plugin(cloud: Cloud) -> OpenStackStandIn:
    return OpenStackStandIn(MagnumApi(cloud.openstack.login()), {})


class TestPluginOverTheRealApi:
    def test_a_template_is_made_read_looked_up_changed_and_deleted(self, plugin: OpenStackStandIn) -> None:
        inputs = {
            "name": "plugin",
            "coe": "kubernetes",
            "image": "fcos-40",
            "flavor": "m2.large",
            "masterFlavor": "m2.large",
            "externalNetworkId": "public",
            "labels": {"kube_tag": "v1"},
            "dockerVolumeSize": 20,
            "keypairId": "admin",
        }
        id_, outputs = plugin.create(TEMPLATE_TYPE, "t", inputs, 0, preview=False)
        found = plugin.read(TEMPLATE_TYPE, id_, inputs, outputs)
        assert found is not None
        assert found[1] == inputs
        looked_up = plugin.invoke("openstack:containerinfra/getClusterTemplate:getClusterTemplate", {"name": "plugin"})[0]
        assert looked_up["id"] == id_
        wanted = {**inputs, "image": "bare-not"}
        with pytest.raises(PartialFailure, match="Image bare-not could not be found"):
            plugin.update(TEMPLATE_TYPE, id_, inputs, outputs, wanted, preview=False)
        assert plugin.update(TEMPLATE_TYPE, id_, inputs, outputs, {**inputs, "name": "other"}, preview=False)["name"] == "other"
        plugin.delete(TEMPLATE_TYPE, id_, inputs, outputs)
        assert plugin.read(TEMPLATE_TYPE, id_, inputs, outputs) is None

    def test_the_operators_template_is_found_and_is_not_the_projects(self, plugin: OpenStackStandIn, cloud: Cloud) -> None:
        found = plugin.invoke("openstack:containerinfra/getClusterTemplate:getClusterTemplate", {"name": "given"})[0]
        assert (found["public"], found["image"]) == (True, "fcos-40")
        assert cloud.call("cluster_templates", "delete", found["id"])["error"][0] == 403
        by_uuid = plugin.invoke("openstack:containerinfra/getClusterTemplate:getClusterTemplate", {"name": GIVEN_UUID})[0]
        assert (by_uuid["id"], by_uuid["public"]) == (GIVEN_UUID, True)
        with pytest.raises(ServiceError, match="ClusterTemplate none could not be found"):
            plugin.invoke("openstack:containerinfra/getClusterTemplate:getClusterTemplate", {"name": "none"})

    def test_a_token_that_is_not_valid_any_more_is_renewed(self, cloud: Cloud, template: str) -> None:
        api = MagnumApi(cloud.openstack.login())
        assert api.template(template) is not None
        api.tokens.auth_ref._auth_token = "expired"  # noqa: S105
        assert api.template(template) is not None
        assert api.client.get_token() != "expired"

    @pytest.mark.sweep
    def test_a_token_that_expires_while_a_group_is_made_is_renewed(self, cloud: Cloud, cluster: str) -> None:
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=3)
        short = MagnumApi(credential(cloud, "short", expires_at=f"{ends:%Y-%m-%dT%H:%M:%S}.000000"))
        api = MagnumApi(cloud.openstack.login())
        assert api.everything()
        # Keystone lets no token outlive the credential that it was given for; the client would renew one of which it knows that.
        first = api.tokens.auth_ref._auth_token = short.client.get_token()
        cloud.disturb(seconds=5)
        try:
            assert api.create_group(cluster, {"name": "long", "flavorId": "m2.large"}).status == "CREATE_COMPLETE"
        finally:
            cloud.disturb(seconds=0)
        assert api.client.get_token() != first
        assert api.delete_group(f"{cluster}/{api._call('GET', f'clusters/{cluster}/nodegroups/long')['uuid']}")
        with pytest.raises(MagnumError) as refused:
            short.template("any")
        assert refused.value.status == 401

    def test_a_credential_that_may_only_read_is_enough_for_previews(self, cloud: Cloud, template: str) -> None:
        """As docs/real-clouds.md says to make one; what stacks log in with is a credential of a member."""
        create = ("application", "credential", "create", "previews", "--role", "reader", "-f", "json")
        shown = cloud.client(*create, login={**user(cloud), "OS_AUTH_TYPE": "password"})
        made = {key.lower(): value for key, value in json.loads(shown).items()}
        reader = {"OS_APPLICATION_CREDENTIAL_ID": made["id"], "OS_APPLICATION_CREDENTIAL_SECRET": made["secret"]}
        api = MagnumApi({**cloud.openstack.login(), **reader})
        assert template in api.everything()
        assert api._call("GET", f"quotas/{api.client.get_project_id()}/Cluster")["hard_limit"] > 0
        with pytest.raises(MagnumError) as refused:
            api.create_template({"name": "by-reader", "coe": "kubernetes", "image": "fcos-40"})
        assert refused.value.status == 403

    def test_the_heat_driver_refuses_another_template(self, cloud: Cloud, cluster: str) -> None:
        api = MagnumApi(cloud.openstack.login())
        with pytest.raises(MagnumError, match=r"uses the Magnum Heat driver is not supported") as refused:
            api.update_cluster(cluster, template_id=api.find_template("given")[0])
        assert refused.value.status == 400

    def test_a_cluster_is_read_and_its_kubeconfig_works(self, plugin: OpenStackStandIn, cluster: str, tmp_path: Path) -> None:
        found = plugin.read(CLUSTER_TYPE, cluster, {"name": "one", "nodeCount": 1, "keypair": "admin"}, {})
        assert found is not None
        assert found[1] == {"name": "one", "nodeCount": 1, "keypair": "admin"}
        access = found[2]["kubeconfig"]
        assert isinstance(access, Secret)
        path = tmp_path / "config"
        path.write_text(access.value["raw_config"])
        assert Api.at(path).list("/api/v1/nodes")["items"]
        again = plugin.read(CLUSTER_TYPE, cluster, found[1], {**found[2], "kubeconfig": access.value})
        assert again is not None
        assert again[2]["kubeconfig"] == access

    def test_a_group_is_made_resized_limited_and_deleted(self, plugin: OpenStackStandIn, cloud: Cloud, cluster: str) -> None:
        cloud.disturb(seconds=0)
        inputs = {"clusterId": cluster, "name": "nb", "flavorId": "m2.large", "nodeCount": 1, "maxNodeCount": 3}
        id_, outputs = plugin.create(GROUP_TYPE, "nb", inputs, 0, preview=False)
        found = plugin.read(GROUP_TYPE, id_, inputs, outputs)
        assert found is not None
        assert found[1] == inputs
        more = {**inputs, "nodeCount": 2, "maxNodeCount": 2}
        changed = plugin.update(GROUP_TYPE, id_, inputs, outputs, more, preview=False)
        assert (changed["nodeCount"], changed["maxNodeCount"]) == (2, 2)
        with pytest.raises(PartialFailure, match="outside the allowed range"):
            plugin.update(GROUP_TYPE, id_, more, changed, {**more, "nodeCount": 9}, preview=False)
        plugin.delete(GROUP_TYPE, id_, more, changed)
        assert plugin.read(GROUP_TYPE, id_, more, changed) is None

    def test_a_group_that_fails_is_kept_with_the_plugins_sentence(
        self, plugin: OpenStackStandIn, cloud: Cloud, cluster: str
    ) -> None:
        cloud.disturb(seconds=0, fail=("broken",))
        try:
            inputs = {"clusterId": cluster, "name": "broken", "flavorId": "m2.large"}
            with pytest.raises(PartialFailure) as failure:
                plugin.create(GROUP_TYPE, "broken", inputs, 0, preview=False)
            assert failure.value.reasons[0].endswith("is in an error state: It was switched on that this fails.")
            plugin.delete(GROUP_TYPE, failure.value.resource_id, inputs, {})
        finally:
            cloud.disturb(seconds=0)

    @pytest.mark.sweep
    def test_a_resize_that_fails_is_an_error_and_is_kept_in_the_state(
        self, plugin: OpenStackStandIn, cloud: Cloud, cluster: str
    ) -> None:
        inputs = {"clusterId": cluster, "name": "stuck", "flavorId": "m2.large", "nodeCount": 1}
        cloud.disturb(seconds=0)
        id_, outputs = plugin.create(GROUP_TYPE, "stuck", inputs, 0, preview=False)
        cloud.disturb(seconds=0, fail=("stuck",))
        try:
            with pytest.raises(PartialFailure, match=r"to become updated: .* is in an error state: It was switched on"):
                plugin.update(GROUP_TYPE, id_, inputs, outputs, {**inputs, "nodeCount": 2}, preview=False)
        finally:
            cloud.disturb(seconds=0)
        plugin.delete(GROUP_TYPE, id_, inputs, outputs)

    @pytest.mark.sweep
    def test_a_pool_that_was_autoscaled_can_have_fewer_nodes_than_its_lower_limit_was(
        self, plugin: OpenStackStandIn, cloud: Cloud, cluster: str
    ) -> None:
        """The plugin keeps a limit that is given no more, and Magnum refuses numbers beyond it."""
        cloud.disturb(seconds=0)
        base = {"clusterId": cluster, "name": "was", "flavorId": "m2.large"}
        inputs = {**base, "nodeCount": 2, "minNodeCount": 2, "maxNodeCount": 3}
        id_, outputs = plugin.create(GROUP_TYPE, "was", inputs, 0, preview=False)
        with pytest.raises(PartialFailure, match="outside the allowed range"):
            plugin.update(GROUP_TYPE, id_, inputs, outputs, {**base, "nodeCount": 1}, preview=False)
        found = plugin.read(GROUP_TYPE, id_, inputs, outputs)
        assert found is not None
        fixed = {**base, "nodeCount": 1, "minNodeCount": 0}
        changed = plugin.update(GROUP_TYPE, id_, found[1], found[2], fixed, preview=False)
        assert (changed["nodeCount"], changed["minNodeCount"]) == (1, 0)
        plugin.delete(GROUP_TYPE, id_, fixed, changed)


WANTED: dict[str, dict[str, Any]] = {
    TEMPLATE_TYPE: {"name": "bad", "coe": "kubernetes", "image": "fcos-40", "flavor": "m2.large", "externalNetworkId": "public"},
    CLUSTER_TYPE: {"name": "bad", "clusterTemplateId": "gpu", "keypair": "admin", "masterCount": 1, "nodeCount": 1},
    GROUP_TYPE: {"name": "bad", "flavorId": "g2.5xlarge", "nodeCount": 1},
}


class TestRefusals:
    """What only the cloud knows (tests/unit/test_magnum_refusals.py has the rest): `up` fails with Magnum's own words.

    By the engine: tests/engine/test_magnum.py.
    """

    @pytest.mark.parametrize(
        ("type_", "changed", "status", "text"),
        [
            (TEMPLATE_TYPE, {"image": "none"}, 400, "Image none could not be found"),
            (TEMPLATE_TYPE, {"image": "bare"}, 400, "os_distro"),
            (TEMPLATE_TYPE, {"flavor": "none"}, 400, "Unable to find flavor none"),
            (TEMPLATE_TYPE, {"masterFlavor": "none"}, 400, "Unable to find flavor none"),
            (TEMPLATE_TYPE, {"externalNetworkId": "none"}, 400, "Unable to find external network none"),
            (CLUSTER_TYPE, {"keypair": "none"}, 404, "Unable to find keypair none"),
            (CLUSTER_TYPE, {"clusterTemplateId": "none"}, 404, "ClusterTemplate none could not be found"),
            (CLUSTER_TYPE, {"flavor": "none"}, 400, "Unable to find flavor none"),
            (CLUSTER_TYPE, {"masterCount": 3}, 400, "master_count must be 1 when master_lb_enabled is False"),
            (GROUP_TYPE, {"flavorId": "none"}, 400, "Unable to find flavor none"),
            (GROUP_TYPE, {"name": "default-worker"}, 409, "default-worker already exists in the cluster"),
            (GROUP_TYPE, {"nodeCount": 3, "maxNodeCount": 2}, 409, "max_node_count for bad is invalid"),
        ],
    )
    def test_a_creation(
        self, plugin: OpenStackStandIn, cluster: str, type_: str, changed: dict[str, Any], status: int, text: str
    ) -> None:
        inputs = {**WANTED[type_], **({"clusterId": cluster} if type_ == GROUP_TYPE else {}), **changed}
        with pytest.raises(ServiceError) as refused:
            plugin.create(type_, "bad", inputs, 0, preview=False)
        assert f"but got {status} instead: " in str(refused.value)
        assert text in str(refused.value)

    def test_a_template_of_a_name_that_two_have(self, plugin: OpenStackStandIn, cloud: Cloud) -> None:
        api = MagnumApi(cloud.openstack.login())
        made = [api.create_template({**WANTED[TEMPLATE_TYPE], "name": "twins"}) for _ in range(2)]
        with pytest.raises(ServiceError, match=r"but got 409 instead: .*Multiple ClusterTemplates exist with same name"):
            plugin.invoke("openstack:containerinfra/getClusterTemplate:getClusterTemplate", {"name": "twins"})
        for id_ in made:
            api.delete_template(id_)

    def test_a_template_in_use_is_neither_changed_nor_deleted(
        self, plugin: OpenStackStandIn, cluster: str, template: str
    ) -> None:
        assert cluster
        inputs = {"name": "gpu", "coe": "kubernetes", "image": "fcos-40", "flavor": "m2.large"}
        with pytest.raises(PartialFailure, match="is referenced by one or multiple clusters"):
            plugin.update(TEMPLATE_TYPE, template, inputs, inputs, {**inputs, "dockerVolumeSize": 20}, preview=False)
        with pytest.raises(ServiceError, match="is referenced by one or multiple clusters"):
            plugin.delete(TEMPLATE_TYPE, template, inputs, inputs)

    def test_a_wrong_password(self, cloud: Cloud) -> None:
        stranger = OpenStackStandIn(MagnumApi({**user(cloud), "OS_PASSWORD": "none"}), {})
        with pytest.raises(ServiceError, match=r"but got 401 instead: .*requires authentication"):
            stranger.create(TEMPLATE_TYPE, "t", WANTED[TEMPLATE_TYPE], 0, preview=False)

    def test_an_image_that_magnum_does_not_ask_after(self, plugin: OpenStackStandIn, cluster: str) -> None:
        """It accepts the group; whoever makes the machines finds out."""
        inputs = {**WANTED[GROUP_TYPE], "clusterId": cluster, "imageId": "none"}
        with pytest.raises(PartialFailure, match="is in an error state: Image none could not be found") as failure:
            plugin.create(GROUP_TYPE, "bad", inputs, 0, preview=False)
        plugin.delete(GROUP_TYPE, failure.value.resource_id, inputs, {})

    @pytest.mark.sweep
    def test_a_row_that_comes_after_the_plugins_look_is_found_by_the_next_run(
        self, plugin: OpenStackStandIn, cloud: Cloud, cluster: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Magnum answers 202 before its conductor has written anything; here the database keeps the conductor waiting."""
        monkeypatch.setattr(magnum_api, "_APPEARS_SECONDS", 0.3)
        inputs = {**WANTED[GROUP_TYPE], "clusterId": cluster, "name": "late-row"}
        with contextlib.closing(sqlite3.connect(cloud.openstack.folder / "magnum.sqlite", isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            with pytest.raises(PartialFailure, match="unexpected state 'DELETE_COMPLETE'") as failure:
                plugin.create(GROUP_TYPE, "late", inputs, 0, preview=False)
            id_ = failure.value.resource_id
            assert plugin.read(GROUP_TYPE, id_, inputs, {}) is None
        cloud.await_status("CREATE_COMPLETE", "nodegroups", cluster, "late-row")
        found = plugin.read(GROUP_TYPE, id_, inputs, {})
        assert found is not None
        assert found[1] == inputs
        plugin.delete(GROUP_TYPE, id_, inputs, {})


@pytest.mark.sweep
def test_what_no_stack_knows_and_what_failed_is_found_and_removed(cloud: Cloud, cluster: str, template: str) -> None:
    api = MagnumApi(cloud.openstack.login())
    cloud.disturb(seconds=0, fail=("failed",))
    try:
        names = ("kept", "unknown", "failed")
        kept, unknown, failed = (api.create_group(cluster, {"name": name, "flavorId": "m2.large"}).id for name in names)
        more = api.create_template({"name": "unknown", "coe": "kubernetes", "image": "fcos-40"})
        assert {template, cluster, kept, unknown, failed, more} <= api.everything()
        assert failed not in api.made()
        known = api.everything() - {unknown, more}
        api.remove_unknown(known)
        assert api.everything() == known - {failed}
        api.scale("one", "kept", 2)
        await_nodes(cloud, "kept", 2)
    finally:
        cloud.disturb(seconds=0)
