"""What a stack on AKS needs of its Azure, held against what Azure says it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.plan.cluster_checks import check_kubernetes
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.answers import Azure, MadeCluster, MadePool, Reservation, Size, Subnet, Usage, Version
from gpu_pools.platforms.aks.cloud import judge
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.machines import Machines, machines
from gpu_pools.platforms.aks.versions import default_version
from gpu_pools.platforms.judgement import Judgement, Unread
from gpu_pools.reading.later import Later

if TYPE_CHECKING:
    from gpu_pools.stack.settings import Settings

A100, T4, D4 = "Standard_NC24ads_A100_v4", "Standard_NC4as_T4_v3", "Standard_D4s_v5"
FAMILY = "StandardNCADSA100v4Family"
ROOM = Usage(0, 1000)
CLUSTER, POOL = "gpu-pools:cluster", "gpu-pools:pools[0]"
NETWORK = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/hub"
NODES, PODS = f"{NETWORK}/subnets/nodes", f"{NETWORK}/subnets/pods"
GROUP = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/kept"
IDENTITY = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ManagedIdentity/userAssignedIdentities/aks"
WHY = Unread("Azure answers 403")


def size(name: str, family: str, vcpus: int, **more: Any) -> Size:
    return Size(name, family, vcpus, frozenset("123"), **more)


SIZES = {
    one.name.lower(): one
    for one in (
        size(A100, FAMILY, 24),
        size("Standard_NC48ads_A100_v4", FAMILY, 48),
        size(T4, "StandardNCASv3_T4Family", 4),
        size(D4, "standardDSv5Family", 4),
    )
}
USAGES = {"cores": ROOM, "lowprioritycores": ROOM, **{one.family.lower(): ROOM for one in SIZES.values()}}
AZURE = Azure(
    regions=("swedencentral", "westeurope", "northeurope"),
    sizes=SIZES,
    usages=USAGES,
    versions=(
        Version("1.33", ("1.33.7",), plans=("AKSLongTermSupport",)),
        Version("1.34", ("1.34.2", "1.34.10"), default=True, plans=("KubernetesOfficial", "AKSLongTermSupport")),
        Version("1.35", ("1.35.1",)),
        Version("1.36", ("1.36.0",), preview=True),
    ),
)


def settings(*pools: dict[str, Any], **cluster: Any) -> Settings:
    """A stack's settings; without pools it has one."""
    made = {"name": "prod", "location": "westeurope", "systemPool": {"vmSize": D4, "count": 1}}
    whole = {"platform": "aks", **({} if "existing" in cluster else made), **cluster}
    declared = [
        {"name": f"p{number}", "vmSize": A100, "sharing": "w", **({} if "nodes" in one else {"count": 1}), **one}
        for number, one in enumerate(pools or ({},))
    ]
    config = {
        "gpu-pools:cluster": whole,
        "gpu-pools:sharing": {"w": {"exclusive": {}}},
        "gpu-pools:verification": {},
        "gpu-pools:pools": [{key: value for key, value in one.items() if value is not None} for one in declared],
    }
    return plan_config(config, complete=False).settings


def judged(stack: Settings, azure: Azure = AZURE) -> Judgement:
    assert isinstance(stack.cluster, AksSettings)
    return judge(stack.cluster, stack.pools, azure)


def problems(stack: Settings, azure: Azure = AZURE) -> dict[str, str]:
    """Path -> message, allowed and remedy."""
    return {one.path: f"{one.message} | {one.allowed} | {one.remedy}" for one in judged(stack, azure).problems}


def warnings(stack: Settings, azure: Azure = AZURE) -> str:
    return "\n".join(judged(stack, azure).warnings)


def usages(**changed: Usage) -> Azure:
    return replace(AZURE, usages={**USAGES, **changed})


def there(**pools: MadePool) -> MadeCluster:
    return MadeCluster("westeurope", "1.34.2", {"system": MadePool(D4.lower(), 1), **pools})


def test_a_stack_whose_azure_has_everything_is_good() -> None:
    assert judged(settings()) == Judgement((), ())


def test_everything_that_is_missing_comes_at_once() -> None:
    azure = replace(usages(cores=Usage(96, 100)), sizes={**SIZES, A100.lower(): size(A100, FAMILY, 24, withheld="QuotaId")})
    stack = settings(
        {}, {"vmSize": T4, "zones": ["1", "3"]}, kubernetesVersion="1.99", systemPool={"vmSize": "Standard_D4_v9", "count": 1}
    )
    azure = replace(azure, sizes={**azure.sizes, T4.lower(): replace(SIZES[T4.lower()], zones=frozenset("12"))})  # type: ignore[dict-item]
    assert list(problems(stack, azure)) == [
        f"{CLUSTER}.systemPool.vmSize",
        f"{POOL}.vmSize",
        "gpu-pools:pools[1].zones",
        f"{CLUSTER}.kubernetesVersion",
        "gpu-pools:pools",
    ]


