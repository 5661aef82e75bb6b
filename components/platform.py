"""GPU pools on one cluster, from a stack's settings: the whole flow in one component.

The settings are planned before anything is registered, so that whatever is wrong with them is reported at once and nothing
is half made. Then, in this order: the cluster; NFD; the sharing ConfigMaps and the GPU operator; the pools; where declared,
their verification and smoke tests. Pools come after the operator, so that a node never carries a label whose config is not
there yet, and go before it when the stack is destroyed. What lies inside a cluster of ours is deleted with it: no uninstall
can then hang on a cluster that is going away.

Nothing here depends on an output, so a preview shows every resource, also before the cluster exists.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import (
    Acknowledged,
    DraDriverSection,
    FlavorsSection,
    NodeFeatureDiscoverySection,
    ObservabilitySection,
    OperatorSection,
    Pools,
    RegistrySection,
    SharingSection,
    VerificationSection,
)
from gpu_pools.components.arguments.stack import Cluster
from gpu_pools.components.arguments.to_stack import in_stack_keys, located_in, sections_in, stack_config
from gpu_pools.components.clouds import CLOUDS, ClusterComponent, waiting
from gpu_pools.components.engine import log
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.engine.outputs import put_off
from gpu_pools.components.gpu_operator.node_features import NodeFeatureDiscovery, PoolLabels, PoolLabelsArgs
from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.components.kubernetes.pull_secret import pull_secret
from gpu_pools.components.kubernetes.recorded_objects import Stored, require_objects
from gpu_pools.components.proof.fixed_counts import require_nodes
from gpu_pools.components.sharing import declare
from gpu_pools.plan.document import plan_json
from gpu_pools.plan.placing import labeller_selector
from gpu_pools.plan.planned import Plan, PoolPlan
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.key_wait import KEYS_LEFT, keys_left_spec
from gpu_pools.proof.smoke_test import SMOKE_TEST_NAMESPACE
from gpu_pools.proof.verifier_reports import no_reports, reports
from gpu_pools.rendering.node_leaving import gives_back
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.stack.settings import NAMESPACE
from gpu_pools.text.incidents import explained

if TYPE_CHECKING:
    from gpu_pools.components.aks.cluster import AksCluster
    from gpu_pools.components.aks.existing import ExistingAksCluster
    from gpu_pools.components.observability.observability import ObservabilityArgs
    from gpu_pools.components.proof.smoke_test import SharingSmokeTestArgs
    from gpu_pools.components.proof.verification import VerificationArgs, VerifierArgs


class GpuPlatformArgs(TypedDict):
    """The sections of a stack file; docs/reference/stack.md describes them."""

    cluster: Cluster
    """The platform, and what making the cluster needs."""
    sharing: SharingSection
    """Sharing declarations by name."""
    pools: Pools
    """The GPU pools."""
    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file."""
    flavors: NotRequired[FlavorsSection]
    """Magnum flavors by name."""
    operator: NotRequired[OperatorSection]
    """The GPU operator."""
    node_feature_discovery: NotRequired[NodeFeatureDiscoverySection]
    """Node Feature Discovery."""
    verification: NotRequired[VerificationSection]
    """Verification of the nodes, and the smoke tests."""
    registry: NotRequired[RegistrySection]
    """A registry of one's own, from which all images come."""
    acknowledged: NotRequired[Acknowledged]
    """Replacements of protected pools, or of the cluster, that somebody wants."""
    observability: NotRequired[ObservabilitySection]
    """What is measured of the GPUs, and who reads it."""
    dra_driver: NotRequired[DraDriverSection]
    """NVIDIA's DRA driver, for pools with `allocation: dra`."""
    adoption: NotRequired[str]
    """Of pools that were imported: imported, to have them as they are, or managed, as without it."""


