"""NVIDIA's own DRA driver on simulated machines: its real chart, real scheduler, and the stand-in of the kubelet between them.

One cluster with an H100 node that is exclusive, one that is shared by four, and one that is partitioned. Pods ask for
`nvidia.com/gpu` as with a device plugin.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.cluster.gpu_host import obstacle
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from sandbox.nvml import simulated, state
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built, find_tools
from tests.sandbox.machines.site import Site, running
from tests.sandbox.used_ports import KNOWN, ports_of
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

WHERE, RELEASE = "dra-driver-nvidia-gpu", "dra"
SETS: Final = f"/apis/apps/v1/namespaces/{WHERE}/daemonsets"
PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
DRA: Final = "/apis/resource.k8s.io/v1"
PODS: Final = "/api/v1/namespaces/default/pods"
CLAIMS: Final = f"{DRA}/namespaces/default/resourceclaims"
GPU, PART = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
HARDWARE: Final = Hardware(32, 256, "h100-80gb", "NVIDIA H100 80GB HBM3", 2)
NODES: Final = ("whole", "shared", "parted")
LAYOUT: Final = (("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4))
GPUS_AND_PARTS: Final = 4


def partition(path: Path, layout: Sequence[tuple[str, int]] = LAYOUT) -> None:
    """Have the first GPU of a machine partitioned, and the second not."""

    def parted(machine: simulated.Machine) -> simulated.Machine:
        first, *others = machine.gpus
        return replace(machine, gpus=(simulated.partitioned(first, layout), *others))

    state.change(path, parted)


def install_chart(site: Site) -> None:
    helm = find_tools(Progress(), only={"helm"}).helm
    chart = find_built("dra-driver-chart", Progress()) / "dra-driver-nvidia-gpu"
    values = "gpuResourcesEnabledOverride=true,resources.computeDomains.enabled=false,kubeletPlugin.nodeSelector.plain=yes"
    command = [helm, "install", RELEASE, chart, "--namespace", WHERE, "--create-namespace", "--set", values]
    command += ["--kubeconfig", site.folder / "kubeconfig"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def add_shares(site: Site, shares: str) -> None:
    """A DaemonSet of one's own with the chart's container, for the nodes that share their GPUs."""
    of_chart = site.api.get(f"{SETS}/{PLUGIN}")
    assert of_chart is not None
    template = of_chart["spec"]["template"]
    template["metadata"]["labels"] = {"app": "shares"}
    template["spec"]["nodeSelector"] = {"shares": "yes"}
    [container] = template["spec"]["containers"]
    container["env"] += [
        {"name": "FEATURE_GATES", "value": "ConsumableShares=true"},
        {"name": "CONSUMABLE_SHARES", "value": shares},
    ]
    spec = {"selector": {"matchLabels": {"app": "shares"}}, "template": template}
    site.api.create(SETS, {"metadata": {"name": "shares"}, "spec": spec})


def add_class(site: Site) -> None:
    """A class of one profile, with the device plugin's name for it."""
    attributes = "device.attributes['gpu.nvidia.com']"
    expression = f"device.driver == 'gpu.nvidia.com' && {attributes}.type == 'mig' && {attributes}.profile == '1g.10gb'"
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": PART}
    site.api.create(f"{DRA}/deviceclasses", {"metadata": {"name": "mig-1g-10gb"}, "spec": spec})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if refused := obstacle():
        pytest.skip(f"NVIDIA's DRA driver was NOT run: no simulated GPU node can be made here: {refused}")
    folder = tmp_path_factory.mktemp("dra")
    with running(folder) as here:
        for node in NODES:
            labels = {"nvidia.com/gpu.present": "true", "shares" if node == "shared" else "plain": "yes"}
            put(folder, MachineGroup(node, node, 1, HARDWARE, labels=labels, driver_preinstalled=True))
        states = {node: folder / "machines" / f"{node}0" / "state" for node in NODES}
        here.until(lambda: all(path.exists() for path in states.values()))
        partition(states["parted"])
        install_chart(here)
        add_shares(here, "4")
        add_class(here)
        here.until(lambda: all(devices(here, node) for node in NODES))
        yield here


def devices(site: Site, node: str) -> dict[str, dict[str, Any]]:
    """The devices that a node has published."""
    slices = site.api.list(f"{DRA}/resourceslices")["items"]
    mine = [item["spec"] for item in slices if item["spec"].get("nodeName") == f"{node}0"]
    return {device["name"]: device for spec in mine for device in spec.get("devices", [])}


def profiles(site: Site) -> list[str]:
    """The MIG profiles of the partitioned node's devices; empty for a whole GPU."""
    return sorted(device["attributes"].get("profile", {}).get("string", "") for device in devices(site, "parted").values())


def run(site: Site, name: str, node: str, resource: str = GPU, amount: str = "1") -> None:
    container = {"name": "main", "image": "any", "resources": {"limits": {resource: amount}}}
    spec = {"nodeSelector": {"kubernetes.io/hostname": f"{node}0"}, "containers": [container], "terminationGracePeriodSeconds": 1}
    site.api.create(PODS, {"metadata": {"name": name}, "spec": spec})


def phases(site: Site) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in site.api.list(PODS)["items"]}


def unschedulable(site: Site, name: str) -> bool:
    pod = site.api.get(f"{PODS}/{name}") or {"status": {}}
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one["reason"] == "Unschedulable" for one in conditions if one.get("reason"))


def end(site: Site, *names: str) -> None:
    for name in names:
        site.api.delete(f"{PODS}/{name}")
    site.until(lambda: not phases(site).keys() & set(names))


