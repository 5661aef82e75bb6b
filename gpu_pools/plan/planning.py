"""The plan: from declared pools to everything that follows from them, without any cloud.

For each pool: config keys, labels, taints, who owns driver and partitioning, warnings, and the expectation per node. For the
cluster: the rendered config files, the MIG strategy, derived tolerations and the chart values. Components place it, policies
judge it, the verifier compares it with the hardware. Nothing here knows Pulumi.

The MIG strategy of the ClusterPolicy holds for every node, and the device plugin exits on MPS under `mixed`. Where a stack
needs both, the ClusterPolicy leaves the strategy open and each node's config file gives it: the operator sets MIG_STRATEGY
only where the policy names one ("let plugin decide this per node", gpu-operator controllers/object_controls.go).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.clouds.magnum_drivers import magnum_driver_warnings
from gpu_pools.images.placed import tag_warnings
from gpu_pools.mig.advice import layout_text
from gpu_pools.mig.change import mode_change_needs
from gpu_pools.plan import expectation
from gpu_pools.plan.adoption import adoption_warnings, check_adoption, cluster_warnings
from gpu_pools.plan.change_ids import cluster_change, pool_change
from gpu_pools.plan.checks import autoscaling_warnings, check_pool, check_together, driver_of, gpu_instance_profile, mig_owner
from gpu_pools.plan.mig_strategy import causes_of_mixed, derived_mig_strategy, other_strategy, strategy_warnings
from gpu_pools.plan.operand_checks import check_operands, refuses_two
from gpu_pools.plan.pod_requests import PodRequest, pod_requests
from gpu_pools.rendering.node_cleanup import cleanup_objects
from gpu_pools.rendering.sharing_configs import (
    MIG_DISABLED_KEY,
    STRATEGY_WITHOUT_MIG,
    device_plugin_config,
    mig_parted_entries,
    mig_parted_entry,
    mig_parted_file,
)
from gpu_pools.rendering.startup_taint import STARTUP_TAINT, check_startup_taint, startup_taint_warnings
from gpu_pools.stack.acknowledged import CLUSTER
from gpu_pools.stack.charts import merge_values
from gpu_pools.stack.kubernetes_names import AKS_SPOT_TAINT, DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, POOL_LABEL, Taint
from gpu_pools.stack.pools import AksPlacement, MagnumPlacement
from gpu_pools.stack.settings import Settings, try_parse_settings
from gpu_pools.stack.sharing import Exclusive, Mig, Mps, TimeSlicing
from gpu_pools.text.errors import InvalidStackError, Problem, Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.hardware.platforms import Platform
    from gpu_pools.plan.expectation import NvmlExpectation
    from gpu_pools.rendering.sharing_configs import FlagMigStrategy
    from gpu_pools.stack.charts import MigStrategy
    from gpu_pools.stack.pools import DriverOwner, Hardware, MigOwner, Pool
    from gpu_pools.stack.sharing import Sharing

DEVICE_PLUGIN_CONFIG_MAP: Final = "gpu-pools-device-plugin"
MIG_PARTED_CONFIG_MAP: Final = "gpu-pools-mig-parted"
#: Nobody reads it but the program: the named configs of the mig-parted file that are not gone yet (components/_sharing_keys.py).
MIG_PARTED_ENTRIES_CONFIG_MAP: Final = "gpu-pools-mig-layouts"
#: All NodeFeatures at once. With NFD's own page size nfd-master lists a fixed version of the past after the API server was
#: restarted, whose watch is refused as too old, and sees no change until etcd forgets that version, minutes later
#: (nfd-api-controller.go of v0.18.3 sets `Limit` but not `ResourceVersionMatch`; seen with kube-apiserver 1.36.3).
_NFD_PAGE_SIZE: Final = 0

_GPU_TOLERATION: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_ANY_NO_SCHEDULE: Final = {"operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True)
class PoolPlan:
    """One pool, planned.

    Attributes:
        pool: as declared.
        hardware: the GPUs of each node.
        platform: the cloud.
        sharing: the declaration.
        config_key: key of the device plugin's config.
        mig_config_key: key of the mig-parted config; None where the operator's mig-manager has no say on these nodes.
        labels: every label that must reach the nodes.
        taints: the declared taints, and those that the cloud adds.
        startup_taint: what new nodes register with until the verifier has passed them; None: nothing.
        driver: who installs driver and toolkit.
        mig_owner: who partitions.
        gpu_instance_profile: what AKS is told where AKS partitions.
        advertises: resource -> count per node.
        gfd_labels: what gpu-feature-discovery will write, as far as it can be known.
        nvml: what NVML must say.
        other_strategy: (the other MIG strategy, resource now -> resource then); None where it would rename nothing here.
        refuses_two: whether the device plugin refuses requests for two although the declaration allows them.
        warnings: what works, but with a catch.
        change: id of becoming what is planned here (gpu_pools/stack/acknowledged.py).
        protect: whether the engine must refuse to delete or replace it: as declared, unless this very change is acknowledged.
    """

    pool: Pool
    hardware: Hardware
    platform: Platform
    sharing: Sharing
    config_key: str
    mig_config_key: str | None
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    startup_taint: Taint | None
    driver: DriverOwner
    mig_owner: MigOwner
    gpu_instance_profile: str | None
    advertises: Mapping[str, int]
    gfd_labels: Mapping[str, str]
    nvml: NvmlExpectation
    other_strategy: tuple[MigStrategy, Mapping[str, str]] | None
    refuses_two: bool
    warnings: tuple[str, ...]
    change: str = ""
    protect: bool = False

    @property
    def pod_requests(self) -> tuple[PodRequest, ...]:
        """What pods write to get a share of this pool."""
        return pod_requests(self.sharing, self.advertises, refuses_two=self.refuses_two)

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.name

    def as_json(self) -> dict[str, Any]:
        """The document of ``plan --json``."""
        return {
            "name": self.name,
            "platform": self.platform,
            "gpuModel": self.hardware.model.key,
            "gpusPerNode": self.hardware.gpus,
            "nodes": {"min": self.pool.min_nodes, "max": self.pool.max_nodes},
            "sharing": {"name": self.pool.sharing, **_sharing_json(self.sharing)},
            "configKey": self.config_key,
            "migConfigKey": self.mig_config_key,
            "labels": dict(self.labels),
            "taints": [str(taint) for taint in self.taints],
            "startupTaint": self.startup_taint and str(self.startup_taint),
            "driver": self.driver,
            "partitionedBy": self.mig_owner if isinstance(self.sharing, Mig) else None,
            "advertises": dict(self.advertises),
            "pods": [request.as_json() for request in self.pod_requests],
            "expectedLabels": dict(self.gfd_labels),
            "nvml": self.nvml.as_json(),
            "otherMigStrategy": self._other_strategy_json(),
            "warnings": list(self.warnings),
        }

    def _other_strategy_json(self) -> dict[str, Any] | None:
        if self.other_strategy is None:
            return None
        strategy, renames = self.other_strategy
        return {"strategy": strategy, "renames": dict(renames)}


@dataclass(frozen=True)
class Plan:
    """A stack, planned.

    Attributes:
        settings: what was declared.
        pools: in file order.
        mig_strategy: how MIG nodes name their resources.
        cluster_mig_strategy: what the ClusterPolicy says; empty: each node's config file decides.
        device_plugin_configs: key -> YAML text.
        default_config_key: what nodes without our label get: exclusive use.
        mig_parted_entries: key -> YAML text of each named config of the mig-parted file.
        tolerations: what NFD's workers, markers and verifiers tolerate: the taints of the pools.
        operand_tolerations: what the operator's DaemonSets tolerate: more, so that a new taint does not change them.
        driver: who installs driver and toolkit in this cluster.
        operator_values: final values of the gpu-operator chart.
        nfd_values: final values of the NFD chart.
        change: id of the cluster's becoming what is planned here.
        protect: whether the engine must refuse to delete or replace the cluster; as of a pool.
    """

    settings: Settings
    pools: tuple[PoolPlan, ...]
    mig_strategy: MigStrategy
    cluster_mig_strategy: str
    device_plugin_configs: Mapping[str, str]
    default_config_key: str
    mig_parted_entries: Mapping[str, str]
    tolerations: tuple[Mapping[str, str], ...]
    operand_tolerations: tuple[Mapping[str, str], ...]
    driver: DriverOwner
    operator_values: Mapping[str, Any]
    nfd_values: Mapping[str, Any]
    change: str
    protect: bool

    @property
    def platform(self) -> Platform:
        """The cloud."""
        return self.settings.cluster.platform

    @property
    def mig_parted_config(self) -> str:
        """The mig-parted file, of what is declared."""
        return mig_parted_file(self.mig_parted_entries)

    def as_json(self) -> dict[str, Any]:
        """The document of ``plan --json``."""
        return {"pools": [pool.as_json() for pool in self.pools], "errors": []}


def plan_config(config: Mapping[str, object], *, complete: bool = True) -> Plan:
    """Parse and plan in one go, so that problems of both stages come out together.

    Raises:
        InvalidStackError: with every problem found.
    """
    settings, problems = try_parse_settings(config, complete=complete)
    if settings is None:
        raise InvalidStackError(problems.found)
    return _plan(settings, problems)


def make_plan(settings: Settings) -> Plan:
    """Plan settings that were parsed before.

    Raises:
        InvalidStackError: where hardware and sharing do not go together.
    """
    return _plan(settings, Problems())


def problems_json(problems: Iterable[Problem]) -> dict[str, Any]:
    """The document of ``plan --json`` for a stack that cannot be planned."""
    entries = [
        {"path": problem.path, "message": problem.message, "allowed": problem.allowed, "remedy": problem.remedy}
        for problem in problems
    ]
    return {"pools": [], "errors": entries}


@dataclass(frozen=True)
class _Strategies:
    """The MIG strategy of a cluster.

    Attributes:
        chosen: given or derived.
        cluster: what the ClusterPolicy says; empty where each node's file says it.
        causes: the pools for which it is mixed.
    """

    chosen: MigStrategy
    cluster: str
    causes: tuple[str, ...]


def _plan(settings: Settings, problems: Problems) -> Plan:
    strategy = derived_mig_strategy(settings)
    checked = [
        (pool, sharing, [*check_pool(pool, sharing, problems), *_check_operands(pool, sharing, settings, strategy, problems)])
        for pool in settings.pools
        if (sharing := settings.sharing.get(pool.sharing)) is not None
    ]
    check_together(settings, problems)
    check_startup_taint(settings, problems)
    check_adoption(settings, problems)
    problems.raise_if_any()
    uses_mps = any(isinstance(sharing, Mps) for _, sharing, _ in checked)
    cluster_strategy = "" if strategy == "mixed" and uses_mps else strategy
    strategies = _Strategies(strategy, cluster_strategy, causes_of_mixed(settings))
    change, protect, pools = _protection(
        settings, tuple(_plan_pool(pool, sharing, settings, strategies, warnings) for pool, sharing, warnings in checked)
    )
    default_key, default_text = device_plugin_config(Exclusive(), strategy)
    configs = {default_key: default_text}
    for planned in pools:
        key, text = device_plugin_config(planned.sharing, strategy)
        configs[key] = text
    entries = mig_parted_entries(p.sharing for p in pools if isinstance(p.sharing, Mig) and p.mig_config_key)
    tolerations = _tolerations(pools)
    operand_tolerations = _operand_tolerations(tolerations)
    driver = cast("DriverOwner", driver_of(settings.pools[0], settings))
    return Plan(
        settings=settings,
        pools=pools,
        mig_strategy=strategy,
        cluster_mig_strategy=cluster_strategy,
        device_plugin_configs=dict(sorted(configs.items())),
        default_config_key=default_key,
        mig_parted_entries=entries,
        tolerations=tolerations,
        operand_tolerations=operand_tolerations,
        driver=driver,
        operator_values=merge_values(
            _operator_values(settings, pools, driver, cluster_strategy, default_key, operand_tolerations),
            settings.operator.chart.values,
        ),
        nfd_values=merge_values(_nfd_values(pools, tolerations), settings.nfd.chart.values),
        change=change,
        protect=protect,
    )


def _protection(settings: Settings, pools: tuple[PoolPlan, ...]) -> tuple[str, bool, tuple[PoolPlan, ...]]:
    """The cluster's id, whether it is protected, and the pools with theirs; each as the acknowledgements leave it."""
    acknowledged = {(one.resource, one.change) for one in settings.acknowledged}
    whole = cluster_change(settings.cluster, pools)
    # What lies in a cluster that is replaced is replaced with it.
    lifted = (CLUSTER, whole) in acknowledged
    guarded = []
    for planned in pools:
        change = pool_change(planned, settings.cluster)
        protect = planned.pool.protect and not lifted and (planned.name, change) not in acknowledged
        guarded.append(replace(planned, change=change, protect=protect))
    return whole, getattr(settings.cluster, "protect", False) and not lifted, tuple(guarded)


