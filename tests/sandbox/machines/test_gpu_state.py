from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import legal_layouts
from sandbox.cluster.machine_groups import Hardware
from sandbox.machines.gfd import Driver
from sandbox.machines.gpu import EXCLUSIVE_PROCESS, Gpu, new_gpus, with_layout
from sandbox.machines.gpu_state import gpus_of, state_of
from sandbox.nvml import from_tables
from sandbox.nvml.facts import profiles

if TYPE_CHECKING:
    from collections.abc import Callable

DRIVER = Driver("580.95.05", "13.0")
PARTITIONABLE = [key for key in model_keys() if profiles(key)]


@st.composite
def machines(draw: Callable[[st.SearchStrategy[object]], object]) -> tuple[Gpu, ...]:
    """GPUs of a model, each whole, in exclusive-process mode, empty in MIG mode or with a legal layout."""
    key = str(draw(st.sampled_from(sorted(model_keys()))))
    found = []
    for gpu in new_gpus("node", Hardware(4, 16, key, None, 2), None):
        choice = draw(
            st.sampled_from(["whole", "exclusive", "empty", "layout"] if key in PARTITIONABLE else ["whole", "exclusive"])
        )
        if choice == "exclusive":
            found.append(replace(gpu, compute_mode=EXCLUSIVE_PROCESS))
        elif choice in {"empty", "layout"}:
            known = {profile.name for profile in profiles(key)}
            legal = [layout for layout in legal_layouts(model(key)) if known >= dict(layout).keys()]
            layout = dict(draw(st.sampled_from(legal))) if choice == "layout" else {}  # type: ignore[call-overload]
            found.append(with_layout(gpu, layout) or gpu)
        else:
            found.append(gpu)
    return tuple(found)


@given(machines())
def test_the_record_and_the_state_file_say_the_same(gpus: tuple[Gpu, ...]) -> None:
    assert gpus_of(gpus[0].model, state_of("node", gpus, DRIVER)) == gpus


def test_aks_partitions_a_machine_before_its_first_boot() -> None:
    gpus = new_gpus("node", Hardware(24, 220, "a100-80gb", None, 2), "MIG3g")
    mig = [gpu.mig for gpu in state_of("node", gpus, None).gpus]
    assert [(one.current, one.pending, len(one.instances)) for one in mig if one] == [(True, True, 2)] * 2


def test_the_file_names_the_loaded_driver() -> None:
    gpus = new_gpus("node", Hardware(4, 28, "t4-16gb", None, 1), None)
    machine = state_of("node", gpus, Driver("535.183.01", "12.2"))
    assert (machine.driver_version, machine.nvml_version, machine.cuda_version) == ("535.183.01", "12.535.183.01", 12020)
    assert state_of("node", gpus, None) == from_tables.machine_state("t4-16gb", gpus[0].product, 1, node="node")
