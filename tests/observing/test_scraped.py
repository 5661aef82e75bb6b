"""A fleet of each way of sharing, scraped by a real Prometheus as prometheus-operator configures it; faults come as alerts.

Real: API server, prometheus-operator, Prometheus, Alertmanager, kube-state-metrics, NVIDIA's programs and the verifiers on the
nodes. Stand-ins: the nodes with their GPUs, and the exporters (sandbox/observing).
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from math import isclose
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.mig_parted import MIG_PARTED_CONFIG_MAP
from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import JOB
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.rendering.dcgm_exporter import COUNTERS_FILE, counters_config_map, counters_file, exporter_values
from gpu_pools.text.yaml_text import load_yaml
from sandbox.cluster import node_tools
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.nvml import simulated, state
from sandbox.observing.on_nodes import USES, XID
from tests.observing.kube_state_metrics import NAME, job, kube_state_metrics
from tests.observing.on_nodes import Exporters
from tests.observing.operator import Monitored, monitored
from tests.observing.test_rules import gpu_labels, of_gpu, pod_labels, shown_pods, unit_labels
from tests.sandbox.machines import test_verified_nodes as verified
from tests.sandbox.machines.mps import name_process_rightly
from tests.sandbox.machines.site import IMAGE, OPERATOR, Site, config_map, install, running
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sandbox.observing.exporter import Node

pytestmark = [
    pytest.mark.programs,
    pytest.mark.sweep,
    at_night("programs are built for it alone, which takes minutes"),
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing}
  gpu-pools:sharing:
    whole: {exclusive: {}}
    turns: {timeSlicing: {replicas: 4}}
    served: {mps: {replicas: 3}}
    mixed: {mig: {layout: {3g.40gb: 1, 2g.20gb: 2}}}
  gpu-pools:operator: {driver: preinstalled}
  gpu-pools:verification: {deadlineSeconds: 60, intervalSeconds: 10}
  gpu-pools:observability: {}
  gpu-pools:pools:
    - {name: whole, nodeSelector: {pool: whole}, gpuModel: NVIDIA A10, gpusPerNode: 2, sharing: whole}
    - {name: turns, nodeSelector: {pool: turns}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: turns}
    - {name: served, nodeSelector: {pool: served}, gpuModel: NVIDIA L40S, gpusPerNode: 1, sharing: served}
    - {name: mixed, nodeSelector: {pool: mixed}, gpuModel: NVIDIA A100-SXM4-80GB, gpusPerNode: 2, sharing: mixed}
"""
PLAN: Final = plan_config(load_yaml(STACK)["config"])
POOLS: Final = tuple(pool.name for pool in PLAN.pools)
#: Pod -> pool, and what it uses: hundredths of its unit, MiB.
PODS: Final = {
    "alone": ("whole", 90, 9000),
    "first": ("turns", 30, 4000),
    "second": ("turns", 25, 2000),
    "client": ("served", 40, 3000),
    "slice": ("mixed", 50, 1500),
}
TEAM: Final = "/api/v1/namespaces/team/pods"
FIRING: Final = 'group by (alertname, instance) (ALERTS{alertstate="firing"})'
#: Twice what a busy machine takes.
LONG: Final = 150.0


