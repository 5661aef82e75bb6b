"""VM sizes that no table has, and sizes in another case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.hardware import azure_sizes
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import A100, aks, magnum, plan_of, pool_of

if TYPE_CHECKING:
    from collections.abc import Callable

_V100S = {"vmSize": "Standard_ND40rs_v2", "gpuModel": "v100-32gb", "gpusPerNode": 8}


class TestASizeThatNoTableHas:
    """Declared by gpuModel and gpusPerNode."""

    def test_its_nodes_advertise_what_is_declared(self) -> None:
        assert azure_sizes.size("Standard_ND40rs_v2") is None
        assert pool_of(aks(_V100S)).advertises == {"nvidia.com/gpu": 8}

    def test_it_is_shared_as_declared(self) -> None:
        shared = pool_of(aks(_V100S, sharing={"whole": {"timeSlicing": {"replicas": 3}}}))
        assert shared.advertises == {"nvidia.com/gpu": 24}

    @pytest.mark.parametrize("written", ["STANDARD_ND40RS_V2", "standard_nd40rs_v2"])
    def test_it_is_one_in_any_case(self, written: str) -> None:
        assert pool_of(aks(_V100S | {"vmSize": written})).advertises == {"nvidia.com/gpu": 8}

    def test_that_nothing_could_be_checked_is_said(self) -> None:
        (said,) = [warning for warning in pool_of(aks(_V100S)).warnings if "no table has" in warning]
        assert "vmSize Standard_ND40rs_v2" in said
        assert "8 x v100-32gb is as declared and cannot be checked" in said
        assert "MIG" not in said

    def test_whether_azure_offers_mig_on_it_is_not_known_either(self) -> None:
        pool = pool_of(aks({"vmSize": "Standard_NC9_A30_v9", "gpuModel": "a30-24gb", "gpusPerNode": 1}))
        assert any("nor whether Azure offers MIG" in warning for warning in pool.warnings)

    def test_a_known_size_is_not_spoken_of(self) -> None:
        assert not any("no table has" in warning for warning in pool_of(aks()).warnings)

    def test_a_product_name_says_the_form_factor(self) -> None:
        hardware = pool_of(aks(_V100S | {"gpuModel": "Tesla V100-SXM2-32GB"})).pool.hardware
        assert hardware is not None
        assert (hardware.model.key, hardware.product) == ("v100-32gb", "Tesla V100-SXM2-32GB")


class TestTheIdsOfAcknowledgements:
    """They stand in stack files."""

    def test_they_are_as_before_pools_could_declare_what_a_size_has(self) -> None:
        plan = plan_of(aks())
        assert (plan.change, plan.pools[0].change) == ("ce589ab67", "c415c7297")

    def test_what_is_told_of_a_size_replaces_nothing(self) -> None:
        assert pool_of(aks(_V100S)).change == pool_of(aks(_V100S | {"gpuModel": "v100-16gb"})).change


class TestTheCaseOfASize:
    """Azure ignores it."""

    @pytest.mark.parametrize("written", [A100.lower(), A100.upper(), "standard_NC24ads_a100_V4"])
    def test_any_case_is_the_same_plan(self, written: str) -> None:
        assert plan_of(aks({"vmSize": written})) == plan_of(aks())

    def test_azure_is_asked_for_it_as_azure_writes_it(self) -> None:
        placement = pool_of(aks({"vmSize": A100.lower()})).pool.placement
        assert isinstance(placement, AksPlacement)
        assert placement.vm_size == A100

    def test_what_is_declared_beside_a_known_size_may_repeat_the_table(self) -> None:
        repeated = pool_of(aks({"gpuModel": "NVIDIA A100 80GB PCIe", "gpusPerNode": 1}))
        assert repeated.advertises == pool_of(aks()).advertises

    def test_bounds_that_are_the_same_stay_the_autoscalers(self) -> None:
        pool = pool_of(aks({"count": ..., "nodes": {"min": 3, "max": 3}})).pool
        assert (pool.min_nodes, pool.max_nodes, pool.autoscaled) == (3, 3, True)


class TestNewSizes:
    """What is known of sizes whose sources say little."""

    RTX = "Standard_NC144ds_xl_RTXPRO6000BSE_v6"

    @staticmethod
    def _warnings(size: str, **more: Any) -> str:
        return "\n".join(pool_of(aks({"vmSize": size}, **more)).warnings)

    @pytest.mark.parametrize(
        ("size", "driver", "advertised"),
        [
            (RTX, "preinstalled", 1),
            ("Standard_NC288lds_xl_RTXPRO6000BSE_v6", "preinstalled", 2),
            ("Standard_ND96isr_H200_v5", "preinstalled", 8),
            # On Arm64 AKS installs none.
            ("Standard_ND128isr_GB300_v6", "operator", 4),
        ],
    )
    def test_they_are_known(self, size: str, driver: str, advertised: int) -> None:
        pool = pool_of(aks({"vmSize": size.lower()}, operator={"driver": driver}))
        assert pool.advertises == {"nvidia.com/gpu": advertised}
        assert pool.hardware.known_size

    def test_what_the_sources_leave_open_is_said(self) -> None:
        assert f"{self.RTX}: its GPUs are vGPUs" in self._warnings(self.RTX)
        assert "vGPU" not in self._warnings("Standard_ND96isr_H200_v5")

    @pytest.mark.parametrize("size", [RTX, "Standard_NV36ads_A10_v5"])
    def test_the_operators_driver_does_not_drive_a_vgpu(self, size: str) -> None:
        assert "GRID driver" in self._warnings(size)
        assert "GRID driver" not in self._warnings(size, operator={"driver": "preinstalled"})

    def test_whether_aks_offers_mig_on_it_is_said_to_be_unknown(self) -> None:
        sliced = {"m": {"mig": {"layout": {"1g.23gb": 7}}}}
        assert "no source says whether AKS offers MIG" in self._warnings("Standard_ND128isr_NDR_GB200_v6", sharing=sliced)
        assert "no source says" not in self._warnings("Standard_ND128isr_NDR_GB200_v6")

    def test_a_part_of_a_gpu_names_the_smallest_size_with_a_whole_one(self) -> None:
        with pytest.raises(InvalidStackError, match="Choose Standard_NC144lds_xl_RTXPRO6000BSE_v6 or larger"):
            plan_of(aks({"vmSize": "Standard_NC36ds_xl_RTXPRO6000BSE_v6"}))

    @pytest.mark.parametrize("platform", [aks, magnum])
    def test_bounds_that_are_the_same_stay_the_autoscalers_everywhere(self, platform: Callable[..., str]) -> None:
        pool = pool_of(platform({"count": ..., "nodes": {"min": 3, "max": 3}})).pool
        assert (pool.min_nodes, pool.max_nodes, pool.autoscaled) == (3, 3, True)
