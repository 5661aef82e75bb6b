"""From component arguments to the stack file's words, and plans for components that are used alone.

Arguments are written in Python's words (`vm_size`), gpus/ reads the stack file's (`vmSize`); keys written in the latter pass
unchanged. A pool that is used alone is planned as a stack of one pool; problems then name the component instead of a place
in a stack file.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpus.errors import InvalidStackError, Problem
from gpus.plan import Plan, PoolPlan, plan_config
from gpus.settings import NAMESPACE

_SHAPE = "a sharing component (Exclusive, TimeSlicing, Mps, Mig), or a mapping like {'timeSlicing': {'replicas': 4}}"


def stack_words(args: Mapping[str, Any], *nested: str) -> dict[str, Any]:
    """The arguments with keys as in a stack file.

    Args:
        args: component arguments.
        nested: keys whose values are mappings or lists of mappings with such keys themselves; labels and layouts are not.
    """
    return {_camel(key): _inner(value, nested) if key in nested else value for key, value in args.items()}


def stack_config(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Sections such as `pools` and `node_feature_discovery` as a stack's config mapping."""
    return {f"{NAMESPACE}:{_camel(key)}": value for key, value in sections.items()}


def plan_alone(
    what: str,
    platform: Mapping[str, Any],
    pool: Mapping[str, Any],
    mig_strategy: str | None,
    flavor: Mapping[str, Any] | None = None,
) -> PoolPlan:
    """The plan of one pool that is not part of a platform.

    Args:
        what: the component, for messages.
        platform: the cluster section, as far as planning needs it.
        pool: the pool in Python's words; its `sharing` is a component or a mapping.
        mig_strategy: how the cluster's MIG nodes name their resources, None to derive it from this pool.
        flavor: what the pool's Magnum flavor has.

    Raises:
        InvalidStackError: with every problem, located in the component's arguments.
    """
    written = stack_words(pool, "nodes", "spot")
    sharing = written.get("sharing")
    written["sharing"] = "declared"
    sections: dict[str, Any] = {
        "cluster": platform,
        "sharing": {"declared": getattr(sharing, "written", sharing)},
        "pools": [written],
    }
    if mig_strategy is not None:
        sections["operator"] = {"migStrategy": mig_strategy}
    if flavor is not None:
        sections["flavors"] = {str(written.get("flavor")): stack_words(flavor)}
    with located_in(what):
        return plan_config(stack_config(sections), complete=False).pools[0]


@contextmanager
def located_in(what: str) -> Iterator[None]:
    """Have problems of a stack file's places name a component's arguments instead.

    Args:
        what: the component, for messages.

    Raises:
        InvalidStackError: the one that was raised inside, so changed.
    """
    try:
        yield
    except InvalidStackError as error:
        raise InvalidStackError([_relocated(problem, what) for problem in error.problems]) from None


def plan_of(what: str, planned: object, config: Mapping[str, Any] | None) -> Plan:
    """The plan that a component was given, or made from the sections that it was given.

    Raises:
        InvalidStackError: if it was given neither or both, or the sections cannot be planned.
    """
    if isinstance(planned, Plan) and config is None:
        return planned
    if planned is not None or config is None:
        raise InvalidStackError([one_of(what, "planned", "config")])
    return plan_config(stack_config(config), complete=False)


def pool_of(what: str, plan: Plan, name: str) -> PoolPlan:
    """A pool of a plan by its name.

    Raises:
        InvalidStackError: if the plan has none of that name.
    """
    for planned in plan.pools:
        if planned.name == name:
            return planned
    known = ", ".join(planned.name for planned in plan.pools)
    raise InvalidStackError([Problem(f"{what}.pool", f'"{name}" is no pool of the plan', known, "Name one of them.")])


def one_of(what: str, first: str, second: str) -> Problem:
    """The problem of arguments that give none or both of two alternatives."""
    return Problem(what, f"gives neither or both of `{first}` and `{second}`", "exactly one of the two", "Keep one of them.")


def _inner(value: object, nested: tuple[str, ...]) -> object:
    if isinstance(value, dict):
        return stack_words(value, *nested)
    return [_inner(entry, nested) for entry in value] if isinstance(value, list) else value


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)


def _relocated(problem: Problem, what: str) -> Problem:
    path = problem.path
    for start, place in (
        (f"{NAMESPACE}:pools[0]", ""),
        (f"{NAMESPACE}:pools", ""),
        (f"{NAMESPACE}:sharing.declared", ".sharing"),
        (f"{NAMESPACE}:operator.migStrategy", ".mig_strategy"),
        (f"{NAMESPACE}:cluster", ""),
        (f"{NAMESPACE}:flavors", ".flavor"),
    ):
        if path.startswith(start):
            path = f"{what}{place}{path[len(start) :]}"
            break
    allowed = _SHAPE if path == f"{what}.sharing" and "mapping" in problem.allowed else problem.allowed
    return Problem(path, problem.message, allowed, problem.remedy)
