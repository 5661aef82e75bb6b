"""Compares what NVIDIA's DRA driver announces of a node with the expectation and with NVML. Pure.

A ResourceSlice outlives the driver that wrote it, and the scheduler goes on to allocate its devices. So a slice without a running
driver is a difference, and so is a device of a GPU that NVML does not have. Only nodes whose expectation has `claims` load this.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from .findings import Where
from .reading import Failed, Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .claims import Device
    from .expectation import ClaimsExpectation, DeviceExpectation
    from .findings import Findings
    from .node import ApiFailure, ClaimsReading, Pod
    from .reading import Hung, Unreadable

#: The value of the pods' label ``dra-driver-nvidia-gpu-component``, or what it begins with.
_KUBELET_PLUGIN: Final = "kubelet-plugin"
_WHERE: Final = Where("ResourceSlices")


def compare_claims(
    wanted: ClaimsExpectation, found: ClaimsReading, nvml: Reading | Hung | Unreadable, findings: Findings
) -> Iterator[ApiFailure]:
    """Add everything in which the announced devices differ; yields what the API would not say.

    Args:
        wanted: what must be announced.
        found: what is announced, and the driver's pods on the node.
        nvml: what NVML said.
        findings: where to add.
    """
    running = False
    if isinstance(found.pods, tuple):
        running = _compare_pods(wanted, found.pods, findings)
    else:
        yield found.pods
    if not isinstance(found.devices, tuple):
        yield found.devices
        return
    if found.devices and isinstance(found.pods, tuple) and not running:
        findings.differs(_WHERE, "driver", "running", "not running", "slice-without-driver", f"{len(found.devices)} devices")
    _compare_devices(wanted, found.devices, findings)
    _compare_with_nvml(found.devices, nvml, findings)


def _compare_pods(wanted: ClaimsExpectation, pods: tuple[Pod, ...], findings: Findings) -> bool:
    """Whether a pod of the driver is ready."""
    of_driver = [pod for pod in pods if pod.app.startswith(_KUBELET_PLUGIN)]
    if any(pod.ready for pod in of_driver):
        return True
    if of_driver:
        where = Where(f"pod {of_driver[0].namespace}/{of_driver[0].name}")
        findings.differs(where, "ready", "ready", of_driver[0].words, "dra-driver-not-ready")
    else:
        findings.differs(Where(f"pods in {wanted.namespace}"), "pod on the node", "one", "none", "dra-driver-missing")
    return False


def _compare_devices(wanted: ClaimsExpectation, devices: tuple[Device, ...], findings: Findings) -> None:
    if not devices:
        findings.differs(_WHERE, "devices", sum(one.count for one in wanted.devices), 0, "slice-missing")
        return
    expected = Counter({_key(one): one.count for one in wanted.devices})
    announced = Counter((device.type, device.profile, device.shares) for device in devices)
    for key in sorted({*expected, *announced}, key=str):
        if expected[key] != announced[key]:
            findings.differs(_WHERE, _words(key), expected[key], announced[key], "slice-other")


def _key(one: DeviceExpectation) -> tuple[str, str | None, int | None]:
    return one.type, one.profile, one.shares


def _words(key: tuple[str, str | None, int | None]) -> str:
    kind, profile, shares = key
    return f"devices of type {kind}" + (f", profile {profile}" if profile else "") + (f", {shares} shares" if shares else "")


def _compare_with_nvml(devices: tuple[Device, ...], nvml: Reading | Hung | Unreadable, findings: Findings) -> None:
    """Each announced device must be one of a GPU that NVML has; where NVML did not say, that is a finding of its own."""
    if not isinstance(nvml, Reading) or isinstance(nvml.gpus, Failed):
        return
    known = {gpu.uuid for gpu in nvml.gpus if not isinstance(gpu.uuid, Failed)}
    if len(known) != len(nvml.gpus):
        return
    for device in devices:
        if device.gpu not in known:
            findings.differs(_WHERE, f"GPU of device {device.name}", "one of the node", device.gpu or "none", "slice-outdated")
