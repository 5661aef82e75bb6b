"""Small readers of Kubernetes objects as plain JSON.

The official client's typed models cost more time to build than everything else the daemon does, so objects stay the
dictionaries that the API server sent. Nothing here changes an object or talks to the API.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]


def name(obj: Json) -> str:
    """metadata.name."""
    return str(obj["metadata"]["name"])


def namespace(obj: Json) -> str:
    """metadata.namespace; empty on cluster-wide objects."""
    return str(obj["metadata"].get("namespace", ""))


def uid(obj: Json) -> str:
    """metadata.uid."""
    return str(obj["metadata"]["uid"])


def labels(obj: Json) -> dict[str, str]:
    """metadata.labels."""
    return obj["metadata"].get("labels") or {}


def notes(obj: Json) -> dict[str, str]:
    """metadata.annotations."""
    return obj["metadata"].get("annotations") or {}


def owners(obj: Json, kind: str) -> list[Json]:
    """The owner references of that kind."""
    return [owner for owner in obj["metadata"].get("ownerReferences") or [] if owner["kind"] == kind]


def deleted(obj: Json) -> bool:
    """Whether the object's deletion has been asked for."""
    return "deletionTimestamp" in obj["metadata"]


def phase(pod: Json) -> str:
    """status.phase of a pod."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def running(pod: Json) -> bool:
    """Whether a pod runs and nobody has asked for its end."""
    return phase(pod) == "Running" and not deleted(pod)


def node_of(pod: Json) -> str:
    """The node that a pod is bound to; empty before it is scheduled."""
    return str(pod["spec"].get("nodeName") or "")


def condition(obj: Json, kind: str) -> Json:
    """The condition of that type, empty if there is none."""
    found = [item for item in (obj.get("status") or {}).get("conditions") or [] if item["type"] == kind]
    return found[0] if found else {}


def containers(pod_spec: Json, *, init: bool = False) -> list[Json]:
    """The containers or init containers of a pod's spec."""
    return pod_spec.get("initContainers" if init else "containers") or []


def env(pod: Json, container: str) -> dict[str, str]:
    """The literal environment of a container or init container; empty if the pod has none of that name."""
    for item in [*containers(pod["spec"]), *containers(pod["spec"], init=True)]:
        if item["name"] == container:
            return {entry["name"]: entry.get("value", "") for entry in item.get("env") or []}
    return {}


def config_map_volumes(pod: Json) -> dict[str, Json]:
    """Volume name -> its configMap source."""
    return {volume["name"]: volume["configMap"] for volume in pod["spec"].get("volumes") or [] if volume.get("configMap")}


def mounted_config_map(pod: Json, mount_path: str) -> str | None:
    """The name of the ConfigMap that a container of the pod mounts at a path."""
    volumes = config_map_volumes(pod)
    for container in [*containers(pod["spec"]), *containers(pod["spec"], init=True)]:
        for mount in container.get("volumeMounts") or []:
            if mount["mountPath"].rstrip("/") == mount_path.rstrip("/") and mount["name"] in volumes:
                return str(volumes[mount["name"]]["name"])
    return None


def program(pod: Json) -> set[str]:
    """The names of the programs that a pod's containers run, as far as commands say it."""
    commands = [(item.get("command") or item.get("args") or [""])[0] for item in containers(pod["spec"])]
    return {command.rpartition("/")[2] for command in commands}


def requests_gpu(pod: Json) -> bool:
    """Whether a container of the pod asks for any nvidia.com/ resource, or the pod for claims: of these any may be for a GPU."""
    if pod["spec"].get("resourceClaims"):
        return True
    wanted = [(item.get("resources") or {}).get("limits") or {} for item in containers(pod["spec"])]
    return any(key.startswith("nvidia.com/") for limits in wanted for key in limits)


def timestamp() -> str:
    """Now, as metav1.Time writes it."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """Now, as metav1.MicroTime writes it."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
