"""The kubelets' stand-in deals with claims as a real kubelet does: the same driver, claims and pods on both, the same results.

The driver is one of the tests' own, which answers what it is told to and notes what it is asked. The scheduler is the real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.cluster import control_plane, gpu_host
from sandbox.cluster.api import Api
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.cluster.node_tools import find_platform_tools
from sandbox.real_node import allowed, node
from sandbox.real_node.place import Place
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import REAL_NODE
from tests.patience import scaled
from tests.sandbox.machines.dra_drivers import NAME, Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

REAL, SIMULATED = "real-0", "simulated0"
DRA: Final = "/apis/resource.k8s.io/v1"
PODS: Final = "/api/v1/namespaces/default/pods"
JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
CLAIMS: Final = f"{DRA}/namespaces/default/resourceclaims"
SLICES: Final = f"{DRA}/resourceslices"
CLASS, RESOURCE = "example", "example.com/gpu"
REQUEST: Final = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}
#: As long as a kubelet waits before it tries again.
RETRY_SECONDS: Final = 60.0


@dataclass
class Kubelet:
    """One node with the driver on it.

    Attributes:
        name: of the node.
        api: of its cluster.
        driver: on the node.
        made: the uids of claims, in the order in which they were named.
    """

    name: str
    api: Api
    driver: Driver
    made: list[str] = field(default_factory=list)

    def until(self, holds: Callable[[], object], what: str, seconds: float = RETRY_SECONDS) -> None:
        processes.wait_until(lambda: bool(holds()), timeout=scaled(seconds), what=f"{self.name}: {what}")

    def asked(self) -> list[tuple[str, list[int]]]:
        """What the driver was asked since, each claim by its place in `made`; the same request in a row counts once."""
        found: list[tuple[str, list[int]]] = []
        for method, uids in self.driver.asked:
            one = (method, sorted(self.made.index(uid) for uid in uids))
            found += [] if found[-1:] == [one] else [one]
        return found

    def publish(self) -> None:
        """What a driver publishes of itself."""
        pool = {"name": self.name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(2)]
        spec = {"driver": NAME, "nodeName": self.name, "pool": pool, "devices": devices}
        self.api.create(SLICES, {"metadata": {"name": self.name}, "spec": spec})

    def slices(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.api.list(SLICES)["items"] if item["spec"]["nodeName"] == self.name]

    def spec(self, **more: Any) -> dict[str, Any]:
        container = {"name": "main", "image": "busybox:1.37", "command": ["sh", "-c", "trap exit TERM; sleep 600 & wait"]}
        claimed = {"resources": {"claims": [{"name": "gpu"}]}} if more.get("resourceClaims") else {}
        where = {"kubernetes.io/hostname": self.name}
        return {"terminationGracePeriodSeconds": 5, "nodeSelector": where, "containers": [{**container, **claimed}], **more}

    def run(self, name: str, spec: dict[str, Any], phase: str = "Running") -> None:
        self.api.create(PODS, {"metadata": {"name": name}, "spec": spec})
        self.until(
            lambda: self.pod(name)["status"].get("phase") == phase and self.pod(name)["spec"].get("nodeName"), f"{name} {phase}"
        )

    def pod(self, name: str) -> dict[str, Any]:
        return self.api.get(f"{PODS}/{name}") or {"status": {}, "spec": {}, "metadata": {}}

    def states(self, name: str) -> list[dict[str, Any]]:
        return [one["state"] for one in self.pod(name)["status"].get("containerStatuses", [])]

    def claim(self, name: str) -> None:
        """A claim that pods name."""
        made = self.api.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": REQUEST}})
        self.made.append(made["metadata"]["uid"])

    def claims(self) -> list[dict[str, Any]]:
        """Those that somebody has made for pods of this node."""
        found = self.api.list(CLAIMS)["items"]
        pods = {pod["metadata"]["uid"] for pod in self.api.list(PODS)["items"] if pod["spec"].get("nodeName") == self.name}
        owners = {one["metadata"]["uid"]: one["metadata"].get("ownerReferences") or [{"uid": ""}] for one in found}
        return [one for one in found if owners[one["metadata"]["uid"]][0]["uid"] in pods]

    def note_claim(self) -> None:
        """The one claim that was made for a pod is named next."""
        [one] = self.claims()
        self.made.append(one["metadata"]["uid"])

    def delete(self, *names: str, grace: int | None = None) -> None:
        for name in names:
            self.api.delete(f"{PODS}/{name}", grace_seconds=grace)

    def until_gone(self, *names: str) -> None:
        self.until(lambda: not [name for name in names if self.api.get(f"{PODS}/{name}")], f"{names} are gone")

    def events(self, pod: str) -> set[str]:
        found = self.api.list("/api/v1/namespaces/default/events")["items"]
        mine = [one for one in found if one["involvedObject"].get("name") == pod and one["source"].get("component") == "kubelet"]
        return {one["message"] for one in mine if one["reason"] == "FailedPrepareDynamicResources"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A control plane with a simulated node and a real one."""
    if refused := allowed.obstacle() or gpu_host.obstacle():
        pytest.skip(f"the kubelets' stand-in was NOT compared with a kubelet: {refused}")
    progress = Progress()
    try:
        obtain(REAL_NODE, progress)
    except SandboxError as error:
        pytest.skip(f"the kubelets' stand-in was NOT compared with a kubelet: {error.message}")
    folder = tmp_path_factory.mktemp("k") / "c"
    hardware = Hardware(4, 16, "t4-16gb", "Tesla T4", 1)
    put(folder, MachineGroup("simulated", "simulated", 1, hardware, driver_preinstalled=True))
    try:
        control_plane.boot(folder, "kubelets", find_platform_tools(progress))
        node.up(Place(folder, REAL), progress)
        api = Api.at(folder / "kubeconfig")
        selectors = [{"cel": {"expression": f"device.driver == '{NAME}'"}}]
        api.create(
            f"{DRA}/deviceclasses",
            {"metadata": {"name": CLASS}, "spec": {"selectors": selectors, "extendedResourceName": RESOURCE}},
        )
        template = {"metadata": {"name": "template"}, "spec": {"spec": {"devices": REQUEST}}}
        api.create(f"{DRA}/namespaces/default/resourceclaimtemplates", template)
        yield folder
    finally:
        node.down_all(folder)
        control_plane.erase(folder)


