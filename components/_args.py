"""The types of the clusters' and pools' arguments.

Written by `python -m tests.generated` from the tables of fields (gpu_pools/stack/fields.py): edit those.
"""

from typing import Any, NotRequired, TypedDict


class NodeRangeArgs(TypedDict):
    """Bounds of an autoscaled pool."""

    min: int
    """Fewest nodes."""
    max: int
    """Most nodes."""


class SystemPoolArgs(TypedDict):
    """The pool for the cluster's own pods; `count` or `nodes`."""

    vm_size: str
    """An Azure VM size without GPU."""
    count: NotRequired[int]
    """A fixed number of nodes."""
    nodes: NotRequired[NodeRangeArgs]
    """Bounds for the autoscaler."""
    zones: NotRequired[list[str]]
    """Availability zones."""


class EntraArgs(TypedDict):
    """Users log in with Entra ID, by kubelogin; certificates of administrators cannot be had."""

    admin_groups: list[str]
    """Object ids of the groups whose members administer the cluster; whoever deploys is in one."""
    azure_rbac: NotRequired[bool]
    """Whether role assignments of Azure count in the cluster, too."""
    local_accounts: NotRequired[bool]
    """Leave certificates of administrators to be had, while a cluster changes over."""
    tenant: NotRequired[str]
    """The tenant of the groups; that of the subscription by default."""
    login: NotRequired[str]
    """kubelogin's way to log in, azurecli by default; AAD_LOGIN_METHOD in the environment goes before."""


class AksClusterArgs(TypedDict):
    """An AKS cluster."""

    name: str
    """The cluster's name in Azure."""
    location: str
    """An Azure region."""
    system_pool: SystemPoolArgs
    """The pool for the cluster's own pods."""
    resource_group: NotRequired[str]
    """Name of the resource group, which is made; the cluster's name by default."""
    kubernetes_version: NotRequired[str]
    """The version, e.g. 1.34; what Azure offers by default."""
    tier: NotRequired[str]
    """Free, Standard or Premium."""
    tags: NotRequired[dict[str, str]]
    """Tags of group and cluster."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the cluster. The pools stay free to be rotated."""
    entra: NotRequired[EntraArgs]
    """Log-in with Entra ID, and no local accounts; without it the kubeconfig is an administrator's."""


class MagnumTemplateArgs(TypedDict):
    """A cluster template to make."""

    image: str
    """Image of the nodes."""
    external_network: str
    """Network that reaches outside."""
    flavor: str
    """Flavor of the workers."""
    master_flavor: NotRequired[str]
    """Flavor of the masters; that of the workers by default."""
    network_driver: NotRequired[str]
    """calico, cilium or flannel."""
    docker_volume_size: NotRequired[int]
    """GiB of the volume for container images."""
    dns_nameserver: NotRequired[str]
    """Resolver of the nodes."""
    labels: NotRequired[dict[str, str]]
    """Settings of Magnum's driver."""


class MagnumClusterArgs(TypedDict):
    """A Magnum cluster; `template` or `template_id`."""

    name: str
    """The cluster's name."""
    driver: str
    """Magnum's driver in this cloud: heat, magnum-cluster-api or capi-helm."""
    template_id: NotRequired[str]
    """Name or UUID of a template that exists."""
    template: NotRequired[MagnumTemplateArgs]
    """A template to make."""
    keypair: NotRequired[str]
    """Name of a keypair for the nodes."""
    masters: NotRequired[int]
    """An odd number; 1 by default."""
    workers: NotRequired[int]
    """Nodes of the default worker group, which runs the cluster's own pods; 1 by default."""
    worker_flavor: NotRequired[str]
    """Flavor of that group; the template's by default."""
    labels: NotRequired[dict[str, str]]
    """Settings of Magnum's driver, merged over the template's. A change makes a new cluster."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the cluster. The node groups stay free to be rotated."""
    check_cloud: NotRequired[bool]
    """Whether the cloud is asked first for what the cluster needs of it; true by default."""


