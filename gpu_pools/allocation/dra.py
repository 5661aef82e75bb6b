"""Resource claims: the chart values, DeviceClasses and labels by which pods get what `sharing` declares.

The driver announces the devices of a node as a ResourceSlice, and the scheduler allocates them. A DeviceClass carries the very
resource name that the device plugin would have used, so pods need not change: of ``nvidia.com/gpu: 1`` the scheduler makes a
claim by itself (KEP-5004, on by default since Kubernetes 1.36).

- Whole GPUs, and MIG instances that mig-manager has made, are served by the chart's own DaemonSet.
- Shares of a GPU (`timeSlicing`) are a number of the driver's process, so each distinct number has a DaemonSet of ours beside the
  chart's. A label of each node selects one of them.
- The driver finds MIG instances when it starts. So no driver runs on a node while its MIG state is another than ``success``.
- One DeviceClass per resource name, never one per pool: where one of two classes with the same name is deleted, the scheduler
  forgets the name for the whole cluster.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0 (templates/kubeletplugin.yaml and deviceclass-gpu.yaml of its chart,
cmd/gpu-kubelet-plugin/{main,deviceinfo}.go); k8s.io/dynamic-resource-allocation v0.36.3, extendedresourcecache.go. Second source:
the real driver, run against the real scheduler (tests/sandbox/machines/test_dra_nodes.py).

Not here: the device plugin's side of a declaration (device_plugin.py), and which declarations cannot be allocated by claims
(gpu_pools/plan/dra_checks.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.resource_names import WHOLE_GPU, mig_resource
from gpu_pools.sharing.exclusive import Exclusive
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_SWITCH, DRA_DRIVER_LABEL, DRIVER_MANAGER_LABEL
from gpu_pools.verifier.names import MIG_STATE_LABEL, NO_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.sharing.mode import Sharing

#: The driver's name in ResourceSlices and DeviceClasses.
DRA_DRIVER: Final = "gpu.nvidia.com"
#: Of the driver alone; the name that its installation guide uses.
DRA_NAMESPACE: Final = "dra-driver-nvidia-gpu"
#: The name of the chart's DaemonSet.
DRA_DAEMON_SET: Final = "dra-driver-nvidia-gpu-kubelet-plugin"

_WHOLE: Final = "exclusive"
_SERVICE_ACCOUNT: Final = "dra-driver-nvidia-gpu-service-account-kubeletplugin"
_COMPONENT: Final = "dra-driver-nvidia-gpu-component"
_REGISTRY, _PLUGINS = "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins"
_HEALTH_PORT: Final = 51516


@dataclass(frozen=True)
class DeviceClass:
    """A DeviceClass of ours.

    Attributes:
        name: of the object.
        resource: the extended resource by which pods ask for it.
        expression: which devices it has, in CEL.
    """

    name: str
    resource: str
    expression: str

    def spec(self) -> dict[str, Any]:
        """Return the ``spec`` of the object."""
        return {"selectors": [{"cel": {"expression": self.expression}}], "extendedResourceName": self.resource}


@dataclass(frozen=True)
class Devices:
    """Devices of one kind that a node must announce.

    Attributes:
        resource: the extended resource by which pods ask for them.
        type: ``gpu`` or ``mig``.
        profile: the MIG profile; None of whole GPUs.
        count: how many.
        shares: how many claims may share each; None: one claim has it whole.
    """

    resource: str
    type: str
    profile: str | None
    count: int
    shares: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return them for the expectation document."""
        return {
            "resource": self.resource,
            "type": self.type,
            "profile": self.profile,
            "count": self.count,
            "shares": self.shares,
        }


@dataclass(frozen=True)
class DraPlan:
    """What a cluster needs for its pools with resource claims.

    Attributes:
        values: final values of the driver's chart.
        classes: DeviceClasses besides the chart's own.
        shares: each distinct number of shares per GPU, which has a DaemonSet of its own.
        share_pods: number of shares -> the ``spec`` of that DaemonSet.
    """

    values: Mapping[str, Any]
    classes: tuple[DeviceClass, ...]
    share_pods: Mapping[int, Mapping[str, Any]]


def on_the_gpu(sharing: Sharing) -> Sharing:
    """Return what of a declaration NVIDIA's other programs see: MIG layouts; shares are counted by the scheduler alone."""
    return sharing if sharing.partitioned else Exclusive()


def driver_value(sharing: Sharing) -> str:
    """Return the value of DRA_DRIVER_LABEL on the nodes of a pool."""
    shares = shares_of(sharing)
    return f"shares-{shares}" if shares else _WHOLE


