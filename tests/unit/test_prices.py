"""Prices that a team gives in a file: what is refused, and what a node costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_pools.hardware.prices import HOURS_PER_MONTH, Prices, read_prices

if TYPE_CHECKING:
    from pathlib import Path


def prices_in(folder: Path, text: str) -> Prices:
    path = folder / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    return read_prices(path)


def test_a_spot_node_costs_its_own_price_or_the_full_one(tmp_path: Path) -> None:
    prices = prices_in(tmp_path, "currency: EUR\nperHour: {large: 3.1, small: 1, 5: 0.5}\nspotPerHour: {large: 1.2}\n")
    assert prices == Prices("EUR", {"large": 3.1, "small": 1.0, "5": 0.5}, {"large": 1.2})
    assert [prices.of(size, spot=True) for size in ("large", "small", "other")] == [1.2, 1.0, None]
    assert [prices.of(size, spot=False) for size in ("large", "small", "other")] == [3.1, 1.0, None]
    assert prices_in(tmp_path, "currency: EUR\nperHour: {a: 1}\nspotPerHour:\n").spot_per_hour == {}


def test_sizes_of_azure_are_found_in_any_case_flavors_as_written(tmp_path: Path) -> None:
    prices = prices_in(tmp_path, "currency: EUR\nperHour: {Standard_A: 3, flavor: 1}\nspotPerHour: {STANDARD_a: 2}\n")
    assert [prices.of(size, spot=True) for size in ("Standard_A", "standard_a", "Standard_B", "Flavor")] == [2, 2, None, None]
    assert prices.of("standard_A", spot=False) == 3


def test_a_month_is_the_twelfth_part_of_a_year() -> None:
    assert HOURS_PER_MONTH == 365 * 24 / 12


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "cannot be read: ParserError"),
        ("- currency", "must have `currency` and `perHour`"),
        ("perHour: {a: 1}", "must have `currency` and `perHour`"),
        ("currency: 5\nperHour: {a: 1}", "must have `currency` and `perHour`"),
        ("currency: EUR", "must have `currency` and `perHour`"),
        ("currency: EUR\nperHour: {}", "must have `currency` and `perHour`"),
        ("currency: EUR\nperHour: [a]", "perHour must be a mapping of sizes"),
        ("currency: EUR\nperHour: {a: 1}\nspotPerHour: 5", "spotPerHour must be a mapping of sizes"),
        ("currency: EUR\nperHour: {a: 0}", "perHour.a is not a price"),
        ("currency: EUR\nperHour: {a: -1}", "perHour.a is not a price"),
        ("currency: EUR\nperHour: {a: true}", "perHour.a is not a price"),
        ("currency: EUR\nperHour: {a: cheap}", "perHour.a is not a price"),
        ("currency: EUR\nperHour: {a: 1}\nspotPerHour: {a: 0}", "spotPerHour.a is not a price"),
    ],
)
def test_what_is_no_list_of_prices_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        prices_in(tmp_path, text)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: FileNotFoundError"):
        read_prices(tmp_path / "none.yaml")
