"""Everything that follows from a stack, against a readable golden file per stack in tests/golden: an accident anywhere shows.

After a wanted change: ``UPDATE_GOLDEN=1 venv/bin/pytest tests/unit/test_whole_plans.py``, then read the difference. Ids of
pools stand in users' stack files, and keys that change reload nodes: neither may change by accident.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.plan.adoption import cluster_policy_changes
from gpu_pools.plan.change_ids import cluster_use, pool_goes, pool_use
from gpu_pools.plan.document import plan_json, plan_table
from gpu_pools.plan.placing import (
    labeller_daemon_set_spec,
    labeller_selector,
    node_feature_rule,
    node_group_labels,
    pool_selector,
)
from gpu_pools.rendering.startup_taint import admission_binding_spec, admission_policy_spec
from tests.unit.golden import FOLDER, golden
from tests.unit.stacks import A100, FOUR_A100, GONE, T4, aks, existing, magnum, plan_of

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan, PoolPlan

SCALED = {"count": GONE, "nodes": {"min": 0, "max": 4}}
TAINTS = ["nvidia.com/gpu=true:NoSchedule", "example.com/team:NoExecute"]


def _pools(common: dict[str, Any], *pools: dict[str, Any]) -> list[dict[str, Any]]:
    whole = [{**common, "name": pool["sharing"], **pool} for pool in pools]
    return [{key: value for key, value in pool.items() if value is not GONE} for pool in whole]


AKS = aks(
    sharing={
        "whole": {"exclusive": {}, "needs": {"memoryPerReplica": "40Gi"}},
        "turns": {"timeSlicing": {"replicas": 4, "renameByDefault": True, "failRequestsGreaterThanOne": False}},
        "served": {"mps": {"replicas": 48}},
        "cut": {"mig": {"layout": {"1g.10gb": 7}}},
        "some": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}, "timeSlicing": {"replicas": {"2g.20gb": 4}}}},
        "each": {"mig": {"gpus": [{"index": [0, 1], "layout": {"1g.10gb": 7}}, {"index": [2, 3], "layout": {}}]}},
    },
    pools=_pools(
        {"vmSize": A100, "count": 1},
        {"sharing": "whole", "taints": TAINTS, "labels": {"team": "red"}, "protect": True, "spot": {}},
        {"sharing": "turns", **SCALED},
        {"sharing": "served", "vmSize": T4, "count": 3},
        {"sharing": "cut"},
        {"sharing": "some", **SCALED},
        {"sharing": "each", "vmSize": FOUR_A100},
    ),
    cluster={
        "kubernetesVersion": "1.36",
        "protect": True,
        "systemPool": {"vmSize": "Standard_D4s_v5", "nodes": {"min": 1, "max": 3}},
    },
    verification={"startupTaint": True},
)
AKS_PARTITIONS = aks(
    sharing={"cut": {"mig": {"layout": {"3g.40gb": 2}}}, "whole": {"exclusive": {}}},
    pools=_pools({"vmSize": A100, **SCALED}, {"sharing": "cut", "partitionedBy": "aks"}, {"sharing": "whole"}),
    operator={"driver": "preinstalled"},
)
HEAT = magnum(
    {"taints": TAINTS, "nodeGroupLabels": {"kubelet_options": "--v=2", "a": "b"}, "image": "gpu"},
    sharing={"x": {"mig": {"layout": {"1g.5gb": 7}, "timeSlicing": {"replicas": 2}}}},
    verification={"startupTaint": True},
)
CLUSTER_API = magnum(
    cluster={
        "driver": "magnum-cluster-api",
        "templateId": GONE,
        "template": {"image": "i", "externalNetwork": "n", "flavor": "f", "labels": {"kube_tag": "v1.34.2"}},
    },
    sharing={"x": {"mig": {"layout": {"3g.20gb": 1, "2g.10gb": 2}}}, "free": {"exclusive": {}}},
    pools=_pools({"flavor": "g2.5xlarge", "count": 1}, {"sharing": "x", "taints": TAINTS, **SCALED}, {"sharing": "free"}),
    nodeFeatureDiscovery={"install": False},
)
EXISTING = existing(
    {"taints": TAINTS, "gpuModel": "h100-96gb", "gpusPerNode": 2},
    sharing={"x": {"mig": {"layout": {"1g.12gb": 7}}}},
    verification={"startupTaint": True},
    operator={"values": {"driver": {"version": "580.65.06"}}},
)
ADOPTED = existing(
    {"gpuModel": "v100-16gb", "minimum": {"driver": "570.124.06"}},
    sharing={"x": {"mps": {"replicas": 16}, "needs": {"memoryPerReplica": "1Gi"}}},
    operator={"install": False},
    nodeFeatureDiscovery={"install": False},
)
STACKS = {
    "aks": AKS,
    "aks-partitions": AKS_PARTITIONS,
    "magnum-heat": HEAT,
    "magnum-cluster-api": CLUSTER_API,
    "existing": EXISTING,
    "existing-operator": ADOPTED,
}


def _without_program(values: Any) -> Any:
    """The text that a hook runs is a file of its own, and would hide all else here."""
    if isinstance(values, dict):
        return {key: _without_program(value) for key, value in values.items()}
    if isinstance(values, list):
        return [_without_program(value) for value in values]
    return f"{len(values.splitlines())} lines" if isinstance(values, str) and "\nimport " in values else values


def _of_pool(plan: Plan, pool: PoolPlan) -> dict[str, Any]:
    cluster = plan.settings.cluster
    driver = cluster.driver
    found: dict[str, Any] = {
        "ids": [pool.change, pool_goes(pool), pool_use(pool)],
        "protect": pool.protect,
        "gpuInstanceProfile": pool.gpu_instance_profile,
        "binding": admission_binding_spec(pool_selector(cluster, pool)),
    }
    if plan.platform != "aks":
        found["rule"] = node_feature_rule(pool, driver)
        found["nodeGroupLabels"] = node_group_labels(pool, cluster)
        selector = labeller_selector(cluster, pool)
        found["labeller"] = labeller_daemon_set_spec(pool, selector, plan.tolerations, "image")
    return found


def _everything(plan: Plan) -> dict[str, Any]:
    return {
        "table": plan_table(plan).splitlines(),
        "plan": plan_json(plan),
        "migStrategy": [plan.mig_strategy, plan.cluster_mig_strategy],
        "driver": plan.driver,
        "ids": [plan.change, cluster_use(plan)],
        "protect": plan.protect,
        "devicePluginConfigs": dict(plan.device_plugin_configs),
        "defaultConfigKey": plan.default_config_key,
        "migPartedConfig": plan.mig_parted_config,
        "tolerations": plan.tolerations,
        "operatorValues": _without_program(plan.operator_values),
        "clusterPolicy": cluster_policy_changes(plan.operator_values),
        "nfdValues": plan.nfd_values,
        "pools": {pool.name: _of_pool(plan, pool) for pool in plan.pools},
    }


def _golden(name: str, found: object) -> None:
    golden(f"{name}.yaml", yaml.safe_dump(json.loads(json.dumps(found)), sort_keys=False, width=130))


@pytest.mark.parametrize("name", STACKS)
def test_what_follows_from_a_stack(name: str) -> None:
    _golden(f"plan-{name}", _everything(plan_of(STACKS[name])))


def test_what_puts_the_startup_taint_on_nodes() -> None:
    _golden("plan-startup-taint-policy", admission_policy_spec())


def test_every_golden_file_belongs_to_a_stack() -> None:
    assert {file.stem for file in FOLDER.glob("plan-*")} == {f"plan-{name}" for name in (*STACKS, "startup-taint-policy")}
