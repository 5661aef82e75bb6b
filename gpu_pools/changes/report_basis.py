"""What a report rests on, for its readers: what nobody looked at must not be taken for nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportBasis:
    """What was looked at.

    Attributes:
        against: what the change was previewed against, in words; ``""``: that is not told.
        no_pods: why running pods were not looked at; ``""``: they were.
    """

    against: str = ""
    no_pods: str = "no list of them was given"
