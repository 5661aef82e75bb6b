"""The data on GPUs, Azure sizes and charts: consistent in itself, sourced, and silent where no source speaks."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from importlib import resources
from itertools import combinations, pairwise
from typing import Any

import pytest

from gpu_pools.hardware import azure_sizes
from gpu_pools.hardware.models import (
    GpuModel,
    MigProfile,
    device_models,
    find_model,
    is_vgpu,
    model,
    model_keys,
    nearest_models,
    series_of,
    variant_of,
)
from gpu_pools.hardware.resource_names import mig_resource
from gpu_pools.stack.charts import NFD_WITHIN, VERSIONS
from gpu_pools.text.provenance import without_provenance
from gpu_pools.text.yaml_text import load_yaml

DATA = resources.files("gpu_pools.hardware")
CHARTS = resources.files("gpu_pools.stack") / "charts"
MODELS: dict[str, dict[str, Any]] = without_provenance(load_yaml((DATA / "gpu_models.yaml").read_text(encoding="utf-8")))
SIZES: dict[str, dict[str, Any]] = load_yaml((DATA / "azure_sizes.yaml").read_text(encoding="utf-8"))["sizes"]
PROFILES = [(model(key), profile) for key in model_keys() for profile in (model(key).profiles or {}).values()]


class TestSources:
    @pytest.mark.parametrize("name", ["gpu_models.yaml", "azure_sizes.yaml"])
    def test_a_data_file_names_its_sources(self, name: str) -> None:
        header = [line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        assert any(line.startswith("# Sources: ") for line in header)

    def test_a_chart_file_names_its_source_and_version(self) -> None:
        for chart, versions in VERSIONS.items():
            for version in versions:
                text = (CHARTS / f"{chart}-{version}.yaml").read_text(encoding="utf-8")
                assert f"{chart} {version}" in text.splitlines()[0]
                header = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
                assert re.search(r"Sources: .*values\.yaml, (and )?what templates/ read besides", header)

    def test_every_chart_file_is_a_known_version(self) -> None:
        files = {file.name for file in (CHARTS).iterdir()}
        known = {f"{chart}-{version}.yaml" for chart, versions in VERSIONS.items() for version in versions}
        assert files == known | {f"node-feature-discovery-{version}.yaml" for version in NFD_WITHIN.values()}


class TestModels:
    @pytest.mark.parametrize("key", model_keys())
    def test_null_stays_none(self, key: str) -> None:
        raw, known = MODELS[key], model(key)
        assert known.memory_mib == raw["memoryMiB"]
        assert (known.compute_capability is None) == (raw["computeCapability"] is None)
        if raw["mig"] is None:
            assert known.profiles == {}
            assert not known.mig_capable
        elif raw.get("profilesOf") is None and raw["profiles"] is None:
            assert known.profiles is None
            assert known.mig_capable
        for name, profile in (raw.get("profiles") or {}).items():
            assert known.profiles[name].memory_mib == profile["memoryMiB"]
            assert known.profiles[name].sm == profile["sm"]

    def test_a_model_has_all_that_its_sources_give(self) -> None:
        assert replace(model("h200-141gb"), profiles={}) == GpuModel(
            key="h200-141gb",
            architecture="hopper",
            compute_capability=(9, 0),
            memory_mib=143771,
            sm=132,
            sm_of={},
            mps_sm=(2, 8),
            products=("NVIDIA H200", "NVIDIA H200 NVL"),
            compute_slices=7,
            placement_units=8,
            profiles={},
            other_names={},
            listed_names=frozenset(),
            min_driver=(),
        )
        assert model("a100-80gb").profiles["1g.10gb+me"] == MigProfile(
            name="1g.10gb+me",
            profile_id=20,
            compute_slices=1,
            max_instances=1,
            starts=(0, 1, 2, 3, 4, 5, 6),
            size=1,
            placements_measured=True,
            sm=14,
            memory_mib=None,
            memory_gib=9.5,
            engines=None,
            min_driver=(470,),
        )

    def test_a_model_without_a_known_geometry_has_the_names_that_are_listed(self) -> None:
        known = model("rtx-pro-4500-blackwell")
        assert (known.profiles, known.mig_capable, known.compute_slices, known.placement_units) == (None, True, 0, None)
        assert known.listed_names == {"1g.16gb", "1g.16gb+gfx", "1g.16gb+me.all", "1g.16gb-me", "2g.32gb", "2g.32gb+gfx"}

    def test_other_names_lead_to_the_own_one(self) -> None:
        own = {name: model("gb200-186gb").own_name(name) for name in ("3g.95gb", "3g.93gb", "1g.24gb")}
        assert own == {"3g.95gb": "3g.93gb", "3g.93gb": "3g.93gb", "1g.24gb": "1g.23gb"}

    def test_placements_are_measured_where_a_source_says_so(self) -> None:
        found = [(key, profile) for key in model_keys() for profile in (model(key).profiles or {}).values()]
        inferred = {(key, profile.name) for key, profile in found if not profile.placements_measured}
        assert inferred == {
            (key, name)
            for key, raw in MODELS.items()
            for name, profile in (raw.get("profiles") or MODELS.get(raw.get("profilesOf"), {}).get("profiles") or {}).items()
            if "profilesOf" in raw or profile["placements"] != "measured"
        }

    def test_keys_are_sorted(self) -> None:
        assert list(model_keys()) == sorted(MODELS)

    def test_a_pci_device_has_a_model_whether_its_product_has_a_name_or_not(self) -> None:
        named = {0x20B2: "a100-80gb", 0x20B5: "a100-80gb", 0x20B1: "a100-40gb", 0x2C31: "rtx-pro-4500-blackwell"}
        assert {device: device_models()[device].key for device in named} == named
        assert len(device_models()) == 46

    @pytest.mark.parametrize(("profile", "variant"), [("1g.10gb", ""), ("1g.10gb+me", "+me"), ("1g.24gb-me", "-me")])
    def test_a_name_tells_the_variant(self, profile: str, variant: str) -> None:
        assert variant_of(profile) == variant

    @pytest.mark.parametrize("key", [key for key in model_keys() if MODELS[key].get("profilesOf")])
    def test_a_twin_shares_geometry_but_no_measured_fact(self, key: str) -> None:
        twin, other = model(key), model(MODELS[key]["profilesOf"])
        assert set(twin.profiles) == set(other.profiles)
        for name, profile in twin.profiles.items():
            assert (profile.starts, profile.size, profile.max_instances) == (
                other.profiles[name].starts,
                other.profiles[name].size,
                other.profiles[name].max_instances,
            )
            assert profile.sm is None
            assert profile.memory_mib is None
            assert profile.memory_gib is None
            assert profile.engines is None
            assert not profile.placements_measured

    @pytest.mark.parametrize("key", model_keys())
    def test_a_model_is_complete(self, key: str) -> None:
        known = model(key)
        assert known.architecture in {"volta", "turing", "ampere", "ada-lovelace", "hopper", "blackwell"}
        assert (known.memory_mib or 1) > 0
        if known.profiles:
            assert known.compute_slices in {4, 7}
            assert known.placement_units in {4, 8, 12}

    @pytest.mark.parametrize(("gpu", "profile"), PROFILES, ids=[f"{gpu.key}-{profile.name}" for gpu, profile in PROFILES])
    def test_a_profile_is_consistent_with_its_placements(self, gpu: GpuModel, profile: MigProfile) -> None:
        assert profile.name.startswith(f"{profile.compute_slices}g.")
        assert re.fullmatch(r"[1-7]g\.\d+gb([+-][a-z.]+)?", profile.name)
        assert profile.starts == tuple(sorted(set(profile.starts)))
        assert all(start >= 0 and start + profile.size <= gpu.placement_units for start in profile.starts)
        packed = _most_without_overlap(profile)
        by_slices = gpu.compute_slices // profile.compute_slices
        if profile.name.endswith(("+me", "+me.all")):
            assert profile.max_instances == 1
        else:
            assert profile.max_instances == min(packed, by_slices)

    @pytest.mark.parametrize("gpu", [model(key) for key in model_keys()], ids=lambda gpu: gpu.key)
    def test_profiles_do_not_promise_more_than_the_card(self, gpu: GpuModel) -> None:
        raw = MODELS[gpu.key]
        for profile in (gpu.profiles or {}).values():
            if profile.memory_mib and gpu.memory_mib:
                assert profile.memory_mib * profile.max_instances <= gpu.memory_mib
            if profile.sm and raw["sm"]:
                assert profile.sm * profile.max_instances <= raw["sm"]

    @pytest.mark.parametrize("key", [key for key in model_keys() if model(key).profiles is not None])
    def test_another_name_of_a_profile_is_not_a_profile_itself(self, key: str) -> None:
        known = model(key)
        assert set(known.other_names.values()) <= set(known.profiles)
        assert not set(known.other_names) & set(known.profiles)

    @pytest.mark.parametrize("key", model_keys())
    def test_names_are_listed_only_where_the_geometry_is_unknown(self, key: str) -> None:
        assert not (model(key).listed_names and model(key).profiles)

    def test_engines_are_known_for_no_more_than_the_profiles_that_a_source_gives_them_for(self) -> None:
        known = model("rtx-pro-6000-blackwell").profiles.values()
        with_engines = {profile.name: profile.engines for profile in known if profile.engines}
        assert with_engines["1g.24gb+me.all"] == (4, 4, 4, 1)
        assert "1g.24gb+gfx" not in with_engines
        assert {gpu.key for gpu, profile in PROFILES if profile.engines} == {"rtx-pro-6000-blackwell"}

    def test_resource_names_hold_no_plus_sign(self) -> None:
        assert mig_resource("1g.10gb+me") == "nvidia.com/mig-1g.10gb.me"
        assert mig_resource("1g.24gb-me") == "nvidia.com/mig-1g.24gb-me"

    def test_products_are_unique(self) -> None:
        products = [product for key in model_keys() for product in model(key).products]
        assert len(products) == len(set(products))

    def test_an_unknown_key_is_a_key_error(self) -> None:
        with pytest.raises(KeyError):
            model("a100")


def _most_without_overlap(profile: MigProfile) -> int:
    """How many instances of one profile fit side by side, by trying all sets of starts."""
    return max(
        count
        for count in range(1, len(profile.starts) + 1)
        for starts in combinations(profile.starts, count)
        if all(later - earlier >= profile.size for earlier, later in pairwise(starts))
    )


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "NVIDIA A100-SXM4-80GB",
            "NVIDIA-A100-SXM4-80GB",
            "A100-SXM4-80GB",
            "NVIDIA-A100-SXM4-80GB".upper(),
            "NVIDIA-A100-SXM4-80GB-SHARED",
            "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me-SHARED",
        ],
    )
    def test_a_product_name_finds_its_model(self, name: str) -> None:
        known, product = find_model(name)
        assert (known.key, product) == ("a100-80gb", "NVIDIA A100-SXM4-80GB")

    def test_a_key_finds_its_model_without_a_product(self) -> None:
        assert find_model("a100-80gb") == (model("a100-80gb"), None)

    def test_a_product_with_fewer_multiprocessors(self) -> None:
        known, _ = find_model("NVIDIA H100 PCIe")
        assert (known.key, known.sm) == ("h100-80gb", 114)
        assert {profile.sm for profile in known.profiles.values()} == {None}
        assert find_model("NVIDIA H100 80GB HBM3")[0] == model("h100-80gb")

    def test_nothing_finds_nothing(self) -> None:
        assert find_model("") is None
        assert find_model("a100") is None

    def test_a_bare_series_is_no_product_of_a_rarer_model(self) -> None:
        """NVML says `NVIDIA H100` of the SXM5 one with 94 GB; people who write h100 mean the one with 80 GB."""
        assert find_model("NVIDIA-H100")[0].key == "h100-94gb"
        assert find_model("h100") is None
        assert find_model("h200")[0].key == "h200-141gb"

    @pytest.mark.parametrize(
        ("product", "key"),
        [
            ("NVIDIA A800-SXM4-40GB", "a800-40gb"),
            ("NVIDIA A800 40GB Active", "a800-40gb"),
            ("NVIDIA A800-SXM4-80GB", "a800-80gb"),
            ("NVIDIA A800 80GB PCIe LC", "a800-80gb"),
            ("NVIDIA H800", "h800-80gb"),
            ("NVIDIA H800 PCIe", "h800-80gb"),
            ("NVIDIA H800 NVL", "h800-94gb-nvl"),
            ("NVIDIA GH200 120GB", "h100-96gb"),
            ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-blackwell"),
            ("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", "rtx-pro-6000-blackwell"),
            ("NVIDIA RTX PRO 5000 Blackwell", "rtx-pro-5000-blackwell"),
            ("NVIDIA RTX PRO 4500 Blackwell", "rtx-pro-4500-blackwell"),
            ("NVIDIA PG506-232", "pg506-96gb"),
            ("NVIDIA Thor", "jetson-thor-igpu"),
        ],
    )
    def test_each_variant_has_its_name(self, product: str, key: str) -> None:
        assert find_model(product)[0].key == key

    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            ("h100", ("h100-80gb", "h100-94gb", "h100-96gb")),
            ("A100", ("a100-40gb", "a100-80gb")),
            ("gh200", ("h100-96gb", "gh200-144gb")),
            ("a100-80g", ("a100-80gb", "a100-40gb")),
            ("h100-94g", ("h100-94gb", "h100-96gb", "h100-64gb")),
            ("H100-80GB", ("h100-80gb", "h100-94gb", "h100-96gb")),
            ("h100-80", ("h100-80gb", "h100-94gb", "h100-96gb")),
            ("h10", ("h100-80gb", "h100-94gb", "h100-96gb")),
            ("h010", ("h100-80gb", "h100-94gb", "h100-96gb")),
            ("rtx pro 6000", ("rtx-pro-6000-blackwell",)),
            ("NVIDIA A100-SXM-64GB", ("a100-40gb", "a100-80gb")),
        ],
    )
    def test_models_of_the_same_line_are_offered(self, typed: str, meant: tuple[str, ...]) -> None:
        assert nearest_models(typed) == meant

    @pytest.mark.parametrize(
        "typed",
        [
            "?",
            "",
            "NVIDIA GeForce RTX 4090",
            "NVIDIA GeForce RTX 2080 Ti",
            "NVIDIA GB10",
            "Tesla P100-PCIE-16GB",
            "Tesla T5",
            "NVIDIA L20",
            "NVIDIA RTX A6000",
            "Quadro RTX 6000",
            "NVIDIA RTX PRO 500 Blackwell Embedded GPU",
            "NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU",
        ],
    )
    def test_of_another_line_nothing_is_offered(self, typed: str) -> None:
        """Not even what looks alike: another GPU's memory and MIG profiles would be planned for."""
        assert find_model(typed) is None
        assert nearest_models(typed) == ()

    @pytest.mark.parametrize(
        "name", ["GRID A100D-40C", "GRID T4-2B4", "NVIDIA A40-8Q", "NVIDIA A40-48", "NVIDIA H100-1-10CME", "NVIDIA-L40S-48Q"]
    )
    def test_a_vgpu_is_not_its_gpu(self, name: str) -> None:
        assert is_vgpu(name)
        assert find_model(name) is None
        assert nearest_models(name) == ()

    @pytest.mark.parametrize("key", model_keys())
    def test_no_model_is_taken_for_a_vgpu(self, key: str) -> None:
        assert not any(map(is_vgpu, (key, *model(key).products)))
        assert series_of(key)

    def test_models_of_the_stack_come_first(self) -> None:
        assert nearest_models("rtx-a6k", ["rtx-a6000"]) == ("rtx-a6000",)
        assert nearest_models("h100", ["h100-next"])[:2] == ("h100-next", "h100-80gb")