def policy() -> dict[str, Any]:
    advertised = {name for pool in PLAN.pools for name in pool.advertises}
    sharings = [pool.sharing for pool in PLAN.pools]
    values = exporter_values(PLAN.settings.observability, PLAN.settings.operator.chart.version, sharings, advertised)
    spec = {**verified.SPEC, "dcgmExporter": {**IMAGE, **values["dcgmExporter"]}}
    spec["daemonsets"] = {"tolerations": [dict(toleration) for toleration in PLAN.tolerations]}
    spec["devicePlugin"] = {
        **spec["devicePlugin"],
        "config": {"name": DEVICE_PLUGIN_CONFIG_MAP, "default": PLAN.default_config_key},
    }
    spec["mig"] = {"strategy": PLAN.cluster_mig_strategy} if PLAN.cluster_mig_strategy else {}
    return spec


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("scraped")) as here:
        name_process_rightly(here.api)
        put(here.folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        for pool in PLAN.pools:
            hardware = Hardware(24, 220, pool.hardware.model.key, pool.hardware.product, pool.hardware.gpus)
            labels = {"pool": pool.name, **pool.labels}
            put(here.folder, MachineGroup(pool.name, pool.name, 1, hardware, labels=labels, driver_preinstalled=True))
        names = (DEVICE_PLUGIN_CONFIG_MAP, MIG_PARTED_CONFIG_MAP)
        install(here.api, policy(), PLAN.device_plugin_configs, PLAN.mig_parted_config, names=names)
        counters = config_map(counters_config_map(), OPERATOR, {COUNTERS_FILE: counters_file()})
        here.api.create(f"/api/v1/namespaces/{OPERATOR}/configmaps", counters)
        verified.install_verifier(here, PLAN)
        for pool in POOLS:
            here.until(lambda pool=pool: verified.ready(here, pool), LONG)  # type: ignore[misc]
        _run_pods(here)
        yield here


def _run_pods(site: Site) -> None:
    site.api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    for name, (pool, use, memory) in PODS.items():
        _run_pod(site, name, pool, use, memory)
    site.until(lambda: all(one["status"].get("phase") == "Running" for one in site.api.list(TEAM)["items"]), LONG)


def _run_pod(site: Site, name: str, pool: str, use: int = 0, memory: int = 0) -> None:
    container = {"name": "main", "image": "work", "resources": {"limits": {_resource(pool): "1"}}}
    tolerations = [{"operator": "Exists"}]
    spec = {"containers": [container], "nodeSelector": {"pool": pool}, "tolerations": tolerations}
    metadata = {"name": name, "annotations": {USES: f"{use} {memory}"}}
    site.api.create(TEAM, {"metadata": metadata, "spec": spec})


def _resource(pool: str) -> str:
    """What a pod of the pool asks for: the first that its nodes advertise."""
    return next(iter(next(one for one in PLAN.pools if one.name == pool).advertises))


@pytest.fixture(scope="module")
def exporters(site: Site) -> Exporters:
    # Five minutes are five seconds (operator.py).
    return Exporters(site.folder, site.api, window=5)


@pytest.fixture(scope="module")
def scraped(exporters: Exporters, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    state_of = kube_state_metrics(tmp_path_factory.mktemp("state"), site.api)
    with (
        state_of as address,
        monitored(tmp_path_factory.mktemp("monitoring"), site.folder, PLAN, exporters.pods.answer, job(address)) as found,
    ):
        site.until(lambda: _up(found) == {JOB: len(POOLS), VERIFIER_APP: len(POOLS), NAME: 1}, LONG)
        yield found


def _up(found: Monitored) -> dict[str, int]:
    counted = found.prometheus.query("count by (job) (up == 1)")
    return {dict(labels)["job"]: int(value) for labels, value in counted.items()}


def test_each_node_is_scraped_once_as_the_relabelings_say(scraped: Monitored) -> None:
    for name in (JOB, VERIFIER_APP):
        up = scraped.prometheus.query(f'up{{job="{name}"}}')
        targets = {tuple(sorted((key, value) for key, value in labels if key != "__name__")) for labels in up}
        # Nothing else: no pod, namespace, container, service or endpoint of the target's.
        assert targets == {(("gpu_pool", pool), ("instance", f"{pool}0"), ("job", name)) for pool in POOLS}
    # Those of the workload are there.
    assert {dict(labels)["pod"] for labels in scraped.prometheus.query('DCGM_FI_DEV_FB_USED{pod!=""}')} == set(PODS)
    told = [rule for group in scraped.prometheus.rules() for rule in group["rules"]]
    assert {rule["health"] for rule in told} == {"ok"}


def test_what_is_recorded_is_what_the_nodes_are(site: Site, exporters: Exporters, scraped: Monitored) -> None:
    nodes = tuple(replace(exporters.of(f"{pool}0"), pool=pool) for pool in POOLS)
    assert sum(len(unit.pods) for node in nodes for gpu in node.gpus for unit in gpu.units) == len(PODS)
    for series, expected in truth(nodes).items():
        wanted = {frozenset(labels): value for labels, value in expected.items()}
        assert wanted, series
        site.until(lambda series=series, wanted=wanted: same(recorded(scraped, series), wanted), 20)  # type: ignore[misc]


def test_shares_are_what_nodes_offer_and_pods_hold(site: Site, scraped: Monitored) -> None:
    offered = {(pool.name, resource): count for pool in PLAN.pools for resource, count in pool.advertises.items()}
    held = Counter((pool, _resource(pool)) for pool, _, _ in PODS.values())
    keys = {(pool, resource): (("gpu_pool", pool), ("resource", resource)) for pool, resource in offered}
    on_nodes = {key: (("instance", f"{key[0]}0"), *labels) for key, labels in keys.items()}
    pods = {(*on_nodes[pool, _resource(pool)], ("namespace", "team"), ("pod", name)): 1 for name, (pool, _, _) in PODS.items()}
    for series, expected in {
        shares.NODE_ALLOCATABLE: {on_nodes[key]: count for key, count in offered.items()},
        shares.NODE_ALLOCATED: {on_nodes[key]: held[key] for key in offered},
        shares.POOL_ALLOCATABLE: {keys[key]: count for key, count in offered.items()},
        shares.POOL_ALLOCATED: {keys[key]: held[key] for key in offered},
        shares.POD_ALLOCATED: pods,
        shares.WAITING: {(("resource", resource),): 0 for _, resource in offered},
    }.items():
        wanted = {frozenset(labels): value for labels, value in expected.items()}
        site.until(lambda series=series, wanted=wanted: same(recorded(scraped, series), wanted), 20)  # type: ignore[misc]


def test_shares_that_are_used_up_while_a_pod_waits_are_told_and_one_with_a_gate_does_not_wait(
    site: Site, scraped: Monitored
) -> None:
    resource = _resource("served")
    waiting = f'{shares.WAITING}{{resource="{resource}"}}'
    gated = {"metadata": {"name": "gated"}, "spec": {"schedulingGates": [{"name": "example.com/later"}]}}
    container = {"name": "main", "image": "work", "resources": {"limits": {resource: "1"}}}
    site.api.create(TEAM, {**gated, "spec": {**gated["spec"], "containers": [container]}})
    site.until(lambda: list(scraped.prometheus.query('kube_pod_status_reason{reason="SchedulingGated"}').values()) == [1], 20)
    assert list(scraped.prometheus.query(waiting).values()) == [0]
    with told_alone(site, scraped, "", "GpuSharesUsedUp"):
        more = [f"more-{number}" for number in range(3)]
        for name in more:
            _run_pod(site, name, "served")
        site.until(lambda: list(scraped.prometheus.query(waiting).values()) == [1], LONG)

        def gone() -> None:
            for name in (*more, "gated"):
                site.api.delete(f"{TEAM}/{name}", grace_seconds=0)

        wait_and_repair(site, scraped, "", "GpuSharesUsedUp", gone)


def recorded(scraped: Monitored, series: str) -> dict[frozenset[tuple[str, str]], float]:
    found = scraped.prometheus.query(series)
    return {frozenset(pair for pair in labels if pair[0] != "__name__"): value for labels, value in found.items()}


def same(found: Mapping[Any, float], wanted: Mapping[Any, float]) -> bool:
    return found.keys() == wanted.keys() and all(isclose(found[key], wanted[key], abs_tol=1e-9) for key in wanted)


def truth(nodes: tuple[Node, ...]) -> dict[str, dict[Any, float]]:
    units = [(node, gpu, unit) for node in nodes for gpu in node.gpus for unit in gpu.units]
    gpus = [(node, gpu) for node in nodes for gpu in node.gpus]
    return {
        rules.UNIT_ACTIVE: {_own(unit_labels(n, g, u), g): u.use / 100 for n, g, u in units},
        rules.GPU_ACTIVE: {_own(gpu_labels(n, g), g): of_gpu(PLAN, n, g) for n, g in gpus},
        rules.POD_ACTIVE: {
            _own(pod_labels(n, g, u, pod), g): pod.use / 100 for n, g, u in units for pod in shown_pods(n, u, "use")
        },
        rules.POD_MEMORY_USED: {
            _own(pod_labels(n, g, u, p), g): p.memory * 2**20 for n, g, u in units for p in shown_pods(n, u, "memory")
        },
        rules.UNIT_MEMORY: {_own(unit_labels(n, g, u), g): u.memory * 2**20 for n, g, u in units},
        rules.NODE_GPUS: {(("instance", n.name), ("gpu_pool", n.pool)): len(n.gpus) for n in nodes},
    }


def _own(labels: tuple[tuple[str, str], ...], gpu: Any) -> tuple[tuple[str, str], ...]:
    """With the UUID that the simulated GPU has."""
    return tuple((key, gpu.uuid if key == "UUID" else value) for key, value in labels)


def _xid(machine: simulated.Machine) -> simulated.Machine:
    """The first GPU has to be reset. The device plugin heeds other Xids, not this one: then the node would lack a share, too."""
    gpu = machine.gpus[0]
    event = simulated.Event(max((one.sequence for one in gpu.events), default=0) + 1, XID, 109)
    return replace(machine, gpus=(replace(gpu, events=(*gpu.events, event)), *machine.gpus[1:]))


def _other_layout(machine: simulated.Machine) -> simulated.Machine:
    """Somebody has cut the first GPU anew, by hand."""
    return replace(machine, gpus=(simulated.partitioned(machine.gpus[0], [("3g.40gb", 0)]), *machine.gpus[1:]))


@pytest.mark.parametrize(
    ("pool", "fault", "alert"),
    [("turns", _xid, "GpuNeedsReset"), ("mixed", _other_layout, "GpuNodeNotAsDeclared")],
    ids=["an Xid", "another layout"],
)
def test_a_fault_is_told_as_its_alert_alone_and_goes_after_the_repair(
    site: Site,
    scraped: Monitored,
    pool: str,
    fault: Callable[[simulated.Machine], simulated.Machine],
    alert: str,
) -> None:
    place: Path = site.folder / "machines" / f"{pool}0" / "state"
    before = state.read(place)
    with told_alone(site, scraped, f"{pool}0", alert):
        state.change(place, fault)
        wait_and_repair(site, scraped, f"{pool}0", alert, lambda: state.change(place, lambda _: before))


def test_an_exporter_that_does_not_answer_is_told_until_it_does(site: Site, exporters: Exporters, scraped: Monitored) -> None:
    with told_alone(site, scraped, "whole0", "GpuExporterDown"):
        exporters.silent.add("whole0")
        wait_and_repair(site, scraped, "whole0", "GpuExporterDown", exporters.silent.clear)


@contextmanager
def told_alone(site: Site, scraped: Monitored, node: str, alert: str) -> Iterator[None]:
    """What happens inside raises this alert at this node alone, and is over at the end."""
    assert scraped.prometheus.query(FIRING) == {}
    already = len(scraped.told.groups)
    yield
    site.until(lambda: scraped.prometheus.query(FIRING) == {}, LONG)
    site.until(lambda: ("resolved", alert, node) in scraped.told.alerts(), LONG)
    new = scraped.told.groups[already:]
    assert {one["groupLabels"]["alertname"] for one in new} == {alert}
    assert all(one["annotations"]["remedy"] for group in new for one in group["alerts"])


def wait_and_repair(site: Site, scraped: Monitored, node: str, alert: str, repair: Callable[[], object]) -> None:
    """Wait until the alert is there, and the Alertmanager has sent it; then repair. An alert of no node has an empty one."""
    try:
        wanted = {frozenset({"alertname": alert, **({"instance": node} if node else {})}.items()): 1}
        site.until(lambda: scraped.prometheus.query(FIRING) == wanted, LONG)
        site.until(lambda: ("firing", alert, node) in scraped.told.alerts(), LONG)
    finally:
        repair()
