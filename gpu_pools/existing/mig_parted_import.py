"""One named config of mig-parted as declarations: one for each distinct layout, with the models that it is for.

A device filter tells models of GPUs apart; a pool has one of them, so each layout becomes a declaration of its own and the models
are named in a comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.existing.profiles import doubtful_names, fitting_models, unknown_geometry
from gpu_pools.hardware.models import device_models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.existing.losses import Losses
    from gpu_pools.existing.mig_parted_check import MigEntry
    from gpu_pools.existing.yaml_tree import Path

_Outcome = tuple[str, dict[str, Any], tuple[str, ...]]
#: Stands for the GPUs that no filter names.
_OTHERS: Final = -1


def mig_declarations(entries: Sequence[MigEntry], path: Path, losses: Losses) -> list[_Outcome]:
    """(suffix of the name, declaration, comments) for each distinct layout of one named config."""
    groups: list[tuple[dict[str, Any], list[int]]] = []
    for device in _devices(entries):
        mine = [entry for entry in entries if entry.filters is None or device in entry.filters]
        sharing = _declaration(mine, path, losses)
        if sharing is None:
            continue
        same = next((devices for known, devices in groups if known == sharing), None)
        if same is None:
            groups.append((sharing, [device]))
        else:
            same.append(device)
    for entry in entries:
        if entry.filters is not None:
            ids = ", ".join(f"0x{device:04X}10DE" for device in entry.filters)
            losses.add((*entry.path, "device-filter"), ids, "a pool has one kind of GPU; the models are named in a comment")
    several = len(groups) > 1
    return [_named(sharing, devices, several=several) for sharing, devices in groups]


def _devices(entries: Sequence[MigEntry]) -> list[int]:
    """The PCI device ids that the entries tell apart."""
    devices = dict.fromkeys(device for entry in entries for device in entry.filters or ())
    return [*devices, *([_OTHERS] if any(entry.filters is None for entry in entries) else [])]


def _declaration(entries: Sequence[MigEntry], path: Path, losses: Losses) -> dict[str, Any] | None:
    """The declaration for one model of GPU; None (and a loss) where there is none."""
    why = _obstacle(entries)
    if why:
        losses.add(path, [dict(entry.layout) for entry in entries], why)
        return None
    if not any(entry.layout for entry in entries):
        return {"exclusive": {}}
    if entries[-1].devices is None:
        return {"mig": {"layout": dict(entries[-1].layout)}}
    groups = [{"index": list(entry.devices or ()), "layout": dict(entry.layout)} for entry in entries]
    return {"mig": {"gpus": groups}}


def _obstacle(entries: Sequence[MigEntry]) -> str | None:
    """Why no declaration says the same; None where one does."""
    indexes = [index for entry in entries for index in entry.devices or ()]
    if len(entries) > 1 and any(entry.devices is None for entry in entries):
        return "`all` beside other entries: how many GPUs the node has is not known here; list the indexes"
    if len(set(indexes)) < len(indexes):
        return "a GPU index is given twice"
    if any(entry.devices == () or min(entry.devices or (0,)) < 0 for entry in entries):
        return "an entry that matches no GPU"
    if any(entry.enabled and not entry.layout for entry in entries):
        return "MIG on, without any MIG device: nothing would be advertised"
    for entry in entries:
        if entry.layout and not fitting_models(entry.layout) and not unknown_geometry(entry.layout):
            return "the layout fits on no GPU model that is known here"
    return None


def _named(sharing: dict[str, Any], devices: list[int], *, several: bool) -> _Outcome:
    known = device_models()
    models = list(dict.fromkeys(known[device].key for device in devices if device in known))
    others = _OTHERS in devices
    suffix = f"-{models[0] if models else 'others' if others else f'{devices[0]:04x}'}" if several else ""
    comments: tuple[str, ...] = ()
    if models:
        comments += (f"for {', '.join(models)}{' and other GPUs' if others else ''}",)
    elif not others:
        comments += ("for " + ", ".join(f"PCI device 0x{device:04X}" for device in devices),)
    mig = sharing.get("mig", {})
    layouts = [mig["layout"]] if "layout" in mig else [group["layout"] for group in mig.get("gpus", ()) if group["layout"]]
    if layouts:
        fit = [key for key in fitting_models(layouts[0]) if all(key in fitting_models(layout) for layout in layouts)]
        comments += (_fitting(fit, layouts),)
        for name, other in {name: other for layout in layouts for name, other in doubtful_names(layout).items()}.items():
            comments += (f"{name} is called {other} by other drivers or on other GPUs: ask `nvidia-smi mig -lgip` on a node",)
    return suffix, sharing, comments


def _fitting(fit: Sequence[str], layouts: Sequence[Mapping[str, int]]) -> str:
    if fit:
        return f"fits on {', '.join(fit)}"
    listed = [key for key in unknown_geometry(layouts[0]) if all(key in unknown_geometry(layout) for layout in layouts)]
    if listed:
        return f"listed for {', '.join(listed)}, whose MIG geometry is unknown: it cannot be checked before the deploy"
    return "fits on no single known model"
