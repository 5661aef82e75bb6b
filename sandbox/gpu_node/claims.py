"""The play of resource claims: the same pods get whole GPUs, then shares, by claims, and at last by the device plugin again.

Only claims that change no setting of a GPU are played. NVIDIA's driver sets time slices, compute modes and MIG only behind
feature gates, which are off here (kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0-dev, cmd/gpu-kubelet-plugin/device_state.go and
nvlib.go); the play compares the GPUs' settings before and after.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.allocation.dra import DRA_DRIVER
from gpu_pools.evidence.document import evidence_text
from gpu_pools.stack.allocation import DEVICE_PLUGIN, DRA
from gpu_pools.text.files import write_whole
from gpu_pools.verifier.quantities import read_count
from sandbox.gpu_node import pods
from sandbox.gpu_node.stage import EXCLUSIVE, NODE, POD_SECONDS, Stage, time_slicing, until
from sandbox.system.files import explained

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

#: Shares of each GPU.
SHARES: Final = 4
#: The file with the evidence of the last declaration that was proven with claims.
EVIDENCE: Final = "evidence-claims.json"
_SLICES: Final = f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName={NODE}"
_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_BY_CLAIMS, _BY_PLUGIN = " by claims", " by the device plugin"


class Claims(Stage):
    """Whole GPUs and shares by resource claims, and the way back to the device plugin."""

    def run(self, folder: Path) -> None:
        """Play all of it."""
        self._allocation = DRA
        self._declare(f"exclusive{_BY_CLAIMS}", EXCLUSIVE, 1)
        self._fill(1, _BY_CLAIMS)
        self._check_gpus(1, _BY_CLAIMS)
        # A pool of running nodes changes all at once, so its pods go first.
        self._free_devices(", exclusive")
        self._declare(f"time-slicing {SHARES}{_BY_CLAIMS}", time_slicing(SHARES), SHARES)
        self._write_evidence(folder)
        if self._machine.gpus > 1:
            self._share_one_gpu()
            self._take_two_shares()
        self._fill(SHARES, _BY_CLAIMS)
        self._check_gpus(SHARES, _BY_CLAIMS)
        self._free_devices(f", time-slicing {SHARES}")
        self._allocation = DEVICE_PLUGIN
        self._declare(f"time-slicing {SHARES}{_BY_PLUGIN}", time_slicing(SHARES), SHARES)
        self._check_slices()
        self._fill(SHARES, _BY_PLUGIN)
        self._check_gpus(SHARES, _BY_PLUGIN)

    def _offered(self) -> int:
        if self._allocation != DRA:
            return super()._offered()
        return count_claims(one["spec"] for one in self._slices())

    def _check_gpus(self, replicas: int, how: str) -> None:
        """See on which GPUs the pods compute: on each as many as it has shares, and on no other.

        Args:
            replicas: of each GPU.
            how: the end of the step's name.
        """
        begun, known = time.monotonic(), self._uuids()
        found = count_pods(self._computing().values())
        declared, observed = tell_pods(dict.fromkeys(known, replicas), known), tell_pods(found, known)
        self._told(f"GPUs of these {sum(found.values())} pods{how}", begun, declared, observed, good=observed == declared)

    def _share_one_gpu(self) -> None:
        """See that as many pods as one GPU has shares compute on one GPU: the scheduler fills it before it takes the next."""
        begun = time.monotonic()
        for index in range(SHARES):
            pods.make(self._api(), f"together-{index}", NODE)
        good = until(lambda: len(self._computing()) == SHARES, POD_SECONDS)
        used = count_pods(self._computing().values())
        declared, observed = f"{SHARES} on 1 GPU", f"{sum(used.values())} on {len(used)} GPU{'s' * (len(used) != 1)}"
        self._told(f"{SHARES} pods of a share each{_BY_CLAIMS}", begun, declared, observed, good=good and observed == declared)
        self.clear()

    def _take_two_shares(self) -> None:
        """See that a pod of two shares computes on two GPUs; of the device plugin it would get none."""
        begun = time.monotonic()
        pods.make(self._api(), "two-shares", NODE, 2)
        good = until(lambda: "two-shares" in self._computing(), POD_SECONDS)
        used = {*self._pods()["two-shares"].gpus} & {*self._uuids()}
        observed = f"computes on {len(used)} GPUs that NVML knows"
        declared = "computes on 2 GPUs that NVML knows"
        self._told(f"a pod of 2 shares{_BY_CLAIMS}", begun, declared, observed, good=good and observed == declared)
        self.clear()

    def _free_devices(self, how: str) -> None:
        """Remove the pods, and see that their claims go with them."""
        self._remove_pods(how)
        begun = time.monotonic()
        good = until(lambda: not self._claims(), POD_SECONDS)
        self._told(f"claims left{how}", begun, "none", str(len(self._claims()) or "none"), good=good)

    def _check_slices(self) -> None:
        """See that NVIDIA's driver announces nothing any more: the scheduler would give its devices to pods."""
        begun = time.monotonic()
        good = until(lambda: not self._slices(), POD_SECONDS)
        self._told("devices of the DRA driver", begun, "none", "some" if self._slices() else "none", good=good)

    def _write_evidence(self, folder: Path) -> None:
        if self.evidence is not None:
            with explained(folder / EVIDENCE, "write"):
                write_whole(folder / EVIDENCE, evidence_text(self.evidence))

    def _uuids(self) -> list[str]:
        return [gpu["uuid"] for gpu in self._machine.reading["gpus"]]

    def _claims(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api().list(_CLAIMS)["items"]
        return found

    def _slices(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api().list(_SLICES)["items"]
        return [one for one in found if one["spec"]["driver"] == DRA_DRIVER]


def count_claims(slices: Iterable[Mapping[str, Any]]) -> int:
    """Return how many claims the devices of a node take: one each, or as many as a device has shares.

    Args:
        slices: the ``spec`` of each of the driver's ResourceSlices.
    """
    return sum(_shares_of(device) for one in slices for device in one.get("devices") or [])


def _shares_of(device: Mapping[str, Any]) -> int:
    if not device.get("allowMultipleAllocations"):
        return 1
    return read_count(device["capacity"]["shares"]["value"]) or 0


def count_pods(seen: Iterable[pods.PodSnapshot]) -> Counter[str]:
    """Return how many of the pods compute on each GPU, by its UUID."""
    return Counter(gpu for one in seen for gpu in one.gpus)


def tell_pods(found: Mapping[str, int], known: Collection[str]) -> str:
    """Return how many pods compute on each GPU of the machine, and how many on others.

    Args:
        found: UUID -> number of pods.
        known: UUIDs of the machine's GPUs, in NVML's order.
    """
    others = sum(number for gpu, number in found.items() if gpu not in known)
    counts = [f"{found.get(gpu, 0)} on GPU {index}" for index, gpu in enumerate(known)]
    return ", ".join([*counts, *([f"{others} on GPUs that NVML does not know"] if others else [])])
