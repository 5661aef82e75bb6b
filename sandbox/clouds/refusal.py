"""The one thing a stand-in service raises when it refuses a request, as the real one would."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818  (a refusal is an expected answer, not a fault)
    """The service said no. The text is what the user reads, unchanged."""
