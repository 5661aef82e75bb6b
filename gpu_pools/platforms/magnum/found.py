"""A Magnum cluster that was there before the stack, held against the node groups that the stack would add to it. Only judges.

Magnum keeps no tags on node groups, and the program cannot ask the engine which are the stack's own: so they have a label, which
Magnum stores and no driver reads. What holds for each living cluster is gpu_pools/platforms/magnum/living.py's matter.
Sources: openstack/magnum 23.0.0 (api/controllers/v1/nodegroup.py: names, and the states in which groups are taken;
drivers' label lists); magnum-capi-helm 1.4.0 (_validate_allowed_node_counts).
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.magnum.answers import AUTOSCALER
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.platforms.magnum.answers import Magnum
    from gpu_pools.platforms.magnum.cluster import MagnumDriver
    from gpu_pools.platforms.magnum.existing import ExistingMagnum
    from gpu_pools.stack.pools import Pool
    from gpu_pools.text.errors import Problems

#: Label of the node groups that a stack adds to a cluster that is there; its value is project and stack.
OWNER_LABEL: Final = "gpu_pools_stack"
_KUBELETS: Final = "kubelet_options"
_EXISTING: Final = "gpu-pools:cluster.existing"


def judge_found(
    existing: ExistingMagnum,
    driver: MagnumDriver | None,
    pools: Sequence[Pool],
    magnum: Magnum,
    owner: str,
    problems: Problems,
) -> None:
    """Add what does not go together with the cluster.

    Args:
        existing: which cluster is meant.
        driver: of the cloud, as it is declared.
        pools: of the stack.
        magnum: what it says.
        owner: what the label of this stack's groups says.
        problems: are added to.
    """
    if _is_one(existing, magnum, problems) and _is_usable(existing, magnum, problems):
        for pool in pools:
            _judge_name(pool, existing, magnum, owner, problems)
            _judge_fewest(pool, driver, magnum, problems)


def notes_on_found(pools: Sequence[Pool], magnum: Magnum) -> Iterator[str]:
    """What whoever deploys should know of the cluster."""
    if magnum.status.endswith("_IN_PROGRESS"):
        yield f"the cluster is {magnum.status}: Magnum takes a second operation meanwhile, and may lose one of the two."
    scaled = [pool.name for pool in pools if pool.autoscaled]
    if magnum.status and scaled and not magnum.autoscales:
        yield f"the cluster's labels do not turn {AUTOSCALER} on: nobody scales {', '.join(scaled)}."
    if _KUBELETS in magnum.labels:
        yield (
            f"the cluster's label {_KUBELETS} does not hold for a pool that has one of its own, as one with taints has on heat: "
            f"repeat it in that pool's `nodeGroupLabels` ({show(magnum.labels[_KUBELETS])})."
        )


def _is_one(existing: ExistingMagnum, magnum: Magnum, problems: Problems) -> bool:
    path = f"{_EXISTING}.{'uuid' if existing.uuid else 'name'}"
    if not magnum.namesakes:
        near = difflib.get_close_matches(existing.named, magnum.clusters, n=1)
        problems.add(
            path,
            f"the project that you have logged in for has no cluster {show(existing.named)}",
            allowed=", ".join(sorted(magnum.clusters)) or "nothing: it has no cluster",
            remedy=f"Did you mean `{near[0]}`?" if near else "`openstack coe cluster list` shows those of a project.",
        )
    elif len(magnum.namesakes) > 1:
        problems.add(
            path,
            f"{len(magnum.namesakes)} clusters are called {show(existing.named)}, and Magnum takes no such name",
            allowed=", ".join(magnum.namesakes),
            remedy="Write `uuid` instead of `name`.",
        )
    return len(magnum.namesakes) == 1


def _is_usable(existing: ExistingMagnum, magnum: Magnum, problems: Problems) -> bool:
    usable = not (magnum.status == "CREATE_FAILED" or magnum.status.startswith("DELETE_"))
    if not usable:
        reason = f": {magnum.reason}" if magnum.reason else ""
        problems.add(
            _EXISTING,
            f"the cluster {existing.named} is {magnum.status}{reason}",
            allowed="a cluster that was made, and stays",
            remedy="Have its owner put it right, or choose another.",
        )
    return usable


def _judge_name(pool: Pool, existing: ExistingMagnum, magnum: Magnum, owner: str, problems: Problems) -> None:
    there = magnum.groups.get(pool.name)
    # A label cannot be put on a living group, nor taken off: of an adopted one only the stack can say that it is its own.
    if there is None or there.labels.get(OWNER_LABEL) == owner or pool.adopted:
        return
    whose = there.labels.get(OWNER_LABEL)
    problems.add(
        f"{pool.path}.name",
        f"{show(pool.name)} is a node group that the cluster has already, "
        + (f"of the stack {whose}" if whose else "made by another"),
        allowed="a name that no node group of the cluster has",
        remedy=f"Choose another one; `openstack coe nodegroup list {existing.named}` shows those that are taken. "
        "To take over one that was made by hand: `gpu-pools adopt magnum --help`.",
    )


def _judge_fewest(pool: Pool, driver: MagnumDriver | None, magnum: Magnum, problems: Problems) -> None:
    """As gpu_pools/platforms/magnum/drivers.py says it of a cluster whose labels the stack declares."""
    if driver == "capi-helm" and magnum.autoscales and pool.min_nodes == 0:
        problems.add(
            f"{pool.path}.{'nodes.min' if pool.autoscaled else 'count'}",
            f"0 is too few for the driver capi-helm on this cluster, which has {AUTOSCALER}",
            allowed="1 or more",
            remedy='Ask for one node at least; Magnum would answer "Min node count must be greater than or equal to 1".',
        )
