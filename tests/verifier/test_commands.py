"""The command line in this process: what each option means, what is printed where, and what is written to the node.

Real are the child process, which says what a test has it say, the node's API as a local server, and everything between.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.verifier import __main__ as program
from gpu_pools.verifier import commands, process, usage, watch
from gpu_pools.verifier.documents import as_json
from gpu_pools.verifier.evidence import ANNOTATION
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.options import SWITCHES, VALUES, Options, read_assert
from gpu_pools.verifier.reading import Reading, Unreadable, failed
from gpu_pools.verifier.sources import Reader
from tests.patience import scaled
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verifier.api_server import ApiServer

PLAN, POOL = nodes.plan_and_pool({"timeSlicing": {"replicas": 4}}, count=2)
HEALTHY = nodes.healthy(PLAN, POOL)
LOST: Any = replace(HEALTHY.nvml, gpus=HEALTHY.nvml.gpus[:1])  # type: ignore[index]
SILENT = replace(HEALTHY.nvml, failure=failed(9, "nvmlInit"))
AS_DECLARED = "pool gpu: the node is as declared (2 readings, the last two equal)\n"
NODE = "/api/v1/nodes/gpu-1"


@pytest.fixture(autouse=True)
def saying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reading], None]:
    """Have NVML say this."""

    def say(reading: Reading) -> None:
        monkeypatch.setattr(process, "_PROGRAM", f"for _ in open(0): print({json.dumps(as_json(reading))!r}, flush=True)")

    say(HEALTHY.nvml)
    return say


@pytest.fixture
def expect(tmp_path: Path) -> Path:
    path = tmp_path / "expectation.json"
    path.write_text(json.dumps(node_expectation(PLAN, POOL)))
    return path


@pytest.fixture(autouse=True)
def _no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "NODE_NAME"):
        monkeypatch.delenv(name, raising=False)


def gpus_only(command: str, expect: Path, *more: object) -> int:
    return program.main([command, "--only", "nvml", "--expect", str(expect), "--pause", "0", *map(str, more)])


# --- options ----------------------------------------------------------------------------------------------

SURROUNDINGS = {
    "only": None,
    "node": None,
    "account": "/var/run/secrets/kubernetes.io/serviceaccount",
    "nvml_seconds": 30.0,
    "processes": "/proc",
    "pause": 1.0,
}
EXPECTATION = {"expect": "e", "expect_sha256": None, "untaint": None, "mark": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "export": SURROUNDINGS,
    "assert": {**SURROUNDINGS, **EXPECTATION, "json": False, "wait": 0.0, "every": 10.0, "termination_log": None},
    "watch": {**SURROUNDINGS, **EXPECTATION, "interval": 300.0, "listen": ("", 9409), "keep": False},
}
GIVEN: dict[str, tuple[list[str], dict[str, Any]]] = {
    "export": (
        ["--only", "nvml", "--node", "n", "--account", "/a", "--nvml-seconds", "2.5", "--processes", "/p", "--pause", "0"],
        {"only": "nvml", "node": "n", "account": "/a", "nvml_seconds": 2.5, "processes": "/p", "pause": 0.0},
    ),
    "assert": (
        [
            "--expect-sha256",
            "ab",
            "--untaint",
            "k",
            "--mark",
            "--json",
            "--wait",
            "5",
            "--every",
            "2",
            "--termination-log",
            "/log",
        ],
        {
            "expect_sha256": "ab",
            "untaint": "k",
            "mark": True,
            "json": True,
            "wait": 5.0,
            "every": 2.0,
            "termination_log": "/log",
        },
    ),
    "watch": (
        ["--interval", "60", "--listen", "[::1]:80", "--keep"],
        {"interval": 60.0, "listen": ("::1", 80), "keep": True},
    ),
}


@pytest.mark.parametrize("command", DEFAULTS)
def test_what_an_option_is_where_it_is_not_given_and_where_it_is(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Options, Reader]] = []
    monkeypatch.setattr(commands, "run_command", lambda options, reader: seen.append((options, reader)) or 7)
    needed = [] if command == "export" else ["--expect", "e"]
    given, changes = GIVEN[command]
    assert program.main([command, *needed]) == 7
    assert program.main([command, *needed, *given]) == 7
    (bare, _), (full, reader) = seen
    assert vars(bare) == {**vars(Options(command)), **DEFAULTS[command]}
    assert vars(full) == {**vars(Options(command)), **DEFAULTS[command], **changes}
    # An assertion's line is read in the plain way, and argparse reads the same out of it.
    if command == "assert":
        for line, options in (([], bare), (given, full)):
            assert vars(usage.parse([command, *needed, *line])) == vars(options)
    assert reader._seconds == full.nvml_seconds
    assert reader._child is None  # it was released


def test_the_node_s_name_comes_from_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "gpu-9")
    monkeypatch.setattr(commands, "run_command", lambda options, _: options.node)
    assert program.main(["export"]) == "gpu-9"


@pytest.mark.parametrize(("text", "address"), [("80", ("", 80)), (":80", ("", 80)), ("10.0.0.1:80", ("10.0.0.1", 80))])
def test_an_address_to_listen_on(text: str, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run_command", lambda options, _: options.listen)
    assert program.main(["watch", "--expect", "e", "--listen", text]) == address


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["export"],
        ["watch", "--expect", "e"],
        ["assert"],
        ["assert", "--mark"],
        ["assert", "--expect"],
        ["assert", "--expect=e"],
        ["assert", "--exp", "e"],
        ["assert", "--expect", "-e"],
        ["assert", "--expect", "e", "--pause", "-1"],
        ["assert", "--expect", "e", "--only", "all"],
        ["assert", "--expect", "e", "--keep"],
        ["assert", "--expect", "e", "more"],
        ["assert", "--expect", "e", "--help"],
    ],
)
def test_what_is_not_plainly_an_assertion_is_left_to_argparse(line: list[str]) -> None:
    assert read_assert(line) is None


def test_both_readers_of_an_assertion_know_the_same_options() -> None:
    holds = usage.parser()._subparsers._group_actions[0].choices["assert"]  # type: ignore[union-attr, index, call-overload]
    known = {one.option_strings[-1]: one.nargs is None for one in holds._actions if one.dest != "help"}
    assert known == {**dict.fromkeys(VALUES, True), **dict.fromkeys(SWITCHES, False)}


@pytest.mark.parametrize("seconds", ["-1", "inf", "nan", "soon"])
def test_what_is_no_time_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["export", "--pause", seconds])
    assert ended.value.code == 2
    assert "--pause" in capsys.readouterr().err


USAGE = {
    "export": "[-h] SURROUNDINGS",
    "assert": "[-h] --expect FILE EXPECTATION [--json] [--wait SECONDS] [--every SECONDS] [--termination-log FILE] SURROUNDINGS",
    "watch": "[-h] --expect FILE EXPECTATION [--interval SECONDS] [--listen [ADDRESS:]PORT] [--keep] SURROUNDINGS",
}


@pytest.mark.parametrize("command", USAGE)
def test_the_help_names_each_option_and_what_it_takes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main([command, "--help"])
    usage, _, _ = capsys.readouterr().out.partition("\n\n")
    surroundings = (
        "[--only {nvml}] [--node NODE] [--account FOLDER] [--nvml-seconds SECONDS] [--processes FOLDER] [--pause SECONDS]"
    )
    wanted = USAGE[command].replace("SURROUNDINGS", surroundings)
    wanted = wanted.replace("EXPECTATION", "[--expect-sha256 HEX] [--untaint KEY] [--mark]")
    assert " ".join(usage.split()) == f"usage: verifier {command} {wanted}"
    assert max(map(len, usage.splitlines())) in range(80, 101) if command != "export" else True


def test_an_interruption_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_command", interrupted)
    assert program.main(["export"]) == 130


# --- assert and export ------------------------------------------------------------------------------------


def test_a_node_as_declared_passes_and_leaves_no_termination_message(
    expect: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpus_only("assert", expect, "--termination-log", tmp_path / "log") == 0
    assert capsys.readouterr() == (AS_DECLARED, "")
    assert not (tmp_path / "log").exists()


def test_a_difference_is_printed_and_left_for_the_kubelet(
    saying: Callable[[Reading], None], expect: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saying(LOST)
    assert gpus_only("assert", expect, "--termination-log", tmp_path / "log") == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("pool gpu: 1 difference after 2 looks\n")
    assert printed.err == ""
    assert (tmp_path / "log").read_text().startswith("pool gpu: 1 difference after 2 looks | Remedy: ")
    assert gpus_only("assert", expect, "--termination-log", tmp_path / "no" / "log") == 1
    assert capsys.readouterr().err == f"{tmp_path}/no/log: cannot be written: No such file or directory\n"


def test_the_report_for_machines_is_the_whole_output(
    saying: Callable[[Reading], None], expect: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saying(LOST)
    assert gpus_only("assert", expect, "--json") == 1
    printed = capsys.readouterr().out
    document = json.loads(printed)
    assert (document["kind"], document["verdict"], document["looks"]) == ("NodeReport", "differs", 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["time"])
    assert printed == json.dumps(document, indent=2) + "\n"


def test_export_prints_what_the_node_is(saying: Callable[[Reading], None], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["export", "--only", "nvml"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert printed == (json.dumps(document, indent=2) + "\n", "")
    assert {**document, "time": "", "processes": None} == {
        "apiVersion": "gpu-pools/v1",
        "kind": "NodeObservation",
        "time": "",
        "nvml": as_json(HEALTHY.nvml),
        "mps": None,
        "node": None,
        "processes": None,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["time"])
    saying(SILENT)
    assert program.main(["export", "--only", "nvml"]) == 2
    assert capsys.readouterr().err == "cannot tell: NVML could not be read\n"


LEAVES_OUT = "--only nvml leaves Kubernetes out."


@pytest.mark.parametrize(
    ("environment", "node", "why"),
    [
        ({}, "gpu-1", "this is not a pod: KUBERNETES_SERVICE_HOST is not set, so the node object cannot be read; "),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            "",
            "NODE_NAME is not set, so the node object cannot be read; ",
        ),
    ],
)
def test_outside_of_a_pod_nothing_can_be_told_of_the_node(
    expect: Path,
    tmp_path: Path,
    environment: dict[str, str],
    node: str,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    log = tmp_path / "log"
    for command in (["assert", "--expect", str(expect), "--termination-log", str(log)], ["export"]):
        assert program.main([*command, "--node", node]) == 2
        assert capsys.readouterr() == ("", f"cannot tell: {why}{LEAVES_OUT}\n")
    assert log.read_text() == f"cannot tell: {why}{LEAVES_OUT}"


def test_an_expectation_that_cannot_be_used_is_told(expect: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {**json.loads(expect.read_text()), "node": None}
    expect.write_text(json.dumps(bare))
    assert program.main(["assert", "--expect", str(expect)]) == 2
    assert capsys.readouterr().err == f"cannot tell: the expectation says nothing of the node object; {LEAVES_OUT}\n"
    assert gpus_only("assert", expect) == 0
    assert gpus_only("assert", expect, "--expect-sha256", "0" * 64) == 2
    assert capsys.readouterr().err.startswith("cannot tell: the expectation cannot be used: W90: ")


# --- what is written to the node --------------------------------------------------------------------------


@pytest.fixture
def pod(answering: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    """The API as a pod of the node sees it, whose node lacks everything but a startup taint."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", answering.api.server.rpartition(":")[2])
    monkeypatch.setenv("NODE_NAME", "gpu-1")
    taints = [{"key": "fresh", "effect": "NoSchedule"}]
    answering.say(f"GET {NODE}", {"metadata": {"labels": {}}, "spec": {"taints": taints}, "status": {}})
    for path in (f"{NODE}/status", NODE):
        answering.say(f"PATCH {path}", {})
    return answering


