"""What the plan renders, read as strictly as anybody's files: `gpus check` finds nothing wrong in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.mig_parted import MIG_PARTED_CONFIG_MAP
from gpu_pools.existing.check import check_file
from gpu_pools.existing.imported import import_files
from gpu_pools.plan.planning import plan_config
from gpu_pools.sharing.mig import Mig
from gpu_pools.sharing.modes import parse_sharing
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import Problems
from gpu_pools.text.yaml_text import load_yaml
from tests.examples import examples
from tests.unit.test_properties import Drawn, well_formed_stacks

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.sharing.mode import Sharing

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
    # As JSON: PyYAML leaves a hash such as 51215e17 unquoted, which is a number to everybody else.
    path.write_text("\n---\n".join(map(json.dumps, [*documents, plan.operator_values])), encoding="utf-8")
    checked = check_file(str(path), DEVICE_PLUGIN, MIG_PARTED)
    assert len(checked.documents) == len(documents) + 1
    return [f"{one.severity} {one.path}: {one.message}" for one in checked.findings if one.severity != "unknown"]


@pytest.mark.parametrize("path", STACKS, ids=[path.stem.removeprefix("Pulumi.") for path in STACKS])
def test_nothing_is_wrong_with_what_the_stacks_render(path: Path, tmp_path: Path) -> None:
    assert _wrong(plan_config(read_stack_file(path)), tmp_path) == []


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(well_formed_stacks())
def test_nothing_is_wrong_with_what_any_stack_renders(tmp_path: Path, case: tuple[str, list[Drawn]]) -> None:
    assert _wrong(plan_config(load_yaml(case[0])["config"]), tmp_path) == []


def _imported_back(pool: PoolPlan, plan: Plan, folder: Path) -> set[Sharing]:
    """The declarations that the files of one pool mean."""
    (folder / "plugin.yaml").write_text(plan.device_plugin_configs[pool.config_key], encoding="utf-8")
    files = [str(folder / "plugin.yaml")]
    if pool.mig_config_key and isinstance(pool.sharing, Mig):
        only = load_yaml(plan.mig_parted_config)
        only["mig-configs"] = {"mine": only["mig-configs"][pool.mig_config_key]}
        (folder / "mig.yaml").write_text(yaml.safe_dump(only), encoding="utf-8")
        files.append(str(folder / "mig.yaml"))
    problems = Problems()
    found = {parse_sharing(sharing, "x", problems) for sharing in import_files(files).sharing.values()}
    assert not problems.found
    return found


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(well_formed_stacks())
def test_what_any_stack_renders_is_read_back_as_it_was_declared(tmp_path: Path, case: tuple[str, list[Drawn]]) -> None:
    plan = plan_config(load_yaml(case[0])["config"])
    for pool in plan.pools:
        declared = replace(pool.sharing, needs=None)
        if isinstance(declared, Mig) and plan.mig_strategy == "single":
            # Under single the file names nvidia.com/gpu whatever the node has: which it has, it cannot tell.
            declared = replace(declared, time_slicing=None)
        if not isinstance(declared, Mig) or pool.mig_config_key:
            assert declared in _imported_back(pool, plan, tmp_path)


def test_a_mistake_in_it_would_be_found(tmp_path: Path) -> None:
    """The control of the tests above."""
    plan = plan_config(read_stack_file(STACKS[0]))
    broken = {key: text.replace("replicas", "replica") for key, text in plan.device_plugin_configs.items()}
    (tmp_path / "one.yaml").write_text(broken[next(key for key in broken if key.startswith("time-slicing"))])
    assert {one.severity for one in check_file(str(tmp_path / "one.yaml")).findings} >= {"crash", "ignored"}
