"""One look at everything that a deploy has made: nodes beside the plan, what is not rolled out, what the verifiers have left.

Nothing is waited for and nothing is taken for well that could not be read.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.changing import changing
from gpu_pools.evidence.cluster import config_maps_of
from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.shared_text import strayed
from gpu_pools.evidence.verdicts import Snapshot, Verdict, judge
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.verifier.claims import SLICES
from sandbox.cli.observe import PoolObservation, observe
from sandbox.cluster.api import shared_client
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.cluster.node_tools import recorded
from sandbox.cluster.rollout import Objects, troubles, waiting_on
from sandbox.stack import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpu_pools.evidence.verdicts import Evidence, NodeEvidence
    from gpu_pools.plan.planned import Plan
    from sandbox.cluster.api import Api
    from sandbox.stack.state import Sandbox

_PATHS: Final = {
    "nodes": "/api/v1/nodes",
    "policies": "/apis/nvidia.com/v1/clusterpolicies",
    "deployments": "/apis/apps/v1/deployments",
    "daemon_sets": "/apis/apps/v1/daemonsets",
    "jobs": "/apis/batch/v1/jobs",
    "pods": "/api/v1/pods",
}
_LINES: Final = 4
_NAMED: Final = 3


@dataclass(frozen=True)
class Look:
    """What was seen.

    Attributes:
        pools: the nodes beside the plan.
        troubles: what else is not as it should be, in words.
        waiting: node -> what has been deployed to it and does not run there yet.
    """

    pools: tuple[PoolObservation, ...]
    troubles: tuple[str, ...] = ()
    waiting: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether everything is as declared and rolled out."""
        return not self.troubles and all(pool.holds for pool in self.pools)


def look(sandbox: Sandbox, plan: Plan) -> Look:
    """Look at all clusters of a stack."""
    folders = sandbox.cluster_folders()
    seen, found = _read(folders)
    run = not any(isinstance(recorded(folder), str) for folder in folders)
    said: dict[str, str] = {}
    missing: list[str] = []
    if plan.settings.verification.enabled and run:
        try:
            evidence = collect(sandbox, found)
        except EvidenceError as error:
            missing = [f"evidence: {error.message}"]
        else:
            said = dict(_said(evidence))
            missing = [f"evidence: {evidence.replaced} (W90)"] if evidence.replaced else []
            missing += [f"evidence: {line} (W92)" for line in strayed(evidence) if any(one.verdict for one in evidence.strays)]
            missing += [
                f"evidence of pool {pool.declared.name}: {pool.reason}" for pool in evidence.pools if pool.expectation is None
            ]
    slices = _slices(folders) if plan.dra else []
    pools = observe(plan, seen.nodes, verifiers_run=run, said=said, slices=slices)
    names = {node.name for pool in pools for node in pool.nodes}
    return Look(pools, (*troubles(seen, pool_nodes=names), *changing(seen.nodes), *missing), waiting_on(seen))


def collect(sandbox: Sandbox, found: Snapshot | None = None) -> Evidence:
    """What the verifiers of a stack have reported.

    Args:
        sandbox: the stack's.
        found: nodes and expectations as just read; None to read them.

    Raises:
        EvidenceError: if the stack's outputs do not say where reports are.
    """
    wanted = declared(checkpoint.outputs(sandbox))
    return judge(sandbox.stack, wanted, found or _read(sandbox.cluster_folders())[1])


def waits_for(seen: Look, pending: Sequence[str]) -> Iterator[str]:
    """Where something is waited for, and what for: a line each, a few of them.

    Args:
        seen: the last look.
        pending: what the engine is doing.
    """
    if pending:
        yield f"the engine: {_some(pending)}"
    # DaemonSets and Jobs are told node by node; evidence comes last, of what is waited for here.
    lines = [said for said in seen.troubles if not said.startswith(("DaemonSet", "Job", "evidence"))]
    for pool in seen.pools:
        for node in pool.nodes:
            waiting = seen.waiting.get(node.name, ())
            running = [f"not running there yet: {_some(waiting)}"] if waiting else []
            if causes := [*node.differences[:_NAMED], *running]:
                lines.append(f"{node.name} ({pool.pool_plan.name}): {'; '.join(causes)}")
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield f"and {len(lines) - _LINES} more"


def _some(things: Sequence[str]) -> str:
    more = f" and {len(things) - _NAMED} more" if len(things) > _NAMED else ""
    return ", ".join(things[:_NAMED]) + more


def _read(folders: Sequence[Path]) -> tuple[Objects, Snapshot]:
    """All objects of all clusters; what cannot be read is named."""
    listed: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _PATHS}
    config_maps: list[Mapping[str, Any]] = []
    unread: list[str] = []
    time = dt.datetime.now(dt.UTC)
    for folder in folders:
        if not (folder / "kubeconfig").exists():
            unread.append(f"the cluster {folder.name} is being made")
            continue
        try:
            api = shared_client(folder / "kubeconfig")
            for kind, path in _PATHS.items():
                listed[kind] += _list(api, path)
            config_maps += _list(api, f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/configmaps")
        except (ApiError, UnreachableError, OSError) as error:
            unread.append(f"the cluster {folder.name} cannot be read: {error}")
    nodes = unread[0] if unread else listed["nodes"]
    return Objects(**listed, unread=unread), Snapshot(time, nodes, config_maps_of(config_maps))


def _slices(folders: Sequence[Path]) -> list[Mapping[str, Any]]:
    """The devices that DRA drivers announce; a cluster that cannot be read is named by `_read`."""
    found: list[Mapping[str, Any]] = []
    for folder in folders:
        with contextlib.suppress(ApiError, UnreachableError, OSError):
            found += _list(shared_client(folder / "kubeconfig"), SLICES)
    return found


def _list(api: Api, path: str) -> list[Mapping[str, Any]]:
    try:
        items: list[Mapping[str, Any]] = api.list(path).get("items", [])
    except ApiError as error:
        if not error.missing:
            raise
        return []
    return items


def _said(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Node -> the first cause that its verifier names, or why its report proves nothing."""
    for pool in evidence.pools:
        for node in pool.nodes:
            if node.verdict is not Verdict.PROVEN:
                yield node.name, _first_cause(node)


def _first_cause(node: NodeEvidence) -> str:
    if node.reason or node.report is None:
        return f"{node.verdict.value}: {node.reason}"
    findings = node.report.differences or node.report.cannot_tell
    return f"{findings[0].cause}: {findings[0].likely_cause}" if findings else node.verdict.value
