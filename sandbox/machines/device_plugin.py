"""Stand-in for nvidia-device-plugin where it cannot run: what a node advertises, or why it does not.

Pure: configuration, MIG strategy, GPUs and the MPS daemon's state in; resources or the program's error out. The rules and
messages are those of k8s-device-plugin 0.20. Not modelled: allocation of single devices,
health events, CDI, topology; the kubelet's device manager only sees counts. How pods of it live is in gpu_programs. Beside it
what mps-control-daemon does there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.machines.plugin_config import ConfigError, MissingFile, PluginConfig, read_plugin_config
from sandbox.nvml.known_models import model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.gpu import Gpu

FULL_GPU = "nvidia.com/gpu"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
_MPS_CLIENTS, _MPS_CLIENTS_OLD = 48, 16
_MPS_SINCE = (7, 5)


@dataclass(frozen=True)
class Advertised:
    """The plugin is up and registered these resources, perhaps none.

    Attributes:
        resources: name -> devices.
        note: why there are not more.
        one_per_request: names of which a container may have one unit only.
        unhealthy: name -> devices besides, which cannot be had.
    """

    resources: Mapping[str, int]
    note: str = ""
    one_per_request: frozenset[str] = frozenset()
    unhealthy: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Crash:
    """The program exits with this error, again and again."""

    message: str
    code: int = 1


def advertise(
    config: str | MissingFile | None, mig_strategy_env: str | None, gpus: tuple[Gpu, ...], *, mps_daemon: bool
) -> Advertised | Crash:
    """What the plugin does.

    Args:
        config: the text of the chosen configuration, None for the empty one.
        mig_strategy_env: MIG_STRATEGY, which beats the file; None or empty if unset.
        gpus: the node's GPUs.
        mps_daemon: whether the MPS control daemon of this node answers.
    """
    try:
        parsed = read_plugin_config(config)
        strategy = parsed.effective_mig_strategy(mig_strategy_env)
        _validate(parsed, strategy)
        resources = _resources(parsed, strategy, gpus)
    except ConfigError as error:
        return Crash(f"error starting plugins: {error}")
    if parsed.strategy == "mps" and not mps_daemon:
        return Advertised(
            {},
            "error waiting for MPS daemon: error checking MPS daemon health: failed to send command to MPS daemon: exit status 1",
        )
    single = (
        frozenset(item.rename or item.name for item in parsed.shared.resources)
        if parsed.shared.one_per_request
        else frozenset[str]()
    )
    return Advertised(resources, "" if resources else "No devices found. Waiting indefinitely.", single)


def mps_daemon(config: str | MissingFile | None, mig_strategy_env: str | None, gpus: tuple[Gpu, ...]) -> int | Crash | None:
    """What the MPS control daemon does: the replicas that it serves, None where MPS is not configured, or its error."""
    try:
        parsed = read_plugin_config(config)
        strategy = parsed.effective_mig_strategy(mig_strategy_env)
        if parsed.strategy != "mps":
            return None
        counts = _devices(strategy, gpus)
    except ConfigError as error:
        return Crash(str(error))
    served = [item for item in parsed.shared.resources if counts.get(item.name)]
    for item in served:
        limit = min((_mps_clients(gpu) for gpu in gpus), default=_MPS_CLIENTS)
        if item.replicas > limit:
            return Crash(
                "error starting daemons: invalid MPS configuration: "
                f"invalid device maximum allowed replicas exceeded: {item.replicas} > {limit}"
            )
    return max((item.replicas for item in served), default=None)


def _validate(config: PluginConfig, strategy: str) -> None:
    if config.device_id_strategy not in {"uuid", "index"}:
        message = f"unable to validate flags: invalid --device-id-strategy option: {config.device_id_strategy}"
        raise ConfigError(message)
    if config.strategy == "mps" and strategy == "mixed":
        message = "unable to validate flags: using --mig-strategy=mixed is not supported with MPS"
        raise ConfigError(message)
    if config.device_discovery_strategy not in {"auto", "nvml", "tegra"}:
        message = f"unable to validate flags: invalid --device-discovery-strategy option {config.device_discovery_strategy}"
        raise ConfigError(message)
    if config.imex_channels not in {(), (0,)}:
        message = f"unable to validate flags: invalid IMEX channel IDs: {list(config.imex_channels)}"
        raise ConfigError(message)


def _resources(config: PluginConfig, strategy: str, gpus: tuple[Gpu, ...]) -> dict[str, int]:
    counts = _devices(strategy, gpus)
    if config.strategy == "mps" and strategy != "none" and any(gpu.instances for gpu in gpus):
        message = "error getting plugins: unable to get MPS options: sharing using MPS is not supported for MIG devices"
        raise ConfigError(message)
    shared: dict[str, int] = {}
    for name, count in counts.items():
        replicated = config.replicated(name)
        if replicated is None:
            shared[name] = shared.get(name, 0) + count
        else:
            offered = replicated.rename or name
            shared[offered] = shared.get(offered, 0) + count * replicated.replicas
    return shared


def _devices(strategy: str, gpus: tuple[Gpu, ...]) -> dict[str, int]:
    """Resource -> devices, before sharing."""
    whole = [gpu for gpu in gpus if strategy == "none" or not gpu.mig_enabled]
    counts = {FULL_GPU: len(whole)} if whole else {}
    if strategy == "none":
        return counts
    if strategy == "single":
        _check_uniform(whole, gpus)
    for gpu in gpus:
        for profile, count in gpu.layout.items():
            name = FULL_GPU if strategy == "single" else f"nvidia.com/mig-{profile.replace('+', '.')}"
            counts[name] = counts.get(name, 0) + count
    return counts


def _check_uniform(whole: list[Gpu], gpus: tuple[Gpu, ...]) -> None:
    """The three errors of the single strategy, in the order in which the plugin finds them."""
    chain = "error getting plugins: error building device map: error building device map from config.resources: "
    for gpu in gpus:
        if gpu.mig_enabled and not gpu.instances:
            message = (
                f"{chain}invalid MIG configuration: at least one device with migEnabled=true was not configured correctly: "
                f"device {gpu.index} has no MIG devices configured"
            )
            raise ConfigError(message)
    if len({profile for gpu in gpus for profile in gpu.layout}) > 1:
        message = f"{chain}invalid MIG configuration: more than one MIG device type present on node"
        raise ConfigError(message)
    if whole and any(gpu.instances for gpu in gpus):
        message = f"{chain}all devices on the node must be configured with the same migEnabled value"
        raise ConfigError(message)


def _mps_clients(gpu: Gpu) -> int:
    """The plugin's own limit; its test for Volta compares with 7.5, so a V100 counts as older."""
    return _MPS_CLIENTS if (model(gpu.model).compute_capability or (0, 0)) >= _MPS_SINCE else _MPS_CLIENTS_OLD
