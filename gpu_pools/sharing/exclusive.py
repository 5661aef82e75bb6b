"""Exclusive use: one pod has a whole GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gpu_pools.reading.section import Section
from gpu_pools.sharing.mode import Sharing

if TYPE_CHECKING:
    from gpu_pools.text.errors import Problems


@dataclass(frozen=True)
class Exclusive(Sharing):
    """One pod has a whole GPU."""

    strategy: ClassVar[str] = "exclusive"
    title: ClassVar[str] = "exclusive"

    @classmethod
    def parse(cls, value: object, path: str, problems: Problems) -> Self | None:
        """Read an empty mapping; a key without a value is one, too."""
        Section({} if value is None else value, path, problems, what="an empty mapping, {}").finish()
        return cls()

    def settings(self) -> dict[str, Any]:
        """Return nothing: whole GPUs have no settings."""
        return {}

    def text(self) -> str:
        """Return ``exclusive``."""
        return self.title

    def slug(self) -> str:
        """Return ``exclusive``."""
        return self.title
