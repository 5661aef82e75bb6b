"""What a stack file declares of a platform: the cluster, and where the nodes of a pool come from.

Both classes answer what follows from the declaration and from the platform alone; gpu_pools/platforms implements them once per
platform. Code outside that package never asks which platform it has: it asks these classes what the platform does. Rules for
which the rest of the stack must be known are in gpu_pools/platforms/platform.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.stack.allocation import Allocation
    from gpu_pools.stack.kubernetes_names import Taint

MigOwner = Literal["operator", "aks"]
#: How nodes register with a taint that can be taken away again: the API server adds it, or the kubelet registers with it.
TaintedBy = Literal["admission", "kubelet"]


class Cluster(ABC):
    """The section ``gpu-pools:cluster``, read."""

    #: The value of ``platform`` in a stack file.
    platform: ClassVar[str]
    #: Whether the cloud makes the nodes of pools; else nodes that are there already are selected.
    makes_nodes: ClassVar[bool] = True
    #: Whether nodes are virtual machines: a GPU then cannot be reset without a reboot of its node.
    machines_are_virtual: ClassVar[bool] = True
    #: Whether the cloud's pools set labels and taints on nodes; else NFD does, or the nodes have them already.
    labels_nodes: ClassVar[bool] = False
    #: Whether pools are Magnum's node groups, which NFD labels and a name of the cloud's own tells apart.
    has_node_groups: ClassVar[bool] = False
    #: Whether taints that a stack declares are set on nodes by the cloud, by kubelets or by NFD; else they are only tolerated.
    sets_taints: ClassVar[bool] = True
    #: Whether containerd must take its configuration from the node's file instead of a drop-in (C02).
    containerd_reads_one_file: ClassVar[bool] = True
    #: The RuntimeClass that the cloud's image brings together with a preinstalled driver; the operator's own by default.
    runtime_class: ClassVar[str] = "nvidia"
    #: Whether the control plane's metrics are out of reach.
    hides_control_plane: ClassVar[bool] = False
    #: Whether a new cluster comes without GPU operator for certain.
    starts_bare: ClassVar[bool] = False
    #: Whether Azure Monitor can read the cluster's metrics.
    has_azure_monitor: ClassVar[bool] = False

    name: str = ""
    kubernetes_version: str | None = None
    #: Magnum's driver.
    driver: Any = None
    #: The context of a kubeconfig.
    context: str | None = None
    protect: bool = False
    #: Through what pods get the GPUs of pools that do not say it; None: the device plugin.
    allocation: Allocation | None = None

    @property
    @abstractmethod
    def was_there(self) -> bool:
        """Whether the cluster was there before the stack, and stays when the stack goes."""

    @property
    def adds_pools_only(self) -> bool:
        """Whether the stack adds pools of the cloud to a cluster that was there."""
        return self.was_there and self.makes_nodes

    @property
    def declares_version(self) -> bool:
        """Whether the stack decides the version of Kubernetes."""
        return False

    @property
    def template_of_nodes(self) -> object:
        """What the cloud makes nodes from, whose change it calls an upgrade; None: no such thing."""
        return None

    @property
    def has_node_subnet(self) -> bool:
        """Whether pools that name no subnet are in one of the cluster's."""
        return False

    @property
    def taints_by_nfd(self) -> bool:
        """Whether NFD sets the declared taints."""
        return False

    @property
    def taints_by_kubelets(self) -> bool:
        """Whether kubelets register with the declared taints."""
        return self.tainted_by == "kubelet"

    @property
    def tainted_by(self) -> TaintedBy | None:
        """How nodes can register with the startup taint; None: they cannot."""
        return "admission"

    @property
    def brings_operator(self) -> str:
        """Who else than the stack installs the GPU operator and NFD by default; empty: nobody."""
        return ""


class Placement:
    """Where the nodes of a pool come from."""

    #: Whether nodes that are there already are selected; else the cloud makes them.
    selects_nodes: ClassVar[bool] = False
    #: Who sets the plan's labels on the nodes.
    labelled_by: ClassVar[str] = "NFD"
    #: Who partitions the GPUs.
    mig_owner: MigOwner = "operator"
    #: The labels by which nodes are selected that are there already.
    node_selector: Mapping[str, str] = {}
    #: Whether NFD may have to set the declared taints, depending on the cloud.
    taints_may_come_from_nfd: ClassVar[bool] = False
    #: Settings of the cloud's pool that are not node labels.
    labels: Mapping[str, str] = {}

    @property
    def added_taint(self) -> Taint | None:
        """The taint that the cloud adds, whose key and value it sets as a label, too."""
        return None

    @property
    def is_virtual(self) -> bool:
        """Whether the nodes are known to be virtual machines."""
        return not self.selects_nodes

    @property
    def is_spot(self) -> bool:
        """Whether the cloud may take the machines back."""
        return False

    @property
    def machine(self) -> str:
        """The name under which the cloud sells the machine, a VM size or a flavor; empty: nobody sells it."""
        return ""

    @property
    def architecture(self) -> str | None:
        """The processors' architecture; empty: not known; None: it follows from the GPU model."""
        return None

    @property
    def has_app_armor(self) -> bool:
        """Whether the nodes are known to have AppArmor."""
        return False
