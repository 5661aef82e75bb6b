"""Pools that are declared once: what the operator, NFD and the components that make their nodes take from the declaration."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.aks.cluster import AksGpuNodePool
from gpu_pools.components.engine.not_known_yet import not_known_yet
from gpu_pools.components.gpu_operator.node_features import NodeFeatureDiscovery, PoolLabels
from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.components.gpu_operator.startup_taint import StartupTaint
from gpu_pools.components.magnum.cluster import MagnumGpuNodePool
from gpu_pools.components.pools import AksPool, ExistingPool, MagnumPool
from gpu_pools.components.proof.smoke_test import SharingSmokeTest
from gpu_pools.components.proof.verification import Verification
from gpu_pools.components.sharing import Mig, TimeSlicing
from gpu_pools.text.errors import InvalidStackError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

A100 = "Standard_NC24ads_A100_v4"
PLUGIN_LABEL = "nvidia.com/device-plugin.config"
PLACE: Any = {"cluster_name": "c", "resource_group_name": "rg"}
HARDWARE: Any = {"gpu_model": "a100-80gb", "gpus_per_node": 1}


def aks(name: str, sharing: Any, **more: Any) -> AksPool:
    args: Any = {"name": name, "vm_size": A100, "count": 1, "sharing": sharing, **more}
    return AksPool(name, args)


def keys(recorded: Recorder) -> set[str]:
    """The keys of the operator's ConfigMap."""
    maps = [one.inputs for one in recorded.of("ConfigMapPatch")]
    return {key for one in maps if one["metadata"]["name"] == "gpu-pools-device-plugin" for key in one["data"]}


def two_layouts() -> list[Any]:
    """Pools that decide for each other: the second makes the MIG strategy mixed, and renames the first's resources."""
    return [
        aks("whole", Mig("whole", {"layout": {"1g.10gb": 7}}), taints=["team=a:NoSchedule"]),
        aks("parts", Mig("parts", {"layout": {"1g.10gb": 1, "2g.20gb": 1, "4g.40gb": 1}})),
    ]


def test_nodes_name_keys_that_the_operator_has_where_pools_decide_for_each_other(run: Run) -> None:
    def program() -> None:
        pools = two_layouts()
        operator = GpuOperator("op", {"pools": pools})
        for pool in pools:
            AksGpuNodePool(pool.written["name"], {**PLACE, "pool": pool}, operator=operator)

    recorded = run(program)
    named = {one.inputs["nodeLabels"][PLUGIN_LABEL] for one in recorded.of("AgentPool")}
    assert len(named) == 1  # both name the strategy alone
    assert named <= keys(recorded)
    (values,) = [one.inputs["values"] for one in recorded.of("Release")]
    assert values["mig"]["strategy"] == "mixed"


def test_a_pool_by_itself_names_another_key_and_is_refused(run: Run) -> None:
    """What happens to who hands a pool no operator, but its keys."""

    def program() -> None:
        pools = two_layouts()
        operator = GpuOperator("op", {"pools": pools})
        AksGpuNodePool("a", {**PLACE, "pool": pools[0], "config_keys": operator.config_keys})

    with pytest.raises(InvalidStackError, match=r"AksGpuNodePool\(a\)\.sharing: .* is not one that the operator has"):
        run(program)


def test_the_operator_s_strategy_makes_a_pool_by_itself_agree(run: Run) -> None:
    """The way of other languages."""

    def program() -> None:
        pools = two_layouts()
        operator = GpuOperator("op", {"pools": pools})
        AksGpuNodePool("a", {**PLACE, "pool": pools[0], "mig_strategy": "mixed", "config_keys": operator.config_keys})

    recorded = run(program)
    assert recorded.one("AgentPool").inputs["nodeLabels"][PLUGIN_LABEL] in keys(recorded)


def test_nodes_come_after_the_wait_for_the_kubelets(run: Run) -> None:
    def program() -> None:
        pool = aks("nb", TimeSlicing("nb", {"replicas": 4}))
        operator = GpuOperator("op", {"pools": [pool]})
        AksGpuNodePool("nb", {**PLACE, "pool": pool}, operator=operator)

    assert {"op-key-wait", "op-release", "op-device-plugin"} <= run(program).depends_on("nb-pool")


