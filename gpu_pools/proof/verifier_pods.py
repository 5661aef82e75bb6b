"""The verifier's pods: one on each node of a pool, which holds back the deploy until the node is what was declared.

An init container asserts until the expectation holds or the deadline passes; then its last line, the exact difference, is the
termination message that Kubernetes keeps, and it begins anew. The main container watches from then on, and
is ready as long as the node holds. Both write each verdict as a condition of the node.

With ``rollout`` the DaemonSet is the rollout, too: it replaces as many pods at once as nodes may change, an init container
before the proof changes the node, and one after it gives the node back (gpu_pools/verifier/changer/change.py). What they run
for that is a second file in a ConfigMap of its own. Other pools do not mount it, so their pods stay when it changes.

NVML without an advertised GPU: the pod asks for none, so nothing of the node's resources is used up. It takes the operator's own
runtime class, which is there on nodes with the toolkit, with CDI and with a driver of the image alike, since the device plugin
itself depends on it. NVIDIA_VISIBLE_DEVICES=all names the GPUs.

A pod that has root and all GPUs is as good as root on its node where nothing else confines it, so it gets no more than it needs.
SYS_ADMIN goes to pools that declare MIG, whose instances the toolkit shows to nobody else (nvidia-container-toolkit d34b3046,
container_config.go: it ends a container that has NVIDIA_MIG_MONITOR_DEVICES without it), and to all pools where
`operator.values` tells the toolkit not to listen to containers without it. It is not dropped once NVML is open, since nobody here
could try that with MIG on: the driver looks at it with each call (open-gpu-kernel-modules df1c9a3d, escape.c, privLevel), but the
right to see all instances rests on a session that NVML opens with a device file (mig_monitor_session.c). The root file system is
read-only: the runtime's hooks renew the loader's cache in it before it becomes so (nvidia-container-toolkit,
internal/discover/hooks.go: createContainer).
The node's list of processes is mounted, to be read only: an MPS control daemon shows nowhere else. With `hostPID` the pod could
send signals to them, too. Rights are not here but in gpu_pools/proof/verifier_rights.py.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.plan.mps_support import mps_update
from gpu_pools.plan.operands_due import wanted
from gpu_pools.plan.placing import pool_selector
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_rights import CHANGER, VERIFIER_NAMESPACE
from gpu_pools.proof.verifier_start import start_command
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.stack.rollout import Rollout

VERIFIER_APP: Final = "gpu-pools-verifier"
SERVICE_ACCOUNT: Final = "verifier"
PROGRAM_FILE: Final = "verifier.pyz"
CHANGER_FILE: Final = "changer.pyz"
EXPECTATION_FILE: Final = "expectation.json"
#: Annotation of the pods: the chart whose operands they hold to the declaration.
OPERATOR_NOTE: Final = "gpu-pools/operator"
#: And what the driver's pods there are made of (`driver_pods_digest`).
DRIVER_NOTE: Final = "gpu-pools/driver-pods"
PORT: Final = 9409
#: Of the namespaces that may scrape the verifiers.
METRICS_LABEL: Final = ("gpu-pools/metrics", "true")
_FOLDER: Final = "/run/gpu-pools"
_PROGRAM: Final = f"{_FOLDER}/program"
_CHANGER: Final = f"{_FOLDER}/changer"
_EXPECTATION: Final = f"{_FOLDER}/expectation"
_TERMINATION_LOG: Final = f"{_FOLDER}/termination-log"
_PROCESSES: Final = f"{_FOLDER}/processes"
#: Where the device plugin's MPS daemon keeps the pipes of each resource (k8s-device-plugin v0.17, cmd/mps-control-daemon/mps).
_MPS_ROOT: Final = "/run/nvidia/mps"
_EVERY_SECONDS: Final = 2
_DIGITS: Final = 10
_READ_ONLY: Final = 0o444
#: Of the toolkit's container.
_UNPRIVILEGED: Final = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"


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


def expectation_file(plan: Plan, pool_plan: PoolPlan) -> ExpectationFile:
    """The expectation of a pool of the plan."""
    text = json.dumps(node_expectation(plan, pool_plan), indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ExpectationFile(f"expectation-{pool_plan.name}-{digest[:_DIGITS]}", text, digest)


def network_policy_spec() -> dict[str, Any]:
    """The ``spec`` of the NetworkPolicy of the verifiers' namespace: who scrapes, and nobody else.

    A kubelet reaches the pods of its own node in any case (kubernetes.io, concepts/services-networking/network-policies).
    """
    peers = [{"namespaceSelector": {"matchLabels": dict([METRICS_LABEL])}}]
    return {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": PORT}]}],
    }


@dataclass(frozen=True)
class Program:
    """The verifier as a cluster has it.

    Attributes:
        config_map: holds its file.
        digest: of its sources; its reports name it.
        sha256: of the file's bytes; the pods that run it are held to it.
    """

    config_map: str
    digest: str
    sha256: str


@dataclass(frozen=True)
class Changer:
    """What changes nodes, as a cluster with pools that have a ``rollout`` has it.

    Attributes:
        config_map: holds its file.
        sha256: of the file's bytes.
    """

    config_map: str
    sha256: str


def program_name(sha256: str, number: int = 0, file: str = PROGRAM_FILE) -> str:
    """The ConfigMap that holds the file of those bytes: of the verifier, or of what changes nodes.

    Args:
        sha256: of the file.
        number: how many of that name were found to hold something else (gpu_pools/proof/program_place.py).
        file: which one.
    """
    return f"{file.partition('.')[0]}-{sha256[:_DIGITS]}" + (f"-{number}" if number else "")


def verifier_labels(pool_plan: PoolPlan) -> dict[str, str]:
    """The labels by which the verifier's pods of a pool are found."""
    return {"app.kubernetes.io/name": VERIFIER_APP, POOL_LABEL: pool_plan.name}


