"""From one MIG layout to another: what goes, what stays, what the change of mode costs."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.hardware.models import GpuModel, model, model_keys
from gpu_pools.mig.change import change, mode_change_needs
from gpu_pools.mig.geometry import Placement, arrangements, legal_layouts, place

WITH_GEOMETRY = [model(key) for key in model_keys() if model(key).profiles]


@st.composite
def _two_layouts(draw: st.DrawFn) -> tuple[GpuModel, dict[str, int], dict[str, int]]:
    gpu = draw(st.sampled_from(WITH_GEOMETRY))
    layouts = st.sampled_from(sorted(legal_layouts(gpu)))
    return gpu, dict(draw(layouts)), dict(draw(layouts))


@given(_two_layouts())
def test_what_stays_goes_and_comes_makes_up_both_layouts(case: tuple[GpuModel, dict[str, int], dict[str, int]]) -> None:
    gpu, before, after = case
    changed = change(gpu, before, after)
    assert tuple(sorted((*changed.goes, *changed.stays))) == place(gpu, before)
    new = tuple(sorted((*changed.stays, *changed.comes)))
    assert new in set(arrangements(gpu, after))
    assert not set(changed.goes) & set(changed.comes)
    assert changed.mode_changes == (bool(before) != bool(after))


@given(_two_layouts())
def test_no_placement_of_the_new_layout_keeps_more(case: tuple[GpuModel, dict[str, int], dict[str, int]]) -> None:
    gpu, before, after = case
    old = set(place(gpu, before))
    most = max(len(old & set(arrangement)) for arrangement in arrangements(gpu, after))
    assert len(change(gpu, before, after).stays) == most


@given(st.sampled_from(WITH_GEOMETRY), st.data())
def test_the_same_layout_changes_nothing(gpu: GpuModel, data: st.DataObject) -> None:
    layout = dict(data.draw(st.sampled_from(sorted(legal_layouts(gpu)))))
    for virtual in (True, False):
        changed = change(gpu, layout, layout, virtual=virtual)
        assert (changed.goes, changed.comes, changed.mode_changes, changed.mode_change_needs) == ((), (), False, "nothing")


def test_where_the_instances_really_sit_decides_what_can_stay() -> None:
    """2g.20gb at 4 leaves no room for the 3g.40gb on the right, but on the left."""
    gpu = model("a100-80gb")
    placed = (Placement(4, 2, "2g.20gb"),)
    changed = change(gpu, {"2g.20gb": 1}, {"2g.20gb": 1, "3g.40gb": 1}, placed=placed)
    assert changed.stays == placed
    assert changed.comes == (Placement(0, 4, "3g.40gb"),)
    assert change(gpu, {"2g.20gb": 1}, {"2g.20gb": 1, "3g.40gb": 1}).stays == (Placement(0, 2, "2g.20gb"),)


def test_from_seven_small_ones_to_one_large() -> None:
    changed = change(model("a100-80gb"), {"1g.10gb": 7}, {"1g.10gb": 3, "3g.40gb": 1})
    assert [placed.start for placed in changed.goes] == [3, 4, 5, 6]
    assert [placed.start for placed in changed.stays] == [0, 1, 2]
    assert changed.comes == (Placement(4, 4, "3g.40gb"),)


@pytest.mark.parametrize(("before", "after"), list(product([{}, {"1g.10gb": 7}], repeat=2)), ids=str)
def test_mig_mode_changes_only_between_off_and_on(before: dict[str, int], after: dict[str, int]) -> None:
    changed = change(model("a100-80gb"), before, after, virtual=True)
    assert changed.mode_change_needs == ("nothing" if bool(before) == bool(after) else "reboot")


@pytest.mark.parametrize(
    ("key", "virtual", "needs"),
    [
        ("a100-40gb", True, "reboot"),
        ("a30-24gb", True, "reboot"),
        ("a100-80gb", False, "gpu-reset-or-reboot"),
        ("h100-80gb", True, "nothing"),
        ("b200-180gb", False, "nothing"),
        ("rtx-pro-6000-blackwell", True, "nothing"),
    ],
)
def test_what_a_change_of_mode_needs(key: str, *, virtual: bool, needs: str) -> None:
    assert mode_change_needs(model(key), virtual=virtual) == needs


def test_an_illegal_layout_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        change(model("a100-80gb"), {}, {"3g.40gb": 3})
