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
from typing import TYPE_CHECKING, Any, cast

from gpu_pools.allocation.device_plugin import STRATEGY_WITHOUT_MIG, device_plugin_config
from gpu_pools.allocation.dra import devices, node_labels, on_the_gpu, plugin_labels
from gpu_pools.allocation.mig_parted import MIG_DISABLED_KEY, mig_parted_entries, mig_parted_key
from gpu_pools.images.placed import tag_warnings
from gpu_pools.mig.change import mode_change_needs
from gpu_pools.plan import expectation
from gpu_pools.plan.adoption import (
    adopted_warnings,
    adoption_warnings,
    check_adopted_groups,
    check_adoption,
    cluster_warnings,
    imported_warnings,
)
from gpu_pools.plan.change_ids import cluster_change, pool_change
from gpu_pools.plan.chart_values import nfd_values, operand_tolerations, operator_values, reboots_by_itself, tolerations
from gpu_pools.plan.checks import (
    autoscaling_warnings,
    check_pool,
    check_together,
    declared_model_warnings,
    declared_size_warnings,
    driver_of,
    gpu_instance_profile,
    mig_owner,
)
from gpu_pools.plan.dra import dra_plan
from gpu_pools.plan.dra_checks import check_dra, dra_warnings
from gpu_pools.plan.drivers import check_driver_upgrade, driver_upgrade_warnings
from gpu_pools.plan.expectation import causes_of_mixed, derived_mig_strategy, other_strategy, strategy_warnings
from gpu_pools.plan.mps_support import check_mps_support
from gpu_pools.plan.observed import check_observability
from gpu_pools.plan.operand_checks import chart_warnings, check_operands, first_offer_warnings, refuses_two
from gpu_pools.plan.placing import check_replacements, with_replacement_id
from gpu_pools.plan.planned import Plan, PoolPlan
from gpu_pools.plan.rollouts import check_rollouts, rollout_warnings
from gpu_pools.platforms.known import platform_of, try_parse_settings
from gpu_pools.rendering.registry import chart_registry_values
from gpu_pools.rendering.startup_taint import STARTUP_TAINT, check_startup_taint, startup_taint_warnings
from gpu_pools.sharing.exclusive import Exclusive
from gpu_pools.stack.acknowledged import CLUSTER
from gpu_pools.stack.allocation import DRA
from gpu_pools.stack.charts import merge_values
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, POOL_LABEL
from gpu_pools.text.errors import InvalidStackError, Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpu_pools.allocation.device_plugin import FlagMigStrategy
    from gpu_pools.hardware.node import Hardware
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.charts import ChartSettings, MigStrategy
    from gpu_pools.stack.cluster import MigOwner
    from gpu_pools.stack.pools import DriverOwner, Pool
    from gpu_pools.stack.registry import RegistrySettings
    from gpu_pools.stack.settings import Settings


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
        (
            pool,
            sharing,
            [
                *check_pool(pool, sharing, problems),
                *check_mps_support(pool, sharing, settings, problems),
                *_check_operands(pool, sharing, settings, strategy, problems),
            ],
        )
        for pool in settings.pools
        if (sharing := settings.sharing.get(pool.sharing)) is not None
    ]
    check_together(settings, problems)
    check_startup_taint(settings, problems)
    check_rollouts(settings, problems)
    check_replacements(settings, problems)
    check_driver_upgrade(settings, problems)
    check_adoption(settings, problems)
    check_adopted_groups(settings, problems)
    check_observability(settings, problems)
    check_dra(settings, problems)
    problems.raise_if_any()
    uses_mps = any(sharing.needs_mps_daemon for _, sharing, _ in checked)
    cluster_strategy = "" if strategy == "mixed" and uses_mps else strategy
    strategies = _Strategies(strategy, cluster_strategy, causes_of_mixed(settings))
    change, protect, pools = _protection(
        settings, tuple(_plan_pool(pool, sharing, settings, strategies, warnings) for pool, sharing, warnings in checked)
    )
    default_key, default_text = device_plugin_config(Exclusive(), strategy)
    configs = {default_key: default_text, **{pool_plan.config_key: pool_plan.config for pool_plan in pools}}
    entries = mig_parted_entries(p.sharing for p in pools if p.sharing.partitioned and p.mig_config_key)
    tolerated = tolerations(pools)
    operands_tolerate = operand_tolerations(tolerated)
    driver = cast("DriverOwner", driver_of(settings.pools[0], settings))
    return Plan(
        settings=settings,
        pools=pools,
        mig_strategy=strategy,
        cluster_mig_strategy=cluster_strategy,
        device_plugin_configs=dict(sorted(configs.items())),
        default_config_key=default_key,
        mig_parted_entries=entries,
        tolerations=tolerated,
        operand_tolerations=operands_tolerate,
        driver=driver,
        operator_values=_with_overrides(
            operator_values(settings, pools, driver, cluster_strategy, default_key, operands_tolerate),
            settings.operator.chart,
            settings.registry,
        ),
        nfd_values=_with_overrides(nfd_values(pools, tolerated), settings.nfd.chart, settings.registry),
        change=change,
        protect=protect,
        dra=dra_plan(settings, pools, driver, operands_tolerate),
    )


