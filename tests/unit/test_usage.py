"""`gpu-pools usage` without a Prometheus: times, addresses, answers that are none, what a share costs, and the sums."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.cli.main import main
from gpu_pools.hardware.prices import Prices
from gpu_pools.observing import rules, shares
from gpu_pools.observing.prometheus import CannotAskError, Prometheus, RefusedError, Row, Sample, refused
from gpu_pools.observing.times import Window, span
from gpu_pools.plan.planned import share_of_node
from gpu_pools.plan.planning import plan_config
from gpu_pools.usage import report
from gpu_pools.usage.questions import SERIES, Answers, asked
from gpu_pools.usage.report import Usage, usage
from gpu_pools.usage.showing import usage_json, usage_table
from tests.observing import fleets
from tests.registries import make_trust, say, serving
from tests.unit.golden import golden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STACK = "stacks/Pulumi.aks-dev.yaml"


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "seconds", "step"),
        [
            ("5m", 300, 60),
            ("24h", 86400, 60),
            ("25h", 90000, 120),
            ("7d", 604800, 420),
            ("13w", 7862400, 5460),
            ("92d", 7948800, 5520),
            ("1440m", 86400, 60),
            ("1441m", 86460, 120),
        ],
    )
    def test_steps_are_minutes_and_a_day_s_at_most(self, text: str, seconds: int, step: int) -> None:
        over = span(text)
        assert (over.seconds, over.step) == (seconds, step)
        assert 0 < over.steps <= 1440
        assert over.hours(over.steps) == pytest.approx(seconds / 3600, rel=0.01)

    @pytest.mark.parametrize("text", ["", "0h", "4m", "24", "1y", "-1h", "1.5h", "93d", "14w", "9999999d", "1h ", "24H"])
    def test_others_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="a time as 90m"):
            span(text)


class TestAddresses:
    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:9090", "https://p.example/prometheus", "http://localhost:1", "http://[::1]:9090/"]
    )
    def test_a_token_goes_by_tls_or_to_this_machine(self, url: str) -> None:
        assert refused(url, with_token=True) == ""

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("http://prometheus.example", "by TLS only"),
            ("http://10.0.0.7:9090", "by TLS only"),
            ("https://me:secret@p.example", "whoever lists processes"),
            ("p.example:9090", "http://"),
            ("ftp://p.example", "http://"),
            ("https://", "a host"),
            ("https://p.example/?x=1", "before /api/v1"),
            ("https://p.example/#x", "before /api/v1"),
            ("https://p.example:0", "a host"),
            ("https://p.example:99999", "ort"),
        ],
    )
    def test_others_are_refused(self, url: str, why: str) -> None:
        assert why in refused(url, with_token=True)

    def test_without_a_token_tls_is_not_needed(self) -> None:
        assert refused("http://prometheus.example", with_token=False) == ""


Answer = tuple[int, bytes, dict[str, str]]


@pytest.fixture
def server() -> Iterator[Callable[[int, bytes], tuple[str, list[dict[str, str]]]]]:
    """An HTTP server that answers as it is told: only for answers that no Prometheus gives, or errors."""
    started: list[ThreadingHTTPServer] = []

    def start(status: int, body: bytes) -> tuple[str, list[dict[str, str]]]:
        seen: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                seen.append({**self.headers, "path": self.path, "body": self.rfile.read(length).decode()})
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        started.append(made)
        threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{made.server_port}/at", seen

    yield start
    for one in started:
        one.shutdown()
        one.server_close()


def vector(*samples: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": labels, "value": [1.5, value]} for labels, value in samples]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


class TestAnswers:
    def test_a_question_goes_as_a_form_and_the_token_in_a_header(self, server: Any) -> None:
        url, seen = server(200, vector(({"a": "b"}, "2.5"), ({}, "NaN"), ({}, "+Inf")))
        assert Prometheus(url, "secret").ask("up + 1") == [Sample({"a": "b"}, 2.5)]
        assert seen[0]["path"] == "/at/api/v1/query"
        assert seen[0]["body"] == "query=up+%2B+1"
        assert seen[0]["Authorization"] == "Bearer secret"
        assert seen[0]["Content-Type"] == "application/x-www-form-urlencoded"
        assert (seen[0]["Accept"], seen[0]["User-Agent"]) == ("application/json", "gpu-pools")

    def test_minutes_in_which_there_was_anything_are_what_prometheus_says(self, server: Any) -> None:
        url, _ = server(200, vector(({}, "2.5")))
        assert asked(Prometheus(url), span("1h"), ["turns"]).covered == 2.5
        url, _ = server(200, vector())
        assert asked(Prometheus(url), span("1h"), ["turns"]).covered == 0

    def test_a_time_is_asked_about_step_by_step_and_what_is_not_a_number_is_a_gap(self, server: Any) -> None:
        values = [[60, "1"], [120, "NaN"], [180.5, "+Inf"], [240, "2"]]
        data = {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": values}]}
        url, seen = server(200, json.dumps({"status": "success", "data": data}).encode())
        assert Prometheus(url).ask_range("up", Window(60, 240, 60), limit=7) == [Row({"a": "b"}, [(60, 1), (240, 2)])]
        assert seen[0]["path"] == "/at/api/v1/query_range"
        assert seen[0]["body"] == "query=up&start=60&end=240&step=60&limit=7"

    def test_a_moment_may_be_named(self, server: Any) -> None:
        url, seen = server(200, vector())
        Prometheus(url).ask("up", at=60, limit=5)
        assert seen[0]["body"] == "query=up&time=60&limit=5"

    @pytest.mark.parametrize("values", [[[60]], [60], "x", None, [[60, "x"]], [["x", "1"]]])
    def test_rows_that_are_none_are_told(self, server: Any, values: Any) -> None:
        data = {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}
        url, _ = server(200, json.dumps({"status": "success", "data": data}).encode())
        with pytest.raises(CannotAskError, match="as no Prometheus does"):
            Prometheus(url).ask_range("up", Window(60, 240, 60))

    def test_a_question_that_is_refused_is_not_a_prometheus_that_is_gone(self, server: Any) -> None:
        url, _ = server(422, b'{"status": "error", "error": "too many samples"}')
        with pytest.raises(RefusedError):
            Prometheus(url).ask("up")
        with pytest.raises(CannotAskError) as told:
            Prometheus("http://127.0.0.1:1").ask("up")
        assert not isinstance(told.value, RefusedError)

    @pytest.mark.parametrize(
        ("status", "body", "says"),
        [
            (401, b"", "status 401"),
            (302, b"", "status 302"),
            (422, b'{"status": "error", "errorType": "execution", "error": "too many samples"}', r"refuses .*too many samples"),
            (200, b"<html>", "as no Prometheus does"),
            (200, vector().replace(b"success", b"partial"), "as no Prometheus does"),
            (200, b"[]", "as no Prometheus does"),
            (200, b"[" * 100_000, "as no Prometheus does"),
            (200, b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', "as no Prometheus does"),
            (200, b'{"status": "success", "data": {"resultType": "vector", "result": [{"value": [1, "x"]}]}}', "as no"),
            (200, vector()[:-3], "as no Prometheus does"),
        ],
    )
    def test_what_is_no_answer_is_told(self, server: Any, status: int, body: bytes, says: str) -> None:
        url, _ = server(status, body)
        with pytest.raises(CannotAskError, match=says) as told:
            Prometheus(url).ask("up")
        assert told.value.remedy

    def test_it_is_asked_by_tls_where_its_authority_is_trusted(self, tmp_path: Path) -> None:
        """The server has no answer to it, but says so."""
        trust = make_trust(tmp_path)
        with serving(trust, lambda _, handler: say(handler, 200)) as other:
            with pytest.raises(CannotAskError, match="status 405"):
                Prometheus(f"https://{other.address}", "token", Path(trust.authority)).ask("up")
            with pytest.raises(CannotAskError, match=r"certificate of .* is not trusted") as told:
                Prometheus(f"https://{other.address}", "token").ask("up")
        assert "--ca" in told.value.remedy

    @pytest.mark.parametrize(
        ("head", "drip"),
        [
            pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" ", id="a byte now and then"),
            pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="to be continued for ever"),
            pytest.param(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", id="headers now and then"),
            pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", id="chunks now and then"),
        ],
    )
    def test_an_answer_that_does_not_end_is_ended(self, head: bytes, drip: bytes) -> None:
        """Attack: who answers sends something each moment, so that no single wait is long."""
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def answer() -> None:
                line, _ = listening.accept()
                with line, contextlib.suppress(OSError):
                    line.recv(65536)
                    line.sendall(head)
                    for _ in range(2000):
                        line.sendall(drip)
                        time.sleep(0.05)

            threading.Thread(target=answer, daemon=True).start()
            began = time.monotonic()
            asker = Prometheus(f"http://127.0.0.1:{listening.getsockname()[1]}", seconds=0.6)
            with pytest.raises(CannotAskError, match="no whole answer in the time"):
                asker.ask("up")
            assert time.monotonic() - began < 10

    def test_a_handshake_that_does_not_end_is_ended(self) -> None:
        """Attack: the same, before TLS is agreed."""
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def answer() -> None:
                line, _ = listening.accept()
                with line, contextlib.suppress(OSError):
                    line.sendall(b"\x16\x03\x03\x40\x00")
                    for _ in range(2000):
                        line.sendall(b"\x02")
                        time.sleep(0.05)

            threading.Thread(target=answer, daemon=True).start()
            began = time.monotonic()
            with pytest.raises(CannotAskError, match="no whole answer in the time"):
                Prometheus(f"https://127.0.0.1:{listening.getsockname()[1]}", seconds=0.6).ask("up")
            assert time.monotonic() - began < 10

    def test_questions_of_a_report_have_a_time_together(self, server: Any) -> None:
        url, seen = server(200, vector())
        asker = Prometheus(url).within(0)
        with pytest.raises(CannotAskError, match="no whole answer in the time"):
            asker.ask("up")
        assert seen == []

    @pytest.mark.parametrize("body", [b"{}," * 2_000_000, b"[" * 3_000_001, b"1," * 3_000_001])
    def test_an_answer_of_many_values_is_not_made_of_them(self, server: Any, body: bytes) -> None:
        """Attack: a few megabytes of which Python would make gigabytes."""
        url, _ = server(200, b'{"status": "success", "data": {"resultType": "vector", "result": [' + body)
        with pytest.raises(RefusedError, match="more than 3000000 values"):
            Prometheus(url).ask("up")

    def test_more_series_than_were_asked_for_are_left_out(self, server: Any) -> None:
        """Attack: 60,000 series, each with a page of its own; older versions of Prometheus do not heed the limit either."""
        url, _ = server(200, vector(*(({"a": str(number)}, "1") for number in range(60_000))))
        assert len(Prometheus(url).ask("up", limit=7)) == 7

    @pytest.mark.parametrize("moment", [1e300, -1e300, 59, 241, float("nan")])
    def test_a_moment_that_was_not_asked_about_is_left_out(self, server: Any, moment: float) -> None:
        """Attack: times beyond what a calendar has ended the drawing with a traceback."""
        data = {"resultType": "matrix", "result": [{"metric": {}, "values": [[60, "1"], [moment, "2"], [240, "3"]]}]}
        url, _ = server(200, json.dumps({"status": "success", "data": data}).encode())
        (row,) = Prometheus(url).ask_range("up", Window(60, 240, 60))
        assert row.points == [(60, 1), (240, 3)]

    @pytest.mark.parametrize("host", ["a" * 70 + ".example", "\u2024.example", "a..example", "xn--" + "z" * 60])
    def test_a_name_that_is_none_is_told(self, host: str) -> None:
        with pytest.raises(CannotAskError, match="cannot be asked"):
            Prometheus(f"http://{host}:9090", seconds=5).ask("up")

    def test_all_questions_of_a_report_are_about_one_moment(self, server: Any) -> None:
        """Else a pod whose only step leaves the window between its sum and its count has a sum alone."""
        url, seen = server(200, vector())
        asked(Prometheus(url), span("1h"), ["turns"], at=1_800_000_000.5)
        assert len(seen) == 2 * len(SERIES) + 1
        assert {one["body"].partition("&")[2] for one in seen} == {"time=1800000000.5"}
        seen.clear()
        asked(Prometheus(url), span("1h"), ["turns"])
        assert len({one["body"].partition("&")[2] for one in seen}) == 1

    @pytest.mark.parametrize("value", ["-1", "1e308", "1e16", "NaN"])
    def test_a_number_that_no_series_has_and_a_pool_of_others_are_left_out(self, server: Any, value: str) -> None:
        """Attack: rows of a pool that the stack does not have ended the report; sums of huge numbers are no JSON."""
        rows = ({"gpu_pool": "turns"}, value), ({"gpu_pool": "other"}, "1"), ({}, "1"), ({"gpu_pool": "turns"}, "7")
        url, _ = server(200, vector(*rows))
        found = asked(Prometheus(url), span("1h"), ["turns"])
        assert all([row.value for row in rows] == [7.0] for rows in [*found.sums.values(), *found.counts.values()])

    def test_nobody_there(self) -> None:
        with pytest.raises(CannotAskError, match="cannot be asked: Connection refused"):
            Prometheus("http://127.0.0.1:1").ask("up")

    def test_an_answer_without_a_status_has_its_reason(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]

            def answer() -> None:
                line, _ = listening.accept()
                line.recv(65536)
                line.sendall(b"SSH-2.0-OpenSSH\r\n")
                line.close()

            threading.Thread(target=answer, daemon=True).start()
            with pytest.raises(CannotAskError, match=r"cannot be asked: SSH-2\.0-OpenSSH"):
                Prometheus(f"http://127.0.0.1:{port}").ask("up")

    @pytest.mark.parametrize(("most", "taken"), [(len(vector()), True), (len(vector()) - 1, False)])
    def test_an_answer_has_a_limit(self, server: Any, monkeypatch: pytest.MonkeyPatch, most: int, taken: bool) -> None:  # noqa: FBT001
        monkeypatch.setattr("gpu_pools.observing.prometheus._MOST", most)
        url, _ = server(200, vector())
        if taken:
            assert Prometheus(url).ask("up") == []
        else:
            with pytest.raises(CannotAskError, match=f"more than {most} bytes"):
                Prometheus(url).ask("up")


class TestWhatAShareCosts:
    def test_all_shares_of_a_node_are_the_node(self) -> None:
        for pool in fleets.plan_of().pools:
            parts = share_of_node(pool)
            assert parts.keys() == pool.advertises.keys()
            assert sum(parts[name] * count for name, count in pool.advertises.items()) == pytest.approx(1), pool.name

    def test_a_shared_instance_is_its_part_whatever_its_name(self) -> None:
        stack = fleets.stack(pools=("mixed",))
        stack["gpu-pools:sharing"]["mixed"] = {
            "mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}, "timeSlicing": {"replicas": 2, "renameByDefault": True}}
        }
        (pool,) = plan_config(stack).pools
        assert share_of_node(pool) == {
            "nvidia.com/mig-2g.20gb.shared": pytest.approx(8 / 14 / 8),
            "nvidia.com/mig-3g.40gb.shared": pytest.approx(6 / 14 / 4),
        }

    def test_instances_by_their_slices_and_a_whole_gpu_by_all(self) -> None:
        plan = {pool.name: share_of_node(pool) for pool in fleets.plan_of().pools}
        assert plan["mixed"]["nvidia.com/mig-3g.40gb"] == pytest.approx(3 * plan["mixed"]["nvidia.com/mig-1g.10gb"])
        assert plan["some"]["nvidia.com/gpu"] == pytest.approx(7 / 3 * plan["some"]["nvidia.com/mig-3g.40gb"])


def answers(**rows: list[tuple[dict[str, str], float, float]]) -> Answers:
    """Series by their variable's name -> (labels, sum, count)."""
    names = {
        "nodes": shares.NODE_POOL,
        "gpus": rules.NODE_GPUS,
        "active": rules.GPU_ACTIVE,
        "offered": shares.NODE_ALLOCATABLE,
        "given": shares.NODE_ALLOCATED,
        "pods": shares.POD_ALLOCATED,
        "use": rules.POD_ACTIVE,
        "idle": rules.POD_IDLE,
    }
    given = {names[key]: value for key, value in rows.items()}
    return Answers(
        {name: [Sample(labels, total) for labels, total, _ in given.get(name, [])] for name in SERIES},
        {name: [Sample(labels, count) for labels, _, count in given.get(name, [])] for name in SERIES},
        60,
    )


