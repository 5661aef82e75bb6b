"""`gpu-pools drift` on stacks that are up, through the real engine: nobody touched them, clouds did what they do, people did.

What it says that `up` would do is held against what the engine says that it would do after a refresh. The events of a stack
that nobody touched are not written down here: whatever the engine tells of it is the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_ids import network_id
from sandbox.openstack.magnum_api import MagnumApi
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.engine.trial import PROJECT
from tests.patience import scaled
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

AKS: Final = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    kubernetesVersion: "1.34"
    systemPool: {vmSize: Standard_D4s_v5, nodes: {min: 1, max: 3}}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: shared, labels: {team: ml}, taints: ["sku=gpu:NoSchedule"]}
    - {name: cheap, vmSize: Standard_NC4as_T4_v3, nodes: {min: 0, max: 2}, sharing: shared, spot: {}}
"""
MAGNUM: Final = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: magnum-cluster-api
    template: {image: ubuntu-24.04, externalNetwork: public, flavor: m2.large, networkDriver: calico, labels: {kube_tag: v1.36.3}}
    keypair: gpu-admin
    workerFlavor: m2.large
  gpu-pools:flavors:
    g2: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: steady, flavor: g2, count: 1, sharing: shared}
    - {name: grows, flavor: g2, nodes: {min: 1, max: 4}, sharing: shared}
"""
MORE: Final = at_night("more of the same command, half a minute each")
PLATFORM: Final = """
config:
  gpu-pools:cluster:
    platform: aks
    existing: {resourceGroup: platform-rg, name: platform}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: shared}
"""
EXISTING: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: sliced, nodeSelector: {example.com/pool: a}, gpuModel: a10-24gb, gpusPerNode: 1, sharing: shared}
"""
KEYS: Final = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-device-plugin"
LAYOUTS: Final = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-mig-parted"
BOTH: Final = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-mig-layouts"
SYSTEM_VERSION: Final = ("gpu-cluster", "agentPoolProfiles[system].orchestratorVersion")
NAMESPACE: Final = "/api/v1/namespaces/gpu-operator"
#: What the engine calls it -> what drift calls it.
UP: Final = {"update": "sets it back in place", "create": "makes it again"}


@dataclass(frozen=True)
class Found:
    """What drift says: (resource, property) -> what `up` would do; who wrote it; the rule."""

    run: Run
    drift: dict[tuple[str, str | None], str] = field(default_factory=dict)
    explained: dict[tuple[str, str | None], str] = field(default_factory=dict)
    unready: set[str] = field(default_factory=set)
    who: dict[tuple[str, str | None], str] = field(default_factory=dict)


def drift(trial: Trial) -> Found:
    run = trial.gpu_pools("drift", trial.stack, "--config-file", str(trial.sandbox.config_file), "--json", "-")
    told = json.loads(run.out) if run.out else {"drift": [], "notDrift": [], "warnings": []}

    def by_place(listed: list[Any], value: Callable[[Any], str]) -> dict[tuple[str, str | None], str]:
        return {(one["resource"]["name"], one["property"]): value(one) for one in listed}

    found = by_place(told["drift"], lambda one: str(one["upAfterRefresh"]))
    unready = {warning.partition(":")[0] for warning in told["warnings"] if "unhealthy" in warning}
    who = by_place(told["drift"], lambda one: str((one["who"] or {}).get("name")))
    return Found(run, found, by_place(told["notDrift"], lambda one: str(one["whose"]["rule"])), unready, who)


def after_a_refresh(trial: Trial, unready: set[str]) -> dict[str, str]:
    """Name of a resource -> what the engine would do to it; not of what it waits for anew, and of the cluster's list of pools."""
    steps = trial.engine("preview", "--refresh", "--json").ok().json()["steps"]
    done = {step["urn"].rpartition("::")[2]: step["op"] for step in steps if step["op"] not in {"same", "read", "refresh"}}
    return {name: op for name, op in done.items() if name not in {"gpu-cluster", *unready}}


