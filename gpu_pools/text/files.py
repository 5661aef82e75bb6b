"""Reads files that others wrote, and writes what was asked for, so that neither leads elsewhere.

A branch may hold links: one in a file's place to a device that never ends, one in a result's place to a file of somebody else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

#: No stack file, list of pods or preview is larger.
_LARGEST: Final = 256 << 20
_ALL: Final = 0o666


def read_text(path: Path | str, most: int = _LARGEST) -> str:
    """The text in a file, whatever it is: no more than so many bytes are taken.

    Raises:
        OSError: if it cannot be read, or is larger.
        UnicodeDecodeError: if it is not UTF-8.
    """
    with Path(path).open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return data.decode("utf-8-sig")


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all, in the place of what is there: a link is replaced, not followed. Devices are written to.

    Raises:
        OSError: if it cannot be written.
    """
    with contextlib.suppress(FileNotFoundError):
        kind = path.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            path.write_text(text, encoding="utf-8")
            return
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    rest = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), _ALL & ~_mask())
        rest.replace(path)
    except OSError:
        rest.unlink(missing_ok=True)
        raise


def _mask() -> int:
    """What new files are not to allow; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