GPU = "nvidia.com/gpu"
NODE = {"instance": "n", "gpu_pool": "turns"}
POD = {**NODE, "namespace": "team", "pod": "a"}


def reported(**rows: list[tuple[dict[str, str], float, float]]) -> Usage:
    """An hour of a pool of two GPUs, each for four pods."""
    return usage(fleets.plan_of(pools=("turns",)), answers(**rows), span("1h"), None)


class TestSums:
    def test_a_pool_without_a_price_has_no_costs_and_one_that_lacks_something_is_enough(self) -> None:
        plan = fleets.plan_of(pools=("turns", "whole"))
        seen = answers(nodes=[(NODE, 60, 60)], given=[({**NODE, "resource": GPU}, 0, 60)])
        told = usage(plan, seen, span("1h"), None)
        assert (told.pools[0].idle, told.pools[0].idle_cost, told.pools[0].free_cost) == (0, None, None)
        assert [bool(pool.missing) for pool in told.pools] == [True, False]
        assert not told.is_whole

    def test_an_hour_of_a_pod_that_idles_half_of_it(self) -> None:
        unit = {**POD, "gpu": "0", "UUID": "GPU-0"}
        told = reported(
            nodes=[(NODE, 60, 60)],
            gpus=[(NODE, 120, 60)],
            active=[({**NODE, "gpu": "0", "UUID": "GPU-0"}, 15, 60)],
            offered=[({**NODE, "resource": GPU}, 480, 60)],
            given=[({**NODE, "resource": GPU}, 120, 60)],
            pods=[({**POD, "resource": GPU}, 120, 60)],
            use=[(unit, 15, 40)],
            idle=[(unit, 20, 40)],
        )
        (pool,), (pod,) = told.pools, told.pods
        assert (pool.nodes, pool.gpus, pool.active, pool.offered, pool.allocated) == (1, 2, 0.25, 8, 2)
        # Measured for 40 of 60 minutes, idle for half of these.
        parts = (pod.allocated, pod.used, pod.idle, pod.unmeasured)
        assert parts == pytest.approx((2, 2 / 3, 2 / 3, 2 / 3))
        assert (pool.used, pool.idle, pool.unmeasured) == (pod.used, pod.idle, pod.unmeasured)
        assert pod.active == 15 / 40
        assert told.is_whole
        assert pool.cost is pod.cost is None

    def test_a_pod_on_two_units_is_idle_by_their_mean(self) -> None:
        told = reported(
            pods=[({**POD, "resource": GPU}, 120, 60)],
            idle=[({**POD, "gpu": "0"}, 60, 60), ({**POD, "gpu": "1"}, 0, 60)],
        )
        assert told.pods[0].idle == pytest.approx(1)
        assert told.pods[0].used == pytest.approx(1)

    @pytest.mark.parametrize("count", [None, 0])
    def test_a_row_without_its_count_is_unknown_and_told(self, count: int | None) -> None:
        """Honestly: the pod's only step has left the window meanwhile. As an attack: counts of 0. Both ended in tracebacks."""
        unit = {**POD, "gpu": "0", "UUID": "GPU-0"}
        gpu = {**NODE, "gpu": "0", "UUID": "GPU-0"}
        there = {
            "nodes": [(NODE, 60, 60)],
            "gpus": [(NODE, 120, 60)],
            "active": [(gpu, 15, 60)],
            "offered": [({**NODE, "resource": GPU}, 480, 60)],
            "given": [({**NODE, "resource": GPU}, 120, 60)],
            "pods": [({**POD, "resource": GPU}, 120, 60)],
            "use": [(unit, 15, 40)],
            "idle": [(unit, 20, 40)],
        }
        seen = answers(**there)
        for series in (rules.GPU_ACTIVE, shares.POD_ALLOCATED, rules.POD_IDLE, rules.POD_ACTIVE):
            rows = [] if count is None else [Sample(row.labels, count) for row in seen.counts[series]]
            less = Answers(seen.sums, {**seen.counts, series: rows}, 60)
            told = usage(fleets.plan_of(pools=("turns",)), less, span("1h"), None)
            assert not told.is_whole
            assert f"{series}: of 1 of its rows Prometheus does not say how long they were there" in told.pools[0].missing
            assert all(pod.used is None or pod.used + (pod.idle or 0) + pod.unmeasured == pytest.approx(2) for pod in told.pods)
            assert "Infinity" not in usage_json(told, "x")
            assert usage_table(told)

    def test_what_is_missing_is_unknown_and_not_zero(self) -> None:
        told = reported(nodes=[(NODE, 60, 60)])
        (pool,) = told.pools
        assert {pool.gpus, pool.active, pool.offered, pool.allocated, pool.used, pool.idle, pool.unmeasured} == {None}
        assert not told.is_whole
        assert [line.split(": ")[0] for line in pool.missing] == [
            rules.GPU_ACTIVE,
            shares.NODE_ALLOCATABLE,
            shares.NODE_ALLOCATED,
        ]
        shown = usage_table(told)
        assert shown.splitlines()[4].split() == ["turns", "1.0", *["?"] * 7]
        assert "kube-state-metrics is not scraped" in shown
        assert json.loads(usage_json(told, "s"))["pools"][0]["idle"] is None

    def test_of_a_pod_that_nobody_measures_nothing_is_known_but_what_it_has(self) -> None:
        given = {"given": [({**NODE, "resource": GPU}, 180, 60)]}
        other = {**POD, "pod": "b"}
        both = [({**POD, "resource": GPU}, 120, 60), ({**other, "resource": GPU}, 60, 60)]
        (pool,), pods = reported(pods=both, **given).pools, reported(pods=both, **given).pods
        assert {pool.used, pool.idle, *(pod.idle for pod in pods), *(pod.used for pod in pods)} == {None}
        assert (pool.allocated, pool.unmeasured) == (3, 3)
        (pool,) = reported(pods=both, idle=[({**other, "gpu": "0"}, 15, 60)], **given).pools
        assert (pool.used, pool.idle, pool.unmeasured) == (0.75, 0.25, 2)

    def test_a_pool_without_nodes_lacks_nothing(self) -> None:
        told = reported()
        assert told.is_whole
        assert "Of turns no node was seen" in usage_table(told)

    def test_use_without_idle_minutes_says_nothing_of_a_pod(self) -> None:
        told = reported(pods=[({**POD, "resource": GPU}, 60, 60)], use=[({**POD, "gpu": "0"}, 15, 40)])
        assert (told.pods[0].active, told.pods[0].idle) == (None, None)

    def test_a_pod_with_two_resources_has_a_row_of_each_in_their_order(self) -> None:
        told = reported(pods=[({**POD, "resource": name}, 60, 60) for name in ("b/b", "a/a")])
        assert [pod.resource for pod in told.pods] == ["a/a", "b/b"]

    @pytest.mark.parametrize(
        ("given", "free"), [({}, 8), ({"x/y": 60.0}, 8), ({GPU: 480.0}, 0), ({GPU: 500.0}, 0), ({GPU: 120.0}, 6)]
    )
    def test_what_nobody_has_costs_what_is_left(self, given: dict[str, float], free: float) -> None:
        plan, node = plan_config(AKS), {"instance": "t", "gpu_pool": "turns"}
        (offer,) = plan.pools[0].advertises
        rows = [({**node, "resource": offer if name == GPU else name}, total, 60.0) for name, total in given.items()]
        seen = answers(offered=[({**node, "resource": offer}, 480, 60)], given=rows or [({**node, "resource": "x/y"}, 0, 60)])
        told = usage(plan, seen, span("1h"), Prices("EUR", {"Standard_NC24ads_A100_v4": 3.0}, {}))
        assert told.pools[0].free_cost == pytest.approx(free * 3.0 * share_of_node(plan.pools[0])[offer])

    def test_a_price_makes_costs_and_a_missing_one_is_told(self) -> None:
        plan = fleets.plan_of(pools=("turns",))
        priced = usage(plan, answers(nodes=[(NODE, 60, 60)]), span("1h"), Prices("EUR", {"x": 1.0}, {}))
        assert any(line.startswith("price: ") for line in priced.pools[0].missing)


