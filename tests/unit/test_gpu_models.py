"""GPU models that a stack declares itself: as those of the tables where it says so, unknown where it does not."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gpu_pools.hardware.models import family, model, model_keys
from gpu_pools.mig.change import mode_change_needs
from gpu_pools.mig.geometry import maximal_layouts
from gpu_pools.plan.document import pool_json
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.yaml_text import load_yaml
from gpu_pools.verifier.expectation import parse_expectation
from tests.unit.stacks import aks, existing, magnum, plan_of, pool_of

#: nvidia-smi on such cards; NVIDIA's data sheets for the multiprocessors.
CARDS: Final[dict[str, dict[str, Any]]] = {
    "rtx-a6000": {
        "product": "NVIDIA RTX A6000",
        "memoryMiB": 49140,
        "computeCapability": "8.6",
        "multiprocessors": 84,
        "mig": False,
    },
    "p100-16gb": {"product": "Tesla P100-PCIE-16GB", "memoryMiB": 16384, "computeCapability": "6.0", "mig": False},
    "rtx-4090": {"product": "NVIDIA GeForce RTX 4090", "memoryMiB": 24564, "computeCapability": "8.9", "mig": False},
}


def as_declared(key: str) -> dict[str, Any]:
    """A model of the tables, as somebody would declare it who has a node and no table."""
    known = model(key)
    assert known.profiles
    return {
        "product": "NVIDIA Other",
        "memoryMiB": known.memory_mib,
        "mig": {
            "source": "nvidia-smi mig -lgip",
            "computeSlices": known.compute_slices,
            "profiles": {
                name: {
                    "id": profile.profile_id,
                    "starts": list(profile.starts),
                    "size": profile.size,
                    "max": profile.max_instances,
                }
                for name, profile in known.profiles.items()
            },
        },
    }


def declared(key: str, *, sharing: Any = None, **says: Any) -> str:
    """A stack of an existing cluster whose pool has such a GPU."""
    return existing({"gpuModel": key}, gpuModels={key: {**CARDS.get(key, {"mig": False}), **says}}, sharing=sharing)


class TestCards:
    """By declaration they work as those of the tables."""

    @pytest.mark.parametrize("key", CARDS)
    def test_is_advertised_and_expected(self, key: str) -> None:
        pool = pool_of(declared(key, sharing={"nb": {"timeSlicing": {"replicas": 4}}}))
        assert pool.advertises == {"nvidia.com/gpu": 4}
        assert (pool.nvml.gpu_model, pool.nvml.products) == (key, (CARDS[key]["product"],))
        assert pool.gfd_labels["nvidia.com/gpu.memory"] == str(CARDS[key]["memoryMiB"])
        assert pool.gfd_labels["nvidia.com/mig.capable"] == "false"

    @pytest.mark.parametrize(("key", "family_"), [("rtx-a6000", "ampere"), ("p100-16gb", "pascal"), ("rtx-4090", "ada-lovelace")])
    def test_its_family_follows_from_its_compute_capability(self, key: str, family_: str) -> None:
        assert pool_of(declared(key)).gfd_labels["nvidia.com/gpu.family"] == family_

    def test_mps_is_held_against_it(self) -> None:
        pool = pool_of(declared("rtx-a6000", sharing={"mps": {"mps": {"replicas": 4}}}))
        assert pool.nvml.mps
        assert (pool.nvml.mps.pinned_memory_mib, pool.nvml.mps.multiprocessors) == (49140 // 4, 21)

    @pytest.mark.parametrize(
        "stack",
        [
            aks(
                {"vmSize": "Standard_ND40rs_v2", "gpuModel": "rtx-4090", "gpusPerNode": 8},
                gpuModels={"rtx-4090": CARDS["rtx-4090"]},
            ),
            magnum(flavors={"g2.5xlarge": {"gpuModel": "rtx-4090", "gpusPerNode": 8}}, gpuModels={"rtx-4090": CARDS["rtx-4090"]}),
            existing({"gpuModel": "rtx-4090", "gpusPerNode": 8}, gpuModels={"rtx-4090": CARDS["rtx-4090"]}),
        ],
        ids=["aks", "magnum", "existing"],
    )
    def test_on_every_platform(self, stack: str) -> None:
        pool = pool_of(stack)
        assert (pool.advertises, pool.hardware.model.key) == ({"nvidia.com/gpu": 8}, "rtx-4090")

    def test_a_product_name_is_found_too(self) -> None:
        pool = pool_of(existing({"gpuModel": "NVIDIA RTX A6000"}, gpuModels={"rtx-a6000": CARDS["rtx-a6000"]}))
        assert (pool.hardware.model.key, pool.hardware.product) == ("rtx-a6000", "NVIDIA RTX A6000")

    def test_v100s_of_a_size_that_no_table_has_need_none(self) -> None:
        pool = pool_of(aks({"vmSize": "Standard_ND40rs_v2", "gpuModel": "v100-32gb", "gpusPerNode": 8}))
        assert not any("GPU model" in warning for warning in pool.warnings)


class TestUnknown:
    """What is not declared stays unknown: told in the plan, left out of the expectation, taken by the verifier."""

    def test_what_nobody_says_is_named(self) -> None:
        (told,) = [warning for warning in pool_of(declared("next")).warnings if "GPU model" in warning]
        assert "no table has the GPU model next" in told
        assert "nobody says its product name, its memory, its compute capability, its multiprocessors" in told

    def test_what_somebody_says_is_not(self) -> None:
        (told,) = [warning for warning in pool_of(declared("rtx-a6000")).warnings if "GPU model" in warning]
        assert "nobody says" not in told

    def test_is_left_out_of_the_expectation(self) -> None:
        pool = pool_of(declared("next", sharing={"mps": {"mps": {"replicas": 4}}}))
        assert not {"nvidia.com/gpu.family", "nvidia.com/gpu.memory", "nvidia.com/gpu.product"} & pool.gfd_labels.keys()
        assert pool.nvml.products == ()
        assert pool.nvml.mps
        assert pool.nvml.mps.pinned_memory_mib is None
        assert any("compute capability of next is unknown" in warning for warning in pool.warnings)
        assert pool_json(pool)["nvml"]["mps"]["multiprocessors"] is None

    def test_a_budget_of_memory_is_not_checked(self) -> None:
        shared = {"nb": {"timeSlicing": {"replicas": 2}, "needs": {"memoryPerReplica": "12Gi"}}}
        assert any("memory of next is unknown" in warning for warning in pool_of(declared("next", sharing=shared)).warnings)

    def test_the_verifier_takes_the_expectation(self) -> None:
        plan = plan_of(declared("next"))
        assert parse_expectation(node_expectation(plan, plan.pools[0])).products == ()

    def test_a_profile_may_begin_at_the_last_unit(self) -> None:
        mig = {"source": "a node", "computeSlices": 2, "profiles": {"1g.9gb": {"starts": [0, 15], "size": 1}}}
        assert pool_of(declared("next", mig=mig, sharing={"m": {"mig": {"layout": {"1g.9gb": 2}}}})).advertises

    def test_a_geometry_that_nobody_knows_is_not_checked(self) -> None:
        pool = pool_of(declared("next", mig=True, sharing={"m": {"mig": {"layout": {"1g.18gb": 7}}}}))
        assert any("the MIG geometry of next is unknown" in warning for warning in pool.warnings)
        assert pool.advertises == {"nvidia.com/gpu": 7}

    @pytest.mark.parametrize(("capability", "needs"), [(None, "reboot"), ("8.0", "reboot"), ("9.0", "nothing")])
    def test_what_a_change_of_mode_costs_is_the_worse_where_nobody_knows(self, capability: str | None, needs: str) -> None:
        says = {} if capability is None else {"computeCapability": capability}
        assert mode_change_needs(pool_of(declared("next", mig=True, **says)).hardware.model, virtual=True) == needs


class TestGeometry:
    """Declared profiles are held against layouts as those of the tables."""

    @pytest.mark.parametrize("key", [key for key in model_keys() if model(key).profiles and len(model(key).profiles or ()) <= 12])
    def test_the_same_profiles_allow_the_same_layouts(self, key: str) -> None:
        stack = existing({"gpuModel": "other"}, gpuModels={"other": as_declared(key)})
        assert maximal_layouts(pool_of(stack).hardware.model) == maximal_layouts(model(key))

    def test_a_layout_that_does_not_fit_is_refused(self) -> None:
        stack = existing(
            {"gpuModel": "other"},
            gpuModels={"other": as_declared("a100-80gb")},
            sharing={"m": {"mig": {"layout": {"4g.40gb": 2}}}},
        )
        with pytest.raises(InvalidStackError, match=r"2x 4g\.40gb does not fit on one other"):
            plan_config(load_yaml(stack)["config"], complete=False)

    def test_where_they_were_read_is_said(self) -> None:
        stack = existing(
            {"gpuModel": "other"},
            gpuModels={"other": as_declared("a100-80gb")},
            sharing={"m": {"mig": {"layout": {"1g.10gb": 7}}}},
        )
        pool = pool_of(stack)
        assert any("as they were read in: nvidia-smi mig -lgip" in warning for warning in pool.warnings)
        plan = plan_of(stack)
        assert node_expectation(plan, plan.pools[0])["profiles"]["1g.10gb"]["id"] == 19


def test_the_families_are_those_of_the_tables() -> None:
    for key in model_keys():
        known = model(key)
        if family(known.compute_capability):
            assert family(known.compute_capability) == known.architecture, key


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((5, 2), "maxwell"),
        ((6, 1), "pascal"),
        ((7, 2), "volta"),
        ((8, 7), "ampere"),
        ((12, 1), "blackwell"),
        ((13, 0), ""),
        (None, ""),
    ],
)
def test_the_family_of_a_compute_capability(capability: tuple[int, int] | None, name: str) -> None:
    assert family(capability) == name


def test_the_id_of_a_change_does_not_hang_on_what_is_told_of_a_model() -> None:
    sized = {"vmSize": "Standard_ND40rs_v2", "gpuModel": "next", "gpusPerNode": 8}
    first, second = (
        pool_of(aks(sized, gpuModels={"next": says})) for says in ({"mig": False}, {"mig": False, "memoryMiB": 32768})
    )
    assert first.change == second.change
