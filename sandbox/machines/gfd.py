"""Stand-in for gpu-feature-discovery where it cannot run: the labels that it would publish about a node's GPUs.

Pure: configuration, MIG strategy, GPUs and driver in; labels or the program's error out. The label sets are those that
the real program (0.19) gave on a simulated A100-SXM4-80GB. Not modelled: vGPU host labels, IMEX cliques, machines with
GPUs of two models. Engine counts are those of the A100 and H100 families; other models show the H100's. Where no source
gives a profile's memory or multiprocessors, that label is left out, which the real program never does.
How the labels get to the node is in gpu_programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.machines.device_plugin import FULL_GPU, Crash
from sandbox.machines.plugin_config import ConfigError, MissingFile, PluginConfig, read_plugin_config
from sandbox.nvml.known_models import model

if TYPE_CHECKING:
    from sandbox.machines.gpu import Gpu

_PREFIX = "nvidia.com/"
_KEPT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_. ")
_ENGINES = ("copy", "decoder", "encoder", "jpeg", "ofa")
# Compute slices -> engines of an instance, from the profile tables of the MIG User Guide.
_AMPERE = {1: (1, 0, 0, 0, 0), 2: (2, 1, 0, 0, 0), 3: (3, 2, 0, 0, 0), 4: (4, 2, 0, 0, 0), 7: (7, 5, 0, 1, 1)}
_HOPPER = {1: (1, 1, 0, 1, 0), 2: (2, 2, 0, 2, 0), 3: (3, 3, 0, 3, 0), 4: (4, 4, 0, 4, 0), 7: (8, 7, 0, 7, 1)}
_WITH_MEDIA = (1, 1, 0, 1, 1)


@dataclass(frozen=True)
class Driver:
    """A driver version such as ``580.95.05`` and the CUDA version that it brings."""

    version: str
    cuda: str


@dataclass(frozen=True)
class Labels:
    """GFD is up and publishes these labels, the timestamp apart."""

    labels: dict[str, str]


def discover(
    config: str | MissingFile | None, mig_strategy_env: str | None, gpus: tuple[Gpu, ...], driver: Driver, machine: str
) -> Labels | Crash:
    """What GFD does.

    Args:
        config: as for the device plugin.
        mig_strategy_env: as for the device plugin.
        gpus: the node's GPUs.
        driver: what NVML says of it.
        machine: content of the machine type file.
    """
    try:
        parsed = read_plugin_config(config)
        strategy = parsed.effective_mig_strategy(mig_strategy_env)
        if not gpus:
            return Labels({})
        whole, mig = _whole(parsed, gpus), _mig(parsed, strategy, gpus)
        if strategy == "single" and mig and "gpu.memory" not in mig:
            # The instance's memory would replace the GPU's, so the GPU's would be wrong.
            whole.pop("gpu.memory", None)
        labels = {
            "gpu.machine": "-".join(machine.split()),
            **_versions(driver),
            "mig.capable": _bool(any(model(gpu.model).mig_capable for gpu in gpus)),
            "mps.capable": _bool(_mps_capable(parsed, gpus)),
            "vgpu.present": "false",
            **whole,
            "gpu.mode": "compute",
            **({"mig.strategy": strategy} if strategy != "none" else {}),
            **mig,
        }
    except ConfigError as error:
        return Crash(str(error))
    return Labels({f"{_PREFIX}{key}": value for key, value in labels.items()})


def _mps_capable(config: PluginConfig, gpus: tuple[Gpu, ...]) -> bool:
    if config.strategy != "mps":
        return False
    if any(gpu.mig_enabled for gpu in gpus):
        message = (
            "error generating labels: error creating sharing labeler: failed to check MPS-capable: "
            "MPS sharing is not supported for mig devices"
        )
        raise ConfigError(message)
    return True


def _versions(driver: Driver) -> dict[str, str]:
    major, minor, *rest = driver.version.split(".")
    cuda_major, _, cuda_minor = driver.cuda.partition(".")
    revision = rest[0] if rest else ""
    return {
        "cuda.driver.major": major, "cuda.driver.minor": minor, "cuda.driver.rev": revision,
        "cuda.runtime.major": cuda_major, "cuda.runtime.minor": cuda_minor,
        "cuda.driver-version.major": major, "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision, "cuda.driver-version.full": driver.version,
        "cuda.runtime-version.major": cuda_major, "cuda.runtime-version.minor": cuda_minor,
        "cuda.runtime-version.full": driver.cuda,
    }  # fmt: skip


def _whole(config: PluginConfig, gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """Labels of the full GPU; where none is left outside MIG they show no sharing."""
    known = model(gpus[0].model)
    shared = None if all(gpu.mig_enabled for gpu in gpus) else config
    labels = _base(shared, FULL_GPU, len(gpus), gpus[0].product)
    labels["gpu.family"] = known.architecture or "undefined"
    if known.compute_capability is not None:
        labels["gpu.compute.major"], labels["gpu.compute.minor"] = map(str, known.compute_capability)
    if known.memory_mib is not None:
        labels["gpu.memory"] = str(known.memory_mib)
    return labels


def _mig(config: PluginConfig, strategy: str, gpus: tuple[Gpu, ...]) -> dict[str, str]:
    if strategy == "none" or not any(gpu.mig_enabled for gpu in gpus):
        return {}
    counts: dict[str, int] = {}
    for gpu in gpus:
        for profile, count in gpu.layout.items():
            counts[profile] = counts.get(profile, 0) + count
    if strategy == "single":
        invalid = any(not gpu.instances for gpu in gpus) or len(counts) != 1
        if invalid:
            return _invalid(gpus[0].product)
        return {
            key: value
            for name, count in counts.items()
            for key, value in _instance(config, FULL_GPU, gpus[0], name, count).items()
        }
    return {
        key: value
        for name, count in counts.items()
        for key, value in _instance(config, f"{_PREFIX}mig-{name.replace('+', '.')}", gpus[0], name, count).items()
    }


def _invalid(product: str) -> dict[str, str]:
    return {
        "gpu.product": f"{_sanitised(product)}-MIG-INVALID",
        "gpu.count": "0", "gpu.replicas": "0", "gpu.sharing-strategy": "", "gpu.memory": "0",
    }  # fmt: skip


def _instance(config: PluginConfig, resource: str, gpu: Gpu, profile: str, count: int) -> dict[str, str]:
    known = model(gpu.model)
    details = (known.profiles or {})[profile]
    short = resource.removeprefix(_PREFIX)
    labels = _base(config, resource, count, gpu.product, "MIG", profile.replace("+", "."))
    if details.memory_mib is not None:
        labels[f"{short}.memory"] = str(details.memory_mib)
    if details.sm is not None:
        labels[f"{short}.multiprocessors"] = str(details.sm)
    labels[f"{short}.slices.gi"] = labels[f"{short}.slices.ci"] = str(details.compute_slices)
    table = _AMPERE if known.architecture == "ampere" else _HOPPER
    engines = _WITH_MEDIA if "+me" in profile else table.get(details.compute_slices, table[1])
    return {**labels, **{f"{short}.engines.{engine}": str(number) for engine, number in zip(_ENGINES, engines, strict=True)}}


def _base(config: PluginConfig | None, resource: str, count: int, *parts: str) -> dict[str, str]:
    """Product, count, replicas and strategy of a resource; no configuration means a GPU that MIG has taken out of use."""
    short = resource.removeprefix(_PREFIX)
    replicated = config.replicated(resource) if config is not None else None
    replicas = 0 if config is None else replicated.replicas if replicated else 1
    names = [_sanitised(part) for part in parts]
    if replicated is not None and not replicated.rename:
        names.append("SHARED")
    return {
        f"{short}.product": "-".join(names),
        f"{short}.count": str(count),
        f"{short}.replicas": str(replicas),
        f"{short}.sharing-strategy": config.strategy if config is not None and replicas > 1 else "none",
    }


def _sanitised(text: str) -> str:
    return "-".join("".join(letter for letter in text if letter in _KEPT).split())


def _bool(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"
