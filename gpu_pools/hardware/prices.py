"""Prices that a team gives in a file; none are known here, because they differ per contract, region and day.

currency: EUR
perHour: {Standard_NC24ads_A100_v4: 3.10}
spotPerHour: {Standard_NC24ads_A100_v4: 1.20}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from gpu_pools.text.files import read_text
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

#: 365 days in twelve parts.
HOURS_PER_MONTH: Final = 730


@dataclass(frozen=True)
class Prices:
    """Prices per node and hour.

    Attributes:
        currency: as the team writes it.
        per_hour: VM size or flavor -> price.
        spot_per_hour: the same for spot nodes; a size that is missing costs its full price.
    """

    currency: str
    per_hour: Mapping[str, float]
    spot_per_hour: Mapping[str, float]

    def of(self, size: str, *, spot: bool) -> float | None:
        """The price of a node, None where the file has none."""
        price = _price(self.per_hour, size)
        return (_price(self.spot_per_hour, size) or price) if spot else price


def _price(prices: Mapping[str, float], size: str) -> float | None:
    """What is written of a size, or of the same size in another case: Azure's sizes have none, flavors do."""
    if size in prices or not size.lower().startswith("standard_"):
        return prices.get(size)
    return next((price for written, price in prices.items() if written.lower() == size.lower()), None)


def read_prices(path: object) -> Prices:
    """The file's prices.

    Raises:
        ValueError: if it cannot be read, or is not of that shape.
    """
    try:
        document = load_yaml(read_text(str(path)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f'the prices "{path}" cannot be read: {type(error).__name__}') from error
    if not isinstance(document, dict) or not isinstance(document.get("currency"), str) or not document.get("perHour"):
        raise ValueError(f'the prices "{path}" must have `currency` and `perHour`')
    return Prices(document["currency"], _checked(document, "perHour"), _checked(document, "spotPerHour"))


def _checked(document: Mapping[str, object], key: str) -> dict[str, float]:
    given = document.get(key) or {}
    if not isinstance(given, dict):
        raise ValueError(f"{key} must be a mapping of sizes")  # noqa: TRY004 - one kind of error for whoever reads configurations
    for size, price in given.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or price <= 0:
            raise ValueError(f"{key}.{size} is not a price")
    return {str(size): float(price) for size, price in given.items()}
