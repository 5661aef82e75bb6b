"""Shares as recorded are the truth of random fleets, by the real promtool; and the alerts that stand on kube-state-metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.observing import rules, shares
from gpu_pools.observing.alerts import MIG_STATE_LABEL, NODE_LABELS
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.stack.kubernetes_names import POOL_LABEL
from tests.observing import fleets
from tests.observing.kube_state import KubeNode, KubePod, told
from tests.observing.promtool import STEP, Case, hold, run
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.observing.exporter import Node
    from tests.observing.promtool import Labels

pytestmark = [pytest.mark.programs, pytest.mark.sweep]
FIRING: Final = 'group by (alertname, instance) (ALERTS{alertstate="firing"})'
ANY: Final = "group by (alertname, instance) (ALERTS)"
DEVICE_PLUGIN: Final = "nvidia.com/gpu.deploy.device-plugin"


@dataclass(frozen=True)
class Cluster:
    """Nodes with GPUs, as their exporters have them, as objects, and the pods that ask for shares."""

    gpu_nodes: tuple[Node, ...]
    nodes: tuple[KubeNode, ...]
    pods: tuple[KubePod, ...]

    def told(self, replica: str = "ksm-0") -> dict[str, float]:
        return told(self.nodes, self.pods, replica)


def cluster(plan: Plan, draw: Random, *, full: bool = False) -> Cluster:
    """A random one; `full`: each share is held by a pod that uses it, and none waits."""
    gpu_nodes = fleets.fleet(plan, draw, busy=True)
    offers = {pool.name: pool.advertises for pool in plan.pools}
    nodes = tuple(KubeNode(node.name, {**offers[node.pool], "example.com/other": 3}) for node in gpu_nodes)
    pods = [pod for node in gpu_nodes for pod in _bound(node.name, offers[node.pool], draw, full=full)]
    if not full:
        pods += _elsewhere(sorted({name for one in offers.values() for name in one}), draw)
    return Cluster(gpu_nodes, nodes, tuple(pods))


def _bound(node: str, offer: Mapping[str, int], draw: Random, *, full: bool) -> Iterator[KubePod]:
    for number, (resource, count) in enumerate(offer.items()):
        left = count
        while left > 0 and (full or draw.random() < 0.8):
            asked = draw.randint(1, min(left, 3))
            left -= asked
            containers = ({resource: asked, "cpu": 1},) if asked < 2 else ({resource: asked - 1}, {resource: 1}, {"cpu": 2})
            phase = "Running" if full else draw.choice(["Running", "Running", "Pending"])
            yield KubePod(f"{node}-{number}-{left}", containers, node, phase)
        if not full:
            yield KubePod(f"{node}-{number}-ended", ({resource: 2},), node, draw.choice(["Succeeded", "Failed"]))


def _elsewhere(resources: Sequence[str], draw: Random) -> Iterator[KubePod]:
    """Pods on nodes of nobody's, that wait, that have a gate, and that ask for something else."""
    for number, resource in enumerate(resources):
        asked = ({resource: draw.randint(1, 4)},)
        yield KubePod(f"stranger-{number}", asked, "not-ours")
        yield KubePod(f"gated-{number}", asked, phase="Pending", gated=True)
        yield KubePod(f"new-{number}", asked, phase="Pending")
        yield from (
            KubePod(f"waits-{number}-{more}", asked, phase="Pending", unschedulable=True) for more in range(draw.randint(0, 2))
        )
    yield KubePod("cpu", ({"cpu": 4},), phase="Pending", unschedulable=True)


