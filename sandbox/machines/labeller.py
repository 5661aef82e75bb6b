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
_FEATURES = {"gpu-pools/pool": "GPU_POOLS_POOL", "gpu-pools/generation": "GPU_POOLS_GENERATION"}


class LabellerPod:
    """gpu-pools-marker-<pool>."""

    def runs(self, pod: Json) -> bool:
        """By label."""
        return objects.labels(pod).get("app.kubernetes.io/name") == "gpu-pools-marker"

    def evaluate(self, context: Context) -> Outcome:
        """Write the file."""
        said = [objects.env(context.pod, item["name"]) for item in objects.containers(context.pod["spec"])]
        one = next((one for one in said if one.get("GPU_POOLS_POOL")), {})
        features = {key: value for key, variable in _FEATURES.items() if (value := one.get(variable))}
        if features:
            # A labeller that says a generation leaves the other's file to it.
            file = _FILE if len(features) == 1 else f"{_FILE}-generation"
            context.machine.features[file] = "".join(f"# +no-label\n{key}={value}\n" for key, value in features.items())
        return Up()

    def absent(self, world: World, machine: Machine) -> None:
        """Leave the file: it expires by itself, long after a restart of the pod is over."""
        del world, machine
