"""The real prometheus-operator on a simulated cluster, and a real Prometheus and Alertmanager with what it writes.

The operator reads the monitors and rules from the API server, and writes a Secret with Prometheus' configuration and a ConfigMap
with its rules. A simulated node has no pod of a Prometheus, so it runs here, with both as they are but for where things are:

- it asks the API server with a kubeconfig, by an account that may do what docs/reference/observability.md says, and no more;
- the variables of the pod, which the operator's reloader puts in, are those of a first replica;
- the rules are in a folder of the test; the Alertmanager is at a port of this machine;
- the Prometheus object has a scrape class that scrapes 10.x.y.z at 127.x.y.z (on_nodes.py).

Minutes are seconds: of the rules (`for`, `keep_firing_for`, ranges) and of the monitors' interval, which is one second.
"""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import re
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.observing.objects import (
    API_VERSION,
    MONITOR,
    RULES,
    VERIFIERS,
    pod_monitor_spec,
    prometheus_rule_spec,
    service_monitor_spec,
)
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from sandbox.cluster.api_errors import ApiError
from sandbox.system import processes
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.granted import RBAC
from tests.observing.prometheus import Prometheus, prometheus, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.cluster.api import Api

_OPERATOR: Final = "prometheus-operator"
_WHERE: Final = "monitoring"
_GROUP: Final = f"/apis/{API_VERSION}"
_SECRET: Final = f"/api/v1/namespaces/{_WHERE}/secrets/prometheus-site"
_RULES: Final = f"/api/v1/namespaces/{_WHERE}/configmaps/prometheus-site-rulefiles-0"
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
def monitored(folder: Path, api: Api, plan: Plan, *more: dict[str, Any]) -> Iterator[Monitored]:
    """Install the operator's definitions, give it the plan's objects, and run what comes of it.

    Args:
        folder: for everything of the three programs.
        api: of the cluster; it has the namespaces of the GPU operator and of the verifiers.
        plan: with observability and verification.
        more: jobs of the site's own, beside those that the operator writes.
    """
    with ExitStack() as stack:
        _install(api, find_built(_OPERATOR, Progress()))
        stack.enter_context(_operator(folder / "operator", api))
        for kind, name, spec in (
            ("servicemonitors", MONITOR, service_monitor_spec(plan)),
            ("podmonitors", VERIFIERS, pod_monitor_spec(plan)),
            ("prometheusrules", RULES, prometheus_rule_spec(plan)),
        ):
            body = {"apiVersion": API_VERSION, "kind": _KINDS[kind], "metadata": {"name": name}, "spec": quick(spec)}
            api.create(f"{_GROUP}/namespaces/{OPERATOR_NAMESPACE}/{kind}", body)
        written = _written(api)
        told = Told()
        receiver = stack.enter_context(_receiver(told))
        alertmanager = stack.enter_context(_alertmanager(folder / "alertmanager", receiver))
        place = folder / "prometheus"
        configuration = _here(written, place, _account(api, place), alertmanager)
        configuration["scrape_configs"] += [{**job, "scrape_interval": "1s"} for job in more]
        for name, text in (api.get(_RULES) or {})["data"].items():
            (place / name).write_text(text, encoding="utf-8")
        server = stack.enter_context(prometheus(place, configuration))
        yield Monitored(server, told, written)


