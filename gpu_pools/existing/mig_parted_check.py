"""What nvidia-mig-parted does with a config file: refuse it, or report success and partition nothing.

The rules follow its own decoder (api/spec/v1/spec.go and pkg/types at bd7160f4, v0.15.0: exact types, unknown fields are
errors); what older versions lack is gpu_pools/hardware/operands.yaml. A file does not say on which GPUs it is used, so layouts
are held against every model whose profiles are known, or against the models that a device filter names.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from gpu_pools.allocation.mig_parted import MIG_DISABLED_KEY
from gpu_pools.existing.config_names import check_config_name
from gpu_pools.existing.profiles import doubtful_names, fits, fitting_models, has, models_with, nearest_profiles, unknown_geometry
from gpu_pools.existing.values import is_whole, unquoted
from gpu_pools.hardware.models import device_models, model
from gpu_pools.hardware.operands import charts_with, since, version_text
from gpu_pools.stack.kubernetes_names import MIG_CONFIG_LABEL
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.existing.findings import Findings, Severity
    from gpu_pools.existing.run_context import RunContext
    from gpu_pools.existing.yaml_tree import Path
    from gpu_pools.hardware.operands import Feature

_VENDOR: Final = 0x10DE
_FIELDS: Final = ("device-filter", "devices", "mig-enabled", "mig-devices")
_PROFILE: Final = re.compile(r"(?:[0-9]{1,18}c\.)?[0-9]{1,18}g\.[0-9]{1,18}gb(?P<attributes>[-+].*)?", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"[a-zA-Z]([a-zA-Z0-9.]*[a-zA-Z0-9])?")
_REFUSES: Final = (
    "nvidia-mig-parted exits with an error, for every config of the file; the node's mig.config.state becomes failed"
)
_NOTHING: Final = (
    "on a GPU that lacks a profile `nvidia-mig-parted apply` prints that it was applied successfully, exits 0 "
    "and makes no MIG device at all; mig-manager's assert then fails: mig.config.state=failed"
)


@dataclass(frozen=True)
class MigEntry:
    """One entry of a named config, as far as it can be read.

    Attributes:
        path: where it stands.
        filters: PCI device ids that it is limited to; None: all GPUs.
        devices: GPU indexes; None: all.
        enabled: MIG mode.
        layout: profile -> count, without zeros.
        subsystems: the filters that name a subsystem too.
    """

    path: Path
    filters: tuple[int, ...] | None
    devices: tuple[int, ...] | None
    enabled: bool
    layout: Mapping[str, int]
    subsystems: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...] | None:
        """Keys of the models that the filter names and that are known; None: no filter."""
        if self.filters is None:
            return None
        known = device_models()
        return tuple(dict.fromkeys(known[device].key for device in self.filters if device in known))


def check_mig_parted(value: object, base: Path, findings: Findings, context: RunContext) -> None:
    """Check one config file of nvidia-mig-parted.

    Args:
        value: its parsed YAML; None for an empty file, which loads and holds no config.
        base: where it stands in the file under check.
        findings: are added to.
        context: how it is run.
    """
    for name, entries in read_mig_configs(value, base, findings).items():
        check_config_name(name, MIG_CONFIG_LABEL, (*base, "mig-configs", name), findings)
        for entry in entries:
            _check_entry(entry, findings)
        _check_overlaps(entries, findings)
        _check_coverage(entries, findings, (*base, "mig-configs", name))
        _check_strategy(entries, findings, (*base, "mig-configs", name), context)


def check_disabled_key(value: object, base: Path, findings: Findings) -> None:
    """Under the operator, a file needs the config that new MIG nodes are labelled with."""
    configs = value.get("mig-configs") if isinstance(value, dict) else None
    if isinstance(configs, dict) and MIG_DISABLED_KEY not in configs:
        findings.add(
            (*base, "mig-configs"),
            "crash",
            f"there is no config `{MIG_DISABLED_KEY}`",
            really=f"the operator labels every new MIG node nvidia.com/mig.config={MIG_DISABLED_KEY}; mig-manager then fails: "
            "`selected mig-config not present`, mig.config.state=failed",
            allowed=f"a file with `{MIG_DISABLED_KEY}`",
            remedy=f'Add `{MIG_DISABLED_KEY}: [{{devices: all, mig-enabled: false}}]`, or set migManager.config.default to "".',
        )


def read_mig_configs(value: object, base: Path, findings: Findings) -> dict[str, list[MigEntry]]:
    """The named configs of a file; what the decoder would refuse is reported and left out."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        _crash(
            findings, base, f"{show(value)} is not a mapping", "cannot unmarshal", "version and mig-configs", "Write a mapping."
        )
        return {}
    _check_version(value, base, findings)
    for key in value:
        if key not in {"version", "mig-configs"}:
            near = difflib.get_close_matches(key, ["version", "mig-configs"], n=1)
            remedy = f"Did you mean `{near[0]}`?" if near else "Remove it."
            _crash(findings, (*base, key), f"unknown field `{key}`", f"unexpected field: {key}", "version, mig-configs", remedy)
    if "mig-configs" not in value:
        return {}
    here = (*base, "mig-configs")
    configs = value["mig-configs"]
    if not isinstance(configs, dict) or not configs:
        error = "at least one entry in 'mig-configs' is required"
        _crash(findings, here, f"{show(configs)} instead of configs", error, "a mapping of names to lists", "Add a config.")
        return {}
    return {name: list(_entries(entries, (*here, name), findings)) for name, entries in configs.items()}


