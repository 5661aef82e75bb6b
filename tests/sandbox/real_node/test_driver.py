"""What a pod with a simulated GPU has of its driver: NVML has the state from the firmware, and shows GPUs with a device file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.nvml import from_tables, state
from sandbox.nvml.library import find_library
from sandbox.real_node import operand_images
from sandbox.system.progress import Progress

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
    cuda, _ = operand_images.build_driver(folder)
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
