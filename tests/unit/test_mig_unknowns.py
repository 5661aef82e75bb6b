"""What the plan says where no source settles a MIG question: it warns, and neither guesses nor refuses."""

from __future__ import annotations

import pytest

from gpu_pools.existing.profiles import unknown_geometry
from gpu_pools.hardware.models import model
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import existing, plan_of, pool_of

UNCHECKED = "cannot be checked before the deploy"
RTX = "rtx-pro-6000-blackwell"


def _warnings(key: str, layout: dict[str, int]) -> str:
    return "\n".join(pool_of(existing({"gpuModel": key}, sharing={"cut": {"mig": {"layout": layout}}})).warnings)


@pytest.mark.parametrize("layout", [{"1g.24gb": 2}, {"4g.48gb": 1}], ids=str)
def test_unknown_geometry(layout: dict[str, int]) -> None:
    text = _warnings("rtx-pro-5000-blackwell", layout)
    assert f"the MIG geometry of rtx-pro-5000-blackwell is unknown: the layout {UNCHECKED}" in text
    assert "no source lists" not in text


def test_a_layout_of_all_that_is_listed_is_of_a_model_whose_geometry_is_unknown() -> None:
    listed = dict.fromkeys(model("rtx-pro-4500-blackwell").listed_names, 1)
    assert unknown_geometry(listed) == ("rtx-pro-4500-blackwell",)
    assert unknown_geometry({**listed, "7g.80gb": 1}) == ()


def test_a_model_of_which_no_source_gives_more_than_that_it_has_mig() -> None:
    assert f"the MIG geometry of jetson-thor-igpu is unknown: the layout {UNCHECKED}" in _warnings(
        "jetson-thor-igpu", {"2g.0gb": 1}
    )


def test_a_profile_that_no_source_lists() -> None:
    text = _warnings("rtx-pro-4500-blackwell", {"1g.24gb": 2})
    assert "no source lists 1g.24gb for rtx-pro-4500-blackwell; listed are 1g.16gb, " in text


def test_inferred_placements() -> None:
    assert UNCHECKED in _warnings("b200-180gb", {"1g.23gb": 7})
    assert UNCHECKED in _warnings("a800-80gb", {"1g.10gb": 7})
    assert UNCHECKED not in _warnings("a100-80gb", {"1g.10gb": 7})


@pytest.mark.parametrize("layout", [{"1g.24gb": 7}, {"1g.23gb": 7}, {"3g.95gb": 1, "4g.95gb": 1}, {"7g.189gb": 1}], ids=str)
def test_names_that_differ_by_driver(layout: dict[str, int]) -> None:
    assert f"{', '.join(sorted(layout))} {UNCHECKED}; ask `nvidia-smi mig -lgip`" in _warnings("gb200-186gb", layout)


def test_names_that_no_source_contradicts_are_not_doubted() -> None:
    assert "differ by driver" not in _warnings("gb200-186gb", {"2g.47gb": 3})


def test_the_plan_keeps_the_name_that_was_written() -> None:
    pool_plan = pool_of(existing({"gpuModel": "gb200-186gb"}, sharing={"cut": {"mig": {"layout": {"1g.24gb": 3, "2g.47gb": 1}}}}))
    assert pool_plan.advertises == {"nvidia.com/mig-1g.24gb": 3, "nvidia.com/mig-2g.47gb": 1}


@pytest.mark.parametrize(
    ("layout", "message"),
    [({"1g.24gb": 8}, "8x 1g.23gb does not fit"), ({"1g.24gb": 1, "1g.23gb": 1}, "are names of one profile")],
    ids=str,
)
def test_another_name_has_the_same_limits(layout: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidStackError, match=message):
        plan_of(existing({"gpuModel": "gb200-186gb"}, sharing={"cut": {"mig": {"layout": layout}}}))


@pytest.mark.parametrize("layout", [{"1g.24gb+me.all": 1, "1g.24gb": 1}, {"1g.24gb+me.all": 1, "1g.24gb+gfx": 1}], ids=str)
def test_more_media_engines_than_the_gpu_is_known_to_have(layout: dict[str, int]) -> None:
    assert "asks for more media engines" in _warnings(RTX, layout)


@pytest.mark.parametrize("layout", [{"1g.24gb+me.all": 1, "1g.24gb-me": 3}, {"1g.24gb": 4}, {"1g.24gb+gfx": 4}], ids=str)
def test_enough_media_engines(layout: dict[str, int]) -> None:
    assert "media engines" not in _warnings(RTX, layout)
