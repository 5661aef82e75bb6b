"""AKS with Entra ID: what the engine gets, and what is tried before it gets anything."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.components.aks.cluster import AksCluster
from gpu_pools.text.errors import InvalidStackError

from .conftest import KUBECONFIG, TOKEN
from .test_aks import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpu_pools.components.aks.cluster import AksClusterArgs

    from .conftest import Recorder

    Run = Callable[..., Recorder]

GROUP = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
ENTRA: AksClusterArgs = {**CLUSTER, "entra": {"admin_groups": [GROUP]}}


@pytest.fixture(autouse=True)
def _no_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AAD_LOGIN_METHOD", raising=False)


def kubeconfig_of(run: Run, args: AksClusterArgs, *, preview: bool = False) -> tuple[str, Recorder]:
    seen: list[str] = []
    recorded = run(lambda: AksCluster("c", args).kubeconfig.apply(seen.append), preview=preview)
    return "".join(seen), recorded


def refusal(run: Run) -> tuple[str, Recorder]:
    said: list[str] = []

    def program() -> None:
        with pytest.raises(InvalidStackError) as refused:
            AksCluster("c", ENTRA)
        said.append(str(refused.value))

    recorded = run(program)
    return said[0], recorded


class TestCluster:
    """What Azure is asked for."""

    def test_entra_id_comes_with_local_accounts_off(self, run: Run) -> None:
        inputs = run(lambda: AksCluster("c", ENTRA)).one("ManagedCluster").inputs
        assert inputs["aadProfile"] == {"managed": True, "adminGroupObjectIDs": [GROUP], "enableAzureRBAC": False}
        assert inputs["disableLocalAccounts"] is True

    def test_every_key_gets_there(self, run: Run) -> None:
        entra: Any = {"admin_groups": [GROUP], "azure_rbac": True, "tenant": GROUP, "local_accounts": True}
        inputs = run(lambda: AksCluster("c", {**CLUSTER, "entra": entra})).one("ManagedCluster").inputs
        wanted = {"managed": True, "adminGroupObjectIDs": [GROUP], "enableAzureRBAC": True, "tenantID": GROUP}
        assert (inputs["aadProfile"], inputs["disableLocalAccounts"]) == (wanted, False)

    def test_a_cluster_without_it_asks_for_what_it_always_did(self, run: Run, kubelogin: Path) -> None:
        inputs = run(lambda: AksCluster("c", CLUSTER)).one("ManagedCluster").inputs
        assert not {"aadProfile", "disableLocalAccounts"} & set(inputs)
        assert not kubelogin.with_name("kubelogin.calls").exists()


class TestKubeconfig:
    """What comes out of the stack."""

    def test_attack_looking_for_a_credential_in_the_outputs_and_the_state(self, run: Run) -> None:
        """Whoever reads the kubeconfig, in outputs or state, learns how to log in and nothing to log in with."""
        text, recorded = kubeconfig_of(run, ENTRA)
        config = yaml.safe_load(text)
        (user,) = config["users"]
        assert set(user["user"]) == {"exec"}
        assert set(config["clusters"][0]["cluster"]) == {"server", "certificate-authority-data"}
        assert TOKEN not in f"{recorded.resources}"
        assert recorded.is_secret("c-kubernetes", "kubeconfig")

    def test_attack_an_answer_that_holds_an_administrators_token_is_not_used(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The cloud hands out another kubeconfig than was asked for; it gets nowhere."""
        monkeypatch.setattr(
            "tests.components.conftest.ENTRA_KUBECONFIG", "clusters: []\nusers: [{name: u, user: {token: very-secret}}]\n"
        )
        with pytest.raises(InvalidStackError) as refused:
            kubeconfig_of(run, ENTRA)
        assert "users have token" in str(refused.value)
        assert "very-secret" not in str(refused.value)

    def test_a_preview_of_the_change_over_leaves_open_what_it_will_be(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """The cluster has no Entra ID yet, so that Azure answers with an administrator's: it is not part of the plan."""
        monkeypatch.setattr("tests.components.conftest.ENTRA_KUBECONFIG", KUBECONFIG)
        text, recorded = kubeconfig_of(run, ENTRA, preview=True)
        assert text == ""
        assert "very-secret-token" not in f"{recorded.resources}"
        assert recorded.of("providers:kubernetes")

    def test_login_is_what_the_stack_says(self, run: Run) -> None:
        entra: Any = {"admin_groups": [GROUP], "login": "workloadidentity"}
        text, _ = kubeconfig_of(run, {**CLUSTER, "entra": entra})
        assert yaml.safe_load(text)["users"][0]["user"]["exec"]["args"][-2:] == ["--login", "workloadidentity"]


class TestLogIn:
    """It is tried before anything is made."""

    def test_kubelogin_is_asked_as_the_providers_will_ask_it(self, run: Run, kubelogin: Path) -> None:
        run(lambda: AksCluster("c", ENTRA))
        calls = kubelogin.with_name("kubelogin.calls").read_text().splitlines()
        assert calls == ["get-token --server-id 6dae42f8-4368-4678-94ff-3960e28e3630 --login azurecli"]

    def test_without_kubelogin_nothing_is_made(self, run: Run, kubelogin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", os.pathsep.join(folder for folder in os.environ["PATH"].split(":") if not _has_it(folder)))
        said, recorded = refusal(run)
        assert "AksCluster(c).entra: there is no kubelogin on PATH" in said
        assert "https://azure.github.io/kubelogin" in said
        assert recorded.of("ManagedCluster") == []
        assert kubelogin.exists()

    @pytest.mark.parametrize(
        ("method", "remedy"), [(None, "az login"), ("workloadidentity", "AZURE_CLIENT_ID"), ("other", "login-modes")]
    )
    def test_who_is_not_logged_in_hears_how(
        self, run: Run, kubelogin: Path, monkeypatch: pytest.MonkeyPatch, method: str | None, remedy: str
    ) -> None:
        if method:
            monkeypatch.setenv("AAD_LOGIN_METHOD", method)
        kubelogin.write_text("#!/bin/sh\necho 'Error: failed to get token: Please run az\x1b[2J' >&2\necho more >&2\nexit 1\n")
        said, recorded = refusal(run)
        assert f"kubelogin does not log in by {method or 'azurecli'}: failed to get token: Please run az\\x1b[2J" in said
        assert remedy in said.partition("remedy:")[2]
        assert recorded.of("ManagedCluster") == []

    def test_a_preview_warns_and_goes_on(self, run: Run, kubelogin: Path, caplog: pytest.LogCaptureFixture) -> None:
        kubelogin.write_text("#!/bin/sh\nexit 3\n")
        _, recorded = kubeconfig_of(run, ENTRA, preview=True)
        assert recorded.of("ManagedCluster")
        assert "a deploy would stop here: kubelogin does not log in by azurecli: it ended with 3" in caplog.text

    def test_a_log_in_that_waits_for_somebody_is_not_waited_for(
        self, run: Run, kubelogin: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gpu_pools.components.aks.entra_login._SECONDS", 0.2)
        kubelogin.write_text("#!/bin/sh\nexec sleep 30\n")
        said, _ = refusal(run)
        assert "it was not done after 0.2 s" in said


def _has_it(folder: str) -> bool:
    return shutil.which("kubelogin", path=folder) is not None
