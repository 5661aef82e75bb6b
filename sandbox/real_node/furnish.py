"""Makes the node's root folder what a machine's is, from inside its namespaces, and moves there.

The machine's programs and libraries are shown read-only; all that a node writes to is its own: /etc, /var, /run, /tmp, /dev. The
kernel's settings are the machine's for all but the network: they are read-only, and those that a kubelet would set read as it
wants them.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.real_node import kernel
from sandbox.real_node.place import IMAGES, LOGS, PROGRAMS
from sandbox.real_node.settings import SECRETS
from sandbox.system import cgroups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.real_node.place import Record

_OWN: Final = ("boot", "dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var/lib", "var/log")
#: What of the machine the node has at the same place.
_SHOWN: Final = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: Without which programs of the machine do not find their libraries, users or names.
_COPIED: Final = ("passwd", "group", "nsswitch.conf", "localtime")
_COPIED_LIBRARIES: Final = ("ld.so.cache", "ld.so.conf")
#: A kubelet sets these of the whole machine, unless they are so.
_SETTINGS: Final = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
_DEVICES: Final = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "kmsg": (1, 11), "tty": (5, 0),
}  # fmt: skip


def furnish(root: Path, logs: Path, record: Record) -> None:
    """Make the root folder, and make it this process's root.

    Args:
        root: an empty folder.
        logs: a folder for what the node's programs say.
        record: what the node is made of.

    Raises:
        OSError: the machine refuses something.
    """
    kernel.keep_to_itself("/")
    for name in _OWN:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    kernel.bind(root, root)
    # What is mounted in it lies in another mount now: from here on through the new one.
    os.chdir(root)
    _show_machine(root)
    for name, folder in record.programs.items():
        place = root / PROGRAMS.lstrip("/") / name
        place.mkdir(parents=True)
        kernel.bind(folder, place, read_only=True)
    _make_etc(root)
    (root / IMAGES.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (root / LOGS.lstrip("/")).mkdir(parents=True)
    kernel.bind(logs, root / LOGS.lstrip("/"))
    kernel.mount("proc", root / "proc")
    kernel.mount("sysfs", root / "sys", source="sysfs")
    _mount_cgroups(root / "sys/fs/cgroup")
    kernel.mount("tmpfs", root / "run", "mode=755")
    for path, text in record.files.items():
        put(root / path.lstrip("/"), text, 0o600 if path.startswith(SECRETS) else 0o644)
    for path, folder in record.shown.items():
        place = root / path.lstrip("/")
        place.mkdir(parents=True)
        kernel.bind(folder, place, read_only=True)
    _make_dev(root / "dev", record.devices)
    if record.pci:
        kernel.bind(record.pci, root / "sys/bus/pci/devices")
    kernel.change_root(root)
    (Path("/var/run")).symlink_to("/run")
    _cover_settings(Path("/proc/sys"))
    kernel.share("/")


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=mode)
    path.write_text(text, encoding="utf-8")


def _show_machine(root: Path) -> None:
    for name in _SHOWN:
        there, here = Path("/") / name, root / name
        if there.is_symlink():
            here.symlink_to(there.readlink())
        elif there.is_dir():
            here.mkdir(exist_ok=True)
            kernel.bind(there, here, read_only=True)
    # What is installed on a node beside its system goes here.
    kernel.mount("tmpfs", root / "usr/local", "mode=755")


def _make_etc(root: Path) -> None:
    etc = root / "etc"
    for name in (*_COPIED, *_COPIED_LIBRARIES):
        if (there := Path("/etc") / name).is_file():
            shutil.copyfile(there, etc / name)
    for name in ("ld.so.conf.d", "alternatives"):
        if (folder := Path("/etc") / name).is_dir():
            shutil.copytree(folder, etc / name, symlinks=True)
    (etc / "hosts").write_text("127.0.0.1 localhost\n", encoding="ascii")
    (etc / "resolv.conf").touch()
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n", encoding="ascii")


def _mount_cgroups(place: Path) -> None:
    if cgroups.unified():
        kernel.mount("cgroup2", place)
        names = (place / "cgroup.controllers").read_text("ascii").split()
        (place / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names), encoding="ascii")
        return
    kernel.mount("tmpfs", place, "mode=755")
    for options, there in cgroups.hierarchies().items():
        here = place / there.name
        here.mkdir()
        kernel.mount("cgroup", here, f"none,{options}" if options.startswith("name=") else options)


def _make_dev(place: Path, more: Mapping[str, tuple[int, int]]) -> None:
    kernel.mount("tmpfs", place, "mode=755")
    named = {f"/dev/{name}": numbers for name, numbers in _DEVICES.items()}
    for path, numbers in {**named, **more}.items():
        device = place / path.removeprefix("/dev/")
        device.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(*numbers))
        device.chmod(0o666)
    for link, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}.items():
        (place / link).symlink_to(target)
    for name, kind, options in (
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620"),
        ("shm", "tmpfs", "mode=1777"),
        ("mqueue", "mqueue", ""),
    ):
        (place / name).mkdir()
        kernel.mount(kind, place / name, options)


def _cover_settings(settings: Path) -> None:
    kernel.bind(settings, settings, read_only=True)
    # Of the network they are the namespace's own.
    kernel.bind(settings / "net", settings / "net")
    kernel.protect(settings / "net", writable=True)
    for name, value in _SETTINGS.items():
        if (settings / name).exists():
            text = Path("/run/gpu-pools") / name.replace("/", ".")
            put(text, f"{value}\n")
            kernel.bind(text, settings / name)
