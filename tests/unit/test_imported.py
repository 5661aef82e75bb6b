"""Pools that a stack only holds as they were imported: what that means for the plan, and for what it must not be said of."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.adoption import changed
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.pool_inputs import kept_as_found
from gpu_pools.text.errors import InvalidStackError

POOL = {
    "name": "gpu",
    "vmSize": "Standard_NC24ads_A100_v4",
    "count": 1,
    "sharing": "whole",
    "adopted": True,
    "labels": {"team": "ml"},
}


def config(adoption: Any = "imported", **pool: Any) -> dict[str, Any]:
    return {
        "gpu-pools:cluster": {"platform": "aks", "existing": {"resourceGroup": "rg", "name": "platform"}},
        "gpu-pools:adoption": adoption,
        "gpu-pools:sharing": {"whole": {"exclusive": {}}},
        "gpu-pools:verification": {"startupTaint": True, "smokeTest": True},
        "gpu-pools:pools": [{**POOL, **pool}],
    }


def test_nothing_but_the_users_labels_is_planned_and_nothing_is_proven() -> None:
    plan = plan_config(config())
    (pool,) = plan.pools
    assert pool.labels == {"team": "ml"}
    assert pool.protect
    assert not plan.settings.verification.enabled
    assert pool.startup_taint is None
    assert any("gpu-pools:adoption is imported" in one for one in pool.warnings)
    assert {"nodeLabels", "tags", "orchestratorVersion", "powerState"} <= set(
        kept_as_found(pool, {"count": 1, "tags": {"a": "b"}})
    )


@pytest.mark.parametrize("adoption", ["managed", None])
def test_managed_is_what_no_section_means(adoption: str | None) -> None:
    (pool,) = plan_config(config(adoption)).pools
    assert pool.labels["gpu-pools/pool"] == "gpu"
    assert not pool.protect
    assert not {"nodeLabels", "tags", "powerState"} & set(kept_as_found(pool, {"count": 1, "tags": {"a": "b"}}))


@pytest.mark.parametrize("written", ["imports", True, ["imported"], {}, 1])
def test_another_state_is_refused(written: object) -> None:
    with pytest.raises(InvalidStackError, match=r"is not a state of adopted pools"):
        plan_config(config(written))


def test_a_pool_that_was_not_imported_is_refused() -> None:
    with pytest.raises(InvalidStackError, match=r"pools\[0\]\.adopted: is not true"):
        plan_config(config(adopted=False))


def test_of_a_cluster_that_the_stack_makes_nothing_can_be_held() -> None:
    own = {"platform": "aks", "name": "gpu", "location": "westeurope", "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1}}
    with pytest.raises(InvalidStackError, match=r"nothing of this cluster can have been imported"):
        plan_config({**config(), "gpu-pools:cluster": own})


def test_each_property_that_would_change_is_a_problem() -> None:
    problems = changed("pool gpu", {"count": 1.0, "maxPods": 30}, {"count": 2.0, "maxPods": 30, "osDiskSizeGB": 64})
    assert [one.path for one in problems] == ["pool gpu: count", "pool gpu: osDiskSizeGB"]
    assert "would be 2" in problems[0].message
    assert "1, as it was imported" in problems[0].allowed
