"""Parts of `make gpu-node` that need no cluster: who the machine is, what pods compute, what is recorded and written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpu_pools.bench import mps
from gpu_pools.plan.drivers import demanded
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.verifier.compare_gpus import compare_gpus
from gpu_pools.verifier.documents import read
from gpu_pools.verifier.findings import Findings
from gpu_pools.verifier.reading import Reading
from sandbox.gpu_node import claims, document, machine, mps_limits, pods
from sandbox.gpu_node.claims import Claims
from sandbox.gpu_node.pods import PodSnapshot
from sandbox.nvml import state
from sandbox.real_node import own_gpus
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.system.recording import record
from tests.sandbox.gpu_node import driver, measured
from tests.verifier import nodes

if TYPE_CHECKING:
    from sandbox.nvml.simulated import Machine
    from sandbox.real_node.place import Place

WORK = Path(machine.__file__).parent / "work.py"
MIG_MANAGER = Path(own_gpus.__file__).parent / "operands" / "nvidia-mig-manager"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an H200; returns its state file."""
    for name, value in driver.environment(tmp_path, driver.h200()).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "state"


def with_mig(known: Machine, *, current: bool, pending: bool) -> Machine:
    (gpu,) = known.gpus
    assert gpu.mig
    return replace(known, gpus=(replace(gpu, mig=replace(gpu.mig, current=current, pending=pending)),))


# --- the machine --------------------------------------------------------------------------------------------


def test_a_machine_is_known_by_its_nvml_and_its_stack_can_be_planned(own: Path, tmp_path: Path) -> None:
    del own
    found = machine.find()
    assert (found.model.key, found.product, found.gpus) == ("h200-141gb", "NVIDIA H200", 1)
    assert found.identity()["driver"] == driver.VERSION
    file = tmp_path / "Pulumi.own.yaml"
    file.write_text(machine.stack_text("{timeSlicing: {replicas: 8}}", found))
    plan = plan_config(read_stack_file(file))
    assert demanded(plan) == driver.VERSION, "the driver that the node has, whatever the chart brings"
    (pool_plan,) = plan.pools
    assert (pool_plan.name, dict(pool_plan.advertises)) == (machine.POOL, {"nvidia.com/gpu": 8})
    assert pool_plan.pool.rollout is None
    rollout = machine.NODE_BY_NODE.format(seconds=30, staying="delete")
    file.write_text(machine.stack_text("{exclusive: {}}", found, rollout=rollout))
    (pool_plan,) = plan_config(read_stack_file(file)).pools
    assert pool_plan.pool.rollout
    assert (pool_plan.pool.rollout.drain_seconds, pool_plan.pool.rollout.pods_that_stay) == (30, "delete")


@pytest.mark.parametrize(
    ("allocation", "devices"), [(None, ()), ("devicePlugin", ()), ("dra", (("nvidia.com/gpu", 2, 4),))], ids=str
)
def test_its_stack_says_how_pods_get_gpus(own: Path, tmp_path: Path, allocation: Any, devices: tuple[object, ...]) -> None:
    state.write(own, driver.h200(2))
    file = tmp_path / "Pulumi.own.yaml"
    file.write_text(machine.stack_text("{timeSlicing: {replicas: 4}}", machine.find(), allocation=allocation))
    assert ("allocation:" in file.read_text()) == (allocation is not None)
    (pool_plan,) = plan_config(read_stack_file(file)).pools
    assert tuple((one.resource, one.count, one.shares) for one in pool_plan.devices) == devices


