"""A simulated cluster with its machines, as tests see it, and what the two charts would put into it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sandbox.cluster import control_plane as cluster
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError
from sandbox.cluster.node_tools import find_platform_tools
from sandbox.machines import container_logs
from sandbox.system import processes
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.granted import RBAC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

CHARTS = Path(__file__).parents[3] / "sandbox" / "charts"
OPERATOR, NFD = "gpu-operator", "node-feature-discovery"
POLICY = "/apis/nvidia.com/v1/clusterpolicies"
#: The ConfigMaps that the ClusterPolicy's spec names.
SHARING, LAYOUTS = "sharing", "layouts"


#: As the chart's values name them; without images the operator makes nothing.
IMAGE = {"repository": "nvcr.io/nvidia", "image": "operand", "version": "1.0"}


def workload(kind: str, name: str, where: str, command: str, **pod: Any) -> dict[str, Any]:
    container = {"name": "main", "image": command, "command": [command], "env": pod.pop("env", [])}
    mounts = [{"name": item["name"], "mountPath": f"/{item['name']}"} for item in pod.get("volumes", [])]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{**container, "volumeMounts": mounts}], **pod}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": where}, "spec": spec}


def config_map(name: str, where: str, data: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": where}, "data": data}


#: As the chart's worker has them.
WORKER_ENV = [
    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    for name, path in {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}.items()
]
WORKER_RULES = [
    {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeatures"], "verbs": ["create", "get", "update", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
]


def grant_worker(api: Api) -> None:
    """The rights of nfd-worker's account, as the chart gives them."""
    base = f"{RBAC}/namespaces/{NFD}"
    api.create(f"{base}/roles", {"metadata": {"name": "nfd-worker"}, "rules": WORKER_RULES})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "nfd-worker"}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": NFD}]
    body = {"metadata": {"name": "nfd-worker"}, "roleRef": reference, "subjects": subjects}
    api.create(f"{base}/rolebindings", body)


