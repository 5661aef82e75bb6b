"""Stand-in for the NVIDIA GPU operator: node labels, operand DaemonSets and the ClusterPolicy's state.

Works only while a pod of the operator runs, and follows gpu-operator v26.7.0 in what it labels, how its operands are named,
where they may run, what environment and configuration they get, and when it calls a ClusterPolicy ready. As the real one
it says ``ready`` although a node may share nothing (a plugin that registers nothing is a healthy pod), or although no GPU
node was found at all. What its operands' pods do is in driver, gpu_programs and mig_manager.

Left out: sandbox workloads (vGPU, Kata, confidential computing), OpenShift, NVIDIADriver and GPUCluster resources, driver
upgrades, PodSecurity labels, metrics, service accounts and roles of most operands, and all host mounts.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.api import ApiError
from sandbox.machines.objects import name, timestamp
from sandbox.machines.operand_accounts import ACCOUNTS, OperandAccounts
from sandbox.machines.store import KINDS
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

PRESENT = "nvidia.com/gpu.present"
_NFD_PREFIX = "feature.node.kubernetes.io/"
_NFD_LABELS = tuple(f"{_NFD_PREFIX}pci-{device}.present" for device in ("10de", "0302_10de", "0300_10de"))
_DEPLOY = "nvidia.com/gpu.deploy."
_DEPLOY_PARTS = (
    "driver", "gpu-feature-discovery", "container-toolkit", "device-plugin", "dcgm", "dcgm-exporter",
    "node-status-exporter", "operator-validator", "client",
)  # fmt: skip
_MIG_MANAGER = f"{_DEPLOY}mig-manager"
_MIG_CONFIG = "nvidia.com/mig.config"
_MIG_MODELS = ("h100", "a100", "a30")
_HASH = "nvidia.com/last-applied-hash"
_RETRY_SECONDS = 1.0
_DEFAULT_TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


@dataclass(frozen=True)
class Operand:
    """One DaemonSet of the operator.

    Attributes:
        name: its real name, and its pods' label app.
        state: the operator's name for the step that makes it.
        section: the ClusterPolicy section that enables it and names its image.
        deploy: the deploy label's last part.
        container: name of the main container.
        inits: names of the init containers.
        configured: it reads the device plugin's configuration.
        more_selector: node labels that it needs besides its deploy label.
        before_runtime: it comes before the container runtime is configured, so it uses the default one.
    """

    name: str
    state: str
    section: str
    deploy: str
    container: str
    inits: tuple[str, ...] = ("toolkit-validation",)
    configured: bool = False
    more_selector: tuple[tuple[str, str], ...] = ()
    before_runtime: bool = False


#: What config-manager signals, as the operator's assets say it; the last one names what is called otherwise (see gpu_programs).
_SIGNALLED = {
    "nvidia-device-plugin-daemonset": "nvidia-device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-device-plugin-mps-control-daemon": "/usr/bin/mps-control-daemon",
}
_VALIDATIONS = ("driver-validation", "toolkit-validation", "cuda-validation", "plugin-validation")
_MPS_INITS = ("toolkit-validation", "mps-control-daemon-mounts")
_MPS_NODES = (("nvidia.com/mps.capable", "true"),)
OPERANDS = (
    Operand(
        "nvidia-driver-daemonset", "state-driver", "driver", "driver",
        "nvidia-driver-ctr", ("k8s-driver-manager",), before_runtime=True,
    ),
    Operand(
        "nvidia-container-toolkit-daemonset", "state-container-toolkit", "toolkit", "container-toolkit",
        "nvidia-container-toolkit-ctr", ("driver-validation",), before_runtime=True,
    ),
    Operand(
        "nvidia-operator-validator", "state-operator-validation", "validator", "operator-validator",
        "nvidia-operator-validator", _VALIDATIONS,
    ),
    Operand(
        "nvidia-device-plugin-daemonset", "state-device-plugin", "devicePlugin", "device-plugin",
        "nvidia-device-plugin", configured=True,
    ),
    Operand(
        "nvidia-device-plugin-mps-control-daemon", "state-mps-control-daemon", "devicePlugin", "device-plugin",
        "mps-control-daemon-ctr", _MPS_INITS, configured=True, more_selector=_MPS_NODES,
    ),
    Operand("nvidia-dcgm", "state-dcgm", "dcgm", "dcgm", "nvidia-dcgm-ctr"),
    Operand("nvidia-dcgm-exporter", "state-dcgm-exporter", "dcgmExporter", "dcgm-exporter", "nvidia-dcgm-exporter"),
    Operand(
        "gpu-feature-discovery", "gpu-feature-discovery", "gfd", "gpu-feature-discovery",
        "gpu-feature-discovery", configured=True,
    ),
    Operand("nvidia-mig-manager", "state-mig-manager", "migManager", "mig-manager", "nvidia-mig-manager"),
)  # fmt: skip


class Operator:
    """The operator of one cluster."""

    def __init__(self) -> None:
        """Nothing has been made."""
        self._accounts = OperandAccounts()

    def step(self, world: World) -> None:
        """Reconcile once, if the operator runs."""
        pod = next((pod for pod in world.pods if objects.labels(pod).get("app") == "gpu-operator" and objects.running(pod)), None)
        policies = sorted(
            world.store.all("clusterpolicies"), key=lambda item: (item["metadata"]["creationTimestamp"], name(item))
        )
        if pod is None or not policies or objects.deleted(policies[0]):
            return
        try:
            self._reconcile(world, policies[0], objects.namespace(pod))
        except ApiError as error:
            if not error.outdated:
                LOG.warning("operator: %s", error)
            world.again_in(_RETRY_SECONDS)
        for other in policies[1:]:
            self._set_status(world, other, "ignored", objects.namespace(pod), None)

    def _reconcile(self, world: World, policy: Json, where: str) -> None:
        for node in world.nodes.values():
            wanted = node_labels(objects.labels(node), policy["spec"])
            if wanted:
                world.label_node(name(node), wanted)
        nodes = world.store.all("nodes")
        has_gpus = any(objects.labels(node).get(PRESENT) == "true" for node in nodes)
        has_nfd = any(key.startswith(_NFD_PREFIX) for node in nodes for key in objects.labels(node))
        self._runtime_class(world, policy)
        unready = [operand.state for operand in OPERANDS if not self._operand(world, policy, operand, where, has_gpus=has_gpus)]
        if unready:
            condition = ("OperandNotReady", f"ClusterPolicy is not ready; states not ready: [{' '.join(unready)}]", False)
        elif not has_nfd:
            condition = ("NFDLabelsMissing", "No NFD labels found", True)
        elif not has_gpus:
            condition = ("NoGPUNodes", "No GPU node found, watching for new nodes to join the cluster.", True)
        else:
            condition = ("Reconciled", "ClusterPolicy is ready as all resources have been successfully reconciled", True)
        self._set_status(world, policy, "notReady" if unready else "ready", where, condition)

    def _operand(self, world: World, policy: Json, operand: Operand, where: str, *, has_gpus: bool) -> bool:
        """Create, update or remove one DaemonSet; whether its state counts as ready."""
        path = f"/apis/apps/v1/namespaces/{where}/daemonsets"
        known = world.store.by_name("daemonsets").get(f"{where}/{operand.name}")
        if not enabled(policy["spec"], operand):
            if known is not None:
                world.api.delete(f"{path}/{operand.name}")
                world.store.removed("daemonsets", known)
            return True
        if known is None and not has_gpus:
            return True
        self._accounts.make(world, operand.name, _owner(policy), where)
        wanted = daemon_set(policy, operand, where)
        if known is None:
            world.store.wrote("daemonsets", world.api.create(path, wanted))
            return False
        if objects.notes(known).get(_HASH) != objects.notes(wanted)[_HASH]:
            wanted["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            world.store.wrote("daemonsets", world.api.replace(f"{path}/{operand.name}", wanted))
            return False
        return _is_ready(known)

    def _runtime_class(self, world: World, policy: Json) -> None:
        wanted = _runtime_class_name(policy["spec"])
        if wanted is None or wanted in world.store.by_name("runtimeclasses"):
            return
        body = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": wanted, "ownerReferences": [_owner(policy)]},
            "handler": wanted,
        }
        world.store.wrote("runtimeclasses", world.api.create(KINDS["runtimeclasses"], body))

    def _set_status(self, world: World, policy: Json, state: str, where: str, condition: tuple[str, str, bool] | None) -> None:
        old = policy.get("status") or {}
        conditions = old.get("conditions") or []
        if condition is not None:
            reason, message, good = condition
            before = {item["type"]: item for item in conditions}
            conditions = [
                _condition(before, "Ready", good, reason, message if good else ""),
                _condition(before, "Error", not good, "Ready" if good else reason, "" if good else message),
            ]
        status = {"state": state, "namespace": where, "conditions": conditions}
        if {key: old.get(key) for key in status} != status:
            path = f"{KINDS['clusterpolicies']}/{name(policy)}/status"
            world.store.wrote("clusterpolicies", world.api.patch(path, {"status": status}))


def node_labels(labels: Mapping[str, str], spec: Json) -> dict[str, str | None]:
    """The changes to a node's labels that the operator makes (None removes)."""
    wanted: dict[str, str | None] = {}
    has_gpu = any(labels.get(key) == "true" for key in _NFD_LABELS)
    if has_gpu != (labels.get(PRESENT) == "true"):
        if has_gpu:
            wanted[PRESENT] = "true"
        elif PRESENT in labels:
            wanted[PRESENT] = "false"
    if not has_gpu or labels.get(f"{_DEPLOY}operands") == "false":
        ours = [f"{_DEPLOY}{operand}" for operand in _DEPLOY_PARTS] + [_MIG_MANAGER]
        return {**wanted, **dict.fromkeys((key for key in ours if key in labels), None)}
    # A value that is there is honoured: that is how mig-manager pauses an operand, and how people turn one off.
    wanted.update({f"{_DEPLOY}{operand}": "true" for operand in _DEPLOY_PARTS if not labels.get(f"{_DEPLOY}{operand}")})
    if _mig_capable(labels):
        if _MIG_MANAGER not in labels:
            wanted[_MIG_MANAGER] = "true"
        manager = spec.get("migManager") or {}
        default = (manager.get("config") or {}).get("default")
        if manager.get("enabled", True) and not labels.get(_MIG_CONFIG) and default == "all-disabled":
            wanted[_MIG_CONFIG] = default
    return wanted


