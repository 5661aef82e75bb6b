"""Values that a chart takes and that end the operator, or NFD's use for it, afterwards (W40, W43 to W45, W47 of rules.md).

The operator writes what its ClusterPolicy says into DaemonSets. What the API server refuses there, or what the operator itself
cannot read, ends in ``ReconcileFailed`` with the old DaemonSets still running: the deploy is through by then. Read in
NVIDIA/gpu-operator v26.7.0 (controllers/object_controls.go, imagePath of api/nvidia/v1), in Kubernetes' validation of pod
templates, and in node-feature-discovery v0.19.0 (pkg/nfd-worker, source/pci, source/system). Nothing is looked up: whether a
ConfigMap or a priority class exists only the cluster knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from gpu_pools.stack.kubernetes_names import TAINT_EFFECTS, label_value, qualified_name
from gpu_pools.text.nested import at
from gpu_pools.verifier.quantities import PLACES, read_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Place = tuple[str | int, ...]

#: Sections of a ClusterPolicy with a container of their own.
_OPERANDS: Final[tuple[Place, ...]] = (
    ("driver",), ("driver", "manager"), ("toolkit",), ("validator",), ("devicePlugin",), ("gfd",), ("migManager",), ("dcgm",),
    ("dcgmExporter",), ("nodeStatusExporter",),
)  # fmt: skip
_VALIDATIONS: Final[tuple[Place, ...]] = tuple(("validator", name) for name in ("driver", "toolkit", "cuda", "plugin"))
#: Their command is ``/bin/sh -c``, and a script of the operator's its only argument.
_STARTED_BY_SCRIPT: Final[tuple[Place, ...]] = (("devicePlugin",), ("toolkit",), ("migManager",))
#: Whose images the operator knows without being told, by its own environment.
_KNOWN_IMAGES: Final[tuple[Place, ...]] = (("validator",), ("nodeStatusExporter",), ("driver", "manager"))
#: ConfigMaps after which the operator names a volume of the pod.
_VOLUME_NAMES: Final[tuple[Place, ...]] = (
    ("devicePlugin", "config", "name"), ("driver", "kernelModuleConfig", "name"), ("driver", "repoConfig", "configMapName"),
    ("driver", "certConfig", "name"),
)  # fmt: skip
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|sha256:[0-9a-f]{64}")
_STANDARD_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_MOST_PERCENT: Final = 100
#: By what the operator knows a GPU node (gpuNodeLabels of controllers/state_manager.go): fields of a PCI label.
_KNOWN_FIELDS: Final = (("vendor",), ("class", "vendor"))
_DEVICE_FIELDS: Final = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")
_GPU_CLASSES: Final = ("0300", "0302")
#: Sources of NFD without which no GPU node is found, no operand is made, or no labeller's file is read.
_SOURCES: Final[Mapping[str, str]] = {
    "pci": "no node is known to have a GPU",
    "system": "the operator learns no operating system, and makes no DaemonSet at all",
    "local": "no pool's labeller is heard: the files that it writes are not read",
}
_NO_LABELS: Final = "no label of NFD reaches a node"
#: What nfd-worker asks for, and what else nfd-master has to let through: labels of the pools and of gpu-feature-discovery.
_WORKER_LABELS: Final = ("pci-10de.present", "system-os_release.ID", "system-os_release.VERSION_ID")
_MASTER_LABELS: Final = ("device-plugin.config", "mig.config", "pool", "gpu.count", "mps.capable")


@dataclass(frozen=True)
class Refused:
    """One value.

    Attributes:
        place: where it stands, below the chart's values or the ClusterPolicy's spec.
        value: what is written.
        why: what becomes of it, with the incident's id.
        allowed: what would do.
    """

    place: Place
    value: object
    why: str
    allowed: str


def refused_operator_values(values: Mapping[str, object]) -> Iterator[Refused]:
    """What of the operator's values, or of a ClusterPolicy's spec, ends the operator."""
    yield from _strategies(values)
    yield from _names(values)
    yield from _tolerations(values)
    for operand in _OPERANDS:
        yield from _image(values, operand)
        yield from _resources(values, operand)
    for operand in _STARTED_BY_SCRIPT:
        args = _at(values, (*operand, "args"))
        if args:
            why = "they take the place of the script that starts the program: its container ends at once (W47)"
            yield Refused((*operand, "args"), args, why, "env")
    for operand in (*_OPERANDS, *_VALIDATIONS):
        yield from _environment(values, operand)


def refused_nfd_values(values: Mapping[str, object]) -> Iterator[Refused]:
    """What of NFD's values takes the labels away that the operator, or the plan, lives on."""
    yield from _sources(values)
    yield from _pci(values)
    yield from _published(values)


