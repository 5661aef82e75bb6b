"""What a node of a pool costs, and which part of it a share is. Nodes of an existing cluster are paid by someone else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.hardware.resource_names import WHOLE_GPU, mig_resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.prices import Prices
    from gpu_pools.plan.planned import PoolPlan


def node_price(pool: PoolPlan, prices: Prices | None) -> float | None:
    """Of a node and hour; None where nobody gave one."""
    placed = pool.pool.placement
    return prices.of(placed.machine, spot=placed.is_spot) if prices is not None and placed.machine else None


def share_of_node(pool: PoolPlan) -> Mapping[str, float]:
    """Resource -> the part of a node that one share of it is; all shares of a node together are 1.

    By compute slices, divided among those who take turns on them. Slices that a layout leaves unused are paid by all alike.
    """
    if len(pool.advertises) == 1:
        return {name: 1 / count for name, count in pool.advertises.items()}
    slices: dict[str, int] = {}
    for gpu in pool.nvml.gpus:
        for profile, count in gpu.instances.items():
            slices[mig_resource(profile)] = slices.get(mig_resource(profile), 0) + count * int(profile.partition("g.")[0])
        if not gpu.instances:
            slices[WHOLE_GPU] = slices.get(WHOLE_GPU, 0) + pool.hardware.model.compute_slices
    whole = sum(slices.values())
    return {name: slices[name.removesuffix(".shared")] / whole / count for name, count in pool.advertises.items()}
