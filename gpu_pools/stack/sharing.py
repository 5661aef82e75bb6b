"""How the GPUs of a pool are shared: four strategies, exactly one per declaration.

A declaration is a sum type, so that the combinations which the device plugin accepts and then resolves in silence (MPS beats
time-slicing) cannot be written down. What is checked here needs no hardware: shapes, bounds that hold for every GPU. What
depends on the GPU model (does the layout fit, how many MPS clients) is checked by gpu_pools/plan/planning.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.stack.needs import parse_needs
from gpu_pools.stack.section import Section
from gpu_pools.text.errors import Problems, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_pools.stack.needs import Needs

#: The most clients that the device plugin lets an MPS daemon serve (k8s-device-plugin, 0.15 to 0.20).
MPS_MOST_REPLICAS: Final = 48
#: The same below compute capability 7.5: the plugin's "is at least Volta" really tests 7.5, so a V100 gets 16.
MPS_MOST_REPLICAS_OLD: Final = 16
#: The plugin crashes on fewer: "number of replicas must be >= 2".
FEWEST_REPLICAS: Final = 2
#: The plugin sets no upper bound for time-slicing; no node runs more pods than this.
TIME_SLICING_MOST_REPLICAS: Final = 1000

Strategy = Literal["exclusive", "timeSlicing", "mps", "mig"]


@dataclass(frozen=True)
class Exclusive:
    """One pod has a whole GPU.

    Attributes:
        needs: what each pod needs, None if not said.
    """

    needs: Needs | None = None

    @property
    def strategy(self) -> Strategy:
        """The key that selects this strategy."""
        return "exclusive"


@dataclass(frozen=True)
class TimeSlicing:
    """Pods take turns on a GPU, without memory or fault isolation.

    Attributes:
        replicas: how many pods may share one GPU (or one MIG instance), at least 2.
        rename_by_default: advertise ``nvidia.com/gpu.shared`` instead of ``nvidia.com/gpu``.
        fail_requests_greater_than_one: refuse pods that ask for two or more: they might get the same GPU twice.
        needs: what each pod needs, None if not said.
    """

    replicas: int
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = True
    needs: Needs | None = None

    @property
    def strategy(self) -> Strategy:
        """The key that selects this strategy."""
        return "timeSlicing"


@dataclass(frozen=True)
class Mps:
    """Pods run on a GPU side by side, each with an equal share of memory and threads, through NVIDIA MPS.

    Attributes:
        replicas: how many pods may share one GPU, 2 to 48 (16 below compute capability 7.5).
        rename_by_default: advertise ``nvidia.com/gpu.shared`` instead of ``nvidia.com/gpu``.
        fail_requests_greater_than_one: refuse pods that ask for two or more.
        needs: what each pod needs, None if not said.
    """

    replicas: int
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = True
    needs: Needs | None = None

    @property
    def strategy(self) -> Strategy:
        """The key that selects this strategy."""
        return "mps"


@dataclass(frozen=True)
class GpuLayout:
    """The MIG layout of some of a node's GPUs.

    Attributes:
        index: the GPUs' indexes on the node; None stands for all of them.
        layout: (profile, instances), sorted; empty: these GPUs stay whole.
    """

    index: tuple[int, ...] | None
    layout: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Mig:
    """GPUs are partitioned in hardware.

    Attributes:
        gpus: one entry for all GPUs, or one per group of GPU indexes.
        time_slicing: how pods take turns on each instance; None: one pod per instance.
        replicas_of: (profile, replicas), sorted, where instances are shared differently: those of other profiles are not shared,
            and `time_slicing.replicas` is the largest; empty: all alike.
        needs: what each pod needs, None if not said.
    """

    gpus: tuple[GpuLayout, ...]
    time_slicing: TimeSlicing | None = None
    replicas_of: tuple[tuple[str, int], ...] = ()
    needs: Needs | None = None

    @property
    def strategy(self) -> Strategy:
        """The key that selects this strategy."""
        return "mig"

    def slicing_of(self, profile: str) -> TimeSlicing | None:
        """How pods take turns on the instances of one profile; None: one pod has one."""
        if self.time_slicing is None or not self.replicas_of:
            return self.time_slicing
        replicas = dict(self.replicas_of).get(profile)
        return replace(self.time_slicing, replicas=replicas) if replicas else None

    @property
    def layouts(self) -> frozenset[tuple[tuple[str, int], ...]]:
        """The distinct layouts of the node's GPUs."""
        return frozenset(entry.layout for entry in self.gpus)

    @property
    def uniform(self) -> bool:
        """Whether every GPU is partitioned, all into one and the same profile: what MIG strategy `single` needs."""
        return len(self.layouts) == 1 and len(next(iter(self.layouts))) == 1

    def of_gpu(self, index: int) -> dict[str, int]:
        """The layout of one GPU, empty if it stays whole."""
        for entry in self.gpus:
            if entry.index is None or index in entry.index:
                return dict(entry.layout)
        return {}


Sharing = Exclusive | TimeSlicing | Mps | Mig


