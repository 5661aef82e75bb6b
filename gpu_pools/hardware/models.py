"""GPU models: memory, compute capability, product names, MIG profiles and where each may be placed.

The data is gpu_pools/hardware/gpu_models.yaml with its sources; unknown values stay None here and are never guessed. What follows
from the geometry (which layouts fit) is gpu_pools/mig/geometry.py; models that a stack declares itself are read in
gpu_pools/stack/gpu_models.py.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.provenance import without_provenance
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The numbers of a version from the left, e.g. (570, 133, 20).
Version = tuple[int, ...]
#: First compute capability -> what gpu-feature-discovery calls it and those after it (k8s-device-plugin v0.19.0,
#: internal/lm/resource.go, getArchFamily); 11 and what comes after 12 is `undefined` there.
_FAMILIES: Final = {
    (5, 0): "maxwell",
    (6, 0): "pascal",
    (7, 0): "volta",
    (7, 5): "turing",
    (8, 0): "ampere",
    (8, 9): "ada-lovelace",
    (9, 0): "hopper",
    (10, 0): "blackwell",
    (11, 0): "",
    (12, 0): "blackwell",
    (13, 0): "",
}
#: How many models are offered for a name that is none.
MOST_MODELS: Final = 3
#: How alike a name and the key of a declared model are that may be meant by it.
_SIMILAR: Final = 0.5
#: The product line at the beginning of a key, or of a product name without its vendor.
_SERIES: Final = re.compile(r"rtx-pro-\d+|pg\d+|jetson-thor|thor|[abghlptv]+\d+[a-z]?(?![a-z0-9])")
#: A vGPU's name ends in its profile: framebuffer in GB and series (A, B, C, Q), before that perhaps slices of MIG
#: (NVIDIA/open-gpu-kernel-modules, g_nv_name_released.h).
_VGPU: Final = re.compile(r"(^|-)grid-|-(\d+-)?\d+[abcq](me|4)?$")
#: Some have no letter; `h100-80`, which people write, has no vendor.
_VGPU_APPS: Final = re.compile(r"^nvidia-.*-\d{1,2}$")
#: Of the same line by name, and other GPUs.
_MOBILE: Final = re.compile(r"laptop|embedded|mobile|max-q-design")


@dataclass(frozen=True)
class MigProfile:
    """One kind of MIG instance of one GPU model.

    Attributes:
        name: as NVML and mig-parted name it, e.g. ``1g.10gb+me``.
        profile_id: the nvidia-smi profile id; None where no source gives it.
        compute_slices: how many of the GPU's compute slices it takes.
        max_instances: how many of it fit on one GPU.
        starts: placement units at which it may start.
        size: placement units that it covers.
        placements_measured: False where starts and size are inferred from GPUs of the same geometry.
        sm: multiprocessors, None if unknown.
        memory_mib: MiB as NVML reports it, None if unknown.
        memory_gib: GiB as `nvidia-smi mig -lgip` prints it (it differs a little by driver), None if unknown.
        engines: NVDEC, NVENC, JPEG and OFA engines that it takes, None if unknown.
        min_driver: the first NVIDIA driver that has it; empty if no source gives one.
    """

    name: str
    profile_id: int | None
    compute_slices: int
    max_instances: int
    starts: tuple[int, ...]
    size: int
    placements_measured: bool
    sm: int | None
    memory_mib: int | None
    memory_gib: float | None
    engines: tuple[int, ...] | None
    min_driver: Version


@dataclass(frozen=True)
class GpuModel:
    """One GPU model.

    Attributes:
        key: this project's name for it, e.g. ``a100-80gb``.
        architecture: as gpu-feature-discovery labels it, e.g. ``ampere``; empty if unknown.
        compute_capability: (major, minor), None if unknown.
        memory_mib: total memory in MiB as NVML reports it, None if unknown.
        sm: multiprocessors of the whole GPU, None if unknown.
        sm_of: the same for products that have another number.
        mps_sm: (step, least) in which MPS hands out multiprocessors, None if it was not measured.
        products: what nvmlDeviceGetName answers, one name per form factor.
        compute_slices: MIG compute slices; 0 where the GPU has no MIG.
        placement_units: the unit count in which placements are expressed; None if unknown.
        profiles: by name; None where the GPU has MIG but no source gives its geometry.
        other_names: the name that other drivers or GPUs of this model give a profile -> its name in `profiles`.
        listed_names: where the geometry is unknown, the profile names that any source lists.
        min_driver: the first NVIDIA driver that has its MIG; empty if no source gives one.
        declared: whether only the stack file tells of it, and no table.
        mig_source: where its author has read the MIG profiles that it declares; empty: it declares none.
    """

    key: str
    architecture: str
    compute_capability: tuple[int, int] | None
    memory_mib: int | None
    sm: int | None
    sm_of: Mapping[str, int]
    mps_sm: tuple[int, int] | None
    products: tuple[str, ...]
    compute_slices: int
    placement_units: int | None
    profiles: Mapping[str, MigProfile] | None
    other_names: Mapping[str, str]
    listed_names: frozenset[str]
    min_driver: Version
    declared: bool = False
    mig_source: str = ""

    def own_name(self, profile: str) -> str:
        """The name that `profiles` has for a profile that may be given by another one."""
        return self.other_names.get(profile, profile)

    @property
    def mig_capable(self) -> bool:
        """Whether the hardware has MIG at all."""
        return self.profiles is None or bool(self.profiles)


def variant_of(profile: str) -> str:
    """What a profile's name says beyond its size, e.g. ``+me`` or ``-me``; empty for a plain one."""
    return re.sub(r"^[^+-]*", "", profile)


