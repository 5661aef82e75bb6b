"""Puts rules before the engine: its resources become plain descriptions, its policies run our rules.

The SDK's own handling of unknowns is not relied on: it turns the first unknown that a policy touches into an advisory note and
drops what the policy would have found (pulumi-policy's `Analyze`). Here violations are reported first, whatever else is unknown,
and "cannot be judged" is said for each place. A policy that finds only unknowns raises the SDK's error, which is its one way to
say something without breaking the rule.

The engine hands outputs to stack policies, which in a preview are whatever a provider makes up: a ConfigMap whose update is tried
on the API server may show its old keys beside the new ones. So rules of whole programs see the inputs instead, which the engine
has shown to the resource policies before, one by one.

Nor is its handling of secrets: to a validation it hands them over in plain text (pulumi/pulumi-policy#241), so a message could
print them. `keep_secrets` makes it hand over marked values instead.

Nor its care: levels of a rule that is misspelt are accepted in silence by engine and SDK; `refuse_unknown_rules` does not.

Nor its ear for the stack's configuration, which the engine tells it once; `hear_configuration` listens.

And it converts each resource anew for each policy, which was most of the pack's time; `convert_once` makes it remember.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pulumi_policy.policy
from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    ResourceValidationPolicy,
    StackValidationPolicy,
)
from pulumi_policy.deserialize import SPECIAL_SECRET_SIG, SPECIAL_SIG_KEY, deserialize_properties
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy
from pulumi_policy.secret import Secret as EngineSecret

from gpu_pools.policies.acknowledged import acknowledged_by
from gpu_pools.policies.configuration import schema_of, unknown_rules
from gpu_pools.policies.described import Resource, Secret, Stack, Unknown, plain_type
from gpu_pools.policies.judging import Undecided, Violation, judge, read_settings
from gpu_pools.stack.settings import config_value
from gpu_pools.text import harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpu_pools.policies.judging import Verdict
    from gpu_pools.policies.rule import Rule

    Report = Callable[[str, str | None], None]

PACK: Final = "gpu-pools"
_LEVELS: Final = {
    "advisory": EnforcementLevel.ADVISORY,
    "mandatory": EnforcementLevel.MANDATORY,
    "disabled": EnforcementLevel.DISABLED,
}


class CannotTellError(UnknownValueError):
    """The SDK's error, with our words."""

    def __init__(self, undecided: Iterable[Undecided]) -> None:
        super().__init__(UNKNOWN_STRING_VALUE, [])
        self.message = harmless.text("; ".join(one.text for one in undecided))


def serve(rules: Iterable[Rule]) -> None:
    """Run the rules as a policy pack until the engine ends it."""
    rules = tuple(rules)
    keep_secrets()
    convert_once()
    hear_configuration()
    refuse_unknown_rules(rules)
    # A pack writes its port to the standard output and never flushes it; not every language host asks for `python -u`.
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0), write_through=True)
    PolicyPack(name=PACK, policies=[as_policy(rule) for rule in rules])


def keep_secrets() -> None:
    """Make the SDK hand over secrets as marked values."""
    setattr(pulumi_policy.policy, "deserialize_properties", _deserialized)  # noqa: B010 - a name that it does not export


def convert_once() -> None:
    """Make the SDK convert each resource that it is shown once, and not for every policy."""
    sdk: Any = pulumi_policy.policy
    sdk.json_format = SimpleNamespace(MessageToDict=_remembering(sdk.json_format.MessageToDict))
    sdk.deserialize_properties = _remembering(sdk.deserialize_properties)
    sdk.unknown_checking_proxy = _remembering(sdk.unknown_checking_proxy)


def _remembering(convert: Callable[..., Any]) -> Callable[..., Any]:
    """The function, each result kept with the very object that it was made of: an id is its own while the object lives."""
    known: dict[int, tuple[object, Any]] = {}

    def converted(value: object, *how: object) -> Any:  # noqa: ANN401 - as the function
        if how:
            return convert(value, *how)
        if id(value) not in known:
            known[id(value)] = (value, convert(value))
        return known[id(value)][1]

    return converted


