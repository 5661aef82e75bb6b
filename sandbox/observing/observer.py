"""Keeps a Prometheus at what its operator says: waits for the cluster, runs both and kube-state-metrics, follows it.

One step at a time, called again and again; what is not there yet is waited for by the next step. A program that has ended ends
all of it, so that somebody sees it. The programs want no credentials of who asks them, so each has a network of its own
(sandbox.system.private_network).

Not here: the way to Prometheus, and the pages (__main__.py).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.observing import accounts, operator
from sandbox.observing.on_nodes import Truth
from sandbox.observing.pod_network import Pods
from sandbox.system import peers, private_network, processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from sandbox.cluster.control_plane import Cluster

_LOG: Final = logging.getLogger("sandbox.observing")
_KEPT: Final = ("--storage.tsdb.retention.time=7d", "--storage.tsdb.retention.size=512MB")
_SECONDS: Final = 10.0
_HOST: Final = "127.0.0.1"
_STOP_SECONDS: Final = 5.0
PROMETHEUS, KUBE_STATE = accounts.PROMETHEUS.name, accounts.KUBE_STATE.name
#: What has to be there, by name of its program's folder.
PROGRAMS: Final = (PROMETHEUS, operator.PROGRAM, KUBE_STATE)
#: Labels of nodes that two alerts need (docs/reference/observability.md).
_NODE_LABELS: Final = (
    "gpu-pools/pool",
    "nvidia.com/mig.config.state",
    "nvidia.com/gpu.deploy.device-plugin",
    "nvidia.com/gpu.deploy.dcgm-exporter",
)


class Observer:
    """The Prometheus of one sandbox."""

    def __init__(self, sandbox: Path, programs: Mapping[str, Path], proxy: int, interval: str) -> None:
        """Start nothing yet.

        Args:
            sandbox: its folder; its first cluster is observed.
            programs: folder of each of PROGRAMS.
            proxy: port of the pods' network.
            interval: between two evaluations of rules.
        """
        self._sandbox, self._programs, self._proxy, self._interval = sandbox, programs, proxy, interval
        self._folder = make_folder(sandbox / "observing")
        self._operator_port, self._port, self._state_port, self._own_port = processes.free_ports(4)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._cluster: Cluster | None = None
        self._api: Api | None = None
        self._pods: Pods | None = None
        self._written: Any = None
        self._defined = False
        self._renew_at = 0.0
        self._grant_at = 0.0

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
        """End the programs."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def answer(self, address: str, port: int) -> bytes:
        """What a pod answers to a scrape, or kube-state-metrics, which is known by its name.

        Raises:
            OSError: nobody is there.
        """
        if address == KUBE_STATE:
            return self._state()
        if self._pods is None:
            message = "there is no cluster yet"
            raise ConnectionRefusedError(message)
        return self._pods.answer(address, port)

    def connected(self) -> socket.socket:
        """A connection to Prometheus.

        Raises:
            OSError: it does not answer yet.
        """
        return self._dialled(PROMETHEUS, self._port)

    def _dialled(self, name: str, port: int) -> socket.socket:
        process = self._running.get(name)
        if process is None:
            message = f"{name} does not run yet"
            raise ConnectionRefusedError(message)
        if Path(f"/proc/{process.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
            # Where nobody may make namespaces.
            return peers.connect(port, _SECONDS)
        return private_network.connected(process.pid, _HOST, port, _SECONDS)

    def _state(self) -> bytes:
        connection = http.client.HTTPConnection(_HOST, self._state_port)
        connection.sock = self._dialled(KUBE_STATE, self._state_port)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            return connection.getresponse().read()

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
        if time.monotonic() > self._grant_at:
            whole = [accounts.grant(api, account) for account in accounts.ACCOUNTS]
            self._grant_at = time.monotonic() + accounts.LOOK_SECONDS if all(whole) else 0.0
        if time.monotonic() > self._renew_at:
            for account in accounts.ACCOUNTS:
                accounts.log_in(api, cluster, account, self._folder / account.name)
            self._renew_at = time.monotonic() + accounts.RENEW_SECONDS
        if KUBE_STATE not in self._running:
            self._start(KUBE_STATE, self._state_command(), [])
        self._follow(api)

    def _state_command(self) -> list[str]:
        own = (f"--host={_HOST}", f"--port={self._state_port}", f"--telemetry-host={_HOST}", f"--telemetry-port={self._own_port}")
        return [
            *(str(self._programs[KUBE_STATE] / KUBE_STATE), f"--kubeconfig={self._folder / KUBE_STATE / 'kubeconfig'}"),
            *("--resources=nodes,pods", f"--metric-labels-allowlist=nodes=[{','.join(_NODE_LABELS)}]", *own),
        ]

    def _find(self) -> None:
        """The first cluster that has a kubeconfig, and answers."""
        for record in sorted((self._sandbox / "clusters").glob("*/cluster.json")):
            if not (record.parent / "kubeconfig").exists():
                continue
            cluster = control_plane.load(record.parent)
            api = Api.at(cluster.kubeconfig)
            api.get("/api/v1/namespaces/default")
            self._cluster, self._api, self._pods = cluster, api, Pods(api, Truth(cluster.folder, api))
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
        config, proxy = self._folder / "prometheus.json", f"http://{_HOST}:{self._proxy}"
        # As its charts have it: namespaces, pods and nodes are those that it tells of.
        state = {"job_name": KUBE_STATE, "honor_labels": True, "scrape_interval": self._interval}
        job = {**state, "static_configs": [{"targets": [f"{KUBE_STATE}:{self._state_port}"]}]}
        made = operator.here(configuration, self._folder / PROMETHEUS / "kubeconfig", place, proxy, [job])
        write_atomic(config, json.dumps(made))
        self._written = written
        if PROMETHEUS in self._running:
            self._running[PROMETHEUS].send_signal(signal.SIGHUP)
            return
        where = (f"--config.file={config}", f"--storage.tsdb.path={self._folder / 'data'}")
        flags = (*where, f"--web.listen-address={_HOST}:{self._port}", *_KEPT)
        self._start(PROMETHEUS, [str(self._programs[PROMETHEUS] / "prometheus"), *flags], [self._proxy])

    def _start(self, name: str, argv: Sequence[str], ports: Sequence[int]) -> None:
        # In our own session: what ends us ends it, too.
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                private_network.command(self._sandbox, ports, argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _log(self, name: str) -> Path:
        return make_folder(self._sandbox / "logs") / f"{name}.log"
