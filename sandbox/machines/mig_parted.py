"""Stand-in for nvidia-mig-parted where it cannot run: reads its configuration file and applies or asserts one of its layouts.

The file is read as strictly as the real one reads it, and a layout is applied GPU by GPU in the same order, with the same
leftovers: a profile that the model lacks leaves MIG on and empty although ``apply`` reports success; a layout that does not
fit clears its GPU and stops there. ``device-filter`` needs PCI ids, which simulated GPUs lack, and is refused; hooks,
checkpoints and GPU resets do not exist.

The messages are those of mig-parted's api/spec/v1 and of what was seen of v0.10.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from gpu_pools.mig.geometry import place
from sandbox.machines.gpu import Gpu, cleared, with_layout
from sandbox.nvml.known_models import model

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = "v1"
NOT_APPLIED = "Assertion failure: selected configuration not currently applied"
#: Of a GPU with so many slices: size -> how many instances of it make it balanced.
_BALANCED = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}
_FIELDS = ("device-filter", "devices", "mig-enabled", "mig-devices")


class MigPartedError(Exception):
    """What mig-parted would print before it exits 1."""


@dataclass(frozen=True)
class Entry:
    """One entry of a configuration: what the listed GPUs shall be.

    Attributes:
        devices: GPU indexes, None for all.
        mig_enabled: MIG mode.
        layout: profile -> count; empty with MIG on means MIG without instances.
    """

    devices: tuple[int, ...] | None
    mig_enabled: bool
    layout: Mapping[str, int]

    def covers(self, gpu: Gpu) -> bool:
        """Whether the entry is about this GPU."""
        return self.devices is None or gpu.index in self.devices


def read_config(text: str, selected: str) -> tuple[Entry, ...]:
    """The entries of one configuration of a file.

    Raises:
        MigPartedError: if the file is not valid or has no configuration of that name.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        message = f"error parsing config file: unmarshal error: error converting YAML to JSON: {error}"
        raise MigPartedError(message) from error
    configs = _configs(document)
    if not selected:
        if len(configs) > 1:
            message = "error selecting MIG config: missing required flag 'selected-config' when more than one config available"
            raise MigPartedError(message)
        (selected,) = configs
    if selected not in configs:
        message = f"error selecting MIG config: selected mig-config not present: {selected}"
        raise MigPartedError(message)
    return configs[selected]


def generated_config(gpu_model: str) -> str:
    """The file that mig-manager makes where no ConfigMap is named: off, on, balanced, each profile as often as it fits."""
    counts = {name: profile.max_instances for name, profile in (model(gpu_model).profiles or {}).items()}
    layouts = {"all-enabled": {}, **_balanced(counts), **{f"all-{_plain(name)}": {name: count} for name, count in counts.items()}}
    off = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
    on = {name: [{"devices": "all", "mig-enabled": True, "mig-devices": layout}] for name, layout in layouts.items()}
    return yaml.safe_dump({"version": _VERSION, "mig-configs": {**off, **on}})


def _plain(name: str) -> str:
    return name.replace("+", ".")


