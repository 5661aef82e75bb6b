"""The kubelet's side of the device plugin's wire, against plugins that speak gRPC over the same kind of socket."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.machines.device_manager import SOCKET, DeviceManager, Listing, devices, read_fields, write_fields
from sandbox.system.patience import Patience
from tests.sandbox.machines.plugins import GPU, Plugin, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
        end = Patience(60)
        while not holds(self.manager.listed()):
            assert not end.is_over(), self.manager.listed()
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
