"""Attacks by the files that commands read and write: what never ends, what explodes, what leads elsewhere."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_pools.cli.main import main
from gpu_pools.evidence.verdicts import Snapshot
from gpu_pools.hardware.prices import read_prices
from gpu_pools.stack.settings import config_value
from gpu_pools.text.files import read_text, write_whole
from sandbox.stack import state
from sandbox.stack.state import find_sandbox
from sandbox.system.errors import SandboxError
from tests.changes.stacks import BEFORE, PRICES, after, pods
from tests.evidence.fleets import NOW, fleet
from tests.hostile import told
from tests.unit.test_cli import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

PREVIEW = ROOT / "tests" / "changes" / "previews" / "vm-size.jsonl"
ZERO = Path("/dev/zero")
DEEP = "[" * 200_000
HUGE = "0x" + "f" * 6000
STACK = """\
config:
  gpu-pools:cluster: {platform: aks}
  gpu-pools:sharing: {w: {exclusive: {}}}
  gpu-pools:pools: [{name: NAME, vmSize: SIZE, count: COUNT, sharing: w}]
"""
GOOD = {"NAME": "a", "SIZE": "Standard_NC24ads_A100_v4", "COUNT": "1"}
needs_zero = pytest.mark.skipif(not ZERO.exists(), reason="there is no /dev/zero")


def _stack(folder: Path, **given: str) -> str:
    text = STACK
    for key, value in {**GOOD, **given}.items():
        text = text.replace(key, value)
    path = folder / "Pulumi.x.yaml"
    path.write_text(text)
    return str(path)


def _refused(*arguments: str) -> str:
    code, out, error = told(main, *arguments)
    assert (code, "Traceback" in error) == (2, False), out + error
    return out + error


# --- what is read -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [{"COUNT": HUGE}, {"NAME": f"a, {HUGE[:800]}: 1"}, {"COUNT": "9" * 6000}, {"COUNT": f"[{HUGE}]"}]
)
def test_a_number_too_long_to_be_printed(given: dict[str, str], tmp_path: Path) -> None:
    """Tries to end plan with a traceback, and check with its exit code for findings: Python prints no such number."""
    path = _stack(tmp_path, **given)
    assert "digits" in _refused("plan", path)
    config = tmp_path / "config.yaml"
    config.write_text(f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {HUGE}}}]}}}}\n")
    for command in ("check", "import"):
        assert "digits" in _refused(command, str(config))


def test_a_number_too_long_in_the_engine_s_configuration() -> None:
    """The same where components read it: JSON, as the engine hands it over."""
    assert config_value("9" * 6000) == "9" * 6000
    assert config_value(DEEP) == DEEP


@needs_zero
def test_a_link_to_what_never_ends(tmp_path: Path) -> None:
    """Tries to take a runner's memory: a branch may hold a stack file, prices or a preview that is a link to /dev/zero."""
    link = tmp_path / "Pulumi.zero.yaml"
    link.symlink_to(ZERO)
    for command in ("plan", "expect", "check", "import"):
        assert "larger" in _refused(command, str(link))
    assert "larger" in _refused("changes", str(PREVIEW), "--after", str(link))
    with pytest.raises(OSError, match="larger than 1000"):
        read_text(link, 1000)
    with pytest.raises(ValueError, match="prices"):
        read_prices(link)


def test_brackets_without_end(tmp_path: Path) -> None:
    """Tries to have a change pass for blocked (1) or for nothing at all: no document of a change may end Python's stack."""
    deep = tmp_path / "deep"
    deep.write_text(DEEP)
    stack = _stack(tmp_path)
    for arguments in ([str(deep)], [str(PREVIEW), "--pods", str(deep)], [str(PREVIEW), "--prices", str(deep)]):
        _refused("changes", *arguments, "--after", stack)
    _refused("evidence", "--outputs", str(deep))
    for command in ("plan", "check", "import"):
        _refused(command, str(deep))


def test_a_stack_file_that_holds_itself_or_a_billion_copies(tmp_path: Path) -> None:
    """Tries to keep plan busy for ever: aliases to what is around them, and aliases of aliases."""
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text("config: &c\n  gpu-pools:cluster: *c\n  gpu-pools:pools: &p [*p, *c]\n  gpu-pools:sharing: {a: *c}\n")
    _refused("plan", str(path))
    layers = "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12))
    sections = "".join(f"  gpu-pools:{name}: *m\n" for name in ("sharing", "pools", "operator", "verification"))
    path.write_text(f"a: &a [x,x]\n{layers}config:\n  gpu-pools:cluster: {{platform: aks, tags: {{a: *m}}}}\n{sections}")
    assert len(_refused("plan", str(path))) < 20_000
    values = "  gpu-pools:operator: {driver: *m, values: {daemonsets: {rollingUpdate: {maxUnavailable: *m}}}}\n"
    path.write_text(f"a: &a [x,x]\n{layers}config:\n  gpu-pools:cluster: {{platform: *m}}\n{values}")
    assert len(_refused("plan", str(path))) < 20_000