def test_its_node_gets_its_devices_and_its_driver(own: Path) -> None:
    found = own_gpus.find()
    assert {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"} <= found.devices.keys()
    assert str(own.parent / "driver") in found.shown.values()
    # NVIDIA's DRA driver is given no variable of the sandbox: it finds simulated GPUs as the driver's firmware.
    assert found.files[f"/run/nvidia/driver/lib/firmware/nvidia/{driver.VERSION}/gsp_simulated.bin"] == own.read_text()


@pytest.mark.parametrize("first", ["script", "program"])
def test_the_drivers_nvidia_smi_is_shown_to_the_node_and_no_script_that_starts_it(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    del own
    for kind, content in (("script", b"#!/bin/sh\n"), ("program", b"\x7fELF")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "nvidia-smi").write_bytes(content)
        (tmp_path / kind / "nvidia-smi").chmod(0o755)
    search = sorted(("script", "program"), key=lambda kind: kind != first)
    monkeypatch.setenv("PATH", ":".join([*(str(tmp_path / kind) for kind in search), os.environ["PATH"]]))
    shown = own_gpus.find().shown
    assert shown["/run/nvidia/driver/usr/bin"] == str(tmp_path / "program")
    (tmp_path / "program" / "nvidia-smi").unlink()
    assert own_gpus.find().shown["/run/nvidia/driver/usr/bin"] == str(tmp_path / "script")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda gpu: replace(gpu, name="NVIDIA Z9000"), "'NVIDIA Z9000' is not among the GPU models"),
        (lambda gpu: replace(gpu, compute_mode=3), "compute mode EXCLUSIVE_PROCESS"),
        (lambda gpu: replace(gpu, mig=replace(gpu.mig, current=True, pending=True)), "MIG {'current': 1, 'pending': 1}"),
    ],
)
def test_a_machine_that_cannot_be_declared_as_it_is_is_refused(own: Path, change: Any, said: str) -> None:
    state.change(own, lambda known: replace(known, gpus=tuple(change(gpu) for gpu in known.gpus)))
    with pytest.raises(SandboxError) as caught:
        machine.find()
    assert said in caught.value.message


def test_gpus_of_two_kinds_are_refused(own: Path) -> None:
    two = driver.h200(2)
    state.write(own, replace(two, gpus=(two.gpus[0], replace(two.gpus[1], name="NVIDIA A10"))))
    with pytest.raises(SandboxError, match="several kinds: NVIDIA A10, NVIDIA H200"):
        machine.find()


def test_a_machine_without_a_gpu_says_so(own: Path) -> None:
    state.change(own, lambda known: replace(known, gpus=()))
    with pytest.raises(SandboxError, match="shows no GPU"):
        machine.find()


def test_a_driver_that_lacks_a_library_is_named(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_gpus, "_USUAL", ())
    monkeypatch.setattr(own_gpus, "_has_ldconfig", lambda: False)
    folder = own.parent / "driver"
    (folder / "libcuda.so.1").unlink()
    with pytest.raises(SandboxError) as caught:
        own_gpus.libraries()
    assert f"{folder} lacks libcuda.so.1" in caught.value.message
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    with pytest.raises(SandboxError, match=r"libnvidia-ml\.so\.1 is nowhere"):
        own_gpus.libraries()


def test_a_setting_that_changed_is_seen(own: Path) -> None:
    before = machine.gpu_settings(own_gpus.reading())
    assert machine.gpu_settings(own_gpus.reading()) == before
    state.change(own, lambda known: replace(known, gpus=tuple(replace(gpu, compute_mode=3) for gpu in known.gpus)))
    assert machine.gpu_settings(own_gpus.reading()) != before


