"""Golden files: what a whole text or object was when somebody last looked at it; a change shows as its difference in git.

After a wanted change: ``UPDATE_GOLDEN=1 venv/bin/pytest tests/unit``, then read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "golden"
_UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))


class _Readable(yaml.SafeDumper):
    """A text of several lines stays one."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def golden(name: str, text: str) -> None:
    """Hold a text against the file of that name."""
    file = FOLDER / name
    if _UPDATE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


def golden_object(name: str, found: Any) -> None:
    """Hold an object against the YAML file of that name."""
    golden(name, yaml.dump(json.loads(json.dumps(found)), Dumper=_Readable, sort_keys=False, width=120, allow_unicode=True))
