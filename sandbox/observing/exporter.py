"""What an exporter answers of a node whose truth is known: rows as dcgm-exporter 4.x gives them, as Prometheus then has them.

Restated from NVIDIA/dcgm-exporter d5e5f510 (4.5.3-4.8.2): internal/pkg/transformation/kubernetes.go (`Process`,
`toDeviceToSharingPods`, `createPerProcessMetrics`), internal/pkg/collector/expcollector.go, internal/pkg/rendermetrics; and what
is known of release 4.6.0. No recording of a real one was there to hold it to. Like the real one, since rules have to stand it:

- a GPU with MIG instances has rows of these alone, each with the GPU's own value where the field is the GPU's;
- a field that DCGM does not have is missing, never 0;
- without virtual GPUs one of the pods that share has the row's labels, the last one; the others have none;
- with virtual GPUs every field is copied to each pod, and the row without a pod is gone. Only GPU_UTIL and FB_USED keep it, and
  give each pod its own value; on MIG only FB_USED. A pod with two containers or two replicas has its rows twice;
- under MPS the memory is each client's own, and the use of each is 0: NVML tells the use of the server, which is in no pod that
  holds the GPU (measured on a real GPU: docs/measured/h100-mps-nvml.json);
- Xids and clock events are counts of five minutes, with a row of 0 and without the label where there was none.

Not played: HTTP (pod_network.py serves it), the scrape, the relabelings. `instance` and `gpu_pool` are here as the ServiceMonitor
makes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.dcgm_fields import dcgm_fields, per_pod_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MIB: Final = 1048576
Labels = Iterable[tuple[str, str]]
Row = tuple[str, tuple[tuple[str, str], ...], float]


@dataclass(frozen=True)
class Pod:
    """A pod on a unit: what it really uses of it."""

    name: str
    use: float  # of its GPU or MIG instance, in hundredths, 0 to 100
    memory: int  # MiB
    namespace: str = "team"
    #: How often it is listed: containers, or replicas that it holds.
    times: int = 1


@dataclass(frozen=True)
class Unit:
    """A whole GPU, or a MIG instance."""

    profile: str = ""
    instance: int = 0
    pods: tuple[Pod, ...] = ()
    memory: int = 81920  # MiB

    @property
    def use(self) -> float:
        """The truth: what its pods use, at most all."""
        return min(100.0, sum(pod.use for pod in self.pods))

    @property
    def used(self) -> int:
        """The same of memory."""
        return sum(pod.memory for pod in self.pods)


@dataclass(frozen=True)
class Gpu:
    """One GPU, with what is wrong with it."""

    index: int
    units: tuple[Unit, ...]
    power: float = 200
    temperature: float = 50
    #: Xids within the last five minutes, and how often.
    xids: Mapping[int, int] = field(default_factory=dict)
    clock_events: Mapping[str, int] = field(default_factory=dict)
    double_bit_errors: int = 0
    rows_pending: int = 0
    rows_failed: int = 0
    lost: bool = False
    profiling: bool = True
    #: As NVML names it; empty: by its place.
    uuid: str = ""
    product: str = "NVIDIA A100 80GB PCIe"


@dataclass(frozen=True)
class Node:
    """A node, and its exporter."""

    name: str
    pool: str
    gpus: tuple[Gpu, ...]
    virtual: bool = False
    mps: bool = False
    up: bool = True


def labels_text(labels: Labels) -> str:
    """A series as Prometheus writes it."""
    inside = ", ".join(f'{key}="{value}"' for key, value in sorted(labels) if key != "__name__")
    return dict(labels).get("__name__", "") + f"{{{inside}}}"


def exposed(node: Node) -> str:
    """As the exporter's /metrics has it: without what Prometheus and the monitor add."""
    kinds = {one.name: one.type for one in dcgm_fields()}
    rows: dict[str, list[str]] = {}
    for name, labels, value in scrape(node):
        if name != "up":
            own = tuple(pair for pair in labels if pair[0] not in {"instance", "gpu_pool"})
            rows.setdefault(name, []).append(f"{labels_text((('__name__', name), *own))} {value}\n")
    return "".join(f"# TYPE {name} {kinds.get(name, 'gauge')}\n{''.join(lines)}" for name, lines in rows.items())


