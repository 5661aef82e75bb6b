"""The verifier's pods: one on each node of a pool, which holds back the deploy until the node is what was declared.

An init container asserts until the expectation holds or the deadline passes; then its last line, the exact difference, is the
termination message that Kubernetes keeps, and it begins anew. The main container watches from then on, and
is ready as long as the node holds. Both write each verdict as a condition of the node.

NVML without an advertised GPU: the pod asks for none, so nothing of the node's resources is used up. It takes the operator's own
runtime class, which is there on nodes with the toolkit, with CDI and with a driver of the image alike, since the device plugin
itself depends on it. NVIDIA_VISIBLE_DEVICES=all names the GPUs; a container must have SYS_ADMIN for that to count where the
toolkit does not listen to unprivileged ones, and for NVIDIA_MIG_MONITOR_DEVICES, without which the instances of MIG are hidden.
The node's list of processes is mounted, to be read only: an MPS control daemon shows nowhere else. With `hostPID` the pod could
send signals to them, too.
The root file system stays writable: the runtime's hooks renew the loader's cache in it. Rights are not here but in
gpus/verifier_rights.py.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpus.kubernetes_names import POOL_LABEL
from gpus.node_expectation import node_expectation
from gpus.placing import pool_selector
from gpus.sharing import Mps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpus.plan import Plan, PoolPlan

VERIFIER_APP: Final = "gpu-pools-verifier"
SERVICE_ACCOUNT: Final = "verifier"
PROGRAM_FILE: Final = "verifier.pyz"
EXPECTATION_FILE: Final = "expectation.json"
PORT: Final = 9409
_FOLDER: Final = "/run/gpu-pools"
_PROGRAM: Final = f"{_FOLDER}/program"
_EXPECTATION: Final = f"{_FOLDER}/expectation"
_TERMINATION_LOG: Final = f"{_FOLDER}/termination-log"
_PROCESSES: Final = f"{_FOLDER}/processes"
#: Where the device plugin's MPS daemon keeps the pipes of each resource (k8s-device-plugin v0.17, cmd/mps-control-daemon/mps).
_MPS_ROOT: Final = "/run/nvidia/mps"
_EVERY_SECONDS: Final = 5
_DIGITS: Final = 10
_READ_ONLY: Final = 0o444


@dataclass(frozen=True)
class ExpectationFile:
    """The expectation document of a pool as a ConfigMap that never changes: another document is another ConfigMap.

    Attributes:
        name: ends in a hash of the text.
        text: JSON.
        sha256: of the text, in hexadecimal.
    """

    name: str
    text: str
    sha256: str


def expectation_file(plan: Plan, planned: PoolPlan) -> ExpectationFile:
    """The expectation of a pool of the plan."""
    text = json.dumps(node_expectation(plan, planned), indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ExpectationFile(f"expectation-{planned.name}-{digest[:_DIGITS]}", text, digest)


def program_name(digest: str) -> str:
    """The ConfigMap that holds the verifier of that digest."""
    return f"verifier-{digest[:_DIGITS]}"


def verifier_labels(planned: PoolPlan) -> dict[str, str]:
    """The labels by which the verifier's pods of a pool are found."""
    return {"app.kubernetes.io/name": VERIFIER_APP, POOL_LABEL: planned.name}


def verifier_selector(planned: PoolPlan) -> str:
    """The same as kubectl's ``--selector`` takes them."""
    return ",".join(f"{key}={value}" for key, value in verifier_labels(planned).items())


def verifier_daemon_set_spec(plan: Plan, planned: PoolPlan, program: str) -> dict[str, Any]:
    """The ``spec`` of the DaemonSet that verifies the pool's nodes.

    Args:
        plan: the whole plan.
        planned: the pool.
        program: the ConfigMap of the verifier.

    Raises:
        ValueError: for a Magnum section without driver.
    """
    labels = verifier_labels(planned)
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {"metadata": {"labels": labels}, "spec": _pod_spec(plan, planned, program)},
    }


def _pod_spec(plan: Plan, planned: PoolPlan, program: str) -> dict[str, Any]:
    settings = plan.settings.verification
    wait = ["--wait", str(settings.deadline_seconds), "--every", str(_EVERY_SECONDS), "--termination-log", _TERMINATION_LOG]
    watch = ["--interval", str(settings.interval_seconds), "--listen", f"$(POD_IP):{PORT}"]
    mounts, volumes = _volumes(program, expectation_file(plan, planned).name, mps=isinstance(planned.sharing, Mps))
    common = {
        "image": settings.image,
        # Nothing of the image's environment or of what is installed there decides what is imported.
        "command": ["python3", "-I", "-S", f"{_PROGRAM}/{PROGRAM_FILE}"],
        "env": _environment(planned),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePath": _TERMINATION_LOG,
        "volumeMounts": mounts,
    }
    expect = ["--expect", f"{_EXPECTATION}/{EXPECTATION_FILE}", "--processes", _PROCESSES, "--mark"]
    if planned.startup_taint:
        expect += ["--untaint", planned.startup_taint.key]
    return {
        "nodeSelector": pool_selector(plan.settings.cluster, planned),
        "tolerations": [dict(toleration) for toleration in plan.tolerations],
        "runtimeClassName": plan.operator_values["operator"]["runtimeClass"],
        "serviceAccountName": SERVICE_ACCOUNT,
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "initContainers": [{"name": "assert", **common, "args": ["assert", *expect, *wait]}],
        "containers": [{"name": "watch", **common, "args": ["watch", *expect, *watch], **_served()}],
        "volumes": volumes,
    }


def _served() -> dict[str, Any]:
    ready = {"httpGet": {"path": "/readyz", "port": PORT}, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 1}
    alive = {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 60, "timeoutSeconds": 5, "failureThreshold": 3}
    return {
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": ready,
        "livenessProbe": alive,
    }


def _environment(planned: PoolPlan) -> list[dict[str, Any]]:
    mps = isinstance(planned.sharing, Mps)
    fixed = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility" if mps else "utility"}
    if planned.hardware.model.mig_capable:
        fixed["NVIDIA_MIG_MONITOR_DEVICES"] = "all"
    if mps:
        (resource,) = planned.advertises
        fixed["CUDA_MPS_PIPE_DIRECTORY"] = f"{_MPS_ROOT}/{resource}/pipe"
    own = {"NODE_NAME": "spec.nodeName", "POD_IP": "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in fixed.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in own.items()),
    ]


def _volumes(program: str, expectation: str, *, mps: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(mounts, volumes)."""
    files: Mapping[str, tuple[str, str]] = {"program": (_PROGRAM, program), "expectation": (_EXPECTATION, expectation)}
    mounts: list[dict[str, Any]] = [{"name": name, "mountPath": path, "readOnly": True} for name, (path, _) in files.items()]
    volumes: list[dict[str, Any]] = [
        {"name": name, "configMap": {"name": config_map, "defaultMode": _READ_ONLY}} for name, (_, config_map) in files.items()
    ]
    mounts.append({"name": "processes", "mountPath": _PROCESSES, "readOnly": True})
    volumes.append({"name": "processes", "hostPath": {"path": "/proc", "type": "Directory"}})
    if mps:
        mounts.append({"name": "mps", "mountPath": _MPS_ROOT})
        volumes.append({"name": "mps", "hostPath": {"path": _MPS_ROOT, "type": "DirectoryOrCreate"}})
    return mounts, volumes
