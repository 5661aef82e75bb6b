"""Draws a GPU as inline SVG: its placement units, and its instances where they are.

Colours go by compute slices, as on the terminal (gpu_pools/mig/picture.py). Classes of gpu_pools/mig/svg.css say which, for
light and dark; each shape has one of its own as well, for readers that draw SVG without the page's styles, as some converters to
PDF do. Where instances are is for the caller to know, and so is how long a name may be.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from gpu_pools.text.markup import Html

if TYPE_CHECKING:
    from gpu_pools.mig.geometry import Arrangement

_WIDTH: Final = 400
_HEIGHT: Final = 26
#: Pixels; letters are about two thirds as wide as high.
_LARGEST, _SMALLEST, _SLIMNESS = 11.0, 5.0, 1.5
#: Class in svg.css -> colour without it. Those of MIG end in the compute slices.
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


def gpu_svg(words: str, instances: Arrangement, units: int, *, parted: bool) -> Html:
    """The picture of a GPU.

    Args:
        words: what it shows, for who cannot see it.
        instances: its instances.
        units: how many placement units it has, if that is known; more are drawn where instances have more.
        parted: whether MIG is on; a GPU without it is drawn whole.
    """
    svg = '<svg class="gpu" role="img" aria-label="{}" viewBox="0 0 {} {}"><title>{}</title>{}</svg>'
    return Html.of(svg, words, _WIDTH, _HEIGHT, words, _drawn(instances, units, parted=parted))


def gpu_style() -> str:
    """The style sheet of the pictures: it goes behind that of the page, whose `--line` it uses."""
    return resources.files("gpu_pools.mig").joinpath("svg.css").read_text(encoding="utf-8")


@lru_cache(maxsize=256)
def _drawn(instances: Arrangement, known_units: int, *, parted: bool) -> Html:
    """What is in the picture; a fleet has thousands of GPUs and few layouts."""
    if not instances and not parted:
        return _cell("whole", 0, 1, 1, "whole GPU")
    units = max([known_units, 1, *(one.end for one in instances)])
    ticks = "".join(f"M{_at(unit, units)} 1v{_HEIGHT - 2}" for unit in range(1, units))
    path = '<path class="free" d="{}" fill="none" stroke="#8c959f" stroke-dasharray="3 3"/>'
    lines = Html.of(path, ticks) if ticks else Html()
    cells = (_cell(_class(one.profile), one.start, one.size, units, one.profile) for one in instances)
    return Html.all((_cell("free", 0, 1, 1, ""), lines, *cells))


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
    height = max(_SMALLEST, min(_LARGEST, _SLIMNESS * _WIDTH * size / units / len(text)))
    words = '{}<text x="{}" y="17" text-anchor="middle" font-size="{}" font-family="sans-serif">{}</text>'
    return Html.of(words, rectangle, _at(2 * start + size, 2 * units), f"{height:.3g}", text)
