"""What the stand-in clouds run on: the simulated clusters and their machines, as replaceable functions.

The clouds never import the cluster or the machines directly, so that their rules are tested without any
program running.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sandbox.clouds.azure_add_ons import define_monitors
from sandbox.clouds.entra import BINDING, admin_binding
from sandbox.cluster import control_plane as clusters
from sandbox.cluster import machine_groups
from sandbox.cluster.api import Api
from sandbox.cluster.node_tools import find_platform_tools
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sandbox.cluster.machine_groups import MachineGroup
    from sandbox.toolchain.tools import Tools


class RunningCluster(Protocol):
    """What the clouds need to know of a cluster."""

    @property
    def server(self) -> str:
        """Address of its API."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""

    @property
    def ca_pem(self) -> str:
        """Certificate of its authority."""

    @property
    def client_cert_pem(self) -> str:
        """The administrator's certificate."""

    @property
    def client_key_pem(self) -> str:
        """The administrator's key."""


@dataclass(frozen=True)
class Host:
    """Functions that make clusters and machines be.

    Attributes:
        boot: start the cluster of that folder and name, or see that it runs.
        erase: stop a cluster and delete its folder.
        load: read a cluster that was booted before.
        put: make a group of machines exist, or change it.
        remove: make a group of machines go.
        trust: have a cluster trust clients of another authority, from its next boot on.
        administer: make members of groups administrators of a cluster that runs.
        define: have a cluster that runs know the kinds of Azure Monitor's add-on.
    """

    boot: Callable[[Path, str], RunningCluster]
    erase: Callable[[Path], None]
    load: Callable[[Path], RunningCluster]
    put: Callable[[Path, MachineGroup], None]
    remove: Callable[[Path, str], None]
    trust: Callable[[Path, str], None]
    administer: Callable[[Path, Sequence[str]], None]
    define: Callable[[Path], None]


@functools.cache
def _tools() -> Tools:
    return find_platform_tools(Progress())


def _boot(folder: Path, name: str) -> RunningCluster:
    return clusters.boot(folder, name, _tools())


def _administer(folder: Path, groups: Sequence[str]) -> None:
    binding, place = admin_binding(groups), "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    api = Api.at(clusters.load(folder).kubeconfig)
    if api.get(f"{place}/{BINDING}") is None:
        api.create(place, binding)
    else:
        api.patch(f"{place}/{BINDING}", binding)


def _define(folder: Path) -> None:
    define_monitors(clusters.load(folder).kubeconfig)


def simulated_host() -> Host:
    """The host of a real sandbox; looks for the programs when the first cluster is booted."""
    return Host(
        boot=_boot,
        erase=clusters.erase,
        load=clusters.load,
        put=machine_groups.put,
        remove=machine_groups.remove,
        trust=clusters.trust_clients,
        administer=_administer,
        define=_define,
    )
