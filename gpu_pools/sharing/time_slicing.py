"""Time-slicing: pods take turns on a GPU, without memory or fault isolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu_pools.reading.fields import row, whole_number
from gpu_pools.sharing.mode import FEWEST_REPLICAS, Replicated


@dataclass(frozen=True)
class TimeSlicing(Replicated):
    """Pods take turns on a GPU, or on a MIG instance.

    The device plugin sets no upper bound for `replicas`; no node runs more pods than `most_replicas`.
    """

    strategy: ClassVar[str] = "timeSlicing"
    title: ClassVar[str] = "time-slicing"
    plugin_key: ClassVar[str] = "timeSlicing"
    node_label: ClassVar[str] = "time-slicing"
    most_replicas: ClassVar[int] = 1000
    limits_memory: ClassVar[bool] = False

    replicas: int = row(
        "How many pods may share one GPU (or MIG instance), at least 2.",
        whole_number(
            FEWEST_REPLICAS,
            most_replicas,
            "One replica is not sharing: use `exclusive: {}`; the device plugin crashes on fewer than 2.",
        ),
        0,
        needed=True,
    )
