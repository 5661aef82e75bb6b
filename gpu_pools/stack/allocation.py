"""Through what pods get GPUs: the device plugin, or resource claims, which Kubernetes calls dynamic resource allocation (DRA).

A cluster says it for all of its pools, and a pool may differ. `sharing` keeps its words; how a declaration reaches Kubernetes by
either way is the business of gpu_pools/allocation. The words can become the GPU operator's own node label
``nvidia.com/gpu-operator.resource-allocation.mode``, whose values in its sources are ``device-plugin`` and ``dra``
(NVIDIA/gpu-operator, internal/state/state_skel.go of v26.7.0).
"""

from __future__ import annotations

from typing import Final, Literal

from gpu_pools.reading.fields import one_of

Allocation = Literal["devicePlugin", "dra"]

DEVICE_PLUGIN: Final[Allocation] = "devicePlugin"
DRA: Final[Allocation] = "dra"
#: How the key is read, of a cluster and of a pool.
ALLOCATION: Final = one_of((DEVICE_PLUGIN, DRA))
#: Of a cluster's row.
CLUSTER_SAYS: Final = "Through what pods get GPUs: devicePlugin or dra; devicePlugin by default."
CLUSTER_DOC: Final = (
    "Through what pods get GPUs: `devicePlugin` (default), or `dra`: [resource claims](../dra.md), which need Kubernetes 1.36. A "
    "pool may say something else."
)
#: Of a pool's row.
POOL_SAYS: Final = "Through what pods get GPUs: devicePlugin or dra; as the cluster says by default."
POOL_DOC: Final = (
    "Through what pods get the pool's GPUs: `devicePlugin` or `dra` ([resource claims](../dra.md)); by default as the cluster "
    "says."
)
