"""AKS: a resource group, a managed cluster with a system pool, and GPU pools as agent pools of their own.

Not managed here, and why: networks, identities, registries, log workspaces and groups of Entra ID, which a platform team owns
elsewhere: they are named by id; the machines of the system pool once it is there (gpu_pools/platforms/aks/changes.py says why,
and what is reported instead; its version follows the control plane by hooks, components/aks/system_pool.py); node counts of
autoscaled pools, which belong to the autoscaler. Labels and taints of a pool are put by AKS on live and new nodes alike, so
nothing is patched node by node.

The cluster always sends the system pool alone. Its list of pools is not ignored: after a refresh the plugin's inputs have every
pool of the cluster, and a cluster that sends a pool which has gone since is refused (pulumi-azure-native#2719).
"""

import base64
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_azure_native import authorization, containerservice, resources

from gpu_pools.components.aks.check import check_cloud
from gpu_pools.components.aks.entra_login import try_login
from gpu_pools.components.aks.sdk_arguments import arguments
from gpu_pools.components.aks.sdk_types import without_older_types
from gpu_pools.components.aks.system_pool import SystemPool, comes_first
from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.stack import AksClusterArgs, AksPoolArgs, AksPoolLike
from gpu_pools.components.arguments.to_stack import ALONE, located_in, plan_alone, stack_keys
from gpu_pools.components.engine import log
from gpu_pools.components.engine.held import held_hook
from gpu_pools.components.engine.not_known_yet import not_known_yet
from gpu_pools.components.engine.options import child_options, unless_false
from gpu_pools.components.engine.outputs import put_back, put_off
from gpu_pools.components.gpu_operator.config_keys import after_operator, find_pool_plan, once_agreed
from gpu_pools.components.kubernetes.provider import kubernetes_provider
from gpu_pools.components.replacement import keeps_its_name, other_names, resource_name
from gpu_pools.plan.planned import PoolPlan
from gpu_pools.platforms.aks.changes import SYSTEM_POOL, left_out, never_updated, refused_cluster_changes
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.entra import EntraSettings, user_kubeconfig
from gpu_pools.platforms.aks.found import PRIVATE
from gpu_pools.platforms.aks.inputs import cluster_inputs, maintenance_windows, merged, subnets
from gpu_pools.platforms.aks.options import Monitoring
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.platforms.aks.pool_inputs import Around, counts, kept_as_found, pool_inputs
from gpu_pools.platforms.aks.properties import replacing
from gpu_pools.platforms.aks.system_pool import announced, left_to_others
from gpu_pools.platforms.aks.together import aks_cluster_warnings
from gpu_pools.platforms.known import parse_cluster
from gpu_pools.reading.fields import camel
from gpu_pools.text.errors import InvalidStackError, Problem, Problems

if TYPE_CHECKING:
    from gpu_pools.components.gpu_operator.operator import GpuOperator

__all__ = ["AksCluster", "AksClusterArgs", "AksGpuNodePool", "AksGpuNodePoolArgs", "AksPoolArgs"]

_LONGEST_DNS_PREFIX = 54
#: Below a subscription; the role has the same id in all of them (azure built-in roles).
_ACR_PULL = "/providers/Microsoft.Authorization/roleDefinitions/7f951dda-4ed3-4680-a7ca-43fe172d538d"


