"""Chart values of several places merged as Helm merges them, with the place of each value in the user's file.

Mappings merge, everything else is replaced; a value by its dotted name (``--set``) may name an entry of a list. Checks look at
the merged values as if they stood where the first of them stands, and `Places` turns their paths into those of the file.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.existing.yaml_tree import Path

_KEY: Final = re.compile(r"(?P<key>(?:\\.|[^.\[\\])*)(?P<indexes>(?:\[\d{1,4}\])*)(?:\.|$)")
#: Helm accepts no larger index.
_MOST_ENTRIES: Final = 1000


@dataclass
class Places:
    """Where in the file a value stands that is checked elsewhere.

    Attributes:
        moved: place under check -> place in the file.
        single: places in the file that are one value by its dotted name: nothing stands below them.
    """

    moved: dict[Path, Path] = field(default_factory=dict)
    single: set[Path] = field(default_factory=set)

    def of(self, path: Path) -> Path:
        """The place in the file."""
        if not self.moved:
            return path
        for length in range(len(path), 0, -1):
            found = self.moved.get(path[:length])
            if found is not None:
                return found if found in self.single else (*found, *path[length:])
        return path


@dataclass
class Merged:
    """Values of several places.

    Attributes:
        value: the values.
        places: place in the values -> place in the file.
        single: as in `Places`.
    """

    value: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, Path] = field(default_factory=dict)
    single: set[Path] = field(default_factory=set)

    def add(self, values: Mapping[str, object], path: Path) -> None:
        """Merge a mapping that stands at a place of the file over what is there."""
        self._merge(self.value, values, (), path)

    def set(self, name: str, value: object, path: Path) -> bool:
        """Set one value by its dotted name; False where the name cannot be followed: then nothing is set."""
        keys = split_name(name)
        if keys is None or not isinstance(keys[0], str) or any(isinstance(key, int) and key >= _MOST_ENTRIES for key in keys):
            return False
        target: Any = self.value
        for number, key in enumerate(keys):
            if not _reachable(target, key):
                return False
            last = number == len(keys) - 1
            here = keys[: number + 1]
            if not last and target[key] is not None and not isinstance(target[key], dict | list):
                return False
            if last or target[key] is None:
                self._forget(target[key], here)
                target[key] = copy.deepcopy(value) if last else [] if isinstance(keys[number + 1], int) else {}
                self.places[here] = path
            target = target[key]
        self.single.add(path)
        return True

    def moved(self, base: Path, places: Places) -> None:
        """Add to `places` what stands elsewhere in the file than below `base`."""
        for here, path in self.places.items():
            if path != (*base, *here):
                places.moved[*base, *here] = path
        places.single |= self.single

    def _merge(self, target: dict[str, Any], values: Mapping[str, object], here: Path, path: Path) -> None:
        for key, value in values.items():
            inner = (*here, key)
            if isinstance(value, dict) and isinstance(target.get(key), dict):
                self._merge(target[key], value, inner, (*path, key))
                continue
            self._forget(target.get(key), inner)
            target[key] = copy.deepcopy(value)
            self._place(value, inner, (*path, key))

    def _place(self, value: object, here: Path, path: Path) -> None:
        self.places[here] = path
        for key, entry in _entries(value):
            self._place(entry, (*here, key), (*path, key))

    def _forget(self, value: object, here: Path) -> None:
        """Drop the places of a value that is replaced."""
        self.places.pop(here, None)
        for key, entry in _entries(value):
            self._forget(entry, (*here, key))


def _entries(value: object) -> Iterable[tuple[str | int, object]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def is_empty_name(name: str) -> bool:
    """Whether a part of the name is empty: Helm passes over such a setting, where it refuses other names that lead nowhere."""
    return re.search(r"(?:^|(?<!\\)\.)(?:\.|\[|$)", name) is not None


def _reachable(target: object, key: str | int) -> bool:
    """Whether the key can be set; missing keys and entries are made."""
    if isinstance(target, dict) and isinstance(key, str):
        target.setdefault(key, None)
        return True
    if isinstance(target, list) and isinstance(key, int):
        target.extend([None] * (key + 1 - len(target)))
        return True
    return False


def split_name(name: str) -> Path | None:
    """The keys and list positions of a dotted name such as ``a.b[0].c``, as ``helm --set`` reads it; None where it has none."""
    if is_empty_name(name):
        return None
    keys: list[str | int] = []
    position = 0
    while position < len(name):
        match = _KEY.match(name, position)
        if match is None or not match["key"]:
            return None
        keys.append(re.sub(r"\\(.)", r"\1", match["key"]))
        keys += [int(index) for index in re.findall(r"\d+", match["indexes"])]
        position = match.end()
    return tuple(keys) or None
