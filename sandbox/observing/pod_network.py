"""What answers at the addresses of pods: exporters and verifiers of simulated nodes, as a scrape of Prometheus reaches them.

The address of a simulated pod leads nowhere. So Prometheus is given this as the proxy of its scrapes, and asks it for
`http://ADDRESS:PORT/metrics`. Whose address it is says the API server. An exporter is answered for here (on_nodes.py);
a verifier really listens, in a network of its own, and is asked there. Nothing else is passed on, and to nobody but whoever runs
the sandbox (sandbox.system.peers).
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gpu_pools.proof.verifier_pods import PORT as VERIFIER_PORT
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.observing.exporter import exposed
from sandbox.observing.on_nodes import APP, Truth
from sandbox.system import private_network

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sandbox.cluster.api import Api

PORT: Final = 9400
_SECONDS: Final = 5.0
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def answer_of(api: Api, truth: Truth, address: str, port: int) -> bytes:
    """What a pod answers to a scrape.

    Raises:
        OSError: nobody is there.
    """
    pods = api.list(f"/api/v1/pods?fieldSelector=status.podIP={ipaddress.ip_address(address)}")["items"]
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        if pod["status"].get("phase") != "Running":
            continue
        if port == PORT and labels.get("app") == APP:
            return exposed(truth.of(pod["spec"]["nodeName"])).encode()
        verifies = labels.get("app.kubernetes.io/name") == VERIFIER_APP and pod["metadata"]["namespace"] == VERIFIER_NAMESPACE
        if port == VERIFIER_PORT and verifies:
            return asked(pod["metadata"]["uid"], address)
    message = f"no pod that tells metrics has {address}:{port}"
    raise ConnectionRefusedError(message)


def asked(uid: str, address: str) -> bytes:
    """What a verifier's pod answers in its own network.

    Raises:
        OSError: nobody is there.
    """
    connection = http.client.HTTPConnection(address, VERIFIER_PORT)
    connection.sock = private_network.connected(_inside(uid), address, VERIFIER_PORT, _SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read()


def _inside(uid: str) -> int:
    """A process in a pod's network."""
    own = Path("/proc/self/ns/net").readlink()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            ours = process.name.isdigit() and f"/pods/{uid}/".encode() in (process / "cmdline").read_bytes()
            if ours and (process / "ns/net").readlink() != own:
                return int(process.name)
    message = f"no process of pod {uid}"
    raise ConnectionRefusedError(message)


class PodNetwork(ThreadingHTTPServer):
    """The proxy, at a socket that listens."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, answer: Callable[[str, int], bytes]) -> None:
        """Serve from now on.

        Args:
            listener: where Prometheus finds it.
            answer: what is at an address and port.
        """
        socketserver.BaseServer.__init__(self, listener.getsockname(), _Handler)
        self.socket = listener
        self.answer = answer
        threading.Thread(target=self.serve_forever, name="pod network", daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: PodNetwork
    timeout = _SECONDS * 2

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        try:
            body = self.server.answer(target.hostname or "", target.port or 80)
        except (OSError, ValueError, KeyError, ApiError, UnreachableError, http.client.HTTPException) as error:
            self.send_error(502, type(error).__name__, str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", _TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: a scrape that failed is what Prometheus tells."""
