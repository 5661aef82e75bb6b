"""MIG: GPUs are partitioned in hardware, and pods may take turns on each instance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from gpu_pools.hardware.models import variant_of
from gpu_pools.mig.advice import layout_text
from gpu_pools.mig.layout_check import check_layout
from gpu_pools.reading.section import Section
from gpu_pools.sharing.mode import FEWEST_REPLICAS, GpuLayout, Layout, PoolUse, Sharing
from gpu_pools.sharing.time_slicing import TimeSlicing
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.hardware.models import GpuModel, Version
    from gpu_pools.hardware.operands import Feature, Operand
    from gpu_pools.text.errors import Problems

#: The variant of profiles that mig-parted has always known.
_MEDIA: Final = "+me"


@dataclass(frozen=True)
class Mig(Sharing):
    """GPUs are partitioned in hardware.

    Attributes:
        gpus: one entry for all GPUs, or one per group of GPU indexes.
        time_slicing: how pods take turns on each instance; None: one pod per instance.
        replicas_of: (profile, replicas), sorted, where instances are shared differently: those of other profiles are not shared,
            and `time_slicing.replicas` is the largest; empty: all alike.
    """

    strategy: ClassVar[str] = "mig"
    title: ClassVar[str] = "MIG"
    measured_pods: ClassVar[str] = (
        "where several pods share a MIG instance memory alone is the pod's own; a process has no use on MIG."
    )

    gpus: tuple[GpuLayout, ...]
    time_slicing: TimeSlicing | None = None
    replicas_of: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, value: object, path: str, problems: Problems) -> Self | None:
        """Read ``{layout: {1g.10gb: 7}}`` or ``{gpus: [{index: 0, layout: {1g.10gb: 7}}]}``, with `timeSlicing` or without."""
        before = len(problems)
        section = Section(value, path, problems)
        if not section.readable:
            return None
        has_layout, has_gpus = "layout" in section.written(), "gpus" in section.written()
        gpus = _parse_gpus(section) if has_gpus else _parse_whole_layout(section)
        if has_layout == has_gpus:
            section.raw("layout")
            section.raw("gpus")
            problems.add(
                path,
                "gives both `layout` and `gpus`" if has_layout else "gives neither `layout` nor `gpus`",
                allowed="`layout` for all GPUs of the node, or `gpus` for one layout per GPU index",
                remedy="Keep one of them." if has_layout else "Add e.g. `layout: {1g.10gb: 7}`.",
            )
        sliced = section.raw("timeSlicing")
        # Written without a value is a mistake, not an absence: the instances would silently not be shared.
        written = "timeSlicing" in section.written()
        time_slicing, replicas_of = _parse_slicing(sliced, section.at("timeSlicing"), gpus, problems) if written else (None, ())
        if "mps" in section.written():
            section.raw("mps")
            problems.add(
                section.at("mps"),
                "MPS cannot share MIG instances",
                allowed="timeSlicing, or nothing",
                remedy="Use timeSlicing on the instances; the device plugin exits with an error on MPS with MIG.",
            )
        section.finish()
        return cls(gpus, time_slicing, replicas_of) if len(problems) == before else None

    def settings(self) -> dict[str, Any]:
        """Return the declaration in the words of a stack file."""
        document: dict[str, Any] = {}
        if self.gpus[0].index is None:
            document["layout"] = dict(self.gpus[0].layout)
        else:
            document["gpus"] = [{"index": list(entry.index or ()), "layout": dict(entry.layout)} for entry in self.gpus]
        if self.time_slicing:
            document["timeSlicing"] = self.time_slicing.settings()
            if self.replicas_of:
                document["timeSlicing"]["replicas"] = dict(self.replicas_of)
        return document

    def text(self) -> str:
        """Return for example ``MIG 7x 1g.10gb, each time-sliced 4``."""
        parts = [
            layout_text(dict(entry.layout)) + ("" if entry.index is None else f" on GPU {','.join(map(str, entry.index))}")
            for entry in self.gpus
        ]
        return f"MIG {'; '.join(parts)}{self._slicing_text()}"

    def _slicing_text(self) -> str:
        if self.replicas_of:
            return "".join(f", {profile} time-sliced {replicas}" for profile, replicas in self.replicas_of)
        return f", each time-sliced {self.time_slicing.replicas}" if self.time_slicing else ""

    def slug(self) -> str:
        """Return ``mig`` or for example ``mig-time-slicing-4``: layouts have a key of their own."""
        return f"mig-{self.time_slicing.slug()}" if self.time_slicing else "mig"

    @property
    def gpu_layouts(self) -> tuple[GpuLayout, ...]:
        """The declared layouts."""
        return self.gpus

    @property
    def replication(self) -> TimeSlicing | None:
        """How pods take turns on the instances with most pods."""
        return self.time_slicing

    def replication_of(self, profile: str | None) -> TimeSlicing | None:
        """Return how pods take turns on the instances of one profile; a GPU that stays whole is never shared."""
        if profile is None:
            return None
        if self.time_slicing is None or not self.replicas_of:
            return self.time_slicing
        replicas = dict(self.replicas_of).get(profile)
        return replace(self.time_slicing, replicas=replicas) if replicas else None

    def check(self, use: PoolUse, problems: Problems) -> list[str]:
        """Refuse a layout that the pool's GPUs cannot have; return what no source settles."""
        hardware, model = use.hardware, use.hardware.model
        if not model.mig_capable or not hardware.mig_offered:
            problems.add(
                f"{use.pool_path}.sharing",
                f'"{use.name}" needs MIG, which {hardware.source} ({model.key}) does not have',
                allowed="exclusive, timeSlicing or mps on this GPU",
                remedy="Choose another declaration, or hardware with MIG (A30, A100, H100, H200, B200, …).",
            )
            return []
        self._check_gpu_indexes(use, problems)
        if model.profiles is None:
            return [
                f"the MIG geometry of {model.key} is unknown: the layout cannot be checked before the deploy",
                *self._unlisted(model),
            ]
        warnings: set[str] = set()
        for number, entry in enumerate(self.gpus):
            path = f"{use.path}.mig." + ("layout" if entry.index is None else f"gpus[{number}].layout")
            warnings.update(check_layout(model, entry.layout, use.pool, path, problems))
        return sorted(warnings)

    def _unlisted(self, model: GpuModel) -> Iterator[str]:
        named = sorted({profile for layout in self.layouts for profile, _ in layout} - model.listed_names)
        if named and model.listed_names:
            yield f"no source lists {', '.join(named)} for {model.key}; listed are {', '.join(sorted(model.listed_names))}"

    def _check_gpu_indexes(self, use: PoolUse, problems: Problems) -> None:
        given = sorted(index for entry in self.gpus for index in entry.index or ())
        if not given:
            return
        gpus = use.hardware.gpus
        missing = sorted(set(range(gpus)) - set(given))
        beyond = sorted(set(given) - set(range(gpus)))
        if missing or beyond:
            wrong = [f"index {_list(missing)} missing"] if missing else []
            wrong += [f"index {_list(beyond)} beyond the last GPU"] if beyond else []
            remedies = ["Give every GPU a layout; `layout: {}` leaves a GPU whole."] if missing else []
            remedies += [f"Remove index {_list(beyond)}."] if beyond else []
            problems.add(
                f"{use.path}.mig.gpus",
                f'{" and ".join(wrong)}: a node of pool "{use.pool}" has {gpus} GPU{"s" if gpus > 1 else ""}',
                allowed=f"each index from 0 to {gpus - 1} once",
                remedy=" ".join(remedies),
            )

    def operand_features(self, mig_strategy: str, mig_owner: str) -> Iterator[tuple[Operand, Feature, str]]:
        """Yield what variants of profiles need of the device plugin and of mig-manager."""
        variants = {name: variant_of(name) for layout in self.layouts for name, _ in layout if variant_of(name)}
        if variants and mig_strategy == "mixed":
            names = ", ".join(sorted(variants))
            yield "devicePlugin", "devicePlugin.anchored", f"it advertises {names} under the name of the plain profile"
        late = sorted(name for name, variant in variants.items() if variant != _MEDIA)
        if late and mig_owner == "operator":
            yield "migManager", "migManager.variants", f"it does not know {', '.join(late)}"

    def drivers(self, model: GpuModel) -> dict[str, Version]:
        """Return the first drivers that have MIG on this model, and each declared profile."""
        names = {model.own_name(name) for layout in self.layouts for name, _ in layout}
        found = {f"{name} of {model.key}": one.min_driver for name, one in (model.profiles or {}).items() if name in names}
        return {what: first for what, first in {f"MIG on {model.key}": model.min_driver, **found}.items() if first}


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _parse_slicing(
    value: object, path: str, gpus: tuple[GpuLayout, ...], problems: Problems
) -> tuple[TimeSlicing | None, tuple[tuple[str, int], ...]]:
    """Time-slicing of MIG instances: `replicas` is one number for all, or a mapping of profile to number."""
    replicas = value.get("replicas") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(replicas, dict):
        return TimeSlicing.parse(value, path, problems), ()
    profiles = sorted({profile for group in gpus for profile, _ in group.layout})
    each = Section(replicas, f"{path}.replicas", problems, what="a mapping of MIG profile to replicas")
    counts = {
        profile: each.integer(
            profile,
            minimum=FEWEST_REPLICAS,
            maximum=TimeSlicing.most_replicas,
            required=profile in each.written(),
            remedy="Write at least 2, or leave out profiles that are not shared.",
        )
        for profile in profiles
    }
    each.finish()
    if not replicas:
        problems.add(each.path, "no profile is named", allowed=f"some of {', '.join(profiles)}", remedy="Remove timeSlicing.")
    numbers = {profile: count for profile, count in counts.items() if count}
    sliced = TimeSlicing.parse({**value, "replicas": max(numbers.values(), default=FEWEST_REPLICAS)}, path, problems)
    alike = len(numbers) == len(profiles) and len(set(numbers.values())) == 1
    return sliced, () if alike else tuple(numbers.items())


