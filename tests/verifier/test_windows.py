"""When a change may begin, by a clock and nothing else."""

from __future__ import annotations

import calendar
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.verifier.changer.windows import DAYS, opens_in, read_window, written

HOUR = 3600


def at(text: str) -> float:
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M")))


@pytest.mark.parametrize(
    ("window", "moment", "hours"),
    [
        ("Saturday 22:00 6h +00:00", "2026-11-28T22:00", 0.0),
        ("Saturday 22:00 6h +00:00", "2026-11-28T21:30", 0.5),
        ("Saturday 22:00 6h +00:00", "2026-11-29T03:59", 0.0),
        ("Saturday 22:00 6h +00:00", "2026-11-29T04:00", 6 * 24 + 18.0),
        ("Sunday 22:00 6h +00:00", "2026-11-30T01:00", 0.0),
        ("Monday 00:30 1h +02:00", "2026-11-29T22:30", 0.0),
        ("Monday 00:30 1h -05:30", "2026-11-30T06:00", 0.0),
        ("daily 23:00 2h +00:00", "2026-11-26T00:59", 0.0),
        ("daily 23:00 2h +00:00", "2026-11-26T01:00", 22.0),
        ("daily 00:00 24h +00:00", "2026-11-26T13:37", 0.0),
    ],
)
def test_when_it_opens(window: str, moment: str, hours: float) -> None:
    assert opens_in([read_window(window)], at(moment)) == hours * HOUR


@pytest.mark.parametrize(("day", "utc"), [("2026-03-28", "21:00"), ("2026-04-04", "21:00"), ("2026-10-24", "21:00")])
def test_it_does_not_follow_daylight_saving(day: str, utc: str) -> None:
    """Berlin's clocks change on 29 March and 25 October 2026: by them it opens at 22:00, then at 23:00, then at 23:00 still."""
    window = read_window("Saturday 22:00 6h +01:00")
    assert opens_in([window], at(f"{day}T{utc}")) == 0
    assert opens_in([window], at(f"{day}T{utc}") - 60) == 60
    # A night in which an hour is missing, or is there twice, has six hours all the same.
    assert opens_in([window], at(f"{day}T{utc}") + 6 * HOUR - 1) == 0
    assert opens_in([window], at(f"{day}T{utc}") + 6 * HOUR) > 0


def test_of_several_the_next_one_counts_and_without_any_it_is_open() -> None:
    windows = [read_window("Saturday 22:00 6h +00:00"), read_window("Thursday 02:00 4h +00:00")]
    assert opens_in(windows, at("2026-11-26T01:00")) == HOUR
    assert opens_in([], 0.0) == 0


WRITTEN = st.tuples(
    st.sampled_from([None, *DAYS]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(1, 24),
    st.sampled_from("+-"),
    st.integers(0, 14),
)


@given(WRITTEN, st.integers(0, 2**33))
def test_it_is_open_for_its_hours_and_then_closed(parts: tuple[str | None, int, int, int, str, int], moment: int) -> None:
    day, hour, minute, hours, sign, offset = parts
    window = read_window(written(day, f"{hour:02}:{minute:02}", hours, f"{sign}{offset:02}:00"))
    opens = moment + window.opens_in(moment)
    assert window.opens_in(opens) == 0
    assert window.opens_in(opens - window.since(opens) + hours * HOUR - 1) == 0
    if day is not None or hours < 24:
        assert window.opens_in(opens - window.since(opens) + hours * HOUR) > 0
    began = time.gmtime(opens - window.since(opens) + window.offset)
    assert (began.tm_hour, began.tm_min) == (hour, minute)
    assert day is None or DAYS[began.tm_wday] == day


@pytest.mark.parametrize(
    "text",
    ["", "Saturday", "saturday 22:00 6h +00:00", "Saturday 22:00 6 +00:00", "daily 22:00 6h", "daily 2:00 6h +00:00"],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - argparse says it in its own words
        read_window(text)
    assert str(refused.value) == text
