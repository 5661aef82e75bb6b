"""One value of AKS, written by its key and through `properties`: the same is refused, and the same warned of.

Generated from the stacks of the other tests: every key in them that sets one property of Azure, and that `properties` may have,
is moved there. What a key refuses about its own value alone is left out: such values are Azure's to judge in `properties`, which
is the way to what Azure has and this project does not know (gpu_pools/platforms/aks/asked.py).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.platforms.aks import options as aks_options
from gpu_pools.platforms.aks import pool_options as aks_pools
from gpu_pools.platforms.aks.asked import asked, place_of
from gpu_pools.platforms.aks.inputs import cluster_inputs
from gpu_pools.platforms.aks.options import AksClusterOptions
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.platforms.aks.pool_inputs import Around, pool_inputs
from gpu_pools.platforms.aks.pool_options import AksPoolOptions
from gpu_pools.reading.fields import on, rows
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.nested import at
from gpu_pools.text.yaml_text import load_yaml
from tests.unit import bad_aks_options
from tests.unit.bad_aks_options import id_of, subnet
from tests.unit.bad_case import Case
from tests.unit.stacks import A100, aks, plan_of, pool_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_Path = tuple[str, ...]
POOL: Final = "gpu-pools:pools"
CLUSTER: Final = "gpu-pools:cluster"


def keys(settings: type, planned: Any, above: _Path = ()) -> Iterator[tuple[_Path, _Path]]:
    """(keys, path of the property) of each row that `properties` may have as well."""
    for row in rows(settings):
        if isinstance(row.kind.type, type):
            yield from keys(row.kind.type, planned, (*above, row.key))
            continue
        sets = on(row.sets, "aks")
        path = tuple(sets.split("."))
        # What is sent in another shape, or stands with others or not at all.
        of_others = path[0] in {"agentPoolProfiles", "addonProfiles"} or path[-1] == "id" or row.needed
        if sets and "," not in sets and not of_others and not any(sets == one or sets.startswith(f"{one}.") for one in planned):
            yield (*above, row.key), path


POOL_KEYS: Final = dict(
    [*keys(AksPoolOptions, aks_pools._PLANNED), *((("osSku",), ("osSKU",)), (("zones",), ("availabilityZones",)))]
)
CLUSTER_KEYS: Final = dict(keys(AksClusterOptions, aks_options._PLANNED))

NETWORK: Final = {"nodeSubnet": subnet("nodes")}
#: What works with a catch, or in some company only, besides what the tests of bad input have.
MORE: Final = {
    "azurelinux-on-a10": aks({"vmSize": "Standard_NV36ads_A10_v5", "osSku": "AzureLinux", "driver": "preinstalled"}),
    "azurelinux-by-the-operator": aks({"osSku": "AzureLinux3"}),
    "ubuntu-2404": aks({"osSku": "Ubuntu2404"}),
    "two-releases": aks(
        pools=[
            {"name": "a", "vmSize": A100, "count": 1, "sharing": "whole", "osSku": "Ubuntu2204"},
            {"name": "b", "vmSize": A100, "count": 1, "sharing": "whole", "osSku": "Ubuntu2404"},
        ]
    ),
    "kubenet-in-a-subnet": aks(cluster={"network": {"plugin": "kubenet", "nodeSubnet": subnet("nodes")}}),
    "metrics-without-a-way": aks(cluster={"monitoring": {"metrics": True}}),
    "a-subnet-in-a-network": aks({"subnet": subnet("gpus")}, cluster={"network": NETWORK}),
    "a-subnet-of-its-own": aks({"subnet": subnet("gpus")}),
    "pods-under-an-overlay": aks({"subnet": subnet("gpus"), "podSubnet": subnet("pods")}, cluster={"network": NETWORK}),
    "a-reservation": aks({"capacityReservationGroup": id_of("Microsoft.Compute/capacityReservationGroups/held")}),
    "a-tag-that-the-boot-reads": aks({"tags": {"EnableManagedGPUExperience": "true"}}),
    "surge-none": aks({"upgradeSettings": {"maxSurge": "0"}}),
    "surge-none-and-away": aks({"upgradeSettings": {"maxSurge": "0", "maxUnavailable": "1"}}),
    "thresholds": aks({"kubeletConfig": {"imageGcLowThreshold": 90}}),
    "an-ephemeral-disk-that-stays": aks({"osDiskType": "Ephemeral", "scaleDownMode": "Deallocate"}),
    "a-channel-and-a-version": aks(cluster={"kubernetesVersion": "1.34", "upgrades": {"channel": "stable"}}),
    "a-prefix-without-addresses": aks({"publicIpPrefix": id_of("Microsoft.Network/publicIPPrefixes/p")}),
    "workload-identity-alone": aks(cluster={"workloadIdentity": True}),
    "a-private-server-with-ranges": aks(cluster={"apiServer": {"private": True, "authorizedIpRanges": ["10.0.0.0/8"]}}),
    "an-overlay-of-kubenet": aks(cluster={"network": {"plugin": "kubenet", "pluginMode": "overlay"}}),
    "cilium-of-kubenet": aks(cluster={"network": {"plugin": "kubenet", "dataplane": "cilium"}}),
    "ranges-that-overlap": aks(cluster={"network": {"serviceCidr": "10.244.0.0/20", "dnsServiceIp": "10.244.0.10"}}),
    "a-gateway-without-a-network": aks(cluster={"network": {"outboundType": "userAssignedNATGateway"}}),
    "one-zone-for-a-group": aks(
        {"zones": ["1", "2"], "proximityPlacementGroup": id_of("Microsoft.Compute/proximityPlacementGroups/near")}
    ),
    "fips-on-2404": aks({"osSku": "Ubuntu2404", "fips": True}),
    "swap-without-a-kubelet-for-it": aks({"linuxOsConfig": {"swapFileSize": 100}}),
}
STACKS: Final = {
    **MORE,
    **{case.id: case.stack for group in vars(bad_aks_options).values() if isinstance(group, tuple) for case in group
       if isinstance(case, Case) and not case.deploy_only},
}  # fmt: skip


def taken(section: dict[str, Any], path: _Path) -> Any:
    """The value at a path, taken out; what is left empty goes with it."""
    *above, last = path
    target = at(section, *above) if above else section
    if not isinstance(target, dict) or last not in target:
        return None
    value = target.pop(last)
    for length in range(len(above), 0, -1):
        inner = at(section, *above[:length])
        outer: Any = at(section, *above[: length - 1]) if length > 1 else section
        if inner == {}:
            del outer[above[length - 1]]
    return value


def put(section: dict[str, Any], path: _Path, value: object) -> None:
    target = section.setdefault("properties", {})
    for key in path[:-1]:
        target = target.setdefault(key, {})
    target[path[-1]] = value


def other_ways() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(name, stack by its keys, config of the same with one key moved to `properties`) of all that can be moved."""
    for name, text in STACKS.items():
        config = load_yaml(text)["config"]
        places = [
            *((CLUSTER, None, one) for one in CLUSTER_KEYS),
            *((POOL, index, one) for index, _ in enumerate(config.get(POOL, [])) for one in POOL_KEYS),
        ]
        for where, index, key in places:
            moved = copy.deepcopy(config)
            section = moved[where] if index is None else moved[where][index]
            if not isinstance(section, dict) or not isinstance(section.get("properties", {}), dict):
                continue
            value = taken(section, key)
            if value is None:
                continue
            put(section, (CLUSTER_KEYS if index is None else POOL_KEYS)[key], value)
            yield f"{name}-{'.'.join(key)}-{index or 0}", text, moved


