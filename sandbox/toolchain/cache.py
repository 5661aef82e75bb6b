"""The cache of made programs: one folder a thing, named by what it is made from, there whole or not at all.

So another pin is another folder, and nothing in the cache is ever changed. It may be removed at any time, and brought to another
machine of the same kind (docs/what-is-real.md).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.system import trust
from sandbox.system.files import explained, locked

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sandbox.system.progress import Progress


def cache_folder() -> Path:
    """The folder of made programs.

    Raises:
        SandboxError: when others could put programs into it.
    """
    own = os.environ.get("GPU_POOLS_CACHE")
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-pools"
    return trust.require(Path(own) if own else usual, "the cache of programs")


def make_once(target: Path, text: str, make: Callable[[Path], None], progress: Progress, origin: str) -> str:
    """Fill a cache folder once, whoever asks first, and show it; returns the origin, or "cache" when it was there."""

    def shown(folder: Path) -> None:
        with progress.step(text):
            make(folder)

    waiting = partial(progress.step, f"Waiting for another command that does this: {text}")
    return origin if fill_once(target, shown, waiting) else "cache"


def fill_once(
    target: Path, make: Callable[[Path], None], waiting: Callable[[], AbstractContextManager[None]] = nullcontext
) -> bool:
    """Fill a cache folder once, whoever asks first.

    Args:
        target: the folder.
        make: fills a folder that becomes it.
        waiting: makes what is entered while somebody else fills it.

    Returns:
        Whether this call has filled it.
    """
    if target.is_dir():
        return False
    with locked(target, waiting):
        if target.is_dir():
            return False
        prefix = f".{target.name}.making-"
        with explained(target.parent, "write to"):
            # Whoever left these was killed: it no longer holds the lock.
            for stale in target.parent.glob(f"{prefix}*"):
                shutil.rmtree(stale)
            making = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix))
        try:
            make(making)
            with explained(target, "create"):
                making.chmod(0o755)
                making.rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return True
