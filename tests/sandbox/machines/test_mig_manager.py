"""MIG changes that go wrong, as nvidia-mig-manager v0.15 leaves them; and the ways out of docs/runbooks/stuck-mig-change.md."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.machines.config_volumes import SYNC_SECONDS
from sandbox.machines.mig_manager import PATIENCE_SECONDS
from tests.sandbox.machines.site import OPERATOR, Site, install, running
from tests.sandbox.machines.test_daemon import A100, AKS, CONFIGS, LAYOUTS, SKU, SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.programs

PODS = f"/api/v1/namespaces/{OPERATOR}/pods"
LATER = "  later: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]\n"
CLIENTS = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm", "client")


class Node(Site):
    """The one node of a cluster, and its GPUs' layout."""

    def lay(self, layout: str | None) -> None:
        self.label(mig_config=layout)

    def state(self) -> str | None:
        return self.labels().get("nvidia.com/mig.config.state")

    def clients(self) -> set[str | None]:
        labels = self.labels()
        return {labels.get(f"nvidia.com/gpu.deploy.{client}") for client in CLIENTS}

    def mig_manager(self) -> dict[str, Any]:
        (pod,) = self.pods("nvidia-mig-manager")
        return pod

    def restart_mig_manager(self) -> None:
        before = self.mig_manager()["metadata"]
        self.api.delete(f"{PODS}/{before['name']}", grace_seconds=0)
        self.until(lambda: [pod["metadata"]["uid"] for pod in self.pods("nvidia-mig-manager")] not in ([], [before["uid"]]))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("machines")
    with running(folder):
        here = Node(folder)
        put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        put(folder, MachineGroup("gpu", "gpu", 1, A100, labels=AKS, taints=[SKU], driver_preinstalled=True))
        install(here.api, SPEC, CONFIGS, LAYOUTS)
        here.until(lambda: here.offered() == {"gpu": "2"} and here.state() == "success")
        yield here


@pytest.fixture(autouse=True)
def whole_again(node: Node) -> Iterator[None]:
    """Each test starts with whole GPUs and a mig-manager that has done nothing yet but look."""
    node.lay("all-disabled")
    node.share("mixed")
    # The first brings the layout back whatever was left, the second has not changed anything.
    for _ in range(2):
        node.restart_mig_manager()
        node.until(lambda: node.offered() == {"gpu": "2"} and node.state() == "success" and node.clients() == {"true"})
    yield
    node.api.patch(f"/api/v1/namespaces/{OPERATOR}/configmaps/layouts", {"data": {"config.yaml": LAYOUTS}})


@pytest.mark.sweep
def test_an_entry_that_comes_after_its_label_is_not_noticed_until_the_label_is_set_anew(node: Node) -> None:
    node.lay("later")
    node.until(lambda: node.state() == "failed")
    assert node.clients() == {"true"}, "nothing was paused"
    node.api.patch(f"/api/v1/namespaces/{OPERATOR}/configmaps/layouts", {"data": {"config.yaml": LAYOUTS + LATER}})
    time.sleep(1.5 * SYNC_SECONDS + 1)
    assert node.state() == "failed"
    node.lay(None)
    time.sleep(1)
    node.lay("later")
    node.until(lambda: node.offered() == {"mig-7g.80gb": "2"} and node.state() == "success")


def test_a_pod_that_uses_a_gpu_makes_the_change_fail_and_keeps_running(node: Node) -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [{"name": "main", "image": "x", **limits}], "tolerations": [{"operator": "Exists"}]}
    pods = "/api/v1/namespaces/default/pods"
    node.api.create(pods, {"metadata": {"name": "job"}, "spec": spec})
    node.until(lambda: (node.api.get(f"{pods}/job") or {})["status"]["phase"] == "Running")
    node.lay("seven")
    node.until(lambda: node.state() == "failed" and node.clients() == {"true"})
    assert (node.api.get(f"{pods}/job") or {})["status"]["phase"] == "Running"
    node.until(lambda: node.offered() == {"gpu": "2"})
    # The way out: the pod goes, and mig-manager starts anew.
    node.api.delete(f"{pods}/job", grace_seconds=0)
    node.restart_mig_manager()
    node.until(lambda: node.offered() == {"mig-1g.10gb": "14"} and node.state() == "success" and node.clients() == {"true"})


@pytest.mark.sweep
def test_a_change_that_fails_after_another_has_succeeded_leaves_the_clients_paused(node: Node) -> None:
    node.lay("mix")
    node.until(lambda: node.offered() == {"mig-3g.40gb": "2", "mig-2g.20gb": "4"} and node.state() == "success")
    node.lay("too-much")
    node.until(lambda: node.state() == "failed")
    node.until(lambda: node.offered() == {})
    assert node.clients() == {"paused-for-mig-change"}
    # Back to the layout before is a change like any other, and brings them back.
    node.lay("mix")
    node.until(lambda: node.offered() == {"mig-3g.40gb": "2", "mig-2g.20gb": "4"} and node.clients() == {"true"})


@pytest.mark.sweep
def test_a_client_that_does_not_go_leaves_the_change_pending_for_ever(node: Node) -> None:
    (plugin,) = node.pods("nvidia-device-plugin-daemonset")
    path = f"{PODS}/{plugin['metadata']['name']}"
    node.api.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
    node.lay("seven")
    node.until(lambda: node.state() == "pending")
    time.sleep(PATIENCE_SECONDS + 3)
    assert (node.state(), node.clients()) == ("pending", {"paused-for-mig-change"})
    # That the pod goes now changes nothing: mig-manager has given up. It has to start anew.
    node.api.patch(path, {"metadata": {"finalizers": None}})
    time.sleep(3)
    assert (node.state(), node.clients(), node.offered()) == ("pending", {"paused-for-mig-change"}, {})
    node.restart_mig_manager()
    node.until(lambda: node.offered() == {"mig-1g.10gb": "14"} and node.state() == "success" and node.clients() == {"true"})
