"""MPS: pods run on a GPU side by side, each with an equal share of memory and threads, through NVIDIA's MPS daemon.

How the daemon learns its configuration depends on the version of the device plugin (gpu_pools/plan/mps_support.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from gpu_pools.reading.fields import row, whole_number
from gpu_pools.sharing.mode import FEWEST_REPLICAS, MpsExpectation, PoolUse, Replicated, Sharing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.hardware.operands import Feature, Operand
    from gpu_pools.text.errors import Problems

#: The most clients below compute capability 7.5: the plugin's "is at least Volta" really tests 7.5, so a V100 gets 16.
MOST_REPLICAS_OLD: Final = 16
#: Below this compute capability the plugin lets MPS serve only that many clients.
_MANY_CLIENTS: Final = (7, 5)
#: Less memory per client than this leaves little beside the CUDA context itself.
_SMALL_SHARE_MIB: Final = 1536


@dataclass(frozen=True)
class Mps(Replicated):
    """Pods run on a GPU side by side, 2 to 48 of them (16 below compute capability 7.5)."""

    strategy: ClassVar[str] = "mps"
    title: ClassVar[str] = "MPS"
    plugin_key: ClassVar[str] = "mps"
    node_label: ClassVar[str] = "mps"
    #: The most clients that the device plugin lets an MPS daemon serve (k8s-device-plugin, 0.15 to 0.20).
    most_replicas: ClassVar[int] = 48
    compute_mode: ClassVar[str] = "EXCLUSIVE_PROCESS"
    needs_mps_daemon: ClassVar[bool] = True
    measured_pods: ClassVar[str] = (
        "memory alone is the pod's own: of MPS, NVML tells the use of the server only. Look at the GPU."
    )

    replicas: int = row(
        "How many pods may share one GPU, 2 to 48 (16 below compute capability 7.5).",
        whole_number(
            FEWEST_REPLICAS,
            most_replicas,
            "An MPS daemon serves 2 to 48 clients per GPU; use `exclusive: {}` for one, time-slicing for more.",
        ),
        0,
        needed=True,
    )

    def mps_split(self, model: GpuModel) -> MpsExpectation:
        """Return the split of one GPU, in equal parts."""
        percentage = 100 // self.replicas
        return MpsExpectation(
            replicas=self.replicas,
            pinned_memory_mib=None if model.memory_mib is None else model.memory_mib // self.replicas,
            active_thread_percentage=percentage,
            multiprocessors=_multiprocessors(model, percentage),
        )

    def check(self, use: PoolUse, problems: Problems) -> list[str]:
        """Refuse more clients than the GPU serves; warn where the limit is unknown or a share is small."""
        model = use.hardware.model
        capability = model.compute_capability
        if capability is None:
            return [f"the compute capability of {model.key} is unknown: the MPS client limit cannot be checked before the deploy"]
        if capability < _MANY_CLIENTS and self.replicas > MOST_REPLICAS_OLD:
            problems.add(
                f"{use.path}.mps.replicas",
                f'{self.replicas} is too many for pool "{use.pool}": '
                f"{model.key} has compute capability {capability[0]}.{capability[1]}",
                allowed=f"2 to {MOST_REPLICAS_OLD} below compute capability 7.5",
                remedy=f"Use at most {MOST_REPLICAS_OLD}, or a newer GPU; the MPS daemon would not start.",
            )
        share = None if model.memory_mib is None else model.memory_mib // self.replicas
        if share is not None and share < _SMALL_SHARE_MIB:
            return [f"each of {self.replicas} MPS clients gets {share} MiB, which leaves little beside the CUDA context (D08)"]
        return []

    def operand_features(self, mig_strategy: str, mig_owner: str) -> Iterator[tuple[Operand, Feature, str]]:  # noqa: ARG002
        """Yield what an older plugin or gpu-feature-discovery lacks."""
        yield "devicePlugin", "devicePlugin.mps", "it knows no MPS and shares nothing"
        yield "gfd", "devicePlugin.mps", "it knows no MPS, and without its label no MPS daemon starts"

    def changed_to(self, after: Sharing, *, reloaded: bool) -> Iterator[str]:
        """Yield what becomes of the compute mode and of the daemon's clients."""
        if not after.needs_mps_daemon:
            yield "a GPU may stay in exclusive mode after MPS (R14)"
        elif reloaded:
            yield "each node's MPS daemon restarts with the new configuration, which ends its clients (W49)"


def _multiprocessors(model: GpuModel, percentage: int) -> int | None:
    if model.sm is None:
        return None
    step, least = model.mps_sm or (1, 1)
    return max(least, model.sm * percentage // 100 // step * step)
