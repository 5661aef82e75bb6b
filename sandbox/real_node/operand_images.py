"""What pods of NVIDIA's operator and of NFD find in their images on a real node, by the last part of the image's name.

The real programs where they can be built: device plugin, gpu-feature-discovery, config-manager, mps-control-daemon,
nfd-worker, nfd-master, the container toolkit, the DRA driver where it was built before the node started. Stand-ins of a few
lines, in operands/, for what has no Go module: the driver container, its manager, the toolkit's installer, the validator; for
mig-manager, of which the Go module is not the operator's (it looks whether MIG is off, and switches nothing); and for the
operator and nfd-gc, whose work is done elsewhere. nvidia-cuda-mps-control is the stand-in that simulated nodes have, too; as
the real one it comes with the driver, but the images that call it need a Python. DCGM sleeps. Pools with MIG stay simulated:
for these there is nothing here.

The tag of an image says nothing of what is in it, so one release of the device plugin plays all: that of config-manager which
GPU_POOLS_CONFIG_MANAGER names, else v0.19.0. Beside the MPS daemon v0.19.0 does what v0.20.0 does as long as no process of the
node lacks a command line, and no kernel thread is in a real node's process namespace (sandbox/machines/config_pod.py).
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.machines import mps_control
from sandbox.real_node.images import Image, Layer
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

_STAND_INS: Final = Path(__file__).parent / "operands"
#: What GPU pods of `make gpu-node` run, too.
_ADDS: Final = Path(__file__).parents[1] / "gpu_node" / "work.py"
_HEALTHY: Final = _STAND_INS / "healthy"
_SLEEPS: Final = ("sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
_NOBODY: Final = "65534:65534"
_DRIVER: Final = Path(__file__).parent / "driver"
_COMPILE: Final = ("gcc", "-O2", "-Wall", "-Wextra", "-Werror")
#: Set in NVIDIA's own images: gpu-feature-discovery's pod says nothing of it.
_SEES_GPUS: Final = (("NVIDIA_VISIBLE_DEVICES", "all"), ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"))
#: By which mps-control-daemon makes the node's memory for MPS, and takes an older one away.
_MOUNTS: Final = ("mount", "umount")
#: A control program is started often, and needs the standard library only.
_CONTROL_RUNS: Final = "#!/usr/local/bin/python3 -ISB\n"
_EXECUTABLE: Final = 0o755
_FEATURES: Final = "/etc/kubernetes/node-feature-discovery/features.d"


#: What the script of the DRA driver's init container calls besides the tools of every image.
_OF_PRESTART: Final = ("basename", "find")
#: Where NVML finds the simulated GPUs, in the container of the DRA driver: below the driver's root, which the pod mounts.
_FIRMWARE: Final = {"/usr/lib/firmware": "/driver-root/lib/firmware"}


@dataclass(frozen=True)
class Programs:
    """What goes into them.

    Attributes:
        nvml: the simulated library.
        cuda: a libcuda that computes on the processor.
        smi: what names the GPUs in a pod, and sets their compute mode.
        mps_control: nvidia-cuda-mps-control.
        gfd: gpu-feature-discovery.
        plugin: nvidia-device-plugin.
        mps_daemon: mps-control-daemon.
        config_manager: config-manager.
        nfd_worker: nfd-worker.
        nfd_master: nfd-master.
    """

    nvml: Path
    cuda: Path
    smi: Path
    mps_control: Path
    gfd: Path
    plugin: Path
    mps_daemon: Path
    config_manager: Path
    nfd_worker: Path
    nfd_master: Path


def build_driver(folder: Path) -> tuple[Path, Path, Path]:
    """Make what a pod with a GPU has of its driver beside NVML.

    Returns:
        A libcuda that computes on the processor, nvidia-smi, nvidia-cuda-mps-control.

    Raises:
        SandboxError: gcc refuses.
    """
    cuda, smi, control = folder / "libcuda.so", folder / "nvidia-smi", folder / "nvidia-cuda-mps-control"
    _compile(cuda, "cuda.c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    # Its functions are NVML's, found by name: their arguments are not declared.
    _compile(smi, "nvidia-smi.c", "-std=gnu11", "-ldl")
    control.write_text(_CONTROL_RUNS + Path(mps_control.__file__).read_text("utf-8"), encoding="utf-8")
    control.chmod(_EXECUTABLE)
    return cuda, smi, control


def _compile(target: Path, source: str, *flags: str) -> None:
    command = [*_COMPILE, "-o", str(target), str(_DRIVER / source), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = f"{target}: gcc does not compile it:\n{done.stderr.strip()}"
        raise SandboxError(message, "Install gcc with the C library's headers.")


def families(found: Programs, tools: Layer, python: Layer) -> Mapping[str, Image]:
    """Last part of an image's name -> what is in it."""
    plugin = Layer(
        {
            "/usr/bin/nvidia-device-plugin": found.plugin,
            "/usr/bin/mps-control-daemon": found.mps_daemon,
            "/usr/bin/gpu-feature-discovery": found.gfd,
            "/usr/bin/config-manager": found.config_manager,
            **{f"/usr/bin/{name}": Path(path) for name in _MOUNTS if (path := shutil.which(name))},
        }
    )
    worker = Layer(
        {
            "/usr/libexec/nfd-worker": found.nfd_worker,
            "/usr/bin/nfd-master": found.nfd_master,
            "/usr/bin/nfd-gc": _HEALTHY,
            **_stand_ins("nfd-worker"),
        },
        # Where it looks for features is linked into it, for the folder that it runs in.
        links={"/features.d": _FEATURES},
    )
    driver = Layer(
        {
            "/opt/nvidia-driver/libnvidia-ml.so": found.nvml,
            "/opt/nvidia-driver/libcuda.so": found.cuda,
            "/opt/nvidia-driver/nvidia-smi": found.smi,
            "/opt/nvidia-driver/nvidia-cuda-mps-control": found.mps_control,
            **_stand_ins("nvidia-driver"),
        }
    )
    sleeping = Image((), (tools,), _SLEEPS)
    return {
        "k8s-device-plugin": Image((), (tools, python, plugin), environment=_SEES_GPUS),
        "node-feature-discovery": Image((), (tools, python, worker), user=_NOBODY),
        "driver": Image((), (tools, driver)),
        "k8s-driver-manager": Image((), (tools, Layer(_stand_ins("driver-manager")))),
        "container-toolkit": Image((), (tools, python, Layer(_stand_ins("nvidia-toolkit")))),
        "gpu-operator": Image((), (tools, python, Layer({"/usr/bin/gpu-operator": _HEALTHY, **_stand_ins("nvidia-validator")}))),
        "k8s-mig-manager": Image((), (tools, python, Layer(_stand_ins("nvidia-mig-manager"))), environment=_SEES_GPUS),
        "dcgm": sleeping,
        "dcgm-exporter": sleeping,
    }


