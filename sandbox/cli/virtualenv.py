"""Prints the virtual environment that the Pulumi.yaml of a program names; nothing where it names none.

For the `pulumi` of `make shell` (sandbox/on_path). The engine hands the options of Pulumi.yaml to the language host in its
requests (sdk/go/common/resource/plugin/langruntime_plugin.go, buildArgsForNewPlugin, v3.259.0), and the host that can be built
everywhere reads them from its command line alone (sdk/python/cmd/pulumi-language-python/main.go, v3.75.0). So it never hears of
`virtualenv`, and would run the program with the first Python on PATH.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

_NAMES = ("Pulumi.yaml", "Pulumi.yml")
_UNUSABLE = 1


def find(folder: Path) -> Path | None:
    """The virtual environment of the program in a folder, or of the nearest one above it.

    Args:
        folder: where the engine is started.
    """
    files = (place / name for place in (folder, *folder.parents) for name in _NAMES)
    project = next((path for path in files if path.is_file()), None)
    if project is None:
        return None
    try:
        said: Any = yaml.safe_load(project.read_text(encoding="utf-8"))
        named = said["runtime"]["options"]["virtualenv"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        # What is wrong with the file the engine says.
        return None
    return project.parent / str(named) if named else None


def main() -> int:
    """Print it; returns the exit status: 1 where it is no virtual environment."""
    place = find(Path.cwd())
    if place is None:
        return 0
    if not (place / "bin" / "python").exists():
        sys.stderr.write(f"{place}: no virtual environment, and Pulumi.yaml names it: make it with python -m venv {place}\n")
        return _UNUSABLE
    sys.stdout.write(f"{place.resolve()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
