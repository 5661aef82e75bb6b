"""The verdict about each node, each pool, and all of them. Pure: what was declared and what was seen come in, verdicts go out.

Only a fresh report of the deployed program about the deployed expectation proves something, and only as long as the node still
shows what the report says. Everything else is not proof: a report that is too old, about something else, unreadable, or missing;
a node that is not ready; a pool without nodes. None of these is ever counted as a pass.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.reports import CANNOT_TELL, DIFFERS, HOLDS, Report, ReportError, parse_report
from gpu_pools.stack.kubernetes_names import POOL_LABEL
from gpu_pools.verifier.quantities import read_count

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_pools.evidence.declared import Declared, Pool

NVIDIA: Final = "nvidia.com/"
#: Beyond two intervals: the assertion itself, the way of its report, and clocks that are not quite the same.
GRACE_SECONDS: Final = 60.0
#: `assert --wait` repeats a verdict that stays so often (gpu_pools/verifier/commands.py); it has no interval of its own.
_ASSERT_SECONDS: Final = 300.0
#: How annotations of verifiers, changes and repairs begin.
_OURS: Final = "gpu-pools/"
_STATUS: Final = {HOLDS: "True", DIFFERS: "False", CANNOT_TELL: "Unknown"}


class Verdict(Enum):
    """From the worst to the best; the value is what people read."""

    DIFFERS = "differs"
    CANNOT_TELL = "cannot tell"
    STALE = "stale"
    NOT_VERIFIED = "not verified"
    NOT_YET_PROVEN = "not yet proven"
    PROVEN = "proven"

    @property
    def exit_code(self) -> int:
        """0 proven, 1 differs, 2 cannot be told, 3 nothing is there that could differ."""
        return {Verdict.PROVEN: 0, Verdict.DIFFERS: 1, Verdict.NOT_YET_PROVEN: 3}.get(self, 2)


_RANK: Final = {verdict: rank for rank, verdict in enumerate(Verdict)}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of them; of none NOT_YET_PROVEN, since nothing is proven then."""
    return min(verdicts, key=_RANK.__getitem__, default=Verdict.NOT_YET_PROVEN)


@dataclass(frozen=True)
class Snapshot:
    """What the cluster said.

    Attributes:
        time: when it was asked.
        nodes: Node objects; text: why there are none.
        config_maps: name -> its data, what is binary in base64; text: why there are none.
    """

    time: dt.datetime
    nodes: Sequence[Mapping[str, Any]] | str
    config_maps: Mapping[str, Mapping[str, str]] | str


@dataclass(frozen=True)
class NodeEvidence:
    """One node.

    Attributes:
        name: the node's.
        uid: of the object.
        verdict: about it.
        reason: why, where it is not proven; findings stand in the report.
        ready: its condition Ready.
        allocatable: its nvidia.com resources above zero, as it shows them now.
        versions: of its kubelet, system, kernel and container runtime.
        report: the last one that can be read.
    """

    name: str
    uid: str
    verdict: Verdict
    reason: str
    ready: bool
    allocatable: Mapping[str, int]
    versions: Mapping[str, str]
    report: Report | None


@dataclass(frozen=True)
class PoolEvidence:
    """One pool.

    Attributes:
        declared: what the deploy says of it.
        verdict: about it.
        reason: why, where that does not follow from its nodes.
        expectation: the document that its nodes were held against; None where it could not be read.
        nodes: by name.
    """

    declared: Pool
    verdict: Verdict
    reason: str
    expectation: Mapping[str, Any] | None
    nodes: tuple[NodeEvidence, ...]


@dataclass(frozen=True)
class Stray:
    """A node that has something of ours, and that no pool selects.

    Attributes:
        name: the node's.
        pool: what that names as its pool; empty where it names none.
        traces: what it has, in words.
        verdict: DIFFERS where its last condition says so, else CANNOT_TELL; None where it is of another stack, or of a pool that
            was taken out.
    """

    name: str
    pool: str
    traces: tuple[str, ...]
    verdict: Verdict | None


