"""What others can change is not used: state, caches and programs that belong to somebody else or that he may write to.

Whoever starts a sandbox runs what lies there, often as root. Trusted are root, the user himself, who called sudo, and the owner
of this project, since his code is what runs. A folder in which everybody may make things of his own (/tmp) may lie above, but not
be the place itself. A group counts as somebody else, unless it is the user's private one (of his name, without other members).

Not here: what the user's own programs read of his own configuration, and the project's code itself.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

from sandbox.system.errors import SandboxError

_PROJECT: Final = Path(__file__).resolve().parents[2]
_ROOT: Final = 0


def trouble(path: Path) -> str:
    """How somebody else could change what is at a path; empty where nobody can. What is not there yet counts as its folder."""
    real = path.resolve()
    for place in (real, *real.parents):
        try:
            found = place.stat()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            # Whoever goes on to use it is told.
            continue
        if why := _trouble_of(place, found, itself=place == real):
            return why
    return ""


def require(path: Path, what: str) -> Path:
    """A path that nobody else can change.

    Args:
        path: of a folder of ours.
        what: what it is, as in "the cache of programs".

    Raises:
        SandboxError: somebody else can.
    """
    if why := trouble(path):
        remedy = "Take the rights away there (chown, chmod go-w), or keep it elsewhere: GPU_POOLS_SANDBOX_DIR, GPU_POOLS_CACHE."
        raise SandboxError(f"{path}: not used as {what}, since others could change what runs from there: {why}.", remedy)
    return path


def without_strange_folders(search: str) -> tuple[str, list[str]]:
    """A PATH without what others could put programs into, and what was left out of it and why.

    Args:
        search: the value of PATH.
    """
    kept: list[str] = []
    left_out: list[str] = []
    for entry in filter(None, search.split(os.pathsep)):
        place = Path(entry)
        why = trouble(place) if place.is_absolute() else "it depends on the folder one is in"
        if not why:
            kept.append(entry)
        elif place.is_dir():
            left_out.append(f"{entry}: {why}")
    return os.pathsep.join(kept), left_out


def _trouble_of(place: Path, found: os.stat_result, *, itself: bool) -> str:
    if found.st_uid not in _trusted():
        return f"{place} belongs to {_user(found.st_uid)}"
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and not itself:
        return ""
    if found.st_mode & stat.S_IWOTH:
        return f"everybody may write to {place}"
    if found.st_mode & stat.S_IWGRP and found.st_gid != _ROOT and not _is_private(found.st_gid):
        return f"the group {found.st_gid} may write to {place}"
    return ""


@lru_cache(maxsize=1)
def _trusted() -> frozenset[int]:
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == _ROOT else ""
    return frozenset({_ROOT, os.geteuid(), _PROJECT.stat().st_uid, *([int(caller)] if caller.isdigit() else [])})


def _is_private(group: int) -> bool:
    """Whether a group is the one that a trusted user has for himself."""
    try:
        found = grp.getgrgid(group)
        return pwd.getpwnam(found.gr_name).pw_uid in _trusted() and set(found.gr_mem) <= {found.gr_name}
    except KeyError:
        return False


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"the user {number}"
