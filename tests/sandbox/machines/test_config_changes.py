"""What becomes of a node when its configuration changes: as on a real kubelet, with the real config-manager and by the rules.

The cases and their outcomes are those that were seen on a real kubelet 1.36 with config-manager v0.19 (there a volume follows
within a minute and the first wait is 10 s; here it is two to three seconds, and one).
"""

from __future__ import annotations

import os
import signal
import time
import urllib.parse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier.compare_node import compare_node
from gpu_pools.verifier.expectation import ConfigMapExpectation
from gpu_pools.verifier.findings import Findings
from gpu_pools.verifier.node import ConfigReading, NodeReader
from gpu_pools.verifier.reading import Unreadable
from sandbox.cluster import node_tools
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.machines.config_volumes import SYNC_SECONDS
from tests.sandbox.machines.site import OPERATOR, Site, install, running
from tests.sandbox.machines.test_daemon import A100, AKS, LAYOUTS, SKU, SPEC
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

pytestmark = pytest.mark.programs

PLUGIN, GFD = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"
MAP = f"/api/v1/namespaces/{OPERATOR}/configmaps/sharing"
ALL = {"exclusive": "version: v1", "by4": "", "by8": ""} | {
    f"by{count}": f"sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {count}}}]}}}}" for count in (4, 8)
}
OLD, BOTH, NEW = ("exclusive", "by4"), ("exclusive", "by4", "by8"), ("exclusive", "by8")
#: How long a kubelet takes at most to bring a change to a volume.
LONGEST = 1.5 * SYNC_SECONDS
#: What a node of a pool with the key by8 would have to be.
EXPECTED = nodes.healthy(*nodes.plan_and_pool({"timeSlicing": {"replicas": 8}}, count=2)).expected
assert EXPECTED.node is not None
EXPECTED = replace(EXPECTED, node=replace(EXPECTED.node, device_plugin_config=ConfigMapExpectation("sharing", "by8", "")))
#: How often a race may go the other way.
TRIES = 5
UNREAD = Unreadable("not looked at")
STUCK = "error creating symlink: symlink /available-configs/exclusive /config/config.yaml: file exists"


class Node(Site):
    """The one node of a cluster, and its configuration."""

    def hold(self, keys: tuple[str, ...]) -> None:
        """These keys are in the ConfigMap, and no others."""
        self.api.patch(MAP, {"data": {key: ALL[key] if key in keys else None for key in ALL}})

    def restarts(self) -> dict[str, int]:
        (pod,) = self.pods(PLUGIN)
        return {item["name"]: item["restartCount"] for item in pod["status"].get("containerStatuses", [])}

    def stuck(self) -> bool:
        return self.waiting(PLUGIN) == [STUCK]

    def told(self, *, seconds_ago: int) -> set[str]:
        """The causes that the verifier finds at the plugin's pod, the ConfigMap being so old."""
        found = NodeReader(_Reads(self), "gpu0").read(EXPECTED.node)  # type: ignore[arg-type]
        assert isinstance(found.config, ConfigReading)
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))
        findings = Findings()
        compare_node(EXPECTED, replace(found, config=replace(found.config, changed=written)), UNREAD, findings)
        return {one.cause.key for one in findings.differences if PLUGIN in one.where.subject}

    def renew(self) -> None:
        """Other pods of the plugin and of gpu-feature-discovery, which run."""
        before = {pod["metadata"]["uid"]: pod["metadata"]["name"] for app in (PLUGIN, GFD) for pod in self.pods(app)}
        for name in before.values():
            self.api.delete(f"/api/v1/namespaces/{OPERATOR}/pods/{name}", grace_seconds=0)
        self.until(lambda: all(self.runs_anew(app, before) for app in (PLUGIN, GFD)))

    def runs_anew(self, app: str, before: Container[str]) -> bool:
        pods = self.pods(app)
        return len(pods) == 1 and pods[0]["metadata"]["uid"] not in before and pods[0]["status"]["phase"] == "Running"


class _Reads:
    """The API as the verifier asks it, with an administrator's rights."""

    def __init__(self, site: Site) -> None:
        self._api = site.api

    def get(self, path: str, **query: str) -> Any:
        return self._api.list(path + (f"?{urllib.parse.urlencode(query)}" if query else ""))


