"""Names of configs that no node can be labelled with, or that no ConfigMap can hold.

A node chooses a config by a label whose value is the config's name, and Kubernetes refuses a label whose value is not a label
value (NVIDIA/gpu-operator#1573; kube-apiserver: ``invalid label value``). mig-parted and the device plugin take any name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, label_value
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_pools.existing.findings import Findings
    from gpu_pools.existing.yaml_tree import Path

_LABEL_VALUES: Final = "letters, digits, `-`, `_` and `.`, at most 63, with a letter or digit at both ends"
#: IsConfigMapKey of Kubernetes' validation.
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def check_config_name(name: str, label: str, path: Path, findings: Findings) -> None:
    """Report a config that no node can choose by its label."""
    if label_value(name):
        return
    findings.add(
        path,
        "ignored",
        f"{show(name)} is not a label value (D21)",
        really=f"Kubernetes refuses the label {label} with it: no node can choose this config",
        allowed=_LABEL_VALUES,
        remedy="Rename the config.",
    )


def check_plugin_keys(keys: Iterable[str], default: object, path: Path, findings: Findings) -> None:
    """Report keys of a ConfigMap of device-plugin configs that Kubernetes refuses, or that no node can choose.

    Args:
        keys: the names of the configs.
        default: the one that holds on nodes without a label: it needs none.
        path: where the keys stand.
        findings: are added to.
    """
    for key in keys:
        if not _KEY.fullmatch(key) or key in {".", ".."} or key.startswith(".."):
            findings.add(
                (*path, key),
                "crash",
                f"{show(key)} is not a key of a ConfigMap",
                really="Kubernetes refuses the ConfigMap: invalid key",
                allowed=_LABEL_VALUES,
                remedy="Rename the config.",
            )
        elif key != default:
            check_config_name(key, DEVICE_PLUGIN_CONFIG_LABEL, (*path, key), findings)
