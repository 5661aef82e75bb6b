"""An exporter on each simulated node that has a pod of one: what exporter.py restates, over HTTP, from the node's simulated GPUs.

GPUs, MIG instances, Xids and lost GPUs are those of the state file of the node's simulated NVML. Pods are those that the API
server has on the node with a GPU, a share or a MIG instance. Which one a pod has no kubelet tells here: it is the one of its kind
with the fewest pods, in the order in which the pods were made. A simulated GPU computes nothing: what a pod uses is said by its
annotation `example.com/uses`, in hundredths of its unit and MiB.

A pod of the exporter has an address 10.x.y.z that nobody can reach; it is served at 127.x.y.z, at the exporter's own port. A
verifier really listens, in a network of its own, which the kubelet alone reaches: what is asked at its address is asked there.

Not here: the list of fields is all of the plan's, whatever the pod's file says.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from gpu_pools.hardware.dcgm_fields import dcgm_fields
from gpu_pools.proof.verifier_pods import PORT as VERIFIER_PORT
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from sandbox.nvml import state
from sandbox.system import private_network
from tests.observing.exporter import Gpu, Node, Pod, Unit, scrape
from tests.observing.promtool import labels_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sandbox.cluster.api import Api
    from sandbox.nvml import simulated

_VERIFIERS: Final = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods?labelSelector=app.kubernetes.io/name={VERIFIER_APP}"
APP: Final = "nvidia-dcgm-exporter"
USES: Final = "example.com/uses"
PORT: Final = 9400
_SECONDS: Final = 5.0
Address = tuple[str, int]
#: NVML_ERROR_GPU_IS_LOST, nvmlEventTypeXidCriticalError.
LOST, XID = 15, 8
_WHOLE: Final = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
_MIG: Final = "nvidia.com/mig-"


def node_of(name: str, machine: simulated.Machine, pods: Sequence[Mapping[str, Any]], *, virtual: bool) -> Node:
    """The truth about a node, but for its Xids: of these the state does not say when they were."""
    gpus = tuple(Gpu(index, tuple(_units(gpu)), uuid=gpu.uuid, product=gpu.name) for index, gpu in enumerate(machine.gpus))
    for pod in sorted(pods, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"])):
        for resource, count in _devices(pod):
            for _ in range(count):
                gpus = _put(gpus, resource, pod)
    lost = [any(fault.error == LOST for fault in gpu.faults) for gpu in machine.gpus]
    return Node(name, "", tuple(replace(gpu, lost=gone) for gpu, gone in zip(gpus, lost, strict=True)), virtual=virtual)


def _units(gpu: simulated.Gpu) -> Iterator[Unit]:
    if gpu.mig is None or not gpu.mig.current:
        yield Unit(memory=gpu.memory_mib or 0)
        return
    kinds = {profile.id: profile for profile in gpu.mig.profiles}
    for made in gpu.mig.instances:
        yield Unit(kinds[made.profile_id].name, made.id, memory=kinds[made.profile_id].memory_mib or 0)


def _devices(pod: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for container in pod["spec"]["containers"]:
        for resource, count in (container.get("resources", {}).get("limits") or {}).items():
            if resource in _WHOLE or resource.startswith(_MIG):
                yield resource, int(count)


def _put(gpus: tuple[Gpu, ...], resource: str, pod: Mapping[str, Any]) -> tuple[Gpu, ...]:
    """The pod on the unit of the resource's kind that has the fewest; of the single strategy any instance will do."""
    profile = resource.removeprefix(_MIG).removesuffix(".shared") if resource.startswith(_MIG) else None
    fitting = [(gpu, unit) for gpu in gpus for unit in gpu.units if profile is None or unit.profile.replace("+", ".") == profile]
    chosen, unit = min(fitting, key=lambda one: (len(one[1].pods), one[0].index, one[1].instance))
    use, memory = (pod["metadata"].get("annotations") or {}).get(USES, "0 0").split()
    added = Pod(pod["metadata"]["name"], float(use), int(memory), pod["metadata"]["namespace"])
    units = tuple(replace(one, pods=(*one.pods, added)) if one is unit else one for one in chosen.units)
    return tuple(replace(gpu, units=units) if gpu is chosen else gpu for gpu in gpus)


def exposed(node: Node) -> str:
    """As the exporter's /metrics has it: without what Prometheus and the monitor add."""
    kinds = {field.name: field.type for field in dcgm_fields()}
    rows: dict[str, list[str]] = {}
    for name, labels, value in scrape(node):
        if name != "up":
            own = tuple(pair for pair in labels if pair[0] not in {"instance", "gpu_pool"})
            rows.setdefault(name, []).append(f"{labels_text((('__name__', name), *own))} {value}\n")
    return "".join(f"# TYPE {name} {kinds.get(name, 'gauge')}\n{''.join(lines)}" for name, lines in rows.items())


