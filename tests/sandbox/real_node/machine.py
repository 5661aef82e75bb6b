"""What of this machine a real node could change by mistake, as it is at a moment."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from sandbox.system import cgroups

#: Where a node's programs would write if its root were the machine's. Folders of other users' work are left out.
_FOLDERS: Final = ("/dev", "/etc", "/lib/modules", "/opt", "/run", "/var/lib", "/var/log", "/var/run")
_SETTINGS: Final = ("/proc/sys/net", "/proc/sys/vm", "/proc/sys/kernel")
#: These change by themselves, or by others: terminals, shared memory, packages.
_LIVELY: Final = (
    "dev/pts", "dev/shm", "lib/apt/", "lib/dpkg/", "log/apt/", "log/dpkg.log",
    "perf_event_max_sample_rate", "random", "ns_last_pid", "pty", "stat_refresh", "lockdep",
    "hung_task_detect_count", "netdev_rss_key", "conntrack_count",
)  # fmt: skip


def as_it_is(cluster: Path) -> dict[str, object]:
    """Mounts, control groups, settings of the kernel, network and files; a cluster's own folder is left out.

    Args:
        cluster: a cluster's folder.
    """
    return {
        "mounts": sorted(line.split(" ", 4)[4] for line in _lines("/proc/self/mountinfo")),
        "groups": [str(group) for group in cgroups.left(cluster)],
        "handed": sorted(str(path) for place in _tops() for path in place.glob("gpu-pools-handed*")),
        "settings": {
            str(path): text for folder in _SETTINGS for path in _files(Path(folder)) if (text := _read(path)) is not None
        },
        "devices": sorted(line.split(":")[0].strip() for line in _lines("/proc/net/dev")),
        "routes": _lines("/proc/net/route"),
        "modules": sorted(line.split()[0] for line in _lines("/proc/modules")),
        "files": {str(path) for folder in _FOLDERS for path in _files(Path(folder))},
    }


def processes_of(cluster: Path) -> list[str]:
    """The command lines of processes that name a cluster's folder or run in its groups."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            groups = (folder / "cgroup").read_text(encoding="utf-8")
            if int(folder.name) != os.getpid() and (str(cluster) in words or cgroups.name_of(cluster, "") in groups):
                found.append(" ".join(words))
    return found


def _tops() -> list[Path]:
    return [Path("/sys/fs/cgroup")]


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def _files(folder: Path) -> list[Path]:
    return [
        Path(place) / name
        for place, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if not any(word in f"{place}/{name}" for word in _LIVELY)
    ]


def _read(path: Path) -> bytes | None:
    """A setting; none where it is a folder, or may only be written."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None
