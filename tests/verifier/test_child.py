"""The process that reads NVML, as its parent has it: real processes, which say here what a test has them say."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier import process, sources
from gpu_pools.verifier.documents import as_json
from gpu_pools.verifier.process import Process
from gpu_pools.verifier.reading import Hung, Reading, Unreadable
from gpu_pools.verifier.sources import Reader
from tests.patience import scaled
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEALTHY = nodes.healthy(*nodes.plan_and_pool({"exclusive": {}})).nvml
ANSWER = json.dumps(as_json(HEALTHY))
#: Answers each question, after the name of a call.
ANSWERS = f"for _ in open(0): print('nvmlInit', flush=True); print({ANSWER!r}, flush=True)"
LONG = 30.0


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def saying(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have the process run another program."""
    return lambda program: monkeypatch.setattr(process, "_PROGRAM", program)


@pytest.fixture(autouse=True)
def _no_file_stays_open() -> Iterator[None]:
    before = open_files()
    yield
    assert open_files() == before


def ended(one: Process) -> None:
    """Take it away."""
    one.kill()
    assert one.ends(LONG)
    one.close()


# --- the process ------------------------------------------------------------------------------------------


def test_it_is_heard_among_more_than_a_thousand_open_files(saying: Callable[[str], None]) -> None:
    saying(ANSWERS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("this machine allows no such file number")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    kept = [os.dup(0) for _ in range(1100 - open_files())]
    try:
        one = Process()
        one.ask()
        lines, in_time = one.listen(LONG)
        assert (lines[-1], in_time) == (ANSWER, True)
        ended(one)
    finally:
        for number in kept:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_is_asked_once_for_each_answer_that_is_listened_to(saying: Callable[[str], None]) -> None:
    saying("import os\nwhile got := os.read(0, 100): os.write(1, b'call\\n{%d}\\n' % len(got))")
    one = Process()
    one.ask()
    one.ask()
    assert one.listen(LONG) == (["call", "{1}"], True)
    one.ask()
    assert one.listen(LONG) == (["call", "{1}"], True)
    ended(one)


def test_an_answer_is_a_whole_line_however_it_comes(saying: Callable[[str], None]) -> None:
    parts = ["nvmlIn", "it\\n", "nvmlX\\n{1", "2", "}\\n"]
    writes = "".join(f"os.write(1, b'{part}'); time.sleep(0.03)\n" for part in parts)
    saying(f"import os, time\nos.read(0, 1)\n{writes}os.read(0, 1)")
    one = Process()
    one.ask()
    assert one.listen(LONG) == (["nvmlInit", "nvmlX", "{12}"], True)
    ended(one)


def test_what_it_said_before_it_fell_silent_is_known(saying: Callable[[str], None]) -> None:
    saying("import os\nos.read(0, 1); os.write(1, b'nvmlInit\\nnvmlX\\n'); os.read(0, 1)")
    one = Process()
    one.ask()
    began = time.monotonic()
    assert one.listen(0.3) == (["nvmlInit", "nvmlX"], False)
    assert 0.3 <= time.monotonic() - began < LONG
    assert not one.ends(0)
    assert one.code is None
    ended(one)
    assert one.code == -signal.SIGKILL


def test_one_that_ends_is_heard_to_its_end(saying: Callable[[str], None]) -> None:
    saying("import os, sys\nos.write(1, b'nvmlInit\\n\\xff'); sys.stderr.buffer.write(b'a' * 50_000 + b' \\xff\\n'); sys.exit(3)")
    one = Process()
    time.sleep(0.05)
    one.ask()
    assert one.listen(LONG) == (["nvmlInit", "�"], True)
    said = one.complaint()
    assert (len(said), said[-3:]) == (50_002, "a �")
    assert one.ends(LONG)
    assert one.code == 3
    one.kill()  # nobody else's process is ended by it
    one.close()


def test_one_that_has_died_cannot_be_asked_and_that_is_no_error(saying: Callable[[str], None]) -> None:
    saying("raise SystemExit(4)")
    one = Process()
    assert one.ends(LONG)
    one.ask()
    assert one.listen(LONG) == ([], True)
    assert one.code == 4
    one.close()


def test_it_ends_once_nobody_asks_any_more(saying: Callable[[str], None]) -> None:
    saying(ANSWERS)
    one = Process()
    one.ask()
    assert one.listen(LONG)[1]
    one.finish()
    assert one.ends(LONG)
    assert one.code == 0
    one.close()


def test_where_it_cannot_be_started_nothing_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(FileNotFoundError):
        Process()


def test_the_environment_is_handed_on_and_decides_no_import(
    saying: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    saying(
        "import os, sys; print(os.environ['PYTHONPATH'], sys.flags.isolated, sys.flags.no_site, sys.argv[1]); "
        "print('{}', flush=True)"
    )
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    one = Process()
    assert one.listen(LONG)[0][0] == f"/somewhere 1 0 {Path(process.__file__).parents[1]}"
    ended(one)


SCRIPT = """
import os
{first}
from gpu_pools.verifier.process import Process
one = Process(fork={fork})
one.ask()
lines, in_time = one.listen(30)
one.finish()
ended = one.ends(30)
said = one.complaint()
open({told!r}, "w").write(repr((lines[0], lines[-1][:12], in_time, ended, one.code, said)))
"""


@pytest.mark.parametrize("fork", [True, False])
@pytest.mark.parametrize("first", ["", "for end in (0, 1, 2): os.close(end)"])
def test_it_reads_whether_it_goes_on_from_here_or_begins_anew(tmp_path: Path, first: str, fork: bool) -> None:  # noqa: FBT001
    told = tmp_path / "told"
    script = SCRIPT.format(first=first, fork=fork, told=str(told))
    subprocess.run(
        [sys.executable, "-c", script], check=True, timeout=scaled(60), cwd=Path(process.__file__).parents[2], env=os.environ
    )
    assert told.read_text() == repr(("nvmlInit", '{"failure": ', True, True, 0, ""))
    here = Process()
    here.ask()
    assert here.listen(LONG)[0][0] == "nvmlInit"
    ended(here)


def test_a_defect_of_one_that_goes_on_from_here_is_told_and_ends_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    broken = "import ctypes; ctypes.CDLL = None"
    script = SCRIPT.format(first=broken, fork=True, told=str(told)).replace("lines[0], lines[-1][:12]", "lines")
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        timeout=scaled(60),
        cwd=Path(process.__file__).parents[2],
        capture_output=True,
        text=True,
    )
    lines, in_time, has_ended, code, said = eval(told.read_text())  # noqa: S307 - our own
    assert (lines, in_time, has_ended, code) == (["nvmlInit"], True, True, 1)
    assert "TypeError" in said
    assert done.stderr == ""
    ended(Process())  # here nothing is broken by it


# --- who asks it ------------------------------------------------------------------------------------------


def test_a_reader_asks_one_child_again_and_ends_it_when_it_is_released(saying: Callable[[str], None]) -> None:
    numbered = ANSWER.replace(nodes.DRIVER, "PID")
    saying(f"import os\nfor _ in open(0): print({numbered!r}.replace('PID', str(os.getpid())), flush=True)")
    reader = Reader(LONG)
    first, second = reader.read(), reader.read()
    assert isinstance(first, Reading)
    assert first == second
    reader.release()
    reader.release()
    third = reader.read()
    assert isinstance(third, Reading)
    assert third.driver != first.driver
    reader.release()


def test_a_child_that_was_asked_already_is_listened_to(saying: Callable[[str], None]) -> None:
    saying(ANSWERS)
    started = Process()
    started.ask()
    reader = Reader(LONG, started)
    assert reader.read() == HEALTHY
    reader.release()
    assert started.code == 0


def test_the_next_reading_begins_at_once_where_that_is_asked_for(saying: Callable[[str], None]) -> None:
    saying(ANSWERS)
    reader = Reader(LONG)
    assert reader.read(again=True) == HEALTHY
    assert reader._child
    assert reader._child._asked
    assert reader.read() == HEALTHY
    assert not reader._child._asked
    reader.release()


@pytest.mark.parametrize(
    ("program", "function"),
    [
        ("import os; os.read(0, 1); os.write(1, b'a\\nnvmlX on GPU 1\\n'); os.read(0, 1)", "nvmlX on GPU 1"),
        ("import os; os.read(0, 9); os.read(0, 9)", None),
    ],
)
def test_a_silent_child_hangs_and_is_ended_and_the_next_reading_has_another(
    saying: Callable[[str], None], program: str, function: str | None
) -> None:
    saying(program)
    reader = Reader(0.3)
    assert reader.read() == Hung(function, 0.3, killable=True)
    saying(ANSWERS)
    reader._seconds = LONG
    assert reader.read() == HEALTHY
    reader.release()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os.write(1, b'a\\nnvmlInit\\n'); os.kill(os.getpid(), 11)", "signal 11 in nvmlInit"),
        ("import sys; sys.exit('no pynvml')", "exit code 1: no pynvml"),
        ("import sys; sys.exit('x' * 500 + 'y' * 399)", f"exit code 1: x{'y' * 399}"),
        ("import os; os.write(1, b'nvmlInit\\n')", "exit code 0 in nvmlInit"),
    ],
)
def test_how_a_child_ended_without_an_answer_is_told(saying: Callable[[str], None], program: str, told: str) -> None:
    saying(program)
    reader = Reader(LONG)
    assert reader.read() == Unreadable(f"the process that reads NVML ended with {told}")
    reader.release()