def enabled(spec: Json, operand: Operand) -> bool:
    """Whether the ClusterPolicy wants an operand; the validator has no switch and dcgm is off unless asked for."""
    if operand.section == "validator":
        return True
    return bool((spec.get(operand.section) or {}).get("enabled", operand.section != "dcgm"))


def daemon_set(policy: Json, operand: Operand, where: str) -> Json:
    """The DaemonSet of one operand."""
    spec = policy["spec"]
    common = spec.get("daemonsets") or {}
    pod_labels = {**(common.get("labels") or {}), "app": operand.name}
    rolling = {"rollingUpdate": {"maxUnavailable": _integer((common.get("rollingUpdate") or {}).get("maxUnavailable", "1"))}}
    strategy = "OnDelete" if operand.section == "driver" else common.get("updateStrategy") or "RollingUpdate"
    body: Json = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": operand.name, "namespace": where, "labels": pod_labels, "ownerReferences": [_owner(policy)]},
        "spec": {
            "selector": {"matchLabels": {"app": operand.name}},
            "updateStrategy": {"type": strategy, **(rolling if strategy == "RollingUpdate" else {})},
            "template": {"metadata": {"labels": pod_labels}, "spec": _pod_spec(spec, operand)},
        },
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    body["metadata"]["annotations"] = {**(common.get("annotations") or {}), _HASH: digest}
    return body


