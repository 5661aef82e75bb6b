"""The copy of the stack file that the sandbox's engine works with: as the user wrote it, with the simulated kubelets' speed."""

from __future__ import annotations

import pytest

from gpu_pools.text.yaml_text import load_yaml
from sandbox.stack.scaled import OBSERVED, with_observability, with_sync

SECTION = "gpu-pools:operator"


@pytest.mark.parametrize(
    ("operator", "found"),
    [
        ("", {"kubeletSyncSeconds": 2}),
        ("  gpu-pools:operator: {}\n", {"kubeletSyncSeconds": 2}),
        ("  gpu-pools:operator: {driver: preinstalled}\n", {"driver": "preinstalled", "kubeletSyncSeconds": 2}),
        ("  gpu-pools:operator:\n    # why\n    driver: operator\n", {"driver": "operator", "kubeletSyncSeconds": 2}),
        ("  gpu-pools:operator: {kubeletSyncSeconds: 30}\n", {"kubeletSyncSeconds": 30}),
        ("  gpu-pools:operator:\n    secure: v1:abc\n", {"secure": "v1:abc"}),
        ("  gpu-pools:operator: mistaken\n", "mistaken"),
        ("  gpu-pools:operator:\n", None),
    ],
)
def test_the_speed_is_added_and_nothing_else_is_changed(operator: str, found: object) -> None:
    text = f"# a stack\nconfig:\n  a:b: yes  # a text to the engine\n{operator}  gpu-pools:pools: []\nencryptionsalt: v1:x\n"
    scaled = with_sync(text)
    assert load_yaml(scaled)["config"].pop(SECTION) == found
    kept = iter(scaled)
    assert all(character in kept for character in text)
    before, after = load_yaml(text), load_yaml(scaled)
    before["config"].pop(SECTION, None)
    after["config"].pop(SECTION)
    assert before == after


@pytest.mark.parametrize("text", ["", "config:\n", "config: {}\n", "config: [", "- 1\n"])
def test_what_is_no_stack_file_stays_for_others_to_complain_about(text: str) -> None:
    assert with_sync(text) == text


def test_a_config_in_one_line() -> None:
    assert load_yaml(with_sync("config: {a:b: c}\n"))["config"] == {SECTION: {"kubeletSyncSeconds": 2}, "a:b": "c"}


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("", dict(OBSERVED)),
        ("  gpu-pools:observability: {}\n", {}),
        ("  gpu-pools:observability: {to: none}\n", {"to": "none"}),
        ("  gpu-pools:observability:\n", None),
    ],
)
def test_a_stack_that_is_observed_has_the_section(section: str, found: object) -> None:
    text = f"# a stack\nconfig:\n  a:b: c\n{section}  gpu-pools:pools: []\n"
    written = load_yaml(with_observability(text))["config"]
    assert written.pop("gpu-pools:observability") == found
    assert written == {"a:b": "c", "gpu-pools:pools": []}
    assert with_observability("config: [") == "config: ["