def model(key: str) -> GpuModel:
    """The model of that key.

    Raises:
        KeyError: if there is none.
    """
    return _models()[key]


def model_keys() -> tuple[str, ...]:
    """All known keys, sorted."""
    return tuple(sorted(_models()))


def family(capability: tuple[int, int] | None) -> str:
    """What gpu-feature-discovery calls the architecture of a compute capability; empty where it has no name or none is known."""
    first = max((first for first in _FAMILIES if capability and first <= capability), default=None)
    return _FAMILIES[first] if first else ""


def find_model(name: str, own: Iterable[GpuModel] = ()) -> tuple[GpuModel, str | None] | None:
    """(model, product) for a key (product None) or a product name as NVML or a node label writes it; None if unknown.

    A bare series name, such as ``h100``, finds nothing if it is the product name of another than the first model of its series:
    what people mean by it is most often not what NVML means by ``NVIDIA H100``.

    Args:
        name: of the model.
        own: models besides those of the tables.
    """
    for known in own:
        if name == known.key:
            return known, None
        for product in known.products:
            if _normal(name) == _normal(product):
                return known, product
    if name in _models():
        return _models()[name], None
    found = _products().get(_normal(name))
    series = [key for key in _models() if series_of(key) == name.lower()]
    return None if found and series and found[0].key != series[0] else found


def series_of(name: str) -> str:
    """Return the product line of a model's key or a product name, e.g. ``h100`` or ``rtx-pro-6000``; empty if it has none."""
    plain = _normal(name).removeprefix("tesla-")
    match = _SERIES.match(plain)
    return match[0] if match and not is_vgpu(name) and not _MOBILE.search(plain) else ""


def is_vgpu(name: str) -> bool:
    """Return whether a product name is that of a vGPU, whose memory is a part of the GPU's."""
    plain = "-".join(name.split()).lower()
    return bool(_VGPU.search(plain) or _VGPU_APPS.search(plain))


