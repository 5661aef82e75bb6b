"""Reading one mapping of a stack file: what each kind of value takes at its bounds, and what is told of any other."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.reading.section import Section
from gpu_pools.text.errors import Problem, Problems

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[Section], object]

DIGEST = "sha256:" + "0a" * 32
BY_DIGEST = "an image by digest, e.g. registry.example.com/some@sha256:… with 64 hexadecimal digits"
BY_TAG = "an image with a tag or digest, e.g. registry.example.com/some:1"
TIME = r"([01]\d|2[0-3]):[0-5]\d"
OFFSET = f"[+-]{TIME}"
CASE = "Registry in any case, the rest in lower case; a digest is sha256: with 64 hexadecimal digits, or sha512: with 128."
ASK = "Ask the registry for the digest: docker buildx imagetools inspect IMAGE, or skopeo inspect docker://IMAGE."


def read(values: object, how: Read) -> tuple[object, list[Problem]]:
    """What is read, and what is told."""
    problems = Problems()
    return how(Section(values, "p", problems)), list(problems.found)


def told(value: object, how: Read) -> tuple[str, str, str]:
    """The one problem of a value under the key `k`, without its path."""
    found, (problem,) = read({"k": value}, how)
    assert not found
    assert problem.path == "p.k"
    return problem.message, problem.allowed, problem.remedy


@pytest.mark.parametrize(
    ("value", "how", "expected"),
    [
        ("x", lambda s: s.text("k"), "x"),
        ("", lambda s: s.text("k"), ""),
        (None, lambda s: s.text("k"), None),
        ("b", lambda s: s.text("k", choices=("a", "b")), "b"),
        ("abc", lambda s: s.text("k", pattern="[a-c]+"), "abc"),
        (2, lambda s: s.integer("k", minimum=2), 2),
        (9, lambda s: s.integer("k", minimum=2, maximum=9), 9),
        (None, lambda s: s.integer("k", minimum=2), None),
        (0.5, lambda s: s.number("k", minimum=0.5), 0.5),
        (7, lambda s: s.number("k", minimum=0.5), 7.0),
        (None, lambda s: s.number("k", minimum=0.5), None),
        (True, lambda s: s.flag("k"), True),
        (False, lambda s: s.flag("k"), False),
        (None, lambda s: s.flag("k"), None),
        ({"a": "b", 1: "c"}, lambda s: s.texts("k"), {"a": "b", "1": "c"}),
        (None, lambda s: s.texts("k"), {}),
        ("some:1", lambda s: s.image("k", example="some:1"), "some:1"),
        (f"some@{DIGEST}", lambda s: s.image("k", example="some:1"), f"some@{DIGEST}"),
        (None, lambda s: s.image("k", example="some:1"), None),
        (f"some@{DIGEST}", lambda s: s.pinned_image("k", example="some"), f"some@{DIGEST}"),
        (["a", "b"], lambda s: list(s.entries("k")), [("p.k[0]", "a"), ("p.k[1]", "b")]),
        (None, lambda s: list(s.entries("k")), []),
        (
            [1, 2, 3],
            lambda s: s.each("k", lambda value, path: (value, path) if value != 2 else None),
            ((1, "p.k[0]"), (3, "p.k[2]")),
        ),
        ([0, ""], lambda s: s.each("k", lambda value, _: value), (0, "")),
    ],
)
def test_a_value_that_is_good(value: object, how: Read, expected: object) -> None:
    assert read({"k": value}, how) == (expected, [])
    found, _ = read({"k": value}, how)
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("written", "pattern", "remedy"),
    [
        ("22:05", TIME, "22:05"),
        ("9:00", TIME, "09:00"),
        ("+10:00", OFFSET, "+10:00"),
        ("-8:30", OFFSET, "-08:30"),
        ("100", ".+", "100"),
        ("100", "", "100"),
    ],
)
def test_a_time_that_yaml_takes_for_a_number_is_told_as_it_was_written(written: str, pattern: str, remedy: str) -> None:
    number = yaml.safe_load(written)
    assert isinstance(number, int)
    assert told(number, lambda s: s.text("k", pattern=pattern))[2] == f'Write "{remedy}" in quotes.'


@pytest.mark.parametrize("written", ["24:00", "22:05:00"])
def test_a_number_that_would_be_no_such_text_in_quotes_is_not_to_be_quoted(written: str) -> None:
    how: Read = lambda s: s.text("k", pattern=TIME, allowed='a time in quotes, e.g. "02:00"')  # noqa: E731
    assert told(yaml.safe_load(written), how)[2] == 'Write a time in quotes, e.g. "02:00".'


@pytest.mark.parametrize(
    ("value", "how", "message", "allowed", "remedy"),
    [
        (7, lambda s: s.text("k"), "7 is not a text", "a text", 'Write "7" in quotes.'),
        (
            True,
            lambda s: s.text("k"),
            "true is not a text",
            "a text",
            "Put it in quotes: without them YAML reads yes, on and true alike.",
        ),
        (
            1.3,
            lambda s: s.text("k", allowed="a version"),
            "1.3 is not a text",
            "a version",
            "Put it in quotes as you wrote it: without them YAML reads a number, for which 1.30 and 1.3 are the same.",
        ),
        (
            dt.date(2026, 1, 2),
            lambda s: s.text("k"),
            "2026-01-02 is not a text",
            "a text",
            "Put it in quotes: without them YAML reads a date.",
        ),
        ([], lambda s: s.text("k", choices=("a", "b")), "a list of 0 is not a text", "a | b", "Choose one of those."),
        ([], lambda s: s.text("k", remedy="Do so."), "a list of 0 is not a text", "a text", "Do so."),
        ("aa", lambda s: s.text("k", choices=("a", "b")), '"aa" is unknown', "a | b", "Did you mean `a`?"),
        ("zz", lambda s: s.text("k", choices=("a", "b")), '"zz" is unknown', "a | b", "Choose one of those."),
        ("axxxx", lambda s: s.text("k", choices=("aaaaa", "b")), '"axxxx" is unknown', "aaaaa | b", "Choose one of those."),
        ("aaxxx", lambda s: s.text("k", choices=("aaaaa", "b")), '"aaxxx" is unknown', "aaaaa | b", "Did you mean `aaaaa`?"),
        ("z", lambda s: s.text("k", choices=("a",), allowed="one", remedy="Do so."), '"z" is unknown', "one", "Do so."),
        ("z", lambda s: s.text("k", choices=()), '"z" is unknown', "", "Choose one of those."),
        ("ab", lambda s: s.text("k", pattern="a"), '"ab" does not fit', "a text matching a", "Choose another."),
        ("ab", lambda s: s.text("k", pattern="b", allowed="b", remedy="Do so."), '"ab" does not fit', "b", "Do so."),
        (
            1,
            lambda s: s.integer("k", minimum=2),
            "1 is out of bounds",
            "a whole number, at least 2",
            "Choose a whole number, at least 2.",
        ),
        (
            10,
            lambda s: s.integer("k", minimum=2, maximum=9),
            "10 is out of bounds",
            "a whole number, at least 2 and at most 9",
            "Choose a whole number, at least 2 and at most 9.",
        ),
        (1, lambda s: s.integer("k", minimum=2, remedy="Do so."), "1 is out of bounds", "a whole number, at least 2", "Do so."),
        *(
            (
                value,
                lambda s: s.integer("k", minimum=0),
                f"{shown} is not a whole number",
                "a whole number, at least 0",
                "Write digits alone: no quote, unit or point.",
            )
            for value, shown in ((True, "true"), (4.0, "4.0"), ("4", '"4"'))
        ),
        (
            4.5,
            lambda s: s.integer("k", minimum=0, remedy="Do so."),
            "4.5 is not a whole number",
            "a whole number, at least 0",
            "Write digits alone: no quote, unit or point.",
        ),
        (
            0.49,
            lambda s: s.number("k", minimum=0.5),
            "0.49 is out of bounds",
            "a number, at least 0.5",
            "Choose a number, at least 0.5.",
        ),
        (0, lambda s: s.number("k", minimum=1, remedy="Do so."), "0 is out of bounds", "a number, at least 1", "Do so."),
        *(
            (
                value,
                lambda s: s.number("k", minimum=0),
                f"{shown} is not a number",
                "a number, at least 0",
                "Write the number alone: no quotes, no unit.",
            )
            for value, shown in ((True, "true"), ("4", '"4"'), (math.inf, "inf"), (math.nan, "nan"))
        ),
        ("4", lambda s: s.number("k", minimum=0, remedy="Do so."), '"4" is not a number', "a number, at least 0", "Do so."),
        (
            0,
            lambda s: s.flag("k"),
            "0 is neither true nor false",
            "true or false",
            "Write true or false without quotes.",
        ),
        ("ab", lambda s: list(s.entries("k")), '"ab" is not a list', "a list", "Start each entry with a dash."),
        (
            {},
            lambda s: list(s.entries("k", what="a row")),
            "a mapping with no keys is not a row",
            "a row",
            "Start each entry with a dash.",
        ),
        (
            "ab",
            lambda s: s.each("k", lambda value, _: value, what="a row"),
            '"ab" is not a row',
            "a row",
            "Start each entry with a dash.",
        ),
        ("some", lambda s: s.image("k", example="some:1"), '"some" does not fit', BY_TAG, "Choose another."),
        (
            "Some:1",
            lambda s: s.image("k", example="some:1"),
            '"Some:1" is not an image\'s name',
            BY_TAG,
            CASE,
        ),
        ("some:1", lambda s: s.pinned_image("k", example="some"), '"some:1" does not fit', BY_DIGEST, ASK),
        (
            f"some@{DIGEST[:-1]}",
            lambda s: s.pinned_image("k", example="some"),
            f'"some@{DIGEST[:-1]}" does not fit',
            BY_DIGEST,
            ASK,
        ),
        (
            [],
            lambda s: s.texts("k"),
            "a list of 0 is not a mapping of texts",
            "a mapping of texts",
            "Write a mapping of texts here.",
        ),
        ([], lambda s: s.section("k", what="a row").written(), "a list of 0 is not a row", "a row", "Write a row here."),
    ],
)
def test_a_value_that_is_not(value: object, how: Read, message: str, allowed: str, remedy: str) -> None:
    assert told(value, how) == (message, allowed, remedy)


@pytest.mark.parametrize(
    ("how", "allowed", "remedy"),
    [
        (lambda s: s.text("k", required=True), "a text", "Add `k: …`."),
        (lambda s: s.text("k", required=True, choices=("a", "b"), remedy="Do so."), "a | b", "Do so."),
        (lambda s: s.text("k", required=True, allowed="one"), "one", "Add `k: …`."),
        (lambda s: s.integer("k", required=True, minimum=2), "a whole number, at least 2", "Add `k: …`."),
    ],
)
def test_what_must_be_there_is_missing_unless_all_of_it_is(how: Read, allowed: str, remedy: str) -> None:
    for values in ({}, {"k": None}):
        assert read(values, how) == (None, [Problem("p.k", "is missing", allowed, remedy)])
    _, (problem,) = read([], how)
    assert problem == Problem("p", "a list of 0 is not a mapping", "a mapping", "Write a mapping here.")


def test_a_text_that_is_missing_among_texts() -> None:
    found, (problem,) = read({"k": {"a": "b", "c": None}}, lambda section: section.texts("k"))
    assert found == {"a": "b"}
    assert (problem.path, problem.message) == ("p.k.c", "is missing")


def test_a_mapping_inside() -> None:
    assert read({}, lambda section: section.section("k")) == (None, [])
    inner, _ = read({"k": {"a": 1}}, lambda section: section.section("k"))
    assert isinstance(inner, Section)
    assert (inner.path, inner.written(), inner.readable, inner.raw("a"), inner.given("b")) == ("p.k", ("a",), True, 1, False)


ASKED: tuple[tuple[str, Callable[[Section], Any]], ...] = (
    ("text", lambda section: section.text("key")),
    ("raw", lambda section: section.raw("key")),
    ("given", lambda section: section.given("key")),
    ("flag", lambda section: section.flag("key")),
    ("section", lambda section: section.section("key")),
    ("texts", lambda section: section.texts("key")),
    ("entries", lambda section: list(section.entries("key"))),
)


@pytest.mark.parametrize("how", [how for _, how in ASKED], ids=[name for name, _ in ASKED])
def test_what_was_asked_for_is_known_and_no_other(how: Read) -> None:
    def finished(section: Section) -> None:
        how(section)
        how(section)
        section.finish()

    assert not [problem for problem in read({"key": {}}, finished)[1] if "unknown" in problem.message]
    _, (problem,) = read({"kye": 1}, finished)
    assert problem == Problem("p.kye", "unknown key `kye`", "key", "Did you mean `key`?")


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("xyzzy", "Remove it; a key that nothing reads would be silently without effect."),
        *(
            (key, f"Remove it here: `{key}` belongs to gpu-pools:sharing.<name>.timeSlicing or .mps.")
            for key in ("replicas", "renameByDefault", "failRequestsGreaterThanOne")
        ),
        ("needs", "Remove it here: `needs` belongs to gpu-pools:sharing.<name>."),
        ("memoryPerReplica", "Remove it here: `memoryPerReplica` belongs to gpu-pools:sharing.<name>.needs."),
        ("layout", "Remove it here: `layout` belongs to gpu-pools:sharing.<name>.mig."),
        ("migStrategy", "Remove it here: `migStrategy` belongs to gpu-pools:operator."),
        ("vmSize", "Remove it here: `vmSize` belongs to a pool of an AKS cluster."),
        ("flavor", "Remove it here: `flavor` belongs to a pool of a Magnum cluster."),
        ("nodeSelector", "Remove it here: `nodeSelector` belongs to a pool of an existing cluster."),
        ("gpuModel", "Remove it here: `gpuModel` belongs to a pool of an existing cluster, or a flavor under gpu-pools:flavors."),
        ("sharing", "Remove it here: `sharing` belongs to a pool, as the name of a declaration under gpu-pools:sharing."),
        ("taints", "Remove it here: `taints` belongs to a pool."),
        ("minimum", "Remove it here: `minimum` belongs to a pool."),
        ("protect", "Remove it here: `protect` belongs to the cluster of AKS or Magnum, or a pool of such a cluster."),
        ("adminGroups", "Remove it here: `adminGroups` belongs to gpu-pools:cluster.entra of AKS."),
        ("resources", "Remove it: the plan derives the resource names."),
    ],
)
def test_a_key_in_the_wrong_place(key: str, remedy: str) -> None:
    _, problems = read({key: 1}, lambda section: section.finish())
    assert problems == [Problem(f"p.{key}", f"unknown key `{key}`", "no keys", remedy)]


def test_a_misspelled_key_beside_the_right_one_is_to_be_removed() -> None:
    _, (problem,) = read({"kye": 1, "key": 2}, lambda section: (section.raw("key"), section.finish()))
    assert problem.remedy == "Remove it: `key` is written, too."


def test_a_key_of_azure_is_one_of_ours() -> None:
    _, (problem,) = read({"vnetSubnetID": 1}, lambda section: (section.raw("subnet"), section.finish()))
    assert problem.remedy == "Did you mean `subnet`?"


def test_a_misspelled_key_is_read_as_the_nearest() -> None:
    assert read({"kye": 1, "other": 2}, lambda section: section.misspelled("key"))[0] == 1
    assert read({"other": 2}, lambda section: section.misspelled("key"))[0] is None


def test_known_keys_are_told_in_order() -> None:
    def finished(section: Section) -> None:
        for key in ("b", "c", "a"):
            section.raw(key)
        section.finish()

    _, (problem,) = read({"x": 1, "a": 2}, finished)
    assert problem.allowed == "a, b, c"
