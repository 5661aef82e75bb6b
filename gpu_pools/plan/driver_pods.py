"""What of the operator's values makes the pods that install the driver: where it differs, drivers are replaced on the nodes.

NVIDIA/gpu-operator v25.3.4 to v26.7.0, controllers/object_controls.go (TransformDriver and what it calls).

And which version their nodes must then have. Nothing is demanded that cannot be known: of an operator of another owner, of a
chart whose driver is not known, of a digest, and where NVIDIADriver objects choose. On a node whose driver was there before the
operator the driver's pod takes itself away (gpu.deploy.driver: pre-installed; NVIDIA/k8s-driver-manager 0c04c810, isHostDriver in
cmd/driver-manager/main.go): such a node lacks the operand, which is a difference already, so it needs no rule here.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan

#: The operator's DaemonSet for it, and the label `app` of that one's pods.
DRIVER_DAEMON_SET: Final = "nvidia-driver-daemonset"
#: Values of the driver that say how it is replaced, not what it is.
_NO_PART_OF_THE_POD: Final = {"enabled", "upgradePolicy"}
#: Modules beside the driver run in its pod.
_BESIDE: Final = ("gds", "gdrcopy")


def driver_pod_values(values: Mapping[str, Any], brought: str | None) -> dict[str, Any]:
    """Those values, and the driver's version also where the chart's own is taken.

    Args:
        values: of the chart.
        brought: the version of the driver that the chart brings; None where that is not known.
    """
    own = {key: value for key, value in (values.get("driver") or {}).items() if key not in _NO_PART_OF_THE_POD}
    return {**own, **{name: values.get(name) for name in _BESIDE}, "version": own.get("version") or brought}


def brought(plan: Plan) -> str | None:
    """The version of the driver that the chart brings; None where it is not known, or is another owner's chart."""
    operator = plan.settings.operator
    return None if operator.adopted else operator.chart.operands.get("driver")


def demanded(plan: Plan) -> str | None:
    """The version, or the branch, that nodes must have because the operator was told to install it; None: any.

    The chart's own counts as one that is written, since nobody else would notice a node that stayed behind at an upgrade of the
    operator; but where upgrades are by hand (autoUpgrade off) nobody has declared when a node gets it.
    """
    driver = plan.operator_values.get("driver") or {}
    if plan.driver != "operator" or at(driver, "nvidiaDriverCRD", "enabled"):
        return None
    own = brought(plan) if replaced_by_itself(plan) else None
    return told_version(driver.get("version") or own)


def driver_pods_digest(plan: Plan) -> str | None:
    """What tells the driver's pods of one plan from those of another, 12 hexadecimal digits.

    None where a deploy has none replaced: an operator of another owner, drivers that are replaced by hand, NVIDIADriver objects.
    """
    by_objects = at(plan.operator_values, "driver", "nvidiaDriverCRD", "enabled")
    if plan.driver != "operator" or plan.settings.operator.adopted or by_objects or not replaced_by_itself(plan):
        return None
    tolerations = at(plan.operator_values, "daemonsets", "tolerations")
    # Another operator makes other pods of the same values.
    made_of = [plan.settings.operator.chart.version, driver_pod_values(plan.operator_values, brought(plan)), tolerations]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:12]


def replaced_by_itself(plan: Plan) -> bool:
    """Whether the operator replaces drivers on living nodes."""
    return at(plan.operator_values, "driver", "upgradePolicy", "autoUpgrade") is not False


def told_version(version: object) -> str | None:
    """What of an image's tag a node can be held against: no digest, and no tag with more in it than numbers."""
    text = str(version or "")
    return text if re.fullmatch(r"\d+(\.\d+)*", text) else None