def test_what_nvidia_smi_says_besides_is_compared_too(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = own.parent / "bin" / "nvidia-smi"
    program.parent.mkdir()
    # One value a field that is asked for, as the real one's csv,noheader,nounits.
    script = """#!/bin/sh
for word in "$@"; do case $word in --query-gpu=*) echo "${word#--query-gpu=}" | sed 's/[^,][^,]*/LEVEL/g';; esac; done
"""
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    found = []
    for level in ("Enabled", "Disabled"):
        program.write_text(script.replace("LEVEL", level))
        program.chmod(0o755)
        found.append(machine.gpu_settings(own_gpus.reading()))
    assert found[0] != found[1]
    assert {one["persistence_mode"] for settings in found for one in settings.values()} == {"Enabled", "Disabled"}


# --- what pods compute --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "says"), [((), "round 2 is right"), (("-DWRONG=1",), "round 0: a wrong sum")])
def test_the_pods_program_computes_and_sees_a_wrong_sum(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    found = {**os.environ, "LD_LIBRARY_PATH": str(driver.make(tmp_path, *flags))}
    with subprocess.Popen(
        [sys.executable, WORK], env=found, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.terminate()
        text = "".join(lines) + process.stderr.read()
    assert says in text
    assert (process.returncode == 0) == (not flags)


@pytest.mark.parametrize(("number", "written"), [(signal.SIGTERM, "saved"), (signal.SIGKILL, "begun")])
def test_who_is_told_to_go_comes_to_the_end_of_its_work_first_and_who_is_killed_has_lost_it(
    tmp_path: Path, number: signal.Signals, written: str
) -> None:
    found = {**os.environ, "LD_LIBRARY_PATH": str(driver.make(tmp_path))}
    ledgers = tmp_path / pods._LEDGERS.lstrip("/")
    ledgers.mkdir(parents=True)
    seconds = 1.0
    command = [sys.executable, WORK, "inf", ledgers / "work.of-one.the-uid", str(seconds)]
    with subprocess.Popen(command, env=found, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        begun = time.monotonic()
        process.send_signal(number)
        process.stdout.read()
    assert (time.monotonic() - begun >= seconds) == (written == "saved")
    assert (ledgers / "work.of-one.the-uid").read_text() == written
    place = SimpleNamespace(root=tmp_path)
    assert pods.lost(cast("Place", place), ["the-uid"]) == [], "who is there has lost nothing yet"
    assert pods.lost(cast("Place", place), ["another"]) == (["work.of-one"] if written == "begun" else [])


def test_a_pod_goes_on_only_in_the_same_container_and_if_it_computes() -> None:
    before = PodSnapshot("work-0", "a", "Running", "containerd://1 0", "", 5)
    assert replace(before, rounds=6).goes_on(before)
    for other in ({"rounds": 5}, {"uid": "b"}, {"container": "containerd://1 1"}, {"phase": "Failed"}):
        assert not replace(before, **{"rounds": 6, **other}).goes_on(before), other


# --- resource claims ----------------------------------------------------------------------------------------


def device(name: str, shares: str | None = None) -> dict[str, Any]:
    """As NVIDIA's driver announces it: tests/sandbox/machines/test_dra_nodes.py has the same from the real one."""
    more = {"allowMultipleAllocations": True, "capacity": {"shares": {"value": shares}}} if shares else {}
    return {"name": name, **more}


@pytest.mark.parametrize(
    ("slices", "count"),
    [
        ([], 0),
        ([{"driver": "gpu.nvidia.com"}], 0),
        ([{"devices": [device("gpu-0"), device("gpu-1")]}], 2),
        ([{"devices": [device("gpu-0", "4")]}, {"devices": [device("gpu-1", "4")]}], 8),
    ],
    ids=["none", "no device", "whole GPUs", "shares"],
)
def test_a_node_takes_a_claim_for_each_device_or_share(slices: list[dict[str, Any]], count: int) -> None:
    assert claims.count_claims(slices) == count


def test_pods_are_told_by_the_gpu_that_each_computes_on() -> None:
    seen = [PodSnapshot(f"work-{number}", "", "Running", "", "", 1, (gpu,)) for number, gpu in enumerate(["GPU-b", "GPU-b"])]
    found = claims.count_pods([*seen, PodSnapshot("waits", "", "Pending", "", "", 0)])
    assert claims.tell_pods(found, ["GPU-a", "GPU-b"]) == "0 on GPU 0, 2 on GPU 1"
    assert claims.tell_pods(found, ["GPU-a"]) == "0 on GPU 0, 2 on GPUs that NVML does not know"


@pytest.mark.parametrize(
    ("allocation", "says", "counted"),
    [
        ("dra", "Unschedulable: 0/3 nodes are available: 1 cannot allocate all claims", (1, 1)),
        ("dra", "Unschedulable: 0/3 nodes are available: 1 Insufficient nvidia.com/gpu", (1, 0)),
        ("devicePlugin", "Unschedulable: 0/3 nodes are available: 1 Insufficient nvidia.com/gpu", (1, 1)),
        ("devicePlugin", "Unschedulable: 0/3 nodes are available: 1 cannot allocate all claims", (1, 0)),
    ],
)
def test_a_pod_waits_for_a_gpu_only_if_the_scheduler_says_so_of_that_way(
    monkeypatch: pytest.MonkeyPatch, allocation: Any, says: str, counted: tuple[int, int]
) -> None:
    seen = {
        "computes": PodSnapshot("computes", "", "Running", "containerd://1 0", "", 3, ("GPU-a",)),
        "begins": PodSnapshot("begins", "", "Running", "containerd://2 0", "", 0),
        "waits": PodSnapshot("waits", "", "Pending", "", says, 0),
    }
    play = stage_of(allocation)
    monkeypatch.setattr(play, "_pods", lambda: seen)
    assert play._count_pods() == counted


def stage_of(allocation: Any) -> Claims:
    """A play that looks at nothing by itself."""
    play = Claims(cast("Any", None), cast("Any", SimpleNamespace(existing_cluster=Path("none"))), Path("none"), Progress())
    play._allocation = allocation
    return play


@pytest.mark.parametrize(("allocation", "offers"), [("dra", 8), ("devicePlugin", 0)])
def test_what_a_node_offers_is_read_where_the_scheduler_reads_it(
    monkeypatch: pytest.MonkeyPatch, allocation: Any, offers: int
) -> None:
    ours = {"spec": {"driver": "gpu.nvidia.com", "devices": [device("gpu-0", "4"), device("gpu-1", "4")]}}
    others = {"spec": {"driver": "nic.example.com", "devices": [device("nic-0")]}}
    play = stage_of(allocation)
    api = SimpleNamespace(
        list=lambda path: {"items": [ours, others] if "fieldSelector=spec.nodeName=machine-0" in path else []},
        get=lambda _: {"status": {"allocatable": {"nvidia.com/gpu": "0"}}},
    )
    monkeypatch.setattr(play, "_api", lambda: api)
    assert play._offered() == offers


# --- mig-manager's stand-in ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "current", "pending", "outcome"),
    [
        ("all-disabled", False, False, "success"),
        ("all-disabled", True, True, "failed"),
        ("all-disabled", False, True, "failed"),
        ("all-1g.18gb", False, False, "failed"),
    ],
)
def test_mig_managers_stand_in_looks_and_switches_nothing(
    own: Path, wanted: str, outcome: str, *, current: bool, pending: bool
) -> None:
    state.change(own, lambda known: with_mig(known, current=current, pending=pending))
    before = own.read_text()
    script = f"import runpy; print(runpy.run_path({str(MIG_MANAGER)!r})['outcome']({wanted!r}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == outcome
    assert own.read_text() == before


# --- what is written ----------------------------------------------------------------------------------------


def test_a_recording_has_what_was_printed_and_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import sys, time; print('a'); sys.stdout.flush(); time.sleep(0.3); print('ü', file=sys.stderr); sys.exit(3)"
    assert record([sys.executable, "-c", script], tmp_path / "cast") == 3
    first, *lines = map(json.loads, (tmp_path / "cast").read_text().splitlines())
    assert first["version"] == 2
    assert "".join(text for _, _, text in lines) == "a\r\nü\r\n"
    assert lines[-1][0] - lines[0][0] > 0.2
    assert capsys.readouterr().out == "a\nü\n"


def test_a_play_holds_only_if_every_step_does_and_it_came_to_its_end() -> None:
    good = document.Step("a", 1.0, "gpu 1", "gpu 1", good=True)
    assert document.document({}, {}, [good], {}, "")["holds"]
    assert not document.document({}, {}, [good, replace(good, good=False)], {}, "")["holds"]
    assert not document.document({}, {}, [good], {}, "interrupted")["holds"]
    assert not document.document({}, {}, [], {}, "")["holds"]
    assert "NOT SO" in document.steps_table([good, replace(good, good=False)])


# --- limits of MPS ------------------------------------------------------------------------------------------


def test_limits_are_those_that_a_client_of_the_daemon_sees(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(driver.programs(own.parent)), prepend=os.pathsep)
    declared, seen, good = mps_limits.look("GPU-0", 143771, 8)
    assert declared == "12 % of the multiprocessors, 17971 MiB"
    assert seen == "14 of 132 multiprocessors; of 143155 MiB 8985 MiB given, 20217 MiB refused"
    assert good


def test_a_daemon_that_limits_nothing_is_seen(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = driver.programs(own.parent)
    (programs / "nvidia-cuda-mps-control").write_text(driver.CONTROL.replace("set_default", "set_nothing"))
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    _, seen, good = mps_limits.look("GPU-0", 143771, 8)
    assert seen == "132 of 132 multiprocessors; of 143155 MiB 8985 MiB given, 20217 MiB given"
    assert not good


def test_a_machine_without_the_daemon_says_so(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del own
    monkeypatch.setattr(mps.shutil, "which", lambda _: None)
    assert mps_limits.look("GPU-0", 143771, 8)[1:] == (
        "nvidia-cuda-mps-control is not on PATH: it comes with the driver (package nvidia-compute-utils or cuda-drivers).",
        False,
    )


# --- what was measured --------------------------------------------------------------------------------------


def test_the_page_has_what_both_plays_on_an_h200_saw() -> None:
    page = measured.PAGE.read_text("utf-8")
    assert page == measured.written(page)


@pytest.mark.parametrize("folder", [measured.FOLDER, measured.TWO], ids=["h200", "two-h100"])
def test_the_documents_are_of_one_machine_whose_settings_stayed(folder: Path) -> None:
    result, evidence, said = (json.loads((folder / f"{name}.json").read_text()) for name in ("result", "evidence", "nvml"))
    uuids = [gpu["uuid"] for gpu in result["machine"]["gpus"]]
    assert [one["uuid"] for one in said["gpus"]] == uuids
    assert all(uuid in json.dumps(evidence) for uuid in uuids)
    assert evidence["verdict"] == "proven"
    assert result["settings"]["before"] == result["settings"]["after"]
    assert [result["settings"]["before"][uuid]["mig"] for uuid in uuids] == [{"current": 0, "pending": 0}] * len(uuids)


@pytest.mark.parametrize(
    ("folder", "key", "gpus"), [(measured.FOLDER, "h200-141gb", 1), (measured.TWO, "h100-80gb", 2)], ids=["h200", "two-h100"]
)
@pytest.mark.parametrize(
    ("sharing", "differ"), [({"exclusive": {}}, []), ({"mig": {"layout": {"SMALLEST": 7}}}, ["mig-not-on"])], ids=["off", "mig"]
)
def test_the_verifier_says_of_its_nvml_what_it_said_there(
    folder: Path, key: str, gpus: int, sharing: dict[str, Any], differ: list[str]
) -> None:
    said = read(Reading, json.loads((folder / "nvml.json").read_text("utf-8")))
    smallest = {"h200-141gb": "1g.18gb", "h100-80gb": "1g.10gb"}[key]
    declared = json.loads(json.dumps(sharing).replace("SMALLEST", smallest))
    expected = nodes.healthy(*nodes.plan_and_pool(declared, key=key, count=gpus)).expected
    findings = Findings()
    # Which driver it had was nobody's declaration.
    compare_gpus(replace(expected, driver=None), said, findings)
    # One finding for each GPU.
    assert [finding.cause.key for finding in findings.differences] == differ * gpus
    assert not findings.unknown
