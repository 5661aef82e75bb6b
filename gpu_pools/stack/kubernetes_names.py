"""Kubernetes' rules for labels and taints, and the keys that belong to somebody else.

Sources: Kubernetes API validation of qualified names and label values; NFD refuses unprefixed keys and everything below
kubernetes.io except its own names (node-feature-discovery v0.18.3, pkg/apis/nfd/validate).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.text.errors import Problems

DEVICE_PLUGIN_CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
#: Whose change makes NVIDIA's programs share the GPUs of a node in another way.
CHANGED_LABELS: Final = (DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL)
#: Which DaemonSet of NVIDIA's DRA driver a node runs; ``none``: the device plugin.
DRA_DRIVER_LABEL: Final = "gpu-pools/dra-driver"
#: By which NVIDIA's driver manager takes the DRA driver off a node while it replaces the GPU driver there.
DRIVER_MANAGER_LABEL: Final = "nvidia.com/dra-kubelet-plugin"
#: The operator's switch of its device plugin, which it leaves alone where somebody has set it (controllers/state_manager.go).
DEVICE_PLUGIN_SWITCH: Final = "nvidia.com/gpu.deploy.device-plugin"
#: Whose change moves a node between the device plugin and claims; only pools that say `allocation` have them.
ALLOCATION_LABELS: Final = (DRA_DRIVER_LABEL, DRIVER_MANAGER_LABEL, DEVICE_PLUGIN_SWITCH)
POOL_LABEL: Final = "gpu-pools/pool"
#: Which of the pools that replace each other under one name a node is of (gpu_pools/plan/placing.py).
REPLACEMENT_LABEL: Final = "gpu-pools/generation"
_OF_THE_PLAN: Final = frozenset({DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, POOL_LABEL, REPLACEMENT_LABEL, DRA_DRIVER_LABEL})
#: Where the GPU operator and its operands live.
OPERATOR_NAMESPACE: Final = "gpu-operator"

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_NAME: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LONGEST_PREFIX: Final = 253
#: nvidia.com labels that a user may set: switches that the GPU operator honours.
_OPERATOR_SWITCHES: Final = ("nvidia.com/gpu.deploy.", "nvidia.com/gpu.workload.config")
_TAINT_SHAPE: Final = "key=value:Effect or key:Effect, with effect NoSchedule, PreferNoSchedule or NoExecute"


@dataclass(frozen=True, order=True)
class Taint:
    """A node taint."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """As kubectl and the Azure API write it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


def parse_taint(value: object, path: str, problems: Problems) -> Taint | None:
    """One ``key=value:Effect``; None and a problem where it is not one."""
    if isinstance(value, str):
        match = re.fullmatch(r"(?P<key>[^=:]+)(=(?P<value>[^=:]*))?:(?P<effect>[^=:]+)", value)
        if match and qualified_name(match["key"]) and label_value(match["value"] or "") and match["effect"] in TAINT_EFFECTS:
            return Taint(match["key"], match["value"] or "", match["effect"])
    problems.add(path, f"{show(value)} is not a taint", allowed=_TAINT_SHAPE, remedy="Write e.g. sku=gpu:NoSchedule.")
    return None


def qualified_name(key: str) -> bool:
    """Whether Kubernetes accepts the key of a label or taint."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix)):
        return False
    return bool(_NAME.fullmatch(name))


def label_value(value: str) -> bool:
    """Whether Kubernetes accepts the value of a label."""
    return bool(_VALUE.fullmatch(value))


def check_labels(labels: Mapping[str, str], path: str, problems: Problems) -> None:
    """Report labels that Kubernetes refuses or that are not the user's to set."""
    for key, value in labels.items():
        where = f"{path}.{key}"
        if not qualified_name(key):
            problems.add(
                where,
                f'"{key}" is not a label key',
                allowed="[prefix/]name; the name has at most 63 letters, digits, '-', '_' and '.'",
                remedy="Choose another key.",
            )
        elif not label_value(value):
            problems.add(
                where,
                f"{show(value)} is not a label value",
                allowed="at most 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
                remedy="Choose another value.",
            )
        elif key in _OF_THE_PLAN or (key.startswith("nvidia.com/") and not key.startswith(_OPERATOR_SWITCHES)):
            problems.add(
                where,
                f'"{key}" is set by the plan or by the GPU operator',
                allowed="any label outside nvidia.com/ and gpu-pools/, or a switch under nvidia.com/gpu.deploy.",
                remedy="Remove it; what the pool shares follows from `sharing`.",
            )


def refused_by_nfd(key: str) -> str | None:
    """Why NFD will not put a label or taint of that key on a node; None if it will."""
    prefix = key.rpartition("/")[0]
    if not prefix:
        return "NFD sets no key without a prefix"
    own = ("feature.node.kubernetes.io", "profile.node.kubernetes.io")
    if (prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")) and not prefix.endswith(own):
        return "NFD sets no key below kubernetes.io"
    return None
