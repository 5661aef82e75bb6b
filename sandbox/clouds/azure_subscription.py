"""What the sandbox's Azure subscription may have: sizes and their zones, quotas, rights; and what it refuses for want of them.

Stand-in: nothing here asks Azure. Unless `<state>/cloud/azure-subscription.json` says otherwise the subscription has every size
in every region and in three zones, and room for more machines than a sandbox can run; each reservation group that a stack names
is there, and holds every size. Which real region has what is not known.

    {"limits": {"StandardNCADSA100v4Family": 24, "cores": 100, "lowPriorityCores": 0},
     "sizes": {"Standard_NC24ads_A100_v4": {"regions": ["westeurope"], "zones": ["1"], "restrictions": [
         {"type": "Zone", "zones": ["2"], "reasonCode": "NotAvailableForSubscription"}]}},
     "rights": {"without": ["Microsoft.Compute/skus/read"]},
     "upgrades": {"blocked": ["system"]},
     "reservations": {"/subscriptions/…/capacityReservationGroups/kept": [{"size": "Standard_…", "machines": 2, "zones": ["1"]}]}}

Texts marked "seen" were the service's answers to others: quota (1ChristianAlex/motordesk#14 for a family, deploys that people
show for the region), zones (azurerm users: "The zone(s) '3' for resource 'system' is not supported").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware import azure_sizes
from gpu_pools.text.yaml_text import load_yaml
from sandbox.clouds import azure_rules as rules
from sandbox.clouds.azure_errors import AzureError
from sandbox.cluster.machine_groups import Hardware
from sandbox.system.files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from sandbox.clouds.azure_rules import Body

ALL_CORES: Final = "cores"
SPOT_CORES: Final = "lowPriorityCores"
_ZONES: Final = ("1", "2", "3")
#: Where nothing is said.
_LIMITS: Final = {ALL_CORES: 20000}
_LIMIT: Final = 10000
_MORE: Final = "If you want to increase the quota, please follow this instruction: https://learn.microsoft.com/en-us/azure/quotas/view-quotas."


@dataclass(frozen=True)
class Subscription:
    """What it may have.

    Attributes:
        limits: quota, in lower case -> vCPUs.
        sizes: VM size, in lower case -> what is special of it.
        missing: rights that whoever asks does not have.
        reservations: id of a group, in lower case -> what it holds; None: every group is there, and holds every size.
        blocked: names of pools whose nodes cannot be emptied, so that no upgrade of them gets done.
        offered: VM sizes besides those of the tables, as the stack at hand declares them (sandbox/stack/prerequisites.py).
    """

    limits: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    reservations: Mapping[str, list[Mapping[str, Any]]] | None = None
    blocked: frozenset[str] = frozenset()
    offered: rules.Offered = field(default_factory=dict)

    def limit(self, quota: str) -> int:
        """What a quota allows, in vCPUs."""
        return self.limits.get(quota.lower(), _LIMITS.get(quota, _LIMIT))

    def is_in(self, size: str, region: str) -> bool:
        """Whether a region has a size."""
        regions = self.sizes.get(size.lower(), {}).get("regions")
        return regions is None or region in regions

    def zones(self, size: str) -> list[str]:
        """In which zones regions have a size."""
        return list(self.sizes.get(size.lower(), {}).get("zones", _ZONES))

    def reserved(self, group: str) -> list[Mapping[str, Any]] | None:
        """What a capacity reservation group holds; None: there is no such group."""
        if self.reservations is None:
            return [{"size": size.name, "machines": _LIMIT} for size in known_sizes(self.offered)]
        return self.reservations.get(group.lower())

    def restrictions(self, size: str) -> list[Mapping[str, Any]]:
        """What keeps this subscription from a size."""
        return list(self.sizes.get(size.lower(), {}).get("restrictions", ()))


def read_subscription(state: Path) -> Subscription:
    """That of a sandbox.

    Args:
        state: the sandbox's state folder.
    """
    raw = read_json(state / "cloud" / "azure-subscription.json")
    return Subscription(
        limits={key.lower(): value for key, value in raw.get("limits", {}).items()},
        sizes={key.lower(): value for key, value in raw.get("sizes", {}).items()},
        missing=frozenset((raw.get("rights") or {}).get("without", ())),
        reservations={key.lower(): value for key, value in raw["reservations"].items()} if "reservations" in raw else None,
        blocked=frozenset((raw.get("upgrades") or {}).get("blocked", ())),
        offered={name: Hardware(**has) for name, has in read_json(state / "cloud" / "azure-sizes.json").items()},
    )


@lru_cache(maxsize=1)
def _families() -> list[tuple[str, str]]:
    text = (resources.files("sandbox.clouds") / "data" / "azure_families.yaml").read_text(encoding="utf-8")
    return sorted(load_yaml(text).items(), key=lambda entry: -len(entry[0]))


def family(size: str) -> str:
    """The quota that machines of a size count against."""
    short = size.lower().removeprefix("standard_")
    return next((name for start, name in _families() if short.startswith(start)), "")


def known_sizes(offered: rules.Offered) -> Iterator[rules.VmSize]:
    """All sizes that the sandbox knows, and those that are offered besides."""
    for name in [*(one.name for one in azure_sizes.sizes()), *rules.cpu_sizes(), *offered]:
        if (size := rules.vm_size(name, offered)) is not None:
            yield size


def quotas_of(body: Body) -> list[str]:
    """The quotas that a pool's machines count against; spot machines have one of their own."""
    return [SPOT_CORES] if body.get("scaleSetPriority") == "Spot" else [family(body["vmSize"]), ALL_CORES]