AKS: dict[str, Any] = {
    "gpu-pools:cluster": {
        "platform": "aks",
        "name": "gpu-dev",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    },
    "gpu-pools:sharing": {
        "turns": {"timeSlicing": {"replicas": 4}},
        "parts": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}},
        "served": {"mps": {"replicas": 8}},
    },
    "gpu-pools:pools": [
        {"name": "turns", "vmSize": "Standard_NC24ads_A100_v4", "count": 2, "sharing": "turns"},
        {"name": "parts", "vmSize": "Standard_NC48ads_A100_v4", "count": 1, "sharing": "parts"},
        {"name": "served", "vmSize": "Standard_NC96ads_A100_v4", "count": 1, "sharing": "served"},
        {"name": "away", "vmSize": "Standard_NC24ads_A100_v4", "nodes": {"min": 0, "max": 2}, "sharing": "turns"},
    ],
}


def a_day() -> Usage:
    """Of a fleet whose pods come and go, with a price for two of four pools' sizes; the rows in no order."""
    draw, plan = Random(18), plan_config(AKS)  # noqa: S311 the same every time
    rows: dict[str, list[tuple[dict[str, str], float, float]]] = {
        key: [] for key in ("nodes", "gpus", "active", "offered", "given", "pods", "use", "idle")
    }
    for pool in plan.pools:
        for number in range(0 if pool.name == "away" else 1 if pool.name == "parts" else 2):
            node, steps = {"instance": f"{pool.name}-{number}", "gpu_pool": pool.name}, draw.randint(40, 60)
            rows["nodes"].append((node, steps, steps))
            rows["gpus"].append((node, steps * pool.hardware.gpus, steps))
            for index in range(pool.hardware.gpus):
                gpu = {**node, "gpu": str(index), "UUID": f"GPU-{pool.name}-{number}-{index}"}
                rows["active"].append((gpu, draw.choice([0, steps / 2, steps / 4]), steps))
            for resource, count in pool.advertises.items():
                held = 0.0
                for pod in range(count - 1):
                    own = {**node, "namespace": draw.choice(["a", "b"]), "pod": f"p{pod}-{resource[-4:]}"}
                    there, asked = draw.randint(2, steps), draw.randint(1, 2)
                    held += there * asked
                    rows["pods"].append(({**own, "resource": resource}, there * asked, there))
                    if pool.name != "served":
                        told = draw.choice([there, there - 1, there + 1])
                        rows["idle"].append(({**own, "gpu": "0"}, draw.randint(0, min(told, there)), told))
                        rows["use"].append(({**own, "gpu": "0"}, told / 4, told))
                rows["offered"].append(({**node, "resource": resource}, steps * count, steps))
                rows["given"].append(({**node, "resource": resource}, held, steps))
    for one in rows.values():
        draw.shuffle(one)
    prices = Prices("EUR", {"Standard_NC24ads_A100_v4": 3.0, "Standard_NC48ads_A100_v4": 7.5}, {})
    return usage(plan, answers(**rows), span("61m"), prices)