def _deserialized(props: Mapping[str, Any], proxy_secrets: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - the SDK's
    if proxy_secrets:
        remediated: dict[str, Any] = deserialize_properties(dict(props), proxy_secrets)
        return remediated
    return {key: _marked(value) for key, value in props.items()}


def _marked(value: Any) -> Any:  # noqa: ANN401 - whatever JSON gives
    if isinstance(value, list):
        return [_marked(inside) for inside in value]
    if not isinstance(value, dict):
        return value
    if value.get(SPECIAL_SIG_KEY) == SPECIAL_SECRET_SIG:
        return EngineSecret(unknown_checking_proxy({"value": _marked(value["value"])}))
    if SPECIAL_SIG_KEY in value:
        return deserialize_properties({"value": value})["value"]
    return {key: _marked(inside) for key, inside in value.items()}


class _Shown:
    """What the engine has shown of each resource since the last program was judged as a whole."""

    def __init__(self) -> None:
        self._by_urn: dict[str, Any] = {}
        self._plain: dict[str, Mapping[str, object]] = {}
        self._judged = False

    def remember(self, args: Any) -> None:  # noqa: ANN401 - the SDK is untyped here
        """Keep a resource; the first one after a judgement begins a new program."""
        if self._judged:
            self._by_urn.clear()
            self._plain.clear()
            self._judged = False
        self._by_urn[args.urn] = args.props

    def whole(self, resources: Iterable[Any]) -> Stack:
        """The program with the inputs that were shown; a resource that was not has only its outputs."""
        self._judged = True
        return Stack(tuple(describe(one, self._inputs(one.urn)) for one in resources), _ACKNOWLEDGED)

    def _inputs(self, urn: str) -> Mapping[str, object] | None:
        """Made plain once, for all rules of whole programs."""
        if urn in self._by_urn and urn not in self._plain:
            self._plain[urn] = plain_all(self._by_urn[urn])
        return self._plain.get(urn)


_SHOWN: Final = _Shown()


_ACKNOWLEDGED: dict[tuple[str, str], bool] = {}


def hear_configuration() -> None:
    """Make the SDK listen to the stack's configuration, of which it keeps only the tags, before the first resource is shown."""
    servicer: Any = pulumi_policy.policy._PolicyAnalyzerServicer  # noqa: SLF001 - a name that it does not export
    configured = servicer.ConfigureStack

    def heard(self: Any, request: Any, context: Any) -> Any:  # noqa: ANN401 - the SDK is untyped here
        _ACKNOWLEDGED.clear()
        _ACKNOWLEDGED.update(acknowledged_by({key: config_value(text) for key, text in request.config.items()}))
        return configured(self, request, context)

    servicer.ConfigureStack = heard


def refuse_unknown_rules(rules: Iterable[Rule]) -> None:
    """Make the SDK refuse the levels of rules that the pack lacks, which the engine hands over and nobody would miss."""
    sdk: Any = pulumi_policy.policy
    servicer = sdk._PolicyAnalyzerServicer  # noqa: SLF001 - a name that it does not export
    configure = servicer.Configure
    names = [rule.name for rule in rules]

    def checked(self: Any, request: Any, context: Any) -> Any:  # noqa: ANN401 - the SDK is untyped here
        if wrong := list(unknown_rules(request.policyConfig, names)):
            context.abort(sdk.grpc.StatusCode.INVALID_ARGUMENT, "; ".join(wrong))
        return configure(self, request, context)

    servicer.Configure = checked


def as_policy(rule: Rule) -> ResourceValidationPolicy | StackValidationPolicy:
    """The engine's policy of a rule."""

    def resource(args: Any, report: Report) -> None:  # noqa: ANN401 - the SDK is untyped here
        _SHOWN.remember(args)
        if plain_type(args.resource_type) in rule.types:
            _run(rule, Stack((describe(args),), _ACKNOWLEDGED), args.get_config(), _harmless(report))

    def stack(args: Any, report: Report) -> None:  # noqa: ANN401
        _run(rule, _SHOWN.whole(args.resources), args.get_config(), _harmless(report))

    return (StackValidationPolicy if rule.whole else ResourceValidationPolicy)(
        name=rule.name,
        description=rule.title,
        validate=stack if rule.whole else resource,
        enforcement_level=_LEVELS[rule.level],
        config_schema=PolicyConfigSchema(properties=schema_of(rule)),
    )


def _harmless(report: Report) -> Report:
    """The engine prints what it is told, and names and values of others are in most messages."""
    return lambda text, urn: report(harmless.text(text), urn)


def describe(given: Any, inputs: Mapping[str, object] | None = None) -> Resource:  # noqa: ANN401 - the SDK's two kinds of them
    """A resource of the engine as a plain description, with these inputs where its own properties are not to be taken."""
    parent = getattr(given, "parent", None)
    return Resource(
        type=given.resource_type,
        name=given.name,
        urn=given.urn,
        inputs=plain_all(given.props) if inputs is None else inputs,
        dependencies=frozenset(_needed(given)),
        parent=parent.urn if parent else (given.opts.parent or ""),
        protect=bool(given.opts.protect),
        ignore_changes=tuple(given.opts.ignore_changes or ()),
    )


def _needed(given: Any) -> Iterable[str]:  # noqa: ANN401
    for one in getattr(given, "dependencies", ()):
        yield one.urn
    for several in getattr(given, "property_dependencies", {}).values():
        for one in several:
            yield one.urn


def plain_all(props: Mapping[str, Any]) -> dict[str, object]:
    """All properties of a resource, plain."""
    return {str(key): plain(props, key) for key in props}


def plain(holder: Any, key: Any) -> object:  # noqa: ANN401 - the SDK's proxies raise where something unknown is touched
    """What is at a key of one of the SDK's proxies, with unknowns and secrets as our types, at any depth."""
    try:
        value = holder[key]
    except UnknownValueError:
        return Unknown()
    if isinstance(value, EngineSecret):
        return Secret(plain(value.value, "value"))
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {str(inner): plain(value, inner) for inner in value}
    if isinstance(value, Sequence):
        return [plain(value, index) for index in range(len(value))]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _run(rule: Rule, stack: Stack, written: Mapping[str, Any] | None, report: Report) -> None:
    try:
        settings = read_settings(rule, dict(written or {}))
    except ValueError as error:
        report(f"the configuration of this rule is wrong, so nothing was judged: {error}", None)
        return
    _report(list(judge(rule, stack, settings, dt.datetime.now(tz=dt.UTC).date())), report)


def _report(verdicts: list[Verdict], report: Report) -> None:
    undecided = [one for one in verdicts if isinstance(one, Undecided)]
    broken = [one for one in verdicts if isinstance(one, Violation)]
    for one in broken:
        mine = [other.text for other in undecided if other.resource.urn == one.resource.urn]
        report("\n".join([one.text, *(f"also:   {text}" for text in mine)]), one.resource.urn)
    # Excepted findings are silent here: the exception stands in the pack's configuration, with its reason.
    rest = [one for one in undecided if one.resource.urn not in {two.resource.urn for two in broken}]
    if rest:
        raise CannotTellError(rest)
