"""Reads what a repair goes by: the node, its pods, and what its verifier has reported, judged as `gpu-pools evidence` judges it.

A report counts if it is a fresh one of the deployed program about the deployed expectation (gpu_pools/evidence/verdicts.py). What
mig-manager hangs in is read off the labels, too: then no verifier may be able to say so.

A pod's labels are its author's, so they say nothing alone: the operator's pods are those of its namespace, which is the stack's,
that belong to a DaemonSet there. Only such pods, and the verifiers, are ever deleted without an eviction.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.cluster import config_maps_of
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.verdicts import Snapshot, Verdict, judge
from gpu_pools.repairing.steps import OF_THE_NODE, Mark, NodeUnderRepair, read_mark
from gpu_pools.repairing.ways import APPS, Finding, Way
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.verifier.api import ApiError, shaped
from gpu_pools.verifier.causes import cause
from gpu_pools.verifier.changer.living_node import ANNOTATION as CHANGING
from gpu_pools.verifier.changer.living_node import LivingNode, as_holder, holders_among, is_over, read_pods
from gpu_pools.verifier.changer.owners import Owners
from gpu_pools.verifier.changer.rollout_steps import by_claims, hangs, is_paused, wrong_labels
from gpu_pools.verifier.expectation import parse_expectation
from gpu_pools.verifier.marks import changed_label
from gpu_pools.verifier.names import MIG_STATE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.evidence.declared import Declared, Pool
    from gpu_pools.evidence.verdicts import NodeEvidence, PoolEvidence
    from gpu_pools.verifier.api import Client

ANNOTATION: Final = "gpu-pools/repair"
_NOT_FOUND: Final = 404
#: A verifier that says nothing is started anew; a kubelet that says nothing needs a hand.
_SILENT, _NOT_READY = "reader-crashed", "node-not-ready"


class NoNodeError(Exception):
    """There is no such node."""


@dataclass(frozen=True)
class Look:
    """One look at a node.

    Attributes:
        node: the object.
        pool: the name of its pool.
        seen: as steps go by it.
        evidence: what is to be said of it.
        findings: what is wrong with it, the most important first.
        pods: all that are on it.
        owned: uids of those of the operator and of the verifiers that belong to a DaemonSet.
    """

    node: dict[str, Any]
    pool: str
    seen: NodeUnderRepair
    evidence: NodeEvidence
    findings: tuple[Finding, ...]
    pods: Sequence[Mapping[str, Any]]
    owned: frozenset[str]

    def starting(self, ways: Sequence[Way], verifiers: str) -> tuple[Mapping[str, Any], ...]:
        """The pods that start anew for this, in their order; the verifier at last, so that its report is of what is then.

        Args:
            ways: what is done.
            verifiers: the namespace of the verifiers.
        """
        if Way.REPLACE in ways:
            return ()
        apps = [APPS[way] for way in ways if way in APPS]
        owned = [pod for pod in self.pods if pod["metadata"]["uid"] in self.owned]
        operands = [pod for pod in owned if pod["metadata"]["namespace"] == OPERATOR_NAMESPACE]
        found = [pod for app in apps for pod in operands if _app(pod) == app]
        if Way.POD in ways:
            stuck = {one.where.removeprefix("pod ") for one in self.findings if one.cause == "config-wedged"}
            found += [pod for pod in operands if _path(pod) in stuck]
        return (*found, *(pod for pod in owned if pod["metadata"]["namespace"] == verifiers))


@dataclass(frozen=True)
class Looker:
    """Looks at one node of a stack.

    Attributes:
        api: where it is read.
        name: the node's.
        stack: its stack, for messages.
        declared: what the deploy says of the reports.
        config_maps: of the verifiers' namespace.
    """

    api: Client
    name: str
    stack: str
    declared: Declared
    config_maps: Mapping[str, Mapping[str, str]]

    @shaped("a node, or what is on it")
    def look(self) -> Look:
        """What is there now.

        Raises:
            ApiError: where the API does not answer, or refuses.
            EvidenceError: where it is not a node of the stack.
            NoNodeError: where there is no such node.
        """
        try:
            node = self.api.get(f"/api/v1/nodes/{self.name}")
        except ApiError as error:
            if error.status == _NOT_FOUND:
                raise NoNodeError(self.name) from None
            raise
        pods = self.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}").get("items") or []
        owners, named = Owners(self.api), [pod for pod in pods if _is_named(pod)]
        owned = _owned(named, (OPERATOR_NAMESPACE, self.declared.namespace), owners)
        judged = judge(self.stack, self.declared, Snapshot(dt.datetime.now(dt.UTC), [node], self.config_maps))
        for pool in judged.pools:
            for evidence in pool.nodes:
                findings = _findings(node, evidence)
                seen = _seen(node, _Pods(pods, named, owned, owners), evidence, findings)
                seen = replace(seen, labels=self._wrong_labels(node, pool.declared))
                return Look(node, pool.declared.name, seen, evidence, findings, named, owned)
        pools = ", ".join(sorted(pool.name for pool in self.declared.pools))
        message = f"{self.name} is not a node of a pool of {self.stack}."
        raise EvidenceError(message, f"Its pools are {pools}; each node has its pool's label.")

    def _wrong_labels(self, node: Mapping[str, Any], pool: Pool) -> dict[str, str]:
        """The labels of the deployed expectation that the node has not as declared; none where somebody has changed that."""
        text = self.config_maps.get(pool.config_map, {}).get(self.declared.key, "")
        if hashlib.sha256(text.encode()).hexdigest() != pool.sha256:
            return {}
        expected = parse_expectation(json.loads(text)).node
        return wrong_labels(expected.labels if expected else {}, node["metadata"].get("labels") or {})

    @shaped("the nodes of a pool")
    def pool(self, name: str) -> PoolEvidence:
        """What is to be said of a pool.

        Raises:
            ApiError: where the API does not answer, or refuses.
        """
        (wanted,) = (pool for pool in self.declared.pools if pool.name == name)
        selector = ",".join(f"{key}={value}" for key, value in sorted(wanted.node_selector.items()))
        nodes = self.api.get("/api/v1/nodes", labelSelector=selector).get("items") or []
        judged = judge(self.stack, self.declared, Snapshot(dt.datetime.now(dt.UTC), nodes, self.config_maps))
        return next(pool for pool in judged.pools if pool.declared.name == name)

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes of the cluster.

        Raises:
            ApiError: where the API does not answer, or refuses.
        """
        found = self.api.get("/api/v1/nodes").get("items")
        return [node for node in found if isinstance(node, dict)] if isinstance(found, list) else []

    def living(self, look: Look) -> LivingNode:
        """The node, to be written to."""
        return LivingNode(self.api, look.evidence.name, OPERATOR_NAMESPACE, ANNOTATION)


