"""nvidia-mig-manager, the stand-in and the real ones: what it writes, in which order, what it waits for, and how it goes wrong.

The stand-in is that of v0.15.0. Where v0.10.0, which is a Go module, does something else, the test says what. The ways out of
docs/runbooks/stuck-mig-change.md are tried here, too.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.machines.config_volumes import SYNC_SECONDS
from sandbox.machines.mig_manager import PATIENCE_SECONDS
from sandbox.nvml import simulated, state
from sandbox.system.files import read_json
from tests.conformance.reals import MIG_MANAGER_MODULE, STAND_IN
from tests.sandbox.machines.mig_managers import MigManager, program_or_skip
from tests.sandbox.machines.site import OPERATOR, Site, install, running, workload
from tests.sandbox.machines.test_daemon import A100, AKS, CONFIGS, LAYOUTS, SKU, SPEC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.programs

PODS: Final = f"/api/v1/namespaces/{OPERATOR}/pods"
NODE: Final = "/api/v1/nodes/gpu0"
SETS: Final = "/apis/apps/v1/namespaces/default/daemonsets"
MAPS: Final = f"/api/v1/namespaces/{OPERATOR}/configmaps"
LATER: Final = "  later: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
ONLY_LATER: Final = f"version: v1\nmig-configs:\n{LATER}"
ALSO_OFF: Final = "  also-off: [{devices: all, mig-enabled: false}]\n"
DEPLOY: Final = "nvidia.com/gpu.deploy."
STATE: Final = "nvidia.com/mig.config.state"
VALIDATOR: Final = "nvidia-operator-validator"
ANY: Final = {"operator": "Exists"}
#: The clients whose pods it waits for, of those that are on the node.
WAITED: Final = ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter")
#: Long enough for what must not happen.
WHILE: Final = 4.0
PAUSED: Final = "paused-for-mig-change"
#: Those that it stops whether they are there or not, and that of third parties.
CLIENTS: Final = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
ALL: Final = (*CLIENTS, "client")
SEVEN: Final = {"mig-1g.10gb": "14"}
MIX: Final = {"mig-3g.40gb": "2", "mig-2g.20gb": "4"}
WHOLE: Final = {"gpu": "2"}
#: Of a node through a change: (state, the clients' labels).
CHANGED: Final = [("pending", "on"), ("pending", "off"), ("pending", "on"), ("success", "on")]
#: Five minutes for a client that does not go: only `python -m tests.conformance mig-manager` waits for them.
PATIENT: Final = "GPU_POOLS_FIVE_MINUTES"
VERSIONS: Final = (STAND_IN, *(pytest.param(one, marks=pytest.mark.sweep) for one in (MIG_MANAGER_MODULE, "v0.15.0")))


class Node(Site):
    """The one node of a cluster, and its GPUs' layout."""

    version = STAND_IN
    layouts_changed = False

    @property
    def old(self) -> bool:
        return self.version == MIG_MANAGER_MODULE

    def lay(self, layout: str | None) -> None:
        self.label(mig_config=layout)

    def put_layouts(self, text: str | None) -> None:
        """Change the file of layouts; the stand-in sees it when its volume shows it."""
        self.layouts_changed = text != LAYOUTS
        self.api.patch(f"{MAPS}/layouts", {"data": {"config.yaml": text}})
        time.sleep(1.5 * SYNC_SECONDS + 1)

    def state(self) -> str | None:
        return self.labels().get(STATE)

    def clients(self, names: tuple[str, ...] = ALL) -> set[str | None]:
        labels = self.labels()
        return {labels.get(f"{DEPLOY}{client}") for client in names}

    def settled(self, offered: dict[str, str], state: str = "success") -> bool:
        return self.offered() == offered and self.state() == state and self.clients() == {"true"}

    def begin(self) -> tuple[str, tuple[str | None, str]]:
        """From here on, for `steps`: a version of the node, and what is on it."""
        found = self.node("gpu0")["metadata"]
        return found["resourceVersion"], _seen(found["labels"])

    def steps(self, begin: tuple[str, tuple[str | None, str]]) -> list[tuple[str | None, str]]:
        """What has become of the node since, in a watch that misses nothing."""
        mark = uuid.uuid4().hex
        self.api.patch(NODE, {"metadata": {"annotations": {"tests/mark": mark}}})
        version, before = begin
        seen = [before]
        for event in self.api.watch("/api/v1/nodes", version):
            metadata = event["object"]["metadata"]
            if event["type"] == "BOOKMARK" or metadata["name"] != "gpu0":
                continue
            if _seen(metadata["labels"]) != seen[-1]:
                seen.append(_seen(metadata["labels"]))
            if metadata.get("annotations", {}).get("tests/mark") == mark:
                break
        return seen[1:]

    def hold(self, app: str = "nvidia-device-plugin-daemonset") -> Callable[[], object]:
        """Keep a client's pod from going, until what is returned is called."""
        (pod,) = self.pods(app)
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self.api.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
        return lambda: self.api.patch(path, {"metadata": {"finalizers": None}})

    def use_gpu(self) -> Callable[[], object]:
        """A pod uses a GPU, until what is returned is called."""
        limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        spec = {"containers": [{"name": "main", "image": "x", **limits}], "tolerations": [{"operator": "Exists"}]}
        pods = "/api/v1/namespaces/default/pods"
        self.api.create(pods, {"metadata": {"name": "job"}, "spec": spec})
        self.until(lambda: (self.api.get(f"{pods}/job") or {})["status"]["phase"] == "Running")
        return lambda: self.api.delete(f"{pods}/job", grace_seconds=0)

    def restart_mig_manager(self) -> None:
        before = self.mig_manager()["metadata"]
        self.api.delete(f"{PODS}/{before['name']}", grace_seconds=0)
        self.until(lambda: [pod["metadata"]["uid"] for pod in self.pods("nvidia-mig-manager")] not in ([], [before["uid"]]))

    def mig_manager(self) -> dict[str, Any]:
        (pod,) = self.pods("nvidia-mig-manager")
        return pod

    @property
    def idle(self) -> bool:
        """Whether mig-manager has dealt with its label, as the daemon has written down."""
        run = read_json(self.folder / "machines" / "gpu0.json").get("mig") or {}
        uid = self.mig_manager()["metadata"]["uid"]
        return (run.get("pod"), run.get("target"), run.get("seen")) == (uid, None, self.labels().get("nvidia.com/mig.config"))

    def describe_end(self) -> str:
        """Of a mig-manager that has ended; empty while it runs."""
        return "".join(self.waiting("nvidia-mig-manager"))

    def whole_again(self) -> None:
        """Whole GPUs, all clients, and a mig-manager that has done nothing yet but look."""
        self.lay("all-disabled")
        self.share("mixed")
        self.api.patch(NODE, {"metadata": {"labels": {f"{DEPLOY}{client}": "true" for client in ALL}}})
        # The first brings the layout back whatever was left, the second has not changed anything.
        for _ in range(2):
            self.restart_mig_manager()
            self.until(lambda: self.settled(WHOLE) and self.idle)

    def story(self) -> str:
        return f"{super().story()}\n--- {self.version}"


