"""How labels and taints reach the nodes of a pool, and which pool of those that replace each other under one name a node is of.

**Labels and taints** where a cloud's pool labels don't reach the nodes: Magnum and existing clusters. NFD rules cannot match on
node labels (node-feature-discovery v0.18, source/ and pkg/nfd-master), but the only thing that tells a pool's nodes apart there
is a node label: Magnum's driver sets one with the node group's name, and an existing cluster has its own. So a small DaemonSet
per pool, selected by that label, drops a feature file on the node; NFD publishes it, and one NodeFeatureRule per pool turns it
into the labels. Nodes that join later, by whatever means, get them without a deploy.

Of groups that follow each other under one pool's name (``replace``) each has a labeller and a rule of its own, which say its
replacement id, too: old nodes keep their labels until they are gone. What Magnum calls such a group only the engine knows,
since one that was there before has kept its name.

Taints: the kubelets of Magnum's heat driver register with taints by the node-group label ``kubelet_options`` (openstack/magnum
stable/2025.1, configure-kubernetes-minion.sh); for the other drivers NFD sets the taints. On existing clusters the taints are
there already. On AKS all of this is the node pool's own business.

**The replacement id** is a few digits of what the cloud fixes at a pool's creation. With ``replace`` the digits are a label of
the nodes, by which old ones are told from new ones. With ``surge`` they also end the pool's name in the cloud, and a change of
any of that makes another pool, which is there together with the old one for a time. A pool that was there before `replace` was
declared keeps its name until such a change (components/replacement.py); its nodes get the label.

What only the engine will know (Outputs), and what the cluster gives to all of its pools, does not count: a change of that
deletes the pool first, undrained. The digits must stay the same from version to version, since other ones replace every pool.

What Magnum fixes is what terraform-provider-openstack 3.4.0 replaces a node group for (`ForceNew` of its resource); of its
labels those that the pool declares, and what its kubelets register with. Whose stack the group is of does not count.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.platforms.known import platform_of
from gpu_pools.platforms.magnum.cluster import TAINTED_BY_NFD
from gpu_pools.platforms.magnum.replacements import ReplacedPool, is_replacement_name
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

# --- labels and taints --------------------------------------------------------------------------------------------

LABELLER_APP: Final = "gpu-pools-marker"
#: Where NFD's `local` source looks for feature files.
FEATURES_FOLDER: Final = "/etc/kubernetes/node-feature-discovery/features.d"
_FILE: Final = "gpu-pools"


def _mark(file: str, features: Mapping[str, str]) -> str:
    """A script that says features of the node, by environment variables, and no labels: a line of that holds for one feature.

    A leading dot hides the file from NFD until it is whole. The file stays when the labeller is restarted, so that labels never
    flap, and expires after a day on a node that has left the pool.
    """
    lines = "# +no-label\\n# +expiry-time=%s\\n" + "# +no-label\\n".join(f"{key}=%s\\n" for key in features)
    values = " ".join(f'"${variable}"' for variable in features.values())
    return (
        "set -eu; cd /features.d; trap 'exit 0' TERM INT; while :; do "
        'until=$(date -u -d "@$(($(date +%s) + 86400))" +%Y-%m-%dT%H:%M:%SZ); '
        f'printf "{lines}" "$until" {values} > .{file}; mv .{file} {file}; sleep 3600 & wait $!; done'
    )


def pool_selector(cluster: Cluster, pool_plan: PoolPlan, group: str = "") -> dict[str, str]:
    """The node labels that tell the pool's nodes apart from the moment they register, on every platform.

    Of a pool with ``replace`` on Magnum only where its group's name is given; without it, those that NFD has set by then.

    Args:
        cluster: of the stack.
        pool_plan: the pool.
        group: what Magnum calls it, of a pool with ``replace``.

    Raises:
        ValueError: for a Magnum section without driver.
    """
    return platform_of(cluster).node_selector(cluster, pool_plan, group)


def labeller_selector(cluster: Cluster, pool_plan: PoolPlan, group: str = "") -> dict[str, str]:
    """The node label by which a pool's labeller finds its nodes, before NFD has set any.

    Args:
        cluster: of the stack.
        pool_plan: the pool.
        group: what Magnum calls it, of a pool with ``replace``.

    Raises:
        ValueError: where the cloud labels the nodes, and none is needed, and for a Magnum section without driver.
    """
    if cluster.labels_nodes:
        message = f"pool {pool_plan.name} on {pool_plan.platform} needs no labeller"
        raise ValueError(message)
    return platform_of(cluster).node_selector(cluster, pool_plan, group or pool_plan.made_name)


def node_feature_rule(pool_plan: PoolPlan, driver: str | None = None) -> dict[str, Any]:
    """The ``spec`` of the pool's NodeFeatureRule.

    Args:
        pool_plan: the pool.
        driver: Magnum's driver, None on existing clusters.
    """
    marked = {POOL_LABEL: pool_plan.name} | ({REPLACEMENT_LABEL: pool_plan.replacement_id} if pool_plan.replacement_id else {})
    matches = {key: {"op": "In", "value": [value]} for key, value in marked.items()}
    rule: dict[str, Any] = {
        "name": f"gpu-pools {pool_plan.name}{_dashed(pool_plan, ' ')}",
        "labels": pool_plan.placed_labels,
        "matchFeatures": [{"feature": "local.feature", "matchExpressions": matches}],
    }
    if driver in TAINTED_BY_NFD and pool_plan.taints:
        rule["taints"] = [_taint(taint.key, taint.value, taint.effect) for taint in pool_plan.taints]
    return {"rules": [rule]}


def rule_name(pool_plan: PoolPlan) -> str:
    """The name of the pool's NodeFeatureRule; each replacement has one of its own."""
    return f"gpu-pools-{pool_plan.name}{_dashed(pool_plan)}"


