"""The real prometheus-operator on a simulated cluster, and a real Prometheus and Alertmanager with what it writes.

As the sandbox has them (sandbox/observing), but that minutes are seconds: of the rules (`for`, `keep_firing_for`, ranges) and of
the monitors' interval, which is one second. Alerts go to an Alertmanager, and from there to a receiver of the test.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.observing.objects import (
    API_VERSION,
    MONITOR,
    RULES,
    VERIFIERS,
    pod_monitor_spec,
    prometheus_rule_spec,
    service_monitor_spec,
)
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.observing import accounts, operator
from sandbox.observing.pod_network import PodNetwork
from sandbox.system import peers, processes
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.observing.prometheus import Prometheus, prometheus, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.cluster.control_plane import Cluster

_GROUP: Final = f"/apis/{API_VERSION}"
_SECONDS: Final = 60


@dataclass
class Told:
    """What a receiver of the Alertmanager was told: (status, name of the alert, node), in order; grouped as it came."""

    groups: list[dict[str, Any]] = field(default_factory=list)

    def alerts(self) -> list[tuple[str, str, str]]:
        """Each alert of each message."""
        return [
            (one["status"], one["labels"]["alertname"], one["labels"].get("instance", ""))
            for group in list(self.groups)
            for one in group["alerts"]
        ]


@dataclass(frozen=True)
class Monitored:
    """A cluster that is scraped.

    Attributes:
        prometheus: which scrapes.
        told: what the Alertmanager has sent.
        configuration: of Prometheus, as the operator has written it.
    """

    prometheus: Prometheus
    told: Told
    configuration: dict[str, Any]


def quick(spec: Any) -> Any:
    """The same with seconds for minutes, and an interval of one second."""
    if isinstance(spec, list):
        return [quick(one) for one in spec]
    if not isinstance(spec, dict):
        return spec
    changed = {key: quick(value) for key, value in spec.items()}
    changed |= {key: changed[key].replace("m", "s") for key in ("for", "keep_firing_for") if key in changed}
    changed |= {key: "1s" for key in ("interval", "scrapeTimeout") if key in changed}
    if "expr" in changed:
        changed["expr"] = re.sub(r"\[(\d+)m\]", r"[\1s]", changed["expr"])
    return changed


@contextmanager
def monitored(
    folder: Path, cluster: Path, plan: Plan, answer: Callable[[str, int], bytes], *more: dict[str, Any]
) -> Iterator[Monitored]:
    """Install the operator's definitions, give it the plan's objects, and run what comes of it.

    Args:
        folder: for everything of the three programs.
        cluster: its folder; it has the namespaces of the GPU operator and of the verifiers.
        plan: with observability and verification.
        answer: what is at an address and port of a pod.
        more: jobs of the site's own, beside those that the operator writes.
    """
    of = control_plane.load(cluster)
    api = Api.at(of.kubeconfig)
    built = find_built(operator.PROGRAM, Progress())
    with ExitStack() as stack:
        operator.define(api, built)
        _until(lambda: operator.served(api), "the operator's definitions")
        operator.declare(api, "1s")
        stack.enter_context(_operator(folder / "operator", built, of))
        for kind, name, spec in (
            ("servicemonitors", MONITOR, service_monitor_spec(plan)),
            ("podmonitors", VERIFIERS, pod_monitor_spec(plan)),
            ("prometheusrules", RULES, prometheus_rule_spec(plan)),
        ):
            body = {"apiVersion": API_VERSION, "kind": _KINDS[kind], "metadata": {"name": name}, "spec": quick(spec)}
            api.create(f"{_GROUP}/namespaces/{OPERATOR_NAMESPACE}/{kind}", body)
        accounts.grant(api, accounts.PROMETHEUS)
        place = folder / "prometheus"
        kubeconfig = accounts.log_in(api, of, accounts.PROMETHEUS, place)
        pods = stack.enter_context(PodNetwork(peers.listening(0), answer))
        stack.callback(pods.shutdown)
        written, rules = _written(api)
        told = Told()
        receiver = stack.enter_context(_receiver(told))
        alertmanager = stack.enter_context(_alertmanager(folder / "alertmanager", receiver))
        configuration = operator.here(written, kubeconfig, place, "http://{}:{}".format(*pods.socket.getsockname()))
        configuration["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        configuration["scrape_configs"] += [{**job, "scrape_interval": "1s"} for job in more]
        for name, text in rules.items():
            (place / name).write_text(text, encoding="utf-8")
        server = stack.enter_context(prometheus(place, configuration))
        yield Monitored(server, told, written)


_KINDS: Final = {"servicemonitors": "ServiceMonitor", "podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}


@contextmanager
def _operator(folder: Path, built: Path, cluster: Cluster) -> Iterator[None]:
    (port,) = processes.free_ports(1)
    processes.spawn(folder, "operator", operator.command(folder, built / "operator", cluster, port))
    try:
        yield
    finally:
        processes.stop(folder)


def _written(api: Api) -> tuple[dict[str, Any], Mapping[str, str]]:
    """The configuration and the rules, once there are both monitors."""
    found: list[tuple[dict[str, Any], Mapping[str, str]]] = []

    def there() -> bool:
        written = operator.written(api)
        if written is not None and len(written[0].get("scrape_configs") or []) == 2:
            found.append(written)
        return bool(found)

    _until(there, "the configuration that the operator writes")
    return found[0]


@contextmanager
def _alertmanager(folder: Path, receiver: str) -> Iterator[str]:
    folder.mkdir(parents=True)
    route = {"receiver": "test", "group_by": ["alertname"], "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
    configuration = {
        "route": route,
        "receivers": [{"name": "test", "webhook_configs": [{"url": receiver, "send_resolved": True}]}],
    }
    written = folder / "alertmanager.yml"
    written.write_text(json.dumps(configuration), encoding="utf-8")
    (port,) = processes.free_ports(1)
    address = f"127.0.0.1:{port}"
    # Alone: it gossips with nobody.
    flags = [f"--config.file={written}", f"--storage.path={folder / 'data'}", f"--web.listen-address={address}"]
    with running(folder, "alertmanager", [*flags, "--cluster.listen-address="], f"http://{address}"):
        yield address


@contextmanager
def _receiver(told: Told) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.groups.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def _until(holds: Callable[[], bool], what: str) -> None:
    end = Patience(_SECONDS)
    while not holds():
        assert not end.is_over(), what
        time.sleep(0.2)
