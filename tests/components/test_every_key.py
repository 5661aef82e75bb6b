"""Each key of docs/reference/stack.md is changed once: what the engine is asked for changes, or the change is refused.

By what is registered with the engine, without what `ignore_changes` takes out of it: a key that is rendered nowhere, or only into
what is ignored on a stack that is up, would be edited without any effect and without a word.
"""

from __future__ import annotations

import copy
import functools
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.verifier import archive
from tests.tiers import one_of_each

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference" / "stack.md"
GONE: Final = Enum("Key", "GONE").GONE

_SHARING: Final = {
    "whole": {"exclusive": {}},
    "turns": {"timeSlicing": {"replicas": 4, "renameByDefault": False, "failRequestsGreaterThanOne": True}},
    "served": {"mps": {"replicas": 4}},
    "slices": {"mig": {"layout": {"1g.10gb": 7}}},
}
_COMMON: Final = {
    "sharing": _SHARING,
    "operator": {"version": "v26.7.0", "driver": "operator"},
    "nodeFeatureDiscovery": {"version": "0.19.0"},
    "verification": {"smokeTest": True},
}
GROUP: Final = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
A100: Final = "Standard_NC24ads_A100_v4"
AKS: Final[dict[str, Any]] = {
    **_COMMON,
    "cluster": {
        "platform": "aks",
        "name": "gpu",
        "location": "westeurope",
        "resourceGroup": "gpu-rg",
        "kubernetesVersion": "1.36",
        "tier": "Free",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
        "tags": {},
        "protect": True,
        "entra": {"adminGroups": [GROUP]},
    },
    "pools": [
        {"name": "a", "vmSize": A100, "count": 1, "sharing": "turns", "protect": True},
        {"name": "b", "vmSize": A100, "nodes": {"min": 1, "max": 3}, "sharing": "slices"},
    ],
}
MAGNUM: Final[dict[str, Any]] = {
    **_COMMON,
    "cluster": {
        "platform": "magnum",
        "name": "gpu",
        "driver": "heat",
        "keypair": "k",
        "masters": 1,
        "workers": 1,
        "protect": False,
        "template": {"image": "fcos", "externalNetwork": "public", "flavor": "m2.large"},
        "checkCloud": False,
    },
    "flavors": {"g": {"gpuModel": "a100-80gb", "gpusPerNode": 1}, "h": {"gpuModel": "a100-80gb", "gpusPerNode": 1}},
    "pools": [{"name": "a", "flavor": "g", "count": 1, "sharing": "turns"}],
}
EXISTING: Final[dict[str, Any]] = {
    **_COMMON,
    "cluster": {"platform": "existing", "context": "byo"},
    "pools": [
        {"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "turns"},
    ],
}
#: The same with a GPU model of its own.
OWN: Final[dict[str, Any]] = {
    **EXISTING,
    "gpuModels": {"next": {"product": "NVIDIA Next", "memoryMiB": 32768, "computeCapability": "9.0", "mig": False}},
    "pools": [{**EXISTING["pools"][0], "gpuModel": "next"}],
}
#: Whose nodes pull from a registry of its own.
MIRRORED: Final[dict[str, Any]] = {
    **EXISTING,
    "registry": {"mirror": "registry.example.com/all", "username": "robot", "password": "one", "pullSecret": "pull"},
}
OBSERVED: Final[dict[str, Any]] = {
    **EXISTING,
    "observability": {
        "labels": {"release": "a"},
        "dashboardLabels": {"board": "a"},
        "runbooks": "https://docs.example.com/runbooks",
    },
}
INSTALLED: Final[dict[str, Any]] = {
    **EXISTING,
    "observability": {"to": "kube-prometheus-stack", "prometheusStack": {"values": {"prometheus": {}}}},
}
BY_AZURE: Final[dict[str, Any]] = {**AKS, "observability": {"to": "azure", "azure": {}}}
_RETAINED: Final = {"prometheusSpec": {"retention": "30d"}}
SYSTEM: Final = "cluster.systemPool"


def _id(rest: str) -> str:
    return f"/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/net/providers/{rest}"


def _subnet(name: str) -> str:
    return _id(f"Microsoft.Network/virtualNetworks/hub/subnets/{name}")


_IDENTITY: Final = _id("Microsoft.ManagedIdentity/userAssignedIdentities/gpu")
_KUBELET: Final = {"id": _IDENTITY, "clientId": GROUP, "objectId": GROUP}

#: (section of the page, key of its table) -> stack, place, other value; several where they act in different ways.
CHANGES: Final[dict[tuple[str, str], list[tuple[Any, str, Any]]]] = {
    ("cluster", "platform"): [(AKS, "cluster.platform", "magnum")],
    ("cluster", "name"): [(AKS, "cluster.name", "other"), (MAGNUM, "cluster.name", "other")],
    ("cluster", "location"): [(AKS, "cluster.location", "northeurope")],
    ("cluster", "resourceGroup"): [(AKS, "cluster.resourceGroup", "other")],
    ("cluster", "kubernetesVersion"): [(AKS, "cluster.kubernetesVersion", "1.37"), (AKS, "cluster.kubernetesVersion", GONE)],
    ("cluster", "tier"): [(AKS, "cluster.tier", "Standard")],
    ("cluster", "systemPool"): [
        (AKS, f"{SYSTEM}.count", 2),
        (AKS, f"{SYSTEM}.vmSize", "Standard_D8s_v5"),
        (AKS, f"{SYSTEM}.zones", ["1"]),
        (AKS, f"{SYSTEM}.properties", {"maxPods": 60}),
        (AKS, SYSTEM, {"vmSize": "Standard_D4s_v5", "nodes": {"min": 1, "max": 1}}),
    ],
    ("cluster", "tags"): [(AKS, "cluster.tags", {"a": "b"})],
    ("cluster", "entra"): [
        (AKS, "cluster.entra", GONE),
        (AKS, "cluster.entra.adminGroups", [GROUP, GROUP.replace("0f", "1f")]),
        (AKS, "cluster.entra.azureRbac", True),
        (AKS, "cluster.entra.tenant", GROUP),
        (AKS, "cluster.entra.login", "msi"),
        (AKS, "cluster.entra.localAccounts", True),
    ],
    **{
        ("cluster", key): [(AKS, f"cluster.{key}", value) for value in values]
        for key, values in (
            ("existingResourceGroup", ["shared"]),
            ("nodeResourceGroup", ["machines"]),
            (
                "network",
                [
                    {"nodeSubnet": _subnet("nodes")},
                    {"nodeSubnet": _subnet("nodes"), "podSubnet": _subnet("pods")},
                    {"plugin": "kubenet"},
                    {"pluginMode": "none"},
                    {"dataplane": "cilium"},
                    {"policy": "calico"},
                    {"podCidr": "10.9.0.0/16"},
                    {"serviceCidr": "10.9.0.0/16", "dnsServiceIp": "10.9.0.10"},
                    {"outboundType": "managedNATGateway"},
                    {"loadBalancerSku": "standard"},
                    {"loadBalancer": {"managedIps": 2}},
                    {"loadBalancer": {"ips": [_id("Microsoft.Network/publicIPAddresses/out")]}},
                    {"loadBalancer": {"prefixes": [_id("Microsoft.Network/publicIPPrefixes/out")]}},
                    {"loadBalancer": {"allocatedOutboundPorts": 8000}},
                    {"loadBalancer": {"idleTimeoutInMinutes": 10}},
                    {"loadBalancer": {"backendPoolType": "NodeIP"}},
                ],
            ),
            (
                "apiServer",
                [
                    {"private": True},
                    {"private": True, "privateDnsZone": "none"},
                    {"private": True, "publicFqdn": False},
                    {"authorizedIpRanges": ["203.0.113.0/24"]},
                    {"disableRunCommand": True},
                ],
            ),
            ("identity", [{"userAssigned": _IDENTITY}, {"userAssigned": _IDENTITY, "kubelet": _KUBELET}]),
            ("oidcIssuer", [True]),
            ("workloadIdentity", [True]),
            ("keyVaultSecrets", [{}, {"rotation": True}, {"rotationInterval": "5m"}]),
            ("upgrades", [{"nodeOsChannel": "None"}, {"channel": "patch"}]),
            ("maintenance", [{"nodeOsUpgrade": {"startTime": "02:00", "durationHours": 4}}]),
            ("autoscaler", [{"expander": "priority"}, {"skipNodesWithSystemPods": "false"}]),
            ("containerRegistries", [[_id("Microsoft.ContainerRegistry/registries/acr")]]),
            ("monitoring", [{"workspace": _id("Microsoft.OperationalInsights/workspaces/logs")}, {"metrics": True}]),
            ("properties", [{"publicNetworkAccess": "Disabled"}]),
        )
    },
    ("cluster", "driver"): [(MAGNUM, "cluster.driver", "magnum-cluster-api")],
    ("cluster", "template"): [
        *((MAGNUM, f"cluster.template.{key}", "other") for key in ("image", "externalNetwork", "flavor", "masterFlavor")),
        (MAGNUM, "cluster.template.networkDriver", "calico"),
        (MAGNUM, "cluster.template.dockerVolumeSize", 50),
        (MAGNUM, "cluster.template.dnsNameserver", "10.0.0.2"),
        (MAGNUM, "cluster.template.labels", {"a": "b"}),
        (MAGNUM, "cluster.template.httpProxy", "http://proxy:3128"),
        (MAGNUM, "cluster.template.httpsProxy", "http://proxy:3128"),
        (MAGNUM, "cluster.template.noProxy", "10.0.0.0/8,.example.com"),
    ],
    ("cluster", "fixedNetwork"): [(MAGNUM, "cluster.fixedNetwork", "private")],
    ("cluster", "fixedSubnet"): [(MAGNUM, "cluster.fixedSubnet", "private-1")],
    ("cluster", "floatingIp"): [(MAGNUM, "cluster.floatingIp", False)],
    ("cluster", "masterLoadBalancer"): [(MAGNUM, "cluster.masterLoadBalancer", True)],
    ("cluster", "availabilityZone"): [(MAGNUM, "cluster.availabilityZone", "nova-2")],
    ("cluster", "bootVolume"): [
        (MAGNUM, "cluster.bootVolume", {"size": 50}),
        (MAGNUM, "cluster.bootVolume", {"size": 50, "type": "ssd"}),
    ],
    ("cluster", "autoHealing"): [(MAGNUM, "cluster.autoHealing", False)],
    ("cluster", "templateId"): [(MAGNUM, "cluster.templateId", "given")],
    ("cluster", "keypair"): [(MAGNUM, "cluster.keypair", "other")],
    ("cluster", "masters"): [(MAGNUM, "cluster.masters", 3)],
    ("cluster", "workers"): [(MAGNUM, "cluster.workers", 2)],
    ("cluster", "workerFlavor"): [(MAGNUM, "cluster.workerFlavor", "other")],
    ("cluster", "labels"): [(MAGNUM, "cluster.labels", {"a": "b"})],
    ("cluster", "protect"): [(AKS, "cluster.protect", False), (MAGNUM, "cluster.protect", True)],
    ("cluster", "kubeconfig"): [(EXISTING, "cluster.kubeconfig", "/nowhere")],
    ("cluster", "kubeconfigContent"): [(EXISTING, "cluster.kubeconfigContent", KUBECONFIG.replace("very-secret", "another"))],
    ("cluster", "context"): [(EXISTING, "cluster.context", "other")],
    ("sharing", "exclusive"): [(AKS, "pools.0.sharing", "whole")],
    ("sharing", "timeSlicing"): [
        (AKS, "sharing.turns.timeSlicing.replicas", 8),
        (AKS, "sharing.turns.timeSlicing.renameByDefault", True),
        (AKS, "sharing.turns.timeSlicing.failRequestsGreaterThanOne", False),
        (AKS, "sharing.turns.needs", {"memoryPerReplica": "99Gi"}),
    ],
    ("sharing", "mps"): [(AKS, "pools.0.sharing", "served")],
    ("sharing", "mig"): [
        (AKS, "sharing.slices.mig.layout", {"2g.20gb": 3}),
        (AKS, "sharing.slices.mig.timeSlicing", {"replicas": 2}),
        (AKS, "sharing.slices.mig", {"gpus": [{"index": [0], "layout": {"2g.20gb": 3}}]}),
    ],
    ("pools", "name"): [(AKS, "pools.0.name", "c"), (MAGNUM, "pools.0.name", "c"), (EXISTING, "pools.0.name", "c")],
    ("cluster", "allocation"): [(EXISTING, "cluster.allocation", "dra"), (AKS, "cluster.allocation", "dra")],
    ("pools", "allocation"): [(EXISTING, "pools.0.allocation", "dra"), (MAGNUM, "pools.0.allocation", "dra")],
    ("pools", "sharing"): [(MAGNUM, "pools.0.sharing", "slices"), (EXISTING, "pools.0.sharing", "slices")],
    ("pools", "count"): [(AKS, "pools.0.count", 2), (MAGNUM, "pools.0.count", 2), (EXISTING, "pools.0.count", 2)],
    ("pools", "nodes"): [(AKS, "pools.1.nodes", {"min": 0, "max": 3}), (AKS, "pools.1.nodes.max", 4)],
    ("pools", "vmSize"): [(AKS, "pools.0.vmSize", "Standard_NC48ads_A100_v4")],
    ("pools", "zones"): [(AKS, "pools.0.zones", ["1"])],
    ("pools", "osSku"): [(AKS, "pools.0.osSku", "AzureLinux")],
    ("pools", "spot"): [
        (AKS, "pools.0.spot", {}),
        (AKS, "pools.0.spot", {"maxPrice": 1}),
        (AKS, "pools.0.spot", {"evictionPolicy": "Deallocate"}),
    ],
    **{
        ("pools", place.partition(".")[0]): [(AKS, f"pools.0.{place}", value)]
        for place, value in (
            ("subnet", _subnet("gpu")),
            ("podSubnet", _subnet("pods")),
            ("osDiskSize", 256),
            ("osDiskType", "Ephemeral"),
            ("kubeletDiskType", "Temporary"),
            ("maxPods", 60),
            ("kubernetesVersion", "1.35"),
            ("scaleDownMode", "Deallocate"),
            ("capacityReservationGroup", _id("Microsoft.Compute/capacityReservationGroups/held")),
            ("proximityPlacementGroup", _id("Microsoft.Compute/proximityPlacementGroups/near")),
            ("hostGroup", _id("Microsoft.Compute/hostGroups/own")),
            ("encryptionAtHost", True),
            ("fips", True),
            ("publicIp", True),
            ("publicIpPrefix", _id("Microsoft.Network/publicIPPrefixes/few")),
            ("tags", {"a": "b"}),
            ("properties", {"enableUltraSSD": True}),
        )
    },
    ("pools", "upgradeSettings"): [
        (AKS, "pools.0.upgradeSettings", {"maxSurge": "2"}),
        (AKS, "pools.0.upgradeSettings", {"maxUnavailable": "1"}),
        (AKS, "pools.0.upgradeSettings", {"drainTimeoutInMinutes": 60}),
        (AKS, "pools.0.upgradeSettings", {"nodeSoakDurationInMinutes": 5}),
        (AKS, "pools.0.upgradeSettings", {"undrainableNodeBehavior": "Cordon"}),
    ],
    ("pools", "kubeletConfig"): [
        (AKS, "pools.0.kubeletConfig", {key: value})
        for key, value in (
            ("cpuManagerPolicy", "static"),
            ("topologyManagerPolicy", "single-numa-node"),
            ("cpuCfsQuota", False),
            ("cpuCfsQuotaPeriod", "200ms"),
            ("imageGcHighThreshold", 90),
            ("imageGcLowThreshold", 70),
            ("allowedUnsafeSysctls", ["net.core.somaxconn"]),
            ("failSwapOn", False),
            ("containerLogMaxSize", 20),
            ("containerLogMaxFiles", 3),
            ("podMaxPids", 4096),
        )
    ],
    ("pools", "linuxOsConfig"): [
        (AKS, "pools.0.linuxOsConfig", {"transparentHugePageEnabled": "madvise"}),
        (AKS, "pools.0.linuxOsConfig", {"transparentHugePageDefrag": "defer"}),
        (AKS, "pools.0.linuxOsConfig", {"swapFileSize": 1024}),
        (AKS, "pools.0.linuxOsConfig", {"sysctls": {"vmMaxMapCount": 262144}}),
    ],
    ("pools", "partitionedBy"): [(AKS, "pools.1.partitionedBy", "aks")],
    ("pools", "flavor"): [(MAGNUM, "pools.0.flavor", "h")],
    ("pools", "image"): [(MAGNUM, "pools.0.image", "other")],
    ("pools", "dockerVolumeSize"): [(MAGNUM, "pools.0.dockerVolumeSize", 50)],
    ("pools", "nodeGroupLabels"): [(MAGNUM, "pools.0.nodeGroupLabels", {"a": "b"})],
    ("pools", "nodeSelector"): [(EXISTING, "pools.0.nodeSelector", {"p": "b"})],
    ("pools", "gpuModel"): [(EXISTING, "pools.0.gpuModel", "h100-80gb")],
    ("pools", "gpusPerNode"): [(EXISTING, "pools.0.gpusPerNode", 2)],
    ("pools", "labels"): [(stack, "pools.0.labels", {"example.com/a": "b"}) for stack in (AKS, MAGNUM, EXISTING)],
    ("pools", "taints"): [(stack, "pools.0.taints", ["sku=gpu:NoSchedule"]) for stack in (AKS, MAGNUM, EXISTING)],
    ("pools", "driver"): [(MAGNUM, "pools.0.driver", "preinstalled"), (AKS, "pools.0.driver", "preinstalled")],
    ("pools", "protect"): [(AKS, "pools.0.protect", False), (MAGNUM, "pools.0.protect", True)],
    ("pools", "minimum"): [(AKS, "pools.0.minimum", {"cuda": "12.8"})],
    ("operator", "version"): [
        (AKS, "operator.version", "v26.3.1"),
        (AKS, "operator.version", "v26.3.3"),
        (AKS, "nodeFeatureDiscovery.version", "0.18.3"),
    ],
    ("operator", "valuesFile"): [(AKS, "operator.valuesFile", "/nowhere"), (AKS, "nodeFeatureDiscovery.valuesFile", "/nowhere")],
    ("operator", "chart"): [
        (AKS, "operator.chart", {"repository": "https://example.com/charts"}),
        (AKS, "nodeFeatureDiscovery.chart", {"oci": "oci://example.com/charts/nfd"}),
    ],
    ("operator", "values"): [
        (AKS, "operator.values", {"driver": {"version": "580.105.08"}}),
        (AKS, "nodeFeatureDiscovery.values", {"priorityClassName": "system-node-critical"}),
    ],
    ("operator", "driver"): [(AKS, "operator.driver", "preinstalled")],
    ("operator", "kubeletSyncSeconds"): [(AKS, "operator.kubeletSyncSeconds", 30)],
    ("operator", "driverUpgrade"): [(AKS, "operator.driverUpgrade", {})],
    ("operator", "driverUpgrade.maxUnavailable"): [(AKS, "operator.driverUpgrade", {"maxUnavailable": 2})],
    ("operator", "driverUpgrade.drainTimeoutSeconds"): [(AKS, "operator.driverUpgrade", {"drainTimeoutSeconds": 60})],
    ("operator", "driverUpgrade.podsThatStay"): [(AKS, "operator.driverUpgrade", {"podsThatStay": "wait"})],
    ("operator", "migStrategy"): [(AKS, "operator.migStrategy", "mixed")],
    ("operator", "markerImage"): [(EXISTING, "nodeFeatureDiscovery.markerImage", "example.com/sh:1")],
    ("operator", "install"): [(EXISTING, "operator", {"install": False}), (EXISTING, "nodeFeatureDiscovery", {"install": False})],
    ("verification", "enabled"): [(AKS, "verification.enabled", False)],
    ("verification", "deadlineSeconds"): [(AKS, "verification.deadlineSeconds", 600)],
    ("verification", "intervalSeconds"): [(AKS, "verification.intervalSeconds", 60)],
    ("verification", "startupTaint"): [(AKS, "verification.startupTaint", True)],
    ("verification", "image"): [(AKS, "verification.image", f"example.com/python@sha256:{'a' * 64}")],
    ("verification", "smokeTest"): [(AKS, "verification.smokeTest", False)],
    ("verification", "smokeTestImage"): [(AKS, "verification.smokeTestImage", "example.com/cuda:1")],
    ("observability", "to"): [(OBSERVED, "observability.to", "none")],
    ("observability", "prometheusStack"): [(INSTALLED, "observability.prometheusStack.values.prometheus", _RETAINED)],
    ("observability", "azure"): [(BY_AZURE, "observability.azure.location", "northeurope")],
    ("observability", "intervalSeconds"): [(OBSERVED, "observability.intervalSeconds", 60)],
    ("observability", "labels"): [(OBSERVED, "observability.labels", {"release": "b"})],
    ("observability", "runbooks"): [(OBSERVED, "observability.runbooks", "https://docs.example.com/other")],
    ("observability", "dashboards"): [(OBSERVED, "observability.dashboards", False)],
    ("observability", "dashboardLabels"): [(OBSERVED, "observability.dashboardLabels", {"board": "b"})],
    ("registry", "mirror"): [(MIRRORED, "registry.mirror", "registry.example.com/other")],
    ("registry", "username"): [(MIRRORED, "registry.username", "other")],
    ("registry", "password"): [(MIRRORED, "registry.password", "two")],
    ("registry", "pullSecret"): [(MIRRORED, "registry.pullSecret", "other")],
    ("flavors", "gpuModel"): [(MAGNUM, "flavors.g.gpuModel", "h100-80gb")],
    ("flavors", "gpusPerNode"): [(MAGNUM, "flavors.g.gpusPerNode", 2)],
    ("gpuModels", "product"): [(OWN, "gpuModels.next.product", "NVIDIA Other"), (OWN, "gpuModels.next.product", GONE)],
    ("gpuModels", "memoryMiB"): [(OWN, "gpuModels.next.memoryMiB", 16384)],
    ("gpuModels", "computeCapability"): [(OWN, "gpuModels.next.computeCapability", "10.0")],
    ("gpuModels", "mig"): [(OWN, "gpuModels.next.mig", True)],
}
#: Keys that say nothing of what is deployed.
ASKED: Final = {
    ("cluster", "existing"): "which cluster is read: tests/components/test_existing_aks.py and test_existing_magnum.py",
    ("pools", "rollout"): "how nodes change: tests/components/test_rights.py and tests/unit/test_rollouts.py",
    ("pools", "replace"): "how it is replaced: tests/components/test_replacement.py and tests/unit/test_replacements.py",
    ("pools", "drainTimeoutSeconds"): "how long that may take: tests/unit/test_emptying.py",
    ("pools", "adopted"): "what stays as it is: tests/components/test_adopted.py",
    ("sharing", "needs"): "what the plan refuses: tests/unit/test_memory_budget.py",
    ("cluster", "checkCloud"): "whether the cloud is asked before a deploy",
    ("flavors", "vcpus"): "what that check counts against the quota",
    ("flavors", "memoryGiB"): "the same",
    ("gpuModels", "multiprocessors"): "what the plan tells of MPS",
    **{
        ("acknowledged", key): "which protection is lifted: tests/unit/test_acknowledged.py"
        for key in ("resource", "change", "reason")
    },
}
_PACKED: Final = functools.cache(archive.archive)
_DIGEST: Final = functools.cache(archive.digest)
EVERY: Final = [(key, change) for key, changes in CHANGES.items() for change in changes]


def _section_and_stack(case: tuple[tuple[str, str], tuple[Any, str, Any]]) -> tuple[str, int]:
    (section, _), (stack, _, _) = case
    return section, id(stack)


def _documented() -> set[tuple[str, str]]:
    """(section, key) of every row of the page's tables."""
    found: set[tuple[str, str]] = set()
    section = ""
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = re.match(r"## gpu-pools:(\w+)", line)
            section = heading[1] if heading else ""
        elif section and line.startswith("| `"):
            first = line.split("|")[1]
            keys = [re.split(r":? ?[{]|:", token)[0] for token in re.findall(r"`([^`]+)`", first)]
            # A mapping's keys are changed with it, where they are not here by themselves.
            found |= {(section, key if (section, key) in CHANGES else key.split(".")[0]) for key in keys}
    return found


def test_every_documented_key_is_here() -> None:
    assert _documented() == {*CHANGES, *ASKED}


def _changed(stack: Any, place: str, value: Any) -> Any:
    result = copy.deepcopy(stack)
    *way, last = (int(step) if step.isdecimal() else step for step in place.split("."))
    inner = result
    for step in way:
        inner = inner[step]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return result


@pytest.fixture
def rendered(
    run: Callable[[Callable[[], Any]], Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Any], dict[str, Any]]:
    """What the engine is asked for, by name, without what it would leave as it is; and what `status` holds nodes against."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    # Packing the verifier takes most of the time, and no key changes it.
    monkeypatch.setattr("gpu_pools.components.proof.verification.archive", _PACKED)
    monkeypatch.setattr("gpu_pools.components.proof.verification.digest", _DIGEST)

    def render(stack: Any) -> dict[str, Any]:
        refused: list[InvalidStackError] = []

        kept: dict[str, Any] = {}

        def program() -> None:
            try:
                platform = GpuPlatform("gpu", copy.deepcopy(stack))
                platform.verification.apply(lambda told: kept.update(verification=told))
            except InvalidStackError as error:
                refused.append(error)

        recorded = run(program)
        if refused:
            raise refused[0]
        requests = {(request.type, request.name): request for request in recorded.requests.values()}
        for resource in recorded.resources:
            if (resource.type, resource.name) not in requests:
                # Only read.
                continue
            request = requests[resource.type, resource.name]
            inputs = {key: value for key, value in resource.inputs.items() if key not in request.ignoreChanges}
            kept[f"{resource.type} {resource.name}"] = (inputs, request.protect)
        return kept

    return render


#: A stack of this file -> what it renders to; that takes a moment.
_BEFORE: Final[dict[int, Any]] = {}


@pytest.mark.parametrize(
    ("key", "change"), one_of_each(EVERY, _section_and_stack), ids=[f"{key[1]}-{change[1]}" for key, change in EVERY]
)
def test_a_change_of_it_acts_or_is_refused(rendered: Callable[[Any], Any], key: object, change: tuple[Any, str, Any]) -> None:
    stack, place, value = change
    before = _BEFORE.get(id(stack)) or _BEFORE.setdefault(id(stack), rendered(stack))
    try:
        after = rendered(_changed(stack, place, value))
    except (InvalidStackError, FileNotFoundError):
        return
    assert after != before, f"{key} is edited without any effect"


def test_an_acknowledgement_lifts_the_protection_of_what_it_names(rendered: Callable[[Any], Any]) -> None:
    change = plan_config({f"gpu-pools:{key}": value for key, value in AKS.items()}).pools[0].change
    entry = {"resource": "a", "change": change, "reason": "nobody uses it any more"}
    assert rendered({**AKS, "acknowledged": [entry]}) != rendered(AKS)