def root_of(cluster: Path, name: str) -> Callable[[str], Path]:
    """Where paths below a node's /var/lib/kubelet are found."""
    if name == REAL:
        pid = int((Place(cluster, REAL).folder / "pid").read_text("ascii"))
        return lambda path: gpu_host.outside(pid, path)
    folder = cluster / "machines" / name
    processes.wait_until((folder / "plugins_registry").is_dir, timeout=scaled(60), what=f"{name} has its folders")
    return lambda path: folder / path.removeprefix("/var/lib/kubelet/")


@pytest.fixture(params=[SIMULATED, REAL])
def kubelet(cluster: Path, request: pytest.FixtureRequest) -> Iterator[Kubelet]:
    made = Kubelet(request.param, Api.at(cluster / "kubeconfig"), Driver(root_of(cluster, request.param), cdi=False).start())
    made.until(lambda: made.driver.told, "the driver is registered")
    if not made.slices():
        made.publish()
    yield made
    made.delete(*[pod["metadata"]["name"] for pod in made.api.list(PODS)["items"]])
    made.until(lambda: not made.api.list(PODS)["items"], "no pod is left")
    made.driver.stop()


def test_a_claim_of_a_template_lives_as_long_as_its_pod(kubelet: Kubelet) -> None:
    assert [(one.plugin_registered, one.error) for one in kubelet.driver.told] == [(True, "")]
    kubelet.run("pod", kubelet.spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "template"}]))
    kubelet.note_claim()
    kubelet.delete("pod")
    kubelet.until_gone("pod")
    assert kubelet.asked() == [("prepare", [0]), ("unprepare", [0])]


def test_an_extended_resource_is_a_claim_that_the_scheduler_makes(kubelet: Kubelet) -> None:
    spec = kubelet.spec()
    spec["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    kubelet.run("pod", spec)
    kubelet.note_claim()
    assert kubelet.pod("pod")["status"]["extendedResourceClaimStatus"]["requestMappings"][0]["resourceName"] == RESOURCE
    kubelet.delete("pod")
    kubelet.until_gone("pod")
    assert kubelet.asked() == [("prepare", [0]), ("unprepare", [0])]


def test_a_claim_of_two_pods_is_prepared_once_and_given_back_once(kubelet: Kubelet) -> None:
    kubelet.claim("shared")
    spec = kubelet.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    kubelet.run("one", spec)
    kubelet.run("two", spec)
    kubelet.delete("one")
    kubelet.until_gone("one")
    assert kubelet.asked() == [("prepare", [0])]
    kubelet.delete("two")
    kubelet.until_gone("two")
    kubelet.api.delete(f"{CLAIMS}/shared")
    assert kubelet.asked() == [("prepare", [0]), ("unprepare", [0])]


def test_a_pod_that_comes_to_its_end_has_given_its_claim_back_by_then(kubelet: Kubelet) -> None:
    kubelet.claim("ends")
    spec = kubelet.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "ends"}], restartPolicy="Never")
    spec["containers"][0]["command"] = ["sh", "-c", "sleep 1"]
    kubelet.api.create(JOBS, {"metadata": {"name": "job"}, "spec": {"template": {"spec": spec}, "backoffLimit": 0}})
    kubelet.until(
        lambda: [one["status"].get("phase") for one in kubelet.api.list(PODS)["items"]] == ["Succeeded"], "the job ends"
    )
    assert kubelet.asked() == [("prepare", [0]), ("unprepare", [0])]
    kubelet.api.delete(f"{JOBS}/job")
    kubelet.until(lambda: not kubelet.api.list(PODS)["items"], "the job is gone")
    kubelet.api.delete(f"{CLAIMS}/ends")
    assert kubelet.asked() == [("prepare", [0]), ("unprepare", [0])]