def cdi(site: Site, node: str) -> list[str]:
    """What the driver of a node has written for a container runtime, one file a claim."""
    return sorted(path.read_text() for path in (site.folder / "machines" / f"{node}0" / "cdi").glob("*claim*"))


def test_the_slices_say_what_the_nodes_have(site: Site) -> None:
    whole, shared, parted = (devices(site, node) for node in NODES)
    assert sorted(whole) == sorted(shared) == ["gpu-0", "gpu-1"]
    assert whole["gpu-0"]["attributes"]["productName"] == {"string": "NVIDIA H100 80GB HBM3"}
    assert whole["gpu-0"]["attributes"]["brand"] == {"string": "Nvidia"}
    assert whole["gpu-1"]["attributes"]["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:00"}
    assert "shares" not in whole["gpu-0"]["capacity"]
    assert shared["gpu-0"]["capacity"]["shares"]["value"] == "4"
    assert profiles(site) == ["", "1g.10gb", "1g.10gb", "3g.40gb"]
    assert len(parted) == GPUS_AND_PARTS


def test_the_driver_s_pods_are_ready(site: Site) -> None:
    sets = {item["metadata"]["name"]: item for item in site.api.list(SETS)["items"]}
    site.until(
        lambda: (
            {name: (site.api.get(f"{SETS}/{name}") or {})["status"].get("numberReady") for name in sets}
            == {PLUGIN: 2, "shares": 1}
        )
    )


def test_no_driver_listens_for_everybody(site: Site) -> None:
    assert {port.program for port in ports_of(site.folder)} <= KNOWN.keys()


@pytest.mark.parametrize(
    ("node", "resource", "room"), [("whole", GPU, 2), ("shared", GPU, 8), ("parted", PART, 2), ("parted", GPU, 1)]
)
def test_pods_that_name_a_resource_run_as_long_as_there_is_room(site: Site, node: str, resource: str, room: int) -> None:
    names = [f"pod{number}" for number in range(room + 1)]
    for name in names:
        run(site, name, node, resource)
    site.until(lambda: sorted(phases(site).values()) == ["Pending"] + ["Running"] * room)
    [waiting] = [name for name, phase in phases(site).items() if phase == "Pending"]
    site.until(lambda: unschedulable(site, waiting))
    assert len(cdi(site, node)) == room
    assert site.offered(f"{node}0") == {}
    first = next(name for name in names if name != waiting)
    end(site, first)
    site.until(lambda: phases(site)[waiting] == "Running")
    end(site, *(set(names) - {first}))
    assert cdi(site, node) == []
    site.until(lambda: not site.api.list(CLAIMS)["items"])


def test_a_pod_stays_until_the_driver_has_given_its_claims_back(site: Site) -> None:
    run(site, "kept", "whole")
    site.until(lambda: phases(site) == {"kept": "Running"})
    pause_driver(site, {"plain": "no", "stays": "away"})
    site.until(lambda: not driver_pods(site, "whole"))
    site.api.delete(f"{PODS}/kept")
    run(site, "later", "whole")
    site.until(lambda: events(site, "later"))
    assert events(site, "later") == [
        "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is not registered"
    ]
    assert phases(site) == {"kept": "Running", "later": "Pending"}
    pause_driver(site, {"plain": "yes", "stays": None})
    site.until(lambda: phases(site) == {"later": "Running"})
    end(site, "later")


@at_night("half a minute, which tests/sandbox/real_node/test_dra_kubelets.py waits for, too")
def test_the_slices_of_a_driver_that_is_gone_go_after_half_a_minute(site: Site) -> None:
    pause_driver(site, {"plain": "no", "stays": "away"})
    site.until(lambda: not driver_pods(site, "whole"))
    assert devices(site, "whole")
    site.until(lambda: not devices(site, "whole"))
    assert devices(site, "shared")
    pause_driver(site, {"plain": "yes", "stays": None})
    site.until(lambda: devices(site, "whole"))


def test_another_layout_is_published_once_the_driver_starts_anew(site: Site) -> None:
    before = profiles(site)
    partition(site.folder / "machines" / "parted0" / "state", [("7g.80gb", 0)])
    assert profiles(site) == before
    [pod] = driver_pods(site, "parted")
    site.api.delete(f"/api/v1/namespaces/{WHERE}/pods/{pod['metadata']['name']}")
    site.until(lambda: profiles(site) == ["", "7g.80gb"])


def test_a_daemon_that_starts_anew_knows_what_is_prepared(site: Site) -> None:
    run(site, "before", "shared")
    site.until(lambda: phases(site) == {"before": "Running"})
    site.kill_daemon()
    site.boot()
    site.until(lambda: devices(site, "shared") and driver_ready(site))
    end(site, "before")
    assert cdi(site, "shared") == []


def pause_driver(site: Site, selector: Mapping[str, str | None]) -> None:
    """Change where the chart's DaemonSet runs."""
    site.api.patch(f"{SETS}/{PLUGIN}", {"spec": {"template": {"spec": {"nodeSelector": dict(selector)}}}})


def driver_pods(site: Site, node: str) -> list[dict[str, Any]]:
    pods = site.api.list(f"/api/v1/namespaces/{WHERE}/pods")["items"]
    return [pod for pod in pods if pod["spec"].get("nodeName") == f"{node}0"]


def driver_ready(site: Site) -> bool:
    return all((item["status"].get("numberReady") or 0) >= 1 for item in site.api.list(SETS)["items"])


def events(site: Site, pod: str) -> list[str]:
    found = site.api.list("/api/v1/namespaces/default/events")["items"]
    mine = [one for one in found if one["involvedObject"]["name"] == pod]
    return sorted({one["message"] for one in mine if one["reason"] == "FailedPrepareDynamicResources"})