def is_drift(trial: Trial, *places: tuple[str, str | None]) -> None:
    """Red for exactly these, with what `up` would then do as the engine says it; `up` without a refresh does nothing."""
    found = drift(trial)
    assert (found.run.code, set(found.drift)) == (1, set(places)), found.run.text
    wanted = {name: UP[op] for name, op in after_a_refresh(trial, found.unready).items()}
    assert {name: up for (name, _), up in found.drift.items()} == wanted
    assert trial.planned_steps() == []


def is_none(trial: Trial) -> Found:
    found = drift(trial)
    assert (found.run.code, found.drift) == (0, {}), found.run.text
    return found


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(AKS)
    made.up().ok()
    return made


@pytest.fixture
def azure(trial: Trial) -> Iterator[Azure]:
    made = Azure(trial)
    yield made
    made.put_back()
    is_none(trial)


class TestAks:
    """The job was red each night here: azure-native writes all pools into the cluster's inputs."""

    def test_nobody_touched_it(self, trial: Trial) -> None:
        assert is_none(trial).explained == {("gpu-cluster", "agentPoolProfiles"): "pools-of-the-stack"}
        refresh = trial.engine("refresh", "--preview-only", "--expect-no-changes")
        assert refresh.code != 0, "the engine alone is content now: is this command still needed?"

    def test_what_azure_does_by_itself(self, trial: Trial, azure: Azure) -> None:
        trial.scale("cheap", 2)
        azure.does_by_itself()
        assert is_none(trial).explained == {
            ("gpu-cluster", "agentPoolProfiles"): "pools-of-the-stack",
            ("gpu-cluster", "agentPoolProfiles[system].count"): "autoscaled-count",
            ("gpu-cheap-pool", "count"): "autoscaled-count",
            ("gpu-gpu-pool", "nodeTaints"): "own-labels-and-taints",
        }
        assert trial.planned_steps() == []
        trial.scale("cheap", 0)

    @pytest.mark.parametrize(
        ("pool", "change", "place"),
        [
            ("gpu", {"nodeLabels": {"team": "other"}}, "nodeLabels.team"),
            pytest.param("gpu", {"nodeTaints": ["sku=a100:NoSchedule"]}, "nodeTaints", marks=MORE),
            pytest.param("cheap", {"maxCount": 5}, "maxCount", marks=MORE),
            ("gpu", {"count": 2}, "count"),
        ],
    )
    def test_a_person_changes_a_pool(self, trial: Trial, azure: Azure, pool: str, change: dict[str, Any], place: str) -> None:
        azure.put(pool, **change)
        is_drift(trial, (f"gpu-{pool}-pool", place))

    def test_somebody_changes_a_key_of_the_config(self, trial: Trial) -> None:
        """Whoever wrote it owns the field, and the plugin takes none over for a single key."""
        before = trial.get(KEYS)["data"]
        (key,) = (key for key in before if key.startswith("exclusive"))
        _write(trial, KEYS, {"data": {key: "version: v1\n"}}, "kubectl-edit")
        found = drift(trial)
        place = (f"gpu-operator-config-{key}", f"data.{key}")
        assert found.drift == {place: "is refused, since the field is another's now"}
        assert found.who == {place: "kubectl-edit"}
        assert trial.planned_steps() == []
        refused = trial.engine("preview", "--refresh")
        assert refused.code != 0
        assert "Apply failed with 1 conflict" in refused.text
        _write(trial, KEYS, {"data": {key: before[key]}}, "kubectl-edit")
        is_none(trial)

    def test_somebody_changes_a_label(self, trial: Trial) -> None:
        """What kubectl has written the plugin takes over, in the deploy and not in its preview; from others it does not."""
        label = "pod-security.kubernetes.io/enforce"
        change = {"metadata": {"labels": {label: "baseline"}}}
        place = ("gpu-operator-namespace", f"metadata.labels[{label}]")
        for manager, refused in (("kubectl-edit", False), ("somebody", True)):
            _write(trial, NAMESPACE, change, manager)
            up = "is refused, since the field is another's now" if refused else "sets it back in place"
            found = drift(trial)
            assert (found.drift, found.who) == ({place: up}, {place: manager})
            done = trial.engine("up", "--refresh", "--yes", "--skip-preview")
            assert (done.code != 0, "Apply failed with 1 conflict" in done.text) == (refused, refused), done.text
        _write(trial, NAMESPACE, {"metadata": {"labels": {label: "privileged"}}}, "somebody")
        trial.engine("up", "--refresh", "--yes", "--skip-preview").ok()
        is_none(trial)

    def test_a_pool_that_another_stack_has_made(self, trial: Trial) -> None:
        cloud = AzureCloud(trial.folder)
        cloud.put_pool("small-rg", "small", "apps", {"vmSize": "Standard_D4s_v5", "count": 1, "mode": "User", "osType": "Linux"})
        assert is_none(trial).explained[("gpu-cluster", "agentPoolProfiles[apps]")] == "pools-of-others"
        cloud.delete_pool("small-rg", "small", "apps")

    def test_after_a_refresh_nothing_is_left_but_to_go_back(self, trial: Trial) -> None:
        trial.engine("refresh", "--yes", "--skip-preview").ok()
        is_none(trial)
        trial.scale("cheap", 1)
        is_none(trial)
        trial.scale("cheap", 0)
        trial.engine("up", "--yes", "--skip-preview").ok()
        assert is_none(trial).explained == {}, "Azure's answer is in the state now"

    def test_the_system_pool_follows_by_the_command(self, trial: Trial) -> None:
        """As the preview tells people to. From here on the stack is at this version."""
        trial.edit(lambda config: config["gpu-pools:cluster"].update(kubernetesVersion="1.35"))
        trial.engine("up", "--yes", "--skip-preview").ok()
        is_none(trial)
        Azure(trial).put("system", orchestratorVersion="1.35.0")
        assert is_none(trial).explained[SYSTEM_VERSION] == "version-not-declared"

    def test_a_person_deletes_and_upgrades_by_helm(self, trial: Trial) -> None:
        """What is not put back by hand: the next `up` does it, after a refresh."""
        trial.api().delete(LAYOUTS)
        _helm(
            trial,
            "upgrade",
            "gpu-operator",
            str(PROJECT / "sandbox" / "charts" / "gpu-operator"),
            "--reuse-values",
            "--set",
            "a=b",
        )
        AzureCloud(trial.folder).delete_pool("small-rg", "small", "cheap")
        is_drift(trial, ("gpu-operator-mig-parted", None), ("gpu-operator-release", "values.a"), ("gpu-cheap-pool", None))
        trial.engine("up", "--refresh", "--yes", "--skip-preview").ok()
        is_none(trial)

    def test_a_cluster_that_does_not_answer_is_not_green(self, trial: Trial) -> None:
        """The last one."""
        (server,) = (pid for pid, command in trial.processes().items() if "kube-apiserver" in command.split()[0])
        os.kill(server, signal.SIGKILL)
        found = drift(trial)
        assert found.run.code == 2
        assert "It cannot be told whether that is all" in found.run.err
        AzureCloud(trial.folder).delete_pool("small-rg", "small", "gpu")
        assert set(drift(trial).drift) == {("gpu-gpu-pool", None)}, "what was read is told"


