"""What of the operator's values makes the pods that install the driver: where it differs, drivers are replaced on the nodes.

NVIDIA/gpu-operator v25.3.4 to v26.7.0, controllers/object_controls.go (TransformDriver and what it calls).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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
