"""Amounts are read as Kubernetes reads them, and in one place."""

from __future__ import annotations

import ast
import json
import shutil
from decimal import ROUND_UP, Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from gpu_pools.verifier.quantities import LARGEST, PLACES, read_amount, read_count
from tests.examples import examples
from tests.verifier import quantity_parser

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpu_pools", "policies", "pipelines", "components", "sandbox")
NANO = Decimal(10) ** -PLACES
#: Its own notation, of a key of stack files: whole numbers of Mi or Gi.
OTHER_NOTATIONS = {"gpu_pools/sharing/needs.py"}


def as_amount(decimal: str | None) -> int | None:
    """What Kubernetes has read, in billionths, within an int64."""
    if decimal is None:
        return None
    with localcontext() as context:
        context.prec = 500
        value = max(-Decimal(LARGEST), min(Decimal(LARGEST), Decimal(decimal)))
        return int(value.quantize(NANO, ROUND_UP).scaleb(PLACES))


def differences(pairs: list[tuple[str, str | None]]) -> list[tuple[str, str | None, int | None]]:
    return [(text, said, read_amount(text)) for text, said in pairs if read_amount(text) != as_amount(said)]


def test_amounts_are_read_as_kubernetes_has_answered() -> None:
    """1,200 answers of ParseQuantity of k8s.io/apimachinery v0.36.3."""
    recorded = [(text, said) for text, said in json.loads(quantity_parser.RECORDED.read_text())]
    assert len(recorded) == 1200
    assert sum(said is None for _, said in recorded) > 200
    assert differences(recorded) == []


@pytest.mark.programs
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
def test_amounts_are_read_as_kubernetes_answers_now() -> None:
    asked = quantity_parser.texts(2, 2000)
    assert differences(list(zip(asked, quantity_parser.answers(asked), strict=True))) == []


@settings(max_examples=examples(300))
@given(
    number=st.decimals(min_value=0, max_value=10**6, places=3).map(str),
    suffix=st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi"]),
)
def test_amounts_are_read_as_the_client_of_kubernetes_for_python_reads_them(number: str, suffix: str) -> None:
    with localcontext() as context:
        context.prec = 100
        assert read_amount(number + suffix) == as_amount(format(parse_quantity(number + suffix), "f"))


@settings(max_examples=examples(500))
@given(st.one_of(st.text(), st.from_regex(r"[+-]?[0-9.]*[eEinumkKMGTP]*[-+]?[0-9]*", fullmatch=True), st.integers(), st.floats()))
def test_whatever_is_written_is_an_amount_within_bounds_or_none(written: object) -> None:
    amount, count = read_amount(written), read_count(written)
    assert amount is None or abs(amount) <= LARGEST * 10**PLACES
    assert count is None or amount == count * 10**PLACES


@pytest.mark.parametrize(
    ("written", "count"),
    [("8", 8), ("8k", 8000), ("0", 0), ("2M", 2_000_000), ("1e3", 1000), ("2000m", 2), ("1Ki", 1024), (4, 4), ("1G", 10**9)],
)
def test_a_count_is_read(written: object, count: int) -> None:
    assert read_count(written) == count


@pytest.mark.parametrize(
    "written",
    [
        "",
        "-1",
        "500m",
        "0.5",
        "1Zi",
        "two",
        "\u0661",
        "m",
        ".",
        None,
        True,
        [],
        {},
        "1" * 101,
        10**5000,
        float("nan"),
        float("inf"),
    ],
    ids=lambda written: f"{type(written).__name__}-{len(str(written)) if isinstance(written, str) else ''}",
)
def test_what_is_no_count_is_none(written: object) -> None:
    assert read_count(written) is None


def test_what_is_beyond_an_int64_counts_as_the_largest() -> None:
    assert [read_count(text) for text in ("9223372036854775807", "9223372036854775808", "1e300", "1000Ei")] == [2**63 - 1] * 4
    assert read_amount("-1e300") == -(2**63 - 1) * 10**PLACES


def test_no_other_module_reads_amounts_by_itself() -> None:
    """A table of Kubernetes' suffixes, or a pattern with them, is a second reader of the same notation."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            constants = {one.value for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Constant)}
            texts = {one for one in constants if isinstance(one, str)}
            if {"k", "M"} <= texts or any("[kM" in one or "kMGTPE" in one or "(Mi|Gi)" in one for one in texts):
                found.append(name)
    assert set(found) == {"gpu_pools/verifier/quantities.py", *OTHER_NOTATIONS}
