"""What becomes of a node that is to share by MPS: as with the real operator, which never tells its daemon of a label.

The real config-manager of each of its versions and the real mps-control-daemon run (k8s-device-plugin v0.17.4 and v0.19.0; of
v0.20.0 the one that GPU_POOLS_CONFIG_MANAGER names, or v0.19.0 where it behaves the same), in pods that the operator's asset
describes, and in pods whose process is named rightly. The same by rule.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster import node_tools
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.nvml import state
from tests.sandbox.machines.mps import MPS, clients, name_process_rightly
from tests.sandbox.machines.site import OPERATOR, Site, install, running
from tests.sandbox.machines.test_daemon import A100, AKS, LAYOUTS, SKU, SPEC
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.programs

CONFIGS = {"exclusive": "version: v1"} | {
    f"{kind}{count}": f"sharing: {{{name}: {{resources: [{{name: nvidia.com/gpu, replicas: {count}}}]}}}}"
    for kind, name, counts in (("mps", "mps", (4, 10)), ("ts", "timeSlicing", (4,)))
    for count in counts
}
IMAGE = {"repository": "nvcr.io/nvidia", "image": "k8s-device-plugin"}
#: Longer than the waits between two starts of config-manager at first, so that it has been at both keys.
LONG = 4.0


@dataclass(frozen=True)
class Case:
    """A cluster.

    Attributes:
        version: of the device plugin's image.
        named: whether the process that is signalled is named rightly.
        default: the key of nodes without a label.
        rules: whether rules stand in for the programs.
    """

    version: str
    named: bool = False
    default: str = "exclusive"
    rules: bool = False

    def __str__(self) -> str:
        words = (self.version, "named" if self.named else "asset", self.default, "rules" if self.rules else "real")
        return "-".join(words)

    @property
    def told(self) -> bool:
        """Whether a signal reaches the daemon."""
        return self.named and self.version == "v0.20.0"

    @property
    def waits(self) -> bool:
        """Whether the first choice is the label's."""
        return self.version == "v0.17.4"

    @property
    def code(self) -> int:
        """How config-manager ends where it cannot signal."""
        return 1 if self.version == "v0.20.0" else 2


class Node(Site):
    """The one node of a cluster."""

    @property
    def machine(self) -> Path:
        return self.folder / "machines" / "gpu0"

    def serves(self) -> int | None:
        return clients(self.machine)

    def manager(self) -> dict[str, Any]:
        """The status of config-manager in the daemon's pod."""
        found = [item for pod in self.pods(MPS) for item in pod["status"].get("containerStatuses", [])]
        return next((item for item in found if item["name"] == "config-manager"), {})

    def ends(self) -> tuple[int, bool]:
        """How often config-manager was started again, and whether it waits for that now."""
        found = self.manager()
        return found.get("restartCount", 0), "waiting" in found.get("state", {})

    def code(self) -> int:
        """The exit code of config-manager's last end."""
        found = self.manager()
        ended = found["state"].get("terminated") or found["lastState"]["terminated"]
        assert "message" not in ended, "the asset has no terminationMessagePolicy"
        code: int = ended["exitCode"]
        return code

    def up(self, before: str = "") -> bool:
        """Whether the daemon's pod is there, another one than before, and its containers have been started."""
        (pod,) = self.pods(MPS) or [{}]
        return bool(pod) and pod["metadata"]["uid"] != before and pod["status"].get("phase") == "Running"

    def renew(self) -> None:
        """Another pod of the daemon."""
        (pod,) = self.pods(MPS)
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.api.delete(f"/api/v1/namespaces/{OPERATOR}/pods/{name}", grace_seconds=0)
        self.until(lambda: self.up(uid))

    def programs(self) -> set[int]:
        """The processes of the daemon's container that are the daemon."""
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words, variables = ((path / name).read_bytes() for name in ("cmdline", "environ"))
            except OSError:
                continue
            if words == b"mps-control-daemon\0" and str(self.machine).encode() in variables:
                found.add(int(path.name))
        return found

    def kill_program(self) -> set[int]:
        """End the daemon's container alone; what was killed."""
        killed = self.programs()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        return killed

    def share_and_follow(self, key: str) -> None:
        self.share(key)
        self.until(self.up)