class ExistingClusterArgs(TypedDict):
    """How to reach the cluster."""

    kubeconfig: NotRequired[str]
    """Path of a kubeconfig file; by default KUBECONFIG, else ~/.kube/config."""
    context: NotRequired[str]
    """Context of that file; its current one by default."""


class MinimumArgs(TypedDict):
    """What a node's driver must be at least; the verification holds each node against it."""

    driver: NotRequired[str]
    """A driver version, e.g. 570.124.06."""
    cuda: NotRequired[str]
    """The newest CUDA version that the driver must know at least, e.g. 12.8."""


class SpotArgs(TypedDict):
    """Spot VMs."""

    max_price: NotRequired[float]
    """US dollars per hour; -1, the default: up to the on-demand price."""


class AksPoolArgs(TypedDict):
    """A GPU pool; the same fields as a pool of a stack file."""

    name: str
    """1 to 12 lower-case letters and digits; never cut."""
    sharing: Any
    """A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}."""
    vm_size: str
    """A GPU size, e.g. Standard_NC24ads_A100_v4."""
    count: NotRequired[int]
    """A fixed number of nodes; or `nodes`."""
    nodes: NotRequired[NodeRangeArgs]
    """Bounds for the autoscaler; or `count`."""
    labels: NotRequired[dict[str, str]]
    """Node labels besides those of the plan."""
    taints: NotRequired[list[str]]
    """Node taints, e.g. sku=gpu:NoSchedule."""
    driver: NotRequired[str]
    """Who installs the driver: operator or preinstalled."""
    minimum: NotRequired[MinimumArgs]
    """The oldest driver and CUDA version that will do."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the pool."""
    os_sku: NotRequired[str]
    """Ubuntu, AzureLinux, Ubuntu2204 or Ubuntu2404."""
    zones: NotRequired[list[str]]
    """Availability zones."""
    partitioned_by: NotRequired[str]
    """Who partitions MIG GPUs: operator or aks."""
    spot: NotRequired[SpotArgs]
    """Spot VMs."""


class FlavorArgs(TypedDict):
    """What a Nova flavor has; OpenStack has no field that names the GPU model."""

    gpu_model: str
    """A GPU model, e.g. a100-80gb."""
    gpus_per_node: int
    """GPUs of one machine."""


class MagnumPoolArgs(TypedDict):
    """A GPU node group; the same fields as a pool of a stack file."""

    name: str
    """1 to 40 lower-case letters, digits and dashes."""
    sharing: Any
    """A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}."""
    flavor: str
    """Nova flavor."""
    count: NotRequired[int]
    """A fixed number of nodes; or `nodes`."""
    nodes: NotRequired[NodeRangeArgs]
    """Bounds for the autoscaler; or `count`."""
    labels: NotRequired[dict[str, str]]
    """Node labels besides those of the plan."""
    taints: NotRequired[list[str]]
    """Node taints."""
    driver: NotRequired[str]
    """Who installs the GPU driver: operator or preinstalled."""
    minimum: NotRequired[MinimumArgs]
    """The oldest driver and CUDA version that will do."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the group."""
    image: NotRequired[str]
    """Image of the nodes; the template's by default."""
    node_group_labels: NotRequired[dict[str, str]]
    """Settings of Magnum's driver for this group."""
    docker_volume_size: NotRequired[int]
    """GiB of the volume for container images."""


class ExistingPoolArgs(TypedDict):
    """A pool of an existing cluster; the same fields as in a stack file."""

    name: str
    """1 to 40 lower-case letters, digits and dashes."""
    sharing: Any
    """A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}."""
    node_selector: dict[str, str]
    """Labels that the pool's nodes have, and no other nodes."""
    gpu_model: str
    """A GPU model, e.g. a100-80gb."""
    gpus_per_node: int
    """GPUs of one node."""
    labels: NotRequired[dict[str, str]]
    """Node labels besides those of the plan."""
    taints: NotRequired[list[str]]
    """Taints that the nodes have; they are tolerated."""
    driver: NotRequired[str]
    """Who installs the GPU driver: operator or preinstalled."""
