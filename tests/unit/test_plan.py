"""The plan of a pool and of a cluster, against values written by hand (device plugin, gpu-feature-discovery, NVML, AKS)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.plan.document import plan_json, plan_table, pool_json, problems_json
from gpu_pools.plan.planning import make_plan, plan_config
from gpu_pools.platforms.known import parse_settings
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.yaml_text import load_yaml
from tests.unit.stacks import A100, FOUR_A100, GONE, T4, TWO_A100, aks, existing, magnum, plan_of, pool_of

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan, PoolPlan

SLICED = {"nb": {"timeSlicing": {"replicas": 4}}}
RENAMED = {"nb": {"timeSlicing": {"replicas": 4, "renameByDefault": True}}}
MPS = {"inf": {"mps": {"replicas": 10}}}
UNIFORM = {"cut": {"mig": {"layout": {"1g.10gb": 7}}}}
MIXED = {"cut": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}}}}
HETERO = {"cut": {"mig": {"gpus": [{"index": [0, 1], "layout": {"1g.10gb": 7}}, {"index": [2, 3], "layout": {}}]}}}
UNIFORM_SLICED = {"cut": {"mig": {"layout": {"1g.10gb": 7}, "timeSlicing": {"replicas": 2}}}}
SOME_SLICED = {
    "cut": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}, "timeSlicing": {"replicas": {"2g.20gb": 4}, "renameByDefault": True}}}
}
MIXED_SLICED = {"cut": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}, "timeSlicing": {"replicas": 3}}}}
MIXED_SLICED_RENAMED = {
    "cut": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}, "timeSlicing": {"replicas": 3, "renameByDefault": True}}}
}

SERVER_EDITION = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def _pools(*pools: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": f"p{number}", "vmSize": A100, "count": 1, **pool} for number, pool in enumerate(pools)]


class TestAdvertised:
    """Resource name and count, to the unit, as the real device plugin 0.19 answered them."""

    @pytest.mark.parametrize(
        ("size", "sharing", "advertised"),
        [
            pytest.param(T4, None, {"nvidia.com/gpu": 1}, id="exclusive-t4"),
            pytest.param("Standard_NC64as_T4_v3", None, {"nvidia.com/gpu": 4}, id="exclusive-4-t4"),
            pytest.param(A100, SLICED, {"nvidia.com/gpu": 4}, id="time-slicing-4-on-1-gpu"),
            pytest.param(TWO_A100, SLICED, {"nvidia.com/gpu": 8}, id="time-slicing-4-on-2-gpus"),
            pytest.param(TWO_A100, RENAMED, {"nvidia.com/gpu.shared": 8}, id="time-slicing-renamed"),
            pytest.param(A100, MPS, {"nvidia.com/gpu": 10}, id="mps-10"),
            pytest.param(TWO_A100, MPS, {"nvidia.com/gpu": 20}, id="mps-10-on-2-gpus"),
            pytest.param(A100, UNIFORM, {"nvidia.com/gpu": 7}, id="mig-single"),
            pytest.param(TWO_A100, UNIFORM, {"nvidia.com/gpu": 14}, id="mig-single-on-2-gpus"),
            pytest.param(
                TWO_A100,
                MIXED,
                {"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-2g.20gb": 2, "nvidia.com/mig-3g.40gb": 2},
                id="mig-mixed",
            ),
            pytest.param(FOUR_A100, HETERO, {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 14}, id="mig-per-gpu"),
            pytest.param(A100, UNIFORM_SLICED, {"nvidia.com/gpu": 14}, id="mig-single-time-sliced"),
            pytest.param(
                A100, MIXED_SLICED, {"nvidia.com/mig-2g.20gb": 6, "nvidia.com/mig-3g.40gb": 3}, id="mig-mixed-time-sliced"
            ),
            pytest.param(
                A100,
                MIXED_SLICED_RENAMED,
                {"nvidia.com/mig-2g.20gb.shared": 6, "nvidia.com/mig-3g.40gb.shared": 3},
                id="mig-mixed-renamed",
            ),
            pytest.param(
                A100,
                {"cut": {"mig": {"layout": {"1g.10gb+me": 1, "1g.10gb": 6}}}},
                {"nvidia.com/mig-1g.10gb": 6, "nvidia.com/mig-1g.10gb.me": 1},
                id="plus-becomes-dot",
            ),
        ],
    )
    def test_per_node(self, size: str, sharing: dict[str, Any] | None, advertised: dict[str, int]) -> None:
        assert pool_of(aks({"vmSize": size}, sharing=sharing)).advertises == advertised

    def test_uniform_mig_under_a_given_mixed_strategy_is_named_by_profile(self) -> None:
        pool_plan = pool_of(aks(sharing=UNIFORM, operator={"migStrategy": "mixed"}))
        assert pool_plan.advertises == {"nvidia.com/mig-1g.10gb": 7}

    def test_time_slicing_of_some_mig_profiles(self) -> None:
        plan = plan_of(aks(sharing=SOME_SLICED))
        (pool,) = plan.pools
        assert pool.advertises == {"nvidia.com/mig-2g.20gb.shared": 8, "nvidia.com/mig-3g.40gb": 1}
        shared = yaml.safe_load(plan.device_plugin_configs[pool.config_key])["sharing"]["timeSlicing"]
        assert shared["resources"] == [{"name": "nvidia.com/mig-2g.20gb", "replicas": 4}]
        assert plan_json(plan)["pools"][0]["sharing"]["timeSlicing"]["replicas"] == {"2g.20gb": 4}
        assert pool.sharing.text() == "MIG 2x 2g.20gb + 3g.40gb, 2g.20gb time-sliced 4"

    def test_naming_all_profiles_alike_is_the_same_declaration(self) -> None:
        by_name = {"cut": {"mig": {**MIXED_SLICED["cut"]["mig"], "timeSlicing": {"replicas": {"3g.40gb": 3, "2g.20gb": 3}}}}}
        assert plan_json(plan_of(aks(sharing=by_name))) == plan_json(plan_of(aks(sharing=MIXED_SLICED)))

    def test_only_what_is_shared_is_refused_in_twos(self) -> None:
        some = {request.resource: request.most for request in pool_of(aks(sharing=SOME_SLICED)).pod_requests}
        assert some == {"nvidia.com/mig-2g.20gb.shared": 1, "nvidia.com/mig-3g.40gb": 1}
        groups = [{"index": 0, "layout": {"1g.10gb": 7}}, {"index": [1, 2, 3], "layout": {}}]
        half = {"cut": {"mig": {"gpus": groups, "timeSlicing": {"replicas": 2}}}}
        most = {request.resource: request.most for request in pool_of(aks({"vmSize": FOUR_A100}, sharing=half)).pod_requests}
        assert most == {"nvidia.com/gpu": 3, "nvidia.com/mig-1g.10gb": 1}
        uniform = pool_of(aks(sharing=UNIFORM_SLICED)).pod_requests
        assert [(request.resource, request.most) for request in uniform] == [("nvidia.com/gpu", 1)]

    def test_uniform_time_sliced_mig_under_mixed(self) -> None:
        pool_plan = pool_of(aks(sharing=UNIFORM_SLICED, operator={"migStrategy": "mixed"}))
        assert pool_plan.advertises == {"nvidia.com/mig-1g.10gb": 14}

    def test_the_mixed_layout_of_the_cern_talk(self) -> None:
        pool_plan = pool_of(magnum(sharing={"tr": {"mig": {"layout": {"3g.20gb": 1, "2g.10gb": 2}}}}))
        assert pool_plan.advertises == {"nvidia.com/mig-2g.10gb": 2, "nvidia.com/mig-3g.20gb": 1}

    def test_one_pool_does_not_change_what_another_advertises(self) -> None:
        """A mixed layout makes the strategy mixed for all; time-slicing and whole GPUs keep their names."""
        pools = _pools({"sharing": "cut"}, {"sharing": "nb"}, {"sharing": "whole"})
        pool_plans = plan_of(aks(sharing={**MIXED, **SLICED}, pools=pools)).pools
        assert [pool.advertises for pool in pool_plans[1:]] == [{"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 1}]


def _gfd(pool_plan: PoolPlan) -> dict[str, str]:
    return {key.removeprefix("nvidia.com/"): value for key, value in pool_plan.gfd_labels.items()}


class TestExpectedLabels:
    """What gpu-feature-discovery 0.19 really wrote on A100s."""

    def test_exclusive(self) -> None:
        assert _gfd(pool_of(aks({"vmSize": TWO_A100}))) == {
            "gpu.count": "2",
            "gpu.family": "ampere",
            "gpu.memory": "81920",
            "gpu.product": "NVIDIA-A100-80GB-PCIe",
            "gpu.replicas": "1",
            "gpu.sharing-strategy": "none",
            "mig.capable": "true",
            "mig.strategy": "single",
            "mps.capable": "false",
        }

    def test_exclusive_on_t4(self) -> None:
        labels = _gfd(pool_of(aks({"vmSize": T4})))
        assert labels["gpu.family"] == "turing"
        assert labels["gpu.product"] == "Tesla-T4"
        assert labels["mig.capable"] == "false"

    def test_time_slicing(self) -> None:
        labels = _gfd(pool_of(aks(sharing=SLICED)))
        assert labels["gpu.product"] == "NVIDIA-A100-80GB-PCIe-SHARED"
        assert labels["gpu.replicas"] == "4"
        assert labels["gpu.sharing-strategy"] == "time-slicing"
        assert labels["gpu.count"] == "1"

    def test_renamed_time_slicing_keeps_the_product_and_the_keys(self) -> None:
        labels = _gfd(pool_of(aks(sharing=RENAMED)))
        assert labels["gpu.product"] == "NVIDIA-A100-80GB-PCIe"
        assert labels["gpu.replicas"] == "4"
        assert labels["gpu.sharing-strategy"] == "time-slicing"

    def test_mps(self) -> None:
        labels = _gfd(pool_of(aks(sharing=MPS)))
        assert labels["gpu.product"] == "NVIDIA-A100-80GB-PCIe-SHARED"
        assert labels["gpu.replicas"] == "10"
        assert labels["gpu.sharing-strategy"] == "mps"
        assert labels["mps.capable"] == "true"

    def test_mig_single(self) -> None:
        labels = _gfd(pool_of(aks({"vmSize": TWO_A100}, sharing=UNIFORM)))
        assert labels["gpu.product"] == "NVIDIA-A100-80GB-PCIe-MIG-1g.10gb"
        assert labels["gpu.count"] == "14"
        assert labels["gpu.replicas"] == "1"
        assert labels["mig.strategy"] == "single"
        assert "gpu.memory" not in labels

    def test_mig_single_time_sliced(self) -> None:
        labels = _gfd(pool_of(aks(sharing=UNIFORM_SLICED)))
        assert labels["gpu.product"] == "NVIDIA-A100-80GB-PCIe-MIG-1g.10gb-SHARED"
        assert labels["gpu.replicas"] == "2"

    def test_mig_mixed(self) -> None:
        labels = _gfd(pool_of(aks({"vmSize": TWO_A100}, sharing=MIXED)))
        assert labels["gpu.count"] == "2"
        assert labels["gpu.product"] == "NVIDIA-A100-80GB-PCIe"
        assert labels["gpu.replicas"] == "0"
        assert labels["mig.strategy"] == "mixed"
        assert labels["mig-1g.10gb.count"] == "4"
        assert labels["mig-2g.20gb.product"] == "NVIDIA-A100-80GB-PCIe-MIG-2g.20gb"
        assert labels["mig-3g.40gb.replicas"] == "1"
        assert labels["mig-3g.40gb.sharing-strategy"] == "none"

    def test_mig_mixed_with_whole_gpus_keeps_their_replicas(self) -> None:
        labels = _gfd(pool_of(aks({"vmSize": FOUR_A100}, sharing=HETERO)))
        assert labels["gpu.count"] == "4"
        assert labels["gpu.replicas"] == "1"
        assert labels["mig-1g.10gb.count"] == "14"

    def test_mig_mixed_time_sliced(self) -> None:
        labels = _gfd(pool_of(aks(sharing=MIXED_SLICED)))
        assert labels["mig-2g.20gb.replicas"] == "3"
        assert labels["mig-2g.20gb.sharing-strategy"] == "time-slicing"
        assert labels["mig-2g.20gb.product"] == "NVIDIA-A100-80GB-PCIe-MIG-2g.20gb-SHARED"

    def test_mig_of_which_some_profiles_are_time_sliced(self) -> None:
        labels = _gfd(pool_of(aks(sharing=SOME_SLICED)))
        assert labels["mig-2g.20gb.replicas"] == "4"
        assert labels["mig-2g.20gb.sharing-strategy"] == "time-slicing"
        assert labels["mig-3g.40gb.replicas"] == "1"
        assert labels["mig-3g.40gb.sharing-strategy"] == "none"
        assert "SHARED" not in labels["mig-3g.40gb.product"]

    def test_an_unknown_product_or_memory_is_left_out_not_guessed(self) -> None:
        """Two products of one model, and no source for its memory: neither is claimed."""
        labels = _gfd(pool_of(existing({"gpuModel": "v100-16gb"})))
        assert "gpu.product" not in labels
        assert "gpu.memory" not in labels
        assert labels["gpu.count"] == "1"

    def test_a_product_too_long_for_a_label_is_not_expected(self) -> None:
        """NFD drops such a label: 67 characters for a shared 1g.24gb+gfx on an RTX PRO 6000."""
        sharing = {"cut": {"mig": {"layout": {"1g.24gb+gfx": 4}, "timeSlicing": {"replicas": 2}}}}
        labels = _gfd(pool_of(existing({"gpuModel": "rtx-pro-6000-blackwell"}, sharing=sharing)))
        assert "gpu.product" not in labels
        assert labels["gpu.count"] == "4"

    def test_a_product_that_just_fits_a_label_is_expected(self) -> None:
        sharing = {"cut": {"mig": {"layout": {"1g.24gb": 4}, "timeSlicing": {"replicas": 2}}}}
        product = _gfd(pool_of(existing({"gpuModel": SERVER_EDITION}, sharing=sharing)))["gpu.product"]
        assert product == "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb-SHARED"
        assert len(product) == 63


class TestNvml:
    def test_exclusive(self) -> None:
        assert pool_of(aks({"vmSize": TWO_A100})).nvml.as_json() == {
            "gpuModel": "a100-80gb",
            "products": ["NVIDIA A100 80GB PCIe"],
            "count": 2,
            "computeMode": "DEFAULT",
            "gpus": [
                {"index": 0, "migMode": "disabled", "instances": {}},
                {"index": 1, "migMode": "disabled", "instances": {}},
            ],
            "mps": None,
        }

    def test_a_gpu_without_mig(self) -> None:
        assert [gpu.mig_mode for gpu in pool_of(aks({"vmSize": T4})).nvml.gpus] == ["unsupported"]

    def test_mps_splits_memory_and_threads(self) -> None:
        nvml = pool_of(aks(sharing=MPS)).nvml.as_json()
        assert nvml["computeMode"] == "EXCLUSIVE_PROCESS"
        assert nvml["mps"] == {"replicas": 10, "pinnedMemoryMiB": 8192, "activeThreadPercentage": 10, "multiprocessors": 10}

    def test_mps_rounds_down_as_the_daemon_does(self) -> None:
        nvml = pool_of(aks(sharing={"inf": {"mps": {"replicas": 7}}})).nvml.as_json()
        assert nvml["mps"] == {"replicas": 7, "pinnedMemoryMiB": 11702, "activeThreadPercentage": 14, "multiprocessors": 15}

    def test_mps_on_a_card_of_unknown_memory(self) -> None:
        nvml = pool_of(existing({"gpuModel": "v100-16gb"}, sharing={"inf": {"mps": {"replicas": 16}}})).nvml.as_json()
        assert nvml["mps"] == {"replicas": 16, "pinnedMemoryMiB": None, "activeThreadPercentage": 6, "multiprocessors": None}

    def test_ten_mps_replicas_on_a_card_of_142_sms_get_14_each(self) -> None:
        nvml = pool_of(existing({"gpuModel": "NVIDIA L40S"}, sharing=MPS)).nvml.as_json()
        assert nvml["mps"]["multiprocessors"] == 14

    @pytest.mark.parametrize(
        ("replicas", "seen"),
        [(2, 66), (3, 42), (4, 32), (5, 26), (7, 18), (8, 14), (10, 12), (12, 10), (16, 8), (20, 8), (24, 8), (32, 8), (48, 8)],
    )
    def test_multiprocessors_are_those_that_cuda_reported_on_an_h200(self, replicas: int, seen: int) -> None:
        nvml = pool_of(existing({"gpuModel": "h200-141gb"}, sharing={"inf": {"mps": {"replicas": replicas}}})).nvml.as_json()
        assert nvml["mps"]["multiprocessors"] == seen

    def test_mig_on_every_gpu(self) -> None:
        gpus = pool_of(aks({"vmSize": TWO_A100}, sharing=MIXED)).nvml.gpus
        assert [gpu.mig_mode for gpu in gpus] == ["enabled", "enabled"]
        assert [dict(gpu.instances) for gpu in gpus] == [{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}] * 2

    def test_mig_per_gpu(self) -> None:
        gpus = pool_of(aks({"vmSize": FOUR_A100}, sharing=HETERO)).nvml.gpus
        assert [(gpu.index, gpu.mig_mode, dict(gpu.instances)) for gpu in gpus] == [
            (0, "enabled", {"1g.10gb": 7}),
            (1, "enabled", {"1g.10gb": 7}),
            (2, "disabled", {}),
            (3, "disabled", {}),
        ]

    @pytest.mark.parametrize(
        ("key", "product"),
        [
            ("rtx-pro-6000-blackwell", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"),
            ("a800-80gb", "NVIDIA A800-SXM4-80GB"),
        ],
    )
    def test_each_form_factor_of_a_model_is_that_model(self, key: str, product: str) -> None:
        pool = pool_of(existing({"gpuModel": key}))
        assert product in pool.nvml.products
        assert "gpu.product" not in _gfd(pool)
        assert pool_of(existing({"gpuModel": product})).nvml.products == (product,)

    def test_a_model_without_a_known_form_factor_lists_its_products(self) -> None:
        nvml = pool_of(magnum()).nvml
        assert nvml.products == ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB")

    def test_a_product_name_narrows_it(self) -> None:
        assert pool_of(existing({"gpuModel": "NVIDIA-A100-SXM4-80GB"})).nvml.products == ("NVIDIA A100-SXM4-80GB",)


class TestMigStrategy:
    """The strategy holds for the whole cluster, and the device plugin exits on MPS under `mixed`."""

    @staticmethod
    def _plan(*sharing: dict[str, Any], **operator: str) -> Plan:
        declared = {f"s{number}": entry for number, entry in enumerate(sharing)}
        return plan_of(aks(sharing=declared, pools=_pools(*({"sharing": name} for name in declared)), operator=operator))

    def test_single_without_any_mig(self) -> None:
        assert self._plan(SLICED["nb"]).cluster_mig_strategy == "single"

    def test_single_while_every_layout_is_uniform(self) -> None:
        assert self._plan(UNIFORM["cut"], {"mig": {"layout": {"7g.80gb": 1}}}, SLICED["nb"]).cluster_mig_strategy == "single"

    def test_mixed_as_soon_as_one_layout_is_not(self) -> None:
        plan = self._plan(UNIFORM["cut"], MIXED["cut"])
        assert plan.cluster_mig_strategy == "mixed"
        assert plan.operator_values["mig"] == {"strategy": "mixed"}
        assert plan.pools[0].advertises == {"nvidia.com/mig-1g.10gb": 7}

    def test_mixed_when_a_gpu_stays_whole(self) -> None:
        assert plan_of(aks({"vmSize": FOUR_A100}, sharing=HETERO)).cluster_mig_strategy == "mixed"

    def test_a_declaration_that_no_pool_uses_does_not_count(self) -> None:
        plan = plan_of(aks(sharing={**UNIFORM, "unused": MIXED["cut"]}))
        assert plan.cluster_mig_strategy == "single"

    def test_open_when_mixed_meets_mps(self) -> None:
        plan = self._plan(MIXED["cut"], MPS["inf"], SLICED["nb"])
        assert plan.mig_strategy == "mixed"
        assert plan.operator_values["mig"] == {"strategy": ""}
        flags = [yaml.safe_load(plan.device_plugin_configs[pool.config_key])["flags"]["migStrategy"] for pool in plan.pools]
        assert flags == ["mixed", "single", "single"]
        assert plan.pools[1].advertises == {"nvidia.com/gpu": 10}
        assert [pool.gfd_labels["nvidia.com/mig.strategy"] for pool in plan.pools] == flags

    def test_single_and_mps_go_together(self) -> None:
        plan = self._plan(UNIFORM["cut"], MPS["inf"])
        assert plan.cluster_mig_strategy == "single"
        assert plan.pools[0].advertises == {"nvidia.com/gpu": 7}

    def test_a_given_strategy_is_kept(self) -> None:
        assert self._plan(UNIFORM["cut"], migStrategy="mixed").cluster_mig_strategy == "mixed"
        assert self._plan(UNIFORM["cut"], migStrategy="single").cluster_mig_strategy == "single"

    def test_every_pool_that_a_given_strategy_does_not_fit_is_named(self) -> None:
        with pytest.raises(InvalidStackError) as refused:
            self._plan(UNIFORM["cut"], MIXED["cut"], {"mig": {"layout": {"1g.10gb": 1, "2g.20gb": 1}}}, migStrategy="single")
        assert [problem.path for problem in refused.value.problems] == ["gpu-pools:operator.migStrategy"] * 2
        assert ['pool "p1"' in refused.value.problems[0].message, 'pool "p2"' in refused.value.problems[1].message] == [
            True,
            True,
        ]

    def test_the_plan_tells_what_the_other_strategy_would_rename(self) -> None:
        sliced = {"mig": {"layout": {"1g.10gb": 7}, "timeSlicing": {"replicas": 2, "renameByDefault": True}}}
        plan = self._plan(UNIFORM["cut"], sliced, SLICED["nb"])
        assert [pool["otherMigStrategy"] for pool in plan_json(plan)["pools"]] == [
            {"strategy": "mixed", "renames": {"nvidia.com/gpu": "nvidia.com/mig-1g.10gb"}},
            {"strategy": "mixed", "renames": {"nvidia.com/gpu.shared": "nvidia.com/mig-1g.10gb.shared"}},
            None,
        ]
        assert "MIG strategy: single; mixed would rename p0: gpu -> mig-1g.10gb, p1: gpu.shared -> " in plan_table(plan)

    def test_a_pool_that_others_rename_is_warned(self) -> None:
        plan = self._plan(UNIFORM["cut"], MIXED["cut"])
        (warning,) = [text for text in plan.pools[0].warnings if "whole cluster" in text]
        assert warning.startswith("advertises nvidia.com/mig-1g.10gb, not nvidia.com/gpu: ")
        assert warning.endswith('needs to be mixed for "p1"')
        assert plan_json(plan)["pools"][0]["otherMigStrategy"] == {
            "strategy": "single",
            "renames": {"nvidia.com/mig-1g.10gb": "nvidia.com/gpu"},
        }
        assert not any("whole cluster" in text for text in plan.pools[1].warnings)

    def test_who_asked_for_mixed_is_not_warned(self) -> None:
        assert not any("whole cluster" in text for text in self._plan(UNIFORM["cut"], migStrategy="mixed").pools[0].warnings)

    def test_given_mixed_meets_mps(self) -> None:
        assert self._plan(UNIFORM["cut"], MPS["inf"], migStrategy="mixed").cluster_mig_strategy == ""


class TestLabels:
    def test_time_slicing_on_a_gpu_with_mig_turns_mig_off(self) -> None:
        pool_plan = pool_of(aks({"labels": {"team": "a"}}, sharing=SLICED))
        assert pool_plan.labels == {
            "gpu-pools/pool": "gpu",
            "nvidia.com/device-plugin.config": pool_plan.config_key,
            "nvidia.com/mig.config": "all-disabled",
            "team": "a",
        }

    def test_mig_names_its_layout(self) -> None:
        pool_plan = pool_of(aks(sharing=UNIFORM))
        assert pool_plan.labels["nvidia.com/mig.config"] == pool_plan.mig_config_key
        assert pool_plan.mig_config_key.startswith("7x1g.10gb-")

    def test_no_mig_label_without_mig(self) -> None:
        pool_plan = pool_of(aks({"vmSize": T4}))
        assert pool_plan.mig_config_key is None
        assert set(pool_plan.labels) == {"gpu-pools/pool", "nvidia.com/device-plugin.config"}

    def test_a_switch_of_the_operator_may_be_set(self) -> None:
        labels = {"nvidia.com/gpu.deploy.driver": "false", "nvidia.com/gpu.workload.config": "container"}
        assert labels.items() <= pool_of(aks({"labels": labels})).labels.items()


class TestAksPartitions:
    """AKS's gpuInstanceProfile makes the plain profiles only, as many as fit."""

    @pytest.mark.parametrize(
        ("size", "layout", "profile"),
        [
            (A100, {"1g.10gb": 7}, "MIG1g"),
            (A100, {"2g.20gb": 3}, "MIG2g"),
            (A100, {"3g.40gb": 2}, "MIG3g"),
            (A100, {"4g.40gb": 1}, "MIG4g"),
            (A100, {"7g.80gb": 1}, "MIG7g"),
            ("Standard_ND96asr_v4", {"1g.5gb": 7}, "MIG1g"),
            ("Standard_NC40ads_H100_v5", {"1g.12gb": 7}, "MIG1g"),
            ("Standard_NC40ads_H100_v5", {"3g.47gb": 2}, "MIG3g"),
        ],
    )
    def test_profile(self, size: str, layout: dict[str, int], profile: str) -> None:
        pool = {"vmSize": size, "partitionedBy": "aks", "driver": "preinstalled"}
        plan = plan_of(aks(pool, sharing={"cut": {"mig": {"layout": layout}}}))
        (pool_plan,) = plan.pools
        assert pool_plan.gpu_instance_profile == profile
        assert pool_plan.mig_config_key is None
        assert "nvidia.com/mig.config" not in pool_plan.labels
        assert plan.operator_values["migManager"]["enabled"] is False

    @pytest.mark.parametrize(
        "layout",
        [{"1g.20gb": 4}, {"1g.10gb+me": 1}, {"1g.10gb": 6}, {"3g.40gb": 1}, {"1g.10gb": 4, "3g.40gb": 1}, {"1g.6gb": 4}],
        ids=str,
    )
    def test_no_profile(self, layout: dict[str, int]) -> None:
        pool = {"partitionedBy": "aks", "driver": "preinstalled"}
        with pytest.raises(InvalidStackError, match="AKS cannot make the layout"):
            plan_of(aks(pool, sharing={"cut": {"mig": {"layout": layout}}}))

    def test_the_operator_partitions_by_default(self) -> None:
        plan = plan_of(aks(sharing=UNIFORM))
        assert plan.pools[0].gpu_instance_profile is None
        assert plan.operator_values["migManager"]["enabled"] is True


