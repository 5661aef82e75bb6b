"""What a user does to a stack that is up, and what happens to it from outside: changes, autoscaling, faults on the nodes.

The tests of a file share two stacks, one on AKS and one on Magnum, and run in the order they are written: each leaves its
stack as it found it, or as it declares.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.cli.main import main
from sandbox.cluster import machine_groups
from sandbox.stack.engine import Engine
from sandbox.stack.stand_ins import attached
from sandbox.system.files import read_json
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.engine.trial import Run, Trial
from tests.patience import scaled
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]
ON_MAGNUM = at_night("on Magnum a platform is changed in test_platforms.py by day")

AKS = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing:
    chosen: {timeSlicing: {replicas: 4}}
    slices: {mig: {layout: {1g.10gb: 7}}}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: chosen, taints: ["sku=gpu:NoSchedule"]}
    - {name: spare, vmSize: Standard_NC24ads_A100_v4, nodes: {min: 0, max: 4}, sharing: slices, protect: true}
"""
MAGNUM = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: heat
    template:
      image: fedora-coreos-42
      externalNetwork: public
      flavor: m2.large
      networkDriver: calico
    workers: 1
    labels: {auto_scaling_enabled: "true"}
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
    g1.t4: {gpuModel: Tesla T4, gpusPerNode: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4, renameByDefault: true}}
    sliced: {mig: {layout: {3g.20gb: 1, 2g.10gb: 2}}}
    served: {mps: {replicas: 6}}
    whole: {exclusive: {}}
  gpu-pools:pools:
    - {name: shared, flavor: g2.5xlarge, count: 1, sharing: shared, taints: ["node-role.kubernetes.io/gpu=true:NoSchedule"]}
    - {name: sliced, flavor: g2.5xlarge, count: 1, sharing: sliced, taints: ["node-role.kubernetes.io/gpu=true:NoSchedule"]}
    - {name: served, flavor: g1.t4, count: 1, sharing: served}
    - {name: grows, flavor: g2.5xlarge, nodes: {min: 1, max: 4}, sharing: whole}
