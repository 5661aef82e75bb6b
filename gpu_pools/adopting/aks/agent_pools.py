"""An AKS cluster that is there: its GPU pools become pools of a stack that has the cluster as `existing`.

The cluster itself stays out of the state (decision 160): an import copies all that Azure answers with, and a stack with one key
too few would then change it. A pool comes into it as an import has it, and `adopted` leaves alone what the stack does not say. So
each property that has a key, and is not what Azure takes by itself, is written; what has none is named, and stays.

Before anything is written, each pool's inputs are held against those that the import will have: a pool that the first `up` would
replace is not adopted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import Adopted, Imported, NotAdoptableError, Taken, Unsaid
from gpu_pools.adopting.aks.resources import as_inputs, flat, unknown
from gpu_pools.adopting.aks.sharing import by_azure
from gpu_pools.adopting.documents import refused, text_of
from gpu_pools.adopting.pools import majority, planned_alone, put_in
from gpu_pools.adopting.sharing import WHOLE, gpus_of, shared_as
from gpu_pools.adopting.surroundings import attach
from gpu_pools.hardware import azure_sizes
from gpu_pools.hardware.models import model
from gpu_pools.platforms.aks.azure_types import version
from gpu_pools.platforms.aks.found import OWNER_TAG
from gpu_pools.platforms.aks.labels import AKS_SPOT_TAINT, label_refused_by_aks
from gpu_pools.platforms.aks.pool_inputs import OF_OTHERS, PLACE, Around, kept_as_found, pool_inputs
from gpu_pools.platforms.aks.pool_options import AksPoolOptions
from gpu_pools.platforms.aks.properties import known_of
from gpu_pools.reading.fields import on, rows
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, POOL_LABEL
from gpu_pools.text.errors import Problem, show
from gpu_pools.text.nested import at, leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.adopting.inside import Inside, Node
    from gpu_pools.plan.planned import PoolPlan

SHOW: Final = "az aks show --resource-group GROUP --name NAME --output json"
LIST: Final = "az aks nodepool list --resource-group GROUP --cluster-name NAME --output json"
_COMPONENT: Final = "gpu-pools:index:AksGpuNodePool"
_POOL: Final = "azure-native:containerservice:AgentPool"
_AGENT_POOL: Final = "kubernetes.azure.com/agentpool"
#: Azure's sizes with GPUs.
_GPU_FAMILY: Final = "standard_n"
#: Labels that the plan sets, or Azure with a spot pool.
_PLANNED_LABELS: Final = frozenset({DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, POOL_LABEL, AKS_SPOT_TAINT.key})
#: What Azure takes by itself where nothing is said (2025-09-01; the answers that tests/adopting/clusters has): not worth a line.
_BY_ITSELF: Final[Mapping[str, Any]] = {
    "enableFIPS": False,
    "enableNodePublicIP": False,
    "enableEncryptionAtHost": False,
    "enableUltraSSD": False,
    "kubeletDiskType": "OS",
    "osSKU": "Ubuntu",
    "scaleDownMode": "Delete",
    "upgradeSettings.maxSurge": "10%",
    "upgradeSettings.maxUnavailable": "0",
    "upgradeSettings.undrainableNodeBehavior": "",
    "workloadRuntime": "OCIContainer",
    "securityProfile": {"enableSecureBoot": False, "enableVTPM": False},
    "securityProfile.sshAccess": "LocalUser",
    "messageOfTheDay": "",
    "kubeletConfig": {},
    "gpuProfile.nvidia.managementMode": "Unmanaged",
}
#: What a pool of a stack is, so that it is not a property to tell of.
_ALWAYS: Final[Mapping[str, Any]] = {"mode": "User", "osType": "Linux", "type": "VirtualMachineScaleSets"}
#: What Azure tells of a pool and nobody sets, or az adds.
_ANSWERED: Final = frozenset(
    {
        *("id", "name", "type", "typePropertiesType", "resourceGroup", "eTag", "etag", "provisioningState", "status"),
        *("currentOrchestratorVersion", "nodeImageVersion", "systemData"),
    }
)
#: Read by hand: they follow from other keys, or several keys from one.
_BY_HAND: Final = frozenset(
    {
        *(
            "vmSize",
            "count",
            "minCount",
            "maxCount",
            "enableAutoScaling",
            "nodeLabels",
            "nodeTaints",
            "tags",
            "availabilityZones",
        ),
        *(
            "orchestratorVersion",
            "osSKU",
            "gpuProfile",
            "gpuInstanceProfile",
            "scaleSetPriority",
            "spotMaxPrice",
            "scaleSetEvictionPolicy",
        ),
    }
)


@dataclass(frozen=True)
class _Cluster:
    """Which one it is."""

    subscription: str
    group: str
    name: str

    def same_as(self, other: _Cluster | None) -> bool:
        """Whether that is this cluster: Azure's names are the same in any case."""
        return other is not None and all(
            getattr(self, part.name).lower() == getattr(other, part.name).lower() for part in fields(self)
        )


