"""The types of the arguments of clusters, pools and other sections.

Written by `python -m tools.generate` from the tables of fields (gpu_pools/reading/fields.py): edit those.
"""

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import pulumi

from gpu_pools.components.arguments.sharing import Declared, Sharing


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
    properties: NotRequired[dict[str, Any]]
    """Properties of azure-native's ManagedClusterAgentPoolProfile, merged last into what is sent."""


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


class LoadBalancerArgs(TypedDict):
    """How nodes reach outside through the cluster's load balancer."""

    managed_ips: NotRequired[int]
    """Public addresses that Azure makes, 1 to 100."""
    ips: NotRequired[list[pulumi.Input[str]]]
    """Ids of public addresses of your own."""
    prefixes: NotRequired[list[pulumi.Input[str]]]
    """Ids of prefixes of public addresses of your own."""
    allocated_outbound_ports: NotRequired[int]
    """Ports of each node, 0 to 64000, by eights; 0: Azure decides."""
    idle_timeout_in_minutes: NotRequired[int]
    """Minutes until an idle connection is cut, 4 to 120."""
    backend_pool_type: NotRequired[str]
    """NodeIPConfiguration or NodeIP."""


class NetworkArgs(TypedDict):
    """Where nodes and pods lie, and how they talk."""

    node_subnet: NotRequired[pulumi.Input[str]]
    """Id of the subnet of all nodes, the system pool's too; Azure makes one by default."""
    pod_subnet: NotRequired[pulumi.Input[str]]
    """Id of the subnet of all pods; needs nodeSubnet, and is not for overlay."""
    plugin: NotRequired[str]
    """azure, kubenet or none."""
    plugin_mode: NotRequired[str]
    """overlay or none: whether pods have addresses of their own range, or of the nodes' network."""
    dataplane: NotRequired[str]
    """azure or cilium."""
    policy: NotRequired[str]
    """What enforces network policies: none, azure, calico or cilium."""
    pod_cidr: NotRequired[str]
    """The pods' range, with overlay or kubenet; 10.244.0.0/16 where nothing is said."""
    service_cidr: NotRequired[str]
    """The services' range, together with dnsServiceIp; 10.0.0.0/16 where nothing is said."""
    dns_service_ip: NotRequired[str]
    """Address of the cluster's DNS: in serviceCidr, and not its first."""
    outbound_type: NotRequired[str]
    """loadBalancer, managedNATGateway, userAssignedNATGateway or userDefinedRouting."""
    load_balancer_sku: NotRequired[str]
    """standard; Azure has retired basic."""
    load_balancer: NotRequired[LoadBalancerArgs]
    """Addresses and ports of the load balancer."""


class ApiServerArgs(TypedDict):
    """Who can reach the API server."""

    private: NotRequired[bool]
    """An API server in the nodes' network alone; whoever deploys must be able to reach that."""
    private_dns_zone: NotRequired[pulumi.Input[str]]
    """system, none, or the id of a zone of your own."""
    public_fqdn: NotRequired[bool]
    """Whether its name is in public DNS, too."""
    authorized_ip_ranges: NotRequired[list[pulumi.Input[str]]]
    """Addresses from which a public API server is reached; whoever deploys must come from one."""
    disable_run_command: NotRequired[bool]
    """Whether `az aks command invoke` is off."""


class KubeletIdentityArgs(TypedDict):
    """The identity as which nodes pull images."""

    id: pulumi.Input[str]
    """Its id."""
    client_id: pulumi.Input[str]
    """Its client id."""
    object_id: pulumi.Input[str]
    """Its object id."""


class IdentityArgs(TypedDict):
    """As whom the cluster acts in Azure."""

    user_assigned: NotRequired[pulumi.Input[str]]
    """Id of an identity of your own; one that Azure makes by default."""
    kubelet: NotRequired[KubeletIdentityArgs]
    """The identity as which nodes pull images; needs userAssigned, which must be allowed to assign it."""


class KeyVaultSecretsArgs(TypedDict):
    """Secrets of Azure Key Vault as volumes."""

    rotation: NotRequired[bool]
    """Whether changed secrets reach pods that run."""
    rotation_interval: NotRequired[str]
    """How often they are looked for, e.g. 2m."""


class UpgradesArgs(TypedDict):
    """Upgrades that Azure makes by itself."""

    channel: NotRequired[str]
    """none, patch, stable, rapid or node-image."""
    node_os_channel: NotRequired[str]
    """None, Unmanaged, SecurityPatch or NodeImage."""


class WindowArgs(TypedDict):
    """When Azure may do it: weekly, or daily where no day is named."""

    start_time: str
    """When it begins, e.g. 02:00."""
    duration_hours: int
    """For how many hours, 4 to 24."""
    day: NotRequired[str]
    """Day of the week; without one: every day."""
    every: NotRequired[int]
    """Every how many weeks, or days; 1 by default."""
    utc_offset: NotRequired[str]
    """From UTC, e.g. +01:00; none by default."""
    start_date: NotRequired[str]
    """From which day on, e.g. 2027-01-31."""


class MaintenanceArgs(TypedDict):
    """When Azure may upgrade by itself."""

    cluster_upgrade: NotRequired[WindowArgs]
    """For upgrades of Kubernetes; needs upgrades.channel."""
    node_os_upgrade: NotRequired[WindowArgs]
    """For node images."""


