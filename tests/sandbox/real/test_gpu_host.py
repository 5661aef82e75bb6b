"""The environment of a simulated GPU node: what programs see inside, and that nothing of it is left outside."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.cluster.gpu_host import DEVICE_PLUGINS, DRIVER_ROOT, PLUGINS, PLUGINS_REGISTRY, GpuHost
from sandbox.nvml import from_tables, simulated, state
from sandbox.system.errors import SandboxError
from sandbox.system.patience import Patience
from tests.patience import scaled
from tests.sandbox.unprivileged import WITHOUT_RIGHTS, hold_in_user_namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.programs

MINORS = "/proc/driver/nvidia-caps/mig-minors"
CAPABILITIES = "/proc/driver/nvidia/capabilities"
MIG_ON = replace(from_tables.machine_state("h100-80gb", "NVIDIA H100 80GB HBM3", 3), driver_version="570.00.00")


def said(host: GpuHost, command: str) -> list[str]:
    done = host.run(["sh", "-c", command], seconds=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def running(mark: str) -> list[str]:
    """Processes whose command line holds a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if mark.encode() in arguments:
            found.append(path.parent.name)
    return found


def eventually(holds: Callable[[], bool]) -> bool:
    end = Patience(60)
    while not holds():
        if end.is_over():
            return False
        time.sleep(0.02)
    return True


def test_programs_see_the_gpus_on_the_pci_bus(host: GpuHost) -> None:
    bus = "/sys/bus/pci/devices"
    assert said(host, f"ls {bus}") == ["0000:01:00.0", "0000:02:00.0"]
    assert said(host, f"cat {bus}/0000:02:00.0/vendor {bus}/0000:02:00.0/device {bus}/0000:02:00.0/class") == [
        "0x10de",
        "0x20b2",
        "0x030200",
    ]
    assert said(host, f"wc -c < {bus}/0000:01:00.0/config") == ["256"]


def test_programs_see_the_driver_and_its_mig_capabilities(host: GpuHost) -> None:
    assert said(host, "cut -d' ' -f1 /proc/modules") == ["nvidia"]
    minors = host.run(["cat", "/proc/driver/nvidia-caps/mig-minors"], seconds=60).stdout.splitlines()
    assert minors[:4] == ["config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4"]
    assert len({line.split()[1] for line in minors}) == len(minors)


def test_a_gpu_is_behind_a_root_of_the_pci_bus(host: GpuHost) -> None:
    bus = "/sys/bus/pci/devices"
    assert said(host, f"readlink {bus}/0000:02:00.0") == ["../../../devices/pci0000:00/0000:00:02.0/0000:02:00.0"]
    assert said(host, f"cat {bus}/../devices/0000:01:00.0/vendor /sys/devices/pci0000:00/0000:00:01.0/*/vendor") == ["0x10de"] * 2
    assert said(host, "ls /sys/devices/system/cpu/online") == ["/sys/devices/system/cpu/online"]


def test_a_capability_s_file_has_the_minor_number_of_the_driver_s_table(host: GpuHost) -> None:
    minors = dict(line.split() for line in host.run(["cat", MINORS], seconds=60).stdout.splitlines())
    for gpu, instance, compute in ((0, 0, 0), (1, 14, 7)):
        folder = f"{CAPABILITIES}/gpu{gpu}/mig/gi{instance}"
        lines = said(host, f"cat {folder}/access {folder}/ci{compute}/access")
        place = f"gpu{gpu}/gi{instance}"
        assert lines[1::6] == [minors[f"{place}/access"], minors[f"{place}/ci{compute}/access"]]
    assert said(host, f"ls {CAPABILITIES}") == ["gpu0", "gpu1", "mig"]


def test_of_gpus_without_mig_there_are_no_capabilities(library: Path, tmp_path: Path) -> None:
    with GpuHost(tmp_path, library, from_tables.machine_state("t4-16gb", "Tesla T4", 1)) as host:
        assert said(host, f"ls {CAPABILITIES}") == ["mig"]


def test_the_driver_s_devices_have_numbers_that_nobody_else_has(host: GpuHost) -> None:
    text = host.run(["cat", "/proc/devices"], seconds=60).stdout
    characters, blocks = text.split("Block devices:\n")
    named = [line.split() for line in characters.splitlines()[1:] if line]
    assert [number for number, name in named if name in {"nvidia", "nvidiactl"}] == ["195", "195"]
    [caps] = [number for number, name in named if name == "nvidia-caps"]
    assert [name for number, name in named if number == caps] == ["nvidia-caps"]
    assert Path("/proc/devices").read_text().endswith(blocks)
    assert {name for _, name in named} > {"mem", "tty"}


def test_the_driver_s_root_has_its_library_and_device_files(host: GpuHost) -> None:
    root = host.folder / DRIVER_ROOT
    assert said(host, f"readlink {root}/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1") == ["libnvidia-ml.so.580.95.05"]
    names = ["nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidiactl"]
    assert said(host, f"cd {root}/dev; for name in *; do test -c $name && echo $name; done") == names
    assert list((root / "dev").iterdir()) == []


