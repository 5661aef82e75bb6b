"""The device plugin's configuration file, read as NVIDIA's programs read it: leniently, with their errors.

Device plugin, gpu-feature-discovery and the MPS control daemon share this reader. It follows api/config/v1 of
k8s-device-plugin 0.20: unknown keys vanish in silence, a wrong type of a known key is an error, ``rename`` and ``devices``
are accepted and ignored. Only what changes the simulated node's behaviour is kept; the rest is checked for its type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml

T = TypeVar("T")
VERSION = "v1"
STRATEGIES = ("none", "single", "mixed")
_PREFIX = "nvidia.com/"
_LONGEST_NAME = 63
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FLAGS: dict[str, type] = {
    "migStrategy": str, "failOnInitError": bool, "mpsRoot": str, "nvidiaDriverRoot": str, "nvidiaDevRoot": str,
    "gdrcopyEnabled": bool, "gdsEnabled": bool, "mofedEnabled": bool, "useNodeFeatureAPI": bool,
    "deviceDiscoveryStrategy": str, "plugin": dict, "gfd": dict,
}  # fmt: skip
_PLUGIN_FLAGS: dict[str, type] = {
    "passDeviceSpecs": bool, "deviceIDStrategy": str, "cdiAnnotationPrefix": str, "nvidiaCTKPath": str,
    "containerDriverRoot": str, "sharedDevicesAllocationPolicy": str,
}  # fmt: skip
_GFD_FLAGS: dict[str, type] = {"oneshot": bool, "noTimestamp": bool, "outputFile": str, "machineTypeFile": str}


class ConfigError(Exception):
    """What the programs print before they exit 1."""


@dataclass(frozen=True)
class MissingFile:
    """config-manager's link leads nowhere: the file that the programs are told to read is not there."""


@dataclass(frozen=True)
class Replicated:
    """One shared resource: its name, how often each device of it is offered, and under which other name ("" for its own)."""

    name: str
    replicas: int
    rename: str


@dataclass(frozen=True)
class Sharing:
    """A ``timeSlicing`` or ``mps`` block: what it shares, and whether a request for more than one unit is refused."""

    resources: tuple[Replicated, ...]
    one_per_request: bool = False


@dataclass(frozen=True)
class PluginConfig:
    """What a file says.

    Attributes:
        mig_strategy: flags.migStrategy, None if not set.
        device_id_strategy: flags.plugin.deviceIDStrategy.
        device_discovery_strategy: flags.deviceDiscoveryStrategy.
        imex_channels: imex.channelIDs.
        time_slicing: sharing.timeSlicing, None if absent.
        mps: sharing.mps, None if absent.
        warnings: what the programs log and go on.
    """

    mig_strategy: str | None = None
    device_id_strategy: str = "uuid"
    device_discovery_strategy: str = "auto"
    imex_channels: tuple[int, ...] = ()
    time_slicing: Sharing | None = None
    mps: Sharing | None = None
    warnings: tuple[str, ...] = field(default=())

    @property
    def shared(self) -> Sharing:
        """The block that counts: MPS wins over time-slicing, without a word."""
        return self.mps or self.time_slicing or Sharing(())

    @property
    def strategy(self) -> str:
        """``mps``, ``time-slicing`` or ``none``."""
        if self.mps is not None:
            return "mps"
        return "time-slicing" if self.time_slicing is not None else "none"

    def replicated(self, resource: str) -> Replicated | None:
        """How a resource is shared, None if it is not."""
        return next((item for item in self.shared.resources if item.name == resource), None)

    def effective_mig_strategy(self, env: str | None) -> str:
        """The MIG strategy: the environment beats the file, and nothing at all means none.

        Raises:
            ConfigError: if it is not one of the known ones.
        """
        strategy = env or self.mig_strategy or "none"
        if strategy not in STRATEGIES:
            message = f"unable to validate flags: unknown MIG strategy: {strategy}"
            raise ConfigError(message)
        return strategy


def read_plugin_config(text: str | MissingFile | None) -> PluginConfig:
    """Read a file; None is the empty file that config-manager links where no configuration was chosen.

    Raises:
        ConfigError: where the programs would exit.
    """
    unable = "unable to load config: unable to finalize config: unable to parse config file: error"
    if isinstance(text, MissingFile):
        message = f"{unable} opening config file: open /config/config.yaml: no such file or directory"
        raise ConfigError(message)
    try:
        return _read(text or "")
    except ConfigError as error:
        message = f"{unable} parsing config file: {error}"
        raise ConfigError(message) from error


