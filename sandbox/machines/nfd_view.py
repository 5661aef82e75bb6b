"""What nfd-worker sees of a simulated machine: its PCI bus, its operating system, its kernel, and the features.d files.

Most of it are files in the folder that the program runs in (sandbox.toolchain.programs says how it comes to look there). Those
whose paths are fixed in the program are laid over the real ones in a mount namespace of the run; where none can be made, it sees
the kernel and the modules of the machine that all this runs on. That machine's CPU it sees in any case.

A simulated machine has no kernel configuration, no block devices and no NUMA nodes: the program says so in its log, and publishes
nothing of them.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.nvml import facts
from sandbox.nvml.known_models import model
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.machines.machine import Machine
    from sandbox.system.namespaces import Namespaces

KERNEL: Final = "6.8.0-1030"
FEATURES: Final = "features.d"
_BUS: Final = "host-sys/bus/pci/devices"
_OS_RELEASE: Final = 'ID=ubuntu\nVERSION_ID="24.04"\n'
#: A device of a virtio network, as (class, device, subsystem).
_NETWORK: Final = (0x020000, 0x1000_1AF4, 0x0001_1AF4)
#: A 3D controller, which is what data-centre GPUs are.
_GPU_CLASS: Final = 0x030200
#: An NVIDIA device that none has.
_UNKNOWN: Final = 0xFFFF_10DE
# Its folder is the one it runs in. /proc keeps its entries as links to what is mounted under it, since a kernel without modules
# has no file to lay ours over; mount(8) would note a moved mount in /run/mount/utab, which is the machine's: --no-mtab. Where all
# this runs in a pod, that has a namespace of its own, too.
_OVER: Final = """
set -eu
mount -t tmpfs -o mode=755 nfd-worker stage
mkdir stage/.under
mount --rbind /proc stage/.under
(cd stage && ln -s .under/* .)
rm -f stage/modules stage/config.gz
ln -s "$PWD/modules" stage/modules
mount --bind osrelease stage/.under/sys/kernel/osrelease
mount --no-mtab --move stage /proc
own=/var/run/secrets/kubernetes.io/serviceaccount/namespace
if test -e "$own"; then mount --bind namespace "$own"; fi
exec setpriv --pdeathsig KILL "$@"
"""


@dataclass(frozen=True)
class View:
    """What the files follow from: as long as it is the same, so are they.

    Attributes:
        gpus: model and product of each.
        driver: whether NVIDIA's driver is loaded.
        features: the features.d files and their texts.
    """

    gpus: tuple[tuple[str, str], ...]
    driver: bool
    features: tuple[tuple[str, str], ...]

    def files(self) -> dict[str, str]:
        """Path below the program's folder -> text."""
        gpus = [(_GPU_CLASS, *_ids(key, product)) for key, product in self.gpus]
        bus = {f"0000:{slot:02x}:00.0": device for slot, device in enumerate([_NETWORK, *gpus])}
        return {
            "host-etc/os-release": _OS_RELEASE,
            "host-proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n",
            "osrelease": f"{KERNEL}\n",
            "modules": "nvidia 62914560 0 - Live 0x0000000000000000 (POE)\n" if self.driver else "",
            **{f"{_BUS}/{address}/{name}": text for address, device in bus.items() for name, text in _device(*device).items()},
            **{f"{FEATURES}/{name}": text for name, text in self.features},
        }


def view(machine: Machine) -> View:
    """What there is to see of a machine now."""
    gpus = tuple((gpu.model, gpu.product) for gpu in machine.gpus)
    return View(gpus, machine.driver is not None, tuple(sorted(machine.features.items())))


def put(folder: Path, files: Mapping[str, str]) -> None:
    """Make a folder hold these files, and of devices and features no others.

    Raises:
        SandboxError: when something cannot be written.
    """
    for part in (_BUS, FEATURES):
        shutil.rmtree(folder / part, ignore_errors=True)
    make_folder(folder / "stage")
    for name, text in files.items():
        write_atomic(folder / name, text)


def entering(namespaces: Namespaces | None) -> list[str]:
    """Runs what follows, in a folder that `put` has filled, with the files whose paths are fixed laid over the real ones."""
    return [] if namespaces is None else [*namespaces.only_mounts(), "sh", "-c", _OVER, "nfd-worker"]


def _ids(key: str, product: str) -> tuple[int, int]:
    """Device and subsystem of a GPU, each with the vendor in its lower half."""
    device = facts.pci_device(model(key), product)
    subsystem = facts.board(product).pci_subsystem
    return _UNKNOWN if device is None else device, _UNKNOWN if subsystem is None else subsystem


def _device(kind: int, device: int, subsystem: int) -> dict[str, str]:
    """The files of sysfs that nfd-worker cannot do without."""
    halves = {"device": device >> 16, "vendor": device & 0xFFFF}
    halves |= {"subsystem_device": subsystem >> 16, "subsystem_vendor": subsystem & 0xFFFF}
    return {"class": f"0x{kind:06x}\n", **{name: f"0x{number:04x}\n" for name, number in halves.items()}}
