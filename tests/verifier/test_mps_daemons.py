"""MPS control daemons among the node's processes: the declaration has a place for them, or it has not.

What a list of processes looks like was read on a real H200 (driver 580.159.04): tests/verifier/readings/processes.md says how.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_pools.verifier import mps_daemons
from gpu_pools.verifier.documents import read
from gpu_pools.verifier.findings import Findings, Verdict
from gpu_pools.verifier.mps_daemons import MpsDaemon, NodeProcesses, compare_daemons, read_processes
from gpu_pools.verifier.observation import Observer
from gpu_pools.verifier.reading import Gpu, Process, Reading
from gpu_pools.verifier.sources import Reader
from tests.verifier import nodes

POD = "0f2d5c1e-7a55-4c0e-9d1b-2f1f3b6a9c11"
TENANT = "aaaaaaaa-0000-4000-8000-000000000001"
MPS, EXCLUSIVE, SLICED = {"mps": {"replicas": 4}}, {"exclusive": {}}, {"timeSlicing": {"replicas": 4}}
#: As `export` said it on the H200: a daemon of one's own, idle; the same that serves a client (the list was not read then).
IDLE, SERVED = (json.loads((Path(__file__).parent / "readings" / f"h200-{name}.json").read_text()) for name in ("idle", "mps"))

# Control groups as another container reads them: of containerd with either driver, and of version 1.
CGROUPS = {
    "systemd": f"0::/../../kubepods-besteffort-pod{POD.replace('-', '_')}.slice/cri-containerd-1a2b.scope\n",
    "cgroupfs": f"0::/../../besteffort/pod{POD}/1a2b\n",
    "version 1": f"12:pids:/kubepods/burstable/pod{POD}/1a2b\n1:name=systemd:/kubepods/burstable/pod{POD}/1a2b\n",
}
OUTSIDE = "0::/../../../../system.slice/mps.service\n"
# What mountinfo says of a folder of the node, and of an emptyDir, at the place where MPS has its pipes.
_MOUNT = "700 690 {device} {root} {point} rw,nosuid - ext4 /dev/vda1 rw\n"
POD_FOLDER = f"/var/lib/kubelet/pods/{TENANT}"
VOLUME = f"{POD_FOLDER}/volumes/kubernetes.io~empty-dir/mps"
PIPES = "/tmp/nvidia-mps"  # noqa: S108 - no file


def mount(root: str, point: str, device: str = "0:25") -> str:
    return _MOUNT.format(device=device, root=root, point=point)


OF_THE_NODE = mount(PIPES, PIPES)
OF_THE_POD = mount(VOLUME, PIPES)
ROOT = mount("/", "/")
#: An emptyDir in memory, and a folder of it.
MEMORY, ITS_OWN, ITS_OWN_FOLDER = mount("/", VOLUME, "0:77"), mount("/", PIPES, "0:77"), mount("/sub", PIPES, "0:77")
DATA_OF_THE_NODE = mount("/data", "/data")
#: What the node has mounted: its disk, another disk for the kubelet, the pod's memory, and a folder of it for one container.
NODE_MOUNTS = (
    ROOT
    + mount("/", "/var/lib/kubelet", "8:1")
    + MEMORY
    + mount("/sub", f"{POD_FOLDER}/volume-subpaths/scratch/main/0", "0:77")
    + mount("/", "/srv/mps", "8:9")
)


def run(folder: Path, pid: int, command: str, cgroup: str = OUTSIDE, mounts: str = ROOT) -> None:
    """A process in a list of processes."""
    place = folder / str(pid)
    place.mkdir(parents=True)
    (place / "cmdline").write_text(command.replace(" ", "\0") + "\0")
    (place / "comm").write_text(command.rpartition("/")[2][:15] + "\n")
    (place / "cgroup").write_text(cgroup)
    (place / "mountinfo").write_text(mounts)


def node_s(folder: Path) -> Path:
    """What every node's list has."""
    run(folder, 1, "/sbin/init", mounts=NODE_MOUNTS)
    run(folder, 2, "")
    (folder / "2" / "comm").write_text("kthreadd\n")
    return folder


