"""A package that a program does without is left out of a copy: what Go has in its cache of modules stays as it is."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from sandbox.system.errors import SandboxError
from sandbox.toolchain.left_out import without
from sandbox.toolchain.programs import FOLDER, PROGRAMS, LeftOut

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "example.invalid/store"
PART = LeftOut(MODULE, "clouds", "ours.go", keep=("kept.go",))


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """The sources of a module, read-only as Go has them."""
    folder = tmp_path / "cache" / "store@v1.0.0"
    files = {"clouds/kept.go": "kept", "clouds/big.go": "big", "clouds/big_test.go": "test", "other/other.go": "other"}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o444)
    for inner in (folder / "clouds", folder / "other", folder):
        inner.chmod(0o555)
    return folder


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A folder with go.mod, go.sum and what is compiled instead."""
    folder = tmp_path / "graph"
    (folder / "left-out").mkdir(parents=True)
    (folder / "go.mod").write_text(f"module program\n\nrequire {MODULE} v1.0.0\n")
    (folder / "go.sum").write_text("sums\n")
    (folder / "left-out" / "ours.go").write_text("ours")
    return folder


def _contents(folder: Path) -> dict[str, tuple[str, int]]:
    return {str(path.relative_to(folder)): (path.read_text(), path.stat().st_mode) for path in folder.rglob("*.go")}


def test_a_copy_has_our_file_and_what_stays_and_the_cache_is_as_before(module: Path, graph: Path, tmp_path: Path) -> None:
    before = _contents(module)
    (tmp_path / "build").mkdir()
    modfile = without([PART], {MODULE: module}, graph, tmp_path / "build")
    assert _contents(module) == before
    text = modfile.read_text()
    assert text.startswith((graph / "go.mod").read_text())
    copy = text.removeprefix((graph / "go.mod").read_text()).split(" => ")
    assert copy[0] == f"replace {MODULE}"
    files = {path.relative_to(copy[1].strip()): path.read_text() for path in modfile.parent.glob("0/**/*.go")}
    assert {str(name): text for name, text in files.items()} == {
        "clouds/kept.go": "kept",
        "clouds/ours.go": "ours",
        "other/other.go": "other",
    }
    assert modfile.with_name("go.sum").read_text() == "sums\n"


def test_a_replacement_of_the_module_that_is_there_already_gives_way(module: Path, graph: Path, tmp_path: Path) -> None:
    """Kubernetes' go.mod has one for each module of its own: two replacements of one module are an error to Go."""
    others = f"replace {MODULE}/v2 => {MODULE}/v2 v2.0.0\n"
    text = f"module program\n\nrequire {MODULE} v1.0.0\n"
    for written in (f"replace {MODULE} => {MODULE} v1.0.0\n", f"replace (\n\t{MODULE} v0.9.0 => ../here\n)\n"):
        (graph / "go.mod").write_text(text + written + others)
        build = tmp_path / f"build-{len(written)}"
        build.mkdir()
        made = without([PART], {MODULE: module}, graph, build).read_text()
        assert made.count(f"{MODULE} => ") == 1
        assert f"replace {MODULE} => {build}" in made
        assert others in made


def test_a_version_in_which_a_file_that_stays_has_another_name_is_refused(module: Path, graph: Path, tmp_path: Path) -> None:
    part = LeftOut(MODULE, "clouds", "ours.go", keep=("kept.go", "renamed.go"))
    (tmp_path / "build").mkdir()
    with pytest.raises(SandboxError) as refused:
        without([part], {MODULE: module}, graph, tmp_path / "build")
    assert refused.value.message == f"{MODULE}: clouds has no renamed.go in the version that is pinned."
    assert "sandbox/toolchain/programs.py" in refused.value.remedy


def test_every_file_that_is_compiled_instead_is_named_once_and_is_written_as_go_writes_it() -> None:
    named = [FOLDER / one.graph / "left-out" / part.instead for one in PROGRAMS for part in one.left_out]
    assert sorted(named) == sorted(FOLDER.glob("*/left-out/*"))
    unformatted = subprocess.run(["gofmt", "-l", *map(str, named)], capture_output=True, text=True, check=True).stdout
    assert unformatted == ""