def labeller_name(pool_plan: PoolPlan) -> str:
    """The name of the DaemonSet that marks the pool's nodes; each replacement has one of its own."""
    return f"{LABELLER_APP}-{pool_plan.name}{_dashed(pool_plan)}"


def _dashed(pool_plan: PoolPlan, dash: str = "-") -> str:
    return f"{dash}{pool_plan.replacement_id}" if pool_plan.replacement_id else ""


def node_group_labels(pool_plan: PoolPlan, cluster: Cluster) -> dict[str, str]:
    """The Magnum labels of the pool's node group: the user's, and the taints where the driver's kubelets set them."""
    return platform_of(cluster).labels_of_group(cluster, pool_plan)


def labeller_daemon_set_spec(
    pool_plan: PoolPlan, node_selector: Mapping[str, str], tolerations: Iterable[Mapping[str, str]], image: str
) -> dict[str, Any]:
    """The ``spec`` of the DaemonSet that marks the pool's nodes for NFD."""
    labels = {"app.kubernetes.io/name": LABELLER_APP, POOL_LABEL: pool_plan.name}
    env, file, features = [{"name": "GPU_POOLS_POOL", "value": pool_plan.name}], _FILE, {POOL_LABEL: "GPU_POOLS_POOL"}
    if pool_plan.replacement_id:
        labels[REPLACEMENT_LABEL] = pool_plan.replacement_id
        env.append({"name": "GPU_POOLS_GENERATION", "value": pool_plan.replacement_id})
        # In a file of its own: the labeller of before, which is there until a deploy's end, would write over it.
        file, features = f"{_FILE}-generation", {**features, REPLACEMENT_LABEL: "GPU_POOLS_GENERATION"}
    container = {
        "name": "marker",
        "image": image,
        "command": ["sh", "-c", _mark(file, features)],
        "env": env,
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "features", "mountPath": "/features.d"}],
    }
    tolerated = [dict(toleration) for toleration in tolerations]
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "nodeSelector": dict(node_selector),
                # An empty list is not kept by the API server: after a refresh the engine would see a change.
                **({"tolerations": tolerated} if tolerated else {}),
                "automountServiceAccountToken": False,
                "priorityClassName": "system-node-critical",
                "terminationGracePeriodSeconds": 5,
                "containers": [container],
                **({"imagePullSecrets": [dict(one) for one in pool_plan.pull_secrets]} if pool_plan.pull_secrets else {}),
                "volumes": [{"name": "features", "hostPath": {"path": FEATURES_FOLDER, "type": "DirectoryOrCreate"}}],
            },
        },
    }