def adopt_aks(
    cluster: Mapping[str, Any], pools: Sequence[Mapping[str, Any]] | None, inside: Inside, owner: str, platform: str
) -> Adopted:
    """A stack for the cluster's GPU pools.

    Args:
        cluster: as `az aks show` prints it.
        pools: as `az aks nodepool list` prints them; None: as the cluster has them.
        inside: what is in the cluster.
        owner: project and stack, which the tag will name.
        platform: Pulumi name of the program's GpuPlatform.

    Raises:
        NotAdoptableError: if it is not an AKS cluster, if the pools are not that cluster's, or if Azure manages GPUs of it.
    """
    cluster = flat(cluster)
    which = _which(cluster)
    if pools is not None:
        _check_pools(pools, which)
    listed = [flat(one) for one in pools] if pools is not None else _inline(cluster)
    _check_managed(listed)
    adopted = Adopted({"cluster": {"platform": "aks", "existing": _existing(which)}})
    # Azure's answers always have these; lists that people have shortened may not.
    always = {**_ALWAYS, "enableAutoScaling": False}
    found = [
        (text_of(one, "name", f"pool {index}", LIST), {**always, **as_inputs(one, "AgentPool")}, one)
        for index, one in enumerate(listed)
    ]
    gpu = [(name, inputs, one) for name, inputs, one in found if _is_gpu(name, inputs, inside, adopted)]
    owners = [_driver(inputs) for _, inputs, _ in gpu]
    driver = majority([one for one in owners if one]) or ("preinstalled" if gpu else "operator")
    attach(adopted, inside, driver, str(cluster.get("currentKubernetesVersion") or cluster.get("kubernetesVersion") or ""))
    for name, inputs, answer in gpu:
        taken = _taken(_Place(which, name, owner, platform), inputs, answer, inside, adopted)
        why = taken if isinstance(taken, str) else put_in(adopted, taken)
        if why:
            adopted.unsaid.append(Unsaid(f"pool {name}", f"is not adopted: {why}"))
    return adopted


@dataclass(frozen=True)
class _Place:
    """Which pool of which cluster, and whose it is to be."""

    cluster: _Cluster
    pool: str
    owner: str
    platform: str

    @property
    def id(self) -> str:
        """As azure-native makes it (resourcegroups in its own case; ARM takes any)."""
        cluster = self.cluster
        return (
            f"/subscriptions/{cluster.subscription}/resourceGroups/{cluster.group}/providers/Microsoft.ContainerService"
            f"/managedClusters/{cluster.name}/agentPools/{self.pool}"
        )


def _which(cluster: Mapping[str, Any]) -> _Cluster:
    found = _named(text_of(cluster, "id", "the cluster", SHOW))
    if found is None:
        raise refused("the cluster", f"has the id {cluster['id']}, which is none of an AKS cluster", SHOW)
    return found


def _named(id_: str) -> _Cluster | None:
    """The cluster that an id names, its own or that of something in it."""
    parts = id_.strip("/").split("/")
    named = {key.lower(): value for key, value in zip(parts[::2], parts[1::2], strict=False)}
    if not {"subscriptions", "resourcegroups", "managedclusters"} <= named.keys():
        return None
    return _Cluster(named["subscriptions"], named["resourcegroups"], named["managedclusters"])


