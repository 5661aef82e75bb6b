"""Which mutants were missed, which of them are accounted for (survivors/), and what that makes of each file and package."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.mutants.trial import Ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.mutations import Mutant

#: A file per package.
LISTS = Path(__file__).with_name("survivors")
#: Of 100 mutants that are not equivalent, so many are noticed at least, in each package of the core and in the verifier.
LEAST: Final = 95
_NOT_HELD: Final = ("gpu_pools/changes", "gpu_pools/cli", "policies")
_MISSED = {Ended.MISSED, Ended.UNTESTED}


def listed(*paths: Path) -> dict[str, list[dict[str, Any]]]:
    """File -> the survivors of these lists, of our own without any: in, was, now, why, and which where some are equal."""
    return {file: entries for one in _read(paths) for file, entries in (one.get("survivors") or {}).items()}


def whole_files() -> list[str]:
    """Files of which every mutant was tried and every survivor is listed: another one is a failure there."""
    return [file for one in _read() for file in one.get("whole") or ()]


def _read(paths: Sequence[Path] = ()) -> list[dict[str, Any]]:
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths or sorted(LISTS.glob("*.yaml"))]


def entry(mutant: Mutant) -> dict[str, Any]:
    """A mutant as it stands in a list of survivors, without a reason yet."""
    _, place, was, now, which = mutant.identity
    return {"in": place, "was": was, "now": now, **({"which": which} if which else {}), "why": ""}


def identity(file: str, listed: dict[str, Any]) -> tuple[str, str, str, str, int]:
    """As Mutant.identity."""
    return file, listed["in"], listed["was"], listed["now"], listed.get("which", 0)


@dataclass
class Accounts:
    """The tally of one run."""

    known: dict[tuple[str, str, str, str, int], str]
    whole: set[str]
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    missed: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Sequence[str]) -> Accounts:
        """The accounts before the first mutant."""
        known = {identity(file, one): one["why"] for file, entries in listed().items() for one in entries}
        return cls(known, set(whole_files()), {file: Counter() for file in files})

    def add(self, mutant: Mutant, how: Ended) -> str | None:
        """Count one; what there is to tell of it."""
        why = self.known.get(mutant.identity)
        counts = self.counts[mutant.file]
        if how not in _MISSED:
            counts["noticed"] += 1
            return f"{mutant.file}:{mutant.line} is {how.value}, but listed: {mutant.was}" if why else None
        if why:
            counts["equivalent" if why.startswith("equivalent") else "accepted"] += 1
            return None
        counts["missed"] += 1
        self.missed.setdefault(mutant.file, []).append(entry(mutant))
        if mutant.file in self.whole:
            self.unknown.append(f"{mutant.file}:{mutant.line}")
        which = f" (the {mutant.which + 1}. such)" if mutant.which else ""
        return f"{how.value}: {mutant.file}:{mutant.line} {mutant.place}{which}\n    {mutant.was}\n    {mutant.now}"

    def table(self, planned: int) -> str:
        """Per file: how many were tried and noticed, in 100 of those that are not equivalent."""
        rows = [_row(file, counts) for file, counts in self.counts.items() if counts]
        rows += [_row(f"**{package}/**", self._of(package)) for package in self._packages()]
        tried = sum(sum(counts.values()) for counts in self.counts.values())
        head = "| file | tried | noticed | missed | not worth it | equivalent | of 100 |\n|---|---|---|---|---|---|---|"
        return "\n".join([head, *rows, "", f"{tried} of {planned} mutants tried."])

    def problems(self) -> list[str]:
        """Why the run is red."""
        few = [
            f"{package}/: fewer than {LEAST} of 100 noticed"
            for package in self._packages()
            if package not in _NOT_HELD and _share(self._of(package)) < LEAST
        ]
        return few + [f"{spot}: missed, and not in {LISTS.name}/" for spot in self.unknown]

    def _packages(self) -> list[str]:
        return sorted({file.rpartition("/")[0].removesuffix("/rules") for file in self.counts})

    def _of(self, package: str) -> Counter[str]:
        return sum((counts for file, counts in self.counts.items() if file.startswith(f"{package}/")), Counter())


def _share(counts: Counter[str]) -> float:
    real = sum(counts.values()) - counts["equivalent"]
    return 100 * counts["noticed"] / real if real else 100


def _row(name: str, counts: Counter[str]) -> str:
    words = ("noticed", "missed", "accepted", "equivalent")
    cells = [str(sum(counts.values())), *(str(counts[word]) for word in words), f"{_share(counts):.1f}"]
    return f"| {name} | {' | '.join(cells)} |"
