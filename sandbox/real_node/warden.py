"""Outside of a real node: makes its cgroups, holds its first process, and passes connections on to the cluster's API server.

    python -m sandbox.real_node.warden <cluster's folder> <node>

It listens in the node's network, at the address of the service `kubernetes`, and dials on this machine's 127.0.0.1. Told to
end (SIGTERM) it takes away what the node has outside of its folder. Killed, it leaves cgroups, which `down` removes, and nothing
else.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from gpu_pools.text.terminal import guarded
from sandbox.cluster import control_plane
from sandbox.real_node import registry
from sandbox.real_node.place import API_PORT, REGISTRY_PORT, Place, read
from sandbox.system import cgroups, peers, private_network
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

_END_SECONDS: Final = 10.0
_DIAL_SECONDS: Final = 10.0


class _Told(Exception):  # noqa: N818 no error
    """Somebody wants the node to end."""


def main(arguments: Sequence[str]) -> int:
    """Keep the node until told to end, or until it ends by itself."""
    place = Place(Path(arguments[0]), arguments[1])
    signal.signal(signal.SIGTERM, _tell)
    signal.signal(signal.SIGINT, _tell)
    try:
        return _keep(place)
    except _Told:
        return 0
    except (SandboxError, OSError) as error:
        _say(f"{place.node}: {error}")
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        clear(place)


def clear(place: Place) -> None:
    """Take away what a node that has ended, or is to end, has left outside of its folder, and what it wrote there."""
    cgroups.remove(place.cluster, place.node)
    shutil.rmtree(place.root, ignore_errors=True)


def _keep(place: Place) -> int:
    read(place)
    cgroups.make(place.group)
    keeper = subprocess.Popen(
        [sys.executable, "-m", "sandbox.real_node.keeper", str(place.cluster), place.node],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert keeper.stdin is not None  # noqa: S101
    assert keeper.stdout is not None  # noqa: S101
    try:
        said = keeper.stdout.readline().strip()
        if not said.startswith("pid "):
            return _failed(place, said)
        (place.folder / "pid").write_text(said.removeprefix("pid "), encoding="ascii")
        said = keeper.stdout.readline().strip()
        if said != "ready":
            return _failed(place, said)
        first = int((place.folder / "pid").read_text("ascii"))
        listener = private_network.listening(first, "0.0.0.0", API_PORT)  # noqa: S104 in a network of its own
        images = private_network.listening(first, "127.0.0.1", REGISTRY_PORT)
        threading.Thread(target=registry.server(images, place.registry).serve_forever, daemon=True).start()
        port = int(control_plane.load(place.cluster).server.rpartition(":")[2])
        threading.Thread(target=_pass_on, args=(listener, port), daemon=True).start()
        _say(f"{place.node}: process {first}")
        said = keeper.stdout.readline().strip()
        return _failed(place, said)
    finally:
        keeper.stdin.close()
        try:
            keeper.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()


def _failed(place: Place, said: str) -> int:
    _say(f"{place.node}: {said.removeprefix('failed: ') or 'its first process has ended'}")
    return 1


def _say(line: str) -> None:
    """Into the log among the cluster's."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _tell(_number: int, _frame: object) -> NoReturn:
    raise _Told


def _pass_on(listener: socket.socket, port: int) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_dial, args=(connection, port), daemon=True).start()


def _dial(inner: socket.socket, port: int) -> None:
    try:
        outer = peers.connect(port, _DIAL_SECONDS)
    except OSError:
        inner.close()
        return
    outer.settimeout(None)
    private_network.carry(inner, outer)


if __name__ == "__main__":
    # What it says is in a log that people read on terminals. Threads that still carry connections are no reason to stay.
    with guarded():
        os._exit(main(sys.argv[1:]))
