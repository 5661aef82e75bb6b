"""A stack with every way of sharing that is up and verified: what its nodes say, and the means to break them and to mend them."""

from __future__ import annotations

import calendar
import contextlib
import http.client
import json
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.proof.verifier_pods import PORT
from gpu_pools.proof.verifier_rights import ANNOTATION, CONDITION
from gpu_pools.verifier.causes import CAUSES
from sandbox.cluster import control_plane as clusters
from sandbox.cluster import gpu_host
from sandbox.cluster.node_tools import find_platform_tools
from sandbox.nvml import simulated, state
from sandbox.system import private_network, processes
from sandbox.system.files import read_json
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.engine.trial import Trial

#: Every way of sharing; `intervalSeconds` is the least. The image brings the driver, so that a verifier starts on nodes, too,
#: that the operator has not found.
STACK: Final = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: faulty
    location: westeurope
    resourceGroup: faulty-rg
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:operator: {driver: preinstalled}
  gpu-pools:sharing:
    four: {timeSlicing: {replicas: 4}}
    eight: {timeSlicing: {replicas: 8}}
    served: {mps: {replicas: 4}}
    parts: {mig: {layout: {3g.40gb: 1, 1g.10gb: 4}}}
    whole: {exclusive: {}}
  gpu-pools:verification: {deadlineSeconds: 240, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: sliced, vmSize: Standard_NC4as_T4_v3, count: 4, sharing: four}
    - {name: eight, vmSize: Standard_NC4as_T4_v3, count: 1, sharing: eight}
    - {name: served, vmSize: Standard_NC4as_T4_v3, count: 1, sharing: served}
    - {name: parts, vmSize: Standard_ND96amsr_A100_v4, count: 2, sharing: parts}
    - {name: whole, vmSize: Standard_NC24ads_A100_v4, nodes: {min: 2, max: 3}, sharing: whole, taints: ["sku=gpu:NoSchedule"]}
    - {name: spare, vmSize: Standard_NC4as_T4_v3, nodes: {min: 0, max: 2}, sharing: four}
"""
LONGEST_SECONDS: Final = 180.0
POLL_SECONDS: Final = 0.5
_VERIFIERS: Final = "/api/v1/namespaces/gpu-pools-verifier/pods"
_OPERANDS: Final = "/api/v1/namespaces/gpu-operator/pods"
CONFIG_MAP: Final = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-device-plugin"
POLICY: Final = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
_NFD: Final = "/apis/apps/v1/namespaces/node-feature-discovery"
NFD_MASTER: Final = f"{_NFD}/deployments/node-feature-discovery-master"
NFD_WORKER: Final = f"{_NFD}/daemonsets/node-feature-discovery-worker"
_TOLD: Final = re.compile(r"Likely cause: (.*?); seen: ")
_KEYS: Final = {cause.text: key for key, cause in CAUSES.items()}


@dataclass(frozen=True)
class Condition:
    """The condition GpuSharingVerified of a node; of a node without it the status is empty."""

    status: str
    message: str
    heartbeat: str

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes that its message names, each once; the message may have been cut."""
        return tuple(dict.fromkeys(_KEYS[text] for text in _TOLD.findall(self.message)))