# --- region ------------------------------------------------------------------------------------------------


def test_a_mistyped_region_is_refused_with_the_nearest_and_nothing_else_is_said() -> None:
    stack = settings(location="swedencentrl", kubernetesVersion="1.99")
    azure = replace(AZURE, sizes=WHY, usages=WHY, versions=WHY)
    assert judged(stack, azure).unchecked == ()
    assert problems(stack, azure) == {
        f"{CLUSTER}.location": 'this subscription has no region "swedencentrl" | northeurope, swedencentral, westeurope | '
        "Did you mean `swedencentral`?"
    }


def test_many_names_are_shortened() -> None:
    regions = [f"region{number}" for number in range(9)]

    def allowed(*listed: str) -> str:
        return problems(settings(location="zz"), replace(AZURE, regions=listed))[f"{CLUSTER}.location"].split(" | ")[1]

    assert allowed(*reversed(regions)) == f"{', '.join(regions[:8])} and 1 more"
    assert allowed(*regions[:8]) == ", ".join(regions[:8])
    assert allowed() == "none"


def test_a_cluster_that_is_there_is_in_a_region_that_there_is() -> None:
    elsewhere = replace(AZURE, regions=("other",), cluster=there())
    assert problems(settings(), elsewhere) == {}
    assert problems(settings(existing={"resourceGroup": "rg", "name": "prod"}), replace(elsewhere, cluster=WHY)) == {}


def test_another_region_is_another_cluster() -> None:
    full = replace(usages(**{FAMILY.lower(): Usage(24, 24)}), cluster=there(p0=MadePool(A100.lower(), 1)))
    assert problems(settings(), full) == {}
    assert list(problems(settings(location="northeurope"), full)) == [POOL]
    assert list(problems(settings(location="north"), full)) == [f"{CLUSTER}.location"]


def test_a_region_like_no_other() -> None:
    assert "az account list-locations" in problems(settings(location="zz"))[f"{CLUSTER}.location"]


# --- sizes and zones ---------------------------------------------------------------------------------------


def test_a_size_that_the_region_has_not() -> None:
    known = {key: one for key, one in SIZES.items() if key != A100.lower()}
    found = problems(settings(), replace(AZURE, sizes=known))[f"{POOL}.vmSize"]
    assert found.startswith(
        f'the region westeurope has no size "{A100}" | Standard_NC48ads_A100_v4, {T4} | The nearest there is `Standard_NC48'
    )
    assert "az vm list-skus --location westeurope" in found


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("NotAvailableForSubscription", "Azure keeps it from this subscription there"),
        ("QuotaId", "subscriptions of this kind of offer do not get it there"),
        ("New", "New (New)"),
    ],
)
def test_a_size_that_the_subscription_does_not_get(reason: str, says: str) -> None:
    azure = replace(AZURE, sizes={**SIZES, A100.lower(): size(A100, FAMILY, 24, withheld=reason)})
    assert f"{A100} cannot be had in westeurope: {says}" in problems(settings(), azure)[f"{POOL}.vmSize"]


def test_zones_that_the_size_or_the_subscription_has_not() -> None:
    of_two = replace(AZURE, sizes={**SIZES, A100.lower(): replace(SIZES[A100.lower()], zones=frozenset("12"))})
    assert problems(settings({"zones": ["2"]}), of_two) == problems(settings(), of_two) == {}
    found = problems(settings({"zones": ["1", "3"]}), of_two)[f"{POOL}.zones"]
    assert found.startswith(f'{A100} is not in zone 3 of westeurope | "1", "2" | ')
    kept = replace(AZURE, sizes={**SIZES, A100.lower(): size(A100, FAMILY, 24, withheld_zones=frozenset("2"))})
    assert (
        "is not in zone 2 of westeurope for this subscription (2) | "
        in problems(settings({"zones": ["1", "2"]}), kept)[f"{POOL}.zones"]
    )
    none = replace(AZURE, sizes={**SIZES, A100.lower(): replace(SIZES[A100.lower()], zones=frozenset())})
    assert "nothing: it is in no zone there" in problems(settings({"zones": ["1"]}), none)[f"{POOL}.zones"]


def test_the_system_pool_is_looked_at_as_well() -> None:
    stack = settings(systemPool={"vmSize": "Standard_D4s_v9", "count": 1, "zones": ["1"]})
    assert "The nearest there is `Standard_D4s_v5`" in problems(stack)[f"{CLUSTER}.systemPool.vmSize"]
    none = replace(AZURE, sizes={**SIZES, D4.lower(): replace(SIZES[D4.lower()], zones=frozenset("2"))})
    assert list(problems(settings(systemPool={"vmSize": D4, "count": 1, "zones": ["1"]}), none)) == [
        f"{CLUSTER}.systemPool.zones"
    ]