def test_what_tolerates_and_proves_takes_the_same_pools(run: Run) -> None:
    def program() -> None:
        pools = two_layouts()
        config: Any = {"verification": {"startup_taint": True}, "cluster": {"platform": "aks", "kubernetesVersion": "1.36"}}
        NodeFeatureDiscovery("nfd", {"pools": pools, "config": config})
        GpuOperator("op", {"pools": pools, "config": config})
        StartupTaint("taint", {"pools": pools, "config": config})
        Verification("proof", {"pool": "parts", "pools": pools, "program": "p", "config": config})
        SharingSmokeTest("smoke", {"pool": "parts", "pools": pools, "namespace": "n"})

    recorded = run(program)
    (nfd,) = [one.inputs["values"] for one in recorded.of("Release") if one.name == "nfd-release"]
    assert "team" in {one["key"] for one in nfd["worker"]["tolerations"]}
    bindings = recorded.of("MutatingAdmissionPolicyBinding")
    assert {one.name for one in bindings} == {"taint-whole-binding", "taint-parts-binding"}
    resources = {"nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb", "nvidia.com/mig-4g.40gb"}
    assert len(recorded.of(":Job")) == len(resources)


def test_a_pool_on_an_existing_cluster_and_on_magnum(run: Run) -> None:
    def program() -> None:
        there: Any = {"name": "byo", "node_selector": {"gpu": "a"}, "sharing": TimeSlicing("a", {"replicas": 2}), **HARDWARE}
        byo = ExistingPool("byo", there)
        operator = GpuOperator("op", {"pools": [byo]})
        PoolLabels("byo", {"namespace": operator.namespace, "pool": byo}, operator=operator)
        group: Any = {"name": "g", "flavor": "g1", "count": 1, "magnum_driver": "heat", "hardware": HARDWARE}
        magnum = MagnumPool("g", {**group, "sharing": TimeSlicing("b", {"replicas": 3})})
        other = GpuOperator("other", {"pools": [magnum]})
        MagnumGpuNodePool("g", {"cluster_id": "c", "magnum_driver": "heat", "pool": magnum}, operator=other)
        labels: Any = {"namespace": other.namespace, "pool": magnum, "node_selector": {"g": "g"}, "magnum_driver": "heat"}
        PoolLabels("g", labels, operator=other)

    recorded = run(program)
    rules = {one.name: one.inputs["spec"]["rules"][0]["labels"][PLUGIN_LABEL] for one in recorded.of("NodeFeatureRule")}
    assert {name: key[: len("time-slicing-2")] for name, key in rules.items()} == {
        "byo-rule": "time-slicing-2",
        "g-rule": "time-slicing-3",
    }
    assert recorded.one("NodeGroup").inputs["flavorId"] == "g1"
    assert "other-key-wait" in recorded.depends_on("g-group")


def test_a_pool_brings_the_gpu_model_that_no_table_has(run: Run) -> None:
    def program() -> None:
        models: Any = {"next-32gb": {"product": "NVIDIA Next", "memoryMiB": 32768, "mig": False}}
        sharing = TimeSlicing("s", {"replicas": 4})
        size: Any = {"vm_size": "Standard_Next_v9", "gpu_model": "next-32gb", "gpus_per_node": 2}
        pool = AksPool("next", {"name": "next", "count": 1, "sharing": sharing, **size, "gpu_models": models})
        operator = GpuOperator("op", {"pools": [pool]})
        AksGpuNodePool("with", {**PLACE, "pool": pool}, operator=operator)
        AksGpuNodePool("alone", {**PLACE, "pool": pool, "config_keys": operator.config_keys})

    recorded = run(program)
    assert {one.inputs["nodeLabels"][PLUGIN_LABEL] for one in recorded.of("AgentPool")} < keys(recorded)


def test_an_output_that_no_preview_knows_may_be_a_pool_s_subnet(run: Run) -> None:
    def program() -> None:
        network = pulumi.CustomResource("test:index:Network", "net", {})
        pool = aks("nb", TimeSlicing("nb", {"replicas": 4}), subnet=network.id, tags={"owner": network.id})
        operator = GpuOperator("op", {"pools": [pool]})
        AksGpuNodePool("nb", {**PLACE, "pool": pool}, operator=operator)

    recorded = run(program)
    inputs = recorded.one("AgentPool").inputs
    assert (inputs["vnetSubnetID"], inputs["tags"]) == ("net-id", {"owner": "net-id"})
    assert "net" in recorded.depends_on("nb-pool")


