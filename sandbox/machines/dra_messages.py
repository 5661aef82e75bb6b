"""The messages between a kubelet and the DRA drivers of its node: plain data on one side, protobuf on the other.

They are those of k8s.io/kubelet v0.36.3, pkg/apis/pluginregistration/v1 and pkg/apis/dra/v1. v1beta1 of the latter has the same
fields. As in device_manager, they are read and written field by field: no compiler of protocol files is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.machines.device_manager import read_fields, write_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What a driver registers as.
DRIVER_TYPE: Final = "DRAPlugin"
#: The services that a kubelet can ask, the newest first, and how gRPC names them.
SERVICES: Final = {f"{version}.DRAPlugin": f"k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin" for version in ("v1", "v1beta1")}
GET_INFO: Final = "/pluginregistration.Registration/GetInfo"
NOTIFY: Final = "/pluginregistration.Registration/NotifyRegistrationStatus"
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
_INFO_TYPE, _INFO_NAME, _INFO_ENDPOINT, _INFO_VERSIONS = 1, 2, 3, 4
#: Field 1 of a registration's status, a number: whether the plugin is registered.
_REGISTERED: Final = b"\x08\x01"
_STATUS_ERROR: Final = 2
_CLAIMS: Final = 1
_NAMESPACE, _UID, _NAME = 1, 2, 3
#: Of an entry of a map.
_KEY, _VALUE = 1, 2
_DEVICES, _PREPARE_ERROR = 1, 2
_REQUESTS, _POOL, _DEVICE, _CDI, _SHARE = 1, 2, 3, 4, 5
_UNPREPARE_ERROR: Final = 1


@dataclass(frozen=True)
class PluginInfo:
    """What a plugin says of itself when it registers.

    Attributes:
        kind: what it is; DRIVER_TYPE for DRA drivers.
        name: the driver's name.
        endpoint: the path of the socket where it serves; empty where that is the one of its registration.
        services: which it serves, the one that it likes best first.
    """

    kind: str
    name: str
    endpoint: str
    services: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim, as a driver is told of it."""

    namespace: str
    uid: str
    name: str


@dataclass(frozen=True)
class Device:
    """A device that a driver has prepared.

    Attributes:
        requests: of the claim, by name.
        pool: that it is of.
        name: in its pool.
        cdi: the names by which a container runtime adds it.
        share: of a device that several claims share, where the driver says it.
    """

    requests: tuple[str, ...]
    pool: str
    name: str
    cdi: tuple[str, ...]
    share: str = ""


@dataclass(frozen=True)
class Prepared:
    """What came of preparing a claim; no devices count where there is an error."""

    devices: tuple[Device, ...] = ()
    error: str = ""


def plugin_info(response: bytes) -> PluginInfo:
    """Read a PluginInfo.

    Raises:
        ValueError: if it is no such message.
    """
    return PluginInfo(
        _text(response, _INFO_TYPE),
        _text(response, _INFO_NAME),
        _text(response, _INFO_ENDPOINT),
        _texts(response, _INFO_VERSIONS),
    )


def registration_status(error: str = "") -> bytes:
    """A RegistrationStatus: the plugin is registered, or is not for that reason."""
    return write_fields([(_STATUS_ERROR, error.encode())]) if error else _REGISTERED


def claims_request(claims: Iterable[Claim]) -> bytes:
    """A NodePrepareResourcesRequest, or a NodeUnprepareResourcesRequest, which has the same fields."""
    return write_fields((_CLAIMS, _claim(claim)) for claim in claims)


def prepared_claims(response: bytes) -> dict[str, Prepared]:
    """Read a NodePrepareResourcesResponse: uid of a claim -> what came of it.

    Raises:
        ValueError: if it is no such message.
    """
    return {uid: _prepared(value) for uid, value in _entries(response).items()}


def unprepared_claims(response: bytes) -> dict[str, str]:
    """Read a NodeUnprepareResourcesResponse: uid of a claim -> the error; empty where it went well.

    Raises:
        ValueError: if it is no such message.
    """
    return {uid: _text(value, _UNPREPARE_ERROR) for uid, value in _entries(response).items()}


def _claim(claim: Claim) -> bytes:
    return write_fields([(_NAMESPACE, claim.namespace.encode()), (_UID, claim.uid.encode()), (_NAME, claim.name.encode())])


def _entries(response: bytes) -> Mapping[str, bytes]:
    entries = [dict(read_fields(value)) for number, value in read_fields(response) if number == _CLAIMS]
    return {entry.get(_KEY, b"").decode(): entry.get(_VALUE, b"") for entry in entries}


def _prepared(message: bytes) -> Prepared:
    devices = tuple(_device(value) for number, value in read_fields(message) if number == _DEVICES)
    return Prepared(devices, _text(message, _PREPARE_ERROR))


def _device(message: bytes) -> Device:
    return Device(
        _texts(message, _REQUESTS),
        _text(message, _POOL),
        _text(message, _DEVICE),
        _texts(message, _CDI),
        _text(message, _SHARE),
    )


def _texts(message: bytes, field: int) -> tuple[str, ...]:
    return tuple(value.decode() for number, value in read_fields(message) if number == field)


def _text(message: bytes, field: int) -> str:
    """The field's value; the last one where there are several, as protobuf has it."""
    return next(iter(reversed(_texts(message, field))), "")