def truth(plan: Plan, seen: Cluster) -> Iterator[tuple[str, dict[Labels, float]]]:
    pool_of = {node.name: node.pool for node in seen.gpu_nodes}
    offers = {pool.name: pool.advertises for pool in plan.pools}
    held: dict[tuple[str, str, str, str], int] = Counter()
    for pod in seen.pods:
        for container in pod.requests:
            for resource, count in container.items():
                if pod.phase in {"Running", "Pending"} and resource in offers.get(pool_of.get(pod.node, ""), {}):
                    held[pod.node, resource, pod.namespace, pod.name] += count
    keys = [(node, pool, resource) for node, pool in pool_of.items() for resource in offers[pool]]
    labels: dict[tuple[str, str, str], Labels] = {
        key: (("instance", key[0]), ("gpu_pool", key[1]), ("resource", key[2])) for key in keys
    }
    yield shares.NODE_ALLOCATABLE, {labels[key]: offers[key[1]][key[2]] for key in keys}
    yield (
        shares.POD_ALLOCATED,
        {
            (*labels[node, pool_of[node], resource], ("namespace", namespace), ("pod", pod)): count
            for (node, resource, namespace, pod), count in held.items()
        },
    )
    given = {key: sum(n for (node, resource, *_), n in held.items() if (node, resource) == (key[0], key[2])) for key in keys}
    yield shares.NODE_ALLOCATED, {labels[key]: given[key] for key in keys}
    pools = {(key[1], key[2]) for key in keys}
    by_pool = {one: [key for key in keys if key[1:] == one] for one in pools}
    named: dict[tuple[str, str], Labels] = {one: (("gpu_pool", one[0]), ("resource", one[1])) for one in pools}
    yield shares.POOL_ALLOCATABLE, {named[one]: sum(offers[key[1]][key[2]] for key in by_pool[one]) for one in pools}
    yield shares.POOL_ALLOCATED, {named[one]: sum(given[key] for key in by_pool[one]) for one in pools}
    waiting: dict[str, int] = dict.fromkeys((resource for _, resource in pools), 0)
    for pod in seen.pods:
        for container in pod.requests:
            for resource, count in container.items():
                if pod.unschedulable and resource in waiting:
                    waiting[resource] += count
    yield shares.WAITING, {(("resource", resource),): count for resource, count in waiting.items()}


def held_case(plan: Plan, name: str, seen: Cluster, others: Mapping[str, float]) -> Case:
    made = Case(name, [(4, seen.gpu_nodes, others)])
    made.expected = [(3 * STEP, _bare(query), answer) for query, answer in truth(plan, seen)]
    return made


def _bare(series: str) -> str:
    """Without the series' name, which promtool would have in each answer."""
    return f"{series} + 0"


@pytest.mark.parametrize("seeds", these(range(8), [0]))
def test_shares_are_the_truth(seeds: int, tmp_path: Path) -> None:
    plan = fleets.plan_of()
    cases = []
    for seed in range(seeds * 3, (seeds + 1) * 3):
        seen = cluster(plan, Random(seed))  # noqa: S311 the same every time
        cases.append(held_case(plan, f"fleet {seed}", seen, seen.told()))
    hold(plan, cases, tmp_path)


def test_a_second_of_kube_state_metrics_counts_nothing_twice(tmp_path: Path) -> None:
    plan = fleets.plan_of()
    seen = cluster(plan, Random(5))  # noqa: S311
    hold(plan, [held_case(plan, "two", seen, seen.told() | seen.told("ksm-1"))], tmp_path)


def test_a_truth_that_is_not_so_is_noticed(tmp_path: Path) -> None:
    plan = fleets.plan_of()
    seen = cluster(plan, Random(5))  # noqa: S311
    pod = next(pod for pod in seen.pods if pod.phase == "Succeeded")
    wrong = replace(seen, pods=(*seen.pods, replace(pod, name="more", phase="Running")))
    assert run(plan, [held_case(plan, "wrong", seen, wrong.told())], tmp_path).returncode != 0


def test_without_kube_state_metrics_nothing_is_said_and_nothing_raised(tmp_path: Path) -> None:
    """Missing, not 0; what is allocatable the verifiers tell."""
    plan = fleets.plan_of(pools=("turns", "whole"))
    nodes = fleets.fleet(plan, Random(2), busy=True)  # noqa: S311
    node = next(node for node in nodes if node.pool == "turns")
    target = f'job="{VERIFIER_APP}", instance="{node.name}", gpu_pool="turns", pool="turns"'
    verifier = {
        f'gpu_pools_allocatable_devices{{{target}, resource="{name}"}}': count
        for name, count in (("nvidia.com/gpu", 8.0), ("x/y", 2.0))
    }
    made = Case("without", [(40, nodes, verifier)])
    last = 39 * STEP
    made.expected = [
        (last, _bare(name), {}) for name in (shares.POD_ALLOCATED, shares.NODE_ALLOCATED, shares.POOL_ALLOCATED, shares.WAITING)
    ]
    known: Labels = (("instance", node.name), ("gpu_pool", "turns"), ("resource", "nvidia.com/gpu"))
    made.expected += [(last, _bare(shares.NODE_ALLOCATABLE), {known: 8}), (last, ANY, {})]
    hold(plan, [made], tmp_path)