def test_what_a_dra_driver_keeps_outlives_the_node(library: Path, tmp_path: Path) -> None:
    machine = from_tables.machine_state("t4-16gb", "Tesla T4", 1)
    with GpuHost(tmp_path, library, machine) as host:
        said(host, f"echo 1 > {PLUGINS}/checkpoint; echo 2 > /var/run/cdi/claim; echo 3 > {PLUGINS_REGISTRY}/mark")
    with GpuHost(tmp_path, library) as host:
        assert said(host, f"cat {PLUGINS}/checkpoint /run/cdi/claim; cat {PLUGINS_REGISTRY}/mark") == ["1", "2", "3"]


def test_the_rest_of_proc_is_still_there(host: GpuHost) -> None:
    assert said(host, "cat /proc/self/comm") == ["cat"]
    assert said(host, "cat /proc/sys/kernel/ostype") == ["Linux"]


@pytest.mark.parametrize(("folder", "changed"), [("/var/lib", "kubelet"), ("/usr/share", "misc")])
def test_of_a_covered_folder_the_rest_is_still_there(folder: str, changed: str, host: GpuHost) -> None:
    everywhere = {path.name for path in Path(folder).glob("[!.]*")}
    assert set(host.run(["ls", folder], seconds=60).stdout.splitlines()) == everywhere | {changed}
    one = next(path for path in Path(folder).iterdir() if path.is_dir() and path.name != changed)
    assert set(host.run(["ls", "-A", f"{one}/"], seconds=60).stdout.splitlines()) == {path.name for path in one.iterdir()}


def test_what_is_written_for_the_kubelet_is_found_from_outside_and_leaves_no_trace(host: GpuHost) -> None:
    before = Path(DEVICE_PLUGINS).exists()
    said(host, f"echo here > {DEVICE_PLUGINS}/mark")
    assert (host.outside(DEVICE_PLUGINS) / "mark").read_text() == "here\n"
    assert Path(DEVICE_PLUGINS).exists() == before
    assert not Path(DEVICE_PLUGINS, "mark").exists()


def test_what_is_written_below_run_leaves_no_trace(host: GpuHost) -> None:
    before = sorted(path.name for path in Path("/run").iterdir())
    said(host, "mkdir -p /run/nvidia /var/run/cdi; touch /run/mark /run/nvidia/mark /var/run/cdi/mark")
    assert sorted(path.name for path in Path("/run").iterdir()) == before
    assert not Path("/run/cdi/mark").exists()
    assert (host.outside("/run/cdi") / "mark").exists()


def test_a_node_is_made_of_the_state_file_that_is_there(library: Path, tmp_path: Path) -> None:
    state.write(tmp_path / "state", MIG_ON)
    with GpuHost(tmp_path, library) as host:
        assert host.machine == MIG_ON
        assert len(said(host, "ls /sys/bus/pci/devices")) == 3


def test_other_gpus_can_be_shown_while_the_node_lives(host: GpuHost) -> None:
    host.show(MIG_ON)
    assert len(said(host, "ls /sys/bus/pci/devices")) == 3
    host.show(replace(MIG_ON, gpus=()))
    assert said(host, "ls /sys/bus/pci/devices") == []
    assert host.machine.gpus == ()