def verifier_selector(pool_plan: PoolPlan) -> str:
    """The same as kubectl's ``--selector`` takes them."""
    return ",".join(f"{key}={value}" for key, value in verifier_labels(pool_plan).items())


def verifier_daemon_set_spec(
    plan: Plan, pool_plan: PoolPlan, config_map: str, sha256: str, group: str = "", changer: Changer | None = None
) -> dict[str, Any]:
    """The ``spec`` of the DaemonSet that verifies the pool's nodes.

    Args:
        plan: the whole plan.
        pool_plan: the pool.
        config_map: holds the verifier.
        sha256: of its file, without which nothing there is run.
        group: of a pool with ``replace`` on Magnum what its node group is called.
        changer: what changes nodes; only pools with a ``rollout`` have it, and they need it.

    Raises:
        ValueError: for a Magnum section without driver, or a pool with a ``rollout`` and nothing that changes nodes.
    """
    labels, rollout, renewed_by = verifier_labels(pool_plan), pool_plan.pool.rollout, wanted(plan, pool_plan)
    # What another operator renews, or another variable of the driver, a node depends on: so its nodes are proven anew, also where
    # nothing else is declared.
    said = {OPERATOR_NOTE: renewed_by.chart, DRIVER_NOTE: renewed_by.pods}
    notes = {key: note for key, note in said.items() if note}
    metadata = {"labels": labels, **({"annotations": notes} if notes else {})}
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": rollout.max_unavailable if rollout else "100%"}},
        "template": {"metadata": metadata, "spec": _pod_spec(plan, pool_plan, (config_map, sha256), group, changer)},
    }


def _pod_spec(plan: Plan, pool_plan: PoolPlan, program: tuple[str, str], group: str, changer: Changer | None) -> dict[str, Any]:
    config_map, sha256 = program
    settings, expectation = plan.settings.verification, expectation_file(plan, pool_plan)
    wait = ["--wait", str(settings.deadline_seconds), "--every", str(_EVERY_SECONDS), "--termination-log", _TERMINATION_LOG]
    watch = ["--interval", str(settings.interval_seconds), "--listen", f"$(POD_IP):{PORT}"]
    if pool_plan.pool.rollout:
        watch.append("--keep")
    mounts, volumes = _volumes(config_map, expectation.name, mps=pool_plan.sharing.needs_mps_daemon)
    common = {
        "image": settings.image,
        "command": start_command(f"{_PROGRAM}/{PROGRAM_FILE}", sha256, _TERMINATION_LOG),
        "env": _environment(pool_plan),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": _confinement(plan, pool_plan),
        "terminationMessagePath": _TERMINATION_LOG,
        "volumeMounts": mounts,
    }
    changing = _with_changer(common, pool_plan, (f"{_PROGRAM}/{PROGRAM_FILE}", sha256), changer)
    if changer and pool_plan.pool.rollout:
        volumes.append(_config_map_volume("changer", changer.config_map))
    document = ["--expect", f"{_EXPECTATION}/{EXPECTATION_FILE}", "--expect-sha256", expectation.sha256]
    document += ["--processes", _PROCESSES]
    expect = [*document, "--mark"]
    if pool_plan.startup_taint:
        expect += ["--untaint", pool_plan.startup_taint.key]
    return {
        "nodeSelector": pool_selector(plan.settings.cluster, pool_plan, group),
        "tolerations": [dict(toleration) for toleration in plan.tolerations],
        "runtimeClassName": plan.operator_values["operator"]["runtimeClass"],
        "serviceAccountName": CHANGER if pool_plan.pool.rollout else SERVICE_ACCOUNT,
        **plan.settings.registry.in_pods,
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "initContainers": _with_rollout(
            pool_plan.pool.rollout,
            restarts_mps(plan, pool_plan),
            {"name": "assert", **common, "args": ["assert", *expect, *wait]},
            changing,
            [*document, "--termination-log", _TERMINATION_LOG],
            settings.deadline_seconds,
        ),
        "containers": [{"name": "watch", **changing, "args": ["watch", *expect, *watch], **_served()}],
        "volumes": volumes,
    }


def restarts_mps(plan: Plan, pool_plan: PoolPlan) -> bool:
    """Whether a rollout of the pool must replace the pod of the MPS daemon, which learns of a change in no other way."""
    return pool_plan.sharing.needs_mps_daemon and pool_plan.pool.rollout is not None and mps_update(plan.settings) == "restart"


