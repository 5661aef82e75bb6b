"""Attacks by text on the verifier's output: by hand on a node, in a pod's log, in a termination message, in a condition."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.report import termination_message, text
from tests.hostile import WORST, harmful
from tests.verifier import nodes
from tests.verifier.test_program import SEVEN, assertion, healthy, pyz, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.verifier.conftest import Bench

__all__ = ["pyz"]


def test_what_a_node_is_called_and_answers_reaches_nobody_s_terminal_as_more_than_text() -> None:
    """Tries escapes, other lines and turns of direction by pods, labels and answers of NVML."""
    for evil in WORST:
        findings = Findings()
        findings.differs(Where(evil, 0, evil), evil, {evil: 1}, [evil], "mig-layout", evil)
        findings.note(evil)
        for shown in (
            text(healthy().expected, assertion(findings)),
            termination_message(healthy().expected, assertion(findings)),
        ):
            assert not harmful(shown)
        assert len(text(healthy().expected, assertion(findings)).splitlines()) == 8
        assert len(termination_message(healthy().expected, assertion(findings)).splitlines()) == 1


@pytest.mark.programs
@pytest.mark.parametrize("command", [("assert",), ("assert", "--json"), ("export",)], ids=" ".join)
def test_a_gpu_that_calls_itself_by_escapes(pyz: Path, bench: Bench, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Tries them by a name in NVML, and by the pool in a document."""
    evil = "\x1b]0;pwned\x07\x9b31m\u202e"
    machine = healthy().machine
    bench.put(replace(machine, gpus=(replace(machine.gpus[0], name=f"A100 {evil}"),)))
    path = tmp_path / "expectation.json"
    path.write_text(json.dumps({**node_expectation(*nodes.plan_and_pool(SEVEN)), "pool": evil}))
    more = ("--expect", path, "--pause", 0) if command[0] == "assert" else ()
    done = run(pyz, *command, "--only", "nvml", *more)
    assert "Traceback" not in done.stderr
    assert "pwned" in done.stdout + done.stderr
    assert not harmful(done.stdout + done.stderr)
