"""An id in a warning comes with a line of its own, whatever the stack."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.incidents import named
from sandbox import __main__ as command_line

STACKS = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))


@pytest.mark.parametrize("path", STACKS, ids=[path.stem for path in STACKS])
def test_every_incident_that_a_stacks_warnings_name_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = plan_config(read_stack_file(path)).pools
    wanted = named(warning for pool in pools for warning in pool.warnings)
    command_line._tell_incidents(pools)
    said = capsys.readouterr().out
    assert re.findall(r"^- ([A-Z]\d\d): ", said, re.MULTILINE) == list(wanted)
    assert said.count("docs/reference/rules.md#") == len(wanted)