class GpuPlatform(pulumi.ComponentResource):
    """A cluster with GPU pools, each sharing its GPUs as declared."""

    cluster_name: pulumi.Output[str]
    """The cluster's name."""
    kubeconfig: pulumi.Output[str]
    """How to reach the cluster; a secret."""
    plan: pulumi.Output[dict[str, Any]]
    """What every node must be and show, as `python -m gpu_pools plan --json` prints it."""
    advertises: pulumi.Output[dict[str, dict[str, int]]]
    """Pool -> resource -> count that every node of it must advertise."""
    verification: pulumi.Output[dict[str, Any]]
    """What reading the reports of the nodes needs (gpu_pools/proof/verifier_reports.py); `enabled` says whether there are any."""

    def __init__(
        self,
        name: str,
        args: GpuPlatformArgs,
        opts: pulumi.ResourceOptions | None = None,
        secret_sections: tuple[str, ...] = (),
        *,
        from_stack_file: bool = False,
    ) -> None:
        """Plan, then make everything.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            secret_sections: sections that the stack file keeps encrypted; chart values from them stay secret.
            from_stack_file: whether the settings are those of a stack file, by whose places problems are told then.

        Raises:
            InvalidStackError: with everything that is wrong with the settings, or that the cloud lacks.
        """
        if not from_stack_file:
            args = known_args(f"GpuPlatform({name})", args, GpuPlatformArgs)
        what, places = f"GpuPlatform({name})", {} if from_stack_file else sections_in(args)
        with located_in(what, places):
            sections = cast("Mapping[str, Any]", args)
            config = stack_config(_put_off(sections if from_stack_file else in_stack_keys(sections)))
            plan = plan_config(config)
        super().__init__("gpu-pools:index:GpuPlatform", name, None, opts)
        #: The Kubernetes objects that belong to pools, for the check that the cluster still has them.
        self._objects: list[Stored] = []
        _warn(plan, self)
        cloud = CLOUDS[plan.platform]
        with located_in(what, places):
            cloud.ask(plan, self)
        declared = {} if plan.settings.imported else config[f"{NAMESPACE}:sharing"]
        for sharing, written in declared.items():
            declare(f"{name}-{sharing}", written, plan.settings.sharing[sharing], child_options(self, opts))
        cluster = cloud.cluster(name, plan, config[f"{NAMESPACE}:cluster"], child_options(self, opts), opts)
        self.verification = pulumi.Output.from_input(no_reports(imported=plan.settings.imported))
        if cluster.kubernetes is None:
            # What is only held is nothing but pools, and nothing of it is a change after an import.
            self._cloud_pools(name, plan, cluster, child_options(self, opts))
        else:
            inside = child_options(self, opts, provider=cluster.kubernetes, deleted_with=cluster.resource)
            self._inside(name, plan, cluster, inside, secret_sections, config)
        self.cluster_name = cluster.cluster_name
        self.kubeconfig = cluster.kubeconfig
        self.plan = pulumi.Output.from_input(plan_json(plan))
        self.advertises = pulumi.Output.from_input({pool.name: dict(pool.advertises) for pool in plan.pools})
        self.register_outputs(
            {
                "cluster_name": self.cluster_name,
                "kubeconfig": self.kubeconfig,
                "plan": self.plan,
                "advertises": self.advertises,
                "verification": self.verification,
            }
        )

    def _inside(
        self,
        name: str,
        plan: Plan,
        cluster: ClusterComponent,
        inside: pulumi.ResourceOptions,
        secret_sections: tuple[str, ...],
        config: Mapping[str, Any],
    ) -> None:
        """Operator, pools, and what proves them."""
        operator = self._operator(name, plan, inside, secret_sections, cluster.kubeconfig)
        self._objects += operator.objects
        before = [operator, *self._dra_driver(name, plan, waiting(inside, [operator]), secret_sections)]
        pools = self._pools(name, plan, cluster, before, inside)
        if plan.settings.observability.enabled:
            hidden = "observability" in secret_sections
            observed: ObservabilityArgs = {"kubeconfig": cluster.kubeconfig, "secret_values": hidden}
            if plan.settings.observability.azure_reads:
                observed |= _of_azure(cast("AksCluster | ExistingAksCluster", cluster), own=cluster.resource is not None)
            self._observability(name, plan, waiting(inside, [operator]), observed)
        if plan.settings.verification.enabled:
            self.verification = self._verification(name, plan, waiting(inside, [operator]), pools, cluster.kubeconfig, config)
        else:
            left = self._keys_left(name, plan, waiting(inside, [made for several in pools.values() for made in several]))
            require_nodes(plan, [left.id], _reached(plan, cluster.kubeconfig), _groups(plan, pools))
        require_objects(self._objects, _reached(plan, cluster.kubeconfig))

    def _operator(
        self,
        name: str,
        plan: Plan,
        inside: pulumi.ResourceOptions,
        secret_sections: tuple[str, ...],
        kubeconfig: pulumi.Output[str],
    ) -> GpuOperator:
        reached: Any = {"kubeconfig": kubeconfig}
        if context := plan.settings.cluster.context:
            reached["context"] = context
        before: list[pulumi.Resource] = []
        if not plan.settings.nfd.adopted:
            hidden = "nodeFeatureDiscovery" in secret_sections
            before = [NodeFeatureDiscovery(f"{name}-nfd", reached | {"secret_values": hidden}, inside, planned=plan)]
        hidden = "operator" in secret_sections
        return GpuOperator(f"{name}-operator", reached | {"secret_values": hidden}, waiting(inside, before), planned=plan)

    @staticmethod
    def _dra_driver(
        name: str, plan: Plan, inside: pulumi.ResourceOptions, secret_sections: tuple[str, ...]
    ) -> list[pulumi.Resource]:
        """What pods need that get GPUs through resource claims; before the pools, whose labels start its pods."""
        if plan.dra is None:
            return []
        from gpu_pools.components.gpu_operator.dra_driver import DraDriver  # noqa: PLC0415 - loaded only where it is used

        return [DraDriver(f"{name}-dra-driver", {"secret_values": "draDriver" in secret_sections}, inside, planned=plan)]

    def _startup_taint(self, name: str, plan: Plan, inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """What must be there before the pools' first nodes, so that they register with the startup taint."""
        if not plan.settings.verification.startup_taint or plan.settings.cluster.tainted_by != "admission":
            return []
        from gpu_pools.components.gpu_operator.startup_taint import StartupTaint  # noqa: PLC0415 - loaded only where it is used

        return [StartupTaint(f"{name}-startup-taint", {}, inside, planned=plan)]

    def _pools(
        self,
        name: str,
        plan: Plan,
        cluster: ClusterComponent,
        before: list[pulumi.Resource],
        inside: pulumi.ResourceOptions,
    ) -> Mapping[str, list[pulumi.Resource]]:
        """Pool -> what makes its nodes what they are."""
        after_operator = waiting(inside, [*before, *self._startup_taint(name, plan, inside)])
        made = self._cloud_pools(name, plan, cluster, after_operator)
        groups = _groups(plan, made)
        # Where the cloud's pools set labels, nobody else does.
        for pool in plan.pools if not plan.settings.cluster.labels_nodes else ():
            made[pool.name].append(self._pool_labels(name, plan, pool, after_operator, groups.get(pool.name)))
        return made

    def _cloud_pools(
        self, name: str, plan: Plan, cluster: ClusterComponent, opts: pulumi.ResourceOptions
    ) -> dict[str, list[pulumi.Resource]]:
        """What the cloud has of each pool: an agent pool, a node group, or nothing."""
        made: dict[str, list[pulumi.Resource]] = {pool.name: [] for pool in plan.pools}
        CLOUDS[plan.platform].pools(name, plan, cluster, opts, made, self._objects)
        return made

    def _keys_left(self, name: str, plan: Plan, opts: pulumi.ResourceOptions) -> DaemonSet:
        """Where nothing proves the nodes: at least no old key goes while a node's label still names it."""
        spec: Any = keys_left_spec(plan, plan.settings.nfd.labeller_image)
        metadata: Any = {"name": KEYS_LEFT, "namespace": OPERATOR_NAMESPACE}
        return DaemonSet(f"{name}-keys-left", metadata=metadata, spec=spec, opts=opts)

    @staticmethod
    def _observability(name: str, plan: Plan, opts: pulumi.ResourceOptions, reached: "ObservabilityArgs") -> None:
        # Loaded only where it is used, as the clouds are.
        from gpu_pools.components.observability.observability import Observability  # noqa: PLC0415

        if context := plan.settings.cluster.context:
            reached["context"] = context
        Observability(f"{name}-observability", reached, opts, planned=plan)

    def _verification(
        self,
        name: str,
        plan: Plan,
        opts: pulumi.ResourceOptions,
        pools: Mapping[str, list[pulumi.Resource]],
        kubeconfig: pulumi.Output[str],
        config: Mapping[str, Any],
    ) -> pulumi.Output[dict[str, Any]]:
        # Loaded only where it is used, as the clouds are.
        from gpu_pools.components.proof.verification import Verification, Verifier, deployed_program  # noqa: PLC0415

        reached: VerifierArgs = {"kubeconfig": kubeconfig}
        if context := plan.settings.cluster.context:
            reached["context"] = context
        if plan.settings.registry.username:
            reached["registry"] = config[f"{NAMESPACE}:registry"]
        reached |= _may(plan)
        verifier = Verifier(f"{name}-verifier", reached, opts)
        groups = _groups(plan, pools)
        proven: dict[str, Verification] = {}
        for pool, made in pools.items():
            args: VerificationArgs = {"pool": pool, "program": verifier.program, "kubeconfig": kubeconfig}
            if reached.get("rollout"):
                args["changer"] = verifier.changer
            after = waiting(opts, [verifier, *made])
            proven[pool] = Verification(f"{name}-{pool}-verification", args, after, planned=plan, group=groups.get(pool))
            self._objects += proven[pool].objects
        if plan.settings.verification.smoke_test:
            self._smoke_tests(name, plan, opts, proven)
        require_nodes(plan, [one.proof.id for one in proven.values()], _reached(plan, kubeconfig), groups)
        known = pulumi.Output.all(program=verifier.program, groups=pulumi.Output.all(**groups))
        return known.apply(lambda one: reports(plan, deployed_program(one["program"]), groups=one["groups"]))

    def _smoke_tests(self, name: str, plan: Plan, opts: pulumi.ResourceOptions, proven: Mapping[str, pulumi.Resource]) -> None:
        from gpu_pools.components.proof.smoke_test import SharingSmokeTest, smoke_test_namespace  # noqa: PLC0415

        namespace = smoke_test_namespace(f"{name}-smoke-test-namespace", opts)
        after = waiting(opts, [namespace])
        pulling = pull_secret(f"{name}-smoke-test", SMOKE_TEST_NAMESPACE, plan.settings.registry, after)
        for pool, verification in proven.items():
            args: SharingSmokeTestArgs = {"pool": pool, "namespace": SMOKE_TEST_NAMESPACE}
            SharingSmokeTest(f"{name}-{pool}-smoke-test", args, waiting(opts, [verification, namespace, *pulling]), planned=plan)

    def _pool_labels(
        self, name: str, plan: Plan, pool: PoolPlan, opts: pulumi.ResourceOptions, group: pulumi.Output[str] | None
    ) -> PoolLabels:
        settings = plan.settings.cluster
        args: PoolLabelsArgs = {
            "namespace": OPERATOR_NAMESPACE,
            "node_selector": labeller_selector(settings, pool),
            "magnum_driver": str(settings.driver or ""),
            "tolerations": [dict(toleration) for toleration in plan.tolerations],
            "image": plan.settings.nfd.labeller_image,
        }
        selector = group.apply(lambda called: labeller_selector(settings, pool, called)) if group is not None else None
        labels = PoolLabels(f"{name}-{pool.name}-labels", args, opts, planned=pool, group=selector)
        self._objects += labels.objects
        return labels


def _may(plan: Plan) -> "VerifierArgs":
    """What a stack's verifiers may do besides; only what is true, so that others keep their rights as they are."""
    from gpu_pools.proof.verifier_pods import restarts_mps  # noqa: PLC0415 - loaded only where it is used

    found: VerifierArgs = {}
    if any(pool.pool.rollout for pool in plan.pools):
        found["rollout"] = True
    if any(restarts_mps(plan, pool) for pool in plan.pools):
        found["restarts_mps"] = True
    if plan.dra is not None:
        found["claims"] = True
    if any(plan.settings.written_allocation(pool.pool) for pool in plan.pools):
        found["allocation"] = True
    if gives_back(plan.settings):
        found["leaving"] = True
    return found


def _groups(plan: Plan, made: Mapping[str, list[pulumi.Resource]]) -> dict[str, pulumi.Output[str]]:
    """Of each pool with `replace` on Magnum what its group is called."""
    return CLOUDS[plan.platform].group_names(plan, made)


def _reached(plan: Plan, kubeconfig: pulumi.Output[str]) -> tuple[pulumi.Output[str], str | None]:
    return kubeconfig, plan.settings.cluster.context


def _put_off(args: Mapping[str, Any]) -> dict[str, Any]:
    """The sections, with texts for Outputs where these are only placed: cluster, pools and registry."""
    placed = {"cluster", "pools", "registry"}
    return {key: put_off(value) if key.rpartition(":")[2] in placed else value for key, value in args.items()}


def _of_azure(cluster: "AksCluster | ExistingAksCluster", *, own: bool) -> "ObservabilityArgs":
    """Where Azure's part of what observes is made; the id only of a cluster whose metrics the stack switches on."""
    where: ObservabilityArgs = {"resource_group_name": cluster.resource_group_name}
    return where | {"cluster_id": cluster.cluster_id} if own else where


def _warn(plan: Plan, resource: pulumi.Resource) -> None:
    for pool in plan.pools:
        for warning in pool.warnings:
            log.warn(f"pool {pool.name}: {warning}", resource)
    for line in explained(warning for pool in plan.pools for warning in pool.warnings):
        log.info(line, resource)
