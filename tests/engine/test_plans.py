"""The engine is held to the plan that was approved: a saved plan of the real engine, on the unchanged program.

It is experimental in the engine; what must hold here is that rightful deploys, the first one too, come to their end with one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK = """\
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: shop
    location: westeurope
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing:
    notebooks: {timeSlicing: {replicas: 4}}
  gpu-pools:verification: {enabled: false}
  gpu-pools:pools:
    - {name: notebooks, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: notebooks}
"""


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK, "shop")
    made.preview().ok()
    return made


def _plan(trial: Trial, path: Path) -> Path:
    trial.engine("preview", "--json", "--save-plan", str(path)).ok()
    return path


def _up(trial: Trial, plan: Path) -> Run:
    return trial.engine("up", "--yes", "--skip-preview", "--non-interactive", "--plan", str(plan))


def test_the_first_deploy_comes_to_its_end_by_its_plan(trial: Trial, tmp_path: Path) -> None:
    """What does not exist yet must not look like another dependency once it does."""
    _up(trial, _plan(trial, tmp_path / "first.json")).ok()
    assert trial.planned_steps() == []


def test_a_stack_file_that_was_edited_after_the_approval_is_refused(trial: Trial, tmp_path: Path) -> None:
    """Another change is deployed than the one that was approved: the engine refuses it, and nothing of it is done."""
    trial.write(STACK.replace("replicas: 4", "replicas: 8"))
    approved = _plan(trial, tmp_path / "approved.json")
    trial.write(STACK.replace("count: 1, sharing", "count: 2, sharing"))
    refused = _up(trial, approved)
    assert refused.code != 0
    assert "violates plan" in refused.text
    trial.write(STACK)
    assert trial.planned_steps() == []


def test_the_approved_change_is_deployed(trial: Trial, tmp_path: Path) -> None:
    trial.write(STACK.replace("replicas: 4", "replicas: 8"))
    _up(trial, _plan(trial, tmp_path / "plan.json")).ok()
    assert trial.planned_steps() == []
