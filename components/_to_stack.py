"""From component arguments to the stack file's keys, and plans for components that are used alone.

Arguments have Python's names (`vm_size`), gpu_pools reads the stack file's keys (`vmSize`); such keys pass
unchanged. A pool that is used alone is planned as a stack of one pool; problems then name the component instead of a place
in a stack file.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu_pools.plan.planned import Plan, PoolPlan
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.settings import NAMESPACE
from gpu_pools.text.errors import InvalidStackError, Problem

from ._outputs import put_off

#: Where the arguments of a pool or cluster that is used alone stand in the stack that it is planned as.
ALONE = {
    f"{NAMESPACE}:pools[0]": "",
    f"{NAMESPACE}:pools": "",
    f"{NAMESPACE}:sharing.declared": ".sharing",
    f"{NAMESPACE}:operator.migStrategy": ".mig_strategy",
    f"{NAMESPACE}:cluster": "",
    f"{NAMESPACE}:flavors": ".flavor",
    f"{NAMESPACE}:gpuModels": ".gpu_models",
}
_SHAPE = "a sharing component (Exclusive, TimeSlicing, Mps, Mig), or a mapping like {'timeSlicing': {'replicas': 4}}"


def stack_keys(args: Mapping[str, Any], *nested: str) -> dict[str, Any]:
    """The arguments with keys as in a stack file.

    Args:
        args: component arguments.
        nested: keys whose values are mappings or lists of mappings with such keys themselves; labels and layouts are not.
    """
    return {_camel(key): _inner(value, nested) if key in nested else value for key, value in args.items()}


def stack_config(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Sections such as `pools` and `node_feature_discovery` as a stack's config mapping.

    Keys that have a namespace already stay as they are: the `config` of a stack file can be handed over as it is.

    Raises:
        InvalidStackError: if a section is given twice, with its namespace and without.
    """
    full = [key if ":" in key else f"{NAMESPACE}:{_camel(key)}" for key in sections]
    twice = [key for key, count in Counter(full).items() if count > 1]
    if twice:
        message = "is given twice, with its namespace and without, or in two spellings"
        raise InvalidStackError(Problem(key, message, "each section once", "Keep one of them.") for key in twice)
    return dict(zip(full, sections.values(), strict=True))


def plan_alone(
    what: str,
    platform: Mapping[str, Any],
    pool: Mapping[str, Any],
    mig_strategy: str | None,
    flavor: Mapping[str, Any] | None = None,
    *,
    models: Mapping[str, Any] | None = None,
) -> PoolPlan:
    """The plan of one pool that is not part of a platform.

    Args:
        what: the component, for messages.
        platform: the cluster section, as far as planning needs it.
        pool: the pool in Python's words; its `sharing` is a component or a mapping.
        mig_strategy: how the cluster's MIG nodes name their resources, None to derive it from this pool.
        flavor: what the pool's Magnum flavor has.
        models: GPU models that no table has, in the words of a stack file.

    Raises:
        InvalidStackError: with every problem, located in the component's arguments.
    """
    written = put_off(stack_keys(pool, "nodes", "spot", "upgrade_settings", "kubelet_config", "linux_os_config"))
    sharing = written.get("sharing")
    written["sharing"] = "declared"
    sections: dict[str, Any] = {
        "cluster": platform,
        "sharing": {"declared": getattr(sharing, "written", sharing)},
        "pools": [written],
    }
    if mig_strategy is not None:
        sections["operator"] = {"migStrategy": mig_strategy}
    if models is not None:
        sections["gpuModels"] = models
    if flavor is not None:
        sections["flavors"] = {str(written.get("flavor")): stack_keys(flavor)}
    with located_in(what, ALONE):
        return plan_config(stack_config(sections), complete=False).pools[0]


@contextmanager
def located_in(what: str, places: Mapping[str, str]) -> Iterator[None]:
    """Have problems of a stack file's places name a component's arguments instead.

    Args:
        what: the component, for messages.
        places: how a place in a stack file begins -> what stands there of the component's arguments.

    Raises:
        InvalidStackError: the one that was raised inside, so changed.
    """
    try:
        yield
    except InvalidStackError as error:
        raise InvalidStackError([_relocated(problem, what, places) for problem in error.problems]) from None


def sections_in(sections: Mapping[str, Any], argument: str = "") -> dict[str, str]:
    """For `located_in`: sections that are arguments, or keys of one; each place says the key as it was written."""
    places = {f"{NAMESPACE}:{_camel(key)}": f"{argument}.{key}" for key in sections if ":" not in key}
    return {**places, f"{NAMESPACE}:": f"{argument}."}


def plan_of(what: str, planned: object, config: Mapping[str, Any] | None) -> Plan:
    """The plan that a component was given, or made from the sections that it was given.

    Raises:
        InvalidStackError: if it was given neither or both, or the sections cannot be planned.
    """
    if isinstance(planned, Plan) and config is None:
        return planned
    if planned is not None or config is None:
        raise InvalidStackError([one_of(what, "planned", "config")])
    with located_in(what, sections_in(config, ".config")):
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
    raise InvalidStackError([Problem(f"{what}.pool", f'"{name}" is not a pool of the plan', known, "Name one of them.")])


def one_of(what: str, first: str, second: str) -> Problem:
    """The problem of arguments that give none or both of two alternatives."""
    return Problem(what, f"gives neither or both of `{first}` and `{second}`", "exactly one of the two", "Keep one of them.")


def _inner(value: object, nested: tuple[str, ...]) -> object:
    if isinstance(value, dict):
        return stack_keys(value, *nested)
    return [_inner(entry, nested) for entry in value] if isinstance(value, list) else value


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)


def _relocated(problem: Problem, what: str, places: Mapping[str, str]) -> Problem:
    path = problem.path
    start = next((start for start in places if path.startswith(start)), None)
    if start is None:
        return problem
    path = f"{what}{places[start]}{path[len(start) :]}"
    allowed = _SHAPE if path == f"{what}.sharing" and "mapping" in problem.allowed else problem.allowed
    # Sections have no namespace in a program.
    texts = (text.replace(f"{NAMESPACE}:", "") for text in (problem.message, allowed, problem.remedy))
    return Problem(path, *texts)
