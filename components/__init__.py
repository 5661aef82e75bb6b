"""Pulumi components that place what gpu_pools planned: clusters, GPU node pools, node labels, the GPU operator.

Thin on purpose: what the pools mean is computed in gpu_pools before the first resource is registered. A name below is loaded when
it is asked for, since each cloud's SDK takes seconds to load and a program needs one of them. The modules do without
``from __future__ import annotations``, which Pulumi's schema analyzer cannot read.

In a checkout this folder is at the top level and `gpu_pools/components` is a link to it, so that it has one name everywhere.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gpu_pools.components.aks.cluster import AksCluster, AksGpuNodePool
    from gpu_pools.components.aks.existing import ExistingAksCluster
    from gpu_pools.components.existing.cluster import ExistingCluster
    from gpu_pools.components.gpu_operator.dra_driver import DraDriver
    from gpu_pools.components.gpu_operator.node_features import NodeFeatureDiscovery, PoolLabels
    from gpu_pools.components.gpu_operator.operator import GpuOperator
    from gpu_pools.components.gpu_operator.startup_taint import StartupTaint
    from gpu_pools.components.magnum.cluster import MagnumCluster, MagnumGpuNodePool
    from gpu_pools.components.magnum.existing import ExistingMagnumCluster
    from gpu_pools.components.observability.observability import Observability
    from gpu_pools.components.platform import GpuPlatform
    from gpu_pools.components.pools import AksPool, ExistingPool, MagnumPool
    from gpu_pools.components.proof.smoke_test import SharingSmokeTest
    from gpu_pools.components.proof.verification import Verification, Verifier
    from gpu_pools.components.sharing import Exclusive, Mig, Mps, TimeSlicing

__all__ = [
    "AksCluster",
    "AksGpuNodePool",
    "AksPool",
    "DraDriver",
    "Exclusive",
    "ExistingAksCluster",
    "ExistingCluster",
    "ExistingMagnumCluster",
    "ExistingPool",
    "GpuOperator",
    "GpuPlatform",
    "MagnumCluster",
    "MagnumGpuNodePool",
    "MagnumPool",
    "Mig",
    "Mps",
    "NodeFeatureDiscovery",
    "Observability",
    "PoolLabels",
    "SharingSmokeTest",
    "StartupTaint",
    "TimeSlicing",
    "Verification",
    "Verifier",
]

_MODULES: Final = {
    "aks.cluster": ("AksCluster", "AksGpuNodePool"),
    "aks.existing": ("ExistingAksCluster",),
    "existing.cluster": ("ExistingCluster",),
    "magnum.cluster": ("MagnumCluster", "MagnumGpuNodePool"),
    "magnum.existing": ("ExistingMagnumCluster",),
    "observability.observability": ("Observability",),
    "gpu_operator.operator": ("GpuOperator",),
    "gpu_operator.dra_driver": ("DraDriver",),
    "gpu_operator.node_features": ("NodeFeatureDiscovery", "PoolLabels"),
    "gpu_operator.startup_taint": ("StartupTaint",),
    "platform": ("GpuPlatform",),
    "pools": ("AksPool", "ExistingPool", "MagnumPool"),
    "proof.smoke_test": ("SharingSmokeTest",),
    "proof.verification": ("Verification", "Verifier"),
    "sharing": ("Exclusive", "Mig", "Mps", "TimeSlicing"),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class of one of the modules
    """A component, from the module that has it.

    Raises:
        AttributeError: no component has the name.
    """
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
