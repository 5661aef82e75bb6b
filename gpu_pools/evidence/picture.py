"""Draws a GPU as inline SVG: its placement units, and its instances where NVML says that they are.

Colours go by compute slices, as on the terminal (gpu_pools/mig/picture.py). Classes of the page's style sheet say which, for
light and dark; each shape has one of its own as well, for readers that draw SVG without the page's styles, as some converters to
PDF do.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gpu_pools.evidence.shared_text import plain
from gpu_pools.hardware.models import model, model_keys
from gpu_pools.text.markup import Html

if TYPE_CHECKING:
    from gpu_pools.evidence.reports import Gpu, Instance

_WIDTH: Final = 400
_HEIGHT: Final = 26
_NAME_CHARACTERS: Final = 24
#: Pixels; letters are about two thirds as wide as high.
_LARGEST, _SMALLEST, _SLIMNESS = 11.0, 5.0, 1.5
#: Class in gpu_pools/evidence/page.css -> colour without it. Those of MIG end in the compute slices.
_FILLS: Final = {
    "s1": "#b7e3c0",
    "s2": "#b3e4ea",
    "s3": "#bcd2fb",
    "s4": "#dcc7f7",
    "s7": "#f5dfa6",
    "other": "#dfe3e8",
    "whole": "#e6e9ee",
    "free": "none",
}
_ENABLED: Final = "enabled"


def picture(gpu: Gpu, gpu_model: str) -> Html:
    """The picture of a GPU.

    Args:
        gpu: as NVML shows it.
        gpu_model: this project's key of the model; says how many placement units there are.
    """
    words = _label(gpu)
    drawn = _drawn(gpu.instances, gpu_model, parted=gpu.mig.startswith(_ENABLED))
    svg = '<svg class="gpu" role="img" aria-label="{}" viewBox="0 0 {} {}"><title>{}</title>{}</svg>'
    return Html.of(svg, words, _WIDTH, _HEIGHT, words, drawn)


def _label(gpu: Gpu) -> str:
    """What the picture shows, for who cannot see it."""
    if not gpu.instances and not gpu.mig.startswith(_ENABLED):
        return plain(f"GPU {gpu.index}: whole, MIG {gpu.mig}")
    placed = ", ".join(f"{one.profile} at {one.start}" for one in gpu.instances) or "no instance"
    return plain(f"GPU {gpu.index}: {placed}")


@lru_cache(maxsize=256)
def _drawn(instances: tuple[Instance, ...], gpu_model: str, *, parted: bool) -> Html:
    """What is in the picture; a fleet has thousands of GPUs and few layouts."""
    if not instances and not parted:
        return _cell("whole", 0, 1, 1, "whole GPU")
    units = max([_units(gpu_model), *(one.start + one.size for one in instances)])
    ticks = "".join(f"M{_at(unit, units)} 1v{_HEIGHT - 2}" for unit in range(1, units))
    path = '<path class="free" d="{}" fill="none" stroke="#8c959f" stroke-dasharray="3 3"/>'
    lines = Html.of(path, ticks) if ticks else Html()
    cells = (_cell(_class(one.profile), one.start, one.size, units, one.profile) for one in instances)
    return Html.all((_cell("free", 0, 1, 1, ""), lines, *cells))


def _units(gpu_model: str) -> int:
    known = model(gpu_model).placement_units if gpu_model in model_keys() else None
    return known or 1


def _class(profile: str) -> str:
    match = re.match(r"(\d+)g", profile, re.ASCII)
    name = f"s{match[1]}" if match else ""
    return name if name in _FILLS else "other"


def _at(unit: int, units: int) -> str:
    return f"{_WIDTH * unit / units:.4g}"


def _cell(kind: str, start: int, size: int, units: int, text: str) -> Html:
    place = _at(start, units), _at(size, units), _HEIGHT - 2
    rectangle = Html.of(
        '<rect class="{}" x="{}" y="1" width="{}" height="{}" rx="3" fill="{}" stroke="#8c959f"/>', kind, *place, _FILLS[kind]
    )
    if not text:
        return rectangle
    shown = plain(text, _NAME_CHARACTERS)
    height = max(_SMALLEST, min(_LARGEST, _SLIMNESS * _WIDTH * size / units / len(shown)))
    words = '{}<text x="{}" y="17" text-anchor="middle" font-size="{}" font-family="sans-serif">{}</text>'
    return Html.of(words, rectangle, _at(2 * start + size, 2 * units), f"{height:.3g}", shown)