def _seen(labels: dict[str, str]) -> tuple[str | None, str]:
    """(state, its clients: on, off, or the values of their labels)."""
    values = [labels.get(f"{DEPLOY}{client}", "-") for client in CLIENTS]
    return labels.get(STATE), {"true": "on", PAUSED: "off"}.get(values[0], values[0]) if len({*values}) == 1 else " ".join(values)


class NodeOfARealOne(Node):
    """The same; its mig-manager is real, and beside the pods that the daemon plays."""

    def manage(self, manager: MigManager, version: str) -> None:
        """From here on it is this one."""
        self._manager = manager
        self.version = version
        self.label(gpu_deploy_mig__manager="false")
        self.until(lambda: not self.pods("nvidia-mig-manager"))
        manager.config.write_text(LAYOUTS, encoding="utf-8")
        manager.start()

    def put_layouts(self, text: str | None) -> None:
        self.layouts_changed = text != LAYOUTS
        if text is None:
            self._manager.config.unlink()
        else:
            self._manager.config.write_text(text, encoding="utf-8")

    def use_gpu(self) -> Callable[[], object]:
        """NVML knows of it, as it would of a container's process."""
        goes, file = super().use_gpu(), self.folder / "machines" / "gpu0" / "state"

        def used_by(*processes: simulated.Process) -> None:
            state.change(file, lambda seen: replace(seen, gpus=(replace(seen.gpus[0], processes=processes), *seen.gpus[1:])))

        used_by(simulated.Process(os.getpid(), 100, "job"))
        return lambda: (used_by(), goes())

    def restart_mig_manager(self) -> None:
        self._manager.stop()
        self._manager.start()

    @property
    def idle(self) -> bool:
        return self._manager.idle

    def describe_end(self) -> str:
        return self._manager.log.read_text(errors="replace") if self._manager.ended else ""

    def story(self) -> str:
        return f"{super().story()}\n{self._manager.log.read_text(errors='replace')}"