def looker_at(api: Client, name: str, stack: str, declared: Declared) -> Looker:
    """Whoever looks at a node.

    Raises:
        ApiError: where the expectations cannot be read.
    """
    found = api.get(f"/api/v1/namespaces/{declared.namespace}/configmaps").get("items") or []
    return Looker(api, name, stack, declared, config_maps_of(found))


def being_changed(node: Mapping[str, Any]) -> str:
    """The mark of the pool's own change of the node; empty where there is none."""
    return str((node["metadata"].get("annotations") or {}).get(CHANGING) or "")


@dataclass(frozen=True)
class _Pods:
    """The pods of a node.

    Attributes:
        listed: as the API gave them.
        named: those that say who they are.
        owned: as Look has it.
        owners: tells which owners there are.
    """

    listed: Sequence[Any]
    named: Sequence[Mapping[str, Any]]
    owned: frozenset[str]
    owners: Owners


def _seen(node: dict[str, Any], pods: _Pods, evidence: NodeEvidence, findings: tuple[Finding, ...]) -> NodeUnderRepair:
    labels = node["metadata"].get("labels") or {}
    holding = holders_among(pods.listed, OPERATOR_NAMESPACE, pods.owners, claims=by_claims(labels))
    held = {one.uid for one in holding}
    rest = [pod for pod in pods.named if pod["metadata"]["uid"] not in held]
    others = read_pods(rest, lambda pod: None if is_over(pod) else as_holder(pod, {}), pods.owners)
    counts = evidence.report is not None and evidence.verdict is not Verdict.STALE
    return NodeUnderRepair(
        cordoned=bool((node.get("spec") or {}).get("unschedulable")),
        ready=evidence.ready,
        mark=_mark(node, pods),
        holders=holding,
        others=tuple(one for one in others if one.owner not in OF_THE_NODE),
        pods={str(pod["metadata"]["uid"]): _path(pod) for pod in pods.named},
        boot=str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or ""),
        report=str(evidence.report.document["time"]) if evidence.report else "-",
        causes=tuple(one.cause for one in findings) if counts else None,
        proven=evidence.verdict is Verdict.PROVEN,
    )


