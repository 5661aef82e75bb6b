"""``release``: uncordons the node after its proof, then frees its rollout slot: the next node begins only when this one works.

As in a change a request may fail, or be done although its answer is lost: then both are looked at anew. It does not end before
the slot is free, since nobody would free it afterwards: an init container that has ended well is not run again. Where that is
not possible for long, it fails and says why, and the kubelet tries again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..api import ApiError
from .change import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from .living_node import LivingNode
    from .rollout_slots import RolloutSlots

_POLL_SECONDS: Final = 2.0
#: An API server may be away for a minute.
_PATIENCE_SECONDS: Final = 180.0
_FORBIDDEN: Final = 403


@dataclass
class Release:
    """Of a node.

    Attributes:
        node: the node.
        slots: of its pool.
        now, sleep: the clock.
    """

    node: LivingNode
    slots: RolloutSlots
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _began: float | None = None

    def run(self) -> None:
        """Go on until both are given back.

        Raises:
            ApiError: where that is not possible.
        """
        while not self.look():
            pass

    def look(self) -> bool:
        """Look once and give back what is still there; whether all is.

        Raises:
            ApiError: where that is not possible.
        """
        if self._began is None:
            self._began = self.now()
        try:
            if self.node.give_back(self.node.read()):
                tell("the node is given back")
            if self.slots.free():
                return True
        except ApiError as error:
            if error.status == _FORBIDDEN or self.now() - self._began >= _PATIENCE_SECONDS:
                raise
            tell(str(error))
        self.sleep(_POLL_SECONDS)
        return False
