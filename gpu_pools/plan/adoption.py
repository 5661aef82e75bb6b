"""What a stack does with what it has not made: an operator, an NFD, node groups and pools that are there already.

An operator or an NFD of another owner cannot be made to do everything, and of such an operator only a part is changed. Who says
that they are there, and why a second one is never installed, is in gpu_pools/stack/adoption.py. A pool that is only held as it
was imported is not changed at all: an edit of it becomes problems, and nothing is sent to a cloud.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.plan.expectation import derived_mig_strategy
from gpu_pools.platforms.known import platform_of
from gpu_pools.stack.adoption import OPERATOR
from gpu_pools.stack.cluster import Cluster
from gpu_pools.stack.imported import ADOPTION, IMPORTED
from gpu_pools.text.errors import Problem, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems


def check_adoption(settings: Settings, problems: Problems) -> None:
    """What an operator that is there already cannot be made to do."""
    if not settings.operator.adopted:
        return
    if not settings.cluster.was_there and settings.cluster.starts_bare:
        problems.add(
            OPERATOR,
            "false, and an AKS cluster that the stack makes comes without GPU operator",
            allowed="true, or left out",
            remedy="Leave it out.",
        )
    uses_mps = any(sharing.needs_mps_daemon for _, sharing in settings.shared_pools())
    if uses_mps and derived_mig_strategy(settings) == "mixed":
        problems.add(
            OPERATOR,
            "false, and MPS beside mixed MIG needs a ClusterPolicy that names no MIG strategy",
            allowed="true, or a stack without that combination",
            remedy="Share by time-slicing instead of MPS, or use uniform layouts: what the ClusterPolicy says already "
            "can be changed, but not taken away.",
        )


def adoption_warnings(pool: Pool, settings: Settings) -> Iterator[str]:
    """What cannot be known of an NFD that is there already."""
    cluster = settings.cluster
    by_nfd = cluster.taints_by_nfd
    if settings.nfd.adopted and by_nfd and pool.taints:
        yield (
            "its taints are set by NFD, which is not installed by this stack: they reach the nodes only where its owner has set "
            "master.enableTaints (capi-helm-charts leaves it off)"
        )


def check_adopted_groups(settings: Settings, problems: Problems) -> None:
    """What a node group that was made by hand can never get."""
    problem = platform_of(settings.cluster).adopted_group_problem()
    if problem is None or not settings.verification.startup_taint:
        return
    message, allowed, remedy = problem
    for pool in settings.pools:
        if pool.adopted:
            problems.add(f"{pool.path}.adopted", message, allowed=allowed, remedy=remedy)


def adopted_warnings(pool: Pool, settings: Settings) -> Iterator[str]:
    """What a pool that was made by hand cannot be given, and is therefore only told."""
    by_kubelets = settings.cluster.taints_by_kubelets
    if pool.adopted and by_kubelets and pool.taints:
        yield (
            "its taints are those that its kubelets register with since it was made by hand; here they are only tolerated, and "
            "another one needs another group"
        )


def imported_warnings(settings: Settings) -> Iterator[str]:
    """What a stack that only holds pools does not do, although it is written in its file."""
    if settings.imported:
        yield (
            f"{ADOPTION} is {IMPORTED}: pools are in the state; nothing is made or changed. Labels, tags, sharing, "
            "operator, NFD and verification are what the file says for later; a change of a pool is refused. Take the "
            "section out to have all of it managed"
        )


def cluster_warnings(settings: Settings, driver: str) -> Iterator[str]:
    """What of the cluster cannot be known before the deploy, and stops the operator; `driver`: who installs it."""
    if settings.imported:
        return
    if settings.nfd.adopted:
        yield (
            "the NFD that is there must publish pci-10de.present and system-os_release of its GPU nodes; without the latter the "
            "operator makes no DaemonSet at all, and that cannot be checked before the deploy (W40)"
        )
    # Where the cloud installs the driver, its image may bring a class of another name.
    own_class = settings.cluster.runtime_class != Cluster.runtime_class and driver != "operator"
    if settings.cluster.was_there and not settings.operator.adopted and not own_class:
        yield (
            "a RuntimeClass nvidia that the cluster has already is taken over by the operator, and goes with it; one with "
            "another handler stops the operator, since handlers cannot be changed (W41)"
        )


def cluster_policy_changes(values: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the ``spec`` of an existing ClusterPolicy that the plan decides.

    Args:
        values: what the plan gives the operator's chart.
    """
    plugin, manager = values["devicePlugin"]["config"], values["migManager"]
    return {
        "daemonsets": {"tolerations": values["daemonsets"]["tolerations"]},
        "driver": {"enabled": values["driver"]["enabled"]},
        "toolkit": {"enabled": values["toolkit"]["enabled"]},
        "mig": {"strategy": values["mig"]["strategy"]},
        "devicePlugin": {"config": {"name": plugin["name"], "default": plugin["default"]}},
        "migManager": {
            "enabled": manager["enabled"],
            **({"env": manager["env"]} if "env" in manager else {}),
            "config": {"name": manager["config"]["name"], "default": manager["config"]["default"]},
        },
    }


# --- pools that are only held as they were imported ---------------------------------------------------------------

#: How the name of the hook ends that refuses the update of such a pool.
HELD: Final = "-held"


def changed(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Problem]:
    """A problem for each property that would be another.

    Args:
        what: the pool, for messages.
        old: its inputs in the state.
        new: those that the program asks for.
    """
    different = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return [
        Problem(
            f"{what}: {key}",
            f"would be {_shown(new.get(key))}, and {ADOPTION} is {IMPORTED}: nothing of the pool is changed",
            f"{_shown(old.get(key))}, as it was imported",
            f"Take `{ADOPTION}` out first, and deploy that; or, where somebody else has changed the pool, write what it has now "
            "and run `pulumi refresh`.",
        )
        for key in different
    ]


def _shown(value: object) -> str:
    """A whole number as one: the engine hands over all numbers as floats."""
    return show(int(value) if isinstance(value, float) and value.is_integer() else value)
