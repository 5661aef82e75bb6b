"""What becomes of one GPU when its MIG layout changes: which instances go, which can stay, and what the mode change costs.

An instance can stay if its profile and its place are in both layouts. Placements of the new layout are chosen so that as many
as possible stay. That is what the hardware allows; the operator's mig-manager (nvidia-mig-parted) removes every instance of a
GPU whose layout differs before it makes new ones, so under it nothing stays. This does not look at a real GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gpu_pools.mig.geometry import arrangements, legal_layouts
from gpu_pools.mig.layouts import placements_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.mig.geometry import Arrangement

#: What a change of MIG mode needs: nothing; a reset of the GPU; a reboot of the node; the first, or the second where the
#: machine allows no reset (a GPU passed through to a virtual machine).
Cost = Literal["nothing", "gpu-reset", "reboot", "gpu-reset-or-reboot"]


@dataclass(frozen=True)
class MigChange:
    """From one layout to another on one GPU.

    Attributes:
        before: the old layout; empty: MIG is off.
        after: the new layout; empty: MIG is off.
        goes: instances that must be destroyed, where they sit now.
        stays: instances that are in both, at the same place.
        comes: instances that are made, where they will sit.
        mode_changes: whether MIG mode is switched on or off.
        mode_change_needs: what that needs on such a node.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    goes: Arrangement
    stays: Arrangement
    comes: Arrangement
    mode_changes: bool
    mode_change_needs: Cost

    def as_json(self) -> dict[str, Any]:
        """The document of ``change --json``."""
        return {
            "from": dict(self.before),
            "to": dict(self.after),
            "goes": placements_json(self.goes),
            "stays": placements_json(self.stays),
            "comes": placements_json(self.comes),
            "migMode": {
                "from": _mode(self.before),
                "to": _mode(self.after),
                "changes": self.mode_changes,
                "needs": self.mode_change_needs,
            },
        }


def change(
    gpu: GpuModel,
    before: Mapping[str, int],
    after: Mapping[str, int],
    *,
    virtual: bool = False,
    placed: Arrangement | None = None,
) -> MigChange:
    """What a change of layout does.

    Args:
        gpu: a model whose profiles are known.
        before: the old layout, legal; empty: MIG is off.
        after: the new layout, legal; empty: MIG is off.
        virtual: whether nodes are known to be virtual machines.
        placed: where the old instances really sit; None: the leftmost placements of the old layout.

    Raises:
        KeyError: if a layout is not legal on this GPU.
    """
    legal = legal_layouts(gpu)
    old = legal[_key(before)] if placed is None else tuple(sorted(placed))
    if _key(after) not in legal:
        raise KeyError(_key(after))
    # Of those that keep as many, the leftmost: max() takes the first.
    new = max(arrangements(gpu, after), key=lambda arrangement: len(set(arrangement) & set(old)))
    switches = bool(before) != bool(after)
    return MigChange(
        before=dict(before),
        after=dict(after),
        goes=tuple(instance for instance in old if instance not in new),
        stays=tuple(instance for instance in old if instance in new),
        comes=tuple(instance for instance in new if instance not in old),
        mode_changes=switches,
        mode_change_needs=mode_change_needs(gpu, virtual=virtual) if switches else "nothing",
    )


def mode_change_needs(gpu: GpuModel, *, virtual: bool) -> Cost:
    """What switching MIG mode needs.

    Ampere needs a reset of the GPU, later ones do not (NVIDIA MIG User Guide, "Enable MIG Mode"). Virtual machines do
    not allow the reset, so that only a reboot does it (incident R03); nodes of an existing cluster may be virtual or not. Of a
    model whose architecture nobody tells the costlier is taken.
    """
    if gpu.architecture not in {"ampere", ""}:
        return "nothing"
    return "reboot" if virtual else "gpu-reset-or-reboot"


def _key(layout: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(layout.items()))


def _mode(layout: Mapping[str, int]) -> str:
    return "enabled" if layout else "disabled"
