"""gpu-pools: declare how GPUs are shared, per node pool, and have it planned, applied and proven.

Nothing in here imports Pulumi, and nothing below the commands talks to a cloud: components/ place what the plan computes,
policies/ judge it, `gpu_pools.verifier` compares it with the hardware. The packages, from the lowest: `text`, `hardware`, `mig`,
`stack`, `clouds`, `images`, `rendering`, `plan`, `proof`; beside them `existing`, `evidence`, `changes`; on top `cli`.
"""

__version__ = "0.1.0"
