"""Good stacks, one per platform, and a way to change them: what the tests of the plan start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from gpu_pools.plan.planning import plan_config
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan

#: Leaves a key out of the good stack.
GONE = ...

A100 = "Standard_NC24ads_A100_v4"
TWO_A100 = "Standard_NC48ads_A100_v4"
FOUR_A100 = "Standard_NC96ads_A100_v4"
T4 = "Standard_NC4as_T4_v3"
SYSTEM_POOL = {"vmSize": "Standard_D4s_v5", "count": 1}


def plan_of(stack: str) -> Plan:
    """The plan of a stack's text."""
    return plan_config(load_yaml(stack)["config"], complete=False)


def pool_of(stack: str) -> PoolPlan:
    """The plan of a stack's only pool."""
    (pool,) = plan_of(stack).pools
    return pool


def aks(
    pool: Mapping[str, Any] | None = None,
    *,
    sharing: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    pools: object = None,
    **sections: object,
) -> str:
    """A good AKS stack, changed."""
    good_cluster = {"platform": "aks", "name": "bad", "location": "westeurope", "systemPool": SYSTEM_POOL}
    good_pool = {"name": "gpu", "vmSize": A100, "count": 1}
    return _stack(_changed(good_cluster, cluster), good_pool, pool, sharing, pools, sections)


def magnum(
    pool: Mapping[str, Any] | None = None,
    *,
    sharing: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    pools: object = None,
    **sections: object,
) -> str:
    """A good Magnum stack, changed."""
    good_cluster = {"platform": "magnum", "name": "bad", "driver": "heat", "templateId": "kubernetes-1.34"}
    good_pool = {"name": "gpu", "flavor": "g2.5xlarge", "count": 1}
    flavors = {"g2.5xlarge": {"gpuModel": "a100-40gb", "gpusPerNode": 1}}
    return _stack(_changed(good_cluster, cluster), good_pool, pool, sharing, pools, {"flavors": flavors, **sections})


def existing(
    pool: Mapping[str, Any] | None = None,
    *,
    sharing: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    pools: object = None,
    **sections: object,
) -> str:
    """A good stack for a cluster that exists, changed."""
    good_pool = {"name": "gpu", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"kubernetes.io/hostname": "gpu-1"}}
    return _stack(_changed({"platform": "existing"}, cluster), good_pool, pool, sharing, pools, sections)


def _stack(
    cluster: Mapping[str, Any],
    good_pool: Mapping[str, Any],
    pool: Mapping[str, Any] | None,
    sharing: Mapping[str, Any] | None,
    pools: object,
    sections: Mapping[str, object],
) -> str:
    name = next(iter(sharing)) if sharing else "whole"
    config = {
        "cluster": cluster,
        "sharing": {"whole": {"exclusive": {}}, **(sharing or {})},
        "pools": [_changed({**good_pool, "sharing": name}, pool)] if pools is None else pools,
        **sections,
    }
    keyed = {f"gpu-pools:{key}": value for key, value in config.items() if value is not GONE}
    return yaml.safe_dump({"config": keyed}, sort_keys=False)


def _changed(good: Mapping[str, Any], changes: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in {**good, **(changes or {})}.items() if value is not GONE}
