"""The program as it is shipped: one file, its exit codes, what it prints, and what it serves."""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.cli.main import main as plan_command
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_start import start_command
from gpu_pools.verifier import __main__ as program
from gpu_pools.verifier import archive, start
from gpu_pools.verifier.archive import part_of
from gpu_pools.verifier.causes import CAUSES
from gpu_pools.verifier.commands import _pause
from gpu_pools.verifier.documents import as_json
from gpu_pools.verifier.evidence import own_digest
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.metrics import metrics
from gpu_pools.verifier.names import moment
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.report import MOST_TERMINATION_BYTES, report, termination_message, text
from sandbox.nvml import simulated
from sandbox.system.patience import Patience
from tests.patience import scaled
from tests.unit.stacks import aks
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.verifier.conftest import Bench

programs = pytest.mark.programs
#: What takes longer to load than to read a GPU.
HEAVY = frozenset(
    (
        *("http.client", "ssl", "subprocess", "logging", "hashlib", "zipfile", "shutil", "typing", "dataclasses", "inspect"),
        *("re", "enum", "json", "argparse", "pathlib", "signal"),
        *(f"verifier.{name}" for name in ("api", "node", "mps", "causes", "watch", "usage", "metrics", "moments")),
    )
)
#: Of what an assertion loads that of the process that reads NVML.
IN_THE_CHILD = frozenset({"serve", "nvml", "nvml_calls"})
SEVEN = {"mig": {"layout": {"1g.10gb": 7}}}
LONGEST_WAIT = 60


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verifier") / "verifier.pyz"
    assert archive.main([str(path), "--changer", str(path.with_name("changer.pyz"))]) == 0
    return path


@pytest.fixture
def expect(tmp_path: Path) -> Path:
    path = tmp_path / "expectation.json"
    path.write_text(json.dumps(node_expectation(*nodes.plan_and_pool(SEVEN))))
    return path


def healthy() -> nodes.Node:
    return nodes.healthy(*nodes.plan_and_pool(SEVEN))


def broken(machine: simulated.Machine) -> simulated.Machine:
    known = machine.gpus[0].mig
    assert known
    return replace(machine, gpus=(replace(machine.gpus[0], mig=replace(known, instances=())),))


