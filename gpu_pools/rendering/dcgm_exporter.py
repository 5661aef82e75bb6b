"""What the operator's DCGM exporter is told: its counters file, and the chart's values.

A running exporter does not read a changed file, so the ConfigMap is named by a hash of its text: another list is another name,
the operator's DaemonSet changes with it, and its pods start anew. The operator's own ServiceMonitor is off: beside the one of
gpu_pools/observing it would scrape everything twice.

Values of each pod on a shared GPU need four things at once (NVIDIA/dcgm-exporter d5e5f510, internal/pkg/transformation): the
switch KUBERNETES_VIRTUAL_GPUS, the node's processes (hostPID, since processes are found by /proc/<pid>/cgroup), the pods' UIDs
(enablePodUID: with them the operator lets the exporter read all pods), and an exporter that measures. Where no pool shares GPUs
none of these rights is asked for. Where the exporter only copies the GPU's value to each pod, the switch stays off: a copy looks
like a measurement.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.dcgm_fields import dcgm_fields, measures_pods

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.observability import ObservabilitySettings

#: The key that the operator mounts (gpu-operator v26.7.0, MetricsConfigFileName in controllers/object_controls.go).
COUNTERS_FILE: Final = "dcgm-metrics.csv"
VIRTUAL_GPUS: Final = "KUBERNETES_VIRTUAL_GPUS"
RESOURCE_NAMES: Final = "NVIDIA_RESOURCE_NAMES"
INTERVAL: Final = "DCGM_EXPORTER_INTERVAL"
#: What the exporter counts as a GPU of a pod without being told.
_KNOWN_RESOURCES: Final = ("nvidia.com/gpu", "nvidia.com/mig-")
_NAME: Final = "gpu-pools-dcgm-counters"
_HASH_DIGITS: Final = 8


def counters_file() -> str:
    """The counters file: a line for each field."""
    lines = ["# DCGM FIELD, Prometheus metric type, help message"]
    lines += [f"{one.name}, {one.type}, {one.says}" for one in dcgm_fields()]
    return "\n".join(lines) + "\n"


def counters_config_map() -> str:
    """The ConfigMap's name."""
    return f"{_NAME}-{hashlib.sha256(counters_file().encode()).hexdigest()[:_HASH_DIGITS]}"


def shares(sharing: Sharing) -> bool:
    """Whether several pods can be on one GPU, or on one MIG instance."""
    return sharing.replication is not None


def measures_each_pod(chart: str, sharings: Iterable[Sharing]) -> bool:
    """Whether the exporter is to measure pods: somewhere several share a GPU, and this version can."""
    return measures_pods(chart) and any(shares(sharing) for sharing in sharings)


def exporter_values(
    observed: ObservabilitySettings, chart: str, sharings: Collection[Sharing], advertised: Iterable[str]
) -> dict[str, Any]:
    """Of the gpu-operator chart; nothing where nothing is observed.

    Args:
        observed: the section.
        chart: the operator's version.
        sharings: of all pools.
        advertised: the names of all resources that the nodes advertise.
    """
    if not observed.enabled:
        return {}
    pods = measures_each_pod(chart, sharings)
    more = sorted({name for name in advertised if name != _KNOWN_RESOURCES[0] and not name.startswith(_KNOWN_RESOURCES[1])})
    env = {
        INTERVAL: str(observed.interval_seconds * 1000),
        **({RESOURCE_NAMES: ",".join(more)} if more else {}),
        **({VIRTUAL_GPUS: "true"} if pods else {}),
    }
    return {
        "dcgmExporter": {
            "enabled": True,
            "config": {"name": counters_config_map()},
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "serviceMonitor": {"enabled": False},
            **({"hostPID": True, "enablePodUID": True} if pods else {}),
        }
    }
