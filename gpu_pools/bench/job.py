"""A Job whose pods wait to be clients of `gpu-pools bench`: as a pool's users have them, each with one share, all on one node.

They do nothing by themselves and end after an hour, so that one that is forgotten gives its shares back. The client comes in a
ConfigMap. What runs it is the image's to bring: a Python with PyTorch, or nvcc, which compiles it in each pod, or the compiled
client, where it lies in the image already.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.proof.smoke_test import users_pod
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan, PoolPlan

STRATEGY: Final = "gpu-pools/bench-strategy"
REPLICAS: Final = "gpu-pools/bench-replicas"
BACKEND_VARIABLE: Final = "GPU_POOLS_BENCH_BACKEND"
#: What a container's shell runs as a client, of a kind ($0), by backend.
CLIENTS: Final = {
    "torch": 'exec python3 -P -u /bench/client.py torch "$0"',
    "cuda": (
        "client=/usr/local/bin/gpu-pools-bench-client; [ -x $client ] || client=/tmp/gpu-pools-bench-client; "
        "[ -x $client ] || nvcc -O2 -std=c++17 -arch=native -o $client /bench/client.cu >&2 || exit; "
        'exec $client "$0"'
    ),
}
_SOURCES: Final = {"torch": "client.py", "cuda": "client.cu"}
_APP: Final = "gpu-pools-bench"
_SECONDS: Final = 3600


def resource_of(pool_plan: PoolPlan, asked: str | None) -> str:
    """What its pods ask for.

    Args:
        pool_plan: the pool.
        asked: a resource of it; None for its only one.

    Raises:
        ValueError: when it advertises another, or several and none is chosen.
    """
    there = list(pool_plan.advertises)
    if asked in there:
        return str(asked)
    if asked is None and len(there) == 1:
        return there[0]
    message = f"pool {pool_plan.name} advertises {', '.join(there)}; choose one of them by --resource"
    raise ValueError(message)


def rendered(
    plan: Plan, pool_plan: PoolPlan, resource: str, image: str, pods: int, backend: str = "torch"
) -> list[dict[str, Any]]:
    """The ConfigMap and the Job, for `kubectl apply`.

    Args:
        plan: of the stack.
        pool_plan: the pool.
        resource: of `resource_of`.
        image: with Python 3.11 or newer and PyTorch; for `cuda` with nvcc, or with the client that it made.
        pods: how many; no more than a node has shares, or some wait.
        backend: of CLIENTS.
    """
    source = _SOURCES[backend]
    name = f"bench-{pool_plan.name}"
    labels = {"app.kubernetes.io/name": _APP, POOL_LABEL: pool_plan.name}
    spec = users_pod(plan, pool_plan, labels, _container(image, resource, backend))
    spec["volumes"] = [{"name": "bench", "configMap": {"name": name}}]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {source: Path(__file__).with_name(source).read_text(encoding="utf-8")},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                "activeDeadlineSeconds": _SECONDS,
                "ttlSecondsAfterFinished": 0,
                "template": {"metadata": {"labels": labels, "annotations": _said(pool_plan)}, "spec": spec},
            },
        },
    ]


def _container(image: str, resource: str, backend: str) -> dict[str, Any]:
    return {
        "name": "bench",
        "image": image,
        "command": ["sh", "-c", f"trap 'exit 0' TERM; sleep {_SECONDS} & wait"],
        "env": [{"name": BACKEND_VARIABLE, "value": backend}],
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "8Gi", resource: "1"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "bench", "mountPath": "/bench", "readOnly": True}],
    }


def _said(pool_plan: PoolPlan) -> dict[str, str]:
    """How the pool shares, for the measurement's title."""
    sharing = pool_plan.sharing
    # Only the MPS daemon divides a GPU by its number of replicas: the measurement repeats the division.
    split = sharing.mps_split(pool_plan.hardware.model)
    return {STRATEGY: sharing.strategy, **({REPLICAS: str(split.replicas)} if split else {})}
