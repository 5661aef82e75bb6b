"""Tells which pods come back by themselves onto a node that takes no others: static pods, and those of a DaemonSet.

A pod's ``ownerReferences`` are written by its author, and the API server believes them. So a pod is

- a static one where it has the annotation of a mirror pod. The API server takes that from anyone who names a node in the pod
  (kubernetes v1.36.3, pkg/apis/core/validation), but the node's kubelet deletes each mirror pod that it has no static pod for
  (pkg/kubelet/kubelet_pods.go, HandlePodCleanups), so a made-up one does not stay;
- of a DaemonSet where that DaemonSet exists in the pod's namespace with the uid that the pod names.

Every other pod can be evicted, whatever it says of its owner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ..api import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..api import Client
    from .rollout_steps import Holder

#: Written by kubelets onto the objects of their static pods (k8s.io/api v0.36.3, core/v1/annotation_key_constants.go).
_MIRROR: Final = "kubernetes.io/config.mirror"
_NODE, _DAEMON_SET, _APPS = "Node", "DaemonSet", "apps/"
_NOT_FOUND, _FORBIDDEN = 404, 403
#: Of a DaemonSet: a DNS subdomain.
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", re.ASCII)


def owner_of(pod: Mapping[str, Any]) -> str:
    """The kind of the pod's owner as the pod itself says it, ``Node`` for a static pod; empty where it has none."""
    metadata = pod["metadata"]
    if _MIRROR in (metadata.get("annotations") or {}):
        return _NODE
    owner = _controller(metadata)
    kind = str(owner.get("kind") or "")
    if kind == _DAEMON_SET and not str(owner.get("apiVersion") or _APPS).startswith(_APPS):
        return ""
    return "" if kind == _NODE else kind


@dataclass(frozen=True)
class Owners:
    """Looks owners up, each once.

    Attributes:
        api: where they are.
    """

    api: Client
    _uids: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def checked(self, holder: Holder, pod: Mapping[str, Any]) -> Holder:
        """The same, without an owner where the DaemonSet that it names does not exist.

        Args:
            holder: as it was read.
            pod: its object.

        Raises:
            ApiError: where the API does not answer.
        """
        if holder.owner != _DAEMON_SET:
            return holder
        owner = _controller(pod["metadata"])
        name, uid = str(owner.get("name") or ""), owner.get("uid")
        if self._is_there(holder.namespace, name, uid):
            return holder
        return replace(holder, owner="", note=f"names the DaemonSet {name[:80]}, which is not there with the uid that it names")

    def _is_there(self, namespace: str, name: str, uid: object) -> bool:
        """Whether a DaemonSet of that uid is there; also where it may not be read, since evicting its pods empties nothing."""
        key = (namespace, name)
        if key not in self._uids:
            self._uids[key] = self._uid(namespace, name)
        found = self._uids[key]
        return found is None or (bool(found) and found == uid)

    def _uid(self, namespace: str, name: str) -> str | None:
        """Empty where there is none; None where it may not be read."""
        if not _NAME.fullmatch(name):
            # It goes into a path.
            return ""
        try:
            found = self.api.get(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return ""
            if error.status == _FORBIDDEN:
                return None
            raise
        metadata = found.get("metadata")
        return str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The owner that is the pod's controller; empty where there is none."""
    for one in metadata.get("ownerReferences") or []:
        if one.get("controller"):
            found: Mapping[str, Any] = one
            return found
    return {}
