"""Every row of the table of AKS properties, changed once: what the engine would do, in one preview.

A resource for each row, all in one state, which nobody has brought up: the clusters and pools are entries of an exported state,
put back by `pulumi stack import`. So the real engine is asked, with what the components tell it (`replace_on_changes`) and with
the plugin's own list. What Azure then does is asked where pools and clusters are really changed (test_aks_options.py and
test_aks_changes.py). Rows that say `refused` stop a preview, and are changed there.
"""

from __future__ import annotations

import copy
import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.platforms.aks.properties import known_of, properties, replacing
from sandbox.clouds.azure_answers import API_VERSION
from sandbox.stack.engine import Engine
from sandbox.stack.stand_ins import Attached
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.patience import scaled
from tests.unit.bad_aks_options import id_of
from tests.unit.stacks import aks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

GUIDS: Final = ("0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11", "1f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11")
SUBNETS: Final = tuple(id_of(f"Microsoft.Network/virtualNetworks/hub/subnets/{name}") for name in "ab")
RESOURCE: Final = {
    "ManagedCluster": "azure-native:containerservice:ManagedCluster",
    "AgentPool": "azure-native:containerservice:AgentPool",
}
_SYSTEM: Final = {"name": "system", "mode": "System", "vmSize": "Standard_D4s_v5", "osType": "Linux"}
#: What each has besides.
BASE: Final[dict[str, dict[str, Any]]] = {
    "ManagedCluster": {
        "resourceGroupName": "rows",
        "resourceName": "rows",
        "location": "westeurope",
        "azureApiVersion": API_VERSION,
        "agentPoolProfiles": [{**_SYSTEM, "count": 1}],
    },
    "AgentPool": {
        "resourceGroupName": "rows",
        "resourceName": "rows",
        "agentPoolName": "gpu",
        "vmSize": "Standard_NC24ads_A100_v4",
        "azureApiVersion": API_VERSION,
    },
}


def switch(name: str = "enabled") -> tuple[dict[str, bool], dict[str, bool]]:
    """Off, then on."""
    return {name: False}, {name: True}