def _with_overrides(derived: Mapping[str, Any], chart: ChartSettings, registry: RegistrySettings) -> dict[str, Any]:
    return merge_values(merge_values(derived, chart_registry_values(chart, registry)), chart.values)


def _protection(settings: Settings, pools: tuple[PoolPlan, ...]) -> tuple[str, bool, tuple[PoolPlan, ...]]:
    """The cluster's id, whether it is protected, and the pools with theirs; each as the acknowledgements leave it."""
    acknowledged = {(one.resource, one.change) for one in settings.acknowledged}
    whole = cluster_change(settings.cluster, pools)
    # What lies in a cluster that is replaced is replaced with it.
    lifted = (CLUSTER, whole) in acknowledged
    guarded = []
    for pool_plan in pools:
        change = pool_change(pool_plan, settings.cluster)
        # What is only held must go with no edit: a pool that is taken out of the file would be deleted.
        protect = settings.imported or (pool_plan.pool.protect and not lifted and (pool_plan.name, change) not in acknowledged)
        guarded.append(replace(pool_plan, change=change, protect=protect))
    return whole, settings.cluster.protect and not lifted, tuple(guarded)


def _check_operands(pool: Pool, sharing: Sharing, settings: Settings, strategy: MigStrategy, problems: Problems) -> list[str]:
    return check_operands(pool, sharing, settings, strategy, mig_owner(pool), problems)


def _node_strategy(sharing: Sharing, strategies: _Strategies) -> FlagMigStrategy:
    """The MIG strategy that holds on a node of this declaration: the ClusterPolicy's beats the config file's."""
    if not strategies.cluster and not sharing.partitioned:
        return STRATEGY_WITHOUT_MIG
    return strategies.chosen


def _plan_pool(pool: Pool, sharing: Sharing, settings: Settings, strategies: _Strategies, warnings: list[str]) -> PoolPlan:
    hardware = cast("Hardware", pool.hardware)
    node_strategy = _node_strategy(sharing, strategies)
    by_claims = settings.allocation(pool) == DRA
    # What NVIDIA's other programs see: shares of claims are counted by the scheduler alone.
    on_gpu = on_the_gpu(sharing) if by_claims else sharing
    config_key, config = device_plugin_config(on_gpu, strategies.chosen)
    owner = cast("MigOwner", mig_owner(pool))
    mig_key = _mig_key(sharing, hardware, owner)
    labels = dict(pool.labels)
    if not settings.imported:
        labels |= {POOL_LABEL: pool.name, DEVICE_PLUGIN_CONFIG_LABEL: config_key}
    if mig_key and not settings.imported:
        labels[MIG_CONFIG_LABEL] = mig_key
    if settings.written_allocation(pool) and not settings.imported:
        labels |= node_labels(sharing) if by_claims else plugin_labels()
    taints = pool.taints
    if (added := pool.placement.added_taint) is not None:
        # AKS puts both there, in sets that every update replaces whole (Azure/AKS#3152).
        labels[added.key] = added.value
        taints = taints if added in taints else (*taints, added)
    profile = gpu_instance_profile(hardware, sharing) if owner == "aks" and sharing.partitioned else None
    pool_plan = PoolPlan(
        pool=pool,
        hardware=hardware,
        platform=settings.cluster.platform,
        sharing=sharing,
        config_key=config_key,
        config=config,
        mig_config_key=mig_key,
        labels=dict(sorted(labels.items())),
        taints=taints,
        startup_taint=STARTUP_TAINT if settings.verification.startup_taint else None,
        driver=cast("DriverOwner", driver_of(pool, settings)),
        mig_owner=owner,
        gpu_instance_profile=profile,
        advertises=expectation.advertised(hardware, sharing, node_strategy),
        gfd_labels=dict(sorted(expectation.gfd_labels(hardware, on_gpu, node_strategy).items())),
        nvml=expectation.nvml(hardware, sharing),
        other_strategy=other_strategy(hardware, sharing, strategies.chosen),
        refuses_two=not by_claims and refuses_two(sharing, settings),
        pull_secrets=tuple(settings.registry.pull_secrets),
        imported=settings.imported,
        allocation=settings.allocation(pool),
        devices=devices(hardware, sharing) if by_claims else (),
        warnings=(*warnings, *_pool_warnings(pool, sharing, hardware, settings, strategies)),
    )
    return pool_plan if settings.imported else with_replacement_id(pool_plan, settings.cluster)


