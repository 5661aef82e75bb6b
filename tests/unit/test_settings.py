"""What a stack file says, as it is understood: each stack of data/settings/ against a readable golden file in tests/golden.

Between them the stacks write every key, and leave out whatever may be left out. After a wanted change: ``UPDATE_GOLDEN=1
venv/bin/pytest tests/unit/test_settings.py``, then read the difference.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from gpu_pools.hardware.models import GpuModel
from gpu_pools.platforms.known import parse_settings, try_parse_settings
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.stack.settings import config_value
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from tests.unit.golden import golden

STACKS = sorted((Path(__file__).parent / "data" / "settings").glob("*.yaml"))


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
    golden(f"settings-{stack.stem}.yaml", text)


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


@pytest.mark.parametrize(
    ("handed_over", "value"),
    [
        ('{"a": [1, true, null]}', {"a": [1, True, None]}),
        ("7", 7),
        ("aks", "aks"),
        ("", ""),
        ("[" * 100_000, "[" * 100_000),
        ("1" * 5_000, "1" * 5_000),
        ({"a": "1"}, {"a": "1"}),
        (None, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_as_the_engine_hands_it_over(handed_over: object, value: object) -> None:
    assert config_value(handed_over) == value


AKS_POOL = {"name": "gpu", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"}
MAGNUM_POOL = {"name": "gpu", "flavor": "g2", "count": 1, "sharing": "whole"}
EXISTING_POOL = {"name": "gpu", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"pool": "gpu"}, "sharing": "whole"}


def _told(**sections: object) -> list[tuple[str, str]]:
    """Path and message of all that is wrong with a stack that shares nothing and makes no cluster."""
    config = {f"gpu-pools:{key}": value for key, value in {"sharing": {"whole": {"exclusive": {}}}, **sections}.items()}
    _, problems = try_parse_settings(config)
    return [(problem.path, problem.message) for problem in problems.found]


@pytest.mark.parametrize(
    ("pools", "others"),
    [
        ([AKS_POOL], []),
        ([MAGNUM_POOL], []),
        ([EXISTING_POOL], []),
        (
            [{key: value for key, value in EXISTING_POOL.items() if key != "gpuModel"}],
            [("gpu-pools:pools[0].gpuModel", "is missing")],
        ),
        (
            [{key: value for key, value in EXISTING_POOL.items() if key != "nodeSelector"}],
            [("gpu-pools:pools[0].nodeSelector", "is missing")],
        ),
        (
            [{**AKS_POOL, "gpuModel": "a100-80gb", "gpusPerNode": 1}],
            [],
        ),
        ([AKS_POOL, "flavor"], [("gpu-pools:pools[1]", '"flavor" is not a mapping with name, hardware and sharing')]),
        ([["flavor"], AKS_POOL], [("gpu-pools:pools[0]", "a list of 1 is not a mapping with name, hardware and sharing")]),
        ({"flavor": 1}, [("gpu-pools:pools", "a mapping with flavor declares no pool")]),
        (None, [("gpu-pools:pools", "is missing")]),
        ([], [("gpu-pools:pools", "a list of 0 declares no pool")]),
    ],
)
def test_without_a_cluster_the_pools_are_those_of_the_likely_platform(pools: object, others: list[tuple[str, str]]) -> None:
    told = _told(pools=pools, flavors={"g2": {"gpuModel": "a100-80gb", "gpusPerNode": 1}})
    assert told == [("gpu-pools:cluster", "is missing"), *others]


def test_a_name_is_of_one_pool() -> None:
    cluster = {"platform": "existing"}
    assert _told(cluster=cluster, pools=[EXISTING_POOL, {**EXISTING_POOL, "name": "b"}, EXISTING_POOL, EXISTING_POOL]) == [
        ("gpu-pools:pools[2].name", '"gpu" is already the name of gpu-pools:pools[0]'),
        ("gpu-pools:pools[3].name", '"gpu" is already the name of gpu-pools:pools[0]'),
    ]
    nameless = {key: value for key, value in EXISTING_POOL.items() if key != "name"}
    assert _told(cluster=cluster, pools=[nameless, nameless]) == [
        ("gpu-pools:pools[0].name", "is missing"),
        ("gpu-pools:pools[1].name", "is missing"),
    ]


def test_whatever_is_wrong_is_raised_at_once() -> None:
    with pytest.raises(InvalidStackError) as caught:
        parse_settings({"gpu-pools:pools": [], "sharing": 7, "gpu-pools:verificaton": {}, "others:pools": 1, "gpu": 1})
    assert [problem.path for problem in caught.value.problems] == [
        *("sharing", "gpu-pools:verificaton", "gpu-pools:cluster", "gpu-pools:sharing", "gpu-pools:pools")
    ]
    with pytest.raises(InvalidStackError):
        parse_settings({"gpu-pools:cluster": {"platform": "existing"}, "gpu-pools:pools": []})


def test_text_that_a_terminal_would_obey_is_refused_in_the_sections_of_this_project_alone() -> None:
    cluster = {"platform": "existing"}
    told = _told(cluster=cluster, pools=[{**EXISTING_POOL, "labels": {"a.b/c": "\x1b"}}])
    assert ("gpu-pools:pools[0].labels.a.b/c", "holds \\x1b at character 1") in told
    config = {"others:x": "\x1b", "gpu-pools:cluster": cluster, "gpu-pools:pools": [EXISTING_POOL]}
    _, problems = try_parse_settings({**config, "gpu-pools:sharing": {"whole": {"exclusive": {}}}})
    assert not problems.found