def held(pod: ApiServer, expect: Path, *more: str) -> int:
    return program.main(["assert", "--expect", str(expect), "--account", str(pod.folder), "--pause", "0", *more])


def changes(pod: ApiServer) -> list[tuple[str, Any]]:
    return [(one.path, one.body) for one in pod.asked if one.method == "PATCH"]


def test_the_verdict_is_written_where_that_is_asked_for(pod: ApiServer, expect: Path) -> None:
    assert held(pod, expect) == 1
    assert changes(pod) == []
    assert held(pod, expect, "--mark") == 1
    ((path, body),) = changes(pod)
    assert (path, body["status"]["conditions"][0]["reason"]) == (f"{NODE}/status", "Differs")
    evidence = json.loads(body["metadata"]["annotations"][ANNOTATION])
    assert (evidence["node"], evidence["program"], evidence["intervalSeconds"]) == ("gpu-1", None, None)
    assert re.fullmatch("[0-9a-f]{64}", evidence["expectation"])


def test_a_verdict_that_cannot_be_written_stays_what_it_is(
    pod: ApiServer, expect: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.say(f"PATCH {NODE}/status", (403, {"message": "no"}))
    assert held(pod, expect, "--mark", "--untaint", "fresh") == 1
    told = f"the condition GpuSharingVerified cannot be written: PATCH {NODE}/status: 403: no\n"
    assert capsys.readouterr().err == told
    assert NODE not in [path for path, _ in changes(pod)]


def test_a_startup_taint_is_taken_from_a_node_that_is_as_declared_and_only_where_that_is_asked_for(
    pod: ApiServer, expect: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands.Observer, "hold", lambda *_: assertion())
    assert held(pod, expect) == 0
    assert changes(pod) == []
    assert held(pod, expect, "--untaint", "fresh") == 0
    assert [path for path, _ in changes(pod)] == [NODE]
    assert capsys.readouterr().err == ""
    pod.say(f"PATCH {NODE}", (403, {"message": "no"}))
    assert held(pod, expect, "--untaint", "fresh") == 0
    assert capsys.readouterr().err == f"the taint fresh cannot be removed: PATCH {NODE}: 403: no\n"


def test_without_the_node_nothing_is_written(expect: Path) -> None:
    assert gpus_only("assert", expect, "--mark", "--untaint", "fresh") == 0


# --- waiting ----------------------------------------------------------------------------------------------


def assertion(*fields: str) -> Assertion:
    findings = Findings()
    for field in fields:
        findings.differs(Where("node"), field, 4, 1, "count-other")
    seen = replace(HEALTHY.kubernetes, taints=("fresh:NoSchedule",))
    return Assertion(findings, Observation(Unreadable("x"), None, seen), 2, 0.5)


class _Time:
    """Time that passes by sleeping and, a little, by asserting."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, []  # type: tuple[float, list[float]]

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.mark.parametrize(
    ("found", "wait", "every", "slept", "waited_for"),
    [
        ([()], 0, 10, [], 0),
        ([("a",)], 0, 10, [], 0),
        ([("a",), ()], 100, 10, [10], 1),
        ([("a",), ("a",), ("b",), ()], 100, 10, [10, 10, 10], 2),
        ([("a",)], 25, 10, [10, 10, 5], 1),
        ([("a",)], 40, 5, [5, 5, 5, 5, 5, 6.25, 7.8125, 0.9375], 1),
    ],
)
def test_an_assertion_that_does_not_hold_is_made_again(
    found: list[tuple[str, ...]],
    wait: float,
    every: float,
    slept: list[float],
    waited_for: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    time, left = _Time(), list(found)
    monkeypatch.setattr(commands, "time", time)
    monkeypatch.setattr(commands, "_now", lambda: "NOW")
    monkeypatch.setattr(commands.Observer, "hold", lambda *_: assertion(*(left.pop(0) if len(left) > 1 else left[0])))
    options = Options("assert")
    options.only, options.pause, options.processes, options.wait, options.every = "nvml", 0, ".", wait, every
    last = commands._hold(options, Reader(), HEALTHY.expected, b"")
    assert [one.field for one in last.findings.differences] == list(found[-1])
    assert time.slept == pytest.approx(slept)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == waited_for
    assert all(line.startswith("NOW waiting: pool gpu, node gpu-1: 1 difference after 2 looks | Remedy") for line in told)


# --- as a program -----------------------------------------------------------------------------------------

PROGRAM = [sys.executable, "-m", "gpu_pools.verifier"]
ROOT = Path(process.__file__).parents[2]


def test_a_program_that_cannot_tell_ends_with_2_and_writes_no_escapes(tmp_path: Path) -> None:
    arguments = ["assert", "--only", "nvml", "--expect", str(tmp_path / "\x1b[31m")]
    assert program.main(arguments) == 2
    done = subprocess.run([*PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=scaled(60))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cannot tell: the expectation cannot be used: ")
    assert "\\x1b[31m" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_program_that_is_told_to_end_does_so_at_once_and_gives_no_verdict(expect: Path, number: int, code: int) -> None:
    assert gpus_only("assert", expect) == 0
    command = [*PROGRAM, "assert", "--only", "nvml", "--expect", str(expect), "--pause", "0", "--wait", "600", "--every", "600"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr
        assert "waiting: pool gpu: " in waiting.stderr.readline()
        waiting.send_signal(number)
        try:
            assert waiting.communicate(timeout=scaled(60)) == ("", "")
        finally:
            # Nobody waits for one that does not hear.
            waiting.kill()
    assert waiting.returncode == code


# --- watch ------------------------------------------------------------------------------------------------


def test_watch_serves_what_it_asserts_writes_it_and_follows_the_node(
    pod: ApiServer,
    expect: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    seen: list[Any] = []

    def once(watcher: watch.Watcher) -> None:
        watcher.assert_once()
        port = int(caplog.records[0].getMessage().removeprefix("listening on port "))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/metrics")
        seen.extend([watcher, connection.getresponse().status])
        connection.close()

    followed: list[Any] = []
    monkeypatch.setattr(watch.Watcher, "run", once)
    monkeypatch.setattr(watch, "follow", lambda *what: followed.append(what))
    command = ["watch", "--expect", str(expect), "--account", str(pod.folder), "--pause", "0", "--nvml-seconds", "25"]
    assert program.main([*command, "--interval", "60", "--listen", "127.0.0.1:0", "--mark", "--untaint", "fresh"]) == 0
    watcher, status = seen
    assert status == 200
    assert (watcher._interval, watcher._stale_seconds) == (60.0, 2 * 60 + 2 * 25 + 300)
    ((node, wake),) = followed
    assert (node.name, wake) == ("gpu-1", watcher.wake)
    ((_, body),) = changes(pod)
    assert json.loads(body["metadata"]["annotations"][ANNOTATION])["intervalSeconds"] == 60.0
    assert watcher.untaint(assertion()) is None
    assert [path for path, _ in changes(pod)] == [f"{NODE}/status", NODE]


def test_watch_of_the_gpus_alone_writes_and_follows_nothing(expect: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts: list[Any] = []
    monkeypatch.setattr(
        watch.Watcher, "run", lambda watcher: verdicts.append(watcher.assert_once().assertion.findings.verdict.text)
    )
    monkeypatch.setattr(watch, "follow", lambda *_: pytest.fail("followed"))
    assert gpus_only("watch", expect, "--mark", "--untaint", "fresh", "--listen", "127.0.0.1:0") == 0
    assert verdicts == ["holds"]


def test_an_address_that_cannot_be_had_is_told(expect: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpus_only("watch", expect, "--listen", "192.0.2.1:9409") == 2
    assert capsys.readouterr().err == "cannot tell: cannot listen on 192.0.2.1:9409: Cannot assign requested address\n"


def _untainting() -> Options:
    options = Options("assert")
    options.untaint = "gpu-pools/unproven"
    return options


def test_without_kubernetes_no_taint_is_taken_away() -> None:
    assert commands._untainter(_untainting(), None) is None
