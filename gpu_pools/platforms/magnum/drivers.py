"""What Magnum's drivers refuse or pass over, as far as the stack file alone tells it: said before anything is made.

Magnum's API accepts all of this, and the driver then fails minutes later, or does not look at it. What only the cloud knows
is gpu_pools/platforms/magnum/cloud.py's matter; how labels and taints reach nodes with each driver is
gpu_pools/plan/placing.py's.

Sources: vexxhost/magnum-cluster-api 3890a36 (utils.py, validate_cluster); openstack/magnum-capi-helm 1.4.0 (driver.py,
_process_node_groups and _validate_allowed_node_counts); openstack/magnum 23.0.0 (conf/cluster_templates.py).

Autoscaling with magnum-cluster-api (W86, W88): mutate_machine_deployment in its resources.py, and its issues #309, #521 and #907;
that a new MachineDeployment starts at its lower limit is the defaulting webhook of kubernetes-sigs/cluster-api. With heat (W87):
enable-auto-scaling.sh of openstack/magnum stable/2026.1 names the group default-worker alone, and the README of the autoscaler's
magnum provider (kubernetes/autoscaler) has node groups found by role, which that script does not ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from gpu_pools.platforms.magnum.labels import unlisted
from gpu_pools.platforms.magnum.placement import MagnumPlacement, placement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.platforms.magnum.cluster import MagnumSettings
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: Those that magnum-cluster-api takes; any other ends in CREATE_FAILED without a reason.
CLUSTER_API_NETWORK_DRIVERS: Final = ("calico", "cilium")
#: Labels of a cluster that are the limits of its group default-worker.
WORKER_LIMITS: Final = ("min_node_count", "max_node_count")


def check_magnum_drivers(settings: Settings, problems: Problems) -> None:
    """What the stack's driver would refuse once Magnum has accepted it."""
    cluster = cast("MagnumSettings", settings.cluster)
    _check_network_driver(cluster, problems)
    _check_fewest_nodes(cluster, settings, problems)


def magnum_driver_warnings(pool: Pool, settings: Settings) -> Iterator[str]:
    """What of a pool the stack's driver does not look at; with the first pool, what the cluster leaves to chance."""
    cluster, placement = cast("MagnumSettings", settings.cluster), placement_of(pool)
    unsaid = cluster.driver == "magnum-cluster-api" and cluster.template and cluster.template.network_driver is None
    if unsaid and pool is settings.pools[0]:
        yield "no networkDriver is written: the driver fails on flannel, Magnum's own choice where its operators made none (W81)"
    yield from _unlisted(pool, placement, cluster, settings)
    if pool is settings.pools[0]:
        yield from _own_worker_limits(cluster)
    if pool.autoscaled and cluster.existing is None:
        yield from _scaled_by_nobody(cluster)
    yield from _kept_empty(pool, cluster)
    if cluster.driver != "capi-helm":
        return
    if pool is settings.pools[0] and cluster.options.availability_zone:
        yield "the driver capi-helm reads no such label of the cluster, and passes over `availabilityZone`"
    written = {"image": placement.image, "dockerVolumeSize": placement.docker_volume_size, "nodeGroupLabels": placement.labels}
    if passed_over := [f"`{key}`" for key, value in written.items() if value]:
        yield f"the driver capi-helm makes a group of its flavor and number alone, and passes over {', '.join(passed_over)} (W80)"


def scales_groups(cluster: MagnumSettings) -> bool:
    """Whether the driver's autoscaler looks at the GPU pools' node groups, as far as the stack tells."""
    return cluster.driver != "heat"


def limits_decide(driver: str, *, autoscales: bool) -> bool:
    """Whether a node group has as many nodes as its limits say, and not as many as its number says.

    capi-helm refuses a group whose lower limit is 0 and scales one whose limits differ. magnum-cluster-api reads no number at
    all, starts a group at its lower limit, and scales it up to its upper one, by default one node more.

    Args:
        driver: Magnum's driver of the cloud.
        autoscales: whether the cluster's autoscaler is on.
    """
    return autoscales and driver in {"capi-helm", "magnum-cluster-api"}


