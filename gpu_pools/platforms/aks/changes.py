"""What AKS does not change of what lives: properties of a pool, machines of the system pool, jumps of the version, Entra ID off.

The plugin (azure-native 3.29) calls all of these updates, and Azure refuses them only in the deploy. Told here before, from
what is deployed and what shall be, as the plugin's inputs say it (camelCase). Sources: the table of immutable settings in
azure-aks-docs (manage-node-pools, resize-node-pool, upgrade-aks-control-plane at fb060abe); gpu_pools/platforms/aks/entra.py for
Entra ID. What replaces a pool is data: gpu_pools/platforms/aks/properties.yaml.

The system pool is a part of the cluster's own request, because no cluster can be made without one and the plugin creates
nothing that exists already. Its number of nodes goes through that request. Its Kubernetes version cannot: AKS wants the
version of all pools there or of none (NotAllAgentPoolOrchestratorVersionSpecifiedAndUnchanged), and the GPU pools are
resources of their own. How it follows the control plane is in gpu_pools/platforms/aks/system_pool.py.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.properties import known_of, properties
from gpu_pools.text.errors import Problem
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYSTEM_POOL: Final = "system"
#: Minor versions that a pool may be behind the control plane.
WIDEST_SKEW: Final = 3
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_LONG_TERM: Final = "AKSLongTermSupport"
_ZONE: Final = ("apiServerAccessProfile", "privateDNSZone")
_SUBNETS: Final = {"vnetSubnetID": "nodeSubnet", "podSubnetID": "podSubnet"}
#: Place in the stack, path of the plugin, what it is.
_STAY_ON: Final = (
    ("oidcIssuer", ("oidcIssuerProfile", "enabled"), "the issuer of tokens"),
    ("properties.apiServerAccessProfile.enableVnetIntegration", ("apiServerAccessProfile", "enableVnetIntegration"), "it"),
)
#: Sent whole each time, or decided by somebody else.
_SETS: Final = {
    *("tags", "nodeLabels", "nodeTaints", "count", "minCount", "maxCount", "orchestratorVersion", "kubernetesVersion"),
    *("agentPoolProfiles", "identity", "sku"),
}
_SHORT: Final = 60


def refused_cluster_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], running: object, pools: object = None
) -> Iterator[Problem]:
    """What AKS would refuse of a cluster's update.

    Args:
        old: inputs that are deployed.
        new: inputs that shall be.
        running: the version of the control plane, as AKS tells it.
        pools: the cluster's pools, as AKS has told them last.
    """
    before, after = _system_pool(old), _system_pool(new)
    if before and after:
        yield from _machines(before, after)
    if old.get("aadProfile") and not new.get("aadProfile"):
        yield Problem(
            "entra",
            "is not there, and the cluster has Entra ID; AKS never switches it off",
            "entra, as it is deployed",
            "Write it back; `localAccounts: true` in it lets certificates of administrators be had again.",
        )
    yield from _one_way(old, new)
    if new.get("supportPlan") != _LONG_TERM:
        yield from _version(running, new.get("kubernetesVersion"))
    yield from _left_behind(pools, new)


def _system_pool(inputs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """By its name: after a refresh the plugin's inputs have all pools of the cluster, in the order of Azure."""
    profiles = inputs.get("agentPoolProfiles")
    for profile in profiles if isinstance(profiles, list) else []:
        if profile.get("name") == SYSTEM_POOL:
            found: Mapping[str, Any] = profile
            return found
    return None


def _machines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Problem]:
    """What an agent pool keeps for good replaces a GPU pool; the system pool goes with its cluster alone."""
    keys = {"vmSize": "vmSize", "availabilityZones": "zones"}
    for key in sorted({*before, *after}):
        known = known_of("AgentPool", key)
        old, new = before.get(key) or None, after.get(key) or None
        # What Azure has filled in is in the inputs after a refresh.
        left_alone = key not in {*keys, *_SUBNETS, *after}
        if known is None or known.change != "replaces" or old == new or left_alone:
            continue
        place = "network." + _SUBNETS[key] if key in _SUBNETS else f"systemPool.{keys.get(key, f'properties.{key}')}"
        yield Problem(
            place,
            f"{_shown(new)} is asked for, and the pool is there with {_shown(old)}; AKS changes it on no living pool",
            f"{_shown(old)}, as it is deployed",
            "Write back what is deployed; other machines need another cluster, made by a second stack beside this one.",
        )


