"""What new versions, tolerations and values restart on nodes that stay: from the plans before and after.

The engine shows one update, of a release or of a cluster; what follows happens afterwards, by controllers that no preview asks.

- NVIDIA/gpu-operator v26.7.0: which value is in which DaemonSet (controllers/object_controls.go; tried with the real controller).
  Operands roll by themselves. The driver's DaemonSet is always OnDelete: its pods go node by node, after an eviction of pods with
  GPUs, unless DRIVER_CONFIG_DIGEST stays the same (internal/config/driver_config_digest.go, internal/predicates/restart_only.go,
  cmd/gpu-operator/main.go; k8s-operator-libs pkg/upgrade: upgrade_inplace.go, pod_manager.go, as vendored there).
  Operators before v26.7 evict for whatever changes these pods: v26.3.3 sets the digest, and nothing of its controller reads it.
  Another operator changes them always: the image of the driver manager is in the digest.
- AKS: MicrosoftDocs/azure-aks-docs fb060abe, articles/aks/upgrade-aks-node-pools-rolling.md.

Not told: what an operator of another owner does when its owner upgrades it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.operands import documented_kubernetes, parse_version, version_text
from gpu_pools.hardware.releases import restarts_in_place
from gpu_pools.plan.change_ids import rolling_options
from gpu_pools.plan.drivers import (
    DRIVER_DAEMON_SET,
    EVICTION_SECONDS,
    LOOKS_EVERY,
    brought,
    driver_pod_values,
    driver_pods_digest,
    replaced_by_itself,
    rounds,
    seconds_per_round,
)
from gpu_pools.plan.operands_due import operand_chart
from gpu_pools.plan.operator_upgrade import operator_step
from gpu_pools.text.nested import at, leaves

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan

_TOOLKIT: Final = "nvidia-container-toolkit-daemonset"
_PLUGIN: Final = "nvidia-device-plugin-daemonset"
_MPS: Final = "nvidia-device-plugin-mps-control-daemon"
_GFD: Final = "gpu-feature-discovery"
_MIG: Final = "nvidia-mig-manager"
_VALIDATOR: Final = "nvidia-operator-validator"
_EXPORTER: Final = "nvidia-dcgm-exporter"
#: All but the driver's, which has a way of its own.
_ROLLING: Final = (_TOOLKIT, _PLUGIN, _MPS, _GFD, _MIG, _VALIDATOR, _EXPORTER)
#: How a value's path begins -> the DaemonSets whose pods it changes; the longest beginning counts. Others restart none on nodes.
_RESTARTS: Final = {
    "devicePlugin": (_PLUGIN, _MPS),
    "devicePlugin.config": (_PLUGIN, _MPS, _GFD),
    "mig.strategy": (_PLUGIN, _MPS, _GFD, _VALIDATOR),
    "gfd": (_GFD,),
    "migManager": (_MIG,),
    "toolkit": (_TOOLKIT,),
    "validator": (_VALIDATOR,),
    "dcgm": ("nvidia-dcgm",),
    "dcgmExporter": (_EXPORTER,),
    "nodeStatusExporter": ("nvidia-node-status-exporter",),
    "operator.runtimeClass": _ROLLING,
    "daemonsets": _ROLLING,
    # How a DaemonSet rolls is not part of its pods.
    "daemonsets.updateStrategy": (),
    "daemonsets.rollingUpdate": (),
}
#: Values of the driver's pod that its digest leaves out: it restarts in place.
_NO_PART_OF_THE_DIGEST: Final = {"resources", "startupProbe", "livenessProbe", "readinessProbe", "imagePullPolicy", "hostNetwork"}
_IN_PLACE: Final = "cordoned, its driver restarted in place, uncordoned; pods that run there stay"


_NODE_BY_NODE: Final = "AKS drains its nodes one after the other, as upgradeSettings say, and gives each a new image."
_BY_HAND: Final = "Nothing by itself (autoUpgrade is off): a node keeps its driver until the driver's pod there is deleted."


@dataclass(frozen=True)
class Upkeep:
    """Something that is renewed on nodes that stay.

    Attributes:
        what: it is, for people.
        before: its version or value; empty where there are several.
        after: the same, afterwards.
        restarts: DaemonSets whose pods start anew.
        pools: whose nodes are concerned.
        effect: on these pools: ``upgraded``: pods with GPUs end, node by node; ``cordoned``: nodes take no new pods for a while,
            one after the other; empty: neither.
        happens: in sentences.
        against: why its makers do not support it; empty where they do. Somebody has to acknowledge it then.
    """

    what: str
    before: str
    after: str
    restarts: tuple[str, ...]
    pools: tuple[str, ...]
    effect: str
    happens: str
    against: str = ""


def upkeep(before: Plan | None, after: Plan, replaced: Collection[str] = ()) -> tuple[Upkeep, ...]:
    """All of it; nothing where nothing is deployed, or no pool is there before and after.

    Args:
        before: the plan of what is deployed; None: nothing is.
        after: the plan of what shall be.
        replaced: pools whose nodes go: nothing is renewed on them.
    """
    names = {pool.name for pool in before.pools} - set(replaced) if before else set()
    stay = tuple(pool for pool in after.pools if pool.name in names)
    if before is None or not stay:
        return ()
    return (
        *_kubernetes(before, after, stay),
        *_pool_options(before, stay),
        *_operator(before, after, stay),
        *_driver(before, after, stay),
        *_tolerations(before, after, stay),
        *_operands(before, after, stay),
    )


def _kubernetes(before: Plan, after: Plan, stay: tuple[PoolPlan, ...]) -> Iterator[Upkeep]:
    old, new = before.settings.cluster, after.settings.cluster
    names = tuple(pool.name for pool in stay)
    if old.platform == new.platform and new.kubernetes_version not in (None, old.kubernetes_version):
        # Left out it stays what it is: Azure's own default is for new clusters.
        was = old.kubernetes_version or "Azure's own"
        follow = tuple(pool for pool in stay if "orchestratorVersion" not in rolling_options(pool))
        happens = _surge(follow) if follow else "The control plane alone: every pool has a version of its own."
        names = tuple(pool.name for pool in follow)
        happens = " ".join(filter(None, (happens, _skew(before, str(new.kubernetes_version)))))
        yield Upkeep("Kubernetes", was, str(new.kubernetes_version), (), names, "upgraded" if follow else "", happens)
    if old.platform == new.platform and old.template_of_nodes != new.template_of_nodes:
        happens = "Magnum upgrades the cluster in place; in which order, and whether nodes are drained, is its driver's."
        yield Upkeep("the cluster template", "", "", (), names, "upgraded", happens)


def _skew(before: Plan, version: str) -> str:
    """Whether the operator that is there meets a Kubernetes that it is not documented for: the control plane is raised first."""
    operator = before.settings.operator
    documented, wanted = documented_kubernetes(operator.chart.version), parse_version(version)
    if operator.adopted or documented is None or wanted is None or wanted[:2] <= documented[1]:
        return ""
    newest = version_text(documented[1])
    return f"gpu-operator {operator.chart.version}, which runs meanwhile, is documented to {newest}: upgrade it first."


def _pool_options(before: Plan, stay: tuple[PoolPlan, ...]) -> Iterator[Upkeep]:
    """Versions, node images and the like of single pools of AKS, for which Azure replaces the nodes."""
    old = {pool.name: rolling_options(pool) for pool in before.pools}
    for pool in stay:
        was, becomes = old[pool.name], rolling_options(pool)
        # What is written no more stays as it is, but for a version: the pool then follows the cluster.
        changed = [key for key, value in becomes.items() if was.get(key) != value]
        changed += [key for key in was if key == "orchestratorVersion" and key not in becomes]
        for key in changed:
            old_value, new_value = (str(one.get(key, "as Azure has it")) for one in (was, becomes))
            what = f"{key} of the pool {pool.name}"
            yield Upkeep(what, old_value, new_value, (), (pool.name,), "upgraded", _NODE_BY_NODE)


def _surge(stay: tuple[PoolPlan, ...]) -> str:
    spot = [pool.name for pool in stay if pool.pool.placement.is_spot]
    surging = [pool for pool in stay if pool.name not in spot]
    sentences = [
        "The control plane first, then every node of every pool: AKS drains one after the other and gives it a new image."
    ]
    if surging:
        most = max(pool.hardware.gpus for pool in surging)
        sentences.append(f"A pool gets one node more meanwhile, which takes quota for up to {most} GPU{'s' if most > 1 else ''}.")
    if spot:
        sentences.append(f"Spot pools ({', '.join(spot)}) get none, and their nodes are not drained.")
    return " ".join(sentences)


def _operator(before: Plan, after: Plan, stay: tuple[PoolPlan, ...]) -> Iterator[Upkeep]:
    names = tuple(pool.name for pool in stay)
    old, new = before.settings.operator, after.settings.operator
    if not old.adopted and not new.adopted and old.chart.version != new.chart.version:
        step = operator_step(old.chart.version, new.chart.version)
        brings = _differences(old.chart.operands, new.chart.operands)
        happens = f"The operator's own pod is replaced, then those of every operand that differs{brings}, {_rolls(after)}"
        if after.settings.verification.enabled and operand_chart(after):
            happens += " up waits for them, and has every node proven anew."
        happens = " ".join((happens, *step.brings, *step.lost))
        restarts, against = _present(_ROLLING, stay), "NVIDIA documents no way back" if step.backwards else ""
        yield Upkeep("the GPU operator", old.chart.version, new.chart.version, restarts, names, "", happens, against)
    was, becomes = before.settings.nfd, after.settings.nfd
    if not was.adopted and not becomes.adopted and was.chart.version != becomes.chart.version:
        happens = "Its pods start anew; labels stay meanwhile."
        yield Upkeep("Node Feature Discovery", was.chart.version, becomes.chart.version, ("nfd-worker",), names, "", happens)


def _differences(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    differ = [f"{name} {old[name]} → {new[name]}" for name in new if name in old and name != "driver" and old[name] != new[name]]
    return f" ({', '.join(differ)})" if differ else ""


def _driver(before: Plan, after: Plan, stay: tuple[PoolPlan, ...]) -> Iterator[Upkeep]:
    names = tuple(pool.name for pool in stay)
    if before.driver != after.driver:
        happens = "Nodes that stay have the old owner's driver until they are made anew."
        yield Upkeep(
            "who installs the driver", before.driver, after.driver, (DRIVER_DAEMON_SET, _TOOLKIT), names, "upgraded", happens
        )
        return
    if after.driver != "operator" or after.settings.operator.adopted:
        return
    old, new = (driver_pod_values(plan.operator_values, brought(plan)) for plan in (before, after))
    differ = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    another = before.settings.operator.chart.version != after.settings.operator.chart.version
    if not differ and not another:
        return
    versions = (str(old["version"]), str(new["version"])) if "version" in differ else ("", "")
    in_place = differ <= _NO_PART_OF_THE_DIGEST and not another
    because = "" if differ or not another else "Its version stays, but another operator makes other pods of it. "
    effect, way = _driver_way(after, stay, in_place=in_place)
    happens = because + way + _waits(after, stay) + _backwards(*versions)
    yield Upkeep("the driver", *versions, (DRIVER_DAEMON_SET,), names, effect, happens)


def _backwards(old: str, new: str) -> str:
    """What a step to an older branch may take from pods: what their images need nobody here knows."""
    before, after = parse_version(old), parse_version(new)
    if before is None or after is None or after[:1] >= before[:1]:
        return ""
    return (
        f" R{after[0]} is older than R{before[0]}, and knows an older CUDA: images that need a newer one fail there. What they "
        "need is said by minimum.cuda of a pool, and its verifiers hold each node against it."
    )


def _driver_way(plan: Plan, stay: tuple[PoolPlan, ...], *, in_place: bool) -> tuple[str, str]:
    """(effect, what happens) where the driver's pods become others; `in_place`: their digest stays the same."""
    if not replaced_by_itself(plan):
        return "", _BY_HAND
    if in_place and restarts_in_place(plan.settings.operator.chart.version):
        return "cordoned", f"{_at_a_time(plan)}: {_IN_PLACE}."
    return "upgraded", f"{_at_a_time(plan)}: {_evicted(plan)} {_lasts(plan, stay)}"