@pytest.mark.parametrize(("answer", "told"), [('{"driver": 1}', "nvml is missing"), ("{no JSON", "property name")])
def test_an_answer_that_is_no_reading_is_told(saying: Callable[[str], None], answer: str, told: str) -> None:
    saying(f"for _ in open(0): print({answer!r}, flush=True)")
    reader = Reader(LONG)
    found = reader.read()
    assert isinstance(found, Unreadable)
    assert found.reason.startswith("the process that reads NVML gave no reading: ")
    assert told in found.reason
    reader.release()


def test_one_that_closes_its_output_and_goes_on_hangs(saying: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_KILL_SECONDS", 0.2)
    saying("import os, time; os.write(1, b'nvmlInit\\n'); os.close(1); time.sleep(60)")
    reader = Reader(LONG)
    assert reader.read() == Hung("nvmlInit", LONG, killable=True)
    reader.release()


class _InTheKernel:
    """A child that waits where no signal reaches it, until it is let go."""

    def __init__(self) -> None:
        self.gone, self.kills, self.closed = False, 0, 0

    def ask(self) -> None:
        pass

    def listen(self, seconds: float) -> tuple[list[str], bool]:
        assert seconds == 7
        return ["nvmlInit"], False

    def ends(self, seconds: float) -> bool:
        assert seconds in {0, 2.0}
        return self.gone

    def finish(self) -> None:
        pass

    def kill(self) -> None:
        self.kills += 1

    def close(self) -> None:
        self.closed += 1


def test_one_that_cannot_be_ended_is_left_alone_and_no_other_is_started_beside_it(saying: Callable[[str], None]) -> None:
    saying(ANSWERS)
    stuck: Any = _InTheKernel()
    reader = Reader(7, stuck)
    for _ in range(3):
        assert reader.read() == Hung("nvmlInit", 7, killable=False)
        reader.release()
    assert (stuck.kills, stuck.closed) == (1, 0)
    stuck.gone = True
    reader._seconds = LONG
    assert reader.read() == HEALTHY
    reader.release()


def test_one_that_does_not_end_when_it_is_released_is_one_that_hangs() -> None:
    stuck: Any = _InTheKernel()
    reader = Reader(7, stuck)
    reader.release()
    assert reader.read() == Hung("the end of the process that read NVML", 7, killable=False)
    assert stuck.kills == 1


def test_releasing_a_reader_that_has_read_nothing_starts_nothing(saying: Callable[[str], None]) -> None:
    saying("raise SystemExit(1)")
    Reader().release()