class AutoscalerArgs(TypedDict):
    """The cluster autoscaler, the same for all pools."""

    expander: NotRequired[str]
    """How it chooses among pools."""
    scan_interval: NotRequired[str]
    """How often it looks."""
    balance_similar_node_groups: NotRequired[str]
    """Keep similar pools alike."""
    max_node_provision_time: NotRequired[str]
    """How long a node may take; large GPU machines take long."""
    new_pod_scale_up_delay: NotRequired[str]
    """How old pods must be."""
    scale_down_delay_after_add: NotRequired[str]
    """Rest after a node was added."""
    scale_down_delay_after_delete: NotRequired[str]
    """Rest after a node went."""
    scale_down_delay_after_failure: NotRequired[str]
    """Rest after a failure."""
    scale_down_unneeded_time: NotRequired[str]
    """How long a node must be idle."""
    scale_down_unready_time: NotRequired[str]
    """How long a node must be unready."""
    scale_down_utilization_threshold: NotRequired[str]
    """Below which a node is idle."""
    max_graceful_termination_sec: NotRequired[str]
    """Seconds that pods have to end."""
    max_empty_bulk_delete: NotRequired[str]
    """Empty nodes that go at once."""
    max_total_unready_percentage: NotRequired[str]
    """Percent of nodes that may be unready."""
    ok_total_unready_count: NotRequired[str]
    """Nodes that may be unready."""
    skip_nodes_with_local_storage: NotRequired[str]
    """Keep nodes with local volumes."""
    skip_nodes_with_system_pods: NotRequired[str]
    """Keep nodes with system pods."""
    daemonset_eviction_for_empty_nodes: NotRequired[bool]
    """Evict DaemonSets' pods of empty nodes."""
    daemonset_eviction_for_occupied_nodes: NotRequired[bool]
    """Evict DaemonSets' pods of other nodes."""
    ignore_daemonsets_utilization: NotRequired[bool]
    """Leave DaemonSets' pods out of a node's use."""


class MonitoringArgs(TypedDict):
    """Logs and metrics in Azure Monitor."""

    workspace: NotRequired[pulumi.Input[str]]
    """Id of a Log Analytics workspace for the logs of containers."""
    location: NotRequired[str]
    """The workspace's region; the cluster's by default."""
    metrics: NotRequired[bool]
    """Whether metrics go to a managed Prometheus."""


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
    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """Tags of group and cluster."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; devicePlugin by default."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the cluster. The pools can still be replaced."""
    entra: NotRequired[EntraArgs]
    """Log-in with Entra ID, and no local accounts; without it the kubeconfig is an administrator's."""
    check_cloud: NotRequired[bool]
    """Whether the cloud is asked first for what the cluster needs of it; true by default."""
    existing_resource_group: NotRequired[str]
    """Name of a resource group that is there, instead of one that the stack makes."""
    node_resource_group: NotRequired[str]
    """Name of the group that Azure makes for machines and disks."""
    network: NotRequired[NetworkArgs]
    """Where nodes and pods lie, and how they talk."""
    api_server: NotRequired[ApiServerArgs]
    """Who can reach the API server."""
    identity: NotRequired[IdentityArgs]
    """As whom the cluster acts in Azure."""
    oidc_issuer: NotRequired[bool]
    """An issuer of tokens that Entra ID trusts."""
    workload_identity: NotRequired[bool]
    """Pods act as identities of Entra ID; needs oidcIssuer."""
    key_vault_secrets: NotRequired[KeyVaultSecretsArgs]
    """Secrets of Azure Key Vault as volumes; {} for the defaults."""
    upgrades: NotRequired[UpgradesArgs]
    """Upgrades that Azure makes by itself."""
    maintenance: NotRequired[MaintenanceArgs]
    """When Azure may upgrade by itself."""
    autoscaler: NotRequired[AutoscalerArgs]
    """The cluster autoscaler, the same for all pools."""
    container_registries: NotRequired[list[pulumi.Input[str]]]
    """Ids of registries that the nodes may pull from."""
    monitoring: NotRequired[MonitoringArgs]
    """Logs and metrics in Azure Monitor."""
    properties: NotRequired[dict[str, Any]]
    """Properties of azure-native's ManagedCluster, merged last into what is sent."""


class ExistingAksClusterArgs(TypedDict):
    """An AKS cluster that is there."""

    resource_group: str
    """The resource group that it is in."""
    name: str
    """Its name."""
    subscription: NotRequired[str]
    """Its subscription, which the provider must be configured for."""
    login: NotRequired[str]
    """kubelogin's way to log in, where the cluster has Entra ID; azurecli by default."""


class MagnumTemplateArgs(TypedDict):
    """A cluster template to make."""

    image: str
    """Image of the nodes."""
    external_network: pulumi.Input[str]
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
    http_proxy: NotRequired[str]
    """Proxy of the nodes for http."""
    https_proxy: NotRequired[str]
    """The same for https."""
    no_proxy: NotRequired[str]
    """What they reach without a proxy, with commas between; at most 255 characters."""


