"""``python -m gpu_pools layouts`` and ``change``: what people see, what machines read, what is refused."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_pools.cli.main import main
from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import maximal_layouts, place
from gpu_pools.mig.picture import Pen, draw, ruler, unit_width
from tests.unit.stacks import existing
from tests.unit.test_gpu_models import as_declared

if TYPE_CHECKING:
    from pathlib import Path

A30_PICTURE = """\
a30-24gb: 9 maximal layouts; 4 compute slices, 4 placement units, 56 SMs

 0         1         2         3           UNUSED
|4g.24gb                                |  -
|2g.12gb            |2g.12gb            |  -
|2g.12gb            |2g.12gb+me         |  -
|1g.6gb   |1g.6gb   |2g.12gb            |  -
|1g.6gb   |1g.6gb+me|2g.12gb            |  -
|1g.6gb   |1g.6gb   |2g.12gb+me         |  -
|1g.6gb   |1g.6gb+me|2g.12gb+me         |  -
|1g.6gb   |1g.6gb   |1g.6gb   |1g.6gb   |  -
|1g.6gb   |1g.6gb   |1g.6gb   |1g.6gb+me|  -

warning: some need a driver at least as new: 1g.6gb+me 470, 2g.12gb+me 525
"""


class _Stream(io.StringIO):
    """A stream of an encoding, a terminal or not."""

    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> str:
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str, encoding: str = "ascii", terminal: bool = False) -> str:
    out = _Stream(encoding, terminal=terminal)
    monkeypatch.setattr(sys, "stdout", out)
    assert main(arguments) == 0
    return out.getvalue()


class TestLayouts:
    def test_the_picture_in_plain_ascii(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert _run(monkeypatch, "layouts", "a30-24gb") == A30_PICTURE

    def test_the_picture_in_utf_8(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = _run(monkeypatch, "layouts", "NVIDIA-A30", encoding="utf-8")
        assert text == A30_PICTURE.replace("|", "│")

    def test_colour_on_a_terminal_only_and_not_where_it_is_unwanted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert "\x1b[33m" in _run(monkeypatch, "layouts", "a100-80gb", terminal=True)
        assert "\x1b" not in _run(monkeypatch, "layouts", "a100-80gb")
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in _run(monkeypatch, "layouts", "a100-80gb", terminal=True)

    @pytest.mark.parametrize("key", [key for key in model_keys() if model(key).profiles])
    def test_every_line_is_as_wide_as_the_gpu(self, key: str) -> None:
        gpu, pen = model(key), Pen("|", ".", colour=False)
        width = unit_width(gpu, gpu.profiles)
        for layout in maximal_layouts(gpu):
            line = draw(gpu, place(gpu, dict(layout)), width, pen)
            assert len(line) == len(ruler(gpu, width)) == width * gpu.placement_units + 1
            for name, count in layout:
                assert line.replace(" ", "|").count(f"|{name}|") == count

    @pytest.mark.parametrize("key", model_keys())
    def test_json(self, key: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["layouts", key, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        gpu = model(key)
        assert document["model"] == key
        assert [tuple(entry["layout"].items()) for entry in document["layouts"]] == (
            list(maximal_layouts(gpu)) if gpu.profiles else []
        )
        assert document["layouts"] or document["warnings"]
        for entry in document["layouts"]:
            covered = sum(placed["size"] for placed in entry["placements"])
            assert covered + len(entry["unused"]["units"]) == gpu.placement_units
            kinds = [gpu.profiles[placed["profile"]] for placed in entry["placements"]]
            assert sum(kind.compute_slices for kind in kinds) + entry["unused"]["computeSlices"] == gpu.compute_slices
            if gpu.sm is None or any(kind.sm is None for kind in kinds):
                assert entry["unused"]["sm"] is None
            else:
                assert sum(kind.sm for kind in kinds) + entry["unused"]["sm"] == gpu.sm
                assert entry["unused"]["sm"] >= 0

    def test_a_product_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        main(["layouts", "NVIDIA A100 80GB PCIe", "--json"])
        document = json.loads(capsys.readouterr().out)
        assert (document["model"], document["product"]) == ("a100-80gb", "NVIDIA A100 80GB PCIe")

    @pytest.mark.parametrize(
        ("key", "warning"),
        [
            ("t4-16gb", "t4-16gb has no MIG"),
            ("rtx-pro-5000-blackwell", "no layout can be checked before the deploy; sources list 1g.12gb, "),
            ("h100-96gb", "inferred from GPUs of the same geometry"),
            ("gb200-186gb", "other drivers or GPUs name 1g.23gb as 1g.24gb"),
            ("rtx-pro-6000-blackwell", "media engines are not counted"),
        ],
    )
    def test_what_is_not_known_is_said(self, key: str, warning: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["layouts", key]) == 0
        assert any(line.startswith("warning: ") and warning in line for line in capsys.readouterr().out.splitlines())

    def test_an_unknown_model(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["layouts", "a100-80g"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert 'there is no GPU model "a100-80g"' in captured.err
        assert "Did you mean a100-80gb or a100-40gb?" in captured.err
        assert "pg506" not in captured.err, "not the list of all models"
        assert main(["layouts", "a100-80g", "--json"]) == 2
        (error,) = json.loads(capsys.readouterr().out)["errors"]
        assert error["remedy"].startswith("Did you mean a100-80gb or a100-40gb?")


class TestChange:
    def test_the_picture(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = _run(monkeypatch, "change", "a30-24gb", "2g.12gb:2", "2g.12gb:1,1g.6gb:2")
        assert (
            text
            == """\
