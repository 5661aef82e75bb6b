"""What the real prometheus-operator needs of a cluster, and what it leaves there for a Prometheus.

The operator reads monitors and rules from the API server, and writes a Secret with Prometheus' configuration and a ConfigMap with
its rules. A simulated node has no pod of a Prometheus, so none is asked for (`replicas: 0`); the Prometheus that reads both runs
beside the cluster, with them as they are but for where things are:

- it asks the API server with a kubeconfig, by an account that may do what docs/reference/observability.md says, and no more;
- the variables of the pod, which the operator's reloader puts in, are those of a first replica;
- rules are in a folder, and it scrapes by the proxy that leads to the pods (pod_network.py).

Not here: processes.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.observing.objects import API_VERSION
from gpu_pools.proof.verifier_pods import METRICS_LABEL
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from sandbox.cluster.api_errors import ApiError
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.cluster.api import Api
    from sandbox.cluster.control_plane import Cluster

PROGRAM: Final = "prometheus-operator"
#: Its namespace, and the Prometheus in it.
NAMESPACE: Final = "sandbox-monitoring"
NAME: Final = "sandbox"
_ACCOUNT: Final = "prometheus"
_GROUP: Final = f"/apis/{API_VERSION}"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_KINDS: Final = ("prometheuses", "servicemonitors", "podmonitors", "prometheusrules")
_SELECTED: Final = ("serviceMonitor", "podMonitor", "rule")
#: Seconds for which a token is good, and after which there is another one.
_TOKEN_SECONDS: Final = 7200
RENEW_SECONDS: Final = 3000.0
#: What it may read, and in which namespace; empty: everywhere.
_RIGHTS: Final[tuple[tuple[str, list[dict[str, list[str]]]], ...]] = (
    ("", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]),
    (
        OPERATOR_NAMESPACE,
        [
            {"apiGroups": [""], "resources": ["services", "pods"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    ),
    (VERIFIER_NAMESPACE, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]),
)


def define(api: Api, built: Path) -> None:
    """Have a cluster know the operator's kinds: its own definitions, which come with it. What is there stays as it is."""
    for path in sorted(built.glob("*.yaml")):
        body = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        _make(api, _DEFINITIONS, body)


def served(api: Api) -> bool:
    """Whether the kinds can be used by now."""
    try:
        return all(api.get(f"{_GROUP}/{kind}") is not None for kind in _KINDS)
    except ApiError:
        # For a moment after a definition was made: "storage is (re)initializing".
        return False


