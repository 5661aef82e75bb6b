"""The verifier's pods: the only ones whose containers really run here, since what they say is what a deploy waits for.

Nothing in here knows what a verifier does. It gathers what the pod's volumes hold (ConfigMaps, a token that is bound to the pod,
as the kubelet asks for one) and tells the machine to run it. Where rules stand in for the programs of the nodes there is no NVML
to ask: the pod is then shown as running like any other, and proves nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sandbox.errors import SandboxError
from sandbox.machines import objects
from sandbox.machines.outcomes import VERIFIER_APP, Creating, Outcome, Up
from sandbox.machines.pod_request import config_map_files, field, pod_request

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

#: The part of a token's time after which the kubelet asks for another one.
_RENEWED_AFTER: Final = 0.8
_DEFAULT_TOKEN_SECONDS: Final = 3600


class VerifierPod:
    """gpu-pools-verifier-<pool>."""

    def __init__(self, programs: NodePrograms) -> None:
        """Know who runs programs on the machines."""
        self._programs = programs
        #: Pod, volume -> token, when to renew it (monotonic).
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}

    def runs(self, pod: Json) -> bool:
        """By label."""
        return objects.labels(pod).get("app.kubernetes.io/name") == VERIFIER_APP

    def evaluate(self, context: Context) -> Outcome:
        """See that it runs."""
        mine = [pod for pod in context.world.pods_on(context.machine.node) if self.runs(pod) and not objects.deleted(pod)]
        self._programs.keep_pods(context.machine, frozenset(map(objects.uid, mine)))
        present = {objects.uid(pod) for pod in context.world.pods}
        self._tokens = {key: value for key, value in self._tokens.items() if key[0] in present}
        try:
            volumes = {
                volume["name"]: self._files(context, volume)
                for volume in context.pod["spec"].get("volumes") or []
                if "hostPath" not in volume
            }
            request = pod_request(context.pod, context.attempt, volumes, _service(context.world.api.server))
        except SandboxError as error:
            return Creating("CreateContainerConfigError", "Failed", f"Error: {error.message}")
        return self._programs.run_pod(context.machine, request) or Up()

    def absent(self, world: World, machine: Machine) -> None:
        """What ran for it ends."""
        del world
        self._programs.keep_pods(machine, frozenset())

    def _files(self, context: Context, volume: Json) -> dict[str, bytes]:
        """What a volume holds now.

        Raises:
            SandboxError: for a kind of volume that is not known here, or a ConfigMap that is not there.
        """
        if "configMap" in volume:
            return self._config_map(context, volume["configMap"])
        files: dict[str, bytes] = {}
        for source in (volume.get("projected") or {}).get("sources") or []:
            if "configMap" in source:
                files |= self._config_map(context, source["configMap"])
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

    @staticmethod
    def _config_map(context: Context, source: Json) -> dict[str, bytes]:
        found = context.world.config_maps.get(f"{objects.namespace(context.pod)}/{source['name']}")
        if found is None:
            message = f'configmap "{source["name"]}" not found'
            raise SandboxError(message, "Create it.")
        return config_map_files(source, found)

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


def _service(server: str) -> dict[str, str]:
    """The variables that the kubelet puts into every container."""
    found = urlsplit(server)
    return {"KUBERNETES_SERVICE_HOST": str(found.hostname), "KUBERNETES_SERVICE_PORT": str(found.port)}
