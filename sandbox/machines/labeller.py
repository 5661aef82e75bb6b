"""Stand-in for what the pool labeller's container does: it writes a features.d file for NFD's local source.

The real container is a shell that renews the file every hour; the file outlives it and expires after a day. Here the file is
part of the machine's state, without an expiry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.outcomes import Outcome, Up

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_FILE = "gpu-pools"


class LabellerPod:
    """gpu-pools-marker-<pool>."""

    def runs(self, pod: Json) -> bool:
        """By label."""
        return objects.labels(pod).get("app.kubernetes.io/name") == "gpu-pools-marker"

    def evaluate(self, context: Context) -> Outcome:
        """Write the file."""
        pools = [objects.env(context.pod, item["name"]).get("GPU_POOLS_POOL") for item in objects.containers(context.pod["spec"])]
        pool = next((pool for pool in pools if pool), None)
        if pool is not None:
            context.machine.features[_FILE] = f"# +no-label\ngpu-pools/pool={pool}\n"
        return Up()

    def absent(self, world: World, machine: Machine) -> None:
        """Leave the file: it expires by itself, long after a restart of the pod is over."""
        del world, machine