def _pod_spec(spec: Json, operand: Operand) -> Json:
    section = spec.get(operand.section) or {}
    common = spec.get("daemonsets") or {}
    image = _image(section)
    volumes, mounts = _volumes(spec, operand)
    config = _plugin_config(spec) if operand.configured else {}
    account = ACCOUNTS.get(operand.name)
    inits: list[Json] = [{"name": init, "image": image} for init in operand.inits]
    containers: list[Json] = [
        {"name": operand.container, "image": image, "env": _environment(spec, operand), "volumeMounts": mounts}
    ]
    if config:
        inits.append({"name": "config-manager-init", **_config_manager(operand, image, config, mounts, once=True)})
        containers.append({"name": "config-manager", **_config_manager(operand, image, config, mounts, once=False)})
    pod: Json = {
        "nodeSelector": {f"{_DEPLOY}{operand.deploy}": "true", **dict(operand.more_selector)},
        "tolerations": common.get("tolerations") or _DEFAULT_TOLERATIONS,
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        **({"serviceAccountName": account} if account else {"automountServiceAccountToken": False}),
        **({"shareProcessNamespace": True} if config else {}),
        "initContainers": inits,
        "containers": containers,
        "volumes": volumes,
    }
    runtime_class = _runtime_class_name(spec)
    return pod if operand.before_runtime or runtime_class is None else {**pod, "runtimeClassName": runtime_class}


def _config_manager(operand: Operand, image: str, config: Json, mounts: list[Json], *, once: bool) -> Json:
    """The init container that chooses the configuration, or the sidecar that follows the node's label."""
    said = {
        "ONESHOT": "true" if once else "false",
        "KUBECONFIG": "",
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": config.get("default") or "",
        "SEND_SIGNAL": "false" if once else "true",
        "SIGNAL": "" if once else "1",
        "PROCESS_TO_SIGNAL": "" if once else _SIGNALLED[operand.name],
        "FALLBACK_STRATEGIES": "empty",
    }
    node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    env = [node, *({"name": key, "value": value} for key, value in said.items())]
    return {"image": image, "command": ["config-manager"], "env": env, "volumeMounts": mounts}


