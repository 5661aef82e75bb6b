"""Does the memory that a declaration's pods need fit: ``needs.memoryPerReplica`` against the GPUs of a pool.

Who limits memory differs by strategy. MPS gives each client total/replicas; a MIG instance has its own; time-slicing limits
nothing, so that the budgets of all who share must fit together. A budget that cannot fit is refused. One that fits only because
nothing is left for the CUDA contexts is a warning: what a context takes is measured on one GPU only. Unknown memory is a
warning too, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.hardware.node import Hardware
    from gpu_pools.sharing.mode import Replicated, Sharing
    from gpu_pools.stack.pools import Pool
    from gpu_pools.text.errors import Problems

#: MiB that the CUDA context of one process takes, with no kernel and no library loaded. Measured on an NVIDIA H200 (driver
#: 580.159.04): 527, 524 and 523 MiB more in use for each further process. It grows with the number of SMs.
CONTEXT_MIB: Final = 527
#: The same for a client of MPS with half of that GPU, taken from its pinned memory limit; 58 MiB with 16 replicas and more.
MPS_CONTEXT_MIB: Final = 271


@dataclass(frozen=True)
class _Share:
    """What some pods share: a GPU or a MIG instance.

    Attributes:
        what: in words, e.g. ``a100-80gb`` or ``3g.40gb of a100-80gb``.
        memory_mib: all of its memory, None if unknown.
        replicas: how many pods share it.
        limited: whether each pod is held to its part.
    """

    what: str
    memory_mib: int | None
    replicas: int
    limited: bool = False


def check_memory(pool: Pool, hardware: Hardware, sharing: Sharing, problems: Problems) -> list[str]:
    """A problem where the budget cannot fit on this pool's GPUs; returns warnings where that is close or unknown."""
    if sharing.needs is None:
        return []
    need, path = sharing.needs.memory_per_replica_mib, f"gpu-pools:sharing.{pool.sharing}.needs.memoryPerReplica"
    warnings = []
    for share in dict.fromkeys(_shares(hardware, sharing)):
        if share.memory_mib is None:
            warnings.append(f"the memory of {share.what} is unknown: memoryPerReplica cannot be checked before the deploy")
            continue
        each = share.memory_mib // share.replicas
        context = MPS_CONTEXT_MIB if share.limited else CONTEXT_MIB
        if need > each:
            problems.add(
                path,
                f'{need} MiB do not fit on pool "{pool.name}": {_share_text(share, each)}',
                allowed=f"at most {each}Mi there",
                remedy=_remedy(share, need),
            )
        elif need + context > each:
            warnings.append(
                f"{_share_text(share, each)}: beside {need} MiB little is left for the CUDA context, "
                f"which took {context} MiB on an H200 (D08)"
            )
    return warnings


def _shares(hardware: Hardware, sharing: Sharing) -> Iterator[_Share]:
    model = hardware.model
    for index in range(hardware.gpus):
        layout = sharing.layout_of(index)
        if not layout:
            yield _share(model.key, model.memory_mib, sharing.replication_of(None))
        for profile in layout:
            what = f"{profile} of {model.key}"
            yield _share(what, _instance_memory(model, profile), sharing.replication_of(profile))


def _share(what: str, memory_mib: int | None, shared: Replicated | None) -> _Share:
    return _Share(what, memory_mib, shared.replicas, shared.limits_memory) if shared else _Share(what, memory_mib, 1)


def _instance_memory(model: GpuModel, name: str) -> int | None:
    """MiB of an instance: as NVML says, else as `nvidia-smi mig -lgip` prints it in GiB."""
    profile = (model.profiles or {}).get(model.own_name(name))
    if profile is None:
        return None
    if profile.memory_mib is None and profile.memory_gib is not None:
        return int(profile.memory_gib * 1024)
    return profile.memory_mib


def _share_text(share: _Share, each: int) -> str:
    if share.replicas == 1:
        return f"{share.what} has {share.memory_mib} MiB"
    if share.limited:
        return f"MPS limits each of {share.replicas} replicas to {each} MiB of the {share.memory_mib} MiB of {share.what}"
    return f"{share.replicas} replicas take turns on the {share.memory_mib} MiB of {share.what}, {each} MiB each"


def _remedy(share: _Share, need: int) -> str:
    fitting = (share.memory_mib or 0) // need
    if fitting > 1:
        return f"Use at most {fitting} replicas, or a GPU with more memory."
    return "Use a larger MIG profile or GPU, fewer replicas, or a smaller budget."
