"""Moments as Kubernetes writes them."""

from __future__ import annotations

import time


def moment(seconds: float | None = None) -> str:
    """RFC 3339, UTC, to the second.

    Args:
        seconds: since the epoch; None for now.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
