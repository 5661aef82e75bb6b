"""Records, the documents that are made of them, and what stands in for json: as dataclasses and json have it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.verifier.documents import Record, parse_json
from gpu_pools.verifier.reading import Mode
from gpu_pools.verifier.serve import to_json


class Pair(Record):
    first: int
    second: str = "two"


@dataclasses.dataclass(frozen=True)
class Same:
    first: int
    second: str = "two"


def test_a_record_is_made_compared_and_shown_as_a_dataclass() -> None:
    for kind in (Pair, Same):
        made: Any = kind(1)
        assert (made, made.second) == (kind(1, "two"), "two")
        assert made == kind(second="two", first=1)
        assert made != kind(2)
        assert made != (1, "two")
        assert hash(made) == hash(kind(1))
        assert repr(made) == f"{kind.__name__}(first=1, second='two')"
        assert dataclasses.is_dataclass(made)
        assert [field.name for field in dataclasses.fields(made)] == ["first", "second"]
        assert dataclasses.replace(made, first=3) == kind(3)
        assert dataclasses.asdict(made) == {"first": 1, "second": "two"}
    assert Pair(1) != Mode(1, 2)


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, "a", 2), {}), ((1,), {"first": 1}), ((1,), {"third": 3}), ((), {"second": "b"})]
)
def test_what_does_not_fit_the_fields_is_refused(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (Pair, Same):
        with pytest.raises(TypeError):
            kind(*values, **named)


def test_a_record_cannot_be_changed() -> None:
    for made in (Pair(1), Same(1)):
        with pytest.raises(AttributeError):
            made.first = 2  # type: ignore[misc]
        with pytest.raises(AttributeError):
            del made.first  # type: ignore[misc]
        assert made.first == 1


ODD = ["", "\x00\x1f\n\t", 'a "b" \\ c', "ü", "\U0001f600 \ud800", "plain text"]


@pytest.mark.parametrize("value", [None, True, False, 0, -1, 2**70, [], {}, ODD, {key: [1, (2, None)] for key in ODD}])
def test_what_the_reading_process_writes_is_what_json_reads(value: object) -> None:
    assert json.loads(to_json(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "text", ["null", " [1, 2.5, -1e3, true]\n", '{"a": {"b": ["\\ud83d\\ude00", "ü"]}}', "1", "NaN", '"a"', "[Infinity]"]
)
def test_a_json_text_is_read_as_json_reads_it(text: str) -> None:
    assert repr(parse_json(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "1 2", "nul", '{"a"}', "{'a': 1}", '"\n"', "\x0b1"])
def test_what_is_no_json_is_refused(text: str) -> None:
    for parse in (json.loads, parse_json):
        with pytest.raises(ValueError, match=r"."):
            parse(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda item: st.lists(item) | st.dictionaries(st.text(), item),
)


@given(value=_JSON, indent=st.none() | st.integers(0, 3), ascii_only=st.booleans())
def test_any_json_is_read_as_json_reads_it(value: object, indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repr(parse_json(text)) == repr(json.loads(text))


@given(text=st.text(alphabet=st.sampled_from('{}[]",:0123456789.eE+-truefalsn \\u\n'), max_size=30))
def test_any_text_is_read_or_refused_as_json_does_it(text: str) -> None:
    answers = []
    for parse in (json.loads, parse_json):
        try:
            answers.append(repr(parse(text)))
        except ValueError:
            answers.append("refused")
    assert answers[0] == answers[1]