_KINDS: Final = {"servicemonitors": "ServiceMonitor", "podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}


def _install(api: Api, built: Path) -> None:
    """The operator's own definitions, which come with it; and its Prometheus, in a namespace of its own."""
    for path in sorted(built.glob("*.yaml")):
        body = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    metadata = {"name": _WHERE, "labels": {"gpu-pools/metrics": "true"}}
    api.create("/api/v1/namespaces", {"metadata": metadata})
    everything: dict[str, Any] = {}
    class_ = {
        "name": "simulated",
        "default": True,
        "relabelings": [
            {"sourceLabels": ["__address__"], "regex": "10[.](.*)", "replacement": "127.$1", "targetLabel": "__address__"}
        ],
    }
    spec = {
        **{f"{kind}Selector": everything for kind in ("serviceMonitor", "podMonitor", "rule")},
        **{f"{kind}NamespaceSelector": everything for kind in ("serviceMonitor", "podMonitor", "rule")},
        "evaluationInterval": "1s",
        "scrapeClasses": [class_],
        "serviceDiscoveryRole": "EndpointSlice",
    }
    body = {"apiVersion": API_VERSION, "kind": "Prometheus", "metadata": {"name": "site"}, "spec": spec}
    _until(lambda: all(_served(api, kind) for kind in ("prometheuses", *_KINDS)), "the operator's definitions")
    api.create(f"{_GROUP}/namespaces/{_WHERE}/prometheuses", body)


def _served(api: Api, kind: str) -> bool:
    try:
        return api.get(f"{_GROUP}/{kind}") is not None
    except ApiError:
        # For a moment after it was made: "storage is (re)initializing".
        return False


@contextmanager
def _operator(folder: Path, api: Api) -> Iterator[None]:
    folder.mkdir(parents=True)
    user = api._config["users"][0]["user"]
    files = {"cert-file": user["client-certificate-data"], "key-file": user["client-key-data"]}
    files["ca-file"] = api._config["clusters"][0]["cluster"]["certificate-authority-data"]
    for name, data in files.items():
        (folder / name).write_bytes(base64.b64decode(data))
        (folder / name).chmod(0o600)
    (port,) = processes.free_ports(1)
    flags = [f"--{name}={folder / name}" for name in files]
    program = find_built(_OPERATOR, Progress()) / "operator"
    processes.spawn(
        folder, "operator", [str(program), f"--apiserver={api.server}", f"--web.listen-address=127.0.0.1:{port}", *flags]
    )
    try:
        yield
    finally:
        processes.stop(folder)


def _written(api: Api) -> dict[str, Any]:
    """The configuration, once it has both monitors."""
    found: dict[str, Any] = {}

    def there() -> bool:
        secret = api.get(_SECRET)
        if secret is None or api.get(_RULES) is None:
            return False
        text = gzip.decompress(base64.b64decode(secret["data"]["prometheus.yaml.gz"])).decode()
        # The operator's reloader beside a Prometheus does it, with the variables of the pod.
        found.update(yaml.safe_load(text.replace("$(SHARD)", "0").replace("$(POD_NAME)", "prometheus-site-0")))
        return len(found["scrape_configs"]) == 2

    _until(there, "the configuration that the operator writes")
    return found


def _here(written: dict[str, Any], folder: Path, kubeconfig: Path, alertmanager: str) -> dict[str, Any]:
    """The configuration with where things are here."""
    jobs = [
        {**job, "kubernetes_sd_configs": [{**one, "kubeconfig_file": str(kubeconfig)} for one in job["kubernetes_sd_configs"]]}
        for job in written["scrape_configs"]
    ]
    alerting = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    return {**written, "scrape_configs": jobs, "rule_files": [str(folder / "*.yaml")], "alerting": alerting}


def _account(api: Api, folder: Path) -> Path:
    """The kubeconfig of a Prometheus that may do what the documentation says."""
    folder.mkdir(parents=True, exist_ok=True)
    reads = ["list", "watch"]
    api.create(f"/api/v1/namespaces/{_WHERE}/serviceaccounts", {"metadata": {"name": "prometheus"}})
    subjects = [{"kind": "ServiceAccount", "name": "prometheus", "namespace": _WHERE}]
    nodes = [{"apiGroups": [""], "resources": ["nodes"], "verbs": reads}]
    services = [
        {"apiGroups": [""], "resources": ["services", "pods"], "verbs": reads},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": reads},
    ]
    pods = [{"apiGroups": [""], "resources": ["pods"], "verbs": reads}]
    for kind, base, rules in (
        ("ClusterRole", RBAC, nodes),
        ("Role", f"{RBAC}/namespaces/{OPERATOR_NAMESPACE}", services),
        ("Role", f"{RBAC}/namespaces/{VERIFIER_NAMESPACE}", pods),
    ):
        name = {"name": "prometheus"}
        api.create(f"{base}/{kind.lower()}s", {"metadata": name, "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, **name}
        api.create(f"{base}/{kind.lower()}bindings", {"metadata": name, "roleRef": reference, "subjects": subjects})
    path = f"/api/v1/namespaces/{_WHERE}/serviceaccounts/prometheus/token"
    token = api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
    config = {**api._config, "users": [{**api._config["users"][0], "user": {"token": token}}]}
    written = folder / "kubeconfig"
    written.touch(0o600)
    written.write_text(json.dumps(config), encoding="utf-8")
    return written


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
    end = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.2)
