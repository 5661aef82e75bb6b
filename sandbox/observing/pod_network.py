"""What answers at the addresses of pods: exporters and verifiers of simulated nodes, as a scrape of Prometheus reaches them.

The address of a simulated pod leads nowhere. So Prometheus is given this as the proxy of its scrapes, and asks it for
`http://ADDRESS:PORT/metrics`. Whose address it is says the API server. An exporter is answered for here (on_nodes.py);
a verifier really listens, in a network of its own, and is asked there. Nothing else is passed on, and to nobody but whoever runs
the sandbox (sandbox.system.peers).
"""

from __future__ import annotations

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
_IDLE_SECONDS: Final = 60.0
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Pods:
    """Who is at the addresses of pods. What was found is kept, and looked at again before it counts."""

    def __init__(self, api: Api, truth: Truth) -> None:
        """Know nobody yet.

        Args:
            api: of the cluster.
            truth: about its nodes.
        """
        self._api, self._truth = api, truth
        #: Address of an exporter -> its node, of a verifier -> uid of its pod.
        self._exporters: dict[str, str] = {}
        self._verifiers: dict[str, str] = {}
        self._processes: dict[str, int] = {}

    def answer(self, address: str, port: int) -> bytes:
        """What a pod answers to a scrape.

        Raises:
            OSError: nobody is there.
        """
        if address not in self._exporters.keys() | self._verifiers.keys():
            self._find(address)
        if port == PORT and address in self._exporters:
            return self._exposed(address)
        if port == VERIFIER_PORT and address in self._verifiers:
            return self._asked(address)
        message = f"no pod that tells metrics has {address}:{port}"
        raise ConnectionRefusedError(message)

    def _find(self, address: str) -> None:
        path = f"/api/v1/pods?fieldSelector=status.podIP={ipaddress.ip_address(address)}"
        for pod in self._api.list(path)["items"]:
            labels = pod["metadata"].get("labels") or {}
            if pod["status"].get("phase") != "Running":
                continue
            if labels.get("app") == APP:
                self._exporters[address] = pod["spec"]["nodeName"]
            elif labels.get("app.kubernetes.io/name") == VERIFIER_APP and pod["metadata"]["namespace"] == VERIFIER_NAMESPACE:
                self._verifiers[address] = pod["metadata"]["uid"]

    def _exposed(self, address: str) -> bytes:
        try:
            return exposed(self._truth.of(self._exporters[address], address)).encode()
        except ProcessLookupError:
            del self._exporters[address]
            raise

    def _asked(self, address: str) -> bytes:
        """What a verifier's pod answers in its own network."""
        uid = self._verifiers[address]
        connection = http.client.HTTPConnection(address, VERIFIER_PORT)
        try:
            connection.sock = private_network.connected(self._inside(uid), address, VERIFIER_PORT, _SECONDS)
            connection.request("GET", "/metrics")
            return connection.getresponse().read()
        except OSError:
            self._verifiers.pop(address, None)
            self._processes.pop(uid, None)
            raise
        finally:
            connection.close()

    def _inside(self, uid: str) -> int:
        """A process in a pod's network."""
        known = self._processes.get(uid)
        if known is not None and _is_inside(known, uid):
            return known
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and _is_inside(int(process.name), uid):
                self._processes[uid] = int(process.name)
                return int(process.name)
        message = f"no process of pod {uid}"
        raise ConnectionRefusedError(message)


def _is_inside(process: int, uid: str) -> bool:
    place = Path(f"/proc/{process}")
    try:
        ours = f"/pods/{uid}/".encode() in (place / "cmdline").read_bytes()
        return ours and (place / "ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    except OSError:
        return False


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
    # One connection for many scrapes: whose each is has to be looked for.
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS

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
