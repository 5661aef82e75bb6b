"""What of a pod's spec its containers need to really run: commands, variables, files. From plain objects to plain data.

Understood is what the verifier's pods use, and what the API server puts into every pod: variables with values and from the pod's
own fields, ``$(NAME)`` in arguments, volumes of ConfigMaps, the projected service account, directories of the node, readiness by
HTTP. What would be missed is refused in words, never left out in silence; images, resources, capabilities and liveness say
nothing here.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.machines import objects
from sandbox.machines.outcomes import pod_address
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.objects import Json

#: Where mounts may go: elsewhere the folders to mount on would have to be made on the machine that all this runs on.
_MOUNTABLE: Final = ("/run/", "/var/run/")
_REFERENCE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_REMEDY: Final = "The sandbox's kubelets cannot run this container; sandbox/machines/pod_request.py says what they can."


@dataclass(frozen=True)
class Mount:
    """A volume in a container.

    Attributes:
        volume: its name.
        path: below /run.
        node_path: for a directory of the node: where it is there; empty for others.
    """

    volume: str
    path: str
    node_path: str = ""


@dataclass(frozen=True)
class Probe:
    """A readiness probe by HTTP."""

    port: int
    path: str
    period_seconds: float
    timeout_seconds: float


@dataclass(frozen=True)
class Container:
    """A container.

    Attributes:
        name: its name.
        command: program and arguments.
        environment: variables.
        mounts: its volumes.
        message_path: where it leaves its last words.
        probe: how it is asked whether it is ready; None: it is as long as it runs.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    message_path: str
    probe: Probe | None


@dataclass(frozen=True)
class PodRequest:
    """A pod that is to run.

    Attributes:
        pod: its uid.
        attempt: another number starts again what has ended.
        address: where its probes go to.
        inits: the init containers, in order.
        mains: the containers.
        volumes: volume -> file -> content.
        initialized: its init containers have ended well before.
        ready: it was ready when it was last looked at.
    """

    pod: str
    attempt: int
    address: str
    inits: tuple[Container, ...]
    mains: tuple[Container, ...]
    volumes: Mapping[str, Mapping[str, bytes]]
    initialized: bool
    ready: bool


def pod_request(pod: Json, attempt: int, volumes: Mapping[str, Mapping[str, bytes]], service: Mapping[str, str]) -> PodRequest:
    """What a pod needs.

    Args:
        pod: bound to a node.
        attempt: how often its crashing container was restarted.
        volumes: what its ConfigMaps and its service account hold.
        service: the variables that tell every container where the API server is.

    Raises:
        SandboxError: where the spec asks for something that is not understood.
    """
    spec = pod["spec"]
    return PodRequest(
        pod=objects.uid(pod),
        attempt=attempt,
        address=pod_address(pod),
        inits=tuple(_container(pod, one, service) for one in objects.containers(spec, init=True)),
        mains=tuple(_container(pod, one, service) for one in objects.containers(spec)),
        volumes=volumes,
        initialized=objects.condition(pod, "Initialized").get("status") == "True",
        ready=objects.condition(pod, "Ready").get("status") == "True",
    )


def config_map_files(volume: Json, config_map: Json) -> dict[str, bytes]:
    """The files of a ConfigMap volume, or of a projected ConfigMap."""
    plain = {key: text.encode() for key, text in (config_map.get("data") or {}).items()}
    files = plain | {key: base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}
    items = volume.get("items")
    return files if items is None else {item["path"]: files[item["key"]] for item in items if item["key"] in files}


def field(pod: Json, path: str) -> str:
    """A field of the pod, as the downward API names it.

    Raises:
        SandboxError: for a field that is not known here.
    """
    known = {
        "spec.nodeName": objects.node_of(pod),
        "status.podIP": pod_address(pod),
        "metadata.name": objects.name(pod),
        "metadata.namespace": objects.namespace(pod),
        "metadata.uid": objects.uid(pod),
        "spec.serviceAccountName": str(pod["spec"].get("serviceAccountName") or ""),
    }
    if path not in known:
        raise _refused(f"the field {path} (known are {', '.join(known)})")
    return known[path]


def variables(pod: Json, container: Json, service: Mapping[str, str]) -> dict[str, str]:
    """The environment of a container.

    Args:
        pod: its pod.
        container: its part of the pod's spec.
        service: what every container is told.

    Raises:
        SandboxError: where the spec asks for something that is not understood.
    """
    environment = {**service}
    for entry in container.get("env") or []:
        environment[entry["name"]] = _expanded(_value(pod, entry), environment)
    return environment


def _container(pod: Json, container: Json, service: Mapping[str, str]) -> Container:
    for key in ("envFrom", "lifecycle", "startupProbe", "stdin", "workingDir"):
        if container.get(key):
            raise _refused(f"{key} of container {container['name']}")
    if not container.get("command"):
        raise _refused(f"container {container['name']}: there is no image, so its command must be given")
    environment = variables(pod, container, service)
    command = [*container["command"], *(container.get("args") or [])]
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
    return Container(
        name=container["name"],
        command=tuple(_expanded(word, environment) for word in command),
        environment=environment,
        mounts=tuple(_mount(mount, volumes[mount["name"]]) for mount in container.get("volumeMounts") or []),
        message_path=_below_run(container.get("terminationMessagePath") or ""),
        probe=_probe(container.get("readinessProbe")),
    )


def _value(pod: Json, entry: Json) -> str:
    source = entry.get("valueFrom")
    if source is None:
        return str(entry.get("value", ""))
    if "fieldRef" not in source:
        raise _refused(f"variable {entry['name']} from {', '.join(source)}")
    return field(pod, source["fieldRef"]["fieldPath"])


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """As the kubelet does it: names that are not known stay as they are written."""
    return _REFERENCE.sub(lambda match: environment.get(match[1], match[0]), text)


def _mount(mount: Json, volume: Json) -> Mount:
    if mount.get("subPath") or mount.get("subPathExpr"):
        raise _refused(f"subPath of {mount['mountPath']}")
    if not any(kind in volume for kind in ("configMap", "projected", "hostPath")):
        raise _refused(f"volume {volume['name']}")
    return Mount(volume["name"], _below_run(mount["mountPath"]), (volume.get("hostPath") or {}).get("path", ""))


def _below_run(path: str) -> str:
    if not path.startswith(_MOUNTABLE):
        raise _refused(f"the path {path} (only those below {' or '.join(_MOUNTABLE)} can be made)")
    return path.removeprefix("/var").rstrip("/")


def _probe(probe: Json | None) -> Probe | None:
    if probe is None:
        return None
    get = probe.get("httpGet")
    if get is None or not isinstance(get["port"], int):
        raise _refused("a readiness probe by something else than HTTP on a numbered port")
    return Probe(get["port"], get.get("path", "/"), float(probe.get("periodSeconds", 10)), float(probe.get("timeoutSeconds", 1)))


def _refused(what: str) -> SandboxError:
    return SandboxError(f"not understood: {what}", _REMEDY)
