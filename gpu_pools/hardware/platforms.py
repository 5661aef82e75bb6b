"""The platforms that nodes with GPUs run on."""

from __future__ import annotations

#: The value of ``platform`` in a stack file; gpu_pools/platforms has one folder for each.
Platform = str
