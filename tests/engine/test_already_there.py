"""What another has put into a cluster that is there is found in the preview, through its users' log-in; nothing is installed.

The cluster is the sandbox's AKS cluster of a platform team, with Entra ID; nothing is brought up in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK = """
config:
  gpu-pools:cluster:
    platform: aks
    existing: {resourceGroup: platform-rg, name: platform}
  gpu-pools:sharing:
    whole: {exclusive: {}}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: whole}
"""
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def workload(name: str, image: str) -> dict[str, Any]:
    labels = {"theirs": name}
    container = {"name": "c", "image": image}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_an_operator_and_an_nfd_of_another_are_refused(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    clean = trial.preview().ok()
    assert "not looked for before the deploy" not in clean.text
    trial.api().create(DEPLOYMENTS, workload("their-operator", "nvcr.io/nvidia/gpu-operator:v25.3.0"))
    refused = trial.engine("preview")
    assert refused.code != 0
    assert (
        "gpu-pools:operator.install: the cluster has a GPU operator already (Deployment default/their-operator)" in refused.text
    )
    assert "Write `install: false` there" in refused.text

    trial.api().delete(f"{DEPLOYMENTS}/their-operator")
    trial.api().create(DEPLOYMENTS, workload("nfd-master", "registry.k8s.io/nfd/node-feature-discovery:v0.17.0"))
    refused = trial.engine("up", "--yes", "--skip-preview")
    assert refused.code != 0
    assert "gpu-pools:nodeFeatureDiscovery.install: the cluster has Node Feature Discovery already" in refused.text
    assert trial.api().get("/api/v1/namespaces/node-feature-discovery") is None

    trial.edit(lambda config: config.update({"gpu-pools:nodeFeatureDiscovery": {"install": False}}))
    trial.engine("preview").ok()
