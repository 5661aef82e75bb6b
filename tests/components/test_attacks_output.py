"""Attacks by text on what components say in a deploy: the engine hands it on to the user's terminal as it is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from pulumi import InputPropertiesError

from gpu_pools.components.engine import log
from gpu_pools.components.provider import GpuPoolsProvider
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.errors import InvalidStackError
from tests.hostile import WORST, harmful

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("say", [log.info, log.warn, log.error])
def test_messages_of_components_carry_no_escape(say: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries escapes and turns of direction by an answer of a cloud, or the report of a node."""
    said: list[str] = []
    monkeypatch.setattr(importlib.import_module("pulumi.log"), say.__name__, lambda message, *_: said.append(message))
    for text in WORST:
        say(f"the node says: {text}\nremedy: none")
    assert not harmful("".join(said))
    assert all(message.endswith("\nremedy: none") for message in said)


def test_problems_that_another_language_is_told_carry_no_escape() -> None:
    """Tries them by names and keys of a program."""
    cluster = {"platform": "aks", **{text: text for text in WORST}}
    sharing = {text: {text: 1} for text in WORST}
    inputs: Any = {"cluster": cluster, "sharing": sharing, "pools": [{"name": text} for text in WORST]}
    with pytest.raises(InputPropertiesError) as raised:
        GpuPoolsProvider().construct("gpu", "gpu-pools:index:GpuPlatform", inputs)
    told = [one[key] for one in raised.value.errors or [] for key in ("property_path", "reason")]
    # Each text is wrong in the cluster, as a strategy and as a pool.
    assert len(told) >= 2 * 3 * len(WORST)
    assert not harmful("".join(told))
    assert "\n" not in "".join(told)


def test_problems_that_a_program_ends_with_carry_no_escape() -> None:
    """The text of a RunError, which the engine prints as it is."""
    for text in WORST:
        with pytest.raises(InvalidStackError) as raised:
            plan_config({"gpu-pools:cluster": {"platform": text, text: 1}, f"gpu-pools:{text}": 1})
        assert not harmful(str(raised.value))
        assert all(line.startswith(("- ", "    allowed: ", "    remedy:  ")) for line in str(raised.value).splitlines()[1:])
