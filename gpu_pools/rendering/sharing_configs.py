"""Renders the two config files that the GPU operator's operands read, one key per distinct declaration.

Keys end in a hash of what they name, so that a changed declaration is a new key: the node label changes with it and the
operands really reload (the device plugin's config-manager reacts to the label, never to an edited ConfigMap). Equal
declarations share one key whatever their names. The MIG strategy of the cluster is in the text of MIG declarations alone, whose
resources it names: so what is declared of one pool never changes the key of another, but where it really renames its resources.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from gpu_pools.stack.kubernetes_names import WHOLE_GPU, mig_resource
from gpu_pools.stack.sharing import Exclusive, Mig, Mps, TimeSlicing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.stack.sharing import GpuLayout, Sharing

DEVICE_PLUGIN_CONFIG_MAP: Final = "gpu-pools-device-plugin"
MIG_PARTED_CONFIG_MAP: Final = "gpu-pools-mig-parted"
#: Nobody reads it but the program: the named configs of the mig-parted file that are not gone yet (components/_sharing_keys.py).
MIG_PARTED_ENTRIES_CONFIG_MAP: Final = "gpu-pools-mig-layouts"
#: The key for "no MIG" that the GPU operator's own default refers to; a custom map must have it.
MIG_DISABLED_KEY: Final = "all-disabled"
_HASH_LENGTH: Final = 8
#: A label value has at most 63 characters; a dash and the hash take the rest.
_LONGEST_SLUG: Final = 63 - 1 - _HASH_LENGTH

FlagMigStrategy = Literal["single", "mixed"]

#: On GPUs without MIG all strategies are one (device plugin v0.19.0, internal/rm, internal/lm/mig-strategy.go), but MPS under
#: `mixed` is refused (cmd/nvidia-device-plugin/main.go).
STRATEGY_WITHOUT_MIG: Final[FlagMigStrategy] = "single"


@lru_cache(maxsize=1024)
def device_plugin_config(sharing: Sharing, mig_strategy: FlagMigStrategy) -> tuple[str, str]:
    """(key, YAML text) of the device plugin's config file for one declaration.

    Args:
        sharing: the declaration.
        mig_strategy: the cluster's; it decides the names of MIG resources, and says nothing of other declarations.
    """
    if not isinstance(sharing, Mig):
        mig_strategy = STRATEGY_WITHOUT_MIG
    document: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": mig_strategy}}
    replicated = _replicated(sharing, mig_strategy)
    if replicated:
        document["sharing"] = replicated
    text = yaml.safe_dump(document, sort_keys=False)
    return f"{_slug(sharing)}-{_digest(text)}", text


@lru_cache(maxsize=1024)
def mig_parted_entry(sharing: Mig) -> tuple[str, tuple[GpuLayout, ...]]:
    """(key, GPU groups) of one MIG declaration in the mig-parted file."""
    text = yaml.safe_dump(_mig_specs(sharing), sort_keys=False)
    slug = "-".join(_layout_slug(entry.layout) for entry in sharing.gpus)
    return f"{_cut(slug)}-{_digest(text)}", sharing.gpus


def mig_parted_entries(declarations: Iterable[Mig]) -> dict[str, str]:
    """Key -> YAML text of one named config of the mig-parted file per distinct declaration, in the order of the keys."""
    named = {mig_parted_entry(declaration)[0]: _mig_specs(declaration) for declaration in declarations}
    return {key: yaml.safe_dump(specs, sort_keys=False) for key, specs in sorted(named.items())}


def mig_parted_file(entries: Mapping[str, str]) -> str:
    """The mig-parted file: `all-disabled` and the named configs."""
    configs: dict[str, Any] = {MIG_DISABLED_KEY: [{"devices": "all", "mig-enabled": False}]}
    configs.update((key, yaml.safe_load(text)) for key, text in sorted(entries.items()))
    return yaml.safe_dump({"version": "v1", "mig-configs": configs}, sort_keys=False)


def digest(text: str) -> str:
    """The short content hash that keys and roll-out annotations carry."""
    return _digest(text)


def _replicated(sharing: Sharing, mig_strategy: FlagMigStrategy) -> dict[str, Any]:
    if isinstance(sharing, Mps):
        return {"mps": _resources(sharing, {WHOLE_GPU: sharing.replicas})}
    if isinstance(sharing, TimeSlicing):
        return {"timeSlicing": _resources(sharing, {WHOLE_GPU: sharing.replicas})}
    if isinstance(sharing, Mig) and sharing.time_slicing:
        alone = {WHOLE_GPU: sharing.time_slicing.replicas}
        return {"timeSlicing": _resources(sharing.time_slicing, alone if mig_strategy == "single" else _mig_resources(sharing))}
    return {}


def _resources(shared: TimeSlicing | Mps, replicas: dict[str, int]) -> dict[str, Any]:
    # Both switches are always written out: their defaults differ by strategy and by device-plugin version.
    return {
        "renameByDefault": shared.rename_by_default,
        "failRequestsGreaterThanOne": shared.fail_requests_greater_than_one,
        "resources": [{"name": name, "replicas": count} for name, count in replicas.items()],
    }


def _mig_resources(sharing: Mig) -> dict[str, int]:
    """Resource name -> replicas, of the profiles that are shared."""
    profiles = sorted({profile for layout in sharing.layouts for profile, _ in layout})
    sliced = {profile: sharing.slicing_of(profile) for profile in profiles}
    return {mig_resource(profile): shared.replicas for profile, shared in sliced.items() if shared}


def _mig_specs(sharing: Mig) -> list[dict[str, Any]]:
    return [_mig_spec(entry) for entry in sharing.gpus]


def _mig_spec(entry: GpuLayout) -> dict[str, Any]:
    devices: Any = "all" if entry.index is None else list(entry.index)
    if not entry.layout:
        return {"devices": devices, "mig-enabled": False}
    return {"devices": devices, "mig-enabled": True, "mig-devices": dict(entry.layout)}


def _slug(sharing: Sharing) -> str:
    if isinstance(sharing, Exclusive):
        return "exclusive"
    if isinstance(sharing, TimeSlicing):
        return f"time-slicing-{sharing.replicas}"
    if isinstance(sharing, Mps):
        return f"mps-{sharing.replicas}"
    return f"mig-time-slicing-{sharing.time_slicing.replicas}" if sharing.time_slicing else "mig"


def _layout_slug(layout: tuple[tuple[str, int], ...]) -> str:
    """Short words for a layout, e.g. ``2x2g.10gb-3g.20gb``."""
    if not layout:
        return "whole"
    return "-".join(f"{count}x{profile}" if count > 1 else profile for profile, count in layout)


def _cut(slug: str) -> str:
    plain = re.sub(r"[^-A-Za-z0-9.]", ".", slug)
    return plain[:_LONGEST_SLUG].rstrip("-.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
