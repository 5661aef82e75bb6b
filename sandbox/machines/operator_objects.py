"""What NVIDIA's operator makes besides DaemonSets: RuntimeClasses, accounts with their rights, ConfigMaps, Services.

After assets/ and controllers/object_controls.go of gpu-operator v26.7.0. All of it belongs to the ClusterPolicy and goes with it.
The scripts in the ConfigMaps are ours, and do what a node needs of the operator's: a real node runs them. Left out:
ServiceMonitors, roles for OpenShift, and what the device plugin's script sets for GPUDirect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.operands import (
    DEFAULT_CLIENTS,
    DEFAULT_LAYOUTS,
    enabled,
    injects_by_nri,
    owner,
    runtime_class_name,
)
from sandbox.machines.store import KINDS

if TYPE_CHECKING:
    from sandbox.machines.objects import Json
    from sandbox.machines.operands import Operand
    from sandbox.machines.world import World

_ALREADY_EXISTS: Final = 409
_AGAIN_SECONDS: Final = 1.0
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_READ: Final = ["get", "list", "watch"]
_NODES: Final = ("", ["nodes"], _READ)
_MPS: Final = "nvidia-device-plugin-mps-control-daemon"
#: Operand's account -> (API group, resources, verbs) in its own namespace, and in the cluster.
_RIGHTS: Final[dict[str, tuple[list[tuple[str, list[str], list[str]]], list[tuple[str, list[str], list[str]]]]]] = {
    "nvidia-driver": (
        [],
        [
            ("", ["nodes"], [*_READ, "patch", "update"]), ("", ["pods"], _READ), ("", ["pods/eviction"], ["create"]),
            ("apps", ["daemonsets"], ["get"]),
        ],
    ),
    "nvidia-container-toolkit": ([("apps", ["daemonsets"], ["list"])], []),
    "nvidia-operator-validator": (
        [("", ["pods"], [*_READ, "create", "update", "patch", "delete"]), ("apps", ["daemonsets"], _READ)], [_NODES],
    ),
    "nvidia-device-plugin": ([], [_NODES]),
    _MPS: ([], [_NODES]),
    "nvidia-gpu-feature-discovery": (
        [("nfd.k8s-sigs.io", ["nodefeatures"], [*_READ, "create", "update"]), ("", ["pods"], ["get"])], [_NODES],
    ),
    "nvidia-mig-manager": (
        [("", ["pods"], [*_READ, "delete"]), ("", ["configmaps"], ["create", "get", "list", "update", "patch"])],
        [("", ["nodes"], [*_READ, "update", "patch"]), ("", ["pods"], ["list"])],
    ),
    "nvidia-dcgm-exporter": ([("", ["configmaps"], ["get", "list"])], [("", ["pods"], _READ)]),
    "nvidia-node-status-exporter": ([("", ["pods"], ["get", "list"]), ("apps", ["daemonsets"], _READ)], [_NODES]),
}  # fmt: skip
_PORTS: Final = {"nvidia-dcgm": 5555, "nvidia-dcgm-exporter": 9400, "nvidia-node-status-exporter": 8000}
_COMPONENT: Final = {"app.kubernetes.io/component": "gpu-operator"}


class OperatorObjects:
    """The objects of one operator."""

    def __init__(self) -> None:
        """Nothing is known to be there."""
        self._made: set[tuple[str, str]] = set()

    def runtime_classes(self, world: World, policy: Json) -> None:
        """Make them, and take over those that are there.

        Raises:
            ApiError: where one has another handler, which cannot be changed.
        """
        spec = policy["spec"]
        own = runtime_class_name(spec)
        cdi = bool((spec.get("cdi") or {}).get("enabled", True))
        wanted = (
            {}
            if injects_by_nri(spec)
            else {own: own, **({"nvidia-cdi": "nvidia-cdi", "nvidia-legacy": "nvidia-legacy"} if cdi else {})}
        )
        known = world.store.by_name("runtimeclasses")
        for name in ({own, "nvidia-cdi", "nvidia-legacy"} - set(wanted)) & set(known):
            world.api.delete(f"{KINDS['runtimeclasses']}/{name}")
            world.store.removed("runtimeclasses", known[name])
        for name, handler in wanted.items():
            self._runtime_class(world, name, handler, owner(policy))

    @staticmethod
    def _runtime_class(world: World, name: str, handler: str, reference: Json) -> None:
        body: Json = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name, "labels": dict(_COMPONENT), "ownerReferences": [reference]},
            "handler": handler,
        }
        known = world.store.by_name("runtimeclasses").get(name)
        if known is None:
            world.store.wrote("runtimeclasses", world.api.create(KINDS["runtimeclasses"], body))
            return
        metadata = {key: known["metadata"].get(key) for key in ("name", "labels", "ownerReferences")}
        same = (metadata, known["handler"], known.get("scheduling")) == (body["metadata"], handler, None)
        if not same:
            body["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            world.store.wrote("runtimeclasses", world.api.replace(f"{KINDS['runtimeclasses']}/{name}", body))

    def of_operand(self, world: World, policy: Json, operand: Operand, where: str) -> None:
        """What an operand's pods need; taken away where the operand is off."""
        on = enabled(policy["spec"], operand)
        for collection, body in (*_account(operand, where), *_service(operand, where)):
            self._keep(world, policy, collection, body, on=on)
        if operand.script:
            self._config_map(world, policy, where, operand.script, on=on)
        if operand.section == "migManager":
            section = policy["spec"].get("migManager") or {}
            for default, key in ((DEFAULT_LAYOUTS, "config"), (DEFAULT_CLIENTS, "gpuClientsConfig")):
                if (section.get(key) or {}).get("name") in (None, "", default):
                    self._config_map(world, policy, where, default, on=on)

    def _config_map(self, world: World, policy: Json, where: str, name: str, *, on: bool) -> None:
        known = world.config_maps.get(f"{where}/{name}")
        if on != (known is not None):
            body = {"metadata": {"name": name, "namespace": where}, "data": _DATA[name]}
            self._made.discard((objects.uid(policy), f"/api/v1/namespaces/{where}/configmaps/{name}"))
            self._keep(world, policy, f"/api/v1/namespaces/{where}/configmaps", body, on=on)

    def _keep(self, world: World, policy: Json, collection: str, body: Json, *, on: bool) -> None:
        """Make an object once per policy, or see that it is gone."""
        path = f"{collection}/{objects.name(body)}"
        mark = (objects.uid(policy), path)
        if on and mark not in self._made:
            body["metadata"]["ownerReferences"] = [owner(policy)]
            try:
                world.api.create(collection, body)
            except ApiError as error:
                if error.status != _ALREADY_EXISTS:
                    raise
                if _goes(world.api.get(path), policy):
                    world.again_in(_AGAIN_SECONDS)
                    return
            self._made.add(mark)
        elif not on and ("", path) not in self._made:
            world.api.delete(path)
            self._made.add(("", path))
        self._made.discard(("", path) if on else mark)


