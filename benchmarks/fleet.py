"""What verifying a large fleet costs its API server: `python benchmarks/fleet.py [NODES]` (500).

A real API server and etcd hold that many Node objects in three pools, with their operands' pods. Each node has a verifier: its
real code in this process, its own token, the rights and the policy in force; only NVML is prepared (tests/verifier/fleet.py).
The API server counts what it is asked. What an hour brings follows from that and the usual interval, and is held against the
promise of docs/reference/verification.md. Then `python -m gpu_pools evidence` reports on all nodes in one run. The times are this
machine's, which runs all of it at once: for orientation only.

Needs the programs of `make tools`, for the report kubectl; no GPU, no root.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_pools.verifier.findings import Verdict  # noqa: E402
from sandbox.system.progress import Progress  # noqa: E402
from sandbox.toolchain.find import find_tools  # noqa: E402
from tests.verifier.fleet import MOST_PER_HOUR, PLAN, Fleet, most_per_hour  # noqa: E402

if TYPE_CHECKING:
    from collections import Counter

NODES = 500
#: The API server asks itself for these.
OWN = ("leases", "namespaces", "openapi/v3", "")


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        fleet = Fleet(Path(name), find_tools(Progress()), count)
        try:
            print(f"{count} nodes in {len(PLAN.pools)} pools, made in {time.monotonic() - began:.0f} s")
            _round(fleet, "first assertion and mark")
            fleet.follow_all()
            steady = _round(fleet, f"later assertion and mark, beside {fleet.watches()} watches")
            woken = sum(verifier.woken for verifier in fleet.verifiers)
            interval = PLAN.settings.verification.interval_seconds
            hourly = most_per_hour(steady, interval)
            print(f"verifiers that a mark woke: {woken}")
            print(
                f"an hour of an undisturbed node, every {interval} s: at most {hourly:.0f} requests (promised: {MOST_PER_HOUR})"
            )
            print(f"all {count} nodes: {hourly * count / 3600:.1f} requests a second")
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
    before, began = fleet.requests(), time.monotonic()
    done, evidence = fleet.report(page=True)
    seconds = time.monotonic() - began
    asked = _difference(before, fleet.requests())
    assert done.returncode == 0, done.stderr
    nodes = [node for pool in evidence["pools"] for node in pool["nodes"]]
    assert [node["verdict"] for node in nodes] == ["proven"] * len(fleet.verifiers)
    lists = ", ".join(f"{verb} {resource} {number}" for (verb, resource), number in sorted(asked.items()))
    print(f"report of all {len(nodes)} nodes in one run: {seconds:.1f} s, requests: {lists}")


def _round(fleet: Fleet, what: str) -> float:
    """One assertion of each node; returns the requests of each."""
    before, began = fleet.requests(), time.monotonic()
    assertions = fleet.assert_all()
    seconds, after = time.monotonic() - began, fleet.requests()
    assert all(one.findings.verdict is Verdict.HOLDS for one in assertions)
    asked = _difference(before, after)
    count = len(assertions)
    each = sum(asked.values()) / count
    print(f"{what}: {each:.2f} requests a node, all {count} in {seconds:.1f} s")
    for (verb, resource), number in sorted(asked.items()):
        print(f"  {verb} {resource}: {number / count:.2f} a node")
    return each


def _difference(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    return {name: number - before[name] for name, number in after.items() if number != before[name] and name[1] not in OWN}


if __name__ == "__main__":
    main()
