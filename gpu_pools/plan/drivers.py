"""The driver that the operator installs: what makes its pods, which version nodes must have, and how it may be replaced.

**Its pods.** Where the values that make them differ, drivers are replaced on the nodes (NVIDIA/gpu-operator v25.3.4 to v26.7.0,
controllers/object_controls.go: TransformDriver and what it calls).

**The version that nodes must have.** Nothing is demanded that cannot be known: of an operator of another owner, of a chart
whose driver is not known, of a digest, and where NVIDIADriver objects choose. On a node whose driver was there before the
operator the driver's pod takes itself away (gpu.deploy.driver: pre-installed; NVIDIA/k8s-driver-manager 0c04c810, isHostDriver
in cmd/driver-manager/main.go): such a node lacks the operand, which is a difference already, so it needs no rule here.

**How drivers are replaced.** `driver.upgradePolicy` of the chart follows from ``driverUpgrade``. Its keys are the same from
v25.3.4 to v26.7.0 (values.yaml of each). `force` and `deleteEmptyDir` let pods without a controller and pods with an emptyDir
be evicted: without them their node ends as `upgrade-failed` (W71). `drain` stays off: it would evict pods that hold no GPU,
too, and is only reached where the eviction of those that do has failed. Nothing is said where nothing is declared: what
somebody loses by an eviction is theirs to declare. How long a replacement may take follows as well: so long `up` waits for a
pool's drivers before its nodes are proven (components/proof/operands_first.py).

Which nodes of a running cluster still wait for another driver is in gpu_pools/plan/operands_due.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.nested import at
from gpu_pools.verifier.changer.rollout_slots import at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.plan.planned import Plan
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

# --- its pods, and the version that nodes must have ---------------------------------------------------------------

#: The operator's DaemonSet for it, and the label `app` of that one's pods.
DRIVER_DAEMON_SET: Final = "nvidia-driver-daemonset"
#: Values of the driver that say how it is replaced, not what it is.
_NO_PART_OF_THE_POD: Final = {"enabled", "upgradePolicy"}
#: Modules beside the driver run in its pod.
_BESIDE: Final = ("gds", "gdrcopy")


def driver_pod_values(values: Mapping[str, Any], brought: str | None) -> dict[str, Any]:
    """Those values, and the driver's version also where the chart's own is taken.

    Args:
        values: of the chart.
        brought: the version of the driver that the chart brings; None where that is not known.
    """
    own = {key: value for key, value in (values.get("driver") or {}).items() if key not in _NO_PART_OF_THE_POD}
    return {**own, **{name: values.get(name) for name in _BESIDE}, "version": own.get("version") or brought}


def brought(plan: Plan) -> str | None:
    """The version of the driver that the chart brings; None where it is not known, or is another owner's chart."""
    operator = plan.settings.operator
    return None if operator.adopted else operator.chart.operands.get("driver")


def demanded(plan: Plan) -> str | None:
    """The version, or the branch, that nodes must have because the operator was told to install it; None: any.

    The chart's own counts as one that is written, since nobody else would notice a node that stayed behind at an upgrade of the
    operator; but where upgrades are by hand (autoUpgrade off) nobody has declared when a node gets it.
    """
    driver = plan.operator_values.get("driver") or {}
    if plan.driver != "operator" or at(driver, "nvidiaDriverCRD", "enabled"):
        return None
    own = brought(plan) if replaced_by_itself(plan) else None
    return told_version(driver.get("version") or own)


def driver_pods_digest(plan: Plan) -> str | None:
    """What tells the driver's pods of one plan from those of another, 12 hexadecimal digits.

    None where a deploy has none replaced: an operator of another owner, drivers that are replaced by hand, NVIDIADriver objects.
    """
    by_objects = at(plan.operator_values, "driver", "nvidiaDriverCRD", "enabled")
    if plan.driver != "operator" or plan.settings.operator.adopted or by_objects or not replaced_by_itself(plan):
        return None
    tolerations = at(plan.operator_values, "daemonsets", "tolerations")
    # Another operator makes other pods of the same values.
    made_of = [plan.settings.operator.chart.version, driver_pod_values(plan.operator_values, brought(plan)), tolerations]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:12]


def replaced_by_itself(plan: Plan) -> bool:
    """Whether the operator replaces drivers on living nodes."""
    return at(plan.operator_values, "driver", "upgradePolicy", "autoUpgrade") is not False


def told_version(version: object) -> str | None:
    """What of an image's tag a node can be held against: no digest, and no tag with more in it than numbers."""
    text = str(version or "")
    return text if re.fullmatch(r"\d+(\.\d+)*", text) else None


