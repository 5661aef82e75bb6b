"""Stand-in for the program that the operator's chart runs before an upgrade: `manage-crds apply`, of the operator's own image.

It applies the custom resource definitions that its image carries (NVIDIA/gpu-operator v26.7.0, cmd/manage-crds, and pkg/crdutil
of k8s-operator-libs): here those of the stand-in chart of the same version, found by the image's tag. Before v26.3 the hook runs
kubectl instead, with the same outcome. What the rights of its pod do not allow is refused as there, and so is an image of a
version that nobody has.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.yaml_text import load_yaml
from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.outcomes import Finished, Outcome
from sandbox.providers.chart_sources import STAND_INS, version_of
from sandbox.providers.older_charts import NAME, older_versions, write_older

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_COMMAND: Final = ["/usr/bin/manage-crds"]
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class CrdPod:
    """gpu-operator-upgrade-crd."""

    def __init__(self) -> None:
        """Nothing was applied."""
        #: Pods by uid, and how they have ended.
        self._ended: dict[str, Finished] = {}

    def runs(self, pod: Json) -> bool:
        """By command."""
        return objects.containers(pod["spec"])[0].get("command") == _COMMAND

    def evaluate(self, context: Context) -> Outcome:
        """Apply them once, and say how that has ended."""
        uid = objects.uid(context.pod)
        if uid not in self._ended:
            self._ended[uid] = _apply(context.world, context.pod)
        return self._ended[uid]

    def absent(self, world: World, machine: Machine) -> None:
        """It is on one machine at most; what has ended is forgotten with its pod."""
        del machine
        for uid in self._ended.keys() - {objects.uid(pod) for pod in world.pods}:
            del self._ended[uid]


def _apply(world: World, pod: Json) -> Finished:
    container = objects.containers(pod["spec"])[0]
    version = str(container.get("image", "")).rpartition(":")[2]
    files = [Path(one.partition("=")[2]).name for one in container.get("args") or () if one.startswith("--filepath=")]
    try:
        for crd in _definitions(version, files):
            name = crd["metadata"]["name"]
            known = world.api.get(f"{_DEFINITIONS}/{name}")
            _allowed(world, pod, "update" if known else "create")
            if known:
                crd["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
                world.api.replace(f"{_DEFINITIONS}/{name}", crd)
            else:
                world.api.create(_DEFINITIONS, crd)
    except (ApiError, PermissionError, FileNotFoundError) as error:
        return Finished("Error", str(error), 1)
    return Finished()


def _definitions(version: str, files: list[str]) -> list[Any]:
    """Of the image of an operator.

    Raises:
        FileNotFoundError: it has no such file, or nobody has that image.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-pools-crds-") as folder:
        if version in older_versions(STAND_INS):
            chart = write_older(STAND_INS, version, Path(folder))
        elif version == version_of(STAND_INS / NAME):
            chart = STAND_INS / NAME
        else:
            message = f"no image gpu-operator:{version}"
            raise FileNotFoundError(message)
        return [load_yaml((chart / "crds" / name).read_text(encoding="utf-8")) for name in files]


def _allowed(world: World, pod: Json, verb: str) -> None:
    """As the API server would judge a request of the pod's own account.

    Raises:
        PermissionError: it says no.
    """
    account = f"system:serviceaccount:{objects.namespace(pod)}:{pod['spec'].get('serviceAccountName', 'default')}"
    asked = {"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "verb": verb}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    answer = world.api.create(_REVIEWS, body | {"spec": {"user": account, "resourceAttributes": asked}})
    if not answer["status"].get("allowed"):
        message = f'customresourcedefinitions is forbidden: User "{account}" cannot {verb} it'
        raise PermissionError(message)
