"""The types of the arguments of sharing modes.

Written by `python -m tools.generate` from the tables of fields (gpu_pools/reading/fields.py): edit those.
"""

from typing import NotRequired, TypedDict


class NeedsArgs(TypedDict):
    """What each pod needs; the plan holds it against the GPUs of every pool."""

    memory_per_replica: str
    """GPU memory, e.g. 12Gi."""


class SlicesArgs(TypedDict):
    """How pods take turns."""

    replicas: int
    """How many pods may share one GPU (or MIG instance), at least 2."""
    rename_by_default: NotRequired[bool]
    """Advertise nvidia.com/gpu.shared instead of nvidia.com/gpu; off by default."""
    fail_requests_greater_than_one: NotRequired[bool]
    """Refuse pods that ask for two or more; on by default."""


class SideBySideArgs(TypedDict):
    """How pods run side by side."""

    replicas: int
    """How many pods may share one GPU, 2 to 48 (16 below compute capability 7.5)."""
    rename_by_default: NotRequired[bool]
    """Advertise nvidia.com/gpu.shared instead of nvidia.com/gpu; off by default."""
    fail_requests_greater_than_one: NotRequired[bool]
    """Refuse pods that ask for two or more; on by default."""
