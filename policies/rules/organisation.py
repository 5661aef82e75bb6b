"""What an organisation allows: sizes, regions, how many GPUs, what they may cost, tags, spot, strategies.

Nothing is limited until a stack's configuration says so.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.azure_sizes import retired, size
from gpu_pools.hardware.prices import HOURS_PER_MONTH, read_prices
from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Limit, Rule
from gpu_pools.sharing.modes import MODES
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.prices import Prices
    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

_GROUP: Final = "azure-native:resources:ResourceGroup"
_TEXTS: Final[Mapping[str, Any]] = {"type": "array", "items": {"type": "string"}}
#: Type -> the input with the name in the cloud.
_CLOUD_NAMES: Final = {
    kinds.MANAGED_CLUSTER: "resourceName",
    kinds.MAGNUM_CLUSTER: "name",
    kinds.AGENT_POOL: "agentPoolName",
    kinds.NODE_GROUP: "name",
}
_REQUIRED: Final = (Limit("required", {"type": "boolean"}, default=False),)
_TO_REPLACE: Final = "To replace it, acknowledge exactly that, and take out what has been done."


def _sizes(case: Case) -> Iterator[Found]:
    allowed = case.limits["sizes"]
    place = case.inputs.at("vmSize" if case.resource.type == kinds.AGENT_POOL else "flavorId")
    gpu = case.resource.type == kinds.NODE_GROUP or kinds.is_gpu_pool(case.inputs)
    if allowed is not None and gpu and not any(fnmatch.fnmatchcase(place.text(), pattern) for pattern in allowed):
        yield Found(place.path, f'"{place.text()}"; allowed: {", ".join(allowed)}')


def _regions(case: Case) -> Iterator[Found]:
    allowed = case.limits["regions"]
    place = case.inputs.at("location")
    if allowed is not None and place.text().replace(" ", "").lower() not in allowed:
        yield Found(place.path, f'"{place.text()}"; allowed: {", ".join(allowed)}')


def _most_nodes(inputs: Field) -> float:
    """Nodes that a pool may have at most."""
    scaled = inputs.at("enableAutoScaling").value() is True
    return inputs.at("maxCount" if scaled else "count").number() or 0


def _first(case: Case) -> bool:
    """Whether the resource is the first GPU pool of the program: sums are told once."""
    pools = kinds.gpu_pools(case)
    return bool(pools) and pools[0][0].urn == case.resource.urn


def _gpus(case: Case) -> Iterator[Found]:
    most = case.limits["gpus"]
    if most is None or not _first(case):
        return
    total, uncounted = 0.0, []
    for _, inputs in kinds.gpu_pools(case):
        name = inputs.at("vmSize").text()
        known = size(name)
        if known is None and not retired(name):
            uncounted.append(name)
        total += float(known.gpus) * _most_nodes(inputs) if known else 0
    if uncounted:
        yield Found("(all pools)", f"no table says how many GPUs {', '.join(dict.fromkeys(uncounted))} has")
    if total > most:
        yield Found("(all pools)", f"up to {total:g} GPUs; allowed: {most}")


def _cost(case: Case) -> Iterator[Found]:
    prices: Prices | None = case.limits["prices"]
    most = case.limits["perMonth"]
    if prices is None or most is None or not _first(case):
        return
    total, unpriced = 0.0, []
    for _, inputs in kinds.gpu_pools(case):
        name, spot = inputs.at("vmSize").text(), inputs.at("scaleSetPriority").text() == "Spot"
        price = prices.of(name, spot=spot)
        if price is None:
            unpriced.append(name)
        total += (price or 0) * _most_nodes(inputs) * HOURS_PER_MONTH
    if unpriced:
        yield Found("(all pools)", f"the prices lack {', '.join(dict.fromkeys(unpriced))}")
    if total > most:
        yield Found("(all pools)", f"up to {total:.0f} {prices.currency} a month; allowed: {most:g}")


def _tags(case: Case) -> Iterator[Found]:
    written = dict(case.inputs.at("tags").items())
    missing = [tag for tag in case.limits["tags"] or () if tag not in written]
    if missing:
        yield Found("tags", f"no {', '.join(missing)}")


def _spot(case: Case) -> Iterator[Found]:
    place = case.inputs.at("scaleSetPriority")
    if case.limits["allowed"] is False and kinds.is_gpu_pool(case.inputs) and place.text() == "Spot":
        yield Found(place.path, '"Spot"')


def _strategy_of(case: Case) -> Iterator[tuple[Field, str]]:
    """(label, strategy) of a pool, from the config that its label names."""
    label, layout = kinds.sharing_label(case, kinds.CONFIG_LABEL), kinds.sharing_label(case, kinds.MIG_LABEL)
    if case.inputs.at("gpuInstanceProfile").text():
        yield case.inputs.at("gpuInstanceProfile"), "mig"
    elif layout.text() not in {"", "all-disabled"}:
        yield layout, "mig"
    for _, value in kinds.configs_named(case, label):
        for mode in kinds.sharing_of(value):
            yield label, str(mode)


def _strategies(case: Case) -> Iterator[Found]:
    allowed = case.limits["strategies"]
    for place, strategy in _strategy_of(case) if allowed is not None else ():
        if strategy in MODES and strategy not in allowed:
            yield Found(place.path, f"{strategy}; allowed: {', '.join(allowed)}")


def _untrusted(case: Case) -> Iterator[Found]:
    mark = case.inputs.at("nodeLabels", case.limits["label"])
    if mark.text() != "untrusted":
        return
    for place, strategy in _strategy_of(case):
        if strategy in MODES and not MODES[strategy].limits_memory:
            yield Found(place.path, f"{strategy}, on a pool with {case.limits['label']}=untrusted")


def _verified(case: Case) -> Iterator[Found]:
    """One finding where nothing is verified; else one for each pool that is left out.

    Node groups of Magnum are not judged pool by pool: what GPUs a flavor has is nowhere in the program.
    """
    if not case.limits["required"]:
        return
    if case.resource.type in kinds.OPERATORS:
        if kinds.operator(case) is not None and not case.stack.of(kinds.VERIFICATION):
            yield Found("(program)", "no pool is verified")
        return
    verified = [inputs.at("pool") for _, inputs in case.of(kinds.VERIFICATION)]
    if not verified or not kinds.is_gpu_pool(case.inputs):
        return
    # Of pools that follow each other under one name (replace: surge) Azure's name is another.
    replaced = case.inputs.at("nodeLabels", REPLACEMENT_LABEL).text()
    name = case.inputs.at("nodeLabels", POOL_LABEL) if replaced else case.inputs.at("agentPoolName")
    # What another Verification does not tell yet matters only where none is known to be of this pool.
    if not any(kinds.known_or_none(pool) == name.text() for pool in verified) and name.text() not in {
        pool.text() for pool in verified
    }:
        yield Found(name.path, f'"{name.text()}", of which there is no Verification')


def _protected(case: Case) -> Iterator[Found]:
    if not case.limits["required"] or (case.resource.type == kinds.AGENT_POOL and not kinds.is_gpu_pool(case.inputs)):
        return
    lifted = _lifted(case)
    if lifted is False:
        yield Found("(options)", "an acknowledgement of another change stands there, so what is deployed may be unprotected")
    elif not lifted and not case.resource.protect:
        yield Found("(options)", "protect is not set")


def _entra(case: Case) -> Iterator[Found]:
    if not case.limits["required"]:
        return
    managed, local = case.inputs.at("aadProfile", "managed"), case.inputs.at("disableLocalAccounts")
    if managed.value() is not True:
        yield Found(managed.path, "users do not log in with Entra ID: the cluster's kubeconfig is an administrator's")
    elif local.value() is not True:
        yield Found(local.path, "local accounts are on: certificates of an administrator can be had")


def _lifted(case: Case) -> bool | None:
    """Whether the stack's configuration lifts the protection; None: it says nothing."""
    if not case.stack.acknowledged:
        return None
    return case.stack.acknowledged.get((case.resource.type, case.inputs.at(_CLOUD_NAMES[case.resource.type]).text()))


