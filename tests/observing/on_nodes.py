"""An exporter on each simulated node that has a pod of one, at an address that a Prometheus of a test reaches.

A pod of the exporter has an address 10.x.y.z that nobody can reach; it is served at 127.x.y.z, at the exporter's own port. A
verifier really listens, in a network of its own, which the kubelet alone reaches: what is asked at its address is asked there.
What each answers is the sandbox's (sandbox/observing).
"""

from __future__ import annotations

import contextlib
import http.server
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from gpu_pools.proof.verifier_pods import PORT as VERIFIER_PORT
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from sandbox.observing.exporter import exposed
from sandbox.observing.on_nodes import APP, Truth
from sandbox.observing.pod_network import PORT, asked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.cluster.api import Api
    from sandbox.observing.exporter import Node

_VERIFIERS: Final = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods?labelSelector=app.kubernetes.io/name={VERIFIER_APP}"
Address = tuple[str, int]


class Exporters:
    """The exporters of a cluster, as its pods come and go.

    Attributes:
        silent: nodes whose exporter does not answer.
    """

    def __init__(self, cluster: Path, api: Api, window: float) -> None:
        """Serve nothing yet.

        Args:
            cluster: the folder of the simulated cluster.
            api: of it.
            window: seconds for which an Xid is counted; the real one has five minutes.
        """
        self.silent: set[str] = set()
        self._api, self._truth = api, Truth(cluster, api, window)
        self._servers: dict[Address, http.server.ThreadingHTTPServer] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="exporters", daemon=True)

    def __enter__(self) -> Self:
        """Begin to follow the pods."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all of them."""
        self._over.set()
        self._thread.join()
        for place in list(self._servers):
            self._stop(place)

    @property
    def follows(self) -> bool:
        """Whether it looks at the pods."""
        return self._thread.is_alive()

    def truth(self, node: str) -> Node:
        """What is so on a node now."""
        return self._truth.of(node)

    def _follow(self) -> None:
        while not self._over.wait(0.3):
            with contextlib.suppress(Exception):
                self._look()

    def _look(self) -> None:
        wanted: dict[Address, Callable[[], bytes]] = {}
        for pod in self._running(f"/api/v1/pods?labelSelector=app={APP}"):
            if pod["spec"]["nodeName"] in self.silent:
                continue
            address = f"127{pod['status']['podIP'].removeprefix('10')}"
            wanted[address, PORT] = partial(self._exposed, pod["spec"]["nodeName"])
        for pod in self._running(_VERIFIERS):
            address = pod["status"]["podIP"]
            wanted[address, VERIFIER_PORT] = partial(asked, pod["metadata"]["uid"], address)
        for gone in self._servers.keys() - wanted.keys():
            self._stop(gone)
        for place in wanted.keys() - self._servers.keys():
            self._servers[place] = _served(place, wanted[place])

    def _running(self, path: str) -> list[dict[str, Any]]:
        pods = self._api.list(path)["items"]
        return [pod for pod in pods if pod["status"].get("phase") == "Running" and pod["status"].get("podIP")]

    def _exposed(self, node: str) -> bytes:
        return exposed(self.truth(node)).encode()

    def _stop(self, place: Address) -> None:
        server = self._servers.pop(place)
        server.shutdown()
        server.server_close()


def _served(place: Address, text: Callable[[], bytes]) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                body = text()
            except OSError as error:
                self.send_error(502, str(error))
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(place, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
