"""Moments as Kubernetes writes them."""

from __future__ import annotations

import time


def moment(seconds: float | None = None) -> str:
    """RFC 3339, UTC, to the second.

    Args:
        seconds: since the epoch; None for now.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(text: str) -> float | None:
    """Seconds since the epoch of what `moment` has written; None of anything else."""
    import calendar  # noqa: PLC0415 - only a change needs it

    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