"""
CONFIG_MAP = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-device-plugin"
MIG_CONFIG_MAP = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-mig-parted"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
PODS = "/api/v1/namespaces/gpu-operator/pods"
PLUGIN = "nvidia-device-plugin-daemonset"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
DIFFERS = 3
WHOLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
_REASON = "nobody trains this week"


@pytest.fixture(scope="module")
def aks(shared_sandbox: Callable[..., Trial]) -> Trial:
    trial = shared_sandbox(AKS)
    trial.up().ok()
    return trial


@pytest.fixture(scope="module")
def magnum(shared_sandbox: Callable[..., Trial]) -> Trial:
    trial = shared_sandbox(MAGNUM)
    trial.up().ok()
    return trial


# ---------------------------------------------------------------------- AKS: autoscaling


def test_a_pool_without_nodes_is_not_yet_proven(aks: Trial) -> None:
    seen = aks.status().ok()
    (line,) = [line for line in seen.out.splitlines() if line.startswith("spare")]
    assert "not yet proven" in line
    assert "no node yet" in line


def test_a_cluster_that_would_take_a_protected_pool_with_it_is_blocked_and_reported(aks: Trial, tmp_path: Path) -> None:
    deployed = aks.file.read_text(encoding="utf-8")
    judged = _Judged(aks, tmp_path)
    try:
        aks.edit(lambda config: config["gpu-pools:cluster"].update(location="northeurope"))
        code, told = judged()
        assert (code, told["complete"], told["clusterReplaced"], told["protected"]) == (1, False, True, ["gpu-spare-pool"])
        assert {pool["name"]: pool["effects"] for pool in told["pools"]} == {"gpu": ["replaced"], "spare": ["replaced"]}
    finally:
        aks.write(deployed)


def test_a_protected_pool_is_replaced_by_the_acknowledged_change_and_by_no_other(aks: Trial, tmp_path: Path) -> None:
    deployed, was = aks.file.read_text(encoding="utf-8"), aks.plan().pools[1]
    judged = _Judged(aks, tmp_path)
    assert _protected(aks) == {"gpu-spare-pool"}
    larger = deployed.replace("name: spare, vmSize: Standard_NC24ads_A100_v4", "name: spare, vmSize: Standard_NC48ads_A100_v4")

    aks.write(larger)
    code, told = judged()
    assert (code, told["complete"], told["protected"]) == (1, True, ["gpu-spare-pool"])
    assert {pool["name"]: pool["effects"] for pool in told["pools"]} == {"gpu": ["untouched"], "spare": ["replaced"]}
    assert {one["rule"] for one in told["policies"]} >= {"gpus-only-on-request"}
    (replaced,) = told["endings"]
    aks.write(larger + _acknowledgement("spare", was.change))
    assert "marked for protection" in aks.up().text, "it was acknowledged to be what it is"
    assert _vm_size(aks, "gpu-spare-pool") == "Standard_NC24ads_A100_v4"

    aks.write(larger + _acknowledgement(replaced["resource"], replaced["change"]))
    code, told = judged()
    assert (code, told["blocked"], told["protected"]) == (0, [], []), "neither the pack nor the engine stops it"
    aks.up().ok()
    assert (_vm_size(aks, "gpu-spare-pool"), _protected(aks)) == ("Standard_NC48ads_A100_v4", set())

    # With the next deploy its protection is back, and the way back is another change.
    aks.write(larger)
    aks.up().ok()
    assert _protected(aks) == {"gpu-spare-pool"}
    aks.write(deployed + _acknowledgement("spare", was.change))
    aks.up().ok()
    aks.write(deployed)


def test_nodes_that_an_autoscaler_adds_are_shared_with_no_up(aks: Trial) -> None:
    for count in (1, 3):
        aks.scale("spare", count).ok()
        aks.wait_until(lambda count=count: len(aks.nodes("spare")) == count and aks.holds(), f"{count} nodes as declared")
        assert [_gpus(node) for node in aks.nodes("spare")] == [{"nvidia.com/gpu": 7}] * count
    assert "not yet proven" not in aks.status().ok().out


def test_an_up_leaves_the_autoscalers_count_alone(aks: Trial) -> None:
    assert aks.planned_steps() == []
    assert "unchanged" in aks.up().ok().out
    assert len(aks.nodes("spare")) == 3


def test_a_machine_of_a_fixed_number_that_is_gone_ends_the_next_up(aks: Trial) -> None:
    """Azure says nothing of it, nothing of the stack has changed, and a DaemonSet is complete on the nodes that are left."""
    (folder,) = aks.clusters
    (gone,) = [one.id for one in machine_groups.groups(folder).values() if one.node_prefix.startswith("aks-gpu-")]
    machine_groups.scale(folder, gone, 0)
    aks.wait_until(lambda: not aks.nodes("gpu"), "the machine is gone")
    ended = aks.up()
    machine_groups.scale(folder, gone, 1)
    assert ended.code != 0
    assert "pools[0].count: pool gpu declares 1 nodes and has 0 (C16)" in ended.text
    assert "az aks nodepool show --resource-group small-rg --cluster-name small --name gpu" in ended.text
    aks.wait_until(lambda: len(aks.nodes("gpu")) == 1 and aks.holds(), "the machine is there again")
    assert "unchanged" in aks.up().ok().out


def test_the_cloud_refuses_counts_out_of_bounds(aks: Trial) -> None:
    refused = aks.scale("spare", 5)
    assert refused.code == 1
    assert "within the pool's bounds" in refused.err
    assert len(aks.nodes("spare")) == 3


# ---------------------------------------------------------------------- AKS: changes


def test_replicas_from_4_to_8(aks: Trial) -> None:
    before = _uids(aks)
    old = aks.nodes("gpu")[0]["metadata"]["labels"][CONFIG_LABEL]
    _share(aks, "chosen", {"timeSlicing": {"replicas": 8}})
    new = aks.plan().pools[0].config_key
    assert new != old

    steps = aks.planned_steps()
    assert [step["op"] for step in steps if _type(step) == "ConfigMapPatch"] == ["create", "delete"]
    changed = {_type(step): step["newState"]["inputs"] for step in steps if step["op"] != "delete"}
    assert changed["ConfigMapPatch"]["data"].keys() == {new}
    assert changed["AgentPool"]["nodeLabels"][CONFIG_LABEL] == new
    assert changed.keys() <= {"ConfigMapPatch", "DaemonSet", "AgentPool", "Stack"}

    aks.up().ok()
    (node,) = aks.nodes("gpu")
    assert _gpus(node) == {"nvidia.com/gpu": 8}
    assert _uids(aks) == before
    assert _keys(aks) == _keys_in_use(aks)


# ---------------------------------------------------------------------- AKS: faults on the nodes


def test_an_edit_under_the_same_key_changes_nothing_on_the_node(aks: Trial) -> None:
    key, pods = aks.plan().pools[0].config_key, _pods(aks, PLUGIN)
    edited = aks.get(CONFIG_MAP)["data"][key].replace("replicas: 8", "replicas: 2")
    with _fault(aks, CONFIG_MAP, {"data": {key: edited}}, restart=True):
        _never(lambda: _gpus(aks.nodes("gpu")[0]) != {"nvidia.com/gpu": 8})
        assert _pods(aks, PLUGIN) == pods
        # Only a plugin that starts anew reads it; then the node is not as declared, and status says so.
        _restart(aks, PLUGIN)
        aks.wait_until(lambda: _gpus(aks.nodes("gpu")[0]) == {"nvidia.com/gpu": 2}, "the edited config in use")
        assert "gpu 2 instead of 8" in _differing(aks, "gpu")


def test_a_label_that_names_a_missing_key_leaves_a_plugin_that_starts_with_the_default(aks: Trial) -> None:
    with _fault(aks, CONFIG_MAP, {"data": {aks.plan().pools[0].config_key: None}}):
        _never(lambda: _gpus(aks.nodes("gpu")[0]) != {"nvidia.com/gpu": 8})
        _restart(aks, PLUGIN)
        # Its init container looks for no label, and its sidecar ends on the missing key again and again.
        aks.wait_until(lambda: _gpus(aks.nodes("gpu")[0]) == {"nvidia.com/gpu": 1}, "the default")
        line = _differing(aks, "gpu")
        assert "gpu 1 instead of 8" in line
        assert aks.nodes("gpu")[0]["metadata"]["name"] in line


def test_an_operand_without_the_toleration_leaves_the_tainted_node(aks: Trial) -> None:
    assert {"operator": "Exists", "effect": "NoSchedule"} in aks.get(POLICY)["spec"]["daemonsets"]["tolerations"]
    kept = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    with _fault(aks, POLICY, {"spec": {"daemonsets": {"tolerations": kept}}}):
        aks.wait_until(lambda: _gpus(aks.nodes("gpu")[0]) == {}, "nothing advertised on the tainted node")
        assert "gpu 0 instead of 8" in _differing(aks, "gpu")
        # The pool without a taint gets its pods back.
        aks.wait_until(lambda: all(_gpus(node) == {"nvidia.com/gpu": 7} for node in aks.nodes("spare")), "the other pool")
        _never(lambda: _gpus(aks.nodes("gpu")[0]) != {})


def test_an_unknown_mig_layout_fails_and_shows(aks: Trial) -> None:
    path = f"/api/v1/nodes/{aks.nodes('spare')[0]['metadata']['name']}"
    with _fault(aks, path, {"metadata": {"labels": {"nvidia.com/mig.config": "no-such-layout"}}}):
        aks.wait_until(lambda: _label(aks.get(path), "nvidia.com/mig.config.state") == "failed", "the layout to fail")
        assert "mig.config.state=failed" in _differing(aks, "spare")


# ---------------------------------------------------------------------- AKS: from one way of sharing to the next


@pytest.mark.parametrize(
    ("sharing", "advertised"),
    [
        pytest.param({"mps": {"replicas": 5}}, {"gpu": 5}, id="time-slicing to MPS"),
        pytest.param({"mig": {"layout": {"1g.10gb": 7}}}, {"gpu": 7}, id="MPS to MIG"),
        pytest.param(
            {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}, {"mig-3g.40gb": 1, "mig-2g.20gb": 2}, id="MIG to other MIG"
        ),
        pytest.param({"exclusive": {}}, {"gpu": 1}, id="MIG to none"),
        pytest.param({"timeSlicing": {"replicas": 3}}, {"gpu": 3}, id="none to time-slicing"),
    ],
)
def test_switching_keeps_the_pool_and_its_node(aks: Trial, sharing: dict[str, Any], advertised: dict[str, int]) -> None:
    before = _uids(aks)
    _share(aks, "chosen", sharing)
    assert not _replaced(aks.planned_steps())
    aks.up().ok()
    (node,) = aks.nodes("gpu")
    assert _gpus(node) == {f"nvidia.com/{name}": count for name, count in advertised.items()}
    assert _uids(aks) == before
    assert _keys(aks) == _keys_in_use(aks)
    layouts = aks.get(MIG_CONFIG_MAP)["data"]["config.yaml"]
    assert "all-disabled" in layouts
    for name in {_label(node, "nvidia.com/mig.config") for node in aks.nodes()} - {None}:
        assert f"{name}:" in layouts


def test_a_new_vm_size_is_shown_as_a_replacement(aks: Trial) -> None:
    text = aks.file.read_text(encoding="utf-8")

    def resize(config: dict[str, Any]) -> None:
        config["gpu-pools:pools"][0]["vmSize"] = "Standard_NC48ads_A100_v4"

    aks.edit(resize)
    assert {_type(step) for step in _replaced(aks.planned_steps())} == {"AgentPool"}
    assert "replace" in aks.preview().ok().out
    aks.write(text)
    assert aks.planned_steps() == []


def test_down_of_a_changed_and_protected_stack_leaves_nothing(aks: Trial) -> None:
    aks.edit(lambda config: config["gpu-pools:cluster"].update(protect=True))
    aks.up().ok()
    assert aks.engine("destroy", "--preview-only").code != 0, "the engine itself would refuse"
    assert "protection is taken off, in the sandbox only" in aks.down().ok().text
    assert aks.processes() == {}
    assert not aks.root.exists()


# ---------------------------------------------------------------------- Magnum


@ON_MAGNUM
def test_all_node_groups_come_up_although_the_driver_does_one_thing_at_a_time(magnum: Trial) -> None:
    groups = _groups(magnum)
    assert {name for name in groups if not name.startswith("default-")} == {"shared", "sliced", "served", "grows"}
    assert set(groups.values()) == {"CREATE_COMPLETE"}
    seen = magnum.status().ok()
    assert "gpu.shared 4" in seen.out


@ON_MAGNUM
def test_nodes_that_magnums_autoscaler_adds_are_shared_with_no_up(magnum: Trial) -> None:
    magnum.scale("grows", 3).ok()
    magnum.wait_until(lambda: len(magnum.nodes("grows")) == 3 and magnum.holds(), "3 nodes as declared")
    assert magnum.planned_steps() == []
    assert "unchanged" in magnum.up().ok().out
    assert len(magnum.nodes("grows")) == 3


@ON_MAGNUM
def test_sharing_changes_leave_node_groups_alone(magnum: Trial) -> None:
    before = _uids(magnum)
    _share(magnum, "shared", {"timeSlicing": {"replicas": 4, "renameByDefault": False}})
    _share(magnum, "sliced", {"mig": {"layout": {"1g.5gb": 7}}})
    steps = magnum.planned_steps()
    assert not _replaced(steps)
    kinds = {"ConfigMap", "ConfigMapPatch", "DaemonSet", "Release", "NodeFeatureRule", "Stack"}
    assert {_type(step) for step in steps if _custom(step)} <= kinds
    magnum.up().ok()
    assert _uids(magnum) == before
    assert _gpus(magnum.nodes("shared")[0]) == {"nvidia.com/gpu": 4}
    # All GPUs alike in equal slices: by default these are advertised as plain GPUs.
    assert _gpus(magnum.nodes("sliced")[0]) == {"nvidia.com/gpu": 7}
    _share(magnum, "shared", {"timeSlicing": {"replicas": 4, "renameByDefault": True}})
    magnum.up().ok()
    assert _gpus(magnum.nodes("shared")[0]) == {"nvidia.com/gpu.shared": 4}
    assert _uids(magnum) == before


@ON_MAGNUM
def test_node_groups_come_and_go_at_once(magnum: Trial) -> None:
    """Two go, two come, in the middle of the file: still one operation at a time."""

    def replace_flavor(config: dict[str, Any]) -> None:
        shared, _, _, grows = config["gpu-pools:pools"]
        new = {"flavor": "g2.5xlarge", "count": 1, "sharing": "whole"}
        config["gpu-pools:pools"] = [{"name": "first", **new}, shared, {"name": "middle", **new}, grows]

    kept = {uid for name, uid in _uids(magnum).items() if "shared" in name or "grows" in name}
    magnum.edit(replace_flavor)
    magnum.up().ok()
    groups = _groups(magnum)
    assert {name for name in groups if not name.startswith("default-")} == {"first", "shared", "middle", "grows"}
    assert set(groups.values()) <= WHOLE
    assert kept <= set(_uids(magnum).values())


@ON_MAGNUM
def test_node_groups_that_do_not_wait_for_each_other_fail(magnum: Trial, tmp_path: Path) -> None:
    """The control of the tests above: were this driver to take everything, the chain would prove nothing."""
    unchained = _two_groups(magnum, tmp_path / "unchained", chained=False)
    assert unchained.code != 0
    assert "is in an error state: The stack has an action in progress." in unchained.text
    chained = _two_groups(magnum, tmp_path / "chained", chained=True)
    chained.ok()
    assert set(_groups(magnum).values()) <= WHOLE


@ON_MAGNUM
def test_destroying_magnum_empties_the_cloud(magnum: Trial) -> None:
    assert all(magnum.magnum().values())
    magnum.engine("destroy", "--yes", "--skip-preview").ok()
    assert magnum.magnum() == {"templates": [], "clusters": [], "groups": []}
    assert magnum.clusters == []
    magnum.down().ok()
    assert magnum.processes() == {}
    assert not magnum.root.exists()


# ---------------------------------------------------------------------- helpers


class _Judged:
    """`python -m gpu_pools changes` on the change of a stack file since now, with a rule that demands protection."""

    def __init__(self, trial: Trial, folder: Path) -> None:
        self._trial = trial
        self._folder = folder
        (folder / "before.yaml").write_text(trial.file.read_text(encoding="utf-8"))
        (folder / "pods").write_text(json.dumps(trial.api().list("/api/v1/pods")))
        left = {"resource": "gpu-gpu-pool", "reason": "of other tests of this file", "until": "2999-01-01"}
        rule = {"enforcementLevel": "mandatory", "required": True, "exceptions": [left]}
        (folder / "levels.json").write_text(json.dumps({"pools-protected": rule}))

    def __call__(self) -> tuple[int, dict[str, Any]]:
        events, levels, before, pods, told = (
            str(self._folder / name) for name in ("events", "levels.json", "before.yaml", "pods", "told.json")
        )
        self._trial.run("preview", self._trial.stack, "--save", events, "--policies", levels).ok()
        code = main(["changes", events, "--before", before, "--after", str(self._trial.file), "--pods", pods, "--json", told])
        return code, read_json(self._folder / "told.json")


def _acknowledgement(resource: str, change: str) -> str:
    return f"  gpu-pools:acknowledged:\n    - {{resource: {resource}, change: {change}, reason: {_REASON}}}\n"


def _resources(trial: Trial) -> dict[str, Any]:
    state = trial.engine("stack", "export").ok().json()["deployment"]["resources"]
    return {one["urn"].rpartition("::")[2]: one for one in state}


def _protected(trial: Trial) -> set[str]:
    """What is protected where it is deployed."""
    return {name for name, one in _resources(trial).items() if one.get("protect")}


def _vm_size(trial: Trial, name: str) -> str:
    return str(_resources(trial)[name]["inputs"]["vmSize"])


def _share(trial: Trial, name: str, sharing: dict[str, Any]) -> None:
    trial.edit(lambda config: config["gpu-pools:sharing"].update({name: sharing}))


def _type(step: dict[str, Any]) -> str:
    """The last word of what a step is about, such as AgentPool."""
    return str(step["urn"].split("::")[2].rpartition(":")[2])


def _custom(step: dict[str, Any]) -> bool:
    """Whether a step is about something that exists outside of the engine's state."""
    return bool((step.get("newState") or step["oldState"]).get("custom"))


