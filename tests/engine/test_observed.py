"""`up --observe`: a Prometheus and live dashboards beside a stack on simulated nodes, from the first value to the end.

Real: the engine, Kubernetes, prometheus-operator, Prometheus, kube-state-metrics, the verifiers. Stand-ins: the nodes and their
exporters.
"""

from __future__ import annotations

import os
import re
import signal
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Final

import pytest

from gpu_pools.observing import rules, shares
from gpu_pools.observing.prometheus import CannotAskError, Prometheus
from sandbox.observing.on_nodes import USES
from sandbox.system import processes
from tests.engine.marks import ON_NODES
from tests.sandbox.strangers import needs_root
from tests.sandbox.used_ports import KNOWN, ports_of, tried
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Run, Trial

pytestmark = [*ON_NODES, at_night("it needs a Prometheus, its operator and kube-state-metrics to be built")]
#: No section of observability: the sandbox adds it.
STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing}
  gpu-pools:sharing:
    turns: {timeSlicing: {replicas: 4}}
    mixed: {mig: {layout: {3g.40gb: 1, 2g.20gb: 2}}}
  gpu-pools:operator: {driver: preinstalled}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: turns, nodeSelector: {pool: turns}, gpuModel: NVIDIA A10, gpusPerNode: 1, count: 1, sharing: turns}
    - {name: mixed, nodeSelector: {pool: mixed}, gpuModel: NVIDIA A100-SXM4-80GB, gpusPerNode: 2, count: 1, sharing: mixed}
"""
POD: Final = {
    "metadata": {"name": "first", "annotations": {USES: "30 4000"}},
    "spec": {
        "containers": [{"name": "main", "image": "work", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        "nodeSelector": {"pool": "turns"},
        "tolerations": [{"operator": "Exists"}],
    },
}
NAME: Final = "observing"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up("--observe").ok()
    return made


def links(run: Run) -> tuple[str, str]:
    """The page, and Prometheus."""
    found = re.search(r"Live dashboards: (http://127\.0\.0\.1:\d+/)\nPrometheus' HTTP API: (http://127\.0\.0\.1:\d+)\n", run.out)
    assert found is not None, run.text
    return found[1], found[2]


def page(address: str, query: str) -> str:
    with urllib.request.urlopen(f"{address}?{query}", timeout=60) as answer:  # noqa: S310 our own address
        return str(answer.read().decode())


def values(prometheus: Prometheus, expression: str, *labels: str) -> dict[tuple[str, ...], float]:
    try:
        return {one.key(*labels): one.value for one in prometheus.ask(expression)}
    except CannotAskError:
        return {}


def test_it_ends_with_a_page_that_has_values_of_each_node(trial: Trial) -> None:
    (up,) = [run for run in trial.runs if run.command.startswith("up")]
    address, url = links(up)
    nodes = {node["metadata"]["name"] for node in trial.nodes() if node["metadata"]["labels"].get("gpu-pools/pool")}
    assert len(nodes) == 2
    gpus = values(Prometheus(url), rules.NODE_GPUS, "instance", "gpu_pool")
    assert {node for node, _ in gpus} == nodes
    assert {pool: count for (_, pool), count in gpus.items()} == {"turns": 1, "mixed": 2}
    trial.wait_until(lambda: values(Prometheus(url), rules.NODE_VERIFIED, "gpu_pool") == {("turns",): 1, ("mixed",): 1}, "proof")
    trial.wait_until(lambda: "Use by pool: 2 lines" in page(address, "board=fleet"), "a chart of both pools")
    # Who tells something is there: exporters, verifiers, kube-state-metrics; and a fleet without work raises nothing.
    trial.wait_until(lambda: "No data" not in page(address, "board=fleet"), "all panels")
    assert values(Prometheus(url), 'ALERTS{alertstate="firing"}', "alertname") == {}
    assert links(trial.status()) == (address, url)


def test_what_pods_use_is_drawn(trial: Trial) -> None:
    address, url = links(trial.runs[0])
    api = trial.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    api.create("/api/v1/namespaces/team/pods", POD)
    try:
        wanted = {("team", "first"): 0.3}
        trial.wait_until(lambda: values(Prometheus(url), rules.POD_ACTIVE, "namespace", "pod") == wanted, "the pod's use", 120)
        shares_held = {("turns", "team", "first"): 1}
        trial.wait_until(
            lambda: values(Prometheus(url), shares.POD_ALLOCATED, "gpu_pool", "namespace", "pod") == shares_held, "its share"
        )
        drawn = "team/first on"
        trial.wait_until(lambda: drawn in page(address, "board=pods&pool=turns"), "the pod's line")
        assert "last 30 %, max 30 %" in page(address, "board=pods&pool=turns")
        assert drawn not in page(address, "board=pods&pool=mixed")
    finally:
        api.delete("/api/v1/namespaces/team")


@needs_root
def test_another_user_of_the_machine_gets_nothing(trial: Trial) -> None:
    ports = ports_of(trial.folder)
    assert {port.program for port in ports} - KNOWN.keys() == set()
    assert len([port for port in ports if port.program == "sandbox.observing"]) == 3
    assert tried(ports) == {}


def test_it_goes_on_and_comes_back_where_it_was(trial: Trial) -> None:
    """What was chosen holds; what was killed is started again, at the same addresses, with the values of before."""
    before, pid = links(trial.runs[0]), processes.running(trial.folder)[NAME].pid
    assert links(trial.up().ok()) == before
    assert processes.running(trial.folder)[NAME].pid == pid
    begun = values(Prometheus(before[1]), f"min_over_time(timestamp({rules.NODE_GPUS})[1h:15s])", "instance")
    os.killpg(pid, signal.SIGKILL)
    trial.wait_until(lambda: not [one for one in trial.processes().values() if "/prometheus " in one], "Prometheus gone")
    assert "Live dashboards: not running; make up STACK=small starts them again" in trial.status().out
    with pytest.raises(urllib.error.URLError):
        page(before[0], "")
    assert links(trial.up().ok()) == before
    after = values(Prometheus(before[1]), f"min_over_time(timestamp({rules.NODE_GPUS})[1h:15s])", "instance")
    assert after.keys() == begun.keys()
    assert all(after[node] <= began + 15 for node, began in begun.items())


def test_nothing_is_left(trial: Trial) -> None:
    trial.down().ok()
    assert not trial.folder.exists()
    assert trial.processes() == {}


def test_metrics_that_another_one_reads_are_refused_before_anything_starts(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK.replace("gpu-pools:verification: {}", "gpu-pools:observability: {to: none}"))
    done = trial.up("--observe")
    assert done.code == 1
    assert "are read by another one (gpu-pools:observability: to: none)" in done.err
    assert "write `to: prometheus`" in done.err
    assert trial.processes() == {}
