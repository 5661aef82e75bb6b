"""Readings through pynvml, and each fault of the simulated GPU: found, with its cause, never passed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier import nvml
from gpu_pools.verifier.compare_gpus import compare_gpus
from gpu_pools.verifier.findings import Findings, Verdict
from gpu_pools.verifier.observation import Observer
from gpu_pools.verifier.reading import Failed, Hung, Mode, Reading, Unreadable
from gpu_pools.verifier.sources import Reader
from sandbox.nvml import from_tables, simulated
from sandbox.nvml.library import CONTAINED
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.verifier.findings import Finding
    from tests.verifier.conftest import Bench

pytestmark = pytest.mark.programs  # the simulated library is built with gcc

SEVEN = {"mig": {"layout": {"1g.10gb": 7}}}
MIXED = {"mig": {"gpus": [{"index": 0, "layout": {"3g.40gb": 1, "2g.20gb": 2}}, {"index": 1, "layout": {"1g.10gb": 7}}]}}
JOB = simulated.Process(4242, 512, "/usr/bin/python3")


def node(sharing: dict[str, Any], count: int = 2, key: str = "a100-80gb") -> nodes.Node:
    return nodes.healthy(*nodes.plan_and_pool(sharing, key=key, count=count))


def gpu(machine: simulated.Machine, index: int, **changes: Any) -> simulated.Machine:
    gpus = list(machine.gpus)
    gpus[index] = replace(gpus[index], **changes)
    return replace(machine, gpus=tuple(gpus))


def mig(machine: simulated.Machine, index: int, **changes: Any) -> simulated.Machine:
    known = machine.gpus[index].mig
    assert known
    return gpu(machine, index, mig=replace(known, **changes))


def fault(machine: simulated.Machine, function: str, **what: Any) -> simulated.Machine:
    return replace(machine, faults=(simulated.Fault(function, **what),))


def gpu_fault(machine: simulated.Machine, index: int, function: str, **what: Any) -> simulated.Machine:
    return gpu(machine, index, faults=(simulated.Fault(function, **what),))


def of(finding: Finding) -> tuple[str, int | None, str]:
    return finding.cause.key, finding.where.gpu, finding.field


@pytest.mark.parametrize(
    ("sharing", "key", "count"),
    [
        ({"exclusive": {}}, "h100-80gb", 8),
        ({"timeSlicing": {"replicas": 4}}, "t4-16gb", 2),
        ({"mps": {"replicas": 7}}, "a30-24gb", 1),
        (MIXED, "a100-80gb", 2),
        ({"mig": {"layout": {"1g.10gb+me": 1, "2g.20gb": 2}}}, "h100-80gb", 1),
        ({"mig": {"layout": {"2g.48gb": 2}}}, "rtx-pro-6000-blackwell", 1),
    ],
)
def test_a_healthy_node_is_read_right_and_passes(bench: Bench, sharing: dict[str, Any], key: str, count: int) -> None:
    healthy = node(sharing, count, key)
    bench.put(healthy.machine)
    assert bench.read() == healthy.nvml
    if healthy.expected.mps is None:
        assert bench.hold(healthy, healthy.machine).findings.verdict is Verdict.HOLDS


def test_an_old_driver_lists_no_profiles_while_mig_is_off_and_passes(bench: Bench) -> None:
    healthy = node({"exclusive": {}})
    healthy = replace(healthy, expected=replace(healthy.expected, driver="535.183.01"))
    machine = from_tables.machine_state("a100-80gb", healthy.machine.gpus[0].name, 2, driver_version="535.183.01", cuda="12.2")
    assert bench.hold(healthy, machine).findings.verdict is Verdict.HOLDS


def test_jobs_on_the_gpus_do_not_matter(bench: Bench) -> None:
    healthy = node({"exclusive": {}})
    assert bench.hold(healthy, gpu(healthy.machine, 0, processes=(JOB,))).findings.verdict is Verdict.HOLDS


# Each: declaration, what happens to the machine, the differences as (cause, GPU, field).
FAULTS: dict[str, tuple[dict[str, Any], Callable[[simulated.Machine], simulated.Machine], list[tuple[str, int | None, str]]]] = {
    "the driver is not loaded": (
        {"exclusive": {}},
        lambda machine: fault(machine, "nvmlInit*", error=9),
        [("driver-missing", None, "start")],
    ),
    "library and kernel module differ": (
        {"exclusive": {}},
        lambda machine: fault(machine, "nvmlInit*", error=18),
        [("driver-mismatch", None, "start")],
    ),
    "the container lost its devices": (
        {"exclusive": {}},
        lambda machine: fault(machine, "nvmlInit*", error=999),
        [("container-lost-gpu", None, "start")],
    ),
    "a GPU is lost": (
        {"exclusive": {}},
        lambda machine: gpu_fault(machine, 1, "*", error=15),
        [("gpu-lost", 1, "uuid")],
    ),
    "a GPU is forgotten": (
        {"exclusive": {}},
        lambda machine: replace(machine, gpus=machine.gpus[:1]),
        [("gpu-missing", None, "GPU count")],
    ),
    "a GPU too many": (
        {"exclusive": {}},
        lambda machine: replace(machine, gpus=(*machine.gpus, replace(machine.gpus[0], slot=2, uuid="GPU-2", minor=2))),
        [("gpu-surplus", None, "GPU count")],
    ),
    "another model": (
        {"exclusive": {}},
        lambda machine: gpu(machine, 0, name="NVIDIA H100 80GB HBM3"),
        [("wrong-model", 0, "model")],
    ),
    "a GPU wants a reset": (
        {"exclusive": {}},
        lambda machine: gpu_fault(machine, 0, "nvmlDeviceGetComputeMode", error=16),
        [("gpu-reset", 0, "compute mode")],
    ),
    "the driver answers nonsense": (
        {"exclusive": {}},
        lambda machine: gpu_fault(machine, 0, "nvmlDeviceGetMemoryInfo*", error=999),
        [("nvml-error", 0, "memory mib")],
    ),
    "the configuration memory is corrupt": (
        {"exclusive": {}},
        lambda machine: gpu_fault(machine, 0, "nvmlDeviceGetEccMode", error=14),
        [("inforom", 0, "ecc")],
    ),
    "MIG was never switched on": (
        SEVEN,
        lambda machine: mig(machine, 1, current=False, pending=False, instances=()),
        [("mig-not-on", 1, "MIG mode")],
    ),
    "MIG waits for a reset": (
        SEVEN,
        lambda machine: mig(machine, 1, current=False, instances=()),
        [("mig-pending", 1, "MIG mode")],
    ),
    "MIG waits for processes": (
        SEVEN,
        lambda machine: gpu(mig(machine, 1, current=False, instances=()), 1, processes=(JOB,)),
        [("mig-blocked", 1, "MIG mode")],
    ),
    "MIG will be off after the next reset": (
        SEVEN,
        lambda machine: mig(machine, 0, pending=False),
        [("mig-pending", 0, "pending MIG mode")],
    ),
    "MIG is left over": (
        {"exclusive": {}},
        lambda machine: mig(machine, 0, current=True, pending=True),
        [("mig-not-off", 0, "MIG mode")],
    ),
    "MIG is on and empty": (
        SEVEN,
        lambda machine: mig(mig(machine, 0, instances=()), 1, instances=()),
        [("mig-empty", 0, "MIG instances"), ("mig-empty", 1, "MIG instances")],
    ),
    "one GPU has another layout": (
        SEVEN,
        lambda machine: gpu(machine, 1, mig=nodes.partitioned(machine.gpus[1], "a100-80gb", {"3g.40gb": 2}).mig),
        [("mig-one-differs", 1, "MIG instances")],
    ),
    "all GPUs have another layout": (
        SEVEN,
        lambda machine: replace(machine, gpus=tuple(nodes.partitioned(one, "a100-80gb", {"2g.20gb": 3}) for one in machine.gpus)),
        [("mig-layout", 0, "MIG instances"), ("mig-layout", 1, "MIG instances")],
    ),
    "a GPU instance without a compute instance": (
        {"mig": {"layout": {"7g.80gb": 1}}},
        lambda machine: mig(machine, 0, instances=(simulated.GpuInstance(0, 0, 0),)),
        [("mig-half-made", 0, "compute instances of 7g.80gb instance 0")],
    ),
    "a compute instance that is only a part": (
        {"mig": {"layout": {"7g.80gb": 1}}},
        lambda machine: mig(machine, 0, instances=(simulated.GpuInstance(0, 0, 0, (simulated.ComputeInstance(0, 3, 0),)),)),
        [("mig-half-made", 0, "compute instances of 7g.80gb instance 0")],
    ),
    "the GPU has no MIG": (
        SEVEN,
        lambda machine: gpu(machine, 0, mig=None),
        [("mig-unsupported", 0, "MIG mode")],
    ),
    "the layout is illegal on this GPU, MIG still off": (
        SEVEN,
        lambda machine: from_tables.machine_state("a100-40gb", machine.gpus[0].name, 2, node="gpu-1"),
        [
            *(("mig-not-on", index, "MIG mode") for index in range(2)),
            *(("layout-illegal", index, "declared MIG layout") for index in range(2)),
        ],
    ),
    "MPS declared, compute mode default": (
        {"mps": {"replicas": 4}},
        lambda machine: gpu(machine, 1, compute_mode=0),
        [("mps-mode-default", 1, "compute mode")],
    ),
    "the compute mode of MPS is left over": (
        {"timeSlicing": {"replicas": 4}},
        lambda machine: gpu(machine, 0, compute_mode=3),
        [("mode-left-over", 0, "compute mode")],
    ),
    "the compute mode was set by hand": (
        {"exclusive": {}},
        lambda machine: gpu(machine, 0, compute_mode=2),
        [("mode-by-hand", 0, "compute mode")],
    ),
    "memory repairs failed": (
        {"exclusive": {}},
        lambda machine: gpu(machine, 0, remapped_rows=(0, 2, 0, 1)),
        [("memory-broken", 0, "remapped rows")],
    ),
    "a memory repair is pending": (
        {"exclusive": {}},
        lambda machine: gpu(machine, 0, remapped_rows=(0, 1, 1, 0)),
        [("memory-repair-pending", 0, "memory repair")],
    ),
    "uncorrected memory errors": (
        {"exclusive": {}},
        lambda machine: gpu(machine, 0, ecc_errors=(5, 1, 5, 1)),
        [("memory-errors", 0, "uncorrected ECC errors")],
    ),
    "an ECC change is pending": (
        {"exclusive": {}},
        lambda machine: gpu(machine, 0, ecc=(1, 0)),
        [("ecc-pending", 0, "ECC mode")],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_its_cause_and_nothing_else(bench: Bench, name: str) -> None:
    sharing, happens, wanted = FAULTS[name]
    healthy = node(sharing)
    found = bench.hold(healthy, happens(healthy.machine)).findings
    assert found.verdict is Verdict.DIFFERS
    assert sorted(map(str, map(of, found.differences))) == sorted(map(str, wanted))
    for finding in found.differences:
        if finding.where.gpu is not None and finding.cause.key != "gpu-lost":
            assert finding.where.uuid == healthy.machine.gpus[finding.where.gpu].uuid


def test_the_processes_that_block_a_change_are_named(bench: Bench) -> None:
    healthy = node(SEVEN)
    (finding,) = bench.hold(healthy, FAULTS["MIG waits for processes"][1](healthy.machine)).findings.differences
    assert "4242" in finding.detail


def test_a_container_is_told_of_no_process_and_so_of_none_that_blocks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = node(SEVEN)
    monkeypatch.setenv(*next(iter(CONTAINED.items())))
    (finding,) = bench.hold(healthy, FAULTS["MIG waits for processes"][1](healthy.machine)).findings.differences
    assert finding.cause.key == "mig-pending"
    assert "nvidia-smi on the node names it" in finding.cause.remedy


@pytest.mark.parametrize(
    ("function", "code", "cause"),
    [
        ("nvmlInit*", 4, "nvml-permission"),
        ("nvmlInit*", 17, "nvml-permission"),
        ("nvmlInit*", 12, "library-missing"),
        ("nvmlDeviceGetGpuInstances", 4, "nvml-permission"),
        ("nvmlDeviceGetGpuInstanceProfileInfo*", 4, "nvml-permission"),
        ("nvmlDeviceGetGpuInstanceProfileInfo*", 3, "not-answered"),
        ("nvmlDeviceGetUUID", 3, "not-answered"),
    ],
)
def test_what_the_pod_may_not_ask_is_no_difference_and_no_pass(bench: Bench, function: str, code: int, cause: str) -> None:
    healthy = node(SEVEN)
    found = bench.hold(healthy, fault(healthy.machine, function, error=code)).findings
    assert found.verdict is Verdict.CANNOT_TELL
    assert {finding.cause.key for finding in found.unknown} == {cause}


@pytest.mark.parametrize("function", ["nvmlDeviceGetComputeRunningProcesses*", "nvmlDeviceGetPciInfo*"])
def test_what_only_explains_may_be_forbidden(bench: Bench, function: str) -> None:
    healthy = node({"exclusive": {}})
    found = bench.hold(healthy, fault(healthy.machine, function, error=4)).findings
    assert found.verdict is Verdict.HOLDS
    assert "NO_PERMISSION" in found.notes[0]


#: Every function that a reading calls.
CALLED = sorted(set(re.findall(r'"(nvml[A-Z]\w+?)(?:_v\d)?"', Path(nvml.__file__).read_text())))
#: What they say decides nothing: the library's own version, names of processes, the end of a reading.
UNJUDGED = {"nvmlSystemGetNVMLVersion", "nvmlSystemGetProcessName", "nvmlShutdown"}
HELPFUL = {"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo"}
HELPFUL |= {"nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"}
#: With MIG on, its placements confirm what the instances say.
HELPFUL |= {"nvmlDeviceGetGpuInstancePossiblePlacements"}
OF_PROFILES = {"nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGpuInstancePossiblePlacements"}


def test_no_error_of_any_call_makes_a_pass_and_no_missing_right_makes_a_difference(bench: Bench) -> None:
    healthy = node(SEVEN, 1)
    machine = gpu(healthy.machine, 0, processes=(JOB,))
    reader = Reader()
    for function in CALLED:
        if function in OF_PROFILES:
            # A process asks once, and another one serves the next assertion.
            reader.release()
        for code, name in ((15, "lost"), (999, "unknown"), (4, "forbidden")):
            bench.put(fault(machine, f"{function}*", error=code))
            findings = Findings()
            compare_gpus(healthy.expected, reader.read(), findings)
            verdict = findings.verdict
            if function in UNJUDGED or (code == 4 and function in HELPFUL):
                assert verdict is Verdict.HOLDS, (function, name)
            elif code == 4:
                assert verdict is Verdict.CANNOT_TELL, (function, name)
            else:
                assert verdict is Verdict.DIFFERS, (function, name)
    reader.release()


def test_a_compute_mode_that_is_not_told_matters_only_without_mig(bench: Bench) -> None:
    for sharing, verdict in ((SEVEN, Verdict.HOLDS), ({"exclusive": {}}, Verdict.CANNOT_TELL)):
        healthy = node(sharing)
        silent = fault(healthy.machine, "nvmlDeviceGetComputeMode", error=3)
        assert bench.hold(healthy, silent).findings.verdict is verdict


@pytest.mark.parametrize(("function", "code"), [("nvmlDeviceGetFieldValues", 2), ("nvmlDeviceGet*Ecc*", 22)])
def test_an_older_driver_s_way_to_say_no_is_no_difference(bench: Bench, function: str, code: int) -> None:
    healthy = node({"exclusive": {}})
    assert bench.hold(healthy, fault(healthy.machine, function, error=code)).findings.verdict is Verdict.HOLDS


@pytest.mark.parametrize("action", range(12))
def test_every_recovery_action_is_a_difference_also_one_that_nobody_knows(action: int) -> None:
    healthy = node({"exclusive": {}}, 1)
    findings = Findings()
    compare_gpus(healthy.expected, read_as(healthy, recovery_action=action), findings)
    assert [finding.cause.key for finding in findings.differences] == (["gpu-reset"] if action else [])


@pytest.mark.parametrize("field", ["mig", "ecc"])
@pytest.mark.parametrize("mode", [Mode(0, 2), Mode(2, 2), Mode(7, 0)])
def test_a_mode_that_nobody_knows_is_a_difference_with_its_number(field: str, mode: Mode) -> None:
    healthy = node({"exclusive": {}}, 1)
    findings = Findings()
    compare_gpus(healthy.expected, read_as(healthy, **{field: mode}), findings)
    if field == "mig" or mode.current != mode.pending:
        assert f"mode {max(mode.current, mode.pending)}" in str([(one.observed, one.expected) for one in findings.differences])
    else:
        assert findings.verdict is Verdict.HOLDS


def read_as(healthy: nodes.Node, **changes: Any) -> Reading:
    """A healthy node's reading, with something else on its only GPU."""
    assert isinstance(healthy.nvml.gpus, tuple)
    return replace(healthy.nvml, gpus=(replace(healthy.nvml.gpus[0], **changes),))


