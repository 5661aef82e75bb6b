"""What others' linters say of the pipelines; what they cannot know is in tests/unit/test_workflows.py and tests/pipelines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.patience import scaled

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

pytestmark = pytest.mark.programs


@pytest.mark.sweep
def test_the_linter_of_workflows_finds_nothing() -> None:
    linter = find_built("actionlint", Progress()) / "actionlint"
    assert WORKFLOWS
    done = subprocess.run([linter, *WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert done.returncode == 0, done.stdout + done.stderr


def _zizmor(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Asks nobody: what only a forge knows (whether an action's commit is of its repository) it cannot see."""
    command = [Path(sys.executable).parent / "zizmor", "--offline", "--no-progress", "--config", ROOT / ".github" / "zizmor.yml"]
    around = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run([*command, *arguments], env=around, capture_output=True, text=True, check=False, timeout=scaled(60))


def test_the_linter_of_attackers_finds_nothing() -> None:
    done = _zizmor(*WORKFLOWS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_ignored_has_its_reason() -> None:
    told = [line for path in WORKFLOWS for line in path.read_text(encoding="utf-8").splitlines() if "zizmor: ignore" in line]
    told += [line for line in (ROOT / ".github" / "zizmor.yml").read_text().splitlines() if "disable: true" in line]
    assert len(told) == 2
    for line in told:
        assert len(line.partition("#")[2].split()) > 5, line


def test_the_linter_sees_a_workflow_that_hands_an_identity_to_strangers(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(
        "on: pull_request_target\npermissions: {id-token: write}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n"
        "    steps:\n      - run: echo ${{ github.event.pull_request.title }}\n"
    )
    done = _zizmor(path)
    assert done.returncode != 0
    assert "dangerous-triggers" in done.stdout
    assert "template-injection" in done.stdout
