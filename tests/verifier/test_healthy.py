"""No false red and no false green: a node passes exactly where it is what was declared, whatever was declared."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings

from gpus.node_expectation import node_expectation
from tests.verifier import nodes
from verifier.compare_gpus import compare_gpus
from verifier.compare_node import compare_node
from verifier.documents import as_json, read
from verifier.expectation import parse_expectation
from verifier.findings import Findings, Verdict
from verifier.mps import compare_mps
from verifier.reading import Reading


def compared(node: nodes.Node) -> Findings:
    findings = Findings()
    compare_gpus(node.expected, node.nvml, findings)
    if node.expected.mps and node.mps:
        compare_mps(node.expected.mps, node.mps, findings)
    compare_node(node.expected, node.kubernetes, node.nvml, findings)
    return findings


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(nodes.declarations())
def test_a_healthy_node_is_never_called_different(drawn: tuple[dict[str, Any], str, int]) -> None:
    sharing, key, count = drawn
    findings = compared(nodes.healthy(*nodes.planned(sharing, key=key, count=count)))
    assert findings.verdict is Verdict.HOLDS, [*findings.differences, *findings.unknown]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(nodes.declaration_pairs())
def test_a_node_of_another_declaration_passes_only_where_nothing_tells_them_apart(
    drawn: tuple[dict[str, Any], dict[str, Any], str, int],
) -> None:
    declared, actual, key, count = drawn
    plan, pool = nodes.planned(declared, key=key, count=count)
    other_plan, other = nodes.planned(actual, key=key, count=count)
    node, real = nodes.healthy(plan, pool), nodes.healthy(other_plan, other)
    # Labels, configuration and pods are as declared: only what the operands made of them is another.
    labels = {**real.kubernetes.labels, **pool.labels, "nvidia.com/mig.config.state": "success"}
    kubernetes = replace(real.kubernetes, labels=labels, config=node.kubernetes.config, pods=node.kubernetes.pods)
    findings = compared(replace(node, nvml=real.nvml, mps=real.mps, kubernetes=kubernetes))
    same = (pool.advertises, pool.gfd_labels, pool.nvml) == (other.advertises, other.gfd_labels, other.nvml)
    assert findings.verdict is (Verdict.HOLDS if same else Verdict.DIFFERS)


def test_the_plan_s_document_survives_json() -> None:
    plan, pool = nodes.planned({"mps": {"replicas": 7}}, count=2)
    document = node_expectation(plan, pool)
    assert as_json(parse_expectation(json.loads(json.dumps(document)))) == document


def test_a_reading_survives_json() -> None:
    reading = nodes.healthy(*nodes.planned({"mig": {"layout": {"3g.40gb": 2}}})).nvml
    assert read(Reading, json.loads(json.dumps(as_json(reading)))) == reading
