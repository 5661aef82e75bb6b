"""The keys of the sharing configs: one stays while a node may name it, whatever becomes of the update, and goes when none does.

The tests share a stack on an existing cluster, whose labels come from the real nfd-master, and run in the order they are written.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

import pytest
import yaml

from sandbox.nvml import state
from tests.engine.marks import ON_NODES

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tests.engine.trial import Trial

pytestmark = ON_NODES

#: Shares that a node may have for a moment: the plugin has ended and is not registered again, as a kubelet has it.
BETWEEN: Final = frozenset({0})
STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
    cut: {mig: {layout: {1g.10gb: 7}}}
  gpu-pools:verification: {deadlineSeconds: 10}
  gpu-pools:pools:
    - {name: ts, nodeSelector: {pool: ts}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
    - {name: cut, nodeSelector: {pool: cut}, gpuModel: a100-80gb, gpusPerNode: 1, sharing: cut}
"""
CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_LABEL: Final = "nvidia.com/mig.config"
CONFIG_MAPS: Final = "/api/v1/namespaces/gpu-operator/configmaps"
PROHIBITED, DEFAULT = 2, 0


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def test_a_changed_declaration(trial: Trial) -> None:
    """The preview shows what comes and that the old goes last; no node falls back, and no label names what is not there."""
    old, old_layout = _key(trial, "ts"), _key(trial, "cut", mig=True)
    _declare(trial, sliced={"timeSlicing": {"replicas": 8}}, cut={"mig": {"layout": {"3g.40gb": 2}}})
    new, new_layout = _key(trial, "ts"), _key(trial, "cut", mig=True)

    steps = [(step["op"], step["urn"].rpartition("::")[2]) for step in trial.planned_steps()]
    assert {("create", f"gpu-operator-config-{new}"), ("create", f"gpu-operator-layout-{new_layout}")} <= set(steps)
    gone = {("delete", f"gpu-operator-config-{old}"), ("delete", f"gpu-operator-layout-{old_layout}")}
    first = min(steps.index(step) for step in gone)
    assert all(operation == "delete" for operation, _ in steps[first:])
    with Watch(trial) as watch:
        trial.up().ok()
    assert _keys(trial) == _in_use(trial)
    assert watch.counts["ts"] - BETWEEN == {4, 8}
    assert watch.dangling == set()
    assert watch.states <= {"success", "pending"}

    # The mig-parted file is one text: what has left the nodes leaves it with the next update, and only then.
    assert {old_layout, new_layout} <= _layouts(trial)
    assert [step["urn"].rpartition("::")[2] for step in trial.planned_steps()] == ["gpu-operator-mig-parted"]
    trial.up().ok()
    assert _layouts(trial) == {"all-disabled", new_layout}
    assert trial.planned_steps() == []


def test_a_failed_verification_keeps_the_old_key_and_going_back_finds_it(trial: Trial) -> None:
    old = _key(trial, "ts")
    _set_compute_mode(trial, PROHIBITED)
    _declare(trial, sliced={"timeSlicing": {"replicas": 6}})
    new = _key(trial, "ts")
    assert trial.up().code == 1
    assert _labels(trial) >= {new}, "the label has moved"
    assert {old, new} <= _keys(trial)

    _set_compute_mode(trial, DEFAULT)
    _declare(trial, sliced={"timeSlicing": {"replicas": 8}})
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.counts["ts"] - BETWEEN == {6, 8}
    assert watch.dangling == set()
    assert _keys(trial) == _in_use(trial)
    assert new not in _keys(trial)


def test_an_interruption_keeps_the_old_key_and_the_next_up_takes_it_away(trial: Trial) -> None:
    old = _key(trial, "ts")
    _declare(trial, sliced={"timeSlicing": {"replicas": 2}})
    new = _key(trial, "ts")
    command = trial.start("up", trial.stack)
    trial.wait_until(lambda: new in _keys(trial), "the new key")
    os.killpg(command.pid, signal.SIGKILL)
    command.communicate()
    assert {old, new} <= _keys(trial)
    trial.up().ok()
    assert _keys(trial) == _in_use(trial)
    assert old not in _keys(trial)