class Exporters:
    """The exporters of a cluster, as its pods come and go.

    Attributes:
        silent: nodes whose exporter does not answer.
    """

    def __init__(self, cluster: Path, api: Api, window: float) -> None:
        """Serve nothing yet.

        Args:
            cluster: the folder of the simulated cluster.
            api: of it.
            window: seconds for which an Xid is counted; the real one has five minutes.
        """
        self.silent: set[str] = set()
        self._cluster, self._api, self._window = cluster, api, window
        self._servers: dict[Address, http.server.ThreadingHTTPServer] = {}
        self._seen: dict[tuple[str, str, int], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="exporters", daemon=True)

    def __enter__(self) -> Self:
        """Begin to follow the pods."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all of them."""
        self._over.set()
        self._thread.join()
        for place in list(self._servers):
            self._stop(place)

    @property
    def follows(self) -> bool:
        """Whether it looks at the pods."""
        return self._thread.is_alive()

    def truth(self, node: str) -> Node:
        """What is so on a node now."""
        pods = self._api.list(f"/api/v1/pods?fieldSelector=spec.nodeName={node}")["items"]
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        (own,) = [pod for pod in running if pod["metadata"].get("labels", {}).get("app") == APP]
        env = {one["name"]: one.get("value") for one in own["spec"]["containers"][0].get("env", [])}
        machine = state.read(self._cluster / "machines" / node / "state")
        found = node_of(node, machine, running, virtual=env.get("KUBERNETES_VIRTUAL_GPUS") == "true")
        labels = self._api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]  # type: ignore[index]
        found = replace(found, mps=labels.get("nvidia.com/gpu.sharing-strategy") == "mps")
        xids = [self._xids(node, gpu) for gpu in machine.gpus]
        return replace(found, gpus=tuple(replace(gpu, xids=of) for gpu, of in zip(found.gpus, xids, strict=True)))

    def _xids(self, node: str, gpu: simulated.Gpu) -> Mapping[int, int]:
        now = time.monotonic()
        events = [one for one in gpu.events if one.type == XID]
        fresh = [one for one in events if now - self._seen.setdefault((node, gpu.uuid, one.sequence), now) < self._window]
        return Counter(one.data for one in fresh)

    def _follow(self) -> None:
        while not self._over.wait(0.3):
            with contextlib.suppress(Exception):
                self._look()

    def _look(self) -> None:
        wanted: dict[Address, Callable[[], bytes]] = {}
        for pod in self._running(f"/api/v1/pods?labelSelector=app={APP}"):
            if pod["spec"]["nodeName"] in self.silent:
                continue
            address = f"127{pod['status']['podIP'].removeprefix('10')}"
            wanted[address, PORT] = partial(self._exposed, pod["spec"]["nodeName"])
        for pod in self._running(_VERIFIERS):
            address = pod["status"]["podIP"]
            wanted[address, VERIFIER_PORT] = partial(_asked, pod["metadata"]["uid"], address)
        for gone in self._servers.keys() - wanted.keys():
            self._stop(gone)
        for place in wanted.keys() - self._servers.keys():
            self._servers[place] = _served(place, wanted[place])

    def _running(self, path: str) -> list[dict[str, Any]]:
        pods = self._api.list(path)["items"]
        return [pod for pod in pods if pod["status"].get("phase") == "Running" and pod["status"].get("podIP")]

    def _exposed(self, node: str) -> bytes:
        return exposed(self.truth(node)).encode()

    def _stop(self, place: Address) -> None:
        server = self._servers.pop(place)
        server.shutdown()
        server.server_close()


def _asked(uid: str, address: str) -> bytes:
    """What a pod answers in its own network."""
    connection = http.client.HTTPConnection(address, VERIFIER_PORT)
    connection.sock = private_network.connected(_inside(uid), address, VERIFIER_PORT, _SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        return connection.getresponse().read()


def _inside(uid: str) -> int:
    """A process in a pod's network."""
    own = Path("/proc/self/ns/net").readlink()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            ours = process.name.isdigit() and f"/pods/{uid}/".encode() in (process / "cmdline").read_bytes()
            if ours and (process / "ns/net").readlink() != own:
                return int(process.name)
    message = f"no process of pod {uid}"
    raise ConnectionRefusedError(message)


def _served(place: Address, text: Callable[[], bytes]) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                body = text()
            except OSError as error:
                self.send_error(502, str(error))
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(place, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
