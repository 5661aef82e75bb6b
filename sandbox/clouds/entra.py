"""Stand-in for Entra ID as far as AKS goes: one tenant with one user, the sandbox's own, and what lets him into a cluster.

The tenant is an authority of its own. A cluster with Entra ID trusts it beside its own authority, and binds the groups that its
request names to cluster-admin, as AKS does (`aks-cluster-admin-binding-aad`); everything else is the real API server's RBAC. The
user is in every group that a request has named, since whoever deploys must be; `leave` takes him out of one.

What lets in is a client certificate of ten minutes with the groups in it, where Entra ID gives a token: an API server that takes
tokens of others asks somebody on a port, and the sandbox opens none that it can do without. Whoever can read the tenant's key can
make one: that is the sandbox's own user, whose folder it is (0700, the key 0600).

Not modelled: other users, role assignments of Azure (`enableAzureRBAC` is only remembered), conditional access.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from sandbox.system.files import locked, make_folder, read_json, write_atomic, write_json
from sandbox.system.pki import Pki, make_authority, short_lived_client

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TENANT: Final = "00000000-0000-0000-0000-0000000000aa"
USER: Final = "sandbox@entra.invalid"
BINDING: Final = "aks-cluster-admin-binding-aad"
_LIFETIME: Final = dt.timedelta(minutes=10)
_MODE: Final = 0o700
_KUBELOGIN: Final = """\
#!/bin/sh
# The stand-in for kubelogin of this sandbox.
PYTHONPATH={project} exec {python} -m sandbox.clouds.kubelogin {state} "$@"
"""


class Tenant:
    """The tenant of a sandbox."""

    def __init__(self, state: Path) -> None:
        """Open it; it is made when somebody first needs it.

        Args:
            state: the sandbox's state folder.
        """
        self._folder = state / "cloud" / "entra"
        self._record = self._folder / "user.json"

    def authority(self) -> str:
        """The certificate that clusters with Entra ID trust."""
        with locked(self._record):
            make_folder(self._folder)
            return make_authority(Pki(self._folder), "tenant", "gpu-pools sandbox Entra ID")

    def groups(self) -> list[str]:
        """The object ids of the groups that the user is in."""
        return sorted(read_json(self._record).get("groups") or [])

    def join(self, groups: Iterable[str]) -> None:
        """Have the user be in these groups."""
        self._keep({*self.groups(), *(group.lower() for group in groups)})

    def leave(self, group: str) -> None:
        """Take the user out of a group; what he was given before lasts its minutes."""
        self._keep({*self.groups()} - {group.lower()})

    def _keep(self, groups: set[str]) -> None:
        make_folder(self._folder)
        with locked(self._record):
            write_json(self._record, {"groups": sorted(groups)})

    def log_in(self) -> dict[str, Any]:
        """What lets the user in, as a client of Kubernetes takes it from a log-in program."""
        self.authority()
        certificate, key, until = short_lived_client(Pki(self._folder), "tenant", USER, self.groups(), _LIFETIME)
        return {
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "status": {
                "clientCertificateData": certificate,
                "clientKeyData": key,
                "expirationTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
        }


def write_kubelogin(folder: Path, state: Path, python: str, project: Path) -> None:
    """Put the log-in program of a sandbox where its engine looks for programs."""
    write_atomic(make_folder(folder) / "kubelogin", _KUBELOGIN.format(python=python, project=project, state=state), mode=_MODE)


def admin_binding(groups: Iterable[str]) -> dict[str, Any]:
    """The object by which AKS makes members of groups administrators."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": BINDING},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": one.lower()} for one in groups],
    }
