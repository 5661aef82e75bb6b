"""One config of the device plugin as a declaration; what a declaration has no place for goes to the losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.existing.findings import Findings
from gpu_pools.existing.plugin_check import check_plugin_config, folded, resource_name
from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.existing.run_context import RunContext
from gpu_pools.hardware.resource_names import MIG_RESOURCE, WHOLE_GPU
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.time_slicing import TimeSlicing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.existing.findings import Finding
    from gpu_pools.existing.losses import Losses
    from gpu_pools.existing.yaml_tree import Path

_EXCLUSIVE: Final[dict[str, Any]] = {"exclusive": {}}
_WHY_FLAG: Final = "a declaration says how GPUs are shared, not how the plugin runs"
_WHY: Final[Mapping[str, str]] = {
    "migStrategy": "derived from the pools, or given as gpu-pools:operator.migStrategy",
    "mpsRoot": "a value of the chart: gpu-pools:operator.values.devicePlugin.mps.root",
    "nvidiaDriverRoot": "follows from who installs the driver: gpu-pools:operator.driver",
}
_Outcome = tuple[dict[str, Any] | None, tuple[str, ...]]


def plugin_declaration(value: object, path: Path, losses: Losses) -> _Outcome:
    """(declaration, comments) of one config; no declaration where the plugin would refuse it or it has no equivalent."""
    if value is None:
        return dict(_EXCLUSIVE), ("an empty config: no sharing",)
    refused = _refused(value, path, losses)
    if not isinstance(value, dict):
        return None, ()
    known = _fields(value, "", path, losses)
    _lose_flags(known.get("flags", ("", None))[1], "flags", (*path, "flags"), losses)
    for name, why in (("resources", "the plugin ignores custom resource names"), ("imex", _WHY_FLAG)):
        if name in known and known[name][1] is not None:
            losses.add((*path, known[name][0]), known[name][1], why)
    key, sharing = known.get("sharing", ("", None))
    if refused:
        if key:
            losses.add((*path, key), sharing, "part of a config that the real software refuses as a whole")
        return None, ()
    if not isinstance(sharing, dict):
        return dict(_EXCLUSIVE), ("no sharing",)
    return _sharing(sharing, (*path, key), losses)


def _refused(value: object, path: Path, losses: Losses) -> bool:
    """Whether the plugin would not load the config; each reason is a loss. MIG strategies are the plan's business."""
    crashes = refusals(value, path)
    for found in crashes:
        losses.add_text(found.path, None, f"the real software refuses it: {found.message}: {found.really}")
    return bool(crashes)


def refusals(value: object, path: Path) -> list[Finding]:
    """Why the newest plugin would not load a config; none: it does."""
    findings = Findings({}, plugin_schema().versions)
    check_plugin_config(value, path, findings, RunContext("chart", ""))
    latest = plugin_schema().versions[-1]
    return [found for found in findings.sorted() if found.severity == "crash" and latest in found.versions]


def _fields(value: Mapping[str, object], name: str, path: Path, losses: Losses) -> dict[str, tuple[str, object]]:
    """The known fields of a mapping; unknown keys are losses."""
    known = folded(value, plugin_schema().mappings[name])
    used = {key for key, _ in known.values()}
    for key, entry in value.items():
        if key not in used:
            losses.add((*path, key), entry, "the plugin knows no such key there and ignores it")
    return known


def _lose_flags(flags: object, name: str, path: Path, losses: Losses) -> None:
    if isinstance(flags, dict):
        fields = plugin_schema().mappings[name].fields
        for field, (key, entry) in _fields(flags, name, path, losses).items():
            inner = fields[field].of
            if inner and isinstance(entry, dict) and entry:
                _lose_flags(entry, inner, (*path, key), losses)
            else:
                losses.add((*path, key), entry, _WHY.get(field, _WHY_FLAG))
    elif flags is not None:
        losses.add(path, flags, _WHY_FLAG)


def _sharing(sharing: Mapping[str, object], path: Path, losses: Losses) -> _Outcome:
    known = _fields(sharing, "sharing", path, losses)
    slicing, mps = known.get("timeSlicing"), known.get("mps")
    if mps and mps[1] is not None:
        if slicing:
            losses.add((*path, slicing[0]), slicing[1], "MPS wins where both are given")
        return _block("mps", mps[1], (*path, mps[0]), losses)
    if slicing:
        return _block("timeSlicing", slicing[1], (*path, slicing[0]), losses)
    return dict(_EXCLUSIVE), ("no sharing",)


def _block(kind: str, block: object, path: Path, losses: Losses) -> _Outcome:
    """One of the two sharing blocks, of which it is known that it loads."""
    if not isinstance(block, dict):
        return None, ()
    known = _fields(block, f"sharing.{kind}", path, losses)
    entries = block["resources"]
    replicas = _replicas(entries, (*path, "resources"), losses, mig=kind == "timeSlicing")
    comments: tuple[str, ...] = ()
    if replicas is None:
        if kind == "mps" or not any(str(resource_name(entry["name"])).startswith(MIG_RESOURCE) for entry in entries):
            losses.add(path, block, "no declaration comes of it")
        return None, ()
    most = Mps.most_replicas if kind == "mps" else TimeSlicing.most_replicas
    if replicas > most:
        losses.add(path, block, f"{replicas} replicas; this project accepts at most {most}")
        return None, ()
    settings = {"replicas": replicas, **switches(known, kind)}
    if kind == "mps" and not settings["failRequestsGreaterThanOne"]:
        comments = (
            *comments,
            f"failRequestsGreaterThanOne: false holds from device plugin {_honoured()} on; before, true is forced",
        )
    return {kind: settings}, comments


def switches(known: Mapping[str, tuple[str, object]], kind: str) -> dict[str, bool]:
    """The two switches of a block. Written out in any case: the defaults of the plugin and of this project differ."""
    fail = known.get("failRequestsGreaterThanOne", ("", None))[1]
    return {
        "renameByDefault": known.get("renameByDefault", ("", False))[1] is True,
        "failRequestsGreaterThanOne": kind == "mps" if fail is None else fail is True,
    }


def _honoured() -> str:
    return plugin_schema().mps_fail_honoured_since


def _replicas(entries: list[Any], path: Path, losses: Losses, *, mig: bool) -> int | None:
    """The replicas of whole GPUs; settings that the plugin ignores, and entries for anything else, are losses.

    `mig`: MIG resources are none: gpu_pools/existing/mig_targets.py carries them to the layouts.
    """
    found: list[int] = []
    for index, entry in enumerate(entries):
        here = (*path, index)
        for key, value in entry.items():
            if key not in {"name", "replicas"} and (key, value) != ("devices", "all"):
                losses.add((*here, key), value, "the plugin ignores it: every GPU of the node is shared, under the default name")
        name = resource_name(entry["name"])
        if name == WHOLE_GPU:
            found.append(int(entry["replicas"]))
        elif name is None or not name.startswith(MIG_RESOURCE):
            losses.add(here, entry, "no GPU is advertised under that name")
        elif not mig:
            losses.add(here, entry, "MPS shares whole GPUs only")
    if len(found) > 1:
        losses.add(path, min(found), "given twice; the larger number holds")
    return max(found) if found else None
