"""What Azure does by itself on an AKS cluster: upgrades, when they may be, and scaling.

Rules: azure-aks-docs at fb060abe (auto-upgrade-cluster, auto-upgrade-node-os-image, planned-maintenance, cluster-autoscaler).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import Kind, Row, flag, one_of, read_inner, row, text, whole_number

if TYPE_CHECKING:
    from gpu_pools.reading.section import Section

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DURATION: Final = text(r"\d+(s|m|h)", 'a time with its unit, e.g. "10m"')
_COUNT: Final = text(r"\d{1,6}", 'a number in quotes, e.g. "10"')
_SAID: Final = one_of(("true", "false"), 'Write "true" or "false" in quotes, as Azure has it.')


@dataclass(frozen=True)
class Upgrades:
    """Upgrades that Azure makes by itself."""

    channel: str | None = row(
        "none, patch, stable, rapid or node-image.",
        one_of(("none", "patch", "stable", "rapid", "node-image")),
        sets="autoUpgradeProfile.upgradeChannel",
        change="updates",
        doc="Of Kubernetes: `none`, `patch`, `stable`, `rapid` or `node-image`. With `stable` or `rapid` no "
        "`kubernetesVersion` is written, with `patch` one without a patch: Azure would refuse to go back.",
    )
    node_os_channel: str | None = row(
        "None, Unmanaged, SecurityPatch or NodeImage.",
        one_of(("None", "Unmanaged", "SecurityPatch", "NodeImage")),
        sets="autoUpgradeProfile.nodeOSUpgradeChannel",
        change="updates",
        doc="Of node images: `None`, `Unmanaged`, `SecurityPatch` or `NodeImage`, Azure's default: GPU nodes are drained weekly.",
    )


@dataclass(frozen=True)
class Window:
    """When Azure may do it: weekly, or daily where no day is named."""

    day: str | None = row("Day of the week; without one: every day.", one_of(DAYS))
    every: int | None = row("Every how many weeks, or days; 1 by default.", whole_number(1, 7))
    start_time: str | None = row(
        "When it begins, e.g. 02:00.", text(r"([01]\d|2[0-3]):[0-5]\d", 'a time in quotes, e.g. "02:00"'), needed=True
    )
    duration_hours: int | None = row("For how many hours, 4 to 24.", whole_number(4, 24), needed=True)
    utc_offset: str | None = row(
        "From UTC, e.g. +01:00; none by default.", text(r"[+-]([01]\d|2[0-3]):[0-5]\d", 'an offset in quotes, e.g. "+01:00"')
    )
    start_date: str | None = row(
        "From which day on, e.g. 2027-01-31.",
        text(r"20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", 'a day in quotes, "2027-01-31"'),
    )


def _window(section: Section, one: Row) -> Window | None:
    window = read_inner(Window, section, one, "a mapping with day, startTime and durationHours")
    if window and window.day and (window.every or 1) > 4:  # noqa: PLR2004 - weeks, as the API has it
        section.problems.add(
            f"{section.at(one.key)}.every", f"{window.every} weeks are too many", allowed="1 to 4 weeks", remedy="Choose fewer."
        )
    return window


@dataclass(frozen=True)
class Maintenance:
    """When Azure may upgrade by itself; resources of their own beside the cluster."""

    cluster_upgrade: Window | None = row(
        "For upgrades of Kubernetes; needs upgrades.channel.",
        Kind(_window, Window),
        doc="For upgrades of Kubernetes (`aksManagedAutoUpgradeSchedule`); needs `upgrades.channel`.",
    )
    node_os_upgrade: Window | None = row(
        "For node images.", Kind(_window, Window), doc="For node images (`aksManagedNodeOSUpgradeSchedule`)."
    )


def _scaler(name: str, kind: Kind, says: str) -> str | None:
    found: str | None = row(says, kind, sets=f"autoScalerProfile.{name}", change="updates")
    return found


@dataclass(frozen=True)
class Autoscaler:
    """The cluster autoscaler, the same for all pools. Most values are texts, as Azure has them."""

    expander: str | None = _scaler(
        "expander", one_of(("least-waste", "most-pods", "priority", "random")), "How it chooses among pools."
    )
    scan_interval: str | None = _scaler("scanInterval", _DURATION, "How often it looks.")
    balance_similar_node_groups: str | None = _scaler("balanceSimilarNodeGroups", _SAID, "Keep similar pools alike.")
    max_node_provision_time: str | None = _scaler(
        "maxNodeProvisionTime", text(r"\d+m", 'minutes, e.g. "15m"'), "How long a node may take; large GPU machines take long."
    )
    new_pod_scale_up_delay: str | None = _scaler("newPodScaleUpDelay", _DURATION, "How old pods must be.")
    scale_down_delay_after_add: str | None = _scaler("scaleDownDelayAfterAdd", _DURATION, "Rest after a node was added.")
    scale_down_delay_after_delete: str | None = _scaler("scaleDownDelayAfterDelete", _DURATION, "Rest after a node went.")
    scale_down_delay_after_failure: str | None = _scaler("scaleDownDelayAfterFailure", _DURATION, "Rest after a failure.")
    scale_down_unneeded_time: str | None = _scaler("scaleDownUnneededTime", _DURATION, "How long a node must be idle.")
    scale_down_unready_time: str | None = _scaler("scaleDownUnreadyTime", _DURATION, "How long a node must be unready.")
    scale_down_utilization_threshold: str | None = _scaler(
        "scaleDownUtilizationThreshold",
        text(r"0?\.\d+|0|1(\.0)?", 'a share in quotes, e.g. "0.5"'),
        "Below which a node is idle.",
    )
    max_graceful_termination_sec: str | None = _scaler("maxGracefulTerminationSec", _COUNT, "Seconds that pods have to end.")
    max_empty_bulk_delete: str | None = _scaler("maxEmptyBulkDelete", _COUNT, "Empty nodes that go at once.")
    max_total_unready_percentage: str | None = _scaler(
        "maxTotalUnreadyPercentage", _COUNT, "Percent of nodes that may be unready."
    )
    ok_total_unready_count: str | None = _scaler("okTotalUnreadyCount", _COUNT, "Nodes that may be unready.")
    skip_nodes_with_local_storage: str | None = _scaler("skipNodesWithLocalStorage", _SAID, "Keep nodes with local volumes.")
    skip_nodes_with_system_pods: str | None = _scaler("skipNodesWithSystemPods", _SAID, "Keep nodes with system pods.")
    daemonset_eviction_for_empty_nodes: bool | None = row(
        "Evict DaemonSets' pods of empty nodes.",
        flag(),
        sets="autoScalerProfile.daemonsetEvictionForEmptyNodes",
        change="updates",
    )
    daemonset_eviction_for_occupied_nodes: bool | None = row(
        "Evict DaemonSets' pods of other nodes.",
        flag(),
        sets="autoScalerProfile.daemonsetEvictionForOccupiedNodes",
        change="updates",
    )
    ignore_daemonsets_utilization: bool | None = row(
        "Leave DaemonSets' pods out of a node's use.",
        flag(),
        sets="autoScalerProfile.ignoreDaemonsetsUtilization",
        change="updates",
    )
