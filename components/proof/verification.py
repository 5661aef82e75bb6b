"""The gate: a deploy ends well only if the nodes that are there are what was declared.

`Verifier` puts into a cluster, once, what verifiers share: a namespace of their own, the program, their account and rights, and
the policy that narrows these to each one's own node. `Verification` adds, per pool, the expectation and a DaemonSet; Pulumi waits
for the DaemonSet, and where that wait ends in vain components/proof/why.py says why. For a pool with `rollout` or MPS the program
waits, which can end early (components/proof/rolled_out.py). What would take nodes away outside of the pool's
windows is refused (components/proof/window.py). A pool without nodes has nothing to wait for: that is not proof, and nothing here
calls it one. Where a `count` says how many nodes there are, fewer end the deploy (components/proof/fixed_counts.py).

The program is the file of gpu_pools/verifier/archive.py: this is the one place where components take anything but the plan.
"""

import base64
import hashlib
from functools import lru_cache
from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from pulumi_kubernetes.apps.v1 import DaemonSet
from pulumi_kubernetes.core.v1 import ConfigMap, ServiceAccount
from pulumi_kubernetes.networking.v1 import NetworkPolicy
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import Config, RegistrySection
from gpu_pools.components.arguments.stack import PoolLike
from gpu_pools.components.arguments.to_stack import plan_of, pool_of, registry_of
from gpu_pools.components.engine.options import child_options, once_named
from gpu_pools.components.kubernetes.helm import privileged_namespace
from gpu_pools.components.kubernetes.pull_secret import pull_secret
from gpu_pools.components.kubernetes.recorded_objects import Stored, require_objects
from gpu_pools.components.proof.fixed_counts import require_nodes
from gpu_pools.components.proof.operands_first import operand_hooks
from gpu_pools.components.proof.program_there import programs_there
from gpu_pools.components.proof.rolled_out import RolledOut
from gpu_pools.components.proof.why import needed, tells_why
from gpu_pools.components.proof.window import window_hooks
from gpu_pools.components.replacement import old_nodes_emptied
from gpu_pools.plan.planned import Plan
from gpu_pools.plan.rollouts import becomes, rollout_seconds
from gpu_pools.proof import changer_rights
from gpu_pools.proof.changer_rights import changer_policy_binding_spec, changer_policy_spec, changer_rules, slot_rules
from gpu_pools.proof.verifier_pods import (
    CHANGER_FILE,
    EXPECTATION_FILE,
    PROGRAM_FILE,
    SERVICE_ACCOUNT,
    VERIFIER_APP,
    Changer,
    Program,
    expectation_file,
    network_policy_spec,
    program_name,
    verifier_daemon_set_spec,
    verifier_selector,
)
from gpu_pools.proof.verifier_reports import reports
from gpu_pools.proof.verifier_rights import (
    CHANGER,
    POLICY,
    ROLE,
    VERIFIER_NAMESPACE,
    cluster_rules,
    namespace_rules,
    policy_binding_spec,
    policy_spec,
)
from gpu_pools.rendering import node_leaving
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.text.errors import InvalidStackError, Problem
from gpu_pools.verifier.archive import archive, changer, digest

_RBAC = "rbac.authorization.k8s.io"
#: Beyond the deadline, which begins when the verifier starts: until the image is there, and the runtime that its pod needs.
_LEAST_SLACK_SECONDS = 60


@lru_cache(maxsize=1)
def program_file() -> bytes:
    """The program's file: packed once, since that takes most of a second."""
    return archive()


@lru_cache(maxsize=1)
def changer_file() -> bytes:
    """The file of what changes nodes."""
    return changer()


@lru_cache(maxsize=1)
def _digest() -> str:
    return digest()


def _sha256(file: str = PROGRAM_FILE) -> str:
    return hashlib.sha256(program_file() if file == PROGRAM_FILE else changer_file()).hexdigest()


