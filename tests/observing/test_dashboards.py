"""The dashboards' panels asked of a real Prometheus that has hours of recorded series whose truth is known, and drawn."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.cli.main import main
from gpu_pools.dashboards.asking import Boards, Panel, asked
from gpu_pools.dashboards.live_page import REFRESH
from gpu_pools.dashboards.page import dashboards_page
from gpu_pools.dashboards.server import Answer, Live, Server
from gpu_pools.dashboards.units import shown
from gpu_pools.observing import rules, shares
from gpu_pools.observing.prometheus import Prometheus
from gpu_pools.observing.series import DECLARED_GPUS
from gpu_pools.observing.times import Window
from gpu_pools.plan.planning import plan_config
from tests.observing.history import History, blocks
from tests.observing.prometheus import prometheus
from tests.observing.recorded import GAP, Recorded, record
from tests.observing.test_usage import STACK
from tests.pages import Page, check_harmless
from tests.patience import scaled
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_pools.plan.planned import Plan

pytestmark = [pytest.mark.programs, pytest.mark.sweep, at_night("programs are built for it alone, which takes minutes")]
MINUTES: Final = 240
#: A series that is its own answer, whatever is chosen of it.
ITSELF: Final = re.compile(r"(gpu_pools:\w+:\w+)(\{[^}]*\})?")
#: What stands on the exporter, and on kube-state-metrics.
EXPORTER: Final = tuple(
    name
    for name in vars(rules).values()
    if isinstance(name, str)
    and re.match("gpu_pools:(?!declared)", name)
    and name not in {rules.NODE_VERIFIED, rules.NODE_REPORT_AGE}
)
KUBE_STATE: Final = (shares.NODE_ALLOCATED, shares.POOL_ALLOCATED, shares.POD_ALLOCATED, shares.WAITING)
Labels = frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_config(STACK)


def recorded(plan: Plan, folder: Path, *without: str) -> Recorded:
    made = Recorded(History(int(time.time()) // 60 * 60), MINUTES + 20, away=("away",), without=without)
    record(made, plan)
    folder.mkdir(exist_ok=True)
    blocks(made.made, folder)
    return made


def stack_file(folder: Path) -> str:
    path = folder / "Pulumi.gpu-dev.yaml"
    path.write_text(yaml.safe_dump({"config": STACK}))
    return str(path)


def window(of: Recorded) -> Window:
    return Window(of.made.now - MINUTES * 60, of.made.now, 60)


@pytest.fixture(scope="module")
def told(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recorded, Boards, str]]:
    """What was recorded, what was answered, and the address."""
    folder = tmp_path_factory.mktemp("dashboards")
    made = recorded(plan, folder)
    with prometheus(folder, {}, "--query.lookback-delta=1m") as running:
        yield made, asked(Prometheus(running.url), plan, window(made)), running.url


def panels(boards: Boards) -> dict[tuple[str, str], Panel]:
    return {(board.name, panel.title): panel for board in boards.boards for panel in board.panels}


def last(panel: Panel, end: float) -> dict[str, float]:
    """Legend -> value now."""
    lines = (line for answer in panel.answers for line in answer.lines)
    return {line.legend: line.points[-1][1] for line in lines if line.points[-1][0] == end}


def test_every_panel_has_data_and_series_are_what_was_recorded(told: Any) -> None:
    made, boards, _ = told
    assert boards.is_whole
    assert boards.covered == MINUTES + 1
    compared = 0
    for panel in panels(boards).values():
        for answer in panel.answers:
            assert answer.state == "data", panel.title
            if match := ITSELF.fullmatch(answer.expression):
                now = {frozenset(line.labels.items()): line.points[-1][1] for line in answer.lines}
                assert now == pytest.approx(made.last[match[1]]), panel.title
                compared += 1
    assert compared >= 20


def test_the_number_of_series_is_bounded_by_prometheus(told: Any) -> None:
    _, boards, url = told
    everything = '{__name__=~"gpu_pools:.+"}'
    assert len(Prometheus(url).ask_range(everything, boards.window)) > 50
    assert len(Prometheus(url).ask_range(everything, boards.window, limit=2)) == 2
    assert len(Prometheus(url).ask(everything, at=boards.window.end, limit=2)) == 2


def test_sums_and_shares_are_the_truth(told: Any) -> None:
    made, boards, _ = told
    found, end = panels(boards), boards.window.end
    active = list(made.last[rules.GPU_ACTIVE].values())
    assert last(found["fleet", "GPUs that answer"], end) == {"GPUs": 3}
    assert last(found["fleet", "Use of all GPUs"], end) == pytest.approx({"use": sum(active) / len(active)})
    assert last(found["fleet", "GPUs not used at all"], end) == {"GPUs": 0}
    assert last(found["fleet", "Pods that hold a share and use nothing"], end) == {"parts": 0, "turns": 1}
    memory = {
        dict(labels)["gpu_pool"]: used / made.last[rules.GPU_MEMORY][labels]
        for labels, used in made.last[rules.GPU_MEMORY_USED].items()
    }
    assert last(found["fleet", "Memory in use by pool"], end) == pytest.approx(memory)
    power = {dict(labels)["gpu_pool"]: watts for labels, watts in made.last[rules.GPU_POWER].items()}
    assert last(found["fleet", "Power by pool"], end) == pytest.approx(power)
    (idle,) = found["pods", "Pods that use nothing"].answers[0].lines
    assert (idle.labels["pod"], idle.points[-1][1]) == ("turns-0-0", 0.002)
    # Neither is there now: the one is over, the other shows where it was.
    (xid,) = found["gpu", "Xids of the last five minutes"].answers[0].lines
    assert (xid.legend, (end - xid.points[-1][0]) / 60) == ("Xid 109", 101)
    for line in found["gpu", "Power"].answers[0].lines:
        minutes = {round((end - at) / 60) for at, _ in line.points}
        assert set(range(MINUTES + 1)) - minutes == set(range(GAP[0] + 1, GAP[1]))


def test_the_drawn_lines_end_where_the_truth_is(told: Any, plan: Plan) -> None:
    made, boards, _ = told
    page = Page(dashboards_page("gpu-dev", plan, boards))
    check_harmless(page)
    for panel in panels(boards).values():
        for answer in panel.answers if panel.kind == "timeseries" else ():
            for line in answer.lines:
                if line.points[-1][0] == boards.window.end:
                    assert f"{line.legend}last {shown(line.points[-1][1], panel.unit)}, max" in page.text, panel.title
    (drawn,) = re.findall(r"<h3>Use of the whole GPU</h3>(.*?)</section>", dashboards_page("gpu-dev", plan, boards))
    picture = drawn.partition("</svg>")[0]
    assert ">100 %<" in picture
    # The frame is 184 pixels high, from 194 (nothing) to 10 (all of it).
    ends = [(194 - float(y)) / 184 for y in re.findall(r'class="line [^"]*" d="[^"]* ([\d.]+)"', picture)]
    assert sorted(ends) == pytest.approx(sorted(made.last[rules.GPU_ACTIVE].values()), abs=0.001)


def test_the_command_writes_a_page_and_says_that_all_is_known(
    told: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, url = told
    stack, page = stack_file(tmp_path), tmp_path / "page.html"
    assert main(["dashboards", stack, "--prometheus", url, "--over", "4h", "--html", str(page)]) == 0
    assert "Use of the whole GPU" in capsys.readouterr().out
    assert "<h1>GPUs of gpu-dev</h1>" in page.read_text()
    assert main(["dashboards", stack, "--prometheus", url, "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("without", "words", "title", "kept"),
    [
        (EXPORTER, "No DCGM exporter", "Use by GPU", "Shares by pod"),
        (KUBE_STATE, "kube-state-metrics is not scraped", "Shares by pod", "Use by GPU"),
        ((rules.NODE_VERIFIED, rules.NODE_REPORT_AGE), "No verifier", "Nodes that are proven to be as declared", "Use by GPU"),
    ],
)
def test_who_is_missing_is_named_and_nothing_is_drawn(
    plan: Plan, tmp_path: Path, without: tuple[str, ...], words: str, title: str, kept: str
) -> None:
    made = recorded(plan, tmp_path / "data-of", *without)
    with prometheus(tmp_path / "data-of", {}, "--query.lookback-delta=1m") as running:
        boards = asked(Prometheus(running.url), plan, window(made))
        assert main(["dashboards", stack_file(tmp_path), "--prometheus", running.url, "--over", "4h"]) == 3
    assert not boards.is_whole
    text = dashboards_page("gpu-dev", plan, boards)
    found = dict(re.findall(r"<h3>([^<]*)</h3>(.*?)</section>", text))
    assert words in found[title]
    assert "<svg" not in found[title]
    assert 'class="value"' not in found[title]
    assert '<svg class="chart"' in found[kept]
    if without is EXPORTER:
        # Not 0.
        assert 'class="value"' not in found["GPUs not used at all"]
        assert words in found["GPUs not used at all"]


def test_without_recorded_series_it_cannot_tell(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = stack_file(tmp_path)
    recorded(plan, tmp_path / "of", DECLARED_GPUS)
    with prometheus(tmp_path / "of", {}, "--query.lookback-delta=1m") as running:
        assert main(["dashboards", stack, "--prometheus", running.url]) == 2
    assert f"has no {DECLARED_GPUS}" in capsys.readouterr().err


@contextmanager
def served(live: Live) -> Iterator[str]:
    with Server(live, socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def test_live_pages_show_what_is_chosen_of_a_real_prometheus(told: Any, plan: Plan) -> None:
    made, _, url = told
    live = Live("gpu-dev", plan, Prometheus(url), "3h")
    uuid = "GPU-parts-0"
    with served(live) as address:
        for query, there, not_there in (
            ("board=fleet", ("3 lines", "GPUs that answer"), ("No data", "failed")),
            ("board=gpu", ("parts-0 GPU 0", "turns-0 GPU 0"), ("failed",)),
            (f"board=gpu&pool=parts&node=parts-0&gpu={uuid}", (f'value="{uuid}" selected', "parts-0 GPU 0"), ("turns-0",)),
            ("board=gpu&node=.*", ("all are shown",), ()),
            ("board=pods&pool=turns", ("team/turns-0-0",), ("team/parts-0-0",)),
        ):
            with urllib.request.urlopen(f"{address}?{query}", timeout=60) as answer:  # noqa: S310 our own address
                body = answer.read().decode()
            assert all(words in body for words in there), query
            assert not any(words in body for words in not_there), query
    now = dict(made.last[rules.GPU_ACTIVE])
    wanted = next(value for labels, value in now.items() if dict(labels)["UUID"] == uuid)
    body = live.answer(f"/?board=gpu&gpu={uuid}", "127.0.0.1", made.made.now).body
    assert f"last {shown(wanted, 'percentunit')}, max" in body


class Later(Live):
    """A minute passes from one request to the next."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pages = 0

    def answer(self, target: str, host: str, now: float) -> Answer:
        self.pages += target.startswith("/?")
        return super().answer(target, host, now + 60 * self.pages)