@pytest.mark.parametrize(("driver", "causes"), [(nodes.DRIVER, []), ("580", []), ("595.91.07", ["driver-other"])])
def test_a_driver_that_is_not_the_one_to_be_installed_differs(driver: str, causes: list[str]) -> None:
    healthy = node({"exclusive": {}}, 1)
    findings = Findings()
    compare_gpus(replace(healthy.expected, driver=driver), healthy.nvml, findings)
    assert [finding.cause.key for finding in findings.differences] == causes


def test_a_hang_is_a_difference_and_is_looked_at_once(bench: Bench) -> None:
    healthy = node({"exclusive": {}})
    machine = gpu_fault(healthy.machine, 1, "nvmlDeviceGetComputeMode", hang_seconds=3600)
    assertion = bench.hold(healthy, machine, seconds=3)
    assert [finding.cause.key for finding in assertion.findings.differences] == ["nvml-hang"]
    assert assertion.looks == 1


def test_a_hang_names_the_call_and_ends_with_the_driver_s_recovery(bench: Bench) -> None:
    healthy = node({"exclusive": {}}).machine
    bench.put(healthy)
    reader = Reader()
    assert isinstance(reader.read(), Reading)
    # The child runs and has loaded everything: from here on only calls take time.
    reader._seconds = 2
    bench.put(gpu_fault(healthy, 1, "nvmlDeviceGetComputeMode", hang_seconds=3600))
    assert reader.read() == Hung("nvmlDeviceGetComputeMode on GPU 1", 2, killable=True)
    reader._seconds = 60
    bench.put(healthy)
    assert isinstance(reader.read(), Reading)
    reader.release()