def compared(sharing: dict[str, Any], found: NodeProcesses, operators: frozenset[str] | None, *on_gpus: Process) -> Findings:
    findings = Findings()
    compare_daemons(nodes.healthy(*nodes.plan_and_pool(sharing)).expected, found, operators, on_gpus, findings)
    return findings


def causes(findings: Findings) -> list[str]:
    return [finding.cause.key for finding in findings.differences]


# --- reading ------------------------------------------------------------------------------------------------


def test_a_daemon_outside_of_every_pod_is_found_and_who_asks_it_is_none(tmp_path: Path) -> None:
    run(node_s(tmp_path), 470, "nvidia-cuda-mps-control -d")
    run(tmp_path, 503, "nvidia-cuda-mps-server")
    run(tmp_path, 469, "")  # the process that started it: it has ended, and nobody has waited for it
    run(tmp_path, 600, "nvidia-cuda-mps-control")
    run(tmp_path, 601, "grep nvidia-cuda-mps-control -d")
    assert read_processes(tmp_path) == NodeProcesses(
        complete=True, daemons=(MpsDaemon(470, "", shared=True), MpsDaemon(503, "", shared=True))
    )


def test_daemons_come_in_the_order_of_their_numbers_and_only_numbers_are_processes(tmp_path: Path) -> None:
    for pid in (470, 9, 10, 1000, 77):
        run(node_s(tmp_path) if pid == 470 else tmp_path, pid, "nvidia-cuda-mps-control -f")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cmdline").write_text("nvidia-cuda-mps-server\0")
    assert [daemon.pid for daemon in read_processes(tmp_path).daemons] == [9, 10, 77, 470, 1000]


def test_what_a_process_is_called_may_be_no_text(tmp_path: Path) -> None:
    run(node_s(tmp_path), 7, "nvidia-cuda-mps-control -d")
    (tmp_path / "7" / "cmdline").write_bytes(b"/\xff/nvidia-cuda-mps-control\0-d\0")
    (tmp_path / "8").mkdir()  # it has ended meanwhile
    assert read_processes(tmp_path) == NodeProcesses(complete=True, daemons=(MpsDaemon(7, "", shared=True),))


@pytest.mark.parametrize("cgroup", CGROUPS.values(), ids=CGROUPS)
def test_the_pod_of_a_daemon_is_told_by_its_control_group(tmp_path: Path, cgroup: str) -> None:
    run(node_s(tmp_path), 7, "/usr/bin/nvidia-cuda-mps-control -f", cgroup, OF_THE_NODE)
    assert read_processes(tmp_path).daemons == (MpsDaemon(7, POD, shared=True),)


IN_A_POD = f"0::/../pod{TENANT}/1a2b\n"


@pytest.mark.parametrize(
    ("mounts", "shared"),
    [
        (ROOT + OF_THE_NODE, True),
        (mount("/", PIPES, "8:9"), True),
        (mount("/deep", PIPES, "8:9"), True),
        (ROOT + OF_THE_POD, False),
        (mount(f"/pods/{TENANT}/volumes/kubernetes.io~empty-dir/mps", PIPES, "8:1"), False),
        (ROOT, False),
        (ITS_OWN, False),
        (ITS_OWN_FOLDER, False),
        (mount("/", PIPES, "0:99"), False),
        (DATA_OF_THE_NODE, False),
        ("", None),
    ],
)
def test_a_pod_s_daemon_is_its_own_unless_its_pipes_are_the_node_s(tmp_path: Path, mounts: str, shared: bool | None) -> None:  # noqa: FBT001
    """By device and path of what is mounted: an emptyDir in memory has a device of its own, with the pod's folder on the node."""
    run(node_s(tmp_path), 7, "nvidia-cuda-mps-control -d", IN_A_POD, mounts)
    (daemon,) = read_processes(tmp_path).daemons
    assert daemon.shared is shared


