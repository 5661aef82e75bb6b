"""nfd-gc, the stand-in and the real one: whose NodeFeatures go, when, and with which rights.

The real one is built from NFD's Go module and runs as the account of the chart, beside the same cluster; the stand-in runs for a
pod in it. The real one's hour is some seconds here, by its own argument.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.system.files import write_atomic
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.conformance.reals import BOTH, REAL
from tests.granted import RBAC
from tests.sandbox.machines.accounts import kubeconfig_of
from tests.sandbox.machines.site import CHARTS, NFD, Site, install_nfd, running, workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

FEATURES: Final = "/apis/nfd.k8s-sigs.io/v1alpha1"
NODES: Final = "/api/v1/nodes"
ROLE: Final = f"{RBAC}/clusterroles/nfd-gc"
NAME: Final = "nfd.node.kubernetes.io/node-name"
#: As the chart grants them.
LISTS_NODES: Final = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
DELETES: Final = {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeatures"], "verbs": ["delete", "list"]}
TOPOLOGIES: Final = {
    "apiGroups": ["topology.node.k8s.io"], "resources": ["noderesourcetopologies"], "verbs": ["delete", "list"],
}  # fmt: skip
#: An hour for all that a test waits for.
LONG: Final = "1h"
SHORT: Final = "4s"


class Collected(Site):
    """A cluster in which NodeFeatures are collected, where a test says so."""

    def start(self, interval: str) -> None:
        """Let it run; returns when it has looked for the first time."""
        self.feature("seen", "nobody")
        self._run(interval)
        self.until(lambda: "seen" not in self.features(), seconds=20)

    def _run(self, interval: str) -> None:
        collector = workload("Deployment", "nfd-gc", NFD, "nfd-gc", serviceAccountName="nfd-gc")
        collector["spec"]["template"]["spec"]["containers"][0]["args"] = [f"-gc-interval={interval}"]
        self.api.create(f"/apis/apps/v1/namespaces/{NFD}/deployments", collector)

    def stop(self) -> None:
        self.api.delete(f"/apis/apps/v1/namespaces/{NFD}/deployments/nfd-gc")
        self.until(lambda: not [pod for pod in self.api.list("/api/v1/pods")["items"] if "nfd-gc" in pod["metadata"]["name"]])

    def grant(self, *rules: dict[str, Any]) -> None:
        self.api.patch(ROLE, {"rules": list(rules)})

    def feature(self, name: str, node: str | None, where: str = NFD) -> None:
        labels = {} if node is None else {NAME: node}
        body = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "spec": {}}
        self.api.create(f"{FEATURES}/namespaces/{where}/nodefeatures", {**body, "metadata": {"name": name, "labels": labels}})

    def features(self) -> set[str]:
        return {one["metadata"]["name"] for one in self.api.list(f"{FEATURES}/nodefeatures")["items"]}

    def add_node(self, name: str) -> None:
        self.api.create(NODES, {"metadata": {"name": name}})
        # The daemon does not see a node that comes and goes between two of its passes.
        time.sleep(1)


class CollectedByTheRealOne(Collected):
    """The same, by the real nfd-gc."""

    program: Path
    _process: subprocess.Popen[bytes] | None = None

    def _run(self, interval: str) -> None:
        place = self.folder / "nfd-gc"
        place.mkdir(exist_ok=True)
        write_atomic(place / "kubeconfig", kubeconfig_of(self.folder, self.api, NFD, "nfd-gc"))
        # Its health and metrics server would listen on every address; with a port that cannot be it goes on without one.
        argv = [self.program, f"-gc-interval={interval}", f"-kubeconfig={place / 'kubeconfig'}", "-port=-1"]
        with (place / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env={"NO_PROXY": "127.0.0.1"})

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None


@pytest.fixture(scope="module", params=BOTH)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    folder = tmp_path_factory.mktemp("collected")
    if request.param == REAL:
        CollectedByTheRealOne.program = find_built("nfd-gc", Progress()) / "nfd-gc"
    with running(folder):
        here = CollectedByTheRealOne(folder) if request.param == REAL else Collected(folder)
        put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        install_nfd(here.api)
        here.api.create(f"/api/v1/namespaces/{NFD}/serviceaccounts", {"metadata": {"name": "nfd-gc"}})
        here.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "nfd-gc"}, "rules": []})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nfd-gc"}
        subjects = [{"kind": "ServiceAccount", "name": "nfd-gc", "namespace": NFD}]
        binding = {"metadata": {"name": "nfd-gc"}, "roleRef": reference, "subjects": subjects}
        here.api.create(f"{RBAC}/clusterrolebindings", binding)
        # Definitions take a moment; when they are there a worker has published, and its master has labelled the node.
        here.until(lambda: any(key.startswith("feature.node.") for key in here.labels("system0")), seconds=120)
        yield here


@pytest.fixture(autouse=True)
def as_before(site: Collected) -> Iterator[None]:
    site.grant(LISTS_NODES, DELETES, TOPOLOGIES)
    yield
    site.stop()
    for one in site.api.list(f"{FEATURES}/nodefeatures")["items"]:
        if one["metadata"]["name"] != "system0":
            where = one["metadata"]["namespace"]
            site.api.delete(f"{FEATURES}/namespaces/{where}/nodefeatures/{one['metadata']['name']}")


def test_a_node_takes_its_features_along_in_every_namespace_and_no_others(site: Collected) -> None:
    site.start(LONG)
    site.add_node("goes")
    for name, node, where in (("mine", "goes", NFD), ("elsewhere", "goes", "default"), ("goes", "stays", NFD)):
        site.feature(name, node, where)
    site.api.delete(f"{NODES}/goes")
    site.until(lambda: not {"mine", "elsewhere"} & site.features(), seconds=10)
    # One of that very name, which is another node's; and one of a node that is there.
    assert {"goes", "system0"} <= site.features()


def test_what_names_a_node_that_never_was_stays_until_the_next_look(site: Collected) -> None:
    site.start(LONG)
    site.feature("stale", "never-was")
    site.feature("nameless", None)
    time.sleep(5)
    assert {"stale", "nameless"} <= site.features()
    site.stop()
    # It looks when it starts.
    site.start(LONG)
    site.until(lambda: not {"stale", "nameless"} & site.features(), seconds=10)
    assert "system0" in site.features()


def test_it_looks_again_at_its_interval(site: Collected) -> None:
    site.start(SHORT)
    site.feature("stale", "never-was")
    time.sleep(1)
    site.until(lambda: "stale" not in site.features(), seconds=10)


def test_features_that_come_after_their_node_has_gone_stay(site: Collected) -> None:
    """A worker's last look may be later than its node's end."""
    site.start(LONG)
    site.add_node("gone")
    site.feature("early", "gone")
    site.api.delete(f"{NODES}/gone")
    site.until(lambda: "early" not in site.features(), seconds=10)
    site.feature("late", "gone")
    time.sleep(4)
    assert "late" in site.features()


def test_while_nobody_runs_nothing_is_collected(site: Collected) -> None:
    site.add_node("alone")
    site.feature("left", "alone")
    site.api.delete(f"{NODES}/alone")
    time.sleep(4)
    assert "left" in site.features()
    site.start(LONG)
    site.until(lambda: "left" not in site.features(), seconds=10)


def test_without_the_right_to_list_nodes_it_never_begins(site: Collected) -> None:
    site.grant(DELETES, TOPOLOGIES)
    site.feature("stale", "never-was")
    site._run(LONG)
    time.sleep(5)
    assert "stale" in site.features()
    site.grant(LISTS_NODES, DELETES, TOPOLOGIES)
    site.until(lambda: "stale" not in site.features(), seconds=60)


def test_without_the_right_to_delete_it_goes_on_and_tries_at_the_next_look(site: Collected) -> None:
    site.start(SHORT)
    site.grant(LISTS_NODES, {**DELETES, "verbs": ["list"]}, TOPOLOGIES)
    time.sleep(1)
    site.add_node("goes")
    site.feature("kept", "goes")
    site.api.delete(f"{NODES}/goes")
    time.sleep(5)
    assert "kept" in site.features()
    site.grant(LISTS_NODES, DELETES, TOPOLOGIES)
    site.until(lambda: "kept" not in site.features(), seconds=15)


def test_the_rights_are_the_charts() -> None:
    """What is granted here is what the chart of the sandbox grants; tests/conformance/test_charts.py compares that with NFD's."""
    text = (CHARTS / NFD / "templates" / "rbac.yaml").read_text(encoding="utf-8")
    for rule in (LISTS_NODES, DELETES, TOPOLOGIES):
        words = " ".join(f'"{verb}"' for verb in rule["verbs"])
        (resource,) = rule["resources"]
        assert f'(list "{resource}") "verbs" (list {words})' in text
