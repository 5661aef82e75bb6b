"""Keeps a Prometheus at what its operator says: waits for the cluster, runs both, and follows what is written.

One step at a time, called again and again; what is not there yet is waited for by the next step. A program that has ended ends
all of it, so that somebody sees it. Both programs want no credentials of who asks them, so each has a network of its own
(sandbox.system.private_network).

Not here: the way to Prometheus, and the pages (__main__.py).
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.observing import operator
from sandbox.observing.on_nodes import Truth
from sandbox.observing.pod_network import answer_of
from sandbox.system import private_network, processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox.cluster.control_plane import Cluster

_LOG: Final = logging.getLogger("sandbox.observing")
_KEPT: Final = ("--storage.tsdb.retention.time=7d", "--storage.tsdb.retention.size=512MB")
_SECONDS: Final = 10.0
_HOST: Final = "127.0.0.1"
_STOP_SECONDS: Final = 5.0


class Observer:
    """The Prometheus of one sandbox."""

    def __init__(self, sandbox: Path, programs: Mapping[str, Path], proxy: int, interval: str) -> None:
        """Start nothing yet.

        Args:
            sandbox: its folder; its first cluster is observed.
            programs: folder of each of the two programs.
            proxy: port of the pods' network.
            interval: between two evaluations of rules.
        """
        self._sandbox, self._programs, self._proxy, self._interval = sandbox, programs, proxy, interval
        self._folder = make_folder(sandbox / "observing")
        self._operator_port, self._port = processes.free_ports(2)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._cluster: Cluster | None = None
        self._api: Api | None = None
        self._truth: Truth | None = None
        self._written: Any = None
        self._defined = False
        self._renew_at = 0.0

    def step(self) -> None:
        """Go on.

        Raises:
            SandboxError: a program has ended.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                raise SandboxError(f"{name} has ended with {process.returncode}.", f"Read {self._log(name)}.")
        try:
            self._go_on()
        except (ApiError, UnreachableError) as error:
            # A cluster that is being made, or goes.
            _LOG.info("waiting: %s", error)

    def stop(self) -> None:
        """End both programs."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def answer(self, address: str, port: int) -> bytes:
        """What a pod answers to a scrape.

        Raises:
            OSError: nobody is there.
        """
        if self._api is None or self._truth is None:
            message = "there is no cluster yet"
            raise ConnectionRefusedError(message)
        return answer_of(self._api, self._truth, address, port)

    def connected(self) -> socket.socket:
        """A connection to Prometheus.

        Raises:
            OSError: it does not answer yet.
        """
        process = self._running.get("prometheus")
        if process is None:
            message = "Prometheus does not run yet"
            raise ConnectionRefusedError(message)
        if Path(f"/proc/{process.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            # Where nobody may make namespaces.
            return socket.create_connection((_HOST, self._port), _SECONDS)
        return private_network.connected(process.pid, _HOST, self._port, _SECONDS)

    def _go_on(self) -> None:
        if self._api is None:
            self._find()
        api, cluster = self._api, self._cluster
        if api is None or cluster is None:
            return
        if not self._defined:
            operator.define(api, self._programs[operator.PROGRAM])
            if not operator.served(api):
                return
            operator.declare(api, self._interval)
            self._defined = True
        if operator.PROGRAM not in self._running:
            program = self._programs[operator.PROGRAM] / "operator"
            argv = operator.command(self._folder / "operator", program, cluster, self._operator_port)
            self._start(operator.PROGRAM, argv, [])
        operator.grant(api)
        if time.monotonic() > self._renew_at:
            operator.log_in(api, cluster, self._folder)
            self._renew_at = time.monotonic() + operator.RENEW_SECONDS
        self._follow(api)

    def _find(self) -> None:
        """The first cluster that has a kubeconfig, and answers."""
        for record in sorted((self._sandbox / "clusters").glob("*/cluster.json")):
            if not (record.parent / "kubeconfig").exists():
                continue
            cluster = control_plane.load(record.parent)
            api = Api.at(cluster.kubeconfig)
            api.get("/api/v1/namespaces/default")
            self._cluster, self._api, self._truth = cluster, api, Truth(cluster.folder, api)
            return

    def _follow(self, api: Api) -> None:
        """Have Prometheus run with what is written, and read it anew when that has changed."""
        written = operator.written(api)
        if written is None or written == self._written:
            return
        configuration, rules = written
        place = make_folder(self._folder / "rules")
        for path in place.glob("*.yaml"):
            if path.name not in rules:
                path.unlink()
        for name, text in rules.items():
            write_atomic(place / name, text)
        config = self._folder / "prometheus.json"
        write_atomic(config, json.dumps(operator.here(configuration, self._folder, f"http://{_HOST}:{self._proxy}")))
        self._written = written
        if "prometheus" in self._running:
            self._running["prometheus"].send_signal(signal.SIGHUP)
            return
        where = (f"--config.file={config}", f"--storage.tsdb.path={self._folder / 'data'}")
        flags = (*where, f"--web.listen-address={_HOST}:{self._port}", *_KEPT)
        self._start("prometheus", [str(self._programs["prometheus"] / "prometheus"), *flags], [self._proxy])

    def _start(self, name: str, argv: Sequence[str], ports: Sequence[int]) -> None:
        # In our own session: what ends us ends it, too.
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                private_network.command(self._sandbox, ports, argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _log(self, name: str) -> Path:
        return make_folder(self._sandbox / "logs") / f"{name}.log"
