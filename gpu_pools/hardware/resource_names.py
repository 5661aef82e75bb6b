"""The extended resources under which NVIDIA's device plugin advertises GPUs and MIG instances.

Sources: NVIDIA/k8s-device-plugin v0.19.0, internal/resource and api/config/v1; its README, "Shared access to GPUs".
"""

from __future__ import annotations

from typing import Final

#: A GPU that is not partitioned; under MIG strategy single also each MIG instance.
WHOLE_GPU: Final = "nvidia.com/gpu"
#: The prefix of the resources of MIG instances under MIG strategy mixed; the profile follows.
MIG_RESOURCE: Final = "nvidia.com/mig-"


def mig_resource(profile: str) -> str:
    """Return the resource of a MIG profile's instances under MIG strategy mixed."""
    return MIG_RESOURCE + dotted(profile)


def dotted(profile: str) -> str:
    """Return a MIG profile's name as it appears in resources and labels, where Kubernetes allows no plus sign."""
    return profile.replace("+", ".")
