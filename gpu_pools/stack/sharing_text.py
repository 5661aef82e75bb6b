"""Declarations of sharing in a few words, for tables, comments and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.mig.advice import layout_text
from gpu_pools.stack.sharing import Exclusive, Mps, TimeSlicing

if TYPE_CHECKING:
    from gpu_pools.stack.sharing import Mig, Sharing


def sharing_text(sharing: Sharing) -> str:
    """A declaration in a few words, for tables."""
    if isinstance(sharing, Exclusive):
        return "exclusive"
    if isinstance(sharing, TimeSlicing | Mps):
        name = "time-slicing" if isinstance(sharing, TimeSlicing) else "MPS"
        return f"{name} {sharing.replicas}" + (", renamed" if sharing.rename_by_default else "")
    parts = [
        layout_text(dict(entry.layout)) + ("" if entry.index is None else f" on GPU {','.join(map(str, entry.index))}")
        for entry in sharing.gpus
    ]
    return f"MIG {'; '.join(parts)}{_sliced_text(sharing)}"


def _sliced_text(sharing: Mig) -> str:
    if sharing.replicas_of:
        return "".join(f", {profile} time-sliced {replicas}" for profile, replicas in sharing.replicas_of)
    return f", each time-sliced {sharing.time_slicing.replicas}" if sharing.time_slicing else ""
