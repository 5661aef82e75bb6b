"""Which resources of a program are what: pools, charts, ConfigMaps of operands, workloads; and where their parts are.

Several rules ask the same questions. Everything here reads through `Field`, so an unknown is never mistaken for "no".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import yaml

from gpu_pools.existing.kinds import kind_of_text
from gpu_pools.existing.yaml_tree import parse_documents
from gpu_pools.hardware.azure_sizes import retired, size
from gpu_pools.policies.reading import UnknownMetError
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.policies.described import Resource
    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

AGENT_POOL: Final = "azure-native:containerservice:AgentPool"
MANAGED_CLUSTER: Final = "azure-native:containerservice:ManagedCluster"
NODE_GROUP: Final = "openstack:containerinfra/nodeGroup:NodeGroup"
MAGNUM_CLUSTER: Final = "openstack:containerinfra/cluster:Cluster"
RELEASE: Final = "kubernetes:helm.sh/v3:Release"
CHARTS: Final = ("kubernetes:helm.sh/v3:Chart", "kubernetes:helm.sh/v4:Chart")
#: What an operator of another owner is changed by; its ``spec`` has the keys of the chart's values (gpu_pools/stack/adoption.py).
CLUSTER_POLICIES: Final = ("kubernetes:nvidia.com/v1:ClusterPolicy", "kubernetes:nvidia.com/v1:ClusterPolicyPatch")
#: Where an operator is told things: only for rules that judge what is said, since a ClusterPolicy has no chart's defaults.
OPERATORS: Final = (RELEASE, *CLUSTER_POLICIES)
CONFIG_MAP: Final = "kubernetes:core/v1:ConfigMap"
#: Where keys of a ConfigMap are written: each of ours is a patch (components/gpu_operator/sharing_keys.py).
CONFIG_MAPS: Final = (CONFIG_MAP, "kubernetes:core/v1:ConfigMapPatch")
NODE_PATCH: Final = "kubernetes:core/v1:NodePatch"
#: What a Prometheus Operator reads, and Azure's Managed Prometheus: the same kinds in two API groups.
COREOS_GROUP: Final = "kubernetes:monitoring.coreos.com/"
AZURE_GROUP: Final = "kubernetes:azmonitoring.coreos.com/"
MONITORS: Final = (
    *(f"{COREOS_GROUP}v1:{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")),
    *(f"{AZURE_GROUP}v1:{kind}" for kind in ("ServiceMonitor", "PodMonitor")),
)
#: Charts that bring the kinds of monitoring.coreos.com.
MONITOR_CHARTS: Final = ("kube-prometheus-stack", "prometheus-operator-crds")
QUOTA: Final = "kubernetes:core/v1:ResourceQuota"
DAEMON_SET: Final = "kubernetes:apps/v1:DaemonSet"
WORKLOADS: Final = (
    "kubernetes:core/v1:Pod",
    "kubernetes:apps/v1:Deployment",
    "kubernetes:apps/v1:StatefulSet",
    "kubernetes:apps/v1:ReplicaSet",
    DAEMON_SET,
    "kubernetes:batch/v1:Job",
    "kubernetes:batch/v1:CronJob",
)
#: Our own component that puts verifiers on the nodes of a pool.
VERIFICATION: Final = "gpu-pools:index:Verification"
#: Our own component around an AKS pool. With `rollout` its input `changedLabels` has the labels that nodes get one by one.
AKS_POOL: Final = "gpu-pools:index:AksGpuNodePool"
#: Our own component by which new nodes take no pods until their verifier has passed.
STARTUP_TAINT: Final = "gpu-pools:index:StartupTaint"
#: What pods that get GPUs through resource claims are allocated from.
DEVICE_CLASS: Final = "kubernetes:resource.k8s.io/v1:DeviceClass"
DRA_CHART: Final = "dra-driver-nvidia-gpu"
CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_LABEL: Final = "nvidia.com/mig.config"
OPERATOR_CHART: Final = "gpu-operator"
NFD_CHART: Final = "node-feature-discovery"


def chart_name(inputs: Field) -> str:
    """The last part of a release's chart: gpu-operator of oci://host/nvidia/gpu-operator."""
    return inputs.at("chart").text().rstrip("/").rsplit("/", 1)[-1].removesuffix(".tgz").split(":")[0]