def worker_limits(cluster: MagnumSettings) -> dict[str, str]:
    """The labels of a new cluster that hold its default workers at the declared number; none where nothing scales them.

    Magnum's conductor takes the lower limit of the group default-worker from the cluster's labels (conductor/utils.py,
    _get_nodegroup_object), and magnum-cluster-api the upper one (utils.py, get_node_group_max_node_count). capi-helm reads both
    labels for that group (driver.py, _process_node_groups). What the stack says by itself is left alone.

    Args:
        cluster: the stack's cluster.
    """
    if not (cluster.driver == "magnum-cluster-api" and cluster.autoscales):
        return {}
    written = {**(cluster.template.labels if cluster.template else {}), **cluster.labels}
    if not written.keys().isdisjoint(WORKER_LIMITS):
        return {}
    return dict.fromkeys(WORKER_LIMITS, str(cluster.workers))


def _own_worker_limits(cluster: MagnumSettings) -> Iterator[str]:
    """Limits that the stack writes: a new cluster has as many default workers as the lower one says, and not `workers`."""
    written = {**(cluster.template.labels if cluster.template else {}), **cluster.labels}
    fewest = written.get(WORKER_LIMITS[0], "0" if WORKER_LIMITS[1] in written else None)
    if cluster.driver != "magnum-cluster-api" or not cluster.autoscales or fewest in {None, str(cluster.workers)}:
        return
    yield (
        f"with auto_scaling_enabled a new cluster has {fewest} default workers, as its label {WORKER_LIMITS[0]} says, and not "
        f"`workers: {cluster.workers}` (W86): write the same number in both"
    )


def _kept_empty(pool: Pool, cluster: MagnumSettings) -> Iterator[str]:
    """A fixed number of 0 that the autoscaler may raise to 1.

    The plugin sends no upper limit of 0 (terraform-provider-openstack, nodegroup resource, Create), and without one the driver
    takes one more than the lower one (magnum-cluster-api at 3890a36, utils.py, get_node_group_max_node_count).
    """
    fixed_at_zero = not pool.autoscaled and pool.min_nodes == 0
    if fixed_at_zero and cluster.driver == "magnum-cluster-api" and limits_decide(cluster.driver, autoscales=cluster.autoscales):
        yield (
            "`count: 0` is not kept: the plugin sends no upper limit of 0, the driver then takes 1, and the cluster's autoscaler "
            "may make a node (W95): take the pool out of the stack until it is to have nodes"
        )


def _scaled_by_nobody(cluster: MagnumSettings) -> Iterator[str]:
    if not cluster.autoscales and cluster.template is not None:
        yield (
            "the labels of `cluster` and its `template` do not turn auto_scaling_enabled on, so nobody scales this pool (W87): "
            'write `labels: {auto_scaling_enabled: "true"}` for a new cluster, or `count` instead of `nodes`'
        )
    elif not scales_groups(cluster):
        yield (
            "the driver heat starts its autoscaler for the group default-worker alone, so nobody scales this pool unless the "
            "cloud's operators have changed that (W87): write `count`, and resize the pool by an `up`"
        )


def _unlisted(pool: Pool, placement: MagnumPlacement, cluster: MagnumSettings, settings: Settings) -> Iterator[str]:
    if cluster.driver is None:
        return
    if pool is settings.pools[0]:
        yield from unlisted(cluster.driver, cluster.labels, "cluster.labels")
        yield from unlisted(cluster.driver, cluster.template.labels if cluster.template else (), "cluster.template.labels")
    if cluster.driver != "capi-helm":
        # That one reads none of a group's (W80).
        yield from unlisted(cluster.driver, placement.labels, "nodeGroupLabels")


def _check_network_driver(cluster: MagnumSettings, problems: Problems) -> None:
    chosen = cluster.template and cluster.template.network_driver
    if cluster.driver == "magnum-cluster-api" and chosen and chosen not in CLUSTER_API_NETWORK_DRIVERS:
        problems.add(
            "gpu-pools:cluster.template.networkDriver",
            f'the driver magnum-cluster-api fails on "{chosen}" (W81)',
            allowed=" or ".join(CLUSTER_API_NETWORK_DRIVERS),
            remedy="Write `networkDriver: cilium` or `calico`.",
        )


def _check_fewest_nodes(cluster: MagnumSettings, settings: Settings, problems: Problems) -> None:
    """Groups that may be empty: capi-helm refuses them where the autoscaler is on."""
    if cluster.driver != "capi-helm" or not cluster.autoscales:
        return
    for pool in settings.pools:
        if pool.min_nodes == 0:
            problems.add(
                f"{pool.path}.{'nodes.min' if pool.autoscaled else 'count'}",
                "0 is too few for the driver capi-helm on a cluster with auto_scaling_enabled",
                allowed="1 or more",
                remedy='Ask for one node at least; Magnum would answer "Min node count must be greater than or equal to 1".',
            )
