"""The GPUs of one machine as its record keeps them: what the sandbox shows of them, and what the rules work on.

State only: product, MIG mode, GPU instances with their placements, compute mode. Where the real programs run, it follows the
state file of the simulated NVML, which knows more (gpu_state). Where rules stand in, it is all that there is, and every change
is a pure function that returns new GPUs: compute instances are not kept apart (each GPU instance has one that fills it, as
mig-parted makes them), a MIG mode change needs neither a reset nor the reboot that Ampere GPUs in virtual machines need.
Nothing ever computes or overheats.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from gpu_pools.mig.geometry import place
from sandbox.nvml.from_tables import gpu_uuid
from sandbox.nvml.known_models import model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import GpuModel, MigProfile
    from sandbox.cluster.machine_groups import Hardware

DEFAULT_MODE = "DEFAULT"
EXCLUSIVE_PROCESS = "EXCLUSIVE_PROCESS"


@dataclass(frozen=True, order=True)
class GpuInstance:
    """One MIG instance: its profile, and where it sits in the model's placement units."""

    start: int
    size: int
    profile: str


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        index: as NVML counts.
        uuid: as NVML names it; the same GPU of the same node always has the same.
        model: key of gpu_pools.hardware.models.
        product: what nvmlDeviceGetName answers.
        mig_enabled: MIG mode, current and pending alike.
        instances: what is created on it, in placement order.
        compute_mode: ``DEFAULT`` or ``EXCLUSIVE_PROCESS``.
    """

    index: int
    uuid: str
    model: str
    product: str
    mig_enabled: bool = False
    instances: tuple[GpuInstance, ...] = ()
    compute_mode: str = DEFAULT_MODE

    @property
    def layout(self) -> dict[str, int]:
        """How many instances of each profile there are."""
        return {
            profile: [item.profile for item in self.instances].count(profile)
            for profile in sorted({item.profile for item in self.instances})
        }


def new_gpus(node: str, hardware: Hardware, cloud_mig_profile: str | None) -> tuple[Gpu, ...]:
    """The GPUs of a machine at its first boot.

    Args:
        node: the node's name, from which the UUIDs follow.
        hardware: what the machine is made of.
        cloud_mig_profile: AKS gpuInstanceProfile, e.g. ``MIG1g``: AKS partitions the GPUs before the node joins.
    """
    if hardware.gpu_model is None:
        return ()
    known = model(hardware.gpu_model)
    product = hardware.gpu_product or (known.products[0] if known.products else f"Simulated {known.key}")
    plain = tuple(Gpu(index, gpu_uuid(node, index), known.key, product) for index in range(hardware.gpus))
    if cloud_mig_profile is None:
        return plain
    profile = cloud_profile(known, cloud_mig_profile)
    if profile is None:
        return plain
    return tuple(with_layout(gpu, {profile.name: profile.max_instances}) or gpu for gpu in plain)


def cloud_profile(known: GpuModel, cloud_name: str) -> MigProfile | None:
    """The profile that AKS means by ``MIG1g`` and so on: the plain one of that many slices, the one that fits most often."""
    slices = cloud_name.removeprefix("MIG").removesuffix("g")
    plain = [
        item
        for name, item in (known.profiles or {}).items()
        if name.startswith(f"{slices}g.") and "+" not in name and not name.endswith(("-me", ".gfx"))
    ]
    return max(plain, key=lambda item: item.max_instances, default=None)


def with_layout(gpu: Gpu, layout: Mapping[str, int]) -> Gpu | None:
    """The GPU in MIG mode with these instances, or None where they do not fit."""
    placements = place(model(gpu.model), layout)
    if placements is None:
        return None
    instances = tuple(GpuInstance(item.start, item.size, item.profile) for item in placements)
    return replace(gpu, mig_enabled=True, instances=instances)


def cleared(gpu: Gpu, *, mig_enabled: bool) -> Gpu:
    """The GPU without instances, in that MIG mode."""
    return replace(gpu, mig_enabled=mig_enabled, instances=())


def to_json(gpus: tuple[Gpu, ...]) -> list[dict[str, Any]]:
    """As it is kept in the machine's file."""
    return [asdict(gpu) for gpu in gpus]


def from_json(raw: list[dict[str, Any]]) -> tuple[Gpu, ...]:
    """Read back what to_json wrote."""
    return tuple(Gpu(**{**item, "instances": tuple(GpuInstance(**instance) for instance in item["instances"])}) for item in raw)