def test_a_size_without_spot_machines() -> None:
    azure = replace(AZURE, sizes={**SIZES, A100.lower(): size(A100, FAMILY, 24, spot=False)})
    assert problems(settings(), azure) == {}
    assert "there are no spot machines of" in problems(settings({"spot": {}}), azure)[f"{POOL}.spot"]


def test_a_pool_that_is_there_has_its_size_and_one_that_is_replaced_has_not() -> None:
    azure = replace(AZURE, sizes={key: one for key, one in SIZES.items() if key != A100.lower()})
    assert problems(settings(), replace(azure, cluster=there(p0=MadePool(A100.lower(), 1)))) == {}
    for other in (MadePool(T4.lower(), 1), MadePool(A100.lower(), 1, spot=True)):
        assert list(problems(settings(), replace(azure, cluster=there(p0=other)))) == [f"{POOL}.vmSize"]


# --- versions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channel", "wanted", "warned"),
    [
        ("patch", "1.35", True),
        ("node-image", "1.35", True),
        ("none", "1.35", False),
        (None, "1.35", False),
        ("patch", "1.34", False),
    ],
)
def test_a_raised_version_beside_an_upgrade_channel_is_told(channel: str | None, wanted: str, warned: bool) -> None:  # noqa: FBT001
    """Of a cluster that lives: 1.34.2. A new one has no order to keep."""
    upgrades = {"upgrades": {"channel": channel}} if channel else {}
    stack = settings(kubernetesVersion=wanted, **upgrades)
    living = judged(stack, replace(AZURE, cluster=there()))
    told = [warning for warning in living.warnings if "(C27)" in warning]
    assert bool(told) is warned
    assert all(f"from 1.34.2 to {wanted} with the upgrade channel {channel}" in warning for warning in told)
    assert not [warning for warning in judged(stack).warnings if "C27" in warning]


@pytest.mark.parametrize(
    ("wanted", "nearest", "allowed"),
    [
        ("1.99", "1.36", "1.33, 1.34, 1.35, 1.36"),
        ("1.20", "1.33", "1.33, 1.34, 1.35, 1.36"),
        ("1.34.5", "1.34", "1.34.2, 1.34.10"),
    ],
)
def test_a_version_that_is_not_offered(wanted: str, nearest: str, allowed: str) -> None:
    assert problems(settings(kubernetesVersion=wanted)) == {
        f"{CLUSTER}.kubernetesVersion": f"AKS does not offer Kubernetes {wanted} in this region | {allowed} | "
        f'The nearest is "{nearest}"; az aks get-versions --location REGION lists them.'
    }


@pytest.mark.parametrize("wanted", ["1.34", "1.34.10", "1.35", None])
def test_a_version_that_is_offered(wanted: str | None) -> None:
    assert judged(settings(**({"kubernetesVersion": wanted} if wanted else {}))) == Judgement((), ())


def test_a_version_of_a_pool_is_offered_too_or_its_own_already() -> None:
    stack = settings({"kubernetesVersion": "1.32"})
    assert problems(stack)[f"{POOL}.kubernetesVersion"].startswith("AKS does not offer Kubernetes 1.32 in this region | 1.33, ")
    assert problems(stack, replace(AZURE, cluster=there(p0=MadePool(A100.lower(), 1)))) == {}
    assert problems(settings({"kubernetesVersion": "1.34.2"}, {"kubernetesVersion": "1.35"})) == {}
    for silent in (WHY, ()):
        assert problems(stack, replace(AZURE, versions=silent)) == {}


def test_versions_are_shown_in_their_order() -> None:
    mixed = (Version("1.10", ("1.10.10", "1.10.9")), Version("1.9", (), plans=()))
    found = problems(settings(kubernetesVersion="1.11"), replace(AZURE, versions=mixed))
    assert "| 1.9, 1.10 |" in found[f"{CLUSTER}.kubernetesVersion"]
    found = problems(settings(kubernetesVersion="1.10.1"), replace(AZURE, versions=mixed))
    assert "| 1.10.9, 1.10.10 |" in found[f"{CLUSTER}.kubernetesVersion"]
    found = problems(settings(kubernetesVersion="1.9.1"), replace(AZURE, versions=mixed))
    assert "| 1.9 |" in found[f"{CLUSTER}.kubernetesVersion"]
    found = problems(settings(kubernetesVersion="1.9"), replace(AZURE, versions=mixed[1:]))
    assert "| none |" in found[f"{CLUSTER}.kubernetesVersion"]
    assert problems(settings(kubernetesVersion="1.11"), replace(AZURE, versions=())) == {}


def test_the_default_is_the_one_that_says_so() -> None:
    assert default_version(AZURE.versions) == "1.34"
    assert default_version(WHY) is default_version([Version("1.35", ())]) is None