_WAITS: Final = """\
#!/bin/sh
until [ -f /run/nvidia/validations/driver-ready ]; do
  echo "waiting for the driver validations to be ready..."
  sleep 5
done
set -o allexport
. /run/nvidia/validations/driver-ready
{more}exec {program}
"""
#: What mig-manager stops on a node whose driver is the host's own.
_HOST_CLIENTS: Final = (
    "nvsm.service", "nvsm-mqtt.service", "nvsm-core.service", "nvsm-api-gateway.service", "nvsm-notifier.service",
    "nv_peer_mem.service", "nvidia-dcgm.service", "dcgm.service", "dcgm-exporter.service",
)  # fmt: skip
_STOPS: Final = "export WITH_SHUTDOWN_HOST_GPU_CLIENTS=$IS_HOST_DRIVER\n"
_ENTRYPOINTS: Final = {
    "nvidia-device-plugin-entrypoint": "nvidia-device-plugin",
    "nvidia-container-toolkit-entrypoint": "nvidia-toolkit",
    "nvidia-mig-manager-entrypoint": "nvidia-mig-manager",
}
_DATA: Final = {
    **{
        name: {"entrypoint.sh": _WAITS.format(program=program, more=_STOPS if program == "nvidia-mig-manager" else "")}
        for name, program in _ENTRYPOINTS.items()
    },
    "nvidia-driver-startup-probe": {"startup-probe.sh": "#!/bin/sh\ntest -e /run/nvidia/validations/.driver-ctr-ready\n"},
    DEFAULT_LAYOUTS: {"config.yaml": "version: v1\nmig-configs:\n  all-disabled: [{devices: all, mig-enabled: false}]\n"},
    DEFAULT_CLIENTS: {"clients.yaml": f"version: v1\nsystemd-services: [{', '.join(_HOST_CLIENTS)}]\n"},
}


def _goes(known: Json | None, policy: Json) -> bool:
    """Whether an object is another policy's, and so about to go with that one."""
    return known is None or any(one["uid"] != objects.uid(policy) for one in objects.owners(known, "ClusterPolicy"))


def _account(operand: Operand, where: str) -> list[tuple[str, Json]]:
    """The account and its rights, each with the collection that it goes into."""
    # The MPS daemon's pods have the plugin's; the one that is made for them nobody uses.
    account = _MPS if operand.name == _MPS else operand.account
    metadata = {"name": account, "namespace": where}
    found: list[tuple[str, Json]] = [(f"/api/v1/namespaces/{where}/serviceaccounts", {"metadata": dict(metadata)})]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": where}
    for kind, rights in zip(("Role", "ClusterRole"), _RIGHTS.get(account, ([], [])), strict=True):
        if not rights:
            continue
        base = f"{_RBAC}/namespaces/{where}" if kind == "Role" else _RBAC
        own = metadata if kind == "Role" else {"name": account}
        rules = [{"apiGroups": [group], "resources": resources, "verbs": verbs} for group, resources, verbs in rights]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account}
        found += [
            (f"{base}/{kind.lower()}s", {"metadata": dict(own), "rules": rules}),
            (f"{base}/{kind.lower()}bindings", {"metadata": dict(own), "roleRef": reference, "subjects": [subject]}),
        ]
    return found


def _service(operand: Operand, where: str) -> list[tuple[str, Json]]:
    port = _PORTS.get(operand.name)
    if port is None:
        return []
    metadata = {"name": operand.name, "namespace": where, "labels": {"app": operand.name}}
    name = "gpu-metrics" if operand.section == "dcgmExporter" else "main"
    spec = {"selector": {"app": operand.name}, "ports": [{"name": name, "port": port}]}
    return [(f"/api/v1/namespaces/{where}/services", {"metadata": metadata, "spec": spec})]
