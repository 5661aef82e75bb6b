"""The whole ``config`` of a stack as one typed object.

This is the border: everything behind it works on frozen dataclasses, everything before it is YAML. All problems of all
sections are collected here and raised once.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from gpu_pools.reading.section import Section
from gpu_pools.reading.spelled import in_spelling_of, written_key
from gpu_pools.sharing.modes import parse_sharing
from gpu_pools.stack.acknowledged import Acknowledgement, parse_acknowledged
from gpu_pools.stack.adoption import check_adopted_pools, check_who_installs
from gpu_pools.stack.allocation import DEVICE_PLUGIN, DRA
from gpu_pools.stack.charts import DEFAULT_LABELLER_IMAGE, NfdSettings, OperatorSettings, parse_nfd, parse_operator
from gpu_pools.stack.clusters import read_cluster
from gpu_pools.stack.dra_driver import DraDriverSettings, default_dra_driver, parse_dra_driver
from gpu_pools.stack.gpu_models import check_distinct_models, parse_gpu_model
from gpu_pools.stack.imported import check_imported, parse_adoption
from gpu_pools.stack.node_hardware import Flavor, parse_flavor
from gpu_pools.stack.observability import ObservabilitySettings, parse_observability
from gpu_pools.stack.platform_reader import PoolContext
from gpu_pools.stack.pools import Pool, parse_pool
from gpu_pools.stack.registry import RegistrySettings, parse_registry
from gpu_pools.stack.verification import DEFAULT_IMAGE, DEFAULT_SMOKE_TEST_IMAGE, VerificationSettings, parse_verification
from gpu_pools.text.errors import InvalidStackError, Problems, show
from gpu_pools.text.plain_text import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.allocation import Allocation
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.platform_reader import PlatformReader

_T = TypeVar("_T")

NAMESPACE: Final = "gpu-pools"
#: The keys of a stack file that this project reads, without the namespace.
KEYS: Final = (
    *("cluster", "sharing", "gpuModels", "flavors", "pools", "operator", "nodeFeatureDiscovery", "verification", "registry"),
    *("acknowledged", "adoption", "observability", "draDriver"),
)


@dataclass(frozen=True)
class Settings:
    """What a stack declares.

    Attributes:
        cluster: the platform and what making the cluster needs.
        sharing: declarations by name.
        pools: at least one, unique names.
        operator: the GPU operator.
        nfd: Node Feature Discovery.
        verification: of the nodes, after a deploy.
        flavors: Magnum flavors by name.
        acknowledged: replacements that somebody wants although what they replace is protected.
        registry: from where the nodes pull images.
        imported: whether the pools are only held as they were imported, and nothing is made (gpu_pools/stack/imported.py).
        observability: how GPUs are measured, and who reads it.
        dra_driver: NVIDIA's DRA driver, for pools with `allocation: dra`.
    """

    cluster: Cluster
    sharing: Mapping[str, Sharing]
    pools: tuple[Pool, ...]
    operator: OperatorSettings
    nfd: NfdSettings
    verification: VerificationSettings
    flavors: Mapping[str, Flavor]
    acknowledged: tuple[Acknowledgement, ...] = ()
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    imported: bool = False
    observability: ObservabilitySettings = field(default_factory=ObservabilitySettings)
    dra_driver: DraDriverSettings = field(default_factory=default_dra_driver)

    def allocation(self, pool: Pool) -> Allocation:
        """Return through what pods get the GPUs of a pool."""
        return self.written_allocation(pool) or DEVICE_PLUGIN

    def written_allocation(self, pool: Pool) -> Allocation | None:
        """Return the same as it is written; None where neither the pool nor the cluster says it."""
        return pool.allocation or self.cluster.allocation

    @property
    def dra_pools(self) -> tuple[Pool, ...]:
        """The pools whose GPUs pods get through resource claims."""
        return tuple(pool for pool in self.pools if self.allocation(pool) == DRA)

    def shared_pools(self) -> Iterator[tuple[Pool, Sharing]]:
        """Yield each pool with its declaration; a pool that names none, which is a problem of its own, is left out."""
        for pool in self.pools:
            if (sharing := self.sharing.get(pool.sharing)) is not None:
                yield pool, sharing


def config_value(text: object) -> object:
    """A value as the engine hands it over: mappings, lists, numbers and flags as JSON; a text that is not JSON is itself."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # a number too long to be printed, brackets without end
        return text


