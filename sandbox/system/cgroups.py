"""Control groups for what a folder's processes run: made at the top of each hierarchy of this machine, and removed.

A group's name says which folder it belongs to, so that whoever comes later finds it, whatever was killed meanwhile. Whoever
removes groups ends what is in them. Of the rest of the machine nothing changes with the first version of control groups. With the
second one the controllers must be handed down at the top, and who has none but a container's top gets its processes moved into a
group beside: the groups `gpu-pools-handed.*` say what was done, and the last one to go takes it back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOP: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "gpu-pools-"
_HANDED: Final = f"{_PREFIX}handed"
_LEAF: Final = "init"
_OTHERS: Final = f"{_PREFIX}others"
#: What a kubelet and a container runtime want.
WANTED: Final = ("cpu", "cpuset", "memory", "pids")
_MORE: Final = ("io", "hugetlb")
_GONE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05


def unified() -> bool:
    """Whether this machine has the second version, with all controllers in one hierarchy."""
    return (_TOP / "cgroup.controllers").exists()


def hierarchies() -> dict[str, Path]:
    """The hierarchies of the first version: what it is mounted with -> where."""
    found = {}
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup":
            found[_mounted_with(options.split(","))] = Path(place)
    return found


def obstacle() -> str:
    """Why no groups can be made here; empty where they can."""
    places = [_TOP] if unified() else list(hierarchies().values())
    if not places:
        return f"no control groups are mounted below {_TOP}"
    there = _TOP.joinpath("cgroup.controllers").read_text("ascii").split() if unified() else ",".join(hierarchies()).split(",")
    if lacking := [name for name in WANTED if name not in there]:
        return f"control groups lack {', '.join(lacking)}; there are: {', '.join(there)}"
    if readonly := [str(place) for place in places if not os.access(place, os.W_OK)]:
        return f"control groups are read-only: {', '.join(readonly)}"
    return ""


def name_of(folder: Path, part: str) -> str:
    """The name of a group.

    Args:
        folder: that it belongs to.
        part: which of the folder's.
    """
    return f"{_stem(folder)}{part}"


def make(name: str) -> list[Path]:
    """Make a group in each hierarchy.

    Raises:
        SandboxError: where that is refused.
    """
    try:
        if unified():
            _hand_down(_TOP)
        made = groups(name)
        for group in made:
            group.mkdir(exist_ok=True)
            # A new set of processors is empty, and nobody could enter.
            for file in ("cpuset.cpus", "cpuset.mems"):
                if not unified() and (group / file).exists():
                    (group / file).write_text((group.parent / file).read_text("ascii"), encoding="ascii")
    except OSError as error:
        message = f"{error.filename or _TOP}: no control group can be made: {error.strerror}."
        raise SandboxError(message, "Run as root, in a container with --privileged.") from error
    return made


def groups(name: str) -> list[Path]:
    """Where a group is, or would be."""
    return [place / name for place in _places()]


def enter(group: Path) -> None:
    """Put this process into a group."""
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def enter_leaf(group: Path) -> None:
    """Put this process into a group below one, so that groups beside it can have controllers."""
    leaf = group / _LEAF
    leaf.mkdir(exist_ok=True)
    enter(leaf)


def left(folder: Path) -> list[Path]:
    """The groups of a folder that are there."""
    return [group for place in _places() for group in sorted(place.glob(f"{_stem(folder)}*"))]


def remove(folder: Path, part: str = "") -> None:
    """End everything in the groups of a folder, and remove them.

    Args:
        folder: that they belong to.
        part: the one to remove; empty: all.

    Raises:
        SandboxError: when something does not end.
    """
    found = [group for group in left(folder) if not part or group.name == name_of(folder, part)]
    until = time.monotonic() + _GONE_SECONDS
    for group in found:
        while group.exists():
            _end_all(group)
            if time.monotonic() > until:
                message = f"{group}: cannot be removed, processes {', '.join(map(str, _processes(group)))} do not end."
                raise SandboxError(message, "They wait in the kernel: try again, or restart the machine.")
            time.sleep(_LOOK_SECONDS)
    if found and unified() and not any(_is_ours(place) for place in _TOP.iterdir()):
        _take_back(_TOP)


def _end_all(group: Path) -> None:
    """Kill what is in a group and below, and remove what is empty."""
    for folder in _with_all_below(group):
        for pid in _processes(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _with_all_below(group: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(group, topdown=False):
        yield Path(folder)


def _processes(group: Path) -> list[int]:
    try:
        return [int(word) for word in (group / "cgroup.procs").read_text("ascii").split()]
    except OSError:
        return []


def _places() -> list[Path]:
    return [_TOP] if unified() else list(hierarchies().values())


def _stem(folder: Path) -> str:
    return f"{_PREFIX}{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]}-"


def _is_ours(place: Path) -> bool:
    return place.name.startswith(_PREFIX) and not place.name.startswith((_HANDED, _OTHERS))


def _mounted_with(options: list[str]) -> str:
    """What distinguishes a hierarchy among its mount options: its controllers, or its name."""
    names = [option for option in options if option.startswith("name=")]
    flags = ("rw", "ro", "relatime", "nosuid", "nodev", "noexec", "noatime", "xattr", "clone_children")
    return ",".join(names or [option for option in options if option not in flags and not option.startswith("release_agent")])


def _hand_down(top: Path) -> None:
    """Have the groups at the top get the controllers; a note beside them says which were not handed down before."""
    there = (top / "cgroup.controllers").read_text("ascii").split()
    handed = (top / "cgroup.subtree_control").read_text("ascii").split()
    lacking = [name for name in (*WANTED, *_MORE) if name in there and name not in handed]
    if not lacking:
        return
    (top / ".".join([_HANDED, *lacking])).mkdir(exist_ok=True)
    try:
        _control(top, "+", lacking)
    except OSError:
        # A container's top: it hands nothing down as long as there are processes in it.
        others = top / _OTHERS
        others.mkdir(exist_ok=True)
        _move(top, others)
        _control(top, "+", lacking)


def _take_back(top: Path) -> None:
    for note in top.glob(f"{_HANDED}.*"):
        _control(top, "-", note.name.split(".")[1:])
        note.rmdir()
    others = top / _OTHERS
    if others.exists():
        _move(others, top)
        others.rmdir()


def _control(top: Path, sign: str, names: Sequence[str]) -> None:
    (top / "cgroup.subtree_control").write_text(" ".join(f"{sign}{name}" for name in names), encoding="ascii")


def _move(source: Path, target: Path) -> None:
    for pid in _processes(source):
        with contextlib.suppress(OSError):
            (target / "cgroup.procs").write_text(str(pid), encoding="ascii")
