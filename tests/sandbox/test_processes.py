"""Background processes are found again, stopped with their children, and never mistaken for strangers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEP = ["/bin/sleep", "60"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.stop(tmp_path, grace=0.0)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends while it is looked at
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_for_output(folder: Path, name: str) -> None:
    processes.wait_until(lambda: processes.log_tail(folder, name) != "", timeout=60, what="Output")


def test_what_is_spawned_runs_until_it_is_stopped(folder: Path) -> None:
    first = processes.spawn(folder, "first", SLEEP)
    second = processes.spawn(folder, "second", SLEEP)
    assert processes.running(folder) == {"first": first, "second": second}
    processes.stop(folder, ["first"])
    assert list(processes.running(folder)) == ["second"]
    processes.stop(folder)
    assert processes.running(folder) == {}
    assert read_json(folder / "processes.json")["processes"] == {}


def test_another_process_finds_what_this_one_started(folder: Path) -> None:
    processes.spawn(folder, "one", SLEEP)
    code = f"from pathlib import Path; from sandbox.system import processes; processes.stop(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(processes.__file__).parents[2])
    assert processes.running(folder) == {}


def test_output_goes_to_a_private_log(folder: Path) -> None:
    processes.spawn(folder, "talker", ["/bin/sh", "-c", "echo out; echo err >&2; exec sleep 60"])
    processes.wait_until(lambda: processes.log_tail(folder, "talker").count("\n") == 1, timeout=60, what="The output")
    assert processes.log_tail(folder, "talker") == "out\nerr"
    assert processes.log_tail(folder, "talker", 1) == "err"
    assert (folder / "logs" / "talker.log").stat().st_mode & 0o777 == 0o600


def test_what_died_by_itself_does_not_run(folder: Path) -> None:
    processes.spawn(folder, "short", ["/bin/true"])
    processes.wait_until(lambda: not processes.running(folder), timeout=60, what="The end")


def test_children_are_stopped_too(folder: Path) -> None:
    processes.spawn(folder, "parent", ["/bin/sh", "-c", "sleep 60 & echo $!; wait"])
    wait_for_output(folder, "parent")
    child = int(processes.log_tail(folder, "parent"))
    processes.stop(folder)
    assert not is_alive(child)


def test_who_ignores_the_request_is_killed_after_the_grace(folder: Path) -> None:
    processes.spawn(folder, "deaf", ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
    wait_for_output(folder, "deaf")
    start = time.monotonic()
    processes.stop(folder, grace=0.2)
    assert processes.running(folder) == {}
    assert 0.2 <= time.monotonic() - start < 4.5  # well below the usual grace


def test_no_grace_kills_at_once(folder: Path) -> None:
    processes.spawn(folder, "one", SLEEP)
    processes.stop(folder, grace=0.0)
    assert processes.running(folder) == {}


def test_the_last_started_is_stopped_first(folder: Path) -> None:
    script = "trap 'echo \"$0\" >> order; exit' TERM; echo ready; while :; do sleep 0.01; done"
    for name in ("etcd", "api"):
        processes.spawn(folder, name, ["/bin/sh", "-c", script, name], cwd=folder)
        wait_for_output(folder, name)
    processes.stop(folder)
    assert (folder / "order").read_text().split() == ["api", "etcd"]


def test_a_reused_pid_is_not_ours(folder: Path) -> None:
    processes.spawn(folder, "one", SLEEP)
    record = read_json(folder / "processes.json")
    time.sleep(0.02)  # two ticks of the clock that start times are read from
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        processes.stop(folder)
        record["processes"]["one"]["pid"] = stranger.pid
        write_json(folder / "processes.json", record)
        assert processes.running(folder) == {}
        processes.stop(folder)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_nothing_survives_a_restart_of_the_machine(folder: Path) -> None:
    process = processes.spawn(folder, "one", SLEEP)
    record = read_json(folder / "processes.json")
    write_json(folder / "processes.json", {**record, "boot": "another"})
    assert processes.running(folder) == {}
    os.kill(process.pid, 0)
    write_json(folder / "processes.json", record)


@pytest.mark.parametrize("end", ["stop", "stop by name", "spawn"])
def test_what_could_not_be_recorded_is_found_by_its_mark(folder: Path, end: str) -> None:
    """Whoever started it was killed before he could write it down; it would hold the port or the data for ever."""
    lost = processes.spawn(folder, "one", SLEEP)
    kept = processes.spawn(folder / "inner", "one", SLEEP)
    (folder / "processes.json").unlink()
    if end == "spawn":
        assert processes.spawn(folder, "one", SLEEP).pid != lost.pid
    else:
        processes.stop(folder, ["one"] if end == "stop by name" else None)
    processes.wait_until(lambda: not is_alive(lost.pid), timeout=60, what="The end of what was lost")
    assert is_alive(kept.pid)
    processes.stop(folder / "inner", grace=0.0)


def test_others_are_spared_when_the_unrecorded_are_ended(folder: Path) -> None:
    """Children carry the mark of their parent."""
    parent = processes.spawn(folder, "parent", ["/bin/sh", "-c", "sleep 60 & echo $!; wait"])
    wait_for_output(folder, "parent")
    processes.spawn(folder, "other", SLEEP)
    processes.stop(folder, ["other"])
    assert is_alive(parent.pid)
    assert is_alive(int(processes.log_tail(folder, "parent")))


def test_processes_are_found_by_a_variable(folder: Path) -> None:
    one = processes.spawn(folder, "one", SLEEP, env={"MOON": "full"})
    assert processes.carrying("MOON", "full") == {one.pid: os.path.realpath(SLEEP[0])}
    assert processes.carrying("MOON", "ful") == {}


def test_a_second_of_the_same_name_is_refused(folder: Path) -> None:
    process = processes.spawn(folder, "one", SLEEP)
    with pytest.raises(SandboxError, match=f"pid {process.pid}"):
        processes.spawn(folder, "one", SLEEP)


def test_a_missing_program_is_named(folder: Path) -> None:
    with pytest.raises(SandboxError, match="/no/such/program: cannot start it: No such file") as caught:
        processes.spawn(folder, "one", ["/no/such/program"])
    assert "make tools" in caught.value.remedy
    assert processes.running(folder) == {}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="file/logs"):
        processes.spawn(tmp_path / "file", "one", SLEEP)


def test_stopping_nothing_is_fine(tmp_path: Path) -> None:
    processes.stop(tmp_path / "missing")
    assert processes.running(tmp_path / "missing") == {}


def test_free_ports_are_different_and_a_taken_one_is_seen() -> None:
    ports = processes.free_ports(5)
    assert len(set(ports)) == 5
    with socket.create_server(("127.0.0.1", ports[0])):
        assert not processes.port_is_free(ports[0])
    assert processes.port_is_free(ports[0])


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(SandboxError, match=r"The moon: not reached within 0\.\d+ s"):
        processes.wait_until(lambda: False, timeout=0.05, what="The moon")
