"""The loop that makes the machines of one cluster live.

It sleeps until a watch reports a change, the record of machine groups is written, or something is due; then every part
takes one step over the same snapshot. A step that fails is logged and taken again: nothing the API server answers ends the
daemon.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sandbox.cluster import node_tools
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.machines.cleanup_pod import CleanupPod
from sandbox.machines.crd_pod import CrdPod
from sandbox.machines.dra_driver_pod import DraDriverPod
from sandbox.machines.driver import DriverPod, GpuClientPod, ToolkitPod, ValidatorPod
from sandbox.machines.gpu_operator import Operator
from sandbox.machines.gpu_programs import DevicePluginPod, GfdPod, MpsDaemonPod
from sandbox.machines.kubelet import Kubelet
from sandbox.machines.labeller import LabellerPod
from sandbox.machines.mig_manager import MigManagerPod
from sandbox.machines.nfd import NfdMasterPod
from sandbox.machines.nfd_gc import NfdCollector
from sandbox.machines.nfd_worker import NfdWorkerPod
from sandbox.machines.nodes import Nodes
from sandbox.machines.pod_claims import PodClaims
from sandbox.machines.real import RealPrograms
from sandbox.machines.real_operator import RealOperator
from sandbox.machines.ruled import RuledPrograms
from sandbox.machines.store import Store
from sandbox.machines.verifier_pod import VerifierPod
from sandbox.machines.world import LOG, World

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.machines.node_programs import NodePrograms

_POLL_SECONDS = 0.3
# Changes come in bursts; a short pause lets a pass see the whole of one.
_SETTLE_SECONDS = 0.03
_FAILED_SECONDS = 1.0


def _node_programs(folder: Path, wake: Callable[[], None]) -> NodePrograms:
    """The programs that whoever booted the cluster has found, or the rules."""
    found = node_tools.recorded(folder)
    if isinstance(found, str):
        LOG.info("rules stand in for NVIDIA's programs on the nodes: %s", found)
        return RuledPrograms(folder / "machines")
    return RealPrograms(folder / "machines", found, wake)


class Daemon:
    """The machines of one cluster."""

    def __init__(self, folder: Path) -> None:
        """Connect to the cluster of a folder."""
        self._folder = folder
        self._api = Api.at(folder / "kubeconfig")
        self._store = Store(self._api)
        programs = self._programs = _node_programs(folder, self._store.wake)
        self._nodes = Nodes(self._api, self._store, folder, programs)
        self._nfd_master, self._nfd_worker = NfdMasterPod(folder), NfdWorkerPod(folder, self._store.wake)
        self._collector = NfdCollector(folder)
        found = node_tools.recorded_operator(folder)
        real = [] if found is None else [RealOperator(folder, found)]
        self._real_operator = next(iter(real), None)
        self._operator = self._real_operator or Operator()
        self._cleanup = CleanupPod(folder)
        # In the order in which they wait for each other.
        self._kubelet = Kubelet([
            *real, DriverPod(), ToolkitPod(), LabellerPod(), self._nfd_master, self._nfd_worker, MigManagerPod(programs),
            GfdPod(programs), MpsDaemonPod(programs), DevicePluginPod(programs), ValidatorPod(), GpuClientPod(),
            VerifierPod(programs), DraDriverPod(programs), self._cleanup, CrdPod(),
        ], PodClaims(programs))  # fmt: skip

    def run(self, stop: threading.Event) -> None:
        """Live until told to stop."""
        try:
            self._live(stop)
        finally:
            self._programs.close()
            self._nfd_worker.stop()
            self._nfd_master.stop()
            if self._real_operator is not None:
                self._real_operator.stop()
            self._cleanup.stop()

    def _live(self, stop: threading.Event) -> None:
        self._store.start()
        due = 0.0
        while not stop.is_set():
            changed = self._store.wait(min(_POLL_SECONDS, max(0.0, due - time.monotonic())))
            groups_changed = self._nodes.groups_changed() or self._programs.has_changed()
            if not self._store.ready() or not (changed or groups_changed or time.monotonic() >= due):
                continue
            if changed:
                time.sleep(_SETTLE_SECONDS)
            due = time.monotonic() + self._pass()

    def _pass(self) -> float:
        """Take one step everywhere; seconds until the next one is due."""
        try:
            return self._step()
        except (ApiError, UnreachableError, OSError) as error:
            LOG.warning("pass: %s", error)
        except Exception:  # noqa: BLE001 a bug in one part must not take all nodes down; it is logged with its traceback
            LOG.exception("pass failed")
        return _FAILED_SECONDS

    def _step(self) -> float:
        now = time.monotonic()
        self._nodes.step()
        self._programs.attend(self._nodes.machines)
        beat = self._nodes.heartbeat(now)
        nodes = self._store.by_name("nodes")
        world = World(
            self._api, self._store, self._folder, now,
            {node: machine for node, machine in self._nodes.machines.items() if node in nodes},
            nodes, self._store.all("pods"), self._store.by_name("configmaps"),
        )  # fmt: skip
        self._nfd_master.stop_orphan(world)
        self._kubelet.step(world)
        self._nodes.publish(world)
        self._operator.step(world)
        self._collector.step(world)
        if self._nodes.save() or world.moved:
            # Programs wait for each other through the machine's state, of which no watch tells.
            return 0.0
        return min(beat, world.wake_in)