@pytest.fixture(scope="module", params=["real", pytest.param("rules", marks=pytest.mark.sweep)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if request.param == "real" and node_tools.obstacle() is not None:
        pytest.skip(f"rules stand in here: {node_tools.obstacle()}")
    folder = tmp_path_factory.mktemp("machines")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "rules":
            patch.setenv(node_tools.NODE_PROGRAMS, "rules")
        with running(folder):
            here = Node(folder)
            put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
            put(folder, MachineGroup("gpu", "gpu", 1, A100, labels=AKS, taints=[SKU], driver_preinstalled=True))
            install(here.api, SPEC, {key: ALL[key] for key in OLD}, LAYOUTS)
            here.until(lambda: here.offered() == {"gpu": "2"})
            yield here


@pytest.fixture(autouse=True)
def shared_by_four(node: Node) -> None:
    """Each test starts with a node that shares by four, and pods that have just mounted what there is."""
    node.hold(OLD)
    node.share("by4")
    node.renew()
    node.until(lambda: node.offered() == {"gpu": "8"} and node.labels().get("nvidia.com/gpu.replicas") == "4")


@pytest.mark.sweep
def test_the_old_key_goes_as_the_label_moves_and_the_node_is_stuck(node: Node) -> None:
    """On the real node 8 of 11 were stuck; the others were healed by a race, when the volume came as the sidecar started."""
    for _ in range(TRIES):
        node.hold(NEW)
        node.share("by8")
        node.until(lambda: node.stuck() or node.offered() == {"gpu": "16"})
        if node.offered() != {"gpu": "16"}:
            break
        node.hold(OLD)
        node.share("by4")
        node.renew()
        node.until(lambda: node.offered() == {"gpu": "8"})
    time.sleep(LONGEST)
    # For an instant of each attempt the container runs; one that was healed never waits like this again.
    node.until(node.stuck)
    assert node.offered() == {"gpu": "8"}, "what the plugin serves stays as it was, while it lives"
    node.hold(BOTH)
    node.until(lambda: node.offered() == {"gpu": "16"} and node.waiting(PLUGIN) == [])


@pytest.mark.sweep
def test_to_wait_for_the_volume_does_not_help_when_the_old_key_is_gone(node: Node) -> None:
    node.hold(NEW)
    time.sleep(LONGEST + 0.5)
    node.share("by8")
    node.until(node.stuck)
    # The verifier is told of it as on a real node: by times.
    node.until(lambda: node.told(seconds_ago=120) == {"config-wedged"})
    assert node.told(seconds_ago=0) <= {"config-on-its-way"}
    node.renew()
    node.until(lambda: node.offered() == {"gpu": "16"} and node.waiting(PLUGIN) == [])


def test_the_old_key_stays_and_the_label_moves_at_once(node: Node) -> None:
    node.hold(BOTH)
    node.share("by8")
    node.until(lambda: node.offered() == {"gpu": "16"})
    time.sleep(LONGEST)
    assert node.offered() == {"gpu": "16"}
    # It waits one second after its first end, and the volume takes two to three: another start may come too early, too.
    assert node.restarts()["config-manager"] in {1, 2}


@pytest.mark.sweep
def test_the_old_key_stays_and_the_label_waits_for_the_volume(node: Node) -> None:
    node.hold(BOTH)
    time.sleep(LONGEST + 0.5)
    node.share("by8")
    node.until(lambda: node.offered() == {"gpu": "16"})
    assert node.restarts() == {"nvidia-device-plugin": 0, "config-manager": 0}


@pytest.mark.sweep
def test_a_label_before_its_key_takes_the_node_to_the_default_for_a_while(node: Node) -> None:
    node.share("by8")
    node.until(lambda: node.offered() == {"gpu": "2"})
    time.sleep(2)
    assert node.offered() == {"gpu": "2"}
    node.until(lambda: node.waiting(PLUGIN) == ["specified config by8 does not exist"])
    node.hold(BOTH)
    node.until(lambda: node.offered() == {"gpu": "16"})
    assert node.restarts()["config-manager"] >= 2


def test_a_stuck_node_offers_nothing_once_its_plugin_ends(node: Node) -> None:
    processes = plugins(node)
    if not processes:
        pytest.skip("no plugin runs where rules stand in")
    node.hold(NEW)
    node.share("by8")
    node.until(node.stuck)
    for process in processes:
        os.kill(process, signal.SIGKILL)
    node.until(lambda: node.offered() == {})
    node.until(lambda: any("open /config/config.yaml: no such file" in words for words in node.waiting(PLUGIN)))


def plugins(node: Node) -> list[int]:
    """The device plugins that run on the node."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_bytes().startswith(b"nvidia-device-plugin\0") and _of(path, node):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def _of(process: Path, node: Node) -> bool:
    environment: dict[bytes, Any] = dict(
        item.split(b"=", 1) for item in (process / "environ").read_bytes().split(b"\0") if b"=" in item
    )
    return str(node.folder).encode() in environment.get(b"PATH", b"")
