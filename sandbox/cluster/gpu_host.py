"""The environment of one simulated GPU node, in which NVIDIA's own programs run unchanged.

They look at fixed places: GPUs below /sys/bus/pci/devices, which are links to the tree below /sys/devices, the driver in
/proc/modules, its devices in /proc/devices, its MIG capabilities below /proc/driver, the kubelet's sockets below
/var/lib/kubelet; and they write below /run. Each node therefore has a mount namespace of its own, in which these places are
the node's; NVML itself is the library of sandbox/nvml. The driver's root folder is DRIVER_ROOT in the node's folder
(driver_files). What DRA drivers keep in /var/lib/kubelet/plugins and plugins_registry, and in /run/cdi, lies in the node's
folder, too, and stays.

The namespace belongs to a keeper process. A process namespace comes with it: whoever ends the keeper, or dies without ending it,
ends all that runs inside, and the kernel then takes every mount away. Outside nothing changes, but in the folder that is given.

Not here: the network (the node shares the machine's), users, and any limit to what the programs may do. Inside, /proc shows
no process but the one that looks (/proc/self). Linux only: as root, or in a user namespace of each node's own, in which its
maker is root (sandbox.system.namespaces). See `obstacle`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from sandbox.cluster import driver_files
from sandbox.nvml import state
from sandbox.nvml.library import nvml_environment
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, make_folder, write_atomic
from sandbox.system.namespaces import Namespaces, settings_against

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from sandbox.nvml.simulated import Gpu, Machine

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
#: Where plugins register with a kubelet that looks for them, as DRA drivers do, and where they keep what they know.
PLUGINS_REGISTRY: Final = "/var/lib/kubelet/plugins_registry"
PLUGINS: Final = "/var/lib/kubelet/plugins"
#: In the node's folder: the driver's root.
DRIVER_ROOT: Final = "driver-root"
_REMEDY: Final = (
    "Run on Linux, as root, where unshare(2), mount(2) and setns(2) are allowed (in a container: privileged), "
    "or where users may make user namespaces."
)
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: PCI class of a 3D controller, and the programming interface: what data-centre GPUs are.
_CLASS: Final = 0x030200
#: An NVIDIA device that none has.
_UNKNOWN: Final = 0xFFFF10DE
_CONFIG_BYTES: Final = 256
#: Which device numbers this machine has given away.
_DEVICES: Final = Path("/proc/devices")
#: Names of PCI devices, for the first place where NVIDIA's programs look for them. Where they find none they parse a list of
#: their own, some 30,000 lines, anew for each GPU: that takes far longer than what they are run for. The names serve nothing.
_PCI_NAMES: Final = "10de  NVIDIA Corporation\n{devices}C 03  Display controller\n\t02  3D controller\n"

# $1: the folder. A covered folder keeps its entries as links to what is mounted under it, so that others can be put beside
# them. The keeper's number outside is read before /proc is exchanged: inside it is 1. mount(8) would note a moved mount in
# /run/mount/utab, which is the machine's and which only root may write: --no-mtab.
_KEEPER: Final = """
set -eu
read -r pid rest < /proc/self/stat
cover() {
    mount -t tmpfs -o mode=755 gpu-host "$stage"
    mkdir "$stage/.under"
    "$@" "$stage/.under"
    (cd "$stage" && ln -s .under/* .)
}
stage=$1/stage
cover mount --rbind /usr/share
rm -f "$stage/misc"
mkdir "$stage/misc"
ln -s "$1/pci.ids" "$stage/misc/pci.ids"
mount --no-mtab --move "$stage" /usr/share
cover mount -t proc proc
rm -f "$stage/modules" "$stage/driver" "$stage/devices"
mkdir -p "$stage/driver/nvidia-caps" "$stage/driver/nvidia"
ln -s "$1/capabilities" "$stage/driver/nvidia/capabilities"
ln -s "$1/devices" "$stage/devices"
ln -s "$1/modules" "$stage/modules"
ln -s "$1/mig-minors" "$stage/driver/nvidia-caps/mig-minors"
mount --no-mtab --move "$stage" /proc
cover mount --rbind /var/lib
rm -f "$stage/kubelet"
mkdir -p "$stage/kubelet/device-plugins"
for name in plugins plugins_registry; do
    mkdir -p "$stage/kubelet/$name" "$1/$name"
    mount --bind "$1/$name" "$stage/kubelet/$name"
done
mount --no-mtab --move "$stage" /var/lib
cover mount --rbind /run
rm -f "$stage/cdi"
mkdir -p "$stage/cdi" "$1/cdi"
mount --bind "$1/cdi" "$stage/cdi"
mount --no-mtab --move "$stage" /run
cover mount --rbind /sys/devices
for root in "$1"/pci-roots/pci*; do
    rm -f "$stage/${root##*/}"
    ln -s "$root" "$stage/${root##*/}"
done
mount --no-mtab --move "$stage" /sys/devices
mount --bind "$1/pci" /sys/bus/pci/devices
if [ -f "$1/device-files" ]; then
    mount -t tmpfs -o mode=755 driver-devices "$1/driver-root/dev"
    while read -r name; do
        : > "$1/driver-root/dev/$name"
        mount --bind /dev/null "$1/driver-root/dev/$name"
    done < "$1/device-files"
fi
echo "$pid"
exec cat > /dev/null
"""

_DEAF: Final = "trap '' HUP INT TERM; exec \"$@\""


def outside(pid: int, path: str) -> Path:
    """Where a path of a node is found from outside of it, while that process of the node lives."""
    return Path(f"/proc/{pid}/root{path}")


class GpuHost:
    """A simulated GPU node that NVIDIA's programs can be run on. Use it as a context manager, or close it."""

    def __init__(self, folder: Path, library: Path, machine: Machine | None = None) -> None:
        """Make the node.

        Args:
            folder: is created; holds the state file and the PCI tree, and stays when the node is closed.
            library: the simulated libnvidia-ml.so.1.
            machine: what its GPUs are at first; None where the folder has a state file that says it.

        Raises:
            SandboxError: where namespaces are not allowed, or a file cannot be read or written.
        """
        allowed = _allowed()
        if isinstance(allowed, str):
            message = f"no mount namespace for a simulated GPU node: {allowed}"
            raise SandboxError(message, _REMEDY)
        self._namespaces = allowed
        self.folder = folder.resolve()
        self.state = self.folder / "state"
        self._library = library
        for name in ("stage", "pci", "bin"):
            make_folder(self.folder / name)
        self._put_smi()
        if machine is None:
            self._put_pci(self.machine)
        else:
            self.show(machine)
        self._put_driver()
        self._keeper = _keep(allowed, self.folder)
        self._pid = self._ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of programs on the node; nothing of the caller's, for they read many variables."""
        return {"PATH": f"{self.folder / 'bin'}:{_PATH}", "HOME": "/", **nvml_environment(self._library, self.state)}

    @property
    def lives(self) -> bool:
        """Whether the node is there: nobody has closed it or ended its keeper."""
        return self._keeper.poll() is None

    @property
    def machine(self) -> Machine:
        """What the GPUs are now."""
        return state.read(self.state)

    def show(self, machine: Machine) -> None:
        """Exchange the GPUs: what NVML and the PCI bus show from now on.

        Raises:
            SandboxError: when a file cannot be written.
        """
        state.write(self.state, machine)
        self._put_pci(machine)

    def put_driver_root(self) -> None:
        """Make the driver's root folder that of the driver which NVML tells of now.

        Raises:
            SandboxError: when a file cannot be written.
        """
        smi = self.folder / "bin" / "nvidia-smi"
        driver_files.put_driver_root(self.folder / DRIVER_ROOT, self._library, smi, self.machine.driver_version)

    def outside(self, path: str) -> Path:
        """Where a path of the node is found from outside of it, while the node lives."""
        return outside(self._pid, path)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        seconds: float,
        environment: Mapping[str, str] | None = None,
        beside: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the node to its end.

        Args:
            argv: the program and its arguments.
            seconds: how long it may take.
            environment: variables in addition to the node's own.
            beside: a process of the node whose namespaces and root it is to share; None for the node's own.

        Raises:
            subprocess.TimeoutExpired: when it takes longer; it was ended.
        """
        return subprocess.run(
            self._entered(argv, beside),
            env=self._with(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            process_group=0,
        )

    def start(
        self,
        argv: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        beside: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on the node that goes on running, its output appended to a file.

        Args:
            argv: the program and its arguments.
            log: the file.
            environment: variables in addition to the node's own.
            beside: as for `run`.

        Returns:
            A process that ends with the program, and whose end ends the program (hard). Signals to it do not reach the
            program: see `signal`.

        Raises:
            SandboxError: when the file cannot be opened.
        """
        with explained(log, "open"), log.open("ab") as stream:
            return subprocess.Popen(
                self._entered(argv, beside),
                env=self._with(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        """Send a signal to a program that `start` started; nothing happens where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            for child in children(process.pid):
                os.kill(child, number)

    def close(self) -> None:
        """End everything that runs on the node, and the node."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        self._keeper.kill()
        self._keeper.wait()
        if self._keeper.stdout is not None:
            self._keeper.stdout.close()
        if self._keeper.stderr is not None:
            self._keeper.stderr.close()

    # Whoever signals the caller's group does not mean what runs on the node: that ends with the node. So what enters it is a
    # group of its own, and the keeper, which is to go with the caller's group where that is killed, hears no other signal.

    def _entered(self, argv: Sequence[str | Path], beside: int | None) -> list[str]:
        shared = ("--mount", "--pid", "--root", "--wd") if beside else ("--mount", "--pid")
        enter = self._namespaces.entering(beside or self._pid, *shared)
        # nsenter waits outside for what it started inside: the one must not outlive the other.
        return [*enter, "setpriv", "--pdeathsig", "KILL", *map(str, argv)]

    def _with(self, environment: Mapping[str, str] | None) -> dict[str, str]:
        return {**self.environment, **(environment or {})}

    def _ready(self) -> int:
        """The keeper's process id, once the namespace is furnished."""
        stdout, stderr = self._keeper.stdout, self._keeper.stderr
        line = stdout.readline() if stdout is not None else ""
        if line:
            return int(line)
        said = stderr.read().strip() if stderr is not None else ""
        self.close()
        message = f"{self.folder}: the mount namespace of this simulated GPU node cannot be furnished: {said}"
        raise SandboxError(message, _REMEDY)

    def _put_pci(self, machine: Machine) -> None:
        put_pci(self.folder / "pci", machine.gpus, make_folder(self.folder / "pci-roots"))

    def _put_driver(self) -> None:
        """What the driver shows besides NVML."""
        machine = self.machine
        write_atomic(self.folder / "modules", "nvidia 62914560 0 - Live 0x0000000000000000 (POE)\n")
        write_atomic(self.folder / "mig-minors", driver_files.mig_minors())
        driver_files.put_capabilities(make_folder(self.folder / "capabilities"), machine.gpus)
        with explained(_DEVICES, "read"):
            known = _DEVICES.read_text(encoding="ascii")
        write_atomic(self.folder / "devices", driver_files.proc_devices(known))
        self.put_driver_root()
        names = driver_files.device_files(machine.gpus)
        write_atomic(self.folder / "device-files", "".join(f"{name}\n" for name in names))

    def _put_smi(self) -> None:
        """The uses of nvidia-smi that NVIDIA's programs make: resetting GPUs, and setting their compute mode."""
        module = Path(__file__).parents[1] / "nvml" / "reset.py"
        command = shlex.join([sys.executable, "-m", "sandbox.nvml.reset"])
        script = f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(module.parents[2]))} exec {command} "$@"\n'
        write_atomic(self.folder / "bin" / "nvidia-smi", script, mode=0o755)


def children(pid: int) -> list[int]:
    """The processes that a process has started; none where it is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def obstacle() -> str | None:
    """Why this process cannot make simulated GPU nodes; None where it can."""
    allowed = _allowed()
    return allowed if isinstance(allowed, str) else None


def namespaces() -> Namespaces | None:
    """The namespaces that this process may make; None where it may make none."""
    allowed = _allowed()
    return None if isinstance(allowed, str) else allowed


@lru_cache(maxsize=1)
def _allowed() -> Namespaces | str:
    """The namespaces that this process may make: root's plain ones, else those of users; or why neither."""
    if sys.platform != "linux":
        return f"{sys.platform} has none"
    missing = [name for name in ("unshare", "nsenter", "setpriv", "mount") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not on PATH (they belong to util-linux)"
    if not Path("/sys/bus/pci/devices").is_dir():
        return "/sys/bus/pci/devices does not exist"
    refused = []
    for kind in (Namespaces(own_users=False), Namespaces(own_users=True)):
        said = _tried(kind)
        if not said:
            return kind
        refused.append(said)
    return f"{refused[0]}; in a user namespace: {'; '.join([refused[1], *settings_against()])}"


def _tried(kind: Namespaces) -> str:
    """Make a node of nothing, that ends as soon as it is furnished.

    Returns:
        What went wrong; empty where nothing did.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-host-") as folder:
        for name in ("stage", "pci"):
            (Path(folder) / name).mkdir()
        command = [*kind.new(), "sh", "-c", _KEEPER, "keeper", folder]
        tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd="/")
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"unshare ended with {tried.returncode}"


def _keep(kind: Namespaces, folder: Path) -> subprocess.Popen[str]:
    # The keeper lives as long as its standard input is open: it cannot outlive who started it.
    return subprocess.Popen(
        ["sh", "-c", _DEAF, "keeper", *kind.new(), "sh", "-c", _KEEPER, "keeper", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )


def put_pci(bus: Path, gpus: Iterable[Gpu], roots: Path | None = None) -> None:
    """Write the PCI devices of GPUs below a folder, which keeps its identity: it is mounted. Their names lie beside it.

    Args:
        bus: shows them by address.
        gpus: of the machine.
        roots: the folder of the PCI roots, to which the bus then has links, as in /sys; None: the devices are on the bus.

    Raises:
        SandboxError: when a file cannot be written.
    """
    wanted = {f"{gpu.pci[0]:04x}:{gpu.pci[1]:02x}:{gpu.pci[2]:02x}.0": gpu for gpu in gpus}
    places = {address: _device_place(gpu, address) for address, gpu in wanted.items()}
    if roots is not None:
        make_folder(roots / _root_of(0))
    with explained(bus, "change"):
        for entry in bus.iterdir():
            if entry.is_symlink():
                entry.unlink()
            elif entry.name not in wanted or roots is not None:
                shutil.rmtree(entry)
        for entry in roots.glob("*/*/*") if roots is not None else ():
            if entry.name not in wanted:
                shutil.rmtree(entry)
        for address, place in places.items() if roots is not None else ():
            (bus / address).symlink_to(f"../../../devices/{place}")
    devices = sorted({_pci_ids(gpu)[0] for gpu in wanted.values()})
    names = "".join(f"\t{device:04x}  GPU\n" for device in devices)
    write_atomic(bus.parent / "pci.ids", _PCI_NAMES.format(devices=names))
    for address, gpu in wanted.items():
        _put_device(make_folder(bus / address if roots is None else roots / places[address]), gpu)


def _root_of(domain: int) -> str:
    """The root of a PCI domain, as /sys/devices names it: a machine has one socket here."""
    return f"pci{domain:04x}:00"


def _device_place(gpu: Gpu, address: str) -> str:
    """Where a GPU is below /sys/devices: behind a bridge of the root."""
    domain, bus, _ = gpu.pci
    return f"{_root_of(domain)}/{domain:04x}:00:{bus:02x}.0/{address}"


def _pci_ids(gpu: Gpu) -> tuple[int, int]:
    """Device and vendor; an unknown device has an id that none has."""
    return divmod(gpu.pci_device if gpu.pci_device is not None else _UNKNOWN, 1 << 16)


def _put_device(folder: Path, gpu: Gpu) -> None:
    device, vendor = _pci_ids(gpu)
    config = bytearray(_CONFIG_BYTES)
    config[0:4] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
    config[9:12] = _CLASS.to_bytes(3, "little")
    board, maker = divmod(gpu.pci_subsystem if gpu.pci_subsystem is not None else _UNKNOWN, 1 << 16)
    files = {
        # nfd-worker looks for them; where a machine has none of them it takes the device for none.
        "subsystem_vendor": f"0x{maker:04x}\n".encode(),
        "subsystem_device": f"0x{board:04x}\n".encode(),
        "vendor": f"0x{vendor:04x}\n".encode(),
        "device": f"0x{device:04x}\n".encode(),
        "class": f"0x{_CLASS:06x}\n".encode(),
        "numa_node": b"-1\n",
        "resource": b"0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
        "config": bytes(config),
    }
    for name, content in files.items():
        with explained(folder / name, "write"):
            (folder / name).write_bytes(content)
