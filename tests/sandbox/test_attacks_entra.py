"""Who gets into a cluster with Entra ID, on a real API server: the user whom the groups let in, and nobody by anything else."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import shutil
import ssl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.components.kubernetes.ask_first import cluster_at
from gpu_pools.platforms.aks.entra import SERVER_ID, user_kubeconfig
from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.entra import BINDING, TENANT, USER, Tenant, write_kubelogin
from sandbox.clouds.host import simulated_host
from sandbox.cluster import control_plane as clusters
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.providers.kube_objects import Objects
from sandbox.system.pki import Pki, make_authority, short_lived_client
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.tools import PLATFORM_TOOLS
from tests.sandbox.strangers import needs_root, opened
from tests.sandbox.test_azure_cloud import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.programs
PROJECT = Path(__file__).resolve().parents[2]
GROUP, OTHERS = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11", "1f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
ENTRA = {"aadProfile": {"managed": True, "adminGroupObjectIDs": [GROUP]}, "disableLocalAccounts": True}
MADE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "before", "namespace": "default"}}
_FORBIDDEN, _UNAUTHORIZED = 403, 401


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="module")
def cloud(state: Path) -> Iterator[AzureCloud]:
    """A cluster that was made with local accounts, and has been changed over since; an object is from before."""
    tools = find_tools(Progress(), only=PLATFORM_TOOLS)
    host = replace(
        simulated_host(), boot=lambda folder, name: clusters.boot(folder, name, tools, machines=False), put=lambda *_: None
    )
    made = AzureCloud(state, host)
    made.put_group("dev", {"location": "westeurope"})
    made.put_cluster("dev", "gpu", CLUSTER)
    Objects(Api(yaml.safe_load(_handed_out(made)))).create(MADE, manager="test")
    made.put_cluster("dev", "gpu", {**CLUSTER, **ENTRA})
    yield made
    made.delete_cluster("dev", "gpu")


@pytest.fixture
def kubeconfig(cloud: AzureCloud, state: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a stack gets, with the sandbox's kubelogin on PATH and its user in the group."""
    write_kubelogin(state / "bin", state, sys.executable, PROJECT)
    monkeypatch.setenv("PATH", f"{state / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("AAD_LOGIN_METHOD", raising=False)
    Tenant(state).join([GROUP])
    return user_kubeconfig(_handed_out(cloud), "azurecli")


def _handed_out(cloud: AzureCloud) -> str:
    return base64.b64decode(cloud.credentials("dev", "gpu", admin=False)).decode()


def client(kubeconfig: str) -> Api:
    return Api(yaml.safe_load(kubeconfig))


def with_credential(kubeconfig: str, certificate: str, key: str) -> Api:
    config = yaml.safe_load(kubeconfig)
    encoded = {"client-certificate-data": certificate, "client-key-data": key}
    config["users"][0]["user"] = {name: base64.b64encode(text.encode()).decode() for name, text in encoded.items()}
    return Api(config)


def who(api: Api) -> dict[str, Any]:
    asked = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    user: dict[str, Any] = asked["status"]["userInfo"]
    return user


class TestTheUser:
    """He gets in, by every client that we use, and finds what was there."""

    def test_by_the_providers_client(self, kubeconfig: str) -> None:
        api = client(kubeconfig)
        assert (who(api)["username"], GROUP in who(api)["groups"]) == (USER, True)
        assert Objects(api).get("v1", "ConfigMap", "default", "before") is not None

    def test_by_the_client_of_commands_and_hooks(self, kubeconfig: str) -> None:
        found = cluster_at(kubeconfig, None).items("/api/v1/namespaces/default/configmaps")
        assert [one["metadata"]["name"] for one in found].count("before") == 1

    @pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
    def test_by_kubectl(self, kubeconfig: str, tmp_path: Path) -> None:
        (tmp_path / "kubeconfig").write_text(kubeconfig)
        command = ["kubectl", f"--kubeconfig={tmp_path / 'kubeconfig'}", "get", "configmap", "before", "--output=name"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "configmap/before\n"

    def test_a_client_that_lives_on_logs_in_again(self, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sandbox.cluster.api._RENEW_SECONDS", 0.0)
        api = client(kubeconfig)
        first, again = (who(api)["extra"]["authentication.kubernetes.io/credential-id"] for _ in range(2))
        assert first != again


class TestTheLogIn:
    """What kubelogin says when it does not let in, and what a client makes of it."""

    @pytest.mark.parametrize(
        ("arguments", "method", "told"),
        [
            (["--server-id", SERVER_ID], "magic", "'magic' is not a supported login method"),
            (["--server-id", GROUP], "", f"the application {GROUP} was not found"),
            (["--server-id", SERVER_ID, "--tenant-id", GROUP], "", f"the tenant {GROUP} was not found"),
        ],
    )
    @pytest.mark.usefixtures("kubeconfig")
    def test_is_refused(self, arguments: list[str], method: str, told: str) -> None:
        done = subprocess.run(
            ["kubelogin", "get-token", *arguments],
            env={**os.environ, "AAD_LOGIN_METHOD": method},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: ")
        assert told in done.stderr

    def test_a_client_says_so_at_once(self, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AAD_LOGIN_METHOD", "magic")
        with pytest.raises(UnreachableError, match="getting credentials: exec: executable kubelogin failed"):
            client(kubeconfig)
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(UnreachableError, match="getting credentials: exec: executable kubelogin not found"):
            client(kubeconfig)

    @pytest.mark.usefixtures("kubeconfig")
    def test_what_it_gives_is_good_for_minutes(self) -> None:
        done = subprocess.run(
            ["kubelogin", "get-token", "--server-id", SERVER_ID, "--tenant-id", TENANT], capture_output=True, check=True
        )
        status = json.loads(done.stdout)["status"]
        until = dt.datetime.fromisoformat(status["expirationTimestamp"])
        assert dt.timedelta(0) < until - dt.datetime.now(dt.UTC) <= dt.timedelta(minutes=10)


class TestAttacks:
    """What else is tried."""

    def test_attack_a_user_who_is_in_no_group_of_the_cluster(self, state: Path, kubeconfig: str) -> None:
        """He logs in with the same kubeconfig; the API server knows him and lets him do nothing."""
        Tenant(state).leave(GROUP)
        Tenant(state).join([OTHERS])
        api = client(kubeconfig)
        assert who(api)["username"] == USER
        with pytest.raises(ApiError) as refused:
            api.request("GET", "/api/v1/namespaces/default/configmaps")
        assert refused.value.status == _FORBIDDEN

    def test_attack_an_administrators_credential_of_azure(self, cloud: AzureCloud) -> None:
        """Local accounts are off: Azure has none to give, to whoever asks."""
        with pytest.raises(AzureError, match="Getting static credential is not allowed"):
            cloud.credentials("dev", "gpu", admin=True)

    def test_attack_the_kubeconfig_without_the_log_in(self, kubeconfig: str) -> None:
        """Whoever has read the state or the outputs, and is nobody in Entra ID."""
        config = yaml.safe_load(kubeconfig)
        config["users"][0]["user"] = {}
        with pytest.raises(ApiError) as refused:
            Api(config).request("GET", "/version")
        assert refused.value.status == _UNAUTHORIZED

    def test_attack_a_certificate_of_another_tenant(self, kubeconfig: str, tmp_path: Path) -> None:
        """Another authority says that its user is in the group."""
        make_authority(Pki(tmp_path), "tenant", "gpu-pools sandbox Entra ID")
        certificate, key, _ = short_lived_client(Pki(tmp_path), "tenant", USER, [GROUP, "system:masters"], dt.timedelta(hours=1))
        with pytest.raises((ApiError, UnreachableError, ssl.SSLError)):
            with_credential(kubeconfig, certificate, key).request("GET", "/version")

    def test_attack_yesterdays_certificate(self, state: Path, kubeconfig: str) -> None:
        """One that was let in keeps what he was given, and comes back when its minutes are over."""
        folder = Pki(state / "cloud" / "entra")
        certificate, key, _ = short_lived_client(folder, "tenant", USER, [GROUP], dt.timedelta(seconds=-1))
        with pytest.raises((ApiError, UnreachableError, ssl.SSLError)):
            with_credential(kubeconfig, certificate, key).request("GET", "/version")

    def test_attack_the_users_certificate_signs_another_one(self, state: Path, kubeconfig: str, tmp_path: Path) -> None:
        """What kubelogin gives is not an authority: a certificate that it has signed lets nobody in."""
        given = Tenant(state).log_in()["status"]
        (tmp_path / "tenant.crt").write_text(given["clientCertificateData"])
        (tmp_path / "tenant.key").write_text(given["clientKeyData"])
        certificate, key, _ = short_lived_client(Pki(tmp_path), "tenant", "x", ["system:masters"], dt.timedelta(hours=1))
        chain = f"{certificate}{given['clientCertificateData']}"
        with pytest.raises((ApiError, UnreachableError, ssl.SSLError)):
            with_credential(kubeconfig, chain, key).request("GET", "/version")

    @needs_root
    def test_attack_another_user_of_the_machine_looks_for_the_tenants_key(self, state: Path, kubeconfig: str) -> None:
        """Who can read it makes himself an administrator; nothing of the tenant or of kubelogin can be opened by others."""
        assert kubeconfig
        for folder in (state / "cloud", state / "bin", state / "clusters"):
            number, found = opened(folder)
            assert number > 1
            assert found == []

    def test_the_binding_is_aks_own_and_names_the_group_alone(self, kubeconfig: str) -> None:
        binding = Objects(client(kubeconfig)).get("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", BINDING)
        assert binding is not None
        assert [subject["name"] for subject in binding["subjects"]] == [GROUP]
        assert binding["roleRef"]["name"] == "cluster-admin"
