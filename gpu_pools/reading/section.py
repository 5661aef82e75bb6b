"""Strict reading of one mapping of the stack file.

A ``Section`` hands out typed values and collects what is wrong with them, so that a parser reads like a list of its fields.
Whatever was not asked for by the time ``finish`` is called is an unknown key: the software behind this project ignores keys
that it doesn't know, so a typing error there means GPUs that are silently not shared.
"""

from __future__ import annotations

import datetime as dt
import difflib
import math
import re
from typing import TYPE_CHECKING, Final, TypeVar

from gpu_pools.reading.image_names import read_image_name
from gpu_pools.reading.spelled import in_spelling_of, spelled_beside, written_key
from gpu_pools.text.errors import Problems, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_T = TypeVar("_T")

_IMAGE_NAMES: Final = (
    "Registry in any case, the rest in lower case; a digest is sha256: with 64 hexadecimal digits, or sha512: with 128."
)

#: Keys that people write in the wrong place -> where they belong.
_BELONGS: Final[Mapping[str, str]] = {
    "replicas": "gpu-pools:sharing.<name>.timeSlicing or .mps",
    "renameByDefault": "gpu-pools:sharing.<name>.timeSlicing or .mps",
    "failRequestsGreaterThanOne": "gpu-pools:sharing.<name>.timeSlicing or .mps",
    "needs": "gpu-pools:sharing.<name>",
    "memoryPerReplica": "gpu-pools:sharing.<name>.needs",
    "layout": "gpu-pools:sharing.<name>.mig",
    "migStrategy": "gpu-pools:operator",
    "vmSize": "a pool of an AKS cluster",
    "flavor": "a pool of a Magnum cluster",
    "nodeSelector": "a pool of an existing cluster",
    "gpuModel": "a pool of an existing cluster, or a flavor under gpu-pools:flavors",
    "sharing": "a pool, as the name of a declaration under gpu-pools:sharing",
    "taints": "a pool",
    "location": "gpu-pools:cluster of platform aks",
    "minimum": "a pool",
    "protect": "the cluster of AKS or Magnum, or a pool of such a cluster",
    "adminGroups": "gpu-pools:cluster.entra of AKS",
    "maxSurge": "upgradeSettings of a pool of AKS",
}
#: Azure's names of keys of AKS pools -> ours.
_OUR_NAMES: Final[Mapping[str, str]] = {
    "vnetSubnetID": "subnet",
    "orchestratorVersion": "kubernetesVersion",
    "osDiskSizeGB": "osDiskSize",
    "capacityReservationGroupID": "capacityReservationGroup",
}
#: Keys that others have and this project has nowhere -> why.
_NOWHERE: Final[Mapping[str, str]] = {
    "disableLocalAccounts": "with gpu-pools:cluster.entra of AKS they are off, unless it says localAccounts: true",
    "driverType": "Azure has it for Windows pools alone, and the provider not at all",
    "resources": "the plan derives the resource names",
}


def _time_of(minutes: int, pattern: str) -> str:
    """What stood there where a time of day is asked for, or an offset: YAML 1.1 reads 22:05 as a number to the base of 60."""
    hours, sign = f"{abs(minutes) // 60:02}:{abs(minutes) % 60:02}", "-" if minutes < 0 else "+"
    times = [time for time in (hours, f"{sign}{hours}") if re.fullmatch(pattern, time)]
    return times[0] if times and not re.fullmatch(pattern, str(minutes)) else ""


def _as_text(value: object, pattern: str, allowed: str) -> str:
    """What to write where YAML read no text: the value in quotes where that is allowed there, else what is allowed."""
    written = str(value).lower() if isinstance(value, int) else ""
    if isinstance(value, int) and not re.fullmatch(pattern or ".*", _time_of(value, pattern) or written):
        return f"Write {allowed}."
    return _quoted(value, pattern, allowed)


def _quoted(value: object, pattern: str, allowed: str) -> str:
    """How to have a text where YAML read something else; of what was written YAML has kept only what it means."""
    if isinstance(value, bool):
        return "Put it in quotes: without them YAML reads yes, on and true alike."
    if isinstance(value, float):
        return "Put it in quotes as you wrote it: without them YAML reads a number, for which 1.30 and 1.3 are the same."
    if isinstance(value, int):
        return f'Write "{_time_of(value, pattern) or value}" in quotes.'
    return "Put it in quotes: without them YAML reads a date." if isinstance(value, dt.date) else f"Write {allowed}."