class BootVolumeArgs(TypedDict):
    """A volume as the machines' disk."""

    size: int
    """GiB."""
    type: NotRequired[str]
    """Cinder's volume type; the cloud's own by default."""


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
    keypair: NotRequired[pulumi.Input[str]]
    """Name of a keypair for the nodes."""
    masters: NotRequired[int]
    """An odd number; 1 by default."""
    workers: NotRequired[int]
    """Nodes of the default worker group, which runs the cluster's own pods; 1 by default."""
    worker_flavor: NotRequired[str]
    """Flavor of that group; the template's by default."""
    labels: NotRequired[dict[str, str]]
    """Settings of Magnum's driver, merged over the template's. A change makes a new cluster."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; devicePlugin by default."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the cluster. The node groups can still be replaced."""
    check_cloud: NotRequired[bool]
    """Whether the cloud is asked first for what the cluster needs of it; true by default."""
    fixed_network: NotRequired[pulumi.Input[str]]
    """A private network for the nodes, by name or id."""
    fixed_subnet: NotRequired[pulumi.Input[str]]
    """A subnet of it, by name or id."""
    floating_ip: NotRequired[bool]
    """Whether nodes have floating IPs; as the template has it by default."""
    master_load_balancer: NotRequired[bool]
    """Whether a load balancer stands before the masters; several masters have one."""
    availability_zone: NotRequired[str]
    """Nova's availability zone."""
    boot_volume: NotRequired[BootVolumeArgs]
    """A volume as the machines' disk."""
    auto_healing: NotRequired[bool]
    """Whether the driver replaces nodes that are not healthy."""


class ExistingMagnumClusterArgs(TypedDict):
    """A Magnum cluster that is there, by `name` or `uuid`."""

    driver: str
    """Magnum's driver in this cloud: heat, magnum-cluster-api or capi-helm."""
    name: NotRequired[str]
    """Its name, where no other cluster of the project has it."""
    uuid: NotRequired[str]
    """Its UUID."""
    check_cloud: NotRequired[bool]
    """Whether the cloud is asked first for what the cluster needs of it; true by default."""


class ExistingClusterArgs(TypedDict):
    """How to reach the cluster."""

    kubeconfig: NotRequired[str]
    """Path of a kubeconfig file; by default KUBECONFIG, else ~/.kube/config."""
    kubeconfig_content: NotRequired[pulumi.Input[str]]
    """A kubeconfig itself, instead of a file; a secret."""
    context: NotRequired[str]
    """Context of that file; its current one by default."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; devicePlugin by default."""


class RolloutWindowArgs(TypedDict):
    """When changes of nodes may begin: weekly, or daily where no day is named."""

    start_time: str
    """When it begins, e.g. 22:00."""
    duration_hours: int
    """For how many hours, 1 to 24."""
    day: NotRequired[str]
    """Day of the week; without one: every day."""
    utc_offset: NotRequired[str]
    """From UTC, e.g. +01:00; none by default."""


class DriverUpgradeArgs(TypedDict):
    """How the operator replaces drivers on living nodes."""

    max_unavailable: NotRequired[int]
    """On how many nodes the driver is replaced at the same time."""
    drain_timeout_seconds: NotRequired[int]
    """How long pods that hold GPUs may take to go, in seconds."""
    pods_that_stay: NotRequired[str]
    """Of pods that do not go in time: wait or stop."""


class RolloutArgs(TypedDict):
    """How the pool's living nodes change in place."""

    max_unavailable: NotRequired[str]
    """How many nodes change at the same time, e.g. "2" or "25%"."""
    drain_timeout_seconds: NotRequired[int]
    """How long pods that hold GPUs may take to go, in seconds."""
    pods_that_stay: NotRequired[str]
    """Of pods that do not go in time: wait, stop or delete."""
    windows: NotRequired[list[RolloutWindowArgs]]
    """When changes that take nodes away may begin; at any time by default."""


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
    eviction_policy: NotRequired[str]
    """What becomes of machines that Azure takes back: Delete or Deallocate."""


class UpgradeSettingsArgs(TypedDict):
    """How nodes are replaced in an upgrade."""

    max_surge: NotRequired[str]
    """Nodes beyond the pool during an upgrade, e.g. "1" or "33%"; "1" by default."""
    max_unavailable: NotRequired[str]
    """Nodes that may be away at once during an upgrade, e.g. "1"; for a GPU quota without room."""
    drain_timeout_in_minutes: NotRequired[int]
    """Minutes that pods have to end."""
    node_soak_duration_in_minutes: NotRequired[int]
    """Minutes to wait after each node."""
    undrainable_node_behavior: NotRequired[str]
    """What happens to a node that cannot be drained: Cordon or Schedule."""


class KubeletConfigArgs(TypedDict):
    """Settings of the kubelets."""

    cpu_manager_policy: NotRequired[str]
    """none or static."""
    topology_manager_policy: NotRequired[str]
    """none, best-effort, restricted or single-numa-node: whether CPUs, GPUs and NICs of a pod lie together."""
    cpu_cfs_quota: NotRequired[bool]
    """Whether limits of CPU are enforced."""
    cpu_cfs_quota_period: NotRequired[str]
    """The period of that quota, e.g. 100ms."""
    image_gc_high_threshold: NotRequired[int]
    """Percent of the disk from which images are removed."""
    image_gc_low_threshold: NotRequired[int]
    """Percent of the disk down to which images are removed; not above the other."""
    allowed_unsafe_sysctls: NotRequired[list[str]]
    """Unsafe sysctls that pods may set: of kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*."""
    fail_swap_on: NotRequired[bool]
    """Whether the kubelet refuses to start on a node with swap."""
    container_log_max_size: NotRequired[int]
    """MB of a container's log before it is rotated."""
    container_log_max_files: NotRequired[int]
    """Log files of a container."""
    pod_max_pids: NotRequired[int]
    """Processes of a pod; -1: as many as the node has."""


