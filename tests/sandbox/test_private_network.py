"""A network of its own: programs in it are reached by nobody outside, and reach what the sandbox has recorded."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.system import private_network
from sandbox.system.files import write_json
from sandbox.system.processes import wait_until
from tests.patience import scaled
from tests.sandbox.strangers import impostor, needs_root
from tests.sandbox.unprivileged import WITHOUT_RIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=10); print(s.recv(9).decode())"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="whether users may make namespaces differs")


@contextmanager
def server() -> Iterator[int]:
    """Says something to each who comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"welcome")
                    connection.recv(1)  # until the other end is closed: before, the kernel says whose this one is

        threading.Thread(target=answer, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def python(folder: Path, ports: list[int], *arguments: str) -> list[str]:
    return private_network.command(folder, ports, [sys.executable, "-c", *arguments])


def ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=scaled(60))


def test_what_is_given_and_what_is_recorded_is_reached_also_later(tmp_path: Path) -> None:
    wait = "import time; time.sleep(0.5); " + ASK
    with server() as given, server() as recorded:
        assert ended(python(tmp_path, [given], ASK, str(given))).stdout == "welcome\n"
        write_json(tmp_path / "clusters" / "one" / "cluster.json", {"ports": {"api": recorded}})
        assert ended(python(tmp_path, [], wait, str(recorded))).stdout == "welcome\n"


def test_nothing_else_is_reached(tmp_path: Path) -> None:
    with server() as other:
        assert "ConnectionRefusedError" in ended(python(tmp_path, [], ASK, str(other))).stderr


@needs_root
def test_another_user_who_takes_a_port_gets_nothing(tmp_path: Path) -> None:
    """When a stand-in dies, anyone may listen on its port within milliseconds, and the engine would send it the kubeconfig."""
    send = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10)
try:
    connection.sendall(b"kubeconfig")
    print(connection.recv(16))
except ConnectionError:
    print(b"")
"""
    with impostor() as given, impostor() as recorded:
        write_json(tmp_path / "providers.json", {"ports": {"azure-native": recorded.port}})
        said = [ended(python(tmp_path, [given.port], send, str(one.port))).stdout for one in (given, recorded)]
    assert said == ["b''\n", "b''\n"]
    # It did listen, and was dialled.
    assert (given.came, recorded.came) == (1, 1)
    assert (given.heard, recorded.heard) == ("", "")


def test_a_program_inside_is_reached_by_nobody_outside_not_even_by_its_own_user(tmp_path: Path) -> None:
    """Review 1: the language host runs whatever program it is told to, and asks nobody who he is."""
    listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    command = python(tmp_path, [], listen)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        private_network.connected(process.pid, "127.0.0.1", port, 10).close()
        process.communicate("\n")
    assert process.returncode == 0


def test_who_may_not_enter_a_network_sends_a_process_there(tmp_path: Path) -> None:
    """As on nodes of whoever is not root: the network belongs to a user namespace that he has made."""
    listen = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
listener.settimeout(20)
print(listener.getsockname()[1], flush=True)
listener.accept()[0].sendall(b"welcome")
"""
    look = """
import json, subprocess, sys
from sandbox.system import private_network
words = json.loads(sys.argv[1])
with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
    port = int(process.stdout.readline())
    try:
        private_network.connected(process.pid, "127.0.0.1", 1, 10)
    except ConnectionRefusedError:
        print("nobody listens")
    with private_network.connected(process.pid, "127.0.0.1", port, 10) as connection:
        print(connection.recv(9).decode(), connection.gettimeout())
"""
    inside = json.dumps(["unshare", "--user", "--map-root-user", *python(tmp_path, [], listen)])
    done = ended([*WITHOUT_RIGHTS, sys.executable, "-c", look, inside])
    assert done.stdout.splitlines() == ["nobody listens", "welcome 10.0"], done.stderr


def test_it_is_the_program_that_is_signalled_and_whose_status_counts(tmp_path: Path) -> None:
    wait = "import time; print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen(python(tmp_path, [], wait), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=scaled(30)) == -signal.SIGINT
    assert ended(python(tmp_path, [], "raise SystemExit(7)")).returncode == 7


def test_nothing_is_left_of_it_when_the_program_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(python(tmp_path, [], "import time; time.sleep(60)")) as process:
        wait_until(lambda: len(helpers(tmp_path)) == 2, timeout=30, what="opener and carrier run")
        process.kill()
    wait_until(lambda: not helpers(tmp_path), timeout=30, what="opener and carrier have ended")


def test_where_namespaces_are_not_allowed_the_program_runs_and_says_so(tmp_path: Path) -> None:
    inside = json.dumps(python(tmp_path, [], "print('ran')"))
    # In a namespace of users in which no further one of networks may be made.
    become = "import json, os, sys; words = json.loads(sys.argv[1]); os.execv(words[0], words)"
    limit = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$0" -c "$1" "$2"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", limit, sys.executable, become, inside]
    done = ended(command)
    assert done.stdout == "ran\n"
    assert "gets no network of its own" in done.stderr


def helpers(folder: Path) -> list[str]:
    """Processes of ours that wait beside a program."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if private_network.__file__ in words and str(folder) in words:
            found.append(entry.name)
    return found