def scrape(node: Node) -> Iterator[Row]:
    """Every row that Prometheus has of a node after a scrape."""
    target = (("instance", node.name), ("gpu_pool", node.pool))
    yield "up", (*target, ("job", "nvidia-dcgm-exporter")), float(node.up)
    if not node.up:
        return
    for gpu in node.gpus:
        for unit in gpu.units:
            for name, more, value in _fields(gpu, unit):
                for labels, shown in _rows(node, unit, name, value):
                    yield name, (*target, *_labels(node, gpu, unit), *more, *labels), shown


def _labels(node: Node, gpu: Gpu, unit: Unit) -> Iterator[tuple[str, str]]:
    yield "gpu", str(gpu.index)
    yield "UUID", gpu.uuid or f"GPU-{node.name}-{gpu.index}"
    yield "device", f"nvidia{gpu.index}"
    yield "modelName", gpu.product
    yield "hostname", node.name
    yield "DCGM_FI_DRIVER_VERSION", "595.91.07"
    if unit.profile:
        yield "GPU_I_PROFILE", unit.profile
        yield "GPU_I_ID", str(unit.instance)


def _fields(gpu: Gpu, unit: Unit) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
    """(field, labels of its own, value) of a unit, before pods come in."""
    # These come from what the exporter knows of its devices, also of a lost one.
    for name, label, counts in (
        ("DCGM_EXP_XID_ERRORS_COUNT", "xid", {str(number): count for number, count in gpu.xids.items()}),
        ("DCGM_EXP_CLOCK_EVENTS_COUNT", "clock_event", gpu.clock_events),
    ):
        window = ("window_size_in_ms", "300000")
        for key, count in counts.items():
            yield name, (window, (label, key)), count
        if not counts:
            yield name, (window,), 0
    if gpu.lost:
        return
    values = _values(gpu, unit)
    for one in dcgm_fields():
        missing = (unit.profile and one.mig == "none") or ("_PROF_" in one.name and not gpu.profiling)
        if one.type != "label" and not one.name.startswith("DCGM_EXP_") and not missing:
            yield one.name, (), values.get(one.name, 1.0)


def _values(gpu: Gpu, unit: Unit) -> dict[str, float]:
    return {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": unit.use / 100,
        "DCGM_FI_PROF_SM_ACTIVE": unit.use / 200,
        "DCGM_FI_DEV_GPU_UTIL": unit.use,
        "DCGM_FI_DEV_FB_USED": unit.used,
        "DCGM_FI_DEV_FB_FREE": unit.memory - unit.used,
        "DCGM_FI_DEV_POWER_USAGE": gpu.power,
        "DCGM_FI_DEV_GPU_TEMP": gpu.temperature,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": gpu.double_bit_errors,
        "DCGM_FI_DEV_ROW_REMAP_PENDING": gpu.rows_pending,
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": gpu.rows_failed,
    }


def _rows(node: Node, unit: Unit, name: str, value: float) -> Iterator[tuple[tuple[tuple[str, str], ...], float]]:
    """(labels of a pod, value) of each row of one field."""
    if not node.virtual:
        yield (_pod(unit.pods[-1]) if unit.pods else (), value)
        return
    if name not in per_pod_fields():
        for pod in unit.pods:
            yield from ((_pod(pod, number), value) for number in range(pod.times))
        if not unit.pods:
            yield (), value
        return
    yield (), value
    for pod in unit.pods:
        own = {"DCGM_FI_DEV_GPU_UTIL": 0.0 if node.mps else pod.use, "DCGM_FI_DEV_FB_USED": float(pod.memory)}[name]
        yield from ((_pod(pod, number), own) for number in range(pod.times))


def _pod(pod: Pod, number: int | None = None) -> tuple[tuple[str, str], ...]:
    own = (("pod", pod.name), ("namespace", pod.namespace), ("container", f"c{number or 0}"))
    return own if number is None else (*own, ("pod_uid", f"uid-{pod.name}"), ("vgpu", f"{pod.name}-{number}"))
