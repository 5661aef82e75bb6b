"""Which nodes may change now: each holds a rollout slot, one of some Leases of the pool, by its name.

The update of a DaemonSet is bounded by Kubernetes, but old pods that are not available are replaced all at once, beside that
bound (kubernetes v1.36, pkg/controller/daemon/update.go). So a node takes a slot before it is cordoned, and frees it only after
its proof: one that does not come out proven keeps its slot, and the others wait. A slot is never taken from a node because it
lasts long, only where the node itself is no longer there.

A share of the nodes is one of those that the pool's DaemonSet counts, rounded as it rounds its own `maxUnavailable`
(pkg/controller/daemon/util/daemonset_util.go: up; update.go: at least one). The count is asked for anew for each slot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..api import ApiError, shaped

if TYPE_CHECKING:
    from ..api import Api

_NOT_FOUND, _CONFLICT, _TEST_FAILED = 404, 409, 422
_HOLDER: Final = "/spec/holderIdentity"
#: The DaemonSet of a pool's verifiers, as gpu_pools/proof/verifier_pods.py names it.
_DAEMON_SET: Final = "gpu-pools-verifier-"


def at_once(most: str, nodes: int) -> int:
    """How many nodes of a pool may change at the same time.

    Args:
        most: a number, or a share such as ``25%``.
        nodes: of the pool.
    """
    if not most.endswith("%"):
        return int(most)
    return max(1, -(-nodes * int(most[:-1]) // 100))


@dataclass(frozen=True)
class RolloutSlots:
    """The rollout slots of a pool.

    Attributes:
        api: where they are.
        namespace: of the Leases.
        pool: whose.
        most: how many there are, or for which share of the pool's nodes.
        node: who asks.
    """

    api: Api
    namespace: str
    pool: str
    most: str
    node: str

    @shaped("the Leases of the pool")
    def mine(self) -> bool:
        """Whether the node has one."""
        return any(_holder(lease) == self.node for lease in self._there())

    @shaped("the Leases of the pool")
    def taken(self) -> int:
        """How many somebody has, whether that node is there or not."""
        return sum(bool(_holder(lease)) for lease in self._there())

    @shaped("the Leases of the pool")
    def take(self) -> bool:
        """Take one; whether that was possible.

        Raises:
            ApiError: where the API does not answer, or refuses.
        """
        there = {lease["metadata"]["name"]: lease for lease in self._there()}
        free = {name for name, lease in there.items() if not _holder(lease)}
        count = self.count()
        if len(there) - len(free) >= count:
            # Only now whoever has one is looked for: with many slots that is as many requests.
            free |= {name for name, lease in there.items() if name not in free and self._is_gone(_holder(lease))}
        if len(there) - len(free) >= count:
            # Also those of a time when there were more slots.
            return False
        for name in (f"change-{self.pool}-{number}" for number in range(count)):
            if name not in there:
                if self._made(name):
                    return True
            elif name in free and self._changed(there[name], {"op": "add", "path": _HOLDER, "value": self.node}):
                return True
        return False

    @shaped("the Leases of the pool")
    def free(self) -> bool:
        """Give back what the node has; whether it has none now.

        Raises:
            ApiError: where the API does not answer, or refuses.
        """
        mine = [lease for lease in self._there() if _holder(lease) == self.node]
        return all(self._changed(lease, {"op": "remove", "path": _HOLDER}) for lease in mine)

    @shaped("the DaemonSet of the verifiers")
    def count(self) -> int:
        """How many slots there are."""
        if not self.most.endswith("%"):
            return at_once(self.most, 0)
        pods = self.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets/{_DAEMON_SET}{self.pool}")
        return at_once(self.most, int((pods.get("status") or {}).get("desiredNumberScheduled") or 0))

    def _there(self) -> list[dict[str, Any]]:
        """The Leases of the pool; of one whose name goes on after a dash there is a number more."""
        leases = self.api.get(self._path).get("items") or []
        name = re.compile(rf"change-{re.escape(self.pool)}-\d+")
        return [lease for lease in leases if name.fullmatch(lease["metadata"]["name"])]

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def _is_gone(self, node: str) -> bool:
        try:
            self.api.get(f"/api/v1/nodes/{node}")
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return True
            raise
        return False

    def _made(self, name: str) -> bool:
        try:
            self.api.create(self._path, {"metadata": {"name": name}, "spec": {"holderIdentity": self.node}})
        except ApiError as error:
            if error.status == _CONFLICT:
                return False
            raise
        return True

    def _changed(self, lease: dict[str, Any], operation: dict[str, Any]) -> bool:
        """Whether it was as it was read: of two that want the same slot one gets it."""
        metadata = lease["metadata"]
        same = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
        try:
            self.api.change(f"{self._path}/{metadata['name']}", [same, operation])
        except ApiError as error:
            if error.status in {_CONFLICT, _TEST_FAILED, _NOT_FOUND}:
                return False
            raise
        return True


def _holder(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
