"""What follows for a stack from what registries say of its images: pods that would not start or run something else, and advice.

A problem is only what a registry has said by itself. What it was not asked, would not say or could not be understood is none: it
is told as not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_pools.reading.image_names import by_digest
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from gpu_pools.images.placed import PlacedImage
    from gpu_pools.images.registry_answers import Said


@dataclass(frozen=True)
class ImageVerdict:
    """An image, and what its registry says of it.

    Attributes:
        image: as it is placed.
        said: None where nobody was asked.
    """

    image: PlacedImage
    said: Said | None

    @property
    def problem(self) -> Problem | None:
        """Why its pods would not run, or run something else."""
        if self.said is None or self.said.verdict in {"unchecked", "there"}:
            return self._platform_problem()
        remedy = "Name an image that is there: `docker buildx imagetools inspect IMAGE` prints its digest."
        if self.said.verdict == "other":
            remedy = "Trust neither: find out who answers for that registry, or pull from another."
        return Problem(self.image.path, f"{self.image.text}: {self.said.why}", "an image that its registry has", remedy)

    @property
    def warning(self) -> str:
        """What to write instead of a tag; empty where there is nothing to say."""
        if self.image.pinned:
            return ""
        names = f"{self.image.path} names {self.image.text} by tag, and whoever can push it there decides what runs (W91)"
        if self.said is None or not self.said.digest or self.problem:
            return names
        return f"{names}; now it is {by_digest(self.image.text, self.said.digest)}"

    @property
    def text(self) -> str:
        """What the registry says, for a table."""
        if self.said is None:
            return "not asked"
        if self.said.verdict == "there":
            return f"there{self._platform_text()}"
        return f"not checked: {self.said.why}" if self.said.verdict == "unchecked" else self.said.why

    def _platform_text(self) -> str:
        platforms = sorted(self.said.platforms) if self.said else []
        return f", for {', '.join(platforms)}" if platforms else ""

    def _platform_problem(self) -> Problem | None:
        if self.said is None or not self.said.platforms:
            return None
        missing = sorted(f"linux/{one}" for one in self.image.architectures if f"linux/{one}" not in self.said.platforms)
        if not missing:
            return None
        return Problem(
            self.image.path,
            f"{self.image.text} is not for {', '.join(missing)}, which nodes of this stack are",
            f"an image for {', '.join(missing)}; this one is{self._platform_text().removeprefix(',')}",
            "Name an image, or the index of several, that is for all its nodes.",
        )

    def as_json(self) -> dict[str, object]:
        """The document of ``images --json``."""
        return {
            "key": self.image.path,
            "image": self.image.text,
            "given": self.image.given,
            "byDigest": self.image.pinned,
            "pods": self.image.pods,
            "registry": self.said
            and {
                "verdict": self.said.verdict,
                "why": self.said.why,
                "digest": self.said.digest or None,
                "platforms": sorted(self.said.platforms),
            },
        }
