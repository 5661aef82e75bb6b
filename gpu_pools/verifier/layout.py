"""Which MIG instances a GPU has, in the declaration's names, and whether declared ones fit by what its driver says.

The plan has checked the layout against tables already (gpu_pools/mig/geometry.py); here the node's hardware has the last word.
Pure.
"""

from __future__ import annotations

from .reading import Failed, Profile

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .expectation import Profile as Described
    from .reading import Gpu, GpuInstance


def canonical(profile: Profile, described: Mapping[str, Described]) -> str:
    """The declared name of a profile that the GPU lists, or its own where it is not declared."""
    for name, known in described.items():
        if profile.name is None:
            if known.id == profile.id:
                return name
        elif profile.name == name or profile.name in known.other_names:
            return name
    return profile.name or f"profile {profile.id}"


def instances_by_profile(gpu: Gpu, described: Mapping[str, Described]) -> dict[str, int]:
    """How many GPU instances of each profile there are; none where they could not be read."""
    if isinstance(gpu.instances, Failed):
        return {}
    profiles = profiles_by_id(gpu)
    names = [instance_name(instance, profiles, described) for instance in gpu.instances]
    return {name: names.count(name) for name in names}


def profiles_by_id(gpu: Gpu) -> dict[int, Profile]:
    """The profiles that NVML lists."""
    return {} if isinstance(gpu.profiles, Failed) else {profile.id: profile for profile in gpu.profiles}


def instance_name(instance: GpuInstance, profiles: Mapping[int, Profile], described: Mapping[str, Described]) -> str:
    """The declared name of the instance's profile, its own, or its number."""
    if instance.profile_id in profiles:
        return canonical(profiles[instance.profile_id], described)
    return f"profile {instance.profile_id}"


def why_illegal(layout: Mapping[str, int], listed: Sequence[Profile], described: Mapping[str, Described]) -> str | None:
    """Why this GPU cannot have the layout; None where it can, as far as can be told.

    Args:
        layout: declared profile -> count.
        listed: the profiles that NVML lists; at least one.
        described: what the expectation says of the declared profiles.
    """
    by_name = {canonical(profile, described): profile for profile in listed}
    for name, count in layout.items():
        if name not in by_name:
            return f"the GPU has no profile {name}; it has {', '.join(sorted(by_name))}"
        if count > by_name[name].max_instances:
            return f"{count} of {name} were declared, at most {by_name[name].max_instances} fit"
    slices = sum(count * by_name[name].slices for name, count in layout.items())
    most = max(profile.slices for profile in listed)
    if slices > most:
        return f"the instances take {slices} compute slices, the GPU has {most}"
    places = [_places(by_name[name], described[name]) for name, count in layout.items() for _ in range(count)]
    if all(places) and not _fit(sorted(places, key=len), frozenset()):
        return "the instances do not fit beside each other on the GPU's placement units"
    return None


def _places(profile: Profile, described: Described) -> tuple[frozenset[int], ...]:
    """The sets of units that an instance may cover; none where nobody knows."""
    if isinstance(profile.placements, Failed):
        placements = [(start, described.size) for start in described.starts]
    else:
        placements = list(profile.placements)
    return tuple(frozenset(range(start, start + size)) for start, size in placements)


def _fit(places: list[tuple[frozenset[int], ...]], taken: frozenset[int]) -> bool:
    if not places:
        return True
    first, *rest = places
    return any(_fit(rest, taken | units) for units in first if not units & taken)