def _check_version(value: Mapping[str, object], base: Path, findings: Findings) -> None:
    if "version" not in value and value:
        _crash(findings, base, "no `version`", "unable to parse with missing 'version' field", "v1", "Add `version: v1`.")
    elif (version := value.get("version")) != "v1":
        error = f"unknown version: {version or ''}" if version is None or isinstance(version, str) else "cannot unmarshal"
        _crash(findings, (*base, "version"), f"version {show(version)}", error, "v1", "Write `version: v1`.")


def _entries(entries: object, path: Path, findings: Findings) -> Iterator[MigEntry]:
    if not isinstance(entries, list) or not entries:
        error = f"at least one entry in '{path[-1]}' is required"
        _crash(findings, path, f"{show(entries)} instead of entries", error, "a list of at least one entry", "Write a list.")
        return
    for index, entry in enumerate(entries):
        read = _entry(entry, (*path, index), findings)
        if read is not None:
            yield read


def _entry(entry: object, path: Path, findings: Findings) -> MigEntry | None:
    if not isinstance(entry, dict):
        _crash(
            findings,
            path,
            f"{show(entry)} is not an entry",
            "missing required field: devices",
            ", ".join(_FIELDS),
            "Write a mapping.",
        )
        return None
    good = True
    for key in entry:
        if key not in _FIELDS:
            near = difflib.get_close_matches(key, _FIELDS, n=1)
            remedy = f"Did you mean `{near[0]}`?" if near else "Remove it."
            good = _crash(
                findings, (*path, key), f"unknown field `{key}`", f"unexpected field: {key}", ", ".join(_FIELDS), remedy
            )
    for key in ("devices", "mig-enabled"):
        if key not in entry:
            good = _crash(findings, path, f"no `{key}`", f"missing required field: {key}", ", ".join(_FIELDS), f"Add `{key}`.")
    good = _check_types(entry, path, findings) and good
    return _read_entry(entry, path) if good else None


def _check_types(entry: Mapping[str, object], path: Path, findings: Findings) -> bool:
    devices, enabled = entry.get("devices", "all"), entry.get("mig-enabled", False)
    good = True
    if devices != "all" and not (isinstance(devices, list) and all(item is None or is_whole(item) for item in devices)):
        allowed = "all, or a list of GPU indexes without quotes"
        text = devices is None or isinstance(devices, str)
        error = "invalid string input for 'devices'" if text else "cannot unmarshal"
        good = _crash(findings, (*path, "devices"), f"{show(devices)} names no GPUs", error, allowed, "Write e.g. [0, 1].")
    if enabled is not None and not isinstance(enabled, bool):
        good = _crash(
            findings,
            (*path, "mig-enabled"),
            f"{show(enabled)} is neither true nor false",
            "cannot unmarshal",
            "true or false",
            unquoted(enabled, lambda bare: isinstance(bare, bool), "Write true or false."),
        )
    filters = entry.get("device-filter")
    texts = filters if isinstance(filters, list) else [filters]
    if not all(text is None or isinstance(text, str) for text in texts):
        good = _crash(
            findings,
            (*path, "device-filter"),
            f"{show(filters)} is not a filter",
            "cannot unmarshal",
            'texts such as "0x20B210DE"',
            "Write it in quotes.",
        )
    return _check_devices_of(entry, path, findings) and good


