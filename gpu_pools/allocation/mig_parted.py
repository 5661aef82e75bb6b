"""mig-parted: the file from which NVIDIA's mig-manager partitions GPUs, one named config per distinct MIG declaration."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.allocation.device_plugin import HASH_LENGTH, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.sharing.mode import GpuLayout, Layout, Sharing

MIG_PARTED_CONFIG_MAP: Final = "gpu-pools-mig-parted"
#: Nobody reads it but the program: the named configs of the mig-parted file that are not gone yet
# (components/gpu_operator/sharing_keys.py).
MIG_PARTED_ENTRIES_CONFIG_MAP: Final = "gpu-pools-mig-layouts"
#: The key for "no MIG" that the GPU operator's own default refers to; a custom map must have it.
MIG_DISABLED_KEY: Final = "all-disabled"
#: A label value has at most 63 characters; a dash and the hash take the rest.
_LONGEST_SLUG: Final = 63 - 1 - HASH_LENGTH


@lru_cache(maxsize=1024)
def mig_parted_key(sharing: Sharing) -> str:
    """Return the name of a MIG declaration's config in the mig-parted file."""
    text = yaml.safe_dump(_mig_specs(sharing), sort_keys=False)
    slug = "-".join(_layout_slug(entry.layout) for entry in sharing.gpu_layouts)
    return f"{_cut(slug)}-{digest(text)}"


def mig_parted_entries(declarations: Iterable[Sharing]) -> dict[str, str]:
    """Key -> YAML text of one named config of the mig-parted file per distinct declaration, in the order of the keys."""
    named = {mig_parted_key(declaration): _mig_specs(declaration) for declaration in declarations}
    return {key: yaml.safe_dump(specs, sort_keys=False) for key, specs in sorted(named.items())}


def mig_parted_file(entries: Mapping[str, str]) -> str:
    """The mig-parted file: `all-disabled` and the named configs."""
    configs: dict[str, Any] = {MIG_DISABLED_KEY: [{"devices": "all", "mig-enabled": False}]}
    configs.update((key, yaml.safe_load(text)) for key, text in sorted(entries.items()))
    return yaml.safe_dump({"version": "v1", "mig-configs": configs}, sort_keys=False)


def _mig_specs(sharing: Sharing) -> list[dict[str, Any]]:
    return [_mig_spec(entry) for entry in sharing.gpu_layouts]


def _mig_spec(entry: GpuLayout) -> dict[str, Any]:
    devices: Any = "all" if entry.index is None else list(entry.index)
    if not entry.layout:
        return {"devices": devices, "mig-enabled": False}
    return {"devices": devices, "mig-enabled": True, "mig-devices": dict(entry.layout)}


def _layout_slug(layout: Layout) -> str:
    """Short words for a layout, e.g. ``2x2g.10gb-3g.20gb``."""
    if not layout:
        return "whole"
    return "-".join(f"{count}x{profile}" if count > 1 else profile for profile, count in layout)


def _cut(slug: str) -> str:
    plain = re.sub(r"[^-A-Za-z0-9.]", ".", slug)
    return plain[:_LONGEST_SLUG].rstrip("-.")
