"""The file of layouts that mig-manager makes for a node whose policy names none: ours against that of the real v0.15.0.

v0.10.0, which is a Go module, makes none; so the real one is that of GPU_POOLS_MIG_MANAGER (tests/conformance). How often a
profile fits is asked of the simulated NVML, which has it from the project's tables: that the tables are right is tried elsewhere.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.hardware.models import model, model_keys
from sandbox.cluster.gpu_host import GpuHost
from sandbox.machines.mig_parted import generated_config
from sandbox.nvml import from_tables
from tests.conformance.reals import MIG_MANAGER_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = os.environ.get(MIG_MANAGER_VARIABLE, "")
pytestmark = [
    pytest.mark.programs,
    pytest.mark.sweep,
    pytest.mark.skipif(not PROGRAMS, reason=f"no mig-parted v0.15.0 on this machine: {MIG_MANAGER_VARIABLE}=<folder with it>"),
]
MODELS = [key for key in model_keys() if model(key).mig_capable and model(key).profiles]


def layouts(text: str) -> dict[str, Any]:
    """Name -> its entries; one without instances may say so or say nothing."""
    found = yaml.safe_load(text)
    assert found["version"] == "v1"
    return {name: [{"mig-devices": {}, **entry} for entry in entries] for name, entries in found["mig-configs"].items()}


@pytest.mark.parametrize("key", MODELS)
def test_both_make_the_same_layouts(key: str, library: Path, tmp_path: Path) -> None:
    with GpuHost(tmp_path / "node", library, from_tables.machine_state(key, None, 1)) as host:
        done = host.run([f"{PROGRAMS}/nvidia-mig-parted", "generate-config"], seconds=60)
    assert done.returncode == 0, done.stderr
    assert layouts(generated_config(key)) == layouts(done.stdout)