def _check_devices_of(entry: Mapping[str, object], path: Path, findings: Findings) -> bool:
    """The layout, and whether it goes with the mode."""
    layout, enabled = entry.get("mig-devices"), entry.get("mig-enabled")
    here = (*path, "mig-devices")
    if layout is None:
        if enabled is True:
            error = "missing required field 'mig-devices' when 'mig-enabled' is true"
            return _crash(
                findings, path, "MIG on, without `mig-devices`", error, "a mapping of profile to count", "Add `mig-devices`."
            )
        return True
    if not isinstance(layout, dict):
        return _crash(
            findings,
            here,
            f"{show(layout)} is not a layout",
            "cannot unmarshal",
            "a mapping of profile to count",
            'Write e.g. {"1g.10gb": 7}.',
        )
    good = True
    for profile, count in layout.items():
        good = _check_count(profile, count, (*here, profile), findings) and good
    if good and layout and not any(layout.values()):
        good = _crash(
            findings,
            here,
            "all counts are 0",
            "all counts for all MigProfiles are 0",
            "counts from 1",
            "Raise one, or switch MIG off.",
        )
    if layout and enabled is not True:
        error = "MIG devices included when 'mig-enabled' is false"
        good = _crash(
            findings,
            here,
            "MIG devices, but `mig-enabled` is false",
            error,
            "no mig-devices",
            "Set mig-enabled to true, or remove them.",
        )
    return good


def _check_count(profile: str, count: object, path: Path, findings: Findings) -> bool:
    good = True
    if not _valid_profile(profile):
        error = f"invalid format for '{profile}'"
        good = _crash(
            findings,
            path,
            f"`{profile}` is not a profile name",
            error,
            "e.g. 1g.10gb, 1g.10gb+me",
            "Write the name as `nvidia-smi mig -lgip` does.",
        )
    elif re.search(r"-|\+.*\.", profile):
        _too_new(
            findings,
            path,
            "crash",
            "migManager.variants",
            f"the profile {profile}",
            really=f"{_REFUSES}: `invalid format for '{profile}'`",
        )
    elif "gfx" in profile.partition("+")[2].split(","):
        _too_new(findings, path, "ignored", "migManager.variants", f"the profile {profile}", really=_NOTHING)
    if count is not None and (not is_whole(count) or float(count) < 0):  # type: ignore[arg-type]
        good = _crash(
            findings,
            path,
            f"{show(count)} is not a count",
            "invalid count" if is_whole(count) else "cannot unmarshal",
            "a whole number from 0, without quotes",
            unquoted(count, lambda bare: is_whole(bare) and not str(bare).startswith("-"), "Write a number from 0."),
        )
    return good


def _valid_profile(name: str) -> bool:
    match = _PROFILE.fullmatch(name)
    if not match:
        return False
    attributes = match["attributes"]
    if not attributes:
        return True
    parts = attributes[1:].split(",")
    return len(set(parts)) == len(parts) and all(_ATTRIBUTE.fullmatch(part) for part in parts)


def _read_entry(entry: Mapping[str, object], path: Path) -> MigEntry:
    devices = entry.get("devices")
    layout = entry.get("mig-devices")
    counts = layout.items() if isinstance(layout, dict) else ()
    return MigEntry(
        path=path,
        filters=_filters(entry.get("device-filter")),
        devices=tuple(int(index or 0) for index in devices) if isinstance(devices, list) else None,
        enabled=entry.get("mig-enabled") is True,
        layout={profile: int(count) for profile, count in counts if count},
        subsystems=tuple(text for text in _texts(entry.get("device-filter")) if device_id(text) is not None and ":" in text),
    )


def _texts(value: object) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def _filters(value: object) -> tuple[int, ...] | None:
    if not value:
        return None
    return tuple(found for text in _texts(value) if (found := device_id(text)) is not None)


def device_id(text: str) -> int | None:
    """The PCI device id in a filter such as ``0x20B210DE`` (device, then vendor); None where it can match no NVIDIA GPU."""
    head = text.partition(":")[0]
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}|[1-9]\d{0,9}", head):
        return None
    raw = int(head, 0)
    return raw >> 16 if raw & 0xFFFF == _VENDOR else None


