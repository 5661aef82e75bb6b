"""gpu-pools: declare how GPUs are shared, per node pool, and have it planned, applied and proven.

Nothing in here imports Pulumi. Only `images` and `evidence` ask anybody, registries and a cluster; the rest computes. What is
planned here components/ place, policies/ judge, and `gpu_pools.verifier`, which stands alone, compares with the hardware.

The packages, from the lowest: `text`, `hardware`, `mig`, `stack`, `clouds`, `images`, `rendering`, `plan`, `proof`; beside them
`existing`, `evidence`, `changes`; on top `cli`.
"""

__version__ = "0.1.0"
