"""The API server's way to the kubelets of real nodes, so that `kubectl logs`, `exec` and `port-forward` work.

    python -m sandbox.real_node.egress <cluster's folder>

Their networks are their own, and the API server is in none of them. As in clusters whose control plane is elsewhere it is
configured to go through a proxy (an egress selector, HTTP CONNECT over a socket in the cluster's folder, which only its owner can
open). This is the proxy: it asks for the node by the name that the API server dials, and dials in that node's network. Who dials
has TLS and credentials of its own to the kubelet; nothing is looked into here. Simulated nodes have no kubelet that answers.

One runs per cluster, as long as it has real nodes.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.text.terminal import guarded
from sandbox.cluster.control_plane import EGRESS_SOCKET
from sandbox.real_node.place import Place, places
from sandbox.system import private_network, processes

if TYPE_CHECKING:
    from collections.abc import Sequence

PROCESS: Final = "way-to-nodes"
_CONNECT: Final = re.compile(rb"CONNECT ([A-Za-z0-9.-]+):([0-9]{1,5}) HTTP/1\.[01]\r\n")
_MOST: Final = 1 << 14
_SECONDS: Final = 10.0


def start(cluster: Path) -> None:
    """Start it, unless it runs."""
    if PROCESS in processes.running(cluster):
        return
    command = [sys.executable, "-m", "sandbox.real_node.egress", str(cluster)]
    search = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]))
    processes.spawn(cluster, PROCESS, command, env={**os.environ, "PYTHONPATH": search})


def stop(cluster: Path) -> None:
    """Stop it where no real node is left that could need it."""
    if not places(cluster):
        processes.stop(cluster, [PROCESS])
        (cluster / EGRESS_SOCKET).unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Serve until ended."""
    cluster = Path(arguments[0])
    # A socket's name is at most 107 bytes, and a cluster's folder may be longer; the API server, too, is in it.
    os.chdir(cluster)
    os.umask(0o077)
    Path(EGRESS_SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(EGRESS_SOCKET)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, cluster), daemon=True).start()


def _serve(client: socket.socket, cluster: Path) -> None:
    client.settimeout(_SECONDS)
    try:
        node, port = _asked(client)
        kubelet = _dial(Place(cluster, node), port)
    except (OSError, LookupError) as error:
        # The API server shows the line's end to whoever asked it.
        with client:
            client.sendall(f"HTTP/1.1 502 {error}\r\n\r\n".encode())
        return
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    client.settimeout(None)
    private_network.carry(client, kubelet)


def _asked(client: socket.socket) -> tuple[str, int]:
    """Whom the API server wants: name of the node, and port.

    Raises:
        OSError: it says something else.
    """
    said = b""
    while b"\r\n\r\n" not in said:
        more = client.recv(_MOST)
        said += more
        if not more or len(said) > _MOST:
            message = "no CONNECT came"
            raise OSError(message)
    found = _CONNECT.match(said)
    if found is None:
        message = "no CONNECT came"
        raise OSError(message)
    return found[1].decode("ascii"), int(found[2])


def _dial(place: Place, port: int) -> socket.socket:
    """A connection to a port of a node.

    Raises:
        LookupError: it is no real node that runs.
        OSError: nobody listens there.
    """
    if place.process not in processes.running(place.cluster):
        message = f"{place.node} is no real node that runs; simulated ones have no containers to speak to"
        raise LookupError(message)
    pid = int((place.folder / "pid").read_text("ascii"))
    connection = private_network.connected(pid, "127.0.0.1", port, _SECONDS)
    connection.settimeout(None)
    return connection


if __name__ == "__main__":
    # What it says is in a log that people read on terminals.
    with guarded():
        sys.exit(main(sys.argv[1:]))
