"""Makes MPS work with the operator as it is: the admission policy, and what a running cluster must be asked and told.

Before a new MPS configuration is written, in previews too, the cluster is asked what would go wrong with it
(gpu_pools/plan/mps_support.py): an operator of another owner that lacks something, or running nodes that would keep their old
replicas. A cluster that cannot be asked stops nothing; the deploy warns that it was not asked.

The policy corrects pods when they are created. Pods of the MPS daemon that are older than it serve nothing, so once it is in
force they are deleted, one after the other, and their DaemonSet makes new ones. That is written down in a ConfigMap by the uids
of the policy and its binding: a deploy that is interrupted does it again, so does one that finds one of them recreated, and one
that finds it done asks nothing.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding
from pulumi_kubernetes.core.v1 import ConfigMap

from gpu_pools.components.engine import log
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.kubernetes.ask_first import (
    asks_first,
    cluster_at,
    daemon_sets_of,
    nodes_of,
    once_known,
    policies_of,
    reason,
)
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.plan.mps_support import (
    PLUGIN_SELECTOR,
    FoundOperator,
    known_update,
    missing_for_mps,
    mps_pools,
    needs_signal_policy,
    plugin_version,
    unserved_changes,
)
from gpu_pools.plan.planned import Plan
from gpu_pools.rendering.mps_signal import POLICY, SELECTOR, binding_spec, has_wrong_name, policy_spec, probe_pod
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.harmless import line
from gpu_pools.verifier.api import ApiError

#: Kubeconfig of the cluster, and a context of it; without a kubeconfig the cluster is not asked.
Reached = tuple[pulumi.Input[str] | None, str | None]

_PODS: Final = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods"
#: API servers learn of a policy one after the other, each within seconds.
_IN_FORCE_SECONDS: Final = 60.0
_AGREED: Final = 3
_REPLACED_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 1.0
_TRIES: Final = 3


class MpsPodsError(Exception):
    """Pods of the MPS daemon could not be replaced; the text is for users."""


def signal_policy(
    parent: pulumi.Resource, name: str, plan: Plan, reached: Reached, opts: pulumi.ResourceOptions | None, before: list[Any]
) -> list[pulumi.Resource]:
    """Make the policy where the plan needs it, and replace pods that are older than it.

    Args:
        parent: the component.
        name: of the component.
        plan: what is declared.
        reached: how to ask the cluster.
        opts: options of the component.
        before: what must be there first.

    Returns:
        What the operator's release must wait for.
    """
    if not needs_signal_policy(plan.settings):
        return []
    named: Any = {"name": POLICY}
    spec: Any = policy_spec()
    policy = MutatingAdmissionPolicy(f"{name}-mps-signal-policy", metadata=named, spec=spec, opts=child_options(parent, opts))
    binding: Any = binding_spec()
    bound = MutatingAdmissionPolicyBinding(
        f"{name}-mps-signal-binding", metadata=named, spec=binding, opts=child_options(parent, opts, depends_on=[policy])
    )
    hook = pulumi.ResourceHook(f"{name}-mps-pods", _replaces(once_known(reached[0]), reached[1]))
    done = ConfigMap(
        f"{name}-mps-signal-done",
        metadata={"name": POLICY, "namespace": OPERATOR_NAMESPACE},
        data={"policy": _uid(policy.metadata), "binding": _uid(bound.metadata)},
        opts=child_options(
            parent,
            opts,
            depends_on=[*before, policy, bound],
            hooks=pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook]),
        ),
    )
    return [bound, done]


def _uid(metadata: pulumi.Output[Any]) -> pulumi.Output[str]:
    return metadata.apply(lambda made: str(made.uid or ""))


def asks_about_mps(name: str, plan: Plan, reached: Reached) -> pulumi.ResourceHookBinding | None:
    """Hooks for a new MPS configuration; None where no pool has MPS, or nobody said how to reach the cluster.

    Args:
        name: unique among the hooks of the program.
        plan: what shall be deployed.
        reached: how to ask the cluster.
    """
    if reached[0] is None or not mps_pools(plan.settings):
        return None
    hook = asks_first(f"{name}-mps-first", reached[0], lambda content: _ask(plan, content, reached[1]))
    return pulumi.ResourceHookBinding(before_create=[hook])


def _ask(plan: Plan, kubeconfig: str, context: str | None) -> None:
    """Refuse what running nodes would not serve.

    Raises:
        InvalidStackError: with all of it.
    """
    try:
        found = _found(plan, kubeconfig, context)
        missing = missing_for_mps(plan, found)
        unserved = [*unserved_changes(plan, nodes_of(cluster_at(kubeconfig, context)), known_update(plan, found))]
    except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
        log.warn(f"not checked before the deploy: whether the cluster can serve MPS ({reason(error)})")
        return
    if problems := [*([missing] if missing else []), *unserved]:
        raise InvalidStackError(problems)


def _found(plan: Plan, kubeconfig: str, context: str | None) -> FoundOperator:
    api = cluster_at(kubeconfig, context)
    version = plugin_version(daemon_sets_of(api, OPERATOR_NAMESPACE, PLUGIN_SELECTOR), _policies(api))
    said = api.get("/version")
    kubernetes = f"{said.get('major', '')}.{str(said.get('minor', '')).rstrip('+')}"
    corrects = None
    if plan.settings.operator.adopted:
        try:
            corrects = _is_in_force(api)
        except ApiError as error:
            log.warn(f"not checked before the deploy: the admission policy that MPS needs ({error})")
    return FoundOperator(version, line(kubernetes), corrects)


def _policies(api: ClusterApi) -> list[dict[str, Any]]:
    """The ClusterPolicies; a cluster that has no operator yet knows no such kind."""
    try:
        return policies_of(api)
    except Exception:  # noqa: BLE001 - then the operator's DaemonSet alone tells
        return []


def _is_in_force(api: ClusterApi) -> bool:
    """Whether a pod with the wrong process name is corrected: asked by a dry run, which makes nothing.

    Raises:
        ApiError: where the API server does not say it.
    """
    return not has_wrong_name(api.create(f"{_PODS}?dryRun=All", probe_pod()))


def _replaces(known: Callable[[], str], context: str | None) -> Callable[[pulumi.ResourceHookArgs], Any]:
    async def replace(_change: pulumi.ResourceHookArgs) -> None:
        if content := known():
            await asyncio.to_thread(replace_old_pods, cluster_at(content, context))

    return replace


def replace_old_pods(
    api: ClusterApi, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic
) -> None:
    """Delete the pods of the MPS daemon that are older than the policy, one after the other, and wait for those after them.

    Args:
        api: of the cluster.
        sleep: pauses, in seconds.
        now: seconds.

    Raises:
        ApiError: where the API server refuses.
        MpsPodsError: the policy does not come into force, or a pod is not replaced.
    """
    if not _old_pods(api):
        return
    _wait_until_in_force(api, sleep, now)
    tries: dict[str, int] = {}
    while old := _old_pods(api):
        pod = old[0]
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        tries[node] = tries.get(node, 0) + 1
        if tries[node] > _TRIES:
            message = f"the MPS daemon of node {line(node)} was restarted {_TRIES} times and its pod still has the wrong process "
            raise MpsPodsError(f"{message}name. Check the MutatingAdmissionPolicy {POLICY}, then deploy again.")
        log.info(f"node {line(node)}: the pod of its MPS daemon is older than the admission policy {POLICY} and is replaced")
        api.delete(f"{_PODS}/{pod['metadata']['name']}", pod["metadata"]["uid"])
        _wait_until_replaced(api, pod, sleep, now)


def _old_pods(api: ClusterApi) -> list[Mapping[str, Any]]:
    pods = api.get(_PODS, labelSelector=SELECTOR).get("items") or []
    old = [pod for pod in pods if has_wrong_name(pod) and not pod["metadata"].get("deletionTimestamp")]
    return sorted(old, key=lambda pod: str(pod["metadata"]["name"]))


def _wait_until_in_force(api: ClusterApi, sleep: Callable[[float], None], now: Callable[[], float]) -> None:
    begun, agreed = now(), 0
    while agreed < _AGREED:
        agreed = agreed + 1 if _is_in_force(api) else 0
        if now() - begun > _IN_FORCE_SECONDS:
            message = f"the MutatingAdmissionPolicy {POLICY} is not in force after {_IN_FORCE_SECONDS:g} s"
            raise MpsPodsError(f"{message}: pods of the MPS daemon keep the wrong process name. Deploy again.")
        sleep(_POLL_SECONDS)


def _wait_until_replaced(
    api: ClusterApi, pod: Mapping[str, Any], sleep: Callable[[float], None], now: Callable[[], float]
) -> None:
    """Until another pod is on the node, or none is wanted there any more and the time is over."""
    begun, node, uid = now(), pod["spec"].get("nodeName"), pod["metadata"]["uid"]
    while now() - begun < _REPLACED_SECONDS:
        pods = api.get(_PODS, labelSelector=SELECTOR).get("items") or []
        if any(one["spec"].get("nodeName") == node and one["metadata"]["uid"] != uid for one in pods):
            return
        sleep(_POLL_SECONDS)
    log.warn(f"node {line(str(node))}: no new pod of its MPS daemon came within {_REPLACED_SECONDS:g} s")