RULES: Final = (
    Rule(
        name="allowed-sizes",
        title="GPU pools use sizes that the organisation allows",
        incidents=(),
        types=(kinds.AGENT_POOL, kinds.NODE_GROUP),
        judge=_sizes,
        why="the organisation has contracts and quota for certain sizes only",
        repair="Take an allowed size, or have the list changed.",
        stack_repair="Change vmSize (Magnum: flavor) of the pool to an allowed one, or have the list changed.",
        limits=(Limit("sizes", _TEXTS),),
    ),
    Rule(
        name="allowed-regions",
        title="Clusters lie in regions that the organisation allows",
        incidents=(),
        types=(kinds.MANAGED_CLUSTER, _GROUP),
        judge=_regions,
        why="data may not leave these regions, and quota exists only there",
        repair="Move it to an allowed region.",
        stack_repair="Set location of the cluster to an allowed region.",
        limits=(Limit("regions", {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9]+$"}}),),
    ),
    Rule(
        name="max-gpus",
        title="The stack has no more GPUs than it may have",
        incidents=("C09",),
        types=(kinds.AGENT_POOL,),
        judge=_gpus,
        why="quota is shared with others, and autoscalers use what they may",
        repair="Lower count or maxCount of a pool.",
        stack_repair="Lower count or nodes.max of a pool.",
        limits=(Limit("gpus", {"type": "integer", "minimum": 0}),),
        whole=True,
    ),
    Rule(
        name="max-cost",
        title="The stack's GPU nodes cost no more than they may",
        incidents=(),
        types=(kinds.AGENT_POOL,),
        judge=_cost,
        why="with all autoscaled pools at their largest this is what is paid",
        repair="Lower maxCount, take a cheaper size or spot, or complete the prices.",
        stack_repair="Lower count or nodes.max of a pool, take a cheaper vmSize or spot, or complete the prices.",
        limits=(
            Limit(
                "prices",
                {"type": "string", "description": "path of a YAML file: currency, perHour, spotPerHour"},
                load=read_prices,
            ),
            Limit("perMonth", {"type": "number", "minimum": 0}),
        ),
        whole=True,
    ),
    Rule(
        name="required-tags",
        title="Resources carry the tags that the organisation asks for",
        incidents=(),
        types=(kinds.MANAGED_CLUSTER, kinds.AGENT_POOL, _GROUP),
        judge=_tags,
        why="costs without an owner are found by nobody",
        repair="Add the tags.",
        stack_repair="Add them to tags of the cluster, which its pools get too.",
        limits=(Limit("tags", _TEXTS),),
    ),
    Rule(
        name="spot-where-allowed",
        title="Spot pools stand only where they may",
        incidents=(),
        types=(kinds.AGENT_POOL,),
        judge=_spot,
        why="spot nodes vanish with 30 seconds' notice",
        repair="Remove scaleSetPriority.",
        stack_repair="Take spot out of the pool.",
        limits=(Limit("allowed", {"type": "boolean"}, default=True),),
    ),
    Rule(
        name="allowed-strategies",
        title="Pools share GPUs in ways that the environment allows",
        incidents=(),
        types=(kinds.AGENT_POOL,),
        judge=_strategies,
        why="the environment's users were promised a certain isolation",
        repair="Share the pool in an allowed way.",
        stack_repair="Give the pool another sharing declaration.",
        limits=(Limit("strategies", {"type": "array", "items": {"enum": list(MODES)}}),),
        whole=True,
    ),
    Rule(
        name="untrusted-tenants-isolated",
        title="Tenants who are not trusted have memory of their own",
        incidents=("R15",),
        types=(kinds.AGENT_POOL,),
        judge=_untrusted,
        why="under time-slicing one tenant's pod can take all memory of the GPU and crash the others",
        repair="Use MIG, or whole GPUs.",
        stack_repair="Give the pool a sharing declaration with mig or exclusive.",
        limits=(Limit("label", {"type": "string", "minLength": 1}, default="tenants"),),
        whole=True,
    ),
    Rule(
        name="clusters-protected",
        title="Clusters are protected from deletion and replacement",
        incidents=("P09",),
        types=(kinds.MANAGED_CLUSTER, kinds.MAGNUM_CLUSTER),
        judge=_protected,
        why="one changed property replaces the whole cluster, with everything that runs in it",
        repair=f"Set protect in the stack's cluster section, or as a resource option. {_TO_REPLACE}",
        limits=_REQUIRED,
    ),
    Rule(
        name="clusters-without-local-accounts",
        title="Users of AKS clusters log in with Entra ID, and certificates of administrators cannot be had",
        incidents=(),
        types=(kinds.MANAGED_CLUSTER,),
        judge=_entra,
        why="such a certificate is the same for whoever may ask Azure or read the state, and cannot be taken back",
        repair="Set aadProfile.managed and disableLocalAccounts.",
        stack_repair="Put `entra: {adminGroups: [object id of a group]}` into the cluster's section, without localAccounts.",
        limits=_REQUIRED,
    ),
    Rule(
        name="pools-protected",
        title="GPU pools are protected from deletion and replacement",
        incidents=("P09",),
        types=(kinds.AGENT_POOL, kinds.NODE_GROUP),
        judge=_protected,
        why="one changed property replaces all nodes of the pool, and the old ones go first",
        repair=f"Set protect of the pool in the stack file, or as a resource option. {_TO_REPLACE}",
        limits=_REQUIRED,
    ),
    Rule(
        name="nodes-verified",
        title="Deploys end only when the nodes of every GPU pool are verified",
        incidents=(),
        types=(*kinds.OPERATORS, kinds.AGENT_POOL),
        judge=_verified,
        why="GPU sharing fails in silence: a deploy that asks no node ends well whatever the nodes advertise",
        repair="Put gpu-pools:verification into the stack file, without `enabled: false`; add a Verification for other pools.",
        limits=_REQUIRED,
        whole=True,
    ),
)