def dra_driver(program: Path, prestart: Path, cdi_hook: Path, tools: Layer) -> Image:
    """The image of NVIDIA's DRA driver: the real program and the real script of its init container.

    Args:
        program: gpu-kubelet-plugin.
        prestart: the script.
        cdi_hook: the container toolkit's nvidia-cdi-hook, which the driver copies to the node.
        tools: a shell, and what scripts call.
    """
    found = {"/usr/bin/gpu-kubelet-plugin": program, f"/usr/bin/{prestart.name}": prestart, "/usr/bin/nvidia-cdi-hook": cdi_hook}
    found |= {f"/usr/bin/{name}": Path(path) for name in _OF_PRESTART if (path := shutil.which(name))}
    return Image((), (tools, Layer(found, links=_FIRMWARE)), ("gpu-kubelet-plugin",))


def cuda_sample(name: str, tools: Layer, python: Layer) -> Image:
    """The image of the smoke test: a shell, and a program that adds vectors on a GPU. nvidia-smi comes with the driver.

    Args:
        name: under which pods ask for it.
        tools: a shell, and what scripts call.
        python: which the program is written in.
    """
    sample = {"/cuda-samples/sample": _STAND_INS / "cuda-sample", "/cuda-samples/add.py": _ADDS}
    return Image((name,), (tools, python, Layer(sample)))


def _stand_ins(*names: str) -> dict[str, Path]:
    return {f"/usr/bin/{name}": _STAND_INS / name for name in names}