@pytest.fixture(scope="module", params=VERSIONS)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    version = request.param
    folder = tmp_path_factory.mktemp("machines")
    program = None if version == STAND_IN else program_or_skip(version, folder)
    with running(folder):
        here = Node(folder) if version == STAND_IN else NodeOfARealOne(folder)
        put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        put(folder, MachineGroup("gpu", "gpu", 1, A100, labels=AKS, taints=[SKU], driver_preinstalled=True))
        install(here.api, SPEC, CONFIGS, LAYOUTS)
        here.until(lambda: here.settled(WHOLE))
        if program is None or not isinstance(here, NodeOfARealOne):
            yield here
            return
        manager = MigManager(folder, here.api, program)
        try:
            here.manage(manager, version)
            yield here
        finally:
            manager.close()


@pytest.fixture(autouse=True)
def whole_again(node: Node) -> Iterator[None]:
    node.whole_again()
    yield
    if node.layouts_changed:
        node.put_layouts(LAYOUTS)


# --- what it writes ---------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_a_change_pauses_the_clients_and_brings_them_back(node: Node) -> None:
    (validator,) = node.pods(VALIDATOR)
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.settled(SEVEN))
    assert node.steps(begin) == CHANGED
    node.until(lambda: validator["metadata"]["uid"] not in [pod["metadata"]["uid"] for pod in node.pods(VALIDATOR)])


@pytest.mark.sweep
def test_a_layout_that_holds_is_only_said(node: Node) -> None:
    validators = node.pods(VALIDATOR)
    node.put_layouts(LAYOUTS + ALSO_OFF)
    node.api.patch(NODE, {"metadata": {"labels": {STATE: None}}})
    begin = node.begin()
    node.lay("also-off")
    node.until(lambda: node.state() == "success")
    assert node.steps(begin) == [("success", "on")]
    assert [pod["metadata"]["uid"] for pod in node.pods(VALIDATOR)] == [pod["metadata"]["uid"] for pod in validators]


@pytest.mark.sweep
def test_a_layout_that_the_file_lacks_fails_before_anything_is_stopped(node: Node) -> None:
    begin = node.begin()
    node.lay("nobody-has-this")
    node.until(lambda: node.state() == "failed")
    assert node.steps(begin) == [("failed", "on")]


def test_a_pod_that_uses_a_gpu_makes_the_change_fail_and_keeps_running(node: Node) -> None:
    goes = node.use_gpu()
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.state() == "failed")
    # v0.10.0 forgets NVSM where a change fails.
    after = f"true true true true {PAUSED}" if node.old else "on"
    assert node.steps(begin) == [("pending", "on"), ("pending", "off"), ("pending", after), ("failed", after)]
    job = node.api.get("/api/v1/namespaces/default/pods/job") or {}
    assert job["status"]["phase"] == "Running"
    node.until(lambda: node.offered() == WHOLE)
    # The way out: the pod goes, and mig-manager starts anew.
    goes()
    node.restart_mig_manager()
    node.until(lambda: node.settled(SEVEN))


@pytest.mark.sweep
def test_a_client_that_somebody_has_switched_off_stays_off(node: Node) -> None:
    node.label(gpu_deploy_dcgm="false")
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.state() == "success" and node.offered() == SEVEN)
    paused, back = f"{PAUSED} {PAUSED} {PAUSED} false {PAUSED}", "true true true false true"
    assert node.steps(begin) == [("pending", back), ("pending", paused), ("pending", back), ("success", back)]


