"""Checks claims and device classes for NVIDIA's DRA driver: parameters of `gpu.nvidia.com`, and names of extended resources.

The driver and its webhook decode the parameters strictly and then validate them. The webhook sees ResourceClaims and
ResourceClaimTemplates only, so a fault in a DeviceClass shows first when a pod is prepared, and that pod hangs in
ContainerCreating.

Not checked: CEL expressions, requests and constraints, which Kubernetes validates itself; parameters of compute domains beyond
their kind; and whether the cluster has the devices.

Sources, v0.5.0 of dra-driver-nvidia-gpu: (1) api/nvidia.com/resource/v1beta1 (api.go, sharing.go, validate.go),
cmd/webhook/main.go and pkg/featuregates; (2) its guides on time-slicing, MPS and consumable shares. That unknown fields and
missing gates are refused was also seen of the real webhook. On one point they differ, and the finding says so: a
`timeSlicingConfig` without `interval`. On names of extended resources: demo/specs/extended-resources of the driver, and
extendedresourcecache.go of k8s.io/dynamic-resource-allocation v0.36.3, tried with the real scheduler.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.errors import show
from gpu_pools.text.nested import at
from gpu_pools.verifier.quantities import PLACES, read_amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.existing.documents import Document
    from gpu_pools.existing.findings import Findings, Severity
    from gpu_pools.existing.yaml_tree import Path

DRIVER: Final = "gpu.nvidia.com"
API_VERSION: Final = "resource.nvidia.com/v1beta1"
_CLASS: Final = "device-class"
#: The chart's own DeviceClass, and the name of an extended resource that it has.
_CHARTS_CLASS: Final = ("gpu.nvidia.com", "nvidia.com/gpu")
_OF_DOMAINS: Final = ("ComputeDomainChannelConfig", "ComputeDomainDaemonConfig")
_VFIO: Final = "VfioDeviceConfig"
_KINDS: Final = ("GpuConfig", "MigDeviceConfig", _VFIO, *_OF_DOMAINS)
_TIME_SLICING: Final = "TimeSlicing"
_MPS: Final = "MPS"
#: Strategy -> the feature gate of the driver that it needs; both are off by default.
_GATES: Final = {_TIME_SLICING: "TimeSlicingSettings", _MPS: "MPSSupport"}
_INTERVALS: Final = ("Default", "Short", "Medium", "Long")
_LIMIT: Final = "defaultPinnedDeviceMemoryLimit"
_LIMITS: Final = "defaultPerDevicePinnedMemoryLimit"
_PERCENTAGE: Final = "defaultActiveThreadPercentage"
_SHARING_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "GpuConfig": ("strategy", "timeSlicingConfig", "mpsConfig"),
    "MigDeviceConfig": ("strategy", "mpsConfig"),
}
_MPS_FIELDS: Final = (_PERCENTAGE, _LIMIT, _LIMITS, "multiUser")
_MIB: Final = 2**20 * 10**PLACES
_ALL_THREADS: Final = 100


@dataclass(frozen=True)
class _Config:
    """Parameters in a document, and what happens where they are wrong.

    Attributes:
        parameters: as they are written.
        path: where they stand.
        refused: what refuses them, in words.
        findings: what is found.
    """

    parameters: Mapping[str, Any]
    path: Path
    refused: str
    findings: Findings

    def add(self, keys: Path, severity: Severity, message: str, *, really: str = "", allowed: str, remedy: str) -> None:
        """Add a finding; without `really` it is refused."""
        self.findings.add((*self.path, *keys), severity, message, really=really or self.refused, allowed=allowed, remedy=remedy)


def check_device_parameters(document: Document, findings: Findings) -> None:
    """Check what a claim, a claim template or a device class has for NVIDIA's driver.

    Args:
        document: of the kind `resource-claim` or `device-class`.
        findings: what is found is added.
    """
    keys = ("spec", "config") if document.kind == _CLASS else ("spec", "devices", "config")
    if at(document.value, "kind") == "ResourceClaimTemplate":
        keys = ("spec", *keys)
    configs = at(document.value, *keys)
    for number, config in enumerate(configs if isinstance(configs, list) else ()):
        if at(config, "opaque", "driver") == DRIVER:
            path = (*document.path, *keys, number, "opaque", "parameters")
            _check_parameters(at(config, "opaque", "parameters"), path, document, findings)


def _check_parameters(parameters: object, path: Path, document: Document, findings: Findings) -> None:
    refused = (
        "NVIDIA's webhook does not look at DeviceClasses; the driver refuses to prepare a pod, which hangs in ContainerCreating"
        if document.kind == _CLASS
        else "NVIDIA's webhook refuses the object; without the webhook the driver refuses to prepare a pod with it"
    )
    config = _Config(parameters if isinstance(parameters, dict) else {}, path, refused, findings)
    kind = config.parameters.get("kind")
    if (config.parameters.get("apiVersion"), kind) not in [(API_VERSION, one) for one in _KINDS]:
        near = difflib.get_close_matches(str(kind), _KINDS, n=1) or ["GpuConfig"]
        config.add(
            (),
            "crash",
            f"parameters for {DRIVER} of apiVersion {show(config.parameters.get('apiVersion'))} and kind {show(kind)}",
            allowed=f"apiVersion {API_VERSION} and one of {', '.join(_KINDS)}",
            remedy=f"Write apiVersion: {API_VERSION} and kind: {near[0]}.",
        )
    elif kind == _VFIO and document.kind != _CLASS:
        config.add(
            ("kind",),
            "crash",
            f"{_VFIO} in a claim",
            really="NVIDIA's webhook knows no such kind and refuses the object; without the webhook the driver takes it",
            allowed="GpuConfig or MigDeviceConfig",
            remedy="Install the driver's chart with webhook.enabled=false, or take the parameters out.",
        )
    elif isinstance(kind, str) and kind in _SHARING_FIELDS:
        _check_sharing(kind, config)


def _check_sharing(kind: str, config: _Config) -> None:
    _check_fields(config.parameters, ("apiVersion", "kind", "sharing"), (), config)
    sharing = config.parameters.get("sharing")
    if sharing is None:
        return
    if not isinstance(sharing, dict):
        _add_wrong_type(config, ("sharing",), sharing, "a mapping with strategy")
        return
    _check_fields(sharing, _SHARING_FIELDS[kind], ("sharing",), config)
    strategy = sharing.get("strategy")
    if not isinstance(strategy, str) or strategy not in _GATES:
        near = difflib.get_close_matches(str(strategy), _GATES, n=1, cutoff=0.3) or [_TIME_SLICING]
        config.add(
            ("sharing", "strategy"),
            "crash",
            f"the strategy {show(strategy)}",
            allowed=" or ".join(_GATES),
            remedy=f"Write strategy: {near[0]}.",
        )
        return
    _check_strategy(kind, strategy, config)
    if "timeSlicingConfig" in sharing and kind == "GpuConfig":
        _check_interval(sharing["timeSlicingConfig"], config)
    if "mpsConfig" in sharing:
        _check_mps(sharing["mpsConfig"], config)


def _check_strategy(kind: str, strategy: str, config: _Config) -> None:
    sharing = config.parameters["sharing"]
    gate = _GATES[strategy]
    config.add(
        ("sharing", "strategy"),
        "unknown",
        f"{strategy} needs the driver's feature gate {gate}, which is off by default",
        really=f"without the gate: {config.refused}",
        allowed=f"a driver whose chart is installed with featureGates.{gate}=true"
        + (", and without ConsumableShares, which excludes MPS" if strategy == _MPS else ""),
        remedy="Compare with what `helm get values RELEASE` prints of the driver's release.",
    )
    if kind == "MigDeviceConfig" and strategy == _TIME_SLICING:
        config.add(
            ("sharing", "strategy"),
            "ignored",
            "TimeSlicing of MIG devices",
            really="the driver sets no time slice of a MIG device",
            allowed=f"{_MPS}, or no sharing",
            remedy="Remove sharing.",
        )
    other = "mpsConfig" if strategy == _TIME_SLICING else "timeSlicingConfig"
    if kind == "GpuConfig" and sharing.get(other) is not None:
        config.add(
            ("sharing", other),
            "crash",
            f"{other} with the strategy {strategy}",
            really="the webhook takes it, and the driver refuses to prepare a pod with it, which hangs in ContainerCreating",
            allowed=f"the settings of {strategy} alone",
            remedy=f"Remove {other}.",
        )


def _check_interval(settings: object, config: _Config) -> None:
    keys = ("sharing", "timeSlicingConfig")
    if settings is None:
        return
    if not isinstance(settings, dict):
        _add_wrong_type(config, keys, settings, "a mapping with interval")
        return
    _check_fields(settings, ("interval",), keys, config)
    interval = settings.get("interval")
    if interval is None:
        config.add(
            keys,
            "unknown",
            "timeSlicingConfig without interval",
            really="the guide says that Default is used; by the code of v0.5.0 the check fails, since no interval is there",
            allowed=", ".join(_INTERVALS),
            remedy="Write interval: Default, or remove timeSlicingConfig.",
        )
    elif interval not in _INTERVALS:
        near = difflib.get_close_matches(str(interval), _INTERVALS, n=1, cutoff=0.3) or ["Default"]
        config.add(
            (*keys, "interval"),
            "crash",
            f"the interval {show(interval)}",
            allowed=", ".join(_INTERVALS),
            remedy=f"Write interval: {near[0]}.",
        )


def _check_mps(settings: object, config: _Config) -> None:
    keys = ("sharing", "mpsConfig")
    if settings is None:
        return
    if not isinstance(settings, dict):
        _add_wrong_type(config, keys, settings, "a mapping")
        return
    _check_fields(settings, _MPS_FIELDS, keys, config)
    percentage = settings.get(_PERCENTAGE)
    whole = isinstance(percentage, int) and not isinstance(percentage, bool)
    if percentage is not None and not (whole and 0 <= percentage <= _ALL_THREADS):
        _add_wrong_type(config, (*keys, _PERCENTAGE), percentage, "a whole number from 0 to 100")
    user = settings.get("multiUser")
    if user is not None and not isinstance(user, bool):
        _add_wrong_type(config, (*keys, "multiUser"), user, "true or false")
    _check_limit(settings.get(_LIMIT), (*keys, _LIMIT), config)
    limits = settings.get(_LIMITS)
    if limits is not None and not isinstance(limits, dict):
        _add_wrong_type(config, (*keys, _LIMITS), limits, "a mapping from a device's index or UUID to an amount of memory")
    for device, limit in (limits if isinstance(limits, dict) else {}).items():
        _check_limit(limit, (*keys, _LIMITS, str(device)), config)
        if not str(device).isdigit() and not str(device).startswith(("GPU-", "MIG-")):
            _add_wrong_type(config, (*keys, _LIMITS, str(device)), device, "a device's index or UUID")


def _check_limit(limit: object, keys: Path, config: _Config) -> None:
    if limit is None:
        return
    amount = read_amount(limit)
    if isinstance(limit, bool) or amount is None:
        _add_wrong_type(config, keys, limit, "an amount of memory, such as 10Gi")
    elif amount < _MIB:
        config.add(
            keys,
            "crash",
            f"the limit {show(limit)}",
            really="the webhook takes it, and the driver refuses to prepare a pod with it: less than 1 MiB",
            allowed="1Mi or more",
            remedy="Write a larger limit, such as 10Gi.",
        )


def _check_fields(given: Mapping[str, Any], known: tuple[str, ...], keys: Path, config: _Config) -> None:
    for field in sorted(set(map(str, given)) - set(known)):
        near = difflib.get_close_matches(field, known, n=1)
        remedy = f"Write {near[0]}." if near else f"Remove {field}."
        if field == "replicas":
            remedy = "Remove replicas. How many shares a GPU has is one setting of the driver, --consumable-shares."
        config.add((*keys, field), "crash", f"unknown field {show(field)}", allowed=", ".join(known), remedy=remedy)


def _add_wrong_type(config: _Config, keys: Path, value: object, allowed: str) -> None:
    config.add(keys, "crash", f"{keys[-1]} is {show(value)}", allowed=allowed, remedy=f"Write {allowed}.")


def check_resource_names(documents: Iterable[Document], findings: Findings) -> None:
    """Check that each name of an extended resource belongs to one device class.

    Args:
        documents: all of a file.
        findings: what is found is added.
    """
    classes: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        name = at(document.value, "spec", "extendedResourceName") if document.kind == _CLASS else None
        if isinstance(name, str):
            classes[name].append(document)
    for resource, owners in classes.items():
        for document in owners[1:]:
            _add_second_owner(document, resource, owners[0].name, findings)
        own, taken = _CHARTS_CLASS
        if resource == taken and all(owner.name != own for owner in owners):
            _add_second_owner(owners[0], resource, f"{own} of the driver's chart", findings)


def _add_second_owner(document: Document, resource: str, first: str, findings: Findings) -> None:
    findings.add(
        (*document.path, "spec", "extendedResourceName"),
        "overridden",
        f"{resource} is the name of the DeviceClass {first}, too",
        really="the scheduler takes one of the two; when either is deleted, it forgets the name, and pods that ask for it stay "
        "Pending until the other class is changed",
        allowed="one DeviceClass for each name of an extended resource",
        remedy="Take the name out of one of the two, or give each its own, such as nvidia.com/gpu.shared.",
    )