def is_chart(inputs: Field, name: str) -> bool:
    """Whether a release is of that chart, also as an archive with a version in its name."""
    found = chart_name(inputs)
    return found == name or found.startswith((f"{name}-v", *(f"{name}-{digit}" for digit in range(10))))


def releases(case: Case, name: str) -> list[tuple[Resource, Field]]:
    """The program's releases of a chart."""
    return [(resource, inputs) for resource, inputs in case.of(RELEASE) if is_chart(inputs, name)]


def operator_values(resource: Resource, inputs: Field) -> Field | None:
    """What an operator is told: values of its release, or the spec of a ClusterPolicy; None of anything else."""
    if resource.type in CLUSTER_POLICIES:
        return inputs.at("spec")
    return inputs.at("values") if resource.type == RELEASE and is_chart(inputs, OPERATOR_CHART) else None


def operator(case: Case) -> Field | None:
    """What the resource under judgement tells an operator; None where it is none."""
    return operator_values(case.resource, case.inputs)


def operators(case: Case) -> list[tuple[Resource, Field]]:
    """The program's operators, installed or of another owner, with what each is told."""
    operators = [(resource, operator_values(resource, inputs)) for resource, inputs in case.of(*OPERATORS)]
    return [(resource, values) for resource, values in operators if values is not None]


def on(place: Field, *keys: str, default: bool) -> bool:
    """A switch among chart values."""
    value = place.at(*keys).value()
    return value if isinstance(value, bool) else default


def installs_driver(operator: Resource, values: Field) -> bool:
    """Whether an operator is said to install the driver; what a ClusterPolicy does not say is its owner's matter."""
    return on(values, "driver", "enabled", default=operator.type == RELEASE)


def environment(values: Field, operand: str) -> dict[str, str]:
    """Name -> value of an operand's ``env``."""
    return {entry.at("name").text(): str(entry.at("value").value()) for entry in values.at(operand, "env").each()}


def is_gpu_pool(inputs: Field) -> bool:
    """Whether an AKS pool has NVIDIA GPUs: by its size, or where no table has that, by the label that shares them or is ours."""
    name = inputs.at("vmSize").text()
    if size(name) is not None or retired(name) is not None:
        return True
    # Azure's sizes with GPUs all begin so; of others nothing need be known.
    labels = inputs.at("nodeLabels")
    return name.lower().startswith("standard_n") and any(labels.at(key).text() for key in (CONFIG_LABEL, POOL_LABEL))


def sharing_label(case: Case, key: str, pool: tuple[Resource, Field] | None = None) -> Field:
    """The label by which nodes of an AKS pool are shared: its own, or one that they get one by one (`rollout`).

    Args:
        case: what is judged; a rule about whole programs.
        key: `CONFIG_LABEL` or `MIG_LABEL`.
        pool: the pool; by default the resource under judgement.
    """
    resource, inputs = pool or (case.resource, case.inputs)
    own = inputs.at("nodeLabels", key)
    around = [component for one, component in case.of(AKS_POOL) if one.urn == resource.parent]
    by_rollout = [label for component in around if (label := component.at("changedLabels", key)).present()]
    return own if own.present() or not by_rollout else by_rollout[0]


def gpu_pools(case: Case) -> list[tuple[Resource, Field]]:
    """The program's AKS pools with GPUs."""
    return [(resource, inputs) for resource, inputs in case.of(AGENT_POOL) if is_gpu_pool(inputs)]


