"""A program of somebody who has installed the wheel, for a type checker: the last line is wrong, and nothing else."""

from gpu_pools.components.sharing import TimeSlicing
from gpu_pools.plan.planned import Plan


def pools(plan: Plan) -> list[str]:
    """Names of pools that share by time-slicing."""
    TimeSlicing("right", {"replicas": 4, "needs": {"memory_per_replica": "12Gi"}})
    return [pool.name for pool in plan.pools]


TimeSlicing("wrong", {"replicas": "four"})
