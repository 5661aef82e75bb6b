"""Reads what the engine says it would do: ``pulumi preview --json``, in either of its two forms.

The digest (one document with ``steps``) says what happens to which resource. The stream of events, one document a line, which
the engine writes with PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true, says the same and what policies found. The engine masks secrets
in both; nothing here could unmask them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.changes.resource_types import CLUSTER_TYPES, POOL_TYPES
from gpu_pools.text.errors import InvalidStackError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REPLACES: Final = {"create-replacement", "delete-replaced"}
#: What the engine writes for a value that is unknown during a preview (pulumi sdk, resource/plugin/rpc.go).
_UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_STOPPED: Final = "preview failed"
_NOTHING: Final = {"same", "read", "refresh"}
#: How the engine refuses because of `protect` (pulumi pkg, resource/deploy/step_generator.go and step_executor.go).
_KEPT: Final = re.compile(
    r'unable to replace resource "(?P<replaced>[^"]+)"(?P<cause> as part of replacing "[^"]+")?\s+as it is currently marked'
    r'|resource "(?P<deleted>[^"]+)" cannot be deleted\s+because it is protected'
)


@dataclass(frozen=True)
class Step:
    """What happens to one resource.

    Attributes:
        op: ``create``, ``update``, ``replace``, ``delete`` or ``same``.
        urn: of the resource.
        type: its type token.
        old: its inputs before; empty where there was none.
        new: its inputs afterwards; empty where there is none.
        because: the inputs whose change forces a replacement; empty where it follows that of another resource.
        creates_first: whether a replacement is made before the old one goes; a digest does not tell, and then it is taken for
            deleted first, as everything is whose name must be free.
    """

    op: str
    urn: str
    type: str
    old: Mapping[str, Any] = field(default_factory=dict)
    new: Mapping[str, Any] = field(default_factory=dict)
    because: tuple[str, ...] = ()
    creates_first: bool = False

    @property
    def name(self) -> str:
        """Its name in the program."""
        return name_of(self.urn)


@dataclass(frozen=True)
class Finding:
    """What a policy found; ``resource`` is a name in the program, or ``""``."""

    rule: str
    level: str
    resource: str
    message: str


@dataclass(frozen=True)
class Preview:
    """A preview, read.

    Attributes:
        steps: what happens.
        findings: of policies.
        protected: urns of what the engine refuses to replace or delete.
        complete: False: the engine stopped at a cluster, or at something in it, that is to be replaced with all that it holds but
            is protected where it is deployed. Then it told no further step.
    """

    steps: tuple[Step, ...]
    findings: tuple[Finding, ...] = ()
    protected: tuple[str, ...] = ()
    complete: bool = True


def read_preview(name: str, text: str) -> Preview:
    """The preview in a text; `name` stands for it in messages.

    Raises:
        InvalidStackError: if it is neither a digest nor a stream of events, or of a preview that failed: it may lack steps. Not
            where only a policy or the protection of something failed it: that is what a report is for.
    """
    try:
        documents = _documents(text)
        if len(documents) == 1 and isinstance(documents[0].get("steps"), list):
            return _digest(name, documents[0])
        steps = tuple(_merged(_of_event(one["resourcePreEvent"]["metadata"]) for one in documents if "resourcePreEvent" in one))
        findings = tuple(_finding(one["policyEvent"]) for one in documents if "policyEvent" in one)
        if not any("summaryEvent" in one for one in documents):
            raise _refusal(name, "the engine did not come to its end")
        return _judged(name, steps, findings, [said for one in documents if (said := one.get("diagnosticEvent"))])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refusal(name, f"it is not a preview of the engine: {type(error).__name__}") from error


def _digest(name: str, document: Mapping[str, Any]) -> Preview:
    steps = tuple(_merged(_of_digest(step) for step in document["steps"]))
    return _judged(name, steps, (), document.get("diagnostics") or [])


def _judged(name: str, steps: tuple[Step, ...], findings: tuple[Finding, ...], said: list[Mapping[str, Any]]) -> Preview:
    errors = [str(one.get("message")).strip() for one in said if one.get("severity") == "error"]
    kept = [found for error in errors if (found := _KEPT.search(error))]
    protected = tuple(dict.fromkeys(found["replaced"] or found["deleted"] for found in kept))
    stopped = [type_of(found["replaced"]) for found in kept if found["cause"]]
    others = [error for error in errors if error != _STOPPED and not _KEPT.search(error)]
    # A policy that stops the preview hides no step of it, and makes the engine say no more than that it failed.
    explained = kept or any(one.level == "mandatory" for one in findings)
    # What a pool is replaced with is its cluster: it takes nothing else from others.
    known = all(one in CLUSTER_TYPES or one in POOL_TYPES for one in stopped)
    if errors and (others or not explained or not known):
        raise _refusal(name, f"the preview failed: {'; '.join(errors)}")
    return Preview(steps, findings, protected, complete=not stopped)


def name_of(urn: str) -> str:
    """The name in the program."""
    return urn.rpartition("::")[2]


def type_of(urn: str) -> str:
    """The type token, without those of its parents."""
    return urn.rpartition("::")[0].rpartition("::")[2].rpartition("$")[2]


def _documents(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _refusal(name: str, message: str) -> InvalidStackError:
    remedy = "Run `pulumi preview --json`, or with PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true to have what policies find."
    return InvalidStackError([Problem(name, message, "the standard output of `pulumi preview --json`", remedy)])


def _of_digest(step: Mapping[str, Any]) -> Step:
    old, new = step.get("oldState") or {}, step.get("newState") or {}
    kind = (new or old).get("type") or ""
    return _step(step["op"], step["urn"], kind, old, new, step.get("replaceReasons"))


def _of_event(metadata: Mapping[str, Any]) -> Step:
    old, new = metadata.get("old") or {}, metadata.get("new") or {}
    return _step(metadata["op"], metadata["urn"], metadata["type"], old, new, metadata.get("keys"))


def _step(op: str, urn: str, kind: str, old: Mapping[str, Any], new: Mapping[str, Any], because: Any) -> Step:  # noqa: ANN401 - JSON
    said = "replace" if op in _REPLACES else "same" if op in _NOTHING else op
    was, becomes = _mapping(old.get("inputs")), _mapping(new.get("inputs"))
    # What is not known yet belongs to something else that is replaced.
    own = tuple(path for path in because or () if _UNKNOWN not in json.dumps(becomes.get(top(path))))
    return Step(said, urn, kind, was, becomes, own, creates_first=op == "create-replacement")


def _mapping(value: object) -> Mapping[str, Any]:
    """Inputs, or none; whoever writes a preview by hand may write anything.

    Raises:
        TypeError: if they are not a mapping.
    """
    if value is not None and not isinstance(value, dict):
        raise TypeError("inputs are a mapping")
    return value or {}


def top(path: str) -> str:
    """The input that a path of a difference begins with: ``networkProfile.podCidr`` is of ``networkProfile``."""
    return path.partition(".")[0].partition("[")[0]


def _merged(steps: Iterator[Step]) -> Iterator[Step]:
    """One step a resource: a stream tells the parts of a replacement in their order, each with what it knows."""
    found: dict[str, Step] = {}
    for step in steps:
        known = found.get(step.urn)
        if known is None or known.op == "same":
            found[step.urn] = step
        elif step.op != "same":
            found[step.urn] = Step(
                "replace" if "replace" in {known.op, step.op} else step.op,
                step.urn,
                step.type,
                known.old or step.old,
                step.new or known.new,
                known.because or step.because,
                known.creates_first,
            )
    yield from found.values()


def _finding(event: Mapping[str, Any]) -> Finding:
    resource = name_of(str(event.get("resourceUrn") or ""))
    return Finding(str(event["policyName"]), str(event["enforcementLevel"]), resource, str(event["message"]))