@pytest.fixture
def node(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    if case.rules:
        monkeypatch.setenv(node_tools.NODE_PROGRAMS, "rules")
    elif node_tools.obstacle() is not None:
        pytest.skip(f"rules stand in here: {node_tools.obstacle()}")
    with running(tmp_path):
        here = Node(tmp_path)
        if case.named:
            name_process_rightly(here.api)
        put(tmp_path, MachineGroup("system", "system", 1, Hardware(4, 16)))
        plugin = {
            **SPEC["devicePlugin"],
            **IMAGE,
            "version": case.version,
            "config": {"name": "sharing", "default": case.default},
        }
        put(tmp_path, MachineGroup("gpu", "gpu", 1, A100, labels=AKS, taints=[SKU], driver_preinstalled=True))
        install(here.api, {**SPEC, "devicePlugin": plugin}, CONFIGS, LAYOUTS)
        here.until(lambda: "nvidia.com/gpu.count" in here.labels())
        yield here


def cases(*fast: Case, **more: Any) -> list[Any]:
    every = [
        Case(version, named, rules=rules, **more) for rules in (False, True) for version in VERSIONS for named in (False, True)
    ]
    return [pytest.param(case, id=str(case), marks=() if case in fast else _left_out(case)) for case in every]


def _left_out(case: Case) -> list[pytest.MarkDecorator]:
    """By day the newest version is played, the others at night: the first one is built for that alone."""
    return [pytest.mark.sweep, *([at_night("an older version")] if case.version != VERSIONS[-1] else [])]


VERSIONS = ("v0.17.4", "v0.19.0", "v0.20.0")


@pytest.mark.parametrize("case", cases(Case("v0.20.0"), Case("v0.20.0", named=True)))
def test_a_daemon_serves_what_its_config_manager_lets_it_read(node: Node, case: Case) -> None:
    node.share_and_follow("mps10")
    first = 10 if case.told or case.waits else None
    settle(node, case, first, follows=case.told or case.waits)

    # Another key: the one who waits for the node has linked it when its sidecar starts again, and so is at peace.
    node.share_and_follow("mps4")
    settle(node, case, 4 if case.told else first, follows=case.told or case.waits)

    node.renew()
    settle(node, case, 4 if case.told or case.waits else None, follows=case.told or case.waits)

    if case.told or case.waits:
        if not case.rules:
            killed = node.kill_program()
            assert killed
            # That it serves nothing meanwhile may be over before a busy machine looks.
            node.until(lambda: (alive := node.programs()) and not alive & killed)
            node.until(lambda: node.serves() == 4)
        assert node.offered() == {"gpu": "8"}
    else:
        assert node.offered() == {}

    node.share("ts4")
    node.until(lambda: node.pods(MPS) == [] and node.offered() == {"gpu": "8"})
    node.until(lambda: node.serves() is None)
    if not case.rules:
        node.until(lambda: {gpu.compute_mode for gpu in state.read(node.machine / "state").gpus} == {0})


@pytest.mark.parametrize("case", cases(default="mps10"))
def test_the_key_of_nodes_without_a_label_is_what_a_daemon_reads(node: Node, case: Case) -> None:
    node.until(node.up)
    settle(node, case, 10, follows=True)
    node.share_and_follow("mps4")
    settle(node, case, 4 if case.told else 10, follows=case.told or case.waits)
    node.renew()
    settle(node, case, 4 if case.told or case.waits else 10, follows=case.told or case.waits)


BORN = (
    Case("v0.20.0", named=True),
    Case("v0.20.0"),
    Case("v0.17.4"),
    Case("v0.20.0", named=True, rules=True),
    Case("v0.17.4", rules=True),
)


@pytest.mark.parametrize("case", [pytest.param(case, id=str(case), marks=_left_out(case)) for case in BORN])
def test_nodes_of_two_pools_are_born_with_their_labels(node: Node, case: Case) -> None:
    for count in (4, 10):
        labels = {**AKS, "nvidia.com/device-plugin.config": f"mps{count}"}
        name = f"by{count}-"
        put(node.folder, MachineGroup(name, name, 1, A100, labels=labels, taints=[SKU], driver_preinstalled=True))
    served = {4: 4, 10: 10} if case.told or case.waits else {4: None, 10: None}
    offered = {count: {"gpu": str(2 * count)} if served[count] else {} for count in (4, 10)}

    def as_expected() -> bool:
        pods = all(node.pods(MPS, f"by{count}-0") for count in (4, 10))
        now = {count: clients(node.folder / "machines" / f"by{count}-0") for count in (4, 10)} if pods else {}
        return now == served and {count: node.offered(f"by{count}-0") for count in (4, 10)} == offered

    node.until(as_expected)
    time.sleep(LONG)
    assert as_expected(), node.story()
    # What ran ends, and starts again with what it had read.
    node.kill_daemon()
    node.boot()
    node.until(as_expected)
    time.sleep(LONG)
    assert as_expected(), node.story()


def settle(node: Node, case: Case, serves: int | None, *, follows: bool) -> None:
    """Wait until the daemon serves that, and config-manager is at peace, or has ended again and again."""
    node.until(lambda: node.serves() == serves)
    if follows:
        node.until(lambda: "running" in node.manager().get("state", {}))
        before = node.manager()["restartCount"]
        time.sleep(LONG)
        assert (node.serves(), node.manager()["restartCount"]) == (serves, before), node.story()
        return
    begun = node.manager().get("restartCount", 0)
    node.until(lambda: node.manager().get("restartCount", 0) >= begun + 2)
    node.until(lambda: not node.manager()["state"].get("running"))
    assert (node.serves(), node.code()) == (serves, case.code), node.story()