def _check_entry(entry: MigEntry, findings: Findings) -> None:
    if entry.filters == ():
        findings.add(
            (*entry.path, "device-filter"),
            "ignored",
            "the filter matches no NVIDIA GPU",
            really="the entry is never applied, without a word",
            allowed='PCI device and vendor in one number, e.g. "0x20B210DE"',
            remedy="Write the id that `nvidia-smi --query-gpu=pci.device_id` prints.",
        )
    for text in entry.subsystems:
        _too_new(
            findings,
            (*entry.path, "device-filter"),
            "ignored",
            "migManager.subsystems",
            f'the subsystem in "{text}"',
            really="such a filter matches no GPU, without a word",
        )
    if entry.devices == () or any(index < 0 for index in entry.devices or ()):
        findings.add(
            (*entry.path, "devices"),
            "ignored",
            f"{list(entry.devices or ())} matches no GPU",
            really="what matches no GPU is never applied, without a word",
            allowed="all, or GPU indexes from 0",
            remedy="Write `all`, or the indexes.",
        )
    if entry.layout:
        _check_layout(entry, findings)


def _check_layout(entry: MigEntry, findings: Findings) -> None:
    here = (*entry.path, "mig-devices")
    compute = [name for name in entry.layout if re.match(r"\d+c\.", name)]
    unknown = [name for name in entry.layout if name not in compute and not models_with(name)]
    for name in compute:
        _compute_instances(name, (*here, name), findings)
    for name in unknown:
        near = nearest_profiles(name)
        findings.add(
            (*here, name),
            "ignored",
            f"no GPU model is known that has the profile {name}",
            really=_NOTHING,
            allowed="a profile of the GPU: `nvidia-smi mig -lgip` lists them",
            remedy=f"Did you mean {' or '.join(map(_on, near))}?" if near else "Use the GPU's own names.",
        )
    if compute or unknown:
        return
    for key in entry.models or ():
        _check_on_model(entry, key, findings)
    strangers = [device for device in entry.filters or () if device not in device_models()]
    if strangers:
        findings.add(
            (*entry.path, "device-filter"),
            "unknown",
            f"no GPU model is known with PCI device {', '.join(f'0x{device:04X}' for device in strangers)}",
            really="whether the layout fits shows on the node only",
            allowed="a layout that the GPU has",
            remedy="Compare with `nvidia-smi mig -lgip` on such a node.",
        )
    if entry.filters is None and not fitting_models(entry.layout):
        _check_anywhere(entry, findings)
    for name, other in doubtful_names(entry.layout).items():
        _doubtful_name(name, other, (*here, name), findings)


def _doubtful_name(name: str, other: str, path: Path, findings: Findings) -> None:
    findings.add(
        path,
        "unknown",
        f"{name} is called {other} by other drivers or on other GPUs of {_models_text(models_with(name))}",
        really=f"where the node has the other name: {_NOTHING}",
        allowed="the name that the node itself has",
        remedy="Compare with `nvidia-smi mig -lgip` on such a node.",
    )


def _unknown_geometry(entry: MigEntry, models: str, findings: Findings) -> None:
    findings.add(
        (*entry.path, "mig-devices"),
        "unknown",
        f"no source gives the MIG geometry of {models}",
        really="whether the layout fits shows on the node only",
        allowed="a layout that the GPU has",
        remedy="Compare with `nvidia-smi mig -lgip` and `-lgipp` on such a node.",
    )


def _check_anywhere(entry: MigEntry, findings: Findings) -> None:
    """A layout that fits on no model: because no model has all its profiles, or because it is too large."""
    if unknown := unknown_geometry(entry.layout):
        _unknown_geometry(entry, _models_text(unknown), findings)
        return
    homes = [set(models_with(name)) for name in entry.layout]
    if set.intersection(*homes):
        _too_large(entry, _models_text(tuple(sorted(set.intersection(*homes)))), findings)
        return
    each = "; ".join(f"{name} on {_models_text(models_with(name))}" for name in entry.layout)
    findings.add(
        (*entry.path, "mig-devices"),
        "ignored",
        f"no GPU model has all of these profiles: {each}",
        really=_NOTHING,
        allowed="profiles of one GPU",
        remedy="Write one entry per GPU, each with a device-filter.",
    )