class Azure:
    """People's and Azure's own hands on the pools of the cluster."""

    _ASKED: Final = (
        *("vmSize", "count", "mode", "osType", "osSKU", "type", "upgradeSettings", "nodeTaints", "nodeLabels", "gpuProfile"),
        *("orchestratorVersion", "enableAutoScaling", "minCount", "maxCount"),
        *("scaleSetPriority", "scaleSetEvictionPolicy", "spotMaxPrice", "tags"),
    )

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._cloud = AzureCloud(trial.folder)
        (cluster,) = [one for one in trial.exported()["resources"] if one["type"].endswith(":ManagedCluster")]
        self._cluster = str(cluster["id"])
        self._before = self._pools()

    def _pools(self) -> dict[str, dict[str, Any]]:
        found = self._cloud.get(self._cluster)
        assert found
        return {one["name"]: one for one in found["agentPoolProfiles"]}

    def put(self, pool: str, **change: Any) -> None:
        """As az does it: labels are merged by whoever calls it, the rest is what the pool has."""
        asked = {key: self._before[pool][key] for key in self._ASKED if key in self._before[pool]}
        if "nodeLabels" in change:
            change = {**change, "nodeLabels": {**asked["nodeLabels"], **change["nodeLabels"]}}
        self._cloud.put_pool("small-rg", "small", pool, {**asked, **change})

    def does_by_itself(self) -> None:
        """The autoscaler on the system pool, new node images, a taint of Azure's own, which nobody else may write."""
        self._cloud.scale("small", "system", 3)
        for pool in self._before:
            self._cloud.raise_image("small", pool, "AKSUbuntu-2204gen2containerd-202611.20.0")
        with self._cloud._records.change() as data:
            (pool,) = (one for one in data["pools"].values() if one["name"] == "gpu")
            pool["body"]["nodeTaints"].append("kubernetes.azure.com/scalesetpriority=spot:NoSchedule")

    def put_back(self) -> None:
        for name, pool in self._before.items():
            self.put(name)
            if self._pools()[name]["count"] != pool["count"]:
                self._cloud.scale("small", name, pool["count"])