WAYS: Final = {name: (mine, theirs) for name, mine, theirs in other_ways()}


def verdict(stack: str) -> tuple[list[str], list[str]]:
    """(what is wrong, without its place and remedy, warnings)."""
    try:
        plan = plan_of(stack)
    except InvalidStackError as error:
        return sorted(one.message for one in error.problems), []
    # Of a value of `properties` it is told besides that the SDK does not list it.
    warnings = {warning for pool in plan.pools for warning in pool.warnings}
    return [], sorted(warning for warning in warnings if "not among the values" not in warning)


def refuses_its_own_value(stack: str, name: str) -> bool:
    """Whether the key refuses its value whatever stands beside it: `properties` leaves such values to Azure."""
    key = tuple(name.rsplit("-", 2)[1].split("."))
    config = load_yaml(stack)["config"]
    places = [config[CLUSTER], *config[POOL]]
    for settings, section in zip([AksClusterOptions, *([AksPoolOptions] * len(config[POOL]))], places, strict=True):
        value = at(section, *key)
        known = CLUSTER_KEYS if settings is AksClusterOptions else POOL_KEYS
        if value is None or key not in known:
            continue
        properties: dict[str, Any] = {}
        put(properties, known[key], value)
        if key in {("osSku",), ("zones",)}:
            return asked(AksPlacement(), properties["properties"], only=("os_sku", "zones")) == AksPlacement()
        return bool(value) and asked(settings(), properties["properties"]) == settings()
    return False