def _lasts(plan: Plan, stay: tuple[PoolPlan, ...]) -> str:
    """The least time, by what the controller itself waits; how long a driver takes to start nobody here has measured."""
    nodes = sum(pool.pool.min_nodes for pool in stay)
    minutes = LOOKS_EVERY // 60
    if not nodes:
        return f"Some {minutes} minutes a node, and the driver's own start."
    needed = rounds(plan, nodes)
    return (
        f"That takes {needed * minutes} minutes or more for {nodes} node{'' if nodes == 1 else 's'}: the controller looks "
        f"every {minutes}, and each driver's start comes on top."
    )


def _waits(plan: Plan, stay: tuple[PoolPlan, ...]) -> str:
    """How long `up` waits for drivers, where the operator replaces them and the verifiers are told."""
    if not plan.settings.verification.enabled or driver_pods_digest(plan) is None:
        return ""
    one, nodes = seconds_per_round(plan), sum(pool.pool.min_nodes for pool in stay)
    in_all = f", and {-(-one * rounds(plan, nodes) // 60)} in all with that many nodes" if nodes else ""
    return f" up waits for it before it proves the nodes: {-(-one // 60)} minutes at most until the next one is done{in_all}."


def _at_a_time(plan: Plan) -> str:
    most = at(plan.operator_values, "driver", "upgradePolicy", "maxParallelUpgrades")
    return "One node after the other" if most in (None, 1) else "All nodes at once" if most == 0 else f"{most} nodes at a time"