def _with_rollout(
    rollout: Rollout | None,
    mps: bool,  # noqa: FBT001 - said where it is called
    proof: dict[str, Any],
    changing: dict[str, Any],
    document: list[str],
    deadline_seconds: int,
) -> list[dict[str, Any]]:
    """The proof, and around it what changes the node and gives it back where the pool has a rollout."""
    if rollout is None:
        return [proof]
    slots = [*document, "--turns", str(rollout.max_unavailable), "--turns-in", VERIFIER_NAMESPACE]
    manner = ["--drain", str(rollout.drain_seconds), "--staying", rollout.pods_that_stay, "--wait", str(deadline_seconds)]
    manner += ["--restart-mps"] if mps else []
    manner += [word for window in rollout.windows for word in ("--window", str(window))]
    change = {"name": "change", **changing, "args": ["change", *slots, *manner]}
    return [change, proof, {"name": "release", **changing, "args": ["release", *slots]}]


def _with_changer(
    common: dict[str, Any], pool_plan: PoolPlan, program: tuple[str, str], changer: Changer | None
) -> dict[str, Any]:
    """What containers have in common that change nodes; the proof needs no more than the verifier."""
    if pool_plan.pool.rollout is None:
        return common
    if changer is None:
        message = f"pool {pool_plan.name} has a rollout, and nobody said where what changes nodes is"
        raise ValueError(message)
    added = [(f"{_CHANGER}/{CHANGER_FILE}", changer.sha256)]
    return {
        **common,
        "command": start_command(*program, _TERMINATION_LOG, added),
        "volumeMounts": [*common["volumeMounts"], {"name": "changer", "mountPath": _CHANGER, "readOnly": True}],
    }


def _config_map_volume(name: str, config_map: str) -> dict[str, Any]:
    return {"name": name, "configMap": {"name": config_map, "defaultMode": _READ_ONLY}}


def _confinement(plan: Plan, pool_plan: PoolPlan) -> dict[str, Any]:
    admin = ["SYS_ADMIN"] if pool_plan.sharing.partitioned or _toolkit_wants_admin(plan) else []
    context: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], **({"add": admin} if admin else {})},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if _has_app_armor(pool_plan):
        context["appArmorProfile"] = {"type": "RuntimeDefault"}
    return context


def _toolkit_wants_admin(plan: Plan) -> bool:
    """Whether the toolkit is told to give GPUs by NVIDIA_VISIBLE_DEVICES to containers with SYS_ADMIN alone."""
    env = plan.operator_values.get("toolkit", {}).get("env") or []
    return any(one.get("name") == _UNPRIVILEGED and str(one.get("value")).lower() == "false" for one in env)


def _has_app_armor(pool_plan: PoolPlan) -> bool:
    """Whether the pool's nodes are known to have AppArmor.

    A kubelet refuses a pod that names a profile where the host has none (kubernetes.io, tutorials/security/apparmor.md). Where
    AppArmor is, a container that names none gets the runtime's own all the same.
    """
    return pool_plan.pool.placement.has_app_armor


def _served() -> dict[str, Any]:
    ready = {"httpGet": {"path": "/readyz", "port": PORT}, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 1}
    alive = {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 60, "timeoutSeconds": 5, "failureThreshold": 3}
    return {
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": ready,
        "livenessProbe": alive,
    }


def _environment(pool_plan: PoolPlan) -> list[dict[str, Any]]:
    mps = pool_plan.sharing.needs_mps_daemon
    fixed = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility" if mps else "utility"}
    if pool_plan.sharing.partitioned:
        fixed["NVIDIA_MIG_MONITOR_DEVICES"] = "all"
    if mps:
        (resource,) = pool_plan.advertises
        fixed["CUDA_MPS_PIPE_DIRECTORY"] = f"{_MPS_ROOT}/{resource}/pipe"
    own = {"NODE_NAME": "spec.nodeName", "POD_IP": "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in fixed.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in own.items()),
    ]


def _volumes(config_map: str, expectation: str, *, mps: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(mounts, volumes)."""
    files: Mapping[str, tuple[str, str]] = {"program": (_PROGRAM, config_map), "expectation": (_EXPECTATION, expectation)}
    mounts: list[dict[str, Any]] = [{"name": name, "mountPath": path, "readOnly": True} for name, (path, _) in files.items()]
    volumes: list[dict[str, Any]] = [_config_map_volume(name, config_map) for name, (_, config_map) in files.items()]
    mounts.append({"name": "processes", "mountPath": _PROCESSES, "readOnly": True})
    volumes.append({"name": "processes", "hostPath": {"path": "/proc", "type": "Directory"}})
    if mps:
        # Who asks the daemon connects to a socket there, and writes nothing (tried on an H200, driver 580, without capabilities).
        mounts.append({"name": "mps", "mountPath": _MPS_ROOT, "readOnly": True})
        volumes.append({"name": "mps", "hostPath": {"path": _MPS_ROOT, "type": "DirectoryOrCreate"}})
    return mounts, volumes