def test_there_are_many() -> None:
    assert len(WAYS) > 60
    assert {name.rsplit("-", 2)[1] for name in WAYS} >= {"osSku", "subnet", "network.plugin", "upgradeSettings.maxSurge", "tags"}


@pytest.mark.parametrize("name", WAYS)
def test_both_ways_are_judged_alike(name: str) -> None:
    mine, moved = WAYS[name]
    theirs = yaml.safe_dump({"config": moved}, sort_keys=False)
    if refuses_its_own_value(mine, name):
        pytest.skip("a value that `properties` leaves to Azure")
    assert verdict(theirs) == verdict(mine)


@pytest.mark.parametrize(
    ("options", "properties"),
    [
        ({"upgradeSettings": {"maxUnavailable": "1"}}, {"upgradeSettings": {"maxUnavailable": "1"}}),
        ({"maxPods": 60}, {"maxPods": 60}),
        ({"osSku": "AzureLinux"}, {"osSKU": "AzureLinux"}),
        ({"kubeletConfig": {"podMaxPids": 9}}, {"kubeletConfig": {"podMaxPids": 9}}),
    ],
)
def test_both_ways_ask_azure_for_the_same_pool(options: dict[str, Any], properties: dict[str, Any]) -> None:
    mine, theirs = (pool_inputs(pool_of(aks(one)), Around()) for one in (options, {"properties": properties}))
    assert mine == theirs


def test_both_ways_ask_azure_for_the_same_network() -> None:
    """Kubenet has no overlay, and Azure refuses the two together."""
    plans = [
        plan_of(aks(cluster=one))
        for one in ({"network": {"plugin": "kubenet"}}, {"properties": {"networkProfile": {"networkPlugin": "kubenet"}}})
    ]
    first, second = (cluster_inputs(plan.settings.cluster.options)["networkProfile"] for plan in plans)  # type: ignore[union-attr]
    assert "networkPluginMode" not in {**first, **second}


def test_a_problem_names_the_place_where_the_value_stands() -> None:
    stack = aks({"properties": {"vnetSubnetID": subnet("gpus")}})
    with pytest.raises(InvalidStackError) as caught:
        plan_of(stack)
    assert [one.path for one in caught.value.problems] == ["gpu-pools:pools[0].properties.vnetSubnetID"]
    properties = {"upgradeSettings": {"maxSurge": "0"}}
    assert place_of(AksPoolOptions, "upgradeSettings.maxSurge", properties) == "properties.upgradeSettings.maxSurge"
    assert place_of(AksPoolOptions, "upgradeSettings.maxSurge", {}) == "upgradeSettings.maxSurge"
    assert place_of(AksPoolOptions, "fips", properties) == "fips"
    assert place_of(AksPoolOptions, "no-such-key", properties) == "no-such-key"


def test_tags_among_the_properties_of_the_cluster_reach_no_machine() -> None:
    assert pool_of(aks(cluster={"properties": {"tags": {"EnableManagedGPUExperience": "true"}}})).warnings == ()


def test_the_add_on_of_logs_through_properties_sends_nothing() -> None:
    properties = {"addonProfiles": {"omsagent": {"enabled": True, "config": {"logAnalyticsWorkspaceResourceID": "x"}}}}
    assert any("no logs arrive (C26)" in warning for warning in pool_of(aks(cluster={"properties": properties})).warnings)
    workspace = {"monitoring": {"workspace": id_of("Microsoft.OperationalInsights/workspaces/logs")}}
    assert not any("(C26)" in warning for warning in pool_of(aks(cluster=workspace)).warnings)
