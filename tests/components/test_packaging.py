"""The components keep what their schema promises; test_provider.py has the schema."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pulumi
import pytest

COMPONENTS = Path(__file__).parents[2] / "components"


def classes() -> list[type[pulumi.ComponentResource]]:
    """Every public component."""
    found = []
    for path in sorted(COMPONENTS.glob("[a-z]*.py")):
        module = importlib.import_module(f"components.{path.stem}")
        for _, entry in inspect.getmembers(module, inspect.isclass):
            own = entry.__module__ == module.__name__ and issubclass(entry, pulumi.ComponentResource)
            if own and entry.__name__ != "SharingDeclaration":
                found.append(entry)
    return found


@pytest.mark.parametrize("component", classes(), ids=lambda component: component.__name__)
def test_every_public_output_is_registered(component: type[pulumi.ComponentResource]) -> None:
    annotated = [entry for cls in component.__mro__ for entry in inspect.get_annotations(cls).items()]
    declared = {name for name, type_ in annotated if "Output" in str(type_)}
    sources = "".join(inspect.getsource(cls) for cls in component.__mro__ if cls.__module__.startswith("components"))
    registered = set(re.findall(r'"(\w+)": self\.\1', sources))
    assert declared
    assert declared <= registered


@pytest.mark.parametrize("path", sorted(COMPONENTS.glob("*.py")), ids=lambda path: path.name)
def test_annotations_are_not_postponed(path: Path) -> None:
    assert "\nfrom __future__ import annotations" not in path.read_text()
