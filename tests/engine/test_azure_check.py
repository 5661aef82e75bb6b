"""The check of an Azure, by the real engine and program: every problem in the preview, nothing made, and what could not be asked.

One sandbox for the file, in which nothing is ever brought up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.system.files import read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK = """
config:
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing:
    whole: {exclusive: {}}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 2, zones: ["1", "3"], sharing: whole}
    - {name: cheap, vmSize: Standard_NC4as_T4_v3, count: 1, spot: {}, sharing: whole}
    - {name: far, vmSize: Standard_NC40ads_H100_v5, count: 1, sharing: whole}
"""
LACKS: dict[str, Any] = {
    "limits": {"StandardNCADSA100v4Family": 24, "lowPriorityCores": 0},
    "sizes": {
        "Standard_NC24ads_A100_v4": {"zones": ["1", "2"]},
        "Standard_NC40ads_H100_v5": {"restrictions": [{"type": "Location", "reasonCode": "NotAvailableForSubscription"}]},
    },
}


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    return shared_sandbox(STACK)


def azure_has(trial: Trial, **subscription: Any) -> None:
    folder = trial.folder / "cloud"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "azure-subscription.json").write_text(json.dumps(subscription))


def test_an_azure_that_has_everything_is_no_obstacle(trial: Trial) -> None:
    preview = trial.preview().ok()
    assert "not checked before the deploy" not in preview.text
    assert "gpu-cluster" in preview.text


def test_all_that_it_lacks_is_told_at_once_and_nothing_is_made(trial: Trial) -> None:
    azure_has(trial, **LACKS)
    trial.edit(lambda config: config["gpu-pools:cluster"].update(kubernetesVersion="1.99"))
    for run in (trial.engine("preview"), trial.engine("up", "--yes", "--skip-preview")):
        assert run.code != 0
        for told in (
            "5 problems in the stack file; nothing was created or changed.",
            "gpu-pools:pools[0].zones: Standard_NC24ads_A100_v4 is not in zone 3 of westeurope",
            "gpu-pools:pools[2].vmSize: Standard_NC40ads_H100_v5 cannot be had in westeurope",
            "gpu-pools:cluster.kubernetesVersion: AKS does not offer Kubernetes 1.99 in this region",
            'The nearest is "1.36"',
            "gpu-pools:pools[0]: 48 more vCPUs of the family StandardNCADSA100v4Family are asked for (gpu)",
            "gpu-pools:pools[1]: 4 more vCPUs of spot machines are asked for (cheap)",
        ):
            assert told in run.text, told
        assert "Traceback" not in run.text
    assert not [one for one in trial.exported().get("resources", []) if one["type"].startswith(("azure-native:", "kubernetes:"))]
    assert not any(read_json(trial.folder / "cloud/azure.json").values())


def test_a_mistyped_region_is_told_with_the_nearest(trial: Trial) -> None:
    trial.write(STACK)
    trial.edit(lambda config: config["gpu-pools:cluster"].update(location="swedencentrl"))
    run = trial.engine("preview")
    assert run.code != 0
    assert 'gpu-pools:cluster.location: this subscription has no region "swedencentrl"' in run.text
    assert "Did you mean `swedencentral`?" in run.text


def test_rights_that_are_missing_are_a_warning_that_names_them(trial: Trial) -> None:
    trial.write(STACK)
    azure_has(trial, rights={"without": ["Microsoft.Compute/skus/read", "Microsoft.Compute/locations/usages/read"]})
    preview = trial.engine("preview").ok()
    assert "not checked before the deploy: VM sizes and zones (Azure answers 403 AuthorizationFailed: the right" in preview.text
    assert "the right Microsoft.Compute/locations/usages/read is missing" in preview.text


def test_an_azure_that_is_not_found_is_a_warning(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for whoever is logged in to another Azure than the one that the environment names."""
    azure_has(trial)
    monkeypatch.setattr("sandbox.stack.engine.Engine._azure", lambda _: {"ARM_ENVIRONMENT": "elsewhere"})
    preview = trial.engine("preview").ok()
    assert "not checked before the deploy: anything that Azure has (there is no Azure called elsewhere" in preview.text