@pytest.mark.parametrize(("announced", "firing"), [(8.0, 0), (0.0, 1), (None, 0)])
def test_what_nodes_with_claims_offer_is_told_by_their_verifiers_alone(
    announced: float | None, firing: int, tmp_path: Path
) -> None:
    """Their status has zeros of the time before, or nothing: neither is a node without GPUs."""
    stack = fleets.stack(pools=("turns", "whole"))
    stack["gpu-pools:pools"][0]["allocation"] = "dra"
    plan = plan_config(stack)
    seen = cluster(plan, Random(2), full=True)  # noqa: S311
    name = first(seen, "turns")
    for node in seen.gpu_nodes:
        if node.pool == "turns":
            seen = offers_none(seen, node.name, told_as="zero")
    rows = {} if announced is None else {_verified(node.name): announced for node in seen.gpu_nodes if node.pool == "turns"}
    made = Case("claims", [(20, seen.gpu_nodes, seen.told() | rows)])
    told = f'max by (instance) ({shares.NODE_ALLOCATABLE}{{instance="{name}"}})'
    alert = f'max by (alertname) (ALERTS{{alertstate="firing", alertname="GpuNoDeviceAdvertised", instance="{name}"}})'
    made.expected = [
        (19 * STEP, told, {} if announced is None else {(("instance", name),): announced}),
        (19 * STEP, alert, {(("alertname", "GpuNoDeviceAdvertised"),): 1} if firing else {}),
    ]
    hold(plan, [made], tmp_path)


def _verified(node: str) -> str:
    target = f'job="{VERIFIER_APP}", instance="{node}", gpu_pool="turns", pool="turns"'
    return f'gpu_pools_allocatable_devices{{{target}, resource="nvidia.com/gpu"}}'


def test_a_node_that_changes_its_pool_is_of_one_at_a_time(tmp_path: Path) -> None:
    """Exporter and verifier are discovered apart: for a moment they can name different pools."""
    plan = fleets.plan_of(pools=("turns", "whole"))
    seen = cluster(plan, Random(2), full=True)  # noqa: S311
    other = {f'up{{job="{VERIFIER_APP}", instance="{node.name}", gpu_pool="renamed"}}': 1.0 for node in seen.gpu_nodes}
    made = Case("both", [(4, seen.gpu_nodes, seen.told() | other)])
    made.expected = [(3 * STEP, f"max(count by (instance) ({shares.NODE_POOL}))", {(): 1})]
    hold(plan, [made], tmp_path)


@pytest.mark.parametrize("pools", [("whole",), ("turns", "mixed"), tuple(fleets.SHARING)])
def test_what_the_plan_declares_is_there_by_both_names(pools: tuple[str, ...]) -> None:
    plan = fleets.plan_of(pools=pools)
    declared = [dict(one.labels) | {"value": one.value} for one in shares.declared_shares(plan)]
    assert {(one["gpu_pool"], one["resource"]): one["value"] for one in declared} == {
        (pool.name, name): count for pool in plan.pools for name, count in pool.advertises.items()
    }
    assert all(one[shares.KUBE_RESOURCE] == str(one["resource"]).translate(str.maketrans("./-", "___")) for one in declared)


# --- alerts -----------------------------------------------------------------------------------------------------------


def first(seen: Cluster, pool: str) -> str:
    return next(node.name for node in seen.gpu_nodes if node.pool == pool)


def labelled(seen: Cluster, name: str, **labels: str) -> Cluster:
    """Every node with the labels that are listed, one of them with others."""
    usual = {MIG_STATE_LABEL: "success"} | dict.fromkeys(NODE_LABELS[2:], "true")
    pool_of = {node.name: node.pool for node in seen.gpu_nodes}
    changed = {MIG_STATE_LABEL: labels.get("mig", "success"), DEVICE_PLUGIN: labels.get("plugin", "true")}
    nodes = tuple(
        replace(node, labels=usual | {POOL_LABEL: pool_of[node.name]} | (changed if node.name == name else {}))
        for node in seen.nodes
    )
    return replace(seen, nodes=nodes)