# --- how it is replaced -------------------------------------------------------------------------------------------

#: What the upgrade controller waits between two looks (plannedRequeueInterval of controllers/upgrade_controller.go); a node took
#: that long with the real v26.7.0 on simulated nodes, whose drivers start at once.
LOOKS_EVERY: Final = 120
#: gpuPodDeletion.timeoutSeconds of the charts from v25.3.4 to v26.7.0.
EVICTION_SECONDS: Final = 300
#: Until the driver's old pod has gone and the new one has its image.
_SLACK_SECONDS: Final = 60


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


def rounds(plan: Plan, nodes: int) -> int:
    """How many rounds it takes until that many nodes have another driver."""
    policy = at(plan.operator_values, "driver", "upgradePolicy")
    parallel = at(policy, "maxParallelUpgrades")
    # 0 is no limit.
    most = [nodes, parallel if isinstance(parallel, int) else 1, _unavailable(policy, nodes)]
    return -(-nodes // min(filter(None, most))) if nodes else 0


def _unavailable(policy: object, nodes: int) -> int:
    """How many nodes may be away at once, rounded up as the controller does it; the CRD's default is a quarter."""
    text = str(at(policy, "maxUnavailable") or "25%")
    if text.removesuffix("%").isdecimal():
        number = int(text.removesuffix("%"))
        return -(-nodes * number // 100) if text.endswith("%") else number
    return nodes


def seconds_per_round(plan: Plan) -> int:
    """How long one round may take: a look of the controller, the eviction, and what any node has to become as declared.

    Where it is waited for pods without an end (``podsThatStay: wait``) that counts as long as they were given.
    """
    declared = plan.settings.operator.driver_upgrade
    evicted = at(plan.operator_values, "driver", "upgradePolicy", "gpuPodDeletion", "timeoutSeconds")
    given = declared.drain_seconds if declared else evicted if isinstance(evicted, int) else EVICTION_SECONDS
    return LOOKS_EVERY + given + plan.settings.verification.deadline_seconds + _SLACK_SECONDS


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
    """What of the declaration does not hold as it is written, and which driver nobody can demand of a node."""
    declared, budgets = settings.operator.driver_upgrade, _budgets(settings)
    if driver == "operator" and not settings.operator.adopted:
        yield from _undemanded(settings)
    if declared is None:
        yield from _written_policy(at(settings.operator.chart.values, "driver", "upgradePolicy"), budgets, driver)
        return
    if driver != "operator":
        yield "operator.driverUpgrade has no effect: the operator installs no driver here"
    elif budgets and min(budgets.values()) < declared.max_unavailable:
        pool = min(budgets, key=lambda name: budgets[name])
        yield (
            f"operator.driverUpgrade: drivers are replaced on {budgets[pool]} at a time, not on {declared.max_unavailable}: one "
            f"policy holds for the cluster, and pool {pool} allows no more (rollout.maxUnavailable)"
        )


def _written_policy(policy: object, budgets: Mapping[str, int], driver: str) -> Iterator[str]:
    """The same of a policy that is written among the chart's values: nothing there keeps to the pools' budgets."""
    if policy is None:
        return
    if driver != "operator":
        yield "operator.values.driver.upgradePolicy has no effect: the operator installs no driver here"
        return
    parallel, away = at(policy, "maxParallelUpgrades"), at(policy, "maxUnavailable")
    least = min(budgets.values(), default=0)
    # The chart's own is one node at a time; 0 is no limit.
    within = not isinstance(parallel, int) or 0 < parallel <= least or (isinstance(away, int) and 0 < away <= least)
    if budgets and not within and at(policy, "autoUpgrade") is not False:
        pool = min(budgets, key=lambda name: budgets[name])
        yield (
            f"operator.values.driver.upgradePolicy: drivers are replaced on {parallel or 'any number of'} nodes at a time, and "
            f"pool {pool} allows {least} (rollout.maxUnavailable): write operator.driverUpgrade instead, which keeps to it"
        )


def _undemanded(settings: Settings) -> Iterator[str]:
    chart = settings.operator.chart
    driver = chart.values.get("driver")
    if at(driver, "version") or at(driver, "nvidiaDriverCRD", "enabled") or not settings.verification.enabled:
        return
    unnoticed = "a node that keeps another one is not noticed; write operator.values.driver.version"
    if told_version(chart.operands.get("driver")) is None:
        yield f"which driver gpu-operator {chart.version} brings is not known, so the verifiers demand none: {unnoticed}"
    elif at(driver, "upgradePolicy", "autoUpgrade") is False:
        yield f"drivers are replaced by hand (autoUpgrade is off), so the verifiers do not demand the chart's own: {unnoticed}"