def own_name(inputs: Field) -> str:
    """The name that a Kubernetes object was given; ``""`` where the provider makes one up and marks it so."""
    metadata = inputs.at("metadata")
    made_up = metadata.at("annotations", "pulumi.com/autonamed").value() in {"true", True}
    return "" if made_up else metadata.at("name").text()


def texts_of(inputs: Field, kind: str) -> Iterator[tuple[Field, str]]:
    """(place, text) of the device-plugin (`plugin`) or mig-parted configs in a ConfigMap."""
    for _, place in inputs.at("data").items():  # noqa: PERF102 - a Field is not a mapping
        text = place.text()
        if kind_of(text) == kind:
            yield place, text


@lru_cache(maxsize=256)
def kind_of(text: str) -> str:
    """What a text is: ``plugin``, ``mig-parted``, or something else. Every pool asks for the same few texts."""
    return kind_of_text(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> object:
    """Its first document; None where it is empty or no YAML, which is the business of the rules about ConfigMaps."""
    try:
        trees = parse_documents(text)
    except yaml.YAMLError:
        return None
    return trees[0].value if trees else None


def parsed_configs(case: Case, kind: str) -> Iterator[tuple[Resource, Field, object]]:
    """(ConfigMap or patch of one, place, parsed YAML) of every config of a kind in the program."""
    for resource, inputs in case.of(*CONFIG_MAPS):
        for place, text in texts_of(inputs, kind):
            yield resource, place, _parsed(text)


def configs_named(case: Case, label: Field) -> Iterator[tuple[Resource, object]]:
    """(ConfigMap, parsed YAML) of each config of the device plugin that a pool's label names."""
    for resource, place, value in parsed_configs(case, "plugin"):
        if place.path in {f"data.{label.text()}", f'data["{label.text()}"]'}:
            yield resource, value


def sharing_of(value: object) -> dict[str, object]:
    """The strategies that a parsed config of the device plugin shares by; empty where it shares nothing."""
    sharing = value.get("sharing") if isinstance(value, dict) else None
    return sharing if isinstance(sharing, dict) else {}


def makes_map(case: Case, name: str) -> bool:
    """Whether the program makes the ConfigMap of that name."""
    return any(inputs.at("metadata", "name").text() == name for _, inputs in case.of(CONFIG_MAP))


def keys_of_map(case: Case, values: Field, operand: str) -> tuple[str, ...] | None:
    """Keys of the ConfigMap that an operand reads; None where the program doesn't make it."""
    config = values.at(operand, "config")
    inline = [key for key, _ in config.at("data").items()]
    if inline and on(config, "create", default=False):
        return tuple(inline)
    name = config.at("name").text()
    if not makes_map(case, name):
        return None
    parts = [inputs for _, inputs in case.of(*CONFIG_MAPS) if inputs.at("metadata", "name").text() == name]
    return tuple(key for inputs in parts for key, _ in inputs.at("data").items())


def pod_spec(resource: Resource, inputs: Field) -> Field:
    """The pod's spec in a workload."""
    kind = resource.type.rsplit(":", 1)[-1]
    if kind == "Pod":
        return inputs.at("spec")
    if kind == "CronJob":
        return inputs.at("spec", "jobTemplate", "spec", "template", "spec")
    return inputs.at("spec", "template", "spec")


def containers(spec: Field) -> list[Field]:
    """All containers of a pod."""
    return [*spec.at("initContainers").each(), *spec.at("containers").each()]


def requested(container: Field) -> dict[str, tuple[Field, str]]:
    """Resource below nvidia.com/ -> (place, amount) that a container asks for."""
    found: dict[str, tuple[Field, str]] = {}
    for section in ("requests", "limits"):
        for name, place in container.at("resources", section).items():
            if name.startswith("nvidia.com/"):
                found[name] = (place, str(place.value()))
    return found


def known_or_none(place: Field) -> object:
    """The value, None where it is unknown: only for judgements in which an unknown cannot change the answer."""
    try:
        return place.value()
    except UnknownMetError:
        return None
