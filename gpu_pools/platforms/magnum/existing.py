"""A Magnum cluster that is there already: a stack adds GPU node groups to it, and manages nothing else of it.

What else a Magnum section has is the cluster's own then, and is read from Magnum: here it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import row, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.reading.section import Section

_UUID: Final = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
#: As Magnum has them; a MagnumSettings has the same.
NAME: Final = text(r"[a-zA-Z][a-zA-Z0-9_.-]{0,241}", "1 to 242 letters, digits, _ . and -, starting with a letter")
#: Keys of a cluster that a stack makes -> where the same is said for one that is there.
INSTEAD: Final[Mapping[str, str]] = {"name": "Write it as `existing.name`."}
BESIDE: Final = ("existing", "driver", "checkCloud")


@dataclass(frozen=True)
class ExistingMagnum:
    """Which cluster; one of the two."""

    name: str | None = row("Its name, where no other cluster of the project has it.", NAME)
    uuid: str | None = row("Its UUID.", text(_UUID, "a UUID in lower case, as `openstack coe cluster list` shows it"))

    @property
    def named(self) -> str:
        """Either of the two; Magnum takes both."""
        return self.uuid or self.name or ""


def need_one(section: Section) -> None:
    """Have either name or UUID, and not both.

    Args:
        section: where it is written.
    """
    written = [key for key in ("name", "uuid") if key in section.written()]
    if len(written) != 1:
        section.problems.add(
            section.path,
            "gives both `name` and `uuid`" if written else "gives neither `name` nor `uuid`",
            allowed="`name`, or `uuid`",
            remedy="Keep one of them." if written else "Add one; `openstack coe cluster list` has both.",
        )
