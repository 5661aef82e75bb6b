"""Which differences are drift: whose each one is, and what ``pulumi up`` would do about it.

A difference is drift unless a rule says that a cloud makes it by itself, or the program has told the engine that it does not
hold the property. Who has made it a refresh does not know; the cluster may (gpu_pools/drift/beside.py).

What ``up`` would do is meant after ``pulumi refresh``: without one it compares the program with the state, and does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from gpu_pools.drift.differences import CLUSTER, POOL, differences
from gpu_pools.drift.own_changes import Rule, rule_of
from gpu_pools.drift.paths import MISSING
from gpu_pools.drift.programmed import Programmed
from gpu_pools.platforms.aks.properties import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.drift.differences import Difference
    from gpu_pools.drift.nodes import Nodes
    from gpu_pools.drift.refreshed import Refresh
    from gpu_pools.drift.undeployed import Undeployed
    from gpu_pools.drift.writers import Writer

_AZURE: Final = {POOL: "AgentPool", CLUSTER: "ManagedCluster"}
_ANY: Final = "*"
#: Applied by the server (server-side apply), but for releases of Helm.
_APPLIED: Final = "kubernetes:"
_HELM: Final = "kubernetes:helm.sh/"
#: Of these the plugin takes nobody's fields over; of others those that kubectl has written (await.go, fixCSAFieldManagers).
_PATCH: Final = "Patch"
#: How the names of field managers begin whose fields the plugin takes over.
_TAKEN_OVER: Final = ("kubectl", "before-first-apply", "pulumi-kubernetes")


class Verdict(Enum):
    """What is to be said of a stack; the exit code."""

    NONE = 0
    DRIFT = 1
    CANNOT_TELL = 2


class Up(Enum):
    """What ``up`` does about a difference once the state knows it."""

    MAKES = "makes it again"
    READS = "reads it again, and fails where it is not there"
    REPLACES = "replaces the resource"
    ROLLS = "sets it back; nodes are exchanged"
    UPDATES = "sets it back in place"
    REFUSES = "is refused"
    CONFLICTS = "is refused, since the field is another's now"
    DEPENDS = "sets it back if kubectl wrote it, else is refused"


#: Of what the program has the engine ignore, or only reads.
_IGNORED: Final = Rule("ignored", "not held here", "the program has the engine ignore its changes", ())
_READ: Final = Rule("only-read", "not held here", "the stack only reads this resource", ())


@dataclass(frozen=True)
class Judged:
    """A difference, judged.

    Attributes:
        difference: what differs.
        rule: why it is no drift; None: it is.
        up: what ``up`` would do about it, where it is.
        writer: who wrote the value last, where that is known.
    """

    difference: Difference
    rule: Rule | None = None
    up: Up | None = None
    writer: Writer | None = None


@dataclass(frozen=True)
class Drift:
    """What is to be said of a stack.

    Attributes:
        stack: its name.
        drift: differences that somebody has made.
        others: those that a rule explains.
        warnings: of the engine.
        failures: why there may be more than is told.
        nodes: what the verifiers say; None where they were not asked.
        undeployed: what is declared and not in the state; None where that was not asked.
    """

    stack: str
    drift: tuple[Judged, ...]
    others: tuple[Judged, ...] = ()
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    nodes: Nodes | None = None
    undeployed: tuple[Undeployed, ...] | None = None

    @property
    def verdict(self) -> Verdict:
        """A difference outweighs what cannot be told, and that outweighs nothing."""
        if self.drift or (self.nodes and self.nodes.drift) or self.undeployed:
            return Verdict.DRIFT
        return Verdict.CANNOT_TELL if self.untold else Verdict.NONE

    @property
    def untold(self) -> tuple[str, ...]:
        """Why there may be more than is told."""
        return (*self.failures, *(self.nodes.failures if self.nodes else ()))


def judge(stack: str, refresh: Refresh, programs: Mapping[str, Programmed] | None = None) -> Drift:
    """Judge all that a refresh tells.

    Args:
        stack: its name.
        refresh: of it.
        programs: by urn; left out: nothing is known to be ignored, so that more is taken for drift.
    """
    known = programs or {}
    all_of_them = [_judged(one, known.get(one.resource.urn, Programmed())) for one in differences(refresh.resources)]
    ordered = sorted(
        all_of_them, key=lambda one: (one.difference.resource.type, one.difference.resource.name, one.difference.place)
    )
    return Drift(
        stack,
        tuple(one for one in ordered if one.rule is None),
        tuple(one for one in ordered if one.rule is not None),
        refresh.warnings,
        refresh.failures,
    )


def known_writer(one: Judged, writer: Writer | None) -> Judged:
    """The same, with who wrote it: then it is known whether the plugin takes the field over."""
    up = one.up
    if up is Up.DEPENDS and writer is not None:
        up = Up.UPDATES if writer.name.startswith(_TAKEN_OVER) else Up.CONFLICTS
    return replace(one, writer=writer, up=up)


def _judged(difference: Difference, program: Programmed) -> Judged:
    rule = rule_of(difference) or _not_held(difference, program)
    return Judged(difference, rule, None if rule else _up(difference, program))


def _not_held(difference: Difference, program: Programmed) -> Rule | None:
    if difference.kind == "gone":
        return None
    if program.only_read:
        return _READ
    return _IGNORED if _among(difference.path, program.ignored) else None


def _up(difference: Difference, program: Programmed) -> Up:
    if difference.kind == "gone":
        return Up.READS if program.only_read else Up.MAKES
    if program.held:
        return Up.REFUSES
    if _is_another_s(difference):
        return Up.CONFLICTS if difference.resource.type.endswith(_PATCH) else Up.DEPENDS
    if difference.kind.endswith("-replace") or _among(difference.path, program.replacing):
        return Up.REPLACES
    known = known_of(_AZURE[difference.resource.type], difference.path) if difference.resource.type in _AZURE else None
    return {"refused": Up.REFUSES, "replaces": Up.REPLACES, "rolling": Up.ROLLS}.get(known.change if known else "", Up.UPDATES)


def _is_another_s(difference: Difference) -> bool:
    """Whether whoever wrote the value owns the field now, so that the API server refuses to have it applied otherwise.

    Nobody owns what was taken out.
    """
    type_ = difference.resource.type
    return type_.startswith(_APPLIED) and not type_.startswith(_HELM) and difference.now is not MISSING


def _among(path: str, paths: tuple[str, ...]) -> bool:
    return any(one in {_ANY, path} or path.startswith((f"{one}.", f"{one}[")) for one in paths)