def test_programs_get_nothing_of_the_callers_environment(host: GpuHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIG_STRATEGY", "mixed")
    assert "MIG_STRATEGY=mixed" not in said(host, "env")
    assert host.run(["env"], seconds=10, environment={"MIG_STRATEGY": "single"}).stdout.count("MIG_STRATEGY=single") == 1


def test_the_machine_outside_is_as_it_was(library: Path, tmp_path: Path) -> None:
    before, modules, devices = mounts(), Path("/proc/modules").exists(), sorted(Path("/sys/bus/pci/devices").iterdir())
    with GpuHost(tmp_path, library, MIG_ON) as host:
        assert said(host, "ls /sys/bus/pci/devices") != devices
        assert mounts() == before
        assert Path("/proc/modules").exists() == modules
        assert sorted(Path("/sys/bus/pci/devices").iterdir()) == devices
    assert mounts() == before


def test_two_nodes_do_not_see_each_other(host: GpuHost, library: Path, tmp_path: Path) -> None:
    with GpuHost(tmp_path / "other", library, MIG_ON) as other:
        said(other, f"touch {DEVICE_PLUGINS}/mark")
        assert len(said(other, "ls /sys/bus/pci/devices")) == 3
        assert len(said(host, "ls /sys/bus/pci/devices")) == 2
        assert said(host, f"ls {DEVICE_PLUGINS}") == []


def test_a_program_that_takes_too_long_is_ended(host: GpuHost) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        host.run(["sleep", "71.125"], seconds=0.3)
    assert eventually(lambda: not running("71.125"))


def test_a_program_goes_on_running_gets_signals_and_ends_with_the_node(host: GpuHost, tmp_path: Path) -> None:
    script = "trap 'echo again' HUP; echo up; while :; do sleep 0.05; done"
    process = host.start(["sh", "-c", script, "72.125"], tmp_path / "log")
    log = tmp_path / "log"
    assert eventually(lambda: log.read_text() == "up\n")
    host.signal(process, signal.SIGHUP)
    assert eventually(lambda: log.read_text() == "up\nagain\n")
    host.close()
    assert process.wait(timeout=scaled(60)) != 0
    assert not running("72.125")
    host.signal(process, signal.SIGHUP)


def test_nothing_outlives_whoever_made_the_node(library: Path, tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from sandbox.cluster.gpu_host import GpuHost
from sandbox.nvml import from_tables, simulated, state
host = GpuHost(Path({str(tmp_path / "node")!r}), Path({str(library)!r}), from_tables.machine_state("t4-16gb", "Tesla T4", 1))
host.start(["sleep", "73.125"], Path({str(tmp_path / "log")!r}))
host.start(["sh", "-c", "setsid sleep 74.125 & wait"], Path({str(tmp_path / "log")!r}))
print("up", flush=True)
time.sleep(60)
"""
    maker = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    assert maker.stdout.readline() == "up\n"
    assert eventually(lambda: bool(running("73.125") and running("74.125")))
    maker.kill()
    maker.wait()
    maker.stdout.close()
    assert eventually(lambda: not running("73.125") and not running("74.125") and not running(str(tmp_path / "node")))


def test_a_signal_to_the_group_of_whoever_made_the_node_does_not_reach_it(library: Path, tmp_path: Path) -> None:
    """A daemon that is told to stop must not see its nodes end before it has stopped."""
    script = f"""
import os, signal, time
from pathlib import Path
from sandbox.cluster.gpu_host import GpuHost
from sandbox.nvml import from_tables, simulated, state
signal.signal(signal.SIGTERM, lambda *_: None)
host = GpuHost(Path({str(tmp_path / "node")!r}), Path({str(library)!r}), from_tables.machine_state("t4-16gb", "Tesla T4", 1))
process = host.start(["sleep", "75.125"], Path({str(tmp_path / "log")!r}))
time.sleep(0.3)
os.killpg(0, signal.SIGTERM)
time.sleep(0.3)
print(process.poll(), host.lives, flush=True)
host.close()
print(process.wait() != 0, host.lives)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, start_new_session=True)
    assert done.stdout.splitlines() == ["None True", "True False"]


def test_without_the_right_to_mount_it_says_so_and_which_setting_of_the_kernel_keeps_users_from_it(
    library: Path, tmp_path: Path
) -> None:
    script = f"""
from pathlib import Path
from sandbox.system.errors import SandboxError
from sandbox.cluster.gpu_host import GpuHost, obstacle
from sandbox.nvml import from_tables, simulated, state
print(obstacle())
try:
    GpuHost(Path({str(tmp_path)!r}), Path({str(library)!r}), from_tables.machine_state("t4-16gb", "Tesla T4", 1))
except SandboxError as error:
    print(error.message, error.remedy)
"""
    # In a user namespace in which no further one may be made.
    limited = ["unshare", "--user", "--map-root-user", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"]
    done = subprocess.run([*limited, *WITHOUT_RIGHTS, sys.executable, "-c", script], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("unshare: unshare failed: Operation not permitted; in a user namespace: unshare: unshare failed: ")
    assert "user.max_user_namespaces is 0 (root allows them by `sysctl -w user.max_user_namespaces=10000`)" in first
    assert first in second
    assert "as root" in second
    assert "user namespaces" in second


@pytest.mark.parametrize("file", ["test_gpu_host.py", pytest.param("test_node_programs.py", marks=pytest.mark.sweep)])
def test_in_a_user_namespace_everything_is_as_for_root(file: str, tmp_path: Path) -> None:
    hold_in_user_namespaces(str(Path(__file__).with_name(file)), tmp_path / "inner")


def test_a_state_folder_that_cannot_be_made_is_a_plain_error(library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="file"):
        GpuHost(tmp_path / "file", library, MIG_ON)


@pytest.mark.parametrize(("mode", "number"), [("EXCLUSIVE_PROCESS", 3), ("PROHIBITED", 2), ("DEFAULT", 0)])
def test_nvidia_smi_sets_the_compute_mode_of_one_gpu(host: GpuHost, mode: str, number: int) -> None:
    first, second = host.machine.gpus
    done = host.run(("nvidia-smi", "-i", first.uuid, "-c", mode), seconds=20)
    assert done.returncode == 0, done.stderr
    assert [gpu.compute_mode for gpu in host.machine.gpus] == [number, second.compute_mode]


def test_nvidia_smi_sets_no_compute_mode_where_there_is_none(host: GpuHost) -> None:
    assert host.run(("nvidia-smi", "-i", "GPU-none", "-c", "DEFAULT"), seconds=20).returncode == 6
    gpu = host.machine.gpus[0]
    host.show(replace(host.machine, gpus=(simulated.partitioned(gpu, [("1g.10gb", 0)]),)))
    assert host.run(("nvidia-smi", "-i", gpu.uuid, "-c", "EXCLUSIVE_PROCESS"), seconds=20).returncode == 3
    assert [one.compute_mode for one in host.machine.gpus] == [0]
