"""The real nvidia-mig-parted applies the plan's file on simulated GPUs: what the plan calls legal works, what it refuses fails.

Legal layouts: all of every model whose profiles are known. Illegal ones: of each geometry all that are just too much, so that
every layout that the plan refuses holds one of them (but for the few of eight instances); of each further model some, drawn at
random. The simulated GPUs have their placements from the plan's table;
tests/unit/test_mig_tables.py holds that against real GPUs.

The version that is built here, 0.10.0, is older than some profiles of the RTX PRO 6000 (see `knows`); the plan writes files for
the version of its GPU operator, which has them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from gpu_pools.allocation.mig_parted import MIG_DISABLED_KEY
from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import legal_layouts, place
from gpu_pools.plan.planning import plan_config
from gpu_pools.sharing.mig import Mig
from gpu_pools.sharing.mode import GpuLayout
from gpu_pools.text.errors import InvalidStackError
from sandbox.cluster.gpu_host import GpuHost
from sandbox.nvml import from_tables, simulated
from sandbox.nvml.facts import profiles
from tests.sandbox.real.parted import Parted
from tests.tiers import one_of_each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.mig.geometry import Layout

pytestmark = pytest.mark.programs

#: GPUs of a machine, and so layouts that one run of the program applies. It looks at all GPUs for each of them.
_GPUS: Final = 4
_ILLEGAL: Final = 6
#: Before it refuses a layout it tries the orders of all instances: of eight it takes minutes.
_MOST_INSTANCES: Final = 7
_SUCCESS: Final = "MIG configuration applied successfully"
#: NVML numbers of profiles that v0.10.0 asks for, and the names that it can read: attributes behind a plus sign, without dots.
_NUMBERS: Final = range(10)
_NAME: Final = re.compile(r"\d+g\.\d+gb(\+[a-z]+)?")
RTX_PRO: Final = "rtx-pro-6000-blackwell"
MODELS: Final = tuple(key for key in model_keys() if model(key).profiles)


def geometry(known: GpuModel) -> tuple[object, ...]:
    kinds = (known.profiles or {}).values()
    shapes = sorted((kind.profile_id or 0, kind.compute_slices, kind.max_instances, kind.starts, kind.size) for kind in kinds)
    return (known.compute_slices, known.placement_units, tuple(shapes))


#: In `make test` one model of each geometry.
SAMPLED: Final = one_of_each(MODELS, lambda key: geometry(model(key)))


@pytest.fixture
def parted(shared_host: GpuHost, mig_parted: Path) -> Parted:
    return Parted(shared_host, mig_parted)


@pytest.fixture(scope="module")
def two_nodes(
    shared_host: GpuHost, library: Path, mig_parted: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Parted, Parted]]:
    """Two nodes that work at the same time."""
    folder = tmp_path_factory.mktemp("second-gpu-host")
    with GpuHost(folder, library, from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 1)) as second:
        yield Parted(shared_host, mig_parted), Parted(second, mig_parted)


def knows(key: str, layout: Layout) -> bool:
    """Whether this version of the program knows all profiles of a layout."""
    numbers = {profile.name: profile.number for profile in profiles(key)}
    return all(numbers[name] in _NUMBERS and _NAME.fullmatch(name) for name, _ in layout)


def layouts(key: str) -> list[Layout]:
    """The legal layouts, but for those with profiles that this version of the program does not know."""
    return [layout for layout in legal_layouts(model(key)) if layout and knows(key, layout)]


def in_machines(found: list[Layout]) -> Iterator[Mig]:
    """Declarations of one layout per GPU; GPUs that are left over stay whole."""
    for begin in range(0, len(found), _GPUS):
        part = [*found[begin : begin + _GPUS], *[()] * _GPUS][:_GPUS]
        yield Mig(tuple(GpuLayout((index,), layout) for index, layout in enumerate(part)))


@pytest.mark.parametrize("key", SAMPLED)
def test_what_the_plan_calls_legal_is_applied_and_then_asserted(key: str, two_nodes: tuple[Parted, Parted]) -> None:
    declarations = list(in_machines(layouts(key)))
    with ThreadPoolExecutor(len(two_nodes)) as pool:
        list(pool.map(apply_and_assert, two_nodes, [key] * len(two_nodes), (declarations[::2], declarations[1::2])))


def apply_and_assert(parted: Parted, key: str, declarations: list[Mig]) -> None:
    for declaration in declarations:
        parted.boot(key, _GPUS)
        selected = parted.declare(declaration)
        applied = parted("apply", selected)
        assert (applied.returncode, applied.stdout.strip()) == (0, _SUCCESS), applied.stderr
        assert parted.layouts() == [declaration.layout_of(index) for index in range(_GPUS)]
        asserted = parted("assert", selected)
        assert asserted.returncode == 0, asserted.stderr


def test_all_legal_layouts_are_among_them() -> None:
    assert {model(key).compute_slices for key in MODELS} == {4, 7}
    for key in MODELS:
        unknown = set(legal_layouts(model(key))) - {()} - set(layouts(key))
        assert bool(unknown) == (key == RTX_PRO)
    assert sum(len(layouts(key)) for key in MODELS) >= 2400


def too_much(key: str) -> list[Layout]:
    """The smallest layouts that the plan refuses: without any one of their instances they are legal."""
    known = model(key)
    legal = set(legal_layouts(known))
    more = {changed(layout, name, 1) for layout in legal for name in known.profiles or {}} - legal
    smallest = [layout for layout in more if all(changed(layout, name, -1) in legal for name, _ in layout)]
    return sorted(layout for layout in smallest if sum(count for _, count in layout) <= _MOST_INSTANCES and knows(key, layout))


def changed(layout: Layout, name: str, by: int) -> Layout:
    counts = Counter(dict(layout))
    counts[name] += by
    return tuple(sorted((+counts).items()))


@pytest.mark.parametrize("key", SAMPLED)
def test_what_the_plan_refuses_is_refused(key: str, parted: Parted) -> None:
    found = too_much(key)
    first = next(other for other in MODELS if geometry(model(other)) == geometry(model(key)))
    chosen = found if key == first else random.Random(key).sample(found, _ILLEGAL)  # noqa: S311 the same every time
    assert len(chosen) >= _ILLEGAL
    for layout in chosen:
        assert place(model(key), dict(layout)) is None
        parted.boot(key, 1)
        selected = parted.declare(Mig((GpuLayout(None, layout),)))
        applied = parted("apply", selected)
        assert applied.returncode == 1, layout
        assert _SUCCESS not in applied.stdout
        assert parted("assert", selected).returncode == 1


# --- traps of the real program ----------------------------------------------------------------------------


def refusal(layout: dict[str, int]) -> str:
    """What the plan says of a layout on a node with an A100 80GB, before anything is deployed."""
    stack = {
        "gpu-pools:cluster": {
            "platform": "aks",
            "name": "test",
            "location": "westeurope",
            "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
        },
        "gpu-pools:sharing": {"parts": {"mig": {"layout": layout}}},
        "gpu-pools:pools": [{"name": "parts", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "parts"}],
    }
    with pytest.raises(InvalidStackError) as refused:
        plan_config(stack)
    return str(refused.value)


def test_a_profile_that_the_card_lacks_is_applied_successfully_and_nothing_is_there(parted: Parted) -> None:
    assert 'has no MIG profile "1g.5gb"' in refusal({"1g.5gb": 7})
    parted.boot("a100-80gb", 2)
    selected = parted.declare(Mig((GpuLayout(None, (("1g.5gb", 7),)),)))
    applied = parted("apply", selected)
    assert (applied.returncode, applied.stdout.strip()) == (0, _SUCCESS)
    assert parted.layouts() == [{}, {}]
    assert parted("assert", selected).returncode == 1


def test_without_a_gpu_on_the_pci_bus_it_is_applied_successfully(parted: Parted) -> None:
    parted.host.show(replace(from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 1), gpus=()))
    applied = parted("apply", parted.declare(Mig((GpuLayout(None, (("1g.10gb", 7),)),))))
    assert (applied.returncode, applied.stdout.strip()) == (0, _SUCCESS)


def test_a_layout_that_does_not_fit_leaves_the_first_gpu_cleared_and_the_second_as_it_was(parted: Parted) -> None:
    parted.boot("a100-80gb", 2)
    before = {"1g.10gb": 7}
    assert parted("apply", parted.declare(Mig((GpuLayout(None, tuple(before.items())),)))).returncode == 0
    assert "3g.40gb" in refusal({"3g.40gb": 3})
    assert parted("apply", parted.declare(Mig((GpuLayout(None, (("3g.40gb", 3),)),)))).returncode == 1
    assert parted.layouts() == [{}, before]


def modes(parted: Parted) -> list[tuple[bool, bool]]:
    return [(gpu.mig.current, gpu.mig.pending) for gpu in parted.host.machine.gpus if gpu.mig]


def test_a_pending_mode_without_a_reset_fails_the_layout_but_not_the_mode(parted: Parted) -> None:
    selected = parted.declare(Mig((GpuLayout(None, (("1g.10gb", 7),)),)))
    parted.boot("a100-80gb", 1, mig=False)
    applied = parted("apply", selected, "--skip-reset")
    assert applied.returncode == 1
    assert "MIG mode disabled" in applied.stderr
    parted.boot("a100-80gb", 1, mig=False)
    assert parted("apply", selected, "--mode-only", "--skip-reset").returncode == 0
    assert modes(parted) == [(False, True)]


def test_a_pending_mode_is_made_to_hold_by_a_reset(parted: Parted) -> None:
    selected = parted.declare(Mig((GpuLayout(None, (("1g.10gb", 7),)),)))
    parted.boot("a100-80gb", 2, mig=False)
    assert parted("apply", selected).returncode == 0
    assert modes(parted) == [(True, True), (True, True)]
    assert parted.layouts() == [{"1g.10gb": 7}] * 2


def test_a_gpu_in_use_cannot_be_reset_and_its_mode_stays_pending(parted: Parted) -> None:
    parted.boot("a100-80gb", 1, mig=False)
    used = simulated.Process(7, 100, "python")
    parted.host.show(
        replace(parted.host.machine, gpus=tuple(replace(gpu, processes=(used,)) for gpu in parted.host.machine.gpus))
    )
    assert parted("apply", parted.declare(Mig((GpuLayout(None, (("1g.10gb", 7),)),)))).returncode == 1
    assert modes(parted) == [(False, True)]


def test_on_later_gpus_the_mode_holds_at_once(parted: Parted) -> None:
    selected = parted.declare(Mig((GpuLayout(None, (("1g.10gb", 7),)),)))
    parted.boot("h100-80gb", 1, mig=False)
    assert parted("apply", selected, "--skip-reset").returncode == 0
    assert parted.layouts() == [{"1g.10gb": 7}]


def test_a_gpu_that_the_file_does_not_name_fails_the_assertion_for_ever(parted: Parted) -> None:
    parted.boot("a100-80gb", 2)
    selected = parted.write({"devices": [0], "mig-enabled": True, "mig-devices": {"1g.10gb": 7}})
    assert parted("apply", selected).returncode == 0
    assert parted("assert", selected).returncode == 1


def test_an_unknown_field_is_refused(parted: Parted) -> None:
    parted.boot("a100-80gb", 1)
    applied = parted("apply", parted.write({"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}, "x": 1}))
    assert applied.returncode == 1
    assert "unexpected field: x" in applied.stderr


@pytest.mark.parametrize("name", ["1g.24gb-me", "1g.24gb+me.all"])
def test_a_name_that_this_version_cannot_read_makes_the_whole_file_unusable(name: str, parted: Parted) -> None:
    parted.boot(RTX_PRO, 1)
    parted.declare(Mig((GpuLayout(None, ((name, 1),)),)))
    applied = parted("apply", MIG_DISABLED_KEY)
    assert applied.returncode == 1
    assert f"invalid format for '{name}'" in applied.stderr


def test_a_profile_that_this_version_does_not_ask_for_is_applied_successfully_and_not_there(parted: Parted) -> None:
    parted.boot(RTX_PRO, 1)
    selected = parted.declare(Mig((GpuLayout(None, (("1g.24gb+gfx", 1),)),)))
    assert parted("apply", selected).stdout.strip() == _SUCCESS
    assert parted.layouts() == [{}]
    assert parted("assert", selected).returncode == 1