class LinuxOsConfigArgs(TypedDict):
    """Settings of the nodes' kernels."""

    transparent_huge_page_enabled: NotRequired[str]
    """always, madvise or never."""
    transparent_huge_page_defrag: NotRequired[str]
    """always, defer, defer+madvise, madvise or never."""
    swap_file_size: NotRequired[int]
    """MB of swap; needs kubeletConfig.failSwapOn: false."""
    sysctls: NotRequired[dict[str, Any]]
    """Kernel settings as Azure names them, e.g. {"netCoreRmemMax": 134217728}."""


class AksPoolArgs(TypedDict):
    """A GPU pool; the same fields as a pool of a stack file."""

    name: str
    """1 to 12 lower-case letters and digits; never cut."""
    sharing: pulumi.Input[Sharing]
    """A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}."""
    vm_size: str
    """A GPU size, e.g. Standard_NC24ads_A100_v4."""
    count: NotRequired[int]
    """A fixed number of nodes; or `nodes`."""
    nodes: NotRequired[NodeRangeArgs]
    """Bounds for the autoscaler; or `count`."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; as the cluster says by default."""
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
    adopted: NotRequired[bool]
    """The pool was made by hand, and imported: what the stack does not say of it stays as it is."""
    rollout: NotRequired[RolloutArgs]
    """How the pool's nodes change in place, a few at a time; without it all at once."""
    replace: NotRequired[str]
    """Where a change needs another pool: surge (made and proven first) or inPlace; this one is drained."""
    drain_timeout_seconds: NotRequired[int]
    """With replace: how long the pods of the old pool may take to go, in seconds."""
    gpu_model: NotRequired[str]
    """The GPU model, where no table has the size."""
    gpus_per_node: NotRequired[int]
    """GPUs of one machine, where no table has the size."""
    os_sku: NotRequired[str]
    """Ubuntu, Ubuntu2204, Ubuntu2404, AzureLinux or AzureLinux3."""
    zones: NotRequired[list[str]]
    """Availability zones."""
    partitioned_by: NotRequired[str]
    """Who partitions MIG GPUs: operator or aks."""
    spot: NotRequired[SpotArgs]
    """Spot VMs."""
    subnet: NotRequired[pulumi.Input[str]]
    """Id of the nodes' subnet; the cluster's by default."""
    pod_subnet: NotRequired[pulumi.Input[str]]
    """Id of the pods' subnet; the cluster's by default."""
    os_disk_size: NotRequired[int]
    """GiB of the nodes' disk; that of the size by default."""
    os_disk_type: NotRequired[str]
    """Managed, or Ephemeral: on the machine's own disk."""
    kubelet_disk_type: NotRequired[str]
    """Where images and emptyDir volumes lie: OS or Temporary."""
    max_pods: NotRequired[int]
    """Pods on a node, 10 to 250."""
    upgrade_settings: NotRequired[UpgradeSettingsArgs]
    """How nodes are replaced in an upgrade."""
    kubernetes_version: NotRequired[str]
    """The version of this pool's nodes; the cluster's by default."""
    scale_down_mode: NotRequired[str]
    """What becomes of nodes that the autoscaler takes out: Delete or Deallocate."""
    capacity_reservation_group: NotRequired[pulumi.Input[str]]
    """Id of a capacity reservation group."""
    proximity_placement_group: NotRequired[pulumi.Input[str]]
    """Id of a proximity placement group."""
    host_group: NotRequired[pulumi.Input[str]]
    """Id of a group of dedicated hosts."""
    kubelet_config: NotRequired[KubeletConfigArgs]
    """Settings of the kubelets."""
    linux_os_config: NotRequired[LinuxOsConfigArgs]
    """Settings of the nodes' kernels."""
    encryption_at_host: NotRequired[bool]
    """Encrypt disks and caches on the host."""
    fips: NotRequired[bool]
    """A node image with FIPS modules."""
    public_ip: NotRequired[bool]
    """A public address for each node."""
    public_ip_prefix: NotRequired[pulumi.Input[str]]
    """Id of the prefix that those addresses come from."""
    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """Tags of the pool besides the cluster's."""
    properties: NotRequired[dict[str, Any]]
    """Properties of azure-native's AgentPool, merged last into what is sent."""


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
    sharing: pulumi.Input[Sharing]
    """A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}."""
    flavor: str
    """Nova flavor."""
    count: NotRequired[int]
    """A fixed number of nodes; or `nodes`."""
    nodes: NotRequired[NodeRangeArgs]
    """Bounds for the autoscaler; or `count`."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; as the cluster says by default."""
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
    adopted: NotRequired[bool]
    """The group was made by hand, and imported: what the stack does not say of it stays as it is."""
    rollout: NotRequired[RolloutArgs]
    """How the pool's nodes change in place, a few at a time; without it all at once."""
    replace: NotRequired[str]
    """Where a change needs another group: surge (made and proven first) or inPlace; only in a GpuPlatform."""
    drain_timeout_seconds: NotRequired[int]
    """With replace: how long the pods of the old group may take to go, in seconds."""
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
    sharing: pulumi.Input[Sharing]
    """A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}."""
    node_selector: dict[str, str]
    """Labels that the pool's nodes have, and no other nodes."""
    gpu_model: str
    """A GPU model, e.g. a100-80gb."""
    gpus_per_node: int
    """GPUs of one node."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; as the cluster says by default."""
    labels: NotRequired[dict[str, str]]
    """Node labels besides those of the plan."""
    taints: NotRequired[list[str]]
    """Taints that the nodes have; they are tolerated."""
    driver: NotRequired[str]
    """Who installs the GPU driver: operator or preinstalled."""
    rollout: NotRequired[RolloutArgs]
    """How the pool's nodes change in place, a few at a time; without it all at once."""


