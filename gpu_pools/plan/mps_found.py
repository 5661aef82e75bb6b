"""What a running cluster says about MPS: which device plugin its operator runs, and which nodes would keep an old split.

Pure: objects of the API come in. Who asks, and when, is components/gpu_operator/mps_first.py. How each version of the device
plugin updates the MPS daemon is in gpu_pools/plan/mps_support.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.operands import overridden, parse_version, version_text
from gpu_pools.plan.mps_support import MpsUpdate, mps_update, mps_update_of
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
