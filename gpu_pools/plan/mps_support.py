"""How the MPS daemon learns a node's configuration, by the version of the device plugin, and what a stack needs for it.

The daemon reads its configuration when its container starts and when it receives SIGHUP. Who picks the configuration is
config-manager, in the same pod, and NVIDIA's versions of it differ:

- up to v0.18.1 (``restart``) its init container waits for the node's label. A new pod serves what is declared. A later change
  of replicas never reaches the running daemon: it must be restarted.
- v0.18.2 to v0.19.3 (``never``) links the default configuration first, and its signal reaches nobody: the daemon serves
  nothing.
- from v0.20.0 (``signal``) it links the default first, then the label's configuration, and sends a signal. The operator's
  DaemonSet names the process wrongly, so the signal arrives only with the admission policy of
  gpu_pools/rendering/mps_signal.py.

It is judged twice: of the declared stack, and of a running cluster, which says what device plugin its operator runs, and which
nodes would keep an old split. Pure: objects of the API come in. Who asks a cluster, and when, is
components/gpu_operator/mps_first.py.

Sources: NVIDIA/k8s-device-plugin cmd/config-manager/main.go at v0.17.0 to v0.20.0, its issues #1645, #1726 and #1827;
NVIDIA/gpu-operator assets/state-mps-control-daemon/0400_daemonset.yaml, the same from v25.3.4 to v26.7.0. Second source: the
real programs (tests/sandbox/real). Not here: what MPS itself allows (gpu_pools/plan/checks.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_pools.hardware.operands import documented_kubernetes, overridden, parse_version, since, version_text
from gpu_pools.plan.operand_checks import installed_operand
from gpu_pools.rendering.mps_signal import LEAST_KUBERNETES, POLICY
from gpu_pools.stack.adoption import OPERATOR
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, POOL_LABEL
from gpu_pools.text.errors import Problem
from gpu_pools.text.harmless import line
from gpu_pools.text.nested import at
from gpu_pools.text.pages import apply_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpu_pools.hardware.models import Version
    from gpu_pools.plan.planned import Plan, PoolPlan
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
    instead (`missing_for_mps`).
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


# --- what a running cluster says ----------------------------------------------------------------------------------

#: Label selector of the operator's device plugin, whose image config-manager comes from, too.
PLUGIN_SELECTOR: Final = "app=nvidia-device-plugin-daemonset"
#: Config keys of MPS declarations (gpu_pools/allocation/device_plugin.py).
_MPS_KEY: Final = "mps-"
_SIGNAL: Final = "mps-signal.yaml"
_MOST_NODES: Final = 5


@dataclass(frozen=True)
class FoundOperator:
    """The operator that a cluster runs.

    Attributes:
        plugin: version of its device plugin; None where nothing tells it.
        kubernetes: version of the API server, such as ``1.36``; empty where it did not say.
        corrects: whether a pod of the MPS daemon gets the right process name when it is created; None where that is not known.
    """

    plugin: Version | None
    kubernetes: str
    corrects: bool | None


def plugin_version(daemon_sets: Iterable[Mapping[str, Any]], policies: Iterable[Mapping[str, Any]]) -> Version | None:
    """Tell the version of the device plugin from the operator's DaemonSet, or from its ClusterPolicy before there is one.

    Args:
        daemon_sets: those that `PLUGIN_SELECTOR` selects.
        policies: the ClusterPolicies.
    """
    for one in daemon_sets:
        containers: Any = at(one, "spec", "template", "spec", "containers") or ()
        for container in containers:
            tag = str(container.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[2]
            if (version := parse_version(tag)) is not None:
                return version
    versions = [parse_version(overridden(one.get("spec") or {}, "devicePlugin") or "") for one in policies]
    return next((version for version in versions if version is not None), None)


def missing_for_mps(plan: Plan, found: FoundOperator) -> Problem | None:
    """Tell what an operator of another owner lacks for MPS; None where nothing is known to be missing."""
    if not plan.settings.operator.adopted or found.plugin is None:
        return None
    update, version = mps_update_of(found.plugin), f"v{version_text(found.plugin)}"
    if update == "never":
        return Problem(
            OPERATOR,
            f"the installed operator runs device plugin {version}, whose MPS daemon never receives a configuration (W49)",
            f"device plugin v0.20.0 or newer, with the admission policy {POLICY}; or v0.18.1 or older",
            f"Have its owner set devicePlugin.version to v0.20.0 and run `{apply_command(_SIGNAL)}`, or share them otherwise.",
        )
    if update == "signal" and found.corrects is False:
        return Problem(
            OPERATOR,
            f"the installed operator runs device plugin {version}, and nothing corrects the process name that its config-manager "
            f"signals, so the MPS daemon would share nothing (W49; Kubernetes {found.kubernetes or 'of an unknown version'})",
            f"a cluster of Kubernetes {LEAST_KUBERNETES} or newer with the admission policy {POLICY}",
            f"Have its owner run `{apply_command(_SIGNAL)}`.",
        )
    return None


def unserved_changes(plan: Plan, nodes: Iterable[Mapping[str, Any]], update: MpsUpdate | None) -> Iterator[Problem]:
    """Refuse a change of MPS replicas that running daemons would never serve.

    Args:
        plan: what shall be deployed.
        nodes: of the cluster.
        update: how its operator updates the daemons.
    """
    if update != "restart":
        return
    running = list(nodes)
    for pool in plan.pools:
        if pool.sharing.needs_mps_daemon and pool.pool.rollout is None and (old := _nodes_with_old_split(pool, running)):
            named = ", ".join(line(node) for node in sorted(old)[:_MOST_NODES]) + (" …" if len(old) > _MOST_NODES else "")
            yield Problem(
                f"{pool.pool.path}.sharing",
                f"{len(old)} running nodes serve another MPS configuration ({named}), and this device plugin passes the change "
                "on to no running MPS daemon: they would keep the old replicas (W49)",
                f"{' or '.join(sorted(set(old.values())))}, or a pool with `rollout`",
                "Set `rollout: {maxUnavailable: 1}` on this pool: it drains each node and restarts its MPS daemon.",
            )


def known_update(plan: Plan, found: FoundOperator) -> MpsUpdate | None:
    """Tell how the MPS daemons of a cluster are updated: by what is declared, or, where that is not known, by what runs."""
    declared = mps_update(plan.settings)
    return declared if declared is not None or found.plugin is None else mps_update_of(found.plugin)


def _nodes_with_old_split(pool: PoolPlan, nodes: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Node -> the MPS key that it serves, where the pool declares another one."""
    found = {}
    for node in nodes:
        labels = at(node, "metadata", "labels")
        key = str(labels.get(DEVICE_PLUGIN_CONFIG_LABEL) or "") if isinstance(labels, dict) else ""
        of_pool = isinstance(labels, dict) and labels.get(POOL_LABEL) == pool.name
        if of_pool and key.startswith(_MPS_KEY) and key != pool.config_key:
            found[str(at(node, "metadata", "name"))] = line(key)
    return found