def test_a_pool_that_goes_goes_before_its_keys(trial: Trial) -> None:
    config, layout = _key(trial, "cut"), _key(trial, "cut", mig=True)
    trial.edit(lambda changed: changed["gpu-pools:pools"].pop())
    gone = [step["urn"].rpartition("::")[2] for step in trial.planned_steps() if step["op"] == "delete"]
    for key in (f"gpu-operator-config-{config}", f"gpu-operator-layout-{layout}"):
        assert gone.index("gpu-cut-labels-rule") < gone.index(key)
    # Without verification nothing proves the nodes; but no key goes before the labels have moved.
    trial.edit(lambda changed: changed["gpu-pools:verification"].update(enabled=False))
    _declare(trial, sliced={"timeSlicing": {"replicas": 4}})
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.dangling == set()
    assert _keys(trial) == _in_use(trial)


def test_a_destroy_leaves_nothing(trial: Trial) -> None:
    trial.down().ok()


@dataclass
class Watch:
    """What the nodes show while something is done.

    Attributes:
        trial: whose nodes.
        counts: pool -> every count of nvidia.com/gpu that was seen.
        dangling: labels that named a key that was not there.
        states: what mig-manager said.
    """

    trial: Trial
    counts: dict[str, set[int]] = field(default_factory=dict)
    dangling: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        if self._thread:
            self._thread.join()

    def _watch(self) -> None:
        while not self._end.is_set():
            # Labels first: a key that goes afterwards, when no label names it any more, does not matter.
            nodes = self.trial.nodes()
            keys, layouts = _keys(self.trial), _layouts(self.trial)
            for labels, allocatable in ((one["metadata"]["labels"], one["status"].get("allocatable", {})) for one in nodes):
                if "gpu-pools/pool" in labels:
                    self.counts.setdefault(labels["gpu-pools/pool"], set()).add(int(allocatable.get("nvidia.com/gpu", 0)))
                    self.dangling |= {labels.get(CONFIG_LABEL, "")} - {*keys, ""} | {labels.get(MIG_LABEL, "")} - {*layouts, ""}
                    self.states |= {labels["nvidia.com/mig.config.state"]} if "nvidia.com/mig.config.state" in labels else set()
            time.sleep(0.1)


def _declare(trial: Trial, **sharing: Any) -> None:
    trial.edit(lambda config: config["gpu-pools:sharing"].update(sharing))


def _key(trial: Trial, pool: str, *, mig: bool = False) -> str:
    (pool_plan,) = [one for one in trial.plan().pools if one.name == pool]
    return str(pool_plan.mig_config_key if mig else pool_plan.config_key)


def _keys(trial: Trial) -> set[str]:
    return set(trial.get(f"{CONFIG_MAPS}/gpu-pools-device-plugin")["data"])


def _layouts(trial: Trial) -> set[str]:
    return set(yaml.safe_load(trial.get(f"{CONFIG_MAPS}/gpu-pools-mig-parted")["data"]["config.yaml"])["mig-configs"])


def _labels(trial: Trial) -> set[str]:
    return {str(node["metadata"]["labels"].get(CONFIG_LABEL)) for node in trial.nodes()}


def _in_use(trial: Trial) -> set[str]:
    plan = trial.plan()
    return {plan.default_config_key, *(pool.config_key for pool in plan.pools)}


def _set_compute_mode(trial: Trial, mode: int) -> None:
    """Of the node of `ts`, as `nvidia-smi -c`: nothing in Kubernetes shows it, and no pod can use such a GPU."""
    (folder,) = trial.clusters
    (node,) = trial.nodes("ts")
    path = folder / "machines" / node["metadata"]["name"] / "state"
    state.change(path, lambda seen: replace(seen, gpus=tuple(replace(gpu, compute_mode=mode) for gpu in seen.gpus)))