def node_labels(sharing: Sharing) -> dict[str, str]:
    """Return the labels by which a node runs the DRA driver instead of the device plugin."""
    return {DRA_DRIVER_LABEL: driver_value(sharing), DRIVER_MANAGER_LABEL: "true", DEVICE_PLUGIN_SWITCH: "false"}


def plugin_labels() -> dict[str, str]:
    """Return the labels by which a node runs the device plugin again, after claims.

    Without them the label of before goes, and the operator sets its own again only after a change of its ClusterPolicy, or of a
    few other labels (NVIDIA/gpu-operator v26.7.0, controllers/nodelabeling_controller.go, getNodeLabelUpdateReasons). So a pool
    that says `allocation: devicePlugin` has them, and one that says nothing is as it was before there were claims.
    """
    return {DRA_DRIVER_LABEL: NO_CLAIMS, DRIVER_MANAGER_LABEL: "false", DEVICE_PLUGIN_SWITCH: "true"}


def shares_of(sharing: Sharing) -> int | None:
    """Return how many claims share a GPU; None where one claim has it whole."""
    replication = sharing.replication
    return replication.replicas if replication and not sharing.partitioned else None


def devices(hardware: Hardware, sharing: Sharing) -> tuple[Devices, ...]:
    """Return what the driver must announce of a node, in a stable order: whole GPUs, then MIG instances by profile."""
    layouts = [sharing.layout_of(index) for index in range(hardware.gpus)]
    instances: Counter[str] = Counter()
    for layout in layouts:
        instances.update(layout)
    whole = sum(not layout for layout in layouts)
    found = [Devices(_whole_resource(sharing), "gpu", None, whole, shares_of(sharing))] if whole else []
    return (*found, *(Devices(mig_resource(profile), "mig", profile, count) for profile, count in sorted(instances.items())))


def _whole_resource(sharing: Sharing) -> str:
    replication = sharing.replication_of(None)
    return f"{WHOLE_GPU}.shared" if replication and replication.rename_by_default else WHOLE_GPU


def device_classes(sharings: Iterable[Sharing]) -> tuple[DeviceClass, ...]:
    """Return the DeviceClasses of a cluster's declarations, one per resource name; nvidia.com/gpu has the chart's own."""
    found: dict[str, DeviceClass] = {}
    for sharing in sharings:
        if (resource := _whole_resource(sharing)) != WHOLE_GPU:
            found[resource] = _class(resource, f"{_attribute('type')} == 'gpu' && device.allowMultipleAllocations == true")
        for profile in sorted({profile for layout in sharing.layouts for profile, _ in layout}):
            resource = mig_resource(profile)
            found[resource] = _class(resource, f"{_attribute('type')} == 'mig' && {_attribute('profile')} == '{profile}'")
    return tuple(found[resource] for resource in sorted(found))


def class_name(resource: str) -> str:
    """Return the DeviceClass that has a resource name: the chart's own of whole GPUs, else ours."""
    return DRA_DRIVER if resource == WHOLE_GPU else f"gpu-pools-{resource.rpartition('/')[2]}"


def _class(resource: str, expression: str) -> DeviceClass:
    return DeviceClass(class_name(resource), resource, f"device.driver == '{DRA_DRIVER}' && {expression}")


def _attribute(name: str) -> str:
    return f"device.attributes['{DRA_DRIVER}'].{name}"


def driver_root(driver: str) -> str:
    """Return where the GPU driver's files are on a node: in its container's root, or in the node's own."""
    return "/run/nvidia/driver" if driver == "operator" else "/"


