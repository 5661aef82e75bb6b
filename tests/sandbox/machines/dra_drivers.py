"""A DRA driver that speaks gRPC over Unix sockets and answers what it is told to: what the DRA manager is tested with.

Its messages are made by protobuf itself, from the fields of k8s.io/kubelet's api.proto (pkg/apis/pluginregistration/v1 and
pkg/apis/dra/v1), so that what the sandbox reads and writes by hand is held to them.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sandbox.cluster.gpu_host import PLUGINS, PLUGINS_REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

NAME: Final = "gpu.example.com"
SERVICES: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth")
_TEXT, _BOOL, _MESSAGE = (descriptor_pb2.FieldDescriptorProto.TYPE_STRING, 8, 11)
_ONE, _MANY = 1, 3
#: Message -> its fields: name, number, type or the name of a message, how many.
_FIELDS: Final[Mapping[str, tuple[tuple[str, int, int | str, int], ...]]] = {
    "PluginInfo": (
        ("type", 1, _TEXT, _ONE), ("name", 2, _TEXT, _ONE), ("endpoint", 3, _TEXT, _ONE), ("supported_versions", 4, _TEXT, _MANY),
    ),
    "RegistrationStatus": (("plugin_registered", 1, _BOOL, _ONE), ("error", 2, _TEXT, _ONE)),
    "Claim": (("namespace", 1, _TEXT, _ONE), ("uid", 2, _TEXT, _ONE), ("name", 3, _TEXT, _ONE)),
    "Request": (("claims", 1, "Claim", _MANY),),
    "Device": (
        ("request_names", 1, _TEXT, _MANY), ("pool_name", 2, _TEXT, _ONE), ("device_name", 3, _TEXT, _ONE),
        ("cdi_device_ids", 4, _TEXT, _MANY), ("share_id", 5, _TEXT, _ONE),
    ),
    "PrepareResult": (("devices", 1, "Device", _MANY), ("error", 2, _TEXT, _ONE)),
    "UnprepareResult": (("error", 1, _TEXT, _ONE),),
    # A map is a list of entries on the wire.
    "PrepareEntry": (("key", 1, _TEXT, _ONE), ("value", 2, "PrepareResult", _ONE)),
    "UnprepareEntry": (("key", 1, _TEXT, _ONE), ("value", 2, "UnprepareResult", _ONE)),
    "PrepareResponse": (("claims", 1, "PrepareEntry", _MANY),),
    "UnprepareResponse": (("claims", 1, "UnprepareEntry", _MANY),),
}  # fmt: skip


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="dra.proto", package="dra", syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            made = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                made.type, made.type_name = _MESSAGE, f".dra.{kind}"
            else:
                made.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"dra.{name}")) for name in _FIELDS}


#: The messages by name.
PROTO: Final = _messages()


class Driver:
    """A DRA driver of one machine.

    Attributes:
        asked: the method and the uids of each request.
        refused: uid of a claim -> the error that it answers.
        skipped: uids of claims that it says nothing about.
        told: what it was told of its registration.
    """

    def __init__(
        self,
        place: Callable[[str], Path],
        kind: str = "DRAPlugin",
        services: tuple[str, ...] = SERVICES,
        *,
        endpoint: bool = True,
        cdi: bool = True,
    ) -> None:
        self._place, self._kind, self._services, self._own_endpoint = place, kind, services, endpoint
        self.asked: list[tuple[str, list[str]]] = []
        self.refused: dict[str, str] = {}
        self.skipped: set[str] = set()
        self.told: list[Any] = []
        self.unknown = ""
        self._cdi = cdi
        self._servers: list[grpc.Server] = []

    @property
    def registration(self) -> Path:
        return self._place(f"{PLUGINS_REGISTRY}/{NAME}-reg.sock")

    def start(self) -> Driver:
        registering = {"GetInfo": self._get_info, "NotifyRegistrationStatus": self._notify}
        serving = {"NodePrepareResources": self._prepare, "NodeUnprepareResources": self._unprepare}
        services = {f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin": serving for version in ("v1", "v1beta1")}
        if self._own_endpoint:
            self._serve(self._place(f"{PLUGINS}/dra.sock"), services)
            services = {}
        self._serve(self.registration, {"pluginregistration.Registration": registering, **services})
        return self

    def stop(self, *, killed: bool = False) -> None:
        """End it; one that is killed leaves its sockets."""
        for server in self._servers:
            server.stop(None).wait()
        self._servers.clear()
        if killed:
            # gRPC has removed them.
            self._leave(self.registration)
        else:
            self.registration.unlink(missing_ok=True)

    @staticmethod
    def _leave(path: Path) -> None:
        if not path.exists():
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(path))

    def _serve(self, path: Path, services: Mapping[str, Mapping[str, Callable[[bytes, Any], bytes]]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(2))
        for service, methods in services.items():
            handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self._servers.append(server)

    def _get_info(self, request: bytes, context: Any) -> bytes:
        del request, context
        endpoint = f"{PLUGINS}/dra.sock" if self._own_endpoint else ""
        said: bytes = PROTO["PluginInfo"](
            type=self._kind, name=NAME, endpoint=endpoint, supported_versions=self._services
        ).SerializeToString()
        return said

    def _notify(self, request: bytes, context: Any) -> bytes:
        del context
        self.told.append(PROTO["RegistrationStatus"].FromString(request))
        return b""

    def _uids(self, method: str, request: bytes) -> list[str]:
        claims = PROTO["Request"].FromString(request).claims
        self.asked.append((method, [claim.uid for claim in claims]))
        return [claim.uid for claim in claims if claim.uid not in self.skipped] + ([self.unknown] if self.unknown else [])

    def _prepare(self, request: bytes, context: Any) -> bytes:
        if "all" in self.refused:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, self.refused["all"])
        response = PROTO["PrepareResponse"]()
        for uid in self._uids("prepare", request):
            value = PROTO["PrepareResult"](error=self.refused.get(uid, ""))
            if not value.error:
                value.devices.add(
                    request_names=["r"],
                    pool_name="node",
                    device_name=f"gpu-{uid}",
                    cdi_device_ids=[f"cdi={uid}"] if self._cdi else [],
                )
            response.claims.add(key=uid, value=value)
        said: bytes = response.SerializeToString()
        return said

    def _unprepare(self, request: bytes, context: Any) -> bytes:
        del context
        response = PROTO["UnprepareResponse"]()
        for uid in self._uids("unprepare", request):
            response.claims.add(key=uid, value=PROTO["UnprepareResult"](error=self.refused.get(uid, "")))
        said: bytes = response.SerializeToString()
        return said