def test_a_version_with_long_term_support_only() -> None:
    premium = {"kubernetesVersion": "1.33", "tier": "Premium"}
    plan = {"properties": {"supportPlan": "AKSLongTermSupport"}}
    for cluster in ({"kubernetesVersion": "1.33"}, premium, {"kubernetesVersion": "1.33", **plan}):
        found = problems(settings(**cluster))[f"{CLUSTER}.kubernetesVersion"]
        assert found.startswith("1.33 is offered in this region with long-term support only | 1.34, 1.35, 1.36 | ")
    assert problems(settings(**premium, **plan)) == {}


def test_a_preview_is_told_and_taken() -> None:
    assert problems(settings(kubernetesVersion="1.36")) == {}
    assert "Kubernetes 1.36 is a preview in this region" in warnings(settings(kubernetesVersion="1.36"))


@pytest.mark.parametrize(
    ("version", "more", "told"),
    [
        ("1.33.9", {}, True),
        ("1.34.1", {"upgrades": {"channel": "patch"}}, True),
        ("1.34.2", {}, False),
        ("", {}, False),
        # Azure itself moves both.
        ("1.33.9", {"upgrades": {"channel": "stable"}}, False),
    ],
)
def test_a_system_pool_that_is_behind_its_control_plane_is_told_of_with_the_command(
    version: str, more: dict[str, Any], *, told: bool
) -> None:
    azure = replace(AZURE, cluster=there(system=MadePool(D4.lower(), 1, version=version)))
    said = warnings(settings(**more), azure)
    assert ("az aks nodepool upgrade" in said) == told
    if told:
        assert f"the pool `system` runs Kubernetes {version}, the control plane 1.34.2" in said
        assert said.endswith("--name system --kubernetes-version 1.34.2")


def test_a_cluster_keeps_a_version_that_is_offered_no_more() -> None:
    old = replace(AZURE, cluster=MadeCluster("westeurope", "1.31.4", {}))
    for wanted in ("1.31", "1.31.4"):
        assert problems(settings(kubernetesVersion=wanted), old) == {}
    assert list(problems(settings(kubernetesVersion="1.32"), old)) == [f"{CLUSTER}.kubernetesVersion"]


def test_a_version_that_is_too_old_for_the_stack() -> None:
    stack = settings({"osSku": "Ubuntu2404"}, {"osSku": "AzureLinux3", "driver": None})
    found = {one.path: one.message for one in check_kubernetes(stack, "1.27.3", "the cluster has")}
    assert found == {
        "gpu-pools:verification": "needs Kubernetes 1.30, whose tokens of pods name their node, and the cluster has 1.27.3",
        f"{POOL}.osSku": "Ubuntu2404 needs Kubernetes 1.32, and the cluster has 1.27.3",
        "gpu-pools:pools[1].osSku": "AzureLinux3 needs Kubernetes 1.28, and the cluster has 1.27.3",
    }
    assert check_kubernetes(stack, "1.32", "x") == check_kubernetes(stack, None, "x") == []


# --- quota -------------------------------------------------------------------------------------------------


def test_the_fewest_nodes_must_fit_the_quota_of_the_family() -> None:
    full = usages(**{FAMILY.lower(): Usage(80, 100)})
    assert problems(settings(), full) == {
        POOL: f"24 more vCPUs of the family {FAMILY} are asked for (p0), and the quota of the region leaves 20 of 100 | "
        f"at most 20 more vCPUs of the family {FAMILY} | "
        "Ask for more (https://aka.ms/aks/quotas-skus-regions), or for fewer or smaller nodes, or take another region."
    }
    assert "48 more vCPUs" in problems(settings({}, {}), full)["gpu-pools:pools"]
    assert problems(settings({"nodes": {"min": 0, "max": 1}}), full) == {}


def test_all_families_together_must_fit_the_region() -> None:
    stack = settings({}, {"vmSize": T4})
    assert problems(stack, usages(cores=Usage(0, 32))) == {}
    found = problems(stack, usages(cores=Usage(0, 31)))["gpu-pools:pools"]
    assert found.startswith(
        "32 more vCPUs of all families are asked for (system, p0, p1), and the quota of the region leaves 31 of 31"
    )


def test_spot_machines_have_a_quota_of_their_own() -> None:
    none = Usage(0, 0)
    stack = settings({"spot": {}})
    assert problems(stack, usages(**{FAMILY.lower(): none})) == {}
    assert "24 more vCPUs of spot machines are asked for (p0)" in problems(stack, usages(lowprioritycores=none))[POOL]


def test_what_is_there_counts_as_used_and_only_growth_needs_room() -> None:
    full = usages(**{FAMILY.lower(): Usage(48, 60), "cores": Usage(52, 64)})
    made = replace(full, cluster=there(p0=MadePool(A100.lower(), 2)))
    assert problems(settings({"count": 2}), made) == problems(settings({"count": 1}), made) == {}
    assert "24 more vCPUs" in problems(settings({"count": 3}), made)[POOL]
    assert problems(settings({"count": 3}), replace(full, cluster=there(p0=MadePool(A100.lower(), 3)))) == {}


