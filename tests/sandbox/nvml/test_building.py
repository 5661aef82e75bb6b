"""The library is built once, whole or not at all, and says what is missing."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

import pytest

from sandbox.nvml.library import NAME, find_library
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_POOLS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put_gcc(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a gcc of a shell script the only program on PATH."""
    folder.mkdir(exist_ok=True)
    (folder / "gcc").write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo gcc 12; exit; fi\n{script}\n')
    (folder / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.programs
def test_it_is_built_once(cache: Path) -> None:
    out = io.StringIO()
    library = find_library(Progress(out))
    assert library.is_file()
    assert [path.name for path in library.parent.iterdir()] == [NAME]
    assert "Building" in out.getvalue()
    again = io.StringIO()
    assert find_library(Progress(again)) == library
    assert again.getvalue() == ""
    assert library.is_relative_to(cache)


def test_without_gcc_the_remedy_names_it(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="no gcc on PATH") as caught:
        find_library(Progress(io.StringIO()))
    assert "apt install gcc" in caught.value.remedy
    assert not cache.exists()


def test_a_build_that_fails_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_gcc(tmp_path / "bin", "echo part > /dev/null; echo stdio.h: No such file >&2; exit 1", monkeypatch)
    with pytest.raises(SandboxError, match=r"stdio\.h: No such file"):
        find_library(Progress(io.StringIO()))
    assert not [path for path in cache.iterdir() if not path.name.endswith(".lock")]


def test_another_compiler_builds_anew(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch = shutil.which("touch")
    script = f'while [ "$1" != -o ]; do shift; done; {touch} "$2"'
    put_gcc(tmp_path / "bin", script, monkeypatch)
    first = find_library(Progress(io.StringIO()))
    gcc = tmp_path / "bin" / "gcc"
    gcc.write_text(gcc.read_text().replace("gcc 12", "gcc 13"))
    assert find_library(Progress(io.StringIO())) != first
    assert len(list(cache.glob("nvml-*"))) == 2