def _parse_whole_layout(section: Section) -> tuple[GpuLayout, ...]:
    if "layout" not in section.written():
        return ()
    layout = _parse_layout(section.raw("layout"), section.at("layout"), section.problems)
    if layout == ():
        section.problems.add(
            section.at("layout"),
            "the layout is empty",
            allowed="at least one profile, e.g. {1g.10gb: 7}",
            remedy="Use `exclusive: {}` for whole GPUs.",
        )
    return (GpuLayout(None, layout or ()),)


def _parse_gpus(section: Section) -> tuple[GpuLayout, ...]:
    groups = section.each("gpus", lambda value, path: _parse_group(value, path, section.problems), what="a list of GPU groups")
    if section.raw("gpus") in (None, []):
        section.problems.add(
            section.at("gpus"), "the list is empty", allowed="a list of {index, layout}", remedy="Give every GPU index a layout."
        )
    _check_indexes(groups, section)
    written = section.raw("gpus")
    if groups and not any(group.layout for group in groups) and len(groups) == len(written if isinstance(written, list) else ()):
        section.problems.add(
            section.at("gpus"),
            "no GPU is partitioned",
            allowed="a layout with at least one profile on at least one GPU",
            remedy="Use `exclusive: {}` for whole GPUs; timeSlicing beside mig shares instances only.",
        )
    return groups