def test_a_pool_that_is_replaced_gives_its_part_back_first() -> None:
    full = usages(**{FAMILY.lower(): Usage(48, 48), "cores": Usage(100, 100)})
    made = replace(full, cluster=there(p0=MadePool(A100.lower(), 2)))
    assert problems(settings({"vmSize": "Standard_NC48ads_A100_v4", "count": 1}), made) == {}
    assert "48 more vCPUs" in problems(settings({"vmSize": "Standard_NC48ads_A100_v4", "count": 2}), made)[POOL]
    # Of another family only the region's vCPUs come back.
    other = usages(cores=Usage(100, 100), standardncasv3_t4family=Usage(0, 4))
    assert problems(settings({"vmSize": T4, "count": 1}), replace(other, cluster=there(p0=MadePool(A100.lower(), 2)))) == {}


def test_only_what_counts_against_the_same_quota_is_given_back() -> None:
    full = usages(**{FAMILY.lower(): Usage(80, 100)})
    for before in (MadePool(T4.lower(), 100), MadePool(A100.lower(), 9, spot=True), MadePool("standard_gone", 100)):
        assert list(problems(settings(), replace(full, cluster=there(p0=before)))) == [POOL]


def test_another_pool_s_part_is_not_given_back() -> None:
    full = usages(**{FAMILY.lower(): Usage(48, 48)})
    made = replace(full, cluster=there(p0=MadePool(A100.lower(), 2)))
    assert list(problems(settings({"count": 1}, {"count": 1}), made)) == ["gpu-pools:pools[1]"]


def test_the_most_nodes_are_a_warning() -> None:
    stack = settings({"nodes": {"min": 1, "max": 4}}, {"vmSize": T4, "nodes": {"min": 0, "max": 2}})
    azure = usages(**{FAMILY.lower(): Usage(0, 90)})
    assert problems(stack, azure) == {}
    assert warnings(stack, azure) == (
        f"at their most nodes p0 need 96 more vCPUs of the family {FAMILY}, and the quota of the region leaves 90: "
        "the autoscaler will stop before"
    )


@pytest.mark.parametrize(
    ("pool", "left", "needs"),
    [
        ({"count": 1}, 24, 24),
        ({"count": 1}, 48, 0),
        ({"count": 4, "upgradeSettings": {"maxSurge": "33%"}}, 96 + 47, 48),
        ({"count": 1, "upgradeSettings": {"maxUnavailable": "1"}}, 24, 0),
        ({"count": 1, "spot": {}}, 24, 0),
    ],
)
def test_the_nodes_of_an_upgrade_are_a_warning(pool: dict[str, Any], left: int, needs: int) -> None:
    azure = usages(**{FAMILY.lower(): Usage(0, left), "lowprioritycores": Usage(0, left)})
    assert problems(settings(pool), azure) == {}
    said = warnings(settings(pool), azure)
    assert (f"an upgrade of pool p0 needs {needs} more vCPUs of the family {FAMILY} (maxSurge)" in said) is bool(needs)
    assert "maxUnavailable" in said or not needs


def test_where_everything_just_fits_nothing_is_said() -> None:
    stack = settings({"nodes": {"min": 1, "max": 3}, "upgradeSettings": {"maxUnavailable": "1"}})
    assert warnings(stack, usages(**{FAMILY.lower(): Usage(0, 72)})) == ""
    assert "autoscaler" in warnings(stack, usages(**{FAMILY.lower(): Usage(0, 71)}))
    surging = settings({"count": 1}, {"count": 2, "upgradeSettings": {"maxSurge": "2"}})
    assert warnings(surging, usages(**{FAMILY.lower(): Usage(0, 72 + 48)})) == ""
    said = warnings(surging, usages(**{FAMILY.lower(): Usage(0, 72 + 47)}))
    assert said.startswith("an upgrade of pool p1 needs 48 more vCPUs")
    assert said.endswith("it will fail; with maxUnavailable it needs none")


def test_the_system_pool_cannot_do_without_a_surge() -> None:
    said = warnings(settings({"upgradeSettings": {"maxUnavailable": "1"}}), usages(standarddsv5family=Usage(0, 7)))
    assert said.startswith("an upgrade of pool system needs 4 more vCPUs of the family standardDSv5Family")
    assert said.endswith("leaves 3: it will fail")


@pytest.mark.parametrize("silent", ["usages", "sizes"])
def test_quota_needs_both_lists(silent: str) -> None:
    azure = replace(usages(**{FAMILY.lower(): Usage(9, 9)}), **{silent: WHY})
    assert problems(settings(), azure) == {}


