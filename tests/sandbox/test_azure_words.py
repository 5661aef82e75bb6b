"""The words of the stand-in of Azure: each has an entry that says where the service's were seen, and none is left over."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from sandbox.clouds.azure_errors import AzureError, entry_of, invalid, missing, refusals

CLOUDS: Final = Path(__file__).parents[2] / "sandbox" / "clouds"
#: owner/repository#number, or a page of Azure's documentation.
SOURCE: Final = r"[\w.-]+/[\w.-]+#\d+|azure-aks-docs [\w-]+"


def codes() -> set[str]:
    """Every code that is written in a call of AzureError."""
    found: set[str] = set()
    for path in CLOUDS.glob("azure*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in refusals():
                found.add(node.value)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "AzureError":
                code = node.args[1]
                found |= {code.value} if isinstance(code, ast.Constant) and isinstance(code.value, str) else set()
    return found


def test_every_code_has_an_entry_and_every_entry_a_use() -> None:
    # InUseSubnetCannotBeDeleted and …Updated are put together.
    assert codes() | {"InUseSubnetCannotBeDeleted", "InUseSubnetCannotBeUpdated"} == {*refusals()}


def test_every_entry_says_where_it_was_seen_or_that_it_was_not() -> None:
    for code, entries in refusals().items():
        for entry in entries:
            for source in (entry["seen"], *entry.get("details", {}).values()):
                assert source is None or re.fullmatch(SOURCE, source), (code, source)


def test_most_of_them_were_seen() -> None:
    entries = [entry for those in refusals().values() for entry in those]
    assert sum(entry["seen"] is not None for entry in entries) > len(entries) / 2


def test_a_refusal_in_other_words_is_an_error_of_the_stand_in() -> None:
    with pytest.raises(LookupError, match="has no text of PropertyChangeNotAllowed like: No"):
        AzureError(400, "PropertyChangeNotAllowed", "No")
    with pytest.raises(LookupError):
        AzureError(400, "Nothing", "Changing property 'x' is not allowed.")


def test_the_entry_of_a_refusal_is_found() -> None:
    assert entry_of("PropertyChangeNotAllowed", "Changing property 'properties.maxPods' is not allowed.")["seen"]
    assert "Error details: it is too long." in str(invalid("x", "it is too long"))
    assert str(missing("x")).startswith('Code="InvalidParameter"')