def _check_operands(pool: Pool, sharing: Sharing, settings: Settings, strategy: MigStrategy, problems: Problems) -> list[str]:
    return check_operands(pool, sharing, settings, strategy, mig_owner(pool), problems)


def _node_strategy(sharing: Sharing, strategies: _Strategies) -> FlagMigStrategy:
    """The MIG strategy that holds on a node of this declaration: the ClusterPolicy's beats the config file's."""
    if not strategies.cluster and not isinstance(sharing, Mig):
        return STRATEGY_WITHOUT_MIG
    return strategies.chosen


def _plan_pool(pool: Pool, sharing: Sharing, settings: Settings, strategies: _Strategies, warnings: list[str]) -> PoolPlan:
    hardware = cast("Hardware", pool.hardware)
    node_strategy = _node_strategy(sharing, strategies)
    config_key, _ = device_plugin_config(sharing, strategies.chosen)
    owner = cast("MigOwner", mig_owner(pool))
    mig_key = _mig_key(sharing, hardware, owner)
    labels = {**pool.labels, POOL_LABEL: pool.name, DEVICE_PLUGIN_CONFIG_LABEL: config_key}
    if mig_key:
        labels[MIG_CONFIG_LABEL] = mig_key
    taints = pool.taints
    if isinstance(pool.placement, AksPlacement) and pool.placement.spot:
        # AKS puts both there, in sets that every update replaces whole (Azure/AKS#3152).
        labels[AKS_SPOT_TAINT.key] = AKS_SPOT_TAINT.value
        taints = taints if AKS_SPOT_TAINT in taints else (*taints, AKS_SPOT_TAINT)
    profile = gpu_instance_profile(hardware, sharing) if owner == "aks" and isinstance(sharing, Mig) else None
    return PoolPlan(
        pool=pool,
        hardware=hardware,
        platform=settings.cluster.platform,
        sharing=sharing,
        config_key=config_key,
        mig_config_key=mig_key,
        labels=dict(sorted(labels.items())),
        taints=taints,
        startup_taint=STARTUP_TAINT if settings.verification.startup_taint else None,
        driver=cast("DriverOwner", driver_of(pool, settings)),
        mig_owner=owner,
        gpu_instance_profile=profile,
        advertises=expectation.advertised(hardware, sharing, node_strategy),
        gfd_labels=dict(sorted(expectation.gfd_labels(hardware, sharing, node_strategy).items())),
        nvml=expectation.nvml(hardware, sharing),
        other_strategy=other_strategy(hardware, sharing, strategies.chosen),
        refuses_two=refuses_two(sharing, settings),
        warnings=(*warnings, *_pool_warnings(pool, sharing, hardware, settings, strategies)),
    )


