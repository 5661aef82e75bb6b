"""Says what to do where an operator, NFD, namespace or release is somebody else's already.

Kubernetes and Helm refuse to make what exists, so nothing is installed twice under one name; but their words do not say what to
write instead, and an operator under another name they let pass. In a cluster that was there before the stack, what it has is
looked at before the namespace is made, in previews too: the engine runs the hook only if the namespace is none of the stack's own
yet, so whatever is found is another's. MIG layouts that nodes have by then are told, since nothing brings them back. A cluster
that cannot be reached stops nothing: a warning says that it was not looked at.

Clusters of Magnum's capi-helm driver are watched, too, but only when something has failed: their add-ons come after the cluster.
"""

from collections.abc import Callable, Iterator

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.components.kubernetes.ask_first import asks_first, cluster_at, nodes_of, reason
from gpu_pools.plan.cluster_checks import There, Wanted, found_in, layouts_in, of_layouts, refusals
from gpu_pools.stack.adoption import REMEDY
from gpu_pools.stack.cluster import Cluster
from gpu_pools.stack.settings import Settings
from gpu_pools.text.errors import InvalidStackError

#: The API server of a namespace; Helm of a release, and of a chart's object.
_REFUSALS = (
    "already exists",
    "cannot re-use a name that is still in use",
    "exists and cannot be imported into the current release",
)


def tells_of_another_owner(name: str, cluster: Cluster) -> pulumi.ResourceHookBinding | None:
    """Hooks for a namespace or release that may be there already.

    Args:
        name: unique among the hooks of the program.
        cluster: where it goes.
    """
    if not (cluster.was_there or cluster.brings_operator):
        return None
    return pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(f"{name}-another-owner", _tell)])


def looks_for_another(
    name: str,
    cluster: Cluster,
    wanted: Wanted,
    reached: tuple[pulumi.Input[str] | None, str | None],
    hooks: pulumi.ResourceHookBinding | None,
) -> pulumi.ResourceHookBinding | None:
    """Hooks for a namespace: besides what is told after a failure a look at the cluster before it is made.

    Args:
        name: unique among the hooks of the program.
        cluster: where it goes.
        wanted: what is installed there.
        reached: kubeconfig of the cluster, and a context of it. Where nobody said a kubeconfig it is not looked at.
        hooks: those of `tells_of_another_owner`.
    """
    kubeconfig, context = reached
    if hooks is None or kubeconfig is None or not cluster.was_there:
        return hooks
    first = asks_first(f"{name}-already-there", kubeconfig, lambda content: _look(wanted, lambda: _workloads(content, context)))
    return pulumi.ResourceHookBinding.merge(hooks, pulumi.ResourceHookBinding(before_create=[first]))


def tells_of_layouts(
    name: str,
    settings: Settings,
    reached: tuple[pulumi.Input[str] | None, str | None],
    hooks: pulumi.ResourceHookBinding | None,
) -> pulumi.ResourceHookBinding | None:
    """Hooks for the operator's namespace, added to others of it: layouts that nodes have already are told while they are there.

    Args:
        name: unique among the hooks of the program.
        settings: of the stack.
        reached: kubeconfig of the cluster, and a context of it.
        hooks: the others.
    """
    kubeconfig, context = reached
    selectors = [pool.placement.node_selector for pool in settings.pools if pool.placement.selects_nodes]
    if kubeconfig is None or not selectors:
        return hooks

    def tell(content: str) -> None:
        try:
            found = layouts_in(nodes_of(cluster_at(content, context)), selectors)
        except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
            log.warn(f"not looked for before the deploy: MIG layouts that nodes have already ({reason(error)})")
            return
        if found:
            log.warn(of_layouts(found))

    first = asks_first(f"{name}-layouts", kubeconfig, tell)
    return pulumi.ResourceHookBinding.merge(hooks, pulumi.ResourceHookBinding(before_create=[first]))


def _look(wanted: Wanted, workloads: Callable[[], Iterator[There]]) -> None:
    """Refuse what is there already.

    Raises:
        InvalidStackError: with all of it.
    """
    try:
        found = list(workloads())
    except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
        what = "a GPU operator or device plugin" if wanted == "operator" else "Node Feature Discovery"
        log.warn(f"not looked for before the deploy: {what} that the cluster has already ({reason(error)})")
        return
    if problems := refusals(wanted, found):
        raise InvalidStackError(problems)


def _workloads(kubeconfig: str, context: str | None) -> Iterator[There]:
    api = cluster_at(kubeconfig, context)
    for kind in ("Deployment", "DaemonSet"):
        yield from found_in(kind, api.items(f"/apis/apps/v1/{kind.lower()}s"))


def _tell(failed: pulumi.ErrorHookArgs) -> bool:
    """Log the remedy; never try again."""
    if any(refusal in error for error in failed.errors for refusal in _REFUSALS):
        log.error(f"{failed.name}: {REMEDY}")
    return False
