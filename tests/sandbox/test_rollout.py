"""Nothing that was deployed and is not rolled out is passed over, and each is named with its place and its cause."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox import __main__ as command_line
from sandbox.cli.look import Look, waits_for
from sandbox.cluster.rollout import Objects, deployed, troubles, waiting_on

HELM = {"app.kubernetes.io/managed-by": "Helm"}


def thing(name: str, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """An object of Helm's, at its second generation."""
    metadata = {"name": name, "namespace": "gpu-operator", "uid": f"uid-{name}", "generation": 2, "labels": HELM}
    return {"metadata": metadata, "spec": spec or {}, "status": status}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(owner: str, node: str | None = "n1", ready: str = "False", **status: Any) -> dict[str, Any]:
    whole = {"phase": "Pending", "conditions": [condition("Ready", ready)], **status}
    return {"metadata": {"name": "p", "ownerReferences": [{"uid": f"uid-{owner}"}]}, "spec": {"nodeName": node}, "status": whole}


def node(*conditions: dict[str, str], unschedulable: bool = False, **labels: str) -> dict[str, Any]:
    named = {name.replace("__", "/").replace("_", "-"): value for name, value in labels.items()}
    return {
        "metadata": {"name": "n1", "labels": {f"nvidia.com/{name}": value for name, value in named.items()}},
        "spec": {"unschedulable": unschedulable},
        "status": {"conditions": list(conditions)},
    }


DRIVER = {"desiredNumberScheduled": 7, "numberReady": 7, "updatedNumberScheduled": 7, "observedGeneration": 2}


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        # A changed driver version that reaches no node: this was green.
        (
            Objects(daemon_sets=[thing("driver", **{**DRIVER, "updatedNumberScheduled": 0})]),
            "7 of 7 pods ready, 0 of 7 up to date",
        ),
        (Objects(daemon_sets=[thing("driver", **{**DRIVER, "numberReady": 6})]), "6 of 7 pods ready"),
        (Objects(daemon_sets=[thing("driver", **{**DRIVER, "observedGeneration": 1})]), "its change has not been seen yet"),
        (Objects(deployments=[thing("op", {"replicas": 1}, observedGeneration=2)]), "0 of 1 pods ready, 0 of 1 up to date"),
        (
            Objects(deployments=[thing("op", {"replicas": 1}, observedGeneration=2, availableReplicas=1, replicas=1)]),
            "1 of 1 pods ready, 0 of 1 up to date, 1 of them old",
        ),
        # A new pod that fits no node, beside the old one.
        (
            Objects(
                deployments=[
                    thing("op", {"replicas": 1}, observedGeneration=2, availableReplicas=1, updatedReplicas=1, replicas=2)
                ]
            ),
            "Deployment gpu-operator/op: 1 of 1 pods ready, 1 of them old",
        ),
        (
            Objects(jobs=[thing("smoke", {"completions": 5}, conditions=[condition("Failed", "True", "BackoffLimitExceeded")])]),
            "failed: BackoffLimitExceeded",
        ),
        (Objects(jobs=[thing("smoke", {"completions": 5}, succeeded=3)]), "3 of 5 pods have come to their end"),
        (
            Objects(policies=[thing("cluster-policy")]),
            "ClusterPolicy cluster-policy: the operator has not said anything of it yet",
        ),
        (
            Objects(
                policies=[
                    thing(
                        "cluster-policy",
                        state="notReady",
                        conditions=[
                            condition("Ready", "False", "Error"),
                            condition("Error", "True", "ReconcileFailed", "failed to retrieve GPU node OS info"),
                        ],
                    )
                ]
            ),
            "ClusterPolicy cluster-policy: notReady: ReconcileFailed: failed to retrieve GPU node OS info",
        ),
        (Objects(nodes=[node(condition("Ready", "Unknown", "NodeStatusUnknown"))]), "node n1: not ready: NodeStatusUnknown"),
        (
            Objects(nodes=[node(unschedulable=True, gpu_driver_upgrade_state="pod-restart-required")]),
            "node n1: cordoned, the operator changes its driver (pod-restart-required)",
        ),
        (Objects(nodes=[node(gpu_driver_upgrade_state="upgrade-failed")]), "the operator changes its driver (upgrade-failed)"),
        (Objects(unread=["the cluster x cannot be read: 503"]), "the cluster x cannot be read: 503"),
    ],
)
def test_what_is_not_rolled_out_is_named(seen: Objects, told: str) -> None:
    (said,) = troubles(seen)
    assert told in said
    assert command_line._report(Look((), (said,)), "", "", as_json=False) == 3


