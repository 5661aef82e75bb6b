"""What a stack file says, as it is understood: each stack of data/settings/ against a readable golden file in tests/golden.

Between them the stacks write every key, and leave out whatever may be left out. After a wanted change: ``UPDATE_GOLDEN=1
venv/bin/pytest tests/unit/test_settings.py``, then read the difference.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import yaml

from gpu_pools.hardware.models import GpuModel
from gpu_pools.stack.clusters import MagnumSettings
from gpu_pools.stack.settings import parse_settings
from gpu_pools.stack.stack_file import read_stack_file

STACKS = sorted((Path(__file__).parent / "data" / "settings").glob("*.yaml"))
GOLDEN = Path(__file__).parents[1] / "golden"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))


def _plain(value: object) -> object:
    """A GPU model by its name alone: what it can do is another table."""
    if isinstance(value, GpuModel):
        return value.key
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.stem)
def test_a_stack_is_understood(stack: Path) -> None:
    settings = parse_settings(read_stack_file(stack))
    text = yaml.safe_dump(_plain(settings), sort_keys=False, width=130)
    golden = GOLDEN / f"settings-{stack.stem}.yaml"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("platform", ["aks", "magnum", "existing"])
def test_a_plan_needs_no_more_of_the_cluster_than_its_platform(platform: str) -> None:
    stack = read_stack_file(Path(__file__).parent / "data" / "settings" / f"{platform}-least.yaml")
    settings = parse_settings({**stack, "gpu-pools:cluster": {"platform": platform}}, complete=False)
    assert settings.cluster.platform == platform


@pytest.mark.parametrize(
    ("of_template", "of_cluster", "expected"),
    [
        ("true", None, True),
        ("t", None, True),
        ("yes", None, True),
        ("y", None, True),
        ("ON ", None, True),
        ("1", None, True),
        ("2", None, False),
        (None, None, False),
        (None, "true", True),
        ("true", "false", False),
        ("false", "true", True),
    ],
)
def test_labels_turn_the_autoscaler_on(of_template: str | None, of_cluster: str | None, expected: bool) -> None:  # noqa: FBT001
    stack = dict(read_stack_file(Path(__file__).parent / "data" / "settings" / "magnum-template.yaml"))
    cluster = stack["gpu-pools:cluster"]
    assert isinstance(cluster, dict)
    if of_template is not None:
        cluster["template"]["labels"] = {"auto_scaling_enabled": of_template}
    if of_cluster is not None:
        cluster["labels"] = {"auto_scaling_enabled": of_cluster}
    settings = parse_settings(stack)
    assert isinstance(settings.cluster, MagnumSettings)
    assert settings.cluster.autoscales is expected
