"""The operands of NVIDIA's GPU operator: the DaemonSets that it makes of a ClusterPolicy.

After gpu-operator v26.7.0, assets/*/*daemonset.yaml and controllers/object_controls.go: names, selectors, where they may run, as
whom, the containers with their images, commands and variables, the volumes and how they are mounted. So a real node runs them as
they are. What the operator itself refuses is an OperandError in its words; what the API server refuses is left to that. Left out:
sandbox workloads (vGPU, Kata, confidential computing), OpenShift, GPUDirect, GDRCopy, probes, what of the node a real driver is
compiled with, a DaemonSet per kernel for precompiled drivers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.machines import objects
from sandbox.machines.objects import name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.objects import Json

HASH: Final = "nvidia.com/last-applied-hash"
DIGEST: Final = "DRIVER_CONFIG_DIGEST"
DRIVER: Final = "nvidia-driver-daemonset"
DEPLOY: Final = "nvidia.com/gpu.deploy."
#: Of the exporter: MetricsConfigFileName in controllers/object_controls.go, and its volume.
_COUNTERS, _COUNTERS_VOLUME = "dcgm-metrics.csv", "metrics-config"
#: ConfigMaps that mig-manager mounts where the policy names none.
DEFAULT_LAYOUTS, DEFAULT_CLIENTS = "default-mig-parted-config", "default-gpu-clients"
_DEFAULT_TOLERATIONS: Final = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
_TOOLKIT_INSTALL: Final = "/usr/local/nvidia"
_READY: Final = (
    "until [ -f /run/nvidia/validations/toolkit-ready ]; do echo waiting for nvidia container stack to be setup; sleep 5; done"
)
_OFF_BY_DEFAULT: Final = ("nodeStatusExporter",)
#: Variable of the operator's own container that names an image where the policy names none; it has these two.
_IMAGE_VARIABLES: Final = {
    "validator": "VALIDATOR_IMAGE",
    "nodeStatusExporter": "VALIDATOR_IMAGE",
    "manager": "DRIVER_MANAGER_IMAGE",
}
#: Directories of the node, by volume.
_HOST: Final = {
    "run-nvidia": "/run/nvidia",
    "run-nvidia-validations": "/run/nvidia/validations",
    "device-plugin": "/var/lib/kubelet/device-plugins",
    "pod-gpu-resources": "/var/lib/kubelet/pod-resources",
    "driver-install-dir": "/run/nvidia/driver",
    "toolkit-install-dir": _TOOLKIT_INSTALL,
    "cdi-root": "/var/run/cdi",
    "mps-root": "/run/nvidia/mps",
    "mps-shm": "/run/nvidia/mps/shm",
    "toolkit-root": "/run/nvidia/toolkit",
    "crio-hooks": "/run/containers/oci/hooks.d",
    "output-dir": "/etc/kubernetes/node-feature-discovery/features.d",
    "host-sys": "/sys",
    "host-root": "/",
    "host-dev-char": "/dev/char",
}
#: Those that the kubelet makes where they are missing.
_MADE: Final = ("run-nvidia-validations", "driver-install-dir", "toolkit-root", "cdi-root", "mps-root")
#: Those whose mounts of later on a container sees, too.
_FOLLOWED: Final = ("driver-install-dir", "host-root", "run-nvidia")
_FROM_NODE, _BOTH_WAYS = {"mountPropagation": "HostToContainer"}, {"mountPropagation": "Bidirectional"}
_ENTRYPOINT_MODE, _PROBE_MODE = 0o700, 0o755
#: Variables that Kubernetes fills in.
_FIELDS: Final = {
    "NODE_NAME": "spec.nodeName",
    "POD_NAME": "metadata.name",
    "NAMESPACE": "metadata.namespace",
    "POD_NAMESPACE": "metadata.namespace",
    "OPERATOR_NAMESPACE": "metadata.namespace",
    "NRI_NAMESPACE": "metadata.namespace",
    "DEFAULT_GPU_CLIENTS_NAMESPACE": "metadata.namespace",
    "NODE_IP": "status.hostIP",
}


#: What the validator's containers ask of the node, by component.
_ASKED: Final[dict[str, dict[str, str | None]]] = {
    "driver": {"OPERATOR_NAMESPACE": None},
    "toolkit": {"NVIDIA_VISIBLE_DEVICES": "all"},
    "cuda": {"NODE_NAME": None, "OPERATOR_NAMESPACE": None},
    "plugin": {"NODE_NAME": None, "OPERATOR_NAMESPACE": None},
}


class OperandError(Exception):
    """What the operator itself makes of a policy that it cannot follow."""


@dataclass(frozen=True)
class Operand:
    """One DaemonSet of the operator.

    Attributes:
        name: its real name, and its pods' label app.
        state: the operator's name for the step that makes it.
        section: the ClusterPolicy section that enables it and names its image.
        deploy: the deploy label's last part.
        container: name of the main container.
        account: its service account.
        command: of the main container; empty: its image's own.
        args: of the main container; those of the policy take their place.
        env: variables of the main container; those with a value of None are filled in by Kubernetes.
        mounts: (volume, path) of the main container.
        inits: names of the init containers.
        signalled: the process that config-manager signals; empty where the operand does not read the plugin's configuration.
        script: the ConfigMap that it mounts a script from.
        part_of: a second label of its pods, which its selector names, too.
        more_selector: node labels that it needs besides its deploy label.
        before_runtime: it comes before the container runtime is configured, so it uses the default one.
        host_pid: it sees the node's processes.
        token: whether its service account's token is mounted.
    """

    name: str
    state: str
    section: str
    deploy: str
    container: str
    account: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str | None], ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()
    inits: tuple[str, ...] = ("toolkit-validation",)
    signalled: str = ""
    script: str = ""
    part_of: str = ""
    more_selector: tuple[tuple[str, str], ...] = ()
    before_runtime: bool = False
    host_pid: bool = False
    token: bool = True

    @property
    def selector(self) -> dict[str, str]:
        """What selects its pods; it can never change."""
        return {"app": self.name, **({"app.kubernetes.io/part-of": self.part_of} if self.part_of else {})}


_SHELL, _ENTRYPOINT = ("/bin/sh", "-c"), ("/bin/entrypoint.sh",)
_VALIDATIONS = ("driver-validation", "toolkit-validation", "cuda-validation", "plugin-validation")
_VALIDATED = ("run-nvidia-validations", "/run/nvidia/validations")
_SHARED_MEMORY = ("mps-shm", "/dev/shm")  # noqa: S108 - a path in a container
_DRIVER_ROOT = (("driver-install-dir", "/driver-root"), ("host-root", "/host"), ("cdi-root", "/var/run/cdi"))
OPERANDS: Final = (
    Operand(
        DRIVER, "state-driver", "driver", "driver", "nvidia-driver-ctr", "nvidia-driver", ("nvidia-driver",), ("init",),
        env=(("NODE_NAME", None), ("NODE_IP", None)), mounts=(("run-nvidia", "/run/nvidia"),), inits=("k8s-driver-manager",),
        script="nvidia-driver-startup-probe", before_runtime=True, host_pid=True,
    ),
    Operand(
        "nvidia-container-toolkit-daemonset", "state-container-toolkit", "toolkit", "container-toolkit",
        "nvidia-container-toolkit-ctr", "nvidia-container-toolkit", _SHELL, _ENTRYPOINT,
        env=(
            ("ROOT", _TOOLKIT_INSTALL), ("NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND", "management.nvidia.com/gpu"),
            ("NVIDIA_VISIBLE_DEVICES", "void"), ("TOOLKIT_PID_FILE", "/run/nvidia/toolkit/toolkit.pid"), ("NRI_NAMESPACE", None),
        ),
        mounts=(
            ("toolkit-root", "/run/nvidia/toolkit"), _VALIDATED, ("toolkit-install-dir", _TOOLKIT_INSTALL),
            ("crio-hooks", "/usr/share/containers/oci/hooks.d"), *_DRIVER_ROOT,
        ),
        inits=("driver-validation",),
        script="nvidia-container-toolkit-entrypoint", before_runtime=True, host_pid=True,
    ),
    Operand(
        "nvidia-operator-validator", "state-operator-validation", "validator", "operator-validator", "nvidia-operator-validator",
        "nvidia-operator-validator", ("sh", "-c"), ("echo all validations are successful; while true; do sleep 86400; done",),
        mounts=(_VALIDATED,),
        inits=_VALIDATIONS, part_of="gpu-operator",
    ),
    Operand(
        "nvidia-device-plugin-daemonset", "state-device-plugin", "devicePlugin", "device-plugin", "nvidia-device-plugin",
        "nvidia-device-plugin", _SHELL, _ENTRYPOINT,
        env=(
            ("PASS_DEVICE_SPECS", "true"), ("FAIL_ON_INIT_ERROR", "true"), ("DEVICE_LIST_STRATEGY", "envvar"),
            ("DEVICE_ID_STRATEGY", "uuid"), ("NVIDIA_VISIBLE_DEVICES", "all"), ("NVIDIA_DRIVER_CAPABILITIES", "all"),
            ("MPS_ROOT", "/run/nvidia/mps"),
        ),
        mounts=(("device-plugin", "/var/lib/kubelet/device-plugins"), _VALIDATED, *_DRIVER_ROOT, _SHARED_MEMORY,
                ("mps-root", "/mps")),
        signalled="nvidia-device-plugin", script="nvidia-device-plugin-entrypoint",
    ),
    Operand(
        "nvidia-device-plugin-mps-control-daemon", "state-mps-control-daemon", "devicePlugin", "device-plugin",
        "mps-control-daemon-ctr", "nvidia-device-plugin", ("mps-control-daemon",),
        env=(("NODE_NAME", None), ("NVIDIA_VISIBLE_DEVICES", "all"), ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")),
        mounts=(_SHARED_MEMORY, ("mps-root", "/mps")), inits=("toolkit-validation", "mps-control-daemon-mounts"),
        signalled="/usr/bin/mps-control-daemon", more_selector=(("nvidia.com/mps.capable", "true"),), host_pid=True,
    ),
    Operand("nvidia-dcgm", "state-dcgm", "dcgm", "dcgm", "nvidia-dcgm-ctr", "nvidia-dcgm"),
    Operand(
        "nvidia-dcgm-exporter", "state-dcgm-exporter", "dcgmExporter", "dcgm-exporter", "nvidia-dcgm-exporter",
        "nvidia-dcgm-exporter",
        env=(
            ("DCGM_EXPORTER_LISTEN", ":9400"), ("DCGM_EXPORTER_KUBERNETES", "true"),
            ("DCGM_EXPORTER_COLLECTORS", "/etc/dcgm-exporter/dcp-metrics-included.csv"), ("NODE_NAME", None),
        ),
        mounts=(("pod-gpu-resources", "/var/lib/kubelet/pod-resources"),), token=False,
    ),
    Operand(
        "gpu-feature-discovery", "gpu-feature-discovery", "gfd", "gpu-feature-discovery", "gpu-feature-discovery",
        "nvidia-gpu-feature-discovery", ("gpu-feature-discovery",),
        env=(
            ("GFD_SLEEP_INTERVAL", "60s"), ("GFD_FAIL_ON_INIT_ERROR", "true"), ("NAMESPACE", None), ("NODE_NAME", None),
            ("POD_NAME", None),
        ),
        mounts=(("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"), ("host-sys", "/sys")),
        signalled="gpu-feature-discovery", part_of="nvidia-gpu",
    ),
    Operand(
        "nvidia-mig-manager", "state-mig-manager", "migManager", "mig-manager", "nvidia-mig-manager", "nvidia-mig-manager",
        _SHELL, _ENTRYPOINT,
        env=(
            ("NODE_NAME", None), ("POD_NAME", None), ("POD_NAMESPACE", None), ("GPU_CLIENTS_FILE", "/gpu-clients/clients.yaml"),
            ("DEFAULT_GPU_CLIENTS_NAMESPACE", None),
        ),
        mounts=(_VALIDATED, ("host-sys", "/sys"), *_DRIVER_ROOT), script="nvidia-mig-manager-entrypoint", host_pid=True,
    ),
    Operand(
        "nvidia-node-status-exporter", "state-node-status-exporter", "nodeStatusExporter", "node-status-exporter",
        "nvidia-node-status-exporter", "nvidia-node-status-exporter", ("nvidia-validator",),
        env=(
            ("NVIDIA_VISIBLE_DEVICES", "void"), ("COMPONENT", "metrics"), ("METRICS_PORT", "8000"), ("NODE_NAME", None),
            ("OPERATOR_NAMESPACE", None),
        ),
        mounts=(("run-nvidia", "/run/nvidia"), ("host-root", "/host")), inits=(), before_runtime=True,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class OperatorEnvironment:
    """What the operator knows besides the policy.

    Attributes:
        namespace: its own.
        os_tag: operating system of the first GPU node, e.g. ``ubuntu24.04``.
        images: variables of its own container that name images.
    """

    namespace: str
    os_tag: str
    images: Mapping[str, str]


def enabled(spec: Json, operand: Operand) -> bool:
    """Whether the ClusterPolicy wants an operand; the validator has no switch."""
    if operand.section == "validator":
        return True
    return bool((spec.get(operand.section) or {}).get("enabled", operand.section not in _OFF_BY_DEFAULT))


def runtime_class_name(spec: Json) -> str:
    """The RuntimeClass of the operands."""
    return str((spec.get("operator") or {}).get("runtimeClass") or "nvidia")


def injects_by_nri(spec: Json) -> bool:
    """Whether the NRI plugin injects GPUs; then there are no runtime classes."""
    return bool((spec.get("cdi") or {}).get("nriPluginEnabled"))


def daemon_set(policy: Json, operand: Operand, environment: OperatorEnvironment) -> Json:
    """The DaemonSet of one operand.

    Raises:
        OperandError: where the operator makes none of this policy.
    """
    spec = policy["spec"]
    common = spec.get("daemonsets") or {}
    labels = common.get("labels") or {}
    notes = common.get("annotations") or {}
    kept = {key: value for key, value in labels.items() if key not in ("app", "app.kubernetes.io/part-of")}
    more = {"app.kubernetes.io/component": "nvidia-driver", "nvidia.com/precompiled": "false"} if operand.name == DRIVER else {}
    metadata = {"labels": {**kept, **operand.selector, **more}, **({"annotations": notes} if notes else {})}
    body: Json = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": operand.name,
            "namespace": environment.namespace,
            "labels": {**operand.selector, **more, **labels},
            "ownerReferences": [owner(policy)],
        },
        "spec": {
            "selector": {"matchLabels": operand.selector},
            **_update_strategy(common, operand),
            "template": {"metadata": metadata, "spec": _pod_spec(spec, operand, environment)},
        },
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    body["metadata"]["annotations"] = {**notes, HASH: digest}
    return body


def owner(policy: Json) -> Json:
    """The reference by which everything goes with its policy."""
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": name(policy),
        "uid": objects.uid(policy),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _update_strategy(common: Json, operand: Operand) -> Json:
    if operand.name == DRIVER or common.get("updateStrategy") == "OnDelete":
        return {"updateStrategy": {"type": "OnDelete"}}
    text = str((common.get("rollingUpdate") or {}).get("maxUnavailable") or "")
    if not text:
        return {}
    if not text.endswith("%") and not text.lstrip("+-").isdecimal():
        message = f'failed to apply rolling update config: strconv.ParseInt: parsing "{text}": invalid syntax'
        raise OperandError(message)
    most = text if text.endswith("%") else int(text)
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}}}


def _pod_spec(spec: Json, operand: Operand, environment: OperatorEnvironment) -> Json:
    common = spec.get("daemonsets") or {}
    main = _main(spec, operand, environment)
    inits = [_init(spec, operand, init, environment) for init in operand.inits]
    if operand.section == "validator" and not enabled(spec, _operand("nvidia-device-plugin-daemonset")):
        inits = [init for init in inits if init["name"] != "plugin-validation"]
    containers = [main]
    volumes = [_host_volume(operand, volume) for volume in _volumes_of(main, inits)]
    if operand.script:
        mode = _PROBE_MODE if operand.name == DRIVER else _ENTRYPOINT_MODE
        volumes.append({"name": operand.script, "configMap": {"name": operand.script, "defaultMode": mode}})
    config = _plugin_config(spec) if operand.signalled else {}
    if config:
        manager_init, manager = _config_managers(spec, operand, config, environment)
        inits.append(manager_init)
        containers.append(manager)
        volumes += [{"name": config["name"], "configMap": {"name": config["name"]}}, {"name": "config", "emptyDir": {}}]
    if operand.section == "migManager":
        volumes += _layout_volumes(spec)
    volumes += _counters_volumes(spec, operand)
    pod: Json = {
        "nodeSelector": {f"{DEPLOY}{operand.deploy}": "true", **dict(operand.more_selector)},
        "tolerations": common.get("tolerations") or _DEFAULT_TOLERATIONS,
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        "serviceAccountName": operand.account,
        "initContainers": inits,
        "containers": containers,
        "volumes": volumes,
    }
    section = spec.get(operand.section) or {}
    exports = operand.section == "dcgmExporter"
    if operand.host_pid or (exports and section.get("hostPID")):
        pod["hostPID"] = True
    elif config:
        pod["shareProcessNamespace"] = True
    if not operand.token and not (exports and _reads_pods(section)):
        pod["automountServiceAccountToken"] = False
    if operand.name == DRIVER:
        _add_digest(pod)
    if not operand.before_runtime and not injects_by_nri(spec):
        pod["runtimeClassName"] = runtime_class_name(spec)
    return pod


def _operand(wanted: str) -> Operand:
    return next(operand for operand in OPERANDS if operand.name == wanted)


def _main(spec: Json, operand: Operand, environment: OperatorEnvironment) -> Json:
    section = spec.get(operand.section) or {}
    mounts: list[Json] = [_mount(operand, volume, path) for volume, path in operand.mounts]
    if operand.signalled and _plugin_config(spec):
        mounts += _config_mounts(spec)
    if operand.section == "migManager":
        mounts += [
            {"name": "gpu-clients", "mountPath": "/gpu-clients"},
            {"name": "mig-parted-config", "mountPath": "/mig-parted-config"},
        ]
    if _counters(spec, operand):
        where = f"/etc/dcgm-exporter/{_COUNTERS}"
        mounts.append({"name": _COUNTERS_VOLUME, "readOnly": True, "mountPath": where, "subPath": _COUNTERS})
    if operand.script:
        where = "/usr/local/bin/startup-probe.sh" if operand.name == DRIVER else "/bin/entrypoint.sh"
        mounts.append({"name": operand.script, "mountPath": where, "subPath": where.rpartition("/")[2], "readOnly": True})
    image = _image(section, operand.section, environment)
    if operand.name == DRIVER and "sha256:" not in image:
        image = f"{image}-{environment.os_tag}"
    container: Json = {
        "name": operand.container,
        "image": image,
        "env": _environment(spec, operand),
        "securityContext": {"privileged": True},
        "volumeMounts": mounts,
    }
    if operand.command:
        container["command"] = list(operand.command)
    args = section.get("args") or list(operand.args)
    if args:
        container["args"] = args
    if operand.section == "validator":
        container["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", "rm -f /run/nvidia/validations/*-ready"]}}}
    if operand.name == DRIVER:
        marks = "/run/nvidia/validations/.driver-ctr-ready /run/nvidia/validations/.driver-daemons-status"
        container["lifecycle"] = {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"rm -f {marks}"]}}}
    return _with_resources(container, section)


def _mount(operand: Operand, volume: str, path: str) -> Json:
    """How the main container mounts a folder of the node."""
    mount: Json = {"name": volume, "mountPath": path}
    protected = {"host-root": operand.section != "migManager", "host-sys": operand.section == "gfd", "pod-gpu-resources": True}
    if protected.get(volume):
        mount["readOnly"] = True
    if operand.section == "validator" or (operand.name == DRIVER and volume == "run-nvidia"):
        return {**mount, **_BOTH_WAYS}
    return {**mount, **(_FROM_NODE if volume in _FOLLOWED else {})}


def _host_volume(operand: Operand, volume: str) -> Json:
    kind = "DirectoryOrCreate" if volume in _MADE or (operand.name == DRIVER and volume == "run-nvidia") else ""
    if volume == "run-nvidia" and not kind and operand.section != "dcgmExporter":
        kind = "Directory"
    return {"name": volume, "hostPath": {"path": _HOST[volume], **({"type": kind} if kind else {})}}


def _init(spec: Json, operand: Operand, init: str, environment: OperatorEnvironment) -> Json:
    if init == "k8s-driver-manager":
        return _driver_manager(spec, environment)
    if init == "mps-control-daemon-mounts":
        image = _image(spec.get("devicePlugin") or {}, "devicePlugin", environment)
        mounts = [{"name": "mps-root", "mountPath": "/mps", **_BOTH_WAYS}]
        return _privileged(init, image, ["mps-control-daemon", "mount-shm"], [], mounts)
    section = spec.get("validator") or {}
    component = init.removesuffix("-validation")
    env: dict[str, str | None] = dict(_own_variables(section, component))
    waits = operand.section not in ("validator", "toolkit")
    if not waits:
        env = {**_ASKED[component], "WITH_WAIT": str(component == "driver").lower(), "COMPONENT": component, **env}
    if component == "plugin":
        # Always written, also where the policy leaves it to each node's own configuration.
        env = {"WITH_WORKLOAD": "false", "MIG_STRATEGY": (spec.get("mig") or {}).get("strategy") or "", **env}
    image = _image(section, "validator", environment)
    mounts = _waiting_mounts(operand) if waits else _validating_mounts(component)
    made = _privileged(init, image, ["sh", "-c"], _variables(env), mounts)
    made["args"] = [_READY if waits else "nvidia-validator"]
    return _with_resources(made, section)


def _waiting_mounts(operand: Operand) -> list[Json]:
    """Where an operand that waits for the toolkit looks."""
    if operand.section == "migManager" or operand.name == "nvidia-device-plugin-daemonset":
        return [{"name": _VALIDATED[0], "mountPath": _VALIDATED[1], **_FROM_NODE}]
    return [{"name": "run-nvidia", "mountPath": "/run/nvidia", **_FROM_NODE}]


def _validating_mounts(component: str) -> list[Json]:
    found: list[Json] = [{"name": _VALIDATED[0], "mountPath": _VALIDATED[1], **_BOTH_WAYS}]
    if component == "driver":
        found += [
            {"name": "host-root", "mountPath": "/host", "readOnly": True, **_FROM_NODE},
            {"name": "driver-install-dir", "mountPath": "/run/nvidia/driver", **_FROM_NODE},
            {"name": "host-dev-char", "mountPath": "/host-dev-char"},
        ]
    return found


def _own_variables(section: Json, component: str) -> dict[str, str]:
    given = (section.get(component) or {}).get("env") or []
    return {item["name"]: item.get("value", "") for item in given}


def _driver_manager(spec: Json, environment: OperatorEnvironment) -> Json:
    section = (spec.get("driver") or {}).get("manager") or {}
    env: dict[str, str | None] = {
        "NODE_NAME": None, "NVIDIA_VISIBLE_DEVICES": "void", "ENABLE_GPU_POD_EVICTION": "true", "ENABLE_AUTO_DRAIN": "false",
        "OPERATOR_NAMESPACE": None,
    }  # fmt: skip
    env |= {item["name"]: item.get("value", "") for item in section.get("env") or []}
    mounts: list[Json] = [
        {"name": "run-nvidia", "mountPath": "/run/nvidia", **_BOTH_WAYS},
        {"name": "host-root", "mountPath": "/host", "readOnly": True, **_FROM_NODE},
        {"name": "host-sys", "mountPath": "/sys"},
    ]
    image = _image(section, "manager", environment)
    return {**_privileged("k8s-driver-manager", image, ["driver-manager"], _variables(env), mounts), "args": ["uninstall_driver"]}


def _config_managers(spec: Json, operand: Operand, config: Json, environment: OperatorEnvironment) -> tuple[Json, Json]:
    """config-manager once before the operand, and beside it."""
    image = _image(spec.get("devicePlugin") or {}, "devicePlugin", environment)
    found = []
    for container, once in (("config-manager-init", True), ("config-manager", False)):
        env: dict[str, str | None] = {
            "ONESHOT": str(once).lower(),
            "KUBECONFIG": "",
            "NODE_NAME": None,
            "NODE_LABEL": "nvidia.com/device-plugin.config",
            "CONFIG_FILE_SRCDIR": "/available-configs",
            "CONFIG_FILE_DST": "/config/config.yaml",
            "DEFAULT_CONFIG": config.get("default") or "",
            "SEND_SIGNAL": str(not once).lower(),
            "SIGNAL": "" if once else "1",
            "PROCESS_TO_SIGNAL": "" if once else operand.signalled,
            "FALLBACK_STRATEGIES": "empty",
        }
        made = _privileged(container, image, ["config-manager"], _variables(env), _config_mounts(spec))
        if once:
            made = _with_resources(
                {key: value for key, value in made.items() if key != "securityContext"}, spec.get(operand.section) or {}
            )
        found.append(made)
    return found[0], found[1]


def _privileged(container: str, image: str, command: list[str], env: list[Json], mounts: list[Json]) -> Json:
    return {
        "name": container,
        "image": image,
        "command": command,
        "env": env,
        "securityContext": {"privileged": True},
        "volumeMounts": mounts,
    }


def _with_resources(container: Json, section: Json) -> Json:
    given = section.get("resources")
    return {**container, "resources": given} if given else container


def _volumes_of(main: Json, inits: list[Json]) -> list[str]:
    named = [mount["name"] for container in (main, *inits) for mount in container["volumeMounts"]]
    return [volume for volume in dict.fromkeys(named) if volume in _HOST]


def _config_mounts(spec: Json) -> list[Json]:
    return [{"name": "config", "mountPath": "/config"}, {"name": _plugin_config(spec)["name"], "mountPath": "/available-configs"}]


def _layout_volumes(spec: Json) -> list[Json]:
    section = spec.get("migManager") or {}
    custom = (section.get("config") or {}).get("name")
    clients = (section.get("gpuClientsConfig") or {}).get("name") or DEFAULT_CLIENTS
    layouts: Json = {"name": custom or DEFAULT_LAYOUTS}
    if not custom:
        layouts["items"] = [{"key": "config.yaml", "path": "config-default.yaml"}]
    return [{"name": "gpu-clients", "configMap": {"name": clients}}, {"name": "mig-parted-config", "configMap": layouts}]


def _environment(spec: Json, operand: Operand) -> list[Json]:
    """Variables in the operator's order: a later one of the same name wins, as setContainerEnv does."""
    env: dict[str, str | None] = dict(operand.env)
    section = spec.get(operand.section) or {}
    own: dict[str, str | None] = {item["name"]: item.get("value", "") for item in section.get("env") or []}
    cdi = bool((spec.get("cdi") or {}).get("enabled", True))
    if operand.section == "gfd":
        # Before what follows: gpu-feature-discovery's own list does not win over strategy and configuration.
        env |= own
    if operand.signalled:
        if _plugin_config(spec):
            env["CONFIG_FILE"] = "/config/config.yaml"
        env |= _mig_variables(spec)
    if operand.name == "nvidia-device-plugin-daemonset":
        if cdi:
            env |= {
                "CDI_ENABLED": "true",
                "DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri",
                "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
            }
            # Without it the plugin describes hooks below /usr/bin, where no node has them, and no pod with a GPU starts.
            env |= _cdi_hook(spec)
        root = (section.get("mps") or {}).get("root")
        env |= {"MPS_ROOT": root} if root else {}
    env |= _exporter_variables(spec, operand)
    if operand.section == "migManager":
        custom = (section.get("config") or {}).get("name")
        env["CONFIG_FILE" if custom else "DEFAULT_CONFIG_FILE"] = f"/mig-parted-config/config{'' if custom else '-default'}.yaml"
        env |= {"CDI_ENABLED": "true", **_cdi_hook(spec)} if cdi else {}
    if cdi and operand.section == "toolkit":
        env |= {"CDI_ENABLED": "true", "NVIDIA_RUNTIME_SET_AS_DEFAULT": "false", "NVIDIA_CONTAINER_RUNTIME_MODE": "cdi"}
    # The MPS daemon does not get the section's own variables, only the plugin does.
    if operand.name != "nvidia-device-plugin-mps-control-daemon" and operand.section != "gfd":
        env |= own
    return _variables(env)


