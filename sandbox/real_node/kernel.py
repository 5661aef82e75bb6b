"""What the node asks of the kernel and Python has no function for: namespaces, mounts, another root.

Only what the keeper needs, by the C library. Each refusal is an OSError that says which call, and of what.
"""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Final

NEW_MOUNTS, NEW_CGROUPS, NEW_NAMES, NEW_IPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEW_PROCESSES, NEW_NETWORK = 0x20000000, 0x40000000
_READ_ONLY, _REMOUNT, _BIND, _MOVE, _RECURSIVE = 0x1, 0x20, 0x1000, 0x2000, 0x4000
_PRIVATE, _SHARED = 1 << 18, 1 << 20
_DETACH: Final = 2
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_PARENT_DEATH_SIGNAL: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Put this process, or its children where it is about processes, into new namespaces."""
    _check(_LIBC.unshare(flags), f"unshare({flags:#x})")


def die_with_parent(signal: int) -> None:
    """Have the kernel send this process a signal when its parent ends."""
    _check(_LIBC.prctl(_PARENT_DEATH_SIGNAL, signal, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def mount(kind: str, target: Path | str, options: str = "", source: str = "") -> None:
    """Mount a file system of a kind."""
    _mount(source or kind, target, kind, 0, options)


def bind(source: Path | str, target: Path | str, *, read_only: bool = False) -> None:
    """Show a file or folder, with all that is mounted in it, at another place too."""
    _mount(str(source), target, "", _BIND | _RECURSIVE)
    if read_only:
        protect(target)


def protect(target: Path | str, *, writable: bool = False) -> None:
    """Make a mount read-only, or writable again."""
    _mount("", target, "", _REMOUNT | _BIND | (0 if writable else _READ_ONLY))


def move(source: Path | str, target: Path | str) -> None:
    """Move a mount."""
    _mount(str(source), target, "", _MOVE)


def keep_to_itself(target: Path | str) -> None:
    """Let no mount below come from or get to another namespace."""
    _mount("", target, "", _RECURSIVE | _PRIVATE)


def share(target: Path | str) -> None:
    """Let mounts below get to the namespaces that are made of this one, as a container runtime wants it."""
    _mount("", target, "", _RECURSIVE | _SHARED)


def change_root(new: Path) -> None:
    """Make a mount the root, and let go of the old one with all that is mounted in it."""
    old = new / ".old"
    old.mkdir(exist_ok=True)
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root(2) of {platform.machine()} is not known here; known are {', '.join(_PIVOT_ROOT)}")
    _check(_LIBC.syscall(number, os.fsencode(new), os.fsencode(old)), f"pivot_root({new})")
    os.chdir("/")
    _check(_LIBC.umount2(b"/.old", _DETACH), "umount2(/.old)")
    Path("/.old").rmdir()


def _mount(source: str, target: Path | str, kind: str, flags: int, options: str = "") -> None:
    words = [os.fsencode(word) or None for word in (source, str(target), kind, options)]
    result = _LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    _check(result, f"mount({source or '-'}, {target}, {kind or '-'}, {flags:#x}, {options or '-'})")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