def test_a_pod_waits_with_the_driver_s_reason_and_starts_once_there_is_none(kubelet: Kubelet) -> None:
    kubelet.claim("refused")
    kubelet.driver.refused = {kubelet.made[0]: "no such device"}
    kubelet.run("pod", kubelet.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "refused"}]), "Pending")
    kubelet.until(lambda: kubelet.events("pod"), "the event")
    expected = (
        "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim refused: "
        "no such device"
    )
    assert kubelet.events("pod") == {expected}
    kubelet.until(lambda: kubelet.states("pod") == [{"waiting": {"reason": "ContainerCreating"}}], "the pod's status")
    kubelet.driver.refused = {}
    kubelet.until(lambda: kubelet.pod("pod")["status"]["phase"] == "Running", "the pod runs")
    # What a driver does not give back keeps the pod.
    kubelet.driver.refused = {kubelet.made[0]: "in use"}
    kubelet.delete("pod")
    kubelet.until(lambda: ("unprepare", [0]) in kubelet.asked(), "the driver is asked")
    assert kubelet.pod("pod")["status"]["phase"] == "Running"
    kubelet.driver.refused = {}
    kubelet.until_gone("pod")
    kubelet.api.delete(f"{CLAIMS}/refused")
    assert kubelet.asked() == [("prepare", [0]), ("unprepare", [0])]


def test_a_pod_that_is_removed_by_force_gives_its_claim_back(kubelet: Kubelet) -> None:
    kubelet.claim("forced")
    kubelet.run("pod", kubelet.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "forced"}]))
    kubelet.delete("pod", grace=0)
    kubelet.until_gone("pod")
    kubelet.until(lambda: ("unprepare", [0]) in kubelet.asked(), "the claim is given back", 90)
    kubelet.api.delete(f"{CLAIMS}/forced")


def test_the_slices_of_a_driver_that_is_gone_go_and_no_pod_of_its_starts(kubelet: Kubelet) -> None:
    kubelet.claim("kept")
    kubelet.run("kept", kubelet.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "kept"}]))
    kubelet.claim("late")
    kubelet.driver.stop()
    kubelet.run("late", kubelet.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "late"}]), "Pending")
    kubelet.until(lambda: kubelet.events("late"), "the event")
    expected = f"Failed to prepare dynamic resources: prepare dynamic resources: DRA driver {NAME} is not registered"
    assert kubelet.events("late") == {expected}
    kubelet.delete("kept")
    assert kubelet.slices()
    kubelet.until(lambda: not kubelet.slices(), "the slices are gone", 45)
    assert kubelet.pod("kept")["status"]["phase"] == "Running"
    kubelet.driver.start()
    kubelet.until_gone("kept")
    kubelet.until(lambda: kubelet.pod("late")["status"]["phase"] == "Running", "the pod runs")
    kubelet.delete("late")
    kubelet.until_gone("late")
    for name in ("kept", "late"):
        kubelet.api.delete(f"{CLAIMS}/{name}")
    assert sorted(kubelet.asked()) == [("prepare", [0]), ("prepare", [1]), ("unprepare", [0]), ("unprepare", [1])]


@pytest.mark.parametrize(("kind", "services"), [("Other", ("v1.DRAPlugin",)), ("DRAPlugin", ("1.0.0",))])
def test_what_is_no_driver_is_told_why(cluster: Path, kind: str, services: tuple[str, ...]) -> None:
    told = []
    for name in (SIMULATED, REAL):
        driver = Driver(root_of(cluster, name), kind, services).start()
        processes.wait_until(lambda: bool(driver.told), timeout=scaled(60), what=f"{name} answers")  # noqa: B023
        told.append((driver.told[0].plugin_registered, driver.told[0].error))
        driver.stop()
    assert told[0] == told[1]
    assert told[0][0] is False