def _evicted(plan: Plan) -> str:
    policy = at(plan.operator_values, "driver", "upgradePolicy")
    text = "cordoned, its pods that ask for a GPU evicted, its driver replaced, uncordoned once that is validated."
    drained = at(policy, "drain", "enable") is True
    fate = "the node is drained" if drained else "the node stays cordoned (upgrade-failed)"
    stuck = [] if at(policy, "gpuPodDeletion", "force") is True else ["without a controller"]
    stuck += [] if at(policy, "gpuPodDeletion", "deleteEmptyDir") is True else ["with an emptyDir"]
    seconds = at(policy, "gpuPodDeletion", "timeoutSeconds")
    patience = EVICTION_SECONDS if seconds is None else seconds
    slow = f"After {patience} s {fate}." if patience else "It is waited for pods that do not go, without an end."
    return f"{text} {slow}" if not stuck else f"{text} {slow} A pod {' or '.join(stuck)} is not evicted: {fate} at once (W71)."


def _tolerations(before: Plan, after: Plan, stay: tuple[PoolPlan, ...]) -> Iterator[Upkeep]:
    """Of all operands; for the driver's pods a change without another digest."""
    old, new = ([*map(_toleration, plan.operator_values["daemonsets"]["tolerations"])] for plan in (before, after))
    if old == new:
        return
    cordons = after.driver == "operator" and before.driver == "operator" and replaced_by_itself(after)
    happens, effect = f"The pods of all operands start anew, {_rolls(after)}", ""
    if cordons:
        effect, way = _driver_way(after, stay, in_place=True)
        happens += f" The driver's go by another way (W70). {way}{_waits(after, stay)}"
    restarts = _present((DRIVER_DAEMON_SET, *_ROLLING) if after.driver == "operator" else _ROLLING, stay)
    names = tuple(pool.name for pool in stay)
    what = "what the operands tolerate"
    yield Upkeep(what, ", ".join(old), ", ".join(new), restarts, names, effect, happens)