def _write(trial: Trial, path: str, change: Any, manager: str) -> None:
    trial.api().patch(f"{path}?fieldManager={manager}", change)


def _helm(trial: Trial, *arguments: str) -> None:
    helm = find_tools(Progress(), only={"helm"}).helm
    (folder,) = trial.clusters
    command = [str(helm), *arguments, "--namespace", "gpu-operator", "--kubeconfig", str(folder / "kubeconfig")]
    subprocess.run(command, check=True, capture_output=True, timeout=scaled(120))


@at_night("three drivers, a cluster of its own for each")
def test_magnum(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(MAGNUM)
    trial.up().ok()
    is_none(trial)
    trial.scale("grows", 2).ok()
    assert is_none(trial).explained == {("gpu-grows-group", "nodeCount"): "ignored"}

    api, cluster = MagnumApi(trial.login()), trial.magnum()["clusters"][0]["uuid"]
    groups = {group["name"]: group["uuid"] for group in trial.magnum()["groups"]}
    api.update_group(f"{cluster}/{groups['grows']}", limits={"maxNodeCount": 9}, node_count=None)
    is_drift(trial, ("gpu-grows-group", "maxNodeCount"))
    api.delete_group(f"{cluster}/{groups['steady']}")
    is_drift(trial, ("gpu-grows-group", "maxNodeCount"), ("gpu-steady-group", None))


@at_night("drift of AKS is for the day")
def test_pools_in_an_aks_cluster_of_others(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(PLATFORM)
    trial.up().ok()
    assert is_none(trial).explained == {}
    cloud = AzureCloud(trial.folder)
    subnet = f"{network_id('platform-rg', 'platform-network')}/subnets/nodes"
    theirs = {"vmSize": "Standard_D4s_v5", "count": 1, "mode": "User", "osType": "Linux", "vnetSubnetID": subnet}
    cloud.put_pool("platform-rg", "platform", "more", theirs)
    assert is_none(trial).explained == {}
    cloud.delete_pool("platform-rg", "platform", "gpu")
    is_drift(trial, ("gpu-gpu-pool", None))


def test_an_existing_cluster(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(EXISTING)
    trial.up().ok()
    assert is_none(trial).explained == {}
    trial.api().delete(LAYOUTS)
    is_drift(trial, ("gpu-operator-mig-parted", None))
    # The stack makes this one, and reads it as a resource of its own.
    trial.api().delete(BOTH)
    assert drift(trial).drift == {
        ("gpu-operator-mig-parted", None): "makes it again",
        ("gpu-operator-mig-layouts", None): "makes it again",
        ("gpu-operator-mig-layouts-live", None): "reads it again, and fails where it is not there",
    }
    trial.engine("up", "--refresh", "--yes", "--skip-preview").ok()
    is_none(trial)