def run(pyz: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The file, by a Python that has nothing else to import."""
    command = [sys.executable, "-I", "-S", str(pyz), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=scaled(LONGEST_WAIT))


# --- the file ---------------------------------------------------------------------------------------------


def test_the_file_fits_a_config_map_and_is_the_same_each_time(pyz: Path) -> None:
    content = pyz.read_bytes()
    assert len(content) < archive.MOST_BYTES
    assert content == archive.archive() == archive.archive()
    assert archive.digest() == archive.digest()


def test_the_file_holds_the_verifier_pynvml_and_its_licence_and_nothing_else() -> None:
    packed = zipfile.ZipFile(BytesIO(archive.archive()))
    names = packed.namelist()
    assert names == sorted(names)
    sources = {name for name in names if name.endswith(".py")}
    asserted = {"__main__.py", "pynvml.py", *(f"verifier/{module}.py" for module in archive.ASSERTED)}
    assert set(names) == sources | {f"{name}c" for name in asserted} | {"verifier/causes.json"}
    assert asserted <= sources
    assert {name.partition("/")[0] for name in sources} == {"__main__.py", "pynvml.py", "verifier"}
    assert not {"gpu_pools/verifier/archive.py"} & sources
    assert "Redistributions of source code must retain the above copyright" in packed.read("pynvml.py").decode()
    assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_what_goes_to_the_nodes_does_not_say_where_the_package_lies_here() -> None:
    packed = zipfile.ZipFile(BytesIO(archive.archive()))
    for name in packed.namelist():
        if name.startswith("verifier/") and name.endswith(".py"):
            assert not re.search(r"^\s*(?:from|import) verifier\b", packed.read(name).decode(), re.MULTILINE), name


def rebuilt(pyz: Path, path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The file with other entries."""
    with zipfile.ZipFile(pyz) as before, zipfile.ZipFile(path, "w") as after:
        for name in before.namelist():
            after.writestr(name, change(name, before.read(name)))
    return path


def test_bytecode_is_used_where_it_is_that_of_the_source(pyz: Path, tmp_path: Path) -> None:
    def reworded(name: str, content: bytes) -> bytes:
        return content.replace(b"cannot tell: {error}", b"unknown: {error}") if name == "verifier/commands.py" else content

    path = rebuilt(pyz, tmp_path / "reworded.pyz", reworded)
    for choice, words in (("never", "cannot tell: "), ("default", "unknown: ")):
        command = [sys.executable, "-I", "-S", "--check-hash-based-pycs", choice, str(path), "assert", "--expect", "/nowhere"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=scaled(LONGEST_WAIT))
        assert done.stderr.startswith(words)


@programs
def test_a_python_of_another_version_takes_the_sources(pyz: Path, bench: Bench, expect: Path, tmp_path: Path) -> None:
    def of_another_version(name: str, content: bytes) -> bytes:
        return b"\x00\x00\r\n" + content[4:] if name.endswith(".pyc") else content

    bench.put(healthy().machine)
    path = rebuilt(pyz, tmp_path / "other.pyz", of_another_version)
    done = run(path, "assert", "--only", "nvml", "--expect", expect, "--pause", 0)
    assert (done.returncode, done.stderr) == (0, "")


MODULE = '''\
# Licence.
"""A text."""
import os
from ctypes import *
from sys import argv as words, path

A = 1
B, C = A, 2
D = lambda: E


class Base: ...


@wraps(B)
class Used(Base):
    def method(self):
        return D, words


def unused():
    return A, os


E = F = 3
register()


def register():
    pass
'''


def test_the_part_of_a_module_is_what_the_wanted_names_need_unchanged() -> None:
    part = part_of(MODULE, lambda name: name == "Used")
    assert part.startswith("# Licence.\nfrom ctypes import *\nfrom sys import argv as words, path\n")
    for kept in ("A = 1", "B, C = A, 2", "D = lambda: E", "class Base: ...", "E = F = 3", "register()", "def register():"):
        assert kept in part
    assert "@wraps(B)\nclass Used(Base):\n    def method(self):\n        return D, words\n" in part
    assert "unused" not in part
    assert "import os" not in part
    assert '"""' not in part


@programs
def test_the_file_reads_what_the_whole_pynvml_reads(pyz: Path, bench: Bench) -> None:
    shared = simulated.Process(7, 100, "/usr/bin/python3", "compute", 1, 0)
    machine = healthy().machine
    for one in (
        replace(machine, gpus=(replace(machine.gpus[0], processes=(shared,)),)),
        nodes.healthy(*nodes.plan_and_pool({"mps": {"replicas": 4}}, key="h100-80gb", count=2)).machine,
        nodes.healthy(*nodes.plan_and_pool({"exclusive": {}}, key="t4-16gb")).machine,
        replace(machine, faults=(simulated.Fault("nvmlDeviceGet[A-M]*", error=999),)),
        replace(machine, faults=(simulated.Fault("nvmlInit*", error=18),)),
    ):
        bench.put(one)
        assert json.loads(run(pyz, "export", "--only", "nvml").stdout)["nvml"] == as_json(bench.read())


# --- export and assert ------------------------------------------------------------------------------------


@programs
def test_a_node_that_is_as_declared_exits_with_0(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(healthy().machine)
    done = run(pyz, "assert", "--only", "nvml", "--expect", expect, "--pause", 0)
    assert done.returncode == 0, done.stdout
    assert done.stdout == "pool gpu: the node is as declared (2 readings, the last two equal)\n"
    assert done.stderr == ""


@programs
def test_who_asserts_the_gpus_alone_waits_for_nothing_else_to_load(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(healthy().machine)
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(pyz), "assert", "--only", "nvml", "--expect", str(expect)]
    done = subprocess.run([*command, "--pause", "0"], capture_output=True, text=True, check=True, timeout=scaled(LONGEST_WAIT))
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "verifier.compare_gpus" in loaded
    assert not loaded & {*HEAVY, "pynvml", "ctypes"}
    ours = {name.removeprefix("verifier.") for name in loaded if name.startswith("verifier.")}
    assert ours == {*archive.ASSERTED} - {"__init__"} - IN_THE_CHILD


@programs
def test_who_reads_nvml_waits_for_nothing_else_to_load(pyz: Path, bench: Bench) -> None:
    bench.put(healthy().machine)
    said = "import sys; from verifier.serve import serve; print(*sys.modules, file=sys.stderr, flush=True); serve()"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(pyz)!r}); {said}"]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, check=True, timeout=scaled(LONGEST_WAIT))
    loaded = set(done.stderr.split())
    assert not loaded & HEAVY
    reading = IN_THE_CHILD | {"names"}
    assert {name for name in loaded if name.startswith("verifier.")} == {f"verifier.{name}" for name in reading}
    assert "pynvml" in loaded
    assert json.loads(done.stdout.splitlines()[-1])["driver"] == nodes.DRIVER


