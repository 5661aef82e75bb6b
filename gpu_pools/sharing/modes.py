"""The sharing modes, and how a declaration under ``gpu-pools:sharing`` is read.

A declaration has exactly one mode, so that the combinations which the device plugin accepts and then resolves in silence (MPS
beats time-slicing) cannot be written down. Here and in `parse` of a mode only that is checked which needs no hardware; whether a
declaration fits the GPUs of a pool is checked by `Sharing.check`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.section import Section
from gpu_pools.sharing.exclusive import Exclusive
from gpu_pools.sharing.mig import Mig
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.needs import parse_needs
from gpu_pools.sharing.time_slicing import TimeSlicing

if TYPE_CHECKING:
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.text.errors import Problems

#: Key of a stack file -> mode, in the order in which messages list them.
MODES: Final[dict[str, type[Sharing]]] = {mode.strategy: mode for mode in (Exclusive, TimeSlicing, Mps, Mig)}
_NEEDS: Final = "needs"


def parse_sharing(value: object, path: str, problems: Problems) -> Sharing | None:
    """Read one declaration, e.g. ``{timeSlicing: {replicas: 4}}``; None, and problems, where it is not one."""
    section = Section(value, path, problems, what="a mapping with exactly one strategy")
    if not section.readable:
        return None
    # Asked for in any case, so that a misspelt strategy is an unknown key with a suggestion.
    chosen = [key for key in MODES if section.raw(key) is not None or key in section.written()]
    before = len(problems)
    raw_needs, has_needs = section.raw(_NEEDS), _NEEDS in section.written()
    needs = parse_needs(raw_needs, section.at(_NEEDS), problems) if has_needs else None
    readable = len(problems) == before
    section.finish()
    if len(chosen) == 1:
        key = chosen[0]
        declaration = MODES[key].parse(section.raw(key), section.at(key), problems)
        return replace(declaration, needs=needs) if declaration is not None and readable else None
    if chosen or set(section.written()) <= {_NEEDS}:
        problems.add(
            path,
            f"{' and '.join(chosen)} declared together" if chosen else "declares no strategy",
            allowed=f"exactly one of {', '.join(MODES)}",
            remedy="Keep one; the device plugin would not refuse two, it would silently drop one."
            if chosen
            else "Add one, e.g. `exclusive: {}`.",
        )
    return None
