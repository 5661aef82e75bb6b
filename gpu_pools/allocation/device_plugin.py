"""The device plugin: its config file, with one key per distinct declaration.

Keys end in a hash of what they name, so that a changed declaration is a new key: the node label changes with it, and the operands
reload (the device plugin's config-manager reacts to the label, never to an edited ConfigMap). Equal declarations share one key,
whatever their names. Only the text of MIG declarations contains the cluster's MIG strategy, since only their resources are named
after it. So a declaration never changes the key of another pool, unless it renames that pool's resources.

MIG layouts reach the nodes through mig-manager (gpu_pools/allocation/mig_parted.py).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from gpu_pools.hardware.resource_names import WHOLE_GPU, mig_resource

if TYPE_CHECKING:
    from gpu_pools.sharing.mode import Replicated, Sharing

DEVICE_PLUGIN_CONFIG_MAP: Final = "gpu-pools-device-plugin"
HASH_LENGTH: Final = 8

FlagMigStrategy = Literal["single", "mixed"]

#: On GPUs without MIG all strategies are one (device plugin v0.19.0, internal/rm, internal/lm/mig-strategy.go), but MPS under
#: `mixed` is refused (cmd/nvidia-device-plugin/main.go).
STRATEGY_WITHOUT_MIG: Final[FlagMigStrategy] = "single"


@lru_cache(maxsize=1024)
def device_plugin_config(sharing: Sharing, mig_strategy: FlagMigStrategy) -> tuple[str, str]:
    """(key, YAML text) of the device plugin's config file for one declaration.

    Args:
        sharing: the declaration.
        mig_strategy: the cluster's; it decides the names of MIG resources, and says nothing of other declarations.
    """
    if not sharing.partitioned:
        mig_strategy = STRATEGY_WITHOUT_MIG
    document: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": mig_strategy}}
    replicated = _replicated(sharing, mig_strategy)
    if replicated:
        document["sharing"] = replicated
    text = yaml.safe_dump(document, sort_keys=False)
    return f"{sharing.slug()}-{digest(text)}", text


def _replicated(sharing: Sharing, mig_strategy: FlagMigStrategy) -> dict[str, Any]:
    replication = sharing.replication
    if replication is None:
        return {}
    replicas = _replicas(sharing) if sharing.partitioned and mig_strategy == "mixed" else {WHOLE_GPU: replication.replicas}
    return {replication.plugin_key: _resources(replication, replicas)}


def _resources(shared: Replicated, replicas: dict[str, int]) -> dict[str, Any]:
    # Both switches are always written out: their defaults differ by strategy and by device-plugin version.
    return {
        "renameByDefault": shared.rename_by_default,
        "failRequestsGreaterThanOne": shared.fail_requests_greater_than_one,
        "resources": [{"name": name, "replicas": count} for name, count in replicas.items()],
    }


def _replicas(sharing: Sharing) -> dict[str, int]:
    """Resource name -> replicas, of the MIG profiles that are shared."""
    profiles = sorted({profile for layout in sharing.layouts for profile, _ in layout})
    shared = {profile: sharing.replication_of(profile) for profile in profiles}
    return {mig_resource(profile): one.replicas for profile, one in shared.items() if one}


def digest(text: str) -> str:
    """Return the short content hash at the end of config keys and in rollout annotations."""
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
