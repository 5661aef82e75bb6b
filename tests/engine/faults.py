"""The faults that are provoked on a living fleet, each with the causes that its node must be told to have.

A fault changes what a person, a program or broken hardware would change: a node's GPUs (the state file of the simulated NVML),
its processes, objects of the API. What it returns undoes that, which is all that a repair takes: nobody restarts a verifier. The
operator and NFD put their own things right again, so some faults are made where they last; those say so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.verifier.mps_daemons import read_processes
from sandbox.nvml import simulated
from sandbox.system import processes
from tests.engine.fleet import CONFIG_LABEL, CONFIG_MAP, Fleet, ignored
from tests.sandbox.machines import mps
from tests.sandbox.machines.plugins import Plugin, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# NVML_COMPUTEMODE_*, NVML_ERROR_*.
_DEFAULT, _PROHIBITED, _EXCLUSIVE_PROCESS = 0, 2, 3
_FORBIDDEN, _NOT_LOADED, _NO_LIBRARY, _LOST, _MISMATCH = 4, 9, 12, 15, 18
_PLUGIN_RETRY_SECONDS: Final = 40
_OWN_DAEMON: Final = "host/proc/4711"
_JOB: Final = simulated.Process(4242, 512, "/usr/bin/python3")
_SYSTEM_PODS: Final = "/api/v1/namespaces/kube-system/pods"
_PLUGIN: Final = "nvidia-device-plugin-daemonset"


@dataclass(frozen=True)
class Fault:
    """A fault of one node.

    Attributes:
        pool: the node's.
        index: which of the pool's nodes.
        causes: what the verifier must find, and nothing else; the condition names the first one first.
        happens: makes it so on a node; returns how it is repaired.
        status: of the condition; Unknown for what is a defect of the verifier's pod.
    """

    pool: str
    index: int
    causes: tuple[str, ...]
    happens: Callable[[Fleet, str], Callable[[], object]]
    status: str = "False"


# --- the node's GPUs --------------------------------------------------------------------------------------


def _gpus(change: Callable[[simulated.Machine], simulated.Machine]) -> Callable[[Fleet, str], Callable[[], object]]:
    return lambda fleet, node: fleet.gpus(node, change)


def _each(machine: simulated.Machine, **changes: Any) -> simulated.Machine:
    return replace(machine, gpus=tuple(replace(gpu, **changes) for gpu in machine.gpus))


def _one(machine: simulated.Machine, index: int, change: Callable[[simulated.Gpu], simulated.Gpu]) -> simulated.Machine:
    return replace(machine, gpus=tuple(change(gpu) if at == index else gpu for at, gpu in enumerate(machine.gpus)))


def _pending(gpu: simulated.Gpu) -> simulated.Gpu:
    assert gpu.mig
    return replace(gpu, mig=replace(gpu.mig, current=False, pending=True, instances=()))


def _whole_instance(gpu: simulated.Gpu) -> simulated.Gpu:
    return simulated.partitioned(gpu, [("7g.80gb", 0)])


def _everywhere(function: str, **what: Any) -> Callable[[simulated.Machine], simulated.Machine]:
    return lambda machine: replace(machine, faults=(simulated.Fault(function, **what),))


# --- its processes ----------------------------------------------------------------------------------------


def _mps_dies(fleet: Fleet, node: str) -> Callable[[], object]:
    """Its process hangs: nothing tells its pod, nor the plugin.

    But a plugin that found no daemon when it started looks again 30 s later, whatever came meanwhile.
    """
    processes.wait_until(lambda: fleet.age(node, _PLUGIN) > _PLUGIN_RETRY_SECONDS, timeout=60, what="the plugin's second look")
    (daemon,) = read_processes(fleet.machine(node) / "host" / "proc").daemons
    os.kill(daemon.pid, signal.SIGSTOP)
    return lambda: os.kill(daemon.pid, signal.SIGCONT)


def _mps_split(fleet: Fleet, node: str) -> Callable[[], object]:
    """Somebody has set other limits in a daemon that runs."""
    share = "get_default_active_thread_percentage"
    memory = "get_default_device_pinned_mem_limit 0"
    before = mps.asked(fleet.machine(node), share), mps.asked(fleet.machine(node), memory)
    _limit(fleet, node, "50", "7G")
    return lambda: _limit(fleet, node, *before)


def _limit(fleet: Fleet, node: str, share: str, memory: str) -> None:
    said = f"set_default_active_thread_percentage {share}\nset_default_device_pinned_mem_limit 0 {memory}\n"
    assert mps.asked(fleet.machine(node), said) == ""


def _own_mps(fleet: Fleet, node: str) -> Callable[[], object]:
    """Somebody starts a daemon on the node, beside every pod."""
    place = fleet.machine(node) / _OWN_DAEMON
    place.mkdir(parents=True)
    (place / "cmdline").write_text("nvidia-cuda-mps-control\0-d\0")
    return lambda: shutil.rmtree(place)


def _old_plugin(fleet: Fleet, node: str) -> Callable[[], object]:
    """Outside of every pod something registers whole GPUs, as a plugin of an earlier configuration that was never ended."""
    plugin = Plugin(fleet.device_plugins(node), "left-over.sock")
    plugin.say(listing(**dict.fromkeys("abcdefgh", True)))
    plugin.register("nvidia.com/gpu")
    return plugin.stop


# --- objects of the API -----------------------------------------------------------------------------------


def _config_of(fleet: Fleet, node: str) -> tuple[str, str]:
    """The key that a node's label names, and its text."""
    key = fleet.trial.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][CONFIG_LABEL]
    return key, fleet.trial.get(CONFIG_MAP)["data"][key]


