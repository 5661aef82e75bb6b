"""The accounts that what observes a cluster has there: what each may do, how it logs in. All are in one namespace.

Rights in a namespace are given once that is there. Not here: who uses them.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sandbox.cluster.api import Api
    from sandbox.cluster.control_plane import Cluster

NAMESPACE: Final = "sandbox-monitoring"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
#: Seconds for which a token is good, and after which there is another one.
_TOKEN_SECONDS: Final = 7200
RENEW_SECONDS: Final = 3000.0
#: After which rights that were whole are looked at again: namespaces may have gone, and come back.
LOOK_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Account:
    """A service account.

    Attributes:
        name: its own, and what its roles are named after.
        reads: what it may list and watch: (namespace, group of the API, kinds); an empty namespace is everywhere.
    """

    name: str
    reads: tuple[tuple[str, str, tuple[str, ...]], ...]


#: As docs/reference/observability.md says.
PROMETHEUS: Final = Account(
    "prometheus",
    (
        ("", "", ("nodes",)),
        (OPERATOR_NAMESPACE, "", ("services", "pods")),
        (OPERATOR_NAMESPACE, "discovery.k8s.io", ("endpointslices",)),
        (VERIFIER_NAMESPACE, "", ("pods",)),
    ),
)
#: What its ClusterRole has for these two kinds (kubernetes/kube-state-metrics, cluster-role.yaml of its standard example).
KUBE_STATE: Final = Account("kube-state-metrics", (("", "", ("nodes", "pods")),))
ACCOUNTS: Final = (PROMETHEUS, KUBE_STATE)


def grant(api: Api, account: Account) -> bool:
    """Make an account, and give it its rights, where the namespaces are there by now; whether all are."""
    whole = True
    make(api, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": account.name}})
    for namespace in dict.fromkeys(where for where, _, _ in account.reads):
        if namespace and api.get(f"/api/v1/namespaces/{namespace}") is None:
            whole = False
            continue
        rules = [
            {"apiGroups": [group], "resources": list(kinds), "verbs": ["list", "watch"]}
            for where, group, kinds in account.reads
            if where == namespace
        ]
        base, role = _of(namespace)
        name = f"{NAMESPACE}-{account.name}"
        subjects = [{"kind": "ServiceAccount", "name": account.name, "namespace": NAMESPACE}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
        make(api, f"{base}/{role.lower()}s", {"metadata": {"name": name}, "rules": rules})
        make(api, f"{base}/{role.lower()}bindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects})
    return whole


def log_in(api: Api, cluster: Cluster, account: Account, folder: Path) -> Path:
    """Write a token of an account, and a kubeconfig with it. The token's file is read anew by who uses it (client-go).

    Returns:
        The kubeconfig.
    """
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account.name}/token"
    spec = {"expirationSeconds": _TOKEN_SECONDS}
    made = api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    write_atomic(make_folder(folder) / "token", made["status"]["token"])
    authority = base64.b64encode(cluster.ca_pem.encode()).decode()
    named = {"name": account.name}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": account.name,
        "clusters": [{**named, "cluster": {"server": cluster.server, "certificate-authority-data": authority}}],
        "users": [{**named, "user": {"tokenFile": str(folder / "token")}}],
        "contexts": [{**named, "context": {"cluster": account.name, "user": account.name}}],
    }
    write_atomic(folder / "kubeconfig", json.dumps(config))
    return folder / "kubeconfig"


def leave(api: Api) -> None:
    """Take back the rights, and the namespace with all that is in it."""
    places = [*_places(), f"/api/v1/namespaces/{NAMESPACE}"]
    for path in places:
        if api.get(path) is not None:
            api.delete(path)


def is_gone(api: Api) -> bool:
    """Whether the namespace has gone by now."""
    return api.get(f"/api/v1/namespaces/{NAMESPACE}") is None


def make(api: Api, collection: str, body: Mapping[str, Any]) -> None:
    """Make an object, unless it is there."""
    if api.get(f"{collection}/{body['metadata']['name']}") is None:
        api.create(collection, dict(body))


def _places() -> Iterator[str]:
    for account in ACCOUNTS:
        for namespace in dict.fromkeys(where for where, _, _ in account.reads):
            base, role = _of(namespace)
            for kind in ("bindings", "s"):
                yield f"{base}/{role.lower()}{kind}/{NAMESPACE}-{account.name}"


def _of(namespace: str) -> tuple[str, str]:
    """Where roles of a namespace are, and of which kind."""
    return (f"{_RBAC}/namespaces/{namespace}", "Role") if namespace else (_RBAC, "ClusterRole")
