"""Says what to do where a chart's namespace or release is somebody else's already.

Kubernetes and Helm refuse to make what exists, so nothing is installed twice; but their words do not say what to write instead.
Only clusters that may have an operator of their own are watched: those that exist, and those of Magnum's capi-helm driver.
"""

import pulumi

from gpu_pools.stack.adoption import REMEDY
from gpu_pools.stack.clusters import ClusterSettings, ExistingSettings, MagnumSettings

from . import _log

#: The API server of a namespace; Helm of a release, and of a chart's object.
_REFUSALS = (
    "already exists",
    "cannot re-use a name that is still in use",
    "exists and cannot be imported into the current release",
)


def tells_of_another_owner(name: str, cluster: ClusterSettings) -> pulumi.ResourceHookBinding | None:
    """Hooks for a namespace or release that may be there already.

    Args:
        name: unique among the hooks of the program.
        cluster: where it goes.
    """
    if not (isinstance(cluster, ExistingSettings) or (isinstance(cluster, MagnumSettings) and cluster.driver == "capi-helm")):
        return None
    return pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(f"{name}-another-owner", _tell)])


def _tell(failed: pulumi.ErrorHookArgs) -> bool:
    """Log the remedy; never try again."""
    if any(refusal in error for error in failed.errors for refusal in _REFUSALS):
        _log.error(f"{failed.name}: {REMEDY}")
    return False
