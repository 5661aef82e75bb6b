"""No module needs itself by way of others: not when it is loaded, and not for its types either.

import-linter holds the core's packages and modules to it (pyproject.toml). The rooms of the sandbox know each other, so for it,
and for all others, this looks at single modules.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gpu_pools", "components", "policies", "pipelines", "sandbox")


def _modules() -> dict[str, Path]:
    found = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in found}


def named(text: str, module: str, *, package: bool) -> Iterator[str]:
    """What a module's text may import, as far as names go: modules, and names that may be modules."""
    parts = module.split(".") if package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
            yield base


def graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Module -> modules of ours that it imports; of `from package import module` the module alone."""
    edges = {}
    for module, file in modules.items():
        names = {*named(file.read_text(encoding="utf-8"), module, package=file.name == "__init__.py")} & modules.keys()
        packages = {name.rpartition(".")[0] for name in names}
        edges[module] = names - packages - {module}
    return edges


def test_a_circle_is_found() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"c"}, "c": {"a"}}).prepare()
    assert [*named("from .b import c\nfrom . import d", "x.a", package=False)] == ["x.b.c", "x.b", "x.d", "x"]


def test_there_is_none() -> None:
    edges = graph(_modules())
    assert len(edges) > 400
    assert sum(map(len, edges.values())) > 2000
    TopologicalSorter(edges).prepare()
