"""The labels that the plan predicts are those that the real gpu-feature-discovery writes, on the simulated GPU.

Every predicted label must be there with that value; every label that is there must be predicted or be one of those that the
plan leaves out by decision (UNPREDICTED and what follows it). Each combination is a test.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.allocation.device_plugin import device_plugin_config
from gpu_pools.hardware.models import model, model_keys
from gpu_pools.hardware.node import Hardware
from gpu_pools.mig.geometry import legal_layouts, maximal_layouts
from gpu_pools.plan.expectation import gfd_labels
from gpu_pools.sharing.exclusive import Exclusive
from gpu_pools.sharing.mig import Mig
from gpu_pools.sharing.mode import GpuLayout
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.time_slicing import TimeSlicing
from sandbox.nvml import from_tables, simulated
from tests.sandbox.real.feature_discovery import discover
from tests.sandbox.real.partitioned import partitioned
from tests.sandbox.real.test_mig_parted import geometry
from tests.tiers import one_of_each, these

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpu_pools.allocation.device_plugin import FlagMigStrategy
    from gpu_pools.sharing.mode import Sharing
    from sandbox.cluster.gpu_host import GpuHost

pytestmark = pytest.mark.programs

GPUS: Final = 2
_LONGEST_LABEL_VALUE: Final = 63
#: What the plan leaves out, since it follows from the driver and the machine, not from the declaration.
UNPREDICTED: Final = frozenset(
    {
        *(f"cuda.driver-version.{part}" for part in ("full", "major", "minor", "revision")),
        *(f"cuda.driver.{part}" for part in ("major", "minor", "rev")),
        *(f"cuda.runtime-version.{part}" for part in ("full", "major", "minor")),
        *(f"cuda.runtime.{part}" for part in ("major", "minor")),
        *("gpu.compute.major", "gpu.compute.minor", "gpu.machine", "gpu.mode", "vgpu.present"),
    }
)
#: What it leaves out of each MIG resource: the driver decides about engines and, by a little, about memory.
ATTRIBUTES: Final = (
    *(f"engines.{engine}" for engine in ("copy", "decoder", "encoder", "jpeg", "ofa")),
    *("memory", "multiprocessors", "slices.ci", "slices.gi"),
)


@dataclass(frozen=True)
class Case:
    """A declaration on hardware. The product is None where this project knows no name of the model."""

    key: str
    product: str | None
    sharing: Sharing
    strategy: FlagMigStrategy
    name: str

    @property
    def hardware(self) -> Hardware:
        return Hardware(model(self.key), self.product, GPUS, "a test")

    def machine(self) -> simulated.Machine:
        plain = from_tables.machine_state(self.key, self.product or f"NVIDIA {self.key}", GPUS)
        layouts = [self.sharing.layout_of(gpu.slot) if isinstance(self.sharing, Mig) else {} for gpu in plain.gpus]
        enabled = (partitioned(self.key, gpu, layout) if layout else gpu for gpu, layout in zip(plain.gpus, layouts, strict=True))
        return replace(plain, gpus=tuple(enabled))

    def unpredicted(self, predicted: Mapping[str, str]) -> set[str]:
        """The labels that must be there without being predicted."""
        keys = set(UNPREDICTED)
        resources = ["gpu"]
        if isinstance(self.sharing, Mig):
            names = {f"mig-{name.replace('+', '.')}" for layout in self.sharing.layouts for name, _ in layout}
            resources += [] if self.strategy == "single" else sorted(names)
            shared = resources if self.strategy == "single" else resources[1:]
            keys |= {f"{resource}.{attribute}" for resource in shared for attribute in ATTRIBUTES}
        if self.product is None:
            keys |= {f"{resource}.product" for resource in resources}
        keys.add("gpu.memory")
        return {f"nvidia.com/{key}" for key in keys} - predicted.keys()


# --- the combinations -------------------------------------------------------------------------------------


def hardware() -> Iterator[tuple[str, str | None]]:
    """Every model that the real program can label at all, with every product name."""
    for key in model_keys():
        if model(key).compute_capability is not None:
            yield from ((key, product) for product in model(key).products or (None,))


def whole(key: str, product: str | None) -> Iterator[Case]:
    """GPUs outside MIG: strategies, replicas and names."""
    yield Case(key, product, Exclusive(), "single", "exclusive")
    most = 48 if (model(key).compute_capability or (0, 0)) >= (7, 5) else 16
    for replicas, renamed in itertools.product((2, most), (False, True)):
        suffix = f"{replicas}{'-renamed' * renamed}"
        yield Case(key, product, TimeSlicing(replicas, rename_by_default=renamed), "single", f"time-slicing-{suffix}")
        yield Case(key, product, Mps(replicas, rename_by_default=renamed), "single", f"mps-{suffix}")


def in_mig(key: str, product: str | None) -> Iterator[Case]:
    """GPUs in MIG mode: each profile as often as it fits, the richest layout, and one GPU that stays whole."""
    known = model(key)
    if not known.profiles:
        return
    slicings = (None, TimeSlicing(4), TimeSlicing(3, rename_by_default=True))
    for profile in sorted(known.profiles):
        most = max(dict(layout).get(profile, 0) for layout in legal_layouts(known) if len(layout) == 1)
        uniform = (GpuLayout(None, ((profile, most),)),)
        yield Case(key, product, Mig(uniform), "single", f"{profile}-single")
    for sliced, strategy in itertools.product(slicings, ("single", "mixed")):
        suffix = f"{strategy}{f'-x{sliced.replicas}' if sliced else ''}"
        yield Case(key, product, Mig(uniform, sliced), strategy, f"uniform-{suffix}")  # type: ignore[arg-type]
    richest = max(maximal_layouts(known), key=len)
    for sliced in slicings:
        suffix = f"x{sliced.replicas}" if sliced else "x1"
        yield Case(key, product, Mig((GpuLayout(None, richest),), sliced), "mixed", f"mixed-{suffix}")
        parts = (GpuLayout((0,), ()), GpuLayout((1,), richest))
        yield Case(key, product, Mig(parts, sliced), "mixed", f"part-{suffix}")


def combinations() -> Iterator[Case]:
    """All cases of each model's first product, and a fourth of those of its others, which differ by their names only."""
    seen: set[str] = set()
    for key, product in hardware():
        cases = [*whole(key, product), *in_mig(key, product)]
        yield from cases[:: 4 if key in seen else 1]
        seen.add(key)