@dataclass(frozen=True)
class Evidence:
    """All pools of a stack."""

    stack: str
    declared: Declared
    time: dt.datetime
    pools: tuple[PoolEvidence, ...]
    #: How the program in the cluster is another than the deployed one; empty where it is not.
    replaced: str = ""
    #: By name.
    strays: tuple[Stray, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst."""
        strays = [stray.verdict for stray in self.strays if stray.verdict]
        return worst([*(pool.verdict for pool in self.pools), *strays, *([Verdict.DIFFERS] if self.replaced else [])])

    @property
    def short(self) -> tuple[PoolEvidence, ...]:
        """The pools that have fewer nodes than they must have."""
        return tuple(pool for pool in self.pools if len(pool.nodes) < pool.declared.min_nodes)

    @property
    def collected(self) -> str:
        """The time, RFC 3339."""
        return self.time.isoformat(timespec="seconds").replace("+00:00", "Z")


def judge(stack: str, declared: Declared, seen: Snapshot) -> Evidence:
    """The verdicts about a stack."""
    nodes = seen.nodes
    if isinstance(nodes, str):
        missing = tuple(PoolEvidence(pool, Verdict.CANNOT_TELL, nodes, None, ()) for pool in declared.pools)
        return Evidence(stack, declared, seen.time, missing)
    chosen = _chosen(declared.pools, nodes)
    unseen, replaced = _program(declared, seen.config_maps)
    # Who could exchange the program could have had it report anything, before pods were held to its digest.
    pools = tuple(_judge_pool(declared, pool, chosen[pool.name], seen, unseen or replaced) for pool in declared.pools)
    return Evidence(stack, declared, seen.time, pools, replaced, tuple(_strays(declared, nodes, chosen)))


def _strays(
    declared: Declared, nodes: Sequence[Mapping[str, Any]], chosen: Mapping[str, list[Mapping[str, Any]]]
) -> Iterator[Stray]:
    """Nodes that have something of ours, and that no pool selects; who takes a node's labels off hides it otherwise."""
    of_pools = {id(node) for those in chosen.values() for node in those}
    for node in sorted(nodes, key=lambda one: str(_part(one, "metadata").get("name"))):
        found = None if id(node) in of_pools else _stray(declared, node)
        if found is not None:
            yield found


def _stray(declared: Declared, node: Mapping[str, Any]) -> Stray | None:
    metadata = _part(node, "metadata")
    label, annotations = _part(metadata, "labels").get(POOL_LABEL), _part(metadata, "annotations")
    ours = [one for one in _list(_part(node, "status"), "conditions") if one.get("type") == declared.condition]
    traces = [f"label {POOL_LABEL}={label}"] if label is not None else []
    traces += [f"annotation {name}" for name in sorted(map(str, annotations)) if name.startswith(_OURS)]
    traces += [f"condition {declared.condition}"] if ours else []
    if not traces:
        return None
    names = [name for name in (_pool_of_report(annotations.get(declared.annotation)), str(label or "")) if name]
    known = [name for name in names if name in {pool.name for pool in declared.pools}]
    verdict = Verdict.DIFFERS if any(one.get("status") == _STATUS[DIFFERS] for one in ours) else Verdict.CANNOT_TELL
    pool = next(iter([*known, *names]), "")
    return Stray(str(metadata.get("name")), pool, tuple(traces), verdict if known or not names else None)


def _pool_of_report(text: object) -> str:
    """The pool that a report names; empty where none can be read."""
    try:
        return parse_report(text).pool if isinstance(text, str) else ""
    except ReportError:
        return ""


def _program(declared: Declared, config_maps: Mapping[str, Mapping[str, str]] | str) -> tuple[str, str]:
    """(why the program in the cluster cannot be looked at, how it is another than the deployed one); empty where neither is."""
    if isinstance(config_maps, str):
        return config_maps, ""
    text = config_maps.get(declared.program, {}).get(declared.program_key)
    if text is None:
        return f"the ConfigMap {declared.program} with the verifiers' program is not there: run pulumi up (W90)", ""
    try:
        found = hashlib.sha256(base64.b64decode(text, validate=True)).hexdigest()
    except ValueError:
        found = "nothing that can be decoded"
    if found == declared.program_sha256:
        return "", ""
    wanted = declared.program_sha256
    return (
        "",
        f"the ConfigMap {declared.program} holds another program than the deployed one: its SHA-256 is {found}, not {wanted}",
    )


def _chosen(pools: Sequence[Pool], nodes: Sequence[Mapping[str, Any]]) -> Mapping[str, list[Mapping[str, Any]]]:
    """Pool -> its nodes; each node is looked up, not held against each pool."""
    by_keys: defaultdict[tuple[str, ...], defaultdict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for pool in pools:
        keys = tuple(sorted(pool.node_selector))
        by_keys[keys][tuple(pool.node_selector[key] for key in keys)].append(pool.name)
    chosen: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for node in nodes:
        labels = _part(_part(node, "metadata"), "labels")
        for keys, by_values in by_keys.items():
            for name in by_values.get(tuple(str(labels.get(key)) if key in labels else "\0" for key in keys), ()):
                chosen[name].append(node)
    return chosen


# --- pools --------------------------------------------------------------------------------------------------


def _judge_pool(declared: Declared, pool: Pool, nodes: Iterable[Mapping[str, Any]], seen: Snapshot, program: str) -> PoolEvidence:
    expectation, trouble = _expectation(declared, pool, seen.config_maps)
    trouble = trouble or program
    judged = [_judge_node(node, declared, pool, expectation, trouble, seen.time) for node in nodes]
    judged.sort(key=lambda node: node.name)
    verdict = worst(node.verdict for node in judged)
    reason = ""
    if len(judged) < pool.min_nodes or not judged:
        reason = f"{len(judged)} of {pool.min_nodes} nodes" if judged or pool.min_nodes else "no node yet"
        verdict = worst([verdict, Verdict.NOT_YET_PROVEN])
    if trouble:
        reason, verdict = trouble, worst([verdict, Verdict.CANNOT_TELL])
    return PoolEvidence(pool, verdict, reason, expectation, tuple(judged))


def _expectation(
    declared: Declared, pool: Pool, config_maps: Mapping[str, Mapping[str, str]] | str
) -> tuple[Mapping[str, Any] | None, str]:
    """(the document, "") where the cluster holds the one that was declared, else (None, why not)."""
    if isinstance(config_maps, str):
        return None, config_maps
    text = config_maps.get(pool.config_map, {}).get(declared.key)
    if text is None:
        return None, f"the ConfigMap {pool.config_map} with the expectation is not there"
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != pool.sha256:
        return None, f"the ConfigMap {pool.config_map} does not hold the declared expectation"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping) or not isinstance(document.get("node"), Mapping):
        return None, f"the ConfigMap {pool.config_map} holds no expectation of a node"
    return document, ""


# --- nodes --------------------------------------------------------------------------------------------------


def _judge_node(
    node: Mapping[str, Any],
    declared: Declared,
    pool: Pool,
    expectation: Mapping[str, Any] | None,
    trouble: str,
    now: dt.datetime,
) -> NodeEvidence:
    metadata, status = _part(node, "metadata"), _part(node, "status")
    conditions = {str(one.get("type")): one for one in _list(status, "conditions")}
    ready = conditions.get("Ready", {}).get("status") == "True"
    allocatable = _allocatable(status)
    report, verdict, reason = _read(str(metadata.get("name")), _part(metadata, "annotations"), conditions, declared, pool, now)
    if verdict is Verdict.PROVEN:
        verdict, reason = _confirmed(ready=ready, allocatable=allocatable, expectation=expectation, trouble=trouble)
    versions = _part(status, "nodeInfo")
    return NodeEvidence(
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid", "")),
        verdict=verdict,
        reason=reason,
        ready=ready,
        allocatable=dict(sorted(allocatable.items())),
        versions={
            key: str(versions[key])
            for key in ("containerRuntimeVersion", "kernelVersion", "kubeletVersion", "osImage")
            if key in versions
        },
        report=report,
    )


def _read(
    name: str,
    annotations: Mapping[str, Any],
    conditions: Mapping[str, Mapping[str, Any]],
    declared: Declared,
    pool: Pool,
    now: dt.datetime,
) -> tuple[Report | None, Verdict, str]:
    """(report, verdict, reason) by what a verifier has left on the node."""
    text, condition = annotations.get(declared.annotation), conditions.get(declared.condition)
    if text is None or condition is None:
        return None, *_missing(declared, text, condition)
    try:
        report = parse_report(str(text))
    except ReportError as error:
        return None, Verdict.CANNOT_TELL, f"its report cannot be read: {error}"
    outdated = _foreign(report, name, declared, pool) or _outdated(report, condition, declared, now)
    if outdated:
        return report, Verdict.STALE, outdated
    return report, *_claimed(report, condition)


def _missing(declared: Declared, text: object, condition: Mapping[str, Any] | None) -> tuple[Verdict, str]:
    """(verdict, reason) where annotation or condition is not there."""
    if condition is not None:
        said = f"{condition.get('status')}: {condition.get('message')}"
        return Verdict.CANNOT_TELL, f"it has no report, only the condition {declared.condition} ({said})"
    if text is not None:
        return Verdict.CANNOT_TELL, f"it has a report, but no condition {declared.condition}"
    return Verdict.NOT_VERIFIED, "no verifier has reported"


def _foreign(report: Report, name: str, declared: Declared, pool: Pool) -> str:
    """Why the report is about something else than this node and what is deployed now; empty where it is not."""
    if report.node != name:
        return f"its report is one of node {report.node}"
    if report.pool != pool.name or report.expectation != pool.sha256:
        return "its verifier asserted another expectation than the deployed one"
    if report.program != declared.digest:
        return "another verifier than the deployed one reported"
    return ""


def _outdated(report: Report, condition: Mapping[str, Any], declared: Declared, now: dt.datetime) -> str:
    """Why the report is too old, or its time not to be believed; empty where it is neither."""
    if condition.get("lastHeartbeatTime") != report.document["time"]:
        return f"its report is of {report.document['time']}, its condition of {condition.get('lastHeartbeatTime')}"
    interval = declared.interval_seconds
    if report.interval_seconds is None:
        interval = max(interval, _ASSERT_SECONDS)
    age = (now - report.time).total_seconds()
    if age > 2 * interval + GRACE_SECONDS:
        return f"its last report is {duration_text(age)} old; they come every {duration_text(interval)}"
    if age < -GRACE_SECONDS:
        return f"its last report is of {duration_text(-age)} in the future: the clocks differ"
    return ""


def _claimed(report: Report, condition: Mapping[str, Any]) -> tuple[Verdict, str]:
    """(verdict, reason) by what a report says that counts."""
    if condition.get("status") != _STATUS[report.verdict]:
        return Verdict.CANNOT_TELL, f"its report says {report.verdict}, its condition {condition.get('status')}"
    if report.verdict == DIFFERS:
        return Verdict.DIFFERS, ""
    if report.verdict == CANNOT_TELL:
        return Verdict.CANNOT_TELL, "" if report.cannot_tell else "its verifier does not say why"
    if report.differences or report.cannot_tell or {"differences", "cannotTell"} & report.omitted.keys():
        return Verdict.CANNOT_TELL, "its report contradicts itself"
    return Verdict.PROVEN, ""


def _confirmed(
    *, ready: bool, allocatable: Mapping[str, int], expectation: Mapping[str, Any] | None, trouble: str
) -> tuple[Verdict, str]:
    """(verdict, reason) about a node whose report holds, by what else is seen of it now."""
    if expectation is None or trouble:
        return Verdict.CANNOT_TELL, trouble
    if not ready:
        return Verdict.CANNOT_TELL, "the node is not ready"
    expected = {name: count for name, count in _part(expectation["node"], "allocatable").items() if count}
    if allocatable != expected:
        return Verdict.STALE, "the node has changed since its report: allocatable is not what was declared"
    return Verdict.PROVEN, ""


def _allocatable(status: Mapping[str, Any]) -> dict[str, int]:
    """The nvidia.com resources above zero; one that is not a count is -1, which nobody declares."""
    found = {}
    for name, value in _part(status, "allocatable").items():
        if name.startswith(NVIDIA):
            count = read_count(value)
            if count != 0:
                found[name] = -1 if count is None else count
    return found


def duration_text(seconds: float) -> str:
    """A time in words, e.g. ``40 s``, ``5 min``, ``3 h``, ``2 d``."""
    if seconds < 100:  # noqa: PLR2004 - up to there seconds read well
        return f"{seconds:.0f} s"
    for size, unit in ((86400, "d"), (3600, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.0f} min"


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping below a key; an empty one where there is none."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def _list(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = document.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
