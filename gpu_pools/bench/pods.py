"""Pods as clients: those of a Job that `job` renders, on a pool's node that shares as declared.

A client runs inside its pod, from the ConfigMap that comes with the Job, and speaks through `kubectl exec`: a process with
pipes, as a client on this machine is, so the conductor is the same. The client for Python has web sockets for that, with frames
of their own instead of pipes. The settings of the node are read there, too. This module creates nothing: the user applies the
Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gpu_pools.bench.job import BACKEND_VARIABLE, CLIENTS, REPLICAS, STRATEGY
from gpu_pools.bench.machine import NoGpu, Smi
from gpu_pools.kubernetes_api.cluster_api import ClusterApi, Limits
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.sharing.modes import MODES

_LIMITS: Final = Limits(connect=30, read=60, whole=60)


@dataclass(frozen=True)
class Pods:
    """The pods of a Job, which share one GPU.

    Attributes:
        prefixes: what starts a program in each.
        strategy: as the Job says.
        replicas: the same; None where clients have no limits.
        backend: of job.CLIENTS.
    """

    prefixes: tuple[tuple[str, ...], ...]
    strategy: str
    replicas: int | None
    backend: str

    def commands(self) -> list[tuple[str, ...]]:
        """A client's command in each, but for its kind."""
        return [(*prefix, "sh", "-c", CLIENTS[self.backend]) for prefix in self.prefixes]

    def smi(self) -> Smi:
        """nvidia-smi in the first."""
        return Smi("0", self.prefixes[0])


def found(job: str, namespace: str) -> Pods:
    """The pods of a Job.

    Raises:
        NoGpu: when there are none, not all run, or they see more than one GPU between them.
    """
    try:
        with ClusterApi(Kubeconfig(), _LIMITS) as api:
            listed = api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"batch.kubernetes.io/job-name={job}")
    except ClusterError as error:
        message = f"the pods of Job {job} cannot be read: {error.explained}"
        raise NoGpu(message) from None
    pods = sorted(listed, key=lambda pod: str(pod["metadata"]["name"]))
    waiting = [pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") != "Running"]
    if waiting or not pods:
        message = f"Job {job} in namespace {namespace}: " + (
            f"these pods do not run: {', '.join(waiting)}" if pods else "it has no pods; apply what `gpu-pools bench-job` prints"
        )
        raise NoGpu(message)
    prefixes = tuple(("kubectl", "--namespace", namespace, "exec", "-i", pod["metadata"]["name"], "--") for pod in pods)
    said = pods[0]["metadata"].get("annotations", {})
    if said.get(STRATEGY) not in MODES:
        message = f"Job {job} does not say how its pool shares ({STRATEGY} on its pods): apply what `gpu-pools bench-job` prints"
        raise NoGpu(message)
    replicas = str(said.get(REPLICAS, ""))
    backend = _backend(pods[0])
    if backend not in CLIENTS:
        message = (
            f"Job {job} runs clients of {backend!r}, which this version does not know: apply what `gpu-pools bench-job` prints"
        )
        raise NoGpu(message)
    made = Pods(prefixes, str(said[STRATEGY]), int(replicas) if replicas.isdecimal() else None, backend)
    _hold_to_one_gpu(made)
    return made


def _backend(pod: dict[str, Any]) -> str:
    variables = [one for container in pod["spec"]["containers"] for one in container.get("env", [])]
    return next((str(one.get("value")) for one in variables if one["name"] == BACKEND_VARIABLE), "")


def _hold_to_one_gpu(pods: Pods) -> None:
    """On a node with several GPUs the device plugin may give pods different ones, and nothing would be shared."""
    uuids = {prefix[-2]: Smi("0", prefix).machine().gpu["uuid"] for prefix in pods.prefixes}
    if len(set(uuids.values())) > 1:
        seen = ", ".join(f"{name}: {uuid}" for name, uuid in uuids.items())
        message = f"the pods are not on one GPU, so they share nothing: {seen}. Measure a pool whose nodes have one GPU."
        raise NoGpu(message)
