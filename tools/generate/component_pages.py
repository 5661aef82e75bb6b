"""Writes the tables of docs/reference/components, a page for each component, and the page of the types, by the schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tools.generate.files import COMPONENT_PAGES, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def pages() -> Mapping[Path, str]:
    """docs/reference/components: the page of each component with its tables, and that of the types, by the schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    found = {COMPONENT_PAGES / "types.md": _types_page(schema)}
    for token, resource in schema["resources"].items():
        name = token.rpartition(":")[2]
        path = COMPONENT_PAGES / f"{name}.md"
        before, start, _ = path.read_text(encoding="utf-8").partition(f"<!-- {name}: written by python -m tools.generate -->\n")
        needed = {*resource.get("requiredInputs", ())}
        lines = ["## Inputs", "", *_schema_table(resource.get("inputProperties", {}), needed)]
        lines += ["", "## Outputs", "", *_schema_table(resource.get("properties", {}), set())]
        found[path] = before + start + "\n".join(lines) + "\n<!-- end -->\n"
    return found


def _types_page(schema: Mapping[str, Any]) -> str:
    lines = ["# Types", "", "Written by `python -m tools.generate` from [the schema](../../../components/schema.json).", ""]
    for token, kind in sorted(schema["types"].items()):
        table = _schema_table(kind.get("properties", {}), {*kind.get("required", ())})
        lines += [f"## {token.rpartition(':')[2]}", "", kind.get("description", "").strip(), "", *table, ""]
    return "\n".join(lines).rstrip() + "\n"


def _schema_table(properties: Mapping[str, Any], needed: set[str]) -> list[str]:
    if not properties:
        return ["None."]
    lines = ["| name | type | what it is |", "|---|---|---|"]
    for key, one in properties.items():
        said = ("*required*: " if key in needed else "") + one.get("description", "").strip()
        lines.append(f"| `{key}` | {_schema_type(one)} | {said} |")
    return lines


def _schema_type(one: Mapping[str, Any]) -> str:
    if "$ref" in one:
        name = one["$ref"].rpartition(":")[2]
        return "anything" if one["$ref"].endswith("/Any") else f"[{name}](types.md#{name.lower()})"
    if one["type"] == "array":
        return f"list of {_schema_type(one['items'])}"
    if one["type"] == "object":
        return f"mapping of {_schema_type(one['additionalProperties'])}"
    return str(one["type"])
