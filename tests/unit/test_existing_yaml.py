"""YAML of existing files: the scalars of Go's library, and the lines and duplicates that it forgets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_pools.existing.values import is_whole
from gpu_pools.existing.yaml_tree import Tree, parse_documents

if TYPE_CHECKING:
    from collections.abc import Sequence


def tree_of(text: str) -> Tree:
    (tree,) = parse_documents(text)
    return tree


def value_of(text: str) -> object:
    return tree_of(text).value


SCALARS = [
    *((text, None) for text in ("~", "null", "Null", "NULL", "a:")),
    *((text, True) for text in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "!!bool yes")),
    *((text, False) for text in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", "!!bool other")),
    *(
        (text, text)
        for text in ("nULL", "tRUE", "1:0", "1.2.3", "+", "-1-", ".", "1e", "0x", "2026-11-22", "0o8", "a b", "=", "<")
    ),
    *((f'"{text}"', text) for text in ("null", "true", "5", "<<")),
    *(("7", 7), ("-7", -7), ("+7", 7), ("0", 0), ("1_000", 1000), ("0b101", 5), ("0x1F", 31), ("0o17", 15), ("017", 15)),
    *(("-017", -15), ("0_17", 15), ("!!int 5", 5), ("!!str 5", "5"), ("!!null x", None), ("!!binary x", "x")),
    *(("1.5", 1.5), ("-1.5", -1.5), ("+.5", 0.5), ("4e0", 4.0), ("1_0.2_5", 10.25), ("1.", 1.0), ("1E-2", 0.01), ("08", 8.0)),
    *((".inf", math.inf), ("-.Inf", -math.inf), ("+.INF", math.inf), ("!!float 1", 1.0)),
    ("!!timestamp 2026-11-22", "2026-11-22"),
    ("9" * 64, int("9" * 64)),
]

#: Once a list of 98 entries, and 504 times the same one: with the list around them 49,996 of the 50,000 places that are read.
LARGE = f"&a [{', '.join('x' * 98)}], {', '.join(['*a'] * 504)}"


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_a_scalar_is_what_go_takes_it_for(text: str, value: object) -> None:
    found = value_of(text)
    found = found["a"] if isinstance(found, dict) else found
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_nothing_equals_not_a_number(text: str) -> None:
    found = value_of(text)
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("key", "text"), [("yes", "true"), ("off", "false"), ("~", "null"), ("5", "5"), ("1.0", "1.0"), ("a", "a"), ('"~"', "~")]
)
def test_a_key_is_a_text(key: str, text: str) -> None:
    assert value_of(f"{key}: 1") == {text: 1}


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "? {a: b}\n: c",
        "? [a]\n: c",
        "!other x",
        "!!set x",
        "!!python/name:os.system",
        "9" * 65,
        "!!int x",
        "!!float x",
        "0b_",
        "<<: 5",
        "<<: [{a: 1}, 5]",
        "&a [*a]",
        "[" * 62 + "]" * 62,
        f"[{LARGE}, x, x, x, x, x]",
    ],
    ids=lambda text: text[:12],
)
def test_what_no_json_could_carry_is_not_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        parse_documents(text)
    assert str(caught.value)


def test_as_deep_and_as_large_as_it_may_be() -> None:
    assert value_of("[" * 61 + "]" * 61)
    assert value_of(f"[{LARGE}, x, x, x, x]")


MERGED = """
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
one: {<<: *base, b: 5}
before: {b: 5, <<: *base}
both: {<<: [*base, *more]}
twice: {<<: *more, <<: *base, d: 1}
"""


def test_merged_mappings_give_what_is_not_there_and_the_first_wins() -> None:
    assert value_of(MERGED) == {
        "base": {"a": 1, "b": 2},
        "more": {"b": 3, "c": 4},
        "one": {"a": 1, "b": 5},
        "before": {"a": 1, "b": 5},
        "both": {"a": 1, "b": 2, "c": 4},
        "twice": {"a": 1, "b": 3, "c": 4, "d": 1},
    }
    assert tree_of(MERGED).duplicates == []


PLACES = """
a: 1
b:
  c: [x,
      y]
  text: |
    one
    two
  folded: >
    one
b:
  c: 3
"""


def test_every_place_has_its_line_a_block_that_of_its_content_and_a_key_given_twice_is_told() -> None:
    tree = tree_of(PLACES)
    assert tree.value == {"a": 1, "b": {"c": 3}}
    assert tree.lines == {
        (): 2,
        ("a",): 2,
        ("b",): 11,
        ("b", "c"): 12,
        ("b", "c", 0): 4,
        ("b", "c", 1): 5,
        ("b", "text"): 6,
        ("b", "folded"): 9,
    }
    assert tree.blocks == {("b", "text"): 7}
    assert tree.duplicates == [("b",)]


@pytest.mark.parametrize(
    ("text", "values"), [("", []), ("---", [None]), ("a\n---\nb: 1", ["a", {"b": 1}]), ("a\n---\n", ["a", None])]
)
def test_each_document_is_read(text: str, values: Sequence[object]) -> None:
    assert [tree.value for tree in parse_documents(text)] == values


@pytest.mark.parametrize("value", [0, 4, -4, 4.0, -(2.0**63), 2**63 - 1, -(2**63)])
def test_a_whole_number_is_one_that_goes_into_64_bits(value: float) -> None:
    assert is_whole(value)


@pytest.mark.parametrize("value", [True, "4", None, 4.5, [4], 2**63, 2.0**63, -(2**63) - 1, math.inf, math.nan])
def test_nothing_else_is_a_whole_number(value: object) -> None:
    assert not is_whole(value)