def _toleration(written: Mapping[str, str]) -> str:
    return ":".join(filter(None, (written.get("key", "anything"), written.get("effect", ""))))


def _operands(before: Plan, after: Plan, stay: tuple[PoolPlan, ...]) -> Iterator[Upkeep]:
    """What single values restart; tolerations are told apart."""
    old, new = dict(leaves(before.operator_values)), dict(leaves(after.operator_values))
    differ = sorted(path for path in {*old, *new} - {"daemonsets.tolerations"} if old.get(path) != new.get(path))
    found = {name: path for path in reversed(differ) for name in _restarted(path)}
    restarts = _present(tuple(sorted(found)), stay)
    if not restarts:
        return
    pools = tuple(pool.name for pool in stay if pool.mig_config_key) if restarts == (_MIG,) else tuple(pool.name for pool in stay)
    if pools:
        values = ", ".join(path for path in differ if _restarted(path))
        yield Upkeep(f"operands, by {values}", "", "", restarts, pools, "", f"Their pods start anew, {_rolls(after)}")


def _restarted(path: str) -> tuple[str, ...]:
    beginnings = [known for known in _RESTARTS if path == known or path.startswith(f"{known}.")]
    return _RESTARTS[max(beginnings, key=len)] if beginnings else ()


def _present(daemon_sets: tuple[str, ...], stay: tuple[PoolPlan, ...]) -> tuple[str, ...]:
    """Without those that have no pod on these pools' nodes."""
    absent = set() if any(pool.sharing.needs_mps_daemon for pool in stay) else {_MPS}
    absent |= set() if any(pool.mig_config_key for pool in stay) else {_MIG}
    return tuple(name for name in daemon_sets if name not in absent)


def _rolls(plan: Plan) -> str:
    if at(plan.operator_values, "daemonsets", "updateStrategy") == "OnDelete":
        return "but only once each is deleted (updateStrategy OnDelete)."
    most = at(plan.operator_values, "daemonsets", "rollingUpdate", "maxUnavailable") or 1
    return f"{most} at a time, and pods that run stay. Without its device plugin a node takes no new pod with a GPU, for seconds."