@pytest.mark.sweep
def test_a_change_that_fails_after_another_has_succeeded_leaves_the_clients_paused(node: Node) -> None:
    node.lay("mix")
    node.until(lambda: node.settled(MIX))
    begin = node.begin()
    node.lay("too-much")
    node.until(lambda: node.state() == "failed")
    if node.old:
        # Each change is a process of its own there, which remembers nothing.
        after = f"true true true true {PAUSED}"
        assert node.steps(begin) == [("pending", "on"), ("pending", "off"), ("pending", after), ("failed", after)]
        return
    assert node.steps(begin) == [("pending", "on"), ("pending", "off"), ("failed", "off")]
    node.until(lambda: node.offered() == {})
    # Back to the layout before is a change like any other, and brings them back.
    node.lay("mix")
    node.until(lambda: node.settled(MIX))


# --- what it waits for ------------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("app", WAITED)
def test_it_waits_for_the_pods_of_each_client(node: Node, app: str) -> None:
    free = node.hold(app)
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    time.sleep(WHILE)
    assert node.state() == "pending"
    free()
    node.until(lambda: node.settled(SEVEN))


@pytest.mark.sweep
def test_it_waits_for_third_parties_that_select_its_label(node: Node) -> None:
    """v0.10.0 knows none: they run on, on GPUs that change under them."""
    theirs = workload("DaemonSet", "theirs", "default", "x", nodeSelector={f"{DEPLOY}client": "true"}, tolerations=[ANY])
    node.api.create(SETS, theirs)
    node.until(lambda: node.pods("theirs"))
    free = node.hold("theirs")
    begin = node.begin()
    node.lay("seven")
    if not node.old:
        node.until(lambda: node.clients() == {PAUSED})
        time.sleep(WHILE)
        assert node.state() == "pending"
        free()
    node.until(lambda: node.settled(SEVEN))
    assert node.steps(begin) == CHANGED
    if node.old:
        free()
    node.api.delete(f"{SETS}/theirs")
    node.until(lambda: not node.pods("theirs"))


@pytest.mark.sweep
def test_it_deletes_the_validators_helpers_of_its_own_namespace_before_it_applies(node: Node) -> None:
    helpers = ("nvidia-cuda-validator", "nvidia-device-plugin-validator")
    places = [*((OPERATOR, app) for app in helpers), ("default", helpers[0])]
    for where, app in places:
        pod = {"containers": [{"name": "main", "image": "x"}], "nodeName": "gpu0", "tolerations": [ANY]}
        node.api.create(f"/api/v1/namespaces/{where}/pods", {"metadata": {"name": app, "labels": {"app": app}}, "spec": pod})
    free = node.hold()
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    time.sleep(1)
    assert [node.api.get(f"/api/v1/namespaces/{where}/pods/{app}") is None for where, app in places] == [False, False, False]
    free()
    node.until(lambda: node.settled(SEVEN))
    assert [node.api.get(f"/api/v1/namespaces/{where}/pods/{app}") is None for where, app in places] == [True, True, False]
    node.api.delete("/api/v1/namespaces/default/pods/nvidia-cuda-validator", grace_seconds=0)


@pytest.mark.sweep
def test_a_client_that_does_not_go_leaves_the_change_pending_for_ever(node: Node) -> None:
    """v0.10.0 goes on after five minutes, as if the client had gone."""
    if node.version != STAND_IN and not os.environ.get(PATIENT):
        pytest.skip(f"NOT tried against the real mig-manager, which waits five minutes: {PATIENT}=yes")
    patience = PATIENCE_SECONDS if node.version == STAND_IN else 300.0
    free = node.hold()
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    time.sleep(patience + 5)
    if node.old:
        node.until(lambda: node.state() == "success")
        assert node.steps(begin) == CHANGED
        free()
        return
    assert node.steps(begin) == [("pending", "on"), ("pending", "off")]
    # That the pod goes now changes nothing: mig-manager has given up. It has to start anew.
    free()
    time.sleep(WHILE)
    assert (node.state(), node.clients(), node.offered()) == ("pending", {PAUSED}, {})
    node.restart_mig_manager()
    node.until(lambda: node.settled(SEVEN))