class TestDriverOwner:
    def test_the_operator_on_aks(self) -> None:
        """Without RUNTIME_CONFIG_SOURCE=file the toolkit breaks the node's containerd."""
        values = plan_of(aks()).operator_values
        assert values["driver"] == {"enabled": True}
        assert values["toolkit"] == {"enabled": True, "env": [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]}
        assert values["operator"] == {"runtimeClass": "nvidia"}

    def test_preinstalled_on_aks_brings_its_own_runtime_class(self) -> None:
        values = plan_of(aks(operator={"driver": "preinstalled"})).operator_values
        assert values["driver"] == {"enabled": False}
        assert values["toolkit"] == {"enabled": False}
        assert values["operator"] == {"runtimeClass": "nvidia-container-runtime"}

    def test_preinstalled_on_an_existing_cluster(self) -> None:
        values = plan_of(existing(operator={"driver": "preinstalled"})).operator_values
        assert values["driver"] == {"enabled": False}
        assert values["operator"] == {"runtimeClass": "nvidia"}

    def test_the_operator_on_an_existing_cluster(self) -> None:
        assert plan_of(existing()).operator_values["toolkit"] == {"enabled": True}

    def test_the_operator_on_magnum(self) -> None:
        assert plan_of(magnum()).operator_values["toolkit"]["env"] == [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]

    def test_a_pool_without_word_of_its_own_has_the_driver_of_the_operator(self) -> None:
        pools = _pools({"sharing": "whole", "driver": "preinstalled"}, {"sharing": "whole"})
        plan = plan_of(aks(pools=pools, operator={"driver": "preinstalled"}))
        assert [pool.driver for pool in plan.pools] == ["preinstalled", "preinstalled"]

    def test_a_pool_of_unknown_gpus_is_one_problem_whatever_it_shares(self) -> None:
        for sharing in (UNIFORM, MPS, SLICED):
            with pytest.raises(InvalidStackError) as refused:
                plan_of(
                    aks({"vmSize": "Standard_NC24ads_A100_v9", "minimum": {"driver": "900"}}, sharing=sharing, verification={})
                )
            assert "gpu-pools:pools[0].vmSize" in [problem.path for problem in refused.value.problems]

    def test_gpus_that_a_node_has_not_are_named_in_their_order(self) -> None:
        groups = [{"index": [0], "layout": {"1g.10gb": 7}}, {"index": [17, 9, 1], "layout": {}}]
        with pytest.raises(InvalidStackError, match=r"index 1, 9, 17 beyond the last GPU: a node of pool"):
            plan_of(aks(sharing={"cut": {"mig": {"gpus": groups}}}))

    def test_mig_on_a_gpu_without_it_is_one_problem_whoever_partitions(self) -> None:
        pool = {"vmSize": T4, "partitionedBy": "aks", "driver": "preinstalled"}
        with pytest.raises(InvalidStackError) as refused:
            plan_of(aks(pool, sharing=UNIFORM))
        assert [problem.path for problem in refused.value.problems] == ["gpu-pools:pools[0].sharing"]
        with pytest.raises(InvalidStackError, match=r"needs MIG, which pool gpu \(t4-16gb\) does not have"):
            plan_of(existing({"gpuModel": "t4-16gb"}, sharing=UNIFORM))

    def test_pools_may_all_say_it_themselves(self) -> None:
        plan = plan_of(aks(pools=_pools(*[{"sharing": "whole", "driver": "preinstalled"}] * 2)))
        assert plan.driver == "preinstalled"
        assert {pool.driver for pool in plan.pools} == {"preinstalled"}


