"""What only the engine can show of the pack: that it starts the pack, takes its levels, limits and exceptions, stops on what is
mandatory, goes on after what is not known. All programs are in test_policy_programs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_pools.changes.steps import read_preview
from gpu_pools.text.errors import InvalidStackError
from tests.engine.pack_preview import Preview
from tests.policies.programs import BAD, GOOD, POOL, by_rollout, pool, program
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.pack_preview import Previewed

    Previewing = Callable[..., Previewed]

pytestmark = [pytest.mark.engine, pytest.mark.programs]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Preview:
    return Preview(tmp_path_factory.mktemp("pack"))


@pytest.fixture
def preview(engine: Preview) -> Previewing:
    return engine.of


def test_a_good_program_passes(preview: Previewing) -> None:
    done = preview(GOOD["operator, pools and configs"])
    assert done.code == 0, done.text
    assert "[mandatory]" not in done.text


@pytest.mark.parametrize(
    "rule", these(["spot-taint-written", "pool-taints-tolerated", "device-plugin-config"], ["device-plugin-config"])
)
def test_a_bad_program_is_stopped_with_the_message_of_its_rule(preview: Previewing, rule: str) -> None:
    done = preview(BAD[rule][0])
    assert done.code != 0, done.text
    assert f"{rule}" in done.text
    assert "repair: " in done.text


def test_a_stack_makes_a_rule_advisory(preview: Previewing) -> None:
    done = preview(BAD["spot-taint-written"][0], {"all": "advisory"})
    assert done.code == 0, done.text
    assert "spot-taint-written" in done.text


def test_a_stack_sets_limits(preview: Previewing) -> None:
    done = preview(program(pool()), {"max-gpus": {"gpus": 0}})
    assert done.code != 0, done.text
    assert "up to 1 GPUs; allowed: 0" in done.text


def test_labels_that_nodes_get_one_by_one_are_read_of_the_component_around_the_pool(preview: Previewing) -> None:
    done = preview(by_rollout(BAD["pool-config-exists"][0]))
    assert done.code != 0, done.text
    assert 'changedLabels["nvidia.com/device-plugin.config"]' in done.text


def test_an_exception_holds(preview: Previewing) -> None:
    exceptions = [{"resource": "gpu", "reason": "the taint comes next week", "until": "2999-01-01"}]
    done = preview(BAD["spot-taint-written"][0], {"spot-taint-written": {"exceptions": exceptions}})
    assert done.code == 0, done.text


def test_what_is_not_known_is_said_and_stops_nothing(preview: Previewing) -> None:
    done = preview(program(pool(**{**POOL, "scaleSetPriority": "(unknown)"})))
    assert done.code == 0, done.text
    assert "not known before the deploy: scaleSetPriority" in done.text


@pytest.mark.sweep
def test_a_stream_of_a_stopped_preview_is_whole_and_that_of_a_broken_program_is_refused(engine: Preview) -> None:
    code, text = engine.stream(BAD["spot-taint-written"][0])
    read = read_preview("events", text)
    assert code != 0
    assert [(one.rule, one.level) for one in read.findings] == [("spot-taint-written", "mandatory")]
    assert "gpu" in {step.name for step in read.steps}
    code, text = engine.stream(program(pool(), pool()))  # one name for two
    assert code != 0
    with pytest.raises(InvalidStackError, match="the preview failed"):
        read_preview("events", text)