def _at(values: object, place: Place) -> object:
    return at(values, *(str(part) for part in place))


def _strategies(values: Mapping[str, object]) -> Iterator[Refused]:
    place: Place = ("daemonsets", "rollingUpdate", "maxUnavailable")
    value = _at(values, place)
    if value in (None, "") or _at(values, ("daemonsets", "updateStrategy")) == "OnDelete":
        return
    # A list or a mapping may be of any size: aliases of aliases take no room in a file.
    number = None if isinstance(value, list | dict) else re.fullmatch(r"\+?(\d{1,9})(%?)", str(value))
    if not number or not int(number[1]) or (number[2] and int(number[1]) > _MOST_PERCENT):
        yield Refused(place, value, "the operator makes no DaemonSet of it (W44)", "a number from 1, or 1% to 100%")


def _names(values: Mapping[str, object]) -> Iterator[Refused]:
    for place in _VOLUME_NAMES:
        name = _at(values, place)
        if isinstance(name, str) and name and not _DNS_LABEL.fullmatch(name):
            why = "the operator names a volume after it, and Kubernetes refuses that volume (W43)"
            yield Refused(place, name, why, "a ConfigMap whose name has at most 63 small letters, digits and dashes; no dots")
    for key in ("labels", "annotations"):
        given = _at(values, ("daemonsets", key))
        for name, value in given.items() if isinstance(given, dict) else ():
            good = isinstance(value, str) and qualified_name(str(name)) and (key == "annotations" or label_value(value))
            if not good:
                why = f"Kubernetes refuses every DaemonSet with such {key} (W44)"
                yield Refused(("daemonsets", key, str(name)), value, why, "a qualified name, and a text that Kubernetes takes")


def _tolerations(values: Mapping[str, object]) -> Iterator[Refused]:
    given = _at(values, ("daemonsets", "tolerations"))
    for index, entry in enumerate(given if isinstance(given, list) else ()):
        wrong = _wrong_toleration(entry)
        if wrong:
            place = ("daemonsets", "tolerations", index)
            yield Refused(place, entry, f"Kubernetes refuses every DaemonSet with it: {wrong} (W44)", "a toleration of a pod")


def _wrong_toleration(entry: object) -> str:
    if not isinstance(entry, dict):
        return "no mapping"
    key, operator, effect = entry.get("key"), entry.get("operator") or "Equal", entry.get("effect")
    rules = (
        (operator in ("Exists", "Equal"), "operator is Exists or Equal"),
        (effect in (None, "", *TAINT_EFFECTS), f"effect is one of {', '.join(TAINT_EFFECTS)}"),
        (operator != "Exists" or not entry.get("value"), "Exists goes without value"),
        (operator != "Equal" or key, "Equal needs a key"),
        (not key or qualified_name(str(key)), "the key is not a valid key of a taint"),
        (effect == "NoExecute" or entry.get("tolerationSeconds") is None, "tolerationSeconds goes with NoExecute"),
    )
    return next((why for holds, why in rules if not holds), "")


def _image(values: Mapping[str, object], operand: Place) -> Iterator[Refused]:
    section = _at(values, operand)
    if not isinstance(section, dict) or section.get("enabled") is False:
        return
    # As kbld writes it: the whole reference under `image`.
    whole = section.get("image") and all(section.get(key, ...) == "" for key in ("repository", "version"))
    for key in ("repository", "image", "version"):
        value = section.get(key, ...)
        if value in (None, "") and not whole and not (key == "version" and operand in _KNOWN_IMAGES):
            yield Refused((*operand, key), value, "the operator then refuses all three parts of the image (W45)", "a text")
    version = section.get("version")
    if isinstance(version, str) and version and not _TAG.fullmatch(version):
        yield Refused(
            (*operand, "version"), version, "no container starts: it is not a tag of an image (W45)", "a tag, or sha256:…"
        )


def _environment(values: Mapping[str, object], operand: Place) -> Iterator[Refused]:
    given = _at(values, (*operand, "env"))
    if given and not isinstance(given, list):
        why = "a ClusterPolicy has a list there: Kubernetes refuses it (W44)"
        yield Refused((*operand, "env"), given, why, "a list, each with name and value")
    for index, entry in enumerate(given if isinstance(given, list) else ()):
        place = (*operand, "env", index)
        if not isinstance(entry, dict) or not entry.get("name") or not isinstance(entry["name"], str):
            yield Refused(place, entry, "Kubernetes refuses it (W44)", "name and value, both texts")
        elif not re.fullmatch(r"[ -<>-~]+", entry["name"]):
            yield Refused(place, entry["name"], "Kubernetes refuses a variable of that name (W44)", "a name without =")
        elif "valueFrom" in entry:
            yield Refused(place, entry["name"], "a ClusterPolicy has no valueFrom: the variable would be empty (W44)", "value")
        elif not isinstance(entry.get("value", ""), str):
            yield Refused(place, entry.get("value"), "Kubernetes refuses what is not text (W44)", "a text, in quotes")