def parse_sharing(value: object, path: str, problems: Problems) -> Sharing | None:
    """One declaration, e.g. ``{timeSlicing: {replicas: 4}}``; None (and problems) where it is not one."""
    section = Section(value, path, problems, what="a mapping with exactly one strategy")
    if not section.readable:
        return None
    # Asked for in any case, so that a misspelt strategy is an unknown key with a suggestion.
    chosen = [key for key in _PARSERS if section.raw(key) is not None or key in section.written()]
    before = len(problems)
    raw_needs, has_needs = section.raw("needs"), "needs" in section.written()
    needs = parse_needs(raw_needs, section.at("needs"), problems) if has_needs else None
    readable = len(problems) == before
    section.finish()
    if len(chosen) == 1:
        key = chosen[0]
        declaration = _PARSERS[key](section.raw(key), section.at(key), problems)
        return replace(declaration, needs=needs) if declaration is not None and readable else None
    if chosen or set(section.written()) <= {"needs"}:
        problems.add(
            path,
            f"{' and '.join(chosen) or 'no strategy'} declared together" if chosen else "declares no strategy",
            allowed=f"exactly one of {', '.join(_PARSERS)}",
            remedy="Keep one; the device plugin would not refuse two, it would silently drop one."
            if chosen
            else "Add one, e.g. `exclusive: {}`.",
        )
    return None


def _parse_exclusive(value: object, path: str, problems: Problems) -> Exclusive:
    Section({} if value is None else value, path, problems, what="an empty mapping, {}").finish()
    return Exclusive()


def _parse_time_slicing(value: object, path: str, problems: Problems) -> TimeSlicing | None:
    section = Section(value, path, problems)
    replicas = section.integer(
        "replicas",
        minimum=FEWEST_REPLICAS,
        maximum=TIME_SLICING_MOST_REPLICAS,
        required=section.readable,
        remedy=_TIME_SLICING_REPLICAS,
    )
    rename, fail = section.flag("renameByDefault"), section.flag("failRequestsGreaterThanOne")
    section.finish()
    if replicas is None:
        return None
    return TimeSlicing(replicas, rename_by_default=bool(rename), fail_requests_greater_than_one=fail is not False)


def _parse_mps(value: object, path: str, problems: Problems) -> Mps | None:
    section = Section(value, path, problems)
    replicas = section.integer(
        "replicas", minimum=FEWEST_REPLICAS, maximum=MPS_MOST_REPLICAS, required=section.readable, remedy=_MPS_REPLICAS
    )
    rename, fail = section.flag("renameByDefault"), section.flag("failRequestsGreaterThanOne")
    section.finish()
    if replicas is None:
        return None
    return Mps(replicas, rename_by_default=bool(rename), fail_requests_greater_than_one=fail is not False)


def _parse_mig(value: object, path: str, problems: Problems) -> Mig | None:
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
    return Mig(gpus, time_slicing, replicas_of) if len(problems) == before else None


def _parse_slicing(
    value: object, path: str, gpus: tuple[GpuLayout, ...], problems: Problems
) -> tuple[TimeSlicing | None, tuple[tuple[str, int], ...]]:
    """Time-slicing of MIG instances: `replicas` is one number for all, or a mapping of profile to number."""
    replicas = value.get("replicas") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(replicas, dict):
        return _parse_time_slicing(value, path, problems), ()
    profiles = sorted({profile for group in gpus for profile, _ in group.layout})
    each = Section(replicas, f"{path}.replicas", problems, what="a mapping of MIG profile to replicas")
    counts = {
        profile: each.integer(
            profile,
            minimum=FEWEST_REPLICAS,
            maximum=TIME_SLICING_MOST_REPLICAS,
            required=profile in each.written(),
            remedy="Write at least 2, or leave out profiles that are not shared.",
        )
        for profile in profiles
    }
    each.finish()
    if not replicas:
        problems.add(each.path, "no profile is named", allowed=f"some of {', '.join(profiles)}", remedy="Remove timeSlicing.")
    numbers = {profile: count for profile, count in counts.items() if count}
    sliced = _parse_time_slicing({**value, "replicas": max(numbers.values(), default=FEWEST_REPLICAS)}, path, problems)
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


def _parse_layout(value: object, path: str, problems: Problems) -> tuple[tuple[str, int], ...] | None:
    section = Section(value, path, problems, what="a mapping of MIG profile to count, e.g. {1g.10gb: 7}")
    if not section.readable:
        return None
    counts = {profile: section.integer(profile, minimum=1, required=True) for profile in section.written()}
    if any(count is None for count in counts.values()):
        return None
    return tuple(sorted((profile, count) for profile, count in counts.items() if count is not None))


_TIME_SLICING_REPLICAS: Final = "One replica is not sharing: use `exclusive: {}`; the device plugin crashes on fewer than 2."
_MPS_REPLICAS: Final = "An MPS daemon serves 2 to 48 clients per GPU; use `exclusive: {}` for one, time-slicing for more."
_PARSERS: Final[Mapping[str, Callable[[object, str, Problems], Sharing | None]]] = {
    "exclusive": _parse_exclusive,
    "timeSlicing": _parse_time_slicing,
    "mps": _parse_mps,
    "mig": _parse_mig,
}
