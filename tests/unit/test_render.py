"""The two rendered config files, against readable golden files in tests/golden, one per behaviour.

After a wanted change: ``UPDATE_GOLDEN=1 venv/bin/pytest tests/unit/test_render.py``, then read the difference. The first line
of each golden file is the key, so that a key that changes by accident (every node would reload) shows as well.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP, device_plugin_config, digest
from gpu_pools.allocation.mig_parted import (
    MIG_PARTED_CONFIG_MAP,
    MIG_PARTED_ENTRIES_CONFIG_MAP,
    mig_parted_entries,
    mig_parted_file,
    mig_parted_key,
)
from gpu_pools.sharing.exclusive import Exclusive
from gpu_pools.sharing.mig import Mig
from gpu_pools.sharing.mode import GpuLayout
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.time_slicing import TimeSlicing
from gpu_pools.stack.kubernetes_names import qualified_name
from tests.examples import examples

GOLDEN = Path(__file__).parents[1] / "golden"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))

UNIFORM = Mig((GpuLayout(None, (("1g.10gb", 7),)),))
MIXED = Mig((GpuLayout(None, (("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1))),))
PER_GPU = Mig((GpuLayout((0, 1), (("1g.10gb", 7),)), GpuLayout((2,), (("1g.10gb+me", 1), ("3g.40gb", 1))), GpuLayout((3,), ())))
SLICED_UNIFORM = Mig(UNIFORM.gpus, TimeSlicing(2))
SLICED_PER_GPU = Mig(PER_GPU.gpus, TimeSlicing(3, rename_by_default=True))

DEVICE_PLUGIN = {
    "exclusive": (Exclusive(), "single"),
    "time-slicing": (TimeSlicing(4), "single"),
    "time-slicing-renamed": (TimeSlicing(4, rename_by_default=True), "single"),
    "time-slicing-large-requests": (TimeSlicing(4, fail_requests_greater_than_one=False), "single"),
    "mps": (Mps(10), "single"),
    "mig-single": (UNIFORM, "single"),
    "mig-mixed": (MIXED, "mixed"),
    "mig-single-time-sliced": (SLICED_UNIFORM, "single"),
    "mig-mixed-time-sliced": (SLICED_UNIFORM, "mixed"),
    "mig-per-gpu-time-sliced-renamed": (SLICED_PER_GPU, "mixed"),
}
MIG_PARTED = {
    "no-mig": (),
    "uniform": (UNIFORM,),
    "mixed": (MIXED,),
    "per-gpu": (PER_GPU,),
    "several-declarations": (UNIFORM, MIXED, PER_GPU),
}

#: The keys of the device plugin's v1 config that this project writes (NVIDIA/k8s-device-plugin, api/config/v1, v0.20.0).
#: The plugin ignores any other in silence.
TOP = {"version", "flags", "sharing"}
REPLICATED = {"renameByDefault", "failRequestsGreaterThanOne", "resources"}
RESOURCE = {"name", "replicas"}


def _golden(name: str, text: str) -> None:
    file = GOLDEN / f"{name}.yaml"
    if UPDATE:
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", DEVICE_PLUGIN)
def test_device_plugin_config(name: str) -> None:
    key, text = device_plugin_config(*DEVICE_PLUGIN[name])
    _golden(f"device-plugin-{name}", f"# {key}\n{text}")


@pytest.mark.parametrize("name", MIG_PARTED)
def test_mig_parted_config(name: str) -> None:
    declarations = MIG_PARTED[name]
    keys = " ".join(mig_parted_key(declaration) for declaration in declarations)
    _golden(f"mig-parted-{name}", f"# {keys or 'only the default'}\n{mig_parted_file(mig_parted_entries(declarations))}")


def test_every_golden_file_belongs_to_a_test() -> None:
    named = {f"device-plugin-{name}.yaml" for name in DEVICE_PLUGIN} | {f"mig-parted-{name}.yaml" for name in MIG_PARTED}
    assert {file.name for pattern in ("device-plugin-*", "mig-parted-*") for file in GOLDEN.glob(pattern)} == named


def _check_device_plugin(document: dict[str, Any]) -> None:
    assert document["version"] == "v1"
    assert set(document) <= TOP
    assert set(document["flags"]) == {"migStrategy"}
    assert document["flags"]["migStrategy"] in {"single", "mixed"}
    for shared in document.get("sharing", {}).values():
        assert set(shared) == REPLICATED
        assert isinstance(shared["renameByDefault"], bool)
        assert isinstance(shared["failRequestsGreaterThanOne"], bool)
        assert shared["resources"]
        for resource in shared["resources"]:
            assert set(resource) == RESOURCE
            assert resource["replicas"] >= 2
            assert qualified_name(resource["name"])
    # Both at once: the plugin would drop time-slicing in silence.
    assert len(document.get("sharing", {})) <= 1
    assert set(document.get("sharing", {})) <= {"timeSlicing", "mps"}
    # The plugin exits on this.
    assert not ("mps" in document.get("sharing", {}) and document["flags"]["migStrategy"] == "mixed")


@pytest.mark.parametrize("name", DEVICE_PLUGIN)
def test_the_device_plugin_would_read_every_key(name: str) -> None:
    _check_device_plugin(yaml.safe_load(device_plugin_config(*DEVICE_PLUGIN[name])[1]))


def test_mig_parted_has_only_keys_of_its_spec() -> None:
    """mig-parted refuses unknown fields, and wants mig-devices only where MIG is on."""
    document = yaml.safe_load(mig_parted_file(mig_parted_entries((UNIFORM, MIXED, PER_GPU))))
    assert set(document) == {"version", "mig-configs"}
    assert document["version"] == "v1"
    for groups in document["mig-configs"].values():
        for group in groups:
            assert set(group) == (
                {"devices", "mig-enabled", "mig-devices"} if group["mig-enabled"] else {"devices", "mig-enabled"}
            )


def test_the_default_of_the_operator_is_always_there() -> None:
    assert next(iter(yaml.safe_load(mig_parted_file(mig_parted_entries(())))["mig-configs"])) == "all-disabled"


def test_time_slicing_of_instances_shares_the_partitions_of_the_plain_layout() -> None:
    """How instances are shared is the device plugin's business: MIG must not be redone for it."""
    assert mig_parted_key(SLICED_UNIFORM) == mig_parted_key(UNIFORM)
    assert mig_parted_file(mig_parted_entries((SLICED_UNIFORM, UNIFORM))) == mig_parted_file(mig_parted_entries((UNIFORM,)))