def _parse_group(value: object, path: str, problems: Problems) -> GpuLayout | None:
    group = Section(value, path, problems, what="a mapping with index and layout")
    if not group.readable:
        return None
    layout = _parse_layout(group.raw("layout"), group.at("layout"), problems)
    index = _parse_indexes(group)
    group.finish()
    return None if index is None or layout is None else GpuLayout(index, layout)


def _parse_indexes(group: Section) -> tuple[int, ...] | None:
    raw = group.raw("index")
    values = raw if isinstance(raw, list) else [raw]
    if values and all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values):
        return tuple(values)
    group.problems.add(
        group.at("index"),
        f"{show(raw)} is not a GPU index" if raw is not None else "is missing",
        allowed="a GPU index from 0, or a list of them",
        remedy="Write e.g. `index: 0`; several are a list, as in [0, 1].",
    )
    return None


def _check_indexes(groups: tuple[GpuLayout, ...], section: Section) -> None:
    seen: set[int] = set()
    for group in groups:
        for index in group.index or ():
            if index in seen:
                section.problems.add(
                    section.at("gpus"),
                    f"GPU index {index} is given twice",
                    allowed="each GPU index of the node once",
                    remedy=f"Remove one of the two entries for GPU {index}.",
                )
            seen.add(index)


def _parse_layout(value: object, path: str, problems: Problems) -> Layout | None:
    section = Section(value, path, problems, what="a mapping of MIG profile to count, e.g. {1g.10gb: 7}")
    if not section.readable:
        return None
    counts = {profile: section.integer(profile, minimum=1, required=True) for profile in section.written()}
    if any(count is None for count in counts.values()):
        return None
    return tuple(sorted((profile, count) for profile, count in counts.items() if count is not None))