CASES: Final = list(combinations())


def _kind(case: Case) -> tuple[object, ...]:
    """Its GPU's geometry, and the way of sharing without its numbers."""
    return geometry(model(case.key)), re.sub(r"[-\d].*", "", case.name), case.strategy


# --- the program ------------------------------------------------------------------------------------------


def check(host: GpuHost, program: Path, case: Case) -> None:
    host.show(case.machine())
    done, labels = discover(host, program, device_plugin_config(case.sharing, case.strategy)[1])
    assert done.returncode == 0, done.stderr
    predicted = gfd_labels(case.hardware, case.sharing, case.strategy)
    assert {key: labels.get(key) for key in predicted} == predicted
    # The real one writes these too, but NFD then keeps them from the node.
    refused = {key for key, value in labels.items() if len(value) > _LONGEST_LABEL_VALUE}
    assert labels.keys() - predicted.keys() - refused == case.unpredicted(predicted) - refused
    assert not refused & predicted.keys()
    assert all(key.endswith(".product") for key in refused)


@pytest.mark.parametrize("version", these(["0.19", "0.17"], ["0.19"], by_day=1))
@pytest.mark.parametrize("case", one_of_each(CASES, _kind), ids=lambda case: f"{case.product or case.key}-{case.name}")
def test_labels_are_predicted(case: Case, version: str, shared_host: GpuHost, plugins: Mapping[str, Path]) -> None:
    check(shared_host, plugins[version] / "gpu-feature-discovery", case)


def test_there_are_enough_combinations() -> None:
    assert len(CASES) >= 300
    assert {case.key for case in CASES} >= {"a100-80gb", "h100-80gb", "a30-24gb", "t4-16gb"}
    assert {re.sub(r"[-\d].*", "", case.name) for case in CASES} >= {"exclusive", "time", "mps", "uniform", "mixed", "part"}


# --- what the real program does where the plan refuses -----------------------------------------------------

A100: Final = ("a100-80gb", "NVIDIA A100-SXM4-80GB")
UNIFORM: Final = Case(*A100, Mig((GpuLayout(None, (("1g.10gb", 7),)),)), "single", "uniform")
MIXED: Final = Case(*A100, Mig((GpuLayout(None, (("1g.10gb", 2), ("3g.40gb", 1))),)), "mixed", "mixed")
PART: Final = Case(*A100, Mig((GpuLayout((0,), (("1g.10gb", 7),)), GpuLayout((1,), ()))), "mixed", "part")
SINGLE: Final = "version: v1\nflags: {migStrategy: single}\n"
INVALID: Final = {
    "nvidia.com/gpu.count": "0",
    "nvidia.com/gpu.memory": "0",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID",
    "nvidia.com/gpu.replicas": "0",
    "nvidia.com/gpu.sharing-strategy": "",
}


