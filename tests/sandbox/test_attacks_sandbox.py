"""Attacks of another user of this machine, and of whoever may make pods, on what the sandbox runs."""

from __future__ import annotations

import os
import socket
import threading
import time
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from sandbox.clouds.azure import AzureCloud
from sandbox.openstack.magnum_api import MagnumApi, MagnumError
from sandbox.providers.azure_native import AzureNativeStandIn
from sandbox.providers.base import Request, ServiceError, serve
from sandbox.providers.kubernetes import KubernetesStandIn
from sandbox.providers.values import write_map
from sandbox.stack import state
from sandbox.system import peers, processes, trust
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.cache import cache_folder
from sandbox.toolchain.find import find_tools
from tests.sandbox.strangers import NOBODY, as_stranger, impostor, needs_root
from tests.sandbox.test_provider_base import URN, Things

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Of an application credential.
LOGIN = {"OS_APPLICATION_CREDENTIAL_ID": "id", "OS_APPLICATION_CREDENTIAL_SECRET": "secret"}
#: Connects, sends the beginning of HTTP/2 and prints how many bytes come back until the other end closes.
KNOCK = r"""
import json, socket, sys
heard = b""
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=3) as link:
        link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        while len(heard) < 9 and (data := link.recv(64)):
            heard += data
except ConnectionError:
    pass
print(json.dumps(len(heard)))
"""
#: Sends something and is gone before anybody can look who it was.
SEND_AND_RUN = r"""
import json, socket, sys
for how in ("close", "half", "reset"):
    for _ in range(int(sys.argv[2])):
        link = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=3)
        if how == "reset":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        try:
            link.sendall(b"order")
            if how == "half":
                link.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        if how != "half":
            link.close()
print(json.dumps("gone"))
"""


@pytest.fixture
def port() -> Iterator[int]:
    server, number = serve(Things())
    yield number
    server.stop(None)


class TestTheDoorOfAStandIn:
    @needs_root
    def test_a_stranger_dials_a_stand_in(self, port: int) -> None:
        """Review 1: another user speaks gRPC to a provider stand-in."""
        assert as_stranger(KNOCK, str(port)) == 0

    def test_its_own_user_is_answered(self, port: int) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            client = provider_pb2_grpc.ResourceProviderStub(channel)
            assert client.Create(provider_pb2.CreateRequest(urn=URN, properties=write_map({"a": 1}))).id == "id-one"

    def test_its_own_user_is_answered_over_ipv6_too(self) -> None:
        """A client's socket for IPv6 stands in another table of the kernel."""
        with peers.listening(0) as listener, socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as client:
            client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
            accepted, _ = listener.accept()
            accepted.close()

    @needs_root
    def test_a_stranger_looks_for_the_socket_behind_the_door(self) -> None:
        """Another user goes around the door: to the server's own socket."""
        server, _ = serve(Things())
        program = """
import json, socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as error:
    print(json.dumps(error.errno))
else:
    print(json.dumps(0))
"""
        assert as_stranger(program, server.door.target.removeprefix("unix:")) == 13
        server.stop(None)

    @needs_root
    def test_a_stranger_sends_and_is_gone(self) -> None:
        """Whose a closed socket was the kernel no longer says; it then names root."""
        heard: list[bytes] = []
        with peers.listening(0) as listener:
            listener.settimeout(2)

            def serve_all() -> None:
                while True:
                    time.sleep(0.001)
                    try:
                        link, _ = listener.accept()
                    except BlockingIOError:
                        continue
                    except OSError:
                        return
                    heard.append(link.recv(16))

            thread = threading.Thread(target=serve_all)
            thread.start()
            as_stranger(SEND_AND_RUN, str(listener.getsockname()[1]), "50")
            thread.join()
        assert heard == []

    @needs_root
    def test_a_stranger_takes_the_place_of_a_connection_that_was_looked_at(self, port: int) -> None:
        """Each connection is looked at, not each address: one that was ours is not ours for ever."""
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            grpc.channel_ready_future(channel).result(timeout=10)
            assert as_stranger(KNOCK, str(port)) == 0


