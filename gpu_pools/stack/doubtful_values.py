"""Values that the operator's chart takes and that work only together with something that they do not say (W93, W94 of rules.md).

Both end with pods or nodes that have no driver while everything is reported ready. Sources:

- W93: NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go: transformDevicePluginCtrForCDI sets the strategies of CDI, and
  TransformDevicePlugin lets ``devicePlugin.env`` replace them; transformToolkitCtrForCDI makes `nvidia` no default runtime, and
  names the variable that does. The same in v25.10.1 and v26.3.3; in v25.3.4 CDI is off, and the runtime stays the default one.
  Reported in NVIDIA/gpu-operator#1876, NVIDIA/nvidia-container-toolkit#1895 and NVIDIA/aicr#69.
- W94: templates/nvidiadriver.yaml of the chart (v25.3.4 to v26.7.0) and UseNvidiaDriverCRDType in its controllers; reported in
  NVIDIA/gpu-operator#961 and #2355.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import Version

#: The first chart whose toolkit leaves pods to CDI alone.
_CDI_ALONE: Final[Version] = (25, 10, 0)
_STRATEGY: Final = "DEVICE_LIST_STRATEGY"
_DEFAULT_RUNTIME: Final = "NVIDIA_RUNTIME_SET_AS_DEFAULT"
_BY_CDI: Final = frozenset({"cdi-annotations", "cdi-cri"})


@dataclass(frozen=True)
class Doubtful:
    """One value.

    Attributes:
        place: where it stands, below the chart's values or the ClusterPolicy's spec.
        what: what is written.
        why: what becomes of it, with the incident's id.
        allowed: what would do.
        remedy: what to do.
    """

    place: tuple[str | int, ...]
    what: str
    why: str
    allowed: str
    remedy: str


def strategy_without_cdi(values: Mapping[str, object], version: Version | None) -> Doubtful | None:
    """A list of device strategies without those of CDI, where pods get their libraries by CDI alone.

    Args:
        values: chart values, or a ClusterPolicy's spec.
        version: of the chart; None: not known, and taken for a new one.
    """
    if version is not None and version < _CDI_ALONE:
        return None
    if at(values, "cdi", "enabled") is False or at(values, "toolkit", "enabled") is False:
        return None
    if (_variable(values, "toolkit", _DEFAULT_RUNTIME) or (0, ""))[1].lower() == "true":
        return None
    written = _variable(values, "devicePlugin", _STRATEGY)
    if written is None or _BY_CDI & {entry.strip() for entry in written[1].split(",")}:
        return None
    return Doubtful(
        ("devicePlugin", "env", written[0]),
        f"{_STRATEGY}={written[1]}, and CDI is on (the default from gpu-operator v25.10 on)",
        "the container runtime gets no CDI device of the plugin, and `nvidia` is not the default runtime: pods get the GPU's "
        "device files at most, and no driver library (W93)",
        "cdi-annotations,cdi-cri, which the operator sets itself",
        f"Remove {_STRATEGY}, or set cdi.enabled to false.",
    )


def driver_of_nobody(values: Mapping[str, object]) -> Doubtful | None:
    """The driver left to NVIDIADriver objects of which these values make none."""
    switches = at(values, "driver", "nvidiaDriverCRD")
    if at(switches, "enabled") is not True or at(switches, "deployDefaultCR") is not False:
        return None
    extra = at(values, "extraObjects")
    if at(values, "driver", "enabled") is False or any(
        at(entry, "kind") == "NVIDIADriver" for entry in (extra if isinstance(extra, list) else ())
    ):
        return None
    return Doubtful(
        ("driver", "nvidiaDriverCRD", "deployDefaultCR"),
        "driver.nvidiaDriverCRD.enabled without the default object",
        "only NVIDIADriver objects of your own install a driver: until one selects the nodes nothing is advertised, and the "
        "other values of `driver` count for nothing (W94)",
        "deployDefaultCR: true, or an NVIDIADriver object for each kind of node",
        "Leave deployDefaultCR out, or add the objects, e.g. in extraObjects.",
    )


def _variable(values: Mapping[str, object], operand: str, name: str) -> tuple[int, str] | None:
    """(index, value) of the last entry with this name, which is the one that holds; None where there is none."""
    given = at(values, operand, "env")
    found = [
        (index, str(entry.get("value") or ""))
        for index, entry in enumerate(given if isinstance(given, list) else ())
        if isinstance(entry, dict) and entry.get("name") == name
    ]
    return found[-1] if found else None
