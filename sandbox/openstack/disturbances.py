"""What goes wrong on purpose in the sandbox's Magnum: kept in the file that its driver reads anew for each operation.

The standard library alone, since the driver reads it in Magnum's environment.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY: Final = "disturbances"


@dataclass(frozen=True)
class Disturbances:
    """What goes wrong on purpose.

    Attributes:
        seconds: how long an operation on a node group takes; less of it ends what is running.
        fail: names of clusters whose creation ends in CREATE_FAILED, and of node groups for which any change but their end does.
        lose: names of node groups that are accepted and then forgotten: no node, no row, no word.
    """

    seconds: float = 1.0
    fail: tuple[str, ...] = ()
    lose: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What goes wrong, for people."""
        wrong = [f"{', '.join(self.fail)} end in CREATE_FAILED"] if self.fail else []
        wrong += [f"{', '.join(self.lose)} are accepted and never made"] if self.lose else []
        usual = "nothing goes wrong" if self.seconds == Disturbances.seconds else "nothing fails"
        return f"an operation on a node group takes {self.seconds:g} s, {' and '.join(wrong) or usual}"


def read(settings: Mapping[str, Any]) -> Disturbances:
    """Those that the driver's settings say; none where they say nothing."""
    given = settings.get(_KEY)
    return Disturbances(given["seconds"], tuple(given["fail"]), tuple(given["lose"])) if given else Disturbances()


def with_disturbances(settings: Mapping[str, Any], wanted: Disturbances) -> dict[str, Any]:
    """The driver's settings with other ones."""
    return {**settings, _KEY: asdict(wanted)}