class TestADay:
    def test_what_the_stack_does_not_declare_any_more_has_no_price(self) -> None:
        old = {"instance": "turns-0", "gpu_pool": "turns", "resource": "nvidia.com/mig-1g.10gb"}
        seen = answers(pods=[({**old, "namespace": "a", "pod": "p"}, 60, 60)], offered=[(old, 420, 60)], given=[(old, 60, 60)])
        told = usage(plan_config(AKS), seen, span("1h"), Prices("EUR", {"Standard_NC24ads_A100_v4": 3.0}, {}))
        assert (told.pods[0].allocated, told.pods[0].cost) == (1, None)
        assert told.pools[0].free_cost is None

    def test_the_table(self) -> None:
        golden("usage.txt", usage_table(a_day()) + "\n")

    def test_the_document(self) -> None:
        golden("usage.json", usage_json(a_day(), "Pulumi.fleet.yaml") + "\n")

    def test_sums_are_the_same_by_every_python(self) -> None:
        """`sum` rounds after each step before Python 3.12, and not after it."""
        assert report._known([0.1] * 10) == report._sum([0.1] * 10) == 1.0

    def test_parts_are_the_whole(self) -> None:
        for pod in a_day().pods:
            assert (pod.used or 0) + (pod.idle or 0) + pod.unmeasured == pytest.approx(pod.allocated)
        for pool in a_day().pools:
            if pool.allocated is not None:
                assert (pool.used or 0) + (pool.idle or 0) + (pool.unmeasured or 0) == pytest.approx(pool.allocated)


