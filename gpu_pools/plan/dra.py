"""What a cluster needs for its pools with `allocation: dra`: chart values, DeviceClasses, a DaemonSet per number of shares.

The parts are in gpu_pools/allocation/dra.py; here they are put together for a stack, with its overrides and its registry. And
what people write who want a claim of their own, instead of a resource name: a template of claims, and a pod that uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_pools.allocation.dra import DraPlan, chart_values, class_name, device_classes, share_daemon_set_spec, shares_of
from gpu_pools.rendering.registry import chart_registry_values
from gpu_pools.stack.allocation import DRA
from gpu_pools.stack.charts import merge_values
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.allocation.dra import Devices
    from gpu_pools.plan.planned import PoolPlan
    from gpu_pools.stack.charts import ChartSettings
    from gpu_pools.stack.settings import Settings

_REPOSITORY = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"


def dra_plan(
    settings: Settings, pools: Sequence[PoolPlan], driver: str, tolerations: Sequence[Mapping[str, str]]
) -> DraPlan | None:
    """What the pools with claims need; None where there is no such pool.

    Args:
        settings: of the stack.
        pools: all pools, as planned.
        driver: who installs the GPU driver.
        tolerations: of the operands.
    """
    claiming = [pool_plan.sharing for pool_plan in pools if pool_plan.allocation == DRA]
    if not claiming:
        return None
    chart = settings.dra_driver.chart
    values = merge_values(
        merge_values(chart_values(driver, tolerations), chart_registry_values(chart, settings.registry)), chart.values
    )
    image = _image(chart, values)
    secrets = settings.registry.pull_secrets
    numbers = {shares_of(sharing) or 0 for sharing in claiming} - {0}
    return DraPlan(
        values=values,
        classes=device_classes(claiming),
        share_pods={shares: share_daemon_set_spec(shares, image, driver, tolerations, secrets) for shares in sorted(numbers)},
    )


def claim_documents(pool_plan: PoolPlan, device: Devices, image: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a ResourceClaimTemplate for a device of a pool, and a pod that uses it.

    A declared `needs.memoryPerReplica` is a capacity that the scheduler holds; nothing on the GPU limits what the pod uses.

    Args:
        pool_plan: a pool with claims.
        device: one of its devices.
        image: of the pod's container.
    """
    name = f"{pool_plan.name}-{device.resource.rpartition('/')[2]}".replace("_", "-")
    needs = pool_plan.sharing.needs
    capacity = {"capacity": {"requests": {"memory": f"{needs.memory_per_replica_mib}Mi"}}} if needs and device.shares else {}
    exactly = {"deviceClassName": class_name(device.resource), **capacity}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
    container = {"name": "main", "image": image, "command": ["nvidia-smi", "-L"], "resources": {"claims": [{"name": "gpu"}]}}
    tolerations = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in pool_plan.taints]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            # A class has the devices of all pools: only the node tells which of them is meant.
            "nodeSelector": {POOL_LABEL: pool_plan.name},
            **({"tolerations": tolerations} if tolerations else {}),
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
            "containers": [container],
        },
    }
    return template, pod


def _image(chart: ChartSettings, values: Mapping[str, Any]) -> str:
    """The driver's image, as the chart names it (its template `fullimage`)."""
    image = values.get("image") or {}
    return f"{image.get('repository') or _REPOSITORY}:{image.get('tag') or f'v{chart.version}'}"
