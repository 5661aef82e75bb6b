"""Clusters of different makes after their import: what the program asks for, as the plugins compare it with what they have read.

The state is what an import leaves: azure-native's inputs are all that Azure answers and could be given; a bridged plugin compares
with the group as Magnum shows it. The engine puts ignored properties back before it asks for the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.adopting.aks.resources import as_inputs, flat
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.platforms.aks.properties import known_of, replacing
from gpu_pools.verifier import archive
from sandbox.providers.azure_native import AzureNativeStandIn
from sandbox.providers.openstack import OpenStackStandIn
from tests.adopting.recorded import CASES, WITH_POOLS, adopted

from . import conftest
from .conftest import KUBECONFIG, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pulumi

    Run = Callable[..., Recorder]

POOL = "azure-native:containerservice:AgentPool"
GROUP = "openstack:containerinfra/nodeGroup:NodeGroup"
#: In place, on living nodes; or sent no more, so that Azure leaves them as they are.
ALLOWED = {"nodeLabels", "tags", "orchestratorVersion", "powerState"}


@pytest.fixture
def platform(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Recorder]:
    """Runs the program of an adopted cluster in a preview."""
    monkeypatch.setattr(archive, "archive", lambda: b"the program")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    otherwise = Recorder.call

    def program(name: str) -> Recorder:
        case, found = CASES[name], adopted(name)

        def call(self: Recorder, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
            if args.token.endswith(":getManagedCluster"):
                pools = [flat(one) for one in case["pools"]]
                return {**conftest.FOUND_CLUSTER, "id": case["cluster"]["id"], "agentPoolProfiles": _as_answered(pools)}
            if args.token.endswith(":getClientConfig"):
                subscription = found.sections["cluster"]["existing"]["subscription"]
                return {"clientId": "c", "objectId": "o", "subscriptionId": subscription, "tenantId": "t"}
            return otherwise(self, args)

        monkeypatch.setattr(Recorder, "call", call)
        sections = {**found.sections}
        if case["platform"] == "magnum":
            sections["cluster"] = {**sections["cluster"], "checkCloud": False}
        return run(lambda: GpuPlatform("gpu", sections), preview=True)  # type: ignore[arg-type]

    return program


def _as_answered(pools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": pool["name"], **as_inputs(pool, "AgentPool")} for pool in pools]


def _of(platform: str) -> list[str]:
    return [name for name in WITH_POOLS if CASES[name]["platform"] == platform]


def _restored(new: Mapping[str, Any], old: Mapping[str, Any], ignored: list[str]) -> dict[str, Any]:
    """As the engine does it (resource/deploy, processIgnoreChanges): what is ignored is as it was, or not there as before."""
    kept = {key: value for key, value in new.items() if key not in ignored}
    return kept | {key: old[key] for key in ignored if key in old}


@pytest.mark.parametrize("name", _of("aks"))
def test_no_pool_of_aks_is_replaced_and_only_labels_and_tags_are_changed(name: str, platform: Callable[[str], Recorder]) -> None:
    recorded = platform(name)
    assert len(recorded.of("AgentPool")) == len(CASES[name]["pools_expected"])
    for pool in recorded.of("AgentPool"):
        (there,) = [flat(one) for one in CASES[name]["pools"] if one["name"] == pool.inputs["agentPoolName"]]
        options = recorded.options(pool.name)
        place = {key: pool.inputs[key] for key in ("resourceGroupName", "resourceName", "agentPoolName")}
        imported = {**as_inputs(there, "AgentPool"), **place}
        asked = _restored(pool.inputs, imported, list(options.ignoreChanges))
        found = AzureNativeStandIn(None).diff(POOL, "", imported, {}, asked)  # type: ignore[arg-type]
        assert set(found.diffs) <= ALLOWED
        assert not found.replaces
        assert not [path for path in found.detailed if path.partition(".")[0] in replacing("AgentPool")]
        assert {known.change for path in found.diffs if (known := known_of("AgentPool", path))} <= {"updates", "rolling"}
        assert asked["nodeLabels"].items() >= (CASES_LABELS(there)).items()


def CASES_LABELS(pool: Mapping[str, Any]) -> dict[str, str]:  # noqa: N802 - reads as a constant of the case
    """The labels that people have put on it, besides those by which it shares."""
    return {key: value for key, value in (pool.get("nodeLabels") or {}).items() if not key.startswith("nvidia.com/")}


@pytest.mark.parametrize("name", _of("magnum"))
def test_no_node_group_is_changed_at_all(name: str, platform: Callable[[str], Recorder]) -> None:
    recorded = platform(name)
    assert len(recorded.of("NodeGroup")) == len(CASES[name]["pools_expected"])
    for group in recorded.of("NodeGroup"):
        (there,) = [one for one in CASES[name]["groups"] if one["name"] == group.inputs["name"]]
        shown = {_camel(key): value for key, value in there.items() if value is not None} | {
            "clusterId": group.inputs["clusterId"]
        }
        imported = {key: shown[key] for key in _INPUTS if key in shown}
        asked = _restored(group.inputs, imported, list(recorded.options(group.name).ignoreChanges))
        found = OpenStackStandIn(None, {}).diff(GROUP, "", imported, shown, asked)  # type: ignore[arg-type]
        assert not found.changes, found.detailed


#: What of a group may be given, and the plugin reads (terraform-provider-openstack 3.4.0, nodegroup resource).
_INPUTS = (
    *(
        "name",
        "clusterId",
        "flavorId",
        "imageId",
        "dockerVolumeSize",
        "labels",
        "role",
        "nodeCount",
        "minNodeCount",
        "maxNodeCount",
    ),
)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@pytest.mark.parametrize("name", _of("existing"))
def test_of_other_clusters_nothing_but_objects_inside_is_made(name: str, platform: Callable[[str], Recorder]) -> None:
    recorded = platform(name)
    kinds = {one.type.partition(":")[0] for one in recorded.resources}
    assert kinds <= {"kubernetes", "pulumi", "gpu-pools"}
    sections, installed = adopted(name).sections, {one.name for one in recorded.of("helm.sh/v3:Release")}
    there = {"gpu-nfd-release": "nodeFeatureDiscovery", "gpu-operator-release": "operator"}
    assert installed & there.keys() == {one for one, key in there.items() if sections.get(key, {}).get("install", True)}
