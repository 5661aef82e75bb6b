"""The client of clusters against a server that speaks HTTP: log-ins, limits, refusals, and what is never said."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.kubernetes_api.cluster_api import COMMAND, ClusterApi, Limits
from gpu_pools.kubernetes_api.errors import ClusterError, needed_right
from gpu_pools.kubernetes_api.login import Kubeconfig
from sandbox.system.pki import make_pki
from tests.api_server import ApiServer, Refusal, kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.system.pki import Pki

SECRET = "very-secret-token"  # noqa: S105
NODES = "/api/v1/nodes"
SOUND = "contexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\nclusters: [{name: k, cluster: {}}]\n"
EXEC = "client.authentication.k8s.io/v1"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    made = ApiServer()
    made.items["nodes"] = [{"metadata": {"name": "a"}}]
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki") / "pki", "10.96.0.1")


def at(server: ApiServer, *, user: dict[str, Any] | None = None, limits: Limits = COMMAND) -> ClusterApi:
    return ClusterApi(Kubeconfig(kubeconfig(server.server_address[1], user=user)), limits)


def program(folder: Path, script: str) -> dict[str, Any]:
    """A user who logs in by a program."""
    path = folder / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return {"exec": {"apiVersion": EXEC, "command": str(path), "interactiveMode": "Never"}}


def credential(**status: str) -> str:
    return f"cat <<'END'\n{json.dumps({'apiVersion': EXEC, 'kind': 'ExecCredential', 'status': status})}\nEND"


class TestTheLogIn:
    def test_a_token_is_sent(self, server: ApiServer) -> None:
        assert [one["metadata"]["name"] for one in at(server).items(NODES)] == ["a"]
        assert server.headers[0]["authorization"] == "Bearer t"

    def test_a_program_gives_the_token_and_runs_once(self, server: ApiServer, tmp_path: Path) -> None:
        api = at(server, user=program(tmp_path, f"echo ran >>{tmp_path}/runs\n{credential(token=SECRET)}"))
        api.items(NODES)
        api.items(NODES)
        assert {one["authorization"] for one in server.headers} == {f"Bearer {SECRET}"}
        assert (tmp_path / "runs").read_text() == "ran\n"

    def test_a_program_whose_token_has_expired_is_run_again(self, server: ApiServer, tmp_path: Path) -> None:
        api = at(server, user=program(tmp_path, f"echo ran >>{tmp_path}/runs\n{credential(token=SECRET)}"))
        server.items["nodes"] = Refusal(401, "Unauthorized")
        with pytest.raises(ClusterError) as refused:
            api.items(NODES)
        assert (refused.value.status, refused.value.remedy) == (
            401,
            "Log in again, or use a kubeconfig whose credentials are valid.",
        )
        server.items["nodes"] = []
        assert api.items(NODES) == []
        assert (tmp_path / "runs").read_text() == "ran\nran\n"

    def test_a_token_that_is_about_to_expire_is_renewed(self, server: ApiServer, tmp_path: Path) -> None:
        script = f"echo ran >>{tmp_path}/runs\n{credential(token=SECRET, expirationTimestamp='2020-01-01T00:00:00Z')}"
        api = at(server, user=program(tmp_path, script))
        api.items(NODES)
        assert len((tmp_path / "runs").read_text().split()) > 1

    @pytest.mark.parametrize(
        ("script", "said"),
        [
            ("echo 'Error: Please run az login' >&2; exit 1", "failed: exec: process returned 1. Error: Please run az login"),
            (f"echo {SECRET}", "failed: exec: failed to decode process output"),
            (credential(), "failed: exec: missing token or clientCertificateData"),
        ],
    )
    def test_a_program_that_fails_is_told_and_nobody_is_asked_without_credentials(
        self, server: ApiServer, tmp_path: Path, script: str, said: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(ClusterError) as refused:
            at(server, user=program(tmp_path, script)).items(NODES)
        assert said in refused.value.message
        assert SECRET not in f"{refused.value.explained}{capfd.readouterr()}"
        assert server.asked == []

    def test_a_program_that_is_missing_is_told_with_its_remedy(self, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
        user = {"exec": {"apiVersion": EXEC, "command": "kubelogin", "args": ["get-token"]}}
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(ClusterError) as refused:
            at(server, user=user).items(NODES)
        assert refused.value.message == "getting credentials: kubelogin is not installed"
        assert refused.value.remedy.startswith("Install kubelogin, or log in (az login; ")

    def test_a_program_that_never_ends_does_not_keep_a_command(self, server: ApiServer, tmp_path: Path) -> None:
        begun = time.monotonic()
        with pytest.raises(ClusterError, match=r"no whole answer within 0\.5 s"):
            at(server, user=program(tmp_path, "exec sleep 20"), limits=Limits(1, 1, 0.5)).items(NODES)
        assert time.monotonic() - begun < 15

    def test_an_old_log_in_is_no_anonymous_one(self, server: ApiServer) -> None:
        with pytest.raises(ClusterError, match="auth-provider that is not supported"):
            at(server, user={"auth-provider": {"name": "azure", "config": {"access-token": SECRET}}}).items(NODES)
        assert server.asked == []

    def test_who_impersonates_somebody_is_that_user(self, server: ApiServer) -> None:
        at(server, user={"token": "t", "as": "jane", "as-groups": ["dev"]}).items(NODES)
        assert (server.headers[0]["impersonate-user"], server.headers[0]["impersonate-group"]) == ("jane", "dev")
        with pytest.raises(ClusterError, match="several groups"):
            at(server, user={"token": "t", "as": "jane", "as-groups": ["a", "b"]}).items(NODES)

    def test_the_account_of_a_pod_is_taken_where_there_is_no_kubeconfig(
        self, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with _secure(pki) as server:
            (tmp_path / "token").write_text(SECRET)
            (tmp_path / "ca.crt").write_text(pki.text("ca.crt"))
            monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_address[1]))
            monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
            monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
            assert ClusterApi(Kubeconfig()).items(NODES) == []
            assert {one["authorization"] for one in server.headers} == {f"bearer {SECRET}"}


class TestKubeconfigs:
    def test_the_files_of_the_environment_are_merged_and_the_first_context_counts(
        self, server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As kubectl does; the client itself takes the last."""
        other = ApiServer()
        (tmp_path / "first").write_text(kubeconfig(server.server_address[1], "one"))
        second = yaml.safe_load(kubeconfig(other.server_address[1], "two", user={"token": "second"}))
        for kind in ("cluster", "user"):
            second[f"{kind}s"][0]["name"] = second["contexts"][0]["context"][kind] = f"second-{kind}"
        (tmp_path / "second").write_text(yaml.safe_dump(second))
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none{os.pathsep}{tmp_path}/first{os.pathsep}{tmp_path}/second")
        ClusterApi(Kubeconfig()).items(NODES)
        assert (len(server.asked), len(other.asked)) == (1, 0)
        other.items["nodes"] = []
        ClusterApi(Kubeconfig(context="two")).items(NODES)
        assert other.headers[0]["authorization"] == "Bearer second"
        other.shutdown()
        other.server_close()

    def test_a_file_may_have_any_name_and_names_files_beside_it(self, pki: Pki, tmp_path: Path) -> None:
        with _secure(pki) as server:
            config = yaml.safe_load(kubeconfig(server.server_address[1]))
            config["clusters"][0]["cluster"] = {
                "server": f"https://127.0.0.1:{server.server_address[1]}",
                "certificate-authority": "ca.crt",
            }
            config["users"][0]["user"] = {"tokenFile": "token"}
            (tmp_path / "a:b").write_text(yaml.safe_dump(config))
            (tmp_path / "ca.crt").write_text(pki.text("ca.crt"))
            (tmp_path / "token").write_text(SECRET)
            assert ClusterApi(Kubeconfig(path=tmp_path / "a:b")).items(NODES) == []
            assert server.headers[0]["authorization"] == f"Bearer {SECRET}"

    def test_without_any_it_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", "")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with pytest.raises(ClusterError, match="there is no kubeconfig") as refused:
            ClusterApi(Kubeconfig()).items(NODES)
        assert "KUBECONFIG" in refused.value.remedy

    def test_a_context_that_is_not_there_is_told_with_those_that_are(self, server: ApiServer) -> None:
        with pytest.raises(ClusterError, match="no context x") as refused:
            ClusterApi(Kubeconfig(server.kubeconfig, context="x")).items(NODES)
        assert refused.value.remedy == "Its contexts are: c. Use one of them."

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "1",
            "a: [",
            f"users: [{{name: u, token: {SECRET}}}]\ncontexts: [{{name: c, context: {{user: u}}}}]\ncurrent-context: c",
            f"users: [{{name: u, {SECRET}: 1}}]\ncontexts: {SECRET}\ncurrent-context: c",
            f"{SOUND}users: [{{name: u, user: {{exec: {{command: , env: [{{name: A, value: {SECRET}}}]}}}}}}]",
        ],
    )
    def test_one_that_is_broken_is_told_and_not_quoted(
        self, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text(text)
        for source in (Kubeconfig(text), Kubeconfig(path=tmp_path / "file"), Kubeconfig(path=tmp_path / "none")):
            with pytest.raises(ClusterError) as refused:
                ClusterApi(source).items(NODES)
            assert refused.value.remedy
            assert SECRET not in f"{refused.value.explained}{source!r}{capfd.readouterr()}"

    def test_keys_are_files_for_as_long_as_they_are_needed(
        self, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with _secure(pki) as server:
            text = _secure_kubeconfig(server, pki)
            for _ in range(2):
                with ClusterApi(Kubeconfig(text)) as api:
                    assert api.items(NODES) == []
                    files = [path for path in tmp_path.rglob("*") if path.is_file()]
                    assert files
                    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
                assert list(tmp_path.iterdir()) == []


class TestTheConnection:
    def test_a_server_that_cannot_be_reached_is_told_with_its_address(self) -> None:
        with pytest.raises(ClusterError, match=r"http://127\.0\.0\.1:1 cannot be reached: .*refused") as refused:
            ClusterApi(Kubeconfig(kubeconfig(1))).items(NODES)
        assert refused.value.status is None
        assert "VPN or proxy" in refused.value.remedy

    def test_a_password_in_an_address_is_not_told(self) -> None:
        text = kubeconfig(1).replace("http://", f"http://me:{SECRET}@")
        with pytest.raises(ClusterError) as refused:
            ClusterApi(Kubeconfig(text)).items(NODES)
        assert SECRET not in refused.value.explained

    def test_a_certificate_that_nobody_trusts_is_told(self, pki: Pki, tmp_path: Path) -> None:
        other = make_pki(tmp_path / "pki", "10.96.0.1")
        with (
            _secure(pki) as server,
            pytest.raises(ClusterError, match="no secure connection to https:") as refused,
        ):
            ClusterApi(Kubeconfig(_secure_kubeconfig(server, other))).items(NODES)
        assert "certificate authority" in refused.value.remedy

    def test_a_certificate_may_be_left_unchecked_and_nothing_is_printed_of_it(
        self, pki: Pki, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with _secure(pki) as server:
            text = _secure_kubeconfig(server, pki, **{"insecure-skip-tls-verify": True})
            assert ClusterApi(Kubeconfig(text)).items(NODES) == []
        assert capfd.readouterr() == ("", "")

    def test_a_server_that_says_nothing_is_not_waited_for(self, server: ApiServer) -> None:
        server.is_silent = True
        with pytest.raises(ClusterError, match="cannot be reached: Read timed out"):
            at(server, limits=Limits(1, 0.3, 30)).items(NODES)
        with pytest.raises(ClusterError, match=r"no whole answer within 0\.3 s"):
            at(server, limits=Limits(1, 30, 0.3)).items(NODES)

    def test_a_proxy_of_the_kubeconfig_is_used(self, server: ApiServer) -> None:
        config = yaml.safe_load(kubeconfig(1))
        config["clusters"][0]["cluster"] = {
            "server": "http://10.255.255.1",
            "proxy-url": f"http://127.0.0.1:{server.server_address[1]}",
        }
        ClusterApi(Kubeconfig(yaml.safe_dump(config))).items(NODES)
        assert server.asked[0].startswith("http://10.255.255.1")


class TestAnswers:
    def test_lists_come_page_by_page(self, server: ApiServer) -> None:
        server.pages["nodes"] = {
            "": {"metadata": {"continue": "x y"}, "items": [{"metadata": {"name": "a"}}, 1]},
            "x y": {"metadata": {}, "items": [{"metadata": {"name": "b"}}]},
        }
        assert [one["metadata"]["name"] for one in at(server).items(NODES)] == ["a", "b"]
        assert "limit=500" in server.asked[0]

    def test_a_list_without_end_is_not_read_for_ever(self, server: ApiServer) -> None:
        server.pages["nodes"] = {
            "": {"metadata": {"continue": "x"}, "items": []},
            "x": {"metadata": {"continue": "x"}, "items": []},
        }
        with pytest.raises(ClusterError, match=r"no whole answer within 0\.3 s"):
            at(server, limits=Limits(1, 1, 0.3)).items(NODES)
        time.sleep(0.2)
        asked = len(server.asked)
        time.sleep(0.2)
        assert len(server.asked) == asked

    @pytest.mark.parametrize("answer", [b"", b"{", b"[]", b"1", b'{"items": 1}', b'{"items": null}', b"[" * 100_000])
    def test_what_is_no_list_is_an_error(self, server: ApiServer, answer: bytes) -> None:
        server.items["nodes"] = answer
        with pytest.raises(ClusterError, match="the answer is not"):
            at(server).items(NODES)

    def test_a_right_that_is_missing_is_named(self, server: ApiServer) -> None:
        server.items["configmaps"] = Refusal(403, 'configmaps is forbidden: User "a" cannot list\x1b[2J')
        with pytest.raises(ClusterError) as refused:
            at(server).items("/api/v1/namespaces/gpu-operator/configmaps")
        assert (refused.value.status, "\x1b" in refused.value.message) == (403, False)
        right = "list configmaps in the namespace gpu-operator"
        assert refused.value.explained.endswith(f"Ask the cluster's administrator for the right to {right}.")

    @pytest.mark.parametrize(
        ("method", "path", "right"),
        [
            ("GET", "/api/v1/nodes/a", "get nodes"),
            ("GET", "/apis/apps/v1/daemonsets", "list daemonsets"),
            ("PATCH", "/api/v1/nodes/a/status", "patch nodes/status"),
            ("POST", "/api/v1/namespaces/n/pods/p/eviction", "create pods/eviction in the namespace n"),
            ("DELETE", "/api/v1/namespaces/n/pods/p", "delete pods in the namespace n"),
            ("GET", "/api/v1/namespaces", "list namespaces"),
            ("GET", "/api/v1/namespaces/n", "get namespaces"),
            ("GET", "/apis", "read /apis"),
        ],
    )
    def test_rights_are_named_as_rbac_has_them(self, method: str, path: str, right: str) -> None:
        assert needed_right(method, path) == right

    def test_who_is_busy_is_asked_again_for_what_changes_nothing(self, server: ApiServer) -> None:
        server.items["nodes"] = Refusal(429, "too many requests")
        server.admits["eviction"] = lambda _: Refusal(429, "Cannot evict pod")
        with pytest.raises(ClusterError, match="too many requests"):
            at(server).items(NODES)
        assert len(server.asked) == 4
        with pytest.raises(ClusterError) as refused:
            at(server).create("/api/v1/namespaces/n/pods/p/eviction", {})
        assert (refused.value.status, len(server.asked)) == (429, 5)

    def test_changes_say_who_made_them(self, server: ApiServer) -> None:
        server.admits |= dict.fromkeys(("a", "p"), lambda sent: sent)
        with ClusterApi(Kubeconfig(server.kubeconfig), manager="gpu-pools-repair") as api:
            assert api.patch("/api/v1/nodes/a", {"metadata": {"labels": {"b": None}}}) == {"metadata": {"labels": {"b": None}}}
            assert api.delete("/api/v1/namespaces/n/pods/p", "u")["preconditions"] == {"uid": "u"}
        assert server.asked == ["PATCH /api/v1/nodes/a?fieldManager=gpu-pools-repair", "DELETE /api/v1/namespaces/n/pods/p"]
        assert server.headers[0]["content-type"] == "application/strategic-merge-patch+json"


def test_nobody_who_asks_no_cluster_loads_the_client() -> None:
    """It takes a third of a second."""
    everything = (
        "import gpu_pools.cli.main, gpu_pools.cli.repair, gpu_pools.cli.evidence, gpu_pools.cli.bench, gpu_pools.cli.drift"
    )
    script = f"import sys; {everything}, gpu_pools.adopting.live; print({{'kubernetes', 'urllib3'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout == "set()\n"


class _secure:  # noqa: N801 - as a function reads
    """A server that speaks TLS, as long as a block runs."""

    def __init__(self, pki: Pki) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki["apiserver.crt"], pki["apiserver.key"])
        self._server = ApiServer(context)
        self._server.items["nodes"] = []

    def __enter__(self) -> ApiServer:
        return self._server

    def __exit__(self, *_: object) -> None:
        threading.Thread(target=self._server.shutdown).start()
        self._server.server_close()


def _secure_kubeconfig(server: ApiServer, pki: Pki, **more: object) -> str:
    authority = base64.b64encode(pki.text("ca.crt").encode()).decode()
    config = yaml.safe_load(kubeconfig(server.server_address[1]))
    config["clusters"][0]["cluster"] = {
        "server": f"https://127.0.0.1:{server.server_address[1]}",
        **(more or {"certificate-authority-data": authority}),
    }
    return str(yaml.safe_dump(config))