def inside(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same below another property."""
    off, on = switch()
    return {name: off}, {name: on}


#: Property -> its value before and after.
CLUSTERS: Final[dict[str, tuple[Any, Any]]] = {
    "aadProfile": tuple({"managed": True, "adminGroupObjectIDs": [guid]} for guid in GUIDS),  # type: ignore[dict-item]
    "addonProfiles": ({"azurepolicy": {"enabled": False}}, {"azurepolicy": {"enabled": True}}),
    "agentPoolProfiles": ([{**_SYSTEM, "count": 1}], [{**_SYSTEM, "count": 2}]),
    "aiToolchainOperatorProfile": switch(),
    "apiServerAccessProfile.authorizedIPRanges": (["203.0.113.0/24"], ["198.51.100.0/24"]),
    "apiServerAccessProfile.disableRunCommand": (False, True),
    "apiServerAccessProfile.enablePrivateCluster": (False, True),
    "apiServerAccessProfile.enablePrivateClusterPublicFQDN": (True, False),
    "apiServerAccessProfile.enableVnetIntegration": (False, True),
    "apiServerAccessProfile.subnetId": SUBNETS,  # type: ignore[dict-item]
    "autoScalerProfile": ({"expander": "random"}, {"expander": "least-waste"}),
    "autoUpgradeProfile": ({"upgradeChannel": "none"}, {"upgradeChannel": "patch"}),
    "azureMonitorProfile": inside("metrics"),
    "bootstrapProfile": ({"artifactSource": "Direct"}, {"artifactSource": "Cache"}),
    "disableLocalAccounts": (False, True),
    "diskEncryptionSetID": tuple(id_of(f"Microsoft.Compute/diskEncryptionSets/{name}") for name in "ab"),  # type: ignore[dict-item]
    "dnsPrefix": ("rows", "others"),
    "enableRBAC": (True, False),
    "extendedLocation": ({"name": "a", "type": "EdgeZone"}, {"name": "b", "type": "EdgeZone"}),
    "fqdnSubdomain": ("rows", "others"),
    "httpProxyConfig": ({"httpProxy": "http://a:3128"}, {"httpProxy": "http://b:3128"}),
    "identity": ({"type": "SystemAssigned"}, {"type": "UserAssigned", "userAssignedIdentities": ["a"]}),
    "identityProfile": ({"kubeletidentity": {"resourceId": "a"}}, {"kubeletidentity": {"resourceId": "b"}}),
    "ingressProfile": inside("webAppRouting"),
    "kind": ("Base", "Other"),
    "kubernetesVersion": ("1.34", "1.35"),
    "linuxProfile": tuple({"adminUsername": name, "ssh": {"publicKeys": [{"keyData": "k"}]}} for name in "ab"),  # type: ignore[dict-item]
    "location": ("westeurope", "northeurope"),
    "metricsProfile": inside("costAnalysis"),
    "networkProfile.advancedNetworking": switch(),
    "networkProfile.dnsServiceIP": ("10.0.0.10", "10.0.0.11"),
    "networkProfile.ipFamilies": (["IPv4"], ["IPv4", "IPv6"]),
    "networkProfile.loadBalancerProfile": ({"idleTimeoutInMinutes": 30}, {"idleTimeoutInMinutes": 60}),
    "networkProfile.loadBalancerSku": ("standard", "basic"),
    "networkProfile.natGatewayProfile": ({"idleTimeoutInMinutes": 4}, {"idleTimeoutInMinutes": 5}),
    "networkProfile.networkDataplane": ("azure", "cilium"),
    "networkProfile.networkMode": ("transparent", "bridge"),
    "networkProfile.networkPlugin": ("azure", "none"),
    "networkProfile.networkPluginMode": ("overlay", None),
    "networkProfile.networkPolicy": ("none", "calico"),
    "networkProfile.outboundType": ("loadBalancer", "userDefinedRouting"),
    "networkProfile.podCidr": ("10.244.0.0/16", "10.128.0.0/9"),
    "networkProfile.podCidrs": (["10.244.0.0/16"], ["10.128.0.0/9"]),
    "networkProfile.serviceCidr": ("10.0.0.0/16", "10.100.0.0/16"),
    "networkProfile.serviceCidrs": (["10.0.0.0/16"], ["10.100.0.0/16"]),
    "networkProfile.staticEgressGatewayProfile": switch(),
    "nodeProvisioningProfile": ({"mode": "Manual"}, {"mode": "Auto"}),
    "nodeResourceGroup": ("machines", "others"),
    "nodeResourceGroupProfile": ({"restrictionLevel": "Unrestricted"}, {"restrictionLevel": "ReadOnly"}),
    "oidcIssuerProfile": switch(),
    "podIdentityProfile": switch(),
    "privateLinkResources": ([{"name": "a"}], [{"name": "b"}]),
    "publicNetworkAccess": ("Enabled", "Disabled"),
    "resourceGroupName": ("rows", "others"),
    "resourceName": ("rows", "others"),
    "securityProfile": inside("imageCleaner"),
    "serviceMeshProfile": ({"mode": "Disabled"}, {"mode": "Istio"}),
    "sku": ({"name": "Base", "tier": "Free"}, {"name": "Base", "tier": "Standard"}),
    "storageProfile": inside("blobCSIDriver"),
    "supportPlan": ("KubernetesOfficial", "AKSLongTermSupport"),
    "tags": ({"team": "a"}, {"team": "b"}),
    "upgradeSettings": ({"overrideSettings": {"forceUpgrade": False}}, {"overrideSettings": {"forceUpgrade": True}}),
    "windowsProfile": ({"adminUsername": "a"}, {"adminUsername": "b"}),
    "workloadAutoScalerProfile": inside("keda"),
}
#: Those that no stack has a key for or no pool of test_aks_options.py can have; all others are changed there, and deployed.
POOLS: Final[dict[str, tuple[Any, Any]]] = {
    "agentPoolName": ("gpu", "others"),
    "creationData": ({"sourceResourceId": "a"}, {"sourceResourceId": "b"}),
    "gatewayProfile": ({"publicIPPrefixSize": 31}, {"publicIPPrefixSize": 30}),
    "gpuProfile": ({"driver": "None"}, {"driver": "Install"}),
    "mode": ("User", "System"),
    "networkProfile.applicationSecurityGroups": (["a"], ["b"]),
    "osType": ("Linux", "Windows"),
    "resourceGroupName": ("rows", "others"),
    "resourceName": ("rows", "others"),
    "type": ("VirtualMachineScaleSets", "VirtualMachines"),
    "virtualMachineNodesStatus": ([{"count": 1, "size": "a"}], [{"count": 2, "size": "a"}]),
    "virtualMachinesProfile": (
        {"scale": {"manual": [{"count": 1, "size": "a"}]}},
        {"scale": {"manual": [{"count": 2, "size": "a"}]}},
    ),
    "windowsProfile": ({"disableOutboundNat": False}, {"disableOutboundNat": True}),
}
ROWS: Final = {"ManagedCluster": CLUSTERS, "AgentPool": POOLS}
#: What an import copies of Azure's defaults into a state, and a program does not say: leaving it out is a replacement, which the
#: preview shows before anybody deploys it.
DROPPED: Final[dict[str, dict[str, Any]]] = {
    "ManagedCluster": {
        "networkProfile.podCidr": "10.244.0.0/16",
        "networkProfile.loadBalancerSku": "standard",
        "enableRBAC": True,
    },
    "AgentPool": {"maxPods": 250, "osDiskType": "Managed", "osDiskSizeGB": 128, "kubeletDiskType": "OS"},
}
#: A row that is none: nothing of it changes.
UNCHANGED: Final = {"unchanged": (None, None)}
_DROPPED: Final = "dropped-"
PROGRAM: Final = """\
import json, pathlib
import pulumi

for name, one in json.loads(pathlib.Path("resources.json").read_text()).items():
    options = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=one["replaces"])
    pulumi.CustomResource(one["type"], name, one["inputs"], options)
