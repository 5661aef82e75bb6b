"""What the real prometheus-operator needs of a cluster, and what it leaves there for a Prometheus.

The operator reads monitors and rules from the API server, and writes a Secret with Prometheus' configuration and a ConfigMap with
its rules. A simulated node has no pod of a Prometheus, so none is asked for (`replicas: 0`); the Prometheus that reads both runs
beside the cluster, with them as they are but for where things are:

- it asks the API server with a kubeconfig, by an account of its own (accounts.py);
- the variables of the pod, which the operator's reloader puts in, are those of a first replica;
- rules are in a folder, and it scrapes by the proxy that leads to the pods (pod_network.py).

Not here: processes.
"""

from __future__ import annotations

import base64
import gzip
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.observing.objects import API_VERSION
from gpu_pools.proof.verifier_pods import METRICS_LABEL
from sandbox.cluster.api_errors import ApiError
from sandbox.observing.accounts import NAMESPACE, make
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sandbox.cluster.api import Api
    from sandbox.cluster.control_plane import Cluster

PROGRAM: Final = "prometheus-operator"
#: Of the Prometheus.
NAME: Final = "sandbox"
_GROUP: Final = f"/apis/{API_VERSION}"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS: Final = ("prometheuses", "servicemonitors", "podmonitors", "prometheusrules")
_SELECTED: Final = ("serviceMonitor", "podMonitor", "rule")


def define(api: Api, built: Path) -> None:
    """Have a cluster know the operator's kinds: its own definitions, which come with it. What is there stays as it is."""
    for path in sorted(built.glob("*.yaml")):
        body = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        make(api, _DEFINITIONS, body)


def served(api: Api) -> bool:
    """Whether the kinds can be used by now."""
    try:
        return all(api.get(f"{_GROUP}/{kind}") is not None for kind in _KINDS)
    except ApiError:
        # For a moment after a definition was made: "storage is (re)initializing".
        return False


def declare(api: Api, interval: str) -> None:
    """A Prometheus that takes all monitors and rules, with its namespace; verifiers let that in.

    Args:
        api: of the cluster, whose kinds are served.
        interval: between two evaluations of rules that name none.
    """
    key, value = METRICS_LABEL
    make(api, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": {key: value}}})
    everything: dict[str, Any] = {}
    spec = {
        **{f"{kind}{of}": everything for kind in _SELECTED for of in ("Selector", "NamespaceSelector")},
        "replicas": 0,
        "evaluationInterval": interval,
        "serviceDiscoveryRole": "EndpointSlice",
    }
    body = {"apiVersion": API_VERSION, "kind": "Prometheus", "metadata": {"name": NAME}, "spec": spec}
    make(api, f"{_GROUP}/namespaces/{NAMESPACE}/prometheuses", body)


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


def here(
    configuration: Mapping[str, Any], kubeconfig: Path, rules: Path, proxy: str, beside: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The configuration with where things are here.

    Args:
        configuration: as the operator has written it.
        kubeconfig: of Prometheus' account.
        rules: the folder of their files.
        proxy: the URL of what leads to the pods.
        beside: jobs of the sandbox's own, which are scraped the same way.
    """
    jobs = [
        {
            **job,
            "proxy_url": proxy,
            "kubernetes_sd_configs": [{**one, "kubeconfig_file": str(kubeconfig)} for one in job["kubernetes_sd_configs"]],
        }
        for job in configuration.get("scrape_configs") or []
    ]
    # Nobody is told of alerts: there is no Alertmanager.
    rest = {key: value for key, value in configuration.items() if key != "alerting"}
    jobs += [{**job, "proxy_url": proxy} for job in beside]
    return {**rest, "scrape_configs": jobs, "rule_files": [str(rules / "*.yaml")]}
