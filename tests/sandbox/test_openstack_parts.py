"""The parts of the OpenStack that need no running one: machines of a group, answers of the catalogue, a given authority."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from sandbox.openstack import catalogue, host, marks, replicas
from sandbox.openstack.marks import node_marks
from sandbox.openstack.seed import read_seed
from sandbox.stack.names import PROJECT
from sandbox.system.errors import SandboxError
from sandbox.system.files import write_json
from sandbox.system.pki import make_pki

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = {"uuid": "119ca19c-1c47-42a2-9bfd-1ab038183b00", "name": "One", "stack_id": "0b84d309-90b0-4971-be49-d90de5fa4e99"}
GROUP: dict[str, Any] = {
    "uuid": "83a9bf40-d34d-4272-94eb-aa860c3bf22b",
    "name": "gpus",
    "role": "worker",
    "default": False,
    "node_count": 2,
    "flavor": "g2",
    "labels": {},
}


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "seed.json"
    flavor = {"vcpus": 16, "ramMiB": 131072, "gpuModel": "a100-40gb", "gpuProduct": None, "gpus": 1}
    images = ["fcos", {"name": "bare", "osDistro": ""}]
    write_json(path, {"flavors": {"g2": flavor}, "images": images, "keypairs": ["admin"], "networks": ["public"]})
    return path


def request(seed: Path, driver: str = "heat") -> host.Request:
    return {"driver": driver, "cluster": CLUSTER, "clusters": str(seed.parent), "seed": str(seed)}


@pytest.mark.parametrize(
    ("driver", "label"),
    [
        ("heat", "magnum.openstack.org/nodegroup"),
        ("magnum-cluster-api", "node.cluster.x-k8s.io/nodegroup"),
        ("capi-helm", "capi.stackhpc.com/node-group"),
    ],
)
def test_nodes_are_labelled_as_the_played_driver_labels_them(seed: Path, driver: str, label: str) -> None:
    machines = host.machines_of(request(seed, driver), GROUP)
    assert machines.labels[label] == "gpus"
    assert machines.count == 2
    assert machines.hardware.gpu_model == "a100-40gb"


@pytest.mark.parametrize(
    ("limits", "present", "count"),
    [
        # The number that was asked for, 2, is not read: a new group has its lower limit, a living one keeps its number above it.
        ({"min_node_count": 0, "max_node_count": None}, None, 0),
        ({"min_node_count": 2, "max_node_count": 2}, None, 2),
        ({"min_node_count": 2, "max_node_count": 3}, 1, 2),
        ({"min_node_count": 0, "max_node_count": 1}, 1, 1),
        ({"min_node_count": 1, "max_node_count": 1}, 3, 3),
    ],
)
def test_under_an_autoscaler_magnum_cluster_api_goes_by_limits_alone(
    seed: Path, limits: dict[str, Any], present: int | None, count: int
) -> None:
    group = {**GROUP, **limits}
    there = None if present is None else replace(host.machines_of(request(seed), GROUP), count=present)
    asked = {**request(seed, "magnum-cluster-api"), "auto_scaling_enabled": "True"}
    assert host.machines_of(asked, group, there).count == count
    for driver, label in (("magnum-cluster-api", ""), ("heat", "true"), ("capi-helm", "true")):
        assert host.machines_of({**request(seed, driver), "auto_scaling_enabled": label}, group, there).count == 2
    masters = {**group, "role": "master"}
    assert host.machines_of(asked, masters, there).count == 2


@pytest.mark.parametrize(
    ("group", "limits"),
    [
        ({"labels": {}}, (0, 1)),
        ({"min_node_count": 3, "labels": {}}, (3, 4)),
        ({"min_node_count": 3, "labels": {"max_node_count": "9"}}, (3, 9)),
        ({"min_node_count": 3, "max_node_count": 3, "labels": {"max_node_count": "9"}}, (3, 3)),
    ],
)
def test_limits_are_those_that_the_driver_writes(group: dict[str, Any], limits: tuple[int, int]) -> None:
    assert replicas.limits(group) == limits


def test_groups_of_one_name_in_two_clusters_have_nodes_of_different_names(seed: Path) -> None:
    for driver in ("heat", "magnum-cluster-api", "capi-helm"):
        one = host.machines_of(request(seed, driver), GROUP)
        other = host.machines_of(request(seed, driver), {**GROUP, "uuid": CLUSTER["uuid"]})
        assert one.node_prefix != other.node_prefix


def test_masters_carry_the_control_plane(seed: Path) -> None:
    machines = host.machines_of(request(seed), {**GROUP, "name": "default-master", "role": "master", "default": True})
    assert machines.control_plane
    assert [taint["key"] for taint in machines.taints] == ["node-role.kubernetes.io/control-plane"]


def test_a_flavor_that_is_gone_is_named(seed: Path) -> None:
    with pytest.raises(SandboxError, match=r"Flavor none could not be found\.\nThe cloud has g2\."):
        host.machines_of(request(seed), {**GROUP, "flavor": "none"})


def test_nothing_is_made_for_a_cluster_that_is_gone(seed: Path) -> None:
    assert host.handle({**request(seed), "action": "put", "groups": [GROUP]}) == {}
    assert not host.folder_of(seed.parent, CLUSTER).exists()


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        ("/image/v2/images", {}, ["fcos", "bare"]),
        ("/image/v2/images", {"name": ["bare"]}, ["bare"]),
        ("/image/v2/images", {"name": ["none"]}, []),
        ("/compute/v2.1/flavors/detail", {}, ["g2"]),
        ("/compute/v2.1/flavors/detail", {"marker": ["g2"]}, []),
        ("/network/v2.0/networks", {}, ["public"]),
        ("/network/v2.0/subnets", {}, ["public"]),
    ],
)
def test_the_catalogue_lists_the_seed(seed: Path, path: str, query: dict[str, list[str]], names: list[str]) -> None:
    status, body = catalogue.answer(read_seed(seed), path, query)
    (listed,) = body.values()
    assert status == HTTPStatus.OK
    assert [one["name"] for one in listed] == names


@pytest.mark.parametrize(
    "path", ["/", "/images", "/image/v2/images/none", "/compute/v2.1/os-keypairs/none", "/network/v2.0/ports"]
)
def test_what_the_seed_has_not_is_not_found(seed: Path, path: str) -> None:
    status, body = catalogue.answer(read_seed(seed), path, {})
    assert status == HTTPStatus.NOT_FOUND
    assert "could not be found" in body["itemNotFound"]["message"]


def test_a_key_pair_and_an_image_are_found_by_their_ids(seed: Path) -> None:
    known = read_seed(seed)
    assert catalogue.answer(known, "/compute/v2.1/os-keypairs/admin", {})[0] == HTTPStatus.OK
    images = catalogue.answer(known, "/image/v2/images", {})[1]["images"]
    assert [catalogue.answer(known, f"/image/v2/images/{image['id']}", {})[1] for image in images] == images
    assert "os_distro" not in images[1]


def test_a_clusters_certificates_are_signed_by_the_authority_that_lies_there(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "magnum")])
    now = dt.datetime.now(dt.UTC)
    authority = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (tmp_path / "ca.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))

    pki = make_pki(tmp_path, "10.96.0.1")

    assert x509.load_pem_x509_certificate(pki["ca.crt"].read_bytes()) == authority
    for stem in ("apiserver", "admin"):
        x509.load_pem_x509_certificate(pki[f"{stem}.crt"].read_bytes()).verify_directly_issued_by(authority)


@pytest.mark.parametrize(
    ("driver", "labels"),
    [
        (marks.HEAT, {"magnum.openstack.org/role": "worker", "magnum.openstack.org/nodegroup": "nb"}),
        (marks.CLUSTER_API, {"node-role.kubernetes.io/worker": "", "node.cluster.x-k8s.io/nodegroup": "nb"}),
        (marks.CAPI_HELM, {"capi.stackhpc.com/node-group": "nb"}),
    ],
)
def test_only_the_drivers_labels_reach_nodes(driver: str, labels: dict[str, str]) -> None:
    asked = {"nvidia_gpu_enabled": "true", "kubelet_options": "--node-labels=x=y"}
    put = node_marks(driver, "nb", "worker", asked)
    assert put.labels == ({**labels, "x": "y"} if driver == marks.HEAT else labels)


def test_heat_passes_the_kubelets_options_on() -> None:
    options = "--register-with-taints=node-role.kubernetes.io/gpu=true:NoSchedule,b:NoExecute --node-labels=x=y,z="
    put = node_marks(marks.HEAT, "nb", "worker", {"kubelet_options": options})
    assert [taint["effect"] for taint in put.taints] == ["NoSchedule", "NoExecute"]
    assert put.labels["x"] == "y"
    assert put.labels["z"] == ""
    assert put.joins


@pytest.mark.parametrize("options", ["--register-with-taints=a=b:Never", "--node-labels=kubernetes.io/x=y"])
def test_a_kubelet_that_does_not_start_does_not_join(seed: Path, options: str) -> None:
    assert host.machines_of(request(seed), {**GROUP, "labels": {"kubelet_options": options}}).count == 0


@pytest.mark.parametrize("module", ["sandbox.cli.commands", "sandbox.providers.__main__"])
def test_stacks_on_other_platforms_do_not_wait_for_the_clients_of_openstack(module: str) -> None:
    program = f"import sys, {module}; print({{'keystoneauth1', 'openstack'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