def _cdi_hook(spec: Json) -> dict[str, str]:
    """Where the hooks of CDI specifications are: the toolkit has put them there."""
    toolkit = spec.get("toolkit") or {}
    if not toolkit.get("enabled", True):
        return {}
    return {"NVIDIA_CDI_HOOK_PATH": f"{toolkit.get('installDir') or _TOOLKIT_INSTALL}/toolkit/nvidia-cdi-hook"}


def _exporter_variables(spec: Json, operand: Operand) -> dict[str, str | None]:
    section = (spec.get("dcgmExporter") or {}) if operand.section == "dcgmExporter" else {}
    asked = {"ENABLE_POD_LABELS": "enablePodLabels", "ENABLE_POD_UID": "enablePodUID"}
    env: dict[str, str | None] = {f"DCGM_EXPORTER_KUBERNETES_{name}": "true" for name, key in asked.items() if section.get(key)}
    if _counters(spec, operand):
        env["DCGM_EXPORTER_COLLECTORS"] = f"/etc/dcgm-exporter/{_COUNTERS}"
    return env


def _reads_pods(section: Json) -> bool:
    """Whether the exporter asks the API server for pods (IsKubernetesPodMetadataEnabled)."""
    return bool(section.get("enablePodLabels") or section.get("enablePodUID"))