a30-24gb: 2x 2g.12gb -> 2x 1g.6gb + 2g.12gb

       0         1         2         3
from  |2g.12gb            |2g.12gb            |
to    |1g.6gb   |1g.6gb   |2g.12gb            |

goes:  2g.12gb at 0-1
stays: 2g.12gb at 2-3
comes: 1g.6gb at 0, 1g.6gb at 1
MIG mode does not change
The operator's mig-manager would destroy and make again what could stay.
"""
        )

    def test_a_change_of_mode(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = _run(monkeypatch, "change", "a100-80gb", "none", "7g.80gb:1", "--platform", "aks")
        assert "MIG off -> 7g.80gb" in text
        assert "MIG mode is switched on: it needs a reboot of the node" in text

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["change", "h100-80gb", "4g.40gb:1", "none", "--json", "--platform", "magnum"]) == 0
        assert json.loads(capsys.readouterr().out) == {
            "model": "h100-80gb",
            "platform": "magnum",
            "from": {"4g.40gb": 1},
            "to": {},
            "goes": [{"profile": "4g.40gb", "start": 0, "size": 4}],
            "stays": [],
            "comes": [],
            "migMode": {"from": "enabled", "to": "disabled", "changes": True, "needs": "nothing"},
        }

    def test_another_name_of_a_profile(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["change", "gb200-186gb", "1g.24gb:1", "1g.23gb:1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["goes"] == []

    def test_all_problems_at_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["change", "a100-80gb", "3g.40gb:2,1g.10gb:1", "2g.20g:1,x,1g.10gb:0", "--json"]) == 2
        errors = json.loads(capsys.readouterr().out)["errors"]
        assert [error["path"] for error in errors] == ["FROM", "TO", "TO", "TO"]
        assert errors[0]["remedy"].startswith("Use e.g. 2x 3g.40gb, or ")
        assert errors[1]["remedy"] == "Did you mean 2g.20gb?"
        assert errors[2]["message"] == '"x" is not PROFILE:COUNT'

    @pytest.mark.parametrize(
        ("key", "message"), [("t4-16gb", "has no MIG"), ("rtx-pro-5000-blackwell", "is unknown"), ("tesla", "no GPU model")]
    )
    def test_a_model_without_known_geometry(self, key: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["change", key, "none", "none"]) == 2
        assert message in capsys.readouterr().err


class TestModelsOfAStack:
    """`--stack`: what it declares can be named."""

    @pytest.fixture
    def stack(self, tmp_path: Path) -> str:
        file = tmp_path / "Pulumi.own.yaml"
        file.write_text(existing({"gpuModel": "other"}, gpuModels={"other": as_declared("a30-24gb")}), encoding="utf-8")
        return str(file)

    def test_its_layouts_are_drawn(self, stack: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["layouts", "other", "--stack", stack]) == 0
        told = capsys.readouterr().out
        assert "other: 9 maximal layouts; 4 compute slices, 4 placement units" in told
        assert "as the stack declares them (read in: nvidia-smi mig -lgip)" in told

    def test_a_change_of_it_is_told(self, stack: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["change", "other", "none", "2g.12gb:2", "--stack", stack]) == 0
        assert "other: MIG off -> 2x 2g.12gb" in capsys.readouterr().out

    def test_without_it_there_is_no_such_model(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["layouts", "other"]) == 2
        assert 'there is no GPU model "other"' in capsys.readouterr().err

    @pytest.mark.parametrize(("text", "told"), [("config: {a: 1}", "there is no GPU"), ("config: {}", "no keys"), ("[", "YAML")])
    def test_a_file_without_it(self, text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
        assert main(["layouts", "other", "--stack", str(tmp_path / "s.yaml")]) == 2
        assert told in capsys.readouterr().err