def parse_settings(config: Mapping[str, object], platforms: Mapping[str, PlatformReader], *, complete: bool = True) -> Settings:
    """Settings from a stack's ``config`` mapping (keys ``gpu-pools:cluster`` and so on; other namespaces are left alone).

    Args:
        config: the mapping as YAML gave it.
        platforms: name -> how its part of the file is read.
        complete: whether the cluster section must hold all that a deploy needs; planning needs only its platform.

    Raises:
        InvalidStackError: with every problem found.
    """
    problems = Problems()
    settings = _parse(config, problems, platforms, complete=complete)
    problems.raise_if_any()
    if settings is None:  # pragma: no cover - nothing is None without a problem
        raise InvalidStackError(problems.found)
    return settings


def try_parse_settings(
    config: Mapping[str, object], platforms: Mapping[str, PlatformReader], *, complete: bool = True
) -> tuple[Settings | None, Problems]:
    """What could be understood, and the problems; lets a caller collect later problems too."""
    problems = Problems()
    return _parse(config, problems, platforms, complete=complete), problems


def _parse(
    config: Mapping[str, object], problems: Problems, platforms: Mapping[str, PlatformReader], *, complete: bool
) -> Settings | None:
    config = _as_meant(config, problems)
    check_text({key: value for key, value in config.items() if key.startswith(f"{NAMESPACE}:")}, problems)
    cluster = _parse_cluster(config, problems, platforms, complete=complete)
    platform = platforms[cluster.platform if cluster else _likely_platform(config, platforms)]
    sharing: dict[str, Sharing] = _parse_named(config, "sharing", parse_sharing, problems)
    _check_declared(config, problems)
    own = parse_gpu_models(config, problems)
    flavors = _parse_named(config, "flavors", partial(parse_flavor, own=own), problems)
    operator = parse_operator(config.get(f"{NAMESPACE}:operator"), f"{NAMESPACE}:operator", problems)
    nfd = parse_nfd(config.get(f"{NAMESPACE}:nodeFeatureDiscovery"), f"{NAMESPACE}:nodeFeatureDiscovery", problems)
    verification = parse_verification(config.get(f"{NAMESPACE}:verification"), f"{NAMESPACE}:verification", problems)
    registry = parse_registry(config.get(f"{NAMESPACE}:registry"), f"{NAMESPACE}:registry", problems)
    observability = parse_observability(config.get(f"{NAMESPACE}:observability"), f"{NAMESPACE}:observability", problems)
    dra_driver = parse_dra_driver(config.get(f"{NAMESPACE}:draDriver"), f"{NAMESPACE}:draDriver", problems)
    nfd, verification = _from_mirror(registry, nfd, verification)
    cluster = platform.with_metrics(cluster) if cluster and observability.azure_reads else cluster
    imported = parse_adoption(config.get(f"{NAMESPACE}:adoption"), f"{NAMESPACE}:adoption", problems)
    if imported:
        # Written already, for the day that the pools are managed; until then nothing of it is made.
        verification = replace(verification, enabled=False, startup_taint=False, smoke_test=False)
        observability = ObservabilitySettings()
    context = PoolContext(
        platform=platform,
        flavors=flavors,
        problems=problems,
        models=own,
        magnum_driver=cluster.driver if cluster else None,
        sharing_names=_written(config, "sharing") or None,
        flavor_names=_written(config, "flavors") or None,
        node_subnet=cluster is not None and cluster.has_node_subnet,
    )
    platform.check_config(config, problems)
    pools = _parse_pools(config, context)
    names = [pool.name for pool in pools]
    acknowledged = parse_acknowledged(config.get(f"{NAMESPACE}:acknowledged"), f"{NAMESPACE}:acknowledged", names, problems)
    if cluster is None:
        return None
    made = (operator, nfd, verification, flavors, acknowledged, registry, imported, observability, dra_driver)
    settings = Settings(cluster, sharing, pools, *made)
    if complete:
        check_who_installs(settings.cluster, settings.operator, settings.nfd, problems)
        check_adopted_pools(settings.cluster, settings.pools, problems)
        if imported:
            check_imported(settings.cluster, settings.pools, problems)
    return settings