def _mig_key(sharing: Sharing, hardware: Hardware, owner: MigOwner) -> str | None:
    if owner == "aks" or not hardware.model.mig_capable or not hardware.mig_offered:
        return None
    return mig_parted_entry(sharing)[0] if isinstance(sharing, Mig) else MIG_DISABLED_KEY


def _pool_warnings(
    pool: Pool, sharing: Sharing, hardware: Hardware, settings: Settings, strategies: _Strategies
) -> Iterable[str]:
    yield from autoscaling_warnings(pool, sharing, strategies.chosen, settings)
    yield from startup_taint_warnings(settings)
    yield from adoption_warnings(pool, settings)
    if pool is settings.pools[0]:
        # Said once: they are about the cluster.
        yield from cluster_warnings(settings)
        yield from tag_warnings(settings)
    yield from magnum_driver_warnings(pool, settings)
    yield from strategy_warnings(sharing, hardware, strategies.causes)
    if isinstance(sharing, Mig) and mig_owner(pool) == "operator" and _reboots(hardware, settings):
        yield (
            f"a node reboots once, when its MIG mode is switched on ({hardware.model.key} in a virtual machine, R03); "
            "where it is on already, another layout needs no reboot"
        )
    if settings.cluster.platform == "existing" and pool.taints:
        yield "the taints of an existing cluster's nodes are tolerated, not set, by this stack"


