"""What a rule tells to do can be done: the keys and values that it names exist, and a stack file takes those that it is told."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

import gpu_pools
from gpu_pools.platforms.aks import azure_types
from gpu_pools.policies.rules import RULES
from gpu_pools.reading import fields
from gpu_pools.stack import charts
from gpu_pools.stack.settings import KEYS
from gpu_pools.text.errors import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.policies.rule import Rule

#: A name with capitals inside, or several with dots between.
_NAMES: Final = re.compile(r"(?<![\w/=.:`-])[a-z]+(?:[A-Z]\w*)?(?:\.\w+)*(?![\w/(])")
#: Names of others: of Kubernetes' objects, of Pulumi's SDK and its Magnum provider, and of AKS's API (gpuProfile.nvidia,
#: 2026-01-02-preview).
_ELSEWHERE: Final = frozenset(
    {"metadata.name", "kubernetes.helm.v3.Release", "runAsUser", "mergeLabels", "nvidia.com", "managementMode"}
)
_AZURE: Final = ("AgentPool", "ManagedCluster")
_CHARTS: Final[Mapping[str, charts.ChartName]] = {"operator": "gpu-operator", "nodeFeatureDiscovery": "node-feature-discovery"}


def _row_keys() -> frozenset[str]:
    found = set()
    names = [info.name for info in pkgutil.walk_packages(gpu_pools.__path__, "gpu_pools.")]
    declaring = ("gpu_pools.platforms.", "gpu_pools.sharing.", "gpu_pools.stack.")
    for module in (importlib.import_module(name) for name in names if name.startswith(declaring)):
        for one in vars(module).values():
            if dataclasses.is_dataclass(one) and isinstance(one, type):
                found |= {row.key for row in fields.rows(one)}
    return frozenset(found)


#: Keys that are read without rows.
_READ: Final = frozenset({"min", "max"})
_ROWS: Final = _row_keys() | _READ


def _names(text: str) -> list[str]:
    """The names of keys, properties and values in a text, those of one plain word aside."""
    found = _NAMES.findall(text.replace("e.g.", ""))
    return [name for name in found if re.search(r"[A-Z.]", name) and not name.startswith("kubernetes.azure")]


def _of_a_chart(path: str, chart: charts.ChartName) -> bool:
    known: Any = charts.default_chart(chart).keys
    for key in path.split("."):
        if not known:
            # The chart leaves open what is below.
            return known in (None, {})
        if not isinstance(known, dict) or key not in known:
            return False
        known = known[key]
    return True


def _of_the_stack(path: str) -> bool:
    first, _, rest = path.partition(".")
    if rest and first in _CHARTS and rest.startswith("values."):
        return _taken(rest.removeprefix("values."), first)
    keys = path.split(".")
    return all(key in _ROWS or (index == 0 and key in KEYS) for index, key in enumerate(keys))


def _taken(dotted: str, section: str) -> bool:
    """Whether a stack file may override a value of a chart."""
    value: Any = []
    for key in reversed(dotted.split(".")):
        value = {key: value}
    problems = Problems()
    parse = charts.parse_operator if section == "operator" else charts.parse_nfd
    parse({"values": value}, section, problems)
    return not any("has no value" in one.message or "is derived" in one.message for one in problems.found)


def _exists(name: str) -> bool:
    return (
        name in _ELSEWHERE
        or _of_the_stack(name)
        or any(_of_a_chart(name, chart) for chart in _CHARTS.values())
        or any(azure_types.kind_of(type_, name) is not None for type_ in _AZURE)
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_a_repair_names_exists(rule: Rule) -> None:
    assert [name for name in _names(f"{rule.repair} {rule.stack_repair}") if not _exists(name)] == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.stack_repair], ids=lambda rule: rule.name)
def test_a_stack_file_takes_what_its_repair_names(rule: Rule) -> None:
    """No value that the plan derives: the stack file would be refused for it."""
    named = [name for name in _names(rule.stack_repair) if name.split(".")[0] in _CHARTS and ".values." in name]
    assert [name for name in named if not _of_the_stack(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "operator.values.driver.verzion",
        "nodeFeatureDiscovery.values.master.config.extraLabelNs",
        "scaleDownMod",
        "nodes.least",
        "driver.upgradePolicy.drian.enable",
    ],
)
def test_a_name_that_nothing_has_is_found(name: str) -> None:
    assert _names(f"Set {name} to 1.") == [name]
    assert not _exists(name)


def test_names_are_found() -> None:
    names = {name for rule in RULES for name in _names(f"{rule.repair} {rule.stack_repair}")}
    assert names >= {"operator.values.driver.version", "gpuInstanceProfile", "verification.startupTaint", "nodes.max"}
    assert len(names) > 40
