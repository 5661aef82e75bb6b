"""Rules of OpenStack Magnum, as pure functions: what it refuses, and what its drivers put on nodes.

Stand-in: nothing here asks an OpenStack. Sources of rules and texts: openstack/magnum (common/exception.py,
api/validation.py, api/controllers/v1/nodegroup.py), a real Magnum 23.0.0 that was asked (status and text of
each refusal), and for the node labels the drivers: heat_k8s_fedora_coreos (magnum up to 2026.1),
vexxhost/magnum-cluster-api 0.38.1, openstack/magnum-capi-helm 1.4.0. Deliberately not modelled: quotas,
policies and roles, microversions (the plugin chooses one that knows what it asks for).
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds import azure_rules
from sandbox.clouds.refusal import Refusal
from sandbox.files import read_json
from sandbox.machine_groups import Hardware

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEAT: Final = "heat"
CLUSTER_API: Final = "magnum-cluster-api"
CAPI_HELM: Final = "capi-helm"
DRIVERS: Final = (HEAT, CLUSTER_API, CAPI_HELM)

CLUSTER_NAME: Final = "^[a-zA-Z][a-zA-Z0-9_.-]*$"
DNS_NAME: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LONGEST_CLUSTER_NAME: Final = 242
_LONGEST_NAME: Final = 255
_NETWORK_DRIVERS: Final = {
    HEAT: ("flannel", "calico"),
    CLUSTER_API: ("calico", "cilium"),
    CAPI_HELM: ("calico", "cilium"),
}
_VOLUME_DRIVERS: Final = ("cinder",)
_KUBELET_LABEL_PREFIX: Final = re.compile(r"(.*\.)?(kubelet|node)\.kubernetes\.io")
_MIB: Final = 1024


class MagnumError(Refusal):
    """What Magnum's API answers.

    Attributes:
        status: the HTTP status.
        detail: Magnum's own sentence.
        body: the JSON document of the answer.
    """

    def __init__(self, status: int, detail: str, body: str | None = None) -> None:
        """Keep the answer; a body is made up where there was no service to give one."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        error = {"request_id": "", "code": "client", "status": status, "title": detail, "detail": detail, "links": []}
        self.body = json.dumps({"errors": [error]}) if body is None else body


@dataclass(frozen=True)
class Seed:
    """What the other services of the cloud know: flavors of nova, images of glance, keypairs, networks.

    Attributes:
        flavors: name -> hardware.
        images: name -> os_distro ("" when the image lacks the property).
        keypairs: names.
        networks: names or ids of networks and subnets.
        templates: name -> properties of cluster templates that exist already.
    """

    flavors: Mapping[str, Hardware]
    images: Mapping[str, str]
    keypairs: frozenset[str]
    networks: frozenset[str]
    templates: Mapping[str, dict[str, Any]]


def read_seed(path: Path) -> Seed:
    """Read the seed file; a missing one is a cloud with nothing in it.

    Raises:
        SandboxError: the file is no JSON object.
    """
    raw = read_json(path)
    images = [item if isinstance(item, dict) else {"name": item} for item in raw.get("images", [])]
    return Seed(
        flavors={name: _hardware(flavor) for name, flavor in raw.get("flavors", {}).items()},
        images={image["name"]: image.get("osDistro", "fedora-coreos") for image in images},
        keypairs=frozenset(raw.get("keypairs", [])),
        networks=frozenset(raw.get("networks", [])),
        templates=raw.get("templates", {}),
    )


def _hardware(flavor: Mapping[str, Any]) -> Hardware:
    return Hardware(
        cpus=flavor["vcpus"],
        memory_gib=flavor["ramMiB"] / _MIB,
        gpu_model=flavor.get("gpuModel"),
        gpu_product=flavor.get("gpuProduct"),
        gpus=flavor.get("gpus") or 0,
    )


def _bad_input(field: str, value: object, reason: str) -> MagnumError:
    return MagnumError(400, f"Invalid input for field/attribute {field}. Value: '{value}'. {reason}")


def _check_length(field: str, value: str, longest: int) -> None:
    if not value:
        raise _bad_input(field, value, "Value should have a minimum character requirement of 1")
    if len(value) > longest:
        raise _bad_input(field, value, f"Value should have a maximum character requirement of {longest}")


def _check_flavors(values: Mapping[str, Any], keys: tuple[str, ...], seed: Seed) -> None:
    for key in keys:
        flavor = values.get(key)
        if flavor and flavor not in seed.flavors:
            raise MagnumError(400, f"Unable to find flavor {flavor}.")


