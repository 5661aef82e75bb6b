"""Runs one rule over a program and turns what it finds into verdicts.

This is the only place that decides what an unknown, a secret or an exception means: an unknown makes an `Undecided`, a secret
takes the values out of the message, an exception that holds makes an `Excepted`. It knows no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.policies.exceptions import Exemption, holding, parse_exemptions
from gpu_pools.policies.reading import Trace, UnknownMetError
from gpu_pools.policies.rule import Case
from gpu_pools.text.incidents import link

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Mapping

    from gpu_pools.policies.described import Resource, Stack
    from gpu_pools.policies.rule import Found, Limit, Rule


#: In the urn of what our platform component makes of the sections of a stack file.
_PLATFORM: Final = "gpu-pools:index:GpuPlatform$"


@dataclass(frozen=True)
class RuleSettings:
    """What a stack sets of one rule.

    Attributes:
        limits: all limits of the rule, defaults included.
        exemptions: the exceptions.
    """

    limits: Mapping[str, Any] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()


@dataclass(frozen=True)
class Violation:
    """The rule is broken. ``text`` is what people read: what, where, why, how to repair."""

    rule: str
    resource: Resource
    text: str


@dataclass(frozen=True)
class Undecided:
    """The rule cannot be judged yet; ``places`` are the unknown values."""

    rule: str
    resource: Resource
    places: tuple[str, ...]

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.resource.name}: cannot be judged, not known before the deploy: {', '.join(self.places)}"


@dataclass(frozen=True)
class Excepted:
    """The rule is broken, and an exception allows it."""

    rule: str
    resource: Resource
    exemption: Exemption
    text: str


Verdict = Violation | Undecided | Excepted


def read_settings(rule: Rule, written: Mapping[str, Any]) -> RuleSettings:
    """What a stack's configuration says about a rule.

    Raises:
        ValueError: for a name that the rule lacks, or a broken exception.
    """
    names = [limit.name for limit in rule.limits]
    for name in written:
        if name not in {*names, "exceptions", "enforcementLevel"}:
            raise ValueError(f"{rule.name} has no setting `{name}`; it has {', '.join([*names, 'exceptions'])}")
    limits = {limit.name: _limit(limit, written) for limit in rule.limits}
    return RuleSettings(limits, parse_exemptions(written.get("exceptions")))


def _limit(limit: Limit, written: Mapping[str, Any]) -> object:
    value = written.get(limit.name, limit.default)
    return limit.load(value) if limit.load and value is not None else value


def judge(rule: Rule, stack: Stack, settings: RuleSettings, today: dt.date) -> Iterator[Verdict]:
    """All verdicts of one rule on a program, in the program's order."""
    for resource in stack.of(*rule.types):
        yield from _judge_resource(rule, resource, stack, settings, today)


def _judge_resource(rule: Rule, resource: Resource, stack: Stack, settings: RuleSettings, today: dt.date) -> Iterator[Verdict]:
    trace = Trace()
    found: list[tuple[Found, bool]] = []
    try:
        # Whether a secret was read is asked with each finding: later ones may know more than earlier ones.
        found.extend((one, trace.secret) for one in rule.judge(Case(resource, stack, settings.limits, trace)))
    except UnknownMetError as met:
        trace.undecided.append(met.path)
    live, ended = holding(settings.exemptions, resource.name, today)
    for one, secret in found:
        text = _text(rule, resource, one, ended, secret=secret)
        yield Excepted(rule.name, resource, live, text) if live else Violation(rule.name, resource, text)
    if trace.undecided:
        yield Undecided(rule.name, resource, tuple(dict.fromkeys(trace.undecided)))


def _text(rule: Rule, resource: Resource, found: Found, ended: Exemption | None, *, secret: bool) -> str:
    what = "what is declared here is secret and is not shown" if secret else f"{found.where}: {found.what}"
    ids = f" ({', '.join(rule.incidents)})" if rule.incidents else ""
    repair = rule.stack_repair if rule.stack_repair and _PLATFORM in resource.urn else rule.repair
    lines = [f"{resource.name}: {what}", f"why:    {rule.why}{ids}", f"repair: {repair}"]
    lines += [f"see:    {', '.join(map(link, rule.incidents))}"] if rule.incidents else []
    if ended:
        lines.append(f'note:   an exception ("{ended.reason}") ended on {ended.until.isoformat()}')
    return "\n".join(lines)