class TestTolerations:
    """Operands, NFD and verifiers tolerate what the pools taint, whatever the taint's value became."""

    CHART_OWN = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}  # noqa: RUF012

    def test_the_charts_own_is_repeated(self) -> None:
        assert plan_of(aks()).tolerations == (self.CHART_OWN,)

    def test_derived_from_taints_once_each(self) -> None:
        pools = _pools(
            {"sharing": "whole", "taints": ["sku=gpu:NoSchedule"]},
            {"sharing": "whole", "taints": ["sku=other:NoSchedule", "maintenance:NoExecute"]},
        )
        plan = plan_of(aks(pools=pools))
        assert plan.tolerations == (
            self.CHART_OWN,
            {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"},
            {"key": "sku", "operator": "Exists", "effect": "NoSchedule"},
        )
        assert plan.operator_values["daemonsets"]["tolerations"] == [
            {"operator": "Exists", "effect": "NoSchedule"},
            {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"},
        ]
        assert plan.nfd_values["worker"]["tolerations"] == list(plan.tolerations)

    def test_a_spot_pool_gets_the_taint_of_aks(self) -> None:
        plan = plan_of(aks({"spot": {}, "taints": ["sku=gpu:NoSchedule"]}))
        assert [str(taint) for taint in plan.pools[0].taints] == [
            "sku=gpu:NoSchedule",
            "kubernetes.azure.com/scalesetpriority=spot:NoSchedule",
        ]
        assert {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists", "effect": "NoSchedule"} in plan.tolerations

    def test_the_spot_taint_written_by_hand_is_kept_once(self) -> None:
        plan = plan_of(aks({"spot": {"maxPrice": 0.5}, "taints": ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]}))
        assert len(plan.pools[0].taints) == 1

    def test_the_gpu_taint_is_the_charts_own_toleration(self) -> None:
        assert plan_of(aks({"taints": ["nvidia.com/gpu=true:NoSchedule"]})).tolerations == (self.CHART_OWN,)

    def test_nfd_sets_taints_only_where_it_must(self) -> None:
        assert plan_of(aks({"taints": ["sku=gpu:NoSchedule"]})).nfd_values["master"]["enableTaints"] is False
        assert plan_of(magnum({"taints": ["nvidia.com/gpu=true:NoSchedule"]})).nfd_values["master"]["enableTaints"] is True
        assert plan_of(magnum()).nfd_values["master"]["enableTaints"] is False

    def test_nfd_master_goes_on_after_a_restart_of_the_api_server(self) -> None:
        """What it does otherwise: tests/engine/test_interruption.py, `kill kube-apiserver`."""
        assert plan_of(magnum()).nfd_values["master"]["config"] == {"informerPageSize": 0}


class TestConfigKeys:
    """A key names its content: changed content is a new key, which is what makes the operands reload."""

    @staticmethod
    def _key(sharing: dict[str, Any], **operator: str) -> str:
        return pool_of(aks(sharing=sharing, operator=operator)).config_key

    def test_the_name_of_a_declaration_does_not_matter(self) -> None:
        assert self._key({"a": SLICED["nb"]}) == self._key({"b": SLICED["nb"]})

    def test_equal_content_is_one_key(self) -> None:
        declared = {"a": SLICED["nb"], "b": {"timeSlicing": {"replicas": 4, "failRequestsGreaterThanOne": True}}}
        plan = plan_of(aks(sharing=declared, pools=_pools({"sharing": "a"}, {"sharing": "b"})))
        assert plan.pools[0].config_key == plan.pools[1].config_key
        assert len(plan.device_plugin_configs) == 2

    @pytest.mark.parametrize(
        "changed",
        [
            {"replicas": 8},
            {"replicas": 4, "renameByDefault": True},
            {"replicas": 4, "failRequestsGreaterThanOne": False},
        ],
        ids=str,
    )
    def test_changed_content_is_a_new_key(self, changed: dict[str, Any]) -> None:
        assert self._key({"nb": {"timeSlicing": changed}}) != self._key(SLICED)

    def test_strategies_never_share_a_key(self) -> None:
        keys = [self._key(sharing) for sharing in ({"x": {"exclusive": {}}}, {"x": {"timeSlicing": {"replicas": 10}}}, MPS)]
        assert len(set(keys)) == 3
        assert [key.rpartition("-")[0] for key in keys] == ["exclusive", "time-slicing-10", "mps-10"]

    def test_the_strategy_is_content(self) -> None:
        assert self._key(UNIFORM, migStrategy="mixed") != self._key(UNIFORM, migStrategy="single")

    def test_a_mig_layout_has_a_key_in_the_mig_parted_file(self) -> None:
        plan = plan_of(aks(sharing=MIXED))
        configs = yaml.safe_load(plan.mig_parted_config)["mig-configs"]
        assert configs[plan.pools[0].mig_config_key] == [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}}
        ]
        assert configs["all-disabled"] == [{"devices": "all", "mig-enabled": False}]

    def test_the_order_of_a_layout_does_not_matter(self) -> None:
        turned = {"cut": {"mig": {"layout": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}}}}
        assert pool_of(aks(sharing=MIXED)).mig_config_key == pool_of(aks(sharing=turned)).mig_config_key

    def test_a_changed_layout_is_a_new_mig_key(self) -> None:
        assert pool_of(aks(sharing=UNIFORM)).mig_config_key != pool_of(aks(sharing=MIXED)).mig_config_key

    def test_nodes_without_our_label_share_nothing(self) -> None:
        plan = plan_of(aks(sharing=SLICED))
        assert "sharing" not in yaml.safe_load(plan.device_plugin_configs[plan.default_config_key])
        assert plan.operator_values["devicePlugin"]["config"] == {
            "create": False,
            "name": "gpu-pools-device-plugin",
            "default": plan.default_config_key,
        }

    def test_a_changed_layout_restarts_no_mig_manager(self) -> None:
        """Those on the nodes of other pools have nothing to do with it, and may be at work."""
        first, second = (plan_of(aks(sharing=sharing)).operator_values["migManager"] for sharing in (UNIFORM, MIXED))
        assert first == second