def test_reserved_machines_are_used_already() -> None:
    stack = settings({"count": 3, "capacityReservationGroup": GROUP, "zones": ["1"]}, identity={"userAssigned": IDENTITY})
    full = usages(**{FAMILY.lower(): Usage(48, 48)})
    held = replace(full, reservations={GROUP.lower(): [Reservation(A100.lower(), 2, frozenset("1"))]})
    assert "24 more vCPUs" in problems(stack, held)[POOL]
    held = replace(full, reservations={GROUP.lower(): [Reservation(A100.lower(), 3)]})
    assert problems(stack, held) == {}
    other = [Reservation(A100.lower(), 2), Reservation(T4.lower(), 9)]
    assert "24 more vCPUs" in problems(stack, replace(full, reservations={GROUP.lower(): other}))[POOL]


def test_a_quota_that_azure_does_not_list_is_said_not_to_be_checked() -> None:
    azure = replace(AZURE, usages={key: one for key, one in USAGES.items() if key != FAMILY.lower()})
    assert problems(settings(), azure) == {}
    assert f"not checked before the deploy: the quota of vCPUs of the family {FAMILY}" in warnings(settings(), azure)


# --- subnets -----------------------------------------------------------------------------------------------

FLAT = {"network": {"nodeSubnet": NODES, "pluginMode": "none"}}


def subnets(nodes: Subnet | Unread | None, pods: Subnet | Unread | None = None, **changed: Any) -> Azure:
    return replace(AZURE, subnets={NODES.lower(): nodes, PODS.lower(): pods}, **changed)


def test_a_subnet_that_is_not_there() -> None:
    overlay = settings({"subnet": NODES.replace("nodes", "gpu")}, network={"nodeSubnet": NODES})
    azure = replace(AZURE, subnets={NODES.lower(): None, NODES.lower().replace("nodes", "gpu"): None})
    found = problems(overlay, azure)
    assert list(found) == [f"{CLUSTER}.network.nodeSubnet", f"{POOL}.subnet"]
    assert found[f"{POOL}.subnet"].startswith('there is no subnet "hub/subnets/gpu" | ')


@pytest.mark.parametrize(
    ("network", "nodes", "needed"),
    [
        ({"nodeSubnet": NODES}, 1, 2),
        (FLAT["network"], 1, 2 * 31),
        ({"nodeSubnet": NODES, "plugin": "kubenet"}, 2, 3),
        ({"nodeSubnet": NODES, "podSubnet": PODS}, 1, 2),
    ],
)
def test_the_addresses_of_the_fewest_nodes_must_fit(network: dict[str, Any], nodes: int, needed: int) -> None:
    stack = settings({"count": nodes}, network=network)
    pods = Subnet(0, 1000)
    assert problems(stack, subnets(Subnet(0, needed), pods)) == {}
    found = problems(stack, subnets(Subnet(1, needed), pods))["gpu-pools:pools"]
    assert found.startswith(f'system, p0 need {needed} more addresses of the subnet "nodes", which has {needed - 1} left | ')


def test_pods_take_addresses_of_their_subnet_in_batches() -> None:
    stack = settings(network={"nodeSubnet": NODES, "podSubnet": PODS})
    assert (
        'need 32 more addresses of the subnet "pods"'
        in problems(stack, subnets(Subnet(0, 100), Subnet(0, 31)))["gpu-pools:pools"]
    )


def test_more_pods_on_a_node_need_more_addresses() -> None:
    stack = settings({"maxPods": 110}, **FLAT)
    assert "need 142 more addresses" in problems(stack, subnets(Subnet(0, 10)))["gpu-pools:pools"]


def test_nodes_that_are_there_have_their_addresses() -> None:
    made = replace(there(p0=MadePool(A100.lower(), 1)), subnets={"system": (NODES, "")})
    assert problems(settings(**FLAT), subnets(Subnet(250, 251), cluster=made)) == {}
    found = problems(settings({"count": 2}, **FLAT), subnets(Subnet(250, 251), cluster=made))
    assert 'p0 need 31 more addresses of the subnet "nodes", which has 1 left' in found[POOL]


def test_the_addresses_of_the_most_nodes_are_a_warning() -> None:
    stack = settings({"nodes": {"min": 1, "max": 9}}, network={"nodeSubnet": NODES})
    azure = subnets(Subnet(0, 10))
    assert problems(stack, azure) == {}
    assert "system, p0 need 12 more addresses of the subnet nodes, which has 10 left" in warnings(stack, azure)
    assert warnings(stack, subnets(Subnet(0, 12))) == ""


def test_in_a_cluster_that_is_there_pools_lie_beside_the_others() -> None:
    stack = settings(existing={"resourceGroup": "rg", "name": "prod"})
    assert isinstance(stack.cluster, AksSettings)
    made = replace(there(), plugin="azure", mode="", subnets={"system": (NODES, "")})
    (pool,) = machines(stack.cluster, stack.pools, made)
    assert (pool.name, pool.subnet, pool.pod_subnet) == ("p0", NODES, "")
    found = problems(stack, subnets(Subnet(230, 251), cluster=made))
    assert 'p0 need 31 more addresses of the subnet "nodes", which has 21 left' in found[POOL]
    for one in (replace(made, mode="overlay"), replace(made, plugin="kubenet")):
        assert problems(stack, subnets(Subnet(230, 251), cluster=one)) == {}


