"""Programs that a test starts itself, as a pod's service account: what they may not do in a cluster they may not do here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.cluster.api import Api

_SECONDS = 3600


def kubeconfig_of(cluster: Path, api: Api, where: str, account: str) -> str:
    """A kubeconfig with a token of a service account, good for an hour."""
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _SECONDS}}
    token = api.create(f"/api/v1/namespaces/{where}/serviceaccounts/{account}/token", wanted)["status"]["token"]
    server = {"server": api.server, "certificate-authority": str(cluster / "pki" / "ca.crt")}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "clusters": [{"name": "pod", "cluster": server}],
            "users": [{"name": "pod", "user": {"token": token}}],
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        }
    )
