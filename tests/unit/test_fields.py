"""The tables of fields (gpu_pools/reading/fields.py): types of arguments and reference are what follows from them.

The schema, which takes Pulumi's analyzer seconds, and what the tables say of clouds: tests/components/test_fields.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.reading.fields import one_of, read, row
from gpu_pools.reading.section import Section
from gpu_pools.text.errors import Problems
from tools.generate import files, property_reference, stack_reference, type_text
from tools.generate.arguments import Args

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