class ExistingArgs(TypedDict):
    """A cluster of a cloud that is there: by `resource_group` and `name` on AKS, by `name` or `uuid` on Magnum."""

    resource_group: NotRequired[str]
    """The resource group that it is in."""
    name: NotRequired[str]
    """Its name."""
    subscription: NotRequired[str]
    """Its subscription, which the provider must be configured for."""
    login: NotRequired[str]
    """kubelogin's way to log in, where the cluster has Entra ID; azurecli by default."""
    uuid: NotRequired[str]
    """Its UUID."""


class ClusterArgs(TypedDict):
    """A stack file's section `cluster`: the platform, and what making or reaching the cluster needs there."""

    platform: str
    """aks, magnum or existing."""
    name: NotRequired[str]
    """The cluster's name in Azure."""
    location: NotRequired[str]
    """An Azure region."""
    resource_group: NotRequired[str]
    """Name of the resource group, which is made; the cluster's name by default."""
    kubernetes_version: NotRequired[str]
    """The version, e.g. 1.34; what Azure offers by default."""
    tier: NotRequired[str]
    """Free, Standard or Premium."""
    system_pool: NotRequired[SystemPoolArgs]
    """The pool for the cluster's own pods."""
    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """Tags of group and cluster."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; devicePlugin by default."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the cluster. The pools can still be replaced."""
    entra: NotRequired[EntraArgs]
    """Log-in with Entra ID, and no local accounts; without it the kubeconfig is an administrator's."""
    check_cloud: NotRequired[bool]
    """Whether the cloud is asked first for what the cluster needs of it; true by default."""
    existing_resource_group: NotRequired[str]
    """Name of a resource group that is there, instead of one that the stack makes."""
    node_resource_group: NotRequired[str]
    """Name of the group that Azure makes for machines and disks."""
    network: NotRequired[NetworkArgs]
    """Where nodes and pods lie, and how they talk."""
    api_server: NotRequired[ApiServerArgs]
    """Who can reach the API server."""
    identity: NotRequired[IdentityArgs]
    """As whom the cluster acts in Azure."""
    oidc_issuer: NotRequired[bool]
    """An issuer of tokens that Entra ID trusts."""
    workload_identity: NotRequired[bool]
    """Pods act as identities of Entra ID; needs oidcIssuer."""
    key_vault_secrets: NotRequired[KeyVaultSecretsArgs]
    """Secrets of Azure Key Vault as volumes; {} for the defaults."""
    upgrades: NotRequired[UpgradesArgs]
    """Upgrades that Azure makes by itself."""
    maintenance: NotRequired[MaintenanceArgs]
    """When Azure may upgrade by itself."""
    autoscaler: NotRequired[AutoscalerArgs]
    """The cluster autoscaler, the same for all pools."""
    container_registries: NotRequired[list[pulumi.Input[str]]]
    """Ids of registries that the nodes may pull from."""
    monitoring: NotRequired[MonitoringArgs]
    """Logs and metrics in Azure Monitor."""
    properties: NotRequired[dict[str, Any]]
    """Properties of azure-native's ManagedCluster, merged last into what is sent."""
    driver: NotRequired[str]
    """Magnum's driver in this cloud: heat, magnum-cluster-api or capi-helm."""
    template_id: NotRequired[str]
    """Name or UUID of a template that exists."""
    template: NotRequired[MagnumTemplateArgs]
    """A template to make."""
    keypair: NotRequired[pulumi.Input[str]]
    """Name of a keypair for the nodes."""
    masters: NotRequired[int]
    """An odd number; 1 by default."""
    workers: NotRequired[int]
    """Nodes of the default worker group, which runs the cluster's own pods; 1 by default."""
    worker_flavor: NotRequired[str]
    """Flavor of that group; the template's by default."""
    labels: NotRequired[dict[str, str]]
    """Settings of Magnum's driver, merged over the template's. A change makes a new cluster."""
    fixed_network: NotRequired[pulumi.Input[str]]
    """A private network for the nodes, by name or id."""
    fixed_subnet: NotRequired[pulumi.Input[str]]
    """A subnet of it, by name or id."""
    floating_ip: NotRequired[bool]
    """Whether nodes have floating IPs; as the template has it by default."""
    master_load_balancer: NotRequired[bool]
    """Whether a load balancer stands before the masters; several masters have one."""
    availability_zone: NotRequired[str]
    """Nova's availability zone."""
    boot_volume: NotRequired[BootVolumeArgs]
    """A volume as the machines' disk."""
    auto_healing: NotRequired[bool]
    """Whether the driver replaces nodes that are not healthy."""
    kubeconfig: NotRequired[str]
    """Path of a kubeconfig file; by default KUBECONFIG, else ~/.kube/config."""
    kubeconfig_content: NotRequired[pulumi.Input[str]]
    """A kubeconfig itself, instead of a file; a secret."""
    context: NotRequired[str]
    """Context of that file; its current one by default."""
    existing: NotRequired[ExistingArgs]
    """A cluster that is there, instead of one that is made."""


