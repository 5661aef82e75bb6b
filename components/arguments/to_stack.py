"""From component arguments to the stack file's keys, and plans for components that are used alone.

Arguments have Python's names (`vm_size`), gpu_pools reads the stack file's keys (`vmSize`); such keys pass
unchanged. A pool that is used alone is planned as a stack of one pool, pools that a component is given as one of these; problems
then name the component instead of a place in a stack file.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gpu_pools.components.arguments.known import refuse_output
from gpu_pools.components.engine.outputs import put_off
from gpu_pools.plan.planned import Plan, PoolPlan
from gpu_pools.plan.planning import plan_config
from gpu_pools.reading.spelled import Spelled, to_python_key, to_stack_key
from gpu_pools.sharing.modes import MODES
from gpu_pools.stack.registry import RegistrySettings, parse_registry
from gpu_pools.stack.settings import NAMESPACE
from gpu_pools.text.errors import InvalidStackError, Problem, Problems, show

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
#: Keys of pools that are mappings of settings, in both spellings.
_OF_POOLS = (
    *("nodes", "spot", "minimum"),
    *("upgrade_settings", "upgradeSettings", "kubelet_config", "kubeletConfig", "linux_os_config", "linuxOsConfig"),
)
#: Keys of sharing declarations that are such mappings.
OF_SHARING = tuple(dict.fromkeys((*map(to_python_key, MODES), *MODES, "gpus", "needs")))
#: Keys whose mappings have keys of somebody else's: of Kubernetes, a cloud, a chart, a driver, or names.
_OTHERS = {
    *("labels", "tags", "layout", "values", "properties", "sysctls", "nodeSelector", "nodeGroupLabels", "gpuModels"),
    "dashboardLabels",
}
_SHAPE = "a sharing component (Exclusive, TimeSlicing, Mps, Mig), or a mapping like {'timeSlicing': {'replicas': 4}}"


def stack_keys(args: Mapping[str, Any], *nested: str) -> dict[str, Any]:
    """The arguments with keys as in a stack file.

    Args:
        args: component arguments.
        nested: keys whose values are mappings or lists of mappings with such keys themselves; labels and layouts are not.
    """
    return {to_stack_key(key): _inner(value, nested) if key in nested else value for key, value in args.items()}


def stack_config(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Sections such as `pools` and `node_feature_discovery` as a stack's config mapping.

    Keys that have a namespace already stay as they are: the `config` of a stack file can be handed over as it is.

    Raises:
        InvalidStackError: if a section is given twice, with its namespace and without.
    """
    full = [key if ":" in key else _with_namespace(to_stack_key(key)) for key in sections]
    twice = [key for key, count in Counter(full).items() if count > 1]
    if twice:
        message = "is given twice, with its namespace and without, or in two spellings"
        raise InvalidStackError(Problem(key, message, "each section once", "Keep one of them.") for key in twice)
    return dict(zip(full, sections.values(), strict=True))


