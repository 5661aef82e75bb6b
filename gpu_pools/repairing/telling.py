"""What a repair would do, told before it is done: what is wrong, what happens in which order, whose pods end. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpu_pools.evidence.consequences import root_of
from gpu_pools.repairing.steps import leaving
from gpu_pools.repairing.ways import APPS, Way, ways_of
from gpu_pools.verifier.causes import cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.evidence.verdicts import PoolEvidence
    from gpu_pools.repairing.looking import Look
    from gpu_pools.repairing.repair import Manner
    from gpu_pools.repairing.steps import Mark

_THEN = {"stop": "then it stops, and the node is as it was before", "wait": "then it waits on", "delete": "then they are deleted"}


def found_text(look: Look) -> str:
    """What is wrong with the node."""
    lines = [f"{look.evidence.name}, pool {look.pool}: {look.evidence.verdict.value}"]
    if look.evidence.reason:
        lines.append(f"  {look.evidence.reason}")
    causes = [one.cause for one in look.findings]
    for one in look.findings:
        lines.append(f"  {one.where}: {one.text}")
        root = root_of(one.cause, causes)
        lines.append(f"      remedy: {one.remedy}" if root is None else f"      follows from: {cause(root).text}")
    return "\n".join(lines)


def found_json(look: Look) -> dict[str, Any]:
    """The same for machines."""
    return {
        "pool": look.pool,
        "verdict": look.evidence.verdict.value,
        "reason": look.evidence.reason,
        "findings": [{**asdict(one), "ways": sorted(way.name for way in ways_of(one.cause))} for one in look.findings],
    }


def plan_json(
    look: Look, ways: tuple[Way, ...], starting: Sequence[Mapping[str, object]], owner_commands: Sequence[str]
) -> dict[str, Any]:
    """What happens, for machines."""
    return {
        "ways": [way.name for way in ways],
        "cordonedBefore": _stays(look),
        "evicted": [f"{one.namespace}/{one.name}" for one in leaving(ways, look.seen)],
        "startedAnew": [look.seen.pods[_uid(pod)] for pod in starting],
        "ownerRuns": list(owner_commands),
    }


def plan_text(
    look: Look,
    ways: tuple[Way, ...],
    manner: Manner,
    starting: Sequence[Mapping[str, object]],
    pool: PoolEvidence,
    owner_commands: Sequence[str],
) -> str:
    """What happens, in its order.

    Args:
        look: at the node.
        ways: what is done.
        manner: how.
        starting: pods that start anew.
        pool: of the node.
        owner_commands: what the machine's owner runs.
    """
    lines = ["What is done, in this order:"]
    steps = _steps(look, ways, manner, [look.seen.pods[_uid(pod)] for pod in starting], owner_commands)
    lines += [f"  {number}. {step}" for number, step in enumerate(steps, 1)]
    causes = [one.cause for one in look.findings]
    if left := [one for one in look.findings if not ways_of(one.cause) and root_of(one.cause, causes) is None]:
        lines += ["What a repair of the node does not cure:", *(f"  {one.where}: {one.text}" for one in left)]
    if away := [node.name for node in pool.nodes if not node.ready and node.name != look.evidence.name]:
        lines.append(f"Beside it, of {len(pool.nodes)} nodes of the pool these are not ready: {', '.join(away)}")
    return "\n".join(lines)


def _steps(
    look: Look, ways: tuple[Way, ...], manner: Manner, starting: Sequence[str], owner_commands: Sequence[str]
) -> Iterator[str]:
    yield "it is cordoned already, and stays so" if look.seen.cordoned else "it is cordoned"
    if going := leaving(ways, look.seen):
        yield "\n".join(
            [
                f"these pods are evicted within {manner.drain_seconds:g} s; where they do not go, {_THEN[manner.staying]}:",
                *(f"       {one}" for one in going),
            ]
        )
    if Way.REPLACE in ways:
        yield "\n".join(
            [
                f"it is waited for up to {manner.hand_seconds:g} s until its machine is gone. Whoever owns it runs:",
                *_owned(owner_commands),
            ]
        )
        return
    if Way.HAND in ways:
        yield f"it is waited for up to {manner.hand_seconds:g} s until somebody has rebooted it, or has reset its GPUs"
    if Way.UPGRADE in ways:
        yield Way.UPGRADE.value
    if Way.LABEL in ways:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(look.seen.labels.items()))
        yield f"{Way.LABEL.value}: {labels or 'they are as declared by now'}"
    if starting:
        apps = "; ".join(way.value for way in ways if way in APPS or way is Way.POD)
        yield "\n".join([f"these pods start anew{f' ({apps})' if apps else ''}:", *(f"       {name}" for name in starting)])
    yield f"it is waited for up to {manner.proof_seconds:g} s for a new report of its verifier that all is as declared"
    yield "it stays cordoned, as it was before" if _stays(look) else "it is uncordoned"


def _owned(owner_commands: Sequence[str]) -> list[str]:
    unknown = "the stack does not have this machine: ask the cluster's owner to replace it"
    return [f"       {line}" for line in owner_commands or (unknown,)]


def _stays(look: Look) -> bool:
    mark: Mark | None = look.seen.mark
    return look.seen.cordoned and not (mark is not None and mark.cordoned)


def _uid(pod: Mapping[str, object]) -> str:
    metadata = pod["metadata"]
    return str(metadata["uid"]) if isinstance(metadata, dict) else ""