def _counters_volumes(spec: Json, operand: Operand) -> list[Json]:
    counters, files = _counters(spec, operand), [{"key": _COUNTERS, "path": _COUNTERS}]
    return [{"name": _COUNTERS_VOLUME, "configMap": {"name": counters, "items": files}}] if counters else []


def _counters(spec: Json, operand: Operand) -> str:
    """The ConfigMap of the exporter's own counters file; empty: the file of its image."""
    if operand.section != "dcgmExporter":
        return ""
    return str(((spec.get("dcgmExporter") or {}).get("config") or {}).get("name") or "")


def _mig_variables(spec: Json) -> dict[str, str]:
    strategy = (spec.get("mig") or {}).get("strategy") or ""
    # Empty means that each node's own configuration decides.
    named = {"MIG_STRATEGY": strategy} if strategy else {}
    return named if strategy == "none" else {**named, "NVIDIA_MIG_MONITOR_DEVICES": "all"}


def _variables(env: Mapping[str, str | None]) -> list[Json]:
    return [
        {"name": key, "value": value}
        if value is not None
        else {"name": key, "valueFrom": {"fieldRef": {"fieldPath": _FIELDS[key]}}}
        for key, value in env.items()
    ]


def _add_digest(pod: Json) -> None:
    """What the installed driver depends on, and so not tolerations: the same digest makes a change one of a restart only."""
    containers = [*pod["initContainers"], *pod["containers"]]
    decides = [{key: item.get(key) for key in ("image", "command", "args", "env", "volumeMounts")} for item in containers]
    text = json.dumps([decides, pod["volumes"]], sort_keys=True)
    entry = {"name": DIGEST, "value": hashlib.sha256(text.encode()).hexdigest()[:10]}
    for container in containers:
        container["env"].append(entry)


def _plugin_config(spec: Json) -> Json:
    config: Json = (spec.get("devicePlugin") or {}).get("config") or {}
    return config if config.get("name") else {}


def _image(section: Json, what: str, environment: OperatorEnvironment) -> str:
    repository, image, version = (str(section.get(key) or "") for key in ("repository", "image", "version"))
    if repository or version:
        if not (repository and image and version):
            message = (
                "invalid image specification: repository, image and version must all be set "
                f"(repository={repository}, image={image}, version={version})"
            )
            raise OperandError(message)
        return f"{repository}/{image}{'@' if version.startswith('sha256:') else ':'}{version}"
    variable = _IMAGE_VARIABLES.get(what, f"{what}_IMAGE")
    found = image or environment.images.get(variable, "")
    if not found:
        message = f"empty image path provided through both ClusterPolicy CR and ENV {variable}"
        raise OperandError(message)
    return found
