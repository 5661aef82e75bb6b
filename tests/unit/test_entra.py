"""Entra ID in a stack file, and kubeconfigs that a cloud hands out for it; what would be trusted of them is attacked here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.changes import refused_cluster_changes
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.entra import LOGINS, SERVER_ID, EntraSettings, login_command, user_kubeconfig
from gpu_pools.text.errors import InvalidStackError

from .stacks import aks

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
SECRET = "eyJ-very-secret"  # noqa: S105
ARGS = ["get-token", "--environment", "AzurePublicCloud", "--server-id", SERVER_ID, "--login", "devicecode"]


def handed_out(**program: Any) -> dict[str, Any]:
    """A kubeconfig as AKS makes it."""
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "kubelogin", "args": ARGS, "env": None, **program}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://c.example", "certificate-authority-data": "Y2E="}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
        "users": [{"name": "u", "user": {"exec": exec_}}],
    }


def refused(config: object) -> str:
    with pytest.raises(InvalidStackError) as caught:
        user_kubeconfig(config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False), "azurecli")
    assert SECRET not in str(caught.value)
    return str(caught.value)


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    config = handed_out()
    change(config)
    return config


class TestKubeconfig:
    """What comes of a kubeconfig that a cloud hands out."""

    def test_it_logs_in_as_the_stack_says(self) -> None:
        kept = yaml.safe_load(user_kubeconfig(yaml.safe_dump(handed_out()), "workloadidentity"))
        args = kept["users"][0]["user"]["exec"]["args"]
        assert args == [*ARGS[:-2], "--login", "workloadidentity"]
        assert kept == changed(lambda config: config["users"][0]["user"]["exec"].update(args=args))

    @pytest.mark.parametrize(
        "key", ["token", "client-key-data", "client-certificate-data", "password", "tokenFile", "auth-provider"]
    )
    def test_attack_a_credential_beside_the_log_in(self, key: str) -> None:
        """A cloud's answer holds a key after all, or names a file of ours: it would get into the state and the outputs."""
        said = refused(changed(lambda config: config["users"][0]["user"].update({key: SECRET})))
        assert f"users have {key}" in said

    def test_attack_an_administrators_kubeconfig_in_its_place(self) -> None:
        """Entra ID is asked for, and the answer is a certificate."""
        said = refused(changed(lambda config: config["users"][0].update(user={"client-key-data": SECRET})))
        assert "kubelogin get-token is not what it runs" in said

    @pytest.mark.parametrize("command", ["sh", "/opt/kubelogin", "./kubelogin", "kubelogin.sh", "", None])
    def test_attack_another_program_than_kubelogin(self, command: str | None) -> None:
        """It would run on whatever machine uses the kubeconfig: a deploy's, a colleague's."""
        assert "kubelogin get-token is not what it runs" in refused(handed_out(command=command))

    @pytest.mark.parametrize(
        "args",
        [
            ["convert-kubeconfig", *ARGS[1:]],
            [*ARGS, "--authority-host", "https://evil.example"],
            [*ARGS, "--federated-token-file", "/etc/shadow"],
            [*ARGS, "--client-secret", SECRET],
            [*ARGS, "--login=ropc", "--username"],
            [*ARGS, "--pop-enabled"],
            [],
            None,
        ],
    )
    def test_attack_arguments_that_send_or_hold_something_else(self, args: list[str] | None) -> None:
        """kubelogin would ask another host, read a file, or be given a secret on its command line."""
        assert "kubelogin" in refused(handed_out(args=args))

    def test_attack_an_environment_for_kubelogin(self) -> None:
        """AZURE_AUTHORITY_HOST and its like turn the log-in to another host, LD_PRELOAD to another program."""
        assert "an environment" in refused(handed_out(env=[{"name": "LD_PRELOAD", "value": SECRET}]))

    @pytest.mark.parametrize("key", ["proxy-url", "insecure-skip-tls-verify", "certificate-authority"])
    def test_attack_a_way_to_the_cluster_through_others(self, key: str) -> None:
        """The token would go through somebody's proxy, or to whoever answers."""
        assert f"clusters have {key}" in refused(changed(lambda config: config["clusters"][0]["cluster"].update({key: SECRET})))

    def test_attack_a_second_user_hides_behind_the_first(self) -> None:
        """Every user counts, not only the one that the context names."""
        assert "users have token" in refused(
            changed(lambda config: config["users"].append({"name": "b", "user": {"token": SECRET}}))
        )

    @pytest.mark.parametrize(
        "text",
        [
            *("", "[]", "users: 7", "users: []\nclusters: []", "users: [{}]\nclusters: []", f"a: [{SECRET}", "\x00"),
            "users: [{user: {exec: {}}}]\nusers: [{user: {}}]",
        ],
    )
    def test_what_is_no_kubeconfig_is_refused_without_telling_it(self, text: str) -> None:
        refused(text)

    @pytest.mark.parametrize("flag", ["--environment", "--server-id", "--client-id", "--tenant-id", "--login"])
    def test_what_azure_gives_kubelogin_stays_but_the_way_to_log_in(self, flag: str) -> None:
        kept = yaml.safe_load(
            user_kubeconfig(yaml.safe_dump(handed_out(args=["get-token", flag, "x", "--server-id", "s"])), "msi")
        )
        given = [] if flag == "--login" else [flag, "x"]
        assert kept["users"][0]["user"]["exec"]["args"] == ["get-token", *given, "--server-id", "s", "--login", "msi"]

    def test_what_the_log_in_and_the_cluster_may_have(self) -> None:
        whole = changed(lambda config: config["clusters"][0]["cluster"].update({"tls-server-name": "c"}))
        whole["users"][0]["user"]["exec"].update(installHint="x", interactiveMode="Never", provideClusterInfo=True)
        kept = yaml.safe_load(user_kubeconfig(yaml.safe_dump(whole, sort_keys=False), "devicecode"))
        assert kept == whole
        assert list(kept) == ["apiVersion", "kind", "clusters", "contexts", "current-context", "users"]

    def test_all_that_is_wrong_is_told_once_and_by_its_key_alone(self) -> None:
        config = handed_out(args=["get-token", "--login"], env=[SECRET], token=SECRET, b=SECRET)
        config["users"] = [
            *config["users"],
            {"name": "b", "user": {"token": SECRET, "password": SECRET, "exec": None}},
            config["users"][0],
        ]
        config["clusters"].append({"name": "d", "cluster": {"proxy-url": SECRET, "a": SECRET}})
        assert "; nothing" not in (said := refused(config).partition("for kubelogin: ")[2].partition("\n")[0])
        assert said == (
            "kubelogin is given other arguments than --client-id, --environment, --login, --server-id, --tenant-id, "
            "kubelogin is given an environment, exec has b, exec has token, users have password, users have token, "
            "kubelogin get-token is not what it runs, clusters have a, clusters have proxy-url"
        )

    def test_a_kubeconfig_of_nobody(self) -> None:
        assert "for kubelogin: it has no user\n" in refused({"users": [], "clusters": []})
        assert "for kubelogin: it is not understood\n" in refused({"users": []})
        said = refused({"users": [], "clusters": []})
        assert "cluster.entra: Azure handed out another kubeconfig than one for kubelogin" in said

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["exec", "token", "args", "command", "env", "user", "x"]), inner, max_size=3)
            ),
            max_leaves=8,
        )
    )
    def test_whatever_a_user_is_what_comes_through_only_says_how_to_log_in(self, user: object) -> None:
        config = changed(lambda config: config["users"][0].update(user=user))
        try:
            kept = yaml.safe_load(user_kubeconfig(yaml.safe_dump(config), "azurecli"))
        except InvalidStackError:
            return
        (entry,) = kept["users"]
        assert set(entry["user"]) == {"exec"}
        assert entry["user"]["exec"]["command"] == "kubelogin"