class AksCluster(pulumi.ComponentResource):
    """A managed cluster with a system pool, ready for GPU pools."""

    cluster_id: pulumi.Output[str]
    """The cluster's ARM id."""
    cluster_name: pulumi.Output[str]
    """The cluster's name."""
    resource_group_name: pulumi.Output[str]
    """The resource group's name."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig of a cluster user; a secret. With `entra` it says how to log in; without, it has an administrator's key."""

    def __init__(
        self,
        name: str,
        args: AksClusterArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: AksSettings | None = None,
    ) -> None:
        """Make the cluster.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: what the arguments mean, where they were checked with a whole stack.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments, or that Azure lacks; with Entra ID, if nobody is
                logged in.
        """
        args = known_args(f"AksCluster({name})", args, AksClusterArgs)
        settings = planned or _cluster_settings(f"AksCluster({name})", args)
        super().__init__("gpu-pools:index:AksCluster", name, None, opts)
        with located_in(f"AksCluster({name})", ALONE):
            check_cloud(settings, self)
        if settings.options.api_server and settings.options.api_server.private:
            log.warn(f"{PRIVATE}, from its first deploy on", self)
        # With a whole stack they are among the warnings of its plan.
        for warning in aks_cluster_warnings(settings) if planned is None else ():
            log.warn(warning, self)
        if settings.entra:
            try_login(f"AksCluster({name})", settings.entra, self)
        group = self._group(name, settings, opts)
        system = SystemPool(settings, self)
        #: What everything inside the cluster goes away with.
        self.resource = containerservice.ManagedCluster(
            f"{name}-cluster",
            **arguments(containerservice.ManagedClusterArgs, _cluster_inputs(settings)),
            resource_name_=settings.name,
            resource_group_name=group,
            opts=child_options(
                self,
                opts,
                # Its name is given, so a replacement cannot stand beside it.
                delete_before_replace=True,
                protect=unless_false(settings.protect),
                replace_on_changes=replacing("ManagedCluster"),
                hooks=pulumi.ResourceHookBinding(before_update=[_change_hook(name, system)], after_update=[system.hook(name)]),
                transformations=[without_older_types],
            ),
        )
        self.cluster_id = self.resource.id
        self.cluster_name = self.resource.name
        self.resource_group_name = pulumi.Output.from_input(group)
        self._upkeep(name, settings, opts)
        self.kubeconfig = self._kubeconfig(settings.resource_group, settings.entra)
        #: For everything that is put into this cluster.
        self.kubernetes = kubernetes_provider(name, self, self.kubeconfig, self.cluster_id, given=opts)
        self.register_outputs(
            {
                "cluster_id": self.cluster_id,
                "cluster_name": self.cluster_name,
                "resource_group_name": self.resource_group_name,
                "kubeconfig": self.kubeconfig,
            }
        )

    def _group(self, name: str, settings: AksSettings, opts: pulumi.ResourceOptions | None) -> pulumi.Input[str]:
        """The name of the resource group: of one that is made, or of one that is there."""
        if settings.options.existing_resource_group is None:
            made = resources.ResourceGroup(
                f"{name}-group",
                resource_group_name=settings.resource_group,
                location=settings.location,
                tags=put_back(dict(settings.tags)),
                opts=child_options(self, opts, transformations=[without_older_types]),
            )
            return made.name
        found = resources.get_resource_group_output(
            resource_group_name=settings.resource_group, opts=pulumi.InvokeOutputOptions(parent=self)
        )
        # Under the same name: a group that the stack has made is let go then, and not deleted with all that is in it.
        resources.ResourceGroup.get(f"{name}-group", found.id, opts=pulumi.ResourceOptions(parent=self))
        return settings.resource_group

    def _upkeep(self, name: str, settings: AksSettings, opts: pulumi.ResourceOptions | None) -> None:
        """What belongs to the cluster as resources of their own: windows for upgrades, rights to pull images."""
        for window, inputs in maintenance_windows(settings.options.maintenance).items():
            containerservice.MaintenanceConfiguration(
                f"{name}-{window}",
                resource_group_name=self.resource_group_name,
                resource_name_=self.cluster_name,
                config_name=window,
                maintenance_window=cast("Any", inputs),
                opts=child_options(self, opts, transformations=[without_older_types]),
            )
        if (monitoring := settings.options.monitoring) and monitoring.workspace:
            self._logs(name, monitoring, settings, opts)
        for index, registry in enumerate(settings.options.container_registries):
            self._pull(f"{name}-registry-{index}", put_back(registry), settings, opts)

    def _logs(self, name: str, monitoring: Monitoring, settings: AksSettings, opts: pulumi.ResourceOptions | None) -> None:
        # Loaded only where it is used.
        from gpu_pools.components.observability.azure_monitor import AzureCluster, container_logs  # noqa: PLC0415

        location = monitoring.location or settings.location
        tags = put_back(dict(settings.tags))
        cluster = AzureCluster(settings.name, self.resource_group_name, self.resource.id, location, tags)
        container_logs(name, put_back(monitoring.workspace), cluster, child_options(self, opts))

    def _pull(self, name: str, registry: pulumi.Input[str], settings: AksSettings, opts: pulumi.ResourceOptions | None) -> None:
        scope = pulumi.Output.from_input(registry)
        cluster = f"{settings.resource_group}/{settings.name}"
        authorization.RoleAssignment(
            name,
            # A GUID of the user's choice; the same each time, so that it is found again.
            role_assignment_name=scope.apply(lambda id_: str(uuid.uuid5(uuid.NAMESPACE_URL, f"{id_}/{cluster}/AcrPull".lower()))),
            scope=scope,
            principal_id=self._kubelet(settings),
            principal_type=authorization.PrincipalType.SERVICE_PRINCIPAL,
            role_definition_id=scope.apply(lambda id_: f"/subscriptions/{id_.split('/')[2]}{_ACR_PULL}"),
            opts=child_options(self, opts),
        )

    def _kubelet(self, settings: AksSettings) -> pulumi.Output[str]:
        """Object id of the identity as which nodes pull images.

        Asked for, and not taken from the cluster's outputs: these are unknown in the preview of each of its updates, and another
        principal replaces an assignment.
        """
        answer = containerservice.get_managed_cluster_output(
            resource_group_name=settings.resource_group,
            resource_name=self.cluster_name,
            opts=pulumi.InvokeOutputOptions(parent=self, depends_on=[self.resource]),
        )
        return answer.apply(lambda found: str((found.identity_profile or {})["kubeletidentity"].object_id))

    def _kubeconfig(self, group: str, entra: EntraSettings | None) -> pulumi.Output[str]:
        # An engine that is held to the plan of a preview takes no dependency that the preview had not, and of a call that waits
        # for what is yet to be made the SDK knows none then. So the group goes in as text, with the cluster beside the answer.
        answer = containerservice.list_managed_cluster_user_credentials_output(
            resource_group_name=group,
            resource_name=self.cluster_name,
            format="exec" if entra else None,
            opts=pulumi.InvokeOutputOptions(parent=self, depends_on=[self.resource]),
        )
        both = pulumi.Output.all(self.resource.id, answer)
        text = both.apply(lambda known: base64.b64decode(known[1].kubeconfigs[0].value).decode())
        return pulumi.Output.secret(text.apply(lambda given: _for_kubelogin(given, entra.login)) if entra else text)


