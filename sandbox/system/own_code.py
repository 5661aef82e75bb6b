"""Which code this is: what has been started with another one is started anew.

Background processes outlive the command that started them, and may so outlive a `git pull`. Files are told apart by size and
time, not read: that takes no time, and one that is only touched costs a restart and nothing else. Charts and data files are read
anew each time and are not part of it.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[2]
#: What runs in the background, and what that takes from elsewhere.
_PACKAGES: Final = ("sandbox", "gpu_pools")


@functools.cache
def own_code() -> str:
    """A hash of the sources as this process found them, in hexadecimal."""
    found = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            state = path.stat()
            found.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return found.hexdigest()
