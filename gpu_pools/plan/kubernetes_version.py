"""Which version of Kubernetes a stack needs, held against that of its cluster where it is known.

What only one platform knows, such as the images of its nodes, its own class adds (gpu_pools/platforms/platform.py). What MPS
needs is in gpu_pools/plan/mps_support.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.operands import parse_version
from gpu_pools.plan.mps_support import too_old_for_signal
from gpu_pools.platforms.known import platform_of
from gpu_pools.rendering.startup_taint import LEAST_KUBERNETES
from gpu_pools.text.errors import Problem, Problems

if TYPE_CHECKING:
    from gpu_pools.hardware.models import Version
    from gpu_pools.stack.settings import Settings

#: Bound tokens of pods that name their node: on by default since then (gpu_pools/proof/verifier_rights.py).
LEAST_FOR_VERIFIERS: Final = "1.30"


def check_kubernetes(settings: Settings, version: str | None, whose: str) -> list[Problem]:
    """List what of the stack needs a newer Kubernetes than a cluster has, or will have.

    Args:
        settings: of the stack.
        version: of the cluster, such as 1.34.2; None where it is not known.
        whose: how a message names the origin of the version.
    """
    has = parse_version(version or "")
    if version is None or has is None:
        return []
    problems = Problems()
    if settings.verification.startup_taint and has < _numbers(LEAST_KUBERNETES):
        problems.add(
            "gpu-pools:verification.startupTaint",
            f"needs Kubernetes {LEAST_KUBERNETES}, and {whose} {version}",
            allowed=f"true in a cluster of Kubernetes {LEAST_KUBERNETES} or newer",
            remedy="Leave it out; the deploy still waits until the nodes have passed.",
        )
    if problem := too_old_for_signal(settings, version, whose):
        problems.add(problem.path, problem.message, allowed=problem.allowed, remedy=problem.remedy)
    if settings.verification.enabled and has < _numbers(LEAST_FOR_VERIFIERS):
        problems.add(
            "gpu-pools:verification",
            f"needs Kubernetes {LEAST_FOR_VERIFIERS}, whose tokens of pods name their node, and {whose} {version}",
            allowed=f"a cluster of Kubernetes {LEAST_FOR_VERIFIERS} or newer",
            remedy="Upgrade the cluster, or leave the section out.",
        )
    platform_of(settings.cluster).check_kubernetes(settings, version, whose, problems)
    return list(problems.found)


def _numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))
