"""Stacks that let go: all that they have made runs on as it is, and whatever the engine is told afterwards touches nothing of it.

The release of an adopted pool on AKS is in tests/engine/test_adopt.py.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.openstack import service
from sandbox.openstack.magnum_api import MagnumApi
from sandbox.stack.engine import Engine
from sandbox.stack.stand_ins import attached
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.engine.test_adopt import OWNERS
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("recorded clusters are let go by day")]

MAGNUM = """
config:
  gpu-pools:cluster: {platform: magnum, driver: heat, existing: {name: platform}}
  gpu-pools:flavors: {g2: {gpuModel: a100-40gb, gpusPerNode: 1, vcpus: 8, memoryGiB: 64}}
  gpu-pools:sharing: {shared: {timeSlicing: {replicas: 4}}}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: gpu, flavor: g2, count: 1, sharing: shared, taints: ["sku=gpu:NoSchedule"]}
"""
EXISTING = """
config:
  gpu-pools:cluster: {platform: existing}
  gpu-pools:sharing: {shared: {timeSlicing: {replicas: 4}}}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: a, nodeSelector: {example.com/rack: a}, gpuModel: NVIDIA A100-SXM4-80GB, gpusPerNode: 2, count: 1, sharing: shared}
"""
#: What a deploy makes in a cluster, and what it changes there.
OBJECTS = (
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
    "/apis/nvidia.com/v1/clusterpolicies",
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
)


def inside(trial: Trial) -> dict[str, Any]:
    """(UID, generation) of what is in the cluster, what nodes advertise, and by which labels."""
    api, found = trial.api(), {}
    for path in OBJECTS:
        for one in api.list(path)["items"]:
            meta = one["metadata"]
            # Those of the control plane itself come and go.
            if not meta.get("namespace", "").startswith("kube-"):
                content = {"data": one.get("data"), "labels": meta.get("labels"), "annotations": meta.get("annotations")}
                found[path, meta.get("namespace"), meta["name"]] = (meta["uid"], meta.get("generation"), content)
    for node in api.list("/api/v1/nodes")["items"]:
        shown = {key: value for key, value in node["metadata"]["labels"].items() if "timestamp" not in key}
        found["node", None, node["metadata"]["name"]] = (node["metadata"]["uid"], shown, node["status"]["allocatable"])
    return found


def groups(trial: Trial) -> dict[str, Any]:
    """The node groups, as Magnum shows them."""
    magnum = MagnumApi(service.load(trial.folder / "openstack").login())
    uuid = magnum.get("clusters/platform")["uuid"]
    listed = magnum.get(f"clusters/{uuid}/nodegroups")["nodegroups"]
    return {one["name"]: magnum.get(f"clusters/{uuid}/nodegroups/{one['uuid']}") for one in listed}


def leaves_all_as_it_is(trial: Trial, seen: Callable[[], Any], folder: Path) -> None:
    """Released, deployed anew and destroyed; then taken back."""
    trial.wait_until(trial.holds, "the nodes as declared")
    before, saved = seen(), folder / "saved.json"
    told = trial.gpu_pools("release", "small", "--yes", "--saved", str(saved)).ok().out
    assert "runs on, and the stack manages nothing of it any more" in told
    assert "the verifiers go on comparing each node" in told
    assert seen() == before
    assert not trial.exported().get("resources")

    again = trial.engine("up", "--yes", "--skip-preview")
    assert again.code != 0
    assert seen() == before, again.text
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    assert seen() == before
    assert trial.holds()

    trial.engine("stack", "import", "--file", str(saved)).ok()
    assert trial.planned_steps() == []


def test_groups_of_magnum_and_what_shares_them_run_on(sandbox: Callable[..., Trial], tmp_path: Path) -> None:
    trial = sandbox(MAGNUM)
    trial.up().ok()
    leaves_all_as_it_is(trial, lambda: (groups(trial), inside(trial)), tmp_path)
    trial.down().ok()


def test_nodes_of_an_existing_cluster_go_on_sharing(sandbox: Callable[..., Trial], tmp_path: Path) -> None:
    trial = sandbox(EXISTING)
    trial.up().ok()
    leaves_all_as_it_is(trial, lambda: inside(trial), tmp_path)

    exported = trial.engine("stack", "export").ok().out
    for arguments, says in wrong(trial, tmp_path, exported):
        refused = trial.gpu_pools("release", *arguments, "--yes", "--saved", str(tmp_path / "never.json"))
        assert refused.code == 2, refused.text
        assert says in refused.err
        assert "nothing was let go" in refused.err
        assert not (tmp_path / "never.json").exists()
    assert trial.engine("stack", "export").ok().out == exported

    # What another stack has saved the engine does not take back, nor what is not a state.
    other = tmp_path / "other.json"
    for text in (exported.replace("urn:pulumi:small::", "urn:pulumi:other::"), "{", "[]"):
        other.write_text(text)
        assert trial.engine("stack", "import", "--file", str(other)).code != 0
    assert trial.engine("stack", "export").ok().out == exported
    trial.down().ok()


def test_an_operator_of_another_owner_shares_on_as_the_stack_has_left_it(sandbox: Callable[..., Trial], tmp_path: Path) -> None:
    """No hook stops such an `up`: nothing that it would install is there already."""
    trial = sandbox(f"{OWNERS}  gpu-pools:verification: {{}}\n")
    trial.up().ok()
    leaves_all_as_it_is(trial, lambda: inside(trial), tmp_path)
    trial.down().ok()


def wrong(trial: Trial, folder: Path, exported: str) -> list[tuple[list[str], str]]:
    """What `release` is given, and a part of why it refuses."""
    file = folder / "released-small.json"
    file.write_text(exported)
    network = {"urn": "urn:pulumi:network::gpu-pools::pulumi:pulumi:Stack::gpu-pools-network", "custom": False}
    made = {"urn": "urn:pulumi:network::gpu-pools::azure-native:network:VirtualNetwork::hub", "custom": True, "id": "hub"}
    state = json.loads(exported)
    state["deployment"].pop("secrets_providers", None)
    state["deployment"]["resources"] = [
        {**network, "type": "pulumi:pulumi:Stack"},
        {**made, "type": "azure-native:network:VirtualNetwork", "parent": network["urn"], "inputs": {}, "outputs": {}},
    ]
    (folder / "network.json").write_text(json.dumps(state))
    (folder / "Pulumi.yaml").write_text("name: gpu-pools\nruntime: python\n")
    for arguments in (
        ["init", "empty", "--no-select"],
        ["init", "network", "--no-select"],
        ["import", "--stack", "network", "--file", str(folder / "network.json")],
    ):
        tools = find_tools(Progress(), only={"pulumi"})
        command = [str(tools.pulumi), "stack", *arguments, "--non-interactive"]
        environment = Engine(trial.sandbox, tools, attached(trial.sandbox)).environment()
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return [
        (["nowhere"], "nowhere: is not a stack that the engine knows"),
        (["empty"], "has nothing in it"),
        (["network"], "has no component of gpu-pools in it: it is that of another program"),
        ([str(file)], "is a file"),
    ]