def test_a_pod_cannot_make_its_node_differ_by_what_its_process_is_called(tmp_path: Path) -> None:
    """Attack: an unprivileged pod starts a program with the arguments of a daemon, and mounts a folder of its own emptyDir in
    memory where MPS has its pipes. No GPU, no folder of the node: no difference.
    """
    run(node_s(tmp_path), 7, "nvidia-cuda-mps-control -d", IN_A_POD, ROOT + ITS_OWN_FOLDER)
    found = read_processes(tmp_path)
    assert compared(EXCLUSIVE, found, None).verdict is Verdict.HOLDS
    (tmp_path / "7" / "comm").write_text("sleep\n")
    assert read_processes(tmp_path).daemons == ()


def test_where_only_the_name_speaks_that_is_a_note(tmp_path: Path) -> None:
    """Neither the pod's mounts nor the node's are to be had."""
    for text in ("", None):
        place = tmp_path / ("empty" if text == "" else "gone")
        run(node_s(place), 7, "nvidia-cuda-mps-control -d", IN_A_POD, "")
        if text is None:
            (place / "7" / "mountinfo").unlink()
        findings = compared(EXCLUSIVE, read_processes(place), None)
        assert findings.verdict is Verdict.HOLDS
        assert f"of pod {TENANT}" in findings.notes[0]
    (tmp_path / "empty" / "1" / "mountinfo").unlink()
    (tmp_path / "empty" / "7" / "mountinfo").write_text(OF_THE_NODE)
    assert read_processes(tmp_path / "empty").daemons == (MpsDaemon(7, TENANT, shared=None),)