class Section:
    """One mapping of the stack file, its path, and the problems found in it."""

    def __init__(self, value: object, path: str, problems: Problems, *, what: str = "a mapping") -> None:
        self.path = path
        self.problems = problems
        self._known: list[str] = []
        self._values: Mapping[str, object] = {}
        self.readable = isinstance(value, dict)
        if isinstance(value, dict):
            # A key that a program has spelled otherwise stays what it is.
            self._values = {key if isinstance(key, str) else str(key): entry for key, entry in value.items()}
        else:
            problems.add(path, f"{show(value)} is not {what}", allowed=what, remedy=f"Write {what} here.")

    def at(self, key: str) -> str:
        """The path of a key of this section."""
        return f"{self.path}.{key}"

    def given(self, key: str) -> bool:
        """Whether the key is written with a value."""
        self._ask(key)
        return self._values.get(key) is not None

    def raw(self, key: str) -> object:
        """The value as YAML gave it, None when absent."""
        self._ask(key)
        return self._values.get(key)

    def written(self) -> tuple[str, ...]:
        """All keys that the author wrote."""
        return tuple(self._values)

    def text(
        self,
        key: str,
        *,
        required: bool = False,
        choices: Sequence[str] | None = None,
        pattern: str = "",
        allowed: str = "",
        remedy: str = "",
    ) -> str | None:
        """A string, one of `choices` (where given; none may be left) or matching the whole `pattern`."""
        fitting = allowed or self._either(choices or ()) or "a text"
        value = self._value(key, required=required, allowed=fitting, remedy=remedy)
        if value is None:
            return None
        if not isinstance(value, str):
            # A list or a mapping may be of any size: aliases of aliases take no room in a file.
            written = "" if isinstance(value, list | dict) else str(value)
            instead = self._suggest(written, choices) if choices else _as_text(value, pattern, fitting)
            self._refuse(key, value, "is not a text", fitting, remedy or instead)
        elif choices is not None and value not in choices:
            self._refuse(key, value, "is unknown", allowed or self._either(choices), remedy or self._suggest(value, choices))
        elif pattern and not re.fullmatch(pattern, value):
            self._refuse(key, value, "does not fit", allowed or f"a text matching {pattern}", remedy or "Choose another.")
        else:
            return value
        return None

    def image(self, key: str, *, example: str) -> str | None:
        """The name of a container image with its tag or digest.

        Args:
            key: the field.
            example: an image with its tag, for the message.
        """
        allowed = f"an image with a tag or digest, e.g. registry.example.com/{example}"
        return self._image(key, r"[^\s@]+[:@]\S+", allowed)

    def pinned_image(self, key: str, *, example: str) -> str | None:
        """The name of a container image with its digest: what a tag names may change between two pulls.

        Args:
            key: the field.
            example: an image without its digest, for the message.
        """
        allowed = f"an image by digest, e.g. registry.example.com/{example}@sha256:… with 64 hexadecimal digits"
        remedy = "Ask the registry for the digest: docker buildx imagetools inspect IMAGE, or skopeo inspect docker://IMAGE."
        return self._image(key, r"[^\s@]+@sha256:[0-9a-f]{64}", allowed, remedy)

    def _image(self, key: str, pattern: str, allowed: str, remedy: str = "") -> str | None:
        """As the pattern says, and such as a runtime reads: with another its pods would say InvalidImageName."""
        name = self.text(key, pattern=pattern, allowed=allowed, remedy=remedy)
        if name is not None and read_image_name(name) is None:
            self._refuse(key, name, "is not an image's name", allowed, _IMAGE_NAMES)
            return None
        return name

    def integer(
        self, key: str, *, minimum: int, maximum: int | None = None, required: bool = False, remedy: str = ""
    ) -> int | None:
        """A whole number within the bounds; true, 4.0 and "4" are not numbers here.

        Args:
            key: the field.
            minimum: the smallest.
            maximum: the largest; None: any.
            required: whether its absence is a problem.
            remedy: what to do with a number that is out of bounds.
        """
        allowed = f"a whole number, at least {minimum}" + (f" and at most {maximum}" if maximum is not None else "")
        value = self._value(key, required=required, allowed=allowed, remedy="")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._refuse(key, value, "is not a whole number", allowed, "Write digits alone: no quote, unit or point.")
        elif value < minimum or (maximum is not None and value > maximum):
            self._refuse(key, value, "is out of bounds", allowed, remedy or f"Choose {allowed}.")
        else:
            return value
        return None

    def number(self, key: str, *, minimum: float, remedy: str = "") -> float | None:
        """A number, not below the minimum."""
        allowed = f"a number, at least {minimum:g}"
        value = self._value(key, required=False, allowed=allowed, remedy=remedy)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self._refuse(key, value, "is not a number", allowed, remedy or "Write the number alone: no quotes, no unit.")
        elif value < minimum:
            self._refuse(key, value, "is out of bounds", allowed, remedy or f"Choose {allowed}.")
        else:
            return float(value)
        return None

    def flag(self, key: str) -> bool | None:
        """True or false; None when absent."""
        value = self._value(key, required=False, allowed="true or false", remedy="")
        if value is None or isinstance(value, bool):
            return value
        self._refuse(key, value, "is neither true nor false", "true or false", "Write true or false without quotes.")
        return None

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of texts, e.g. labels or tags; empty when absent."""
        if not self.given(key):
            return {}
        inner = Section(self.raw(key), self.at(key), self.problems, what="a mapping of texts")
        return {name: text for name in inner.written() if (text := inner.text(name, required=True)) is not None}

    def section(self, key: str, *, what: str = "a mapping") -> Section | None:
        """A mapping inside this one; None when absent."""
        if key not in self._values:
            self._ask(key)
            return None
        return Section(self.raw(key), self.at(key), self.problems, what=what)

    def entries(self, key: str, *, what: str = "a list") -> Iterator[tuple[str, object]]:
        """(path, value) of each entry of a list; nothing when absent."""
        if not self.given(key):
            return
        value = self.raw(key)
        if not isinstance(value, list):
            self._refuse(key, value, f"is not {what}", what, "Start each entry with a dash.")
            return
        for index, entry in enumerate(value):
            yield f"{self.at(key)}[{index}]", entry

    def each(self, key: str, parse: Callable[[object, str], _T | None], *, what: str = "a list") -> tuple[_T, ...]:
        """The entries of a list, parsed; those that cannot be parsed are left out (and reported by `parse`)."""
        parsed = (parse(value, path) for path, value in self.entries(key, what=what))
        return tuple(entry for entry in parsed if entry is not None)

    def finish(self) -> None:
        """Report every key that nobody asked for."""
        for key in self._values:
            if key in self._known:
                continue
            written = written_key(key)
            known = sorted(in_spelling_of(key, self._values, one) for one in self._known)
            self.problems.add(
                self.at(written),
                f"unknown key `{written}`",
                allowed=", ".join(known) or "no keys",
                remedy=self._instead_of(key),
            )

    def misspelled(self, key: str) -> object:
        """The value of an unknown key that is spelled nearly like this one, None where there is none; `finish` reports it."""
        near = difflib.get_close_matches(key, [name for name in self._values if name not in self._known], n=1)
        return self._values[near[0]] if near else None

    def _instead_of(self, key: str) -> str:
        """What to do with a key that nobody asked for."""
        if key in _BELONGS:
            return f"Remove it here: `{written_key(key)}` belongs to {_BELONGS[key]}."
        if key in _NOWHERE:
            return f"Remove it: {_NOWHERE[key]}."
        ours = _OUR_NAMES.get(key)
        near = [ours] if ours in self._known else difflib.get_close_matches(key, self._known, n=1)
        if near and near[0] in self._values:
            return f"Remove it: `{in_spelling_of(key, self._values, near[0])}` is written, too."
        suggested = in_spelling_of(key, self._values, near[0]) if near else ""
        return f"Did you mean `{suggested}`?" if near else "Remove it; a key that nothing reads would be silently without effect."

    def _ask(self, key: str) -> None:
        if key not in self._known:
            self._known.append(key)

    def _value(self, key: str, *, required: bool, allowed: str, remedy: str) -> object:
        self._ask(key)
        value = self._values.get(key)
        if value is None and required and self.readable:
            missing = spelled_beside(self._values, key)
            self.problems.add(self.at(missing), "is missing", allowed=allowed, remedy=remedy or f"Add `{missing}: …`.")
        return value

    def _refuse(self, key: str, value: object, why: str, allowed: str, remedy: str) -> None:
        self.problems.add(self.at(key), f"{show(value)} {why}", allowed=allowed, remedy=remedy)

    @staticmethod
    def _either(choices: Sequence[str]) -> str:
        return " | ".join(choices)

    @staticmethod
    def _suggest(value: str, choices: Sequence[str]) -> str:
        near = difflib.get_close_matches(value, choices, n=1, cutoff=0.4)
        return f"Did you mean `{near[0]}`?" if near else "Choose one of those."
