"""Ends a deploy in which a pool with a `count` has fewer nodes than it declares, once everything else is done.

No resource and no hook can: where nothing of a pool changes the engine does nothing, while its node may be gone or may never
have come, and what a hook raises after an update only warns. So the program itself looks, in each `up`, when what the pools
depend on is made. It looks at all pools together: a program that fails ends at once, and the engine would begin nothing more of
another pool. A preview and a cluster that does not answer end nothing.

A node that joins meanwhile is waited for as long as a verifier would get. Where the nodes are verified its proof is waited for,
too: the provider had called the DaemonSet complete without it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.components.kubernetes.ask_first import cluster_at, reason
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.plan.planned import Plan
from gpu_pools.proof.fixed_counts import FixedCount, Shortfall, fixed_counts, shortfalls, told
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.text import harmless
from gpu_pools.text.nested import at
from gpu_pools.verifier.api import ApiError

_EVERY_SECONDS = 5.0
_TRIES, _PAUSE_SECONDS = 3, 2.0
#: Where no verifier has a time limit of its own: clouds answer once their machines have joined, or failed to.
_UNVERIFIED_SECONDS: Final = 60


def require_nodes(
    plan: Plan,
    after: Sequence[pulumi.Output[Any]],
    reached: tuple[pulumi.Input[str], str | None],
    groups: Mapping[str, pulumi.Input[str]] | None = None,
    pool: str | None = None,
) -> None:
    """Have the deploy fail at its end where a node of a pool with a `count` is missing.

    Args:
        plan: the whole plan.
        after: known once what each pool needs is made.
        reached: kubeconfig of the cluster, and a context of it.
        groups: of pools with `replace` on Magnum what their groups are called.
        pool: the only pool to look at; None for all.
    """
    if not any(pool in {None, one.pool} for one in fixed_counts(plan)):
        return
    named: dict[str, pulumi.Input[str]] = {**(groups or {})}
    known: Any = pulumi.Output.all(after=pulumi.Output.all(*after), kubeconfig=reached[0], groups=pulumi.Output.all(**named))
    known.apply(
        lambda one: _required(
            plan,
            [found for found in fixed_counts(plan, one["groups"]) if pool in {None, found.pool}],
            one["kubeconfig"],
            reached[1],
        )
    )


async def _required(plan: Plan, counts: Sequence[FixedCount], kubeconfig: str, context: str | None) -> None:
    if pulumi.runtime.is_dry_run():
        return
    try:
        api = await asyncio.to_thread(cluster_at, kubeconfig, context)
        missing = await _missing(api, counts, _seconds(plan), verified=plan.settings.verification.enabled)
    except pulumi.RunError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that does not answer is no missing node
        unknown = "whether all declared nodes are in the cluster is not known"
        log.warn(f"{unknown}: {reason(error)}", None)
        return
    if missing:
        # A RunError is shown as it is.
        raise pulumi.RunError(harmless.text(told(missing)))


def _seconds(plan: Plan) -> float:
    """How long a node that is missing is waited for."""
    verified = plan.settings.verification
    return verified.deadline_seconds if verified.enabled else _UNVERIFIED_SECONDS


async def _missing(api: ClusterApi, counts: Sequence[FixedCount], seconds: float, *, verified: bool) -> Sequence[Shortfall]:
    end = time.monotonic() + seconds
    missing = await asyncio.to_thread(_look, api, counts)
    late = [one.declared for one in missing]
    while missing and time.monotonic() < end:
        log.info(f"waiting for nodes: {', '.join(f'{one.declared.pool} has {len(one.present)}' for one in missing)}")
        await asyncio.sleep(_EVERY_SECONDS)
        missing = await asyncio.to_thread(_look, api, late)
    if not missing and verified:
        await _proven(api, late, end)
    return missing


def _look(api: ClusterApi, counts: Sequence[FixedCount]) -> Sequence[Shortfall]:
    nodes = {one.pool: _items(api, "/api/v1/nodes", labelSelector=one.selector) for one in counts}
    return shortfalls(counts, {pool: [str(at(node, "metadata", "name")) for node in found] for pool, found in nodes.items()})


async def _proven(api: ClusterApi, late: Sequence[FixedCount], end: float) -> None:
    """Wait for the verifiers of pools whose nodes came late.

    Raises:
        pulumi.RunError: one is not done in time.
    """
    path = f"/apis/apps/v1/namespaces/{VERIFIER_NAMESPACE}/daemonsets"
    waited = {f"{VERIFIER_APP}-{one.pool}": one for one in late}
    while waited:
        for found in await asyncio.to_thread(_items, api, path):
            one = waited.get(str(at(found, "metadata", "name")))
            ready: Any = at(found, "status", "numberReady")
            if one is not None and (ready or 0) >= one.count:
                del waited[f"{VERIFIER_APP}-{one.pool}"]
        if waited and time.monotonic() >= end:
            pools = ", ".join(one.pool for one in waited.values())
            message = f"nodes of {pools} came late and are not verified yet: `python -m gpu_pools evidence {pulumi.get_stack()}`"
            raise pulumi.RunError(f"{message} says what differs. Then run `pulumi up` again.")
        if waited:
            await asyncio.sleep(_EVERY_SECONDS)


def _items(api: ClusterApi, path: str, **query: str) -> list[dict[str, Any]]:
    for left in reversed(range(_TRIES)):
        try:
            found: list[dict[str, Any]] = api.get(path, **query)["items"]
        except ApiError:
            if not left:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return found
    return []
