"""Which findings of a node follow from another finding of it, so that one cause is shown with one remedy.

A node with another label than declared runs another configuration. Its device plugin, its counts and the labels of
gpu-feature-discovery differ then, too, and each has a cause of its own in gpu_pools/verifier/causes.json. Acting on those cures
nothing. Only labels and ConfigMaps explain other findings here; the order of all causes stays that of their ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What the device plugin and gpu-feature-discovery make of a configuration (NVIDIA/k8s-device-plugin, cmd/config-manager: it
#: follows the label nvidia.com/device-plugin.config, and ends with an error where the ConfigMap has no such key).
_OF_A_CONFIGURATION: Final = frozenset(
    {
        "operand-config",
        "config-on-its-way",
        "config-wedged",
        "operand-crashing",
        "operand-not-ready",
        "operand-missing",
        "mps-operand-missing",
        "mps-undeclared",
        "mps-mode-default",
        "mps-split",
        "mps-unasked",
        "sharing-off",
        "plugin-outdated",
        "nothing-offered",
        "count-other",
        "name-other",
        "left-over",
        "gfd-absent",
        "gfd-stale",
        "gfd-other",
    }
)
#: What mig-manager makes of nvidia.com/mig.config (NVIDIA/mig-parted, cmd/nvidia-mig-manager).
_OF_A_LAYOUT: Final = frozenset(
    {
        "mig-pending",
        "mig-config-failed",
        "mig-stuck",
        "mig-config-rebooting",
        "mig-config-pending",
        "mig-config-unset",
        "mig-not-on",
        "mig-not-off",
        "mig-empty",
        "mig-one-differs",
        "mig-layout",
        "mig-half-made",
    }
)
_ROOTS: Final = {
    "label-missing": _OF_A_CONFIGURATION | _OF_A_LAYOUT,
    "label-other": _OF_A_CONFIGURATION | _OF_A_LAYOUT,
    "config-map-missing": _OF_A_CONFIGURATION,
    "config-key-missing": _OF_A_CONFIGURATION,
    "config-edited": _OF_A_CONFIGURATION,
}


def root_of(cause: str, causes: Iterable[str]) -> str | None:
    """Return the cause that brings this one with it, None where it stands for itself.

    Args:
        cause: the key of one finding's cause.
        causes: the keys of all findings of the same node, in the order of their ranks.
    """
    return next((other for other in causes if cause in _ROOTS.get(other, ())), None)
