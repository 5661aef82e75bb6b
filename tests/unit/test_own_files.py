"""What the plan renders, read as strictly as anybody's files: `gpus check` finds nothing wrong in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from gpus.existing.check import check_file
from gpus.plan import DEVICE_PLUGIN_CONFIG_MAP, MIG_PARTED_CONFIG_MAP, plan_config
from gpus.stack_file import load_yaml, read_stack_file
from tests.unit.test_properties import Drawn, well_formed_stacks

if TYPE_CHECKING:
    from gpus.plan import Plan

#: Of gpu-operator v26.7.0, the newest chart that a stack can choose.
DEVICE_PLUGIN = "0.20"
MIG_PARTED = (0, 15, 0)
STACKS = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))


def _wrong(plan: Plan, folder: Path) -> list[str]:
    """What is found in everything that the plan gives the operator, but for what no file alone can tell (`unknown`)."""
    maps = {DEVICE_PLUGIN_CONFIG_MAP: plan.device_plugin_configs, MIG_PARTED_CONFIG_MAP: {"config.yaml": plan.mig_parted_config}}
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "gpu-operator"}, "data": dict(data)}
        for name, data in maps.items()
    ]
    path = folder / "rendered.yaml"
    path.write_text(yaml.safe_dump_all([*documents, plan.operator_values]), encoding="utf-8")
    checked = check_file(str(path), DEVICE_PLUGIN, MIG_PARTED)
    assert len(checked.documents) == len(documents) + 1
    return [f"{one.severity} {one.path}: {one.message}" for one in checked.findings if one.severity != "unknown"]


@pytest.mark.parametrize("path", STACKS, ids=[path.stem.removeprefix("Pulumi.") for path in STACKS])
def test_nothing_is_wrong_with_what_the_stacks_render(path: Path, tmp_path: Path) -> None:
    assert _wrong(plan_config(read_stack_file(path)), tmp_path) == []


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(well_formed_stacks())
def test_nothing_is_wrong_with_what_any_stack_renders(tmp_path: Path, case: tuple[str, list[Drawn]]) -> None:
    assert _wrong(plan_config(load_yaml(case[0])["config"]), tmp_path) == []


def test_a_mistake_in_it_would_be_found(tmp_path: Path) -> None:
    """The control of the tests above."""
    plan = plan_config(read_stack_file(STACKS[0]))
    broken = {key: text.replace("replicas", "replica") for key, text in plan.device_plugin_configs.items()}
    (tmp_path / "one.yaml").write_text(broken[next(key for key in broken if key.startswith("time-slicing"))])
    assert {one.severity for one in check_file(str(tmp_path / "one.yaml")).findings} >= {"crash", "ignored"}
