"""A living AKS stack changes from an administrator's kubeconfig to Entra ID and back; nothing is replaced, nothing secret left.

One stack for the file; its tests run in the order they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sandbox.clouds.entra import Tenant
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Run, Trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    at_night("a cluster of its own, and little that others do not show"),
]

GROUP = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
STACK = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: shared}
"""


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def change(trial: Trial, **entra: Any) -> dict[str, str]:
    """Write the section; the steps that the engine would take, by the resource's name."""
    section = {"entra": {"adminGroups": [GROUP], **entra}}
    trial.edit(lambda config: config["gpu-pools:cluster"].update(section))
    return {step["urn"].rpartition("::")[2]: step["op"] for step in trial.planned_steps()}


def kubeconfig(trial: Trial) -> dict[str, Any]:
    told = trial.engine("stack", "output", "kubeconfig", "--show-secrets").ok().out
    config: dict[str, Any] = yaml.safe_load(told)
    return config


def urns(trial: Trial) -> dict[str, tuple[str, str | None]]:
    """Urn -> (id, when it was made): what was replaced would differ."""
    return {one["urn"]: (one.get("id", ""), one.get("created")) for one in trial.exported()["resources"]}


def test_to_entra_id_nothing_is_replaced(trial: Trial) -> None:
    """Held to the plan of a preview, as the pipelines deploy: it leaves open what the kubeconfig will be."""
    before, plan = urns(trial), str(trial.base / "plan.json")
    assert "client-key-data" in kubeconfig(trial)["users"][0]["user"]
    steps = change(trial)
    assert steps["gpu-cluster"] == "update"
    assert set(steps.values()) == {"update"}, steps
    trial.engine("preview", "--save-plan", plan).ok()
    trial.engine("up", "--yes", "--skip-preview", "--plan", plan).ok()
    assert urns(trial) == before
    assert set(kubeconfig(trial)["users"][0]["user"]) == {"exec"}
    assert trial.planned_steps() == []


def test_attack_looking_for_a_credential_in_the_whole_state(trial: Trial) -> None:
    """Whoever reads the state with its secrets finds no key, token or certificate of a client."""
    state = trial.engine("stack", "export", "--show-secrets").ok().out
    assert "kubelogin" in state
    for word in ("client-key-data", "client-certificate-data", "PRIVATE KEY", "clientKeyData", '\\"token\\"'):
        assert word not in state


def test_the_evidence_and_the_pods_are_read_with_it(trial: Trial) -> None:
    for command in (("gpu_pools", "evidence", trial.stack), ("gpu_pools.evidence.pods", trial.stack)):
        trial.run("shell", trial.stack, "python", "-m", *command).ok()


def test_who_is_taken_out_of_the_group_deploys_nothing_more(trial: Trial) -> None:
    """The log-in is what decides, also for who has the state and its passphrase."""
    Tenant(trial.folder).leave(GROUP)
    shown: Run = trial.run("shell", trial.stack, "python", "-m", "gpu_pools", "evidence", trial.stack)
    assert shown.code != 0
    assert 'User "sandbox@entra.invalid" cannot list resource "nodes"' in shown.text
    Tenant(trial.folder).join([GROUP])


def test_entra_id_taken_out_is_refused_in_the_preview(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:cluster"].pop("entra"))
    preview = trial.preview()
    assert preview.code != 0
    assert "entra: is not there, and the cluster has Entra ID; AKS never switches it off" in preview.text
    assert "localAccounts: true" in preview.text


def test_back_to_local_accounts_nothing_is_replaced(trial: Trial) -> None:
    before = urns(trial)
    assert change(trial, localAccounts=True)["gpu-cluster"] == "update"
    trial.up().ok()
    assert urns(trial) == before
    assert set(kubeconfig(trial)["users"][0]["user"]) == {"exec"}
