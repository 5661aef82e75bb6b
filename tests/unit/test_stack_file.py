"""Reading a stack file: strictly, and never with anything but an error for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.yaml_text import DuplicateKeyError, load_yaml

if TYPE_CHECKING:
    from pathlib import Path


def _refusal(path: Path) -> str:
    with pytest.raises(InvalidStackError) as caught:
        read_stack_file(path)
    (problem,) = caught.value.problems
    assert problem.allowed
    assert problem.remedy
    return f"{problem.path}: {problem.message}"


def _file(folder: Path, text: str) -> Path:
    path = folder / "Pulumi.x.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_only_the_config_is_returned(tmp_path: Path) -> None:
    path = _file(tmp_path, "encryptionsalt: v1:x\nconfig:\n  gpu-pools:pools: []\n  aws:region: x\n")
    assert read_stack_file(path) == {"gpu-pools:pools": [], "aws:region": "x"}


def test_a_path_may_be_a_text(tmp_path: Path) -> None:
    assert read_stack_file(str(_file(tmp_path, "config: {a: 1}"))) == {"a": 1}


def test_a_missing_file(tmp_path: Path) -> None:
    assert _refusal(tmp_path / "none.yaml") == f"{tmp_path}/none.yaml: there is no such file"


def test_a_folder(tmp_path: Path) -> None:
    assert "cannot be read" in _refusal(tmp_path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in _refusal(path)


def test_a_duplicate_key_names_its_line(tmp_path: Path) -> None:
    path = _file(tmp_path, "config:\n  a: 1\n  b: 2\n  a: 3\n")
    assert _refusal(path) == f"{path}:4: the key 'a' is given twice"


def test_duplicates_are_found_at_any_depth() -> None:
    with pytest.raises(DuplicateKeyError):
        load_yaml("a: [{b: {c: 1, c: 2}}]")


def test_a_merge_key_may_be_overridden() -> None:
    """``<<`` brings defaults in; writing one of them again is what it is for."""
    text = "base: &base {k: 1, l: 2}\nderived: {<<: *base, k: 3}\n"
    assert load_yaml(text)["derived"] == {"k": 3, "l": 2}


def test_a_duplicate_beside_a_merge_key_is_found() -> None:
    with pytest.raises(DuplicateKeyError):
        load_yaml("base: &base {k: 1}\nderived: {<<: *base, l: 2, l: 3}\n")


@pytest.mark.parametrize(
    "text", ["a: !!python/object:os.system {}", "a: *b", "a: 2026-99-99", "a: 0x_", "? [a]\n: b", "\x00"], ids=repr
)
def test_whatever_is_no_plain_yaml_is_a_yaml_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)


@pytest.mark.parametrize("depth", [5_000, 200_000], ids=["too-deep", "deep-enough-to-end-the-process"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")], ids=["lists", "mappings", "dashes"])
def test_nesting_ends_in_a_refusal_not_in_a_crash(depth: int, opening: str, closing: str, tmp_path: Path) -> None:
    path = _file(tmp_path, "config:\n  " + opening * depth + closing * depth)
    assert _refusal(path)


def test_a_list_that_holds_itself(tmp_path: Path) -> None:
    assert _refusal(_file(tmp_path, "config: &a [*a]\n"))