@pytest.mark.sweep
def test_a_slow_driver_is_no_hang(bench: Bench) -> None:
    healthy = node({"exclusive": {}}).machine
    bench.put(healthy)
    reader = Reader()
    reader.read()
    reader._seconds = 2
    bench.put(fault(healthy, "nvmlDeviceGet[MNU]*", hang_seconds=0.3))
    assert isinstance(reader.read(), Reading)
    reader.release()


def test_without_the_library_nothing_can_be_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = node({"exclusive": {}})
    monkeypatch.delenv("LD_LIBRARY_PATH")
    reading = bench.read()
    if not isinstance(reading, Reading) or reading.failure is None or reading.failure.code != 12:
        pytest.skip("this machine has a libnvidia-ml.so.1 of its own")
    found = bench.hold(healthy, healthy.machine).findings
    assert [finding.cause.key for finding in found.unknown] == ["library-missing"]
    assert found.verdict is Verdict.CANNOT_TELL


def _of_another_word_size(path: Path, library: Path) -> None:
    """The simulated library, said to be one of 32 bits."""
    content = bytearray(library.read_bytes())
    content[4] = 1  # EI_CLASS
    path.write_bytes(content)


def _without_what_it_needs(path: Path, library: Path) -> None:
    del library
    other = path.with_name("libneeded.so")
    for target, needs in ((other, ()), (path, ("-Wl,--no-as-needed", f"-L{path.parent}", "-lneeded"))):
        subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", target, *needs], check=True)
    other.unlink()