class PoolArgs(TypedDict):
    """A GPU pool of any platform."""

    name: str
    """1 to 12 lower-case letters and digits; never cut."""
    sharing: pulumi.Input[Sharing]
    """A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}."""
    count: NotRequired[int]
    """A fixed number of nodes; or `nodes`."""
    nodes: NotRequired[NodeRangeArgs]
    """Bounds for the autoscaler; or `count`."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; as the cluster says by default."""
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
    adopted: NotRequired[bool]
    """The pool was made by hand, and imported: what the stack does not say of it stays as it is."""
    rollout: NotRequired[RolloutArgs]
    """How the pool's nodes change in place, a few at a time; without it all at once."""
    replace: NotRequired[str]
    """Where a change needs another pool: surge (made and proven first) or inPlace; this one is drained."""
    drain_timeout_seconds: NotRequired[int]
    """With replace: how long the pods of the old pool may take to go, in seconds."""
    vm_size: NotRequired[str]
    """A GPU size, e.g. Standard_NC24ads_A100_v4."""
    gpu_model: NotRequired[str]
    """The GPU model, where no table has the size."""
    gpus_per_node: NotRequired[int]
    """GPUs of one machine, where no table has the size."""
    os_sku: NotRequired[str]
    """Ubuntu, Ubuntu2204, Ubuntu2404, AzureLinux or AzureLinux3."""
    zones: NotRequired[list[str]]
    """Availability zones."""
    partitioned_by: NotRequired[str]
    """Who partitions MIG GPUs: operator or aks."""
    spot: NotRequired[SpotArgs]
    """Spot VMs."""
    subnet: NotRequired[pulumi.Input[str]]
    """Id of the nodes' subnet; the cluster's by default."""
    pod_subnet: NotRequired[pulumi.Input[str]]
    """Id of the pods' subnet; the cluster's by default."""
    os_disk_size: NotRequired[int]
    """GiB of the nodes' disk; that of the size by default."""
    os_disk_type: NotRequired[str]
    """Managed, or Ephemeral: on the machine's own disk."""
    kubelet_disk_type: NotRequired[str]
    """Where images and emptyDir volumes lie: OS or Temporary."""
    max_pods: NotRequired[int]
    """Pods on a node, 10 to 250."""
    upgrade_settings: NotRequired[UpgradeSettingsArgs]
    """How nodes are replaced in an upgrade."""
    kubernetes_version: NotRequired[str]
    """The version of this pool's nodes; the cluster's by default."""
    scale_down_mode: NotRequired[str]
    """What becomes of nodes that the autoscaler takes out: Delete or Deallocate."""
    capacity_reservation_group: NotRequired[pulumi.Input[str]]
    """Id of a capacity reservation group."""
    proximity_placement_group: NotRequired[pulumi.Input[str]]
    """Id of a proximity placement group."""
    host_group: NotRequired[pulumi.Input[str]]
    """Id of a group of dedicated hosts."""
    kubelet_config: NotRequired[KubeletConfigArgs]
    """Settings of the kubelets."""
    linux_os_config: NotRequired[LinuxOsConfigArgs]
    """Settings of the nodes' kernels."""
    encryption_at_host: NotRequired[bool]
    """Encrypt disks and caches on the host."""
    fips: NotRequired[bool]
    """A node image with FIPS modules."""
    public_ip: NotRequired[bool]
    """A public address for each node."""
    public_ip_prefix: NotRequired[pulumi.Input[str]]
    """Id of the prefix that those addresses come from."""
    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """Tags of the pool besides the cluster's."""
    properties: NotRequired[dict[str, Any]]
    """Properties of azure-native's AgentPool, merged last into what is sent."""
    flavor: NotRequired[str]
    """Nova flavor."""
    image: NotRequired[str]
    """Image of the nodes; the template's by default."""
    node_group_labels: NotRequired[dict[str, str]]
    """Settings of Magnum's driver for this group."""
    docker_volume_size: NotRequired[int]
    """GiB of the volume for container images."""
    node_selector: NotRequired[dict[str, str]]
    """Labels that the pool's nodes have, and no other nodes."""


