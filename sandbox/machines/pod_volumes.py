"""What the volumes of a pod hold: ConfigMaps as the pod sees them, its own fields, and a token that is bound to it.

The kubelet's part for pods whose containers really run. Tokens are asked of the API server as a kubelet asks for them, and
renewed when most of their time is over.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sandbox.machines import objects
from sandbox.machines.pod_request import config_map_files, field
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context

#: The part of a token's time after which the kubelet asks for another one.
_RENEWED_AFTER: Final = 0.8
_DEFAULT_TOKEN_SECONDS: Final = 3600


class PodVolumes:
    """The volumes of the pods of one program."""

    def __init__(self) -> None:
        """No token is known."""
        #: Pod, volume -> token, when to renew it (monotonic).
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}

    def files(self, context: Context, volume: Json) -> dict[str, bytes]:
        """What a volume holds now.

        Raises:
            SandboxError: for a kind of volume that is not known here, or a ConfigMap that is not there.
            ApiError: when there is no token.
        """
        present = {objects.uid(pod) for pod in context.world.pods}
        self._tokens = {key: value for key, value in self._tokens.items() if key[0] in present}
        if "configMap" in volume:
            return _config_map(context, volume["configMap"])
        files: dict[str, bytes] = {}
        for source in (volume.get("projected") or {}).get("sources") or []:
            if "configMap" in source:
                files |= _config_map(context, source["configMap"])
            elif "serviceAccountToken" in source:
                wanted = source["serviceAccountToken"]
                files[wanted["path"]] = self._token(context, volume["name"], wanted).encode()
            elif "downwardAPI" in source:
                for item in source["downwardAPI"]["items"]:
                    files[item["path"]] = field(context.pod, item["fieldRef"]["fieldPath"]).encode()
            else:
                message = f"not understood: a projected volume of {', '.join(source)}"
                raise SandboxError(message, "Leave it out.")
        return files

    def _token(self, context: Context, volume: str, wanted: Json) -> str:
        pod, seconds = context.pod, int(wanted.get("expirationSeconds") or _DEFAULT_TOKEN_SECONDS)
        key = (objects.uid(pod), volume)
        known = self._tokens.get(key)
        if known is None or context.world.now >= known[1]:
            account = pod["spec"].get("serviceAccountName") or "default"
            reference = {"kind": "Pod", "apiVersion": "v1", "name": objects.name(pod), "uid": objects.uid(pod)}
            body = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds, "boundObjectRef": reference},
            }
            path = f"/api/v1/namespaces/{objects.namespace(pod)}/serviceaccounts/{account}/token"
            token = str(context.world.api.create(path, body)["status"]["token"])
            known = self._tokens[key] = (token, time.monotonic() + seconds * _RENEWED_AFTER)
        return known[0]


def service_variables(server: str) -> Mapping[str, str]:
    """The variables that the kubelet puts into every container, so that it finds the API server."""
    found = urlsplit(server)
    return {"KUBERNETES_SERVICE_HOST": str(found.hostname), "KUBERNETES_SERVICE_PORT": str(found.port)}


def _config_map(context: Context, source: Json) -> dict[str, bytes]:
    found = context.mounted.get(source["name"])
    if found is None:
        message = f'configmap "{source["name"]}" not found'
        raise SandboxError(message, "Create it.")
    return config_map_files(source, found)
