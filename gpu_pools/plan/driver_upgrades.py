"""What the operator is told of how it may replace drivers: `driver.upgradePolicy` of its chart, of what ``driverUpgrade`` says.

The keys are the same from v25.3.4 to v26.7.0 (values.yaml of each). `force` and `deleteEmptyDir` let pods without a controller
and pods with an emptyDir be evicted: without them their node ends as `upgrade-failed` (W71). `drain` stays off: it would evict
pods that hold no GPU, too, and is only reached where the eviction of those that do has failed. Nothing is said where nothing is
declared: what somebody loses by an eviction is theirs to declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_pools.text.nested import at
from gpu_pools.verifier.turns import at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems


def upgrade_policy(settings: Settings) -> dict[str, Any]:
    """Values of the operator's chart below `driver`; empty where nothing is declared."""
    declared = settings.operator.driver_upgrade
    if declared is None:
        return {}
    most = min([declared.max_unavailable, *_budgets(settings).values()])
    seconds = 0 if declared.pods_that_stay == "wait" else declared.drain_seconds
    return {
        "upgradePolicy": {
            "autoUpgrade": True,
            "maxParallelUpgrades": most,
            "maxUnavailable": most,
            "gpuPodDeletion": {"force": True, "deleteEmptyDir": True, "timeoutSeconds": seconds},
        }
    }


def _budgets(settings: Settings) -> dict[str, int]:
    """Pool -> how many of its nodes may change at the same time; of a share, while it has its fewest nodes."""
    return {pool.name: at_once(str(pool.rollout.max_unavailable), pool.min_nodes) for pool in settings.pools if pool.rollout}


def check_driver_upgrade(settings: Settings, problems: Problems) -> None:
    """Refuse to have the same thing declared in two ways."""
    if settings.operator.driver_upgrade and at(settings.operator.chart.values, "driver", "upgradePolicy") is not None:
        problems.add(
            "gpu-pools:operator.values.driver.upgradePolicy",
            "`driver.upgradePolicy` follows from gpu-pools:operator.driverUpgrade",
            allowed="one of the two",
            remedy="Take it out, or leave driverUpgrade out.",
        )


def driver_upgrade_warnings(settings: Settings, driver: str) -> Iterator[str]:
    """What of the declaration does not hold as it is written."""
    declared, budgets = settings.operator.driver_upgrade, _budgets(settings)
    if declared is None:
        return
    if driver != "operator":
        yield "operator.driverUpgrade has no effect: the operator installs no driver here"
    elif budgets and min(budgets.values()) < declared.max_unavailable:
        pool = min(budgets, key=lambda name: budgets[name])
        yield (
            f"operator.driverUpgrade: drivers are replaced on {budgets[pool]} at a time, not on {declared.max_unavailable}: one "
            f"policy holds for the cluster, and pool {pool} allows no more (rollout.maxUnavailable)"
        )