def away(seen: Cluster, name: str) -> Cluster:
    """Its exporter is paused, and no target."""
    return replace(seen, gpu_nodes=tuple(node for node in seen.gpu_nodes if node.name != name))


def offers_none(seen: Cluster, name: str, *, told_as: str) -> Cluster:
    def changed(node: KubeNode) -> KubeNode:
        if node.name != name:
            return node
        return replace(node, allocatable=dict.fromkeys(node.allocatable, 0) if told_as == "zero" else {})

    return replace(seen, nodes=tuple(changed(node) for node in seen.nodes))


def waits(seen: Cluster, resource: str) -> Cluster:
    return replace(seen, pods=(*seen.pods, KubePod("late", ({resource: 1},), phase="Pending", unschedulable=True)))


Fault = tuple[str, str, "Callable[[Cluster, str], Cluster]", int]
#: What -> alert, pool, what it does to the cluster and one of its nodes, after how many minutes it is raised; not half as early.
FAULTS: Final[dict[str, Fault]] = {
    "mig-manager waits for ever": (
        "GpuPartitioningStuck",
        "alike",
        lambda seen, name: away(labelled(seen, name, mig="pending", plugin="paused-for-mig-change"), name),
        32,
    ),
    "mig-manager has failed": ("GpuPartitioningStuck", "alike", lambda seen, name: labelled(seen, name, mig="failed"), 32),
    "the device plugin stays paused": (
        "GpuOperandsPaused",
        "alike",
        lambda seen, name: labelled(seen, name, plugin="paused-for-driver-upgrade"),
        62,
    ),
    "the device plugin offers none": (
        "GpuNoDeviceAdvertised",
        "turns",
        lambda seen, name: offers_none(seen, name, told_as="zero"),
        17,
    ),
    "the device plugin has never offered any": (
        "GpuNoDeviceAdvertised",
        "turns",
        lambda seen, name: offers_none(seen, name, told_as="missing"),
        17,
    ),
    "pods wait and each share is taken": ("GpuSharesUsedUp", "turns", lambda seen, _: waits(seen, "nvidia.com/gpu.shared"), 32),
}


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    found = fleets.stack(pools=("turns", "alike"))
    found["gpu-pools:sharing"]["turns"] = {"timeSlicing": {"replicas": 4, "renameByDefault": True}}
    return found


