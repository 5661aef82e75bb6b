"""``gpu-pools:gpuModels``: GPU models that no table has, as the author of the stack file knows them.

A model has the shape of those in the tables (gpu_pools/hardware/models.py), so that plan, expectation and verifier work alike.
What is not written stays unknown and is said, never guessed; what is written is taken as it is, but for what cannot be: it may
stand in the way of no model that the tables have, since their sources would lose against a typing error without a word.

Not here: whether a sharing declaration fits the model (gpu_pools/plan/checks.py), and what the plan says of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.models import GpuModel, MigProfile, family, find_model
from gpu_pools.reading.fields import Kind, Row, read, row, text, whole_number
from gpu_pools.reading.section import Section
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.text.errors import Problems

_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?")
#: As mig-parted takes them: compute slices, memory, and what the driver calls variants.
_PROFILE: Final = re.compile(r"(?P<slices>[1-9])g\.\d{1,3}gb((\+|-)[a-z.]{1,12})*")
#: The RTX PRO 6000 has 12, all others 8 or fewer; more make the search for layouts long.
_MOST_UNITS: Final = 16
_MOST_SLICES: Final = 8
_MOST_PROFILES: Final = 12
_LISTING: Final = "`nvidia-smi mig -lgip` and `nvidia-smi mig -lgipp` on a node print them."


def _starts(section: Section, one: Row) -> tuple[int, ...] | None:
    if not section.given(one.key):
        section.problems.add(section.at(one.key), "is missing", allowed="a list of placement units, e.g. [0, 4]", remedy=_LISTING)
        return None
    size: Any = section.raw("size")
    last = _MOST_UNITS - (size if isinstance(size, int) and not isinstance(size, bool) else 1)
    found = section.each(one.key, lambda value, path: _start(value, path, last, section), what="a list of placement units")
    if found and tuple(sorted(set(found))) != found:
        section.problems.add(
            section.at(one.key),
            f"{list(found)} are not in order",
            allowed="rising numbers",
            remedy="Write each once, from the left.",
        )
        return None
    if not found and section.raw(one.key) == []:
        section.problems.add(section.at(one.key), "names no unit", allowed="at least one, e.g. [0]", remedy=_LISTING)
    return found or None


def _start(value: object, path: str, last: int, section: Section) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= last:
        return value
    section.problems.add(
        path,
        f"{show(value)} is not a placement unit",
        allowed=f"a whole number from 0 to {last}",
        remedy=_LISTING,
    )
    return None


@dataclass(frozen=True)
class DeclaredProfile:
    """One kind of MIG instance, as `nvidia-smi mig -lgip` and `-lgipp` print it."""

    starts: tuple[int, ...] = row(
        "Placement units at which it may start: the braces of `nvidia-smi mig -lgipp`.",
        Kind(_starts, "list[int]"),
        (),
        needed=True,
    )
    size: int = row("Placement units that it covers: the number after the braces.", whole_number(1, _MOST_UNITS), 0, needed=True)
    most: int | None = row("How many fit on one GPU; by default one for each start.", whole_number(1, _MOST_UNITS), key="max")
    profile_id: int | None = row("The ID of `nvidia-smi mig -lgip`.", whole_number(0, 255), key="id")
    memory_mib: int | None = row("MiB of an instance, as NVML says.", whole_number(1), key="memoryMiB")
    multiprocessors: int | None = row("Multiprocessors (SM) of an instance.", whole_number(1))


def _profiles(section: Section, one: Row) -> dict[str, DeclaredProfile] | None:
    within = section.section(one.key, what="a mapping of profiles")
    if within is None or not within.readable:
        if within is None:
            section.problems.add(section.at(one.key), "is missing", allowed="at least one profile", remedy=_LISTING)
        return None
    names = within.written()
    if not 0 < len(names) <= _MOST_PROFILES:
        section.problems.add(
            within.path, f"declares {len(names)} profiles", allowed=f"1 to {_MOST_PROFILES} profiles", remedy=_LISTING
        )
        return None
    found: dict[str, DeclaredProfile] = {}
    for name in names:
        if not _PROFILE.fullmatch(name):
            section.problems.add(
                within.at(name),
                f"{show(name)} is not a name of a MIG profile",
                allowed="e.g. 1g.10gb, 2g.20gb or 1g.10gb+me",
                remedy=_LISTING,
            )
        elif (profile := within.section(name, what="a mapping with starts and size")) and profile.readable:
            found[name] = read(DeclaredProfile, profile)
            profile.finish()
    return found


@dataclass(frozen=True)
class DeclaredMig:
    """MIG of a model whose geometry is known."""

    source: str = row(
        "Where the profiles were read.",
        text(".{3,300}", "where they were read, e.g. nvidia-smi mig -lgip and -lgipp, driver 580.95.05"),
        "",
        needed=True,
    )
    compute_slices: int = row("Compute slices of the whole GPU.", whole_number(1, _MOST_SLICES), 0, needed=True)
    profiles: Mapping[str, DeclaredProfile] = row("Name -> profile.", Kind(_profiles, "dict[str, Any]"), {}, needed=True)


def _mig(section: Section, one: Row) -> DeclaredMig | bool | None:
    written, place = section.raw(one.key), section.at(one.key)
    if isinstance(written, bool):
        return written
    allowed = "false, true, or a mapping with source, computeSlices and profiles"
    if written is None:
        section.problems.add(place, "is missing", allowed=allowed, remedy="Write `mig: false` for a GPU without MIG.")
        return None
    within = Section(written, place, section.problems, what=allowed)
    if not within.readable:
        return None
    found = read(DeclaredMig, within)
    within.finish()
    _check_slices(found, within)
    return found


def _check_slices(found: DeclaredMig, section: Section) -> None:
    """No instance has more of the GPU than there is."""
    for name in found.profiles:
        if found.compute_slices and int(name[0]) > found.compute_slices:
            section.problems.add(
                f"{section.at('profiles')}.{name}",
                f"it takes {name[0]} compute slices, and the GPU has {found.compute_slices}",
                allowed=f"1g to {found.compute_slices}g",
                remedy="Correct it, or computeSlices.",
            )


def _capability(section: Section, one: Row) -> tuple[int, int] | None:
    written = section.text(one.key, pattern=r"[1-9]\d?\.\d", allowed='major and minor in quotes, e.g. "8.6"')
    if written is None:
        return None
    major, minor = written.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class DeclaredModel:
    """A GPU model. Without MIG `mig` is False, with an unknown geometry True."""

    product: str | None = row(
        "What `nvidia-smi -L` calls it.",
        text(r"[A-Za-z0-9][-A-Za-z0-9 ()./_+]{1,94}", "a name as nvidia-smi -L prints it, e.g. NVIDIA RTX A6000"),
        doc="What `nvidia-smi -L` calls it, e.g. `NVIDIA RTX A6000`. Without it the verification does not compare the model.",
    )
    memory_mib: int | None = row(
        "MiB of its memory, as `nvidia-smi --query-gpu=memory.total` prints them.",
        whole_number(256, 4 * 1024 * 1024),
        key="memoryMiB",
        doc="MiB of its memory, as `nvidia-smi --query-gpu=memory.total --format=csv` prints them, not those of a data sheet. "
        "Without it neither `memoryPerReplica` nor the memory of MPS clients is checked.",
    )
    compute_capability: tuple[int, int] | None = row(
        "Its compute capability, e.g. 8.6.",
        Kind(_capability, "str"),
        doc='Its compute capability in quotes, e.g. `"8.6"` (`nvidia-smi --query-gpu=compute_cap`). Without it the number of MPS '
        "clients is not checked, nor the label of its family.",
    )
    multiprocessors: int | None = row("Its multiprocessors (SM).", whole_number(1, 1024))
    mig: DeclaredMig | bool | None = row(
        "Whether it has MIG, and its profiles.",
        Kind(_mig, "bool | dict[str, Any]"),
        needed=True,
        doc="`false`: it has no MIG (`nvidia-smi --query-gpu=mig.mode.current` says `[N/A]`). `true`: it has, and "
        "its profiles are not known: layouts are not checked. Or a mapping with its profiles.",
    )


def parse_gpu_model(value: object, path: str, problems: Problems) -> GpuModel | None:
    """One entry of ``gpu-pools:gpuModels``; None (and problems) where it cannot be one."""
    key = path.rpartition("gpuModels.")[2]
    before = len(problems)
    section = Section(value, path, problems, what="a mapping with mig, product and memoryMiB")
    if not section.readable:
        return None
    declared = read(DeclaredModel, section)
    section.finish()
    for place, message, allowed, remedy in _in_the_way(key, declared):
        problems.add(f"{path}{place}", message, allowed=allowed, remedy=remedy)
    return _model(key, declared) if len(problems) == before else None


def check_distinct_models(models: Mapping[str, GpuModel], path: str, problems: Problems) -> None:
    """Two models of one product could not be told apart on a node."""
    seen: dict[str, str] = {}
    for key, model in models.items():
        for product in model.products:
            if (other := seen.setdefault(product.lower(), key)) != key:
                problems.add(
                    f"{path}.{key}.product",
                    f'"{product}" is that of {other}, too',
                    allowed="one model for a product",
                    remedy="Declare it once; pools and flavors may all name it.",
                )


def _in_the_way(key: str, declared: DeclaredModel) -> Iterator[tuple[str, str, str, str]]:
    if not _NAME.fullmatch(key):
        yield (
            "",
            f"{show(key)} is not a name of a model",
            "1 to 63 lower-case letters, digits, dashes and dots, e.g. rtx-a6000",
            "Choose another name.",
        )
    for place, name in (("", key), (".product", declared.product)):
        found = find_model(name) if name else None
        if found:
            yield (
                place,
                f"{show(name)} is a model that the tables have, {found[0].key}",
                "a model that `python -m gpu_pools models` lacks",
                f"Write `gpuModel: {found[0].key}` where it is used, and take this out.",
            )
            return


def _model(key: str, declared: DeclaredModel) -> GpuModel:
    known = declared.mig if isinstance(declared.mig, DeclaredMig) else None
    profiles: dict[str, MigProfile] | None = {} if declared.mig is False else None
    if known:
        profiles = {name: _of_profile(name, profile) for name, profile in known.profiles.items()}
    return GpuModel(
        key=key,
        architecture=family(declared.compute_capability),
        compute_capability=declared.compute_capability,
        memory_mib=declared.memory_mib,
        sm=declared.multiprocessors,
        sm_of={},
        mps_sm=None,
        products=(declared.product,) if declared.product else (),
        compute_slices=known.compute_slices if known else 0,
        placement_units=max(start + profile.size for profile in known.profiles.values() for start in profile.starts)
        if known
        else None,
        profiles=profiles,
        other_names={},
        listed_names=frozenset(),
        min_driver=(),
        declared=True,
        mig_source=known.source if known else "",
    )


def _of_profile(name: str, profile: DeclaredProfile) -> MigProfile:
    return MigProfile(
        name=name,
        profile_id=profile.profile_id,
        compute_slices=int(name[0]),
        max_instances=profile.most or len(profile.starts),
        starts=profile.starts,
        size=profile.size,
        placements_measured=True,
        sm=profile.multiprocessors,
        memory_mib=profile.memory_mib,
        memory_gib=None,
        engines=None,
        min_driver=(),
    )
