"""The one error of this package: why nothing can be said of a stack, with what to do about it."""

from __future__ import annotations


class EvidenceError(Exception):
    """Nothing can be told: exit code 2.

    Args:
        message: what went wrong, in one or more lines.
        remedy: what the user can do about it.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}\n{remedy}")
        self.message = message
        self.remedy = remedy
