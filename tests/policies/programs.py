"""Small programs for the tests of rules: parts that are right, and for every rule at least one program that breaks only it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_pools.hardware.prices import Prices
from gpu_pools.policies import kinds
from gpu_pools.policies.described import Resource
from gpu_pools.rendering.startup_taint import STARTUP_TAINT
from gpu_pools.stack.charts import merge_values
from gpu_pools.stack.kubernetes_names import POOL_LABEL

SLICED = """\
version: v1
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: true
    resources: [{name: nvidia.com/gpu, replicas: 4}]
"""
RENAMED = SLICED.replace("renameByDefault: false", "renameByDefault: true")
MPS = SLICED.replace("timeSlicing", "mps")
WHOLE = "version: v1\n"
HALVES = """\
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]
"""
UNEVEN = """\
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  uneven: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 4}}]
"""
OPERATOR = {
    "name": "gpu-operator",
    "chart": "gpu-operator",
    "version": "v26.7.0",
    "namespace": "gpu-operator",
    "timeout": 3600,
    "values": {
        "nfd": {"enabled": False},
        "toolkit": {
            "env": [
                {"name": "RUNTIME_CONFIG_SOURCE", "value": "file"},
                {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"},
            ]
        },
        "devicePlugin": {"config": {"name": "sharing", "default": "whole"}},
        "dcgmExporter": {"env": [{"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"}]},
        "migManager": {"config": {"name": "layouts"}, "env": [{"name": "WITH_REBOOT", "value": "true"}]},
    },
}
POOL = {
    "vmSize": "Standard_NC24ads_A100_v4",
    "count": 1,
    "gpuProfile": {"driver": "None"},
    "nodeLabels": {kinds.CONFIG_LABEL: "sliced"},
    "tags": {"team": "ml"},
}
_POLICY = "kubernetes:nvidia.com/v1:ClusterPolicy"
GROUP = {"flavorId": "gpu.a100", "clusterId": "c", "nodeCount": 1, "minNodeCount": 1}


def made(kind: str, name: str, inputs: dict[str, Any], **options: Any) -> Resource:
    return Resource(kind, name, f"urn:pulumi:test::test::{kind}::{name}", inputs, **options)


def urns(*resources: Resource) -> frozenset[str]:
    return frozenset(resource.urn for resource in resources)


def operator(values: dict[str, Any] | None = None, **inputs: Any) -> Resource:
    return made(kinds.RELEASE, "operator", {**merge_values(OPERATOR, {"values": values or {}}), **inputs})


def adopted(spec: dict[str, Any] | None = None) -> Resource:
    """An operator of another owner, as far as the program changes it."""
    whole = merge_values({"devicePlugin": {"config": {"name": "sharing", "default": "whole"}}}, spec or {})
    return made(f"{_POLICY}Patch", "policy", {"metadata": {"name": "cluster-policy"}, "spec": whole})


def nfd(values: dict[str, Any] | None = None, **inputs: Any) -> Resource:
    chart = {"name": "nfd", "chart": "node-feature-discovery", "version": "0.18.3", "namespace": "nfd", "timeout": 3600}
    return made(kinds.RELEASE, "nfd", {**chart, "values": values or {}, **inputs})


def dra_driver() -> Resource:
    chart = {"name": "dra", "chart": "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu", "version": "0.5.0"}
    return made(kinds.RELEASE, "dra", {**chart, "namespace": "dra", "timeout": 3600, "values": {}})


def device_class(name: str, resource: str) -> Resource:
    return made(kinds.DEVICE_CLASS, name, {"metadata": {"name": name}, "spec": {"extendedResourceName": resource}})


def pool(name: str = "gpu", options: dict[str, Any] | None = None, **inputs: Any) -> Resource:
    return made(kinds.AGENT_POOL, name, {**POOL, **inputs}, **(options or {}))


def group(name: str = "gpu", options: dict[str, Any] | None = None, **inputs: Any) -> Resource:
    return made(kinds.NODE_GROUP, name, {**GROUP, **inputs}, **(options or {}))


def sharing(namespace: str = "gpu-operator", **data: str) -> Resource:
    texts = data or {"whole": WHOLE, "sliced": SLICED}
    return made(kinds.CONFIG_MAP, "sharing", {"metadata": {"name": "sharing", "namespace": namespace}, "data": texts})


def layouts(text: str = HALVES, name: str = "layouts") -> Resource:
    inputs = {"metadata": {"name": name, "namespace": "gpu-operator"}, "data": {"config.yaml": text}}
    return made(kinds.CONFIG_MAP, "layouts", inputs)


def pod(container: dict[str, Any] | None = None, name: str = "app", **spec: Any) -> Resource:
    inside = {"name": "main", "image": "app:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}, **(container or {})}
    return made("kubernetes:core/v1:Pod", name, {"spec": {"containers": [inside], **spec}})


def asking(resource: str, amount: str = "1") -> dict[str, Any]:
    return {"resources": {"limits": {resource: amount}}}


@dataclass(frozen=True)
class Program:
    """A program, and what its stack configures of a rule."""

    resources: tuple[Resource, ...]
    limits: dict[str, Any] = field(default_factory=dict)


def program(*resources: Resource, **limits: Any) -> Program:
    return Program(resources, limits)


_CLUSTER = made(kinds.MANAGED_CLUSTER, "aks", {"location": "westeurope", "tags": {"team": "ml"}})
_ENTRA = {"managed": True, "adminGroupObjectIDs": ["0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"]}
_LEGACY = {"clientAppID": "a", "serverAppID": "b"}
_MAGNUM = made(kinds.MAGNUM_CLUSTER, "magnum", {"name": "m"})
_AUTO = {"enableAutoScaling": True, "minCount": 1, "maxCount": 4}
_LEFT = {"ignore_changes": ("count",)}
_MIG = {kinds.CONFIG_LABEL: "whole", kinds.MIG_LABEL: "halves"}
_TAINTED = {"nodeTaints": ["sku=gpu:NoSchedule"]}
_SKU = [{"key": "sku", "operator": "Exists"}]
_SPOT = {"scaleSetPriority": "Spot", "nodeTaints": ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]}
_SCRAPED, _PODS = "kubernetes:monitoring.coreos.com/v1:ServiceMonitor", "kubernetes:azmonitoring.coreos.com/v1:PodMonitor"
_PROMETHEUS = made(kinds.RELEASE, "prometheus", {"chart": "kube-prometheus-stack", "version": "88.5.3", "timeout": 3600})
_RULE = "kubernetes:nfd.k8s-sigs.io/v1alpha1:NodeFeatureRule"
_PRICES = Prices("EUR", {"Standard_NC24ads_A100_v4": 3.0}, {})
_VERIFICATION = made(kinds.VERIFICATION, "verification", {})
_OTHER = made("example:index:Monitoring", "monitoring", {})
_EXPECTATION = json.dumps({"apiVersion": "gpu-pools/v1", "kind": "NodeExpectation", "resources": {"nvidia.com/gpu": 4}})
_FIRST = group("a", {"dependencies": urns(_MAGNUM)})


def _named(name: str) -> Resource:
    return pool(name, agentPoolName=name)


def _verified(name: str) -> Resource:
    return made(kinds.VERIFICATION, f"{name}-verification", {"pool": name})


def _patch(label: str) -> Resource:
    return made(kinds.NODE_PATCH, "patch", {"metadata": {"name": "node-1", "labels": {label: "x"}}})


def _looking(parent: Resource, image: str = "python:3") -> Resource:
    """A DaemonSet that sees all GPUs and requests none."""
    container = {"name": "watch", "image": image, "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    spec = {"template": {"spec": {"containers": [container]}}}
    return made(kinds.DAEMON_SET, "looking", {"spec": spec}, parent=parent.urn, dependencies=urns(parent))


def _smoke(where: str, user: int) -> Resource:
    return pod(name=where, nodeSelector={"pool": where}, securityContext={"runAsUser": user})


def _unnamed(made_up: str = "") -> Resource:
    named = {"name": made_up, "annotations": {"pulumi.com/autonamed": "true"}} if made_up else {}
    return made(kinds.CONFIG_MAP, "sharing", {"metadata": {"namespace": "gpu-operator", **named}, "data": {"whole": WHOLE}})


#: Rule -> programs that break it and nothing else.
BAD: dict[str, list[Program]] = {
    "device-plugin-config": [
        program(sharing(x="version: v1\nflags: {renameByDefault: true}\n")),  # D06
        program(sharing(x=SLICED.replace("replicas: 4", "replicas: 4, rename: half"))),  # D07
        program(sharing(x=SLICED.replace("replicas: 4", "replicas: 1"))),  # D08
        program(sharing(x=SLICED + MPS.split("sharing:\n")[1])),  # D09
        program(sharing(x="flags: {migStrategy: mixed}\n" + MPS)),  # D10
        program(sharing(x="version: v1\nsharing: {timeSlicing: [\n")),
        program(pool(), operator(), sharing(whole=WHOLE, sliced="version: v1\nsharing: {timeSlicing: [\n"), pod()),
    ],
    "mig-parted-config": [
        program(layouts(HALVES.replace("version: v1", "version: v2"))),  # D13
        program(layouts(HALVES.replace("3g.40gb: 2", "9g.80gb: 1"))),  # D15
        program(layouts(HALVES.replace("3g.40gb: 2", "3g.40gb: 3"))),  # D15
        program(layouts("\n".join(line for line in HALVES.splitlines() if "all-disabled" not in line))),  # D16
    ],
    "mig-parted-map-is-yours": [program(layouts(name="default-mig-parted-config"))],
    "config-map-in-operator-namespace": [program(operator(), sharing("kube-system"))],
    "vm-size-exists": [program(pool(vmSize="Standard_NC6s_v3"))],
    "aks-mig-on-mig-size": [program(pool(vmSize="Standard_NC4as_T4_v3", gpuInstanceProfile="MIG1g"))],
    "one-mig-owner": [program(pool(gpuInstanceProfile="MIG1g", nodeLabels=_MIG))],
    "no-mps-on-mig": [program(pool(gpuInstanceProfile="MIG1g"), sharing(sliced=MPS))],
    "secure-boot-needs-signed-driver": [
        program(pool(securityProfile={"enableSecureBoot": True}), operator()),
        program(pool(securityProfile={"enableSecureBoot": True}), adopted({"driver": {"enabled": True}})),
    ],
    "spot-taint-written": [program(pool(scaleSetPriority="Spot"))],
    "autoscaled-count-left-alone": [program(pool(**_AUTO)), program(pool(options=_LEFT, **_AUTO, count=None))],
    "autoscaler-knows-names": [program(pool(options=_LEFT, **_AUTO), sharing(sliced=RENAMED))],
    "new-mig-nodes-wait": [program(pool(options=_LEFT, **_AUTO, nodeLabels=_MIG))],
    "shared-pools-keep-a-node": [
        program(pool(options=_LEFT, **{**_AUTO, "minCount": 0}), sharing()),
        program(pool(options=_LEFT, **{**_AUTO, "minCount": None}), sharing(sliced=MPS)),
        # Partitioned by AKS; by the operator it breaks new-mig-nodes-wait as well.
        program(pool(options=_LEFT, **{**_AUTO, "minCount": 0, "nodeLabels": {}}, gpuInstanceProfile="MIG1g")),
    ],
    "gpu-nodes-are-deleted": [program(pool(scaleDownMode="Deallocate"))],
    "gpu-pools-stand-alone": [
        program(made(kinds.MANAGED_CLUSTER, "aks", {"agentPoolProfiles": [{"vmSize": "Standard_D4s_v5"}, POOL]}))
    ],
    "operator-labels-left-alone": [
        program(pool(nodeLabels={"nvidia.com/gpu.deploy.driver": "false"})),
        program(pool(nodeLabels={"nvidia.com/gpu.present": "true"})),
    ],
    "node-group-labels-are-for-magnum": [program(group(labels={kinds.CONFIG_LABEL: "sliced"}, mergeLabels=True))],
    "node-group-labels-merged": [program(group(labels={"boot_volume_size": "50"}))],
    "node-groups-not-empty": [program(group(minNodeCount=0))],
    "node-groups-chained": [
        program(group("a"), group("b")),
        program(_MAGNUM, _FIRST, group("b", {"dependencies": urns(_MAGNUM)})),
    ],
    "driver-image-exists": [
        program(group(imageId="flatcar-4081"), operator()),
        program(group(imageId="flatcar-4081"), adopted({"driver": {"enabled": True}})),
    ],
    "release-has-time": [program(operator(timeout=300)), program(nfd(timeout=None))],
    "release-has-name": [program(operator(name=None)), program(operator(name="operator-1a2b3c4d"))],
    "config-created-whole": [program(operator({"devicePlugin": {"config": {"create": True, "data": {}}}}))],
    "config-has-default": [
        program(operator({"devicePlugin": {"config": {"default": ""}}})),
        program(adopted({"devicePlugin": {"config": {"default": None}}})),
    ],
    "crds-upgraded": [program(operator({"operator": {"upgradeCRD": False}}))],
    "crds-kept": [program(operator({"operator": {"cleanupCRD": True}}))],
    "operands-not-older-than-chart": [program(operator({"devicePlugin": {"version": "v0.17.0"}}))],
    "driver-upgrade-drains": [program(operator({"driver": {"version": "580.126.20"}}))],
    "precompiled-driver-is-a-branch": [
        program(operator({"driver": {"usePrecompiled": True, "version": "580.1.1", "upgradePolicy": {"autoUpgrade": False}}}))
    ],
    "health-checks-on": [
        program(operator({"devicePlugin": {"env": [{"name": "DP_DISABLE_HEALTHCHECKS", "value": "all"}]}})),
        program(adopted({"devicePlugin": {"env": [{"name": "DP_DISABLE_HEALTHCHECKS", "value": "all"}]}})),
    ],
    "nfd-recent": [program(nfd(version="0.16.4"))],
    "nfd-takes-nvidia-labels": [program(nfd({"master": {"config": {"denyLabelNs": ["*"]}}}))],
    "gpus-only-on-request": [
        program(
            operator({"toolkit": {"env": [{"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "true"}]}})
        )
    ],
    "mps-has-feature-discovery": [
        program(operator({"gfd": {"enabled": False}}), sharing(whole=WHOLE, sliced=MPS)),
        program(adopted({"gfd": {"enabled": False}}), sharing(whole=WHOLE, sliced=MPS)),
    ],
    "no-wait-on-cluster-policy": [
        program(made(kind, "policy", {"metadata": {"annotations": {"pulumi.com/waitFor": "condition=Ready"}}}))
        for kind in kinds.CLUSTER_POLICIES
    ],
    "one-driver-owner": [
        program(pool(gpuProfile={"driver": "Install"}), operator()),
        program(pool(gpuProfile=None), operator()),
        program(pool(), operator({"driver": {"enabled": False}})),
    ],
    "runtime-class-exists": [
        program(pool(gpuProfile={"driver": "Install"}), operator({"driver": {"enabled": False}, "toolkit": {"enabled": False}}))
    ],
    "toolkit-reads-config-file": [
        program(pool(), operator({"toolkit": {"env": [{"name": "RUNTIME_CONFIG_SOURCE", "value": "command"}]}}))
    ],
    "one-nfd": [program(operator({"nfd": {"enabled": True}}), nfd())],
    "one-class-per-resource": [
        program(device_class("a", "nvidia.com/mig-1g.10gb"), device_class("b", "nvidia.com/mig-1g.10gb")),
        program(device_class("a", "nvidia.com/gpu"), dra_driver()),
    ],
    "pool-taints-tolerated": [
        program(pool(**_TAINTED), operator()),
        program(pool(**_TAINTED), operator({"daemonsets": {"tolerations": _SKU}}), nfd()),
        program(pool(), operator(), made(kinds.STARTUP_TAINT, "born", {})),
        program(
            pool(nodeTaints=["nvidia.com/gpu=true:NoSchedule"]),
            operator(),
            nfd({"worker": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}]}}),
        ),
    ],
    "default-config-exists": [
        program(operator(), sharing(sliced=SLICED)),
        program(adopted(), sharing(sliced=SLICED)),
    ],
    "config-map-named": [
        program(operator(), _unnamed()),
        program(operator(), _unnamed(made_up="sharing-1a2b3c4d")),
        program(adopted(), _unnamed()),
    ],
    "pool-config-exists": [
        program(pool(nodeLabels={kinds.CONFIG_LABEL: "slice-8"}), operator(), sharing()),
        program(pool(nodeLabels={kinds.CONFIG_LABEL: "slice-8"}), adopted(), sharing()),
    ],
    "pool-mig-config-exists": [program(pool(nodeLabels={kinds.MIG_LABEL: "thirds"}), layouts())],
    "mig-strategy-fits": [
        program(operator({"mig": {"strategy": "single"}}), layouts(UNEVEN)),
        program(adopted({"mig": {"strategy": "single"}}), layouts(UNEVEN)),
        program(operator({"mig": {"strategy": "single"}}), sharing(whole="version: v1\nflags: {migStrategy: mixed}\n")),
    ],
    "mig-mode-may-reboot": [
        program(pool(nodeLabels=_MIG), operator({"migManager": {"env": [{"name": "WITH_REBOOT", "value": "false"}]}}))
    ],
    "aks-managed-gpus-alone": [
        program(pool(gpuProfile={"driver": "None", "nvidia": {"managementMode": "Managed"}}), one)
        for one in (operator(), adopted())
    ]
    + [program(pool(tags={"EnableManagedGPUExperience": "true"}), operator())],
    "one-device-plugin": [
        program(operator(), made(kinds.RELEASE, "plugin", {"chart": "nvidia-device-plugin"})),
        program(adopted(), made(kinds.RELEASE, "plugin", {"chart": "nvidia-device-plugin"})),
        program(
            operator(),
            made(
                kinds.DAEMON_SET,
                "plugin",
                {"spec": {"template": {"spec": {"containers": [{"image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"}]}}}},
            ),
        ),
    ],
    "metrics-know-shares": [
        program(operator({"dcgmExporter": {"env": [{"name": "KUBERNETES_VIRTUAL_GPUS", "value": "false"}]}}), sharing())
    ],
    "service-monitor-exists": [
        program(operator({"dcgmExporter": {"serviceMonitor": {"enabled": True}}})),
        program(_MAGNUM, nfd(), made(_SCRAPED, "monitor", {})),
        program(
            made(kinds.MANAGED_CLUSTER, "aks", {"tags": {"team": "ml"}, "azureMonitorProfile": {"metrics": {"enabled": False}}}),
            made(_PODS, "pods", {}),
        ),
    ],
    "labels-through-pools": [program(pool(), _patch(kinds.CONFIG_LABEL)), program(_patch("nvidia.com/gpu.deploy.driver"))],
    "charts-as-releases": [
        program(made("kubernetes:helm.sh/v4:Chart", "op", {"chart": "oci://ghcr.io/nvidia/gpu-operator"})),
        program(
            made("kubernetes:helm.sh/v3:Chart", "op", {}),
            made(_POLICY, "policy", {}, parent="urn:pulumi:test::test::kubernetes:helm.sh/v3:Chart::op"),
        ),
    ],
    "objects-after-their-crd": [
        program(nfd(), made(_RULE, "rule", {})),
        program(_PROMETHEUS, made(_SCRAPED, "monitor", {})),
    ],
    "one-share-per-container": [program(pod(asking("nvidia.com/gpu.shared", "2")))],
    "asked-resource-is-advertised": [
        program(sharing(whole=RENAMED), pod()),
        program(sharing(), layouts(), pod(asking("nvidia.com/mig-1g.10gb"))),
    ],
    "gpus-are-requested": [
        program(pod({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "resources": {}})),
        program(pod(volumes=[{"name": "d", "hostPath": {"path": "/dev/nvidia0"}}])),
        program(_OTHER, _looking(_OTHER)),
    ],
    "quota-counts": [
        program(made(kinds.QUOTA, "quota", {"spec": {"hard": {"nvidia.com/gpu": "4"}}})),
        program(made(kinds.QUOTA, "quota", {"spec": {"hard": {"limits.nvidia.com/gpu": "4"}}})),
    ],
    "selectable-from-zero": [
        program(pool(options=_LEFT, **{**_AUTO, "minCount": 0}), pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100"}))
    ],
    "mps-one-user": [
        program(
            sharing(whole=MPS),
            pod(securityContext={"runAsUser": 1000}),
            pod(name="other", securityContext={"runAsUser": 2000}),
        )
    ],
    "allowed-sizes": [
        program(pool(), sizes=["Standard_NC4as_T4_v3"]),
        program(group(), sizes=["gpu.t4*"]),
    ],
    "allowed-regions": [program(_CLUSTER, regions=["northeurope"])],
    "max-gpus": [
        program(pool(count=2), pool("more", options=_LEFT, **_AUTO), gpus=5),
        program(pool(vmSize="Standard_ND40rs_v2"), gpus=100),
    ],
    "max-cost": [
        program(pool(count=2), prices=_PRICES, perMonth=4000),
        program(pool(vmSize="Standard_NC40ads_H100_v5"), prices=_PRICES, perMonth=4000),
    ],
    "required-tags": [program(pool(), _CLUSTER, tags=["team", "cost-centre"])],
    "spot-where-allowed": [program(pool(**_SPOT), allowed=False)],
    "allowed-strategies": [
        program(pool(), sharing(), strategies=["mig", "exclusive"]),
        program(pool(nodeLabels=_MIG), layouts(), strategies=["timeSlicing"]),
    ],
    "untrusted-tenants-isolated": [
        program(pool(nodeLabels={kinds.CONFIG_LABEL: "sliced", "tenants": "untrusted"}), sharing(), label="tenants")
    ],
    "clusters-protected": [program(_CLUSTER, required=True)],
    "clusters-without-local-accounts": [
        program(made(kinds.MANAGED_CLUSTER, "aks", {"aadProfile": None}), required=True),
        program(made(kinds.MANAGED_CLUSTER, "aks", {"aadProfile": None, "disableLocalAccounts": True}), required=True),
        program(made(kinds.MANAGED_CLUSTER, "aks", {"aadProfile": _ENTRA}), required=True),
        program(made(kinds.MANAGED_CLUSTER, "aks", {"aadProfile": _ENTRA, "disableLocalAccounts": False}), required=True),
        program(made(kinds.MANAGED_CLUSTER, "aks", {"aadProfile": _LEGACY, "disableLocalAccounts": True}), required=True),
    ],
    "pools-protected": [program(pool(), required=True), program(group(), required=True)],
    "images-by-digest": [
        program(_VERIFICATION, _looking(_VERIFICATION), required=True),
        program(_VERIFICATION, _looking(_VERIFICATION, "registry.example.com:5000/python"), required=True),
    ],
    "nodes-verified": [
        program(operator(), required=True),
        program(adopted(), required=True),
        program(operator(), _named("a"), _named("b"), _verified("a"), required=True),
        program(_named("a"), _verified("b"), required=True),
    ],
}

#: Programs in which nothing is wrong, whatever the rule.
GOOD: dict[str, Program] = {
    "nothing": program(),
    "operator, pools and configs": program(pool(), operator(), nfd(), sharing(), layouts()),
    "driver of AKS": program(
        pool(gpuProfile={"driver": "Install"}),
        operator(
            {
                "driver": {"enabled": False},
                "toolkit": {"enabled": False},
                "operator": {"runtimeClass": "nvidia-container-runtime"},
            }
        ),
    ),
    "an operator of another owner, of which little is said": program(
        pool(nodeLabels=_MIG, **_TAINTED, securityProfile={"enableSecureBoot": True}),
        *(group(imageId="flatcar-4081"), adopted(), sharing(), layouts(UNEVEN.replace("uneven", "halves"))),
    ),
    "NFD of the operator": program(pool(), operator({"nfd": {"enabled": True}})),
    "taints that all tolerate": program(
        pool(**_TAINTED), operator({"daemonsets": {"tolerations": _SKU}}), nfd({"worker": {"tolerations": _SKU}})
    ),
    "a taint that keeps nothing off": program(pool(nodeTaints=["a=b:PreferNoSchedule"]), operator()),
    "spot": program(pool(**_SPOT)),
    "autoscaled": program(pool(options=_LEFT, **_AUTO), sharing()),
    "whole GPUs, scaled from zero": program(
        pool(options=_LEFT, **{**_AUTO, "minCount": 0}, nodeLabels={kinds.CONFIG_LABEL: "whole"}), sharing()
    ),
    "shared GPUs, scaled from zero behind a taint": program(
        pool(options=_LEFT, **{**_AUTO, "minCount": 0}, nodeInitializationTaints=["gpu-pools/starting=true:NoSchedule"]),
        sharing(),
    ),
    "MIG, autoscaled behind the startup taint": program(
        pool(options=_LEFT, **_AUTO, nodeLabels=_MIG),
        operator({"daemonsets": {"tolerations": [{"key": STARTUP_TAINT.key, "operator": "Exists"}]}}),
        sharing(),
        layouts(),
        made(kinds.STARTUP_TAINT, "born", {}),
    ),
    "MIG by the operator": program(pool(nodeLabels=_MIG), operator(), sharing(), layouts()),
    "uneven MIG under mixed": program(operator({"mig": {"strategy": "mixed"}}), layouts(UNEVEN), sharing()),
    "MIG by AKS": program(pool(gpuInstanceProfile="MIG1g")),
    "MPS": program(pool(), operator(), sharing(whole=WHOLE, sliced=MPS), pod(securityContext={"runAsUser": 1})),
    "a pool without GPUs": program(pool(vmSize="Standard_D4s_v5", scaleDownMode="Deallocate"), operator()),
    "chained node groups": program(_MAGNUM, _FIRST, group("b", {"dependencies": urns(_MAGNUM, _FIRST)})),
    "node groups of two clusters": program(group("a"), group("b", clusterId="d")),
    "merged labels": program(group(labels={"boot_volume_size": "50"}, mergeLabels=True)),
    "other charts": program(
        made(kinds.RELEASE, "web", {"chart": "nginx"}), made("kubernetes:helm.sh/v4:Chart", "c", {"chart": "x"})
    ),
    "other ConfigMaps": program(made(kinds.CONFIG_MAP, "c", {"metadata": {"name": "c"}, "data": {"a": "b: 1", "c": "["}})),
    "a monitor after the chart of its kind": program(
        _MAGNUM, _PROMETHEUS, made(_SCRAPED, "monitor", {}, dependencies=urns(_PROMETHEUS))
    ),
    "a monitor of Azure's where the cluster has its add-on": program(
        made(kinds.MANAGED_CLUSTER, "aks", {"tags": {"team": "ml"}, "azureMonitorProfile": {"metrics": {"enabled": True}}}),
        made(_PODS, "pods", {}),
    ),
    "a monitor in a cluster of which nothing is known": program(made(_SCRAPED, "monitor", {}), made(_PODS, "pods", {})),
    "a rule after NFD": program(nfd(), made(_RULE, "rule", {}, dependencies=urns(nfd()))),
    "a renamed share, asked by its name": program(sharing(whole=RENAMED), pod(asking("nvidia.com/gpu.shared"))),
    "a MIG device": program(sharing(), layouts(), pod(asking("nvidia.com/mig-3g.40gb"))),
    "a pod without GPUs": program(pod({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "resources": {}})),
    "a verifier of our own": program(
        _VERIFICATION,
        _looking(_VERIFICATION),
        made(kinds.CONFIG_MAP, "expected", {"metadata": {"name": "e"}, "data": {"expectation.json": _EXPECTATION}}),
    ),
    "two users on nodes of two pools": program(sharing(whole=WHOLE, sliced=MPS), _smoke("a", 0), _smoke("b", 65534)),
    "a quota that counts": program(made(kinds.QUOTA, "q", {"spec": {"hard": {"requests.nvidia.com/gpu": "4", "pods": "9"}}})),
    "a patch on a cluster without pools of ours": program(_patch(kinds.CONFIG_LABEL)),
    "a driver upgrade that drains": program(
        operator({"driver": {"version": "580.126.20", "upgradePolicy": {"drain": {"enable": True}}}})
    ),
}

#: Rule -> limits under which a program is right.
ALLOWED: dict[str, Program] = {
    "allowed-sizes": program(pool(), sizes=["Standard_NC*_A100_v4"]),
    "allowed-regions": program(_CLUSTER, regions=["westeurope"]),
    "max-gpus": program(pool(count=2), pool("more", options=_LEFT, **_AUTO), gpus=6),
    "max-cost": program(pool(count=2), prices=_PRICES, perMonth=4380),
    "required-tags": program(pool(), _CLUSTER, tags=["team"]),
    "spot-where-allowed": program(pool(), allowed=False),
    "allowed-strategies": program(pool(), sharing(), strategies=["timeSlicing"]),
    "untrusted-tenants-isolated": program(pool(gpuInstanceProfile="MIG1g", nodeLabels={"tenants": "untrusted"}), label="tenants"),
    "clusters-without-local-accounts": program(
        made(kinds.MANAGED_CLUSTER, "aks", {"aadProfile": _ENTRA, "disableLocalAccounts": True}), required=True
    ),
    "clusters-protected": program(made(kinds.MANAGED_CLUSTER, "aks", {}, protect=True), required=True),
    "pools-protected": program(
        pool(options={"protect": True}), made(kinds.AGENT_POOL, "system", {"vmSize": "Standard_D4s_v5"}), required=True
    ),
    "images-by-digest": program(
        *(_VERIFICATION, _looking(_VERIFICATION, f"python:3@sha256:{'0' * 64}"), pod(asking("cpu"))), required=True
    ),
    "nodes-verified": program(
        *(operator(), nfd(), _named("a"), _named("b"), _verified("a"), _verified("b")),
        pool("system", vmSize="Standard_D4s_v5", agentPoolName="system"),
        required=True,
    ),
}


def by_rollout(given: Program) -> Program:
    """The program whose AKS pools have `rollout`: their components say which labels the nodes get one by one."""
    resources: list[Resource] = []
    for one in given.resources:
        labels: Any = one.inputs.get("nodeLabels", {})
        moved = {key: labels[key] for key in (kinds.CONFIG_LABEL, kinds.MIG_LABEL) if key in labels}
        if one.type != kinds.AGENT_POOL or not moved:
            resources.append(one)
            continue
        around = made(kinds.AKS_POOL, f"{one.name}-component", {"changedLabels": moved})
        left = {POOL_LABEL: one.name, **{key: value for key, value in labels.items() if key not in moved}}
        resources += [around, replace(one, parent=around.urn, inputs={**one.inputs, "nodeLabels": left})]
    return replace(given, resources=tuple(resources))


def acknowledging(*entries: tuple[str, str], **cluster: Any) -> dict[str, Any]:
    """The configuration of a stack with protected pools `train` and `other`, and acknowledgements of (resource, change)."""
    pools = [
        {"name": name, "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole", "protect": True}
        for name in ("train", "other")
    ]
    acknowledged = [{"resource": name, "change": change, "reason": "moved by hand"} for name, change in entries]
    return {
        "gpu-pools:cluster": {"platform": "aks", "name": "prod", **cluster},
        "gpu-pools:sharing": {"whole": {"exclusive": {}}},
        "gpu-pools:pools": pools,
        "gpu-pools:acknowledged": acknowledged,
    }