def _reboots(hardware: Hardware, settings: Settings) -> bool:
    return mode_change_needs(hardware.model, settings.cluster.platform) == "reboot"


def _tolerations(pools: tuple[PoolPlan, ...]) -> tuple[Mapping[str, str], ...]:
    # Exists, never Equal: a taint whose value was changed outside must not stop the operands (I01).
    taints = {taint for planned in pools for taint in (*planned.taints, planned.startup_taint) if taint}
    found = {(taint.key, taint.effect) for taint in taints}
    derived = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in sorted(found)]
    # Helm replaces lists, so the chart's own toleration has to be repeated.
    return (_GPU_TOLERATION, *(toleration for toleration in derived if toleration != _GPU_TOLERATION))


def _operand_tolerations(derived: tuple[Mapping[str, str], ...]) -> tuple[Mapping[str, str], ...]:
    """Every NoSchedule taint, by whatever key, and the pools' NoExecute ones.

    Another list would make the operator cordon every node in turn and restart its driver (W46). The operands run on GPU nodes
    only, by their node selectors, and NoExecute keeps its meaning: a node that somebody empties is emptied of them, too.
    """
    return (_ANY_NO_SCHEDULE, *(toleration for toleration in derived if toleration["effect"] == "NoExecute"))


def _operator_values(
    settings: Settings,
    pools: tuple[PoolPlan, ...],
    driver: DriverOwner,
    cluster_strategy: str,
    default_key: str,
    tolerations: tuple[Mapping[str, str], ...],
) -> dict[str, Any]:
    by_operator = driver == "operator"
    toolkit: dict[str, Any] = {"enabled": by_operator}
    if by_operator and settings.cluster.platform in {"aks", "magnum"}:
        # Without it the toolkit writes a containerd drop-in newer than the node's own config, and containerd dies (C02).
        toolkit["env"] = [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]
    # The image of AKS brings its own runtime class together with the driver (C01, I05).
    aks_runtime = not by_operator and settings.cluster.platform == "aks"
    return {
        "nfd": {"enabled": False},
        "operator": {"runtimeClass": "nvidia-container-runtime" if aks_runtime else "nvidia"},
        "daemonsets": {"tolerations": [dict(toleration) for toleration in tolerations]},
        "driver": {"enabled": by_operator},
        "toolkit": toolkit,
        "mig": {"strategy": cluster_strategy},
        "devicePlugin": {"config": {"create": False, "name": DEVICE_PLUGIN_CONFIG_MAP, "default": default_key}},
        "migManager": _mig_manager_values(settings, pools),
        **_cleanup_values(settings),
    }


