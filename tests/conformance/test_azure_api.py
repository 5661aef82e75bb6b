"""Azure's stand-in against the published description of its API: names, kinds and enumerations that requests may have.

The description is read off Microsoft's own SDK, which is generated from it: azure-mgmt-containerservice 40.1.0, the one of the
API version that azure-native 3.29.0 uses (2025-09-01), in the folder GPU_POOLS_AZURE_SDK (pip install --no-deps --target FOLDER).
What the stand-in knows is gpu_pools/platforms/aks/azure_native.json, which is written off Pulumi's SDK
(tests/components/test_fields.py). Not here: what Azure refuses beyond that; no description says it.
"""

from __future__ import annotations

import ast
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.clouds.azure_answers import API_VERSION

FOLDER: Final = os.environ.get("GPU_POOLS_AZURE_SDK", "")
OURS: Final = json.loads(
    (Path(__file__).parents[2] / "gpu_pools" / "platforms" / "aks" / "azure_native.json").read_text(encoding="utf-8")
)
#: How types are written there -> here.
KINDS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
#: Of a resource: steps of its address.
ADDRESS: Final = {"resourceGroupName", "resourceName", "agentPoolName", "configName"}
#: (type, property) -> what the plugin has of its own there, and why.
OF_THE_PLUGIN: Final = {
    # Azure's own word on a resource, which a request may have in the description; the plugin leaves it out.
    **dict.fromkeys([(one, "status") for one in ("AgentPool", "ManagedCluster", "ManagedClusterAgentPoolProfile")]),
    # The plugin asks for ids; Azure answers with a mapping (pulumi-azure-native#4401).
    ("ManagedClusterIdentity", "userAssignedIdentities"): "list of string",
}

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.skipif(not FOLDER, reason="no SDK of Azure's on this machine: GPU_POOLS_AZURE_SDK=<folder with it>"),
]


@lru_cache
def _module(name: str) -> dict[str, ast.ClassDef]:
    path = Path(FOLDER) / "azure" / "mgmt" / "containerservice" / name
    return {node.name: node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)}


def _table(definition: ast.ClassDef, name: str) -> dict[str, Any]:
    for line in definition.body:
        targets = line.targets if isinstance(line, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            found: dict[str, Any] = ast.literal_eval(line.value)  # type: ignore[attr-defined]
            return found
    return {}


def described(type_: str) -> dict[str, str] | None:
    """Property -> its kind, of those that a request may have; None where the description has no such type."""
    classes = _module("models/_models_py3.py")
    definition = next((one for name, one in classes.items() if name.lower() == type_.lower()), None)
    if definition is None:
        return None
    fixed = _table(definition, "_validation")
    return {
        _camel(field["key"].removeprefix("properties.")): _kind(field["type"])
        for name, field in _table(definition, "_attribute_map").items()
        if not fixed.get(name, {}).get("readonly")
    }


def _camel(name: str) -> str:
    """As the plugin writes the few names that have dashes."""
    first, *others = name.split("-")
    return first + "".join(word.capitalize() for word in others)


def _kind(text: str) -> str:
    if text[:1] in "[{":
        return f"{'list' if text[0] == '[' else 'map'} of {_kind(text[1:-1])}"
    return KINDS.get(text, "object" if text in _module("models/_models_py3.py") else "string")


def ours(type_: str) -> dict[str, str]:
    """The same of what the stand-in knows: names of types and enumerations are the plugin's own."""

    def kind(text: str) -> str:
        for begin in ("list of ", "map of "):
            if text.startswith(begin):
                return begin + kind(text.removeprefix(begin))
        return "object" if text in OURS["types"] else "string" if text in OURS["enums"] else text

    return {name: kind(text) for name, text in OURS["types"][type_].items()}


def test_the_description_is_of_the_version_that_is_asked() -> None:
    configuration = Path(FOLDER) / "azure" / "mgmt" / "containerservice" / "_configuration.py"
    assert f'"{API_VERSION}"' in configuration.read_text(encoding="utf-8")


@pytest.mark.parametrize("type_", sorted(OURS["types"]))
def test_the_properties_of_a_request(type_: str) -> None:
    theirs = described(type_)
    assert theirs is not None, "the API has no such type"
    own = {name: kind for (found, name), kind in OF_THE_PLUGIN.items() if found == type_}
    assert own.keys() <= theirs.keys(), "the description has changed"
    wanted = {name: own.get(name, kind) for name, kind in theirs.items()}
    mine = {name: kind for name, kind in ours(type_).items() if name not in ADDRESS}
    assert mine == {name: kind for name, kind in wanted.items() if kind is not None}


@pytest.mark.parametrize("name", sorted(OURS["enums"]))
def test_the_values_of_an_enumeration(name: str) -> None:
    enums = _module("models/_container_service_client_enums.py")
    definition = next((one for found, one in enums.items() if found.lower() == name.lower()), None)
    assert definition is not None, "the API has no such enumeration"
    lines = [line.value for line in definition.body if isinstance(line, ast.Assign)]
    values = {value.value for value in lines if isinstance(value, ast.Constant)}
    assert set(OURS["enums"][name]) == values
