"""The play: sharing is declared, changed while pods compute, broken and put right, and what is seen is written down."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.verdicts import Verdict
from sandbox.gpu_node import breaking, mps_limits, pods
from sandbox.gpu_node.stage import EXCLUSIVE, NODE, NODE_PATH, POD_SECONDS, VERIFIER_PODS, VERIFIERS, Stage, time_slicing, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REPLICAS: Final = (2, 4, 8)
CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
_CONFIG: Final = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-device-plugin"
_SYSTEM_PODS: Final = "/api/v1/namespaces/kube-system/pods"
_OPERANDS: Final = "/api/v1/namespaces/gpu-operator/pods"
_PLUGIN_PODS: Final = f"{_OPERANDS}?labelSelector=app=nvidia-device-plugin-daemonset"
_SECOND: Final = "nvidia-device-plugin-static"
_LIKELY: Final = re.compile(r"Likely cause: (.*?)(?:; seen: |$)")
_FAULT_SECONDS: Final = 120.0


class Play(Stage):
    """Sharing that changes, and what breaks."""

    def run(self, folder: Path) -> None:
        """Play all of it."""
        del folder
        self._declare("exclusive", EXCLUSIVE, 1)
        self._fill(1)
        for replicas in REPLICAS:
            self._declare(f"time-slicing {replicas}", time_slicing(replicas), replicas)
            self._fill(replicas)
        self._limits(REPLICAS[-1])
        self._faults()
        self._declare("exclusive again", EXCLUSIVE, 1)
        self._remove_pods()
        if self._machine.gpus > 1:
            self._whole_node()
        # It wants every share of a node, so nobody else may hold one.
        self._declare("time-slicing 4 with its smoke test", time_slicing(4), 4, smoke_test=True)
        if self._machine.gpus > 1:
            self._spread()
        self._two_shares()

    # --- sharing ------------------------------------------------------------------------------------------

    def _whole_node(self) -> None:
        """A pod that asks for all GPUs of the node, which are its own alone: it computes on each."""
        begun, known = time.monotonic(), {gpu["uuid"] for gpu in self._machine.reading["gpus"]}
        pods.make(self._api(), "whole", NODE, self._machine.gpus)
        good = until(lambda: "whole" in self._computing(), POD_SECONDS)
        gpus = self._pods()["whole"].gpus
        name, declared = f"a pod of {self._machine.gpus} GPUs", f"computes on {self._machine.gpus} GPUs that NVML knows"
        observed = f"computes on {len(known & set(gpus))} GPUs that NVML knows"
        self._told(name, begun, declared, observed, good=good and known == set(gpus))
        self.clear()

    def _spread(self) -> None:
        """As many pods as there are GPUs: the plugin gives each a share of another one, though one GPU had room for all."""
        begun, number = time.monotonic(), self._machine.gpus
        for index in range(number):
            pods.make(self._api(), f"spread-{index}", NODE)
        good = until(lambda: len(self._computing()) == number, POD_SECONDS)
        used = {gpu for one in self._computing().values() for gpu in one.gpus}
        declared = f"on {number} GPUs"
        self._told(f"{number} pods of a share each", begun, declared, f"on {len(used)} GPUs", good=good and len(used) == number)
        self.clear()

    def _two_shares(self) -> None:
        """Two shares may be of one GPU, which is no more than one: the plugin refuses them, and the kubelet fails the pod."""
        begun = time.monotonic()
        pods.make(self._api(), "two-shares", NODE, 2)
        good = until(lambda: self._pods()["two-shares"].phase == "Failed", POD_SECONDS)
        found = self._pods()["two-shares"]
        good = good and "maximum request size for shared resources is 1" in found.why
        self._told("a pod of 2 shares", begun, "refused", f"{found.phase}: {found.why}", good=good)
        self.clear()

    def _limits(self, replicas: int) -> None:
        """MPS beside the pods: its own daemon serves its own clients alone, and the GPU stays in its compute mode."""
        gpu = self._machine.reading["gpus"][0]
        begun = time.monotonic()
        declared, observed, good = mps_limits.look(gpu["uuid"], gpu["memoryMiB"], replicas)
        self._told(f"MPS by a daemon of its own, limits of {replicas}", begun, declared, observed, good=good)

    # --- faults -------------------------------------------------------------------------------------------

    def _faults(self) -> None:
        self._fault("config edited by hand", self._edit_config)
        self._move_label()
        self._fault("a second device plugin", self._add_plugin)
        self._restart_plugin()
        self._fault("verifier hangs", self._freeze_verifier, silent=True)
        self._fault("driver's libraries gone", self._hide_driver, silent=True)

    def _fault(self, name: str, happens: Callable[[], Callable[[], object]], *, silent: bool = False) -> None:
        """Break something, see that the verifier finds it, put it right, see that all is proven again.

        Where the verifier itself is silent, nobody can find anything; then nothing may count as proven.
        """
        begun = time.monotonic()
        repair = happens()
        try:
            if silent:
                found = until(lambda: self._verdict() is not Verdict.PROVEN, _FAULT_SECONDS)
                self._told(name, begun, "not proven", self._reason() if found else "still proven", good=found)
            else:
                found = until(lambda: self._verdict() is Verdict.DIFFERS, _FAULT_SECONDS)
                self._told(name, begun, "found", self._why() if found else "not found", good=found)
        finally:
            repair()
        self._proven_again(name)

    def _proven_again(self, name: str) -> None:
        begun = time.monotonic()
        wanted = self._machine.gpus * REPLICAS[-1]
        good = until(lambda: self._verdict() == Verdict.PROVEN and self._allocatable() == wanted, _FAULT_SECONDS)
        self._told(f"{name}: put right", begun, "proven", "proven" if good else self._why(), good=good)

    def _edit_config(self) -> Callable[[], object]:
        key = self._key()
        text = self._api().list(_CONFIG)["data"][key]
        self._api().patch(_CONFIG, {"data": {key: text.replace(f"replicas: {REPLICAS[-1]}", "replicas: 6")}})
        return lambda: self._api().patch(_CONFIG, {"data": {key: text}})

    def _move_label(self) -> None:
        """Another key that is there. NFD puts the label back, often before the verifier looks again; one of both must be seen."""
        name, key = "label moved by hand", self._key()
        others = sorted(set(self._api().list(_CONFIG)["data"]) - {key})
        begun = time.monotonic()
        self._api().patch(NODE_PATH, {"metadata": {"labels": {CONFIG_LABEL: others[0]}}})
        good = until(lambda: self._key() == key or self._verdict() == Verdict.DIFFERS, _FAULT_SECONDS)
        back = self._key() == key
        self._told(name, begun, "found, or put back by NFD", "put back" if back else self._why(), good=good)
        if not back:
            self._api().patch(NODE_PATH, {"metadata": {"labels": {CONFIG_LABEL: key}}})
        self._proven_again(name)

    def _key(self) -> str:
        return str(self._node()["metadata"]["labels"].get(CONFIG_LABEL))

    def _add_plugin(self) -> Callable[[], object]:
        """By its image it is one; it sleeps, so it registers nothing."""
        container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.14.1", "command": ["sleep", "3600"]}
        spec = {
            "nodeName": NODE,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        self._api().create(_SYSTEM_PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _SECOND}, "spec": spec})
        return lambda: self._api().delete(f"{_SYSTEM_PODS}/{_SECOND}")

    def _restart_plugin(self) -> None:
        """The kubelet keeps a plugin's devices for those who have them; its shares come back with the next pod of it."""
        begun, before = time.monotonic(), self._computing()
        (old,) = self._named(_PLUGIN_PODS)
        self._api().delete(f"{_OPERANDS}/{old['metadata']['name']}")
        wanted = self._machine.gpus * REPLICAS[-1]

        def back() -> bool:
            new = [pod for pod in self._named(_PLUGIN_PODS) if pod["metadata"]["uid"] != old["metadata"]["uid"]]
            return any(map(_is_ready, new)) and self._allocatable() == wanted and self._verdict() is Verdict.PROVEN

        good = until(back, _FAULT_SECONDS)
        self._told("plugin's pod deleted", begun, f"gpu {wanted}, proven", f"gpu {self._allocatable()}", good=good)
        self._untouched("plugin's pod deleted", before)

    def _freeze_verifier(self) -> Callable[[], object]:
        (pod,) = self._named(VERIFIER_PODS)
        return breaking.freeze(self._place, pod["metadata"]["uid"])

    def _hide_driver(self) -> Callable[[], object]:
        """The verifier that runs has its libraries; it is the next one that finds none, and does not start."""
        show = breaking.hide_driver(self._place)
        self._delete_verifier()

        def repair() -> None:
            show()
            # Otherwise its kubelet would wait longer and longer between two tries.
            self._delete_verifier()

        return repair

    def _delete_verifier(self) -> None:
        for pod in self._named(VERIFIER_PODS):
            self._api().delete(f"{VERIFIERS}/{pod['metadata']['name']}")

    # --- looks --------------------------------------------------------------------------------------------

    def _verdict(self) -> Verdict | None:
        evidence = self._collect()
        return evidence.verdict if evidence else None

    def _why(self) -> str:
        node = (self._node() or {}).get("status") or {}
        said = [one for one in node.get("conditions") or [] if one["type"] == "GpuSharingVerified"]
        message = said[0]["message"] if said else "no verdict"
        likely = _LIKELY.search(message)
        return likely[1] if likely else message

    def _reason(self) -> str:
        """Why nothing is proven, as the evidence has it."""
        evidence = self._collect()
        nodes = [node for pool in evidence.pools for node in pool.nodes] if evidence else []
        return "; ".join(f"{node.verdict.value}: {node.reason}" for node in nodes) or "no evidence"


def _is_ready(pod: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or [])
