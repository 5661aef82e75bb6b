"""Reads amounts in the notation of Kubernetes, such as ``2``, ``1k``, ``500m``, ``12Gi`` or ``1e3``: the project's only reader.

It follows ParseQuantity of k8s.io/apimachinery v0.36.3 (pkg/api/resource/quantity.go, suffix.go): what is finer than a
billionth is rounded away from zero, and what is larger than an int64 counts as the largest int64. It deviates in two points,
both to the safe side: an amount without any digit (there 0) and one of more than 100 characters are no amounts here.

Imports nothing of the project, since verifiers, hooks, policies and the commands that read reports need the same.
"""

from __future__ import annotations

import re
from typing import Final

_MOST_CHARACTERS: Final = 100
_AMOUNT: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?", re.ASCII)
_DECIMAL: Final = {suffix: 3 * power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)}
_BINARY: Final = {suffix: 10 * power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
#: Decimal places that are kept.
PLACES: Final = 9
LARGEST: Final = 2**63 - 1
#: No exponent beyond these changes what comes of an amount of so few characters.
_MOST_EXPONENT: Final = 200


def read_amount(written: object) -> int | None:
    """Read an amount.

    Args:
        written: as it stands in an object: text, or a number of JSON or YAML.

    Returns:
        Billionths, from -LARGEST to LARGEST units; None where Kubernetes refuses it.
    """
    try:
        # What is neither text nor a number has no form that matches.
        text = str(written)
    except ValueError:
        # Python writes no integer of more than 4,300 digits.
        return None
    match = _AMOUNT.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    exponent = _exponent(suffix)
    if exponent is None:
        return None
    units = int(whole + fraction) << _BINARY.get(suffix, 0)
    amount = min(_scaled(units, exponent - len(fraction) + PLACES), LARGEST * 10**PLACES)
    return -amount if sign == "-" else amount


def read_count(written: object) -> int | None:
    """Read an amount that counts things, such as GPUs.

    Returns:
        The count; None where it is no amount, not whole, or below zero.
    """
    amount = read_amount(written)
    if amount is None or amount < 0 or amount % 10**PLACES:
        return None
    return amount // 10**PLACES


def _exponent(suffix: str) -> int | None:
    """The power of ten; None where Kubernetes cannot read it."""
    if suffix in _BINARY:
        return 0
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    exponent = int(suffix[1:])
    if not -LARGEST - 1 <= exponent <= LARGEST:
        return None
    return max(-_MOST_EXPONENT, min(_MOST_EXPONENT, exponent))


def _scaled(units: int, power: int) -> int:
    """Units times a power of ten, rounded up."""
    factor: int = 10 ** abs(power)
    return units * factor if power >= 0 else -(-units // factor)
