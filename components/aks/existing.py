"""An AKS cluster that is there already: read, never managed. Agent pools are added to it by AksGpuNodePool.

It is read in previews, too, so that what does not go together is said before anything is made (gpu_pools/platforms/aks/found.py).
A preview of somebody who has not logged in knows nothing of the cluster, and warns. Nothing of the cluster comes into the state.
"""

import base64
from collections.abc import Mapping
from typing import cast

import pulumi
from pulumi_azure_native import authorization, containerservice

from gpu_pools.components.aks.check import problems_of
from gpu_pools.components.aks.cluster import AksGpuNodePoolArgs
from gpu_pools.components.aks.entra_login import try_login
from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.stack import ExistingAksClusterArgs
from gpu_pools.components.arguments.to_stack import stack_keys
from gpu_pools.components.engine import log
from gpu_pools.components.engine.not_known_yet import not_known_yet
from gpu_pools.components.engine.stack_owner import stack_owner
from gpu_pools.components.kubernetes.provider import kubernetes_provider
from gpu_pools.plan.checks import drivers_of
from gpu_pools.plan.cluster_checks import check_kubernetes
from gpu_pools.plan.planned import PoolPlan
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.entra import EntraSettings, user_kubeconfig
from gpu_pools.platforms.aks.existing import ExistingAks
from gpu_pools.platforms.aks.found import OWNER_TAG, FoundCluster, FoundPool, check_found, notes
from gpu_pools.reading.fields import read
from gpu_pools.reading.section import Section
from gpu_pools.stack.settings import Settings
from gpu_pools.text.errors import InvalidStackError, Problem, Problems

__all__ = ["ExistingAksCluster", "ExistingAksClusterArgs"]

#: How Azure says that something is not there.
_NOT_THERE = ("ResourceNotFound", "ResourceGroupNotFound", "SubscriptionNotFound")


