"""What others call things, and how Kubernetes writes moments: NVML's numbers by name (nvml.h), the operator's labels on a node.

Loads nothing of Python's library but the clock: the process that reads NVML needs it as much as the one that judges, who
changes a node, and the programs that read reports.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

# --- NVML ---------------------------------------------------------------------------------------------------------

#: NVML_COMPUTEMODE_*, by number.
COMPUTE_MODES: Final = ("DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED", "EXCLUSIVE_PROCESS")
#: NVML_ERROR_*, those that are told apart here or that read better by name.
_ERRORS: Final = {
    2: "INVALID_ARGUMENT", 3: "NOT_SUPPORTED", 4: "NO_PERMISSION", 6: "NOT_FOUND", 9: "DRIVER_NOT_LOADED", 10: "TIMEOUT",
    11: "IRQ_ISSUE", 12: "LIBRARY_NOT_FOUND", 13: "FUNCTION_NOT_FOUND", 14: "CORRUPTED_INFOROM", 15: "GPU_IS_LOST",
    16: "RESET_REQUIRED", 17: "OPERATING_SYSTEM", 18: "LIB_RM_VERSION_MISMATCH", 19: "IN_USE", 20: "MEMORY",
    23: "INSUFFICIENT_RESOURCES", 25: "ARGUMENT_VERSION_MISMATCH", 27: "NOT_READY", 28: "GPU_NOT_FOUND", 999: "UNKNOWN",
}  # fmt: skip


#: What stands for a function where the library itself could not be loaded.
LOADER: Final = "dlopen"


def error_name(code: int) -> str:
    """NVML_ERROR_* by name."""
    return _ERRORS.get(code, "NVML error")


def compute_mode(number: int) -> str:
    """NVML_COMPUTEMODE_* by name."""
    return COMPUTE_MODES[number] if number < len(COMPUTE_MODES) else str(number)


# --- the operator -------------------------------------------------------------------------------------------------

CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
#: Which DaemonSet of NVIDIA's DRA driver the node runs; ``none``, or no such label: the device plugin.
DRA_DRIVER_LABEL: Final = "gpu-pools/dra-driver"
NO_CLAIMS: Final = "none"
#: What moves the node between the device plugin and claims.
ALLOCATION_LABELS: Final = (DRA_DRIVER_LABEL, "nvidia.com/dra-kubelet-plugin", "nvidia.com/gpu.deploy.device-plugin")
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
#: Seconds. It waits for five kinds of pods, five minutes each (mig-parted v0.15.0, pkg/mig/reconfigure/reconfigure.go).
MIG_PENDING_SECONDS: Final = 25 * 60


# --- Kubernetes ---------------------------------------------------------------------------------------------------


def moment(seconds: float | None = None) -> str:
    """RFC 3339, UTC, to the second.

    Args:
        seconds: since the epoch; None for now.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(text: str) -> float | None:
    """Seconds since the epoch of what `moment` has written; None of anything else."""
    import calendar  # noqa: PLC0415 - only a change needs it

    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
