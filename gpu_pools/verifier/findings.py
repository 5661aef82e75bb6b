"""What a comparison finds: differences, what cannot be told, and notes. Words for people are in gpu_pools/verifier/report.py.

A difference is proven. What cannot be told (no permission, the API away) is a defect of the verifier's surroundings, or a
question that nobody answered: it is never counted as a pass. A note does not change the verdict.
"""

from __future__ import annotations

from .documents import Record

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, ClassVar

    from .causes import Cause


class Verdict:
    """The verdict, its name and its exit code: one of three. An Enum would be the same, and takes long to load."""

    HOLDS: ClassVar[Verdict]
    DIFFERS: ClassVar[Verdict]
    CANNOT_TELL: ClassVar[Verdict]

    def __init__(self, name: str, value: int) -> None:
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        """As messages of tests show it."""
        return f"<Verdict.{self.name}>"

    @property
    def text(self) -> str:
        """As reports write it."""
        return self.name.lower().replace("_", " ")


Verdict.HOLDS = Verdict("HOLDS", 0)
Verdict.DIFFERS = Verdict("DIFFERS", 1)
Verdict.CANNOT_TELL = Verdict("CANNOT_TELL", 2)


class Where(Record):
    """What a finding is about: a GPU by index and UUID, or a subject such as ``node``, ``pod x`` or ``nvidia.com/gpu``."""

    subject: str
    gpu: int | None = None
    uuid: str | None = None

    def __str__(self) -> str:
        """As messages show it."""
        return f"{self.subject} ({self.uuid})" if self.uuid else self.subject


class Finding(Record):
    """One difference, or one thing that cannot be told.

    Attributes:
        where: what it is about.
        field: which property.
        expected: as declared, a JSON value.
        observed: as found, a JSON value.
        cause: the likely cause, with its remedy.
        detail: what makes the cause likely here, in words; may be empty.
    """

    where: Where
    field: str
    expected: Any
    observed: Any
    cause: Cause
    detail: str = ""


class Findings:
    """A growing list; comparisons add to it."""

    def __init__(self) -> None:
        self.differences: list[Finding] = []
        self.unknown: list[Finding] = []
        self.notes: list[str] = []

    def differs(self, where: Where, field: str, expected: object, observed: object, why: str, detail: str = "") -> None:
        """Add a proven difference; `why` is a key of verifier.causes."""
        self.differences.append(Finding(where, field, expected, observed, _cause(why), detail))

    def cannot_tell(self, where: Where, field: str, expected: object, observed: object, why: str, detail: str = "") -> None:
        """Add a question that could not be answered."""
        self.unknown.append(Finding(where, field, expected, observed, _cause(why), detail))

    def note(self, text: str) -> None:
        """Add a remark."""
        if text not in self.notes:
            self.notes.append(text)

    def whys(self) -> frozenset[str]:
        """The keys of the causes of all differences so far."""
        return frozenset(finding.cause.key for finding in self.differences)

    @property
    def verdict(self) -> Verdict:
        """A proven difference beats an open question; both beat a pass."""
        if self.differences:
            return Verdict.DIFFERS
        return Verdict.CANNOT_TELL if self.unknown else Verdict.HOLDS


def _cause(key: str) -> Cause:
    from .causes import cause  # noqa: PLC0415 - a node that is as declared needs none of them

    return cause(key)


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The most important first: what explains others before what follows from it."""
    return sorted(findings, key=lambda finding: finding.cause.rank)
