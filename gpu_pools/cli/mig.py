"""``gpu-pools layouts MODEL`` and ``python -m gpu_pools change MODEL FROM TO``: MIG questions about one GPU.

Only arguments and printing; the answers come from gpu_pools/mig/layouts.py and gpu_pools/mig/change.py. A question that cannot be
answered (an unknown model, an illegal layout) is told with all its problems, and the exit code is 2.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.models import find_model
from gpu_pools.mig.advice import layout_text, nearest, nearest_profile, units_of, why_not
from gpu_pools.mig.change import change
from gpu_pools.mig.geometry import place
from gpu_pools.mig.layouts import document, doubts, views
from gpu_pools.mig.picture import Pen, draw, ruler, unit_width
from gpu_pools.platforms.known import PLATFORMS
from gpu_pools.stack.node_hardware import allowed_models, meant_models
from gpu_pools.stack.settings import parse_gpu_models
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError, Problems
from gpu_pools.text.incidents import explained

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.mig.change import MigChange
    from gpu_pools.mig.geometry import Arrangement
    from gpu_pools.mig.layouts import LayoutView

_INVALID: Final = 2
_OWN_MODELS: Final = "`--stack STACKFILE` reads those of a stack file."
_SLICE: Final = r"([^:,]+):([1-9][0-9]{0,8})"
_NEEDS: Final = {
    "nothing": "it needs neither a reset nor a reboot",
    "gpu-reset": "it needs a reset of the GPU",
    "reboot": "it needs a reboot of the node: its virtual machine allows no reset of the GPU (R03)",
    "gpu-reset-or-reboot": "it needs a reset of the GPU, or a reboot of the node where a virtual machine allows no reset (R03)",
}


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands; each sets ``run`` to what carries it out and returns the exit code."""
    layouts = commands.add_parser("layouts", help="draw every maximal MIG layout of a GPU model")
    layouts.add_argument("model", help="a key such as a100-80gb, or a product name as NVML or a node label has it")
    layouts.add_argument("--stack", metavar="STACKFILE", help="a stack file, whose gpuModels can be named, too")
    layouts.add_argument("--json", action="store_true", help="print JSON for machines")
    layouts.set_defaults(run=_layouts)
    changed = commands.add_parser("change", help="what a change of MIG layout does to one GPU")
    changed.add_argument("model", help="as for layouts")
    changed.add_argument("before", metavar="FROM", help="a layout such as 3g.40gb:1,2g.20gb:2, or none: MIG is off")
    changed.add_argument("after", metavar="TO", help="a layout, or none")
    changed.add_argument("--platform", choices=tuple(PLATFORMS), help="where the node runs; decides about reboots")
    changed.add_argument("--stack", metavar="STACKFILE", help="as for layouts")
    changed.add_argument("--json", action="store_true", help="print JSON for machines")
    changed.set_defaults(run=_change)


def _layouts(options: argparse.Namespace) -> int:
    problems = Problems()
    found = _model(options.model, options.stack, problems)
    if found is None:
        return _refuse(problems, as_json=options.json)
    gpu, product = found
    if options.json:
        print(json.dumps(document(gpu, product), indent=2))
        return 0
    print(_listing(gpu, Pen.of(sys.stdout)))
    return 0


def _change(options: argparse.Namespace) -> int:
    problems = Problems()
    found = _model(options.model, options.stack, problems)
    if found is None:
        return _refuse(problems, as_json=options.json)
    gpu, _ = found
    if not gpu.profiles:
        problems.add("MODEL", doubts(gpu)[0], allowed="a model with known MIG profiles", remedy="Choose another model.")
        return _refuse(problems, as_json=options.json)
    before = parse_layout(gpu, options.before, "FROM", problems)
    after = parse_layout(gpu, options.after, "TO", problems)
    if before is None or after is None:
        return _refuse(problems, as_json=options.json)
    changed = change(
        gpu, before, after, virtual=bool(options.platform) and PLATFORMS[options.platform].cluster.machines_are_virtual
    )
    if options.json:
        print(json.dumps({"model": gpu.key, "platform": options.platform, **changed.as_json()}, indent=2))
    else:
        print(_change_text(gpu, changed, Pen.of(sys.stdout)))
    return 0