def rows(stack: Settings, made: MadeCluster | None = None) -> dict[str, Machines]:
    assert isinstance(stack.cluster, AksSettings)
    return {one.name: one for one in machines(stack.cluster, stack.pools, made)}


def test_what_is_wanted_of_a_cluster_that_the_stack_makes() -> None:
    system = {"vmSize": D4, "nodes": {"min": 1, "max": 5}, "zones": ["1"], "properties": {"maxPods": 60}}
    flat = {"nodeSubnet": NODES, "podSubnet": PODS}
    found = rows(
        settings(
            {"nodes": {"min": 2, "max": 101}, "upgradeSettings": {"maxSurge": "100%"}, "properties": {"maxPods": 70}},
            {"spot": {}, "maxPods": 80, "subnet": f"{NODES}x", "podSubnet": f"{PODS}x"},
            systemPool=system,
            network=flat,
        )
    )
    assert found["system"] == Machines(
        *("system", f"{CLUSTER}.systemPool", D4, ("1",)),
        spot=False,
        fewest=1,
        most=5,
        surge=1,
        subnet=NODES,
        pod_subnet=PODS,
        max_pods=60,
        is_system=True,
    )
    first, second = found["p0"], found["p1"]
    assert (first.fewest, first.most, first.surge, first.max_pods) == (2, 101, 101, 70)
    assert (first.subnet, first.pod_subnet) == (NODES, PODS)
    assert (second.spot, second.surge, second.max_pods) == (True, 0, 80)
    assert (second.subnet, second.pod_subnet) == (f"{NODES}x", f"{PODS}x")
    plain = rows(settings())["system"]
    assert (plain.most, plain.subnet, plain.pod_subnet, plain.max_pods) == (1, "", "", 30)


def test_in_a_cluster_that_is_there_only_the_pools_are_wanted() -> None:
    made = replace(there(), subnets={"system": (NODES, ""), "p0": (f"{NODES}x", PODS)})
    found = rows(settings({}, {}, existing={"resourceGroup": "rg", "name": "prod"}), made)
    assert {name: (one.subnet, one.pod_subnet) for name, one in found.items()} == {"p0": (f"{NODES}x", PODS), "p1": (NODES, "")}
    (alone,) = rows(settings(existing={"resourceGroup": "rg", "name": "prod"})).values()
    assert (alone.subnet, alone.pod_subnet) == ("", "")


# --- reservations, managed pools ---------------------------------------------------------------------------


def reserved(*held: Reservation, group: object = ...) -> Azure:
    return replace(AZURE, reservations={GROUP.lower(): list(held) if group is ... else group})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("azure", "zones", "says"),
    [
        (
            reserved(Reservation(T4.lower(), 4)),
            None,
            f"holds no {A100}, so Azure would pass it over without an error | {T4.lower()} | ",
        ),
        (reserved(), None, "a group that holds something: this one is empty"),
        (reserved(group=None), None, 'there is no capacity reservation group "kept"'),
        (
            reserved(Reservation(A100.lower(), 4, frozenset("2"))),
            ["1"],
            "in zone 2, and the pool is in zone 1 | a pool in zone 2 | ",
        ),
        (reserved(Reservation(A100.lower(), 4, frozenset("2"))), None, "in zone 2, and the pool is in no zone"),
        (reserved(Reservation(A100.lower(), 4, frozenset("2"))), ["2"], ""),
        (reserved(Reservation(A100.lower(), 4)), None, ""),
        (reserved(group=WHY), None, ""),
    ],
)
def test_a_reservation_of_something_else(azure: Azure, zones: list[str] | None, says: str) -> None:
    stack = settings({"capacityReservationGroup": GROUP, "zones": zones}, identity={"userAssigned": IDENTITY})
    found = problems(stack, azure)
    assert says in found.get(f"{POOL}.capacityReservationGroup", "")
    assert bool(found) is bool(says)


def test_fewer_reserved_machines_than_nodes_are_a_warning() -> None:
    stack = settings({"count": 3, "capacityReservationGroup": GROUP}, identity={"userAssigned": IDENTITY})
    assert "pool p0: kept holds 2 machines, 3 are wanted" in warnings(stack, reserved(Reservation(A100.lower(), 2)))
    assert warnings(stack, reserved(Reservation(A100.lower(), 3))) == ""


def test_managed_gpu_pools_are_refused_in_a_cluster_that_is_there() -> None:
    stack = settings(existing={"resourceGroup": "rg", "name": "prod"})
    azure = replace(AZURE, cluster=there(), managed=("theirs",))
    found = problems(stack, azure)[f"{CLUSTER}.existing"]
    assert found.startswith("AKS manages the GPUs of pool theirs itself (gpuProfile.nvidia.managementMode)")
    assert "pools a, b itself" in problems(stack, replace(azure, managed=("b", "a")))[f"{CLUSTER}.existing"]
    assert problems(settings(), azure) == {}