def parse_gpu_models(config: Mapping[str, object], problems: Problems) -> dict[str, GpuModel | None]:
    """The GPU models that a stack declares itself, by name; None: what is written of it is wrong, and a problem."""
    models = _parse_named(config, "gpuModels", parse_gpu_model, problems)
    check_distinct_models(models, f"{NAMESPACE}:gpuModels", problems)
    return {name: models.get(name) for name in _written(config, "gpuModels")}


def _from_mirror(
    registry: RegistrySettings, nfd: NfdSettings, verification: VerificationSettings
) -> tuple[NfdSettings, VerificationSettings]:
    """Our own images by their names in the mirror; those that the stack file names stay as they are written."""
    labeller, image, smoke = nfd.labeller_image, verification.image, verification.smoke_test_image
    return (
        replace(nfd, labeller_image=registry.mirrored(labeller) if labeller == DEFAULT_LABELLER_IMAGE else labeller),
        replace(
            verification,
            image=registry.mirrored(image) if image == DEFAULT_IMAGE else image,
            smoke_test_image=registry.mirrored(smoke) if smoke == DEFAULT_SMOKE_TEST_IMAGE else smoke,
        ),
    )


def _parse_cluster(
    config: Mapping[str, object], problems: Problems, platforms: Mapping[str, PlatformReader], *, complete: bool
) -> Cluster | None:
    path = f"{NAMESPACE}:cluster"
    if config.get(path) is None:
        problems.add(
            path,
            "is missing",
            allowed=f"a mapping with `platform: {' | '.join(platforms)}`",
            remedy=f"Add `{path}: {{platform: {_likely_platform(config, platforms)}}}`; a deploy needs more keys of it.",
        )
        return None
    return read_cluster(config[path], path, problems, platforms, complete=complete)


def _likely_platform(config: Mapping[str, object], platforms: Mapping[str, PlatformReader]) -> str:
    """The platform that the pools' keys point to: without a valid one, their own mistakes should still come out at once."""
    pools = config.get(f"{NAMESPACE}:pools")
    keys = {key for pool in pools if isinstance(pool, dict) for key in pool} if isinstance(pools, list) else set()
    return next((name for name, platform in platforms.items() if platform.is_meant_by(keys)), next(iter(platforms)))


def _parse_named(
    config: Mapping[str, object],
    key: str,
    parse: Callable[[object, str, Problems], _T | None],
    problems: Problems,
) -> dict[str, _T]:
    """The entries of a section that maps names to something."""
    path = f"{NAMESPACE}:{key}"
    if config.get(path) is None:
        return {}
    section = Section(config[path], path, problems, what="a mapping of names")
    parsed = {name: parse(section.raw(name), section.at(name), problems) for name in section.written()}
    return {name: entry for name, entry in parsed.items() if entry is not None}


