"""The linter of GitHub's ecosystem reads the pipelines; what it cannot know is in tests/unit/test_workflows.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.progress import Progress
from sandbox.toolchain import find_built

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.programs


def test_the_linter_finds_nothing() -> None:
    linter = find_built("actionlint", Progress()) / "actionlint"
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert files
    done = subprocess.run([linter, *files], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