def test_an_operator_takes_mappings_and_what_components_have_declared(run: Run) -> None:
    written: Any = {"name": "nb", "vm_size": A100, "count": 1, "sharing": {"time_slicing": {"replicas": 4}}}

    def program() -> None:
        declared = AksPool("nb", copy.deepcopy(written))
        for name, pool in {"a": declared, "b": written, "c": declared.written}.items():
            operator = GpuOperator(name, {"pools": [pool]})
            AksGpuNodePool(name, {**PLACE, "pool": pool}, operator=operator)

    recorded = run(program)
    assert len({one.inputs["nodeLabels"][PLUGIN_LABEL] for one in recorded.of("AgentPool")}) == 1


def _refused(run: Run, program: Callable[[], Any]) -> str:
    said: list[str] = []

    def whole() -> None:
        with pytest.raises(InvalidStackError) as refused:
            program()
        said.append(str(refused.value))

    run(whole)
    return said[0]


def test_problems_name_the_pool_by_its_place(run: Run) -> None:
    pool: Any = {"name": "nb", "vmSize": A100, "count": 1, "sharing": {"timeSlicing": {"replicas": 1}}, "vnet": 1}
    other: Any = {"name": "nb2", "vmSize": "Standard_NC24ads_A100_v5", "count": 1, "sharing": {"exclusive": {}}}
    text = _refused(run, lambda: GpuOperator("op", {"pools": [pool, other]}))
    assert "GpuOperator(op).pools[0].sharing.timeSlicing.replicas: 1 is out of bounds" in text
    assert "GpuOperator(op).pools[0].vnet: unknown key `vnet`" in text
    assert "GpuOperator(op).pools[1].vmSize" in text
    assert "gpu-pools:" not in text


def test_a_declaration_is_checked_by_itself(run: Run) -> None:
    text = _refused(run, lambda: aks("toolongofaname", {"mps": {"replicas": 99}}))
    assert "AksPool(toolongofaname).name" in text
    assert "AksPool(toolongofaname).sharing.mps.replicas" in text


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ({"name": "other"}, '.pool.name: "other" is not a pool that the operator was given'),
        ({"count": 2}, ".pool: is declared otherwise to the operator: count"),
        ({"sharing": {"mps": {"replicas": 4}}}, ".pool: is declared otherwise to the operator: sharing"),
    ],
)
def test_a_pool_that_the_operator_knows_not_or_otherwise_is_refused(run: Run, pool: Any, said: str) -> None:
    written: Any = {"name": "nb", "vmSize": A100, "count": 1, "sharing": {"timeSlicing": {"replicas": 4}}}

    def program() -> None:
        operator = GpuOperator("op", {"pools": [written]})
        AksGpuNodePool("nb", {**PLACE, "pool": {**written, **pool}}, operator=operator)

    assert f"AksGpuNodePool(nb){said}" in _refused(run, program)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"vm_sise": A100}, ["vm_sise: unknown key `vm_sise`", "Did you mean `vm_size`?", "vm_size: is missing", "os_disk_type"]),
        ({"vmSise": A100}, ["vmSise: unknown key `vmSise`", "Did you mean `vmSize`?", "vmSize: is missing", "osDiskType"]),
        ({"vm_size": A100, "osdisktype": "x"}, ["osdisktype: unknown key `osdisktype`", "Did you mean `os_disk_type`?"]),
        ({"vm_size": A100, "spot": {"max_prise": 1}}, [".spot.max_prise: unknown", "Did you mean `max_price`?"]),
        ({"vmSize": A100, "spot": {"maxPrise": 1}}, [".spot.maxPrise: unknown", "Did you mean `maxPrice`?"]),
    ],
)
def test_a_misspelt_key_is_told_as_it_was_written(run: Run, given: dict[str, Any], said: list[str]) -> None:
    """Python's words come back as Python's words, a stack file's as a stack file's."""
    pool: Any = {"name": "nb", "count": 1, "sharing": {"exclusive": {}}, **given}
    text = _refused(run, lambda: AksGpuNodePool("nb", {**PLACE, "pool": pool}))
    assert [one for one in said if one not in text] == []


