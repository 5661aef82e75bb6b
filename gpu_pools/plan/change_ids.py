"""The ids of changes: what a pool or cluster is planned to become, in eight digits that nobody can take for another plan's.

gpu_pools/stack/acknowledged.py says which kinds there are, and what somebody who writes one into a stack file wants.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.clouds.aks_inputs import merged, sent
from gpu_pools.clouds.aks_properties import inputs_that
from gpu_pools.plan.placing import node_group_labels
from gpu_pools.stack.acknowledged import BECOMES, CLUSTER, GOES, USED
from gpu_pools.stack.clusters import AksSettings, MagnumSettings
from gpu_pools.stack.placements import AksPlacement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.stack.clusters import ClusterSettings

#: Settings of a cluster by which its nodes run another Kubernetes.
_VERSIONS: Final = ("kubernetes_version", "template", "template_id")
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy")
#: What is declared of a VM size that no table has.
_TOLD: Final = ("gpu_model", "gpus_per_node")


def pool_change(planned: PoolPlan, cluster: ClusterSettings) -> str:
    """The id of a pool as it is planned."""
    return _id(BECOMES, "pool", _pool(planned, cluster))


def pool_goes(planned: PoolPlan) -> str:
    """The id of the going of a pool that is deployed as it is planned."""
    return _id(GOES, "pool", planned.change)


def pool_use(planned: PoolPlan) -> str:
    """The id of a pool's being shared as it is planned, by as many nodes."""
    declared = dataclasses.asdict(planned.sharing)
    declared.pop("needs")
    return _id(USED, "pool", [planned.name, declared, planned.pool.min_nodes, planned.pool.max_nodes])


def cluster_use(plan: Plan) -> str:
    """The id of a cluster's running what is planned: Kubernetes, operator, driver."""
    cluster, operator = plan.settings.cluster, plan.settings.operator
    versions = {key: value for key, value in _declared(cluster).items() if key in _VERSIONS}
    used = [versions, operator.chart.version, plan.operator_values["driver"]]
    # As ids were before pools had options by which their nodes are exchanged.
    rolling = {pool.name: found for pool in plan.pools if (found := rolling_options(pool))}
    return _id(USED, CLUSTER, [*used, rolling] if rolling else used)


def rolling_options(planned: PoolPlan) -> Mapping[str, Any]:
    """What of a pool of AKS is changed by exchanging its nodes, as far as it is written."""
    placed = planned.pool.placement
    if not isinstance(placed, AksPlacement):
        return {}
    asked = merged({"osSKU": placed.os_sku, **sent(placed.options)}, placed.options.properties)
    return inputs_that("rolling", "AgentPool", asked)


def cluster_change(cluster: ClusterSettings, pools: Iterable[PoolPlan]) -> str:
    """The id of a cluster and the pools in it as they are planned."""
    own = {key: value for key, value in _declared(cluster).items() if key != "protect"}
    if isinstance(cluster, AksSettings):
        own = _without_options(own) | _fixed_options("ManagedCluster", cluster.options)
        own["system_pool"] = {key: value for key, value in own["system_pool"].items() if key != "properties"}
    if "system_pool" in own:
        # In the words of the ids that stand in stack files; who scales it replaces nothing.
        nodes = own["system_pool"].pop("nodes")
        own["system_pool"] |= {"min_nodes": nodes["fewest"], "max_nodes": nodes["most"]}
    return _id(BECOMES, CLUSTER, [own, [_pool(planned, cluster) for planned in pools]])


def _declared(cluster: ClusterSettings) -> dict[str, Any]:
    """The settings of a cluster; of the newer ones those that are written, so that a stack without any keeps its ids."""
    declared = dataclasses.asdict(cast("Any", cluster))
    if declared.get("existing", ...) is None:
        del declared["existing"]
    # How a cluster is reached by a text is a secret, and no part of what it is.
    declared.pop("kubeconfig_content", None)
    if isinstance(cluster, AksSettings):
        # Whether Azure is asked before a deploy changes nothing of the cluster.
        del declared["check_cloud"]
    if not isinstance(cluster, MagnumSettings):
        return declared
    options = {key: value for key, value in declared.pop("options").items() if value is not None}
    if declared["template"]:
        declared["template"] = {
            key: value for key, value in declared["template"].items() if value is not None or key not in _PROXIES
        }
    return declared | ({"options": options} if options else {})


def _pool(planned: PoolPlan, cluster: ClusterSettings) -> Mapping[str, Any]:
    """Whatever of it may force a replacement; on Magnum that is every label of the node group, where taints may be too."""
    placed = dataclasses.asdict(cast("Any", planned.pool.placement))
    if isinstance(cluster, MagnumSettings):
        return {"name": planned.name, **placed, "labels": node_group_labels(planned, cluster.driver)}
    if isinstance(planned.pool.placement, AksPlacement):
        # What a size has is told, not asked for: it replaces nothing.
        placed = {key: value for key, value in placed.items() if key not in _TOLD}
        placed = _without_options(placed) | _fixed_options("AgentPool", planned.pool.placement.options)
        if placed["spot"] and placed["spot"]["eviction_policy"] == "Delete":
            # As ids were before there was a choice.
            del placed["spot"]["eviction_policy"]
    return {"name": planned.name, **placed, "driver": planned.driver, "gpuInstanceProfile": planned.gpu_instance_profile}


def _without_options(declared: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in declared.items() if key != "options"}


def _fixed_options(type_: str, options: Any) -> dict[str, Any]:  # noqa: ANN401 - options of pools or of clusters
    """Those that are fixed at creation, where any is written: a stack without options keeps its ids."""
    fixed = inputs_that("replaces", type_, merged(sent(options), options.properties))
    return {"options": fixed} if fixed else {}


def _id(change: str, kind: str, declared: object) -> str:
    return f"{change}{hashlib.sha256(json.dumps([kind, declared], sort_keys=True).encode()).hexdigest()[:8]}"
