"""What each node of a pool must show once its sharing is really active, and the MIG strategy that its resource names follow.

One expectation, three readers: the preview prints it, the policies judge it, the verifier compares it with NVML and the node
object. Resource names and counts follow the device plugin's rules, labels those of gpu-feature-discovery 0.19
(NVIDIA/k8s-device-plugin internal/lm). A value that no source gives is left out, never guessed.

The verifier needs both, for neither is enough: mig-parted says success where it made no MIG device, gpu-feature-discovery
labels where the plugin refuses its config, and the plugin calls one replica of four unhealthy when their GPU fails.
docs/reference/rules.md lists these traps, each with who catches it.

The MIG strategy is one for the whole cluster. Under `single` every MIG instance is an ``nvidia.com/gpu``, which needs nodes of
one profile; under `mixed` each profile has its own name. So one pool that needs `mixed` renames the resources of all others,
and with them what their pods must ask for: this module derives the strategy, refuses a given one that does not fit, and says
who is renamed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.resource_names import WHOLE_GPU, dotted, mig_resource
from gpu_pools.stack.allocation import DRA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.allocation.device_plugin import FlagMigStrategy
    from gpu_pools.hardware.node import Hardware
    from gpu_pools.sharing.mode import MpsExpectation, Replicated, Sharing
    from gpu_pools.stack.charts import MigStrategy
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

# --- the MIG strategy ---------------------------------------------------------------------------------------------

_MOST_CAUSES: Final = 5


def derived_mig_strategy(settings: Settings) -> MigStrategy:
    """The given strategy; else `single` while every MIG declaration in use is uniform over its node, else `mixed`."""
    if settings.operator.mig_strategy:
        return settings.operator.mig_strategy
    return "single" if not any(_needing_mixed(settings)) else "mixed"


def check_mig_strategy(settings: Settings, problems: Problems) -> None:
    """A problem for each pool that the given strategy does not fit."""
    if settings.operator.mig_strategy != "single":
        return
    for pool in _needing_mixed(settings):
        problems.add(
            "gpu-pools:operator.migStrategy",
            f'"single" does not fit pool "{pool.name}": {_why_mixed(pool, settings)}',
            allowed="mixed, or leave it out",
            remedy="Use mixed; under single the device plugin exits and the node advertises nothing.",
        )


def _why_mixed(pool: Pool, settings: Settings) -> str:
    if settings.allocation(pool) == DRA:
        return "by claims MIG instances have the names of their profiles"
    return f'the layout of "{pool.sharing}" is not one profile on all GPUs'


def other_strategy(hardware: Hardware, sharing: Sharing, strategy: MigStrategy) -> tuple[MigStrategy, Mapping[str, str]] | None:
    """(the other strategy, resource now -> resource then); None where it changes nothing or does not fit."""
    if not sharing.uniform_profile:
        return None
    other: MigStrategy = "mixed" if strategy == "single" else "single"
    now, then = advertised(hardware, sharing, strategy), advertised(hardware, sharing, other)
    return other, dict(zip(now, then, strict=True))


def causes_of_mixed(settings: Settings) -> tuple[str, ...]:
    """The pools that need `mixed`, by name; none where the strategy is given."""
    return () if settings.operator.mig_strategy else tuple(pool.name for pool in _needing_mixed(settings))


def strategy_warnings(sharing: Sharing, hardware: Hardware, causes: Sequence[str]) -> Iterator[str]:
    """That a pool's resources are not called nvidia.com/gpu only because of other pools, which are the `causes`."""
    other = other_strategy(hardware, sharing, "mixed") if causes else None
    if other is not None:
        ((now, alone),) = other[1].items()
        named = ", ".join(f'"{name}"' for name in causes[:_MOST_CAUSES]) + (", …" if len(causes) > _MOST_CAUSES else "")
        yield f"advertises {now}, not {alone}: the MIG strategy holds for the whole cluster, and needs to be mixed for {named}"


def _needing_mixed(settings: Settings) -> Iterator[Pool]:
    for pool, sharing in settings.shared_pools():
        # By claims a MIG instance has the name of its profile: nvidia.com/gpu has the class of whole GPUs.
        if sharing.partitioned and (not sharing.uniform_profile or settings.allocation(pool) == DRA):
            yield pool


# --- what a node shows --------------------------------------------------------------------------------------------

_LONGEST_LABEL_VALUE: Final = 63


@dataclass(frozen=True)
class GpuExpectation:
    """One GPU: its MIG mode and instances (profile -> count)."""

    index: int
    mig_mode: str
    instances: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"index": self.index, "migMode": self.mig_mode, "instances": dict(self.instances)}


