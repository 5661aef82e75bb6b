"""The GPUs of a machine as the simulated NVML's state file has them, and back.

The state file says more (compute instances, PCI addresses, faults); the machine's record keeps what the sandbox shows of it.
Pure: no file is read or written here. One fact is assumed: gpu-feature-discovery ends on a GPU without a compute capability, so
where no source gives it a node's GPU has the highest of its architecture, and of a model whose architecture nobody tells the
highest of all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.models import model_keys
from sandbox.machines.gpu import DEFAULT_MODE, EXCLUSIVE_PROCESS, Gpu, GpuInstance
from sandbox.nvml import from_tables, simulated
from sandbox.nvml.known_models import model

if TYPE_CHECKING:
    from sandbox.machines.gfd import Driver

#: NVML_COMPUTEMODE_*; the MPS control daemon sets no other.
_EXCLUSIVE_PROCESS: Final = 3


def state_of(node: str, gpus: tuple[Gpu, ...], driver: Driver | None) -> simulated.Machine:
    """The state file of a machine with these GPUs, all of one product.

    Args:
        node: from which the UUIDs follow.
        gpus: at least one.
        driver: the loaded one; without it the file names one that nobody asks for.
    """
    first = gpus[0]
    plain = from_tables.machine_state(first.model, first.product, len(gpus), node=node)
    machine = replace(plain, gpus=tuple(_put(bare, gpu) for bare, gpu in zip(plain.gpus, gpus, strict=True)))
    return machine if driver is None else from_tables.with_driver(machine, driver.version, driver.cuda)


def gpus_of(model_key: str, machine: simulated.Machine) -> tuple[Gpu, ...]:
    """What a state file says, as the machine's record keeps it; GPUs count as NVML counts them."""
    return tuple(_taken(model_key, index, gpu) for index, gpu in enumerate(machine.gpus))


def _put(bare: simulated.Gpu, gpu: Gpu) -> simulated.Gpu:
    mode = _EXCLUSIVE_PROCESS if gpu.compute_mode == EXCLUSIVE_PROCESS else 0
    made = simulated.partitioned(bare, [(item.profile, item.start) for item in gpu.instances]) if gpu.mig_enabled else bare
    return replace(made, uuid=gpu.uuid, compute_mode=mode, capability=made.capability or _assumed(gpu.model))


def _assumed(model_key: str) -> tuple[int, int] | None:
    architecture = model(model_key).architecture
    kin = (model(key).compute_capability for key in model_keys() if architecture in {"", model(key).architecture})
    return max((found for found in kin if found is not None), default=None)


def _taken(model_key: str, index: int, gpu: simulated.Gpu) -> Gpu:
    kinds = {profile.id: profile for profile in gpu.mig.profiles} if gpu.mig else {}
    made = (kinds[item.profile_id] for item in gpu.mig.instances) if gpu.mig else ()
    starts = (item.start for item in gpu.mig.instances) if gpu.mig else ()
    instances = sorted(GpuInstance(start, kind.size, kind.name) for start, kind in zip(starts, made, strict=True))
    return Gpu(
        index=index,
        uuid=gpu.uuid,
        model=model(model_key).key,
        product=gpu.name,
        mig_enabled=gpu.mig is not None and gpu.mig.current,
        instances=tuple(instances),
        compute_mode=EXCLUSIVE_PROCESS if gpu.compute_mode == _EXCLUSIVE_PROCESS else DEFAULT_MODE,
    )