@programs
def test_who_watches_loads_nothing_that_changes_nodes(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(healthy().machine)
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(pyz), "watch", "--only", "nvml", "--expect", str(expect)]
    loaded = set()
    with subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stderr
        for line in watch.stderr:
            if line.startswith("listening"):
                break
            loaded.add(line.rpartition("|")[2].strip())
        watch.terminate()
        watch.communicate(timeout=scaled(LONGEST_WAIT))
    ours = {name.removeprefix("verifier.") for name in loaded if name.startswith("verifier.")}
    # It serves HTTP and knows the client of the API by its errors; MPS, causes and the marks of nodes come when they are needed.
    assert ours == ({*archive.ASSERTED} - {"__init__"} - IN_THE_CHILD) | {"api", "deadline", "metrics", "usage", "watch"}


def test_the_verifier_s_file_has_nothing_that_changes_nodes_and_the_other_file_nothing_else(pyz: Path) -> None:
    verifier, changer = (set(zipfile.ZipFile(path).namelist()) for path in (pyz, pyz.with_name("changer.pyz")))
    assert not {name for name in verifier if "changer/" in name}
    sources = {f"verifier/changer/{path.name}" for path in (Path(archive.__file__).parent / "changer").glob("*.py")}
    assert changer == sources
    assert {"verifier/changer/change.py", "verifier/changer/commands.py", "verifier/changer/__init__.py"} < sources


