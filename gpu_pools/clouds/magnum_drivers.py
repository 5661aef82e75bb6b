"""What Magnum's drivers refuse or pass over, as far as the stack file alone tells it: said before anything is made.

Magnum's API accepts all of this, and the driver then fails minutes later, or does not look at it. What only the cloud knows
is gpu_pools/clouds/magnum_cloud.py's matter; how labels and taints reach nodes with each driver is gpu_pools/plan/placing.py's.

Sources: vexxhost/magnum-cluster-api 3890a36 (utils.py, validate_cluster); openstack/magnum-capi-helm 1.4.0 (driver.py,
_process_node_groups and _validate_allowed_node_counts); openstack/magnum 23.0.0 (conf/cluster_templates.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.clouds.magnum_labels import unlisted
from gpu_pools.stack.clusters import MagnumSettings
from gpu_pools.stack.placements import MagnumPlacement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: Those that magnum-cluster-api takes; any other ends in CREATE_FAILED without a reason.
CLUSTER_API_NETWORK_DRIVERS: Final = ("calico", "cilium")


def check_magnum_drivers(settings: Settings, problems: Problems) -> None:
    """What the stack's driver would refuse once Magnum has accepted it."""
    cluster = settings.cluster
    if not isinstance(cluster, MagnumSettings):
        return
    _check_network_driver(cluster, problems)
    _check_fewest_nodes(cluster, settings, problems)


def magnum_driver_warnings(pool: Pool, settings: Settings) -> Iterator[str]:
    """What of a pool the stack's driver does not look at; with the first pool, what the cluster leaves to chance."""
    cluster, placement = settings.cluster, pool.placement
    if not isinstance(cluster, MagnumSettings) or not isinstance(placement, MagnumPlacement):
        return
    unsaid = cluster.driver == "magnum-cluster-api" and cluster.template and cluster.template.network_driver is None
    if unsaid and pool is settings.pools[0]:
        yield "no networkDriver is written: the driver fails on flannel, Magnum's own choice where its operators made none (W81)"
    yield from _unlisted(pool, placement, cluster, settings)
    if cluster.driver != "capi-helm":
        return
    if pool is settings.pools[0] and cluster.options.availability_zone:
        yield "the driver capi-helm reads no such label of the cluster, and passes over `availabilityZone`"
    written = {"image": placement.image, "dockerVolumeSize": placement.docker_volume_size, "nodeGroupLabels": placement.labels}
    if passed_over := [f"`{key}`" for key, value in written.items() if value]:
        yield f"the driver capi-helm makes a group of its flavor and number alone, and passes over {', '.join(passed_over)} (W80)"


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