class ExistingAksCluster(pulumi.ComponentResource):
    """A managed cluster that exists."""

    cluster_id: pulumi.Output[str]
    """The cluster's ARM id; empty in a preview that cannot read it."""
    cluster_name: pulumi.Output[str]
    """The cluster's name."""
    resource_group_name: pulumi.Output[str]
    """The resource group's name."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig of a cluster user; a secret. Of a cluster with Entra ID it says how to log in."""

    def __init__(
        self,
        name: str,
        args: ExistingAksClusterArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: Settings | None = None,
        inside: bool = True,
        replacement_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Read the cluster.

        Args:
            name: of the component.
            args: which cluster.
            opts: options of the component.
            stack: what is to be put into it, where a whole stack is; it is held against the cluster.
            inside: whether anything is put into it but pools.
            replacement_ids: name of each pool with `replace` -> the id of the declared one.

        Raises:
            InvalidStackError: with everything that does not go together with the cluster; outside of previews also if it cannot
                be read.
        """
        what = f"ExistingAksCluster({name})"
        args = known_args(what, args, ExistingAksClusterArgs)
        asked = _settings(what, args)
        super().__init__("gpu-pools:index:ExistingAksCluster", name, None, opts)
        #: Nothing of this cluster is ours, so nothing goes away with it.
        self.resource: pulumi.Resource | None = None
        #: None in a preview that cannot read it.
        self.found = _found(what, asked, self)
        if self.found:
            for note in notes(self.found):
                log.warn(note, self)
            if stack:
                self._check(stack, self.found, replacement_ids)
            if self.found.entra:
                try_login(what, EntraSettings(login=asked.login), self, "login")
        self.cluster_name = pulumi.Output.from_input(asked.name)
        self.resource_group_name = pulumi.Output.from_input(asked.resource_group)
        self.cluster_id = pulumi.Output.from_input(self.found.id if self.found else "")
        self.kubeconfig = self._kubeconfig(asked)
        identity = f"{asked.subscription or ''}/{asked.resource_group}/{asked.name}".lower()
        #: For everything that is put into this cluster.
        self.kubernetes = kubernetes_provider(name, self, self.kubeconfig, identity, given=opts) if inside else None
        self.register_outputs(
            {
                "cluster_id": self.cluster_id,
                "cluster_name": self.cluster_name,
                "resource_group_name": self.resource_group_name,
                "kubeconfig": self.kubeconfig,
            }
        )

    def _check(self, stack: Settings, found: FoundCluster, replacement_ids: Mapping[str, str] | None) -> None:
        """Hold the stack against the cluster and the rest of Azure, and tell all problems at once."""
        cluster = cast("AksSettings", stack.cluster)
        too_old = check_kubernetes(stack, found.version, "the cluster has")
        refused = check_found(stack, found, stack_owner(), drivers_of(stack), too_old)
        if problems := [*refused, *problems_of(cluster, self, stack, replacement_ids)]:
            raise InvalidStackError(problems)

    def pool_args(self, pool: PoolPlan, args: AksGpuNodePoolArgs) -> AksGpuNodePoolArgs:
        """The arguments of a pool in this cluster: the stack's tag, by which it knows its own, and a place beside the others.

        Args:
            pool: the pool.
            args: those that all pools have.
        """
        tagged: AksGpuNodePoolArgs = {**args, "tags": {**args.get("tags", {}), OWNER_TAG: stack_owner()}}
        nodes, pods = self.found.subnets_for(pool.made_name, pool.name) if self.found else ("", "")
        if nodes:
            tagged["node_subnet"] = nodes
        if pods:
            tagged["pod_subnet"] = pods
        return tagged

    def _kubeconfig(self, asked: ExistingAks) -> pulumi.Output[str]:
        if self.found is None:
            return pulumi.Output.secret(_unknown())
        entra = self.found.entra
        answer = containerservice.list_managed_cluster_user_credentials_output(
            resource_group_name=asked.resource_group,
            resource_name=asked.name,
            format="exec" if entra else None,
            opts=pulumi.InvokeOutputOptions(parent=self),
        )

        def text(known: containerservice.ListManagedClusterUserCredentialsResult) -> str:
            given = base64.b64decode(known.kubeconfigs[0].value).decode()
            return user_kubeconfig(given, asked.login) if entra else given

        return pulumi.Output.secret(answer.apply(text))


def existing_aks_args(settings: ExistingAks) -> ExistingAksClusterArgs:
    """The arguments that mean these settings."""
    args: ExistingAksClusterArgs = {"resource_group": settings.resource_group, "name": settings.name, "login": settings.login}
    if settings.subscription:
        args["subscription"] = settings.subscription
    return args


def _unknown() -> pulumi.Output[str]:
    return pulumi.Output.from_input("").apply(lambda _: not_known_yet())


def _settings(what: str, args: ExistingAksClusterArgs) -> ExistingAks:
    problems = Problems()
    section = Section(stack_keys(args), what, problems)
    settings = read(ExistingAks, section)
    section.finish()
    problems.raise_if_any()
    return settings


def _found(what: str, asked: ExistingAks, parent: pulumi.Resource) -> FoundCluster | None:
    options = pulumi.InvokeOptions(parent=parent)
    try:
        _check_subscription(what, asked.subscription, authorization.get_client_config(opts=options).subscription_id)
        answer = containerservice.get_managed_cluster(
            resource_group_name=asked.resource_group, resource_name=asked.name, opts=options
        )
    except InvalidStackError:
        raise
    except Exception as error:  # noqa: BLE001 - the SDK has no kind of its own for what a provider answers
        problem = _unread(what, asked, str(error))
        if not pulumi.runtime.is_dry_run() or any(word in problem.message for word in _NOT_THERE):
            raise InvalidStackError([problem]) from None
        log.warn(f"a deploy would stop here: {problem.message}. {problem.remedy}", parent)
        return None
    access = answer.api_server_access_profile
    return FoundCluster(
        id=answer.id,
        version=answer.current_kubernetes_version,
        running=answer.power_state.code != "Stopped",
        state=answer.provisioning_state,
        entra=answer.aad_profile is not None,
        private=bool(access and access.enable_private_cluster),
        own_identity=bool(answer.identity and "UserAssigned" in (answer.identity.type or "")),
        pools=tuple(_pool(pool) for pool in answer.agent_pool_profiles or ()),
        provisions=_provisions(answer),
    )


def _provisions(answer: containerservice.GetManagedClusterResult) -> bool:
    profile, sku = answer.node_provisioning_profile, answer.sku
    return bool((profile and profile.mode == "Auto") or (sku and sku.name == "Automatic"))


def _pool(pool: containerservice.outputs.ManagedClusterAgentPoolProfileResponse) -> FoundPool:
    tags: Mapping[str, str] = pool.tags or {}
    driver = pool.gpu_profile.driver if pool.gpu_profile else None
    place = pool.vnet_subnet_id or "", pool.pod_subnet_id or ""
    scaled = bool(pool.enable_auto_scaling)
    return FoundPool(pool.name, pool.mode or "", *place, dict(tags), driver or "", autoscaled=scaled)


def _check_subscription(what: str, asked: str | None, configured: str) -> None:
    if asked is None or asked.lower() == configured.lower():
        return
    problem = Problem(
        f"{what}.subscription",
        f'"{asked}" is not the one that the provider is configured for, {configured}',
        configured,
        "Set azure-native:subscriptionId in the stack, ARM_SUBSCRIPTION_ID, or az account set --subscription.",
    )
    raise InvalidStackError([problem])


def _unread(what: str, asked: ExistingAks, said: str) -> Problem:
    return Problem(
        what,
        f"the cluster {asked.name} in {asked.resource_group} cannot be read: {said}",
        "a cluster that whoever deploys may read",
        "az aks show --resource-group GROUP --name NAME tells whether it is there; az login who asks.",
    )