@dataclass(frozen=True)
class NvmlExpectation:
    """What NVML must say on a node.

    Attributes:
        gpu_model: this project's key of the model.
        products: names that nvmlDeviceGetName may answer.
        count: GPUs on the node.
        compute_mode: ``DEFAULT``, or ``EXCLUSIVE_PROCESS`` under MPS.
        gpus: per GPU.
        mps: the MPS split, None without MPS.
    """

    gpu_model: str
    products: tuple[str, ...]
    count: int
    compute_mode: str
    gpus: tuple[GpuExpectation, ...]
    mps: MpsExpectation | None

    def as_json(self) -> dict[str, Any]:
        """What the plan says of NVML."""
        return {
            "gpuModel": self.gpu_model,
            "products": list(self.products),
            "count": self.count,
            "computeMode": self.compute_mode,
            "gpus": [gpu.as_json() for gpu in self.gpus],
            "mps": self.mps and {**self.mps.as_json(), "multiprocessors": self.mps.multiprocessors},
        }


def advertised(hardware: Hardware, sharing: Sharing, mig_strategy: FlagMigStrategy) -> dict[str, int]:
    """Resource name -> count that one node's allocatable must hold, to the unit; nothing else of nvidia.com may be there."""
    instances, whole = _instances(hardware, sharing)
    if instances and mig_strategy == "single":
        shared = sharing.replication
        return {_renamed(WHOLE_GPU, shared): instances.total() * _times(shared)}
    counts = Counter({_renamed(WHOLE_GPU, sharing.replication_of(None)): whole * _times(sharing.replication_of(None))})
    for profile, count in sorted(instances.items()):
        shared = sharing.replication_of(profile)
        counts[_renamed(mig_resource(profile), shared)] = count * _times(shared)
    return {resource: count for resource, count in counts.items() if count}


def _instances(hardware: Hardware, sharing: Sharing) -> tuple[Counter[str], int]:
    """Instances on the whole node by profile, and how many GPUs stay whole."""
    instances: Counter[str] = Counter()
    whole = 0
    for index in range(hardware.gpus):
        layout = sharing.layout_of(index)
        instances.update(layout)
        whole += not layout
    return instances, whole


def _times(shared: Replicated | None) -> int:
    return shared.replicas if shared else 1


def _renamed(resource: str, shared: Replicated | None) -> str:
    return f"{resource}.shared" if shared and shared.rename_by_default else resource


def nvml(hardware: Hardware, sharing: Sharing) -> NvmlExpectation:
    """What NVML must say on a node with this hardware and declaration."""
    mode = "disabled" if hardware.model.mig_capable else "unsupported"
    gpus = tuple(
        GpuExpectation(index, "enabled" if layout else mode, layout)
        for index in range(hardware.gpus)
        for layout in [sharing.layout_of(index)]
    )
    return NvmlExpectation(
        gpu_model=hardware.model.key,
        products=(hardware.product,) if hardware.product else hardware.model.products,
        count=hardware.gpus,
        compute_mode=sharing.compute_mode,
        gpus=gpus,
        mps=sharing.mps_split(hardware.model),
    )


def gfd_labels(hardware: Hardware, sharing: Sharing, mig_strategy: FlagMigStrategy) -> dict[str, str]:
    """The labels of gpu-feature-discovery that tell how a node is shared; those that depend on unknown facts are left out."""
    labels = {
        **({"nvidia.com/gpu.family": hardware.model.architecture} if hardware.model.architecture else {}),
        "nvidia.com/mig.capable": _flag(hardware.model.mig_capable),
        "nvidia.com/mps.capable": _flag(sharing.needs_mps_daemon),
        "nvidia.com/mig.strategy": mig_strategy,
    }
    if not sharing.partitioned:
        labels.update(_base(WHOLE_GPU, hardware.product, hardware.gpus, sharing.replication))
        if hardware.model.memory_mib is not None:
            labels["nvidia.com/gpu.memory"] = str(hardware.model.memory_mib)
        return labels
    instances, whole = _instances(hardware, sharing)
    if mig_strategy == "single":
        profile, count = next(iter(instances.items()))
        labels.update(_base(WHOLE_GPU, _mig_product(hardware, profile), count, sharing.replication))
        return labels
    labels.update(_base(WHOLE_GPU, hardware.product, hardware.gpus, None))
    if not whole:
        labels["nvidia.com/gpu.replicas"] = "0"
    for profile, count in sorted(instances.items()):
        labels.update(_base(mig_resource(profile), _mig_product(hardware, profile), count, sharing.replication_of(profile)))
    return labels


def _base(resource: str, product: str | None, count: int, shared: Replicated | None) -> dict[str, str]:
    labels = {
        f"{resource}.count": str(count),
        f"{resource}.replicas": str(shared.replicas if shared else 1),
        f"{resource}.sharing-strategy": shared.node_label if shared else "none",
    }
    if product:
        name = _product_label(product) + ("-SHARED" if shared and not shared.rename_by_default else "")
        # gpu-feature-discovery does not cut it, and NFD drops a label whose value Kubernetes would refuse.
        if len(name) <= _LONGEST_LABEL_VALUE:
            labels[f"{resource}.product"] = name
    return labels


def _mig_product(hardware: Hardware, profile: str) -> str | None:
    return f"{hardware.product} MIG {dotted(profile)}" if hardware.product else None


def _product_label(product: str) -> str:
    """Dropped characters and dashes for blanks, as gpu-feature-discovery does it."""
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", product).split())


def _flag(value: object) -> str:
    return "true" if value else "false"
