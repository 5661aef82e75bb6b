"""A real node: it joins a cluster, runs pods as a node does, and leaves nothing of itself on the machine, however it ends."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.real_node import allowed, node
from sandbox.real_node.__main__ import main
from sandbox.real_node.place import Place
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import REAL_NODE
from sandbox.toolchain.tools import PLATFORM_TOOLS
from tests.patience import scaled
from tests.sandbox.real_node.machine import as_it_is, processes_of
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

NODE: Final = "real-0"
PODS: Final = "/api/v1/namespaces/default/pods"
SECONDS: Final = 60.0
BASE, PYTHON = "busybox:1.37", "python:3.11-slim"
#: Whom the API server takes it for, what of seccomp it says, and what it sees.
ASKS: Final = """
import json, os, ssl, urllib.error, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount"
address = "https://%s:%s/api/v1/secrets" % (os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"])
request = urllib.request.Request(address, headers={"Authorization": "Bearer " + open(account + "/token").read()})
try:
    said = urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account + "/ca.crt")).status
except urllib.error.HTTPError as error:
    said = json.load(error)["message"]
seccomp = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:"))
pids = [name for name in os.listdir("/proc") if name.isdigit()]
print(json.dumps({"said": said, "seccomp": seccomp, "pids": pids, "root": os.listdir("/")}))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A control plane without machines."""
    if refused := allowed.obstacle():
        pytest.skip(f"real nodes were NOT tried: {refused}")
    progress = Progress()
    try:
        obtain(REAL_NODE, progress)
    except SandboxError as error:
        pytest.skip(f"real nodes were NOT tried: {error.message}")
    folder = tmp_path_factory.mktemp("real") / "cluster"
    control_plane.boot(folder, "real", find_tools(progress, only=PLATFORM_TOOLS), machines=False)
    yield folder
    control_plane.erase(folder)


@pytest.fixture
def place(cluster: Path) -> Iterator[Place]:
    """A node that runs."""
    found = Place(cluster, NODE)
    node.up(found, Progress())
    yield found
    node.down(found)


@pytest.fixture
def api(cluster: Path) -> Api:
    return Api.at(cluster / "kubeconfig")


def pod(name: str, command: list[str], image: str = BASE, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": command}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def await_phase(api: Api, name: str, *phases: str) -> dict[str, Any]:
    """A pod, once it is in one of these phases."""
    found: dict[str, Any] = {}

    def there() -> bool:
        found.update(api.get(f"{PODS}/{name}") or {})
        return (found.get("status") or {}).get("phase") in phases

    processes.wait_until(there, timeout=SECONDS, what=f"Pod {name} is {' or '.join(phases)}: {found.get('status')}")
    return found


def said(place: Place, name: str) -> str:
    """What a pod has printed."""
    command = [*node.entering(place), "sh", "-c", f"cat /var/log/pods/default_{name}_*/main/*.log"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return "\n".join(line.split(" ", 3)[3] for line in lines)


def running(place: Place, name: str, pattern: str) -> int:
    """The number on this machine of a process of the node, by its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().replace("\0", " ")
            inside = place.group in (folder / "cgroup").read_text()
        except OSError:
            continue
        if inside and pattern in words:
            return int(folder.name)
    raise AssertionError(f"{name} does not run on {place.node}")


@pytest.mark.parametrize(("asked", "mode"), these([("Unconfined", "0"), ("RuntimeDefault", "2")], [("RuntimeDefault", "2")]))
def test_a_pod_runs_as_its_own_account_and_sees_itself_alone(place: Place, api: Api, asked: str, mode: str) -> None:
    name = f"asks-{mode}"
    api.create(PODS, pod(name, ["python3", "-c", ASKS], PYTHON, securityContext={"seccompProfile": {"type": asked}}))
    ended = await_phase(api, name, "Succeeded", "Failed")
    answer = json.loads(said(place, name))
    assert ended["status"]["phase"] == "Succeeded", answer
    assert "system:serviceaccount:default:default" in answer["said"], "not its own account"
    assert answer["seccomp"] == mode
    assert answer["pids"] == ["1"]
    assert "work" not in answer["root"], "the machine's root shows"


def kubectl(cluster: Path, *arguments: str, sent: str = "") -> subprocess.CompletedProcess[str]:
    """As an administrator asks; through the API server, which has to find the way back to the kubelet."""
    command = ["kubectl", f"--kubeconfig={cluster / 'kubeconfig'}", *arguments]
    return subprocess.run(command, input=sent, capture_output=True, text=True, check=False, timeout=scaled(SECONDS))


@pytest.mark.usefixtures("place")
def test_its_pods_can_be_read_and_entered_through_the_api_server(api: Api, cluster: Path) -> None:
    api.create(PODS, pod("talks", ["sh", "-c", "echo hello; sleep 1000 & wait"]))
    await_phase(api, "talks", "Running")
    assert kubectl(cluster, "logs", "talks").stdout == "hello\n"
    entered = kubectl(cluster, "exec", "-i", "talks", "--", "sh", "-c", "cat; echo done >&2; exit 3", sent="sent\n")
    assert (entered.stdout, entered.returncode) == ("sent\n", 3)
    assert "done" in entered.stderr
    api.delete(f"{PODS}/talks", grace_seconds=0)


