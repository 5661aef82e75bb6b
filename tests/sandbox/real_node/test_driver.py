"""What a pod with a simulated GPU has of its driver: NVML has the state from the firmware, and shows GPUs with a device file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.nvml import from_tables, state
from sandbox.nvml.library import find_library
from sandbox.real_node import operand_images
from sandbox.system.progress import Progress
from tests.patience import scaled

WORK = Path(operand_images.__file__).parents[1] / "gpu_node" / "work.py"
#: A container's /dev and firmware, in mounts of its own.
CONTAINER = """
mount -t tmpfs none /lib/firmware && mkdir -p /lib/firmware/nvidia/580.1 && cp "$1" /lib/firmware/nvidia/580.1/gsp_simulated.bin
mount -t tmpfs none /dev && shift
for minor in $1; do touch "/dev/nvidia$minor"; done
shift
exec "$@"
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder, with the state of a machine that has two GPUs."""
    folder = tmp_path_factory.mktemp("driver")
    cuda, *_ = operand_images.build_driver(folder)
    (folder / "libcuda.so.1").symlink_to(cuda)
    (folder / "libnvidia-ml.so.1").symlink_to(find_library(Progress()))
    machine = from_tables.machine_state("a10-24gb", "NVIDIA A10", 2, driver_version="580.1", cuda="13.0", node="one")
    state.write(folder / "state", machine)
    return folder


def contained(driver: Path, minors: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program as in a container that was given these GPUs."""
    if not Path("/lib/firmware").is_dir() or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("needs root, and a folder /lib/firmware to mount on")
    inside = ["unshare", "--mount", "sh", "-c", CONTAINER, "sh", str(driver / "state"), minors, *command]
    return subprocess.run(
        inside, env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(driver)}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("minors", "seen", "code"),
    [("", ["No devices were found"], 6), ("1", ["GPU 0: NVIDIA A10"], 0), ("0 1", ["GPU 0: NVIDIA A10", "GPU 1: NVIDIA A10"], 0)],
)
def test_a_container_sees_the_gpus_whose_device_files_it_has(driver: Path, minors: str, seen: list[str], code: int) -> None:
    done = contained(driver, minors, str(driver / "nvidia-smi"), "-L")
    assert ([line.partition(" (")[0] for line in done.stdout.splitlines()], done.returncode) == (seen, code)


def test_the_second_gpu_keeps_its_own_uuid(driver: Path) -> None:
    both = contained(driver, "0 1", str(driver / "nvidia-smi"), "-L").stdout.splitlines()
    (alone,) = contained(driver, "1", str(driver / "nvidia-smi"), "-L").stdout.splitlines()
    assert alone.partition("UUID")[2] == both[1].partition("UUID")[2] != both[0].partition("UUID")[2]


def test_the_driver_tells_its_version_to_who_has_no_gpu(driver: Path) -> None:
    """As the init container of NVIDIA's DRA driver asks."""
    done = contained(driver, "", str(driver / "nvidia-smi"), "--version")
    assert (done.stdout, done.returncode) == (f"DRIVER version      : {state.read(driver / 'state').driver_version}\n", 0)


def test_without_state_there_is_no_driver(driver: Path) -> None:
    alone = {"LD_LIBRARY_PATH": str(driver)}
    done = subprocess.run([driver / "nvidia-smi", "-L"], env=alone, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("Failed to initialize NVML: Driver Not Loaded\n", 9)


@pytest.mark.parametrize(("minors", "says", "code"), [("", "cuInit answers 100", 1), ("0", "round 1 is right", 0)])
def test_a_pod_computes_where_it_was_given_a_gpu(driver: Path, minors: str, says: str, code: int) -> None:
    done = contained(driver, minors, "python3", str(WORK), "1")
    assert says in done.stdout + done.stderr
    assert done.returncode == code


def test_a_pod_of_two_gpus_computes_on_both_and_knows_them_apart(driver: Path) -> None:
    begins, computes = contained(driver, "0 1", "python3", str(WORK), "1").stdout.splitlines()
    first, second = begins.removeprefix("begins on ").split(", ")
    alone = contained(driver, "1", "python3", str(WORK), "1").stdout.splitlines()[0]
    assert (first != second, computes, alone) == (True, "round 1 is right", f"begins on {second}")


def set_mode(driver: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Call nvidia-smi as mps-control-daemon does, in a container that has the state itself, as NVIDIA's own pods have."""
    known = {"LD_LIBRARY_PATH": str(driver), state.VARIABLE: str(path or driver / "state")}
    return subprocess.run([driver / "nvidia-smi", *arguments], env=known, capture_output=True, text=True, check=False)


def test_a_compute_mode_is_set_on_the_gpu_that_is_named_and_on_no_other(driver: Path) -> None:
    first, second = state.read(driver / "state").gpus
    for mode, number in (("EXCLUSIVE_PROCESS", 3), ("PROHIBITED", 2), ("DEFAULT", 0)):
        done = set_mode(driver, "-i", second.uuid, "-c", mode)
        assert (done.returncode, done.stdout) == (0, f"Set compute mode to {mode} for GPU {second.uuid}.\nAll done.\n")
        assert [gpu.compute_mode for gpu in state.read(driver / "state").gpus] == [0, number]
    assert first.compute_mode == 0


def test_a_compute_mode_that_cannot_be_set_is_refused_as_on_simulated_nodes(driver: Path, tmp_path: Path) -> None:
    """sandbox/nvml/reset.py is nvidia-smi there."""
    gpu = state.read(driver / "state").gpus[0]
    unknown = set_mode(driver, "-i", "GPU-none", "-c", "DEFAULT")
    assert (unknown.returncode, unknown.stdout) == (6, "No devices were found\n")
    assert set_mode(driver, "-i", gpu.uuid, "-c", "EXCLUSIVE_THREAD").returncode == 3
    assert set_mode(driver, "-i", gpu.uuid, "-c", "SHARED").returncode == 2
    machine = from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 1, driver_version="580.1", cuda="13.0", node="one")
    (parted,) = machine.gpus
    assert parted.mig is not None
    state.write(tmp_path / "state", replace(machine, gpus=(replace(parted, mig=replace(parted.mig, current=True)),)))
    refused = set_mode(driver, "-i", parted.uuid, "-c", "EXCLUSIVE_PROCESS", path=tmp_path / "state")
    said = f"Setting compute mode to EXCLUSIVE_PROCESS is not supported for GPU {parted.uuid}.\n"
    assert (refused.returncode, refused.stdout) == (3, said)


def test_the_control_program_of_mps_runs_by_itself(driver: Path, tmp_path: Path) -> None:
    """In a pod it is a file among others, and its Python has a fixed place; what it answers is tried on simulated nodes."""
    program = driver / "nvidia-cuda-mps-control"
    first, *_ = program.read_text().splitlines()
    assert first == "#!/usr/local/bin/python3 -ISB"
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path), "CUDA_MPS_LOG_DIRECTORY": str(tmp_path)}

    def asked(*arguments: str, said: str = "") -> str:
        command = [sys.executable, "-ISB", str(program), *arguments]
        done = subprocess.run(
            command, input=said, env=environment, capture_output=True, text=True, check=False, timeout=scaled(20)
        )
        return done.stdout

    assert asked(said="get_default_active_thread_percentage") == "Cannot find MPS control daemon process\n"
    assert asked("-d") == ""
    assert asked(said="set_default_active_thread_percentage 25") == ""
    assert asked(said="get_default_active_thread_percentage") == "25.0\n"
    assert asked(said="quit") == ""
    assert not (tmp_path / "control").exists()
