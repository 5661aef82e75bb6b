"""The tables of fields (gpu_pools/reading/fields.py): types of arguments and reference are what follows from them.

The schema, which takes Pulumi's analyzer seconds, and what the tables say of clouds: tests/components/test_fields.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.known import PLATFORMS, rows_of
from gpu_pools.reading.fields import BY_PLATFORM, one_of, read, row, rows
from gpu_pools.reading.section import Section
from gpu_pools.stack.node_hardware import DeclaredHardware
from gpu_pools.stack.pools import Pool
from gpu_pools.text.errors import Problems
from tools.generate import files, property_reference, stack_reference, type_text
from tools.generate.arguments import Args

if TYPE_CHECKING:
    from gpu_pools.platforms.platform import Platform

#: Classes of which platforms say something.
LEFT_TO_PLATFORMS: Final = (Pool, DeclaredHardware)
PARTS: Final = ("says", "sets", "change")
AGAIN: Final = "write it anew: python -m tools.generate"


def test_the_types_of_arguments_are_those_of_the_tables() -> None:
    assert files.ARGUMENTS.read_text(encoding="utf-8") == type_text.args_text(), AGAIN
    assert files.MODE_ARGUMENTS.read_text(encoding="utf-8") == type_text.mode_args_text(), AGAIN


def test_the_reference_is_that_of_the_tables() -> None:
    text = files.STACK_REFERENCE.read_text(encoding="utf-8")
    assert text.count("| `location` | aks |") == 1
    assert text == stack_reference.reference_text(), AGAIN


def test_the_table_of_azures_properties_is_that_of_the_data() -> None:
    assert files.PROPERTIES.read_text(encoding="utf-8") == property_reference.properties_text(), AGAIN


@dataclass(frozen=True)
class _Longer(AksSettings):
    """A cluster with one option more."""

    support_plan: str | None = row(
        "How long a version is supported.",
        one_of(("KubernetesOfficial", "AKSLongTermSupport")),
        sets="supportPlan",
        change="updates",
    )


def test_a_row_is_all_that_parser_types_and_reference_need() -> None:
    """What is left is to send it: `"support_plan": settings.support_plan` in components/aks/cluster.py."""
    problems = Problems()
    written = {"name": "c", "location": "westeurope", "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1}}
    section = Section({**written, "supportPlan": "AKSLongTermSupport"}, "cluster", problems)
    assert read(_Longer, section).support_plan == "AKSLongTermSupport"
    read(_Longer, Section({**written, "supportPlan": "AKSLongTermSuport"}, "cluster", problems))
    assert [(one.path, one.remedy) for one in problems.found] == [("cluster.supportPlan", "Did you mean `AKSLongTermSupport`?")]
    lines = type_text.class_text(Args("LongerArgs", "A cluster.", (_Longer,), "aks")).splitlines()
    assert lines[-2:] == ["    support_plan: NotRequired[str]", '    """How long a version is supported."""']
    row_of_it = "| `supportPlan` | aks | How long a version is supported. | `supportPlan` | updates |"
    assert [*stack_reference.key_lines(_Longer, ("aks",))][-1] == row_of_it


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=PLATFORMS)
def test_a_platform_speaks_of_keys_and_parts_that_are_left_to_platforms(platform: Platform[Any]) -> None:
    """What it said of any other would be in no table, and nobody would notice."""
    left = {
        (one.key, part)
        for table in LEFT_TO_PLATFORMS
        for one in rows(table)
        for part in PARTS
        if getattr(one, part) is BY_PLATFORM
    }
    spoken = {(key, part) for key, text in platform.row_texts.items() for part in PARTS if getattr(text, part)}
    assert spoken <= left


@pytest.mark.parametrize("table", LEFT_TO_PLATFORMS)
def test_what_is_left_to_platforms_is_said_by_one_of_them(table: type) -> None:
    left = {(one.key, part) for one in rows(table) for part in PARTS if getattr(one, part) is BY_PLATFORM}
    assert left
    assert {(one.key, part) for one in rows_of(table) for part in PARTS if not getattr(one, part)} & left == set()
    assert [one.key for one in rows_of(table)] == [one.key for one in rows(table)]
