"""Rules that tie a pool's hardware to its sharing, and pools to each other.

Each rule adds located problems (the deploy would never work) or returns warnings (it works, with a catch). The incidents
behind them are named in docs/reference/rules.md. Nothing here decides what is rendered.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gpu_pools.clouds.aks_together import check_aks
from gpu_pools.clouds.magnum_drivers import check_magnum_drivers, scales_groups
from gpu_pools.mig.advice import layout_text, nearest, nearest_profile, why_not
from gpu_pools.mig.geometry import most_of, place
from gpu_pools.plan.memory_budget import check_memory
from gpu_pools.plan.mig_strategy import check_mig_strategy
from gpu_pools.rendering.startup_taint import LEAST_KUBERNETES, refusal, tainted_by
from gpu_pools.stack.clusters import MagnumSettings
from gpu_pools.stack.placements import AksPlacement, ExistingPlacement
from gpu_pools.stack.sharing import MPS_MOST_REPLICAS_OLD, Mig, Mps, TimeSlicing
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.stack.node_hardware import Hardware
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.stack.sharing import GpuLayout, Sharing
    from gpu_pools.text.errors import Problems

#: AKS's gpuInstanceProfile for a number of compute slices.
GPU_INSTANCE_PROFILES: Final = {1: "MIG1g", 2: "MIG2g", 3: "MIG3g", 4: "MIG4g", 7: "MIG7g"}
#: Below this compute capability the plugin lets MPS serve only 16 clients.
_MPS_MANY_CLIENTS: Final = (7, 5)
#: Less memory per MPS client than this leaves little beside the CUDA context itself.
_MPS_SMALL_SHARE_MIB: Final = 1536
_SHARING: Final = "gpu-pools:sharing"


def check_pool(pool: Pool, sharing: Sharing, problems: Problems) -> list[str]:
    """Problems of one pool with its declaration; returns its warnings."""
    if pool.hardware is None:
        return []
    warnings: list[str] = []
    if isinstance(sharing, Mig):
        warnings += _check_mig(pool, pool.hardware, sharing, problems)
    if isinstance(sharing, Mps):
        warnings += _check_mps(pool, pool.hardware, sharing, problems)
    _check_partitioning(pool, pool.hardware, sharing, problems)
    return warnings + check_memory(pool, pool.hardware, sharing, problems)


def check_together(settings: Settings, problems: Problems) -> None:
    """Problems between pools."""
    _check_driver_owners(settings, problems)
    _check_mig_owners(settings, problems)
    check_mig_strategy(settings, problems)
    _check_selectors(settings, problems)
    check_aks(settings, problems)
    check_magnum_drivers(settings, problems)
    if settings.cluster.platform == "magnum":
        for pool in settings.pools:
            if pool.name in {"default-worker", "default-master"}:
                problems.add(
                    f"{pool.path}.name",
                    f'"{pool.name}" is a node group that Magnum makes itself',
                    allowed="any other name",
                    remedy="Rename the pool; Magnum would answer that the node group exists already.",
                )


def driver_of(pool: Pool, settings: Settings) -> str:
    """Who installs the driver and the toolkit on a pool."""
    return pool.driver or settings.operator.driver


def mig_owner(pool: Pool) -> str:
    """Who partitions the GPUs of a pool."""
    return pool.placement.mig_owner if isinstance(pool.placement, AksPlacement) else "operator"


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
    if isinstance(pool.placement, ExistingPlacement):
        # Whether anybody scales such nodes, and by what, is not known; that nodes may come is.
        yield from _early_pods(pool, sharing, settings)
        return
    if isinstance(sharing, Mig) and mig_strategy == "mixed":
        yield "autoscaling knows only nvidia.com/gpu: a pool that advertises nvidia.com/mig-* is judged unready (C04)"
    shared = sharing.time_slicing if isinstance(sharing, Mig) else sharing
    if isinstance(shared, TimeSlicing | Mps) and shared.rename_by_default:
        yield "autoscaling knows only nvidia.com/gpu: a pool that advertises nvidia.com/gpu.shared is judged unready (C04)"
    if pool.min_nodes == 0:
        yield from _from_zero(settings)
    yield from _early_pods(pool, sharing, settings)


def _early_pods(pool: Pool, sharing: Sharing, settings: Settings) -> Iterator[str]:
    if isinstance(sharing, Mig) and mig_owner(pool) == "operator" and not settings.verification.startup_taint:
        yield f"new nodes advertise whole GPUs until MIG is applied, and pods may start too early (C06): {_waiting(settings)}"


def _from_zero(settings: Settings) -> Iterator[str]:
    cluster = settings.cluster
    if not isinstance(cluster, MagnumSettings):
        yield "scaling from zero: until a node lives, pods can select only by labels declared on the pool (C03)"
    elif scales_groups(cluster):
        yield (
            f"scaling from zero: the driver {cluster.driver} tells the autoscaler of no GPU, so no pod that requests one starts "
            "the first node (W88): write `min: 1`"
        )


def _waiting(settings: Settings) -> str:
    """How pods are kept off a node until it is partitioned, as far as this very cluster allows it."""
    if against := refusal(settings.cluster):
        return f"have them select nodes by nvidia.com/mig.config.state=success (no startupTaint here: {against})"
    needs = f", which needs Kubernetes {LEAST_KUBERNETES}" if tainted_by(settings.cluster) == "admission" else ""
    return f"set gpu-pools:verification.startupTaint{needs}"


def _check_mps(pool: Pool, hardware: Hardware, sharing: Mps, problems: Problems) -> list[str]:
    capability = hardware.model.compute_capability
    if capability is None:
        return [
            f"the compute capability of {hardware.model.key} is unknown: the MPS client limit cannot be checked before the deploy"
        ]
    if capability < _MPS_MANY_CLIENTS and sharing.replicas > MPS_MOST_REPLICAS_OLD:
        problems.add(
            f"{_SHARING}.{pool.sharing}.mps.replicas",
            f'{sharing.replicas} is too many for pool "{pool.name}": '
            f"{hardware.model.key} has compute capability {capability[0]}.{capability[1]}",
            allowed=f"2 to {MPS_MOST_REPLICAS_OLD} below compute capability 7.5",
            remedy=f"Use at most {MPS_MOST_REPLICAS_OLD}, or a newer GPU; the MPS daemon would not start.",
        )
    memory = hardware.model.memory_mib
    if memory is not None and memory // sharing.replicas < _MPS_SMALL_SHARE_MIB:
        share = memory // sharing.replicas
        return [f"each of {sharing.replicas} MPS clients gets {share} MiB, which leaves little beside the CUDA context (D08)"]
    return []


def _check_mig(pool: Pool, hardware: Hardware, sharing: Mig, problems: Problems) -> list[str]:
    model = hardware.model
    if not model.mig_capable or not hardware.mig_offered:
        problems.add(
            f"{pool.path}.sharing",
            f'"{pool.sharing}" needs MIG, which {hardware.source} ({model.key}) does not have',
            allowed="exclusive, timeSlicing or mps on this GPU",
            remedy="Choose another declaration, or hardware with MIG (A30, A100, H100, H200, B200, …).",
        )
        return []
    _check_gpu_indexes(pool, hardware, sharing, problems)
    if model.profiles is None:
        return [
            f"the MIG geometry of {model.key} is unknown: the layout cannot be checked before the deploy",
            *_unlisted(model, sharing),
        ]
    warnings: set[str] = set()
    for number, entry in enumerate(sharing.gpus):
        path = f"{_SHARING}.{pool.sharing}.mig." + ("layout" if entry.index is None else f"gpus[{number}].layout")
        if _check_profiles(pool, model, entry, path, problems):
            layout = _own_names(model, entry)
            _check_fits(pool, model, layout, path, problems)
            warnings.update(_geometry_warnings(model, entry, layout))
    return sorted(warnings)


def _unlisted(model: GpuModel, sharing: Mig) -> Iterator[str]:
    named = sorted({profile for layout in sharing.layouts for profile, _ in layout} - model.listed_names)
    if named and model.listed_names:
        yield f"no source lists {', '.join(named)} for {model.key}; listed are {', '.join(sorted(model.listed_names))}"


def _check_gpu_indexes(pool: Pool, hardware: Hardware, sharing: Mig, problems: Problems) -> None:
    given = sorted(index for entry in sharing.gpus for index in entry.index or ())
    if not given:
        return
    path = f"{_SHARING}.{pool.sharing}.mig.gpus"
    needed = range(hardware.gpus)
    missing = sorted(set(needed) - set(given))
    beyond = sorted(set(given) - set(needed))
    if missing or beyond:
        wrong = [f"index {_list(missing)} missing"] if missing else []
        wrong += [f"index {_list(beyond)} beyond the last GPU"] if beyond else []
        remedies = ["Give every GPU a layout; `layout: {}` leaves a GPU whole."] if missing else []
        remedies += [f"Remove index {_list(beyond)}."] if beyond else []
        problems.add(
            path,
            f'{" and ".join(wrong)}: a node of pool "{pool.name}" has {hardware.gpus} GPU{"s" if hardware.gpus > 1 else ""}',
            allowed=f"each index from 0 to {hardware.gpus - 1} once",
            remedy=" ".join(remedies),
        )


def _check_profiles(pool: Pool, model: GpuModel, entry: GpuLayout, path: str, problems: Problems) -> bool:
    profiles = [*(model.profiles or {}), *model.other_names]
    unknown = [profile for profile, _ in entry.layout if profile not in profiles]
    for profile in unknown:
        near = nearest_profile(model, profile)
        problems.add(
            f"{path}.{profile}",
            f'{model.key} (pool "{pool.name}") has no MIG profile "{profile}"',
            allowed=", ".join(profiles),
            remedy=f"Did you mean {near}? Profile names carry the memory of the GPU." if near else "Choose one of those.",
        )
    for other, name in model.other_names.items():
        if {other, name} <= dict(entry.layout).keys():
            problems.add(
                f"{path}.{other}",
                f'"{other}" and "{name}" are names of one profile; no GPU of {model.key} has both (pool "{pool.name}")',
                allowed="one of the two names",
                remedy="Use the name that `nvidia-smi mig -lgip` prints on the node.",
            )
    return not unknown


def _check_fits(pool: Pool, model: GpuModel, layout: Mapping[str, int], path: str, problems: Problems) -> None:
    if place(model, layout) is not None:
        return
    most = ", ".join(f"{most_of(model, profile)}x {profile}" for profile in layout)
    problems.add(
        path,
        f'{layout_text(layout)} does not fit on one {model.key} (pool "{pool.name}"): {why_not(model, layout)}',
        allowed=f"a layout for which placements exist; alone fit {most}",
        remedy=f"Use e.g. {', or '.join(layout_text(legal) for legal in nearest(model, layout))}.",
    )


def _geometry_warnings(model: GpuModel, entry: GpuLayout, layout: Mapping[str, int]) -> Iterator[str]:
    """What the sources do not settle about a layout that fits; `layout` has this project's names of the profiles."""
    profiles = model.profiles or {}
    if any(not profiles[profile].placements_measured for profile in layout):
        yield (
            f"the MIG placements of {model.key} are inferred from GPUs of the same geometry: "
            "the layout cannot be checked before the deploy; the node has the last word"
        )
    named = {*model.other_names, *model.other_names.values()}
    varying = [profile for profile, _ in entry.layout if profile in named]
    if varying:
        yield (
            f"the names of MIG profiles of {model.key} differ by driver and GPU: {', '.join(varying)} cannot be checked "
            "before the deploy; ask `nvidia-smi mig -lgip` on a node"
        )
    if _too_many_engines(model, layout):
        yield (
            f"{layout_text(layout)} asks for more media engines than {model.key} is known to have: "
            "whether the driver makes it cannot be checked before the deploy; -me profiles take none"
        )


