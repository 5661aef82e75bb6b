"""What takes the operator's traces from the nodes of a cluster that stays (W48)."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.proof.verifier_rights import ANNOTATION, CONDITION
from gpu_pools.rendering.node_cleanup import NAME, cleanup_objects
from gpu_pools.rendering.node_leaving import NAME as LEAVE
from gpu_pools.rendering.node_leaving import REMOVED, gives_back, hook_objects
from gpu_pools.rendering.startup_taint import STARTUP_TAINT as PUT_ON
from gpu_pools.verifier.hook_programs.cleanup_program import leftovers
from gpu_pools.verifier.hook_programs.node_traces import CONDITION as TAKEN_AWAY
from gpu_pools.verifier.hook_programs.node_traces import STARTUP_TAINT
from tests.unit.stacks import GONE, aks, existing, magnum, plan_of

USED = {"labels": {"team": "red", "nvidia.com/gpu.deploy.driver": "false", "nvidia.com/gpu-driver-upgrade.skip": "true"}}


def node(labels: dict[str, str], notes: dict[str, str] | None = None, taints: Any = None) -> dict[str, Any]:
    metadata = {"name": "n", "resourceVersion": "7", "labels": labels, "annotations": notes or {}}
    return {"metadata": metadata, "spec": {"taints": taints} if taints else {}}


def objects(stack: str) -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for item in cleanup_objects(plan_of(stack).settings)}


def test_only_a_cluster_that_stays_is_cleaned() -> None:
    assert set(objects(existing())) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"}
    assert objects(aks()) == objects(magnum()) == {}
    assert "extraObjects" not in plan_of(aks()).operator_values


@pytest.mark.parametrize(
    "stack",
    [
        aks(cluster={"name": GONE, "location": GONE, "systemPool": GONE, "existing": {"resourceGroup": "rg", "name": "prod"}}),
        magnum(cluster={"name": GONE, "templateId": GONE, "existing": {"name": "platform"}}),
    ],
)
def test_in_a_clouds_cluster_that_stays_only_nodes_of_others_are_cleaned(stack: str) -> None:
    """And nothing is taken back of nodes that go."""
    settings = plan_of(stack).settings
    assert [item["metadata"]["name"] for item in hook_objects(settings) if item["kind"] == "Job"] == [NAME]
    assert objects(stack)["Job"]["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "others"
    assert objects(existing())["Job"]["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "all"
    assert not gives_back(settings)


def test_nothing_of_it_is_there_before_the_release_is_gone() -> None:
    for item in objects(existing()).values():
        notes = item["metadata"]["annotations"]
        assert (item["metadata"]["name"], notes["helm.sh/hook"]) == (NAME, "post-delete")
        assert "hook-succeeded" in notes["helm.sh/hook-delete-policy"]


def test_its_rights_are_to_list_and_patch_nodes_and_to_tie_the_operators_definitions() -> None:
    rules = objects(existing())["ClusterRole"]["rules"]
    kinds = ["clusterpolicies", "nvidiadrivers", "gpuclusters"]
    assert [(rule["resources"], rule["verbs"], rule.get("resourceNames")) for rule in rules] == [
        (["nodes"], ["list", "patch"], None),
        (["nodes/status"], ["patch"], None),
        (["namespaces"], ["get"], ["{{ .Release.Namespace }}"]),
        (["customresourcedefinitions"], ["get", "patch", "delete"], [f"{kind}.nvidia.com" for kind in kinds]),
        (kinds, ["list"], None),
    ]
    container = objects(existing())["Job"]["spec"]["template"]["spec"]["containers"][0]
    assert container["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_helm_finds_nothing_of_its_own_in_the_program() -> None:
    program = objects(existing())["Job"]["spec"]["template"]["spec"]["containers"][0]["command"][4]
    compile(program, "cleanup", "exec")
    assert "{{" not in program
    assert "}}" not in program
    assert ANNOTATION in program
    assert (CONDITION, PUT_ON.key) == (TAKEN_AWAY, STARTUP_TAINT)


def test_objects_of_the_user_s_own_are_added_to_the_hooks() -> None:
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    values = plan_of(existing(operator={"values": {"extraObjects": [mine]}})).operator_values
    hooks = hook_objects(plan_of(existing()).settings)
    assert values["extraObjects"] == [*hooks, mine]
    assert [item["metadata"]["name"] for item in hooks if item["kind"] == "Job"] == [LEAVE, REMOVED, NAME]


def test_a_node_without_traces_is_left_alone() -> None:
    assert leftovers(node({})) is None
    assert (
        leftovers(node(USED["labels"], {"node.alpha.kubernetes.io/ttl": "0"}, [{"key": "sku", "effect": "NoSchedule"}])) is None
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nvidia.com/gpu.present", "true"),
        ("nvidia.com/gpu.deploy.device-plugin", "true"),
        ("nvidia.com/gpu.deploy.dcgm", "paused-for-mig-change"),
        ("nvidia.com/mig.config", "all-disabled"),
        ("nvidia.com/mig.config.state", "failed"),
        ("nvidia.com/gpu-driver-upgrade-state", "upgrade-done"),
    ],
)
def test_labels_of_the_operator_go_and_others_stay(key: str, value: str) -> None:
    patch = leftovers(node({**USED["labels"], key: value}))
    assert patch == {"metadata": {"resourceVersion": "7", "labels": {key: None}, "annotations": {}}}


def test_annotations_and_the_startup_taint_go() -> None:
    sku = {"key": "sku", "effect": "NoSchedule"}
    ours = {"gpu-pools/verification": "{}", "gpu-pools/leaving": "asked", "nvidia.com/gpu-driver-upgrade-enabled": "true"}
    notes = {**ours, "other": "1"}
    patch = leftovers(node({}, notes, [sku, {"key": STARTUP_TAINT, "effect": "NoSchedule"}]))
    assert patch is not None
    assert set(patch["metadata"]["annotations"]) == set(ours)
    assert patch["spec"] == {"taints": [sku]}
