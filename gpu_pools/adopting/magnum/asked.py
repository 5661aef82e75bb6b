"""Asks openstack for a cluster and its node groups, read only."""

from __future__ import annotations

from typing import Any, Final

from gpu_pools.adopting.documents import mapping, mappings, text_of
from gpu_pools.adopting.live import Client, ask_json

_OPENSTACK: Final = Client("pip install python-openstackclient python-magnumclient", "--cluster FILE and --groups FILE")


def ask_openstack(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(cluster, node groups) as openstack shows them; of a group the list tells too little.

    Raises:
        NotAdoptableError: if openstack is missing, or does not show them.
    """
    shown = ["openstack", "coe", "cluster", "show", name, "--format", "json"]
    listed = ["openstack", "coe", "nodegroup", "list", name, "--format", "json"]
    cluster = mapping(ask_json(shown, _OPENSTACK), "openstack", " ".join(shown))
    groups = mappings(ask_json(listed, _OPENSTACK), "openstack", " ".join(listed))
    each = [
        ["openstack", "coe", "nodegroup", "show", name, text_of(one, "uuid", "openstack", " ".join(listed)), "--format", "json"]
        for one in groups
    ]
    return cluster, [mapping(ask_json(command, _OPENSTACK), "openstack", " ".join(command)) for command in each]