def _check_networks(values: Mapping[str, Any], seed: Seed) -> None:
    kinds = {"externalNetworkId": "external network", "fixedNetwork": "fixed network", "fixedSubnet": "fixed subnet"}
    for key, kind in kinds.items():
        network = values.get(key)
        if network and network not in seed.networks:
            raise MagnumError(400, f"Unable to find {kind} {network}.")


def check_template(values: Mapping[str, Any], seed: Seed, driver: str) -> None:
    """Refuse what cannot be a cluster template.

    Args:
        values: the template's properties as the plugin names them.
        seed: what the cloud has.
        driver: the Magnum driver in use.

    Raises:
        MagnumError: the first rule broken.
    """
    if values.get("name") is not None:
        _check_length("name", values["name"], _LONGEST_NAME)
    if values["coe"] != "kubernetes":
        raise _bad_input("coe", values["coe"], "Value should be one of: kubernetes")
    _check_dns(values.get("dnsNameserver"))
    image = values["image"]
    if image not in seed.images:
        raise MagnumError(400, f"Image {image} could not be found.")
    if not seed.images[image]:
        raise MagnumError(400, f"Image {image} doesn't contain os_distro field.")
    _check_flavors(values, ("flavor", "masterFlavor"), seed)
    _check_networks(values, seed)
    network, volume = values.get("networkDriver"), values.get("volumeDriver")
    allowed = _NETWORK_DRIVERS[driver]
    if network and network not in allowed:
        raise MagnumError(
            400,
            f"Network driver type {network} is not supported, expecting a {'/'.join((*allowed, 'unspecified'))} network driver.",
        )
    if volume and volume not in _VOLUME_DRIVERS:
        raise MagnumError(
            400,
            f"Volume driver type {volume} is not supported, expecting a "
            f"{'/'.join((*_VOLUME_DRIVERS, 'unspecified'))} volume driver.",
        )
    if values.get("serverType") not in {None, "vm", "bm"}:
        raise _bad_input("server_type", values["serverType"], "Value should be one of: bm, vm")


def _check_dns(servers: str | None) -> None:
    for server in (servers or "").split(","):
        octets = server.split(".")
        if server and (len(octets) != 4 or not all(o.isdigit() and int(o) < 256 for o in octets)):  # noqa: PLR2004
            raise _bad_input("dns_nameserver", servers, "Value should be IPv4 format")


def check_cluster(values: Mapping[str, Any], template: Mapping[str, Any], seed: Seed, driver: str) -> None:
    """Refuse what cannot be a cluster.

    Args:
        values: the cluster's properties as the plugin names them.
        template: those of its template.
        seed: what the cloud has.
        driver: the Magnum driver in use.

    Raises:
        MagnumError: the first rule broken.
    """
    name = values["name"]
    _check_length("name", name, _LONGEST_CLUSTER_NAME)
    if not re.match(CLUSTER_NAME, name):
        raise _bad_input("name", name, f"Value should match the pattern {CLUSTER_NAME}")
    if driver == CLUSTER_API and not re.fullmatch(DNS_NAME, name):
        raise MagnumError(400, f"Cluster name {name} is not valid, must match regex: {DNS_NAME}")
    masters = values.get("masterCount", 1)
    if masters < 1:
        raise _bad_input("master_count", masters, "Value should be greater or equal to 1")
    if masters % 2 == 0:
        raise MagnumError(400, f"master nodegroup size of {masters} is invalid, size cannot be an even number.")
    balanced = values.get("masterLbEnabled", template.get("masterLbEnabled", False))
    if masters > 1 and not balanced:
        raise MagnumError(400, "master_count must be 1 when master_lb_enabled is False")
    if values.get("nodeCount", 1) < 0:
        raise _bad_input("node_count", values["nodeCount"], "Value should be greater or equal to 0")
    keypair = values.get("keypair") or template.get("keypairId")
    if keypair and keypair not in seed.keypairs:
        raise MagnumError(404, f"Unable to find keypair {keypair}.")
    _check_flavors(values, ("flavor", "masterFlavor"), seed)
    _check_networks(values, seed)


