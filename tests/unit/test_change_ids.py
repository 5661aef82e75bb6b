"""Ids of acknowledgements and of uses stand in people's stack files: a stack that says the same keeps them, whatever is added.

So the ids of the project's own stacks are written down. Another one means that an acknowledgement no longer counts, or
that `up` wants a new one for what nobody has changed: right only where the stack file itself has changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpu_pools.plan import change_ids
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.stack.stack_file import read_stack_file

from .golden import golden_object

STACKS = Path(__file__).parents[2] / "stacks"


def ids(stack: str) -> dict[str, list[str]]:
    """Of the cluster and of each pool: what a change makes of it, and how it is used."""
    plan = plan_config(read_stack_file(STACKS / f"Pulumi.{stack}.yaml"))
    cluster = [change_ids.cluster_change(plan.settings.cluster, plan.pools), change_ids.cluster_use(plan)]
    pools = {pool.name: [change_ids.pool_change(pool, plan.settings.cluster), change_ids.pool_use(pool)] for pool in plan.pools}
    return {"the cluster": cluster, **pools}


def test_the_stacks_of_the_project_keep_their_ids() -> None:
    names = ("aks-dev", "aks-prod", "magnum-dev", "magnum-prod", "byo")
    golden_object("change-ids.yaml", {name: ids(name) for name in names})


def test_whether_azure_is_asked_is_no_change_of_the_cluster() -> None:
    plan = plan_config(read_stack_file(STACKS / "Pulumi.aks-dev.yaml"))
    cluster = plan.settings.cluster
    assert isinstance(cluster, AksSettings)
    unasked = replace(cluster, check_cloud=False)
    assert change_ids.cluster_change(unasked, plan.pools) == change_ids.cluster_change(cluster, plan.pools)
