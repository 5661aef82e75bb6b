"""Which verifier this is: the digest by which a deploy names the program, found again in the file that runs.

It is that of the sources, not of the file's bytes: these depend on the compression and the bytecode of whoever built it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def digest_of(entries: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256, in hexadecimal, of (name, content) pairs sorted by name."""
    digest = hashlib.sha256()
    for name, content in entries:
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def own_digest(file: Path = Path(__file__).parents[1]) -> str | None:
    """The digest of the file that this module was loaded from; None where that is not a file but a folder of sources.

    Raises:
        OSError: when it cannot be read any more.
    """
    if not file.is_file():
        return None
    import zipfile  # noqa: PLC0415 - only who writes to the node needs it, and it takes time to load

    with zipfile.ZipFile(file) as packed:
        sources = sorted(name for name in packed.namelist() if not name.endswith(".pyc"))
        return digest_of((name, packed.read(name)) for name in sources)