def check_group(values: Mapping[str, Any], seed: Seed, driver: str) -> None:
    """Refuse what cannot be a node group; an unknown image is accepted, as Magnum does.

    Args:
        values: the group's properties as the plugin names them, counts settled.
        seed: what the cloud has.
        driver: the Magnum driver in use.

    Raises:
        MagnumError: the first rule broken.
    """
    name = values["name"]
    _check_length("name", name, _LONGEST_NAME)
    check_bounds(values)
    if values.get("role") == "master":
        raise MagnumError(400, "Creating master nodegroups is currently not supported.")
    if driver == CLUSTER_API and not re.fullmatch(DNS_NAME, name):
        raise MagnumError(400, f"Node group name {name} is not valid, must match regex: {DNS_NAME}")
    _check_flavors(values, ("flavorId",), seed)


def check_bounds(values: Mapping[str, Any]) -> None:
    """Refuse a group whose count and limits do not fit together.

    Raises:
        MagnumError: 409 with Magnum's explanation, or 400 for a negative number.
    """
    name, count = values["name"], values["nodeCount"]
    low, high = values["minNodeCount"], values.get("maxNodeCount")
    for field, number in (("node_count", count), ("min_node_count", low)):
        if number < 0:
            raise _bad_input(field, number, "Value should be greater or equal to 0")
    if high and high < low:
        explanation = f"min_node_count ({low}) should be less or equal to max_node_count ({high})"
        raise MagnumError(409, f"max_node_count for {name} is invalid ({explanation}).")
    if high and count > high:
        explanation = f"node_count ({count}) should be less or equal to max_node_count ({high})"
        raise MagnumError(409, f"max_node_count for {name} is invalid ({explanation}).")
    if low > count:
        explanation = f"min_node_count ({low}) should be less or equal to node_count ({count})"
        raise MagnumError(409, f"min_node_count for {name} is invalid ({explanation}).")


def check_resize(group: Mapping[str, Any], count: int) -> None:
    """Refuse a resize beyond the group's limits.

    Raises:
        MagnumError: 400.
    """
    low, high = group["minNodeCount"], group.get("maxNodeCount")
    if count < low or (high and count > high):
        raise MagnumError(
            400,
            f"Resizing {group['name']} outside the allowed range: min_node_count = {low}, max_node_count = {high}",
        )


def effective_labels(parent: Mapping[str, str], own: Mapping[str, str] | None, *, merge: bool) -> dict[str, str]:
    """The labels that count: those given replace the parent's, unless merged; none given inherits."""
    if not own:
        return dict(parent)
    return {**parent, **own} if merge else dict(own)


@dataclass(frozen=True)
class NodeMarks:
    """What the nodes of a group carry when they join.

    Attributes:
        labels: node labels.
        taints: node taints.
        joins: False when the kubelet would not start with the options that it was given.
    """

    labels: dict[str, str]
    taints: list[dict[str, str]]
    joins: bool = True


def node_marks(driver: str, group: str, role: str, labels: Mapping[str, str]) -> NodeMarks:
    """What a driver puts on a group's nodes. The group's Magnum labels do not reach them.

    Args:
        driver: the Magnum driver.
        group: the group's name.
        role: its role.
        labels: its effective Magnum labels; heat reads the kubelet's options from them.
    """
    if driver == CLUSTER_API:
        return NodeMarks({f"node-role.kubernetes.io/{role}": "", "node.cluster.x-k8s.io/nodegroup": group}, [])
    if driver == CAPI_HELM:
        return NodeMarks({"capi.stackhpc.com/node-group": group}, [])
    own = {"magnum.openstack.org/role": role, "magnum.openstack.org/nodegroup": group}
    options = _kubelet_options(labels.get("kubelet_options", ""))
    return NodeMarks({**own, **options.labels}, options.taints, options.joins)


def _kubelet_options(text: str) -> NodeMarks:
    """Labels and taints that the kubelet's command line asks for."""
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    for word in shlex.split(text):
        flag, _, value = word.partition("=")
        items = [item for item in value.split(",") if item]
        if flag == "--node-labels":
            labels.update(item.partition("=")[::2] for item in items)
        elif flag == "--register-with-taints":
            parsed = [azure_rules.parse_taint(item) for item in items]
            if None in parsed:
                return NodeMarks(labels, taints, joins=False)
            taints += [taint for taint in parsed if taint]
    return NodeMarks(labels, taints, joins=all(_kubelet_may_set(key) for key in labels))


def _kubelet_may_set(key: str) -> bool:
    """Whether the kubelet starts with that label in --node-labels."""
    prefix = key.rpartition("/")[0]
    if prefix not in {"kubernetes.io", "k8s.io"} and not prefix.endswith((".kubernetes.io", ".k8s.io")):
        return True
    return _KUBELET_LABEL_PREFIX.fullmatch(prefix) is not None