def test_who_asks_for_the_pod_of_a_simulated_node_is_told_that_there_is_no_container(
    place: Place, api: Api, cluster: Path
) -> None:
    api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "simulated-0"}})
    address = {"addresses": [{"type": "Hostname", "address": "simulated-0"}]}
    api.patch("/api/v1/nodes/simulated-0/status", {"status": address})
    api.create(PODS, pod("none", ["sleep", "1"], nodeName="simulated-0"))
    refused = kubectl(cluster, "logs", "none")
    assert refused.returncode == 1
    assert "simulated-0 is no real node that runs; simulated ones have no containers to speak to" in refused.stderr
    assert place.process in processes.running(cluster)
    api.delete(f"{PODS}/none", grace_seconds=0)
    api.delete("/api/v1/nodes/simulated-0")


def test_a_node_is_described_by_its_own_kubelet(place: Place, api: Api) -> None:
    status = (api.get(f"/api/v1/nodes/{place.node}") or {})["status"]
    version = next(one for one in REAL_NODE if one.name == "containerd")
    assert status["nodeInfo"]["containerRuntimeVersion"].removeprefix("containerd://") in f"{version.name} v2.4.2"
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert status["capacity"]["cpu"] == str(os.cpu_count())


@pytest.mark.usefixtures("place")
def test_a_limit_of_memory_is_the_kernels(api: Api) -> None:
    """What a simulated kubelet does not have: a container that takes too much is killed."""
    greedy = pod("greedy", ["python3", "-c", "x = bytearray(200 << 20); print('got it')"], PYTHON)
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    api.create(PODS, greedy)
    ended = await_phase(api, "greedy", "Succeeded", "Failed")
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")


def test_nothing_of_a_node_is_left_on_the_machine(cluster: Path, api: Api) -> None:
    before = as_it_is(cluster)
    place = Place(cluster, NODE)
    node.up(place, Progress())
    api.create(PODS, pod("stays", ["sleep", "1000"]))
    await_phase(api, "stays", "Running")
    assert processes_of(cluster)
    during = as_it_is(cluster)
    node.down(place)
    assert api.get(f"/api/v1/nodes/{NODE}") is None
    assert not place.folder.exists()
    after = as_it_is(cluster)
    for what, value in before.items():
        assert after[what] == value, what
        if what not in ("groups", "handed"):
            assert during[what] == value, f"{what} while it ran"
    assert [one for one in processes_of(cluster) if NODE in one] == []


VICTIMS: Final = {
    "the warden": "sandbox.real_node.warden",
    "whoever holds the first process": "sandbox.real_node.keeper",
    "containerd": "containerd --config",
    "the kubelet": "kubelet --config",
}


@pytest.mark.parametrize("victim", these(VICTIMS, ["the warden"]))
def test_a_kill_leaves_nothing_either(cluster: Path, api: Api, victim: str) -> None:
    before = as_it_is(cluster)
    place = Place(cluster, NODE)
    node.up(place, Progress())
    api.create(PODS, pod(f"beside-{list(VICTIMS).index(victim)}", ["sleep", "1000"]))
    of_warden = processes.running(cluster)[place.process].pid
    os.kill(of_warden if victim == "the warden" else running(place, victim, VICTIMS[victim]), signal.SIGKILL)
    if victim in ("containerd", "the kubelet"):
        time.sleep(2)
        running(place, f"{victim}, started again,", VICTIMS[victim])
    node.down(place)
    after = as_it_is(cluster)
    for what, value in before.items():
        assert after[what] == value, what


@pytest.mark.parametrize("seed", range(16))
def test_a_kill_at_any_moment_leaves_nothing(cluster: Path, seed: int) -> None:
    """While it starts, or soon after; with the four above it is killed twenty times."""
    before = as_it_is(cluster)
    place = Place(cluster, NODE)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    with subprocess.Popen([sys.executable, "-m", "sandbox.real_node", "up", str(cluster)], env=environment) as starting:
        time.sleep(random.Random(seed).uniform(0.3, 12))  # noqa: S311 the same every time
        starting.kill()
    if (warden := processes.running(cluster).get(place.process)) is not None:
        os.kill(warden.pid, signal.SIGKILL)
    node.down(place)
    after = as_it_is(cluster)
    for what, value in before.items():
        assert after[what] == value, what


def test_a_cluster_that_is_erased_takes_its_real_nodes_with_it(cluster: Path, tmp_path: Path) -> None:
    assert cluster.exists()
    folder = tmp_path / "other"
    control_plane.boot(folder, "other", find_tools(Progress(), only=PLATFORM_TOOLS), machines=False)
    before = as_it_is(folder)
    node.up(Place(folder, "a"), Progress())
    control_plane.erase(folder)
    after = as_it_is(folder)
    assert not folder.exists()
    assert processes_of(folder) == []
    for what, value in before.items():
        assert after[what] == value, what


def test_the_command_line(cluster: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(cluster), "--node", "nobody"]) == 1
    assert "there is no real node 'nobody'" in capfd.readouterr().err
    assert main(["run", str(cluster), "--", "true"]) == 1
    assert "there is no real node 'real-0' that runs" in capfd.readouterr().err
    assert main(["up", str(cluster), "--node", "../real"]) == 1
    assert "is not a name for a node" in capfd.readouterr().err
    assert main(["up", str(cluster)]) == 0
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    command = [sys.executable, "-m", "sandbox.real_node", "run", str(cluster), "--", "sh", "-c", "hostname; exit 7"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("real-0\n", 7)
    assert main(["log", str(cluster)]) == 0
    assert "kubelet.log" in capfd.readouterr().out
    assert main(["down", str(cluster)]) == 0
    assert "taken down: real-0" in capfd.readouterr().err