def test_a_process_that_ends_meanwhile_was_not_outside_of_every_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: processes that end at once, between the look at their arguments and that at their control group."""
    run(node_s(tmp_path), 7, "nvidia-cuda-mps-control -d", IN_A_POD)
    read = mps_daemons._bytes

    def ends(path: str) -> bytes:
        found = read(path)
        if path == f"{tmp_path}/7/cmdline" and found:
            shutil.rmtree(tmp_path / "7")
        return found

    monkeypatch.setattr(mps_daemons, "_bytes", ends)
    assert read_processes(tmp_path).daemons == ()


def test_a_list_without_the_kernel_is_that_of_a_container(tmp_path: Path) -> None:
    run(tmp_path, 1, "python3 verifier.pyz")
    assert not read_processes(tmp_path).complete
    assert read_processes(tmp_path / "nowhere") == NodeProcesses(complete=False, daemons=())


# --- comparing ----------------------------------------------------------------------------------------------

OUTSIDER = MpsDaemon(470, "", shared=True)
OPERATOR_S = MpsDaemon(4711, POD, shared=True)
TENANT_S = MpsDaemon(900, TENANT, shared=False)


def seen(*daemons: MpsDaemon, complete: bool = True) -> NodeProcesses:
    return NodeProcesses(complete, daemons)


@pytest.mark.parametrize("sharing", [EXCLUSIVE, SLICED, {"mig": {"layout": {"1g.10gb": 7}}}])
@pytest.mark.parametrize("daemon", [OUTSIDER, OPERATOR_S])
def test_where_mps_is_not_declared_every_daemon_of_the_node_is_a_difference(sharing: dict[str, Any], daemon: MpsDaemon) -> None:
    findings = compared(sharing, seen(daemon), frozenset({POD}))
    assert causes(findings) == ["mps-undeclared"]
    (finding,) = findings.differences
    assert str(daemon.pid) in finding.observed
    assert (daemon.pod or "outside of every pod") in finding.observed


def test_a_daemon_beside_the_operator_s_is_a_second_one() -> None:
    assert causes(compared(MPS, seen(OPERATOR_S), frozenset({POD}))) == []
    assert causes(compared(MPS, seen(OPERATOR_S, OUTSIDER), frozenset({POD}))) == ["mps-second"]


def test_each_daemon_is_told_in_these_words() -> None:
    undeclared = compared(EXCLUSIVE, seen(OUTSIDER, OPERATOR_S, TENANT_S), None)
    assert [(str(one.where), one.field, one.expected, one.observed) for one in undeclared.differences] == [
        ("MPS daemon", "control daemons", "none", "process 470 outside of every pod"),
        ("MPS daemon", "control daemons", "none", f"process 4711 of pod {POD}"),
    ]
    assert undeclared.notes == [f"an MPS control daemon serves the pod that it runs in alone (process 900 of pod {TENANT})"]
    (second,) = compared(MPS, seen(OPERATOR_S, OUTSIDER), frozenset({POD})).differences
    assert (str(second.where), second.field, second.expected, second.observed) == (
        "MPS daemon",
        "control daemons",
        "the operator's alone",
        "process 470 outside of every pod",
    )
    unseen = seen(complete=False)
    running = (Process(500, "mps", "client"), Process(501, "mps", None), Process(502, "compute", "nvidia-cuda-mps-server"))
    hidden = compared(EXCLUSIVE, unseen, None, *running, Process(503, "compute", "python3"))
    assert [(str(one.where), one.field, one.expected, one.observed) for one in hidden.differences] == [
        ("MPS daemon", "clients on the GPUs", "none", "500 client, 501 (unnamed), 502 nvidia-cuda-mps-server")
    ]
    assert compared(EXCLUSIVE, unseen, None, Process(503, "compute", "python3")).differences == []


@pytest.mark.parametrize("operators", [None, frozenset()])
def test_where_the_operator_s_is_not_known_none_is_the_second(operators: frozenset[str] | None) -> None:
    assert causes(compared(MPS, seen(OUTSIDER), operators)) == []


@pytest.mark.parametrize("sharing", [EXCLUSIVE, SLICED, MPS])
def test_a_tenant_s_own_daemon_in_its_own_pod_is_a_note(sharing: dict[str, Any]) -> None:
    findings = compared(sharing, seen(TENANT_S), frozenset({POD}))
    assert findings.verdict is Verdict.HOLDS
    assert TENANT in findings.notes[0]


def test_where_the_node_s_processes_cannot_be_seen_that_is_told() -> None:
    assert "not checked" in compared(EXCLUSIVE, seen(complete=False), None).notes[0]
    assert compared(EXCLUSIVE, seen(), None).notes == []


def test_clients_on_a_gpu_count_where_the_node_s_processes_cannot_be_seen() -> None:
    client = Process(500, "mps", "client")
    assert causes(compared(EXCLUSIVE, seen(complete=False), None, client)) == ["mps-undeclared"]
    assert causes(compared(EXCLUSIVE, seen(TENANT_S), None, client)) == []
    assert causes(compared(MPS, seen(complete=False), None, client)) == []


# --- on silicon ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", [EXCLUSIVE, SLICED])
def test_of_an_idle_daemon_only_the_list_of_processes_tells(sharing: dict[str, Any]) -> None:
    idle = read(NodeProcesses, IDLE["processes"])
    assert causes(compared(sharing, idle, None)) == ["mps-undeclared"]
    for recorded, wanted in ((IDLE, []), (SERVED, ["mps-undeclared"])):
        (gpu,) = read(Reading, recorded["nvml"]).gpus  # type: ignore[misc]
        assert isinstance(gpu, Gpu)
        assert isinstance(gpu.processes, tuple)
        assert causes(compared(sharing, seen(complete=False), None, *gpu.processes)) == wanted


# --- the whole way ------------------------------------------------------------------------------------------


@pytest.mark.programs
def test_an_assertion_looks_through_the_node_s_processes(bench: Any, tmp_path: Path) -> None:
    healthy = nodes.healthy(*nodes.plan_and_pool(EXCLUSIVE))
    bench.put(healthy.machine)
    folder = node_s(tmp_path / "processes")

    def held() -> list[str]:
        return causes(Observer(Reader(), None, 0, folder).hold(replace(healthy.expected, node=None)).findings)

    assert held() == []
    run(folder, 470, "nvidia-cuda-mps-control -d")
    assert held() == ["mps-undeclared"]
