"""What is found in a file: where, how bad, what the real software does, what is allowed, and the remedy.

Findings only carry and print. They are not `gpu_pools.text.errors.Problem`s: a problem stops a plan, a finding tells what running
software does with a file that it does accept or refuse, and in which of its versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_pools.existing.layers import Places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.existing.yaml_tree import Path
    from gpu_pools.hardware.models import Version

Severity = Literal["crash", "ignored", "overridden", "changed", "unknown"]
#: What each severity means; the worst first.
SEVERITIES: Final[Mapping[Severity, str]] = {
    "crash": "the real software refuses it or crash-loops",
    "ignored": "silently without effect",
    "overridden": "something else wins",
    "changed": "it means something else in other versions",
    "unknown": "cannot be checked here",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        path: where in the file, e.g. ``data.slice-4.sharing.timeSlicing.resources[0].replicas``.
        line: the line, from 1; None where it is not known (a text that is not a literal block).
        severity: a key of `SEVERITIES`.
        message: what is there, naming the value.
        really: what the real software does with it.
        allowed: what would be right there.
        remedy: what to do.
        versions: device-plugin versions in which it holds; empty where it does not depend on them.
    """

    path: str
    line: int | None
    severity: Severity
    message: str
    really: str
    allowed: str
    remedy: str
    versions: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The finding for machines."""
        return {
            "path": self.path,
            "line": self.line,
            "severity": self.severity,
            "message": self.message,
            "really": self.really,
            "versions": list(self.versions),
            "allowed": self.allowed,
            "remedy": self.remedy,
        }


class Findings:
    """A growing list of findings of one file."""

    def __init__(
        self,
        lines: Mapping[Path, int],
        versions: tuple[str, ...],
        mig_parted: Version | None = None,
        places: Places | None = None,
    ) -> None:
        """Begin with none.

        Args:
            lines: the file's.
            versions: of the device plugin that are asked about.
            mig_parted: the version of mig-parted; None: any.
            places: where in the file a value stands that is checked elsewhere.
        """
        self._lines = lines
        self._places = places or Places()
        self.versions = versions
        self.mig_parted = mig_parted
        self._found: list[Finding] = []

    def add(
        self,
        path: Path,
        severity: Severity,
        message: str,
        *,
        really: str,
        allowed: str,
        remedy: str,
        versions: Iterable[str] = (),
    ) -> None:
        """Remember one finding; the same one is kept only once.

        `versions` are the device-plugin versions in which it holds; a finding about other versions than asked is dropped.
        """
        wanted = tuple(versions)
        holds = tuple(version for version in wanted if version in self.versions)
        if wanted and not holds:
            return
        path = self._places.of(path)
        finding = Finding(
            path=path_text(path),
            line=self._line(path),
            severity=severity,
            message=plain(message),
            really=plain(really),
            allowed=plain(allowed),
            remedy=plain(remedy),
            versions=holds,
        )
        if finding not in self._found:
            self._found.append(finding)

    def sorted(self) -> tuple[Finding, ...]:
        """All findings in the order of the file, the worst first where places are equal."""
        order = list(SEVERITIES)
        return tuple(sorted(self._found, key=lambda found: (found.line or 0, order.index(found.severity))))

    def _line(self, path: Path) -> int | None:
        """The line of the place, or of the nearest one around it that is known."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None


def path_text(path: Path) -> str:
    """A place in words, e.g. ``data["config.yaml"].mig-configs.half[0].devices``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[-\w+:/]+", part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return plain(text) or "(the whole file)"


def plain(text: str) -> str:
    """On one line, and nothing in it that a terminal or a YAML comment could not carry."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.splitlines()))