BROWSER: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
def test_a_browser_draws_it_anew_in_place(told: Any, plan: Plan, tmp_path: Path) -> None:
    _, _, url = told
    live = Later("gpu-dev", plan, Prometheus(url), "15m")
    with served(live) as address:
        # Ten seconds of its own time after the script's first look; what the policy forbids it tells on its error output.
        command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/browser"]
        command += ["--enable-logging=stderr", f"--virtual-time-budget={(REFRESH + 10) * 1000}", "--dump-dom"]
        done = subprocess.run([*command, f"{address}?board=gpu"], capture_output=True, text=True, timeout=scaled(120), check=True)
    assert live.pages == 2
    assert "Content Security Policy" not in done.stderr
    assert '<p id="told" role="status" hidden="">' in done.stdout
    shown_at = re.findall(r"Asked at ([\d:]+) UTC", done.stdout)
    first = time.gmtime(time.time() + 60)
    assert shown_at
    assert shown_at[0][:5] != f"{first.tm_hour:02}:{first.tm_min:02}"
    assert '<svg class="chart"' in done.stdout


def test_the_command_serves_at_an_address_that_nobody_guesses(told: Any, tmp_path: Path) -> None:
    _, _, url = told
    command = [sys.executable, "-m", "gpu_pools", "dashboards", stack_file(tmp_path), "--prometheus", url, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        address = running.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", address)
        with urllib.request.urlopen(address, timeout=scaled(60)) as answer:  # noqa: S310
            assert b"<h1>GPUs of gpu-dev</h1>" in answer.read()
        port = address.split(":")[2].partition("/")[0]
        taken = subprocess.run([*command, port], capture_output=True, text=True, timeout=scaled(60), check=False)
        assert taken.returncode == 2
        assert f"port {port} of 127.0.0.1 cannot be had" in taken.stderr
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == -signal.SIGINT