def _check_on_model(entry: MigEntry, key: str, findings: Findings) -> None:
    gpu = model(key)
    if gpu.profiles is None:
        _unknown_geometry(entry, key, findings)
        return
    missing = [name for name in entry.layout if not has(gpu, name)]
    if missing:
        findings.add(
            (*entry.path, "mig-devices"),
            "ignored",
            f"{key}, which the filter names, has no profile {' or '.join(missing)}",
            really=_NOTHING,
            allowed=", ".join(gpu.profiles) or "nothing: this GPU has no MIG",
            remedy=f"Use its own names; {missing[0]} exists on {_models_text(models_with(missing[0]))}.",
        )
    elif not fits(gpu, entry.layout):
        _too_large(entry, key, findings)


def _too_large(entry: MigEntry, models: str, findings: Findings) -> None:
    words = ", ".join(f"{count}x {name}" for name, count in entry.layout.items())
    findings.add(
        (*entry.path, "mig-devices"),
        "crash",
        f"{words}: no placement for all of them on {models}",
        really="`nvidia-mig-parted apply` exits 1 half way: the first GPU is left without MIG devices, the others untouched",
        allowed="a layout that has a placement",
        remedy="Lower the counts.",
    )


def _compute_instances(name: str, path: Path, findings: Findings) -> None:
    whole = name.partition(".")[2]
    findings.add(
        path,
        "changed",
        f"{name} divides a GPU instance into compute instances",
        really=f"mig-parted makes it; device plugins before 0.20 advertise each as nvidia.com/mig-{whole}, as if it were a whole "
        "one, though they share its memory; newer ones match names as a whole, so that no resource takes it",
        allowed="profiles without `c.`",
        remedy=f"Use {whole}.",
    )


def _check_overlaps(entries: list[MigEntry], findings: Findings) -> None:
    for first, second in combinations(entries, 2):
        shared = first.filters is None or second.filters is None or set(first.filters) & set(second.filters)
        indexes = first.devices is None or second.devices is None or set(first.devices) & set(second.devices)
        nowhere = () in (first.filters, second.filters, first.devices, second.devices)
        if not shared or not indexes or nowhere:
            continue
        if first.enabled != second.enabled:
            _differs_in_mode(first, second, findings)
        else:
            findings.add(
                (*second.path, "devices"),
                "overridden",
                f"overlaps with entry [{first.path[-1]}]",
                really="the entries are applied one after the other, so the later wins; assert, too, looks at the later only",
                allowed="each GPU in one entry of a config",
                remedy="Give each GPU index, or each device-filter, one entry.",
            )


def _differs_in_mode(first: MigEntry, second: MigEntry, findings: Findings) -> None:
    """`apply` gives each GPU the mode of its last entry, and then follows every entry in turn (apply/mode.go, config.go)."""
    error = (
        "unable to apply MIG config with MIG mode disabled"
        if first.enabled
        else "MIG mode is currently enabled, but the configuration specifies it should be disabled"
    )
    findings.add(
        (*second.path, "mig-enabled"),
        "crash",
        f"{str(second.enabled).lower()} for GPUs for which entry [{first.path[-1]}] says {str(first.enabled).lower()} (D20)",
        really=f"the GPU gets the mode of the later entry, and `nvidia-mig-parted apply` then exits with an error at the earlier "
        f"one, `{error}`; mig.config.state=failed",
        allowed="each GPU in one entry of a config",
        remedy="Give each GPU index, or each device-filter, one entry.",
    )


def _kinds_of_gpu(entries: list[MigEntry]) -> list[tuple[tuple[int, ...], list[MigEntry]]]:
    """The entries that hold for each kind of GPU: (its PCI device ids, entries); no ids are those that no filter names.

    An entry that matches no GPU is left out, and so is one all of whose GPUs a later entry names again. Kinds for which the same
    entries hold are one.
    """
    matching = [entry for entry in entries if entry.filters != () and entry.devices != ()]
    devices = dict.fromkeys(device for entry in matching for device in entry.filters or ())
    kinds: dict[tuple[Path, ...], tuple[tuple[int, ...], list[MigEntry]]] = {}
    for device in (*devices, None):
        mine = [entry for entry in matching if entry.filters is None or device in entry.filters]
        last = [entry for number, entry in enumerate(mine) if not _named_again(entry, mine[number + 1 :])]
        key = tuple(entry.path for entry in last)
        known = kinds.get(key, ((), []))[0] if device is not None else ()
        kinds[key] = ((*known, device) if device is not None else (), last)
    return list(kinds.values())


