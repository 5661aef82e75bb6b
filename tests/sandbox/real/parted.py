"""nvidia-mig-parted on a simulated GPU node, and what it leaves on the GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.allocation.mig_parted import mig_parted_entries, mig_parted_file, mig_parted_key
from gpu_pools.hardware.models import model
from sandbox.nvml import from_tables

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    from gpu_pools.sharing.mig import Mig
    from sandbox.cluster.gpu_host import GpuHost

_SECONDS: Final = 120


class Parted:
    """nvidia-mig-parted on a node."""

    def __init__(self, host: GpuHost, program: Path) -> None:
        self.host = host
        self._program = program
        self._file = host.folder / "mig-parted.yaml"

    def boot(self, key: str, gpus: int, *, mig: bool = True) -> None:
        """A node of that model as after a boot, MIG mode on or off."""
        products = model(key).products
        machine = from_tables.machine_state(key, products[0] if products else f"NVIDIA {key}", gpus)
        changed = (replace(gpu, mig=replace(gpu.mig, current=mig, pending=mig)) for gpu in machine.gpus if gpu.mig)
        self.host.show(replace(machine, gpus=tuple(changed)))

    def declare(self, declaration: Mig) -> str:
        """Write the plan's file for a declaration; its key."""
        self._file.write_text(mig_parted_file(mig_parted_entries([declaration])))
        return mig_parted_key(declaration)

    def write(self, *entries: Mapping[str, Any]) -> str:
        """Write a file that the plan would not; its key."""
        return self.put(yaml.safe_dump({"version": "v1", "mig-configs": {"own": list(entries)}}), "own")

    def put(self, text: str, key: str) -> str:
        """Write any file; its key."""
        self._file.write_text(text)
        return key

    def __call__(self, command: str, key: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self.host.run([self._program, command, *options, "-f", self._file, "-c", key], seconds=_SECONDS)

    def layouts(self) -> list[dict[str, int]]:
        """What NVML says of each GPU."""
        found = []
        for gpu in self.host.machine.gpus:
            assert gpu.mig is not None
            names = {profile.id: profile.name for profile in gpu.mig.profiles}
            made = [names[instance.profile_id] for instance in gpu.mig.instances]
            found.append({name: made.count(name) for name in made})
        return found
