"""No false red and no false green: a node passes exactly where it is what was declared, whatever was declared."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.verifier.compare_gpus import compare_gpus
from gpu_pools.verifier.compare_node import compare_node
from gpu_pools.verifier.documents import as_json, read
from gpu_pools.verifier.expectation import parse_expectation
from gpu_pools.verifier.findings import Findings, Verdict
from gpu_pools.verifier.mps import compare_mps
from gpu_pools.verifier.reading import Reading, failed
from tests.examples import examples
from tests.verifier import nodes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

FLEETS = 1000


def compared(node: nodes.Node) -> Findings:
    findings = Findings()
    compare_gpus(node.expected, node.nvml, findings)
    if node.expected.mps and node.mps:
        compare_mps(node.expected.mps, node.mps, findings)
    compare_node(node.expected, node.kubernetes, node.nvml, findings)
    return findings


# One thing that is wrong, on any node whatever was declared for it.
WRONG: dict[str, Callable[[nodes.Node], nodes.Node]] = {
    "not ready": lambda node: _kubernetes(node, ready=False),
    "one more than declared": lambda node: _kubernetes(
        node, allocatable={name: count + 1 for name, count in node.kubernetes.allocatable.items()}
    ),
    "nothing offered": lambda node: _kubernetes(node, allocatable={}),
    "a foreign resource": lambda node: _kubernetes(node, allocatable={**node.kubernetes.allocatable, "nvidia.com/other": 1}),
    "no labels": lambda node: _kubernetes(node, labels={}),
    "an edited configuration": lambda node: _kubernetes(node, config=replace(node.kubernetes.config, sha256="0" * 64)),  # type: ignore[type-var]
    "no pods": lambda node: _kubernetes(node, pods=()),
    "one GPU less": lambda node: replace(node, nvml=replace(node.nvml, gpus=node.nvml.gpus[1:])),  # type: ignore[index]
    "no GPU list": lambda node: replace(node, nvml=replace(node.nvml, gpus=failed(15, "nvmlDeviceGetCount"))),
}


def _kubernetes(node: nodes.Node, **changes: Any) -> nodes.Node:
    return replace(node, kubernetes=replace(node.kubernetes, **changes))


@pytest.mark.sweep
def test_no_node_of_a_thousand_healthy_fleets_is_called_different_and_a_sick_one_is() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=FLEETS, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(nodes.fleets(), st.sampled_from(sorted(WRONG)), st.randoms(use_true_random=False))
    def holds(declared: list[nodes.Declaration], wrong: str, chance: random.Random) -> None:
        fleet = nodes.healthy_fleet(declared)
        for node in fleet:
            findings = compared(node)
            assert findings.verdict is Verdict.HOLDS, [node.kubernetes.name, *findings.differences, *findings.unknown]
        assert compared(WRONG[wrong](chance.choice(fleet))).verdict is Verdict.DIFFERS
        seen.update(["fleets", wrong, *(one.key for one in declared), *(next(iter(one.sharing)) for one in declared)])
        seen["nodes"] += len(fleet)

    holds()
    assert seen["fleets"] >= FLEETS
    assert seen["nodes"] > FLEETS
    for what in (*nodes.KNOWN, *WRONG, "exclusive", "timeSlicing", "mps", "mig"):
        assert seen[what], f"{what} never came"


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(nodes.declaration_pairs())
def test_a_node_of_another_declaration_passes_only_where_nothing_tells_them_apart(
    drawn: tuple[dict[str, Any], dict[str, Any], str, int],
) -> None:
    declared, actual, key, count = drawn
    plan, pool = nodes.plan_and_pool(declared, key=key, count=count)
    other_plan, other = nodes.plan_and_pool(actual, key=key, count=count)
    node, real = nodes.healthy(plan, pool), nodes.healthy(other_plan, other)
    # Labels, configuration and pods are as declared: only what the operands made of them is another.
    labels = {**real.kubernetes.labels, **pool.labels, "nvidia.com/mig.config.state": "success"}
    kubernetes = replace(real.kubernetes, labels=labels, config=node.kubernetes.config, pods=node.kubernetes.pods)
    findings = compared(replace(node, nvml=real.nvml, mps=real.mps, kubernetes=kubernetes))
    same = (pool.advertises, pool.gfd_labels, pool.nvml) == (other.advertises, other.gfd_labels, other.nvml)
    assert findings.verdict is (Verdict.HOLDS if same else Verdict.DIFFERS)


def test_the_plan_s_document_survives_json() -> None:
    plan, pool = nodes.plan_and_pool({"mps": {"replicas": 7}}, count=2)
    document = node_expectation(plan, pool)
    assert as_json(parse_expectation(json.loads(json.dumps(document)))) == document


def test_a_reading_survives_json() -> None:
    reading = nodes.healthy(*nodes.plan_and_pool({"mig": {"layout": {"3g.40gb": 2}}})).nvml
    assert read(Reading, json.loads(json.dumps(as_json(reading)))) == reading