def _written(config: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = config.get(f"{NAMESPACE}:{key}")
    return tuple(str(name) for name in value) if isinstance(value, dict) else ()


def _check_declared(config: Mapping[str, object], problems: Problems) -> None:
    """Report once that nothing is declared; that no pool finds its declaration only follows from it."""
    path = f"{NAMESPACE}:sharing"
    if config.get(path) in (None, {}):
        names = used_names(config, "sharing") or ("whole",)
        problems.add(
            path,
            "is missing or empty",
            allowed="a mapping of names to declarations, e.g. {whole: {exclusive: {}}}",
            remedy=f"Add `{path}: {{{', '.join(f'{name}: {{exclusive: {{}}}}' for name in names)}}}`: whole GPUs.",
        )


def used_names(config: Mapping[str, object], key: str) -> tuple[str, ...]:
    """The names that pools give under a key, each once."""
    pools = config.get(f"{NAMESPACE}:pools")
    named = [pool.get(key) for pool in pools if isinstance(pool, dict)] if isinstance(pools, list) else []
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


def _parse_pools(config: Mapping[str, object], context: PoolContext) -> tuple[Pool, ...]:
    path = f"{NAMESPACE}:pools"
    value = config.get(path)
    if not isinstance(value, list) or not value:
        found = "is missing" if value is None else f"{show(value)} declares no pool"
        context.problems.add(
            path, found, allowed="a list of at least one pool", remedy="Add e.g. `- {name: gpu, …, sharing: whole}`."
        )
        return ()
    pools = [pool for index, entry in enumerate(value) if (pool := parse_pool(entry, f"{path}[{index}]", context))]
    _check_unique(pools, context.problems)
    _check_sizes(pools, context.problems)
    return tuple(pools)


def _check_unique(pools: list[Pool], problems: Problems) -> None:
    seen: dict[str, str] = {}
    for pool in pools:
        if pool.name and pool.name in seen:
            problems.add(
                f"{pool.path}.name",
                f'"{pool.name}" is already the name of {seen[pool.name]}',
                allowed="a name that no other pool has",
                remedy="Rename one of the two pools.",
            )
        seen.setdefault(pool.name, pool.path)


def _check_sizes(pools: list[Pool], problems: Problems) -> None:
    """Refuse what cannot both be true of one VM size that no table has; Azure's sizes are the same in any case."""
    seen: dict[str, tuple[tuple[str, int], str]] = {}
    for pool in pools:
        hardware, placement = pool.hardware, pool.placement
        if hardware is None or hardware.known_size or not placement.machine:
            continue
        has = (hardware.model.key, hardware.gpus)
        first, path = seen.setdefault(placement.machine.lower(), (has, pool.path))
        if first != has:
            problems.add(
                f"{pool.path}.gpuModel",
                f"{placement.machine} has {has[1]} x {has[0]} here and {first[1]} x {first[0]} in {path}",
                allowed="the same of all pools of a size",
                remedy="Look up what the size has, and write it in both pools.",
            )


def _as_meant(config: Mapping[str, object], problems: Problems) -> Mapping[str, object]:
    """The sections by their right names. A misspelled one is a problem; it is not missing besides, and is read with the rest.

    The engine hands the program an empty section where the file has none (the defaults of Pulumi.yaml), so that counts as none.
    """
    known = [f"{NAMESPACE}:{key}" for key in KEYS]
    meant: dict[str, object] = {}
    for key, value in config.items():
        section = key.removeprefix(f"{NAMESPACE}:")
        if key in known or (section == key and key not in KEYS):
            continue
        near = difflib.get_close_matches(section, KEYS, n=1)
        name = f"{NAMESPACE}:{near[0]}" if near else ""
        shown = in_spelling_of(key, config, name) if name else ""
        if config.get(name):
            remedy = f"Remove it: `{shown}` is written, too."
        elif section == key:
            remedy = f"Write {name}."
        else:
            remedy = f"Did you mean `{shown}`?" if name else "Remove it; nothing reads it."
        message = "has no namespace" if section == key else f"unknown key `{written_key(key)}`"
        allowed = ", ".join(in_spelling_of(key, config, one) for one in known)
        problems.add(key, message, allowed=allowed, remedy=remedy)
        if name and not config.get(name):
            meant.setdefault(name, value)
    return {**config, **meant}
