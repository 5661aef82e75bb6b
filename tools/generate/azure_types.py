"""Reads the types of azure-native's SDK off its text: what a managed cluster, an agent pool and a maintenance window may have.

They become gpu_pools/platforms/aks/azure_native.json: the core checks `properties:` of a stack file by it without Pulumi, and the
sandbox's stand-in checks every request. tests/components/test_fields.py holds the file to the SDK.
"""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

#: Resources that stacks have; their types are followed to the end.
_RESOURCES: Final = {
    "agent_pool.py": "AgentPool",
    "managed_cluster.py": "ManagedCluster",
    "maintenance_configuration.py": "MaintenanceConfiguration",
}
_PLAIN: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def azure_text() -> str:
    """gpu_pools/platforms/aks/azure_native.json, a line for each type."""
    found = types()
    lines = [f'{{"version": {json.dumps(found["version"])}']
    for key in ("types", "enums"):
        inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found[key].items())
        lines.append(f'"{key}": {{\n{inner}\n}}')
    return ",\n".join(lines) + "}\n"


def types() -> dict[str, Any]:
    """Type -> property -> what it is; and the values of enumerations."""
    found: dict[str, dict[str, str]] = {}
    inputs = _classes("_inputs.py")
    wanted: list[tuple[str, ast.ClassDef]] = [(name, _classes(file)[f"{name}Args"]) for file, name in _RESOURCES.items()]
    while wanted:
        name, definition = wanted.pop()
        found[name] = _properties(definition)
        others = {kind.rpartition(" ")[2] for kind in found[name].values()} - {*found}
        wanted.extend((other, inputs[f"{other}Args"]) for other in others if f"{other}Args" in inputs)
    used = {kind.rpartition(" ")[2] for properties in found.values() for kind in properties.values()}
    enums = {name: values for name, values in _enums().items() if name in used}
    return {"version": version("pulumi-azure-native"), "types": dict(sorted(found.items())), "enums": dict(sorted(enums.items()))}


@lru_cache(maxsize=8)
def _classes(file: str) -> dict[str, ast.ClassDef]:
    spec = find_spec("pulumi_azure_native")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pulumi_azure_native is not installed; requirements.txt pins it")
    text = (Path(spec.origin).parent / "containerservice" / file).read_text(encoding="utf-8")
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}


def _properties(definition: ast.ClassDef) -> dict[str, str]:
    """The plugin's name of each property -> its kind."""
    getters = [node for node in definition.body if isinstance(node, ast.FunctionDef) and _pulumi_name(node)]
    return {_pulumi_name(node): _kind(node.returns) for node in getters}


def _pulumi_name(getter: ast.FunctionDef) -> str:
    """What `@pulumi.getter` says, or the function's own name; empty: it is no getter."""
    for one in getter.decorator_list:
        if isinstance(one, ast.Call) and getattr(one.func, "attr", "") == "getter":
            (named,) = one.keywords
            if isinstance(named.value, ast.Constant):
                return str(named.value.value)
            raise TypeError(f"a getter whose name is no text: {ast.unparse(one)}")
        if getattr(one, "attr", "") == "getter":
            return getter.name
    return ""


def _kind(node: ast.expr | None) -> str:
    """`string`, `list of string`, `map of string`, or the name of a type or enumeration."""
    if isinstance(node, ast.Constant):
        return str(node.value).removesuffix("Args")
    if isinstance(node, ast.Attribute):
        return _PLAIN[node.attr]
    if isinstance(node, ast.Name):
        return _PLAIN.get(node.id, node.id)
    if not isinstance(node, ast.Subscript):
        raise TypeError(f"an annotation of an unknown form: {node and ast.unparse(node)}")
    head = getattr(node.value, "attr", None) or getattr(node.value, "id", "")
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Sequence":
        return f"list of {_kind(inner[0])}"
    if head == "Mapping":
        return f"map of {_kind(inner[1])}"
    # Input[X], Optional[X], and Union[str, X], which is an enumeration that takes other texts, too.
    return _kind(inner[-1])


@lru_cache(maxsize=1)
def _enums() -> dict[str, list[str]]:
    return {
        name: [
            str(node.value.value)
            for node in definition.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        ]
        for name, definition in _classes("_enums.py").items()
        if not re.match("_", name)
    }
