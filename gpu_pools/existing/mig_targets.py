"""Time-slicing of MIG resources in a device-plugin config, joined with the layouts that have such instances.

The device plugin's file names MIG resources (``nvidia.com/mig-1g.10gb``), mig-parted's file makes them, and a node label chooses
one config of each. Which go together no file says: so each layout that has a named profile becomes one more declaration, with
the time-slicing in it, beside the one without. What no layout has is lost, and said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_pools.existing.plugin_check import folded, resource_name
from gpu_pools.existing.plugin_import import refusals, switches
from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.hardware.resource_names import MIG_RESOURCE, WHOLE_GPU, dotted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.existing.losses import Losses
    from gpu_pools.existing.yaml_tree import Path


@dataclass(frozen=True)
class MigTargets:
    """Time-slicing of MIG resources in one config.

    Attributes:
        name: of the config.
        path: of the block.
        replicas: profile, as resources are named (dots for plus signs) -> replicas; the largest where it is given twice.
        whole: replicas of whole GPUs, None where they are not shared.
        settings: the block's switches, as a declaration has them.
        entries: (profile, place, entry) of each.
    """

    name: str
    path: Path
    replicas: Mapping[str, int]
    whole: int | None
    settings: Mapping[str, bool]
    entries: tuple[tuple[str, Path, object], ...]

    def joined(self, sharing: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
        """(a MIG declaration with this time-slicing, comments); None where it has none of the profiles."""
        mig = sharing.get("mig", {})
        layouts = [mig["layout"]] if "layout" in mig else [group["layout"] for group in mig.get("gpus", ())]
        profiles = sorted({profile for layout in layouts for profile in layout})
        found = {name: count for name in profiles if (count := self.replicas.get(dotted(name))) is not None}
        if not found:
            return None
        alike = len(found) == len(profiles) and len(set(found.values())) == 1
        replicas: object = next(iter(found.values())) if alike else found
        comments: tuple[str, ...] = ("for nodes that have both configs",)
        if self.whole and not all(layouts):
            comments += (
                f"the config also shares whole GPUs, {self.whole} replicas each: here those beside the layout stay whole",
            )
        return {"mig": {**mig, "timeSlicing": {"replicas": replicas, **self.settings}}}, comments

    def lose(self, used: set[str], losses: Losses) -> None:
        """Say which entries no layout has; `used`: profiles, with dots, of those that have one."""
        if self.whole is None and not used & self.replicas.keys():
            losses.add(self.path, None, "no declaration comes of it")
        why = "time-slicing of MIG instances belongs to a layout, and none of these files has one with it: "
        for profile, place, entry in self.entries:
            if profile not in used:
                losses.add(place, entry, f"{why}write it as `timeSlicing` of the mig declaration")
            elif isinstance(entry, dict) and entry["replicas"] != self.replicas[profile]:
                losses.add(place, entry, "given twice; the larger number holds")


def used_profiles(sharing: Mapping[str, Any]) -> set[str]:
    """The profiles of a MIG declaration, with dots for plus signs."""
    mig = sharing.get("mig", {})
    layouts = [mig.get("layout", {}), *(group["layout"] for group in mig.get("gpus", ()))]
    return {dotted(profile) for layout in layouts for profile in layout}


def mig_targets(value: object, name: str, path: Path) -> MigTargets | None:
    """The MIG resources that a config time-slices; None where it has none, or would not load."""
    if not isinstance(value, dict) or refusals(value, path):
        return None
    schema = plugin_schema()
    key, sharing = folded(value, schema.mappings[""]).get("sharing", ("", None))
    known = folded(sharing, schema.mappings["sharing"]) if isinstance(sharing, dict) else {}
    inner, block = known.get("timeSlicing", ("", None))
    if not isinstance(block, dict) or known.get("mps", ("", None))[1] is not None:
        return None
    here = (*path, key, inner)
    named = [(str(resource_name(entry["name"])), index, entry) for index, entry in enumerate(block["resources"])]
    entries = tuple(
        (full.removeprefix(MIG_RESOURCE), (*here, "resources", index), entry)
        for full, index, entry in named
        if full.startswith(MIG_RESOURCE)
    )
    replicas: dict[str, int] = {}
    for profile, _, entry in entries:
        replicas[profile] = max(int(entry["replicas"]), replicas.get(profile, 0))
    whole = max((int(entry["replicas"]) for full, _, entry in named if full == WHOLE_GPU), default=None)
    settings = switches(folded(block, schema.mappings["sharing.timeSlicing"]), "timeSlicing")
    return MigTargets(name, here, replicas, whole, settings, entries) if entries else None