def _check_pools(pools: Sequence[Mapping[str, Any]], which: _Cluster) -> None:
    """Refuse what az lists of something else, and pools of another cluster: written down they would be taken over by name."""
    problems = []
    these = f"pools of the cluster {which.name} in {which.group} of subscription {which.subscription}"
    for index, one in enumerate(pools):
        place, there = f"pool {show(one.get('name', index))}", one.get("id")
        if not isinstance(flat(one).get("vmSize"), str):
            why = "has no `vmSize`, so it is not an agent pool"
            problems.append(Problem(place, why, f"what `{LIST}` prints", "Print the list anew."))
        elif isinstance(there, str) and not which.same_as(_named(there)):
            why = f"has the id {there}, which is of another cluster"
            problems.append(Problem(place, why, these, "Print the list of that cluster."))
    if problems:
        raise NotAdoptableError(problems)


def _check_managed(pools: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a cluster in which AKS brings driver and device plugin, as the deploy does (gpu_pools/platforms/aks/cloud.py)."""
    problems = [
        Problem(
            f"pool {show(one.get('name', index))}",
            "AKS manages its GPUs itself (gpuProfile.nvidia.managementMode), and a stack brings another device plugin",
            "a cluster without managed GPU pools",
            "Leave the cluster to AKS, or make such a pool anew with managementMode Unmanaged, which is fixed at its creation.",
        )
        for index, one in enumerate(pools)
        if at(one, "gpuProfile", "nvidia", "managementMode") == "Managed"
    ]
    if problems:
        raise NotAdoptableError(problems)


def _existing(which: _Cluster) -> dict[str, str]:
    return {"resourceGroup": which.group, "name": which.name, "subscription": which.subscription}


def _inline(cluster: Mapping[str, Any]) -> list[dict[str, Any]]:
    profiles = cluster.get("agentPoolProfiles")
    if not isinstance(profiles, list):
        raise refused("the cluster", "has no agentPoolProfiles", SHOW)
    return [flat(one) for one in profiles if isinstance(one, dict)]


def _is_gpu(name: str, inputs: Mapping[str, Any], inside: Inside, adopted: Adopted) -> bool:
    """Whether it is a pool that a stack could have; what it is else, where it has GPUs all the same, is said."""
    size = str(inputs.get("vmSize", ""))
    if azure_sizes.size(size) is None and not size.lower().startswith(_GPU_FAMILY):
        return False
    for key, wanted in _ALWAYS.items():
        if inputs.get(key, wanted) != wanted:
            why = f"its {key} is {inputs[key]}, and pools of a stack are {wanted}: its nodes stay as they are"
            adopted.unsaid.append(Unsaid(f"pool {name}", f"is not adopted: {why}"))
            return False
    if date := azure_sizes.retired(size):
        why = f"Azure has retired {size} on {date}, and a stack cannot have that size: make a pool of another one"
        adopted.unsaid.append(Unsaid(f"pool {name}", f"is not adopted: {why}"))
        return False
    if azure_sizes.size(size) is None and _product(name, inside) is None:
        why = f"no table has {size}, and no node says which GPUs it has; write the pool by hand, with gpuModel and gpusPerNode"
        adopted.unsaid.append(Unsaid(f"pool {name}", f"is not adopted: {why}"))
        return False
    return True


def _product(name: str, inside: Inside) -> tuple[str, int] | None:
    """(GPU model, GPUs of a node) as the pool's nodes say it."""
    for node in _nodes(name, inside):
        found = gpus_of(name, node.labels, inside)
        if found:
            return found[0].key, found[2]
    return None


def _nodes(name: str, inside: Inside) -> tuple[Node, ...]:
    return inside.of_pool(_AGENT_POOL, name) or inside.of_pool("agentpool", name)


def _driver(inputs: Mapping[str, Any]) -> str:
    """Who installs the driver, as Azure was told; empty: it was not."""
    asked = at(inputs, "gpuProfile", "driver")
    return {"None": "operator", "Install": "preinstalled"}.get(asked, "") if isinstance(asked, str) else ""


def _taken(place: _Place, inputs: Mapping[str, Any], answer: Mapping[str, Any], inside: Inside, adopted: Adopted) -> Taken | str:
    name = place.pool
    owners = (inputs.get("tags") or {}).get(OWNER_TAG)
    if owners and owners != place.owner:
        return f"its tag {OWNER_TAG} says that it is the stack {owners}'s; let that one release it first, and take the tag off"
    entry: dict[str, Any] = {"name": name, "vmSize": inputs["vmSize"], "adopted": True}
    if azure_sizes.size(str(inputs["vmSize"])) is None:
        entry["gpuModel"], entry["gpusPerNode"] = _product(name, inside) or ("", 0)
    entry |= _numbers(inputs) | _declared(AksPoolOptions, inputs) | _others(name, inputs, adopted)
    profile = str(inputs.get("gpuInstanceProfile") or "")
    if profile:
        entry["partitionedBy"] = "aks"
        size = azure_sizes.size(str(inputs["vmSize"]))
        shared = by_azure(profile, model(size.gpu_model if size else str(entry["gpuModel"])))
    else:
        labels = {
            **{key: value for node in _nodes(name, inside)[:1] for key, value in node.labels.items()},
            **(inputs.get("nodeLabels") or {}),
        }
        shared = shared_as(name, labels, inside)
    found = planned_alone(adopted.sections, entry, shared.candidates, lambda one: (one.gpu_instance_profile or "") == profile)
    if isinstance(found, str):
        return found
    (sharing, declaration), pool_plan = found
    if sharing == WHOLE[0] and len(shared.candidates) > 1:
        adopted.unsaid.append(
            Unsaid(
                f"pool {name}", "how it shares its GPUs now fits none of its GPUs, by the planner; it is taken to use whole ones"
            )
        )
    adopted.unsaid += shared.unsaid
    changes = dict(_changes(place, inputs, pool_plan))
    if replaced := [path for path, change in changes.items() if change == "replaces"]:
        return f"the first `up` would make it anew, for {', '.join(replaced)}"
    adopted.unsaid += _left(name, inputs, pool_plan, place.owner)
    adopted.unsaid += _newer(name, answer)
    return Taken(
        {**entry, "sharing": sharing}, declaration, _imports(place), tuple(f"{path}: {how}" for path, how in changes.items())
    )


def _imports(place: _Place) -> tuple[Imported, ...]:
    component = f"{place.platform}-{place.pool}"
    return (
        Imported(_COMPONENT, component, place.platform),
        Imported(_POOL, f"{component}-pool", component, place.id, version()),
    )


def _numbers(inputs: Mapping[str, Any]) -> dict[str, Any]:
    if inputs.get("enableAutoScaling"):
        return {"nodes": {"min": inputs.get("minCount"), "max": inputs.get("maxCount")}}
    return {"count": inputs.get("count", 0)}


def _declared(settings: type, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a settings class that say what the pool has, where Azure does not take it by itself."""
    found: dict[str, Any] = {}
    for one in rows(settings):
        path = on(one.sets, "aks")
        if isinstance(one.kind.type, type):
            if inner := _declared(one.kind.type, inputs):
                found[one.key] = inner
        elif path and path not in _BY_HAND:
            value = at(inputs, *path.split("."))
            if value not in (None, [], {}) and value != _BY_ITSELF.get(path):
                found[one.key] = value
    return found


def _others(name: str, inputs: Mapping[str, Any], adopted: Adopted) -> dict[str, Any]:
    """Keys that are no plain copies of a property."""
    entry: dict[str, Any] = {}
    if inputs.get("osSKU", "Ubuntu") != "Ubuntu":
        entry["osSku"] = inputs["osSKU"]
    if owner := _driver(inputs):
        entry["driver"] = owner
    if zones := inputs.get("availabilityZones"):
        entry["zones"] = [str(zone) for zone in zones]
    spot = inputs.get("scaleSetPriority") == "Spot"
    if spot:
        entry["spot"] = {
            "maxPrice": inputs.get("spotMaxPrice", -1),
            "evictionPolicy": inputs.get("scaleSetEvictionPolicy", "Delete"),
        }
    taints = [taint for taint in inputs.get("nodeTaints") or [] if not (spot and taint == str(AKS_SPOT_TAINT))]
    if taints:
        entry["taints"] = taints
    labels = {key: value for key, value in (inputs.get("nodeLabels") or {}).items() if key not in _PLANNED_LABELS}
    refused_labels = [key for key in labels if label_refused_by_aks(key) or key.startswith("nvidia.com/")]
    for key in refused_labels:
        why = (
            "the plan, Azure or the operator sets labels like it: the first `up` takes it off the pool, whose labels are one set"
        )
        adopted.unsaid.append(Unsaid(f"pool {name}: label {key}={labels.pop(key)}", why))
    if labels:
        entry["labels"] = labels
    if tags := {key: value for key, value in (inputs.get("tags") or {}).items() if key != OWNER_TAG}:
        entry["tags"] = tags
    return entry


def _wanted(inputs: Mapping[str, Any], pool_plan: PoolPlan, owner: str) -> dict[str, Any]:
    """The inputs of the first preview: those of the program, and of what it leaves alone those of the import."""
    around = Around({OWNER_TAG: owner}, inputs.get("vnetSubnetID"), inputs.get("podSubnetID"))
    program = {key: value for key, value in pool_inputs(pool_plan, around).items() if value is not None}
    program["nodeLabels"] = pool_plan.placed_labels
    kept = kept_as_found(pool_plan, program)
    if pool_plan.pool.autoscaled:
        kept.append("count")
    said = {key: value for key, value in program.items() if key not in {*kept, *PLACE}}
    return {**said, **{key: inputs[key] for key in kept if key in inputs}}


def _changes(place: _Place, inputs: Mapping[str, Any], pool_plan: PoolPlan) -> Iterator[tuple[str, str]]:
    """Path -> what its change does, of all in which the first preview will differ from the import."""
    wanted = _wanted(inputs, pool_plan, place.owner)
    before = {key: value for key, value in inputs.items() if key not in PLACE}
    for path in _different(before, wanted, ""):
        known = known_of("AgentPool", path)
        yield path, ("stays as it is" if path in OF_OTHERS else known.change if known else "replaces")


def _different(old: Any, new: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(old, dict) and isinstance(new, dict) and path not in {"nodeLabels", "tags"}:
        for key in dict.fromkeys((*old, *new)):
            yield from _different(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path


def _newer(name: str, answer: Mapping[str, Any]) -> Iterator[Unsaid]:
    """What Azure tells of the pool and azure-native's API version does not have, so that no import has it either."""
    for path, value in unknown(answer, "AgentPool"):
        if path.partition(".")[0] not in _ANSWERED and value != _BY_ITSELF.get(path):
            why = "the plugin's API version does not know it; it stays, unless Azure takes an update without it for a change"
            yield Unsaid(f"pool {name}: {path} = {show(value)}", why)


def _left(name: str, inputs: Mapping[str, Any], pool_plan: PoolPlan, owner: str) -> Iterator[Unsaid]:
    """What the pool has that no key says, and that Azure would not have taken by itself."""
    program = pool_inputs(pool_plan, Around({OWNER_TAG: owner}))
    said = {key for key, value in program.items() if value is not None} | {"nodeLabels"}
    for path, value in leaves(inputs):
        top = path.partition(".")[0]
        if top in said | PLACE | OF_OTHERS | _BY_HAND or value in (None, "", [], {}):
            continue
        usual = _BY_ITSELF.get(path, _BY_ITSELF.get(top))
        if value == usual or (isinstance(usual, dict) and usual.get(path.rpartition(".")[2]) == value):
            continue
        yield Unsaid(
            f"pool {name}: {path} = {show(value)}",
            "no key says it, or Azure takes it by itself; it stays as it is, and is not managed",
        )
