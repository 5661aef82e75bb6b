"""Outputs among a component's arguments: which may be one, whose value is taken, and which must be known.

A plan is made before anything is created or changed, so it needs values. What an argument's type says decides:

- `pulumi.Input`: an Output may stand there. One that is only placed, such as a subnet's id, stays an Output. Where the plan looks
  into it (a pool, its sharing, the MIG strategy), the value is taken, if the preview knows it and it is no secret.
- Any other type: the value must be written, or come from the configuration. An Output is refused with its place and a remedy.

All such arguments of a component are reported together; other problems follow once these are solved, since nothing can be read
of an Output.
"""

import asyncio
import re
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, NotRequired, Required, TypeVar, cast, get_args, get_origin, is_typeddict

import pulumi
from pulumi.runtime.sync_await import _sync_await

from gpu_pools.reading.spelled import to_python_key
from gpu_pools.text.errors import InvalidStackError, Problem

_T = TypeVar("_T")

#: Arguments that may be Outputs, and that a plan looks into.
PLANNED = frozenset({"pool", "pools", "mig_strategy", "sharing"})
#: Mappings with keys of a chart or a cloud, which are passed on.
_PASSED_ON = frozenset({"values", "properties"})
_MUST = "must be known before the deploy"


def known_args(what: str, args: _T, of: type) -> _T:
    """The arguments, with the values of Outputs that are planned with.

    Args:
        what: the component, for messages.
        args: as the program gives them.
        of: the TypedDict that describes them.

    Raises:
        InvalidStackError: with every Output that must be known.
    """
    problems: list[Problem] = []
    known = {key: _read(value, _hint(of, key), f"{what}.{key}", problems) for key, value in _items(args)}
    if problems:
        raise InvalidStackError(problems)
    return cast("_T", known)


def refuse_output(value: object, where: str) -> None:
    """Refuse a pool or a sharing declaration that is an Output.

    Raises:
        InvalidStackError: if it is one.
    """
    if isinstance(value, pulumi.Output):
        raise InvalidStackError([_unknown_declaration(where, "the preview does not know it")])


def _items(args: object) -> Iterator[tuple[str, Any]]:
    return iter(cast("Mapping[str, Any]", args).items())


def _read(value: Any, hint: Any, path: str, problems: list[Problem]) -> Any:  # noqa: ANN401 - an argument of any type
    """The value without Outputs that must be known; what is wrong is added to the problems."""
    hint, may_be_output = _unwrapped(hint)
    key = _last(path)
    if isinstance(value, pulumi.Output):
        if not may_be_output:
            problems.append(_unknown(path))
            return value
        return _taken(value, path, key, problems) if key in PLANNED else value
    if isinstance(value, dict) and key not in _PASSED_ON:
        return {one: _read(inner, _hint(hint, one), f"{path}.{one}", problems) for one, inner in value.items()}
    if isinstance(value, list):
        inner_hint = (get_args(hint) or (Any,))[0]
        return [_read(one, inner_hint, f"{path}[{index}]", problems) for index, one in enumerate(value)]
    return value


def _taken(value: pulumi.Output[Any], path: str, key: str, problems: list[Problem]) -> Any:  # noqa: ANN401 - as above
    """The value of an Output that is planned with."""
    known, why = _sync_await(asyncio.ensure_future(_value_of(value)))
    if why:
        problems.append(_unknown(path, why) if key == "mig_strategy" else _unknown_declaration(path, why))
        return value
    return known


async def _value_of(value: pulumi.Output[Any]) -> tuple[Any, str]:
    """(the value of an Output, why it cannot be taken)."""
    if not await value.is_known():
        return None, "the preview does not know it"
    if await value.is_secret():
        return None, "it is a secret, and labels would show what is planned with it"
    return await value.future(), ""


def _hint(of: Any, key: str) -> Any:  # noqa: ANN401 - a type
    """The type of a key of a TypedDict or a mapping; Any where nobody says it, as of a key that is unknown."""
    if is_typeddict(of):
        return of.__annotations__.get(to_python_key(key.rpartition(":")[2]), Any)
    return get_args(of)[1] if get_origin(of) is dict else Any


def _unwrapped(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type
    """(the type without NotRequired and pulumi.Input, whether it was a pulumi.Input)."""
    while get_origin(hint) in {NotRequired, Required}:
        hint = get_args(hint)[0]
    arms = get_args(hint)
    if any(get_origin(arm) is Awaitable for arm in arms):
        return arms[0], True
    return hint, False


def _last(path: str) -> str:
    """The key that a path ends in, in Python's words, without an index."""
    return to_python_key(re.sub(r"(\[\d+\])+$", "", path).rpartition(".")[2])


def _unknown(path: str, why: str = "") -> Problem:
    return Problem(
        path,
        f"is an Output, and {_MUST}{f': {why}' if why else ''}",
        "a plain value",
        "Write the value, or read it from the program's configuration: pulumi.Config().require(…).",
    )


def _unknown_declaration(path: str, why: str) -> Problem:
    return Problem(
        path,
        f"is an Output, and {_MUST}: {why}",
        "in Python the component itself, or a mapping; elsewhere `declared` of one whose arguments are all known",
        "What only the deploy knows, as a subnet, goes to the component that makes the nodes: node_subnet, pod_subnet.",
    )
