"""What verifying a large fleet costs its API server: `python benchmarks/fleet.py --nodes 500`.

A real API server and etcd hold that many Node objects in three pools, with their operands' pods. Each node has a verifier: its
real code in this process, its own token, the rights and the policy in force; only NVML is prepared (tests/verifier/fleet.py).
The API server counts what it is asked. What an hour brings follows from that and the usual interval, and is held against the
promise of docs/reference/verification.md. Then `python -m gpu_pools evidence` reports on all nodes in one run. The times are this
machine's, which runs all of it at once: for orientation only. Processor time says more: of the API server and etcd a round, which
is what a control plane of its own would spend, and of the report.

Thousands of verifiers cannot run beside each other on one machine. Eight at a time assert, one after the other, which changes
neither the number of requests nor what is stored. Watches stay open; `--watched` says how many nodes have one.

Needs the programs of `make tools`, for the report kubectl; no GPU, no root.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_pools.verifier.findings import Verdict  # noqa: E402
from sandbox.system import processes  # noqa: E402
from sandbox.system.progress import Progress  # noqa: E402
from sandbox.toolchain.find import find_tools  # noqa: E402
from tests.verifier.fleet import MOST_PER_HOUR, PLAN, Fleet, most_per_hour  # noqa: E402

if TYPE_CHECKING:
    from collections import Counter

NODES = 500
#: More open connections than that tell nothing new of one; each is a thread here.
WATCHED = 500
_SERVERS = ("kube-apiserver", "etcd")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20
#: A report may take so many seconds.
_LONGEST_REPORT = 900
#: The API server asks itself for these.
OWN = ("leases", "namespaces", "openapi/v3", "")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What verifying a large fleet costs its API server.")
    parser.add_argument("--nodes", type=int, default=NODES, help="how many nodes (%(default)s)")
    parser.add_argument("--watched", type=int, default=WATCHED, help="how many of them are watched, at most (%(default)s)")
    options = parser.parse_args()
    count = options.nodes
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        fleet = Fleet(Path(name), find_tools(Progress()), count)
        try:
            print(f"{count} nodes in {len(PLAN.pools)} pools, made in {time.monotonic() - began:.0f} s")
            _show_servers(fleet)
            _round(fleet, "first assertion and mark")
            fleet.follow_all(options.watched)
            steady = _round(fleet, f"later assertion and mark, beside {fleet.watches()} watches")
            woken = sum(verifier.woken for verifier in fleet.verifiers)
            interval = PLAN.settings.verification.interval_seconds
            hourly = most_per_hour(steady, interval)
            print(f"verifiers that a mark woke: {woken}")
            print(
                f"an hour of an undisturbed node, every {interval} s: at most {hourly:.0f} requests (promised: {MOST_PER_HOUR})"
            )
            print(f"all {count} nodes: {hourly * count / 3600:.1f} requests a second")
            _show_servers(fleet)
            _report(fleet)
            assert not woken
            assert hourly <= MOST_PER_HOUR
        finally:
            fleet.end()


def _report(fleet: Fleet) -> None:
    """One run of `python -m gpu_pools evidence` on all nodes, with JSON and the HTML page."""
    if shutil.which("kubectl") is None:
        print("report: NOT MEASURED (no kubectl on PATH)")
        return
    before, began, used = fleet.requests(), time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done, evidence = fleet.report(page=True, longest=_LONGEST_REPORT)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    asked = _difference(before, fleet.requests())
    assert done.returncode == 0, done.stderr
    nodes = [node for pool in evidence["pools"] for node in pool["nodes"]]
    assert [node["verdict"] for node in nodes] == ["proven"] * len(fleet.verifiers)
    lists = ", ".join(f"{verb} {what} {number}" for (verb, what), number in sorted(asked.items()))
    print(f"report of all {len(nodes)} nodes in one run: {seconds:.1f} s, requests: {lists}")
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    files = [fleet.folder / name for name in ("evidence.json", "evidence.html")]
    sizes = ", ".join(f"{file.name} {file.stat().st_size / _MIB:.1f} MiB" for file in files)
    print(f"  {processor:.1f} s of processor time, at most {after.ru_maxrss / 1024:.0f} MiB of memory; {sizes}")


def _round(fleet: Fleet, what: str) -> float:
    """One assertion of each node; returns the requests of each."""
    before, spent, began = fleet.requests(), _processor_seconds(fleet), time.monotonic()
    assertions = fleet.assert_all()
    seconds, after = time.monotonic() - began, fleet.requests()
    spent = {name: used - spent[name] for name, used in _processor_seconds(fleet).items()}
    assert all(one.findings.verdict is Verdict.HOLDS for one in assertions)
    asked = _difference(before, after)
    count = len(assertions)
    each = sum(asked.values()) / count
    print(f"{what}: {each:.2f} requests a node, all {count} in {seconds:.1f} s, {sum(asked.values()) / seconds:.0f} a second")
    for name, used in spent.items():
        print(f"  {name}: {used:.1f} s of processor time, {1000 * used / count:.1f} ms a node")
    for (verb, what_for), number in sorted(asked.items()):
        print(f"  {verb} {what_for}: {number / count:.2f} a node")
    return each


def _show_servers(fleet: Fleet) -> None:
    """How large the servers are."""
    kept = ", ".join(f"{name} {_stat(fleet, name)[1] / _MIB:.0f} MiB of memory" for name in _SERVERS)
    print(f"etcd's database: {fleet.stored_bytes() / _MIB:.0f} MiB; {kept}", flush=True)


def _processor_seconds(fleet: Fleet) -> dict[str, float]:
    return {name: _stat(fleet, name)[0] for name in _SERVERS}


def _stat(fleet: Fleet, name: str) -> tuple[float, int]:
    """Processor seconds and bytes of memory of a server."""
    pid = processes.running(fleet.cluster.folder)[name].pid
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / _TICKS, int(values[21]) * _PAGE


def _difference(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    return {name: number - before[name] for name, number in after.items() if number != before[name] and name[1] not in OWN}


if __name__ == "__main__":
    main()