def _mark(node: Mapping[str, Any], pods: _Pods) -> Mark | None:
    """The mark on the node, which its kubelet can write, too: of the pods that it names only those count that may start anew."""
    mark = read_mark((node["metadata"].get("annotations") or {}).get(ANNOTATION))
    if mark is None:
        return None
    others = {pod["metadata"]["uid"] for pod in pods.named} - pods.owned
    return replace(mark, pods=tuple(uid for uid in mark.pods if uid not in others))


def _owned(pods: Sequence[Mapping[str, Any]], namespaces: tuple[str, ...], owners: Owners) -> frozenset[str]:
    """The uids of those in these namespaces that belong to a DaemonSet."""
    inside = [pod for pod in pods if pod["metadata"]["namespace"] in namespaces]
    found = read_pods(inside, lambda pod: as_holder(pod, {}), owners)
    return frozenset(one.uid for one in found if one.owner == "DaemonSet")


def _is_named(pod: object) -> bool:
    """Whether it is an object that says who it is."""
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    return isinstance(metadata, dict) and all(isinstance(metadata.get(key), str) for key in ("namespace", "name", "uid"))


def _findings(node: dict[str, Any], evidence: NodeEvidence) -> tuple[Finding, ...]:
    report = evidence.report
    counts = report is not None and evidence.verdict is not Verdict.STALE
    listed = sorted([*report.differences, *report.cannot_tell], key=lambda one: one.rank) if report and counts else []
    found = [Finding(one.cause, one.where, one.likely_cause, one.remedy) for one in listed]
    if not evidence.ready:
        found = [_known(_NOT_READY, "node"), *(one for one in found if one.cause != _NOT_READY)]
    elif mig_hangs(node) and evidence.verdict is not Verdict.PROVEN:
        found = [_known("mig-stuck", "node"), *found]
    elif not found and evidence.verdict in {Verdict.STALE, Verdict.NOT_VERIFIED, Verdict.CANNOT_TELL}:
        silent = _known(_SILENT, "its verifier")
        found = [replace(silent, text=evidence.reason or "no verifier has reported", remedy="Start its pod anew.")]
    return tuple({(one.cause, one.where): one for one in found}.values())


def mig_hangs(node: dict[str, Any]) -> bool:
    """Whether mig-manager will do nothing more by itself, and keeps its clients away."""
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    state, since = str(labels.get(MIG_STATE_LABEL) or ""), changed_label(metadata, MIG_STATE_LABEL)
    seconds = math.inf
    if since is not None:
        seconds = (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(since)).total_seconds()
    return is_paused(labels) and hangs(state, paused=True, seconds=seconds)


def _known(key: str, where: str) -> Finding:
    known = cause(key)
    return Finding(key, where, known.text, known.remedy)


def _app(pod: Mapping[str, Any]) -> str:
    labels = pod["metadata"].get("labels")
    return str(labels.get("app") or "") if isinstance(labels, dict) else ""


def _path(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