"""


def inputs_of(type_: str, path: str, value: Any) -> dict[str, Any]:
    """The inputs of a row's resource, with one value of it."""
    inputs = copy.deepcopy(BASE[type_])
    *above, last = path.split(".")
    place = inputs
    for key in above:
        place = place.setdefault(key, {})
    if value is not None:
        place[last] = value
    return inputs


def name_of(type_: str, path: str) -> str:
    return f"{type_}-{path}"


class Project:
    """A program of its own beside a sandbox's stand-ins, in the same backend."""

    def __init__(self, folder: Path, trial: Trial) -> None:
        self._folder = folder
        ports = json.loads(trial.sandbox.providers_record.read_text())["ports"]
        self._engine = Engine(trial.sandbox, find_tools(Progress(), only={"pulumi", "helm"}), Attached(ports, trial.login()))
        (folder / "Pulumi.yaml").write_text("name: rows\nruntime: python\n")
        (folder / "__main__.py").write_text(PROGRAM)
        self.run("stack", "init", "rows")

    def run(self, *arguments: str, given: str | None = None) -> str:
        command = [str(self._engine.tools.pulumi), *arguments, "--non-interactive"]
        environment = {**self._engine.environment(), "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "false"}
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=scaled(300),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, resources: dict[str, Any]) -> None:
        (self._folder / "resources.json").write_text(json.dumps(resources))


def entries(like: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A resource of the state for each row, made of one that is there."""
    for type_, rows in ROWS.items():
        dropped = {f"{_DROPPED}{path}": (before, None) for path, before in DROPPED[type_].items()}
        for path, (before, _) in {**rows, **UNCHANGED, **dropped}.items():
            inputs = inputs_of(type_, path.removeprefix(_DROPPED), before)
            prefix = like["urn"].split("::")
            urn = "::".join([*prefix[:2], RESOURCE[type_], name_of(type_, path)])
            yield {**like, "urn": urn, "type": RESOURCE[type_], "id": f"/{path}", "inputs": inputs, "outputs": inputs}


@pytest.fixture(scope="module")
def done(shared_sandbox: Callable[..., Trial], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of a row's resource -> what the engine would do to it."""
    trial = shared_sandbox(aks())
    trial.preview().ok()
    project = Project(tmp_path_factory.mktemp("rows"), trial)
    group = {"resourceGroupName": "rows", "location": "westeurope"}
    first = {"group": {"type": "azure-native:resources:ResourceGroup", "inputs": group, "replaces": []}}
    project.write(first)
    project.run("up", "--yes", "--skip-preview", "--stack", "rows")
    state = json.loads(project.run("stack", "export", "--stack", "rows"))
    made = state["deployment"]["resources"]
    made += entries(next(one for one in made if one["type"].endswith(":ResourceGroup")))
    project.run("stack", "import", "--stack", "rows", given=json.dumps(state))
    rows = {
        name_of(type_, path): {
            "type": RESOURCE[type_],
            "inputs": inputs_of(type_, path.removeprefix(_DROPPED), after),
            "replaces": replacing(type_),
        }
        for type_, those in ROWS.items()
        for path, (_, after) in {**those, **UNCHANGED, **{f"{_DROPPED}{path}": (1, None) for path in DROPPED[type_]}}.items()
    }
    project.write(first | rows)
    steps = json.loads(project.run("preview", "--json", "--show-sames", "--stack", "rows"))["steps"]
    found: dict[str, str] = {}
    for step in steps:
        name = step["urn"].rpartition("::")[2]
        found[name] = "replace" if "replace" in step["op"] else step["op"]
    return found


def test_every_row_of_a_cluster_is_here_or_refused() -> None:
    refused = {path for path, known in properties("ManagedCluster").items() if known.change == "refused"}
    assert {*CLUSTERS} | refused == {*properties("ManagedCluster")}
    assert not {*CLUSTERS} & refused


def test_what_is_not_changed_is_the_same(done: dict[str, str]) -> None:
    """The control: the state that was put back is what the program says."""
    assert {name: done[name] for name in ("group", *(name_of(type_, "unchanged") for type_ in ROWS))} == {
        "group": "same",
        "ManagedCluster-unchanged": "same",
        "AgentPool-unchanged": "same",
    }


@pytest.mark.parametrize("type_", ROWS)
def test_the_engine_does_what_the_table_says(done: dict[str, str], type_: str) -> None:
    told = {path: done.get(name_of(type_, path)) for path in ROWS[type_]}
    wanted = {}
    for path in ROWS[type_]:
        known = known_of(type_, path)
        assert known is not None
        wanted[path] = "replace" if known.change == "replaces" else "update"
    assert told == wanted


@pytest.mark.parametrize("type_", DROPPED)
def test_a_default_that_an_import_has_copied_replaces_when_it_is_left_out(done: dict[str, str], type_: str) -> None:
    told = {path: done.get(name_of(type_, f"{_DROPPED}{path}")) for path in DROPPED[type_]}
    assert set(told.values()) == {"replace"}, told
