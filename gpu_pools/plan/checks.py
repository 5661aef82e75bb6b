"""Rules that tie a pool's hardware to its sharing, and pools to each other.

Each rule adds located problems (the deploy would never work) or returns warnings (it works, with a catch). The incidents behind
them are named in docs/reference/rules.md. Nothing here decides what is rendered.

One of them is the memory budget, ``needs.memoryPerReplica`` against the GPUs of a pool. Who limits memory differs by strategy.
MPS gives each client total/replicas. A MIG instance has its own. Time-slicing limits nothing, so the budgets of all who share
must fit together. A budget that cannot fit is refused. One that fits only because nothing is left for the CUDA contexts is a
warning, because what a context takes is measured on one GPU only. Unknown memory is a warning too, never a guess.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.plan.expectation import check_mig_strategy
from gpu_pools.platforms.known import platform_of
from gpu_pools.rendering.startup_taint import LEAST_KUBERNETES, refusal
from gpu_pools.sharing.mode import PoolUse
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.hardware.node import Hardware
    from gpu_pools.sharing.mode import Replicated, Sharing
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: AKS's gpuInstanceProfile for a number of compute slices.
GPU_INSTANCE_PROFILES: Final = {1: "MIG1g", 2: "MIG2g", 3: "MIG3g", 4: "MIG4g", 7: "MIG7g"}
_SHARING: Final = "gpu-pools:sharing"


def check_pool(pool: Pool, sharing: Sharing, problems: Problems) -> list[str]:
    """Problems of one pool with its declaration; returns its warnings."""
    if pool.hardware is None:
        return []
    use = PoolUse(pool.name, pool.path, pool.sharing, f"{_SHARING}.{pool.sharing}", pool.hardware)
    warnings = sharing.check(use, problems)
    _check_partitioning(pool, pool.hardware, sharing, problems)
    return warnings + check_memory(pool, pool.hardware, sharing, problems)


def check_together(settings: Settings, problems: Problems) -> None:
    """Problems between pools."""
    _check_driver_owners(settings, problems)
    _check_mig_owners(settings, problems)
    check_mig_strategy(settings, problems)
    _check_selectors(settings, problems)
    platform_of(settings.cluster).check(settings, drivers_of(settings), problems)


def drivers_of(settings: Settings) -> dict[str, str]:
    """Return pool -> who installs its driver and toolkit."""
    return {pool.name: driver_of(pool, settings) for pool in settings.pools}


def driver_of(pool: Pool, settings: Settings) -> str:
    """Who installs the driver and the toolkit on a pool."""
    return pool.driver or settings.operator.driver


def mig_owner(pool: Pool) -> str:
    """Who partitions the GPUs of a pool."""
    return pool.placement.mig_owner


def declared_size_warnings(hardware: Hardware) -> Iterator[str]:
    """What nobody but the author of the stack file says of a VM size."""
    if hardware.known_size:
        return
    what = f"{hardware.gpus} x {hardware.model.key}"
    mig = ", nor whether Azure offers MIG on it" if hardware.model.mig_capable else ""
    yield f"no table has {hardware.source}: that it has {what} is as declared and cannot be checked before the deploy{mig}"


def declared_model_warnings(model: GpuModel) -> Iterator[str]:
    """What nobody but the author of the stack file says of a GPU model, and what even that does not say."""
    if not model.declared:
        return
    known = {
        "its product name": model.products,
        "its memory": model.memory_mib,
        "its compute capability": model.compute_capability,
        "its multiprocessors": model.sm,
    }
    unknown = ", ".join(what for what, value in known.items() if not value)
    source = f", its MIG profiles as they were read in: {model.mig_source}" if model.mig_source else ""
    yield (
        f"no table has the GPU model {model.key}: what this stack declares of it is taken as it is{source}, and cannot be "
        "checked before the deploy" + (f"; nobody says {unknown}, so nothing is held against that" if unknown else "")
    )


def autoscaling_warnings(pool: Pool, sharing: Sharing, mig_strategy: str, settings: Settings) -> Iterator[str]:
    """What autoscaling makes of this pool."""
    if not pool.autoscaled:
        return
    if pool.placement.selects_nodes:
        # Whether anybody scales such nodes, and by what, is not known; that nodes may come is.
        yield from _early_pods(pool, sharing, settings)
        return
    if sharing.partitioned and mig_strategy == "mixed":
        yield "autoscaling knows only nvidia.com/gpu: a pool that advertises nvidia.com/mig-* is judged unready (C04)"
    if sharing.replication and sharing.replication.rename_by_default:
        yield "autoscaling knows only nvidia.com/gpu: a pool that advertises nvidia.com/gpu.shared is judged unready (C04)"
    if pool.min_nodes == 0 and (warning := platform_of(settings.cluster).scaling_from_zero(settings.cluster)):
        yield warning
    yield from _early_pods(pool, sharing, settings)


def _early_pods(pool: Pool, sharing: Sharing, settings: Settings) -> Iterator[str]:
    if sharing.partitioned and mig_owner(pool) == "operator" and not settings.verification.startup_taint:
        yield f"new nodes advertise whole GPUs until MIG is applied, and pods may start too early (C06): {_waiting(settings)}"


def _waiting(settings: Settings) -> str:
    """How pods are kept off a node until it is partitioned, as far as this very cluster allows it."""
    if against := refusal(settings.cluster):
        return f"have them select nodes by nvidia.com/mig.config.state=success (no startupTaint here: {against})"
    needs = f", which needs Kubernetes {LEAST_KUBERNETES}" if settings.cluster.tainted_by == "admission" else ""
    return f"set gpu-pools:verification.startupTaint{needs}"


def _check_partitioning(pool: Pool, hardware: Hardware, sharing: Sharing, problems: Problems) -> None:
    if mig_owner(pool) != "aks":
        return
    path = f"{pool.path}.partitionedBy"
    if not sharing.partitioned:
        problems.add(path, f'AKS has nothing to partition: "{pool.sharing}" is not MIG', allowed="operator", remedy="Remove it.")
    elif hardware.model.mig_capable and gpu_instance_profile(hardware, sharing) is None:
        problems.add(
            path,
            f'AKS cannot make the layout of "{pool.sharing}"',
            allowed="the same full set of 1g, 2g, 3g, 4g or 7g instances on every GPU, e.g. {1g.10gb: 7} on 80 GB",
            remedy="Use such a layout, or `partitionedBy: operator`.",
        )


def gpu_instance_profile(hardware: Hardware, sharing: Sharing) -> str | None:
    """AKS's profile that makes exactly this layout; None where none does."""
    if not sharing.uniform_profile or not hardware.model.profiles:
        return None
    ((name, count),) = next(iter(sharing.layouts))
    profile = hardware.model.profiles.get(name)
    if not profile or count != profile.max_instances:
        return None
    # AKS creates the plain profiles only: the first of each slice count, as many as fit.
    first = next(other for other in hardware.model.profiles.values() if other.compute_slices == profile.compute_slices)
    return GPU_INSTANCE_PROFILES.get(profile.compute_slices) if first.name == name else None