def _cleanup_values(settings: Settings) -> dict[str, Any]:
    """Hooks of ours besides the objects that the user adds: Helm would replace the list."""
    hooks = cleanup_objects(settings)
    return {"extraObjects": hooks} if hooks else {}


def _mig_manager_values(settings: Settings, pools: tuple[PoolPlan, ...]) -> dict[str, Any]:
    reboots = any(isinstance(p.sharing, Mig) and p.mig_config_key and _reboots(p.hardware, settings) for p in pools)
    return {
        "enabled": not any(planned.gpu_instance_profile for planned in pools),
        **({"env": [{"name": "WITH_REBOOT", "value": "true"}]} if reboots else {}),
        "config": {"create": False, "name": MIG_PARTED_CONFIG_MAP, "default": MIG_DISABLED_KEY},
    }


def _nfd_values(pools: tuple[PoolPlan, ...], tolerations: tuple[Mapping[str, str], ...]) -> dict[str, Any]:
    sets_taints = any(isinstance(planned.pool.placement, MagnumPlacement) and planned.taints for planned in pools)
    return {
        "master": {
            "enableTaints": sets_taints,
            "extraLabelNs": ["nvidia.com", "gpu-pools"],
            "config": {"informerPageSize": _NFD_PAGE_SIZE},
        },
        "worker": {"tolerations": [dict(toleration) for toleration in tolerations]},
    }