def test_the_causes_are_data_in_the_verifier_s_file_and_part_of_its_digest(pyz: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(pyz) as packed:
        assert packed.read("verifier/causes.json") == (Path(archive.__file__).parent / "causes.json").read_bytes()
        entries = {name: packed.read(name) for name in packed.namelist()}
    assert own_digest(pyz) == archive.digest()
    entries["verifier/causes.json"] += b" "
    with zipfile.ZipFile(tmp_path / "other.pyz", "w") as other:
        for name, content in entries.items():
            other.writestr(name, content)
    assert own_digest(tmp_path / "other.pyz") != archive.digest()


def test_programs_of_hook_jobs_are_in_neither_file(pyz: Path) -> None:
    programs = {path.name for path in (Path(archive.__file__).parent / "hook_programs").glob("*.py")}
    assert {"leave_program.py", "cleanup_program.py"} < programs
    for file in (pyz, pyz.with_name("changer.pyz")):
        names = zipfile.ZipFile(file).namelist()
        assert [name for name in names if "hook_programs" in name or Path(name).name in programs - {"__init__.py"}] == []


def test_who_changes_nodes_loads_all_of_the_second_file_and_says_where_it_is_missing(pyz: Path, expect: Path) -> None:
    changer = pyz.with_name("changer.pyz")
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (pyz, changer)]
    line = ["--expect", str(expect), "--drain", "1", "--staying", "wait", "--wait", "1", "--turns", "1", "--turns-in", "n"]
    said: dict[int, str] = {}
    for added in ([(str(changer), sums[1])], []):
        python, *command = start_command(str(pyz), sums[0], "/dev/null", added)
        traced = [sys.executable, "-X", "importtime", *command, "change", *line, "--only", "nvml"]
        done = subprocess.run(traced, capture_output=True, text=True, check=False, timeout=scaled(LONGEST_WAIT))
        assert (python, done.returncode) == ("python3", 2)
        said[len(added)] = done.stderr
    assert "leave --only out" in said[1]
    loaded = {one.rpartition("|")[2].strip() for one in said[1].splitlines()}
    names = {name.removesuffix(".py").replace("/", ".") for name in zipfile.ZipFile(changer).namelist()}
    assert {name.removesuffix(".__init__") for name in names} == {one for one in loaded if one.startswith("verifier.changer")} - {
        "verifier.changer_file"
    }
    assert not loaded & {"verifier.watch", "verifier.metrics", "verifier.untaint", "verifier.evidence"}
    assert "put changer.pyz on Python's path" in said[0]
    assert "Traceback" not in said[0]


@programs
def test_a_node_that_differs_exits_with_1_and_says_what_why_and_what_to_do(
    pyz: Path, bench: Bench, expect: Path, tmp_path: Path
) -> None:
    bench.put(broken(healthy().machine))
    log = tmp_path / "termination-log"
    done = run(pyz, "assert", "--only", "nvml", "--expect", expect, "--pause", 0, "--termination-log", log)
    assert done.returncode == 1
    uuid = healthy().machine.gpus[0].uuid
    for where in (done.stdout, log.read_text()):
        assert f"GPU 0 ({uuid}): MIG instances is none, expected 7x 1g.10gb" in where
        assert CAUSES["mig-empty"].text in where
        assert CAUSES["mig-empty"].remedy in where
    assert "\n" not in log.read_text()


