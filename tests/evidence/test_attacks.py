"""Attacks on what a stack's evidence rests on in the cluster: the program and the expectations, replaced under their names."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from gpu_pools.evidence.document import evidence_json
from gpu_pools.evidence.page import evidence_page
from gpu_pools.evidence.shared_text import TRUST
from gpu_pools.evidence.table import evidence_table
from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.proof.verifier_pods import EXPECTATION_FILE, PROGRAM_FILE, expectation_file
from tests.evidence.fleets import PLAN, POOLS, PROGRAM, fleet

if TYPE_CHECKING:
    from tests.evidence.fleets import Fleet


def replace_program(found: Fleet, content: bytes) -> None:
    found.config_maps[PROGRAM.config_map] = {PROGRAM_FILE: base64.b64encode(content).decode()}


@pytest.mark.parametrize("content", [b"", b"another program", b"the program\n"])
def test_attack_another_program_under_the_same_name_is_a_difference(content: bytes) -> None:
    """Every node's report is green and fresh; the program in the ConfigMap is not the deployed one."""
    found = fleet(2)
    assert found.judged().verdict is Verdict.PROVEN
    replace_program(found, content)
    judged = found.judged()
    assert judged.verdict is Verdict.DIFFERS
    assert judged.verdict.exit_code == 1
    assert not [node for pool in judged.pools for node in pool.nodes if node.verdict is Verdict.PROVEN]
    table = evidence_table(judged, colour=False)
    for shown in (table, evidence_page(judged), json.dumps(evidence_json(judged))):
        assert "W90" in shown
        assert PROGRAM.sha256 in shown
    assert "remedy: Run `pulumi up`" in table


@pytest.mark.parametrize("text", ["\0", "=", "ä"])
def test_attack_a_program_that_is_no_base64_is_a_difference(text: str) -> None:
    """Nothing that cannot be decoded counts as the program, and it stops no evidence."""
    found = fleet()
    found.config_maps[PROGRAM.config_map] = {PROGRAM_FILE: text}
    assert found.judged().verdict is Verdict.DIFFERS


def test_attack_a_program_that_is_taken_away_leaves_nothing_proven() -> None:
    """Delete the ConfigMap, or rename its key: no pod could start again."""
    for change in (lambda maps: maps.pop(PROGRAM.config_map), lambda maps: maps.update({PROGRAM.config_map: {"x": "eA=="}})):
        found = fleet()
        change(found.config_maps)
        judged = found.judged()
        assert judged.verdict is Verdict.CANNOT_TELL
        assert "W90" in evidence_table(judged, colour=False)


def test_attack_a_weaker_expectation_under_the_same_name_proves_nothing() -> None:
    """Replace one pool's expectation: that pool is not proven, the others are."""
    found = fleet()
    name = expectation_file(PLAN, PLAN.pools[0]).name
    found.config_maps[name] = {EXPECTATION_FILE: json.dumps({"node": {"allocatable": {}}})}
    judged = found.judged()
    assert [pool.verdict for pool in judged.pools if pool.declared.name == POOLS[0]] == [Verdict.CANNOT_TELL]
    assert judged.verdict is Verdict.CANNOT_TELL


def test_the_verdict_says_what_it_rests_on() -> None:
    """A writer of node status can still forge a report: every form of the verdict says so, the green one too."""
    judged = fleet().judged()
    assert judged.verdict is Verdict.PROVEN
    assert TRUST in evidence_table(judged, colour=False)
    assert TRUST.replace("'", "&#x27;") in evidence_page(judged)
    assert evidence_json(judged)["trust"] == TRUST
