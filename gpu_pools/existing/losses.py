"""What an import could not carry over: a place, the value there, and why."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_pools.existing.findings import path_text, plain
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from gpu_pools.existing.layers import Places
    from gpu_pools.existing.yaml_tree import Path


@dataclass(frozen=True)
class Loss:
    """One thing that has no place in a declaration.

    Attributes:
        file: the file.
        path: the place in it.
        value: what stands there; None where the whole place is meant.
        why: why it is not carried over.
    """

    file: str
    path: str
    value: object
    why: str

    def __str__(self) -> str:
        """One line for people."""
        shown = "" if self.value is None else f" = {show(self.value)}"
        return plain(f"{self.file}: {self.path}{shown}: {self.why}")

    def as_json(self) -> dict[str, Any]:
        """The loss for machines."""
        return {"file": self.file, "path": self.path, "value": _finite(self.value), "why": self.why}


class Losses:
    """Adds the losses of one file to a list."""

    def __init__(self, file: str, lost: list[Loss], places: Places) -> None:
        self._file = file
        self._lost = lost
        self._places = places

    def add(self, path: Path, value: object, why: str) -> None:
        """Remember one loss."""
        self.add_text(path_text(self._places.of(path)), value, why)

    def add_text(self, path: str, value: object, why: str) -> None:
        """Remember one loss whose place is in words already."""
        loss = Loss(self._file, path, value, plain(why))
        if loss not in self._lost:
            self._lost.append(loss)


def _finite(value: object) -> object:
    """The value as JSON can carry it: it has no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return str(value)
    return value
