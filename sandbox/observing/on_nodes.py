"""The truth about a simulated GPU node, as its exporter would find it: GPUs, and the pods that use them.

GPUs, MIG instances, Xids and lost GPUs are those of the state file of the node's simulated NVML. Pods are those that the API
server has on the node with a GPU, a share or a MIG instance. Which one a pod has no kubelet tells here: it is the one of its kind
with the fewest pods, in the order in which the pods were made. A simulated GPU computes nothing: what a pod uses is said by its
annotation `example.com/uses`, in hundredths of its unit and MiB.

Not here: the list of fields is all of the plan's, whatever the pod's file says.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.verifier.quantities import read_count
from sandbox.nvml import state
from sandbox.observing.exporter import Gpu, Node, Pod, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from sandbox.cluster.api import Api
    from sandbox.nvml import simulated

APP: Final = "nvidia-dcgm-exporter"
USES: Final = "example.com/uses"
#: NVML_ERROR_GPU_IS_LOST, nvmlEventTypeXidCriticalError.
LOST, XID = 15, 8
#: The real one counts an Xid for so many seconds.
WINDOW: Final = 300.0
_WHOLE: Final = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
_MIG: Final = "nvidia.com/mig-"


class Truth:
    """What is so on the nodes of a cluster."""

    def __init__(self, cluster: Path, api: Api, window: float = WINDOW) -> None:
        """Ask nothing yet.

        Args:
            cluster: the folder of the simulated cluster.
            api: of it.
            window: seconds for which an Xid is counted.
        """
        self._cluster, self._api, self._window = cluster, api, window
        self._seen: dict[tuple[str, str, int], float] = {}

    def of(self, node: str, address: str = "") -> Node:
        """What is so on a node now.

        Args:
            node: its name.
            address: of its exporter's pod; empty: any.

        Raises:
            ProcessLookupError: it has no such pod that runs.
        """
        pods = self._api.list(f"/api/v1/pods?fieldSelector=spec.nodeName={node}")["items"]
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        exporters = [pod for pod in running if pod["metadata"].get("labels", {}).get("app") == APP]
        own = next((pod for pod in exporters if address in {"", pod["status"].get("podIP")}), None)
        if own is None:
            raise ProcessLookupError(f"no exporter runs on {node}")
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
                yield resource, read_count(count) or 0


def _put(gpus: tuple[Gpu, ...], resource: str, pod: Mapping[str, Any]) -> tuple[Gpu, ...]:
    """The pod on the unit of the resource's kind that has the fewest; of the single strategy any instance will do."""
    profile = resource.removeprefix(_MIG).removesuffix(".shared") if resource.startswith(_MIG) else None
    fitting = [(gpu, unit) for gpu in gpus for unit in gpu.units if profile is None or unit.profile.replace("+", ".") == profile]
    chosen, unit = min(fitting, key=lambda one: (len(one[1].pods), one[0].index, one[1].instance))
    use, memory = (pod["metadata"].get("annotations") or {}).get(USES, "0 0").split()
    added = Pod(pod["metadata"]["name"], float(use), int(memory), pod["metadata"]["namespace"])
    units = tuple(replace(one, pods=(*one.pods, added)) if one is unit else one for one in chosen.units)
    return tuple(replace(gpu, units=units) if gpu is chosen else gpu for gpu in gpus)