def test_the_order_of_declarations_does_not_change_the_file() -> None:
    assert mig_parted_file(mig_parted_entries((UNIFORM, MIXED))) == mig_parted_file(mig_parted_entries((MIXED, UNIFORM)))


def test_entries_come_in_the_order_of_their_keys() -> None:
    """So that a preview shows the same file whatever the order of the pools."""
    for declarations in ((PER_GPU, MIXED, UNIFORM), (UNIFORM, MIXED, PER_GPU)):
        entries = mig_parted_entries(declarations)
        assert list(entries) == sorted(entries)
    turned = dict(reversed(mig_parted_entries((UNIFORM, MIXED)).items()))
    assert mig_parted_file(turned) == mig_parted_file(mig_parted_entries((UNIFORM, MIXED)))


def test_a_long_layout_takes_all_that_a_label_value_may_have() -> None:
    layouts = [("1g.10gb+me", 1), ("1g.10gb", 3), ("1g.20gb", 1), ("2g.20gb", 1), ("3g.40gb", 1), ("4g.40gb", 1), ("7g.80gb", 1)]
    key = mig_parted_key(Mig(tuple(GpuLayout((index,), (layout,)) for index, layout in enumerate(layouts))))
    assert key.startswith("1g.10gb.me-3x1g.10gb-1g.20gb-2g.20gb-3g.40gb-4g.40gb-7g.80gb"[:54])
    assert len(key) == 63


def test_a_gpu_that_stays_whole_is_named_so_wherever_it_stands() -> None:
    first = Mig((GpuLayout((0,), ()), GpuLayout((1,), (("7g.80gb", 1),))))
    assert mig_parted_key(first).startswith("whole-7g.80gb-")


def test_what_clusters_that_live_call_their_config_maps_and_keys_stays() -> None:
    assert digest("version: v1\n") == "aefdbe17"
    names = (DEVICE_PLUGIN_CONFIG_MAP, MIG_PARTED_CONFIG_MAP, MIG_PARTED_ENTRIES_CONFIG_MAP)
    assert names == ("gpu-pools-device-plugin", "gpu-pools-mig-parted", "gpu-pools-mig-layouts")


def test_digest_is_short_and_of_the_content() -> None:
    assert digest("") == "e3b0c442"
    assert digest("a") != digest("b")


_PROFILES = st.sampled_from(["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "1g.24gb+me.all", "1g.24gb-me", "7g.80gb"])
_LAYOUTS = st.dictionaries(_PROFILES, st.integers(1, 7), max_size=8).map(lambda layout: tuple(sorted(layout.items())))
_TIME_SLICING = st.builds(
    TimeSlicing, st.integers(2, 10_000), rename_by_default=st.booleans(), fail_requests_greater_than_one=st.booleans()
)
_GROUPS = st.lists(_LAYOUTS, min_size=1, max_size=8).map(
    lambda layouts: tuple(GpuLayout((index,), layout) for index, layout in enumerate(layouts))
)
_MIG = st.builds(Mig, _GROUPS, st.none() | _TIME_SLICING)
_SHARING = st.one_of(st.just(Exclusive()), _TIME_SLICING, st.builds(Mps, st.integers(2, 48)), _MIG)


@settings(max_examples=examples(150), deadline=None)
@given(_SHARING, st.sampled_from(["single", "mixed"]))
def test_every_key_is_a_label_value(sharing: Any, strategy: Any) -> None:
    key, text = device_plugin_config(sharing, strategy)
    keys = [key, mig_parted_key(sharing)] if isinstance(sharing, Mig) else [key]
    for name in keys:
        assert len(name) <= 63
        assert qualified_name(name)
    assert key.endswith(f"-{digest(text)}")


@settings(max_examples=examples(150), deadline=None)
@given(_MIG, _MIG)
def test_equal_layouts_and_only_those_share_a_mig_key(one: Mig, other: Mig) -> None:
    assert (mig_parted_key(one) == mig_parted_key(other)) == (one.gpus == other.gpus)


@settings(max_examples=examples(150), deadline=None)
@given(_SHARING, _SHARING)
def test_equal_content_and_only_that_shares_a_config_key(one: Any, other: Any) -> None:
    """Two MIG layouts without time-slicing need the same file: the plugin finds the instances by itself."""
    one_key, one_text = device_plugin_config(one, "mixed")
    other_key, other_text = device_plugin_config(other, "mixed")
    assert (one_text == other_text) == (one_key.rpartition("-")[2] == other_key.rpartition("-")[2])
    if one == other:
        assert one_key == other_key
