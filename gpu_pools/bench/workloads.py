"""What is measured: the kinds of work, how many clients at a time, and the cases in which one client harms the others.

Only the list; how a kind works is the clients' (`client.py`, `client.cu`), and what comes of it is `statistics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Kind -> what one operation of it is, in words for people.
KINDS: Final = {
    "compute": "ten products of 4096 x 4096 matrices: the GPU's arithmetic is busy",
    "memory": "four copies of 512 MiB on the GPU: its memory is busy",
    "launches": "500 kernels that do next to nothing: the launching is busy",
    "inference": "one request to a small network, then 5 ms of thought: the GPU is mostly idle",
    "training": "one step of a small network: forward, backward, update",
}
#: Work that fills the GPU's queue: an operation takes a few hundred milliseconds.
FLOOD: Final = "flood"
QUIET: Final = "inference"
CLIENTS: Final = (1, 2, 4, 7, 8)
FAULTS: Final = ("memory", "crash", "kill")


@dataclass(frozen=True)
class Effort:
    """How long is measured.

    Attributes:
        warm_up: seconds in which all work and nothing counts.
        window: seconds of one window.
        windows: how many, of which the median counts.
        aside: seconds before and after a client does what harms others.
    """

    warm_up: float
    window: float
    windows: int
    aside: float


USUAL: Final = Effort(warm_up=1.0, window=2.0, windows=3, aside=3.0)
QUICK: Final = Effort(warm_up=0.5, window=1.0, windows=3, aside=2.0)