class NamedPoolArgs(TypedDict):
    """A stack file's entry of `pools`: a GPU pool of any platform."""

    name: str
    """1 to 12 lower-case letters and digits; never cut."""
    sharing: str
    """The name of a declaration."""
    count: NotRequired[int]
    """A fixed number of nodes; or `nodes`."""
    nodes: NotRequired[NodeRangeArgs]
    """Bounds for the autoscaler; or `count`."""
    allocation: NotRequired[str]
    """Through what pods get GPUs: devicePlugin or dra; as the cluster says by default."""
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
    adopted: NotRequired[bool]
    """The pool was made by hand, and imported: what the stack does not say of it stays as it is."""
    rollout: NotRequired[RolloutArgs]
    """How the pool's nodes change in place, a few at a time; without it all at once."""
    replace: NotRequired[str]
    """Where a change needs another pool: surge (made and proven first) or inPlace; this one is drained."""
    drain_timeout_seconds: NotRequired[int]
    """With replace: how long the pods of the old pool may take to go, in seconds."""
    vm_size: NotRequired[str]
    """A GPU size, e.g. Standard_NC24ads_A100_v4."""
    gpu_model: NotRequired[str]
    """The GPU model, where no table has the size."""
    gpus_per_node: NotRequired[int]
    """GPUs of one machine, where no table has the size."""
    os_sku: NotRequired[str]
    """Ubuntu, Ubuntu2204, Ubuntu2404, AzureLinux or AzureLinux3."""
    zones: NotRequired[list[str]]
    """Availability zones."""
    partitioned_by: NotRequired[str]
    """Who partitions MIG GPUs: operator or aks."""
    spot: NotRequired[SpotArgs]
    """Spot VMs."""
    subnet: NotRequired[pulumi.Input[str]]
    """Id of the nodes' subnet; the cluster's by default."""
    pod_subnet: NotRequired[pulumi.Input[str]]
    """Id of the pods' subnet; the cluster's by default."""
    os_disk_size: NotRequired[int]
    """GiB of the nodes' disk; that of the size by default."""
    os_disk_type: NotRequired[str]
    """Managed, or Ephemeral: on the machine's own disk."""
    kubelet_disk_type: NotRequired[str]
    """Where images and emptyDir volumes lie: OS or Temporary."""
    max_pods: NotRequired[int]
    """Pods on a node, 10 to 250."""
    upgrade_settings: NotRequired[UpgradeSettingsArgs]
    """How nodes are replaced in an upgrade."""
    kubernetes_version: NotRequired[str]
    """The version of this pool's nodes; the cluster's by default."""
    scale_down_mode: NotRequired[str]
    """What becomes of nodes that the autoscaler takes out: Delete or Deallocate."""
    capacity_reservation_group: NotRequired[pulumi.Input[str]]
    """Id of a capacity reservation group."""
    proximity_placement_group: NotRequired[pulumi.Input[str]]
    """Id of a proximity placement group."""
    host_group: NotRequired[pulumi.Input[str]]
    """Id of a group of dedicated hosts."""
    kubelet_config: NotRequired[KubeletConfigArgs]
    """Settings of the kubelets."""
    linux_os_config: NotRequired[LinuxOsConfigArgs]
    """Settings of the nodes' kernels."""
    encryption_at_host: NotRequired[bool]
    """Encrypt disks and caches on the host."""
    fips: NotRequired[bool]
    """A node image with FIPS modules."""
    public_ip: NotRequired[bool]
    """A public address for each node."""
    public_ip_prefix: NotRequired[pulumi.Input[str]]
    """Id of the prefix that those addresses come from."""
    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """Tags of the pool besides the cluster's."""
    properties: NotRequired[dict[str, Any]]
    """Properties of azure-native's AgentPool, merged last into what is sent."""
    flavor: NotRequired[str]
    """Nova flavor."""
    image: NotRequired[str]
    """Image of the nodes; the template's by default."""
    node_group_labels: NotRequired[dict[str, str]]
    """Settings of Magnum's driver for this group."""
    docker_volume_size: NotRequired[int]
    """GiB of the volume for container images."""
    node_selector: NotRequired[dict[str, str]]
    """Labels that the pool's nodes have, and no other nodes."""


class ChartSourceArgs(TypedDict):
    """Where a chart is fetched from: exactly one of the three."""

    repository: NotRequired[str]
    """URL of a Helm repository."""
    oci: NotRequired[str]
    """An oci:// reference."""
    path: NotRequired[str]
    """A local folder or .tgz."""


class OperatorSectionArgs(TypedDict):
    """A stack file's section `operator`: the GPU operator."""

    driver: NotRequired[str]
    """Who installs the driver on pools that do not say it: operator or preinstalled."""
    mig_strategy: NotRequired[str]
    """single or mixed; derived from the pools by default."""
    install: NotRequired[bool]
    """False: the cluster has one already, which is configured."""
    kubelet_sync_seconds: NotRequired[int]
    """How often kubelets bring changed ConfigMaps to pods; 60 by default."""
    driver_upgrade: NotRequired[DriverUpgradeArgs]
    """How drivers are replaced on living nodes; as the chart has it by default."""
    values_file: NotRequired[str]
    """With a version that is not known: a file with what `helm show values` prints of it."""
    version: NotRequired[str]
    """The chart's version."""
    chart: NotRequired[ChartSourceArgs]
    """Where it is fetched from; NVIDIA's repository by default."""
    values: NotRequired[dict[str, Any]]
    """Values of the chart, merged last."""


