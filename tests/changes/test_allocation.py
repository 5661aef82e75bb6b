"""What a report says of a pool whose GPUs change between the device plugin and resource claims."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.changes.pools import pool_changes
from tests.unit.stacks import existing, plan_of

H100 = {"gpuModel": "h100-80gb", "gpusPerNode": 2}
FOUR = {"timeSlicing": {"replicas": 4}}


def stack(allocation: str, sharing: dict[str, Any]) -> str:
    return existing({**H100, "allocation": allocation}, sharing={"shared": sharing})


@pytest.mark.parametrize(
    ("before", "after", "effects", "told"),
    [
        (("devicePlugin", FOUR), ("dra", FOUR), ("reallocated", "reloaded"), "E06, E08"),
        (("dra", FOUR), ("devicePlugin", FOUR), ("reallocated", "reloaded"), "E06, E08"),
        # The driver counts other shares, and knows nothing of the claims of before.
        (("dra", FOUR), ("dra", {"timeSlicing": {"replicas": 2}}), ("reshared",), "(E08)"),
        (("dra", FOUR), ("dra", {"exclusive": {}}), ("reshared",), "(E08)"),
    ],
)
def test_nodes_must_be_drained_first(
    before: tuple[str, Any], after: tuple[str, Any], effects: tuple[str, ...], told: str
) -> None:
    (found,) = pool_changes(plan_of(stack(*before)), plan_of(stack(*after)), ())
    assert found.effects == effects
    assert any(told in reason for reason in found.drain)


def test_who_changes_nothing_of_the_allocation_is_told_nothing_of_it() -> None:
    plans = [plan_of(stack("dra", FOUR)) for _ in range(2)]
    (found,) = pool_changes(*plans, ())
    assert (found.effects, found.drain) == (("untouched",), ())
