from __future__ import annotations

from sandbox.cluster.machine_groups import Hardware
from sandbox.machines.device_plugin import Crash
from sandbox.machines.gfd import Driver, Labels, discover
from sandbox.machines.gpu import Gpu, cleared, new_gpus, with_layout

HARDWARE = Hardware(24, 220, "a100-80gb", "NVIDIA A100-SXM4-80GB", 2)
PRODUCT = "NVIDIA-A100-SXM4-80GB"
SLICED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
RENAMED = "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
MPS = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}"


def gpus(layout: dict[str, int] | None = None) -> tuple[Gpu, ...]:
    plain = new_gpus("node", HARDWARE, None)
    return plain if layout is None else tuple(with_layout(gpu, layout) or gpu for gpu in plain)


def labels(config: str | None = None, strategy: str | None = None, on: tuple[Gpu, ...] | None = None) -> dict[str, str]:
    answer = discover(config, strategy, gpus() if on is None else on, Driver("580.95.05", "13.0"), "Some Machine")
    assert isinstance(answer, Labels), answer
    return {key.removeprefix("nvidia.com/"): value for key, value in answer.labels.items()}


def shown(found: dict[str, str], resource: str = "gpu") -> tuple[str, ...]:
    return tuple(found[f"{resource}.{key}"] for key in ("product", "count", "replicas", "sharing-strategy"))


def test_no_sharing() -> None:
    found = labels()
    assert len(found) == 25
    assert shown(found) == (PRODUCT, "2", "1", "none")
    expected = {
        "gpu.memory": "81920", "gpu.family": "ampere", "gpu.compute.major": "8", "gpu.compute.minor": "0", "gpu.mode": "compute",
        "mig.capable": "true", "mps.capable": "false", "vgpu.present": "false", "gpu.machine": "Some-Machine",
        "cuda.driver-version.full": "580.95.05", "cuda.driver.rev": "05", "cuda.runtime-version.full": "13.0",
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert "mig.strategy" not in found


def test_time_slicing() -> None:
    assert shown(labels(SLICED)) == (f"{PRODUCT}-SHARED", "2", "4", "time-slicing")


def test_renamed_time_slicing_has_no_suffix_and_keeps_the_label_keys() -> None:
    assert shown(labels(RENAMED)) == (PRODUCT, "2", "4", "time-slicing")
    assert not any("gpu.shared" in key for key in labels(RENAMED))


def test_mps() -> None:
    assert shown(labels(MPS)) == (f"{PRODUCT}-SHARED", "2", "10", "mps")
    assert labels(MPS)["mps.capable"] == "true"


def test_mps_with_mig_exits() -> None:
    answer = discover(MPS, "single", gpus({"1g.10gb": 7}), Driver("580.95.05", "13.0"), "x")
    assert isinstance(answer, Crash)
    assert "MPS sharing is not supported" in answer.message


def test_mig_single() -> None:
    found = labels(None, "single", gpus({"2g.20gb": 3}))
    assert len(found) == 34
    assert shown(found) == (f"{PRODUCT}-MIG-2g.20gb", "6", "1", "none")
    expected = {
        "mig.strategy": "single", "gpu.memory": "19968", "gpu.multiprocessors": "28", "gpu.slices.ci": "2", "gpu.slices.gi": "2",
        "gpu.engines.copy": "2", "gpu.engines.decoder": "1", "gpu.engines.encoder": "0",
        "gpu.engines.jpeg": "0", "gpu.engines.ofa": "0",
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected


def test_mig_mixed() -> None:
    found = labels(None, "mixed", gpus({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}))
    assert shown(found) == (PRODUCT, "2", "0", "none")
    assert found["mig.strategy"] == "mixed"
    assert shown(found, "mig-1g.10gb") == (f"{PRODUCT}-MIG-1g.10gb", "4", "1", "none")
    assert shown(found, "mig-3g.40gb")[1] == "2"
    each = {"count", "memory", "multiprocessors", "product", "replicas", "sharing-strategy", "slices.ci", "slices.gi"}
    engines = {f"engines.{name}" for name in ("copy", "decoder", "encoder", "jpeg", "ofa")}
    assert {key.removeprefix("mig-2g.20gb.") for key in found if key.startswith("mig-2g.20gb.")} == each | engines


def test_memory_that_no_source_gives_is_left_out_and_never_wrong() -> None:
    assert "gpu.memory" not in labels(None, "single", gpus({"1g.10gb": 7}))


def test_mig_mixed_with_sliced_instances() -> None:
    text = "sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 3}]}}"
    found = labels(text, "mixed", gpus({"1g.10gb": 7}))
    assert shown(found, "mig-1g.10gb") == (f"{PRODUCT}-MIG-1g.10gb-SHARED", "14", "3", "time-slicing")


def test_single_strategy_on_what_is_not_uniform_is_marked_invalid() -> None:
    empty = tuple(cleared(gpu, mig_enabled=True) for gpu in gpus())
    half = (gpus()[0], gpus({"1g.10gb": 7})[1])
    for on in (gpus({"3g.40gb": 1, "2g.20gb": 2}), empty, half):
        found = labels(None, "single", on)
        assert shown(found) == (f"{PRODUCT}-MIG-INVALID", "0", "0", "")
        assert found["gpu.memory"] == "0"


def test_a_machine_without_gpus_has_no_labels() -> None:
    assert labels(on=()) == {}
