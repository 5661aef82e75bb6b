"""What a stack on AKS needs of its Azure, held against what that says it has: before a deploy, all problems at once.

Only judges: whoever asks (components/aks/check.py) hands over what Azure said. What it did not say is not judged, and named
instead. Needed is what is still to be made: a pool that is there has its size and its part of the quota already.

Room is judged in gpu_pools/platforms/aks/room.py, versions in gpu_pools/platforms/aks/versions.py.
Sources: azure-aks-docs at fb060abe (use-capacity-reservation-groups, aks-managed-gpu-nodes, availability-zones). What
`restrictions` mean is in skus.json of azure-rest-api-specs, and in what people get (azure-docs, error-sku-not-available).
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.answers import Azure, MadeCluster
from gpu_pools.platforms.aks.machines import CLUSTER, Machines, machines
from gpu_pools.platforms.aks.replacements import as_declared, judge_first_replacement
from gpu_pools.platforms.aks.room import judge_quota, judge_subnets
from gpu_pools.platforms.aks.system_pool import judge_system_pool
from gpu_pools.platforms.aks.versions import judge_pool_versions, judge_versions
from gpu_pools.platforms.judgement import Judgement, Unread
from gpu_pools.text.errors import Problems, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_pools.platforms.aks.answers import Reservation, Size
    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.stack.pools import Pool

_SHOWN_NAMES: Final = 8
#: What the reasons of restrictions mean.
_REASONS: Final[Mapping[str, str]] = {
    "NotAvailableForSubscription": "Azure keeps it from this subscription there",
    "QuotaId": "subscriptions of this kind of offer do not get it there",
}


def judge(
    cluster: AksSettings, pools: Sequence[Pool], azure: Azure, replacement_ids: Mapping[str, str] | None = None
) -> Judgement:
    """Hold what a stack needs against what Azure has.

    Args:
        cluster: of the stack.
        pools: all that are known.
        azure: what it said.
        replacement_ids: name of each pool with ``replace`` -> the id of the declared one.
    """
    problems, warnings = Problems(), list[str]()
    if _moves(cluster, azure):
        # Another region is another cluster: of what is there nothing stays.
        azure = replace(azure, cluster=None)
    if replacement_ids and isinstance(azure.cluster, MadeCluster):
        azure = replace(azure, cluster=as_declared(azure.cluster, replacement_ids))
    made = azure.cluster if isinstance(azure.cluster, MadeCluster) else None
    region = made.location if made else cluster.location
    if not isinstance(azure.regions, Unread) and not made and not cluster.existing and cluster.location not in azure.regions:
        _add_region(cluster.location, azure.regions, problems)
        # Whatever else Azure says of a region that there is not means nothing.
        return Judgement(problems.found, ())
    wanted = list(machines(cluster, pools, made))
    new = [] if isinstance(azure.cluster, Unread) else [one for one in wanted if one.made(made) is None]
    if not isinstance(azure.sizes, Unread):
        for one in new:
            _judge_size(one, azure.sizes, region, problems)
    warnings += judge_versions(cluster, made, azure.versions, problems)
    warnings += judge_system_pool(cluster, made)
    judge_pool_versions(new, azure.versions, problems)
    if replacement_ids and made:
        judge_first_replacement(wanted, made, replacement_ids, problems)
    warnings += judge_quota(wanted, azure, problems)
    warnings += judge_subnets(wanted, cluster, azure, problems)
    for one in new:
        warnings += _judge_reservation(one, azure.reservations, problems)
    if cluster.existing and not isinstance(azure.managed, Unread):
        _judge_managed(azure.managed, problems)
    return Judgement(problems.found, tuple(_unchecked(cluster, azure)), warnings=tuple(dict.fromkeys(warnings)))


def _moves(cluster: AksSettings, azure: Azure) -> bool:
    made = azure.cluster
    return cluster.existing is None and isinstance(made, MadeCluster) and made.location != cluster.location


def _add_region(location: str, regions: Sequence[str], problems: Problems) -> None:
    near = difflib.get_close_matches(location, regions, n=1)
    problems.add(
        f"{CLUSTER}.location",
        f"this subscription has no region {show(location)}",
        allowed=_shortened(sorted(regions)) or "none",
        remedy=f"Did you mean `{near[0]}`?" if near else "az account list-locations tells which there are.",
    )


def _judge_size(one: Machines, sizes: Mapping[str, Size], region: str, problems: Problems) -> None:
    size = sizes.get(one.size.lower())
    if size is None:
        near = difflib.get_close_matches(one.size.lower(), sizes, n=1)
        problems.add(
            one.at("vmSize"),
            f"the region {region} has no size {show(one.size)}",
            allowed=_alike(one.size, sizes) or "a size that the region has",
            remedy=(f"The nearest there is `{sizes[near[0]].name}`. " if near else "")
            + f"az vm list-skus --location {region} --resource-type virtualMachines tells which there are.",
        )
    elif size.withheld:
        reason = _REASONS.get(size.withheld, size.withheld)
        problems.add(
            one.at("vmSize"),
            f"{size.name} cannot be had in {region}: {reason} ({size.withheld})",
            allowed="a size without a restriction there",
            remedy="Choose another size or region, or ask Azure's support for it (https://aka.ms/azureskunotavailable).",
        )
    else:
        _judge_kind(one, size, region, problems)


def _judge_kind(one: Machines, size: Size, region: str, problems: Problems) -> None:
    missing = [zone for zone in one.zones if zone not in size.usable_zones]
    if missing:
        withheld = size.withheld_zones.intersection(missing)
        problems.add(
            one.at("zones"),
            f"{size.name} is not in zone {', '.join(missing)} of {region}"
            + (f" for this subscription ({', '.join(sorted(withheld))})" if withheld else ""),
            allowed=", ".join(f'"{zone}"' for zone in size.usable_zones) or "nothing: it is in no zone there",
            remedy="Choose among those, or leave `zones` out: Azure then takes where it has machines.",
        )
    if one.spot and not size.spot:
        problems.add(
            one.at("spot"),
            f"there are no spot machines of {size.name}",
            allowed="a pool without `spot`, or another size",
            remedy="Take `spot` out, or choose another size.",
        )
    _judge_disk(one, size, problems)


def _judge_disk(one: Machines, size: Size, problems: Problems) -> None:
    """What the size's own disks and host can, as Azure's list of sizes says it (C25).

    Sources: Microsoft.Compute Skus 2021-07-01 (capabilities), azure-compute-docs (ephemeral-os-disks: the limits of its disk).
    """
    if one.ephemeral and size.ephemeral is False:
        problems.add(
            one.at("osDiskType"),
            f"{size.name} has no disk of its own for that (EphemeralOSDiskSupported, C25)",
            allowed="Managed",
            remedy="Write `osDiskType: Managed`, or choose another size.",
        )
    elif one.ephemeral and size.own_disk is not None and one.disk is not None and one.disk > size.own_disk:
        problems.add(
            one.at("osDiskSize"),
            f"{one.disk} GiB do not fit on the largest disk of {size.name}, of {size.own_disk} GiB (C25)",
            allowed=f"at most {size.own_disk} with `osDiskType: Ephemeral`",
            remedy="Write a smaller size, or `osDiskType: Managed`.",
        )
    if one.encrypted and size.encrypts is False:
        problems.add(
            one.at("encryptionAtHost"),
            f"{size.name} cannot (EncryptionAtHostSupported, C25)",
            allowed="false, or a size that can",
            remedy="Take it out, or choose another size.",
        )


def _judge_reservation(
    one: Machines, groups: Mapping[str, Sequence[Reservation] | Unread | None], problems: Problems
) -> Iterator[str]:
    """A group without a reservation for the size is passed over by Azure without an error."""
    found = groups.get(one.reservation.lower(), ())
    if not one.reservation or isinstance(found, Unread):
        return
    path, name = one.at("capacityReservationGroup"), one.reservation.rpartition("/")[2]
    if found is None:
        problems.add(
            path,
            f"there is no capacity reservation group {show(name)}",
            allowed="a group that is there",
            remedy='az capacity reservation group list --query "[].id" tells which there are.',
        )
        return
    fitting = [held for held in found if held.size == one.size.lower()]
    if not fitting:
        problems.add(
            path,
            f"{show(name)} holds no {one.size}, so Azure would pass it over without an error",
            allowed=_shortened(sorted({held.size for held in found})) or "a group that holds something: this one is empty",
            remedy="Choose a group that reserves the pool's size, or leave it out.",
        )
        return
    held = sum(one_of.machines for one_of in fitting)
    zones = {zone for one_of in fitting for zone in one_of.zones}
    if zones and not zones.intersection(one.zones):
        problems.add(
            path,
            f"{show(name)} holds {one.size} in zone {', '.join(sorted(zones))}, and the pool is "
            + (f"in zone {', '.join(one.zones)}" if one.zones else "in no zone"),
            allowed=f"a pool in zone {' or '.join(sorted(zones))}",
            remedy=f"Write `zones: [{', '.join(f'{zone!r}' for zone in sorted(zones))}]`, or choose another group.",
        )
    elif one.fewest > held:
        yield f"pool {one.name}: {name} holds {held} machines, {one.fewest} are wanted: for the others nothing is reserved"


def _judge_managed(managed: Sequence[str], problems: Problems) -> None:
    if managed:
        problems.add(
            f"{CLUSTER}.existing",
            f"AKS manages the GPUs of {'pool' if len(managed) == 1 else 'pools'} {', '.join(sorted(managed))} itself "
            "(gpuProfile.nvidia.managementMode), and the GPU operator would run its device plugin on the same nodes",
            allowed="a cluster without managed GPU pools",
            remedy="Make such a pool anew with managementMode Unmanaged, which is fixed at its creation, or use another cluster.",
        )


def _unchecked(cluster: AksSettings, azure: Azure) -> Iterator[str]:
    """What was not told; of a cluster that could not be read what hangs on it."""
    if isinstance(azure.regions, Unread) and cluster.existing is None:
        yield f"the region ({azure.regions.why})"
    if isinstance(azure.cluster, Unread):
        yield f"the cluster, and so sizes, quota and addresses of what is still to be made ({azure.cluster.why})"
    asked = (
        ("VM sizes and zones", azure.sizes),
        ("quota", azure.usages),
        ("versions of Kubernetes", azure.versions if cluster.existing is None else ()),
        ("GPU pools that AKS manages", azure.managed if cluster.existing else ()),
        *((f"the subnet {id_.rpartition('/')[2]}", found) for id_, found in azure.subnets.items()),
        *((f"the reservations of {id_.rpartition('/')[2]}", found) for id_, found in azure.reservations.items()),
    )
    for what, found in asked:
        if isinstance(found, Unread):
            yield f"{what} ({found.why})"


def _alike(name: str, sizes: Mapping[str, Size]) -> str:
    """Sizes of the region of the same family letters."""
    letters = name.lower().removeprefix("standard_")[:2]
    same: Iterable[str] = (size.name for key, size in sizes.items() if key.removeprefix("standard_").startswith(letters))
    return _shortened(sorted(same))


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
