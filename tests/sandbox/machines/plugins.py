"""A device plugin that speaks gRPC over a Unix socket and lists what it is told to: what the device manager is tested with."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc

from sandbox.machines.device_manager import SOCKET, read_fields, write_fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GPU = "nvidia.com/gpu"
END = None


def listing(**health: bool) -> bytes:
    """A ListAndWatchResponse; an empty topology and a number stand between, as newer plugins may send them."""
    found = [(1, device.encode()) for device in health]
    states = [(2, b"Healthy" if healthy else b"Unhealthy") for healthy in health.values()]
    return write_fields(
        [(1, write_fields([one, state, (3, b"")]) + b"\x20\x05") for one, state in zip(found, states, strict=True)]
    )


class Plugin:
    """A device plugin that lists what it is told to, and gives out as many devices as it is told to."""

    def __init__(self, folder: Path, endpoint: str, most: int = 99) -> None:
        self._folder, self._endpoint, self._most = folder, endpoint, most
        self._told: queue.Queue[bytes | None] = queue.Queue()
        self._server = grpc.server(ThreadPoolExecutor(2))
        handlers = {
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
        self._server.add_insecure_port(f"unix:{folder / endpoint}")
        self._server.start()

    def _list(self, request: bytes, context: Any) -> Iterator[bytes]:
        del request, context
        while (said := self._told.get()) is not END:
            yield said

    def _allocate(self, request: bytes, context: Any) -> bytes:
        asked = [value for number, container in read_fields(request) if number == 1 for _, value in read_fields(container)]
        if len(asked) > self._most:
            context.abort(grpc.StatusCode.UNKNOWN, f"maximum request size for shared resources is 1; found {len(asked)}")
        return b""

    def say(self, said: bytes | None) -> None:
        self._told.put(said)

    def register(self, resource: str = GPU, version: str = "v1beta1") -> None:
        texts = [(number, text.encode()) for number, text in ((1, version), (2, self._endpoint), (3, resource))]
        with grpc.insecure_channel(f"unix:{self._folder / SOCKET}") as channel:
            channel.unary_unary("/v1beta1.Registration/Register")(write_fields([*texts, (4, b"\x08\x01")]), timeout=30)

    def stop(self) -> None:
        self.say(END)
        self._server.stop(None)