@pytest.mark.parametrize("fault", these(FAULTS, list(FAULTS)))
def test_a_fault_raises_exactly_its_alert_and_it_goes_after_the_repair(stack: dict[str, Any], fault: str, tmp_path: Path) -> None:
    alert, pool, breaks, minutes = FAULTS[fault]
    plan = plan_config(stack)
    well = cluster(plan, Random(4), full=True)  # noqa: S311
    name = first(well, pool)
    well = labelled(well, "")
    # The pods of that node have ended, the GPUs answer all the same.
    ill = breaks(well, name)
    case = Case(
        fault,
        [
            (10, well.gpu_nodes, well.told()),
            (minutes, ill.gpu_nodes, ill.told() | ill.told("ksm-1")),
            (10, well.gpu_nodes, well.told()),
        ],
    )
    where = () if alert == "GpuSharesUsedUp" else (("instance", name),)
    case.expected = [
        (9 * STEP, ANY, {}),
        ((10 + minutes // 2) * STEP, FIRING, {}),
        ((9 + minutes) * STEP, FIRING, {(("alertname", alert), *where): 1}),
        (case.seconds, ANY, {}),
    ]
    hold(plan, [case], tmp_path)


def told_by_verifier(seen: Cluster, name: str, pool: str, verdict: str) -> dict[str, float]:
    target = f'job="{VERIFIER_APP}", instance="{name}", gpu_pool="{pool}"'
    verdicts = {
        f'gpu_pools_verdict{{{target}, pool="{pool}", verdict="{one}"}}': float(one == verdict) for one in ("holds", "differs")
    }
    others = {f'up{{job="{VERIFIER_APP}", instance="{node.name}", gpu_pool="{node.pool}"}}': 1.0 for node in seen.gpu_nodes}
    return others | {f"up{{{target}}}": 1.0} | verdicts


@pytest.mark.parametrize("fault", ["mig-manager has failed", "the device plugin offers none"])
def test_a_special_alert_stands_alone_although_the_verifier_finds_a_difference(
    stack: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    alert, pool, breaks, minutes = FAULTS[fault]
    plan = plan_config(stack | {"gpu-pools:verification": {}})
    well = labelled(cluster(plan, Random(4), full=True), "")  # noqa: S311
    name = first(well, pool)
    ill = breaks(well, name)
    rows = ill.told() | told_by_verifier(ill, name, pool, "differs")
    case = Case(fault, [(minutes + 10, ill.gpu_nodes, rows)])
    case.expected = [(case.seconds, FIRING, {(("alertname", alert), ("instance", name)): 1})]
    hold(plan, [case], tmp_path)
    # Without the reason it is the general one.
    plain = Case("plain", [(20, well.gpu_nodes, well.told() | told_by_verifier(well, name, pool, "differs"))])
    plain.expected = [(plain.seconds, FIRING, {(("alertname", "GpuNodeNotAsDeclared"), ("instance", name)): 1})]
    hold(plan, [plain], tmp_path)


#: What is no fault: each share is in use and nobody waits, somebody waits and there is room, a gate, a change that goes on.
NO_FAULTS: Final[dict[str, Callable[[Cluster, str], Cluster]]] = {
    "all is taken": lambda seen, _: seen,
    "one waits, and one share is free": lambda seen, _: waits(replace(seen, pods=seen.pods[1:]), "nvidia.com/gpu.shared"),
    "a gated pod": lambda seen, _: replace(
        seen, pods=(*seen.pods, KubePod("gated", ({"nvidia.com/gpu.shared": 1},), phase="Pending", gated=True))
    ),
    "a pod waits for a resource of nobody's": lambda seen, _: waits(seen, "example.com/other"),
    "labels that nobody lists": lambda seen, _: replace(seen, nodes=tuple(replace(node, labels=None) for node in seen.nodes)),
    "a node of somebody else that is stuck": lambda seen, _: replace(
        seen, nodes=(*seen.nodes, KubeNode("theirs", {"nvidia.com/gpu": 1}, {MIG_STATE_LABEL: "failed"}))
    ),
}


def test_what_is_no_fault_raises_nothing(stack: dict[str, Any], tmp_path: Path) -> None:
    plan = plan_config(stack)
    well = labelled(cluster(plan, Random(4), full=True), "")  # noqa: S311
    cases = []
    for what, changes in NO_FAULTS.items():
        seen = changes(well, first(well, "turns"))
        made = Case(what, [(6, seen.gpu_nodes, seen.told())])
        # Not even as what would fire later.
        made.expected = [(made.seconds, ANY, {})]
        cases.append(made)
    hold(plan, cases, tmp_path)


def test_a_planned_change_of_partitions_raises_nothing(stack: dict[str, Any], tmp_path: Path) -> None:
    plan = plan_config(stack)
    well = labelled(cluster(plan, Random(4), full=True), "")  # noqa: S311
    name = first(well, "alike")
    during = away(labelled(well, name, mig="pending", plugin="paused-for-mig-change"), name)
    starting = offers_none(well, name, told_as="zero")
    case = Case(
        "change",
        [
            (5, well.gpu_nodes, well.told()),
            (25, during.gpu_nodes, during.told()),
            (5, starting.gpu_nodes, starting.told()),
            (5, well.gpu_nodes, well.told()),
        ],
    )
    case.expected = [(minute * STEP, FIRING, {}) for minute in range(0, 40, 5)] + [(case.seconds, ANY, {})]
    hold(plan, [case], tmp_path)


def test_an_idle_pod_is_recorded_where_its_use_is_its_own(tmp_path: Path) -> None:
    plan = fleets.plan_of(pools=("whole", "served"))
    nodes = fleets.fleet(plan, Random(3), busy=True)  # noqa: S311
    idle = fleets.with_gpu(
        nodes, "whole", units=(replace(nodes[0].gpus[0].units[0], pods=(replace(nodes[0].gpus[0].units[0].pods[0], use=0),)),)
    )
    made = Case("idle", [(3, idle, {})])
    pods = sum(len(unit.pods) for node in nodes if node.pool == "whole" for gpu in node.gpus for unit in gpu.units)
    made.expected = [(2 * STEP, f"sum({rules.POD_IDLE})", {(): 1}), (2 * STEP, f"count({rules.POD_IDLE})", {(): pods})]
    hold(plan, [made], tmp_path)
