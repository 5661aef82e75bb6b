"""Overridden versions of operands: refused where the expectation would be false, doubted where nothing can be known."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.hardware.operands import brought, brought_by, charts_with, overridden, parse_version, since, version_text
from gpu_pools.stack.charts import VERSIONS
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import aks, existing, plan_of, pool_of

UNCHECKED = "cannot be checked before the deploy"
ALLOWED_TWO = {"inf": {"mps": {"replicas": 4, "failRequestsGreaterThanOne": False}}}
MPS = {"inf": {"mps": {"replicas": 4}}}
MEDIA = {"cut": {"mig": {"layout": {"1g.10gb": 6, "1g.10gb+me": 1}}}}
GRAPHICS = {"cut": {"mig": {"layout": {"1g.24gb+gfx": 4}}}}
RTX = {"gpuModel": "rtx-pro-6000-blackwell"}


def _operator(**versions: object) -> dict[str, Any]:
    return {"values": {operand: {"version": version} for operand, version in versions.items()}}


def _refused(stack: str) -> dict[str, str]:
    with pytest.raises(InvalidStackError) as caught:
        plan_of(stack)
    return {problem.path: problem.message for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("v0.17.4", (0, 17, 4)),
        ("0.20", (0, 20, 0)),
        ("580.95.05-ubuntu24.04", (580, 95, 5)),
        ("v0.18.0-rc.1", (0, 18, 0)),
        ("580", (580, 0, 0)),
        ("1.2.3.4", (1, 2, 3, 4)),
        ("1.2.3.4.5", None),
        ("latest", None),
        ("sha256:0123", None),
        ("", None),
    ],
)
def test_a_tag_tells_its_numbers_or_nothing(text: str, numbers: tuple[int, ...] | None) -> None:
    assert parse_version(text) == numbers


@pytest.mark.parametrize(
    "values", [{}, {"gfd": None}, {"gfd": {}}, {"gfd": {"version": ""}}, {"gfd": {"version": None}}], ids=str
)
def test_what_names_no_version_overrides_nothing(values: dict[str, Any]) -> None:
    assert overridden(values, "gfd") is None


@pytest.mark.parametrize(
    ("version", "text"), [("v0.17.4", "v0.17.4"), (580, "580"), (0.17, "0.17")], ids=["text", "number", "fraction"]
)
def test_a_version_that_is_named_is_a_text(version: object, text: str) -> None:
    assert overridden({"gfd": {"version": version}}, "gfd") == text
    assert overridden({"gfd": {"version": version}}, "driver") is None


def test_a_feature_has_its_first_version() -> None:
    assert since("migManager.variants") == (0, 12, 3)
    assert version_text(since("devicePlugin.mpsMany")) == "0.20.0"


def test_the_pinned_chart_is_the_newest_that_is_known() -> None:
    assert charts_with("devicePlugin").startswith(f"gpu-operator {VERSIONS['gpu-operator'][0]} brings v0.20.0, ")


@pytest.mark.parametrize("version", ["v0.18.1", "v0.17.0"])
def test_d11_an_old_plugin_refuses_two_mps_replicas_although_the_declaration_allows_them(version: str) -> None:
    pool = pool_of(aks(sharing=ALLOWED_TWO, operator=_operator(devicePlugin=version)))
    assert any(f"device plugin {version} forces failRequestsGreaterThanOne" in warning for warning in pool.warnings)
    assert [request.most for request in pool.pod_requests] == [1]


@pytest.mark.parametrize("version", ["v0.20.0", "v0.21.1"])
def test_d11_a_new_plugin_does_as_it_is_told(version: str) -> None:
    pool = pool_of(aks(sharing=ALLOWED_TWO, operator=_operator(devicePlugin=version)))
    assert pool.warnings == pool_of(aks(sharing=ALLOWED_TWO)).warnings
    assert not any("failRequestsGreaterThanOne" in warning for warning in pool.warnings)
    assert [request.most for request in pool.pod_requests] == [4]


def test_where_true_is_declared_an_old_plugin_does_nothing_else() -> None:
    warnings = pool_of(aks(sharing=MPS, operator=_operator(devicePlugin="v0.17.0"))).warnings
    assert _without_w49(warnings) == _without_w49(pool_of(aks(sharing=MPS)).warnings)


def _without_w49(warnings: tuple[str, ...]) -> list[str]:
    """How MPS is configured differs by version, too (test_mps_support.py)."""
    return [warning for warning in warnings if "(W49)" not in warning]


@pytest.mark.parametrize("operand", ["devicePlugin", "gfd"])
def test_mps_needs_a_version_that_knows_it(operand: str) -> None:
    path = f"gpu-pools:operator.values.{operand}.version"
    assert "knows no MPS" in _refused(aks(sharing=MPS, operator=_operator(**{operand: "v0.14.5"})))[path]
    assert pool_of(aks(operator=_operator(**{operand: "v0.14.5"}))).warnings == ()


def test_before_0_20_variants_of_a_profile_are_advertised_as_the_plain_one() -> None:
    operator = _operator(devicePlugin="v0.19.3")
    message = _refused(aks(sharing=MEDIA, operator=operator))["gpu-pools:operator.values.devicePlugin.version"]
    assert "it advertises 1g.10gb+me under the name of the plain profile" in message
    only = {"cut": {"mig": {"layout": {"1g.10gb+me": 1}}}}
    assert pool_of(aks(sharing=only, operator=operator)).advertises == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize("layout", [{"1g.24gb+gfx": 4}, {"1g.24gb-me": 4}, {"1g.24gb+me.all": 1}], ids=str)
def test_an_old_mig_manager_does_not_know_the_newer_variants(layout: dict[str, int]) -> None:
    stack = existing(RTX, sharing={"cut": {"mig": {"layout": layout}}}, operator=_operator(migManager="v0.10.0"))
    assert f"it does not know {next(iter(layout))}" in _refused(stack)["gpu-pools:operator.values.migManager.version"]


def test_all_variants_that_an_old_mig_manager_does_not_know_are_named() -> None:
    groups = [{"index": 0, "layout": {"1g.24gb-me": 4}}, {"index": 1, "layout": {"1g.24gb+gfx": 4}}]
    stack = existing(
        {**RTX, "gpusPerNode": 2}, sharing={"cut": {"mig": {"gpus": groups}}}, operator=_operator(migManager="v0.10.0")
    )
    assert _refused(stack)["gpu-pools:operator.values.migManager.version"].endswith("it does not know 1g.24gb+gfx, 1g.24gb-me")


def test_an_old_mig_manager_makes_the_older_ones() -> None:
    assert pool_of(aks(sharing={"cut": {"mig": {"layout": {"1g.10gb+me": 1}}}}, operator=_operator(migManager="v0.10.0")))


@pytest.mark.parametrize(
    ("gpu", "layout", "driver", "what"),
    [
        ("a100-40gb", {"1g.10gb": 4}, "470.256.02", "1g.10gb of a100-40gb"),
        ("b200-180gb", {"1g.23gb": 7}, "570.124.06", "MIG on b200-180gb"),
        ("rtx-pro-6000-blackwell", {"4g.96gb": 1}, "570.211.01", "MIG on rtx-pro-6000-blackwell"),
    ],
)
def test_a_driver_from_before_the_profile_is_refused(gpu: str, layout: dict[str, int], driver: str, what: str) -> None:
    sharing = {"cut": {"mig": {"layout": layout}}}
    message = _refused(existing({"gpuModel": gpu}, sharing=sharing, operator=_operator(driver=driver)))
    assert what in message["gpu-pools:operator.values.driver.version"]
    newer = pool_of(existing({"gpuModel": gpu}, sharing=sharing, operator=_operator(driver="580.105.08")))
    assert not any("driver" in warning and UNCHECKED in warning and "names" not in warning for warning in newer.warnings)


@pytest.mark.parametrize(("driver", "taken"), [("570.133.20", True), ("570.133.07", False)])
def test_the_first_driver_that_has_it_is_enough(driver: str, *, taken: bool) -> None:
    layout = {"cut": {"mig": {"layout": {"1g.23gb": 7}}}}
    stack = existing({"gpuModel": "b200-180gb"}, sharing=layout, operator=_operator(driver=driver))
    if taken:
        assert pool_of(stack).mig_config_key
    else:
        assert "MIG on b200-180gb" in _refused(stack)["gpu-pools:operator.values.driver.version"]


def test_the_driver_of_an_image_is_not_known() -> None:
    sharing = {"cut": {"mig": {"layout": {"1g.20gb": 4}}}}
    pool = pool_of(existing({"driver": "preinstalled"}, sharing=sharing))
    assert f"1g.20gb of a100-80gb needs NVIDIA driver 525 or newer: whether the image has it {UNCHECKED}" in pool.warnings
    plain = pool_of(existing({"driver": "preinstalled"}, sharing={"cut": {"mig": {"layout": {"1g.10gb": 7}}}}))
    assert not any("needs NVIDIA driver" in warning for warning in plain.warnings)


@pytest.mark.parametrize("pinned", ["570.133.20", "570.124.06-ubuntu24.04", "575"])
def test_a_driver_that_reaches_the_declared_minimum_is_taken(pinned: str) -> None:
    pool = pool_of(aks({"minimum": {"driver": "570.124.06"}}, operator=_operator(driver=pinned), verification={}))
    assert pool.warnings == ()


@pytest.mark.parametrize("pinned", ["570.86.15", "535.261.03", "565"])
def test_a_pinned_driver_below_the_declared_minimum_is_refused(pinned: str) -> None:
    found = _refused(aks({"minimum": {"driver": "570.124.06"}}, operator=_operator(driver=pinned), verification={}))
    assert found == {
        "gpu-pools:pools[0].minimum.driver": f"570.124.06 is newer than the driver that the operator installs, {pinned}"
    }


@pytest.mark.parametrize("pinned", ["latest", "570"])
def test_a_pinned_driver_that_tells_too_little_cannot_be_held_against_the_minimum(pinned: str) -> None:
    pool = pool_of(aks({"minimum": {"driver": "570.124.06"}}, operator=_operator(driver=pinned), verification={}))
    (warning,) = pool.warnings
    assert f"installs driver {pinned}: whether it is 570.124.06 or newer {UNCHECKED}" in warning


@pytest.mark.parametrize(("least", "warned"), [("570.86", True), ("570.0.1", True), ("570", False), ("570.0", False)])
def test_a_branch_reaches_a_minimum_that_is_no_more_than_the_branch(least: str, warned: bool) -> None:  # noqa: FBT001
    pool = pool_of(aks({"minimum": {"driver": least}}, operator=_operator(driver="570"), verification={}))
    assert any(f"whether it is {least} or newer" in text for text in pool.warnings) is warned


def test_what_the_operator_s_own_setting_says_of_the_driver_holds_for_every_pool() -> None:
    stack = existing({"minimum": {"driver": "900"}}, operator={"driver": "preinstalled"}, verification={})
    assert pool_of(stack).warnings[1:] == ()
    sharing = {"cut": {"mig": {"layout": {"1g.20gb": 4}}}}
    (warning,) = [
        text for text in pool_of(existing(operator={"driver": "preinstalled"}, sharing=sharing)).warnings if "525" in text
    ]
    assert warning.endswith(f"whether the image has it {UNCHECKED}")


@pytest.mark.parametrize("minimum", [{"driver": "900"}, {"cuda": "99.9"}])
def test_what_an_image_has_only_its_nodes_can_tell(minimum: dict[str, str]) -> None:
    # The first is about the cluster (W41).
    assert pool_of(existing({"driver": "preinstalled", "minimum": minimum}, verification={})).warnings[1:] == ()


def test_a_minimum_that_nothing_compares_is_a_warning() -> None:
    (warning,) = pool_of(aks({"minimum": {"cuda": "12.8"}})).warnings
    assert "only the verification holds the nodes against `minimum`" in warning


@pytest.mark.parametrize(
    ("operand", "gpu", "sharing"),
    [
        ("devicePlugin", "a100-80gb", MPS),
        ("gfd", "a100-80gb", MPS),
        ("devicePlugin", "a100-80gb", MEDIA),
        ("migManager", "rtx-pro-6000-blackwell", GRAPHICS),
        ("driver", "rtx-pro-6000-blackwell", GRAPHICS),
    ],
)
def test_a_version_that_tells_nothing_cannot_be_checked(operand: str, gpu: str, sharing: dict[str, Any]) -> None:
    pool = pool_of(existing({"gpuModel": gpu}, sharing=sharing, operator=_operator(**{operand: "latest"})))
    assert any(f"{operand}.version latest tells no version" in warning and UNCHECKED in warning for warning in pool.warnings)


@pytest.mark.parametrize(("branch", "checked"), [("570", False), ("580", True)])
def test_a_driver_may_be_named_by_its_branch(branch: str, checked: bool) -> None:  # noqa: FBT001
    sharing = {"cut": {"mig": {"layout": {"4g.96gb": 1}}}}
    pool = pool_of(
        existing(
            {"gpuModel": "b200-180gb"}, sharing={"cut": {"mig": {"layout": {"1g.23gb": 7}}}}, operator=_operator(driver=branch)
        )
    )
    assert any(f"driver.version {branch} tells no version" in warning for warning in pool.warnings) is not checked
    rtx = pool_of(existing(RTX, sharing=sharing, operator=_operator(driver="575.57.08")))
    assert not any("tells no version" in warning for warning in rtx.warnings)


def test_what_a_chart_brings_is_known_by_its_version_with_or_without_the_v() -> None:
    newest = VERSIONS["gpu-operator"][0]
    assert set(brought(newest)) == {"driver", "devicePlugin", "gfd", "migManager"}
    assert brought(newest.removeprefix("v")) == brought(newest)
    assert brought("v0.0.1") == {}
    assert brought_by(newest, "migManager") == brought(newest)["migManager"]
    assert brought_by("v0.0.1", "migManager") is None
