"""MIG profiles and placements, in the plan and in the simulated NVML, against real GPUs and what was published of them.

The simulated NVML answers from the plan's own table, so a wrong placement there would make the real mig-parted agree with the
plan. Here the table is held against what does not come from it: what NVML told of real GPUs (tests/verifier/readings, with
placements), and what `nvidia-smi` printed on others (mig_published.yaml).
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.hardware.models import find_model, model, model_keys
from gpu_pools.mig.geometry import legal_layouts, most_of
from sandbox.nvml import facts

if TYPE_CHECKING:
    from gpu_pools.hardware.models import MigProfile

HERE = Path(__file__).parent
PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "mig_published.yaml").read_text(encoding="utf-8"))
READINGS = {path.stem: path for path in sorted((HERE.parent / "verifier" / "readings").glob("*.json"))}
#: How far drivers differ in what they print, GiB.
_BY_DRIVER = 0.26
#: Of seven-slice GPUs: name without its memory -> (profile id, slices, instances, starts, size), alike on all that were read.
SEVEN_SLICES = {
    "1g": (19, 1, 7, (0, 1, 2, 3, 4, 5, 6), 1),
    "1g+me": (20, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    "1g, twice the memory": (15, 1, 4, (0, 2, 4, 6), 2),
    "2g": (14, 2, 3, (0, 2, 4), 2),
    "3g": (9, 3, 2, (0, 4), 4),
    "4g": (5, 4, 1, (0,), 4),
    "7g": (0, 7, 1, (0,), 8),
}
#: NVML_GPU_INSTANCE_PROFILE_*, by profile id of the GPU that has it: nvml.h.
NUMBERS = {
    7: {19: 0, 14: 1, 9: 2, 5: 3, 0: 4, 20: 7, 15: 9},
    4: {14: 0, 5: 1, 0: 3, 21: 7, 6: 8, 47: 10, 35: 11, 32: 12, 67: 13, 66: 14, 65: 15, 64: 16},
}


def profiles(key: str) -> dict[str, MigProfile]:
    found = model(key).profiles
    assert found is not None
    return dict(found)


def placements(text: str) -> tuple[tuple[int, ...], int]:
    match = re.fullmatch(r"\{([\d,]+)\}:(\d+)", text)
    assert match
    return tuple(int(start) for start in match[1].split(",")), int(match[2])


@pytest.mark.parametrize("name", READINGS)
def test_profiles_and_placements_are_what_nvml_told_of_a_real_card(name: str) -> None:
    (gpu,) = json.loads(READINGS[name].read_text(encoding="utf-8"))["nvml"]["gpus"]
    found = find_model(gpu["name"])
    assert found is not None
    key = found[0].key
    told = {
        one["name"]: (one["number"], one["id"], one["slices"], one["maxInstances"], one["memoryMiB"], one["placements"])
        for one in gpu["profiles"]
    }
    planned = {
        one.name: (one.profile_id, one.compute_slices, one.max_instances, one.memory_mib, [[at, one.size] for at in one.starts])
        for one in profiles(key).values()
    }
    assert planned == {name: row[1:] for name, row in told.items()}
    simulated = {
        one.name: (one.number, one.id, one.slices, one.max_instances, one.memory_mib, [[at, one.size] for at in one.starts])
        for one in facts.profiles(key)
    }
    assert simulated == told


@pytest.mark.parametrize(("key", "name"), [(key, name) for key, gpu in PUBLISHED.items() for name in gpu.get("printed", {})])
def test_a_profile_is_what_nvidia_smi_printed_of_it(key: str, name: str) -> None:
    number, instances, gib, sm, copy, decoders, encoders, jpeg, ofa = PUBLISHED[key]["printed"][name]
    planned = profiles(key)[name]
    (simulated,) = (one for one in facts.profiles(key) if one.name == name)
    assert (planned.profile_id, planned.max_instances, planned.sm) == (number, instances, sm)
    assert (simulated.id, simulated.max_instances, simulated.multiprocessors) == (number, instances, sm)
    assert planned.compute_slices == simulated.slices == int(name[0])
    assert planned.memory_gib == pytest.approx(gib, abs=_BY_DRIVER)
    assert simulated.memory_mib is not None
    assert simulated.memory_mib / 1024 == pytest.approx(gib, abs=_BY_DRIVER)
    if planned.engines is not None:
        assert planned.engines == (decoders, encoders, jpeg, ofa)
    for known, printed in zip(simulated.engines, (copy, decoders, encoders, jpeg, ofa), strict=True):
        assert known in {None, printed}


@pytest.mark.parametrize("key", [key for key, gpu in PUBLISHED.items() if "places" in gpu])
def test_placements_are_what_nvidia_smi_printed(key: str) -> None:
    printed = {number: placements(text) for number, text in PUBLISHED[key]["places"].items()}
    planned = {one.profile_id: (one.starts, one.size) for one in profiles(key).values()}
    simulated = {one.id: (one.starts, one.size) for one in facts.profiles(key)}
    assert {number: planned[number] for number in printed} == printed
    assert simulated == planned
    assert all(one.placements_measured for one in profiles(key).values() if one.profile_id in printed)


@pytest.mark.parametrize("key", [key for key, gpu in PUBLISHED.items() if "fractions" in gpu])
def test_shares_are_those_of_nvidias_table(key: str) -> None:
    known = model(key)
    published = PUBLISHED[key]["fractions"]
    assert set(published) == set(profiles(key))
    for name, (memory, sm, instances) in published.items():
        profile = profiles(key)[name]
        assert Fraction(profile.size, known.placement_units or 0) == Fraction(memory), name
        assert Fraction(profile.compute_slices, known.compute_slices) == Fraction(sm), name
        assert Fraction(profile.sm or 0, known.sm or 1) == Fraction(sm), name
        assert most_of(known, name) == profile.max_instances == instances, name


def test_the_names_are_nvidias() -> None:
    assert set(profiles("a100-80gb")) == set(PUBLISHED["a100-80gb"]["names"])


@pytest.mark.parametrize("key", [key for key in model_keys() if model(key).profiles and model(key).compute_slices == 7])
def test_every_gpu_of_seven_slices_has_the_geometry_that_each_one_read_had(key: str) -> None:
    known = model(key)
    assert known.placement_units == 8
    found = {}
    for one in profiles(key).values():
        kind = f"{one.name.partition('g')[0]}g{'+me' if one.name.endswith('+me') else ''}"
        kind = f"{kind}, twice the memory" if kind == "1g" and one.size == 2 else kind
        found[kind] = (one.profile_id, one.compute_slices, one.max_instances, one.starts, one.size)
    assert found == {kind: row for kind, row in SEVEN_SLICES.items() if kind in found}
    assert {"1g", "2g", "3g", "4g", "7g"} <= set(found)


@pytest.mark.parametrize("key", [key for key in model_keys() if model(key).profiles])
def test_the_simulated_numbers_are_those_of_nvml_s_header(key: str) -> None:
    for one in facts.profiles(key):
        assert NUMBERS[model(key).compute_slices][one.id] == one.number, one.name


@pytest.mark.parametrize(
    ("key", "layout", "legal"),
    [
        ("a100-40gb", {"4g.20gb": 1, "3g.20gb": 1}, True),
        ("a100-40gb", {"4g.20gb": 2}, False),
        ("a100-40gb", {"3g.20gb": 2, "1g.5gb": 1}, False),
        ("a100-40gb", {"3g.20gb": 1, "2g.10gb": 2}, True),
        ("a100-40gb", {"3g.20gb": 1, "1g.5gb": 4}, True),
        ("a100-40gb", {"3g.20gb": 1, "1g.5gb": 5}, False),
        ("a30-24gb", {"2g.12gb": 1, "1g.6gb": 2}, True),
        ("a30-24gb", {"2g.12gb": 1, "1g.6gb": 3}, False),
        ("rtx-pro-6000-blackwell", {"2g.48gb": 1, "1g.24gb": 2}, True),
        ("rtx-pro-6000-blackwell", {"2g.48gb": 2, "1g.24gb": 1}, False),
    ],
)
def test_layouts_that_were_made_on_cards_are_legal_and_their_like_with_more_are_not(key: str, layout: Any, legal: bool) -> None:  # noqa: FBT001
    assert (tuple(sorted(layout.items())) in legal_layouts(model(key))) is legal
