"""The real nfd-worker on simulated machines: what it sees reaches nodes through the real nfd-master, with its pod's rights."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.nvml import state
from tests.granted import RBAC
from tests.sandbox.machines.site import NFD, WORKER_RULES, Site, install_nfd, running, workload

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.programs

FEATURE = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NFD}/nodefeatures/gpu0"
ROLE = f"{RBAC}/namespaces/{NFD}/roles/nfd-worker"
SETS = f"/apis/apps/v1/namespaces/{NFD}/daemonsets"
PCI = "feature.node.kubernetes.io/pci-10de.present"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("worker")
    with running(folder) as here:
        put(folder, MachineGroup("system", "system", 1, Hardware(4, 16)))
        put(folder, MachineGroup("gpu", "gpu", 1, Hardware(4, 16, "t4-16gb", "Tesla T4", 1), driver_preinstalled=True))
        install_nfd(here.api)
        here.until(lambda: PCI in here.labels() and ready(here))
        yield here


def feature(site: Site) -> dict[str, Any]:
    return site.api.get(FEATURE) or {"metadata": {}, "spec": {"features": {"attributes": {}}, "labels": {}}}


def local(site: Site) -> dict[str, str]:
    found: dict[str, str] = feature(site)["spec"]["features"]["attributes"].get("local.feature", {}).get("elements", {})
    return found


def status(site: Site) -> dict[str, Any]:
    (pod,) = site.pods("nfd-worker")
    found: dict[str, Any] = pod["status"]["containerStatuses"][0]
    return found


def ready(site: Site) -> bool:
    return bool(site.pods("nfd-worker")) and bool(status(site)["ready"])


def declare_pool(site: Site, pool: str) -> None:
    """As the labeller's DaemonSet does it."""
    wanted = workload("DaemonSet", "labeller", NFD, "sh", env=[{"name": "GPU_POOLS_POOL", "value": pool}])
    wanted["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] = "gpu-pools-marker"
    site.api.delete(f"{SETS}/labeller")
    site.until(lambda: not site.pods("labeller"))
    site.api.create(SETS, wanted)


@contextmanager
def killed_at_sight(machine_folder: Path) -> Iterator[list[int]]:
    """Kill the next nfd-worker of a machine, as soon as it is seen."""
    killed: list[int] = []
    over = threading.Event()

    def hunt() -> None:
        while not killed and not over.is_set():
            for entry in Path("/proc").iterdir():
                with suppress(OSError):
                    runs = entry.name.isdigit() and (entry / "comm").read_text() == "nfd-worker\n"
                    if runs and machine_folder in (entry / "cwd").readlink().parents:
                        os.kill(int(entry.name), signal.SIGKILL)
                        killed.append(int(entry.name))
                        return

    hunter = threading.Thread(target=hunt)
    hunter.start()
    try:
        yield killed
    finally:
        over.set()
        hunter.join()


def test_what_it_sees_reaches_the_node_and_goes_with_its_pod(site: Site) -> None:
    labels = site.labels()
    assert labels["feature.node.kubernetes.io/system-os_release.ID"] == "ubuntu"
    assert "feature.node.kubernetes.io/cpu-model.vendor_id" in labels
    assert PCI not in site.labels("system0")
    metadata = feature(site)["metadata"]
    assert metadata["annotations"] == {"nfd.node.kubernetes.io/worker.version": "v0.18.3"}
    assert [owner["kind"] for owner in metadata["ownerReferences"]] == ["DaemonSet", "Pod"]
    # Its own account has written it, not the administrator.
    (writer,) = {entry["manager"] for entry in metadata["managedFields"]}
    assert writer == "nfd-worker"


def test_the_labellers_file_is_picked_up_at_once(site: Site) -> None:
    declare_pool(site, "nb")
    site.until(lambda: local(site) == {"gpu-pools/pool": "nb"}, seconds=30)
    assert "gpu-pools/pool" not in site.labels()


@pytest.mark.sweep
def test_what_others_change_is_put_back_within_a_minute(site: Site) -> None:
    site.api.patch(FEATURE, {"spec": {"labels": {"by": "hand"}}})
    site.until(lambda: "by" not in feature(site)["spec"]["labels"], seconds=90)


def test_a_gpu_that_is_gone_takes_its_label_with_it(site: Site) -> None:
    file = site.folder / "machines" / "gpu0" / "state"
    if not file.exists():
        pytest.skip("NOT tried: rules stand in for NVML here, and nothing says that a GPU is gone")
    before = state.read(file)
    state.change(file, lambda machine: replace(machine, gpus=()))
    site.until(lambda: PCI not in site.labels())
    state.change(file, lambda machine: replace(machine, gpus=before.gpus))
    site.until(lambda: PCI in site.labels())


def test_one_that_is_killed_while_it_looks_leaves_what_there_was_and_looks_again(site: Site) -> None:
    before = status(site)["restartCount"]
    with killed_at_sight(site.folder / "machines" / "gpu0") as killed:
        # A look takes a twentieth of a second: where this machine is busy it may be over before the killer sees it.
        for number in itertools.count():
            pool = f"killed{number}"
            declare_pool(site, pool)
            site.until(lambda pool=pool: killed or local(site) == {"gpu-pools/pool": pool})  # type: ignore[misc]
            if killed:
                break
    site.until(lambda: status(site)["restartCount"] > before and local(site) == {"gpu-pools/pool": pool})
    site.until(lambda: ready(site))


def test_without_its_rights_it_crashes_and_says_why(site: Site) -> None:
    def words() -> str:
        return "\n".join(site.waiting("nfd-worker"))

    site.api.patch(ROLE, {"rules": WORKER_RULES[1:]})
    declare_pool(site, "late")
    site.until(lambda: "is forbidden" in words())
    assert "system:serviceaccount:node-feature-discovery:default" in words()
    assert local(site) != {"gpu-pools/pool": "late"}
    assert PCI in site.labels()
    site.api.patch(ROLE, {"rules": WORKER_RULES})
    site.until(lambda: local(site) == {"gpu-pools/pool": "late"} and ready(site))