def used(pools: Iterable[Mapping[str, Any]], offered: rules.Offered) -> dict[str, int]:
    """Quota -> vCPUs that pools use.

    Args:
        pools: their records.
        offered: VM sizes besides those of the tables.
    """
    found: dict[str, int] = {}
    for pool in pools:
        size = rules.vm_size(pool["body"]["vmSize"], offered)
        for quota in quotas_of(pool["body"]):
            found[quota] = found.get(quota, 0) + pool["count"] * (size.vcpus if size else 0)
    return found


def check_room(subscription: Subscription, name: str, asked: Body, region: str, others: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a pool for which the subscription has no size, zone or quota.

    Args:
        subscription: whose it is.
        name: of the pool.
        asked: its properties, with the `count` that it shall have.
        region: of its cluster.
        others: records of all other pools of the subscription there.

    Raises:
        AzureError: the first rule that the pool breaks.
    """
    size = asked["vmSize"]
    restricted = [one for one in subscription.restrictions(size) if one.get("type") == "Location"]
    if not subscription.is_in(size, region) or restricted:
        raise rules.unknown_size(name, region)
    _check_zones(subscription, name, asked, region)
    machine = rules.vm_size(size, subscription.offered)
    cores, before = asked["count"] * (machine.vcpus if machine else 0), used(others, subscription.offered)
    for quota in quotas_of(asked):
        left = max(0, subscription.limit(quota) - before.get(quota, 0))
        if cores > left:
            raise _no_room(quota, cores, left, region)


def _check_zones(subscription: Subscription, name: str, asked: Body, region: str) -> None:
    kept = {zone for one in subscription.restrictions(asked["vmSize"]) if one.get("type") == "Zone" for zone in one["zones"]}
    have = [zone for zone in subscription.zones(asked["vmSize"]) if zone not in kept]
    missing = [zone for zone in asked.get("availabilityZones") or [] if zone not in have]
    if missing:
        # Seen up to "is not supported", and "supported zones are".
        message = (
            f"The zone(s) '{','.join(missing)}' for resource '{name}' is not supported. The supported zones for location "
            f"'{region}' are '{','.join(have)}'"
        )
        raise AzureError(400, "AvailabilityZoneNotSupported", message)


def _no_room(quota: str, asked: int, left: int, region: str) -> AzureError:
    """Both texts were seen; that of spot machines was not."""
    if quota == ALL_CORES:
        message = (
            f"Insufficient regional vcpu quota left for location {region}. left regional vcpu quota {left}, requested quota "
            f"{asked}. {_MORE}"
        )
    else:
        message = f"Insufficient vcpu quota requested {asked}, remaining {left} for family {quota} for region {region}. {_MORE}"
    return AzureError(400, "ErrCode_InsufficientVCPUQuota", message)