def _taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


# --- the replacement id -------------------------------------------------------------------------------------------

_DIGITS: Final = 6


def replacement_id(pool_plan: PoolPlan, cluster: Cluster) -> str:
    """The digits; empty without ``replace``.

    Args:
        pool_plan: the pool.
        cluster: of the stack.
    """
    if pool_plan.pool.replacement is None:
        return ""
    fixed = json.dumps([pool_plan.name, platform_of(cluster).fixed_at_creation(cluster, pool_plan)], sort_keys=True)
    return hashlib.sha256(fixed.encode()).hexdigest()[:_DIGITS]


def replacement_ids(plan: Plan) -> dict[str, str]:
    """Name of each pool with ``replace`` -> its digits."""
    return {pool_plan.name: pool_plan.replacement_id for pool_plan in plan.pools if pool_plan.replacement_id}


def replaced_pools(plan: Plan) -> list[ReplacedPool]:
    """The pools with ``replace`` on Magnum, as who holds them against the cloud needs them."""
    cluster = plan.settings.cluster
    return [
        ReplacedPool(one.pool, one.stem, one.replacement_id, cast("Any", one.pool.placement), node_group_labels(one, cluster))
        for one in plan.pools
        if one.replacement_id and cluster.has_node_groups
    ]


def pool_called(name: str, pools: Iterable[PoolPlan]) -> str:
    """Which of these pools the cloud calls so, whichever replacement of it; the name itself where it is none of them."""
    known = list(pools)
    if any(one.name == name for one in known):
        return name
    return next(
        (one.name for one in known if one.replacement_id and is_replacement_name(name, one.stem, one.replacement_id)), name
    )


def with_replacement_id(pool_plan: PoolPlan, cluster: Cluster) -> PoolPlan:
    """The pool with its digits, and the label that says them."""
    if not (digits := replacement_id(pool_plan, cluster)):
        return pool_plan
    labels = dict(sorted({**pool_plan.labels, REPLACEMENT_LABEL: digits}.items()))
    return replace(pool_plan, replacement_id=digits, labels=labels)


def check_replacements(settings: Settings, problems: Problems) -> None:
    """What stands against the pools with ``replace``."""
    for pool in settings.pools:
        if pool.replacement is None or settings.imported:
            continue
        where = f"{pool.path}.replace"
        if pool.adopted:
            problems.add(
                where,
                f'"{pool.replacement}", and the pool was made by hand, so that not all is written that was fixed at its creation',
                allowed="replace for pools that the stack makes",
                remedy="Add a pool of the stack's beside it, move the work there, and take this one out.",
            )
        if pool.protect:
            problems.add(
                where,
                f'"{pool.replacement}", and the pool is protected: the engine would refuse to delete the old one',
                allowed="protect or replace",
                remedy="Leave `replace` or `protect` out; without `replace` such a change is acknowledged before it is deployed.",
            )
        if pool.replacement == "surge" and not settings.verification.enabled:
            problems.add(
                where,
                '"surge" needs the verification, which proves the new pool before the old one is drained',
                allowed="a section gpu-pools:verification",
                remedy="Add `gpu-pools:verification: {}`, or write `replace: inPlace`.",
            )
