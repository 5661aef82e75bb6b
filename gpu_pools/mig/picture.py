"""Draws MIG placements for a terminal: one line per GPU, units as cells of equal width.

Box characters only where the output can carry them, colour only on a terminal whose user did not forbid it. What is drawn is
decided elsewhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from gpu_pools.mig.geometry import known_profiles
from gpu_pools.text.terminal import coloured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.mig.geometry import Arrangement

#: Colours by compute slices (SGR codes), so that equal sizes look alike.
_COLOURS: Final = {1: 32, 2: 36, 3: 34, 4: 35, 7: 33}
_OTHER: Final = 37


@dataclass(frozen=True)
class Pen:
    """How to draw.

    Attributes:
        wall: between instances.
        free: fills units that nothing covers.
        colour: whether to colour instances.
    """

    wall: str
    free: str
    colour: bool

    @classmethod
    def of(cls, stream: TextIO) -> Pen:
        """What a stream can carry: UTF-8 or plain ASCII; colour on a terminal unless NO_COLOR is set."""
        unicode = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
        colour = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls("│" if unicode else "|", "·" if unicode else ".", colour)


def unit_width(gpu: GpuModel, names: Iterable[str]) -> int:
    """Characters per unit, its wall included, so that each of these profiles' names fits into its instance."""
    profiles = known_profiles(gpu)
    return max((-(-(len(name) + 1) // profiles[name].size) for name in names), default=2)


def ruler(gpu: GpuModel, width: int) -> str:
    """The numbers of the units above their cells."""
    return "".join(f" {unit}".ljust(width) for unit in range(gpu.placement_units or 0)) + " "


def draw(gpu: GpuModel, placements: Arrangement, width: int, pen: Pen) -> str:
    """One GPU, e.g. ``|3g.40gb        |2g.20gb|.......|``."""
    profiles = known_profiles(gpu)
    text, unit = "", 0
    for placed in placements:
        text += _free(placed.start - unit, width, pen)
        cell = placed.profile.ljust(placed.size * width - 1)
        colour = _COLOURS.get(profiles[placed.profile].compute_slices, _OTHER)
        text += pen.wall + (coloured(cell, colour) if pen.colour else cell)
        unit = placed.end
    return text + _free((gpu.placement_units or 0) - unit, width, pen) + pen.wall


def _free(units: int, width: int, pen: Pen) -> str:
    return (pen.wall + pen.free * (width - 1)) * units
