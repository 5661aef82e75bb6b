"""The files that are written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ARGUMENTS: Final = ROOT / "components" / "arguments" / "stack.py"
MODE_ARGUMENTS: Final = ROOT / "components" / "arguments" / "modes.py"
SCHEMA: Final = ROOT / "components" / "schema.json"
COMPONENT_PAGES: Final = ROOT / "docs" / "reference" / "components"
PROPERTIES: Final = ROOT / "docs" / "reference" / "aks-properties.md"
AZURE_TYPES: Final = ROOT / "gpu_pools" / "platforms" / "aks" / "azure_native.json"
STACK_REFERENCE: Final = ROOT / "docs" / "reference" / "stack.md"