class TestWhoTakesAPort:
    """Whose server has ended is followed on its port by whoever is quick."""

    @needs_root
    def test_nothing_is_sent_to_another_users_server(self) -> None:
        with impostor() as other, pytest.raises(ConnectionRefusedError, match="not served by a program of this user"):
            peers.connect(other.port, 10)
        assert (other.came, other.heard) == (1, "")

    @needs_root
    def test_no_login_is_sent_to_what_has_taken_keystones_port(self) -> None:
        with impostor() as other, pytest.raises(MagnumError):
            MagnumApi({**LOGIN, "OS_AUTH_URL": f"http://127.0.0.1:{other.port}/v3"}).addresses()
        assert other.came > 0
        assert other.heard == ""

    def test_a_server_that_is_slow_to_accept_is_waited_for(self) -> None:
        """Until somebody has accepted, the kernel says that a connection is root's, whoever listens."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            accepted: list[socket.socket] = []
            timer = threading.Timer(0.3, lambda: accepted.append(listener.accept()[0]))
            timer.start()
            began = time.monotonic()
            peers.connect(listener.getsockname()[1], 10).close()
            assert time.monotonic() - began >= 0.2
            timer.join()
            accepted[0].close()

    def test_a_server_that_never_accepts_is_refused(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as link:
            assert not peers.is_served_by_own(link, seconds=0.2)


class TestWhoseConfiguration:
    def test_a_stranger_borrows_the_last_kubeconfig(self) -> None:
        """Review 1: a connection that has configured nothing works on the cluster of the last one that has."""
        stand_in = KubernetesStandIn()
        with stand_in.answering(Request(connection="the engine")):
            stand_in.configure({}, {"kubeconfig": "apiVersion: v1"})
        with stand_in.answering(Request(connection="another")), pytest.raises(ServiceError, match="has not configured"):
            stand_in.check("kubernetes:core/v1:ConfigMap", {}, {"metadata": {"name": "a"}})

    def test_a_stranger_asks_for_a_kubeconfig_of_azure(self, tmp_path: Path) -> None:
        """Review 1: a connection that has not logged in asks the stand-in of Azure for a cluster's credentials."""
        stand_in = AzureNativeStandIn(AzureCloud(tmp_path, cast("Any", _NoHost())))
        names = {"resourceGroupName": "group", "resourceName": "cluster"}
        token = "azure-native:containerservice:listManagedClusterAdminCredentials"  # noqa: S105
        with stand_in.answering(Request(connection="another")), pytest.raises(ServiceError, match="has not configured"):
            stand_in.invoke(token, names)

    def test_many_connections_do_not_push_one_out_for_another_ones_configuration(self) -> None:
        """Whose configuration was forgotten gets an error, never the one that pushed it out."""
        stand_in = KubernetesStandIn()
        for number in range(70):
            with stand_in.answering(Request(connection=str(number))):
                stand_in.configure({}, {"kubeconfig": "apiVersion: v1"})
        with stand_in.answering(Request(connection="0")), pytest.raises(ServiceError, match="has not configured"):
            stand_in.check("kubernetes:core/v1:ConfigMap", {}, {"metadata": {"name": "a"}})


class _NoHost:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


@needs_root
class TestWhatOthersCanChange:
    def test_a_stranger_owns_the_state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another user makes the folder first: its records name the programs that are started."""
        monkeypatch.setenv("GPU_POOLS_SANDBOX_DIR", str(tmp_path / "state"))
        planted = tmp_path / "state" / "aks-dev"
        planted.mkdir(parents=True)
        os.chown(planted, NOBODY, NOBODY)
        for command in (lambda: state.find_sandbox("aks-dev"), state.all_sandboxes):
            with pytest.raises(SandboxError, match=f"{planted} belongs to nobody"):
                command()

    def test_a_stranger_may_write_to_the_folder_of_all_sandboxes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who may write to a folder exchanges what is in it."""
        monkeypatch.setenv("GPU_POOLS_SANDBOX_DIR", str(tmp_path))
        tmp_path.chmod(0o777)
        with pytest.raises(SandboxError, match="everybody may write"):
            state.find_sandbox("aks-dev")

    def test_a_stranger_leads_the_state_elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A link that another user has made, to a folder of his."""
        (tmp_path / "his").mkdir()
        os.chown(tmp_path / "his", NOBODY, NOBODY)
        (tmp_path / "state").symlink_to(tmp_path / "his")
        monkeypatch.setenv("GPU_POOLS_SANDBOX_DIR", str(tmp_path / "state"))
        with pytest.raises(SandboxError, match="belongs to nobody"):
            state.root()

    def test_a_stranger_puts_programs_into_the_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is in the cache is run without a further look."""
        monkeypatch.setenv("GPU_POOLS_CACHE", str(tmp_path / "cache"))
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache").chmod(0o777)
        with pytest.raises(SandboxError, match=r"everybody may write to .*cache") as error:
            cache_folder()
        assert "chmod go-w" in error.value.remedy
        assert "GPU_POOLS_CACHE" in error.value.remedy

    def test_a_stranger_puts_a_program_on_the_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder of another user comes first on PATH, with an etcd that fits."""
        program = tmp_path / "bin" / "etcd"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\necho etcd Version: 3.6.8\n", encoding="utf-8")
        program.chmod(0o755)
        os.chown(program, NOBODY, NOBODY)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        found = find_tools(Progress(), only={"etcd"})
        assert found.etcd != program
        assert not (tmp_path / "ran").exists()

    def test_folders_that_others_write_to_are_left_out_of_the_path(self, tmp_path: Path) -> None:
        """Whatever is started by its name is looked for there."""
        for name, mode in (("good", 0o755), ("bad", 0o777)):
            (tmp_path / name).mkdir()
            (tmp_path / name).chmod(mode)
        kept, left_out = trust.without_strange_folders(f"{tmp_path / 'bad'}:.:{tmp_path / 'good'}:{gettempdir()}:/usr/bin")
        assert kept == f"{tmp_path / 'good'}:/usr/bin"
        assert [reason.partition(":")[0] for reason in left_out] == [str(tmp_path / "bad"), ".", gettempdir()]

    def test_a_private_group_is_nobody_else(self, tmp_path: Path) -> None:
        """Where umask 002 is usual, homes are writable for a group of one."""
        tmp_path.chmod(0o775)
        os.chown(tmp_path, 0, 0)
        assert trust.trouble(tmp_path) == ""
        os.chown(tmp_path, 0, NOBODY)
        assert "the group" in trust.trouble(tmp_path)

    def test_what_background_programs_write_is_for_their_own_user(self, tmp_path: Path) -> None:
        """Logs and data of everything that is started, wherever it lies."""
        processes.spawn(tmp_path, "writer", ["touch", str(tmp_path / "written")])
        processes.wait_until((tmp_path / "written").exists, timeout=10, what="it has written")
        assert (tmp_path / "written").stat().st_mode & 0o077 == 0
