from __future__ import annotations

import pytest

from sandbox.cluster.machine_groups import Hardware
from sandbox.machines.gpu import Gpu, from_json, new_gpus, to_json
from sandbox.machines.mig_parted import MigPartedError, apply, generated_config, holds, read_config

A100 = Hardware(24, 220, "a100-80gb", "NVIDIA A100 80GB PCIe", 2)


def gpus(hardware: Hardware = A100) -> tuple[Gpu, ...]:
    return new_gpus("node", hardware, None)


def config(entries: str, name: str = "it") -> str:
    return f"version: v1\nmig-configs: {{{name}: {entries}}}"


def test_a_machine_always_has_the_same_gpus() -> None:
    assert gpus() == gpus()
    assert len({gpu.uuid for gpu in gpus()}) == 2
    assert from_json(to_json(gpus())) == gpus()


@pytest.mark.parametrize(
    ("cloud", "layout"),
    [
        ("MIG1g", {"1g.10gb": 7}),
        ("MIG2g", {"2g.20gb": 3}),
        ("MIG3g", {"3g.40gb": 2}),
        ("MIG4g", {"4g.40gb": 1}),
        ("MIG7g", {"7g.80gb": 1}),
    ],
)
def test_aks_partitions_before_the_node_joins(cloud: str, layout: dict[str, int]) -> None:
    assert [gpu.layout for gpu in new_gpus("node", A100, cloud)] == [layout, layout]


def test_a_layout_is_applied_to_the_listed_gpus_only() -> None:
    entries = read_config(config("[{devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 1, 2g.20gb: 2}}]"), "it")
    after, error = apply(gpus(), entries)
    assert error is None
    assert [gpu.layout for gpu in after] == [{}, {"2g.20gb": 2, "3g.40gb": 1}]
    assert [gpu.mig_enabled for gpu in after] == [False, True]
    assert holds(after, entries)
    assert not holds(gpus(), entries)


def test_instances_of_a_gpu_do_not_overlap() -> None:
    after, _ = apply(
        gpus(), read_config(config("[{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 3}}]"), "it")
    )
    covered = [unit for item in after[0].instances for unit in range(item.start, item.start + item.size)]
    assert len(covered) == len(set(covered))


def test_a_layout_that_does_not_fit_clears_the_first_gpu_and_stops() -> None:
    start, _ = apply(gpus(), read_config(config("[{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]"), "it"))
    after, error = apply(start, read_config(config("[{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}]"), "it"))
    assert error is not None
    assert [gpu.layout for gpu in after] == [{}, {"1g.10gb": 7}]


def test_a_profile_that_the_card_lacks_reports_success_and_leaves_nothing() -> None:
    entries = read_config(config("[{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]"), "it")
    after, error = apply(gpus(), entries)
    assert error is None
    assert all(gpu.mig_enabled and not gpu.instances for gpu in after)
    assert not holds(after, entries)


def test_mig_on_a_t4_is_refused() -> None:
    t4 = gpus(Hardware(4, 28, "t4-16gb", None, 1))
    after, error = apply(t4, read_config(config("[{devices: all, mig-enabled: true, mig-devices: {}}]"), "it"))
    assert error is not None
    assert after == t4
    assert apply(t4, read_config(config("[{devices: all, mig-enabled: false}]"), "it")) == (t4, None)


def test_mig_off_removes_all_instances() -> None:
    start, _ = apply(gpus(), read_config(config("[{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]"), "it"))
    assert apply(start, read_config(config("[{devices: all, mig-enabled: false}]"), "it")) == (gpus(), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (config("[{devices: all, mig-enabled: false}]", "other"), "selected mig-config not present: it"),
        ("mig-configs: {}", "missing 'version' field"),
        ("version: v2\nmig-configs: {}", "unknown version: v2"),
        ("version: v1\nmig-configs: {}", "at least one entry in 'mig-configs' is required"),
        ("version: v1\nmigConfigs: {}", "unexpected field: migConfigs"),
        (config("[]"), "at least one entry in 'it' is required"),
        (config("[{mig-enabled: false}]"), "missing required field: devices"),
        (config("[{devices: all}]"), "missing required field: mig-enabled"),
        (config("[{devices: some, mig-enabled: false}]"), "invalid string input for 'devices'"),
        (config("[{devices: all, mig-enabled: 'yes'}]"), "into Go value of type bool"),
        (config("[{devices: all, mig-enabled: true}]"), "missing required field 'mig-devices'"),
        (config("[{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}]"), "MIG devices included"),
        (config("[{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 0}}]"), "all counts for all MigProfiles are 0"),
        (config("[{devices: all, mig-enabled: true, mig-devices: {1g.10gb: '7'}}]"), "cannot unmarshal"),
        (config("[{devices: all, mig-enabled: false, extra: 1}]"), "unexpected field: extra"),
        ("version: v1\n  : [", "converting YAML"),
    ],
)
def test_the_file_is_read_strictly(text: str, message: str) -> None:
    with pytest.raises(MigPartedError, match=message.replace("(", r"\(").replace("[", r"\[")):
        read_config(text, "it")


def test_without_a_named_file_the_node_has_its_own_profiles() -> None:
    text = generated_config("a100-80gb")
    after, error = apply(gpus(), read_config(text, "all-1g.10gb"))
    assert error is None
    assert after[0].layout == {"1g.10gb": 7}
    assert apply(after, read_config(text, "all-disabled")) == (gpus(), None)


@pytest.mark.parametrize(
    ("key", "layout"),
    [
        ("a100-80gb", {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}),
        ("a30-24gb", {"2g.12gb": 1, "1g.6gb": 2}),
    ],
)
def test_the_balanced_layout_has_of_each_size_what_fits_most_often(key: str, layout: dict[str, int]) -> None:
    (entry,) = read_config(generated_config(key), "all-balanced")
    assert entry.layout == layout


def test_a_layout_without_a_name_is_the_only_one_of_the_file() -> None:
    (entry,) = read_config("version: v1\nmig-configs: {one: [{devices: all, mig-enabled: false}]}", "")
    assert not entry.mig_enabled
    with pytest.raises(MigPartedError, match="missing required flag 'selected-config' when more than one config available"):
        read_config(generated_config("a100-80gb"), "")