def _too_many_engines(model: GpuModel, layout: Mapping[str, int]) -> bool:
    profiles = model.profiles or {}
    known = [profile.engines for profile in profiles.values() if profile.engines]
    total = [max(column) for column in zip(*known, strict=True)]
    taken = [0] * len(total)
    unknown = False
    for name, count in layout.items():
        engines = profiles[name].engines
        unknown |= engines is None
        taken = [sum_ + count * each for sum_, each in zip(taken, engines or [0] * len(total), strict=True)]
    # An instance whose engines no source gives may well take one, and then nothing may be left for it.
    return any(sum_ > most or (unknown and 0 < most == sum_) for sum_, most in zip(taken, total, strict=True))


def _own_names(model: GpuModel, entry: GpuLayout) -> dict[str, int]:
    """The layout under the names that this project's data has for the profiles."""
    layout: Counter[str] = Counter()
    for profile, count in entry.layout:
        layout[model.own_name(profile)] += count
    return dict(sorted(layout.items()))


def _check_partitioning(pool: Pool, hardware: Hardware, sharing: Sharing, problems: Problems) -> None:
    if mig_owner(pool) != "aks":
        return
    path = f"{pool.path}.partitionedBy"
    if not isinstance(sharing, Mig):
        problems.add(path, f'AKS has nothing to partition: "{pool.sharing}" is not MIG', allowed="operator", remedy="Remove it.")
    elif hardware.model.mig_capable and gpu_instance_profile(hardware, sharing) is None:
        problems.add(
            path,
            f'AKS cannot make the layout of "{pool.sharing}"',
            allowed="the same full set of 1g, 2g, 3g, 4g or 7g instances on every GPU, e.g. {1g.10gb: 7} on 80 GB",
            remedy="Use such a layout, or `partitionedBy: operator`.",
        )


def gpu_instance_profile(hardware: Hardware, sharing: Mig) -> str | None:
    """AKS's profile that makes exactly this layout; None where none does."""
    if not sharing.uniform or not hardware.model.profiles:
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
    owners = {pool.name: mig_owner(pool) for pool in settings.pools if isinstance(settings.sharing.get(pool.sharing), Mig)}
    if len(set(owners.values())) > 1:
        listed = ", ".join(f"{name}: {owner}" for name, owner in owners.items())
        problems.add(
            "gpu-pools:pools",
            f"MIG pools of one cluster have different owners ({listed})",
            allowed="`partitionedBy: operator` for all MIG pools, or `aks` for all",
            remedy="Choose one: with AKS partitioning the operator's mig-manager must be off.",
        )


def _check_selectors(settings: Settings, problems: Problems) -> None:
    chosen = [(pool, pool.placement.node_selector) for pool in settings.pools if isinstance(pool.placement, ExistingPlacement)]
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


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
