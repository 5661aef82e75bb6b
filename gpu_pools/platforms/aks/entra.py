"""Entra ID on AKS: what a stack says of it, and the kubeconfig of such a cluster, in which nothing is secret.

Local accounts are certificates of an administrator, the same for whoever may ask Azure for them, and nobody can take one back.
With Entra ID and without local accounts each user logs in as himself, by kubelogin, and the kubeconfig says only how.

Azure refuses local accounts off without Entra ID ("Since kubernetes version 1.25, disableLocalAccounts can only be set on Azure
AD integration enabled cluster", told in cilium/cilium#48265), so the two are one section here. It never switches Entra ID off
again (azure-aks-docs, entra-id-control-plane-authentication at fb060abe).

Not here: groups, roles and identities, which a platform team owns elsewhere; the legacy integration with one's own applications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.reading.azure_names import GROUP_ID, GUID, GUIDS, group_id
from gpu_pools.reading.fields import Kind, Row, flag, one_of, row, text
from gpu_pools.text.errors import InvalidStackError, Problem
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.reading.section import Section

#: The application that AKS's API servers are in Entra ID, the same for all (Azure/kubelogin, docs/book/src/concepts/aks.md).
SERVER_ID: Final = "6dae42f8-4368-4678-94ff-3960e28e3630"
KUBELOGIN: Final = "kubelogin"
#: kubelogin's ways to log in that ask nobody: a deploy has no one to ask. AAD_LOGIN_METHOD goes before (its UpdateFromEnv).
LOGINS: Final = ("azurecli", "azd", "azurepipelines", "msi", "spn", "workloadidentity")
#: What the user's entry may have; of the log-in program nothing decides what runs or what is sent where but these.
_EXEC: Final = frozenset({"apiVersion", "command", "args", "env", "installHint", "interactiveMode", "provideClusterInfo"})
_CLUSTER: Final = frozenset({"server", "certificate-authority-data", "tls-server-name"})
_FLAGS: Final = frozenset({"--environment", "--server-id", "--client-id", "--tenant-id", "--login"})


def _groups(section: Section, one: Row) -> tuple[str, ...]:
    groups = section.each(one.key, lambda value, path: group_id(value, path, section.problems))
    empty = section.raw(one.key) == []
    if empty or not section.given(one.key):
        section.problems.add(
            section.at(one.key),
            "the list is empty" if empty else "is missing",
            allowed=f"a list with the object id of a group at least, each {GUIDS}",
            remedy="Name a group that the deploying identity belongs to: with local accounts off, only its members can deploy. "
            f"{GROUP_ID}",
        )
    return groups


@dataclass(frozen=True)
class EntraSettings:
    """Who may log in to a cluster, and how."""

    admin_groups: tuple[str, ...] = row(
        "Object ids of the groups whose members administer the cluster; whoever deploys is in one.",
        Kind(_groups, "list[str]"),
        (),
        needed=True,
        sets="aadProfile.adminGroupObjectIDs",
        change="updates",
        doc="Object ids of groups; their members are cluster-admin. Whoever deploys must be in one, pipelines' identities too.",
    )
    azure_rbac: bool = row(
        "Whether role assignments of Azure count in the cluster, too.",
        flag(),
        default=False,
        sets="aadProfile.enableAzureRBAC",
        change="updates",
        doc="Whether role assignments of Azure count, too, e.g. `Azure Kubernetes Service RBAC Reader` for who only looks.",
    )
    local_accounts: bool = row(
        "Leave certificates of administrators to be had, while a cluster changes over.",
        flag(),
        default=False,
        sets="disableLocalAccounts",
        change="updates",
    )
    tenant: str | None = row(
        "The tenant of the groups; that of the subscription by default.",
        text(GUID, GUIDS),
        sets="aadProfile.tenantID",
        change="updates",
    )
    login: str = row(
        "kubelogin's way to log in, azurecli by default; AAD_LOGIN_METHOD in the environment goes before.",
        one_of(LOGINS, "Choose one that asks nobody, or leave it out: AAD_LOGIN_METHOD decides."),
        LOGINS[0],
        doc="How kubelogin logs in: `azurecli`, `azd`, `azurepipelines`, `msi`, `spn` or `workloadidentity`. "
        "`AAD_LOGIN_METHOD` in the environment goes before: a pipeline and a colleague deploy the same stack each in their way.",
    )


def login_command(entra: EntraSettings) -> list[str]:
    """What gets a token for any cluster of the tenant, as the kubeconfig has kubectl do."""
    tenant = ["--tenant-id", entra.tenant] if entra.tenant else []
    return [KUBELOGIN, "get-token", "--server-id", SERVER_ID, "--login", entra.login, *tenant]


def user_kubeconfig(text: str, login: str) -> str:
    """A cluster user's kubeconfig as it is used: by kubelogin, in the stack's way.

    Args:
        text: as Azure hands it out.
        login: kubelogin's way to log in.

    Raises:
        InvalidStackError: if it logs in otherwise. What it holds is never told.
    """
    try:
        config = load_yaml(text)
        wrong = [*_wrong(config)]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        wrong = ["it is not understood"]
    if wrong:
        problem = Problem(
            "cluster.entra",
            f"Azure handed out another kubeconfig than one for kubelogin: {', '.join(dict.fromkeys(wrong))}",
            "a kubeconfig that only says how to log in",
            "It was not used. Look whether Entra ID is on: az aks show --resource-group GROUP --name NAME --query aadProfile",
        )
        raise InvalidStackError([problem])
    for user in config["users"]:
        args = user["user"]["exec"]["args"]
        user["user"]["exec"]["args"] = [*_without_login(args), "--login", login]
    return yaml.safe_dump(config, sort_keys=False)


def _wrong(config: Mapping[str, Any]) -> Iterator[str]:
    """What of a kubeconfig is not the log-in by kubelogin, without its values."""
    if not config["users"]:
        yield "it has no user"
    for entry in config["users"]:
        user = entry["user"]
        yield from (f"users have {key}" for key in sorted(user) if key != "exec")
        program = user.get("exec") or {}
        args = program.get("args") or []
        if program.get("command") != KUBELOGIN or args[:1] != ["get-token"]:
            yield f"{KUBELOGIN} get-token is not what it runs"
        elif {*args[1::2]} - _FLAGS or len(args) % 2 == 0:
            yield f"{KUBELOGIN} is given other arguments than {', '.join(sorted(_FLAGS))}"
        if program.get("env"):
            yield f"{KUBELOGIN} is given an environment"
        yield from (f"exec has {key}" for key in sorted(program) if key not in _EXEC)
    # Files of whoever uses it are not a cloud's to name.
    clusters = [entry["cluster"] for entry in config["clusters"]]
    yield from (f"clusters have {key}" for one in clusters for key in sorted(one) if key not in _CLUSTER)


def _without_login(args: list[str]) -> list[str]:
    pairs = zip(args[1::2], args[2::2], strict=True)
    return [args[0], *(part for pair in pairs if pair[0] != "--login" for part in pair)]