def _check_driver_owners(settings: Settings, problems: Problems) -> None:
    owners = {pool.name: driver_of(pool, settings) for pool in settings.pools}
    if len(set(owners.values())) > 1:
        listed = ", ".join(f"{name}: {owner}" for name, owner in owners.items())
        problems.add(
            "gpu-pools:pools",
            f"pools of one cluster have different driver owners ({listed})",
            allowed="the same owner for all: `operator` or `preinstalled`",
            remedy="Leave `driver` out of the pools, and set gpu-pools:operator.driver: it is a setting of the whole cluster.",
        )
    for pool in settings.pools:
        if mig_owner(pool) == "aks" and driver_of(pool, settings) == "operator":
            problems.add(
                f"{pool.path}.partitionedBy",
                "AKS partitions at boot with the driver that AKS installs, but the operator is to install the driver",
                allowed="`partitionedBy: aks` together with `driver: preinstalled`",
                remedy="Set gpu-pools:operator.driver to preinstalled, or leave partitioning to the operator.",
            )


def _check_mig_owners(settings: Settings, problems: Problems) -> None:
    owners = {pool.name: mig_owner(pool) for pool, sharing in settings.shared_pools() if sharing.partitioned}
    if len(set(owners.values())) > 1:
        listed = ", ".join(f"{name}: {owner}" for name, owner in owners.items())
        problems.add(
            "gpu-pools:pools",
            f"MIG pools of one cluster have different owners ({listed})",
            allowed="`partitionedBy: operator` for all MIG pools, or `aks` for all",
            remedy="Choose one: with AKS partitioning the operator's mig-manager must be off.",
        )


def _check_selectors(settings: Settings, problems: Problems) -> None:
    chosen = [(pool, pool.placement.node_selector) for pool in settings.pools if pool.placement.selects_nodes]
    for later, earlier in sorted(_overlapping([selector for _, selector in chosen])):
        pool, selector = chosen[later]
        problems.add(
            f"{pool.path}.nodeSelector",
            f'{show(dict(selector))} selects nodes of pool "{chosen[earlier][0].name}" too',
            allowed="selectors of which no node matches two",
            remedy="Add a label that tells the two pools' nodes apart.",
        )


def _overlapping(selectors: list[Mapping[str, str]]) -> Iterator[tuple[int, int]]:
    """(later, earlier) for each pair of which one selector holds the other; empty selectors are problems of their own."""
    seen = Counter(label for selector in selectors for label in selector.items())
    # A selector can only be part of one that has its rarest label: with a thousand pools, comparing all pairs takes seconds.
    by_rarest: dict[tuple[str, str], list[int]] = {}
    for number, selector in enumerate(selectors):
        if selector:
            by_rarest.setdefault(min(selector.items(), key=lambda label: (seen[label], label)), []).append(number)
    for number, selector in enumerate(selectors):
        for label in selector.items():
            for other in by_rarest.get(label, ()):
                if other != number and selectors[other].items() <= selector.items():
                    yield max(number, other), min(number, other)


# --- the memory budget --------------------------------------------------------------------------------------------

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