def _read(text: str) -> PluginConfig:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        message = f"unmarshal error: error converting YAML to JSON: yaml: {' '.join(str(error).split())}"
        raise ConfigError(message) from error
    if document is None:
        return PluginConfig()
    top = _fold(_typed(document, dict, "Config"), ("version", "flags", "resources", "sharing", "imex"))
    # Go reads a YAML scalar into a string field whatever its type, so `version: 1` is the string "1".
    version = _scalar(top.get("version"), "Config.version") or VERSION
    if version != VERSION:
        message = f"unknown version: {version}"
        raise ConfigError(message)
    flags = _fold(_block(top, "flags", "Config"), tuple(_FLAGS))
    plugin = _fold(_block(flags, "plugin", "Flags"), (*_PLUGIN_FLAGS, "deviceListStrategy"))
    _check_types(flags, _FLAGS, "Config.flags")
    _check_types(plugin, _PLUGIN_FLAGS, "Config.flags.plugin")
    _check_types(_fold(_block(flags, "gfd", "Flags"), tuple(_GFD_FLAGS)), _GFD_FLAGS, "Config.flags.gfd")
    sharing = _fold(_block(top, "sharing", "Config"), ("timeSlicing", "mps"))
    imex = _fold(_block(top, "imex", "Config"), ("channelIDs", "required"))
    channels = _typed(imex.get("channelIDs") or [], list, "Imex.channelIDs")
    warnings: list[str] = (
        ["Customizing the 'resources' field is not yet supported in the config. Ignoring..."] if top.get("resources") else []
    )
    return PluginConfig(
        mig_strategy=_scalar(flags.get("migStrategy"), "Config.flags.migStrategy") or None,
        device_id_strategy=_scalar(plugin.get("deviceIDStrategy"), "deviceIDStrategy") or "uuid",
        device_discovery_strategy=_scalar(flags.get("deviceDiscoveryStrategy"), "deviceDiscoveryStrategy") or "auto",
        imex_channels=tuple(_typed(item, int, "Imex.channelIDs") for item in channels),
        # A null timeSlicing is an error, a null mps is an absent one: the one is a value in Go, the other a pointer.
        time_slicing=_sharing(sharing["timeSlicing"], "timeSlicing", warnings) if "timeSlicing" in sharing else None,
        mps=_sharing(sharing["mps"], "mps", warnings) if sharing.get("mps") is not None else None,
        warnings=tuple(warnings),
    )


def _sharing(raw: object, block: str, warnings: list[str]) -> Sharing:
    values = _typed({} if raw is None else raw, dict, "ReplicatedResources")
    rename_by_default = _typed(values.get("renameByDefault", False), bool, "bool")
    # Since 0.20 MPS honours an explicit false; unset it refuses, where time-slicing allows.
    one_per_request = _typed(values.get("failRequestsGreaterThanOne", block == "mps"), bool, "bool")
    listed = _typed(values.get("resources") or [], list, "[]v1.ReplicatedResource")
    if not listed:
        message = "unmarshal error: no resources specified"
        raise ConfigError(message)
    return Sharing(tuple(_resource(item, block, rename_by_default, warnings) for item in listed), one_per_request)


def _resource(raw: object, block: str, rename_by_default: bool, warnings: list[str]) -> Replicated:  # noqa: FBT001
    values = _typed(raw, dict, "ReplicatedResource")
    for required, what in (("name", "resource name"), ("replicas", "replicas")):
        if required not in values:
            message = f"unmarshal error: no {what} specified"
            raise ConfigError(message)
    name = _resource_name(_typed(values["name"], str, "string"))
    _check_devices(values.get("devices", "all"))
    replicas = _typed(values["replicas"], int, "int")
    if replicas < 2:  # noqa: PLR2004
        message = "unmarshal error: number of replicas must be >= 2"
        raise ConfigError(message)
    default = f"{name}.shared" if rename_by_default else ""
    rename = _resource_name(_typed(values["rename"], str, "string")) if values.get("rename") else default
    if rename != default:
        warnings.append(
            f"Setting the 'rename' field in sharing.{block}.resources is not yet supported in the config. Ignoring..."
        )
    if values.get("devices", "all") != "all":
        warnings.append(
            f"Customizing the 'devices' field in sharing.{block}.resources is not yet supported in the config. Ignoring..."
        )
    return Replicated(name, replicas, default)


def _resource_name(raw: str) -> str:
    name = raw if raw.startswith(_PREFIX) else f"{_PREFIX}{raw}"
    if len(name) > _LONGEST_NAME:
        message = f"unmarshal error: fully-qualified resource name must be {_LONGEST_NAME} characters or less: {name}"
        raise ConfigError(message)
    if not _SUBDOMAIN.fullmatch(name.removeprefix(_PREFIX)):
        message = (
            f"unmarshal error: incorrect format for resource name '{name}': a lowercase RFC 1123 subdomain must consist of "
            "lower case alphanumeric characters, '-' or '.'"
        )
        raise ConfigError(message)
    return name


def _check_devices(raw: object) -> None:
    """The field is ignored later, but a malformed one is still an error."""
    if raw == "all" or (isinstance(raw, int) and not isinstance(raw, bool) and raw > 0):
        return
    if isinstance(raw, str):
        message = f"unmarshal error: devices set as '{raw}' but the only valid string input is 'all'"
    elif isinstance(raw, int) and not isinstance(raw, bool):
        message = f"unmarshal error: devices set as '{raw}' but a count of devices must be > 0"
    elif isinstance(raw, list) and all(isinstance(item, (int, str)) for item in raw):
        return
    else:
        message = f"unmarshal error: unrecognized type for devices spec: {raw}"
    raise ConfigError(message)


def _fold(values: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Go matches the keys of a struct without regard to case."""
    names = {name.lower(): name for name in known}
    return {names[str(key).lower()]: value for key, value in values.items() if str(key).lower() in names}


def _block(values: dict[str, Any], key: str, owner: str) -> dict[str, Any]:
    return _typed({} if values.get(key) is None else values[key], dict, f"{owner}.{key}")


def _check_types(values: dict[str, Any], types: dict[str, type], where: str) -> None:
    for key, kind in types.items():
        value = values.get(key)
        if value is not None and kind is not str:
            _typed(value, kind, f"{where}.{key}")


def _scalar(value: object, where: str) -> str:
    if isinstance(value, (dict, list)):
        _typed(value, str, where)
    return "" if value is None else str(value)


def _typed(value: object, kind: type[T], where: str) -> T:
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is int):
        return value
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    found = names.get(type(value), "value")
    message = f"unmarshal error: error unmarshaling JSON: json: cannot unmarshal {found} into Go value of type {where}"
    raise ConfigError(message)