def _environment(spec: Json, operand: Operand) -> list[dict[str, str]]:
    """Literal variables in the operator's order: a later one of the same name wins, as setContainerEnv does."""
    env: dict[str, str] = {}
    strategy = (spec.get("mig") or {}).get("strategy") or ""
    if operand.configured or operand.section == "validator":
        # Empty means that each node's own configuration decides.
        if strategy:
            env["MIG_STRATEGY"] = strategy
        if _plugin_config(spec) and operand.configured:
            env["CONFIG_FILE"] = "/config/config.yaml"
    if operand.section == "devicePlugin":
        env["MPS_ROOT"] = ((spec.get("devicePlugin") or {}).get("mps") or {}).get("root") or "/run/nvidia/mps"
    if operand.section == "migManager":
        custom = ((spec.get("migManager") or {}).get("config") or {}).get("name")
        env["CONFIG_FILE" if custom else "DEFAULT_CONFIG_FILE"] = f"/mig-parted-config/config{'' if custom else '-default'}.yaml"
    # The MPS daemon does not get the section's own variables, only the plugin does.
    if operand.state != "state-mps-control-daemon":
        env.update({item["name"]: item.get("value", "") for item in (spec.get(operand.section) or {}).get("env") or []})
    return [{"name": key, "value": value} for key, value in env.items()]


def _volumes(spec: Json, operand: Operand) -> tuple[list[Json], list[Json]]:
    volumes: list[Json] = []
    mounts: list[Json] = []
    config = _plugin_config(spec) if operand.configured else {}
    if config:
        volumes += [{"name": config["name"], "configMap": {"name": config["name"]}}, {"name": "config", "emptyDir": {}}]
        mounts += [{"name": "config", "mountPath": "/config"}, {"name": config["name"], "mountPath": "/available-configs"}]
    custom = ((spec.get("migManager") or {}).get("config") or {}).get("name")
    if operand.section == "migManager" and custom:
        volumes.append({"name": "mig-parted-config", "configMap": {"name": custom}})
        mounts.append({"name": "mig-parted-config", "mountPath": "/mig-parted-config"})
    return volumes, mounts


def _plugin_config(spec: Json) -> Json:
    config: Json = (spec.get("devicePlugin") or {}).get("config") or {}
    return config if config.get("name") else {}


def _runtime_class_name(spec: Json) -> str | None:
    """None where the NRI plugin injects GPUs without a runtime class."""
    if (spec.get("cdi") or {}).get("nriPluginEnabled"):
        return None
    return (spec.get("operator") or {}).get("runtimeClass") or "nvidia"


def _image(section: Json) -> str:
    repository, image, version = (section.get(key) or "" for key in ("repository", "image", "version"))
    separator = "@" if version.startswith("sha256:") else ":"
    return f"{'/'.join(part for part in (repository, image) if part) or 'simulated'}{separator + version if version else ''}"


def _integer(value: object) -> int | str:
    """An integer or a percentage, both written as a string."""
    text = str(value)
    return int(text) if text.isdigit() else text


def _mig_capable(labels: Mapping[str, str]) -> bool:
    if labels.get("nvidia.com/vgpu.host-driver-version"):
        return False
    if "nvidia.com/mig.capable" in labels:
        return labels["nvidia.com/mig.capable"] == "true"
    product = labels.get("nvidia.com/gpu.product", "").lower()
    return any(model in product for model in _MIG_MODELS)


def _is_ready(daemon_set: Json) -> bool:
    status = daemon_set.get("status") or {}
    desired = status.get("desiredNumberScheduled", 0)
    if desired == 0:
        return True
    if status.get("numberUnavailable", 0):
        return False
    if daemon_set["spec"]["updateStrategy"]["type"] == "OnDelete":
        return True
    observed: int = status.get("observedGeneration", 0)
    updated = observed >= daemon_set["metadata"]["generation"] and status.get("updatedNumberScheduled", 0) == desired
    return bool(updated and status.get("numberAvailable", 0) == desired)


def _owner(policy: Json) -> Json:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": name(policy),
        "uid": objects.uid(policy),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _condition(before: Mapping[str, Json], kind: str, holds: bool, reason: str, message: str) -> Json:  # noqa: FBT001
    wanted = {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
    old = before.get(kind)
    if old is not None and all(old.get(key) == value for key, value in wanted.items()):
        return old
    moved = old is None or old["status"] != wanted["status"]
    return {**wanted, "lastTransitionTime": timestamp() if moved or old is None else old["lastTransitionTime"]}