def _config_edited(fleet: Fleet, node: str) -> Callable[[], object]:
    """The key of this pool alone: nobody but the verifier notices."""
    key, text = _config_of(fleet, node)
    return fleet.patch(CONFIG_MAP, {"data": {key: text.replace("replicas: 8", "replicas: 6")}}, {"data": {key: text}})


def _other_key(fleet: Fleet, node: str) -> Callable[[], object]:
    other, _ = _config_of(fleet, fleet.node("eight", 0))
    return fleet.label(node, CONFIG_LABEL, other)


def _second_plugin(fleet: Fleet, node: str) -> Callable[[], object]:
    name = "nvidia-device-plugin-static"
    container = {"name": "nvidia-device-plugin-ctr", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.14.1"}
    spec = {"nodeName": node, "automountServiceAccountToken": False, "containers": [container]}
    fleet.api.create(_SYSTEM_PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    return lambda: fleet.api.delete(f"{_SYSTEM_PODS}/{name}")


def _key_lost(fleet: Fleet, node: str) -> Callable[[], object]:
    """A plugin that runs keeps what it has read, so it starts anew; it takes up the key by itself once that is back."""
    key, text = _config_of(fleet, node)
    undo = fleet.patch(CONFIG_MAP, {"data": {key: None}}, {"data": {key: text}})
    fleet.delete_pod(node, _PLUGIN)
    return undo


def _gpu_lost(fleet: Fleet, node: str) -> Callable[[], object]:
    """The plugin never takes a device back that it took out, so the repair ends with its restart, as the remedy says."""
    undo = fleet.gpus(node, lambda machine: _each(machine, faults=(simulated.Fault("*", error=_LOST),)))
    return lambda: (undo(), fleet.delete_pod(node, _PLUGIN))


def _unknown_layout(fleet: Fleet, node: str) -> Callable[[], object]:
    """By hand; on AKS the label is the cloud's, which looks at it only when the pool changes."""
    return fleet.label(node, "nvidia.com/mig.config", "no-such-layout")


def _taint_removed(fleet: Fleet, node: str) -> Callable[[], object]:
    path = f"/api/v1/nodes/{node}"
    taints = fleet.trial.get(path)["spec"]["taints"]
    return fleet.patch(path, {"spec": {"taints": None}}, {"spec": {"taints": taints}})


def _labelled(key: str, value: str | None) -> Callable[[Fleet, str], Callable[[], object]]:
    return lambda fleet, node: fleet.label(node, key, value)


# --- what gpu-feature-discovery says, while nobody carries it to the node ---------------------------------


def _discovered_anew(fleet: Fleet, node: str) -> Callable[[], object]:
    """It starts anew, and its labels do not reach the node: they stay those of its last life until nfd-master is back."""
    fleet.delete_pod(node, "gpu-feature-discovery")
    return ignored


def _not_capable(fleet: Fleet, node: str) -> Callable[[], object]:
    """By hand: nfd-master would put it right at its next look."""
    return fleet.label(node, "nvidia.com/mps.capable", "false")


# --- the verifier itself ----------------------------------------------------------------------------------


def _verifier_ends(number: int) -> Callable[[Fleet, str], Callable[[], object]]:
    """As the node comes to differ: it is the next one that has to find it."""

    def happens(fleet: Fleet, node: str) -> Callable[[], object]:
        undo = _gpus(lambda machine: _each(machine, compute_mode=_PROHIBITED))(fleet, node)
        running = fleet.running_on(node, " -- watch --expect")
        assert running, f"no verifier runs on {node}"
        for pid in running:
            # Its reader of NVML may end by itself meanwhile.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return undo

    return happens


#: All at once, those of one node one after the other.
FAULTS: Final[Mapping[str, Fault]] = {
    "sharing off although declared": Fault(
        "sliced", 0, ("label-missing", "sharing-off", "gfd-other"), _labelled(CONFIG_LABEL, None)
    ),
    "the device plugin is switched off on the node": Fault(
        "sliced", 0, ("operand-missing", "nothing-offered"), _labelled("nvidia.com/gpu.deploy.device-plugin", "false")
    ),
    "the driver is not loaded": Fault("sliced", 0, ("driver-missing",), _gpus(_everywhere("nvmlInit*", error=_NOT_LOADED))),
    "wrong replicas": Fault("sliced", 1, ("label-other", "count-other", "gfd-other"), _other_key),
    "two device plugins": Fault("sliced", 1, ("two-plugins",), _second_plugin),
    "the verifier may not ask NVML": Fault(
        "sliced", 1, ("nvml-permission",), _gpus(_everywhere("nvmlInit*", error=_FORBIDDEN)), "Unknown"
    ),
    "NVML hangs": Fault("sliced", 2, ("nvml-hang",), _gpus(_everywhere("nvmlInit*", hang_seconds=3600))),
    "config edited under the same key": Fault("eight", 0, ("config-edited",), _config_edited),
    "the configuration lost the node's key": Fault(
        "eight", 0, ("config-key-missing", "operand-config", "sharing-off"), _key_lost
    ),
    "the verifier has no driver library": Fault(
        "eight", 0, ("library-missing",), _gpus(_everywhere("nvmlInit*", error=_NO_LIBRARY)), "Unknown"
    ),
    "MPS declared, compute mode default": Fault(
        "served", 0, ("mps-mode-default",), _gpus(lambda machine: _each(machine, compute_mode=_DEFAULT))
    ),
    "MPS with another split": Fault("served", 0, ("mps-split",), _mps_split),
    "MPS daemon dead": Fault("served", 0, ("mps-dead",), _mps_dies),
    "MIG waits for a reboot": Fault("parts", 0, ("mig-pending",), _gpus(lambda machine: _one(machine, 0, _pending))),
    "a stale whole-GPU resource": Fault("parts", 0, ("left-over",), _old_plugin),
    "MIG waits for a process, which no pod is told of": Fault(
        "parts",
        0,
        ("mig-pending",),
        _gpus(lambda machine: _one(machine, 7, lambda gpu: replace(_pending(gpu), processes=(_JOB,)))),
    ),
    "one GPU of eight has another layout": Fault(
        "parts", 1, ("mig-one-differs",), _gpus(lambda machine: _one(machine, 5, _whole_instance))
    ),
    "mig-manager fails": Fault("parts", 1, ("label-other", "mig-config-failed"), _unknown_layout),
    "a GPU of eight is away": Fault(
        "parts", 1, ("gpu-missing",), _gpus(lambda machine: replace(machine, gpus=machine.gpus[:-1]))
    ),
    "driver mismatch": Fault("whole", 0, ("driver-mismatch",), _gpus(_everywhere("nvmlInit*", error=_MISMATCH))),
    "GPU lost": Fault("whole", 0, ("gpu-lost", "unhealthy"), _gpu_lost),
    "the pool's taint is gone": Fault("whole", 0, ("taint-missing",), _taint_removed),
    "an MPS control daemon of one's own": Fault("whole", 1, ("mps-undeclared",), _own_mps),
    "drivers are being replaced": Fault(
        "whole", 1, ("driver-upgrading",), _labelled("nvidia.com/gpu-driver-upgrade-state", "upgrade-required")
    ),
    "compute mode left over": Fault(
        "whole", 1, ("mode-left-over",), _gpus(lambda machine: _each(machine, compute_mode=_EXCLUSIVE_PROCESS))
    ),
    "memory repairs failed": Fault(
        "whole", 1, ("memory-broken",), _gpus(lambda machine: _each(machine, remapped_rows=(0, 2, 0, 1)))
    ),
    "the driver's upgrade failed": Fault(
        "whole", 1, ("driver-upgrade-stuck",), _labelled("nvidia.com/gpu-driver-upgrade-state", "upgrade-failed")
    ),
}
#: While nfd-master is away.
UNHEARD: Final[Mapping[str, Fault]] = {
    "GFD labels stale": Fault("sliced", 0, ("gfd-stale",), _discovered_anew),
    "the MPS daemon has no pod": Fault(
        "served", 0, ("mps-operand-missing", "mps-mode-default", "mps-dead", "gfd-other"), _not_capable
    ),
    "verifier killed": Fault("sliced", 1, ("mode-by-hand",), _verifier_ends(signal.SIGKILL)),
    "verifier terminated": Fault("whole", 0, ("mode-by-hand",), _verifier_ends(signal.SIGTERM)),
}
#: Those of the whole cluster, by what nodes are told to have; tests/engine/test_faults.py provokes each in a test of its own.
OF_THE_CLUSTER: Final[Mapping[str, tuple[str, ...]]] = {
    "verifier without permission": ("api-permission",),
    "default config lost": ("label-missing", "sharing-off"),
    "ClusterPolicy without the sharing config": ("sharing-off", "gfd-other"),
    "ClusterPolicy ready with no GPU node": ("nfd-missing",),
    "NFD does not tolerate the taint": ("nfd-missing",),
}