class TestTheCommand:
    def test_what_is_wrong_is_told_by_exit_code_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["usage", STACK, "--prometheus", "http://127.0.0.1:1"]) == 2
        assert "cannot be asked" in capsys.readouterr().err
        for more in (["--over", "1y"], ["--token-file", str(tmp_path / "none")], ["--ca", str(tmp_path / "none")]):
            with pytest.raises(SystemExit) as ended:
                main(["usage", STACK, "--prometheus", "http://127.0.0.1:1", *more])
            assert ended.value.code == 2
        with pytest.raises(SystemExit) as ended:
            main(["usage", STACK, "--prometheus", "http://me:secret@p.example"])
        assert ended.value.code == 2

    def test_a_prometheus_without_recorded_series_cannot_tell(self, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
        url, _ = server(200, vector())
        assert main(["usage", STACK, "--prometheus", url]) == 2
        assert "gpu_pools:declared_gpus:node" in capsys.readouterr().err

    def test_the_token_is_in_no_output(
        self, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        url, seen = server(403, b"")
        (tmp_path / "token").write_text("from-a-file\n")
        assert main(["usage", STACK, "--prometheus", url, "--token-file", str(tmp_path / "token")]) == 2
        monkeypatch.setenv("GPU_POOLS_PROMETHEUS_TOKEN", "of-the-environment")
        assert main(["usage", STACK, "--prometheus", url]) == 2
        assert [one["Authorization"] for one in seen] == ["Bearer from-a-file", "Bearer of-the-environment"]
        shown = capsys.readouterr()
        assert "from-a-file" not in shown.out + shown.err
        assert "--token-file" in shown.err
