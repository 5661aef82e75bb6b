"""The section ``gpu-pools:adoption``: whether pools that were imported are managed yet, or only held as they are.

Two states. `imported`: the engine has the pools in its state and compares them with the stack file; nothing is made in the
cluster, and nothing of a pool is changed. `managed`, which is also what no section means: the stack is what any other is. So an
import brings no change of its own, and the day on which labels, operator and verifiers come is one that somebody chooses.

It is one word for the whole stack: what labels name is in ConfigMaps that all pools of a cluster share, and the operator that
reads them is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.pools import Pool
    from gpu_pools.text.errors import Problems

ADOPTION: Final = "gpu-pools:adoption"
IMPORTED: Final = "imported"
MANAGED: Final = "managed"


def parse_adoption(value: object, path: str, problems: Problems) -> bool:
    """Whether pools are only held as they were imported."""
    if value is not None and value not in (IMPORTED, MANAGED):
        problems.add(
            path,
            f"{show(value)} is not a state of adopted pools",
            allowed=f"{IMPORTED} | {MANAGED}",
            remedy=f"Write `{IMPORTED}` to have them as they are, or leave the section out to have them managed.",
        )
    return value == IMPORTED


def check_imported(cluster: Cluster, pools: Sequence[Pool], problems: Problems) -> None:
    """That nothing is to be only held that was never imported."""
    if not cluster.adds_pools_only:
        problems.add(
            ADOPTION,
            f"{IMPORTED}, and nothing of this cluster can have been imported",
            allowed=f"{MANAGED}, or left out, unless the pools are those of an AKS or Magnum cluster that is `existing`",
            remedy="Leave the section out.",
        )
        return
    for pool in pools:
        if not pool.adopted:
            problems.add(
                f"{pool.path}.adopted",
                f"is not true, and {ADOPTION} is {IMPORTED}: the stack would have to make this pool, and makes nothing yet",
                allowed="true, of every pool of such a stack",
                remedy=f"Take `{ADOPTION}` out first and deploy; then add the pool.",
            )
