"""Which arguments may be Outputs: what a component's types say is what it does, for each argument of each component.

Made from the types themselves, as Pulumi's schema and the pages of docs/reference/components are.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, NotRequired, Required, get_args, get_origin, is_typeddict

import pulumi
import pytest

from gpu_pools.components import platform as whole
from gpu_pools.components import pools, sharing
from gpu_pools.components.aks import cluster as aks
from gpu_pools.components.aks import existing as existing_aks
from gpu_pools.components.engine.not_known_yet import not_known_yet
from gpu_pools.components.existing import cluster as existing
from gpu_pools.components.gpu_operator import dra_driver, node_features, startup_taint
from gpu_pools.components.gpu_operator import operator as gpu_operator
from gpu_pools.components.magnum import cluster as magnum
from gpu_pools.components.magnum import existing as existing_magnum
from gpu_pools.components.observability import observability
from gpu_pools.components.proof import smoke_test, verification
from gpu_pools.components.provider import COMPONENTS
from gpu_pools.text.errors import InvalidStackError
from tests.tiers import these

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .conftest import Recorder

    Run = Callable[..., Recorder]

ID: Final = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/hub/subnets/nodes"
TURNS: Final = {"timeSlicing": {"replicas": 4}}
AKS_POOL: Final = {"name": "nb", "vm_size": "Standard_NC24ads_A100_v4", "count": 1, "sharing": TURNS}
MAGNUM_POOL: Final = {"name": "nb", "flavor": "g", "count": 1, "sharing": TURNS}
FLAVOR: Final = {"gpu_model": "a100-80gb", "gpus_per_node": 1}
EXISTING_POOL: Final = {"name": "nb", "node_selector": {"p": "a"}, **FLAVOR, "sharing": TURNS}
AKS: Final = {
    "name": "gpu",
    "location": "westeurope",
    "resource_group": "rg",
    "system_pool": {"vm_size": "Standard_D4s_v5", "count": 1},
    "entra": {"admin_groups": ["0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"]},
}
TEMPLATE: Final = {"image": "fcos", "external_network": "public", "flavor": "m2.large"}
OF_POOLS: Final = {"pools": [EXISTING_POOL]}
#: Component -> arguments with which it is made.
MADE: Final[Mapping[type[Any], Mapping[str, Any]]] = {
    sharing.Exclusive: {},
    sharing.TimeSlicing: {"replicas": 4},
    sharing.Mps: {"replicas": 4},
    sharing.Mig: {"layout": {"1g.10gb": 7}},
    pools.AksPool: AKS_POOL,
    pools.MagnumPool: {**MAGNUM_POOL, "magnum_driver": "heat", "hardware": FLAVOR},
    pools.ExistingPool: EXISTING_POOL,
    aks.AksCluster: AKS,
    existing_aks.ExistingAksCluster: {"name": "prod", "resource_group": "rg"},
    aks.AksGpuNodePool: {"cluster_name": "c", "resource_group_name": "rg", "pool": AKS_POOL},
    magnum.MagnumCluster: {"name": "gpu", "driver": "heat", "keypair": "k", "check_cloud": False, "template": TEMPLATE},
    existing_magnum.ExistingMagnumCluster: {"name": "prod", "driver": "heat"},
    magnum.MagnumGpuNodePool: {"cluster_id": "c", "magnum_driver": "heat", "pool": MAGNUM_POOL, "flavor": FLAVOR},
    existing.ExistingCluster: {"kubeconfig_content": KUBECONFIG, "context": "byo"},
    node_features.NodeFeatureDiscovery: OF_POOLS,
    node_features.PoolLabels: {"namespace": "n", "pool": EXISTING_POOL},
    startup_taint.StartupTaint: {**OF_POOLS, "config": {"verification": {"startup_taint": True}}},
    gpu_operator.GpuOperator: OF_POOLS,
    dra_driver.DraDriver: {"pools": [{**EXISTING_POOL, "allocation": "dra"}]},
    verification.Verifier: {},
    verification.Verification: {"pool": "nb", "program": "p", **OF_POOLS, "config": {"verification": {}}},
    smoke_test.SharingSmokeTest: {"namespace": "n", "pool": "nb", **OF_POOLS},
    observability.Observability: {**OF_POOLS, "config": {"observability": {}}},
    whole.GpuPlatform: {
        "cluster": {"platform": "aks", **AKS},
        "sharing": {"turns": TURNS},
        "pools": [{**AKS_POOL, "sharing": "turns"}],
    },
}
#: What is passed on to a chart or a cloud as it is.
PASSED_ON: Final = {"values", "properties"}
Place = tuple[str | int, ...]


@pytest.fixture(autouse=True)
def _nothing_pending(run: Run) -> Iterator[None]:
    """Hundreds of components are refused here: what waits for their Outputs must not be collected during another test.

    asyncio logs each task that is destroyed while it waits. CPython 3.11 ends `ast.parse` with a SystemError when that happens
    inside of it.
    """
    loop = asyncio.get_event_loop()
    loop.set_exception_handler(lambda *_: None)
    yield
    del run
    waiting = asyncio.all_tasks(loop)
    for task in waiting:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*waiting, return_exceptions=True))
    gc.collect()


def _arguments(component: type[Any]) -> Any:
    return inspect.get_annotations(component.__init__)["args"]


def _leaves(hint: Any, place: Place = ()) -> Iterator[tuple[Place, bool]]:
    """Each place of an argument, and whether its type is an Input; of mappings one key, of lists the first entry."""
    while get_origin(hint) in {NotRequired, Required}:
        (hint,) = get_args(hint)
    if any(get_origin(arm) is Awaitable for arm in get_args(hint)):
        yield place, True
        hint = get_args(hint)[0]
    elif place:
        yield place, False
    if place and place[-1] in PASSED_ON:
        return
    if is_typeddict(hint):
        for key, inner in hint.__annotations__.items():
            yield from _leaves(inner, (*place, key))
    elif get_origin(hint) is dict:
        yield from _leaves(get_args(hint)[1], (*place, "key"))
    elif get_origin(hint) is list:
        yield from _leaves(get_args(hint)[0], (*place, 0))


def _with(args: Any, place: Place, value: Any) -> Any:
    """The arguments with another value at a place; what is not there on the way is made."""
    if not place:
        return value
    first, *rest = place
    if isinstance(first, int):
        entries = list(args) if isinstance(args, list) and args else [{}]
        return [_with(entries[0], tuple(rest), value), *entries[1:]]
    there = dict(args) if isinstance(args, dict) else {}
    return {**there, first: _with(there.get(first), tuple(rest), value)}


def _at(args: Any, place: Place) -> Any:
    for key in place:
        args = args[0] if isinstance(args, list) else (args or {}).get(key)
    return args


def _fitting(component: type[Any], args: Any, place: Place) -> Any:
    """A value for an argument: what is there, else one that fits its name, else an id."""
    if place[-1] == "config_keys":
        return [component("keys", args).planned.config_key]
    if place[-2:] == ("pools", 0):
        return EXISTING_POOL
    fit = {"mig_strategy": "single", "kubeconfig": KUBECONFIG, "sharing": TURNS}
    return _at(args, place) or fit.get(str(place[-1]), ID)


def _shown(place: Place) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)


def _problems(component: type[Any], args: Any) -> dict[str, str]:
    """Path -> what is wrong with arguments; empty where the component is made."""
    try:
        component("one", args)
    except InvalidStackError as error:
        return {one.path: one.message for one in error.problems}
    return {}


BY_NAME: Final = {component.__name__: component for component in MADE}
#: In `make test`: a value, a cluster, a pool and what goes into a cluster.
SOME: Final = ("TimeSlicing", "AksCluster", "MagnumGpuNodePool", "GpuOperator")


def test_no_component_is_forgotten() -> None:
    assert set(BY_NAME) == {component.__name__ for component in COMPONENTS}


@pytest.mark.parametrize("name", these(BY_NAME, SOME))
def test_what_must_be_known_says_so_with_its_place(run: Run, name: str) -> None:
    component = BY_NAME[name]
    places = [place for place, is_input in _leaves(_arguments(component)) if not is_input]
    assert places

    def program() -> None:
        for place in places:
            args = _with(copy.deepcopy(MADE[component]), place, pulumi.Output.from_input(1))
            with pytest.raises(InvalidStackError) as refused:
                component("one", args)
            (problem,) = refused.value.problems
            assert problem.path == f"{name}(one){_shown(place)}"
            assert "must be known before the deploy" in problem.message
            assert "pulumi.Config()" in problem.remedy
            assert "Output[T]" not in str(problem)

    assert run(program).resources == []


@pytest.mark.parametrize("name", these(BY_NAME, SOME))
def test_what_is_typed_as_an_input_takes_an_output(run: Run, name: str) -> None:
    """With an Output there is nothing wrong but what is wrong with its value."""
    component = BY_NAME[name]
    places = [place for place, is_input in _leaves(_arguments(component)) if is_input]

    def program() -> None:
        assert _problems(component, copy.deepcopy(MADE[component])) == {}
        for place in places:
            base = copy.deepcopy(MADE[component])
            value = _fitting(component, base, place)
            with_value = _problems(component, _with(base, place, value))
            with_output = _problems(component, _with(base, place, pulumi.Output.from_input(value)))
            assert set(with_output) <= set(with_value), (place, with_output)
            assert not any("Output" in text for text in with_output.values()), (place, with_output)

    run(program)


@pytest.mark.parametrize("name", these(BY_NAME, SOME))
def test_what_is_planned_with_must_be_known_in_the_preview(run: Run, name: str) -> None:
    component = BY_NAME[name]
    planning_keys = {"pool", "pools", "sharing", "mig_strategy"}
    places = [place for place, is_input in _leaves(_arguments(component)) if is_input and {*map(str, place[-2:])} & planning_keys]
    places = [place for place in places if place[-1] in planning_keys or place[-1] == 0]

    def program() -> None:
        for place in places:
            found = _problems(component, _with(copy.deepcopy(MADE[component]), place, not_known_yet()))
            message = found[f"{name}(one){_shown(place)}"]
            assert message.startswith("is an Output, and must be known before the deploy: the preview does not know it")

    run(program)


def test_what_is_only_placed_may_be_unknown(run: Run) -> None:
    def program() -> None:
        for component, place in ((aks.AksGpuNodePool, "node_subnet"), (aks.AksGpuNodePool, "cluster_name")):
            assert _problems(component, _with(copy.deepcopy(MADE[component]), (place,), not_known_yet())) == {}

    run(program)
