"""What the rest of a file says about how its configs are run: by whom, and with which MIG strategy.

The same config means different things under the GPU operator and under the device plugin's own chart: environment variables
win over it. Where a file has chart values or a ClusterPolicy beside its configs, the checks need not guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_pools.existing.plugin_schema import Runner


@dataclass(frozen=True)
class RunContext:
    """How the configs of a file are run.

    Attributes:
        runner: who runs the device plugin; None where the file does not say.
        strategy: the cluster's MIG strategy (mig.strategy), ``""`` where it is left open; None where the file does not say.
        disabled_key: whether new MIG nodes are labelled ``all-disabled``.
    """

    runner: Runner | None = None
    strategy: str | None = None
    disabled_key: bool = True
