"""What could not be reached is not asked again for a day: nobody without a way to it waits each time.

Remembered by a file in the cache, beside what would have been made. Not here: asking.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sandbox.system.files import explained, make_folder

if TYPE_CHECKING:
    from pathlib import Path

_ASKED_AGAIN_SECONDS: Final = 24 * 3600.0


def out_of_reach(thing: Path) -> bool:
    """Whether a thing of the cache could not be had within the last day."""
    note = _note(thing)
    return note.exists() and time.time() - note.stat().st_mtime < _ASKED_AGAIN_SECONDS


def remember(thing: Path) -> None:
    """Remember that a thing could not be had just now."""
    note = _note(thing)
    with explained(note, "write"):
        make_folder(note.parent)
        note.touch()


def forget(thing: Path) -> None:
    """Ask for a thing again."""
    with explained(_note(thing), "remove"):
        _note(thing).unlink(missing_ok=True)


def _note(thing: Path) -> Path:
    return thing.with_name(f".{thing.name}.not-reached")