def empty(case: Case) -> simulated.Machine:
    """The case's GPUs, MIG mode on and no instances."""
    machine = case.machine()
    return replace(machine, gpus=tuple(partitioned(case.key, gpu, {}) for gpu in machine.gpus))


@pytest.mark.parametrize("version", these(["0.19", "0.17"], ["0.19"], by_day=1))
@pytest.mark.parametrize("machine", [MIXED.machine(), PART.machine(), empty(UNIFORM)], ids=["mixed", "part", "empty"])
def test_strategy_single_on_anything_but_one_profile_is_labelled_invalid_and_no_error(
    machine: simulated.Machine, version: str, shared_host: GpuHost, plugins: Mapping[str, Path]
) -> None:
    shared_host.show(machine)
    done, labels = discover(shared_host, plugins[version] / "gpu-feature-discovery", SINGLE)
    assert done.returncode == 0
    assert {key: labels[key] for key in INVALID} == INVALID


@pytest.mark.parametrize("version", these(["0.19", "0.17"], ["0.19"], by_day=1))
def test_mps_on_mig_devices_ends_it(version: str, shared_host: GpuHost, plugins: Mapping[str, Path]) -> None:
    shared_host.show(UNIFORM.machine())
    config = SINGLE + "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
    done, labels = discover(shared_host, plugins[version] / "gpu-feature-discovery", config)
    assert done.returncode == 1
    assert "MPS sharing is not supported for mig devices" in done.stderr
    assert labels == {}


@pytest.mark.parametrize("sharing", [Exclusive(), TimeSlicing(4)])
def test_without_mig_the_strategy_of_the_cluster_is_a_label_and_nothing_else(
    sharing: Any, shared_host: GpuHost, plugins: Mapping[str, Path]
) -> None:
    """It comes as an environment variable, which beats the file."""
    case = Case(*A100, sharing, "mixed", "")
    shared_host.show(case.machine())
    program, (_, text) = plugins["0.19"] / "gpu-feature-discovery", device_plugin_config(sharing, "mixed")
    found = {name: discover(shared_host, program, text, {"MIG_STRATEGY": name})[1] for name in ("single", "mixed")}
    assert found["mixed"] == {**found["single"], "nvidia.com/mig.strategy": "mixed"}
    predicted = gfd_labels(case.hardware, sharing, "mixed")
    assert predicted.items() <= found["mixed"].items()


@pytest.mark.parametrize("version", these(["0.19", "0.17"], ["0.19"], by_day=1))
def test_a_rename_or_devices_of_one_resource_is_ignored_with_a_warning(
    version: str, shared_host: GpuHost, plugins: Mapping[str, Path]
) -> None:
    shared_host.show(Case(*A100, Exclusive(), "single", "").machine())
    program = plugins[version] / "gpu-feature-discovery"
    text = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4%s}]}}\n"
    plain, expected = discover(shared_host, program, text % "")
    for key, value in {"rename": "my.gpu", "devices": "[0]"}.items():
        done, labels = discover(shared_host, program, text % f", {key}: {value}")
        assert labels == expected
        said = f"'{key}' field in sharing.timeSlicing.resources is not yet supported in the config. Ignoring"
        assert said in done.stderr
        assert said not in plain.stderr


#: Version -> exit status and nvidia.com/gpu.mode where the PCI bus does not show the GPUs.
WITHOUT_PCI: Final = {"0.19": (0, "unknown"), "0.17": (1, None)}


@pytest.mark.parametrize("version", these(WITHOUT_PCI, ["0.19"], by_day=1))
def test_versions_differ_where_the_pci_bus_does_not_show_the_gpus(
    version: str, host: GpuHost, plugins: Mapping[str, Path]
) -> None:
    for device in (host.folder / "pci").iterdir():
        device.unlink()
    done, labels = discover(host, plugins[version] / "gpu-feature-discovery", "version: v1\n")
    assert (done.returncode, labels.get("nvidia.com/gpu.mode")) == WITHOUT_PCI[version]
