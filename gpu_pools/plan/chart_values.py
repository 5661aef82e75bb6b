"""The values of both charts, as far as they follow from a plan; what the user writes in the stack file is merged over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.mig_parted import MIG_DISABLED_KEY, MIG_PARTED_CONFIG_MAP
from gpu_pools.mig.change import mode_change_needs
from gpu_pools.plan.drivers import upgrade_policy
from gpu_pools.rendering.dcgm_exporter import exporter_values
from gpu_pools.rendering.node_leaving import hook_objects
from gpu_pools.stack.allocation import DRA
from gpu_pools.stack.cluster import Cluster
from gpu_pools.stack.kubernetes_names import DRIVER_MANAGER_LABEL
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.plan.planned import PoolPlan
    from gpu_pools.stack.pools import DriverOwner
    from gpu_pools.stack.settings import Settings

#: All NodeFeatures at once. With NFD's own page size nfd-master lists a fixed version of the past after the API server was
#: restarted, whose watch is refused as too old, and sees no change until etcd forgets that version, minutes later
#: (nfd-api-controller.go of v0.18.3 sets `Limit` but not `ResourceVersionMatch`; seen with kube-apiserver 1.36.3).
_NFD_PAGE_SIZE: Final = 0

_WITH_REBOOT: Final = "WITH_REBOOT"
_GPU_TOLERATION: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_ANY_NO_SCHEDULE: Final = {"operator": "Exists", "effect": "NoSchedule"}


def tolerations(pools: tuple[PoolPlan, ...]) -> tuple[Mapping[str, str], ...]:
    """What NFD's workers, labellers and verifiers tolerate: the taints of the pools, and the chart's own."""
    # Exists, never Equal: a taint whose value was changed outside must not stop the operands (I01).
    taints = {taint for pool_plan in pools for taint in (*pool_plan.taints, pool_plan.startup_taint) if taint}
    found = {(taint.key, taint.effect) for taint in taints}
    derived = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in sorted(found)]
    # Helm replaces lists, so the chart's own toleration has to be repeated.
    return (_GPU_TOLERATION, *(toleration for toleration in derived if toleration != _GPU_TOLERATION))


def operand_tolerations(derived: tuple[Mapping[str, str], ...]) -> tuple[Mapping[str, str], ...]:
    """Every NoSchedule taint, by whatever key, and the pools' NoExecute ones.

    Another list would make the operator cordon every node in turn and restart its driver (W46). The operands run on GPU nodes
    only, by their node selectors, and NoExecute keeps its meaning: a node that somebody empties is emptied of them, too.
    """
    return (_ANY_NO_SCHEDULE, *(toleration for toleration in derived if toleration["effect"] == "NoExecute"))


def operator_values(
    settings: Settings,
    pools: tuple[PoolPlan, ...],
    driver: DriverOwner,
    cluster_strategy: str,
    default_key: str,
    tolerated: tuple[Mapping[str, str], ...],
) -> dict[str, Any]:
    """Of the gpu-operator chart.

    Args:
        settings: what was declared.
        pools: as planned.
        driver: who installs driver and toolkit.
        cluster_strategy: the MIG strategy that the ClusterPolicy says; empty: each node's config file decides.
        default_key: the config of nodes without our label.
        tolerated: by the operator's DaemonSets.
    """
    by_operator = driver == "operator"
    toolkit: dict[str, Any] = {"enabled": by_operator}
    if by_operator and settings.cluster.containerd_reads_one_file:
        # Without it the toolkit writes a containerd drop-in newer than the node's own config, and containerd dies (C02).
        toolkit["env"] = [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]
    # A cloud's image may bring a runtime class of its own together with the driver (C01, I05).
    runtime_class = Cluster.runtime_class if by_operator else settings.cluster.runtime_class
    return {
        "nfd": {"enabled": False},
        "operator": {"runtimeClass": runtime_class},
        "daemonsets": {"tolerations": [dict(toleration) for toleration in tolerated]},
        "driver": {"enabled": by_operator, **(_driver_values(settings, pools) if by_operator else {})},
        "toolkit": toolkit,
        "mig": {"strategy": cluster_strategy},
        "devicePlugin": {"config": {"create": False, "name": DEVICE_PLUGIN_CONFIG_MAP, "default": default_key}},
        "migManager": _mig_manager_values(settings, pools),
        **_validator_values(pools),
        **_exporter_values(settings, pools),
        **_cleanup_values(settings),
    }


def _driver_values(settings: Settings, pools: tuple[PoolPlan, ...]) -> dict[str, Any]:
    """How drivers are replaced; where there are claims, the driver manager must be told which pods serve them.

    Sources: NVIDIA's documentation of the operator, "DRA Driver for NVIDIA GPUs", known issues; NVIDIA/k8s-driver-manager,
    cmd/driver-manager/main.go (nodeLabelForGPUPodEviction).
    """
    values = dict(upgrade_policy(settings))
    if any(pool_plan.allocation == DRA for pool_plan in pools):
        values["manager"] = {"env": [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": DRIVER_MANAGER_LABEL}]}
    return values


def _validator_values(pools: tuple[PoolPlan, ...]) -> dict[str, Any]:
    """On nodes with claims the operator's check of its device plugin would never end: what it checks is the toolkit instead.

    It waits until the node has a capacity of nvidia.com resources, which no device plugin gives it there, and with it the
    ClusterPolicy would never be ready (NVIDIA/gpu-operator v26.7.0, cmd/nvidia-validator/main.go, validateGPUResource). The
    variable COMPONENT chooses what a validator's container checks (controllers/object_controls.go, TransformValidatorComponent).

    The check of the toolkit runs nvidia-smi, so the container also needs the GPUs. The image has NVIDIA_VISIBLE_DEVICES=void
    (docker/Dockerfile), and only the operator's container `toolkit-validation` overrides that by itself
    (assets/state-operator-validation/0500_daemonset.yaml). Second source: the container failed without it on a real node
    (tests/engine/test_gpu_node.py).
    """
    if not any(pool_plan.allocation == DRA for pool_plan in pools):
        return {}
    variables = {"COMPONENT": "toolkit", "NVIDIA_VISIBLE_DEVICES": "all"}
    return {"validator": {"plugin": {"env": [{"name": name, "value": value} for name, value in variables.items()]}}}


def _exporter_values(settings: Settings, pools: tuple[PoolPlan, ...]) -> dict[str, Any]:
    """Nothing without the section: the exporter is then as the chart has it."""
    sharings = [pool_plan.sharing for pool_plan in pools]
    advertised = {name for pool_plan in pools for name in pool_plan.advertises}
    return exporter_values(settings.observability, settings.operator.chart.version, sharings, advertised)


def _cleanup_values(settings: Settings) -> dict[str, Any]:
    """Hooks of ours besides the objects that the user adds: Helm would replace the list."""
    hooks = hook_objects(settings)
    return {"extraObjects": hooks} if hooks else {}


def _mig_manager_values(settings: Settings, pools: tuple[PoolPlan, ...]) -> dict[str, Any]:
    with_reboot = any(p.sharing.partitioned and p.mig_config_key and reboots(p.hardware, settings) for p in pools)
    return {
        "enabled": not any(pool_plan.gpu_instance_profile for pool_plan in pools),
        **({"env": [{"name": _WITH_REBOOT, "value": "true"}]} if with_reboot else {}),
        "config": {"create": False, "name": MIG_PARTED_CONFIG_MAP, "default": MIG_DISABLED_KEY},
    }


def nfd_values(pools: tuple[PoolPlan, ...], tolerated: tuple[Mapping[str, str], ...]) -> dict[str, Any]:
    """Of the NFD chart."""
    sets_taints = any(pool_plan.pool.placement.taints_may_come_from_nfd and pool_plan.taints for pool_plan in pools)
    return {
        "master": {
            "enableTaints": sets_taints,
            "extraLabelNs": ["nvidia.com", "gpu-pools"],
            "config": {"informerPageSize": _NFD_PAGE_SIZE},
        },
        "worker": {"tolerations": [dict(toleration) for toleration in tolerated]},
    }


def reboots_by_itself(settings: Settings) -> bool:
    """Whether the user's own values let mig-manager reboot a node."""
    env = at(settings.operator.chart.values, "migManager", "env")
    last = [at(entry, "value") for entry in (env if isinstance(env, list) else ()) if at(entry, "name") == _WITH_REBOOT]
    return bool(last) and str(last[-1]).lower() == "true"


def reboots(hardware: Hardware, settings: Settings) -> bool:
    """Whether a node of the pool reboots when its MIG mode is switched."""
    return mode_change_needs(hardware.model, virtual=settings.cluster.machines_are_virtual) == "reboot"
