"""What clouds change by themselves, as data with sources (own_changes.yaml): which rule covers a difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.drift.differences import CLUSTER, POOL
from gpu_pools.drift.paths import MISSING, Nothing
from gpu_pools.text.nested import at
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.drift.differences import Difference

_TYPES: Final = {"pool": POOL, "cluster": CLUSTER}


@dataclass(frozen=True)
class Rule:
    """One of them.

    Attributes:
        id: its name.
        who: whose change it is.
        because: why it is one that nobody has to mend.
        sources: where that was read.
        properties: of which kind of resource (``pool``, ``cluster``) which inputs; none: not looked up by property.
        where: path beside the property -> values of which one is there.
        added: prefix of what may be added; ``""``: any change.
    """

    id: str
    who: str
    because: str
    sources: tuple[str, ...]
    properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    added: str = ""

    def covers(self, difference: Difference) -> bool:
        """Whether such a difference is of this kind."""
        if not difference.steps or difference.steps[0] not in self.properties.get(_kind(difference), ()):
            return False
        beside = all(at(difference.around, *path.split(".")) in values for path, values in self.where.items())
        return beside and (not self.added or _added_below(difference, self.added))


def rule_of(difference: Difference) -> Rule | None:
    """The rule that covers a difference, None where there is none: then it is drift."""
    if difference.repeats:
        return listed()["pools-of-the-stack"]
    if difference.foreign:
        return listed()["pools-of-others"]
    return next((rule for rule in rules().values() if rule.covers(difference)), None)


@lru_cache(maxsize=1)
def rules() -> Mapping[str, Rule]:
    """Those that are looked up by property, by name."""
    return {id_: _rule(id_, known) for id_, known in _data()["rules"].items()}


@lru_cache(maxsize=1)
def listed() -> Mapping[str, Rule]:
    """Those about the list of a cluster's pools, by name."""
    return {id_: _rule(id_, known) for id_, known in _data()["listed"].items()}


@lru_cache(maxsize=1)
def _data() -> Any:  # noqa: ANN401 - the file's shape
    return load_yaml((resources.files("gpu_pools.drift") / "own_changes.yaml").read_text(encoding="utf-8"))


def _rule(id_: str, known: Mapping[str, Any]) -> Rule:
    sources = [_data()["sources"][one] for one in known["from"]]
    page = known.get("page")
    return Rule(
        id=id_,
        who=known["who"],
        because=known["because"],
        sources=tuple(one.replace("the page is named in `page`", f"page {page}") for one in sources),
        properties={kind: tuple(known[kind]) for kind in _TYPES if kind in known},
        where={path: tuple(values) for path, values in known.get("where", {}).items()},
        added=known.get("added", ""),
    )


def _kind(difference: Difference) -> str:
    if difference.pool or difference.resource.type == POOL:
        return "pool"
    return "cluster" if difference.resource.type == CLUSTER else ""


def _added_below(difference: Difference, prefix: str) -> bool:
    """Whether it is nothing but what was added below a prefix, to a mapping or a list."""
    if len(difference.steps) > 1:
        came = difference.was is MISSING and not isinstance(difference.now, Nothing)
        return came and str(difference.steps[-1]).startswith(prefix)
    was, now = (_items(value) for value in (difference.was, difference.now))
    return bool(now - was) and not was - now and all(one[0].startswith(prefix) for one in now - was)


def _items(value: object) -> set[tuple[str, str]]:
    if isinstance(value, dict):
        return {(str(key), str(inner)) for key, inner in value.items()}
    return {(str(inner), "") for inner in value} if isinstance(value, list) else set()
