"""The section ``gpu-pools:acknowledged``: what somebody wants although it ends pods, and for which change.

An entry names a resource and, by an id, what it shall become. There are three kinds of ids:

- ``c…``: replaced. It follows from all that is declared of the resource and may force its replacement; so it holds for becoming
  exactly that, and only it lifts a protection, which is back by itself after any other edit. Counts and labels are left out:
  clouds change them in place, and a pool's labels follow from other pools too. A cluster is replaced with everything in it, so
  its id holds for its pools too, as they are declared.
- ``u…``: used otherwise where it is: a pool with other partitions or fewer nodes, a cluster with other versions.
- ``g…``: gone. The stack file then declares no pool of that name any more.

This is only about what is declared. What the engine would really replace, and which entries are used up, changes/ tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import Kind, Row, read, row, text
from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_pools.text.errors import Problems

#: Begins with a letter, and is nothing that some reader of YAML takes for a number.
_CHANGE: Final = "[cgu][0-9a-f]{8}"
BECOMES, GOES, USED = "c", "g", "u"
#: What the section calls the cluster, whatever name it has in the cloud.
CLUSTER: Final = "cluster"
_LEAST_REASON: Final = 10


class _Entry(Section):
    """One entry of the section, and the resources that it may name."""

    def __init__(self, value: object, path: str, resources: tuple[str, ...], problems: Problems) -> None:
        super().__init__(value, path, problems, what="a mapping with `resource`, `change` and `reason`")
        # What goes is declared no more.
        self.resources = None if str(self.raw("change")).startswith(GOES) else resources


def _resource(section: _Entry, one: Row) -> str | None:
    return section.text(one.key, required=one.needed, choices=section.resources)


@dataclass(frozen=True)
class Acknowledgement:
    """A replacement that somebody wants although it is protected."""

    resource: str = row("A pool's name, or cluster.", Kind(_resource, "str"), "", needed=True, doc="A pool's name, or `cluster`.")
    change: str = row(
        "The id that `gpu-pools changes` shows.",
        text(
            _CHANGE,
            "the id that `python -m gpu_pools changes` shows, e.g. c42267e62",
            "Take over the entry that `python -m gpu_pools changes PREVIEW --after STACKFILE` prints.",
        ),
        "",
        needed=True,
        doc="The id that [`python -m gpu_pools changes`](changes.md#what-ends-pods-needs-an-acknowledgement) prints for what it "
        "shall become.",
    )
    reason: str = row(
        "Why that is right.",
        text(rf"\s*\S.{{{_LEAST_REASON - 1},}}", "a sentence of 10 characters or more"),
        "",
        needed=True,
        doc="Why that is right: a sentence.",
    )

    @property
    def of_replacement(self) -> bool:
        """Whether it is of a kind that lifts the protection of what it fits."""
        return self.change.startswith(BECOMES)


def parse_acknowledged(value: object, path: str, pools: Iterable[str], problems: Problems) -> tuple[Acknowledgement, ...]:
    """The section.

    Args:
        value: as YAML gave it; None where the section is absent.
        path: of the section.
        pools: the names of the pools that the stack file declares.
        problems: where what is wrong is told. An id that fits nothing any more is not wrong: its change has been made.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.add(
            path, "is not a list", allowed="a list of `resource`, `change` and `reason`", remedy="Start each entry with a dash."
        )
        return ()
    found: list[Acknowledgement] = []
    for index, entry in enumerate(value):
        where = f"{path}[{index}]"
        one = _parse(entry, where, (CLUSTER, *pools), problems)
        if one is None:
            continue
        if any((other.resource, other.change) == (one.resource, one.change) for other in found):
            problems.add(
                where,
                f"acknowledges {one.resource} and {one.change} a second time",
                allowed="one entry for a change",
                remedy="Keep one of the two.",
            )
        found.append(one)
    return tuple(found)


def _parse(entry: object, where: str, resources: tuple[str, ...], problems: Problems) -> Acknowledgement | None:
    section = _Entry(entry, where, resources, problems)
    found = read(Acknowledgement, section)
    section.finish()
    return found if found.resource and found.change and found.reason else None
