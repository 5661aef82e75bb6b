"""What chosen versions of the chart and its operands would undo: the driver, the device plugin, GFD, mig-manager.

The newest chart brings versions that do all that the plan says. A stack may choose an older chart, or name other versions in
``gpu-pools:operator.values``, and where such a version is known to do something else, the expectation would be false: that is
refused, or, where it only changes what pods may ask for, a warning. Images under other names are not looked at.

Of the charts the last four minor versions are known (gpu_pools/stack/charts); for another one there is a file of the user's
own. Steps between versions are not judged here: a plan knows one version (gpu_pools/plan/operator_upgrade.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.operands import documented_kubernetes, overridden, parse_version, since, version_text
from gpu_pools.rendering.startup_taint import refusal
from gpu_pools.stack.allocation import DRA
from gpu_pools.stack.doubtful_values import driver_of_nobody, strategy_without_cdi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.hardware.models import Version
    from gpu_pools.hardware.operands import Operand
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

_CHART: Final = "gpu-pools:operator.version"
_UNCHECKED: Final = "cannot be checked before the deploy"


def check_operands(pool: Pool, sharing: Sharing, settings: Settings, strategy: str, owner: str, problems: Problems) -> list[str]:
    """Problems of one pool with overridden versions; returns its warnings.

    Args:
        pool: the pool.
        sharing: its declaration.
        settings: the stack's.
        strategy: the MIG strategy of the cluster.
        owner: who partitions the pool's GPUs.
        problems: are added to.
    """
    warnings = []
    for operand, feature, consequence in sharing.operand_features(strategy, owner):
        if settings.operator.adopted:
            first = version_text(since(feature))
            warnings.append(
                f"the operator that is there must bring {operand} {first} or newer, else {consequence}; it {_UNCHECKED}"
            )
        text, where = installed_operand(settings, operand)
        if text is None:
            continue
        version, first = parse_version(text), version_text(since(feature))
        if version is None:
            warnings.append(f"{operand}.version {text} tells no version: whether it is {first} or newer {_UNCHECKED}")
        elif version < since(feature):
            problems.add(
                where,
                f'{_named(text, where, operand)} is too old for pool "{pool.name}": {consequence}',
                allowed=f"{first} or newer",
                remedy=_newer(where),
            )
    drivers = (*_driver(pool, sharing, settings, problems), *_minimum(pool, settings, problems))
    return [*warnings, *drivers, *_requests(sharing, settings)]


def first_offer_warnings(pool: Pool, sharing: Sharing, settings: Settings) -> Iterator[str]:
    """Warn where a pod that waits for a GPU may get a whole one from a new node: its device plugin serves the default first."""
    version = parse_version(installed_operand(settings, "devicePlugin")[0] or "")
    first = version is not None and version >= since("devicePlugin.defaultFirst")
    shared = sharing.replication_of(None)
    if settings.allocation(pool) == DRA:
        return
    if shared is None or not (first and pool.autoscaled) or settings.verification.startup_taint:
        return
    remedy = f"have them select nodes by nvidia.com/gpu.sharing-strategy={shared.node_label}"
    if not refusal(settings.cluster):
        remedy = f"set gpu-pools:verification.startupTaint, or {remedy}"
    yield f"a new node serves whole GPUs for a moment, and a pod that waits may get one (W50): {remedy}"


def installed_operand(settings: Settings, operand: Operand) -> tuple[str | None, str]:
    """Tell which version of an operand the operator installs, and which key of the stack decides it.

    Returns:
        The version as it is written and the key's path; None and nothing for an operator of another owner, and None where
        nothing tells the version.
    """
    chart = settings.operator.chart
    if settings.operator.adopted:
        return None, ""
    if (text := overridden(chart.values, operand)) is not None:
        return text, f"gpu-pools:operator.values.{operand}.version"
    return chart.operands.get(operand), _CHART


def _named(text: str, where: str, operand: Operand) -> str:
    return f"it brings {operand} {text}, which" if where == _CHART else text


def _newer(where: str) -> str:
    if where == _CHART:
        return "Take a newer version of the operator, or share these GPUs otherwise."
    return "Leave it out: the chart brings a newer one."


def refuses_two(sharing: Sharing, settings: Settings) -> bool:
    """Whether an overridden device plugin refuses requests for two replicas although the declaration allows them."""
    version = parse_version(installed_operand(settings, "devicePlugin")[0] or "")
    allowed = sharing.needs_mps_daemon and not (sharing.replication and sharing.replication.fail_requests_greater_than_one)
    return allowed and version is not None and version < since("devicePlugin.mpsMany")


def _driver(pool: Pool, sharing: Sharing, settings: Settings, problems: Problems) -> Iterator[str]:
    if pool.hardware is None:
        return
    needed = sharing.drivers(pool.hardware.model)
    if not needed:
        return
    what, first = max(needed.items(), key=lambda entry: entry[1])
    if (pool.driver or settings.operator.driver) == "preinstalled":
        yield f"{what} needs NVIDIA driver {version_text(first)} or newer: whether the image has it {_UNCHECKED}"
        return
    if settings.operator.adopted:
        owner = "the operator that is there installs it"
        yield f"{what} needs NVIDIA driver {version_text(first)} or newer: whether {owner} {_UNCHECKED}"
        return
    text, where = installed_operand(settings, "driver")
    version = parse_version(text or "")
    if text is not None and (version is None or _tells_branch_only(text, first)):
        yield f"driver.version {text} tells no version: whether it is {version_text(first)} or newer {_UNCHECKED}"
    elif version is not None and version < first:
        problems.add(
            where,
            f'{_named(text or "", where, "driver")} is too old for pool "{pool.name}": {what} came with a later driver',
            allowed=f"{version_text(first)} or newer",
            remedy="Name a newer one in gpu-pools:operator.values.driver.version." if where == _CHART else _newer(where),
        )


def _minimum(pool: Pool, settings: Settings, problems: Problems) -> Iterator[str]:
    """The declared minimum against the driver that the operator installs; what an image has, only its nodes can tell."""
    if pool.minimum.driver is None and pool.minimum.cuda is None:
        return
    if not settings.verification.enabled:
        yield "only the verification holds the nodes against `minimum`, and this stack has none (gpu-pools:verification)"
    least = parse_version(pool.minimum.driver or "")
    if least is None or (pool.driver or settings.operator.driver) == "preinstalled":
        return
    text, _ = installed_operand(settings, "driver")
    version = parse_version(text or "")
    if text is None or version is None or _tells_branch_only(text, least):
        which = text or "of a version that no source gives"
        yield f"the operator installs driver {which}: whether it is {pool.minimum.driver} or newer {_UNCHECKED}"
    elif version < least:
        problems.add(
            f"{pool.path}.minimum.driver",
            f"{pool.minimum.driver} is newer than the driver that the operator installs, {text}",
            allowed=f"{text} or older",
            remedy="Name a newer driver in gpu-pools:operator.values.driver.version, or ask for an older one.",
        )


def _tells_branch_only(text: str, first: Version) -> bool:
    """Precompiled drivers are named by their branch: 570 may be 570.133.20 or older."""
    return text.isdecimal() and (int(text),) == first[:1] and any(first[1:])


def _requests(sharing: Sharing, settings: Settings) -> Iterator[str]:
    if refuses_two(sharing, settings):
        text, _ = installed_operand(settings, "devicePlugin")
        yield (
            f"device plugin {text} forces failRequestsGreaterThanOne under MPS: pods that ask for two replicas are refused; "
            f"false is honoured from {version_text(since('devicePlugin.mpsMany'))} on (D11)"
        )


# --- the chart ----------------------------------------------------------------------------------------------------

#: The chart's value by which the nodes of a cluster that stays are cleaned (gpu_pools/rendering/node_cleanup.py).
HOOKS = "extraObjects"


def chart_warnings(settings: Settings, driver: str) -> Iterator[str]:
    """What of the chosen chart, and of the values for it, works otherwise than it seems, or cannot be known.

    Args:
        settings: the stack's.
        driver: who installs the driver and the toolkit.
    """
    chart = settings.operator.chart
    if settings.operator.adopted:
        return
    if chart.own:
        yield (
            f"gpu-operator {chart.version} is known by its default values alone: whether it means by them what the plan means "
            "cannot be checked before the deploy"
        )
    if settings.cluster.was_there and HOOKS not in chart.keys:
        yield (
            f"gpu-operator {chart.version} has no value {HOOKS}, so nothing cleans the nodes when the stack goes: labels and "
            "annotations of the operator stay on them (W48)"
        )
    yield from _kubernetes(settings)
    if driver == "operator":
        yield from _doubtful(settings)


def _doubtful(settings: Settings) -> Iterator[str]:
    """Values of the user's own that leave pods, or nodes, without a driver (W93, W94)."""
    chart = settings.operator.chart
    found = [strategy_without_cdi(chart.values, parse_version(chart.version)), driver_of_nobody(chart.values)]
    for one in found:
        if one is not None:
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one.place)
            yield f"gpu-pools:operator.values{place}: {one.what}: {one.why}. {one.remedy}"


def _kubernetes(settings: Settings) -> Iterator[str]:
    chart, cluster = settings.operator.chart, settings.cluster
    documented = documented_kubernetes(chart.version)
    version = parse_version(cluster.kubernetes_version or "")
    if documented is None or version is None or documented[0] <= version[:2] <= documented[1]:
        return
    oldest, newest = map(version_text, documented)
    has = version_text(version[:2])
    yield f"gpu-operator {chart.version} is documented for Kubernetes {oldest} to {newest}, and the cluster has {has}"