def _sharing_json(sharing: Sharing) -> dict[str, Any]:
    document: dict[str, Any] = {"strategy": sharing.strategy}
    if isinstance(sharing, TimeSlicing | Mps):
        document.update(_shared_json(sharing))
    elif isinstance(sharing, Mig):
        document.update(_mig_json(sharing))
    if sharing.needs:
        document["needs"] = sharing.needs.as_json()
    return document


def _mig_json(sharing: Mig) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if sharing.gpus[0].index is None:
        document["layout"] = dict(sharing.gpus[0].layout)
    else:
        document["gpus"] = [{"index": list(entry.index or ()), "layout": dict(entry.layout)} for entry in sharing.gpus]
    if sharing.time_slicing:
        document["timeSlicing"] = _shared_json(sharing.time_slicing)
        if sharing.replicas_of:
            document["timeSlicing"]["replicas"] = dict(sharing.replicas_of)
    return document


def _shared_json(shared: TimeSlicing | Mps) -> dict[str, Any]:
    return {
        "replicas": shared.replicas,
        "renameByDefault": shared.rename_by_default,
        "failRequestsGreaterThanOne": shared.fail_requests_greater_than_one,
    }


def sharing_text(sharing: Sharing) -> str:
    """A declaration in a few words, for tables."""
    if isinstance(sharing, Exclusive):
        return "exclusive"
    if isinstance(sharing, TimeSlicing | Mps):
        name = "time-slicing" if isinstance(sharing, TimeSlicing) else "MPS"
        return f"{name} {sharing.replicas}" + (", renamed" if sharing.rename_by_default else "")
    parts = [
        layout_text(dict(entry.layout)) + ("" if entry.index is None else f" on GPU {','.join(map(str, entry.index))}")
        for entry in sharing.gpus
    ]
    return f"MIG {'; '.join(parts)}{_sliced_text(sharing)}"


def _sliced_text(sharing: Mig) -> str:
    if sharing.replicas_of:
        return "".join(f", {profile} time-sliced {replicas}" for profile, replicas in sharing.replicas_of)
    return f", each time-sliced {sharing.time_slicing.replicas}" if sharing.time_slicing else ""
