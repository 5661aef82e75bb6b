"""What a change does to a pool with a ``rollout``, and what it means to begin or to end that. Sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, DRA_DRIVER_LABEL, MIG_CONFIG_LABEL
from gpu_pools.verifier.changer import rollout_steps
from gpu_pools.verifier.names import NO_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.changes.pools import PoolChange
    from gpu_pools.plan.planned import PoolPlan
    from gpu_pools.stack.rollout import Rollout

_STAYING = {
    "wait": "the change waits for them",
    "stop": "the change stops there, and that node works on as before",
    "delete": "they are deleted, whatever their disruption budgets say",
}


def describe_rollout(pool: PoolChange, *, gives_back: bool = False) -> Iterator[str]:
    """The sentences; none where no rollout has a say.

    Args:
        pool: the change.
        gives_back: whether nodes that stay are given back when their pool goes.
    """
    before, after = pool.before, pool.after
    if before is None:
        return
    if after is None or "left" in pool.effects:
        if before.pool.rollout and "left" in pool.effects and not gives_back:
            yield (
                f"The labels that the rollout has set stay on the nodes of `{pool.name}`, and name a config that goes: take "
                "`rollout` out first, and the pool in a second commit; NFD then takes the labels away."
            )
        return
    if after.pool.rollout and before.pool.rollout is None:
        yield from _becomes(pool.name, before, after)
    elif before.pool.rollout and after.pool.rollout is None:
        yield (
            f"`{pool.name}` loses its rollout: a node that is being changed then stays cordoned, and its annotation "
            "gpu-pools/change says so; deploy this when `kubectl get nodes` shows none."
        )
    elif after.pool.rollout and before.labels != after.labels:
        yield from _describe_change(pool.name, before, after, after.pool.rollout)


def _becomes(name: str, before: PoolPlan, after: PoolPlan) -> Iterator[str]:
    whose = after.pool.placement.labelled_by
    yield (
        f"{whose} takes the labels of `{name}` away, and each node's verifier puts them back: between the two a node's device "
        "plugin serves its default config, by which running pods keep what they have and no new one gets a share."
    )
    if before.sharing.partitioned:
        yield (
            f"Meanwhile mig-manager may follow a label that is not there: cordon and drain the nodes of `{name}` before the "
            "deploy. In the sandbox the layout and the pods stay; a real operator was not tried."
        )


def _describe_change(name: str, before: PoolPlan, after: PoolPlan, rollout: Rollout) -> Iterator[str]:
    if harmless(before, after):
        yield f"It ends no share: no node of `{name}` is drained."
        return
    yield (
        f"{_several(rollout.max_unavailable)} of `{name}` at a time: cordoned, emptied of pods that hold GPUs by the eviction "
        f"API, changed, proven, uncordoned. Where pods do not go in {rollout.drain_seconds} s {_STAYING[rollout.pods_that_stay]}."
    )
    if rollout.windows:
        when = ", ".join(f"`{window}`" for window in rollout.windows)
        yield (
            f"Nodes of `{name}` begin to change only in its windows: {when}. A deploy outside of them is "
            "refused. Where one ends before all have changed the deploy fails, and the nodes go on in the next by themselves."
        )


def _several(most: int | str) -> str:
    if isinstance(most, str):
        return f"{most} of the nodes, at least one,"
    return f"{most} nodes" if most > 1 else "One node"


def harmless(before: PoolPlan, after: PoolPlan) -> bool:
    """Whether the changer would change a node at once although pods hold all of its shares."""
    now, becomes = (
        {
            DEVICE_PLUGIN_CONFIG_LABEL: one.config_key,
            MIG_CONFIG_LABEL: one.mig_config_key or "",
            DRA_DRIVER_LABEL: one.labels.get(DRA_DRIVER_LABEL, NO_CLAIMS),
        }
        for one in (before, after)
    )
    holder = rollout_steps.Holder("", "", "", "", before.advertises)
    node = rollout_steps.LivingNodeState(
        now, frozenset(), cordoned=False, mark=None, holders=(holder,), has_slot=False, as_declared=False
    )
    return rollout_steps.harmless(rollout_steps.Target(becomes, after.advertises), node)