class Fleet:
    """The nodes of the stack, and what is said of them.

    Attributes:
        history: node -> its conditions so far, oldest first, as often as they changed.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        (self.folder,) = trial.clusters
        self.api = trial.cloud_api()
        self.history: dict[str, list[Condition]] = {}
        self.look()

    # ------------------------------------------------------------------ looking

    def node(self, pool: str, index: int) -> str:
        """The name of a pool's node, in the order in which they came."""
        return str(self.trial.nodes(pool)[index]["metadata"]["name"])

    def look(self) -> Mapping[str, Condition]:
        """The conditions as they are now; kept in the history."""
        now = {node["metadata"]["name"]: _condition(node) for node in self.trial.nodes() if _is_ours(node)}
        for name, condition in now.items():
            known = self.history.setdefault(name, [])
            if not known or known[-1] != condition:
                known.append(condition)
        return now

    def until(self, holds: Callable[[Mapping[str, Condition]], bool], what: str) -> None:
        """Look until something holds; fail where it does not before the time is over."""
        end = Patience(LONGEST_SECONDS)
        while not holds(self.look()):
            assert not end.is_over(), f"not within {LONGEST_SECONDS:g} s: {what}\n{self.told()}"
            time.sleep(POLL_SECONDS)

    def all_green(self) -> None:
        """Wait until every node is verified."""
        self.until(lambda seen: all(one.status == "True" for one in seen.values()), "all nodes verified")

    def told(self) -> str:
        """The last condition of every node, for messages."""
        return "\n".join(f"{name}: {seen[-1].status} {seen[-1].message[:300]}" for name, seen in sorted(self.history.items()))

    def addresses(self) -> Mapping[str, str]:
        """Where the verifier of each node listens."""
        pods = self.api.list(_VERIFIERS)["items"]
        return {
            pod["spec"]["nodeName"]: pod["status"].get("podIP", "") for pod in pods if "deletionTimestamp" not in pod["metadata"]
        }

    def verdict(self, address: str) -> str | None:
        """The verdict that a verifier tells over HTTP; None where it does not answer."""
        connection = http.client.HTTPConnection(address, PORT, timeout=10)
        try:
            # Its network is its own: only from inside it is there an answer.
            connection.sock = private_network.connected(_listener(address), address, PORT, 10)
            connection.request("GET", "/metrics")
            told = connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        found = re.search(r'^gpu_pools_verdict\{.*verdict="([^"]+)"\} 1$', told, re.MULTILINE)
        return found[1] if found else None

    def causes(self, node: str) -> tuple[str, ...]:
        """The causes in the report of a node's verifier, in its order, each once."""
        annotations = self.trial.get(f"/api/v1/nodes/{node}")["metadata"].get("annotations") or {}
        return _causes(json.loads(annotations.get(ANNOTATION, "null")))

    # ------------------------------------------------------------------ changing

    def patch(self, path: str, change: dict[str, Any], undo: dict[str, Any]) -> Callable[[], object]:
        """Merge a change into an object; undone by merging another."""
        self.api.patch(path, change)
        return lambda: ignored(self.api.patch(path, undo))

    def label(self, node: str, key: str, value: str | None) -> Callable[[], object]:
        """Set or (None) remove a label of a node by hand."""
        path = f"/api/v1/nodes/{node}"
        before = self.trial.get(path)["metadata"]["labels"].get(key)
        return self.patch(path, {"metadata": {"labels": {key: value}}}, {"metadata": {"labels": {key: before}}})

    def gpus(self, node: str, change: Callable[[simulated.Machine], simulated.Machine]) -> Callable[[], object]:
        """Change a node's GPUs; undone by what they were."""
        path = self.machine(node) / "state"
        before = state.read(path)
        state.change(path, change)
        return lambda: ignored(state.change(path, lambda _: before))

    def machine(self, node: str) -> Path:
        """The folder of a simulated machine."""
        return self.folder / "machines" / node

    def device_plugins(self, node: str) -> Path:
        """The kubelet's folder of sockets, as it is found from outside of the machine."""
        plugin = self.running_on(node, "nvidia-device-plugin")[0]
        return gpu_host.outside(plugin, gpu_host.DEVICE_PLUGINS)

    def pod(self, path: str, node: str, prefix: str) -> Any:
        """The pod of a node whose name begins like that; None where there is none."""
        pods = self.api.list(f"{path}?fieldSelector=spec.nodeName={node}")["items"]
        return next((pod for pod in pods if pod["metadata"]["name"].startswith(prefix)), None)

    def age(self, node: str, operand: str) -> float:
        """How many seconds ago an operand's pod started."""
        started = self.pod(_OPERANDS, node, operand)["status"]["startTime"]
        return time.time() - calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ"))

    def delete_pod(self, node: str, operand: str) -> None:
        """Let an operand's pod start anew."""
        found = self.pod(_OPERANDS, node, operand)
        self.api.delete(f"{_OPERANDS}/{found['metadata']['name']}")

    def running_on(self, node: str, words: str) -> list[int]:
        """The processes in a node's namespace whose command line holds these words."""
        mine = f"GPU_POOLS_NVML_STATE={self.machine(node) / 'state'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ")
                inside = mine in entry.joinpath("environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if inside and words.encode() in command and b"unshare" not in command and b"nsenter" not in command:
                found.append(int(entry.name))
        return found

    def kill_part(self, name: str) -> None:
        """Kill a part of the cluster, without a word to it, and wait until it is gone."""
        os.kill(processes.running(self.folder)[name].pid, signal.SIGKILL)
        processes.wait_until(lambda: name not in processes.running(self.folder), timeout=60, what=f"{name} to end")

    def boot(self) -> None:
        """Start again what has died."""
        clusters.boot(self.folder, read_json(self.folder / "cluster.json")["name"], find_platform_tools(Progress()))


def _listener(address: str) -> int:
    """The process that listens at a pod's address.

    Raises:
        OSError: there is none.
    """
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().split(b"\0")
            # Those that have started it carry its arguments, too, and are in another network.
            if f"{address}:{PORT}".encode() in command and not {b"unshare", b"nsenter"} & set(command):
                return int(entry.name)
    raise ProcessLookupError(address)


def _causes(report: Any) -> tuple[str, ...]:
    told = report or {"differences": [], "cannotTell": []}
    return tuple(dict.fromkeys(one["cause"] for one in [*told["differences"], *told["cannotTell"]]))


def now() -> str:
    """As the verifier writes moments."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _condition(node: dict[str, Any]) -> Condition:
    for one in node["status"].get("conditions") or []:
        if one["type"] == CONDITION:
            return Condition(one["status"], one["message"], one["lastHeartbeatTime"])
    return Condition("", "", "")


def _is_ours(node: dict[str, Any]) -> bool:
    return "gpu-pools/pool" in node["metadata"]["labels"]


def ignored(_: object = None) -> None:
    """What an undo gets as an answer."""