def _resources(values: Mapping[str, object], operand: Place) -> Iterator[Refused]:
    amounts: dict[tuple[str, str], Decimal] = {}
    for kind in ("requests", "limits"):
        given = _at(values, (*operand, "resources", kind))
        for name, value in given.items() if isinstance(given, dict) else ():
            place = (*operand, "resources", kind, str(name))
            amount = quantity(value)
            if amount is None or amount < 0:
                yield Refused(place, value, "Kubernetes refuses it (W44)", "a quantity, e.g. 100m or 1Gi")
            elif not (name in _STANDARD_RESOURCES or str(name).startswith("hugepages-") or "/" in str(name)):
                yield Refused(place, value, "Kubernetes knows no such resource (W44)", f"{', '.join(_STANDARD_RESOURCES)}")
            else:
                amounts[kind, str(name)] = amount
    for (kind, name), amount in amounts.items():
        limit = amounts.get(("limits", name))
        if kind == "requests" and limit is not None and limit < amount:
            place = (*operand, "resources", "requests", name)
            yield Refused(place, _at(values, place), "Kubernetes refuses more than its limit (W44)", "at most the limit")


def quantity(value: object) -> Decimal | None:
    """An amount as Kubernetes reads it; None where it refuses it."""
    amount = read_amount(value)
    return None if amount is None else Decimal(amount).scaleb(-PLACES)


def _sources(values: Mapping[str, object]) -> Iterator[Refused]:
    for key in ("labelSources", "featureSources", "sources"):
        place = ("worker", "config", "core", key)
        given = _at(values, place)
        if not isinstance(given, list):
            continue
        for source, consequence in _SOURCES.items():
            # A labeller's file is a feature, not a label, of the local source.
            if not _enabled(given, source) and not (source == "local" and key == "labelSources"):
                yield Refused(place, given, f"without {source} {consequence} (W40)", f"all, or a list with {', '.join(_SOURCES)}")


def _enabled(given: list[object], source: str) -> bool:
    """Sources are taken in order; ``-name`` takes one away again."""
    on = False
    for name in given:
        on = True if name in ("all", source) else False if name == f"-{source}" else on
    return on


def _pci(values: Mapping[str, object]) -> Iterator[Refused]:
    place = ("worker", "config", "sources", "pci")
    pci = _at(values, place)
    if not isinstance(pci, dict):
        return
    classes = pci.get("deviceClassWhitelist", ["03"])
    wanted = tuple(str(one).lower() for one in classes) if isinstance(classes, list) else ()
    if not any(gpu.startswith(wanted) for gpu in _GPU_CLASSES):
        yield Refused((*place, "deviceClassWhitelist"), classes, f"{_SOURCES['pci']} (W40)", 'a list with "03" or "0302"')
    fields = tuple(field for field in _DEVICE_FIELDS if field in (pci.get("deviceLabelFields") or ()))
    if fields and fields not in _KNOWN_FIELDS:
        why = "the operator knows GPU nodes by other labels of NFD (W40)"
        yield Refused((*place, "deviceLabelFields"), pci["deviceLabelFields"], why, "[vendor], or [class, vendor]")


def _published(values: Mapping[str, object]) -> Iterator[Refused]:
    for role in ("worker", "master"):
        config: Place = (role, "config", "core") if role == "worker" else (role, "config")
        if _at(values, (*config, "noPublish")) is True:
            yield Refused((*config, "noPublish"), True, f"{_NO_LABELS} (W40)", "false")  # noqa: FBT003
        pattern = _at(values, (*config, "labelWhiteList"))
        missed = _not_found(pattern, _WORKER_LABELS if role == "worker" else (*_WORKER_LABELS, *_MASTER_LABELS))
        if missed:
            why = f"it does not let {', '.join(missed)} through, on which the operator or the pools live (W40)"
            yield Refused((*config, "labelWhiteList"), pattern, why, "a pattern that finds them, or none")
    for key in ("disableLabels", "denyNodeFeatureLabels"):
        place = ("master", "config", "restrictions", key)
        if _at(values, place) is True:
            yield Refused(place, True, "labels of gpu-feature-discovery or of the pools do not reach the nodes (W40)", "false")  # noqa: FBT003


def _not_found(pattern: object, names: tuple[str, ...]) -> list[str]:
    """The names (without their prefix, as NFD does it) that a pattern does not find; Go may read what Python cannot."""
    try:
        return [name for name in names if isinstance(pattern, str) and not re.search(pattern, name)]
    except re.error:
        return []