def _one_way(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    """What Azure never switches off again, or changes in one direction alone."""
    for place, path, name in _STAY_ON:
        if at(old, *path) and not at(new, *path):
            yield Problem(
                place,
                f"is on, and is not to be any more; AKS never switches {name} off",
                "true, as it is deployed",
                "Write it back; nobody has to use it.",
            )
    before, after = at(old, *_ZONE), at(new, *_ZONE)
    if before and after not in {before, "none"}:
        yield Problem(
            "apiServer.privateDnsZone",
            f"{_shown(after)} is asked for, and {before} is deployed; AKS goes to none alone",
            f"{before} or none",
            "Write one of them.",
        )
    if old.get("servicePrincipalProfile") and new.get("servicePrincipalProfile") != old["servicePrincipalProfile"]:
        yield Problem(
            "properties.servicePrincipalProfile",
            "is not as it is deployed; AKS changes it by a call of its own",
            "as it is deployed",
            "Write it back; then: az aks update-credentials --reset-service-principal",
        )


def never_updated(type_: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Problem]:
    """What is fixed at creation, and comes with a mapping that was not there.

    The engine then sees the mapping alone, and no reason to replace anything; Azure would refuse the update.

    Args:
        type_: ``AgentPool`` or ``ManagedCluster``.
        old: inputs that are deployed.
        new: those that shall be, by an update.
    """
    for path, known in properties(type_).items():
        before, after = (at(inputs, *path.split(".")) for inputs in (old, new))
        if known.change != "replaces" or after is None or after == before or (after is False and before is None):
            continue
        yield Problem(
            path,
            f"{_short(after)} is asked for, and {_short(before)} is deployed; AKS changes it on nothing that lives",
            f"{_short(before)}, as it is deployed",
            "Make another pool beside this one, or for a cluster a second stack; then take the old one out.",
        )


def left_out(type_: str, old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """What is sent no more: with most properties Azure then leaves what there is, add-ons included.

    Args:
        type_: ``AgentPool`` or ``ManagedCluster``.
        old: inputs that are deployed.
        new: those that shall be.
        above: where they lie.
    """
    for key in sorted(old):
        path = f"{above}{key}"
        known = known_of(type_, path)
        if path in _SETS or known is None or known.change not in {"updates", "rolling"} or known.keeps:
            continue
        if isinstance(old[key], dict) and isinstance(new.get(key), dict):
            yield from left_out(type_, old[key], new[key], f"{path}.")
        elif old[key] not in (None, {}, []) and new.get(key) is None:
            yield (f"{path} is written no more, and Azure may leave it, {_short(old[key])}: write the value that it shall have")


def _short(value: object) -> str:
    shown = _shown(value)
    return shown if len(shown) <= _SHORT else f"{shown[:_SHORT]}…"


def _version(running: object, wanted: object) -> Iterator[Problem]:
    old, new = _parsed(running), _parsed(wanted)
    if old is None or new is None:
        return
    if new[:2] < old[:2] or (len(new) == len(old) and new < old):
        yield Problem(
            "kubernetesVersion",
            f"{wanted} is older than {running}, which the control plane runs",
            f"{running} or newer",
            "Write that version; AKS goes back to none.",
        )
    elif new[0] == old[0] and new[1] > old[1] + 1:
        step = f"{old[0]}.{old[1] + 1}"
        yield Problem(
            "kubernetesVersion",
            f"{wanted} skips a minor version: the control plane runs {running}",
            f"at most {step}",
            f'Set kubernetesVersion: "{step}" and deploy, then go on one by one; AKS skips none.',
        )


def _left_behind(pools: object, new: Mapping[str, Any]) -> Iterator[Problem]:
    """Pools that would be too old for the control plane; AKS refuses that (MicrosoftDocs/azure-dev-docs#1034)."""
    wanted = _parsed(new.get("kubernetesVersion"))
    for pool in pools if isinstance(pools, list) else []:
        name = pool.get("name")
        version = pool.get("currentOrchestratorVersion") or pool.get("orchestratorVersion")
        old = _parsed(version)
        if wanted is None or old is None or wanted[1] - old[1] <= WIDEST_SKEW:
            continue
        yield Problem(
            "kubernetesVersion",
            f"{new['kubernetesVersion']} is more than {WIDEST_SKEW} minor versions ahead of the pool {name}, which was at "
            f"{version} when AKS last told",
            f"at most {old[0]}.{old[1] + WIDEST_SKEW}",
            f"First: {_upgrade(new, name, f'{wanted[0]}.{wanted[1] - 1}')}; then pulumi refresh, by which the state knows it.",
        )


def _parsed(version: object) -> tuple[int, ...] | None:
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def _shown(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        # The engine knows no whole numbers.
        return str(int(value))
    return "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _upgrade(new: Mapping[str, Any], pool: object, version: str) -> str:
    """The command that takes a pool to a version; what it names comes from Azure."""
    place = {"--resource-group": new.get("resourceGroupName"), "--cluster-name": new.get("resourceName"), "--name": pool}
    named = [word for option, value in place.items() for word in (option, str(value))]
    return shlex.join(["az", "aks", "nodepool", "upgrade", *named, "--kubernetes-version", version])