def test_what_is_rolled_out_is_no_trouble() -> None:
    seen = Objects(
        nodes=[node(condition("Ready", "True"), gpu_driver_upgrade_state="upgrade-done")],
        policies=[thing("cluster-policy", state="ready")],
        deployments=[
            thing("op", {"replicas": 1}, observedGeneration=2, availableReplicas=1, updatedReplicas=1, replicas=1),
            thing("switched-off", {"replicas": 0}, observedGeneration=2),
        ],
        daemon_sets=[thing("driver", **DRIVER), thing("no-node-of-its-pool", observedGeneration=2)],
        jobs=[
            thing("smoke", {"completions": 5}, conditions=[condition("Complete", "True")]),
            thing("later", {"suspend": True}),
        ],
    )
    assert troubles(seen) == ()
    assert command_line._report(Look(()), "", "", as_json=False) == 0


def test_it_is_said_on_which_node_and_for_what_it_waits() -> None:
    waiting = {"name": "toolkit-validation", "state": {"running": {}}}
    failed = {
        "name": "assert",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "pool mig: differs\nMIG mode is off"}},
    }
    nowhere = condition("PodScheduled", "False", "Unschedulable", "no nodes available")
    seen = Objects(
        daemon_sets=[thing("plugin", **{**DRIVER, "numberReady": 4})],
        pods=[
            pod("plugin", "n1", initContainerStatuses=[{"name": "a", "state": {"terminated": {"exitCode": 0}}}, waiting]),
            pod("plugin", "n2", initContainerStatuses=[failed]),
            pod("plugin", None, conditions=[nowhere]),
            pod("plugin", "n4", ready="True"),
            pod("somebody-elses", "n5"),
        ],
    )
    (said,) = troubles(seen)
    assert said == (
        "DaemonSet gpu-operator/plugin: 4 of 7 pods ready; not on n1 (init container toolkit-validation runs), "
        "n2 (init container assert ended with 1: pool mig: differs MIG mode is off), "
        "no node (not scheduled: Unschedulable: no nodes available)"
    )
    assert waiting_on(seen) == {
        "n1": ["plugin (init container toolkit-validation runs)"],
        "n2": ["plugin (init container assert ended with 1: pool mig: differs MIG mode is off)"],
    }


def test_the_pods_of_a_deployment_belong_to_its_replica_set() -> None:
    own = {"kind": "ReplicaSet", "name": "op-5df489dfcd", "uid": "uid-set"}
    lost = pod("", None, conditions=[condition("PodScheduled", "False", "Unschedulable")])
    lost["metadata"] = {"name": "op-5df489dfcd-x", "namespace": "gpu-operator", "ownerReferences": [own]}
    (said,) = troubles(Objects(deployments=[thing("op", {"replicas": 1}, observedGeneration=2)], pods=[lost]))
    assert said.endswith("not on no node (not scheduled: Unschedulable)")


def test_what_a_user_tries_out_himself_is_his_own_business() -> None:
    own = thing("mine", **{**DRIVER, "numberReady": 0})
    own["metadata"]["labels"] = {}
    assert troubles(Objects(daemon_sets=[own])) == ()
    for made in (
        {"ownerReferences": [{"kind": "ClusterPolicy"}]},
        {"managedFields": [{"manager": "pulumi-kubernetes-1a2b"}]},
        {"labels": HELM},
    ):
        assert deployed({"metadata": made})


def test_a_node_with_a_line_of_its_own_is_not_named_twice() -> None:
    assert troubles(Objects(nodes=[node(condition("Ready", "False"))]), pool_nodes=["n1"]) == ()


def test_a_wait_is_told_in_a_few_lines() -> None:
    causes = tuple(f"node n{number}: not ready" for number in range(9))
    lines = [
        *waits_for(
            Look((), ("DaemonSet gpu-operator/x: 0 of 9 pods ready", *causes, "evidence: there is none")),
            ["creating DaemonSet gpu-marker"],
        )
    ]
    assert lines == ["the engine: creating DaemonSet gpu-marker", *causes[:4], "and 5 more"]
