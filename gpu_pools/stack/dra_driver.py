"""The section ``gpu-pools:draDriver``: the chart of NVIDIA's DRA driver, which pools with `allocation: dra` need.

Which values the plan gives the chart is in gpu_pools/allocation/dra.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import Kind, read, reads
from gpu_pools.stack.charts import ChartSection, ChartSettings, default_chart, parse_chart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.text.errors import Problems

#: Values that follow from the pools -> the setting that decides them.
_DERIVED: Final[Mapping[str, str]] = {
    "gpuResourcesEnabledOverride": "nothing: without it the chart refuses to serve GPUs",
    "resources": "nothing: the plan needs GPUs, and no compute domains",
    "consumableShares": "gpu-pools:sharing",
    "featureGates": "gpu-pools:sharing",
    "nvidiaDriverRoot": "gpu-pools:operator.driver, or driver of the pools",
    "nameOverride": "nothing: the plan names its DaemonSets",
    "fullnameOverride": "nothing: the plan names its service account",
    "namespaceOverride": "nothing: the plan makes the namespace",
    "selectorLabelsOverride": "nothing: the DaemonSets of shared pools are told apart by these labels",
    "serviceAccount": "nothing: the DaemonSets of shared pools use it",
    "kubeletPlugin.affinity": "allocation of the pools",
    "kubeletPlugin.nodeSelector": "allocation of the pools",
    "kubeletPlugin.tolerations": "taints of the pools",
}


def _default() -> ChartSettings:
    return default_chart("dra-driver-nvidia-gpu")


@dataclass(frozen=True)
class DraDriverSettings:
    """A stack file's section `draDriver`: NVIDIA's DRA driver."""

    chart: ChartSettings = reads(Kind(lambda section, _: parse_chart(section, _DERIVED), ChartSettings))


def default_dra_driver() -> DraDriverSettings:
    """The section of a stack that has none."""
    return DraDriverSettings(_default())


def parse_dra_driver(value: object, path: str, problems: Problems) -> DraDriverSettings:
    """Read the section ``gpu-pools:draDriver``; absent means: the default version."""
    section = ChartSection({} if value is None else value, path, problems, "dra-driver-nvidia-gpu")
    found = read(DraDriverSettings, section)
    section.finish()
    return found