OPERATOR_ENV = [{"name": "OPERATOR_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]


def operator_rights() -> list[tuple[str, dict[str, Any]]]:
    """(path, object): the rights of the operator as its chart gives them, for the account that its Deployment has here."""
    helm = find_tools(Progress(), only={"helm"}).helm
    command = [helm, "template", OPERATOR, CHARTS / OPERATOR, "--namespace", OPERATOR, "--set", "nfd.enabled=false"]
    said = subprocess.run([*command, "--show-only", "templates/rbac.yaml"], capture_output=True, text=True, check=True).stdout
    found = []
    for item in yaml.safe_load_all(said):
        if item["kind"] == "ServiceAccount":
            continue
        for subject in item.get("subjects", []):
            subject["name"] = "default"
        where = f"/namespaces/{OPERATOR}" if item["metadata"].get("namespace") else ""
        found.append((f"{RBAC}{where}/{item['kind'].lower()}s", item))
    return found


class Site:
    """A cluster with its daemon, as a test sees it.

    Attributes:
        patience: how many times as long as usual things may take.
    """

    def __init__(self, folder: Path, patience: float = 1.0) -> None:
        self.folder, self.patience = folder, patience
        self.api = Api.at(folder / "kubeconfig")

    def boot(self) -> None:
        """Start what does not run."""
        boot(self.folder)

    def node(self, name: str) -> dict[str, Any]:
        return self.api.get(f"/api/v1/nodes/{name}") or {"metadata": {}, "status": {}}

    def labels(self, name: str = "gpu0") -> dict[str, str]:
        found: dict[str, str] = self.node(name)["metadata"].get("labels", {})
        return found

    def offered(self, name: str = "gpu0") -> dict[str, str]:
        allocatable = self.node(name)["status"].get("allocatable", {})
        return {key.removeprefix("nvidia.com/"): count for key, count in allocatable.items() if "nvidia" in key and count != "0"}

    def label(self, name: str = "gpu0", **values: str | None) -> None:
        labels = {f"nvidia.com/{key.replace('__', '-').replace('_', '.')}": value for key, value in values.items()}
        self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def share(self, key: str) -> None:
        self.label(device__plugin_config=key)

    def pods(self, app: str, node: str = "gpu0") -> list[dict[str, Any]]:
        found = self.api.list("/api/v1/pods")["items"]
        return [
            pod for pod in found if pod["metadata"].get("labels", {}).get("app") == app and pod["spec"].get("nodeName") == node
        ]

    def waiting(self, app: str, node: str = "gpu0") -> list[str]:
        """Last words of the crashing containers of a program's pods, as `kubectl logs --previous` would show them."""
        found = []
        for pod in self.pods(app, node):
            items = [item for key in ("containerStatuses", "initContainerStatuses") for item in pod["status"].get(key, [])]
            crashing = [item for item in items if item["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"]
            found += [self.log_end(pod, item["name"]) for item in crashing]
        return found

    def log_end(self, pod: dict[str, Any], container: str) -> str:
        """The end of the log of a container that has ended with an error."""
        logs = container_logs.folder_of(self.folder / "machines" / pod["spec"]["nodeName"], pod)
        return (logs / f"{container}.log").read_text().rpartition("\nended with ")[0]

    def story(self) -> str:
        """What a failed wait is to be understood by."""
        shown = {key: value for key, value in self.labels().items() if "nvidia" in key}
        logs = [f"--- {name}\n{processes.log_tail(self.folder, name, 40)}" for name in ("machines", "nfd-master")]
        return "\n".join([f"offered {self.offered()}, labels {shown}, died: {processes.died(self.folder)}", *logs])

    def kill_daemon(self) -> None:
        """Kill the daemon without a word to it, and wait until it is gone: who boots before would take it for alive."""
        os.kill(processes.running(self.folder)["machines"].pid, signal.SIGKILL)
        self.until(lambda: "machines" not in processes.running(self.folder))

    def until(self, holds: Callable[[], object], seconds: float = 60.0) -> None:
        end = Patience(seconds * self.patience)
        while not holds():
            assert not end.is_over(), self.story()
            time.sleep(0.05)


def install_nfd(api: Api, tolerated: Sequence[Mapping[str, str]] = ()) -> None:
    """Definitions, NFD and the namespaces of both charts."""
    for path in sorted(
        path for chart in ("gpu-operator", "node-feature-discovery") for path in (CHARTS / chart / "crds").glob("*.yaml")
    ):
        for crd in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if crd:
                api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    for name in (OPERATOR, NFD):
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    worker = "sources: {pci: {deviceClassWhitelist: ['0302'], deviceLabelFields: [vendor]}}"
    # As the plan sets it: with pages nfd-master may miss everything for minutes when a definition was made just before.
    master = "informerPageSize: 0"
    api.create(f"/api/v1/namespaces/{NFD}/configmaps", config_map("master", NFD, {"nfd-master.conf": master}))
    api.create(f"/api/v1/namespaces/{NFD}/configmaps", config_map("worker", NFD, {"nfd-worker.conf": worker}))
    mount = [{"name": "conf", "configMap": {"name": "master"}}]
    api.create(
        f"/apis/apps/v1/namespaces/{NFD}/deployments", workload("Deployment", "nfd-master", NFD, "nfd-master", volumes=mount)
    )
    mount = [{"name": "conf", "configMap": {"name": "worker"}}]
    grant_worker(api)
    worker_set = workload(
        "DaemonSet", "nfd-worker", NFD, "nfd-worker", volumes=mount, tolerations=list(tolerated), env=WORKER_ENV
    )
    api.create(f"/apis/apps/v1/namespaces/{NFD}/daemonsets", worker_set)


def install(
    api: Api,
    spec: Mapping[str, Any],
    configs: Mapping[str, str],
    layouts: str,
    *,
    names: tuple[str, str] = (SHARING, LAYOUTS),
    rights: Sequence[tuple[str, dict[str, Any]]] = (),
) -> None:
    """Definitions, NFD, the operator with these rights and its policy, these device-plugin configurations and MIG layouts."""
    install_nfd(api, spec["daemonsets"]["tolerations"])
    api.create(f"/api/v1/namespaces/{OPERATOR}/configmaps", config_map(names[0], OPERATOR, dict(configs)))
    api.create(f"/api/v1/namespaces/{OPERATOR}/configmaps", config_map(names[1], OPERATOR, {"config.yaml": layouts}))
    for path, item in rights:
        api.create(path, item)
    deployment = workload("Deployment", "gpu-operator", OPERATOR, "gpu-operator", env=OPERATOR_ENV)
    api.create(f"/apis/apps/v1/namespaces/{OPERATOR}/deployments", deployment)
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": dict(spec)}
    for _ in range(50):
        try:
            api.create(POLICY, policy)
        except ApiError as error:
            # The definition takes a moment; whatever else is wrong is the test's own fault.
            if not error.missing:
                raise
            time.sleep(0.2)
        else:
            return


def boot(folder: Path) -> None:
    """Start what does not run of the cluster in a folder."""
    cluster.boot(folder, "site", find_platform_tools(Progress()))


@contextmanager
def running(folder: Path) -> Iterator[Site]:
    """A cluster and its daemon in a folder; erased afterwards, whatever has become of it."""
    try:
        boot(folder)
        yield Site(folder)
    finally:
        cluster.erase(folder)