def parse_layout(gpu: GpuModel, text: str, path: str, problems: Problems) -> dict[str, int] | None:
    """A layout as typed (``3g.40gb:1,2g.20gb:2`` or ``none``); None, and problems, where it is not one of this GPU.

    Other names of a profile (gpu_pools.hardware.models.GpuModel.other_names) are read as the profile.
    """
    if text == "none":
        return {}
    known = len(problems)
    layout: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(_SLICE, part.strip())
        if match is None:
            problems.add(
                path, f'"{part}" is not PROFILE:COUNT', allowed="e.g. 3g.40gb:1,2g.20gb:2, or none", remedy="Write both, from 1."
            )
            continue
        name = gpu.own_name(match[1])
        if name not in (gpu.profiles or {}):
            near = nearest_profile(gpu, name)
            problems.add(
                path,
                f'{gpu.key} has no MIG profile "{name}"',
                allowed=", ".join(gpu.profiles or {}),
                remedy=f"Did you mean {near}?" if near else "Choose one of those.",
            )
            continue
        layout[name] = layout.get(name, 0) + int(match[2])
    layout = dict(sorted(layout.items()))
    if len(problems) == known and place(gpu, layout) is None:
        problems.add(
            path,
            f"{layout_text(layout)} does not fit on one {gpu.key}: {why_not(gpu, layout)}",
            allowed="a layout for which placements exist",
            remedy=f"Use e.g. {', or '.join(layout_text(legal) for legal in nearest(gpu, layout))}.",
        )
    return layout if len(problems) == known else None


def _model(name: str, stack: str | None, problems: Problems) -> tuple[GpuModel, str | None] | None:
    try:
        own = parse_gpu_models(read_stack_file(stack), problems) if stack else {}
    except InvalidStackError as error:
        for problem in error.problems:
            problems.add(problem.path, problem.message, allowed=problem.allowed, remedy=problem.remedy)
        return None
    if len(problems):
        return None
    found = find_model(name, [one for one in own.values() if one])
    if found is None:
        remedy = f"{meant_models(name, own)} {_OWN_MODELS}"
        problems.add("MODEL", f'there is no GPU model "{name}"', allowed=allowed_models(own), remedy=remedy)
    return found


def _refuse(problems: Problems, *, as_json: bool) -> int:
    if as_json:
        entries = [
            {"path": problem.path, "message": problem.message, "allowed": problem.allowed, "remedy": problem.remedy}
            for problem in problems.found
        ]
        print(json.dumps({"errors": entries}, indent=2))
    else:
        print("\n".join(map(str, problems.found)), file=sys.stderr)
    return _INVALID


def _listing(gpu: GpuModel, pen: Pen) -> str:
    rows = views(gpu)
    lines = []
    if rows:
        width = unit_width(gpu, gpu.profiles or {})
        sm = "SMs unknown" if gpu.sm is None else f"{gpu.sm} SMs"
        units = f"{gpu.placement_units} placement units"
        lines += [
            f"{gpu.key}: {len(rows)} maximal layouts; {gpu.compute_slices} compute slices, {units}, {sm}",
            "",
            f"{ruler(gpu, width)}  UNUSED",
            *(f"{draw(gpu, view.placements, width, pen)}  {_unused(view)}" for view in rows),
            "",
        ]
    return "\n".join([*lines, *(f"warning: {doubt}" for doubt in doubts(gpu))]).rstrip("\n")


def _unused(view: LayoutView) -> str:
    parts = [_number(len(view.unused_units), "unit"), _number(view.unused_slices, "slice")]
    parts.append("SMs unknown" if view.unused_sm is None else _number(view.unused_sm, "SM"))
    return ", ".join(part for part in parts if part) or "-"


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' if count > 1 else ''}" if count else ""


def _change_text(gpu: GpuModel, changed: MigChange, pen: Pen) -> str:
    width = unit_width(gpu, gpu.profiles or {})
    old = tuple(sorted((*changed.goes, *changed.stays)))
    new = tuple(sorted((*changed.stays, *changed.comes)))
    lines = [
        f"{gpu.key}: {_layout_text(changed.before)} -> {_layout_text(changed.after)}",
        "",
        f"      {ruler(gpu, width)}".rstrip(),
        f"from  {draw(gpu, old, width, pen)}",
        f"to    {draw(gpu, new, width, pen)}",
        "",
        f"goes:  {_instances(changed.goes)}",
        f"stays: {_instances(changed.stays)}",
        f"comes: {_instances(changed.comes)}",
    ]
    if changed.mode_changes:
        lines.append(f"MIG mode is switched {'on' if changed.after else 'off'}: {_NEEDS[changed.mode_change_needs]}")
    else:
        lines.append("MIG mode does not change")
    if changed.stays and (changed.goes or changed.comes):
        lines.append("The operator's mig-manager would destroy and make again what could stay.")
    return "\n".join([*lines, *explained(lines)])


def _layout_text(layout: Mapping[str, int]) -> str:
    return layout_text(layout) if layout else "MIG off"


def _instances(placements: Arrangement) -> str:
    return ", ".join(f"{placed.profile} at {units_of(placed.start, placed.end)}" for placed in placements) or "nothing"