def nearest_models(name: str, own: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the keys of models that may be meant, best first, at most `MOST_MODELS`.

    Only models of the same product line are offered: another GPU's memory and MIG profiles would be planned for otherwise. A line
    counts as mistyped where a character is missing, doubled or in the wrong place, since another digit is another product.

    Args:
        name: of a model that there is not.
        own: keys besides those of the tables.
    """
    declared = difflib.get_close_matches(name.lower(), list(own), n=MOST_MODELS, cutoff=_SIMILAR)
    wanted = series_of(name)
    lines = {key: {series_of(other) for other in (key, *known.products)} - {""} for key, known in _models().items()}
    meant = [key for key, mine in lines.items() if wanted in mine]
    meant = meant or [key for key, mine in lines.items() if any(_is_slip(wanted, line) for line in mine)]
    if _normal(name) != wanted:
        meant.sort(key=lambda key: -difflib.SequenceMatcher(None, _normal(name), key).ratio())
    return tuple(dict.fromkeys([*declared, *meant]))[:MOST_MODELS]


def _is_slip(typed: str, line: str) -> bool:
    """Return whether one name is the other with a character left out or added, or two of them exchanged."""
    letters = re.compile(r"[a-z]+(?=\d)")
    if not letters.match(typed) or letters.findall(typed)[0] != next(iter(letters.findall(line)), ""):
        return False
    short, long = sorted((typed, line), key=len)
    if len(long) - len(short) == 1:
        return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
    return len(long) == len(short) and any(
        typed[:place] + typed[place + 1] + typed[place] + typed[place + 2 :] == line for place in range(len(typed) - 1)
    )


def device_models() -> Mapping[int, GpuModel]:
    """The models by PCI device id, e.g. 0x20B2, for those products and variants whose id a source gives."""
    return _devices()


def _normal(name: str) -> str:
    """Product names compare without the vendor, with dashes for blanks and without what node labels add: MIG profile, SHARED."""
    plain = "-".join(name.split()).lower().removeprefix("nvidia-")
    return re.sub(r"(-mig-\d+g\.\d+gb[-.a-z]*?)?(-shared)?$", "", plain)


@lru_cache(maxsize=1)
def _raw() -> dict[str, dict[str, Any]]:
    raw: dict[str, dict[str, Any]] = load_yaml(
        (resources.files("gpu_pools.hardware") / "gpu_models.yaml").read_text(encoding="utf-8")
    )
    return without_provenance(raw)


@lru_cache(maxsize=1)
def _models() -> Mapping[str, GpuModel]:
    return {key: _model(key, _raw()) for key in _raw()}


@lru_cache(maxsize=1)
def _devices() -> Mapping[int, GpuModel]:
    ids = {key: (*entry["products"].values(), *entry.get("pciNames", {})) for key, entry in _raw().items()}
    return {int(pci, 16): model(key) for key, mine in ids.items() for pci in mine if pci}


@lru_cache(maxsize=1)
def _products() -> Mapping[str, tuple[GpuModel, str]]:
    return {_normal(product): (_variant(known, product), product) for known in _models().values() for product in known.products}


def _variant(known: GpuModel, product: str) -> GpuModel:
    """The model as that product has it: fewer SMs mean that those of its profiles are unknown."""
    if product not in known.sm_of:
        return known
    profiles = {name: replace(profile, sm=None) for name, profile in (known.profiles or {}).items()}
    return replace(known, sm=known.sm_of[product], profiles=profiles)


def _model(key: str, raw: Mapping[str, Any]) -> GpuModel:
    entry = raw[key]
    capability = entry["computeCapability"]
    mig = entry["mig"] or {}
    twin = entry.get("profilesOf")
    profiles = raw[twin]["profiles"] if twin else entry.get("profiles")
    has_mig = entry["mig"] is not None
    return GpuModel(
        key=key,
        architecture=entry["architecture"],
        compute_capability=tuple(int(part) for part in capability.split(".")) if capability else None,  # type: ignore[arg-type]
        memory_mib=entry["memoryMiB"],
        sm=entry["sm"],
        sm_of=entry.get("smOf", {}),
        mps_sm=tuple(entry["mpsSm"]) if "mpsSm" in entry else None,
        products=tuple(entry["products"]),
        compute_slices=mig.get("computeSlices") or 0,
        placement_units=mig.get("placementUnits"),
        profiles=(
            {name: _profile(name, data, of_twin=bool(twin)) for name, data in (profiles or {}).items()}
            if profiles or not has_mig
            else None
        ),
        other_names=entry.get("otherNames", {}),
        listed_names=frozenset(name for listed in entry.get("profileNames", ()) for name in listed["names"]),
        min_driver=_driver(entry.get("minDriver")),
    )


def _profile(name: str, data: Mapping[str, Any], *, of_twin: bool) -> MigProfile:
    engines = data.get("engines")
    return MigProfile(
        name=name,
        profile_id=data["id"],
        compute_slices=data["computeSlices"],
        max_instances=data["max"],
        starts=tuple(data["starts"]),
        size=data["size"],
        placements_measured=data["placements"] == "measured" and not of_twin,
        # A twin shares names and geometry; its SM count and memory are only known where its own source says so.
        sm=None if of_twin else data["sm"],
        memory_mib=None if of_twin else data["memoryMiB"],
        memory_gib=None if of_twin else data["memoryGiB"],
        engines=None if of_twin or engines is None else tuple(engines),
        min_driver=_driver(data.get("minDriver")),
    )


def _driver(text: str | None) -> Version:
    """``R525`` names a branch, ``570.133.20`` a driver."""
    return tuple(int(part) for part in text.removeprefix("R").split(".")) if text else ()