def _for_kubelogin(text: str, login: str) -> str | pulumi.Output[str]:
    try:
        return user_kubeconfig(text, login)
    except InvalidStackError:
        if not pulumi.runtime.is_dry_run():
            raise
        # A cluster that is up, and gets Entra ID by the deploy that this is the preview of, is asked before it has it.
        return not_known_yet()


class AksGpuNodePoolArgs(TypedDict):
    """Where the pool goes, and the pool."""

    cluster_name: pulumi.Input[str]
    """The managed cluster."""
    resource_group_name: pulumi.Input[str]
    """Its resource group."""
    pool: NotRequired[pulumi.Input[AksPoolLike]]
    """The pool: a component that declares it (AksPool), its `declared`, or a mapping."""
    mig_strategy: NotRequired[pulumi.Input[str]]
    """The operator's output of this name: the cluster's MIG strategy."""
    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file; of a declared pool its own."""
    config_keys: NotRequired[pulumi.Input[list[str]]]
    """The operator's output of this name; a pool whose config the operator lacks is then refused."""
    kubernetes_version: NotRequired[str]
    """The cluster's version: Azure leaves pools behind that name none. Leave it out where the cluster upgrades itself."""
    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """Tags of the pool."""
    node_subnet: NotRequired[pulumi.Input[str]]
    """The cluster's subnet for nodes, for pools that name none."""
    pod_subnet: NotRequired[pulumi.Input[str]]
    """The cluster's subnet for pods, for pools that name none."""


