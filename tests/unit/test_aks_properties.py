"""What a change of each property does, held against the SDK's types, the rows of the options and the stand-in's lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from gpu_pools.clouds.aks_properties import known_of, properties, replacing, sources
from gpu_pools.stack.azure_types import kind_of, types
from gpu_pools.stack.fields import on, rows
from sandbox.clouds import azure_rules
from sandbox.providers import azure_native
from tests.generated import RESOURCES
from tests.unit.stacks import aks, pool_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.stack.fields import Row

TOKENS: Final = {"AgentPool": azure_native._POOL, "ManagedCluster": azure_native._CLUSTER}
TYPES: Final = tuple(RESOURCES)


def _rows(settings: type) -> Iterator[Row]:
    for row in rows(settings):
        yield row
        if not isinstance(row.kind.type, str):
            yield from _rows(row.kind.type)


@pytest.mark.parametrize("type_", TYPES)
class TestTable:
    """gpu_pools/clouds/aks_properties.yaml."""

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
