"""Clusters of different makes are adopted: what comes out, and that it can be planned.

That the preview after the import replaces nothing of them is in tests/components/test_adopted.py.
"""

from __future__ import annotations

import json

import pytest

from gpu_pools.adopting.written import PLATFORM, import_text, stack_text
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.yaml_text import load_yaml
from tests.adopting.recorded import CASES, WITH_POOLS, adopted


@pytest.mark.parametrize("name", CASES)
def test_pools_and_their_sharing_are_those_that_are_there_and_the_rest_is_said(name: str) -> None:
    found, case = adopted(name), CASES[name]
    assert found.sections.get("pools", []) == case["pools_expected"]
    assert found.sections.get("sharing", {}) == case["sharing_expected"]
    said = [f"{one.place}: {one.why}" for one in found.unsaid]
    for part in case["unsaid"]:
        assert any(part in one for one in said), (part, said)


@pytest.mark.parametrize("name", WITH_POOLS)
def test_the_stack_file_can_be_planned_and_holds_nothing_but_what_was_found(name: str) -> None:
    text = stack_text(adopted(name), name)
    config = load_yaml(text)["config"]
    assert {pool.name for pool in plan_config(config).pools} == {one["name"] for one in CASES[name]["pools_expected"]}
    assert config == adopted(name).config


def test_there_are_six_makes_and_each_says_what_it_is() -> None:
    assert len(WITH_POOLS) >= 6
    assert {case["kind"] for case in CASES.values()} == {"recording", "constructed"}
    assert all(case["source"] for case in CASES.values())


@pytest.mark.parametrize("name", WITH_POOLS)
def test_the_import_file_names_each_resource_once_below_its_component(name: str) -> None:
    """As `pulumi import --file` reads it: names are labels of the file, parents are named by them, components have no id."""
    found = adopted(name)
    specs = json.loads(import_text(found))["resources"]
    names = [one["name"] for one in specs]
    assert len(set(names)) == len(names)
    assert specs[0] == {
        "type": "gpu-pools:index:GpuPlatform",
        "name": "component gpu",
        "logicalName": PLATFORM,
        "component": True,
    }
    for number, one in enumerate(specs[1:], 1):
        assert one["parent"] in names[:number]
        assert ("id" in one) != one.get("component", False)
    pools = [one["name"] for one in CASES[name]["pools_expected"]] if CASES[name]["platform"] != "existing" else []
    suffix = "pool" if CASES[name]["platform"] == "aks" else "group"
    assert [one["logicalName"] for one in specs if "id" in one] == [f"gpu-{pool}-{suffix}" for pool in pools]


def test_pools_are_added_to_a_stack_that_is_deployed_below_the_platform_that_it_has() -> None:
    document = json.loads(import_text(adopted("magnum-heat"), "gpu-pools/prod"))
    assert document["nameTable"] == {"component gpu": "urn:pulumi:prod::gpu-pools::gpu-pools:index:GpuPlatform::gpu"}
    assert [one["parent"] for one in document["resources"]] == ["component gpu", "component gpu-gpu-a100"]