def test_a_misspelt_section_is_told_as_it_was_written(run: Run) -> None:
    config: Any = {"node_feature_discovry": {}, "operator": {"kubelet_sync_secs": 3}}
    pool: Any = {
        "name": "nb",
        "vm_size": A100,
        "count": 1,
        "sharing": {"time_slicing": {"replicas": 2, "rename_by_defualt": True}},
    }
    text = _refused(run, lambda: GpuOperator("op", {"pools": [pool], "config": config}))
    assert "GpuOperator(op).config.node_feature_discovry: unknown key `node_feature_discovry`" in text
    assert "Did you mean `node_feature_discovery`?" in text
    assert "unknown key `kubelet_sync_secs`" in text
    assert "Did you mean `kubelet_sync_seconds`?" in text
    assert "rename_by_defualt: unknown key `rename_by_defualt`" in text
    assert "Did you mean `rename_by_default`?" in text


def test_pools_are_said_once(run: Run) -> None:
    pool: Any = {"name": "nb", "vmSize": A100, "count": 1, "sharing": {"exclusive": {}}}
    text = _refused(run, lambda: GpuOperator("op", {"pools": [pool], "config": {"pools": []}}))
    assert "GpuOperator(op).config.pools: stands beside `pools`" in text


def test_sections_may_be_in_the_words_of_python(run: Run) -> None:
    config: Any = {
        "cluster": {"platform": "aks", "system_pool": {"vm_size": "Standard_D4s_v5", "count": 1}},
        "sharing": {"note_books": {"time_slicing": {"replicas": 4}}},
        "pools": [{"name": "nb", "vm_size": A100, "count": 1, "sharing": "note_books", "labels": {"my_label": "a_b"}}],
        "operator": {"mig_strategy": "mixed", "values": {"dcgmExporter": {"enabled": False}}},
    }
    held: list[GpuOperator] = []
    run(lambda: held.append(GpuOperator("op", {"config": config})))
    plan = held[0].planned
    assert (plan.mig_strategy, plan.pools[0].labels["my_label"], plan.pools[0].pool.sharing) == ("mixed", "a_b", "note_books")


def test_programs_of_before_hand_the_plan_over_among_the_arguments(run: Run) -> None:
    def program() -> None:
        plan = GpuOperator("op", {"pools": [aks("nb", {"exclusive": {}})]}).planned
        older: Any = {"planned": plan}
        GpuOperator("again", older)
        AksGpuNodePool("nb", {**PLACE, "planned": plan.pools[0]})  # type: ignore[typeddict-unknown-key]

    assert len(run(program).of("Release")) == 2


def test_what_a_declaration_says_of_itself_is_taken(run: Run) -> None:
    """`declared` and `mig_strategy` are outputs that are known: what the pages say may be handed over so is taken."""
    held: list[GpuOperator] = []

    def program() -> None:
        sharing = TimeSlicing("s", {"replicas": 2}).declared
        pool = aks("nb", sharing)
        held.append(GpuOperator("op", {"pools": [pool.declared]}))
        made = {**PLACE, "pool": pool.declared, "mig_strategy": held[0].mig_strategy, "config_keys": held[0].config_keys}
        AksGpuNodePool("nb", made)  # type: ignore[arg-type]

    recorder = run(program)
    assert held[0].planned.pools[0].config_key in held[0].planned.device_plugin_configs
    (pool,) = recorder.of("AgentPool")
    assert pool.inputs["nodeLabels"]["nvidia.com/device-plugin.config"] == held[0].planned.pools[0].config_key


def test_a_pool_that_only_the_deploy_knows_is_refused(run: Run) -> None:
    said = _refused(run, lambda: aks("nb", not_known_yet()))
    assert "AksPool(nb).sharing: is an Output, and must be known before the deploy: the preview does not know it" in said
    assert "in Python the component itself, or a mapping" in said


def test_what_is_no_pool_is_refused_by_its_place(run: Run) -> None:
    said = _refused(run, lambda: GpuOperator("op", {"pools": ["nb"]}))  # type: ignore[list-item]
    assert 'GpuOperator(op).pools[0]: "nb" is not a pool' in said


def test_a_secret_is_no_mig_strategy(run: Run) -> None:
    """It would be shown in labels."""
    place: Any = {**PLACE, "mig_strategy": pulumi.Output.secret("single")}
    pool: Any = {"name": "nb", "vm_size": A100, "count": 1, "sharing": {"exclusive": {}}}
    said = _refused(run, lambda: AksGpuNodePool("nb", {**place, "pool": pool}))
    assert "AksGpuNodePool(nb).mig_strategy: is an Output, and must be known before the deploy: it is a secret" in said
