"""Pods that are served all the time while tests change or exchange nodes, of the pool `serving` where it says no other; and what
becomes of them and of the nodes.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from gpu_pools.verifier.changer.living_node import ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.trial import Trial

REPLICAS, BUDGET = 5, 4
GPU: Final = "nvidia.com/gpu"
PODS: Final = "/api/v1/namespaces/default/pods"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"


def report(trial: Trial, old: str) -> Any:
    """What a preview tells of the change from an old stack file to the one that is there now."""
    before, preview, out = (trial.base / name for name in ("Pulumi.before.yaml", "preview.json", "changes.json"))
    before.write_text(old, encoding="utf-8")
    preview.write_text(trial.engine("preview", "--json").ok().out, encoding="utf-8")
    run = trial.gpu_pools("changes", str(preview), "--before", str(before), "--after", str(trial.file), "--json", str(out))
    assert run.code == 1, f"nobody has acknowledged it\n{run.text}"
    return json.loads(out.read_text(encoding="utf-8"))


def declared(trial: Trial) -> str:
    return trial.file.read_text(encoding="utf-8")


def cordoned(trial: Trial) -> list[str]:
    return [node["metadata"]["name"] for node in trial.nodes() if node["spec"].get("unschedulable")]


def stay(trial: Trial) -> None:
    """A pod that no eviction takes."""
    labels = {"app": "stays"}
    budget = {"metadata": {"name": "stays"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}}}
    spec = {"nodeSelector": {"gpu-pools/pool": "serving"}, "containers": [{"name": "c", "image": "a:1"}]}
    trial.api().create(BUDGETS, budget)
    trial.api().create(PODS, {"metadata": {"name": "stays", "labels": labels}, "spec": spec})
    trial.wait_until(lambda: trial.get(f"{PODS}/stays")["status"]["phase"] == "Running", "the pod runs")


def marked(trial: Trial) -> Iterator[dict[str, Any]]:
    for node in trial.nodes():
        if text := node["metadata"].get("annotations", {}).get(ANNOTATION):
            yield json.loads(text)


def serve(trial: Trial) -> None:
    """A Deployment of REPLICAS, each with a share of a GPU of the pool, and its budget."""
    labels, budget = {"app": "served"}, {"minAvailable": BUDGET, "selector": {"matchLabels": {"app": "served"}}}
    container = {"name": "c", "image": "a:1", "resources": {"limits": {GPU: 1}}}
    pod = {
        "nodeSelector": {"gpu-pools/pool": "serving"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "containers": [container],
    }
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    trial.api().create(DEPLOYMENTS, {"metadata": {"name": "served"}, "spec": spec})
    trial.api().create(BUDGETS, {"metadata": {"name": "served"}, "spec": budget})
    trial.wait_until(lambda: running(trial) == REPLICAS, "the Deployment runs")


def leave(trial: Trial) -> None:
    """Take the Deployment and its budget away: a cluster of others is to be as it was."""
    trial.api().delete(f"{DEPLOYMENTS}/served")
    trial.api().delete(f"{BUDGETS}/served")
    trial.wait_until(lambda: not served(trial), "its pods have gone")


def served(trial: Trial) -> list[dict[str, Any]]:
    """The pods that serve."""
    return [pod for pod in trial.api().list(PODS)["items"] if pod["metadata"].get("labels", {}).get("app") == "served"]


def pod_names(trial: Trial) -> set[str]:
    return {pod["metadata"]["name"] for pod in served(trial)}


def running(trial: Trial) -> int:
    return sum(pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in served(trial))


def kill(command: Any) -> None:
    os.killpg(command.pid, signal.SIGKILL)
    command.communicate()


class Served:
    """How many replicas ran at least while something was done, and how many nodes the pool had at most."""

    def __init__(self, trial: Trial) -> None:
        self.fewest, self.most_nodes = REPLICAS, 0
        self._trial, self._end = trial, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.2):
            self.fewest = min(self.fewest, running(self._trial))
            self.most_nodes = max(self.most_nodes, len(self._trial.nodes("serving")))