def _replaced(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps that would take something away that exists outside of the engine's state.

    Left out: keys that are named no more, and what only pools with MPS need, once there is none.
    """
    taken = [step for step in steps if _custom(step) and step["op"] not in {"update", "create"}]
    return [step for step in taken if not (step["op"] == "delete" and _may_go(step))]


def _may_go(step: dict[str, Any]) -> bool:
    name = step["urn"].rpartition("::")[2]
    return _type(step) == "ConfigMapPatch" or "-mps-signal-" in name or name.endswith("-rolled-out")


def _gpus(node: dict[str, Any]) -> dict[str, int]:
    found = node["status"]["allocatable"].items()
    return {name: int(value) for name, value in found if name.startswith("nvidia.com/") and int(value)}


def _label(node: dict[str, Any], name: str) -> str | None:
    value: str | None = node["metadata"]["labels"].get(name)
    return value


def _uids(trial: Trial) -> dict[str, str]:
    return {node["metadata"]["name"]: node["metadata"]["uid"] for node in trial.nodes()}


def _keys(trial: Trial) -> set[str]:
    return set(trial.get(CONFIG_MAP)["data"])


def _keys_in_use(trial: Trial) -> set[str]:
    """The keys that nodes name, that pools without nodes will name, and the default."""
    labels = {_label(node, CONFIG_LABEL) for node in trial.nodes()} | {pool.config_key for pool in trial.plan().pools}
    default = trial.get(POLICY)["spec"]["devicePlugin"]["config"]["default"]
    return {str(label) for label in labels - {None}} | {default}


def _pods(trial: Trial, app: str) -> dict[str, str]:
    """Pod -> uid."""
    found = trial.api().list(f"{PODS}?labelSelector=app%3D{app}")["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def _restart(trial: Trial, app: str) -> None:
    """`kubectl delete pod -l app=…`."""
    for name in _pods(trial, app):
        trial.api().delete(f"{PODS}/{name}")


@contextlib.contextmanager
def _fault(trial: Trial, path: str, patch: dict[str, Any], *, restart: bool = False) -> Iterator[None]:
    """Spoil an object as somebody with kubectl might, or the cloud where nobody else may, and mend it afterwards."""
    before, api = trial.get(path), trial.cloud_api()
    api.patch(path, patch)
    try:
        yield
    finally:
        live = api.patch(path, _old_values(patch, before))
        # The API server would remember this test as an owner of the fields, and keep them when the engine lets go.
        owners = {"managedFields": before["metadata"]["managedFields"]}
        api.replace(path, {**live, "metadata": {**live["metadata"], **owners}})
        if restart:
            _restart(trial, PLUGIN)
    trial.wait_until(trial.holds, "the nodes as declared again", 90)


def _old_values(patch: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that takes a merge patch back."""
    nested = {key: _old_values(value, before[key]) for key, value in patch.items() if isinstance(value, dict)}
    return {**{key: before.get(key) for key in patch}, **nested}


def _never(probe: Callable[[], bool], seconds: float = 4) -> None:
    """Look for a while that something does not happen; the machines look at everything several times a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not probe()
        time.sleep(0.2)


def _differing(trial: Trial, pool: str) -> str:
    """What status says of a pool's first node that differs; it must not be green."""
    seen = trial.status()
    assert seen.code == DIFFERS, seen.text
    lines = [line for line in seen.out.splitlines() if line.startswith(f"{pool} ") and not line.endswith(" ok")]
    assert lines, seen.out
    return lines[0]


def _groups(trial: Trial) -> dict[str, str]:
    """Node group -> Magnum's status."""
    return {group["name"]: group["status"] for group in trial.magnum()["groups"]}


def _two_groups(trial: Trial, folder: Path, *, chained: bool) -> Run:
    """Run a program of two node groups against the same service, and take back what it made."""
    (cluster_id,) = [cluster["uuid"] for cluster in trial.magnum()["clusters"]]
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: groups\nruntime: python\n")
    (folder / "__main__.py").write_text(
        textwrap.dedent(f"""
        import pulumi
        from pulumi_openstack import containerinfra

        def group(name, after):
            return containerinfra.NodeGroup(name, name=name, cluster_id={cluster_id!r}, flavor_id="g2.5xlarge",
                role="gpu", node_count=1, min_node_count=1, opts=pulumi.ResourceOptions(depends_on=after))

        one = group("one", [])
        two = group("two", [one] if {chained} else [])
        """)
    )
    engine = Engine(trial.sandbox, find_tools(Progress(), only={"pulumi", "helm"}), attached(trial.sandbox))
    backend = folder / "state"
    backend.mkdir()
    environment = {**engine.environment(), "PULUMI_BACKEND_URL": f"file://{backend}", "PWD": os.fspath(folder)}

    def pulumi(*arguments: str) -> Run:
        command = [str(engine.tools.pulumi), *arguments, "--stack", "test", "--non-interactive"]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=scaled(120)
        )
        return Run(" ".join(arguments), done.returncode, done.stdout, done.stderr, 0)

    pulumi("stack", "init").ok()
    outcome = pulumi("up", "--yes", "--skip-preview")
    pulumi("destroy", "--yes", "--skip-preview").ok()
    return outcome