def chart_values(driver: str, tolerations: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the values of the DRA driver's chart.

    Args:
        driver: who installs the GPU driver: ``operator`` or ``preinstalled``.
        tolerations: of the driver's pods.
    """
    return {
        # The chart refuses to serve GPUs without it, since on a node with the device plugin both would serve them.
        "gpuResourcesEnabledOverride": True,
        "nvidiaDriverRoot": driver_root(driver),
        "resources": {"computeDomains": {"enabled": False}},
        "kubeletPlugin": {"affinity": _affinity(_WHOLE), "tolerations": [dict(one) for one in tolerations]},
    }


def _affinity(value: str) -> dict[str, Any]:
    """Nodes with a value of DRA_DRIVER_LABEL, except while their GPUs are partitioned or their driver is replaced."""
    ours = [
        {"key": DRA_DRIVER_LABEL, "operator": "In", "values": [value]},
        {"key": DRIVER_MANAGER_LABEL, "operator": "In", "values": ["true"]},
    ]
    states = ({"operator": "In", "values": ["success"]}, {"operator": "DoesNotExist"})
    terms = [{"matchExpressions": [*ours, {"key": MIG_STATE_LABEL, **state}]} for state in states]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def share_daemon_set(shares: int) -> str:
    """Return the name of the DaemonSet that serves a number of shares."""
    return f"{DRA_DAEMON_SET}-shares-{shares}"


def share_daemon_set_spec(
    shares: int,
    image: str,
    driver: str,
    tolerations: Sequence[Mapping[str, str]],
    pull_secrets: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return the ``spec`` of the DaemonSet that serves a number of shares: the chart's own pod, told of the shares.

    Args:
        shares: claims per GPU.
        image: of the driver.
        driver: who installs the GPU driver.
        tolerations: of its pods.
        pull_secrets: Secrets to pull the image with.
    """
    labels = {_COMPONENT: f"kubelet-plugin-shares-{shares}"}
    root = driver_root(driver)
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "priorityClassName": "system-node-critical",
                "serviceAccountName": _SERVICE_ACCOUNT,
                "affinity": _affinity(f"shares-{shares}"),
                "tolerations": [dict(one) for one in tolerations],
                **({"imagePullSecrets": [dict(one) for one in pull_secrets]} if pull_secrets else {}),
                "initContainers": [_init_container(image, root)],
                "containers": [_container(shares, image, root)],
                "volumes": _volumes(root),
            },
        },
    }


def _init_container(image: str, root: str) -> dict[str, Any]:
    """What waits until the GPU driver is there."""
    propagation = {"readOnly": True} if root == "/" else {"mountPropagation": "HostToContainer"}
    return {
        "name": "init-container",
        "image": image,
        "securityContext": {"privileged": True},
        "command": ["bash", "/usr/bin/kubelet-plugin-prestart.sh"],
        "env": [*_variables(root), *_folders()],
        "volumeMounts": [{"name": "driver-root-parent", "mountPath": "/driver-root-parent", **propagation}],
    }


def _container(shares: int, image: str, root: str) -> dict[str, Any]:
    health = {"grpc": {"port": _HEALTH_PORT, "service": "liveness"}, "timeoutSeconds": 10}
    return {
        "name": "gpus",
        "image": image,
        "securityContext": {"privileged": True},
        "command": ["gpu-kubelet-plugin"],
        "args": ["-v", "4"],
        "startupProbe": {**health, "failureThreshold": 600, "periodSeconds": 1},
        "livenessProbe": {**health, "failureThreshold": 3, "periodSeconds": 30},
        "env": [
            *_variables(root),
            {"name": "CDI_ROOT", "value": "/var/run/cdi"},
            {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"},
            *(_field(name, path) for name, path in _FIELDS.items()),
            {"name": "IMAGE_NAME", "value": image},
            {"name": "CONSUMABLE_SHARES", "value": str(shares)},
            {"name": "FEATURE_GATES", "value": "ConsumableShares=true"},
            {"name": "HEALTHCHECK_PORT", "value": str(_HEALTH_PORT)},
            *_folders(),
        ],
        "volumeMounts": [
            {"name": "plugins-registry", "mountPath": _REGISTRY},
            {"name": "plugins", "mountPath": _PLUGINS, "mountPropagation": "Bidirectional"},
            {"name": "cdi", "mountPath": "/var/run/cdi"},
            {"name": "driver-root", "mountPath": "/driver-root", "mountPropagation": "HostToContainer"},
        ],
    }


_FIELDS: Final = {
    "NODE_NAME": "spec.nodeName",
    "NAMESPACE": "metadata.namespace",
    "SERVICE_ACCOUNT_NAME": "spec.serviceAccountName",
}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _variables(root: str) -> list[dict[str, str]]:
    # Without "void" the container toolkit would give the pod all GPUs.
    return [{"name": "NVIDIA_DRIVER_ROOT", "value": root}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def _folders() -> list[dict[str, str]]:
    return [
        {"name": "KUBELET_REGISTRAR_DIRECTORY_PATH", "value": _REGISTRY},
        {"name": "KUBELET_PLUGINS_DIRECTORY_PATH", "value": _PLUGINS},
    ]


def _volumes(root: str) -> list[dict[str, Any]]:
    parent = root.rpartition("/")[0] or "/"
    created = {"type": "DirectoryOrCreate"}
    return [
        {"name": "plugins-registry", "hostPath": {"path": _REGISTRY}},
        {"name": "plugins", "hostPath": {"path": _PLUGINS}},
        {"name": "cdi", "hostPath": {"path": "/var/run/cdi"}},
        {"name": "driver-root-parent", "hostPath": {"path": parent, **created}},
        {"name": "driver-root", "hostPath": {"path": root, **created}},
    ]
