"""What proves a deploy, as the API server gets it: whole objects and documents against golden files in tests/golden/proof.

The verifier's rights and its policy are tried in tests/sandbox/test_verifier_rights.py with a real API server, its pods on
simulated nodes; here every field of them is held, so that none changes unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.changer_rights import POLICY as CHANGERS
from gpu_pools.proof.changer_rights import changer_policy_binding_spec, changer_policy_spec, changer_rules, slot_rules
from gpu_pools.proof.key_wait import KEY_WAIT, KEYS_LEFT, key_wait_spec, keys_left_spec
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.smoke_test import SMOKE_TEST_NAMESPACE, smoke_tests
from gpu_pools.proof.verifier_pods import (
    CHANGER_FILE,
    SERVICE_ACCOUNT,
    Changer,
    Program,
    network_policy_spec,
    program_name,
    verifier_daemon_set_spec,
)
from gpu_pools.proof.verifier_reports import no_reports, reports
from gpu_pools.proof.verifier_rights import (
    ANNOTATION,
    CHANGE_ANNOTATION,
    CONDITION,
    MOST_ANNOTATION,
    POLICY,
    ROLE,
    VERIFIER_NAMESPACE,
    cluster_rules,
    namespace_rules,
    policy_binding_spec,
    policy_spec,
)
from gpu_pools.stack.kubernetes_names import CHANGED_LABELS, DEVICE_PLUGIN_CONFIG_LABEL
from gpu_pools.verifier import evidence, names
from gpu_pools.verifier.changer import living_node
from gpu_pools.verifier.hook_programs import node_traces
from tests.unit.golden import golden_object
from tests.unit.stacks import TWO_A100, aks, existing, magnum, plan_of

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan, PoolPlan

SHA256 = "5" * 64
PROGRAM = Program(program_name(SHA256), "d" * 64, SHA256)
CHANGER = Changer(program_name("c" * 64, file=CHANGER_FILE), "c" * 64)
WAITS = "mirror.example.com/busybox:1.37"
IMAGES = {
    "image": f"registry.example.com/python:3.12@sha256:{'7' * 64}",
    "smokeTestImage": "registry.example.com/vectoradd:1",
}
PER_GPU = {
    "gpus": [{"index": 0, "layout": {"1g.10gb": 4, "3g.40gb": 1}}, {"index": 1, "layout": {}}],
    "timeSlicing": {"replicas": 2},
}

STACKS = {
    "aks-mig": aks(
        {"vmSize": TWO_A100, "taints": ["sku=gpu:NoSchedule"], "labels": {"team": "a"}, "minimum": {"driver": "470.1"}},
        sharing={"cut": {"mig": PER_GPU}},
        verification={**IMAGES, "startupTaint": True, "deadlineSeconds": 900, "intervalSeconds": 120},
    ),
    "aks-mps": aks(
        {"osSku": "AzureLinux", "minimum": {"cuda": "12.4"}},
        sharing={"shared": {"mps": {"replicas": 4}}},
        verification=IMAGES,
    ),
    "existing-time-slicing": existing(
        {"driver": "preinstalled"},
        sharing={"sliced": {"timeSlicing": {"replicas": 4, "renameByDefault": True}}},
        cluster={"context": "shop"},
        verification=IMAGES,
    ),
    "magnum-exclusive": magnum(verification=IMAGES),
    "magnum-rollout": magnum(
        {"rollout": {"maxUnavailable": 2, "drainTimeoutSeconds": 30, "podsThatStay": "delete"}}, verification=IMAGES
    ),
}


def _pool_objects(plan: Plan, pool: PoolPlan) -> dict[str, Any]:
    return {
        "expectation": node_expectation(plan, pool),
        "verifier": verifier_daemon_set_spec(plan, pool, PROGRAM.config_map, SHA256, changer=CHANGER),
        "smokeTests": {test.name: test.spec for test in smoke_tests(plan, pool)},
    }


@pytest.mark.parametrize("name", STACKS)
def test_objects_of_a_stack(name: str) -> None:
    plan = plan_of(STACKS[name])
    (pool,) = plan.pools
    golden_object(f"proof/{name}.yaml", {**_pool_objects(plan, pool), "reports": reports(plan, PROGRAM)})


def test_what_waits_for_keys() -> None:
    plan = plan_of(STACKS["aks-mig"])
    golden_object("proof/keys.yaml", {KEY_WAIT: key_wait_spec(plan, WAITS), KEYS_LEFT: keys_left_spec(plan, WAITS)})


def test_what_verifiers_may_do_in_a_cluster() -> None:
    rights = {
        "namespaces": [VERIFIER_NAMESPACE, SMOKE_TEST_NAMESPACE],
        "serviceAccount": SERVICE_ACCOUNT,
        "role": ROLE,
        "rules": {"cluster": cluster_rules(), **namespace_rules()},
        "networkPolicy": network_policy_spec(),
        "policy": {"name": POLICY, "spec": policy_spec()},
        "binding": policy_binding_spec(),
    }
    golden_object("proof/rights.yaml", rights)


def test_what_changers_may_do_in_a_cluster() -> None:
    rights = {
        "rules": {"cluster": changer_rules(), VERIFIER_NAMESPACE: slot_rules()},
        "nodes": policy_spec(changers=True),
        "pods": {"name": CHANGERS, "spec": changer_policy_spec(), "binding": changer_policy_binding_spec()},
    }
    golden_object("proof/changer-rights.yaml", rights)


def test_the_policy_lets_through_what_the_verifier_writes() -> None:
    assert (CONDITION, ANNOTATION, MOST_ANNOTATION) == (evidence.CONDITION, evidence.ANNOTATION, evidence.MOST_BYTES)
    assert (CHANGE_ANNOTATION, CHANGED_LABELS) == (living_node.ANNOTATION, (names.CONFIG_LABEL, names.MIG_CONFIG_LABEL))
    assert (CHANGE_ANNOTATION, DEVICE_PLUGIN_CONFIG_LABEL) == (node_traces.CHANGE, node_traces.PLUGIN)


def test_of_several_pools_one_can_be_told_alone() -> None:
    plan = plan_of(existing(pools=[_pool("a"), _pool("b")], verification={}))
    assert list(reports(plan, PROGRAM)["pools"]) == ["a", "b"]
    assert list(reports(plan, PROGRAM, "b")["pools"]) == ["b"]


def _pool(name: str) -> dict[str, Any]:
    return {"name": name, "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"pool": name}, "sharing": "whole"}


def test_a_stack_that_verifies_nothing_says_so() -> None:
    why = "the stack declares no gpu-pools:verification: no verifier runs, and nothing is proven"
    remedy = "Add the section gpu-pools:verification to the stack file, and deploy it."
    assert no_reports() == {"enabled": False, "why": why, "remedy": remedy}


def test_a_stack_that_only_holds_its_pools_says_that_it_is_why() -> None:
    said = no_reports(imported=True)
    assert not said["enabled"]
    assert said["why"].startswith("gpu-pools:adoption is imported")
    assert said["remedy"].startswith("Take gpu-pools:adoption out")