class TestNodesAndWarnings:
    def test_count_is_a_fixed_size(self) -> None:
        document = pool_json(pool_of(aks({"count": 3})))
        assert document["nodes"] == {"min": 3, "max": 3}
        assert document["warnings"] == []

    def test_an_existing_pool_is_open_ended(self) -> None:
        assert pool_json(pool_of(existing()))["nodes"] == {"min": 1, "max": None}

    def test_scaling_from_zero_warns(self) -> None:
        pool_plan = pool_of(aks({"count": GONE, "nodes": {"min": 0, "max": 4}}, sharing=SLICED))
        assert [warning for warning in pool_plan.warnings if "scaling from zero" in warning]
        kept = pool_of(aks({"count": GONE, "nodes": {"min": 1, "max": 4}}, sharing=SLICED))
        assert not [warning for warning in kept.warnings if "scaling from zero" in warning]

    def test_autoscaling_with_resources_that_the_autoscaler_does_not_know_warns(self) -> None:
        scaled = {"count": GONE, "nodes": {"min": 1, "max": 4}}
        assert "nvidia.com/mig-*" in " ".join(pool_of(aks(scaled, sharing=MIXED)).warnings)
        assert "nvidia.com/gpu.shared" in " ".join(pool_of(aks(scaled, sharing=RENAMED)).warnings)
        # Neither does so where names and number stay.
        for sharing, pool in ((SLICED, scaled), (UNIFORM, scaled), (MIXED, {}), (RENAMED, {})):
            assert "is judged unready" not in " ".join(pool_of(aks(pool, sharing=sharing)).warnings)

    def test_the_autoscaler_does_not_know_renamed_instances_either(self) -> None:
        scaled = {"count": GONE, "nodes": {"min": 1, "max": 4}}
        renamed = {"cut": {"mig": {"layout": {"1g.10gb": 7}, "timeSlicing": {"replicas": 2, "renameByDefault": True}}}}
        assert "nvidia.com/gpu.shared is judged unready" in " ".join(pool_of(aks(scaled, sharing=renamed)).warnings)
        assert "is judged unready" not in " ".join(pool_of(aks(scaled, sharing=UNIFORM_SLICED)).warnings)

    def test_nodes_that_aks_partitions_are_born_with_their_instances(self) -> None:
        scaled = {"count": GONE, "nodes": {"min": 1, "max": 4}, "partitionedBy": "aks", "driver": "preinstalled"}
        assert pool_of(aks(scaled, sharing=UNIFORM)).warnings == ()

    def test_an_mps_limit_that_no_source_tells_warns(self) -> None:
        warnings = pool_of(existing({"gpuModel": "jetson-thor-igpu"}, sharing={"inf": {"mps": {"replicas": 48}}})).warnings
        said = "the compute capability of jetson-thor-igpu is unknown: the MPS client limit cannot be checked before the deploy"
        assert said in warnings

    def test_everything_that_is_not_known_of_a_layout_is_said_in_one_order(self) -> None:
        sharing = {"cut": {"mig": {"layout": {"1g.24gb": 7}}}}
        warnings = pool_of(existing({"gpuModel": "gb200-186gb"}, sharing=sharing)).warnings
        # The others are about new nodes (C06) and the cluster (W41).
        placements, names, *_ = warnings
        assert placements.startswith("the MIG placements of gb200-186gb are inferred from GPUs of the same geometry: ")
        assert names.startswith("the names of MIG profiles of gb200-186gb differ by driver and GPU: 1g.24gb cannot be checked ")

    def test_switching_mig_in_a_virtual_machine_warns_and_lets_the_node_reboot(self) -> None:
        plan = plan_of(aks(sharing=UNIFORM))
        (warning,) = [text for text in plan.pools[0].warnings if "R03" in text]
        assert warning.startswith("a node reboots once, when its MIG mode is switched on")
        assert warning.endswith("where it is on already, another layout needs no reboot")
        assert {"name": "WITH_REBOOT", "value": "true"} in plan.operator_values["migManager"]["env"]

    def test_no_reboot_where_mig_is_not_used(self) -> None:
        plan = plan_of(aks(sharing=SLICED))
        assert "env" not in plan.operator_values["migManager"]

    def test_a_layout_that_cannot_be_checked_warns(self) -> None:
        unknown = existing({"gpuModel": "rtx-pro-5000-blackwell"}, sharing={"cut": {"mig": {"layout": {"1g.12gb": 4}}}})
        assert "cannot be checked before the deploy" in " ".join(pool_of(unknown).warnings)

    def test_inferred_placements_warn(self) -> None:
        inferred = existing({"gpuModel": "h100-96gb"}, sharing={"cut": {"mig": {"layout": {"1g.12gb": 7}}}})
        assert "the node has the last word" in " ".join(pool_of(inferred).warnings)

    def test_small_mps_shares_warn(self) -> None:
        pool_plan = pool_of(aks({"vmSize": T4}, sharing={"inf": {"mps": {"replicas": 48}}}))
        assert "320 MiB" in " ".join(pool_plan.warnings)

    @pytest.mark.parametrize(("replicas", "warned"), [(10, False), (11, True)])
    def test_a_share_of_1536_mib_is_no_small_one(self, replicas: int, warned: bool) -> None:  # noqa: FBT001
        pool_plan = pool_of(aks({"vmSize": T4}, sharing={"inf": {"mps": {"replicas": replicas}}}))
        assert 15360 // 10 == 1536
        assert any("which leaves little beside the CUDA context (D08)" in text for text in pool_plan.warnings) is warned

    def test_sixteen_mps_clients_are_fine_on_volta(self) -> None:
        assert pool_of(existing({"gpuModel": "v100-16gb"}, sharing={"inf": {"mps": {"replicas": 16}}})).advertises == {
            "nvidia.com/gpu": 16
        }