class TestStackFile:
    """The section `entra`."""

    def test_local_accounts_are_off_unless_the_stack_says_otherwise(self) -> None:
        settings = plan_config(yaml.safe_load(aks(cluster={"entra": {"adminGroups": [GROUP]}}))["config"]).settings.cluster
        assert isinstance(settings, AksSettings)
        assert settings.entra == EntraSettings((GROUP,), azure_rbac=False, tenant=None, login="azurecli", local_accounts=False)

    def test_a_cluster_without_it_has_none(self) -> None:
        settings = plan_config(yaml.safe_load(aks())["config"]).settings.cluster
        assert isinstance(settings, AksSettings)
        assert settings.entra is None

    def test_the_log_in_that_is_tried_is_that_of_the_kubeconfig(self) -> None:
        command = login_command(EntraSettings((GROUP,), tenant=GROUP, login="msi"))
        assert command == ["kubelogin", "get-token", "--server-id", SERVER_ID, "--login", "msi", "--tenant-id", GROUP]

    def test_no_way_to_log_in_asks_a_person(self) -> None:
        assert LOGINS == ("azurecli", "azd", "azurepipelines", "msi", "spn", "workloadidentity")

    def test_the_token_is_for_the_api_servers_of_aks(self) -> None:
        """The same application in every cloud and tenant."""
        assert SERVER_ID == "6dae42f8-4368-4678-94ff-3960e28e3630"
        assert login_command(EntraSettings((GROUP,)))[-2:] == ["--login", "azurecli"]


def test_entra_id_is_never_taken_away() -> None:
    """Azure keeps it, whatever a preview promises."""
    with_it = {"aadProfile": {"managed": True}}
    (problem,) = refused_cluster_changes(with_it, {}, None)
    assert (problem.path, "localAccounts: true" in problem.remedy) == ("entra", True)
    for old, new in (({}, with_it), (with_it, with_it), ({}, {})):
        assert list(refused_cluster_changes(old, new, None)) == []
