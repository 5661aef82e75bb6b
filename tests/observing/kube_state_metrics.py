"""The real kube-state-metrics on a cluster of a test: with the rights that it needs for nodes and pods, and no others.

It runs on this machine, not in a pod, and tells of nodes and pods alone. Labels of nodes it tells only where somebody lists them.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from sandbox.system import processes
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.granted import RBAC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sandbox.cluster.api import Api

NAME: Final = "kube-state-metrics"
_NAMESPACE: Final = "kube-system"
_SECONDS: Final = 60
#: What its ClusterRole has for these two kinds (kubernetes/kube-state-metrics, examples/standard/cluster-role.yaml).
_RULES: Final = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]


@contextmanager
def kube_state_metrics(folder: Path, api: Api, node_labels: Sequence[str] = ()) -> Iterator[str]:
    """Run one.

    Args:
        folder: for its kubeconfig and its log.
        api: of the cluster, as an administrator.
        node_labels: labels of nodes that it tells.

    Yields:
        host:port, where its metrics are.
    """
    port, own = processes.free_ports(2)
    address = f"127.0.0.1:{port}"
    flags = [f"--kubeconfig={_account(api, folder)}", "--resources=nodes,pods", "--host=127.0.0.1", f"--port={port}"]
    flags += ["--telemetry-host=127.0.0.1", f"--telemetry-port={own}"]
    if node_labels:
        flags.append(f"--metric-labels-allowlist=nodes=[{','.join(node_labels)}]")
    processes.spawn(folder, NAME, [str(find_built(NAME, Progress()) / NAME), *flags])

    def ready() -> bool:
        assert NAME in processes.running(folder), processes.log_tail(folder, NAME)
        try:
            return "kube_node_info" in metrics(address)
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        processes.wait_until(ready, timeout=_SECONDS, what=NAME)
        yield address
    finally:
        processes.stop(folder)


def metrics(address: str) -> str:
    """What it answers."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=_SECONDS) as answer:
        return str(answer.read().decode())


def job(address: str) -> dict[str, Any]:
    """A scrape of it, as its charts have it: namespaces, pods and nodes are those that it tells of."""
    return {"job_name": NAME, "honor_labels": True, "static_configs": [{"targets": [address]}]}


def _account(api: Api, folder: Path) -> Path:
    """A kubeconfig with a token of its account."""
    name = {"name": NAME}
    api.create(f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts", {"metadata": name})
    api.create(f"{RBAC}/clusterroles", {"metadata": name, "rules": _RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    subjects = [{"kind": "ServiceAccount", "namespace": _NAMESPACE, **name}]
    api.create(f"{RBAC}/clusterrolebindings", {"metadata": name, "roleRef": role, "subjects": subjects})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/{NAME}/token", asked)["status"]["token"]
    config = {**api._config, "users": [{**api._config["users"][0], "user": {"token": token}}]}
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "kubeconfig"
    written.touch(0o600)
    written.write_text(json.dumps(config), encoding="utf-8")
    return written
