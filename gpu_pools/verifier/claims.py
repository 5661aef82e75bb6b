"""Reads the devices that NVIDIA's DRA driver announces of a node in its ResourceSlices.

Only nodes whose expectation has `claims` load this. What is announced is judged in compare_claims.py.

Sources: Kubernetes v1.36.3, k8s.io/api/resource/v1/types.go; kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0,
cmd/gpu-kubelet-plugin/deviceinfo.go; seen with both programs (tests/sandbox/machines/test_dra_nodes.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .api import shaped
from .quantities import read_count

if TYPE_CHECKING:
    from .api import Api

SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
_SHARES: Final = "shares"


@dataclass(frozen=True)
class Device:
    """One device of a slice.

    Attributes:
        name: the driver's name of it.
        type: ``gpu``, ``mig`` or another kind of the driver's.
        profile: the MIG profile; None of other kinds.
        uuid: the device's, as NVML has it.
        gpu: the UUID of the GPU that it is, or is a part of.
        shares: how many claims may share it; None: one has it whole.
    """

    name: str
    type: str
    profile: str | None
    uuid: str
    gpu: str
    shares: int | None

    @property
    def capacity(self) -> int:
        """How many claims can have it at the same time."""
        return 1 if self.shares is None else self.shares


def read_devices(api: Api, node: str, driver: str) -> tuple[Device, ...]:
    """Return the devices that the driver announces of a node, by name.

    Raises:
        ApiError: where the API does not answer, or answers something else.
    """
    listed = api.get(SLICES, fieldSelector=f"spec.nodeName={node}")
    with shaped(f"GET {SLICES}"):
        slices = [one["spec"] for one in listed.get("items") or [] if one["spec"]["driver"] == driver]
        # A driver that starts anew writes the next generation, and removes the slices of the one before a moment later.
        newest = max((int(one["pool"]["generation"]) for one in slices), default=0)
        found = [
            _device(device) for one in slices if int(one["pool"]["generation"]) == newest for device in one.get("devices") or []
        ]
    return tuple(sorted(found, key=lambda device: device.name))


def _device(device: dict[str, Any]) -> Device:
    texts = {
        str(name).rpartition("/")[2]: value["string"]
        for name, value in (device.get("attributes") or {}).items()
        if isinstance(value.get("string"), str)
    }
    kind, uuid = texts.get("type", ""), texts.get("uuid", "")
    return Device(
        name=str(device["name"]),
        type=kind,
        profile=texts.get("profile") if kind == "mig" else None,
        uuid=uuid,
        gpu=texts.get("parentUUID", uuid),
        shares=_shares(device),
    )


def _shares(device: dict[str, Any]) -> int | None:
    if not device.get("allowMultipleAllocations"):
        return None
    shares: dict[str, Any] = (device.get("capacity") or {}).get(_SHARES) or {}
    return read_count(shares.get("value"))