def declare(api: Api, interval: str) -> None:
    """A Prometheus that takes all monitors and rules, with its namespace and account; verifiers let that namespace in.

    Args:
        api: of the cluster, whose kinds are served.
        interval: between two evaluations of rules that name none.
    """
    key, value = METRICS_LABEL
    _make(api, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": {key: value}}})
    _make(api, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": _ACCOUNT}})
    everything: dict[str, Any] = {}
    spec = {
        **{f"{kind}{of}": everything for kind in _SELECTED for of in ("Selector", "NamespaceSelector")},
        "replicas": 0,
        "evaluationInterval": interval,
        "serviceDiscoveryRole": "EndpointSlice",
    }
    body = {"apiVersion": API_VERSION, "kind": "Prometheus", "metadata": {"name": NAME}, "spec": spec}
    _make(api, f"{_GROUP}/namespaces/{NAMESPACE}/prometheuses", body)


def grant(api: Api) -> None:
    """Give the account its rights, where the namespaces are there by now."""
    for namespace, rules in _RIGHTS:
        if namespace and api.get(f"/api/v1/namespaces/{namespace}") is None:
            continue
        base = f"{_RBAC}/namespaces/{namespace}" if namespace else _RBAC
        role, name = "Role" if namespace else "ClusterRole", f"{NAMESPACE}-{_ACCOUNT}"
        subjects = [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": NAMESPACE}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
        _make(api, f"{base}/{role.lower()}s", {"metadata": {"name": name}, "rules": rules})
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
        _make(api, f"{base}/{role.lower()}bindings", binding)


def leave(api: Api) -> None:
    """Take back what `declare` and `grant` have made. The definitions stay, as with every operator."""
    name = f"{NAMESPACE}-{_ACCOUNT}"
    for namespace, _ in _RIGHTS:
        base, role = (f"{_RBAC}/namespaces/{namespace}", "role") if namespace else (_RBAC, "clusterrole")
        for path in (f"{base}/{role}bindings/{name}", f"{base}/{role}s/{name}"):
            if api.get(path) is not None:
                api.delete(path)
    path = f"/api/v1/namespaces/{NAMESPACE}"
    if api.get(path) is not None:
        api.delete(path)


def is_gone(api: Api) -> bool:
    """Whether the namespace has gone by now."""
    return api.get(f"/api/v1/namespaces/{NAMESPACE}") is None


def command(folder: Path, program: Path, cluster: Cluster, port: int) -> list[str]:
    """The operator's command line: it looks after that one Prometheus. Its credentials are in files.

    Args:
        folder: for these.
        program: the operator.
        cluster: as its administrator.
        port: of 127.0.0.1, for its own metrics.
    """
    make_folder(folder)
    texts = {"cert-file": cluster.client_cert_pem, "key-file": cluster.client_key_pem, "ca-file": cluster.ca_pem}
    for name, text in texts.items():
        write_atomic(folder / name, text)
    kinds = ("prometheus", "alertmanager", "thanos-ruler")
    return [
        *(str(program), f"--apiserver={cluster.server}", f"--web.listen-address=127.0.0.1:{port}"),
        *(f"--{name}={folder / name}" for name in texts),
        *(f"--{kind}-instance-namespaces={NAMESPACE}" for kind in kinds),
    ]


def written(api: Api) -> tuple[dict[str, Any], Mapping[str, str]] | None:
    """The configuration and the rules' files, as the operator has written them; None as long as it has not."""
    secret = api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/prometheus-{NAME}")
    rules = api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/prometheus-{NAME}-rulefiles-0")
    if secret is None or rules is None:
        return None
    text = gzip.decompress(base64.b64decode(secret["data"]["prometheus.yaml.gz"])).decode()
    # The operator's reloader beside a Prometheus does it, with the variables of the pod.
    filled = text.replace("$(SHARD)", "0").replace("$(POD_NAME)", f"prometheus-{NAME}-0")
    return yaml.load(filled, Loader=yaml.CSafeLoader), rules.get("data") or {}


def here(configuration: Mapping[str, Any], folder: Path, proxy: str) -> dict[str, Any]:
    """The configuration with where things are here.

    Args:
        configuration: as the operator has written it.
        folder: with the kubeconfig and the rules.
        proxy: the URL of what leads to the pods.
    """
    jobs = [
        {
            **job,
            "proxy_url": proxy,
            "kubernetes_sd_configs": [
                {**one, "kubeconfig_file": str(folder / "kubeconfig")} for one in job["kubernetes_sd_configs"]
            ],
        }
        for job in configuration.get("scrape_configs") or []
    ]
    # Nobody is told of alerts: there is no Alertmanager.
    rest = {key: value for key, value in configuration.items() if key != "alerting"}
    return {**rest, "scrape_configs": jobs, "rule_files": [str(folder / "rules" / "*.yaml")]}


def log_in(api: Api, cluster: Cluster, folder: Path) -> None:
    """Write a kubeconfig of the account, and a token for it. The token's file is read anew by who uses it (client-go)."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{_ACCOUNT}/token"
    spec = {"expirationSeconds": _TOKEN_SECONDS}
    made = api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    write_atomic(make_folder(folder) / "token", made["status"]["token"])
    authority = base64.b64encode(cluster.ca_pem.encode()).decode()
    one = {"name": NAME}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{**one, "cluster": {"server": cluster.server, "certificate-authority-data": authority}}],
        "users": [{**one, "user": {"tokenFile": str(folder / "token")}}],
        "contexts": [{**one, "context": {"cluster": NAME, "user": NAME}}],
    }
    write_atomic(folder / "kubeconfig", json.dumps(config))


def _make(api: Api, collection: str, body: Mapping[str, Any]) -> None:
    """Make an object, unless it is there."""
    if api.get(f"{collection}/{body['metadata']['name']}") is None:
        api.create(collection, dict(body))