@programs
def test_the_verdict_is_kept_where_the_termination_log_cannot_be_written(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(broken(healthy().machine))
    done = run(pyz, "assert", "--only", "nvml", "--expect", expect, "--pause", 0, "--termination-log", "/nonexistent/log")
    assert done.returncode == 1
    assert done.stderr == "/nonexistent/log: cannot be written: No such file or directory\n"


def test_a_defect_of_the_verifier_is_no_difference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken_main(**_: object) -> int:
        message = "a defect"
        raise KeyError(message)

    monkeypatch.setattr(program, "main", broken_main)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert program.run() == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "a defect" in capsys.readouterr().err


def test_where_no_process_can_be_started_nothing_can_be_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object, **__: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert start.run() == 2
    assert "cannot tell: no process can be started: Resource temporarily unavailable" in capsys.readouterr().err
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@programs
def test_a_verdict_that_nobody_takes_is_none(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(healthy().machine)
    command = [sys.executable, str(pyz), "assert", "--only", "nvml", "--expect", str(expect), "--pause", "0"]
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run(command, stdout=full, check=False, timeout=scaled(LONGEST_WAIT)).returncode == 2


@programs
def test_a_defect_of_the_process_that_reads_is_told(pyz: Path, bench: Bench, expect: Path, tmp_path: Path) -> None:
    def broken_pynvml(name: str, content: bytes) -> bytes:
        return b'raise ImportError("a defect")' if name == "pynvml.py" else content

    bench.put(healthy().machine)
    path = rebuilt(pyz, tmp_path / "defect.pyz", broken_pynvml)
    done = run(path, "assert", "--only", "nvml", "--expect", expect, "--pause", 0)
    assert (done.returncode, done.stderr) == (2, "")
    assert "the process that reads NVML ended with exit code 1" in done.stdout
    assert "ImportError: a defect" in done.stdout


@programs
def test_a_caller_may_have_closed_the_standard_streams(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(healthy().machine)
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, str(pyz)]
        command += ["assert", "--only", "nvml", "--expect", str(expect), "--pause", "0"]
        assert subprocess.run(command, check=False, timeout=scaled(LONGEST_WAIT), capture_output=True).returncode == 0, closed


@programs
def test_the_report_for_machines(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(broken(healthy().machine))
    done = run(pyz, "assert", "--only", "nvml", "--expect", expect, "--pause", 0, "--json")
    document = json.loads(done.stdout)
    assert (document["kind"], document["verdict"]) == ("NodeReport", "differs")
    (difference,) = document["differences"]
    assert (difference["gpu"], difference["expected"], difference["observed"]) == (0, {"1g.10gb": 7}, {})
    assert "R01" in difference["incidents"]
    assert document["observed"]["nvml"]["driver"] == nodes.DRIVER


@programs
def test_waiting_ends_as_soon_as_the_node_is_right(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(broken(healthy().machine))
    command = [sys.executable, str(pyz), "assert", "--only", "nvml", "--expect", str(expect)]
    command += ["--pause", "0", "--wait", str(LONGEST_WAIT), "--every", "0.2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr
        assert "waiting: pool gpu: 1 difference" in waiting.stderr.readline()
        bench.put(healthy().machine)
        out, _ = waiting.communicate(timeout=scaled(LONGEST_WAIT))
        assert waiting.returncode == 0
        assert "as declared" in out


def test_waiting_asks_less_often_the_longer_nothing_has_changed() -> None:
    assert [_pause(5, waited) for waited in (0, 20, 60, 1000)] == [5, 5, 15, 30]
    assert _pause(60, 1000) == 60


@programs
def test_export_says_what_the_node_is(pyz: Path, bench: Bench) -> None:
    bench.put(healthy().machine)
    done = run(pyz, "export", "--only", "nvml")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["kind"] == "NodeObservation"
    assert len(document["nvml"]["gpus"][0]["instances"]) == 7


@programs
def test_export_of_a_node_whose_driver_is_away_exits_with_2(pyz: Path, bench: Bench) -> None:
    bench.put(replace(healthy().machine, faults=(simulated.Fault("nvmlInit*", error=9),)))
    done = run(pyz, "export", "--only", "nvml")
    assert done.returncode == 2
    assert json.loads(done.stdout)["nvml"]["failure"]["error"] == "DRIVER_NOT_LOADED"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("assert", "--only", "nvml", "--expect", "/nonexistent"), "cannot be read"),
        (("assert", "--expect", "EXPECT"), "--only nvml leaves Kubernetes out"),
        (("watch", "--expect", "EXPECT"), "--only nvml leaves Kubernetes out"),
        (("export",), "KUBERNETES_SERVICE_HOST is not set"),
        (("assert",), "--expect"),
        ((), "command"),
        (("assert", "--expect", "EXPECT", "--pause", "-1"), "--pause"),
    ],
)
def test_a_wrong_call_exits_with_2_and_says_why(
    pyz: Path, expect: Path, arguments: tuple[str, ...], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "NODE_NAME"):
        monkeypatch.delenv(name, raising=False)
    done = run(pyz, *(str(expect) if argument == "EXPECT" else argument for argument in arguments))
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_why_nothing_could_be_told_reaches_the_termination_message(pyz: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("{}")
    log = tmp_path / "log"
    done = run(pyz, "assert", "--only", "nvml", "--expect", tmp_path / "wrong.json", "--termination-log", log)
    assert done.returncode == 2
    assert log.read_text().startswith("cannot tell: the expectation cannot be used")


@programs
def test_an_interrupted_run_exits_as_programs_do(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(broken(healthy().machine))
    command = [sys.executable, str(pyz), "assert", "--only", "nvml", "--expect", str(expect), "--wait", "600", "--every", "600"]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr
            assert "waiting" in waiting.stderr.readline()
            waiting.send_signal(number)
            _, complaint = waiting.communicate(timeout=scaled(LONGEST_WAIT))
            assert (waiting.returncode, complaint) == (code, "")


def test_the_document_can_be_had_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "Pulumi.x.yaml"
    pools = [{"name": name, "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"} for name in ("a", "b")]
    stack.write_text(aks(pools=pools))
    assert plan_command(["expect", str(stack), "b"]) == 0
    assert json.loads(capsys.readouterr().out)["pool"] == "b"
    for arguments, word in ((["expect", str(stack)], "name one of the pools"), (["expect", str(stack), "c"], '"c"')):
        assert plan_command(arguments) == 2
        assert word in capsys.readouterr().err
    stack.write_text("config: {}")
    assert plan_command(["expect", str(stack), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["errors"]


# --- words ------------------------------------------------------------------------------------------------


def assertion(findings: Findings) -> Assertion:
    return Assertion(findings, Observation(healthy().nvml, None, None), looks=2, seconds=0.5)


def test_a_termination_message_is_one_line_that_fits_with_the_most_important_first() -> None:
    findings = Findings()
    for index in range(16):
        findings.differs(
            Where(f"GPU {index}", index, f"GPU-{index}"), "MIG instances", {"1g.10gb": 7}, {"3g.40gb": 2}, "mig-layout"
        )
    findings.differs(Where("GPU 7", 7, "GPU-7"), "uuid", "an answer", "line\nbreak", "gpu-lost", "ü" * 500)
    message = termination_message(healthy().expected, assertion(findings))
    assert "\n" not in message
    assert len(message.encode()) <= MOST_TERMINATION_BYTES
    assert message.index("fell off the bus") < message.index("MIG instances")
    assert message.endswith("more]")


def test_a_termination_message_begins_with_the_node_and_what_to_do_and_ends_with_where_to_look() -> None:
    findings = Findings()
    findings.differs(Where("nvidia.com/gpu"), "allocatable", 8, 4, "count-other")
    findings.differs(Where("pod gpu-operator/plugin"), "ready", "ready", "CrashLoopBackOff", "config-wedged", "written 91 s ago")
    seen = Observation(healthy().nvml, None, healthy().kubernetes)
    for most in (MOST_TERMINATION_BYTES, 1024, 600):
        message = termination_message(healthy().expected, Assertion(findings, seen, looks=2, seconds=0.5), most)
        assert message.startswith("pool gpu, node gpu-1: 2 differences after 2 looks | Remedy: Delete this pod")
        assert "the operand is stuck on a key" in message
        assert "seen: pod gpu-operator/plugin: ready is CrashLoopBackOff, expected ready (written 91 s ago)" in message
        assert message.endswith(" | Look at: kubectl describe node gpu-1")
        assert len(message.encode()) <= most
    assert "[+1 more]" in message


def test_a_message_without_findings_says_that_all_is_well() -> None:
    assert "as declared" in termination_message(healthy().expected, assertion(Findings()))


def test_what_cannot_be_told_is_told_beside_differences() -> None:
    findings = Findings()
    findings.cannot_tell(Where("pods"), "answer of the API", "200", "403", "api-permission")
    words = text(healthy().expected, assertion(findings))
    assert words.startswith("pool gpu: cannot tell")
    assert "a defect of the verifier's pod" in words
    findings.differs(Where("node"), "GPU count", 8, 7, "gpu-missing")
    document = report(healthy().expected, assertion(findings), at="now")
    assert (document["verdict"], len(document["differences"]), len(document["cannotTell"])) == ("differs", 1, 1)


def everything() -> Assertion:
    """A node of which there is something to tell of each kind."""
    findings = Findings()
    made = "made\x1b[31m by hand"
    findings.differs(Where("node"), "taints", ["a", {"b": 1}], 4, "count-other")
    findings.differs(Where("GPU 0", 0, "GPU-0"), "MIG instances", {"3g.40gb": 1, "1g.10gb": 7}, {}, "mig-empty", made)
    findings.cannot_tell(Where("pods"), "answer of the API", "200", "403", "api-permission")
    findings.note("a\nnote")
    return Assertion(findings, Observation(healthy().nvml, None, healthy().kubernetes), looks=1, seconds=0.12345)


def test_the_same_findings_are_told_to_people_to_the_kubelet_and_to_prometheus_in_these_words() -> None:
    expected = healthy().expected
    undecided = Findings()
    undecided.cannot_tell(Where("pods"), "answer of the API", "200", "403", "api-permission")
    told = [
        text(expected, everything()),
        termination_message(expected, everything()),
        metrics(expected, everything(), finished=1.23456, runs=3),
        text(expected, assertion(Findings())),
        termination_message(expected, replace(everything(), findings=Findings())),
        termination_message(expected, assertion(undecided)),
    ]
    assert "\n----\n".join(told) == (Path(__file__).parent / "words.txt").read_text(encoding="utf-8")


def test_a_report_for_machines_has_each_finding_whole() -> None:
    document = report(healthy().expected, everything(), at="now")
    (first, _), (unknown,) = document.pop("differences"), document.pop("cannotTell")
    assert document == {
        "apiVersion": "gpu-pools/v1",
        "kind": "NodeReport",
        "pool": "gpu",
        "time": "now",
        "verdict": "differs",
        "looks": 1,
        "seconds": 0.123,
        "notes": ["a\nnote"],
        "observed": everything().observation.as_json(),
    }
    cause = CAUSES["mig-empty"]
    assert first == {
        "subject": "GPU 0",
        "gpu": 0,
        "uuid": "GPU-0",
        "field": "MIG instances",
        "expected": {"3g.40gb": 1, "1g.10gb": 7},
        "observed": {},
        "detail": "made\x1b[31m by hand",
        "cause": "mig-empty",
        "rank": cause.rank,
        "likelyCause": cause.text,
        "remedy": cause.remedy,
        "incidents": list(cause.incidents),
    }
    assert (unknown["cause"], unknown["gpu"], unknown["uuid"]) == ("api-permission", None, None)
    assert json.loads(json.dumps(document)) == document


def test_a_message_that_just_fits_is_whole_and_one_byte_less_cuts_it() -> None:
    expected = healthy().expected
    whole = termination_message(expected, everything(), 10_000)
    # Room is kept for what would be told of the last one, had it not fitted.
    room = len(whole.encode()) + len(" [+1 more]")
    assert termination_message(expected, everything(), room) == whole
    assert " [+1 more] | Look at" in termination_message(expected, everything(), room - 1)


def test_a_moment_is_told_as_kubernetes_writes_it() -> None:
    assert moment(nodes.STARTED_SECONDS) == nodes.STARTED
    assert moment(0) == "1970-01-01T00:00:00Z"
    assert abs(time.mktime(time.strptime(moment(), "%Y-%m-%dT%H:%M:%SZ")) - time.mktime(time.gmtime())) < 60


# --- watch ------------------------------------------------------------------------------------------------


@contextmanager
def watching(pyz: Path, expect: Path, *options: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """(port, program)."""
    command = [sys.executable, str(pyz), "watch", "--only", "nvml", "--expect", str(expect), "--pause", "0"]
    command += ["--interval", "0.2", "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watch:
        try:
            assert watch.stderr
            yield int(watch.stderr.readline().removeprefix("listening on port ")), watch
        finally:
            watch.terminate()
            watch.communicate(timeout=scaled(LONGEST_WAIT))


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled(LONGEST_WAIT))
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def until(port: int, path: str, status: int) -> str:
    """Ask until that status comes."""
    end = Patience(LONGEST_WAIT)
    answer: Any = None
    while not end.is_over():
        answer = get(port, path)
        if answer[0] == status:
            return str(answer[1])
        time.sleep(0.1)
    pytest.fail(f"{path}: {answer}")


@programs
def test_watch_serves_the_last_result_and_follows_the_node(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(broken(healthy().machine))
    with watching(pyz, expect) as (port, watch):
        assert 'gpu_pools_differences{pool="gpu",cause="mig' in until(port, "/metrics", 200)
        # To whoever reaches the port nothing is said of the node.
        assert "MIG instances" not in until(port, "/readyz", 503)
        assert get(port, "/report")[0] == 404
        assert get(port, "/healthz") == (200, "ok\n")
        bench.put(healthy().machine)
        assert until(port, "/readyz", 200) == "ok\n"
        assert 'gpu_pools_verdict{pool="gpu",verdict="holds"} 1' in get(port, "/metrics?x=1")[1]
        assert 'gpu_pools_verified{pool="gpu"} 1' in get(port, "/metrics")[1]
        assert get(port, "/other")[0] == 404
        watch.terminate()
        _, said = watch.communicate(timeout=scaled(LONGEST_WAIT))
        assert watch.returncode == 143
        assert [line for line in said.splitlines() if "MIG instances" in line or "as declared" in line] == said.splitlines()


@programs
def test_a_hung_driver_blocks_no_probe_and_is_told(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(replace(healthy().machine, faults=(simulated.Fault("nvmlDeviceGetName", hang_seconds=3600),)))
    with watching(pyz, expect, "--nvml-seconds", "2") as (port, _):
        assert until(port, "/healthz", 200) == "ok\n"
        assert 'cause="nvml-hang"' in until(port, "/metrics", 200)
        assert get(port, "/readyz")[0] == 503


@pytest.mark.sweep
@programs
def test_attack_holding_connections_open_keeps_no_probe_out(pyz: Path, bench: Bench, expect: Path) -> None:
    """Open many connections and say nothing: one address gets a few threads, and another one is still answered."""
    bench.put(healthy().machine)
    with watching(pyz, expect, "--listen", ":0") as (port, watch), ExitStack() as held:
        until(port, "/readyz", 200)
        for _ in range(200):
            one = socket.create_connection(("127.0.0.2", port), timeout=scaled(LONGEST_WAIT), source_address=("127.0.0.3", 0))
            held.enter_context(one)
        threads = len(list(Path(f"/proc/{watch.pid}/task").iterdir()))
        assert threads < 16
        assert get(port, "/readyz")[0] == 200
        # And the places of those that say nothing come back.
        time.sleep(6)
        connection = http.client.HTTPConnection("127.0.0.2", port, timeout=scaled(LONGEST_WAIT), source_address=("127.0.0.3", 0))
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()


@programs
def test_watch_says_when_it_cannot_listen(pyz: Path, bench: Bench, expect: Path) -> None:
    bench.put(healthy().machine)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(pyz, "watch", "--only", "nvml", "--expect", expect, "--listen", address)
    assert done.returncode == 2
    assert address in done.stderr


def test_attack_another_expectation_under_the_same_name_is_not_asserted(pyz: Path, tmp_path: Path) -> None:
    """Replace the document that is mounted by a weaker one: the pod's own spec says which one is meant."""
    weaker = tmp_path / "expectation.json"
    weaker.write_text("{}")
    done = run(pyz, "assert", "--only", "nvml", "--expect", weaker, "--expect-sha256", "0" * 64)
    assert done.returncode == 2
    assert "W90" in done.stderr
    assert "not the one that was deployed" in done.stderr
