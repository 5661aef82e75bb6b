"""`gpu-pools dashboards` without a Prometheus: units, axes, lines, why there is no data, the page, hostile answers."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_pools.cli.main import main
from gpu_pools.dashboards.asking import MOST_SERIES, Answer, Board, Boards, Line, Panel, asked
from gpu_pools.dashboards.chart import chart
from gpu_pools.dashboards.missing import PROOFS, reason, series_of
from gpu_pools.dashboards.page import dashboards_page
from gpu_pools.dashboards.showing import dashboards_table
from gpu_pools.dashboards.units import axis, shown
from gpu_pools.observing import rules, shares
from gpu_pools.observing.dashboards import dashboards
from gpu_pools.observing.prometheus import RefusedError, Row, Sample
from gpu_pools.observing.series import DECLARED_GPUS
from gpu_pools.observing.times import Window, span
from gpu_pools.plan.planning import plan_config
from tests.examples import examples
from tests.hostile import WORST, harmful
from tests.observing import fleets
from tests.pages import Page, check_harmless
from tests.unit.golden import golden

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpu_pools.plan.planned import Plan

UNITS: Final = ("short", "percentunit", "bytes", "watt", "celsius", "s")
WINDOW: Final = Window(1_800_000_000, 1_800_000_000 + 600, 60)
FINITE: Final = st.floats(allow_nan=False, allow_infinity=False)


class TestUnits:
    @pytest.mark.parametrize(
        ("value", "unit", "text"),
        [
            (0, "short", "0"),
            (3, "short", "3"),
            (1234, "short", "1.23K"),
            (2.5e6, "short", "2.5M"),
            (-4, "short", "-4"),
            (0.8334, "percentunit", "83.3 %"),
            (1, "percentunit", "100 %"),
            (0.0004, "percentunit", "0.04 %"),
            (-0.0, "percentunit", "0 %"),
            (1023, "bytes", "1023 B"),
            (80 * 2**30, "bytes", "80 GiB"),
            (1.5 * 2**40, "bytes", "1.5 TiB"),
            (357.2, "watt", "357 W"),
            (12_500, "watt", "12.5 kW"),
            (52.46, "celsius", "52.5 °C"),
            (30, "s", "30 s"),
            (90, "s", "1.5 min"),
            (5400, "s", "1.5 h"),
            (3 * 86400, "s", "3 d"),
        ],
    )
    def test_a_value_has_its_unit(self, value: float, unit: str, text: str) -> None:
        assert shown(value, unit) == text

    @pytest.mark.parametrize(
        ("most", "unit", "ticks"),
        [
            (0.83, "percentunit", "0 % 25 % 50 % 75 % 100 %"),
            (0.03, "percentunit", "0 % 1 % 2 % 3 %"),
            (3, "short", "0 1 2 3"),
            (1, "short", "0 1"),
            (0, "short", "0 1"),
            (66 * 2**30, "bytes", "0 B 32 GiB 64 GiB 96 GiB"),
            (275, "s", "0 s 2 min 4 min 6 min"),
            (380, "watt", "0 W 100 W 200 W 300 W 400 W"),
        ],
    )
    def test_ticks_are_round_numbers(self, most: float, unit: str, ticks: str) -> None:
        assert " ".join(shown(tick, unit) for tick in axis(0, most, unit).ticks) == ticks

    @settings(max_examples=examples(300), deadline=None)
    @given(FINITE, FINITE, st.sampled_from(UNITS))
    @example(0.0, 1e-09, "short")
    @example(-1e-09, 0.0, "short")
    @example(-1.7e308, 1.7e308, "bytes")
    @example(0.0, 5e-324, "percentunit")
    def test_an_axis_holds_what_it_is_for(self, one: float, other: float, unit: str) -> None:
        low, high = sorted((one, other))
        made = axis(low, high, unit)
        assert all(map(math.isfinite, made.ticks))
        assert 2 <= len(made.ticks) <= 8
        assert list(made.ticks) == sorted(set(made.ticks))
        assert made.low <= 0 <= made.high
        assert 0 <= made.part(low) <= made.part(high) <= 1
        for value in (low, high):
            shown(value, unit).encode()


def points(*values: float, step: int = 60) -> list[tuple[float, float]]:
    """A value at each step; what is not a number is not there."""
    return [(WINDOW.start + index * step, value) for index, value in enumerate(values) if not math.isnan(value)]


def drawn(*lines: Sequence[tuple[float, float]], unit: str = "short") -> Page:
    return Page(chart("words", [Line("a", {}, line) for line in lines], unit, WINDOW, 12))


def coordinates(page: Page) -> list[tuple[float, float]]:
    """Of lines and dots."""
    paths = " ".join(str(one["d"]) for one in page.of("path") if "line" in str(one["class"]))
    found = [(float(x), float(y)) for x, y in re.findall(r"[ML](\S+?) (\S+?)(?=[ML]|$| )", paths)]
    return found + [(float(one["cx"] or -1), float(one["cy"] or -1)) for one in page.of("circle")]


class TestCharts:
    @settings(max_examples=examples(150), deadline=None)
    @given(st.lists(FINITE, min_size=1, max_size=11), st.sampled_from(UNITS))
    def test_every_point_is_inside_the_frame(self, values: list[float], unit: str) -> None:
        found = coordinates(drawn(points(*values), unit=unit))
        assert len(found) == len(values)
        assert all(66 <= x <= 562 and 10 <= y <= 194 for x, y in found)

    def test_what_is_missing_is_a_gap(self) -> None:
        page = drawn(points(1, 2, math.nan, 3, 4, 5))
        (line,) = [str(one["d"]) for one in page.of("path") if "line" in str(one["class"])]
        assert [piece.count("L") + 1 for piece in line.split("M")[1:]] == [2, 3]
        assert page.of("circle") == []

    def test_a_value_alone_is_a_dot(self) -> None:
        page = drawn(points(math.nan, 7))
        assert len(page.of("circle")) == 1
        assert not [one for one in page.of("path") if "line" in str(one["class"])]

    def test_a_value_is_where_the_axis_says(self) -> None:
        page = drawn(points(0, 0.5, 1), unit="percentunit")
        assert [y for _, y in coordinates(page)] == [194, 102, 10]
        assert [data for tag, data in page.texts if tag == "text"][:5] == ["0 %", "25 %", "50 %", "75 %", "100 %"]

    @pytest.mark.parametrize("over", ["5m", "90m", "6h", "24h", "7d", "92d"])
    @pytest.mark.parametrize("columns", [8, 12, 24])
    def test_times_are_on_the_axis_and_do_not_overlap(self, over: str, columns: int) -> None:
        window = span(over).window(1_800_000_123, 360)
        assert (window.end - window.start) // window.step <= 360
        page = Page(chart("w", [Line("a", {}, [(window.end, 1.0)])], "short", window, columns))
        places = [float(one["x"] or 0) for one in page.of("text") if one["class"] == "at-x"]
        assert len(places) >= 1
        assert all(after - before >= 80 for before, after in pairwise(places))


class TestWhyThereIsNoData:
    def test_each_series_of_the_dashboards_has_somebody_who_tells_it(self) -> None:
        for board in dashboards(fleets.plan_of()).values():
            for panel in board["panels"]:
                for target in panel.get("targets", ()):
                    assert series_of(target["expr"])
                    assert not reason(target["expr"], ()).known
                    assert reason(target["expr"], ()).words
                    assert reason(target["expr"], PROOFS).words

    @pytest.mark.parametrize(
        ("expression", "there", "known", "words"),
        [
            (rules.GPU_ACTIVE, (DECLARED_GPUS,), False, "No DCGM exporter"),
            (rules.GPU_ACTIVE, PROOFS, False, "is not told, although"),
            (f"max by (xid) ({rules.XIDS}) > 0", (rules.NODE_GPUS,), True, "No GPU has told of an Xid"),
            (f"max by (xid) ({rules.XIDS}) > 0", (), False, "No DCGM exporter"),
            (rules.POD_ACTIVE, (rules.NODE_GPUS,), True, "value of its own"),
            (f'{rules.POD_ACTIVE}{{gpu_pool=~"a"}} < 0.01', (rules.NODE_GPUS,), True, "uses nothing"),
            (shares.POD_ALLOCATED, (shares.NODE_ALLOCATED,), True, "No pod had a share"),
            (shares.WAITING, (rules.NODE_GPUS,), False, "kube-state-metrics is not scraped"),
            (rules.NODE_VERIFIED, (rules.NODE_GPUS,), False, "No verifier is scraped"),
            (shares.POOL_ALLOCATABLE, (), False, "Neither kube-state-metrics nor a verifier"),
        ],
    )
    def test_nothing_is_not_unknown(self, expression: str, there: tuple[str, ...], known: bool, words: str) -> None:  # noqa: FBT001
        why = reason(expression, there)
        assert why.known is known
        assert words in why.words


@dataclass
class Told:
    """Answers to each question what a function says: how the page is made of answers, not how Prometheus makes them."""

    says: Callable[[str], list[Row]]
    questions: list[tuple[str, Any]] = field(default_factory=list)

    def within(self, seconds: float) -> Told:
        assert seconds > 0
        return self

    def ask_range(self, expression: str, window: Window, *, limit: int = 0) -> list[Row]:
        self.questions.append((expression, (window, limit)))
        return self.says(expression)

    def ask(self, expression: str, *, at: float, limit: int) -> list[Sample]:
        self.questions.append((expression, (at, limit)))
        return [Sample(row.labels, row.points[-1][1]) for row in self.says(expression)]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_config(fleets.stack(pools=("turns", "mixed")))


def boards_of(plan: Plan, says: Callable[[str], list[Row]]) -> tuple[Boards, Told]:
    told = Told(says)
    return asked(told, plan, WINDOW), told  # type: ignore[arg-type]


def some(expression: str) -> list[Row]:
    """Of each question two series, with a gap in one; of Xids none, and of verifiers nothing at all."""
    if rules.XIDS in expression or rules.NODE_VERIFIED in expression or rules.NODE_REPORT_AGE in expression:
        return []
    if rules.GPU_POWER in expression:
        raise RefusedError("http://p refuses the question (422): too many samples", "Ask about a shorter time.")
    size = 2.0**33 if "bytes" in expression else 1
    labels = {
        "__name__": "x",
        "instance": "n-0",
        "gpu_pool": "turns",
        "gpu": "0",
        "UUID": "GPU-0",
        "namespace": "team",
        "pod": "p",
    }
    whole = [(time, size * value) for time, value in points(0.1, 0.2, 0.4, 0.3, 0.5, 0.6, 0.6, 0.2, 0.1, 0, 0.25)]
    return [Row(labels, whole), Row({**labels, "gpu": "1", "UUID": "GPU-1"}, [*whole[:3], *whole[6:9]])]


class TestAsking:
    def test_each_question_of_each_panel_is_asked_once_with_everything_chosen(self, plan: Plan) -> None:
        _, told = boards_of(plan, some)
        wanted = Counter[tuple[str, bool]]()
        for board in dashboards(plan).values():
            for panel in board["panels"]:
                for target in panel.get("targets", ()):
                    text = target["expr"].replace("$pool", "turns|mixed").replace("$node", ".*").replace("$gpu", ".*")
                    wanted[text, panel["type"] == "timeseries"] += 1
        asked_for = Counter((text, isinstance(how[0], Window)) for text, how in told.questions[len(PROOFS) :])
        assert asked_for == wanted
        assert {how for _, how in told.questions[len(PROOFS) :]} == {(WINDOW, MOST_SERIES), (WINDOW.end, MOST_SERIES)}
        assert "$" not in str(told.questions)

    def test_now_is_judged_by_what_is_there_now(self, plan: Plan) -> None:
        """An exporter that went away an hour ago has told of the past, and does not tell of now."""

        def gone(expression: str) -> list[Row]:
            if expression.startswith("count(") and "<" not in expression:
                return [Row({}, points(1, 1, 1) if rules.NODE_GPUS in expression else points(*[1] * 11))]
            return []

        boards, _ = boards_of(plan, gone)
        panels = {panel.title: panel for board in boards.boards for panel in board.panels}
        assert panels["GPUs that answer"].answers[0].words.startswith("No DCGM exporter")
        assert panels["Pods that use nothing"].answers[0].state == "unknown"
        assert panels["Use by pod, of its GPU or MIG instance"].answers[0].state == "nothing"

    def test_what_has_no_answer_is_not_whole(self, plan: Plan) -> None:
        boards, _ = boards_of(plan, some)
        assert not boards.is_whole
        full = [Row({}, points(*[0.5] * 11))]
        assert boards_of(plan, lambda _: full)[0].is_whole
        shown_table = dashboards_table(boards)
        assert re.search(r"gpu +Power +failed\n", shown_table)
        assert re.search(r"fleet +Nodes that are proven to be as declared +\?\n", shown_table)
        assert re.search(r"gpu +Xids of the last five minutes +none\n", shown_table)
        assert shown_table.count("No verifier is scraped") == 1


class TestThePage:
    def test_it_is_what_it_was(self, plan: Plan) -> None:
        golden("dashboards.html", dashboards_page("gpu-dev", plan, boards_of(plan, some)[0]))

    def test_it_is_whole_and_loads_nothing(self, plan: Plan) -> None:
        page = Page(dashboards_page("gpu-dev", plan, boards_of(plan, some)[0]))
        check_harmless(page)
        assert any(meta.get("content") == "default-src 'none'; style-src 'unsafe-inline'" for meta in page.of("meta"))
        (style,) = [data for tag, data in page.texts if tag == "style"]
        assert "prefers-color-scheme: dark" in style
        for board in dashboards(plan).values():
            assert all(panel["title"] in page.text for panel in board["panels"])
        assert "GPU 0, 1: 2x 1g.10gb, 1x 2g.20gb, 1x 3g.40gb" in page.text

    def test_without_data_nothing_is_drawn(self, plan: Plan) -> None:
        boards, _ = boards_of(plan, lambda _: [])
        page = Page(dashboards_page("gpu-dev", plan, boards))
        assert not [one for one in page.of("svg") if one["class"] == "chart"]
        assert not [one for one in page.of("div") if one.get("class") == "value"]
        questions = sum(len(panel.answers) for board in boards.boards for panel in board.panels)
        assert page.text.count("No data") == questions
        assert "evaluated at 0 of 11 steps" in page.text

    def test_hostile_labels_stay_text(self, plan: Plan) -> None:
        evil = [Row({"pod": one, "instance": one, one: one, "gpu_pool": one}, points(0.5, 0.2)) for one in WORST]
        boards, _ = boards_of(plan, lambda _: evil)
        text = dashboards_page(WORST[12], plan, boards)
        check_harmless(Page(text))
        assert harmful(text.replace("\n", "")) == []
        text.encode()

    def test_a_hostile_refusal_stays_text_too(self, plan: Plan) -> None:
        told = Answer("x", "{{pod}}", (), 0, "refused", "".join(WORST))
        board = Board("gpu", "GPU", (Panel("Use", "timeseries", "short", 12, "", (told, told)),))
        page = Page(dashboards_page("x", plan, Boards(WINDOW, 11, (board,))))
        check_harmless(page)
        assert "The query failed" in page.text

    def test_of_many_series_those_that_reach_highest_are_drawn(self, plan: Plan) -> None:
        rows = [Row({"instance": f"n-{number:03}", "gpu": "0"}, points(number / 100, 0)) for number in range(60)]
        page = Page(dashboards_page("x", plan, boards_of(plan, lambda _: rows)[0]))
        assert "20 of 60 series: those that reach highest." in page.text
        assert "10 of 60 series: those that reach highest." in page.text
        assert "50 of 60 series: those that reach highest." in page.text
        assert "or more" not in page.text
        names = [data for tag, data in page.texts if tag == "span" and data.startswith("n-")]
        assert "n-040 GPU 0" in names
        assert "n-039 GPU 0" not in names

    def test_where_prometheus_has_more_than_was_asked_for_it_is_told(self, plan: Plan) -> None:
        rows = [Row({"instance": f"n-{number}"}, points(1)) for number in range(MOST_SERIES)]
        page = Page(dashboards_page("x", plan, boards_of(plan, lambda _: rows)[0]))
        assert "20 of 2000 series or more: no more were asked for, so others may reach higher." in page.text

    def test_a_series_that_ended_says_when(self, plan: Plan) -> None:
        page = Page(dashboards_page("x", plan, boards_of(plan, lambda _: [Row({}, points(0.5, 0.75))])[0]))
        assert "last 75 % at 2027-01-15 08:01, max 75 %" in page.text


class TestTheCommand:
    STACK = "stacks/Pulumi.aks-dev.yaml"

    def test_what_is_wrong_is_told_by_exit_code_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["dashboards", self.STACK, "--prometheus", "http://127.0.0.1:1"]) == 2
        assert "cannot be asked" in capsys.readouterr().err
        assert main(["dashboards", str(tmp_path / "none.yaml"), "--prometheus", "http://127.0.0.1:1"]) == 2
        with pytest.raises(SystemExit) as ended:
            main(["dashboards", self.STACK, "--prometheus", "http://me:secret@p.example"])
        assert ended.value.code == 2
