"""Figures out of operations: properties, and cases small enough to be counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_pools.bench.statistics import fairness, longest_gap, loss, measured, percentile

RATES = st.lists(st.floats(0, 1e6), min_size=1, max_size=20)


@given(st.lists(st.floats(0, 1e3), min_size=1).map(sorted), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_no_percentile_of_nothing(values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, percent)


@given(RATES)
@example([1.9e-162])
@example([5e-324, 0.0])
def test_fairness_is_one_where_all_get_the_same_and_never_below_one_in_so_many(rates: list[float]) -> None:
    assert 1 / len(rates) - 1e-9 <= fairness(rates) <= 1 + 1e-9
    assert fairness([rates[0]] * 5) == pytest.approx(1)
    assert fairness([3.0, 0, 0, 0]) == pytest.approx(0.25)


def test_only_what_ends_in_a_window_counts_and_the_median_window_is_the_rate() -> None:
    early, late = (0.9, 0.1), (4.0, 0.1)
    one = [early, (1.0, 0.2), (1.5, 0.3), (2.5, 0.4), (3.1, 0.1), (3.2, 0.1), (3.3, 0.1), late]
    other = [(1.2, 0.5)]
    found = measured([one, other], start=1.0, window=1.0, windows=3)
    assert (found.lowest, found.rate, found.highest) == (1, 3, 3)
    assert found.client_rates == pytest.approx((2, 1 / 3))
    assert (found.latency[50], found.latency[99], found.longest) == (0.2, 0.5, 0.5)


def test_clients_that_did_nothing_have_no_latency() -> None:
    found = measured([[], []], start=0, window=1, windows=2)
    assert (found.rate, found.latency, found.longest, found.fairness) == (0, {}, None, 1)


def test_loss_is_none_where_nothing_was_done_alone_and_negative_where_gaps_are_filled() -> None:
    assert loss(100, 90) == pytest.approx(0.1)
    assert loss(100, 150) == pytest.approx(-0.5)
    assert loss(0, 5) is None


def test_the_longest_gap_counts_from_the_start_and_to_the_end() -> None:
    assert longest_gap([], 1, 4) == 3
    assert longest_gap([(0.5, 0), (2, 0), (2.5, 0), (9, 0)], 1, 4) == 1.5