def _mode_warnings(hardware: Hardware, settings: Settings) -> Iterator[str]:
    """What it costs to switch the MIG mode of nodes on."""
    needs = mode_change_needs(hardware.model, virtual=settings.cluster.machines_are_virtual)
    if needs == "reboot":
        yield (
            f"a node reboots once, when its MIG mode is switched on ({hardware.model.key} in a virtual machine, R03); "
            "where it is on already, another layout needs no reboot"
        )
    elif needs == "gpu-reset-or-reboot" and not reboots_by_itself(settings):
        whose = "their operator's owner sets" if settings.operator.adopted else "set gpu-pools:operator.values."
        gap = " " if settings.operator.adopted else ""
        yield (
            f"switching MIG mode on needs a reset of the GPU, which a virtual machine does not allow: its node has to reboot "
            f"({hardware.model.key}, R03). Where nodes are virtual, {whose}{gap}migManager.env WITH_REBOOT=true, or reboot them; "
            "where it is on already, another layout needs neither"
        )


def _mig_key(sharing: Sharing, hardware: Hardware, owner: MigOwner) -> str | None:
    if owner == "aks" or not hardware.model.mig_capable or not hardware.mig_offered:
        return None
    return mig_parted_key(sharing) if sharing.partitioned else MIG_DISABLED_KEY


def _pool_warnings(
    pool: Pool, sharing: Sharing, hardware: Hardware, settings: Settings, strategies: _Strategies
) -> Iterable[str]:
    yield from declared_size_warnings(hardware)
    yield from declared_model_warnings(hardware.model)
    yield from autoscaling_warnings(pool, sharing, strategies.chosen, settings)
    yield from first_offer_warnings(pool, sharing, settings)
    yield from dra_warnings(pool, sharing, settings)
    yield from startup_taint_warnings(settings)
    yield from rollout_warnings(pool, settings)
    yield from adoption_warnings(pool, settings)
    yield from adopted_warnings(pool, settings)
    if pool is settings.pools[0]:
        # Said once: they are about the cluster.
        yield from imported_warnings(settings)
        yield from cluster_warnings(settings, driver_of(pool, settings))
        yield from platform_of(settings.cluster).cluster_warnings(settings)
        yield from chart_warnings(settings, driver_of(pool, settings))
        yield from driver_upgrade_warnings(settings, driver_of(pool, settings))
        yield from tag_warnings(settings)
    yield from platform_of(settings.cluster).pool_warnings(pool, sharing, settings, driver_of(pool, settings))
    yield from strategy_warnings(sharing, hardware, strategies.causes)
    if sharing.partitioned and mig_owner(pool) == "operator":
        yield from _mode_warnings(hardware, settings)
    if not settings.cluster.sets_taints and pool.taints:
        yield "the taints of an existing cluster's nodes are tolerated, not set, by this stack"
