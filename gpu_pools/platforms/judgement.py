"""What a check of a cloud ends with, and what a cloud did not say: the same for every cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_pools.text.errors import Problem


@dataclass(frozen=True)
class Unread:
    """Something that the cloud did not say, and why."""

    why: str


@dataclass(frozen=True)
class Judgement:
    """What a check has found.

    Attributes:
        problems: what is wrong; nothing is made then.
        unchecked: what could not be told, each with the reason.
        notes: what is worth knowing before.
        warnings: what will stop something later, but not this deploy.
    """

    problems: tuple[Problem, ...]
    unchecked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