class TestPlanAsAWhole:
    def test_a_stack_that_cannot_be_planned_is_told_to_machines_too(self) -> None:
        with pytest.raises(InvalidStackError) as refused:
            plan_of(aks({"vmSize": T4}, sharing=UNIFORM))
        assert problems_json(refused.value.problems) == {
            "pools": [],
            "errors": [
                {
                    "path": "gpu-pools:pools[0].sharing",
                    "message": '"cut" needs MIG, which vmSize Standard_NC4as_T4_v3 (t4-16gb) does not have',
                    "allowed": "exclusive, timeSlicing or mps on this GPU",
                    "remedy": "Choose another declaration, or hardware with MIG (A30, A100, H100, H200, B200, …).",
                }
            ],
        }

    def test_pools_keep_the_order_of_the_file(self) -> None:
        plan = plan_of(aks(pools=_pools(*[{"sharing": "whole"}] * 12)))
        assert [pool.name for pool in plan.pools] == [f"p{number}" for number in range(12)]

    def test_parsing_and_planning_apart_give_the_same_plan(self) -> None:
        config = load_yaml(aks(sharing=MIXED))["config"]
        assert plan_json(make_plan(parse_settings(config))) == plan_json(plan_config(config))

    def test_the_plan_is_deterministic_and_plain_json(self) -> None:
        first, second = (plan_of(aks(sharing={**MIXED, **SLICED})) for _ in range(2))
        assert json.dumps(plan_json(first)) == json.dumps(plan_json(second))
        assert first.device_plugin_configs == second.device_plugin_configs
        assert json.loads(json.dumps(first.operator_values)) == first.operator_values

    def test_raw_values_are_merged_last(self) -> None:
        values = {"driver": {"version": "580.65.06"}, "dcgmExporter": {"enabled": False}}
        merged = plan_of(aks(operator={"values": values})).operator_values
        assert merged["driver"] == {"enabled": True, "version": "580.65.06"}
        assert merged["dcgmExporter"] == {"enabled": False}

    def test_the_charts_nfd_is_off(self) -> None:
        assert plan_of(aks()).operator_values["nfd"] == {"enabled": False}