# --- what was not said -------------------------------------------------------------------------------------


def test_what_was_not_said_is_not_judged_and_named() -> None:
    silent = Azure(WHY, WHY, WHY, WHY, WHY, {NODES.lower(): WHY}, {GROUP.lower(): WHY}, WHY)
    stack = settings({"vmSize": A100, "count": 900}, location="nowhere", kubernetesVersion="1.99")
    found = judged(stack, silent)
    assert found.problems == ()
    assert found.unchecked == (
        "the region (Azure answers 403)",
        "the cluster, and so sizes, quota and addresses of what is still to be made (Azure answers 403)",
        "VM sizes and zones (Azure answers 403)",
        "quota (Azure answers 403)",
        "versions of Kubernetes (Azure answers 403)",
        "the subnet nodes (Azure answers 403)",
        "the reservations of kept (Azure answers 403)",
    )
    existing = judged(settings(existing={"resourceGroup": "rg", "name": "prod"}), silent).unchecked
    assert "GPU pools that AKS manages (Azure answers 403)" in existing
    assert not [one for one in existing if one.startswith(("the region", "versions"))]


def test_a_cluster_that_could_not_be_read_hides_what_is_there() -> None:
    """Else a pool that is there would be refused for the quota that it uses itself."""
    full = replace(usages(**{FAMILY.lower(): Usage(24, 24)}), cluster=WHY)
    assert problems(settings(), full) == {}


@given(
    nodes=st.integers(0, 20),
    made=st.integers(0, 20),
    used=st.integers(0, 600),
    limit=st.integers(0, 600),
)
def test_growth_fits_exactly_what_is_left(nodes: int, made: int, used: int, limit: int) -> None:
    azure = replace(usages(**{FAMILY.lower(): Usage(used, limit)}), cluster=there(p0=MadePool(A100.lower(), made)))
    growth = max(0, nodes - made) * 24
    assert bool(problems(_counted(nodes), azure)) is (growth > max(0, limit - used))


@given(left=st.integers(0, 300), more=st.integers(0, 300))
def test_more_quota_never_adds_a_problem_or_a_warning(left: int, more: int) -> None:
    stack = _SPREAD
    before, after = (judged(stack, usages(**{FAMILY.lower(): Usage(0, limit)})) for limit in (left, left + more))
    assert not (after.problems and not before.problems)
    if not before.problems:
        assert len(after.warnings) <= len(before.warnings)


_SPREAD = settings({"nodes": {"min": 1, "max": 3}}, {"count": 2})
_COUNTED = {number: settings({"count": number}) for number in range(21)}


def _counted(nodes: int) -> Settings:
    return _COUNTED[nodes]


def test_a_system_pool_whose_size_is_not_known_yet_is_not_judged() -> None:
    stack = settings()
    assert isinstance(stack.cluster, AksSettings)
    unsaid = replace(stack.cluster, system_pool=replace(stack.cluster.system_pool, vm_size=""))
    assert [one.name for one in machines(unsaid, stack.pools, None)] == ["p0"]


def test_a_subnet_that_a_program_tells_later_is_not_one_to_look_for() -> None:
    stack = settings({"subnet": Later("an Output")}, network={"nodeSubnet": Later("another Output")})
    assert isinstance(stack.cluster, AksSettings)
    assert [(one.name, one.subnet) for one in machines(stack.cluster, stack.pools, None)] == [("system", ""), ("p0", "")]


# --- what the list of sizes says of a size's own disks and host -----------------------------------------------


def with_size(**has: Any) -> Azure:
    return replace(AZURE, sizes={**SIZES, A100.lower(): size(A100, FAMILY, 24, **has)})


@pytest.mark.parametrize(
    ("pool", "has", "path"),
    [
        ({"osDiskType": "Ephemeral"}, {"ephemeral": False}, "osDiskType"),
        ({"osDiskType": "Ephemeral", "osDiskSize": 1024}, {"ephemeral": True, "own_disk": 512}, "osDiskSize"),
        ({"encryptionAtHost": True}, {"encrypts": False}, "encryptionAtHost"),
        ({"osDiskType": "Ephemeral", "osDiskSize": 512}, {"ephemeral": True, "own_disk": 512}, None),
        ({"osDiskType": "Managed", "osDiskSize": 1024}, {"ephemeral": False, "own_disk": 512}, None),
        ({"osDiskType": "Ephemeral", "osDiskSize": 1024, "encryptionAtHost": True}, {}, None),
    ],
)
def test_disks_and_encryption_that_the_size_cannot_have_are_refused(
    pool: dict[str, Any], has: dict[str, Any], path: str | None
) -> None:
    found = problems(settings(pool), with_size(**has))
    assert list(found) == ([f"{POOL}.{path}"] if path else [])
    assert all("C25" in text for text in found.values())
