"""What a change of each property does, held against the SDK's types, the rows of the options and the stand-in's lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.platforms.aks.azure_types import enums, kind_of, types
from gpu_pools.platforms.aks.properties import known_of, properties, replacing, sources
from gpu_pools.reading.fields import on, rows
from sandbox.clouds import azure_pool_options, azure_rules
from sandbox.clouds.azure_cluster_options import IMMUTABLE
from sandbox.clouds.azure_errors import AzureError
from sandbox.providers import azure_native
from tests.unit.stacks import A100, SYSTEM_POOL, aks, plan_of, pool_of
from tools.generate.property_reference import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.reading.fields import Row

TOKENS: Final = {"AgentPool": azure_native._POOL, "ManagedCluster": azure_native._CLUSTER}
TYPES: Final = tuple(RESOURCES)


def _rows(settings: type) -> Iterator[Row]:
    for row in rows(settings):
        yield row
        if not isinstance(row.kind.type, str):
            yield from _rows(row.kind.type)


@pytest.mark.parametrize("type_", TYPES)
class TestTable:
    """gpu_pools/platforms/aks/properties.yaml."""

    def test_its_properties_are_those_of_the_sdk(self, type_: str) -> None:
        assert [path for path in properties(type_) if kind_of(type_, path) is None] == []

    def test_no_property_of_the_sdk_is_left_out(self, type_: str) -> None:
        said = {path.partition(".")[0] for path in properties(type_)}
        assert types()[type_].keys() - said == set()

    def test_each_says_one_of_four_words_and_where_it_was_read(self, type_: str) -> None:
        for path, known in properties(type_).items():
            assert known.change in {"updates", "rolling", "replaces", "refused"}, path
            assert known.sources, path
            assert set(known.sources) <= {*sources()}, path
            assert bool(known.page) == ("docs" in known.sources), path

    def test_what_the_plugin_replaces_by_itself_is_what_its_stand_in_replaces(self, type_: str) -> None:
        own = {path for path, known in properties(type_).items() if known.plugin}
        assert own == {*azure_native._KINDS[TOKENS[type_]].replaces}

    def test_the_rows_of_the_options_say_the_same(self, type_: str) -> None:
        told = [
            (row.key, path, on(row.change, "aks"), known.change if (known := known_of(type_, path)) else None)
            for settings in RESOURCES[type_][1]
            for row in _rows(settings)
            for path in on(row.sets, "aks").split(", ")
            if path and on(row.change, "aks") and on(row.says, "aks")
        ]
        assert told
        assert [one for one in told if one[2] != one[3]] == []


def test_what_azure_keeps_on_a_living_pool_replaces_it() -> None:
    """The stand-in has its own list, from Azure's documentation."""
    of_the_plugin = {path for path, known in properties("AgentPool").items() if known.plugin}
    # Parts that the stand-in's machines know nothing of.
    unplayed = {"gatewayProfile", "messageOfTheDay", "podIPAllocationMode", "windowsProfile"}
    assert {*replacing("AgentPool")} - unplayed == {*azure_rules._IMMUTABLE, "gpuProfile"} - of_the_plugin


class TestAcknowledgements:
    """The id of a pool's replacement, which stands in stack files."""

    @staticmethod
    def _id(**pool: object) -> str:
        return pool_of(aks(pool)).change

    def test_options_that_force_none_change_no_id(self) -> None:
        options = {"upgradeSettings": {"maxSurge": "2"}, "tags": {"a": "b"}, "fips": True, "kubernetesVersion": "1.34"}
        assert self._id() == self._id(**options)

    @pytest.mark.parametrize(
        "option", [{"maxPods": 60}, {"kubeletConfig": {"podMaxPids": 9}}, {"properties": {"enableUltraSSD": True}}]
    )
    def test_options_that_force_one_do(self, option: dict[str, object]) -> None:
        assert self._id() != self._id(**option)

    def test_properties_that_force_none_do_not(self) -> None:
        assert self._id() == self._id(properties={"networkProfile": {"allowedHostPorts": []}})


def test_what_azure_keeps_of_a_living_cluster_replaces_it() -> None:
    """As for pools: the stand-in's own list."""
    unplayed = {"linuxProfile", "windowsProfile"}
    own = {f"{key}.{name}" for key, below in IMMUTABLE.items() for name in below} | {
        key for key, below in IMMUTABLE.items() if not below
    }
    assert {*replacing("ManagedCluster")} - unplayed == own


class TestStandIn:
    """Its enumerations are the SDK's, and what newer API versions add says where it was read."""

    def test_it_refuses_no_value_of_the_sdk_and_takes_no_other(self) -> None:
        for key, kind in types()["AgentPool"].items():
            for value in enums().get(kind, []):
                azure_pool_options._check_enums({key: value})
            if kind in enums():
                with pytest.raises(AzureError):
                    azure_pool_options._check_enums({key: "Nothing"})

    def test_what_is_newer_is_not_in_the_sdk(self) -> None:
        for kind, newer in azure_pool_options._NEWER.items():
            assert not set(newer) & set(enums()[kind]), "the SDK has caught up: take it out"

    def test_its_immutables_are_properties_of_the_sdk(self) -> None:
        assert set(azure_rules._IMMUTABLE) <= types()["AgentPool"].keys()
        assert set(IMMUTABLE) <= types()["ManagedCluster"].keys()


class TestValuesThatNoEnumerationLists:
    """They are sent, and told of."""

    @pytest.mark.parametrize(
        ("properties", "place", "told"),
        [
            ({"osDiskType": "managed"}, "properties.osDiskType", "did you mean Managed?"),
            ({"workloadRuntime": "KataMshvVmIsolation"}, "properties.workloadRuntime", "did you mean KataVmIsolation?"),
            ({"securityProfile": {"sshAccess": "off"}}, "properties.securityProfile.sshAccess", "LocalUser, Disabled;"),
            ({"networkProfile": {"allowedHostPorts": [{"protocol": "tcp"}]}}, "allowedHostPorts[0].protocol", "mean TCP?"),
        ],
        ids=str,
    )
    def test_of_a_pool(self, properties: dict[str, Any], place: str, told: str) -> None:
        (warning,) = [one for one in pool_of(aks({"properties": properties})).warnings if "not among the values" in one]
        assert place in warning
        assert told in warning

    def test_of_the_cluster_and_its_system_pool_once(self) -> None:
        mine = {"supportPlan": "LongTerm", "networkProfile": {"loadBalancerSku": "Standard"}}
        cluster = {"properties": mine, "systemPool": {**SYSTEM_POOL, "properties": {"osDiskType": "ephemeral"}}}
        pools = [{"name": name, "vmSize": A100, "count": 1, "sharing": "whole"} for name in ("a", "b")]
        first, second = plan_of(aks(cluster=cluster, pools=pools)).pools
        told = [one.partition(":")[0] for one in first.warnings if "not among the values" in one]
        assert told == [
            "properties of the cluster.supportPlan",
            "properties of the cluster.networkProfile.loadBalancerSku",
            "properties of the system pool.osDiskType",
        ]
        assert not [one for one in second.warnings if "not among the values" in one]

    def test_what_is_listed_or_is_not_of_an_enumeration_is_not_told_of(self) -> None:
        fine = {"osDiskType": "Managed", "messageOfTheDay": "hello", "nodePublicIPPrefixID": "x", "enableUltraSSD": True}
        assert not [one for one in pool_of(aks({"properties": fine})).warnings if "not among the values" in one]