def in_stack_keys(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of a program in the stack file's words, at any depth; those with a namespace are a stack file's already."""

    def inner(key: str, section: object) -> object:
        if ":" in key:
            return section
        if key in {"sharing", "flavors"} and isinstance(section, dict):
            return {name: _in_stack_keys(entry) for name, entry in section.items()}
        return _in_stack_keys(section)

    return {key: inner(key, section) for key, section in sections.items()}


def _in_stack_keys(value: object) -> object:
    """A section in the stack file's words, at any depth."""
    if isinstance(value, list):
        return [_in_stack_keys(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    keys = {key: to_stack_key(key) if isinstance(key, str) else key for key in value}
    return {keys[key]: inner if keys[key] in _OTHERS else _in_stack_keys(inner) for key, inner in value.items()}


def pool_keys(pool: object, where: str) -> dict[str, Any]:
    """A pool in the stack file's words, with its sharing in it, and texts for Outputs.

    Args:
        pool: a declaration, or a mapping in either words; its sharing is a component or a mapping.
        where: it stands, for messages.

    Raises:
        InvalidStackError: if it is no pool, or it or its sharing is an Output, which nothing can be planned with.
    """
    refuse_output(pool, where)
    if (declared := getattr(pool, "written", None)) is not None:
        return dict(declared)
    if not isinstance(pool, Mapping):
        message = f"{show(pool)} is not a pool"
        remedy = "Declare it: in Python AksPool, MagnumPool or ExistingPool, elsewhere a mapping with a name."
        raise InvalidStackError([Problem(where, message, "a component that declares a pool, or a mapping", remedy)])
    given: Any = pool
    written: dict[str, Any] = put_off(stack_keys(given, *_OF_POOLS))
    sharing = given.get("sharing")
    refuse_output(sharing, f"{where}.sharing")
    held = getattr(sharing, "written", sharing)
    written["sharing"] = stack_keys(held, *OF_SHARING) if isinstance(held, dict) else held
    return written


def plan_alone(
    what: str,
    platform: Mapping[str, Any],
    pool: Mapping[str, Any],
    mig_strategy: object,
    flavor: Mapping[str, Any] | None = None,
    *,
    models: Mapping[str, Any] | None = None,
) -> PoolPlan:
    """The plan of one pool that is not part of a platform.

    Args:
        what: the component, for messages.
        platform: the cluster section, as far as planning needs it.
        pool: a declaration, or the pool in Python's words; its `sharing` is a component or a mapping.
        mig_strategy: how the cluster's MIG nodes name their resources, None to derive it from this pool.
        flavor: what the pool's Magnum flavor has; by default what the declaration says.
        models: GPU models that no table has, in the words of a stack file; by default those of the declaration.

    Raises:
        InvalidStackError: with every problem, located in the component's arguments.
    """
    written = pool_keys(pool, what)
    flavor = getattr(pool, "hardware", None) if flavor is None else flavor
    models = getattr(pool, "models", None) if models is None else models
    sharing = written.get("sharing")
    written["sharing"] = "declared"
    sections: dict[str, Any] = {
        "cluster": platform,
        "sharing": {"declared": sharing},
        "pools": [written],
    }
    if mig_strategy is not None:
        sections["operator"] = {"migStrategy": put_off(mig_strategy)}
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
    places = {f"{NAMESPACE}:{to_stack_key(key)}": f"{argument}.{key}" for key in sections if ":" not in key}
    return {**places, f"{NAMESPACE}:": f"{argument}."}


def plan_of(what: str, plan: Plan | None, args: Mapping[str, Any]) -> Plan:
    """The plan that a component was given, or made from the pools or sections that it was given.

    Args:
        what: the component, for messages.
        plan: where there is a plan.
        args: with `pools`, `config` or both.

    Raises:
        InvalidStackError: if it was given none or too much, or what was given cannot be planned.
    """
    # Where programs of earlier versions hand it over.
    plan = args.get("planned", plan)
    pools, config = args.get("pools"), args.get("config")
    if isinstance(plan, Plan) and pools is None and config is None:
        return plan
    if plan is not None or (pools is None and config is None):
        raise InvalidStackError([one_of(what, "pools", "config")])
    if pools is not None:
        return _plan_pools(what, pools, config or {})
    with located_in(what, sections_in(config or {}, ".config")):
        return plan_config(stack_config(_later(in_stack_keys(config or {}))), complete=False)


def _plan_pools(what: str, pools: Sequence[object], config: Mapping[str, Any]) -> Plan:
    """The plan of pools that were declared by themselves; `config` has what else a stack file says."""
    if both := [key for key in config if key.rpartition(":")[2] in {"pools", "sharing"}]:
        problem = Problem(
            f"{what}.config.{both[0]}", "stands beside `pools`, which say it", "the other sections", "Leave it out."
        )
        raise InvalidStackError([problem])
    written = [pool_keys(pool, f"{what}.pools[{index}]") for index, pool in enumerate(pools)]
    names = [str(pool.get("name") or f"pools[{index}]") for index, pool in enumerate(written)]
    flavors = {
        str(pool["flavor"]): hardware
        for pool, declared in zip(written, pools, strict=True)
        if (hardware := getattr(declared, "hardware", None)) and "flavor" in pool
    }
    models = {name: one for declared in pools for name, one in (getattr(declared, "models", None) or {}).items()}
    sections = {
        "cluster": _platform_of(pools, written),
        **({"flavors": flavors} if flavors else {}),
        **({"gpuModels": models} if models else {}),
        **in_stack_keys(config),
        "sharing": {name: pool.get("sharing") for name, pool in zip(names, written, strict=True)},
        "pools": [{**pool, "sharing": name} for name, pool in zip(names, written, strict=True)],
    }
    # The longest first: a name may begin with another.
    by_length = sorted(enumerate(names), key=lambda one: -len(one[1]))
    places = {f"{NAMESPACE}:sharing.{name}": f".pools[{index}].sharing" for index, name in by_length}
    places |= {f"{NAMESPACE}:pools": ".pools", **sections_in(config, ".config")}
    with located_in(what, places):
        return plan_config(stack_config(_later(sections)), complete=False)


def _later(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Texts for the Outputs of a registry, which are only placed."""
    return {key: put_off(section) if key.rpartition(":")[2] == "registry" else section for key, section in sections.items()}


def _platform_of(pools: Sequence[object], written: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The cluster section of pools: their own, else that of the platform whose keys the first has."""
    for pool in pools:
        if (platform := getattr(pool, "platform", None)) is not None:
            return dict(platform)
    first = written[0] if written else {}
    return {"platform": "aks" if "vmSize" in first else "magnum" if "flavor" in first else "existing"}


def registry_of(what: str, section: Mapping[str, Any] | None) -> RegistrySettings:
    """The registry that a component was given as a section.

    Raises:
        InvalidStackError: with everything that is wrong with it.
    """
    problems = Problems()
    settings = parse_registry(None if section is None else put_off(_in_stack_keys(section)), f"{what}.registry", problems)
    problems.raise_if_any()
    return settings


def pool_of(what: str, plan: Plan, name: str) -> PoolPlan:
    """A pool of a plan by its name.

    Raises:
        InvalidStackError: if the plan has none of that name.
    """
    for pool_plan in plan.pools:
        if pool_plan.name == name:
            return pool_plan
    known = ", ".join(pool_plan.name for pool_plan in plan.pools)
    raise InvalidStackError([Problem(f"{what}.pool", f'"{name}" is not a pool of the plan', known, "Name one of them.")])


def one_of(what: str, first: str, second: str) -> Problem:
    """The problem of arguments that give none or both of two alternatives."""
    return Problem(what, f"gives neither or both of `{first}` and `{second}`", "exactly one of the two", "Keep one of them.")


def _inner(value: object, nested: tuple[str, ...]) -> object:
    if isinstance(value, dict):
        return stack_keys(value, *nested)
    return [_inner(entry, nested) for entry in value] if isinstance(value, list) else value


def _with_namespace(key: str) -> str:
    full = f"{NAMESPACE}:{key}"
    return Spelled(full, f"{NAMESPACE}:{key.written}") if isinstance(key, Spelled) else full


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
