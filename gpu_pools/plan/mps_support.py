"""How the MPS daemon learns a node's configuration, by the version of the device plugin, and what a stack needs for it.

The daemon reads its configuration when its container starts and when it receives SIGHUP. Who picks the configuration is
config-manager, in the same pod, and NVIDIA's versions of it differ:

- up to v0.18.1 (``restart``) its init container waits for the node's label. A new pod serves what is declared. A later change of
  replicas never reaches the running daemon: it must be restarted.
- v0.18.2 to v0.19.3 (``never``) links the default configuration first, and its signal reaches nobody: the daemon serves nothing.
- from v0.20.0 (``signal``) it links the default first, then the label's configuration, and sends a signal. The operator's
  DaemonSet names the process wrongly, so the signal arrives only with the admission policy of gpu_pools/rendering/mps_signal.py.

Sources: NVIDIA/k8s-device-plugin cmd/config-manager/main.go at v0.17.0 to v0.20.0, its issues #1645, #1726 and #1827;
NVIDIA/gpu-operator assets/state-mps-control-daemon/0400_daemonset.yaml, the same from v25.3.4 to v26.7.0. Second source: the real
programs (tests/sandbox/real). Not here: what MPS itself allows (gpu_pools/plan/checks.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.hardware.operands import documented_kubernetes, parse_version, since, version_text
from gpu_pools.plan.operand_checks import installed_operand
from gpu_pools.rendering.mps_signal import LEAST_KUBERNETES, POLICY
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.hardware.models import Version
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: How a changed configuration reaches the MPS daemon.
MpsUpdate = Literal["restart", "never", "signal"]
#: The newest chart whose device plugin needs no signal.
WITHOUT_SIGNAL: Final = "v25.10.1"
_VERSION: Final = "gpu-pools:operator.values.devicePlugin.version"
_KUBERNETES: Final = "gpu-pools:cluster.kubernetesVersion"
_CHART: Final = "gpu-pools:operator.version"
_ADOPTED: Final = (
    "the installed operator decides whether MPS works: it must bring device plugin v0.20.0 or newer, together with the "
    f"admission policy {POLICY}, or v0.18.1 or older; the deploy checks that, and the verifier proves it (W49)"
)


def mps_update_of(plugin: Version) -> MpsUpdate:
    """Tell how a version of the device plugin updates the MPS daemon."""
    if plugin < since("devicePlugin.defaultFirst"):
        return "restart"
    return "signal" if plugin >= since("devicePlugin.mpsSignal") else "never"


def mps_update(settings: Settings) -> MpsUpdate | None:
    """Tell how the stack's operator updates the MPS daemon; None where the plugin's version is not known before the deploy."""
    version = parse_version(installed_operand(settings, "devicePlugin")[0] or "")
    return None if version is None else mps_update_of(version)


def needs_signal_policy(settings: Settings) -> bool:
    """Whether the stack makes the admission policy: it installs the operator, and a pool with MPS depends on the signal.

    An operator of another owner may run on a cluster whose Kubernetes has no such policy, so there it is checked and reported
    instead (gpu_pools/plan/mps_found.py).
    """
    return mps_update(settings) == "signal" and bool(mps_pools(settings))


def mps_pools(settings: Settings) -> list[Pool]:
    """List the pools that declare MPS."""
    return [pool for pool, sharing in settings.shared_pools() if sharing.needs_mps_daemon]


def check_mps_support(pool: Pool, sharing: Sharing, settings: Settings, problems: Problems) -> list[str]:
    """Refuse an MPS pool that would share nothing; return what the user must know about one that works.

    Args:
        pool: the pool.
        sharing: its declaration.
        settings: the stack's.
        problems: are added to.
    """
    if not sharing.needs_mps_daemon:
        return []
    if settings.operator.adopted:
        return [_ADOPTED]
    update = mps_update(settings)
    if update == "never":
        _add(_refused_plugin(pool, settings), problems)
    # It is about the cluster, so it is reported once.
    if (problem := too_old_for_signal(settings)) and pool is mps_pools(settings)[0]:
        _add(problem, problems)
    return list(_warnings(pool, settings, update))


def too_old_for_signal(settings: Settings, version: str | None = None, whose: str = "the cluster has") -> Problem | None:
    """Tell why a cluster's Kubernetes cannot deliver the signal; None where it can, or is not known.

    Args:
        settings: of the stack.
        version: of Kubernetes, such as ``1.34.2``; None takes the declared one.
        whose: how the message names the origin of `version`.
    """
    cluster = settings.cluster
    has = version or _declared_kubernetes(settings)
    if not needs_signal_policy(settings) or not _is_too_old(has):
        return None
    declared = cluster.declares_version
    other = f"`gpu-pools:operator: {{version: {WITHOUT_SIGNAL}}}`"
    return Problem(
        _KUBERNETES if declared else _CHART,
        f"MPS needs Kubernetes {LEAST_KUBERNETES} with this operator, and {whose} {has}: a MutatingAdmissionPolicy must correct "
        "a wrong process name, or the MPS daemon shares nothing (W49)",
        f"Kubernetes {LEAST_KUBERNETES} or newer, or operator {WITHOUT_SIGNAL}, which needs no policy{_documented()}",
        f'Set kubernetesVersion: "{LEAST_KUBERNETES}", or set {other}.' if declared else f"Upgrade the cluster, or set {other}.",
    )


def _declared_kubernetes(settings: Settings) -> str | None:
    return settings.cluster.kubernetes_version


def _is_too_old(kubernetes: str | None) -> bool:
    has = parse_version(kubernetes or "")
    return has is not None and has < tuple(int(part) for part in LEAST_KUBERNETES.split("."))


def _documented() -> str:
    """For which Kubernetes NVIDIA documents the operator that needs no policy."""
    found = documented_kubernetes(WITHOUT_SIGNAL)
    return f" (Kubernetes {version_text(found[0])} to {version_text(found[1])})" if found else ""


def _add(problem: Problem, problems: Problems) -> None:
    problems.add(problem.path, problem.message, allowed=problem.allowed, remedy=problem.remedy)


def _refused_plugin(pool: Pool, settings: Settings) -> Problem:
    text, where = installed_operand(settings, "devicePlugin")
    named = str(text) if where == _VERSION else f"operator {settings.operator.chart.version} brings device plugin {text}"
    remedy = f"Set {_VERSION}: v0.20.0."
    if _is_too_old(_declared_kubernetes(settings)):
        remedy = f"Set {_CHART}: {WITHOUT_SIGNAL}, and remove other versions of its operands."
    return Problem(
        where,
        f'{named}, whose MPS daemon never receives a configuration: pool "{pool.name}" would share nothing (W49)',
        f"device plugin v0.20.0 or newer on Kubernetes {LEAST_KUBERNETES} or newer, or v0.18.1 or older",
        remedy,
    )


def _warnings(pool: Pool, settings: Settings, update: MpsUpdate | None) -> Iterator[str]:
    if update is None:
        yield (
            "which version of the device plugin runs cannot be told, so nothing makes sure that the MPS daemon receives its "
            f"configuration: set {_VERSION} (W49)"
        )
    if update == "restart" and pool.rollout is None:
        text, _ = installed_operand(settings, "devicePlugin")
        yield (
            f"device plugin {text} passes no change of replicas on to a running MPS daemon: a later change needs a `rollout` of "
            "this pool, which restarts the daemon, and is refused without one (W49)"
        )
    if update == "signal":
        unknown = "" if _declared_kubernetes(settings) else ", which cannot be checked before the deploy"
        yield (
            f"MPS works through the admission policy {POLICY}, which needs Kubernetes {LEAST_KUBERNETES} or newer{unknown}; each "
            "restart of config-manager restarts the MPS daemon and ends its clients (W49)"
        )
