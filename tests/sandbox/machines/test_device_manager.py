"""The kubelet's side of the device plugin's wire, against plugins that speak gRPC over the same kind of socket."""

from __future__ import annotations

import contextlib
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.machines.device_manager import SOCKET, DeviceManager, Listing, devices, read_fields, write_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


class Site:
    """A device manager, and plugins on its machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = 0
        self.manager = DeviceManager(folder, self._changed)
        self.plugins: list[Plugin] = []

    def _changed(self) -> None:
        self.told += 1

    def plugin(self, endpoint: str = "a.sock", most: int = 99) -> Plugin:
        self.plugins.append(Plugin(self.folder, endpoint, most))
        return self.plugins[-1]

    def until(self, holds: Callable[[dict[str, Listing]], bool]) -> None:
        end = time.monotonic() + 60
        while not holds(self.manager.listed()):
            assert time.monotonic() < end, self.manager.listed()
            time.sleep(0.01)


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    # Names of sockets are short.
    made = Site(tmp_path_factory.mktemp("s"))
    yield made
    for plugin in made.plugins:
        plugin.stop()
    made.manager.close()


def test_what_a_plugin_lists_is_known_whenever_it_changes(site: Site) -> None:
    plugin = site.plugin()
    plugin.register()
    plugin.say(listing(a=True, b=True, c=True))
    site.until(lambda found: found == {GPU: Listing(3, 3, one_per_request=False)})
    plugin.say(listing(a=True, b=False, c=True))
    site.until(lambda found: found == {GPU: Listing(2, 3, one_per_request=False)})
    site.until(lambda _: site.told == 2)


def test_a_plugin_that_refuses_two_devices_is_found_out(site: Site) -> None:
    shared, plain = site.plugin("shared.sock", most=1), site.plugin("plain.sock", most=1)
    shared.register("nvidia.com/gpu.shared")
    plain.register()
    shared.say(listing(a=True, b=True))
    plain.say(listing(a=True))
    site.until(lambda found: len(found) == 2)
    assert {name: one.one_per_request for name, one in site.manager.listed().items()} == {
        "nvidia.com/gpu.shared": True,
        GPU: False,
    }


def test_what_a_plugin_listed_goes_with_it(site: Site) -> None:
    plugin = site.plugin()
    plugin.register()
    plugin.say(listing(a=True))
    site.until(bool)
    plugin.stop()
    site.until(lambda found: found == {})


def test_the_last_registration_of_a_resource_counts(site: Site) -> None:
    old, new = site.plugin("old.sock"), site.plugin("new.sock")
    old.register()
    old.say(listing(a=True))
    site.until(bool)
    new.register()
    new.say(listing(a=True, b=True))
    site.until(lambda found: found[GPU].devices == 2 if found else False)
    with contextlib.suppress(ValueError):
        old.say(listing(a=True, b=True, c=True))
    old.stop()
    new.say(listing(a=True, b=False))
    site.until(lambda found: found == {GPU: Listing(1, 2, one_per_request=False)})


@pytest.mark.parametrize(
    ("resource", "version", "words"),
    [(GPU, "v1alpha", '"v1alpha" is not supported'), ("gpu", "v1beta1", '"gpu" is invalid')],
)
def test_a_registration_that_a_kubelet_refuses_is_refused(site: Site, resource: str, version: str, words: str) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        site.plugin().register(resource, version)
    assert words in str(raised.value)
    assert site.manager.listed() == {}


def test_a_manager_that_comes_again_finds_its_socket_taken_and_listens_all_the_same(site: Site) -> None:
    site.manager.close()
    (site.folder / SOCKET).write_text("left by another")
    site.manager = DeviceManager(site.folder, lambda: None)
    plugin = site.plugin()
    plugin.register()
    plugin.say(listing(a=True))
    site.until(bool)


@given(st.lists(st.tuples(st.integers(1, 1 << 28), st.binary(max_size=300))))
def test_what_is_written_is_read(fields: list[tuple[int, bytes]]) -> None:
    assert list(read_fields(write_fields(fields))) == fields


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(message: bytes) -> None:
    with contextlib.suppress(ValueError):
        for number, value in read_fields(message):
            assert number >= 0
            assert value in message


def test_devices_by_health() -> None:
    assert devices(listing(a=True, b=False)) == {b"a": b"Healthy", b"b": b"Unhealthy"}