def test_names_without_end_are_refused_in_short(tmp_path: Path) -> None:
    """Tries to fill a terminal, a comment and a log by one name, and a rule by how long it looks at it."""
    said = _refused("plan", _stack(tmp_path, NAME="a" * 200_000 + "!", SIZE="S" * 200_000))
    assert len(said) < 10_000


# --- what is written ----------------------------------------------------------------------------------------------------------


def _results(folder: Path, out: Path) -> dict[str, Callable[[], int]]:
    """Command -> what writes its result there."""
    (folder / "before.yaml").write_text(BEFORE)
    (folder / "Pulumi.shop.yaml").write_text(after("replicas"))
    (folder / "outputs").write_text(json.dumps({**fleet().outputs, "kubeconfig": "clusters: []"}))
    change = [str(PREVIEW), "--before", str(folder / "before.yaml"), "--after", str(folder / "Pulumi.shop.yaml")]
    outputs = ["--outputs", str(folder / "outputs")]
    lines = {f"changes {option}": ["changes", *change, option, str(out)] for option in ("--markdown", "--json", "--sarif")}
    lines |= {f"evidence {option}": ["evidence", *outputs, option, str(out)] for option in ("--html", "--json")}
    return {name: lambda line=line: told(main, *line)[0] for name, line in lines.items()}


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = fleet()
    monkeypatch.setattr("gpu_pools.cli.evidence.look", lambda *_: Snapshot(NOW, seen.nodes, seen.config_maps))


def test_a_result_s_place_that_is_a_link(tmp_path: Path) -> None:
    """Tries to have a runner write into a file of somebody else: a branch may hold a link where a result goes."""
    precious, out = tmp_path / "precious", tmp_path / "out"
    precious.write_text("mine")
    for name, write in _results(tmp_path, out).items():
        out.unlink(missing_ok=True)
        out.symlink_to(precious)
        assert write() in {0, 1}, name
        assert precious.read_text() == "mine", name
        assert not out.is_symlink()
        assert out.stat().st_size > len("mine"), name


def test_a_link_where_the_half_of_a_result_would_lie(tmp_path: Path) -> None:
    """Tries the same with the name that a result has until it is whole."""
    precious, out = tmp_path / "precious", tmp_path / "out"
    precious.write_text("mine")
    (tmp_path / f".out.{os.getpid()}").symlink_to(precious)
    for name, write in _results(tmp_path, out).items():
        assert write() in {0, 1}, name
        assert precious.read_text() == "mine", name


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    """Whoever is root and writes to /dev/null shall not find a file there; here it is a pipe."""
    pipe = tmp_path / "out"
    os.mkfifo(pipe)
    read: list[str] = []
    for name, write in _results(tmp_path, pipe).items():
        reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
        reader.start()
        assert write() in {0, 1}, name
        reader.join(30)
        assert stat.S_ISFIFO(pipe.lstat().st_mode), name
        assert read.pop(), name


def test_a_result_that_cannot_be_written_is_no_verdict(tmp_path: Path) -> None:
    """Tries to pass for a blocked change (1), a node that differs (1), or for none: by a folder in the result's place."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "full").touch()
    for place in (folder, tmp_path / "nowhere" / "out"):
        for name, write in _results(tmp_path, place).items():
            assert write() == 2, name
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_result_is_whole_and_as_open_as_other_files(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_whole(tmp_path / "out", "ü")
    finally:
        os.umask(old)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "ü"
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b", "..", ".", "", "aks-dev/../aks-dev", "a\nb", "\x1b[2J", "x/../../../out"]
)
def test_a_stack_s_name_that_leads_out_of_the_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries to have the sandbox read, make or remove something elsewhere, through a folder of the branch."""
    (tmp_path / "a" / "stacks" / "Pulumi.x").mkdir(parents=True)
    (tmp_path / "out.yaml").write_text(STACK)
    monkeypatch.setattr(state, "stacks", lambda: tmp_path / "a" / "stacks")
    with pytest.raises(SandboxError):
        find_sandbox(name)


def test_the_results_of_good_files_are_as_before(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text(pods())
    (tmp_path / "prices").write_text(PRICES)
    (tmp_path / "Pulumi.shop.yaml").write_text(BEFORE)
    more = ["--pods", str(tmp_path / "pods"), "--prices", str(tmp_path / "prices")]
    code, out, error = told(main, "changes", str(PREVIEW), "--after", str(tmp_path / "Pulumi.shop.yaml"), *more)
    assert (code in {0, 1}, error) == (True, "")
    assert out.startswith("<!-- gpu-pools preview of shop -->")