class TestAzureSizes:
    @pytest.mark.parametrize("name", SIZES)
    def test_a_size_is_consistent(self, name: str) -> None:
        size = azure_sizes.size(name)
        known = model(size.gpu_model)
        assert size.name == name
        assert size.gpus > 0
        assert size.vcpus > 0
        assert size.memory_gib > 0
        assert size.product is None or size.product in known.products
        assert size.driver in {"CUDA", "GRID", None}
        assert size.arch in {"amd64", "arm64"}
        if size.mig:
            assert known.mig_capable
        assert size.mig == {True: True, False: False}.get(SIZES[name]["mig"] if isinstance(SIZES[name]["mig"], bool) else None)

    def test_the_vcpus_stand_in_the_name(self) -> None:
        for name in SIZES:
            assert re.match(rf"Standard_[A-Z]+{azure_sizes.size(name).vcpus}[a-z_]", name), name

    def test_a_size_has_all_that_its_sources_give(self) -> None:
        assert azure_sizes.size("Standard_NC24ads_A100_v4") == azure_sizes.AzureSize(
            name="Standard_NC24ads_A100_v4",
            vcpus=24,
            memory_gib=220,
            gpu_model="a100-80gb",
            product="NVIDIA A100 80GB PCIe",
            gpus=Fraction(1),
            mig=True,
            driver="CUDA",
            arch="amd64",
        )
        assert azure_sizes.size("Standard_ND128isr_GB300_v6").mig is None
        assert azure_sizes.sizes() == tuple(azure_sizes.size(name) for name in SIZES)

    def test_a_fraction_stays_exact(self) -> None:
        assert azure_sizes.size("Standard_NV6ads_A10_v5").gpus * 6 == 1

    def test_what_azure_retired_is_no_size(self) -> None:
        assert azure_sizes.retired("Standard_NC6s_v3") == "2025-09-30"
        assert azure_sizes.size("Standard_NC6s_v3") is None
        assert azure_sizes.retired("Standard_NC24ads_A100_v4") is None

    @pytest.mark.parametrize("written", ["Standard_NC24ads_A100", "nc24ads_a100_v4", "STANDARD_NC24ADS_A100_V4"])
    def test_a_mistyped_size(self, written: str) -> None:
        assert azure_sizes.meant_size(written) == "Standard_NC24ads_A100_v4"

    @pytest.mark.parametrize("written", ["Standard_D4s_v5", "Standard_NC24s_v3", ""])
    def test_what_is_no_typing_error(self, written: str) -> None:
        assert azure_sizes.meant_size(written) is None

    @pytest.mark.parametrize(
        ("written", "answer"),
        [
            ("Standard_D4s_v5", "Standard_NC4as_T4_v3"),
            ("Standard_NC24s_v3", "Standard_NC4as_T4_v3"),
            ("Standard_ND40rs_v2", "Standard_ND96asr_v4"),
            ("Standard_NV6", "Standard_NV36ads_A10_v5"),
            ("", "Standard_NC4as_T4_v3"),
        ],
    )
    def test_the_answer_is_the_smallest_of_the_family_and_never_a_fraction(self, written: str, answer: str) -> None:
        assert azure_sizes.smallest_size(written) == answer
