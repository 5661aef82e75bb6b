"""A Magnum cluster whose autoscaler is on, held against the numbers of nodes that a stack declares. Only judges.

Two drivers make as many nodes as the limits of a node group say (gpu_pools/platforms/magnum/drivers.py has which, and sources).
Magnum refuses limits that the present number does not fit (openstack/magnum 5a492d64, api/controllers/v1/nodegroup.py,
_validate_node_count), and the plugin changes the limits before the number (terraform-provider-openstack, nodegroup resource).
So a larger or smaller number goes by Magnum's client first. magnum-cluster-api's monitor writes the present number of nodes
back every minute (monitor.py): the commands are one line, so that nothing comes between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.magnum.answers import AUTOSCALER, is_on
from gpu_pools.platforms.magnum.drivers import WORKER_LIMITS, limits_decide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.platforms.magnum.answers import Group, Magnum, Template
    from gpu_pools.platforms.magnum.cluster import MagnumSettings
    from gpu_pools.stack.pools import Pool
    from gpu_pools.text.errors import Problems

_CLUSTER: Final = "gpu-pools:cluster"
_WORKERS: Final = "default-worker"
_REFRESH: Final = "`pulumi refresh --target '**openstack:**'`"


def judge_scaling(cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum, problems: Problems) -> tuple[str, ...]:
    """Add what Magnum would refuse, or what would end with another number of nodes; returns what is worth knowing.

    Args:
        cluster: of the stack.
        pools: of the stack.
        magnum: what it says.
        problems: are added to.
    """
    template = magnum.template(cluster.template_id) if not magnum.status and cluster.existing is None else None
    if template is not None:
        _judge_template(cluster, template, problems)
    autoscales = cluster.autoscales or magnum.autoscales
    notes = [*_nobody_scales(cluster, pools, magnum, template)]
    if not limits_decide(str(cluster.driver), autoscales=autoscales):
        return tuple(notes)
    for pool in pools:
        group = magnum.groups.get(pool.name)
        if group is None or pool.autoscaled or _limits(group) == (pool.min_nodes, pool.min_nodes):
            continue
        if pool.adopted or (not cluster.autoscales and cluster.existing is None):
            notes.append(_kept_limits(cluster, pool, group))
        elif group.nodes != pool.min_nodes:
            _add_number(cluster, pool, group, problems)
    return (*notes, *_workers(cluster, magnum))


def _limits(group: Group) -> tuple[int, int]:
    """The limits that the driver goes by; without an upper one it takes one node more than the lower."""
    return group.fewest, group.fewest + 1 if group.most is None else group.most


def _judge_template(cluster: MagnumSettings, template: Template, problems: Problems) -> None:
    """A given template is not read by the program, which would then send no limits."""
    is_new = is_on(template.labels.get(AUTOSCALER, "")) and not cluster.autoscales
    if is_new and AUTOSCALER not in cluster.labels and limits_decide(str(cluster.driver), autoscales=True):
        problems.add(
            f"{_CLUSTER}.labels",
            f"the template {template.name or template.id} turns {AUTOSCALER} on, and the stack does not say so (W86)",
            allowed=f'`{AUTOSCALER}: "true"`, so that node groups get limits, or "false"',
            remedy=f'Write `labels: {{{AUTOSCALER}: "true"}}` in the cluster\'s section.',
        )


def _nobody_scales(cluster: MagnumSettings, pools: Sequence[Pool], magnum: Magnum, template: Template | None) -> Iterator[str]:
    """What the stack file alone does not tell: a living cluster, or a new one of a template that is given."""
    scaled = [pool.name for pool in pools if pool.autoscaled]
    labels = magnum.labels if magnum.status else template.labels if template else None
    if cluster.existing is not None or not scaled or labels is None or cluster.autoscales:
        return
    if not is_on(labels.get(AUTOSCALER, "")):
        yield f"neither the stack nor its cluster or template turns {AUTOSCALER} on: nobody scales {', '.join(scaled)} (W87)."


def _kept_limits(cluster: MagnumSettings, pool: Pool, group: Group) -> str:
    fewest, most = _limits(group)
    return (
        f"the node group {pool.name} is kept between {fewest} and {most} nodes by the cluster's autoscaler, whatever its `count` "
        f"of {pool.min_nodes} says (W86): {_commands(cluster.name, group.called or pool.name, group, pool.min_nodes)}"
    )


def _add_number(cluster: MagnumSettings, pool: Pool, group: Group, problems: Problems) -> None:
    called, count = group.called or pool.name, pool.min_nodes
    problems.add(
        f"{pool.path}.count",
        f"the node group {called} has {group.nodes} nodes: Magnum refuses limits of {count} until then (W89)",
        allowed=f"{group.nodes}, as there are",
        remedy=f"{_commands(cluster.name, called, group, count)}, then {_REFRESH} and `pulumi up`.",
    )


def _commands(cluster: str, group: str, has: Group, count: int) -> str:
    """The limit that gives room, the number, the other limit: each fits what was there before it.

    As python-magnumclient 5.0.0 has them; one before it takes `replace max_node_count=3` instead of `--max-nodes 3`.
    """
    update = f"openstack coe nodegroup update {cluster} {group}"
    resize = f"openstack coe cluster resize --nodegroup {group} {cluster} {count}"
    first, last = ("--max-nodes", "--min-nodes") if count >= has.nodes else ("--min-nodes", "--max-nodes")
    return f"`{update} {first} {count} && {resize} && {update} {last} {count}`"


def _workers(cluster: MagnumSettings, magnum: Magnum) -> Iterator[str]:
    """The default workers of a living cluster: their limits came with the cluster's labels, which cannot be changed."""
    group = magnum.groups.get(_WORKERS)
    if group is None or cluster.existing is not None or cluster.driver != "magnum-cluster-api":
        return
    if WORKER_LIMITS[0] in cluster.labels or _limits(group) == (cluster.workers, cluster.workers):
        return
    fewest, most = _limits(group)
    yield (
        f"the autoscaler keeps the cluster's own workers between {fewest} and {most}, and not at `workers: {cluster.workers}` "
        f"(W86): {_commands(cluster.name, _WORKERS, group, cluster.workers)} holds them there."
    )
