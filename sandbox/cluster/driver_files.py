"""What an NVIDIA driver shows of itself on a simulated GPU node, as files: device numbers, MIG capabilities, its root folder.

Names and numbers are those of NVIDIA's kernel modules (kernel-open in NVIDIA/open-gpu-kernel-modules: nv.c, nv-caps.c, uvm.c).
The real driver shows the capabilities of MIG instances that exist; here those of every instance that could exist are shown, since
nothing follows the instances. No device can be opened: the device files of the driver's root are this machine's /dev/null.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from sandbox.nvml import from_tables
from sandbox.system.files import explained, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sandbox.nvml.simulated import Gpu

#: Major number of the GPUs and of the control device.
_MAJOR: Final = 195
#: The numbers that Linux gives to devices without one of their own, in its order (fs/char_dev.c, find_dynamic_major).
_DYNAMIC: Final = (*range(254, 233, -1), *range(511, 383, -1))
#: The driver has a capability for each of so many GPU instances of a GPU, and compute instances of those (nv-caps.c).
_GPU_INSTANCES: Final = 15
_COMPUTE_INSTANCES: Final = 8
#: Readable by all; may be changed by the driver.
_CAPABILITY: Final = "DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
_CONTROL_DEVICES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_CHARACTER, _BLOCK = "Character devices:", "Block devices:"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"


def mig_capabilities() -> dict[str, int]:
    """Capability, as the driver's table of minor numbers names it -> its minor number."""
    names = ["config", "monitor", *(name for gpu in range(from_tables.MAX_GPUS) for name in _of_gpu(gpu))]
    return {name: minor for minor, name in enumerate(names, start=1)}


def mig_minors() -> str:
    """The driver's table of MIG capabilities, for every GPU that a simulated machine can have."""
    return "".join(f"{name} {minor}\n" for name, minor in mig_capabilities().items())


def put_capabilities(folder: Path, gpus: Iterable[Gpu]) -> None:
    """Write /proc/driver/nvidia/capabilities for the MIG-capable GPUs among these; what is there stays.

    Args:
        folder: where to; made if need be.
        gpus: of the machine.

    Raises:
        SandboxError: when a file cannot be written.
    """
    minors = mig_capabilities()
    paths = {name: f"mig/{name}" for name in ("config", "monitor")}
    for gpu in gpus:
        if gpu.mig is not None and not (folder / f"gpu{gpu.minor}").exists():
            paths |= {name: name.replace("/", "/mig/", 1) for name in _of_gpu(gpu.minor)}
    for name, path in paths.items():
        place = folder / path
        with explained(place, "write"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_CAPABILITY.format(minor=minors[name]))


def proc_devices(text: str) -> str:
    """/proc/devices of a machine, with the driver's devices in the place of any that it has.

    Args:
        text: of the machine that this runs on.
    """
    characters, _, blocks = text.partition(_BLOCK)
    lines = [line for line in characters.removeprefix(_CHARACTER).splitlines() if line.strip() and " nvidia" not in line]
    taken = {int(line.split()[0]) for line in lines}
    free = (number for number in _DYNAMIC if number not in taken)
    names = [(_MAJOR, "nvidia"), (_MAJOR, "nvidiactl"), (next(free), "nvidia-caps"), (next(free), "nvidia-uvm")]
    lines += [f"{number:3} {name}" for number, name in names]
    return "\n".join([_CHARACTER, *sorted(lines, key=lambda line: int(line.split()[0])), "", f"{_BLOCK}{blocks}"])


def device_files(gpus: Iterable[Gpu]) -> list[str]:
    """The names of the driver's device files in /dev."""
    return [*(f"nvidia{gpu.minor}" for gpu in gpus), *_CONTROL_DEVICES]


def put_driver_root(root: Path, library: Path, smi: Path, version: str) -> None:
    """Write the root folder of a driver: its NVML, and nvidia-smi. Whoever mounts the node puts device files into its dev.

    Args:
        root: the folder.
        library: the simulated libnvidia-ml.so.1.
        smi: the node's nvidia-smi.
        version: of the driver.

    Raises:
        SandboxError: when a file cannot be written.
    """
    libraries, programs = make_folder(root / _LIBRARIES), make_folder(root / "usr/bin")
    make_folder(root / "dev")
    real, link = libraries / f"libnvidia-ml.so.{version}", libraries / "libnvidia-ml.so.1"
    with explained(real, "write"):
        for path in libraries.iterdir():
            path.unlink()
        shutil.copyfile(library, real)
        link.symlink_to(real.name)
        # A file, not a link: the driver's pods look for files.
        shutil.copy2(smi, programs / "nvidia-smi")


def _of_gpu(gpu: int) -> Iterator[str]:
    for instance in range(_GPU_INSTANCES):
        place = f"gpu{gpu}/gi{instance}"
        yield f"{place}/access"
        yield from (f"{place}/ci{compute}/access" for compute in range(_COMPUTE_INSTANCES))
