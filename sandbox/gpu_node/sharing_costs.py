"""What sharing costs on the node: `gpu-pools bench`, by pods that have shares of the device plugin, and by processes beside them.

The clients are those of CUDA C++, compiled here: an image with PyTorch would have gigabytes. What is measured, and how, is the
bench's matter; here its Job is applied as a user would, and its pods are taken away again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.bench import clients
from gpu_pools.bench.machine import NoGpu
from sandbox.cluster.api_errors import ApiError
from sandbox.gpu_node.machine import POOL
from sandbox.real_node import images, registry
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from sandbox.cluster.api import Api
    from sandbox.real_node.place import Place

REPLICAS: Final = 8
JOB: Final = f"bench-{POOL}"
#: So that it is over in two minutes each.
_BRIEFLY: Final = ("--quick", "--kinds", "compute,memory,inference", "--clients", "1,2,4,8", "--parts", "throughput,neighbours")
_PROJECT: Final = Path(__file__).resolve().parents[2]
_IMAGE: Final = "bench"
_CLIENT: Final = "/usr/local/bin/gpu-pools-bench-client"
_PODS: Final = f"/api/v1/namespaces/default/pods?labelSelector=batch.kubernetes.io/job-name={JOB}"
_JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
_MAPS: Final = "/api/v1/namespaces/default/configmaps"
_SECONDS: Final = 600
_MISSING: Final = 404


def put_image(place: Place) -> None:
    """Have the node's registry have an image with the client.

    Raises:
        SandboxError: it cannot be compiled.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-pools-bench-") as folder:
        try:
            _, command = clients.command("cuda", Path(folder))
        except NoGpu as error:
            raise SandboxError(str(error), "Install NVIDIA's CUDA compiler (package cuda-nvcc), and add it to PATH.") from error
        client = images.Layer({_CLIENT: Path(command[0])})
        registry.add(place.registry, {_IMAGE: images.Image((), (images.tools(), images.python(), client))}, images.Packed())


def make_job(api: Api, stack_file: Path) -> None:
    """Apply what `gpu-pools bench-job` prints."""
    command = ["bench-job", str(stack_file), POOL, "--image", f"sandbox.invalid/{_IMAGE}:own", "--backend", "cuda"]
    for document in yaml.safe_load_all(_gpu_pools(*command)):
        api.create(_MAPS if document["kind"] == "ConfigMap" else _JOBS, document)


def running(api: Api) -> int:
    """How many pods of the Job run."""
    return sum(pod["status"].get("phase") == "Running" for pod in pods(api))


def pods(api: Api) -> list[dict[str, Any]]:
    """The Job's pods."""
    found: list[dict[str, Any]] = api.list(_PODS)["items"]
    return found


def remove_job(api: Api) -> None:
    """Take it away, and its pods with it; one that is not there is fine."""
    for path in (f"{_JOBS}/{JOB}", f"{_MAPS}/{JOB}"):
        try:
            api.delete(path)
        except ApiError as error:
            if error.status != _MISSING:
                raise


def measured(file: Path, kubeconfig: Path | None) -> dict[str, Any]:
    """Measure: by the Job's pods where there is a kubeconfig, else by processes of this machine; returns the document.

    Raises:
        SandboxError: nothing could be measured.
    """
    who = ["--job", JOB] if kubeconfig else ["--backend", "cuda"]
    _gpu_pools("bench", *who, *_BRIEFLY, "--json", str(file), kubeconfig=kubeconfig)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def together(document: dict[str, Any]) -> str:
    """What all clients together do of what one alone does, where most of them are."""
    alone = {row["kind"]: row["rate"] for row in document["rows"] if row["clients"] == 1}
    most = max((row["clients"] for row in document["rows"]), default=0)
    return ", ".join(
        f"{row['kind']} {100 * row['rate'] / alone[row['kind']]:.0f} %"
        for row in document["rows"]
        if row["clients"] == most and row["rate"] and alone.get(row["kind"])
    )


def _gpu_pools(*arguments: str, kubeconfig: Path | None = None) -> str:
    environment = {**os.environ, **({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})}
    command = [sys.executable, "-m", "gpu_pools", *arguments]
    done = subprocess.run(
        command,
        cwd=_PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode != 0:
        message = f"gpu-pools {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()[-600:]}"
        raise SandboxError(message, "What it says is what stands in the way.")
    return done.stdout
