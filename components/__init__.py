"""Pulumi components that place what gpu_pools planned: clusters, GPU node pools, node labels, the GPU operator.

Thin on purpose: what the pools mean is computed in gpu_pools before the first resource is registered. Import the module that is
needed, not this package: each cloud's SDK is loaded only by the module that uses it. The modules do without
``from __future__ import annotations``, which Pulumi's schema analyzer cannot read.
"""
