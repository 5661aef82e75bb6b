"""When a kubelet starts a container again that has ended: at once the first time, later after a wait that doubles.

As k8s.io/kubernetes v1.36 (pkg/kubelet/kubelet.go, kuberuntime doBackOff), ten times as fast so that a repaired mistake shows
quickly: really the waits are 10 s and more, up to 5 min, and begin anew for a container that has run for 10 min.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 10.0


@dataclass
class Backoff:
    """Of one container.

    Attributes:
        seconds: the wait that it is in, or was in last.
    """

    seconds: float = 0.0
    _next: float = 0.0
    _ended: float = 0.0

    def ended(self, now: float) -> float:
        """It has ended (monotonic seconds): when it is started again."""
        if now - self._ended > 2 * LONGEST_SECONDS:
            self._next = 0.0
        self.seconds, self._ended = self._next, now
        self._next = min(LONGEST_SECONDS, self._next * 2) or FIRST_SECONDS
        return now + self.seconds
