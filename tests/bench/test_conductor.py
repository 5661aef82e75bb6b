"""Clients as processes: what they do in a window, and what becomes of one that fails, hangs or dies. They wait: no GPU."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from gpu_pools.bench import clients, conductor, measuring
from gpu_pools.bench.conductor import Client, ClientFailed, Group, Start
from gpu_pools.bench.workloads import Effort

SHORT = Effort(warm_up=0.1, window=0.2, windows=3, aside=0.5)
COMMAND = clients.command("sleeper", Path("/"))[1]


#: Of a scripted client: what it says until it is on the GPU.
_JOINS = (
    """say('{"is": "ready"}'); input(); say('{"is": "joined", "mib": %s}' % mib); input(); say('{"is": "clock", "now": 1}')"""
)


def group(command: list[str] | None = None) -> Group:
    return Group([Start(tuple(command or COMMAND), os.environ)])


def gone(client: Client) -> bool:
    return client.process.poll() is not None


def setting(told: list[str]) -> measuring.Setting:
    return measuring.Setting([Start(tuple(COMMAND), os.environ)], SHORT, lambda: 0, dict, told.append)


def scripted(tmp_path: Path, script: str) -> list[str]:
    """A client that is another program."""
    path = tmp_path / "client.py"
    path.write_text(f"import sys, time\ndef say(text): print(text, flush=True)\n{script}\n")
    return [sys.executable, str(path)]


def test_each_does_what_it_does_alone_and_none_is_left() -> None:
    with group() as running:
        running.prepare(["compute", "compute"])
        running.join(1)
        alone, errors = running.measure(SHORT)
        running.join(1)
        together, more = running.measure(SHORT)
        members = list(running.clients)
    assert errors == more == []
    # An operation is a wait of 2 ms, in vain or not: machines are slower, never faster.
    assert 50 < alone.rate <= 500
    assert len(together.client_rates) == 2
    assert together.fairness > 0.8
    assert alone.latency[50] >= 0.002
    assert all(map(gone, members))


@pytest.mark.parametrize(
    ("what", "told"),
    [("memory", "out of memory"), ("crash", "an illegal memory access was encountered"), ("kill", "ended by SIGKILL")],
)
def test_one_that_fails_says_so_and_the_others_go_on(what: str, told: str) -> None:
    with group() as running:
        running.prepare(["training", "compute"])
        running.join(2)
        start = time.monotonic() + 0.3
        other, failed = running.work(start, start + 0.6, (1, what, start + 0.3))
    assert failed.error == told
    assert other.error is None
    assert max(ended for ended, _ in other.operations) > start + 0.5


def test_what_becomes_of_others_is_written_down() -> None:
    seen = list(measuring.faults(setting(said := list[str]())))
    assert [(one.what, one.newcomer) for one in seen] == [("memory", None), ("crash", None), ("kill", None)]
    assert said == ["one takes all memory", "one breaks its context", "one is killed"]
    for one in seen:
        assert [(other.kind, other.error) for other in one.others] == [("training", None), ("inference", None)]
        assert all(other.before > 20 and other.after > 20 and other.longest_gap < 1 for other in one.others)


def test_a_quiet_one_is_measured_beside_floods() -> None:
    alone, one, three = measuring.neighbours(setting([]))
    assert (alone.floods, one.floods, three.floods) == (0, 1, 3)
    assert alone.flood_rate == 0
    assert three.flood_rate > one.flood_rate > 5


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("sys.exit(3)", "ended with 3"),
        ("""say('{"is": "failed", "error": "no PyTorch"}'); time.sleep(60)""", "no PyTorch"),
        ("time.sleep(60)", "said nothing for 1 s"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
    ],
)
def test_one_that_never_gets_ready_is_told_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    monkeypatch.setattr(conductor, "_READY_SECONDS", 1.0)
    with pytest.raises(ClientFailed) as raised, group(scripted(tmp_path, script)) as running:
        running.prepare(["compute"])
    assert str(raised.value) == told


def test_one_that_hangs_amid_its_work_has_done_nothing_that_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor, "_ANSWER_SECONDS", 0.5)
    script = f"mib = 5; {_JOINS}; input(); time.sleep(60)"
    with group(scripted(tmp_path, script)) as running:
        running.prepare(["compute"])
        running.join(1)
        assert running.clients[0].mib == 5
        start = time.monotonic()
        [outcome] = running.work(start, start + 0.2)
    assert outcome.operations == ()
    assert (outcome.error or "").startswith("said nothing for")


def test_a_kind_whose_clients_cannot_join_is_a_row_with_the_reason(tmp_path: Path) -> None:
    script = """say('{"is": "ready"}'); input(); say('{"is": "failed", "error": "CUDA error: out of memory"}')"""
    broken = measuring.Setting([Start(tuple(scripted(tmp_path, script)), os.environ)], SHORT, lambda: None, dict, print)
    [row] = measuring.throughput(broken, ["compute"], [1, 2])
    assert (row.clients, row.rate, row.errors) == (1, 0, ("CUDA error: out of memory",))


def test_each_client_gets_the_next_environment(tmp_path: Path) -> None:
    script = f"import os; mib = os.environ['DEVICE']; {_JOINS}; input()"
    command = tuple(scripted(tmp_path, script))
    with Group([Start(command, {**os.environ, "DEVICE": str(number)}) for number in (10, 20)]) as running:
        running.prepare(["compute"] * 2)
        running.join(1)
        running.prepare(["compute"])
        running.join(2)
        assert [client.mib for client in running.clients] == [10, 20, 10]


def test_a_client_whose_clock_is_another_one_works_in_the_same_window(tmp_path: Path) -> None:
    """As in a pod on another machine: its clock began at another time."""
    away = tmp_path / "away.py"
    away.write_text(
        "import runpy, sys, time\nreal = time.monotonic\ntime.monotonic = lambda: real() + 1e6\n"
        f"sys.argv = sys.argv[1:]\nrunpy.run_path({COMMAND[-2]!r}, run_name='__main__')\n"
    )
    far = Start((sys.executable, "-u", str(away), COMMAND[-2], "sleeper"), os.environ)
    with Group([Start(tuple(COMMAND), os.environ), far]) as running:
        running.prepare(["compute", "compute"])
        running.join(2)
        assert running.clients[0].ahead == 0
        assert running.clients[1].ahead == pytest.approx(1e6, abs=0.1)
        start = time.monotonic() + 0.3
        near, other = running.work(start, start + 0.6, (1, "crash", start + 0.4))
    assert near.operations[0][0] == pytest.approx(other.operations[0][0], abs=0.2)
    assert other.failed == pytest.approx(start + 0.4, abs=0.2)
    assert max(ended for ended, _ in other.operations) < start + 0.6


def test_what_uses_of_the_gpu_is_counted_from_before_the_first_client() -> None:
    used = iter([100, 160, 220])
    rows = list(
        measuring.throughput(
            measuring.Setting(
                [Start(tuple(COMMAND), os.environ)], SHORT, lambda: next(used), lambda: {"clocks.sm": "1980"}, lambda _: None
            ),
            ["inference"],
            [1, 2],
        )
    )
    assert [(row.clients, row.used_mib, row.state) for row in rows] == [
        (1, 60, {"clocks.sm": "1980"}),
        (2, 120, {"clocks.sm": "1980"}),
    ]
