"""`gpu-pools dashboards --serve` without a Prometheus: what is chosen, what is asked, what a server answers and to whom."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.cli.main import main
from gpu_pools.dashboards.choosing import Choice, matchers, values
from gpu_pools.dashboards.server import Answer, Live, Server
from gpu_pools.observing import rules
from gpu_pools.observing.dashboards import dashboards
from gpu_pools.observing.prometheus import CannotAskError, Row
from gpu_pools.observing.times import Window
from gpu_pools.plan.planning import plan_config
from tests.examples import examples
from tests.hostile import WORST
from tests.observing import fleets
from tests.pages import Page
from tests.unit.test_dashboards import WINDOW, Told, points, some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.plan.planned import Plan

NOW: Final = 1_800_000_600.0
HOST: Final = "127.0.0.1:9"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_config(fleets.stack(pools=("turns", "mixed")))


def says(expression: str) -> list[Row]:
    """Two nodes of a GPU each, and whatever a chart needs."""
    if expression.startswith("group by (instance)"):
        return [Row({"instance": name}, points(1)) for name in ("n-1", "n-0")]
    if expression.startswith("group by (UUID)"):
        return [Row({"UUID": name}, points(1)) for name in ("GPU-0", "GPU-1")]
    return some(expression)


@pytest.fixture
def told() -> Told:
    return Told(says)


@pytest.fixture
def live(plan: Plan, told: Told) -> Live:
    return Live("gpu-dev", plan, told, "1h")  # type: ignore[arg-type]


def asked(live: Live, target: str = "/", now: float = NOW) -> Answer:
    return live.answer(target, HOST, now)


class TestChoosing:
    def test_a_choice_is_in_each_query_of_its_dashboard_and_in_no_other(self, live: Live, told: Told) -> None:
        assert asked(live, "/?board=gpu&pool=turns&node=n-0&gpu=GPU-1").status == 200
        boards = [text for text, _ in told.questions if "UUID=~" in text]
        assert boards
        assert all('gpu_pool=~"turns"' in one for one in boards)
        assert all('instance=~"n-0", UUID=~"GPU-1"' in one for one in boards if not one.startswith("group"))
        assert not any(rules.POD_MEMORY_USED in text for text, _ in told.questions)

    def test_each_choice_is_narrowed_by_those_before_it(self, plan: Plan, told: Told) -> None:
        found = values(told, plan, WINDOW, Choice("gpu", "turns", "n-0"))  # type: ignore[arg-type]
        assert found == {"pool": ["turns", "mixed"], "node": ["n-0", "n-1"], "gpu": ["GPU-0", "GPU-1"]}
        assert [text for text, _ in told.questions] == [
            f'group by (instance) ({rules.GPU_ACTIVE}{{gpu_pool=~"turns"}})',
            f'group by (UUID) ({rules.GPU_ACTIVE}{{gpu_pool=~"turns", instance=~"n-0"}})',
        ]

    def test_what_can_be_chosen_is_what_grafana_gets(self, plan: Plan, live: Live) -> None:
        for name, board in dashboards(plan).items():
            page = Page(re.sub("<(input|link) ", r"<meta ", asked(live, f"/?board={name}").body))
            wanted = [one["name"] for one in board["templating"]["list"] if one["type"] == "query"]
            assert [one["name"] for one in page.of("select")] == [*wanted, "over"]

    @settings(max_examples=examples(200), deadline=None)
    @given(st.text())
    def test_a_value_of_others_stays_one_value(self, plan: Plan, value: str) -> None:
        """Read as Go reads a string, and RE2 an expression: it means that value, and nothing of it ends the string."""
        written = matchers(plan, Choice(node=value or "x"))["node"]
        assert not re.search(r'(?<!\\)(\\\\)*"', written)
        assert re.fullmatch(json.loads(f'"{written}"'), value or "x", re.DOTALL)
        assert not re.fullmatch(json.loads(f'"{written}"'), f"{value or 'x'}y", re.DOTALL)


class TestAnswers:
    def test_a_page_says_what_is_chosen_and_when_it_was_asked(self, live: Live) -> None:
        body = asked(live, "/?board=gpu&pool=mixed&over=15m").body
        assert '<option value="mixed" selected>' in body
        assert '<option value="15m" selected>' in body
        assert 'href="?board=pods&amp;pool=mixed&amp;over=15m"' in body
        assert 'aria-current="page">GPU<' in body
        assert "Asked at 08:10:00 UTC" in body
        assert '<svg class="chart"' in body
        assert "GPU 0, 1: 2x 1g.10gb" in body
        assert "GPU 0, 1: 2x 1g.10gb" not in asked(live, "/?board=gpu&pool=turns").body

    def test_a_node_that_went_away_is_told_and_all_are_shown(self, live: Live, told: Told) -> None:
        body = asked(live, "/?board=gpu&node=gone").body
        assert "gone is not among the nodes of that time; all are shown" in body
        assert any('instance=~".*"' in text for text, _ in told.questions)

    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ("board=none", "board: 'none' is not one of fleet, pool, gpu, pods"),
            ("pool=none", "pool: 'none' is not one of turns, mixed"),
            ("over=1y", "from five minutes to 92 days"),
            ("else=1", "else: is not known here"),
            (f"node={'n' * 301}", "node: is too long"),
            ("a=1&b=2&c=3&d=4&e=5&f=6", "is not an address of this page"),
        ],
    )
    def test_what_is_wrong_in_an_address_is_refused(self, live: Live, told: Told, query: str, words: str) -> None:
        answer = asked(live, f"/?{query}")
        assert (answer.status, answer.type) == (400, "text/plain; charset=utf-8")
        assert words in answer.body
        assert told.questions == []

    @pytest.mark.parametrize(("over", "step"), [("15m", 15), ("1h", 15), ("3h", 60), ("24h", 240)])
    def test_a_step_is_asked_once(self, live: Live, told: Told, over: str, step: int) -> None:
        target = f"/?over={over}"
        asked(live, target)
        once = len(told.questions)
        windows = {how[0] for _, how in told.questions if isinstance(how[0], Window)}
        assert {window.step for window in windows} == {step}
        until = 60 if step > 15 else 15
        assert asked(live, target, NOW + until - 1).body == asked(live, target).body
        assert len(told.questions) == once
        asked(live, target, NOW + until)
        assert len(told.questions) == 2 * once

    def test_where_prometheus_is_away_the_page_says_so_and_goes_on(self, plan: Plan) -> None:
        def away(_: str) -> list[Row]:
            message, remedy = "http://p <cannot> be asked: refused", "Is it there?"
            raise CannotAskError(message, remedy)

        answer = Live("gpu-dev", plan, Told(away), "1h").answer("/?board=pool", HOST, NOW)  # type: ignore[arg-type]
        assert answer.status == 200
        assert "http://p &lt;cannot&gt; be asked: refused. Is it there?" in answer.body
        assert '<script src="live.js" defer>' in answer.body
        assert "<svg" not in answer.body

    def test_hostile_text_stays_text(self, plan: Plan) -> None:
        def evil(expression: str) -> list[Row]:
            label = "UUID" if "(UUID)" in expression else "instance"
            return [Row({label: one, "gpu_pool": one, "pod": one}, points(0.5, 0.2)) for one in WORST]

        body = Live("gpu-dev", plan, Told(evil), "1h").answer("/?board=gpu", HOST, NOW).body  # type: ignore[arg-type]
        page = Page(re.sub("<(input|link) ", r"<meta ", body))
        assert [one["src"] for one in page.of("script")] == ["live.js"]
        for tag, attributes in page.elements:
            assert tag not in {"img", "iframe", "object", "base", "image"}
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            assert str(attributes.get("href") or "?").startswith("?") or tag == "meta"

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "["])
    def test_a_page_of_another_name_reaches_nothing(self, live: Live, told: Told, host: str) -> None:
        """A name of a site of others may lead to this machine (DNS rebinding)."""
        assert live.answer("/", host, NOW).status in {400, 421}
        assert told.questions == []

    @pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "localhost:8080", "[::1]:3"])
    def test_this_machine_has_several_names(self, live: Live, host: str) -> None:
        assert live.answer("/", host, NOW).status == 200

    def test_who_does_not_know_the_secret_gets_nothing(self, plan: Plan, told: Told) -> None:
        secret = Live("gpu-dev", plan, told, "1h", "s3cret")  # type: ignore[arg-type]
        for target in ("/", "/page.css", "/s3cre/", "/s3cret", "/S3CRET/", "/x/s3cret/", "/é/"):
            assert asked(secret, target).status == 404
        assert told.questions == []
        for target in ("/s3cret/", "/s3cret/page.css", "/s3cret/live.js"):
            assert asked(secret, target).status == 200


@contextmanager
def served(live: Live) -> Iterator[Server]:
    with Server(live, socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def got(server: Server, method: str, path: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


class TestServer:
    def test_what_it_sends_may_load_only_what_is_its_own(self, live: Live) -> None:
        with served(live) as server:
            for path in ("/", "/page.css", "/live.js", "/none", "/?board=x"):
                _, headers, _ = got(server, "GET", path)
                assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["Content-Security-Policy"]
                assert "unsafe" not in headers["Content-Security-Policy"]
                assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
                assert headers["X-Content-Type-Options"] == "nosniff"
                assert headers["Cache-Control"] == "no-store"
                assert "Python" not in headers["Server"]

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
    def test_get_alone_is_answered(self, live: Live, told: Told, method: str) -> None:
        with served(live) as server:
            assert got(server, method, "/")[0] == 501
        assert told.questions == []


def test_a_port_that_is_taken_or_no_port_is_refused(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "Pulumi.a.yaml"
    for text in ("x", "65536", "-1"):
        with pytest.raises(SystemExit):
            main(["dashboards", str(stack), "--prometheus", "http://127.0.0.1:9", "--serve", text])
        assert "serve" in capsys.readouterr().err