def _balanced(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The layout all-balanced: of each size the profile without attributes that fits most often; none where a size is missing."""
    by_size: dict[int, str] = {}
    for name in (name for name in counts if not set("+-") & set(name)):
        size = int(name.partition("g")[0])
        if size not in by_size or counts[name] > counts[by_size[size]]:
            by_size[size] = name
    wanted = _BALANCED.get(max(by_size, default=0), {})
    if not wanted or not by_size.keys() >= wanted.keys():
        return {}
    return {"all-balanced": {by_size[size]: count for size, count in wanted.items()}}


def holds(gpus: tuple[Gpu, ...], entries: tuple[Entry, ...]) -> bool:
    """``assert``: whether every GPU is what the entries say."""
    return all(_is(gpu, entry) for entry in entries for gpu in gpus if entry.covers(gpu))


def apply(gpus: tuple[Gpu, ...], entries: tuple[Entry, ...]) -> tuple[tuple[Gpu, ...], str | None]:
    """``apply``: the GPUs afterwards, and the error it stopped at (None where it prints success)."""
    state = {gpu.index: gpu for gpu in gpus}
    # The mode comes first, on all GPUs, and a mode change leaves no instances.
    for entry, gpu in _pairs(gpus, entries):
        if state[gpu.index].mig_enabled != entry.mig_enabled:
            if not model(gpu.model).mig_capable:
                return _sorted(state), f"error setting MIG mode: MIG is not supported on GPU {gpu.index} ({gpu.product})"
            state[gpu.index] = cleared(gpu, mig_enabled=entry.mig_enabled)
    for entry, gpu in _pairs(gpus, entries):
        if _is(state[gpu.index], entry):
            continue
        state[gpu.index], error = _set(state[gpu.index], entry)
        if error is not None:
            return _sorted(state), error
    return _sorted(state), None


def _set(gpu: Gpu, entry: Entry) -> tuple[Gpu, str | None]:
    empty = cleared(gpu, mig_enabled=entry.mig_enabled)
    profiles = model(gpu.model).profiles or {}
    if any(name not in profiles for name in entry.layout):
        return empty, None
    if place(model(gpu.model), entry.layout) is None:
        return empty, "error setting MIGConfig: error attempting multiple config orderings: all orderings failed"
    return with_layout(gpu, entry.layout) or empty, None


def _is(gpu: Gpu, entry: Entry) -> bool:
    return gpu.mig_enabled == entry.mig_enabled and gpu.layout == {name: count for name, count in entry.layout.items() if count}


def _pairs(gpus: tuple[Gpu, ...], entries: tuple[Entry, ...]) -> list[tuple[Entry, Gpu]]:
    return [(entry, gpu) for entry in entries for gpu in gpus if entry.covers(gpu)]


def _sorted(state: Mapping[int, Gpu]) -> tuple[Gpu, ...]:
    return tuple(state[index] for index in sorted(state))


def _configs(document: object) -> dict[str, tuple[Entry, ...]]:
    where = "error parsing config file: unmarshal error: "
    if not isinstance(document, dict) or not document:
        raise MigPartedError(where + "unable to parse: not a mapping")
    if "version" not in document:
        raise MigPartedError(where + "unable to parse with missing 'version' field")
    if document["version"] != _VERSION:
        raise MigPartedError(f"{where}unknown version: {document['version']}")
    for key in document:
        if key not in {"version", "mig-configs"}:
            raise MigPartedError(f"{where}unexpected field: {key}")
    raw = document.get("mig-configs")
    if not isinstance(raw, dict) or not raw:
        raise MigPartedError(where + "at least one entry in 'mig-configs' is required")
    return {str(name): _entries(where, str(name), entries) for name, entries in raw.items()}


def _entries(where: str, name: str, raw: object) -> tuple[Entry, ...]:
    if not isinstance(raw, list) or not raw:
        raise MigPartedError(f"{where}at least one entry in '{name}' is required")
    return tuple(_entry(where, item) for item in raw)


def _entry(where: str, raw: object) -> Entry:
    if not isinstance(raw, dict):
        raise MigPartedError(f"{where}json: cannot unmarshal {_kind(raw)} into Go value of type map[string]json.RawMessage")
    for required in ("devices", "mig-enabled"):
        if required not in raw:
            raise MigPartedError(f"{where}missing required field: {required}")
    for key in raw:
        if key not in _FIELDS:
            raise MigPartedError(f"{where}unexpected field: {key}")
    if "device-filter" in raw:
        raise MigPartedError(where + "device-filter is not simulated: list the GPU indexes in devices")
    if not isinstance(raw["mig-enabled"], bool):
        raise MigPartedError(f"{where}json: cannot unmarshal {_kind(raw['mig-enabled'])} into Go value of type bool")
    layout = _layout(where, raw["mig-devices"]) if raw.get("mig-devices") is not None else None
    if raw["mig-enabled"] and layout is None:
        raise MigPartedError(where + "missing required field 'mig-devices' when 'mig-enabled' is true")
    if not raw["mig-enabled"] and layout:
        raise MigPartedError(where + "MIG devices included when 'mig-enabled' is false")
    return Entry(_devices(where, raw["devices"]), raw["mig-enabled"], layout or {})


def _devices(where: str, raw: object) -> tuple[int, ...] | None:
    if raw == "all":
        return None
    if isinstance(raw, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in raw):
        return tuple(raw)
    raise MigPartedError(f"{where}invalid string input for 'devices': {raw}")


def _layout(where: str, raw: object) -> dict[str, int]:
    if not isinstance(raw, dict) or any(isinstance(count, bool) or not isinstance(count, int) for count in raw.values()):
        raise MigPartedError(f"{where}json: cannot unmarshal {_kind(raw)} into Go value of type types.MigConfig")
    layout = {str(name): count for name, count in raw.items()}
    if any(count < 0 for count in layout.values()):
        raise MigPartedError(where + "error validating values in 'mig-devices' field: invalid count: must be >= 0")
    if layout and not any(layout.values()):
        raise MigPartedError(where + "error validating values in 'mig-devices' field: all counts for all MigProfiles are 0")
    return {name: count for name, count in layout.items() if count}


def _kind(value: object) -> str:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "value")