# --- what it follows --------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_one_that_starts_anew_in_a_change_takes_it_up_from_the_beginning(node: Node) -> None:
    free = node.hold()
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    node.restart_mig_manager()
    time.sleep(2)
    assert node.state() == "pending"
    free()
    node.until(lambda: node.settled(SEVEN))
    assert node.steps(begin) == CHANGED


@pytest.mark.sweep
def test_of_labels_that_change_during_a_change_the_last_is_followed(node: Node) -> None:
    node.put_layouts(LAYOUTS + LATER)
    free = node.hold()
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    node.lay("mix")
    node.lay("later")
    free()
    node.until(lambda: node.settled({"mig-7g.80gb": "2"}))
    assert node.steps(begin) == [*CHANGED, *CHANGED]


@pytest.mark.sweep
def test_a_label_that_is_taken_away_and_comes_back_during_a_change_is_that_change(node: Node) -> None:
    free = node.hold()
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    node.lay(None)
    node.lay("seven")
    free()
    node.until(lambda: node.settled(SEVEN))
    time.sleep(WHILE)
    assert node.steps(begin) == CHANGED


@pytest.mark.sweep
def test_a_label_that_is_taken_away_during_a_change_is_a_layout_without_a_name(node: Node) -> None:
    """v0.10.0 looks for none: its script ends for want of a name."""
    free = node.hold()
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    node.lay(None)
    free()
    node.until(lambda: node.offered() == SEVEN and node.clients() == {"true"})
    node.until(lambda: node.state() == ("success" if node.old else "failed"))
    time.sleep(WHILE)
    assert node.steps(begin) == ([*CHANGED] if node.old else [*CHANGED, ("failed", "on")])


@pytest.mark.sweep
def test_the_file_is_read_at_each_step_and_a_layout_without_a_name_is_its_only_one(node: Node) -> None:
    free = node.hold()
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.clients(CLIENTS) == {PAUSED})
    node.put_layouts(ONLY_LATER)
    node.lay(None)
    free()
    if node.old:
        after = f"true true true true {PAUSED}"
        node.until(lambda: node.state() == "failed")
        time.sleep(WHILE)
        assert node.steps(begin) == [("pending", "on"), ("pending", "off"), ("pending", after), ("failed", after)]
        return
    node.until(lambda: node.settled({"mig-7g.80gb": "2"}))
    assert node.steps(begin) == [("pending", "on"), ("pending", "off"), ("pending", "on"), ("failed", "on"), *CHANGED]


@pytest.mark.sweep
def test_a_label_that_is_taken_away_is_nothing_and_that_it_comes_back_is_a_change(node: Node) -> None:
    node.lay(None)
    node.api.patch(NODE, {"metadata": {"labels": {STATE: None}}})
    time.sleep(WHILE)
    assert node.state() is None
    node.lay("all-disabled")
    node.until(lambda: node.state() == "success")


@pytest.mark.sweep
def test_an_entry_that_comes_after_its_label_is_not_noticed_until_the_label_is_set_anew(node: Node) -> None:
    node.lay("later")
    node.until(lambda: node.state() == "failed")
    node.put_layouts(LAYOUTS + LATER)
    time.sleep(WHILE)
    assert node.state() == "failed"
    node.lay(None)
    time.sleep(1)
    node.lay("later")
    node.until(lambda: node.settled({"mig-7g.80gb": "2"}))


@pytest.mark.sweep
def test_without_its_file_it_does_not_start(node: Node) -> None:
    """v0.10.0 does, and each change fails."""
    node.put_layouts(None)
    node.restart_mig_manager()
    if node.old:
        node.until(lambda: node.state() == "failed")
        assert not node.describe_end()
    else:
        node.until(lambda: "failed to read custom config" in node.describe_end())
        assert node.state() == "success"
    node.put_layouts(LAYOUTS)
    node.restart_mig_manager()
    node.until(lambda: node.state() == "success" and not node.describe_end())


@pytest.mark.sweep
def test_a_file_that_goes_while_it_runs_is_a_change_that_fails(node: Node) -> None:
    node.put_layouts(None)
    begin = node.begin()
    node.lay("seven")
    node.until(lambda: node.state() == "failed")
    assert node.steps(begin) == [("failed", "on")]
    assert not node.describe_end()