class NodeFeatureDiscoverySectionArgs(TypedDict):
    """A stack file's section `nodeFeatureDiscovery`."""

    install: NotRequired[bool]
    """False: the cluster has one already."""
    marker_image: NotRequired[str]
    """Image of the labellers; it needs sh."""
    values_file: NotRequired[str]
    """With a version that is not known: a file with what `helm show values` prints of it."""
    version: NotRequired[str]
    """The chart's version."""
    chart: NotRequired[ChartSourceArgs]
    """Where it is fetched from; the project's repository by default."""
    values: NotRequired[dict[str, Any]]
    """Values of the chart, merged last."""


class DraDriverSectionArgs(TypedDict):
    """A stack file's section `draDriver`: NVIDIA's DRA driver."""

    values_file: NotRequired[str]
    """With a version that is not known: a file with what `helm show values` prints of it."""
    version: NotRequired[str]
    """The chart's version."""
    chart: NotRequired[ChartSourceArgs]
    """Where it is fetched from; the project's repository by default."""
    values: NotRequired[dict[str, Any]]
    """Values of the chart, merged last."""


class PrometheusStackArgs(TypedDict):
    """In the section `observability`: the chart kube-prometheus-stack."""

    values_file: NotRequired[str]
    """With a version that is not known: a file with what `helm show values` prints of it."""
    version: NotRequired[str]
    """The chart's version."""
    chart: NotRequired[ChartSourceArgs]
    """Where it is fetched from; its makers' repository by default."""
    values: NotRequired[dict[str, Any]]
    """Values of the chart, merged last."""


class AzureMonitorArgs(TypedDict):
    """In the section `observability`: Azure's Managed Prometheus and Grafana."""

    workspace: NotRequired[str]
    """Id of an Azure Monitor workspace that is there; by default the stack makes one."""
    location: NotRequired[str]
    """The workspace's region; the cluster's by default."""
    grafana_admins: NotRequired[list[str]]
    """Object ids of groups in Entra ID that administer a Managed Grafana; without any none is made."""
    action_groups: NotRequired[list[str]]
    """Ids of action groups that receive the alerts."""


class ObservabilitySectionArgs(TypedDict):
    """A stack file's section `observability`: what is measured of the GPUs, and who reads it."""

    to: NotRequired[str]
    """prometheus, which the cluster has; kube-prometheus-stack, which is installed; azure, on AKS; none: nobody reads."""
    prometheus_stack: NotRequired[PrometheusStackArgs]
    """Of the chart kube-prometheus-stack."""
    azure: NotRequired[AzureMonitorArgs]
    """Of Azure Monitor."""
    interval_seconds: NotRequired[int]
    """Between two values, of the exporter as of the scrapes; 30 by default."""
    labels: NotRequired[dict[str, str]]
    """Of the monitors and the PrometheusRule, by which a Prometheus selects them."""
    runbooks: NotRequired[str]
    """URL of a copy of docs/runbooks."""
    dashboards: NotRequired[bool]
    """Whether there are Grafana dashboards, as ConfigMaps; true by default."""
    dashboard_labels: NotRequired[dict[str, str]]
    """Of these ConfigMaps; grafana_dashboard: "1" by default."""


class VerificationSectionArgs(TypedDict):
    """A stack file's section `verification`: of the nodes, after a deploy."""

    enabled: NotRequired[bool]
    """Whether nodes are verified; true where the section is there."""
    deadline_seconds: NotRequired[int]
    """How long a node may take to become what was declared."""
    interval_seconds: NotRequired[int]
    """Between two assertions afterwards."""
    startup_taint: NotRequired[bool]
    """Whether new nodes register with a taint that goes once they have passed."""
    image: NotRequired[str]
    """Python 3.11 or newer, by digest."""
    smoke_test: NotRequired[bool]
    """Whether pods use each pool after its nodes were verified."""
    smoke_test_image: NotRequired[str]
    """A shell, and a CUDA program /cuda-samples/sample."""


class RegistrySectionArgs(TypedDict):
    """A stack file's section `registry`: a registry of one's own, from which all images come."""

    mirror: NotRequired[str]
    """Its host, and a path below it."""
    pull_secret: NotRequired[str]
    """Name of the Secret that pods pull with; gpu-pools-registry by default, where a user is named."""
    username: NotRequired[pulumi.Input[str]]
    """With it the stack makes that Secret in each of its namespaces."""
    password: NotRequired[pulumi.Input[str]]
    """Of that user; a secret."""


class AcknowledgementArgs(TypedDict):
    """A replacement that somebody wants although it is protected."""

    resource: str
    """A pool's name, or cluster."""
    change: str
    """The id that `gpu-pools changes` shows."""
    reason: str
    """Why that is right."""


if TYPE_CHECKING:
    AksPoolLike = AksPoolArgs | PoolArgs | dict[str, Any] | Declared
    MagnumPoolLike = MagnumPoolArgs | PoolArgs | dict[str, Any] | Declared
    ExistingPoolLike = ExistingPoolArgs | PoolArgs | dict[str, Any] | Declared
    PoolLike = AksPoolArgs | MagnumPoolArgs | ExistingPoolArgs | PoolArgs | dict[str, Any] | Declared
    NamedPool = NamedPoolArgs | dict[str, Any]
    Cluster = ClusterArgs | dict[str, Any]
else:
    # One type in the schema: Go, C# and Java have no other way to hand one declaration to all components.
    AksPoolLike = MagnumPoolLike = ExistingPoolLike = PoolLike = PoolArgs
    NamedPool, Cluster = NamedPoolArgs, ClusterArgs
