"""The service accounts of the operands that talk to the API server, with their rights, as the GPU operator makes them.

Of device plugin and gpu-feature-discovery only, whose config-manager looks at its node (gpu-operator v26.7.0, assets/
state-device-plugin and assets/gpu-feature-discovery); what other operands do with the API server the daemon does for them. The
rights on OpenShift's security contexts are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.api import ApiError

if TYPE_CHECKING:
    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

#: Operand -> its account; the MPS daemon uses the plugin's.
ACCOUNTS = {
    "nvidia-device-plugin-daemonset": "nvidia-device-plugin",
    "nvidia-device-plugin-mps-control-daemon": "nvidia-device-plugin",
    "gpu-feature-discovery": "nvidia-gpu-feature-discovery",
}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_READ_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
_EXISTS = 409


class OperandAccounts:
    """The accounts of one cluster."""

    def __init__(self) -> None:
        """Nothing is known to be there."""
        self._made: set[tuple[str, str]] = set()

    def make(self, world: World, operand: str, owner: Json, where: str) -> None:
        """Make what an operand needs, unless it has been made for this owner."""
        account = ACCOUNTS.get(operand)
        if account is None or (account, str(owner["uid"])) in self._made:
            return
        meta = {"name": account, "ownerReferences": [owner]}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": where}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account}
        for path, body in (
            (f"/api/v1/namespaces/{where}/serviceaccounts", {"metadata": meta}),
            (f"{_RBAC}/clusterroles", {"metadata": meta, "rules": [_READ_NODES]}),
            (f"{_RBAC}/clusterrolebindings", {"metadata": meta, "roleRef": role, "subjects": [subject]}),
        ):
            _create(world, path, body)
        self._made.add((account, str(owner["uid"])))


def _create(world: World, path: str, body: Json) -> None:
    """Make an object; what a policy that is gone has left is replaced, since the garbage collector is about to take it."""
    try:
        world.api.create(path, body)
    except ApiError as error:
        if error.status != _EXISTS:
            raise
        known = world.api.get(f"{path}/{objects.name(body)}") or {}
        if (known.get("metadata") or {}).get("ownerReferences") != body["metadata"]["ownerReferences"]:
            world.api.delete(f"{path}/{objects.name(body)}")
            world.api.create(path, body)
