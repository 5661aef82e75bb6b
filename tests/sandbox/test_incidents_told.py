"""An id in a warning comes with a line of its own, whatever the stack."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpus.plan import plan_config
from gpus.stack_file import read_stack_file
from sandbox import __main__ as command_line
from sandbox.incidents import REFERENCE, meanings

STACKS = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))


@pytest.mark.parametrize("path", STACKS, ids=[path.stem for path in STACKS])
def test_every_incident_that_a_stacks_warnings_name_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = plan_config(read_stack_file(path)).pools
    named = {name for pool in pools for warning in pool.warnings for name in re.findall(r"\b[A-Z]\d\d\b(?=[^(]*\))", warning)}
    assert {line.partition(":")[0] for line in meanings(pools)} == named
    command_line._tell_incidents(pools)
    assert (REFERENCE in capsys.readouterr().out) == bool(named)
