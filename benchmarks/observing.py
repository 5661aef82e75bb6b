"""What observing a large fleet costs its Prometheus: `python benchmarks/observing.py [NODES]` (500).

A real Prometheus scrapes that many exporters and one of kube-state-metrics, whose rows are those of tests/observing: pools of
three kinds, two GPUs a node, all shares held. First without our rules, which is the floor, then with them: processor time of a
minute, series. Then what a dashboard asks: the recorded series, and the same from raw rows, in turn. All of it runs on this
machine, the exporters in this process: ratios matter, the rest is for orientation. It takes five minutes.

Needs the program prometheus (`make tools`); no GPU, no cluster, no root.
"""

from __future__ import annotations

import http.server
import re
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_pools.observing import rules, shares  # noqa: E402
from gpu_pools.observing.rules import recording_group  # noqa: E402
from sandbox.observing.exporter import labels_text, scrape  # noqa: E402
from tests.observing import fleets  # noqa: E402
from tests.observing.kube_state import KubeNode, KubePod, told  # noqa: E402
from tests.observing.prometheus import Prometheus, prometheus  # noqa: E402
from tests.observing.promtool import rules_file  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.plan.planned import Plan
    from sandbox.observing.exporter import Node

NODES: Final = 500
POOLS: Final = ("whole", "turns", "alike")
TARGET: Final = ("instance", "gpu_pool")
SECONDS: Final = 60
TURNS: Final = 15
#: Recorded series that are asked as raw rows as well.
ASKED: Final = (rules.GPU_ACTIVE, rules.POD_MEMORY_USED, shares.POD_ALLOCATED)


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    plan = fleets.plan_of(pools=POOLS)
    nodes = _nodes(plan, count)
    pages = {f"/{node.name}": _page(node) for node in nodes} | {"/kube-state-metrics": _kube_state(plan, nodes)}
    rows = sum(page.count(b"\n") for page in pages.values())
    print(f"{count} nodes, {rows} rows a scrape, {sum(map(len, pages.values())) / count / 1024:.0f} KiB a node")
    with tempfile.TemporaryDirectory() as name, _served(pages) as address:
        folder = Path(name)
        floor = _run(folder / "floor", address, plan, nodes, ruled=False)
        ours = _run(folder / "ours", address, plan, nodes, ruled=True)
    print(f"series: {ours[1]} / {floor[1]} without rules = {ours[1] / floor[1]:.2f}")
    print(f"processor time of a minute: {ours[0]:.1f} s / {floor[0]:.1f} s without rules = {ours[0] / floor[0]:.2f}")


def _nodes(plan: Plan, count: int) -> list[Node]:
    made: dict[str, list[Node]] = {pool: [] for pool in POOLS}
    seed = 0
    while min(map(len, made.values())) * len(POOLS) < count:
        for node in fleets.fleet(plan, Random(seed), busy=True):  # noqa: S311 the same every time
            made[node.pool].append(replace(node, name=f"{node.pool}-{len(made[node.pool])}"))
        seed += 1
    return [made[POOLS[number % len(POOLS)]][number // len(POOLS)] for number in range(count)]


def _page(node: Node) -> bytes:
    """As its exporter answers: without what Prometheus adds."""
    rows = (
        (name, [one for one in labels if one[0] not in TARGET], value) for name, labels, value in scrape(node) if name != "up"
    )
    return "".join(f"{labels_text((('__name__', name), *labels))} {value}\n" for name, labels, value in rows).encode()


def _kube_state(plan: Plan, nodes: list[Node]) -> bytes:
    offers = {pool.name: pool.advertises for pool in plan.pools}
    objects = [KubeNode(node.name, offers[node.pool]) for node in nodes]
    pods = [
        KubePod(f"{node.name}-{number}", ({resource: 1},), node.name)
        for node in nodes
        for resource, count in offers[node.pool].items()
        for number in range(count)
    ]
    target = re.compile(r'(instance|job)="[^"]*"(, )?')
    return "".join(f"{target.sub('', series)} {value}\n" for series, value in told(objects, pods).items()).encode()


@contextmanager
def _served(pages: Mapping[str, bytes]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(pages[self.path])))
            self.end_headers()
            self.wfile.write(pages[self.path])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _run(folder: Path, address: str, plan: Plan, nodes: list[Node], *, ruled: bool) -> tuple[float, int]:
    """(seconds of processor time in a minute, series); with rules also prints what they and questions take."""
    folder.mkdir()
    seconds = plan.settings.observability.interval_seconds
    targets = [
        {"targets": [address], "labels": {"__metrics_path__": f"/{node.name}", "instance": node.name, "gpu_pool": node.pool}}
        for node in nodes
    ]
    kube_state = {"targets": [address], "labels": {"__metrics_path__": "/kube-state-metrics", "instance": "kube-state-metrics"}}
    configuration: dict[str, Any] = {
        "global": {"scrape_interval": f"{seconds}s", "evaluation_interval": f"{seconds}s"},
        "scrape_configs": [
            {"job_name": "nvidia-dcgm-exporter", "static_configs": targets},
            {"job_name": "kube-state-metrics", "static_configs": [kube_state]},
        ],
        **({"rule_files": [rules_file(plan, folder).name]} if ruled else {}),
    }
    with prometheus(folder, configuration) as running:
        # Each target is scraped, and each rule has seen those before it.
        time.sleep(2 * seconds + 10)
        _there(running, len(nodes), ruled=ruled)
        before = _own(running)
        time.sleep(SECONDS)
        after = _own(running)
        if ruled:
            lasted = {key: value for key, value in after.items() if "rule_group_last_duration_seconds{" in key}
            print(f"an evaluation of all rules: {sum(lasted.values()):.2f} s, every {seconds} s")
            _questions(running, plan)
    spent = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    return spent, int(after["prometheus_tsdb_head_series"])


def _there(running: Prometheus, count: int, *, ruled: bool) -> None:
    answered = running.query('sum(up{job="nvidia-dcgm-exporter"})')
    assert answered == {frozenset(): count}, answered
    if ruled:
        assert all(running.query(f"count({name})") for name in ASKED)


def _own(running: Prometheus) -> dict[str, float]:
    """What it says of itself."""
    with urllib.request.urlopen(f"{running.url}/metrics", timeout=30) as answer:  # noqa: S310 our own address
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def _questions(running: Prometheus, plan: Plan) -> None:
    expressions = {rule["record"]: rule["expr"] for rule in recording_group(plan)["rules"]}
    for name in ASKED:
        pairs = [
            (_took(running, f"sum by (gpu_pool) ({name})"), _took(running, f"sum by (gpu_pool) ({expressions[name]})"))
            for _ in range(TURNS)
        ]
        recorded, raw = (statistics.median(pair[index] for pair in pairs) for index in (0, 1))
        ratio = statistics.median(raw / recorded for recorded, raw in pairs)
        print(f"{name} by pool: {recorded * 1000:.0f} ms recorded, {raw * 1000:.0f} ms from raw rows, {ratio:.1f} times")


def _took(running: Prometheus, expression: str) -> float:
    began = time.perf_counter()
    assert running.query(expression)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
