"""Faults on a living fleet: the verifiers that run on its nodes find each with its cause, and are green again after the repair.

The tests share one fleet and run in the order they are written. To wait until all are green again takes an interval, so some
leave that to the next one, which sees that what was repaired is told no more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sandbox.system import processes
from sandbox.system.patience import Patience
from tests.engine.courses import found_and_repaired, run
from tests.engine.faults import FAULTS, OF_THE_CLUSTER, UNHEARD
from tests.engine.fleet import CONFIG_LABEL, LONGEST_SECONDS, NFD_MASTER, NFD_WORKER, POLICY, POLL_SECONDS, STACK, Fleet, now
from tests.engine.marks import ON_NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.engine.courses import Course
    from tests.engine.fleet import Condition
    from tests.engine.trial import Trial

pytestmark = ON_NODES

ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/gpu-operator/rolebindings"
NODE_FEATURES = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/node-feature-discovery/nodefeatures"


@pytest.fixture(scope="module")
def fleet(shared_sandbox: Callable[..., Trial]) -> Fleet:
    trial = shared_sandbox(STACK)
    trial.up().ok()
    made = Fleet(trial)
    made.all_green()
    return made


# ---------------------------------------------------------------------- faults of one node


@pytest.fixture(scope="module")
def courses(fleet: Fleet) -> Mapping[str, Course]:
    return run(fleet, FAULTS)


@pytest.fixture(scope="module")
def unheard(fleet: Fleet) -> Mapping[str, Course]:
    """While nfd-master is away, so that nothing that gpu-feature-discovery says reaches a node."""
    back = fleet.patch(NFD_MASTER, {"spec": {"replicas": 0}}, {"spec": {"replicas": 1}})
    processes.wait_until(lambda: "nfd-master" not in processes.running(fleet.folder), timeout=60, what="nfd-master to end")
    return run(fleet, UNHEARD, first=back)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_its_cause_and_gone_after_the_repair(courses: Mapping[str, Course], name: str) -> None:
    found_and_repaired(courses[name])


def test_nobody_else_was_called_different_meanwhile(courses: Mapping[str, Course], fleet: Fleet) -> None:
    untouched = set(fleet.history) - {course.node for course in courses.values()}
    assert untouched
    for node in untouched:
        statuses = [condition.status for condition in fleet.history[node]]
        assert len(statuses) > 1, f"{node} was not looked at again"
        assert set(statuses) == {"True"}, fleet.history[node]


@pytest.mark.parametrize("name", UNHEARD)
def test_so_is_what_nobody_carries_to_the_node_and_what_befalls_the_verifier(unheard: Mapping[str, Course], name: str) -> None:
    found_and_repaired(unheard[name])


def test_a_pool_without_nodes_is_not_yet_proven(fleet: Fleet) -> None:
    (line,) = [line for line in fleet.trial.status().ok().out.splitlines() if line.startswith("spare")]
    assert "no node yet" in line
    assert line.endswith("not yet proven")


# ---------------------------------------------------------------------- faults of the cluster


def test_a_verifier_without_permission_says_so_and_calls_no_node_different(fleet: Fleet) -> None:
    path = f"{ROLE_BINDINGS}/gpu-pools-verifier"
    binding = fleet.trial.get(path)
    fleet.api.delete(path)
    fleet.until(lambda seen: all(one.status == "Unknown" for one in seen.values()), "nobody can tell")
    for condition in fleet.look().values():
        assert condition.causes == OF_THE_CLUSTER["verifier without permission"]
        assert "a defect of the verifier's pod, not of the node" in condition.message
    kept = {key: value for key, value in binding["metadata"].items() if key in {"name", "labels", "annotations"}}
    fleet.api.create(ROLE_BINDINGS, {**binding, "metadata": kept})


def test_what_the_cluster_policy_loses_shows_on_the_nodes(fleet: Fleet) -> None:
    node = fleet.node("sliced", 0)
    config = fleet.trial.get(POLICY)["spec"]["devicePlugin"]["config"]

    # Only a node without a label of its own wants the default.
    label = fleet.label(node, CONFIG_LABEL, None)
    fleet.patch(POLICY, {"spec": {"devicePlugin": {"config": {"default": "lost"}}}}, {})
    lost = OF_THE_CLUSTER["default config lost"]
    # The roll-out of the new default ends at its first node, whose config-manager finds no such key; the others keep the old one.
    first = ("label-missing", "operand-config")
    fleet.until(lambda _: fleet.causes(node)[:2] in {lost, first}, "the default is lost")

    fleet.patch(POLICY, {"spec": {"devicePlugin": {"config": None}}}, {})
    off = OF_THE_CLUSTER["ClusterPolicy without the sharing config"]
    shared = {
        fleet.node("sliced", 1): off,
        fleet.node("eight", 0): off,
        fleet.node("parts", 0): ("sharing-off", "left-over", "gfd-other"),
        fleet.node("served", 0): ("sharing-off", "mps-operand-missing", "mps-mode-default", "mps-dead", "gfd-other"),
    }
    fleet.until(lambda _: {one: fleet.causes(one) for one in shared} == shared, "sharing is off everywhere")

    label()
    fleet.patch(POLICY, {"spec": {"devicePlugin": {"config": config}}}, {})


def test_a_cluster_policy_that_is_ready_without_a_gpu_node_proves_nothing(fleet: Fleet) -> None:
    repair = fleet.patch(NFD_WORKER, _template(nodeSelector={"nowhere": "true"}), _template(nodeSelector=None))
    fleet.until(lambda _: _workers(fleet) == 0, "NFD's workers to leave")
    for feature in fleet.api.list(NODE_FEATURES)["items"]:
        fleet.api.delete(f"{NODE_FEATURES}/{feature['metadata']['name']}")
    causes = OF_THE_CLUSTER["ClusterPolicy ready with no GPU node"]
    fleet.until(lambda seen: all(_names(condition, causes) for condition in seen.values()), "no GPU node for NFD")
    assert fleet.trial.get(POLICY)["status"]["state"] == "ready"
    repair()
    fleet.all_green()


# ---------------------------------------------------------------------- interrupted


def test_while_the_api_server_and_the_machines_are_killed_no_verdict_is_wrong(fleet: Fleet) -> None:
    # A node that waits: NFD does not tolerate the pool's taint, so what is there already stays, and a new node stays bare.
    tolerations = fleet.trial.get(NFD_WORKER)["spec"]["template"]["spec"]["tolerations"]
    kept = [toleration for toleration in tolerations if toleration.get("key") != "sku"]
    assert len(kept) == len(tolerations) - 1
    repair = fleet.patch(NFD_WORKER, _template(tolerations=kept), _template(tolerations=tolerations))
    fleet.trial.scale("whole", 3).ok()
    fleet.until(lambda _: len(fleet.trial.nodes("whole")) == 3, "the new node")
    new = fleet.node("whole", 2)
    causes = OF_THE_CLUSTER["NFD does not tolerate the taint"]
    fleet.until(lambda seen: seen[new].causes[:1] == causes, "NFD does not look at the new node")

    known = {node: len(conditions) for node, conditions in fleet.history.items()}
    addresses = {node: address for node, address in fleet.addresses().items() if node != new}
    fleet.kill_part("kube-apiserver")
    assert _told_until(fleet, addresses, "cannot tell") <= {"holds", "cannot tell"}
    fleet.boot()
    moment = now()
    # The new node's verifier may have slept through it, and tells nothing twice.
    fleet.until(
        lambda seen: all(one.status == "True" and one.heartbeat > moment for node, one in seen.items() if node != new),
        "all but the new node verified again",
    )
    for node, conditions in fleet.history.items():
        wrong = "True" if node == new else "False"
        assert wrong not in {condition.status for condition in conditions[known[node] :]}, conditions

    fleet.kill_part("machines")
    fleet.boot()
    moment = now()
    fleet.until(lambda seen: all(one.heartbeat > moment for one in seen.values()), "all looked at again")
    assert fleet.look()[new].causes[:1] == causes
    assert "True" not in {condition.status for condition in fleet.history[new]}

    repair()
    fleet.all_green()


def _template(**spec: object) -> dict[str, object]:
    return {"spec": {"template": {"spec": spec}}}


def _workers(fleet: Fleet) -> int:
    return int(fleet.trial.get(NFD_WORKER)["status"]["currentNumberScheduled"])


def _names(condition: Condition, causes: tuple[str, ...]) -> bool:
    return condition.status == "False" and set(causes) <= set(condition.causes)


def _told_until(fleet: Fleet, addresses: Mapping[str, str], verdict: str) -> set[str]:
    """The verdicts that verifiers tell over HTTP, until each has told one that is wanted."""
    told: dict[str, set[str]] = {node: set() for node in addresses}
    end = Patience(LONGEST_SECONDS)
    while not all(verdict in verdicts for verdicts in told.values()):
        assert not end.is_over(), told
        for node, address in addresses.items():
            told[node].update(filter(None, [fleet.verdict(address)]))
        time.sleep(POLL_SECONDS)
    return set().union(*told.values())