class AksGpuNodePool(pulumi.ComponentResource):
    """One GPU pool of an AKS cluster, with the labels and taints that its sharing needs."""

    pool_id: pulumi.Output[str]
    """The agent pool's ARM id."""
    pool_name: pulumi.Output[str]
    """The pool's name."""
    advertises: pulumi.Output[dict[str, int]]
    """Resource -> count that every node must advertise."""

    def __init__(
        self,
        name: str,
        args: AksGpuNodePoolArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: PoolPlan | None = None,
        operator: "GpuOperator | None" = None,
    ) -> None:
        """Make the pool.

        Args:
            name: of the component.
            args: where it goes, and the pool.
            opts: options of the component.
            planned: the pool as part of a plan, instead of `pool`.
            operator: the one that was given the pool; what others decide of it is taken from there, and it comes first.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        is_part = planned is not None
        args = known_args(f"AksGpuNodePool({name})", args, AksGpuNodePoolArgs)
        pool_plan = find_pool_plan(f"AksGpuNodePool({name})", args, planned, operator, _alone(name, args))
        if pool_plan.pool.replacement == "inPlace" and not is_part:
            raise InvalidStackError([_nobody_drains(name)])
        opts = after_operator(opts, operator)
        inputs = pool_inputs(pool_plan, _around(args))
        super().__init__("gpu-pools:index:AksGpuNodePool", name, _told(pool_plan), opts)
        #: What follows from the declaration, for whoever installs the GPU operator.
        self.planned = pool_plan
        pool = containerservice.AgentPool(
            resource_name(f"{name}-pool", pool_plan),
            **arguments(containerservice.AgentPoolArgs, inputs),
            node_labels=once_agreed(f"AksGpuNodePool({name})", pool_plan, args.get("config_keys"), pool_plan.placed_labels),
            resource_group_name=args["resource_group_name"],
            resource_name_=args["cluster_name"],
            opts=child_options(
                self,
                opts,
                # The name is unique in the cluster, so a replacement cannot stand beside the old pool.
                delete_before_replace=True,
                protect=unless_false(pool_plan.protect),
                replace_on_changes=replacing("AgentPool"),
                ignore_changes=[
                    *(["count"] if pool_plan.pool.autoscaled else []),
                    *kept_as_found(pool_plan, inputs),
                    *keeps_its_name(pool_plan, "agentPoolName"),
                ],
                hooks=_pool_hooks(name, pool_plan),
                aliases=other_names(f"{name}-pool", pool_plan),
                transformations=[without_older_types],
            ),
        )
        self.pool_id = pool.id
        self.pool_name = pulumi.Output.from_input(pool_plan.name)
        self.advertises = pulumi.Output.from_input(dict(pool_plan.advertises))
        self.register_outputs(
            {"pool_id": self.pool_id, "pool_name": self.pool_name, "advertises": self.advertises},
        )


def _told(pool_plan: PoolPlan) -> dict[str, Any] | None:
    """Inputs of the component, so that whoever judges the program sees what the agent pool does not say (policies/kinds.py)."""
    return {"changedLabels": pool_plan.changed_labels} if pool_plan.changed_labels else None


def _nobody_drains(name: str) -> Problem:
    return Problem(
        f"AksGpuNodePool({name}).replace",
        "inPlace drains the pool before it is replaced, and a pool by itself does not know how to reach its cluster",
        "inPlace in a GpuPlatform or a stack file",
        "Leave it out, or make the pool with GpuPlatform.",
    )


#: Arguments that are mappings of arguments, in both spellings.
_MAPPINGS = tuple(
    spelling
    for key in (
        *("system_pool", "nodes", "entra", "network", "load_balancer", "api_server", "identity", "kubelet", "key_vault_secrets"),
        *("upgrades", "maintenance", "cluster_upgrade", "node_os_upgrade", "autoscaler", "monitoring"),
    )
    for spelling in dict.fromkeys((key, camel(key)))
)


def _cluster_settings(what: str, args: AksClusterArgs) -> AksSettings:
    problems = Problems()
    written = put_off({**stack_keys(args, *_MAPPINGS), "platform": "aks"})
    settings = parse_cluster(written, what, problems, complete=True)
    problems.raise_if_any()
    return cast("AksSettings", settings)


def _change_hook(name: str, system: SystemPool) -> pulumi.ResourceHook:
    """Looks at what an update would change, in previews too: the plugin calls everything an update, Azure does not."""

    def judge(change: pulumi.ResourceHookArgs) -> None:
        _judge_change(change, system)

    return pulumi.ResourceHook(f"{name}-cluster-change", judge, pulumi.ResourceHookOptions(on_dry_run=True))


def _pool_hooks(name: str, pool_plan: PoolPlan) -> pulumi.ResourceHookBinding:
    """Looks at what an update would ask in vain, or leave behind, in previews too; then the system pool comes first."""
    if pool_plan.imported:
        return pulumi.ResourceHookBinding(before_update=[held_hook(name, "pool")])
    looks = pulumi.ResourceHook(f"{name}-pool-change", _judge_pool, pulumi.ResourceHookOptions(on_dry_run=True))
    placement = cast("AksPlacement", pool_plan.pool.placement)
    first = comes_first(name, is_pinned=placement.options.kubernetes_version is not None)
    return pulumi.ResourceHookBinding(before_create=[*first], before_update=[looks, *first])


def _judge_pool(change: pulumi.ResourceHookArgs) -> None:
    new = change.new_inputs or {}
    if problems := list(never_updated("AgentPool", change.old_inputs or {}, new)):
        raise InvalidStackError(problems)
    for warning in left_out("AgentPool", change.old_inputs or {}, new):
        log.warn(f"pool {new.get('agentPoolName')}: {warning}")


def _judge_change(change: pulumi.ResourceHookArgs, system: SystemPool) -> None:
    old, new, told = change.old_inputs or {}, change.new_inputs or {}, change.old_outputs or {}
    refused = refused_cluster_changes(old, new, told.get("currentKubernetesVersion"), told.get("agentPoolProfiles"))
    if problems := [*refused, *never_updated("ManagedCluster", old, new)]:
        raise InvalidStackError(problems)
    if follows := announced(old, new, told.get("agentPoolProfiles")):
        _announce(follows, new, system)
    for warning in left_out("ManagedCluster", old, new):
        log.warn(f"cluster {new.get('resourceName')}: {warning}")


def _announce(follows: str, new: Mapping[str, Any], system: SystemPool) -> None:
    """In a preview: what the deploy does to the system pool, or why it cannot; in a deploy it is said when it happens."""
    if not pulumi.runtime.is_dry_run():
        return
    if problem := system.login_problem():
        log.warn(left_to_others(new.get("resourceGroupName"), new.get("resourceName"), str(new["kubernetesVersion"]), problem))
    else:
        log.warn(follows)


def _cluster_inputs(settings: AksSettings) -> dict[str, Any]:
    """As the plugin calls them."""
    own = {
        "location": settings.location,
        "dnsPrefix": settings.name.replace("_", "-")[:_LONGEST_DNS_PREFIX].strip("-"),
        "kubernetesVersion": settings.kubernetes_version,
        "sku": {"name": "Base", "tier": settings.tier},
        "enableRBAC": True,
        "agentPoolProfiles": [_system_pool(settings)],
        "tags": dict(settings.tags),
        **(_entra(settings.entra) if settings.entra else {}),
    }
    return merged(merged(own, cluster_inputs(settings.options)), settings.options.properties)


def _entra(entra: EntraSettings) -> dict[str, Any]:
    profile = {
        "managed": True,
        "adminGroupObjectIDs": list(entra.admin_groups),
        "enableAzureRBAC": entra.azure_rbac,
        **({} if entra.tenant is None else {"tenantID": entra.tenant}),
    }
    return {"aadProfile": profile, "disableLocalAccounts": not entra.local_accounts}


def _system_pool(settings: AksSettings) -> dict[str, Any]:
    pool = settings.system_pool
    profile: dict[str, Any] = {
        "name": SYSTEM_POOL,
        "mode": "System",
        "osType": "Linux",
        "type": "VirtualMachineScaleSets",
        "vmSize": pool.vm_size,
        **counts(pool.nodes),
        **subnets(settings.options.network),
    }
    if pool.zones:
        profile["availabilityZones"] = list(pool.zones)
    return merged(profile, pool.properties)


def _around(args: AksGpuNodePoolArgs) -> Around:
    return Around(
        tags=args.get("tags", {}),
        node_subnet=args.get("node_subnet"),
        pod_subnet=args.get("pod_subnet"),
        kubernetes_version=args.get("kubernetes_version"),
    )


def _alone(name: str, args: AksGpuNodePoolArgs) -> Callable[[Any], PoolPlan]:
    what, cluster, models = f"AksGpuNodePool({name})", {"platform": "aks"}, args.get("gpu_models")
    return lambda pool: plan_alone(what, cluster, pool, args.get("mig_strategy"), models=models)
