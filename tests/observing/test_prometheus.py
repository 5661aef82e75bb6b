"""The real Prometheus loads what a plan says, scrapes, records and answers; a wrong configuration is told."""

from __future__ import annotations

import http.server
import threading
import time
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

from gpu_pools.observing import rules
from sandbox.observing.exporter import Row, labels_text, scrape
from sandbox.system import processes
from tests.observing import fleets
from tests.observing.prometheus import prometheus
from tests.observing.promtool import rules_file
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.programs, pytest.mark.sweep, at_night("programs are built for it alone, which takes minutes")]


@contextmanager
def served(rows: Iterable[Row]) -> Iterator[str]:
    """Rows as an exporter serves them, at the address that is given."""
    text = "".join(f"{labels_text((('__name__', name), *labels))} {value}\n" for name, labels, value in rows).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_it_scrapes_records_and_answers(tmp_path: Path) -> None:
    plan = fleets.plan_of(pools=("whole", "alike"))
    nodes = fleets.fleet(plan, Random(1), busy=True)  # noqa: S311 the same every time
    rows = [row for node in nodes for row in scrape(node) if row[0] != "up"]
    with served(rows) as target:
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules_file(plan, tmp_path).name],
            "scrape_configs": [{"job_name": "test", "honor_labels": True, "static_configs": [{"targets": [target]}]}],
        }
        began = time.time()
        with prometheus(tmp_path, configuration) as server:
            count = f"count({rules.GPU_ACTIVE})"
            processes.wait_until(lambda: bool(server.query(count)), timeout=30, what="recorded series")
            assert server.query(count) == {frozenset(): sum(len(node.gpus) for node in nodes)}
            assert [one["health"] for one in server.targets()] == ["up"]
            told = [rule for group in server.rules() for rule in group["rules"]]
            assert {rule["health"] for rule in told} == {"ok"}
            assert server.query_range(count, began, time.time() + 2, 1)
            with pytest.raises(AssertionError, match="parse error"):
                server.query("sum(")
        assert not processes.running(tmp_path)


def test_a_wrong_configuration_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not_a_key"), prometheus(tmp_path, {"not_a_key": 1}):
        pass
