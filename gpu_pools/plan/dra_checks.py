"""Which pools cannot get their GPUs to pods through resource claims, and what is different where they can.

Each rule names an incident of docs/reference/rules.md, which has its sources. What the DRA driver is told is in
gpu_pools/allocation/dra.py. Not here: what a node must show (gpu_pools/proof/node_expectation.py), and DRA objects that people
have written themselves (gpu_pools/existing/dra_check.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.allocation.dra import shares_of
from gpu_pools.hardware.models import is_vgpu
from gpu_pools.hardware.operands import parse_version, version_text
from gpu_pools.plan.operand_checks import installed_operand
from gpu_pools.stack.allocation import DRA
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_SWITCH
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.hardware.models import Version
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: The first version in which shares and extended resources work with default feature gates (kube_features.go of v1.36.3).
LEAST_KUBERNETES: Final = "1.36"
#: The driver's own guide asks for 565; NVIDIA's operator is documented with 580 or newer for claims.
LEAST_DRIVER: Final[Version] = (565, 0, 0)
_DOCUMENTED_DRIVER: Final[Version] = (580, 0, 0)
_KUBERNETES: Final = "gpu-pools:cluster.kubernetesVersion"
_CDI: Final = "gpu-pools:operator.values.cdi.enabled"
_OTHER_WAY: Final = "Write `allocation: devicePlugin` for this pool, or leave it out."


def check_dra(settings: Settings, problems: Problems) -> None:
    """Add a problem for everything that cannot be allocated by claims."""
    pools = settings.dra_pools
    if not pools:
        return
    _check_kubernetes(settings, problems)
    _check_operator(settings, problems)
    for pool in pools:
        _check_pool(pool, problems)
        if (sharing := settings.sharing.get(pool.sharing)) is not None:
            _check_sharing(pool, sharing, problems)


def allocation_path(pool: Pool) -> str:
    """Return where a stack file says how pods get the GPUs of a pool."""
    return f"{pool.path}.allocation" if pool.allocation else "gpu-pools:cluster.allocation"


def too_old_for_claims(version: str) -> bool:
    """Tell whether a version of Kubernetes lacks what claims need; one that cannot be read is not too old."""
    least = parse_version(LEAST_KUBERNETES)
    has = parse_version(version)
    return least is not None and has is not None and has < least


def dra_warnings(pool: Pool, sharing: Sharing, settings: Settings) -> Iterator[str]:
    """Yield what is different for the pods of a pool whose GPUs they get through claims."""
    if settings.allocation(pool) != DRA:
        return
    replication = sharing.replication
    if shares_of(sharing):
        yield "the scheduler fills one GPU with claims before it takes the next; the device plugin spreads pods over GPUs (E10)"
    if replication and replication.fail_requests_greater_than_one:
        yield "a pod that asks for two gets a share of each of two GPUs: claims know no failRequestsGreaterThanOne"
    if replication and replication.rename_by_default:
        yield (
            "a pod that asks for nvidia.com/gpu may get a share of this pool, too, since the chart's own DeviceClass has all "
            "GPUs: have such pods select the nodes of their pool"
        )
    if settings.cluster.kubernetes_version is None:
        yield f"claims need Kubernetes {LEAST_KUBERNETES} or newer, which cannot be checked before the deploy (E01)"
    driver = parse_version(installed_operand(settings, "driver")[0] or "")
    if driver is not None and LEAST_DRIVER <= driver < _DOCUMENTED_DRIVER:
        yield f"NVIDIA documents claims with driver {_DOCUMENTED_DRIVER[0]} or newer; this one is {version_text(driver)} (E02)"


def _check_kubernetes(settings: Settings, problems: Problems) -> None:
    version = settings.cluster.kubernetes_version
    if version and too_old_for_claims(version):
        problems.add(
            _KUBERNETES,
            f"{version} is too old for `allocation: dra`: shares and resource names of claims are off by default (E01)",
            allowed=f"{LEAST_KUBERNETES} or newer",
            remedy=f'Write kubernetesVersion: "{LEAST_KUBERNETES}", or `allocation: devicePlugin`.',
        )


def _check_operator(settings: Settings, problems: Problems) -> None:
    if at(settings.operator.chart.values, "cdi", "enabled") is False:
        problems.add(
            _CDI,
            "is false, and the DRA driver gives pods their GPUs through CDI (E11)",
            allowed="true, or nothing",
            remedy="Remove it, or write `allocation: devicePlugin`.",
        )
    text, where = installed_operand(settings, "driver")
    driver = parse_version(text or "")
    by_operator = settings.operator.driver == "operator"
    if by_operator and driver is not None and driver < LEAST_DRIVER:
        problems.add(
            where,
            f"driver {text} is too old for `allocation: dra` (E02)",
            allowed=f"{version_text(LEAST_DRIVER)} or newer; NVIDIA documents {_DOCUMENTED_DRIVER[0]} or newer",
            remedy="Install a newer driver, or write `allocation: devicePlugin`.",
        )


def _check_pool(pool: Pool, problems: Problems) -> None:
    hardware = pool.hardware
    if hardware is not None and any(is_vgpu(name) for name in (hardware.product or "", *hardware.model.products)):
        problems.add(
            allocation_path(pool),
            f'pool "{pool.name}" has vGPUs, which the DRA driver does not support (E05)',
            allowed="devicePlugin",
            remedy=_OTHER_WAY,
        )
    if pool.min_nodes == 0 and not pool.placement.selects_nodes:
        problems.add(
            f"{pool.path}.nodes.min",
            "0 nodes and `allocation: dra`: the autoscaler does not know the devices of a node that is not there (E09)",
            allowed="1 or more",
            remedy="Write `min: 1`, or `allocation: devicePlugin` for this pool.",
        )
    if pool.labels.get(DEVICE_PLUGIN_SWITCH, "false") != "false":
        problems.add(
            f"{pool.path}.labels.{DEVICE_PLUGIN_SWITCH}",
            "would have the device plugin serve the same GPUs as the DRA driver (E06)",
            allowed="false, or nothing",
            remedy="Remove it: the plan sets the label.",
        )


def _check_sharing(pool: Pool, sharing: Sharing, problems: Problems) -> None:
    path = f"{pool.path}.sharing"
    if sharing.needs_mps_daemon:
        problems.add(
            path,
            f'"{pool.sharing}" is MPS, which the DRA driver excludes together with shares of a GPU (E03)',
            allowed="exclusive, timeSlicing or mig",
            remedy=f"Declare timeSlicing. Or: {_OTHER_WAY}",
        )
    elif sharing.partitioned and sharing.replication:
        problems.add(
            path,
            f'"{pool.sharing}" shares MIG instances: the first claim takes an instance whole, and others wait for ever (E04)',
            allowed="mig without timeSlicing",
            remedy=f"Declare MIG instances that are not shared. Or: {_OTHER_WAY}",
        )
