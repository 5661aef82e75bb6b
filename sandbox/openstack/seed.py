"""What the cloud has besides Magnum: flavors, images, key pairs, networks, the operators' cluster templates; from a JSON file.

OpenStack cannot say which GPU a flavor has, so the file does, for whoever makes its machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster.add_ons import AddOns, read_add_ons
from sandbox.cluster.machine_groups import Hardware
from sandbox.openstack.images import images
from sandbox.system.files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MIB: Final = 1024


@dataclass(frozen=True)
class Seed:
    """What the other services of the cloud know: flavors of nova, images of glance, keypairs, networks.

    Attributes:
        flavors: name -> hardware.
        images: name -> the properties that it has of os_distro and kube_version.
        keypairs: names.
        networks: names or ids of networks and subnets.
        templates: name -> properties of cluster templates that exist already.
        add_ons: what clusters of the driver capi-helm come with.
        limits: what nova says of the project's quota, by its own names; what is left out has no limit.
    """

    flavors: Mapping[str, Hardware]
    images: Mapping[str, Mapping[str, str]]
    keypairs: frozenset[str]
    networks: frozenset[str]
    templates: Mapping[str, dict[str, Any]]
    add_ons: AddOns
    limits: Mapping[str, int]


def read_seed(path: Path) -> Seed:
    """Read the seed file; a missing one is a cloud with nothing in it.

    Raises:
        SandboxError: the file is not a JSON object.
    """
    raw = read_json(path)
    return Seed(
        flavors={name: _hardware(flavor) for name, flavor in raw.get("flavors", {}).items()},
        images=images(raw),
        keypairs=frozenset(raw.get("keypairs", [])),
        networks=frozenset(raw.get("networks", [])),
        templates=raw.get("templates", {}),
        add_ons=read_add_ons(raw.get("addOns", {})),
        limits=raw.get("limits", {}),
    )


def _hardware(flavor: Mapping[str, Any]) -> Hardware:
    return Hardware(
        cpus=flavor["vcpus"],
        memory_gib=flavor["ramMiB"] / _MIB,
        gpu_model=flavor.get("gpuModel"),
        gpu_product=flavor.get("gpuProduct"),
        gpus=flavor.get("gpus") or 0,
        declared=flavor.get("declared"),
    )
