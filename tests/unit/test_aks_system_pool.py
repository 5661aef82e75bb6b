"""Whether the system pool is to be raised, what the request says, and what users are told."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.platforms.aks.answers import MadeCluster, MadePool
from gpu_pools.platforms.aks.system_pool import Raise, announced, due, left_to_others, raise_request, to_raise


def inputs(version: str | None = "1.34") -> dict[str, Any]:
    return {"resourceGroupName": "dev", "resourceName": "gpu", "kubernetesVersion": version}


def made(version: str, **pools: str) -> MadeCluster:
    return MadeCluster("westeurope", version, {name: MadePool("d4", 1, version=its) for name, its in pools.items()})


def answered(**properties: Any) -> dict[str, Any]:
    return {"id": "x", "name": "system", "properties": {"provisioningState": "Succeeded", **properties}}


@pytest.mark.parametrize(
    ("cluster", "step"),
    [
        (made("1.34.2", system="1.33.9"), Raise("1.33.9", "1.34.2")),
        (made("1.34.10", system="1.34.9"), Raise("1.34.9", "1.34.10")),
        (made("1.34.2", system="1.34.2"), None),
        # Of GPU pools it is not the question, nor of what Azure does not tell.
        (made("1.34.2", gpu="1.33.9"), None),
        (made("1.34.2", system=""), None),
        (None, None),
    ],
)
def test_it_is_due_where_it_is_behind_its_control_plane(cluster: MadeCluster | None, step: Raise | None) -> None:
    assert to_raise(cluster) == step


@pytest.mark.parametrize(
    ("pool", "step"),
    [
        (answered(currentOrchestratorVersion="1.33.9"), Raise("1.33.9", "1.34.2")),
        (answered(currentOrchestratorVersion="1.34.2"), None),
        (answered(currentOrchestratorVersion="1.34.2", provisioningState="Failed"), Raise("1.34.2", "1.34.2")),
        (answered(), None),
    ],
)
def test_one_that_has_failed_is_asked_for_again(pool: dict[str, Any], step: Raise | None) -> None:
    assert due("1.34.2", pool) == step


def test_the_request_is_the_pool_as_it_is_with_another_version() -> None:
    shown = {
        "eTag": "e",
        "currentOrchestratorVersion": "1.33.9",
        "nodeImageVersion": "i",
        "creationData": {"sourceResourceId": "s"},
    }
    kept = {"count": 3, "mode": "System", "powerState": {"code": "Running"}, "type": "VirtualMachineScaleSets"}
    body = raise_request(answered(orchestratorVersion="1.33", **shown, **kept), "1.34.2")
    assert body == {"properties": {**kept, "orchestratorVersion": "1.34.2"}}


def test_a_raised_version_says_from_where_to_where_and_what_it_does() -> None:
    pools = [{"name": "gpu"}, {"name": "system", "currentOrchestratorVersion": "1.33.9"}]
    told = announced(inputs("1.33"), inputs("1.34"), pools)
    assert told is not None
    assert told.startswith(
        "the pool `system` is raised from 1.33.9 to Kubernetes 1.34 after the control plane and before the GPU"
    )
    assert announced(inputs("1.33"), inputs("1.34"), None) == told.replace(" from 1.33.9", "")


@pytest.mark.parametrize("new", ["1.34", None])
def test_else_nothing_is_said(new: str | None) -> None:
    assert announced(inputs("1.34"), inputs(new), []) is None


def test_what_cannot_be_asked_for_is_left_with_the_command_and_the_reason() -> None:
    told = left_to_others("dev", "gpu", "1.34", "no login")
    assert "by itself (no login). After the deploy: az aks nodepool upgrade --resource-group dev --cluster-name gpu" in told
    assert told.endswith("--name system --kubernetes-version 1.34")