UNLOADABLE: dict[str, tuple[Callable[[Path, Path], object], str, str]] = {
    "of another word size": (_of_another_word_size, "wrong ELF class", "word size"),
    "empty": (lambda path, _: path.write_bytes(b""), "file too short", "not installed to its end"),
    "no library at all": (lambda path, _: path.write_text("no library " * 100), "invalid ELF header", "not a library"),
    "without what it needs": (_without_what_it_needs, "libneeded.so: cannot open", "another library"),
}


@pytest.mark.parametrize("name", UNLOADABLE)
def test_a_library_that_cannot_be_loaded_is_not_told_as_one_that_is_absent(
    bench: Bench, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make, said, detail = UNLOADABLE[name]
    healthy = node({"exclusive": {}})
    make(tmp_path / "libnvidia-ml.so.1", library)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = bench.hold(healthy, healthy.machine).findings
    assert found.verdict is Verdict.CANNOT_TELL
    (finding,) = found.unknown
    assert finding.cause.key == "library-broken"
    assert said in finding.observed
    assert detail in finding.detail


def test_a_change_between_two_looks_is_looked_at_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = node(SEVEN)
    machines = [mig(healthy.machine, 0, instances=()), *[healthy.machine] * 5]
    read = Reader.read

    def changing(reader: Reader, *, again: bool) -> Reading | Hung | Unreadable:
        del again  # it would read before the next change
        bench.put(machines.pop(0))
        return read(reader)

    monkeypatch.setattr(Reader, "read", changing)
    # It is asked once the node is another one.
    monkeypatch.setattr(Reader, "ask", lambda _: None)
    assertion = bench.hold(healthy, healthy.machine)
    assert (assertion.looks, assertion.findings.verdict) == (3, Verdict.HOLDS)


def test_the_last_look_of_an_assertion_counts_for_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = node(SEVEN)
    half = mig(healthy.machine, 0, instances=())
    read, reads = Reader.read, 0

    def counted(reader: Reader, *, again: bool) -> Reading | Hung | Unreadable:
        nonlocal reads
        reads += 1
        return read(reader, again=again)

    monkeypatch.setattr(Reader, "read", counted)
    observer = Observer(Reader(), None, 0)
    for machine, verdict, needed in (
        (healthy.machine, Verdict.HOLDS, 2),
        (healthy.machine, Verdict.HOLDS, 1),
        (half, Verdict.DIFFERS, 2),
        (half, Verdict.DIFFERS, 1),
        (healthy.machine, Verdict.HOLDS, 2),
    ):
        bench.put(machine)
        before = reads
        assertion = observer.hold(healthy.expected)
        assert (assertion.findings.verdict, reads - before) == (verdict, needed)
        assert assertion.looks >= 2


@pytest.mark.sweep
def test_a_driver_that_hung_is_looked_at_anew(bench: Bench) -> None:
    healthy = node({"exclusive": {}})
    reader = Reader(3)
    observer = Observer(reader, None, 0)
    bench.put(gpu_fault(healthy.machine, 1, "nvmlDeviceGetComputeMode", hang_seconds=3600))
    assert observer.hold(healthy.expected).findings.verdict is Verdict.DIFFERS
    reader._seconds = 60
    bench.put(healthy.machine)
    assert observer.hold(healthy.expected).findings.verdict is Verdict.HOLDS


def test_a_node_that_never_settles_is_no_pass(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = node(SEVEN)
    machines = [healthy.machine, mig(healthy.machine, 0, instances=())] * 6
    read = Reader.read

    def changing(reader: Reader, *, again: bool) -> Reading | Hung | Unreadable:
        del again  # it would read before the next change
        bench.put(machines.pop())
        return read(reader)

    monkeypatch.setattr(Reader, "read", changing)
    # It is asked once the node is another one.
    monkeypatch.setattr(Reader, "ask", lambda _: None)
    found = bench.hold(healthy, healthy.machine).findings
    assert found.verdict is Verdict.CANNOT_TELL
    assert [finding.cause.key for finding in found.unknown] == ["unsteady"]


def test_a_reader_that_dies_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(node({"exclusive": {}}).machine)
    program = f"import os; os.write(1, b'nvmlInit\\n'); os.kill(os.getpid(), {int(signal.SIGSEGV)})"
    monkeypatch.setattr("gpu_pools.verifier.process._PROGRAM", program)
    reading = bench.read()
    assert isinstance(reading, Unreadable)
    assert "signal 11 in nvmlInit" in reading.reason
    found = bench.hold(node({"exclusive": {}}), node({"exclusive": {}}).machine).findings
    assert [finding.cause.key for finding in found.unknown] == ["reader-crashed"]


def test_an_answer_that_is_no_reading_is_a_defect_of_the_reader(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(node({"exclusive": {}}).machine)
    for answer, word in (('{"driver": 1}', "nvml is missing"), ("{no JSON", "property name")):
        monkeypatch.setattr("gpu_pools.verifier.process._PROGRAM", f"for _ in open(0): print({answer!r}, flush=True)")
        found = bench.hold(node({"exclusive": {}}), node({"exclusive": {}}).machine).findings
        assert found.verdict is Verdict.CANNOT_TELL
        (finding,) = found.unknown
        assert word in finding.observed


def test_the_environment_does_not_decide_what_is_imported(bench: Bench, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(node({"exclusive": {}}).machine)
    (tmp_path / "pynvml.py").write_text("raise SystemExit('the wrong pynvml')")
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path))
    monkeypatch.chdir(tmp_path)
    reading = bench.read()
    assert isinstance(reading, Reading)
    assert not isinstance(reading.gpus, Failed)