def _named_again(entry: MigEntry, later: list[MigEntry]) -> bool:
    if any(other.devices is None for other in later):
        return True
    named = {index for other in later for index in other.devices or ()}
    return entry.devices is not None and set(entry.devices) <= named


def _check_coverage(entries: list[MigEntry], findings: Findings, path: Path) -> None:
    """Point out GPUs that no entry names: by their index, or because a device-filter leaves their kind out."""
    if any(entry.filters == () or entry.devices == () for entry in entries):
        return
    for devices, mine in _kinds_of_gpu(entries):
        if not mine and entries:
            findings.add(
                path,
                "unknown",
                "every entry has a device-filter",
                really="GPUs that no filter names keep whatever layout they have: `nvidia-mig-parted apply` exits 0, and its "
                "assert then fails: mig.config.state=failed",
                allowed="filters for every kind of GPU that the nodes have, or an entry without one",
                remedy="Use the config on nodes with the named GPUs only, or add their device ids.",
            )
        elif mine and all(entry.devices for entry in mine):
            named = sorted({index for entry in mine for index in entry.devices or ()})
            which = f" of {', '.join(f'0x{device:04X}10DE' for device in devices)}" if devices else ""
            findings.add(
                path,
                "unknown",
                f"only GPUs {', '.join(map(str, named))}{which} are named",
                really="GPUs that no entry names keep whatever layout they have; how many the node has is not known here",
                allowed="every GPU index of the node, or `all`",
                remedy="List the remaining GPUs, with `mig-enabled: false` where they stay whole.",
            )


def _check_strategy(entries: list[MigEntry], findings: Findings, path: Path, context: RunContext) -> None:
    """What the MIG strategy, where it is known, does with the layouts."""
    strategy = context.strategy
    for entry in entries:
        if entry.enabled and not entry.layout:
            severe = strategy == "single"
            findings.add(
                entry.path,
                "crash" if severe else "ignored" if strategy == "mixed" else "unknown",
                "MIG is switched on, without any MIG device",
                really="MIG strategy single: the plugin exits, `no MIG devices configured`; mixed: it advertises nothing",
                allowed="at least one profile, or `mig-enabled: false`",
                remedy="Add a layout.",
            )
    if strategy == "single" and any(_is_uneven(mine) for _, mine in _kinds_of_gpu(entries)):
        findings.add(
            path,
            "crash",
            "not the same single profile on every GPU, and mig.strategy is single",
            really="the plugin panics: `more than one MIG device type present on node`; labels end in -MIG-INVALID",
            allowed="mig.strategy mixed, or one profile on all GPUs",
            remedy="Set mig.strategy to mixed.",
        )
    if strategy == "none" and any(entry.layout for entry in entries):
        findings.add(
            path,
            "ignored",
            "MIG devices, and mig.strategy is none",
            really="the plugin takes no notice of MIG devices: it advertises whole GPUs that no pod can use as such",
            allowed="mig.strategy single or mixed",
            remedy="Set mig.strategy.",
        )


def _is_uneven(entries: list[MigEntry]) -> bool:
    """Whether GPUs of one node get instances of several kinds, or only some get any."""
    layouts = {tuple(entry.layout) for entry in entries}
    return any(layouts) and (len({name for layout in layouts for name in layout}) > 1 or () in layouts)


def _too_new(findings: Findings, path: Path, severity: Severity, feature: Feature, what: str, *, really: str) -> None:
    """Report what only newer versions know; `changed` where no version was asked about."""
    if findings.mig_parted is not None and findings.mig_parted >= since(feature):
        return
    first = version_text(since(feature))
    findings.add(
        path,
        severity if findings.mig_parted else "changed",
        f"{what} came with mig-parted {first}",
        really=f"before: {really}",
        allowed="what the running mig-manager knows",
        remedy=f"Use mig-manager {first} or newer: {charts_with('migManager')}.",
    )


def _crash(findings: Findings, path: Path, message: str, error: str, allowed: str, remedy: str) -> bool:
    """Report what the decoder refuses; always False, for the caller to return."""
    findings.add(path, "crash", message, really=f"{_REFUSES}: `{error}`", allowed=allowed, remedy=remedy)
    return False


def _on(profile: str) -> str:
    return f"{profile} ({_models_text(models_with(profile))})"


def _models_text(keys: tuple[str, ...]) -> str:
    return ", ".join(keys)
