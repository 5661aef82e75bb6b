"""Stand-in for the kubelet's device manager: takes the registration of device plugins, and keeps what they list.

The wire is the kubelet's own, v1beta1 over gRPC on a Unix socket, so that the real nvidia-device-plugin registers here
unchanged. As with a kubelet, a plugin that registers again replaces what it had, and what a plugin has listed is gone when its
stream ends.

No device is ever given to a container. One question is asked of a plugin beyond listing: whether it would give out two devices at
once, since refusing that shows nowhere else. Checkpoints, topology and the five minutes for which a kubelet remembers a plugin
that is gone are left out. The few messages are read and written by hand, field by field: no compiler of protocol files is needed.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc

from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

SOCKET: Final = "kubelet.sock"
_VERSION: Final = "v1beta1"
_REGISTER_VERSION, _REGISTER_ENDPOINT, _REGISTER_RESOURCE = 1, 2, 3
_HEALTHY: Final = b"Healthy"
_TOO_MANY: Final = "maximum request size"
_ALLOCATE_SECONDS: Final = 5.0
_LONGEST_NUMBER: Final = 10
_TEXT: Final = 2
_SKIPPED: Final = {0: None, 1: 8, 5: 4}


@dataclass(frozen=True)
class Listing:
    """What a plugin lists for a resource.

    Attributes:
        healthy: devices that can be given out.
        devices: all of them.
        one_per_request: it refuses to give out two at once.
    """

    healthy: int
    devices: int
    one_per_request: bool


class DeviceManager:
    """The kubelet's socket of one machine."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        """Listen.

        Args:
            folder: the machine's /var/lib/kubelet/device-plugins, as it is found from here.
            changed: called, by any thread, whenever something else is listed.
        """
        self._folder, self._changed = folder, changed
        self._lock = threading.Lock()
        self._streams: dict[str, grpc.Channel] = {}
        self._listings: dict[str, Listing] = {}
        (folder / SOCKET).unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(1, thread_name_prefix="registration"))
        handler = grpc.unary_unary_rpc_method_handler(self._register)
        self._server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler(f"{_VERSION}.Registration", {"Register": handler}),
        ))  # fmt: skip
        self._server.add_insecure_port(f"unix:{folder / SOCKET}")
        self._server.start()

    def listed(self) -> dict[str, Listing]:
        """What is listed now, by resource."""
        with self._lock:
            return dict(self._listings)

    def close(self) -> None:
        """Listen no more, and forget every plugin."""
        self._server.stop(None)
        self.forget()

    def forget(self) -> None:
        """Forget every plugin that has registered by now: none of them runs any more."""
        with self._lock:
            channels = list(self._streams.values())
            self._streams.clear()
            self._listings.clear()
        for channel in channels:
            channel.close()

    def _register(self, request: bytes, context: Any) -> bytes:  # noqa: ANN401 gRPC's own
        """Follow a plugin from now on, as the kubelet refuses or accepts it."""
        message = dict(read_fields(request))
        version, endpoint, resource = (
            message.get(number, b"").decode() for number in (_REGISTER_VERSION, _REGISTER_ENDPOINT, _REGISTER_RESOURCE)
        )
        if version != _VERSION:
            context.abort(grpc.StatusCode.UNKNOWN, f'requested API version "{version}" is not supported by kubelet')
        if "/" not in resource:
            context.abort(grpc.StatusCode.UNKNOWN, f'the ResourceName "{resource}" is invalid')
        channel = grpc.insecure_channel(f"unix:{self._folder / endpoint}")
        with self._lock:
            before = self._streams.get(resource)
            self._streams[resource] = channel
        if before is not None:
            before.close()
        threading.Thread(target=self._follow, args=(resource, channel), name=f"devices {resource}", daemon=True).start()
        return b""

    def _follow(self, resource: str, channel: grpc.Channel) -> None:
        asked: bool | None = None
        # A stream ends when the plugin does, and when another registration of the resource has closed its channel.
        with contextlib.suppress(grpc.RpcError, ValueError):
            for response in channel.unary_stream(f"/{_VERSION}.DevicePlugin/ListAndWatch")(b""):
                health = devices(response)
                if asked is None:
                    asked = _refuses_two(channel, list(health))
                healthy = sum(state == _HEALTHY for state in health.values())
                self._take(resource, channel, Listing(healthy, len(health), asked))
        self._take(resource, channel, None)
        channel.close()

    def _take(self, resource: str, channel: grpc.Channel, listing: Listing | None) -> None:
        with self._lock:
            if self._streams.get(resource) is not channel or self._listings.get(resource) == listing:
                return
            if listing is None:
                del self._listings[resource]
            else:
                self._listings[resource] = listing
        self._changed()


def _refuses_two(channel: grpc.Channel, ids: list[bytes]) -> bool:
    """Whether the plugin refuses a container that asks for two devices; it keeps no record of what it gave out."""
    request = write_fields([(1, write_fields([(1, device) for device in ids[:2]]))])
    if len(ids) < 2:  # noqa: PLR2004
        return False
    try:
        channel.unary_unary(f"/{_VERSION}.DevicePlugin/Allocate")(request, timeout=_ALLOCATE_SECONDS)
    except grpc.RpcError as error:
        details = str(error.details() if isinstance(error, grpc.Call) else error)
        if _TOO_MANY not in details:
            LOG.info("device plugin: two devices at once: %s", details)
        return _TOO_MANY in details
    return False


def devices(response: bytes) -> Mapping[bytes, bytes]:
    """Id -> health of a ListAndWatchResponse: ``repeated Device devices = 1 { string ID = 1; string health = 2; … }``."""
    found = (dict(read_fields(device)) for number, device in read_fields(response) if number == 1)
    return {device.get(1, b""): device.get(2, b"") for device in found}


def read_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protobuf message that have a length (text, bytes, messages), by number; others are passed over.

    Raises:
        ValueError: if it is no such message.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _TEXT:
            size, at = _varint(message, at)
            if at + size > len(message):
                error = "a field is longer than its message"
                raise ValueError(error)
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind in _SKIPPED:
            fixed = _SKIPPED[kind]
            at = _varint(message, at)[1] if fixed is None else at + fixed
        else:
            error = f"field type {kind}"
            raise ValueError(error)


def write_fields(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """A protobuf message of fields that have a length."""
    return b"".join(_number(number << 3 | _TEXT) + _number(len(value)) + value for number, value in fields)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = 0
    for shift, byte in enumerate(message[at : at + _LONGEST_NUMBER]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at + shift + 1
    error = "a number does not end"
    raise ValueError(error)


def _number(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:  # noqa: PLR2004
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
