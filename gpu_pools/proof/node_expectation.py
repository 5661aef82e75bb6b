"""The expectation document of a pool: what the verifier on a node holds against NVML and the node object.

The document is the whole contract between plan and verifier (gpu_pools/verifier/expectation.py reads it, strictly); it has a
version and says everything that a node cannot find out by itself. What no source gives is null, and is then not compared.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.dra import DRA_DRIVER, DRA_NAMESPACE
from gpu_pools.hardware.operands import parse_version, version_text
from gpu_pools.plan.drivers import DRIVER_DAEMON_SET, demanded
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from gpu_pools.hardware.models import GpuModel, MigProfile, Version
    from gpu_pools.plan.planned import Plan, PoolPlan

API_VERSION: Final = "gpu-pools/v1"
KIND: Final = "NodeExpectation"
#: Where clouds and static manifests put device plugins of their own.
SEARCHED_NAMESPACES: Final = ("kube-system",)
#: DaemonSets of the GPU operator v26.7.0 (gpu-operator assets/).
_PLUGIN: Final = "nvidia-device-plugin-daemonset"
_ALWAYS: Final = (_PLUGIN, "gpu-feature-discovery")
_MPS: Final = "nvidia-device-plugin-mps-control-daemon"
_MIG: Final = "nvidia-mig-manager"


def node_expectation(plan: Plan, pool_plan: PoolPlan) -> dict[str, Any]:
    """The document of one pool of the plan."""
    nvml = pool_plan.nvml
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "pool": pool_plan.name,
        "gpuModel": nvml.gpu_model,
        "products": list(nvml.products),
        "count": nvml.count,
        "minimum": {"driver": _minimum_driver(pool_plan), "cuda": pool_plan.pool.minimum.cuda},
        "driver": demanded(plan) if pool_plan.driver == "operator" else None,
        "computeMode": nvml.compute_mode,
        "gpus": [gpu.as_json() for gpu in nvml.gpus],
        "profiles": _profiles(pool_plan),
        "mps": nvml.mps and nvml.mps.as_json(),
        "node": _node(plan, pool_plan),
    }


def _node(plan: Plan, pool_plan: PoolPlan) -> dict[str, Any]:
    manages_mig = pool_plan.mig_config_key is not None and bool(plan.operator_values["migManager"]["enabled"])
    excluded = [DRIVER_DAEMON_SET] if pool_plan.driver == "preinstalled" else []
    operands = [*_ALWAYS]
    if pool_plan.devices:
        operands.remove(_PLUGIN)
        excluded.append(_PLUGIN)
    if pool_plan.sharing.needs_mps_daemon:
        operands.append(_MPS)
    if manages_mig:
        operands.append(_MIG)
    if pool_plan.driver == "operator":
        operands.append(DRIVER_DAEMON_SET)
    text = plan.device_plugin_configs[pool_plan.config_key]
    return {
        # What claims allocate is announced by the driver; of the device plugin nothing may be left.
        "allocatable": {} if pool_plan.devices else dict(pool_plan.advertises),
        "labels": dict(pool_plan.labels),
        "discoveredLabels": dict(pool_plan.gfd_labels),
        # Nobody here puts taints on the nodes of an existing cluster.
        "taints": [str(taint) for taint in pool_plan.taints] if plan.settings.cluster.sets_taints else [],
        "namespace": OPERATOR_NAMESPACE,
        "searchedNamespaces": list(SEARCHED_NAMESPACES),
        "devicePluginConfig": {
            "name": DEVICE_PLUGIN_CONFIG_MAP,
            "key": pool_plan.config_key,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        },
        "operands": operands,
        "excludedOperands": excluded,
        "migManager": manages_mig,
        **({"claims": _claims(pool_plan)} if pool_plan.devices else {}),
    }


def _claims(pool_plan: PoolPlan) -> dict[str, Any]:
    """What NVIDIA's DRA driver must announce of the node."""
    return {
        "driver": DRA_DRIVER,
        "namespace": DRA_NAMESPACE,
        "devices": [one.as_json() for one in pool_plan.devices],
    }


def _declared(pool_plan: PoolPlan) -> list[str]:
    return sorted({profile for gpu in pool_plan.nvml.gpus for profile in gpu.instances})


def _profiles(pool_plan: PoolPlan) -> dict[str, Any]:
    model = pool_plan.hardware.model
    return {name: _profile(model, name) for name in _declared(pool_plan)}


def _profile(model: GpuModel, name: str) -> dict[str, Any]:
    known = _known(model, name)
    names = {other for other, own in model.other_names.items() if known and own == known.name}
    return {
        "id": known and known.profile_id,
        "otherNames": sorted((names | ({known.name} if known else set())) - {name}),
        "starts": list(known.starts) if known else [],
        "size": known.size if known else 0,
    }


def _known(model: GpuModel, name: str) -> MigProfile | None:
    return (model.profiles or {}).get(model.other_names.get(name, name))


def _minimum_driver(pool_plan: PoolPlan) -> str | None:
    """The newest of the declared minimum and the first drivers that have the model's MIG and the declared profiles."""
    declared, own = pool_plan.pool.minimum.driver, _mig_driver(pool_plan)
    if declared is not None and (parse_version(declared) or ()) >= own:
        return declared
    return version_text(own) if own else None


def _mig_driver(pool_plan: PoolPlan) -> Version:
    """Empty: no source gives one."""
    if not pool_plan.sharing.partitioned:
        return ()
    model = pool_plan.hardware.model
    profiles = (_known(model, name) for name in _declared(pool_plan))
    return max((model.min_driver, *(profile.min_driver for profile in profiles if profile)))