class VerifierArgs(TypedDict):
    """The namespaces where operands are looked for must be there."""

    kubeconfig: NotRequired[pulumi.Input[str]]
    """How to reach the cluster. With it a program that somebody has replaced there is put right by the next deploy."""
    context: NotRequired[str]
    """Of the kubeconfig; its current one by default."""
    registry: NotRequired[RegistrySection]
    """A registry of one's own, from which the verifiers' image comes; as the section of a stack file."""
    rollout: NotRequired[bool]
    """Whether a pool has `rollout`: its verifiers then change their nodes, and have an account for that."""
    restarts_mps: NotRequired[bool]
    """Whether a rollout restarts the MPS daemon, which device plugins before v0.18.2 need."""
    claims: NotRequired[bool]
    """Whether pods of a pool get GPUs through resource claims: the verifiers then read what the DRA driver announces."""
    allocation: NotRequired[bool]
    """Whether a pool says how pods get its GPUs: rollouts then also move nodes between the device plugin and claims."""
    leaving: NotRequired[bool]
    """Whether nodes of removed pools are given back by the operator's release: it may then take away these pools' verifiers."""


class Verifier(pulumi.ComponentResource):
    """What the verifiers of a cluster share."""

    namespace: pulumi.Output[str]
    """Where they run."""
    program: pulumi.Output[str]
    """The ConfigMap of the program; its name changes with the program."""
    digest: pulumi.Output[str]
    """The digest of the program, by which its reports name it."""
    changer: pulumi.Output[str]
    """The ConfigMap of what changes nodes; its name changes with that, and is empty where no pool has `rollout`."""

    def __init__(self, name: str, args: VerifierArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make namespace, program, account, rights and policy.

        Raises:
            InvalidStackError: with everything that is wrong with the registry.
        """
        args = known_args(f"Verifier({name})", args, VerifierArgs)
        registry = registry_of(f"Verifier({name})", cast("Any", args.get("registry")))
        super().__init__("gpu-pools:index:Verifier", name, None, opts)
        self.namespace = pulumi.Output.from_input(VERIFIER_NAMESPACE)
        namespace = privileged_namespace(f"{name}-namespace", VERIFIER_NAMESPACE, child_options(self, opts))
        inside = child_options(self, opts, depends_on=[namespace])
        account = ServiceAccount(
            f"{name}-account", metadata={"name": SERVICE_ACCOUNT, "namespace": VERIFIER_NAMESPACE}, opts=inside
        )
        # The policy comes first: there is no moment in which the rights are wider than it lets them be.
        changers = args.get("rollout", False)
        policy: Any = policy_spec(changers=changers, allocation=args.get("allocation", False))
        written = ValidatingAdmissionPolicy(
            f"{name}-policy", metadata={"name": POLICY}, spec=policy, opts=child_options(self, opts)
        )
        binding: Any = policy_binding_spec()
        bound = ValidatingAdmissionPolicyBinding(
            f"{name}-policy-binding",
            metadata={"name": POLICY},
            spec=binding,
            opts=child_options(self, opts, depends_on=[written]),
        )
        closed: Any = network_policy_spec()
        NetworkPolicy(f"{name}-network", metadata={"name": POLICY, "namespace": VERIFIER_NAMESPACE}, spec=closed, opts=inside)
        claims, ruled = args.get("claims", False), child_options(self, opts, depends_on=[account, bound])
        self._rights(name, changers=changers, claims=claims, opts=ruled)
        if changers:
            mps = args.get("restarts_mps", False)
            self._changers(name, inside, child_options(self, opts, depends_on=[account, bound]), mps=mps)
        if args.get("leaving", False):
            self._leaving(name, inside)
        # Known before it is made, so that a preview shows what refers to it; who does waits for this component.
        files = [PROGRAM_FILE, *([CHANGER_FILE] if changers else [])]
        places = programs_there({file: _sha256(file) for file in files}, args.get("kubeconfig"), args.get("context"))
        self.program = places.apply(lambda known: known[PROGRAM_FILE])
        self.changer = places.apply(lambda known: known.get(CHANGER_FILE, ""))
        self.digest = pulumi.Output.from_input(_digest())
        self._program(name, self.program, PROGRAM_FILE, program_file(), child_options(self, opts, depends_on=[namespace]))
        if changers:
            self._program(name, self.changer, CHANGER_FILE, changer_file(), child_options(self, opts, depends_on=[namespace]))
        pull_secret(name, VERIFIER_NAMESPACE, registry, inside)
        self.register_outputs(
            {"namespace": self.namespace, "program": self.program, "digest": self.digest, "changer": self.changer}
        )

    def _changers(self, name: str, inside: pulumi.ResourceOptions, opts: pulumi.ResourceOptions, *, mps: bool) -> None:
        """The account of pools with `rollout`, and what it may do beside: its policy first, as above."""
        metadata: Any = {"name": CHANGER, "namespace": VERIFIER_NAMESPACE}
        account = ServiceAccount(f"{name}-changer", metadata=metadata, opts=inside)
        policy: Any = changer_policy_spec(mps=mps)
        binding: Any = changer_policy_binding_spec()
        named: Any = {"name": changer_rights.POLICY}
        written = ValidatingAdmissionPolicy(f"{name}-changer-policy", metadata=named, spec=policy, opts=opts)
        bound = ValidatingAdmissionPolicyBinding(
            f"{name}-changer-policy-binding",
            metadata=named,
            spec=binding,
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[written])),
        )
        after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[account, bound]))
        subjects: Any = [{"kind": "ServiceAccount", **metadata}]
        whole: Any = changer_rules()
        ClusterRole(f"{name}-changer-role", metadata=named, rules=whole, opts=after)
        reference = _reference("ClusterRole", changer_rights.ROLE)
        ClusterRoleBinding(f"{name}-changer-role-binding", metadata=named, role_ref=reference, subjects=subjects, opts=after)
        slots: Any = slot_rules()
        place: Any = {**named, "namespace": VERIFIER_NAMESPACE}
        Role(f"{name}-changer-turns", metadata=place, rules=slots, opts=after)
        reference = _reference("Role", changer_rights.ROLE)
        RoleBinding(f"{name}-changer-turns-binding", metadata=place, role_ref=reference, subjects=subjects, opts=after)

    @staticmethod
    def _leaving(name: str, opts: pulumi.ResourceOptions) -> None:
        """For the account of a hook of the operator's release, which exists while the hook runs."""
        metadata: Any = {"name": node_leaving.NAME, "namespace": VERIFIER_NAMESPACE}
        rules: Any = node_leaving.verifier_rules()
        subjects: Any = [{"kind": "ServiceAccount", "name": node_leaving.NAME, "namespace": OPERATOR_NAMESPACE}]
        Role(f"{name}-leave", metadata=metadata, rules=rules, opts=opts)
        reference = _reference("Role", node_leaving.NAME)
        RoleBinding(f"{name}-leave-binding", metadata=metadata, role_ref=reference, subjects=subjects, opts=opts)

    def _rights(self, name: str, *, changers: bool, claims: bool, opts: pulumi.ResourceOptions) -> None:
        accounts = [SERVICE_ACCOUNT, *([CHANGER] if changers else [])]
        subjects: Any = [{"kind": "ServiceAccount", "name": one, "namespace": VERIFIER_NAMESPACE} for one in accounts]
        rules: Any = cluster_rules(claims=claims)
        ClusterRole(f"{name}-role", metadata={"name": ROLE}, rules=rules, opts=opts)
        ClusterRoleBinding(
            f"{name}-role-binding", metadata={"name": ROLE}, role_ref=_reference("ClusterRole"), subjects=subjects, opts=opts
        )
        for namespace, granted in namespace_rules(claims=claims).items():
            metadata: Any = {"name": ROLE, "namespace": namespace}
            allowed: Any = granted
            Role(f"{name}-role-{namespace}", metadata=metadata, rules=allowed, opts=opts)
            RoleBinding(
                f"{name}-role-binding-{namespace}", metadata=metadata, role_ref=_reference("Role"), subjects=subjects, opts=opts
            )

    @staticmethod
    def _program(name: str, place: pulumi.Output[str], file: str, content: bytes, opts: pulumi.ResourceOptions) -> None:
        # Another program is another resource: the old one stays until the pods have left it.
        ConfigMap(
            f"{name}-{program_name(_sha256(file), file=file)}",
            metadata={"name": place, "namespace": VERIFIER_NAMESPACE},
            binary_data={file: base64.b64encode(content).decode("ascii")},
            immutable=True,
            opts=opts,
        )


def deployed_program(config_map: str) -> Program:
    """The program of this package in that ConfigMap."""
    return Program(config_map, _digest(), _sha256())


class VerificationArgs(TypedDict):
    """Which pool of which plan: by `pools`, or by the sections of a stack file."""

    pool: str
    """The pool's name."""
    program: pulumi.Input[str]
    """The ConfigMap of the program: `program` of a Verifier, which must be among `depends_on`."""
    changer: NotRequired[pulumi.Input[str]]
    """The ConfigMap of what changes nodes: `changer` of that Verifier. Of a pool with `rollout`; by default the one it makes."""
    pools: NotRequired[list[pulumi.Input[PoolLike]]]
    """All GPU pools of the cluster, as of a GpuOperator."""
    config: NotRequired[Config]
    """Sections of a stack file by name; verification, cluster, …; without `pools` these, too."""
    kubeconfig: NotRequired[pulumi.Input[str]]
    """How to reach the cluster. With it a deploy whose verification fails says what differs on which node, and what to do."""


class Verification(pulumi.ComponentResource):
    """The verification of one pool's nodes, present and future."""

    expectation: pulumi.Output[dict[str, str]]
    """The ConfigMap that says what a node must be: its namespace, name and key, and the SHA-256 of the document."""
    reports: pulumi.Output[dict[str, str]]
    """How to find the verifiers: namespace and label selector of their pods."""

    def __init__(
        self,
        name: str,
        args: VerificationArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Plan | None = None,
        group: pulumi.Input[str] | None = None,
    ) -> None:
        """Put the verifiers on the pool's nodes and wait for their verdict.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.
            group: of a pool with `replace` on Magnum what its node group is called.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        what = f"Verification({name})"
        args = known_args(what, args, VerificationArgs)
        plan = plan_of(what, planned, cast("Any", args))
        of_pool = pool_of(what, plan, args["pool"])
        if of_pool.replacement_id and plan.settings.cluster.has_node_groups and group is None:
            raise InvalidStackError([_no_group(what)])
        # Told as an input, so that whoever judges the program sees which pool it is of (policies/rules/organisation.py).
        super().__init__("gpu-pools:index:Verification", name, {"pool": of_pool.name}, opts)
        file = expectation_file(plan, of_pool)
        # Another document is another resource: as a replacement it would wait for its deletion, while a revert wants it back.
        document = ConfigMap(
            f"{name}-{file.name}",
            metadata={"name": file.name, "namespace": VERIFIER_NAMESPACE},
            data={EXPECTATION_FILE: file.text},
            immutable=True,
            opts=child_options(self, opts, **once_named(f"{name}-expectation")),
        )
        seconds = plan.settings.verification.deadline_seconds
        least = seconds + max(_LEAST_SLACK_SECONDS, seconds // 2)
        limit = max(least, rollout_seconds(of_pool, plan.settings.verification))
        changes = of_pool.pool.rollout is not None
        by_default = program_name(_sha256(CHANGER_FILE), file=CHANGER_FILE)
        known = pulumi.Output.all(program=args["program"], group=group or "", changer=args.get("changer", by_default))

        def spec_of(one: dict[str, str]) -> dict[str, Any]:
            changer = Changer(one["changer"] or by_default, _sha256(CHANGER_FILE)) if changes else None
            return verifier_daemon_set_spec(plan, of_pool, one["program"], _sha256(), one["group"], changer)

        spec: Any = known.apply(spec_of)
        pool_reports = known.apply(
            lambda one: reports(plan, deployed_program(one["program"]), of_pool.name, {of_pool.name: one["group"]})
        )
        facts = needed(of_pool.name, pool_reports, args.get("kubeconfig"))
        looks = of_pool.pool.rollout is not None or of_pool.sharing.needs_mps_daemon
        reached = looks and args.get("kubeconfig") is not None
        waits = RolledOut(name, of_pool, facts, limit, least) if reached else None
        metadata: Any = {"name": f"{VERIFIER_APP}-{of_pool.name}", "namespace": VERIFIER_NAMESPACE}
        labels = becomes(of_pool)
        if labels or waits:
            metadata["annotations"] = waits.annotations(document).apply(lambda more: {**labels, **more}) if waits else labels
        notes: list[pulumi.ResourceHook | pulumi.ResourceHookFunction] = [waits.notes()] if waits else []
        proof = DaemonSet(
            f"{name}-verifier",
            metadata=metadata,
            spec=spec,
            opts=child_options(
                self,
                opts,
                depends_on=[document],
                custom_timeouts=pulumi.CustomTimeouts(create=f"{limit}s", update=f"{limit}s"),
                hooks=pulumi.ResourceHookBinding(
                    before_create=notes,
                    before_update=[
                        *window_hooks(name, of_pool),
                        *operand_hooks(name, plan, of_pool, args.get("kubeconfig")),
                        *notes,
                    ],
                    on_error=[tells_why(name, facts)],
                ),
            ),
        )
        #: The Kubernetes objects that belong to the pool, for the check that the cluster still has them.
        self.objects = [Stored(document), Stored(proof)]
        proven: list[pulumi.CustomResource] = [waits.written(proof, child_options(self, opts)) if waits else proof]
        if of_pool.pool.replacement == "surge":
            drained = _reached(what, plan, args)
            old_nodes_emptied(name, of_pool, drained, VERIFIER_NAMESPACE, child_options(self, opts), [*proven])
        #: There once the pool is proven.
        self.proof = proven[0]
        if planned is None and (kubeconfig := args.get("kubeconfig")) is not None:
            named = {of_pool.name: group} if group is not None else {}
            context = plan.settings.cluster.context
            require_nodes(plan, [self.proof.id], (kubeconfig, context), named, of_pool.name)
            require_objects(self.objects, (kubeconfig, context))
        written = {"namespace": VERIFIER_NAMESPACE, "name": file.name, "key": EXPECTATION_FILE, "sha256": file.sha256}
        self.expectation = pulumi.Output.from_input(written)
        self.reports = pulumi.Output.from_input({"namespace": VERIFIER_NAMESPACE, "selector": verifier_selector(of_pool)})
        self.register_outputs({"expectation": self.expectation, "reports": self.reports})


def _no_group(what: str) -> Problem:
    """NFD labels nodes after they have joined: a verification that waits for these labels would find none, and end well."""
    message = "of a pool with `replace` on Magnum the nodes are told apart by their group's name, which nobody said"
    return Problem(what, message, "replace in a GpuPlatform or a stack file", "Leave it out, or use GpuPlatform.")


def _reached(what: str, plan: Plan, args: VerificationArgs) -> tuple[pulumi.Input[str], str | None]:
    """How the nodes of an older pool are reached.

    Raises:
        InvalidStackError: where nobody said it.
    """
    if (kubeconfig := args.get("kubeconfig")) is None:
        message = "nobody said how to reach the cluster, to drain the old pool"
        raise InvalidStackError([Problem(what, message, "kubeconfig", "Give the cluster's kubeconfig.")])
    return kubeconfig, plan.settings.cluster.context


def _reference(kind: str, name: str = ROLE) -> Any:  # noqa: ANN401 - an input type of the SDK
    return {"apiGroup": _RBAC, "kind": kind, "name": name}
