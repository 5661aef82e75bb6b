"""Whether operator, driver or NFD may be upgraded on a cluster: is the step supported, and is all that came before over?

**The step between versions of the operator.** NVIDIA supports upgrades within a release (YY.MM) and to the next one
(gpu_pools/hardware/releases.yaml). So a step that leaves a release out is refused, and the steps to take are told. No way back
is documented: one release back must be acknowledged, by the entry that `changes` prints for the versions of the cluster;
further back is refused. Deliberately not here: drivers, between any two of which the operator changes (what a pool needs of one
operand_checks.py says). Which version is deployed comes from whoever asks: the engine's old inputs, or the plan of a file
before.

**What must be over.** Pure: objects of the cluster come in. The upgrade controller goes on from where the nodes' labels say
that it stands, whatever was declared meanwhile (NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go, as vendored in
gpu-operator v26.7.0):

- a node that is `upgrade-failed` counts as being upgraded (GetUpgradesInProgress), so with maxParallelUpgrades 1 no other node
  begins. It leaves that state only when its pod is of the newest template and ready, so only a step back to the driver that it
  still has gets it out, or whoever sets the label anew;
- in every other state a node takes the newest template when its turn comes, so another driver may be declared meanwhile: a
  mistyped version is corrected like that.

Another operator brings another controller. What the old one has begun on a node is over first (gpu-operator issues 2166, 2509
and 2549; k8s-driver-manager issue 176 for what stays paused), and so is a MIG change, which the new mig-manager would find half
done.

**NFD's CRDs.** Helm makes what is in a chart's folder `crds`, and never changes it. NFD's documentation has them applied before
the chart is upgraded; a rule that uses an operator which the old ones lack is refused (Ge, Le, GeLe: since 0.18). NFD documents
no order of steps but that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_pools.hardware.releases import between, known, number, release_of, said_of
from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.stack.acknowledged import CLUSTER
from gpu_pools.stack.charts import VERSIONS
from gpu_pools.text.errors import Problem
from gpu_pools.text.nested import at
from gpu_pools.text.pages import name_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.plan.planned import Plan

# --- the step between versions ------------------------------------------------------------------------------------

Way = Literal["same", "within", "next", "skips", "back", "far back", "unknown"]

VERSION: Final = "gpu-pools:operator.version"


@dataclass(frozen=True)
class Step:
    """A step between two versions of the operator.

    Attributes:
        before: the deployed version.
        after: the declared one.
        way: of what kind it is; ``unknown``: a version that tells no release, or a release later than those that are known.
        through: versions to take one after the other instead, the declared one last; empty where it is one step.
    """

    before: str
    after: str
    way: Way
    through: tuple[str, ...] = ()

    @property
    def backwards(self) -> bool:
        """Whether the declared version is the older one."""
        return self.way in {"back", "far back"}

    @property
    def brings(self) -> Sequence[str]:
        """What a step forward brings, in sentences."""
        return said_of(release_of(self.after) or "", "brings") if self.way == "next" else ()

    @property
    def lost(self) -> Sequence[str]:
        """What a step back takes or leaves behind, in sentences."""
        old, new = release_of(self.before), release_of(self.after)
        return said_of(old, "lost") if self.way == "back" and old and old != new else ()


def operator_step(before: str, after: str) -> Step:
    """The step from one version to another.

    Args:
        before: the deployed version.
        after: the declared one.
    """
    old, new = release_of(before), release_of(after)
    if old is None or new is None:
        return Step(before, after, "same" if before == after else "unknown")
    if old == new:
        way: Way = "same" if number(before) == number(after) else "within" if number(before) < number(after) else "back"
        return Step(before, after, way)
    forward = number(old) < number(new)
    missing = between(old, new) if forward else [*reversed(between(new, old))]
    if missing:
        return Step(before, after, "skips" if forward else "far back", (*map(_newest, missing), after))
    if forward and not known(new):
        return Step(before, after, "unknown")
    return Step(before, after, "next" if forward else "back")


def _newest(release: str) -> str:
    """The version of a release that can be declared here; its name where none is known."""
    return next((one for one in VERSIONS["gpu-operator"] if release_of(one) == release), release)


def refusal(step: Step) -> Problem | None:
    """Why a step is refused whatever is acknowledged; None where it is not."""
    if step.way not in {"skips", "far back"}:
        return None
    first, *later = step.through
    then = "".join(f", then {version}" for version in later)
    why = (
        "NVIDIA supports upgrades within a release and to the next one only"
        if step.way == "skips"
        else "NVIDIA supports no way back, and what one over several releases leaves behind nobody has written down"
    )
    left_out = ", ".join(step.through[:-1])
    return Problem(
        VERSION,
        f"{step.after} leaves out {left_out}: {step.before} is deployed, and {why}",
        first,
        f"Deploy {first}{then}, each as a deploy of its own.",
    )


def unacknowledged(step: Step, plan: Plan) -> Problem | None:
    """Why a step back must not be taken yet; None where it is none, or somebody has acknowledged it."""
    change = cluster_use(plan)
    if step.way != "back" or any((one.resource, one.change) == (CLUSTER, change) for one in plan.settings.acknowledged):
        return None
    return Problem(
        VERSION,
        " ".join((f"{step.after} is older than what is deployed, {step.before}, and NVIDIA documents no way back.", *step.lost)),
        f"{step.before}, or an entry in gpu-pools:acknowledged",
        f"Add {{resource: {CLUSTER}, change: {change}, reason: …}} there, or declare {step.before}.",
    )


def warnings(step: Step) -> Iterator[str]:
    """What is to be known of a step that is taken."""
    if step.way == "unknown":
        yield (
            f"gpu-operator {step.before} to {step.after}: whether that is one step cannot be told, since the order of releases "
            "is not known so far; NVIDIA supports upgrades within a release and to the next one only"
        )
    yield from (f"gpu-operator {step.before} to {step.after}: {one}" for one in (*step.brings, *step.lost))


# --- what must be over before it ----------------------------------------------------------------------------------

STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
OVER: Final = ("", "upgrade-done")
FAILED: Final = "upgrade-failed"
HAS: Final = "nvidia.com/cuda.driver-version.full"
_DEPLOY, _PAUSED = "nvidia.com/gpu.deploy.", "paused-for-"
_MIG_STATE, _CHANGING = "nvidia.com/mig.config.state", ("pending", "rebooting")
OPERATOR: Final = "gpu-pools:operator"
NFD_VERSION: Final = "gpu-pools:nodeFeatureDiscovery.version"
RULES_CRD: Final = "nodefeaturerules.nfd.k8s-sigs.io"
#: The first NFD whose rules know these operators (kubernetes-sigs/node-feature-discovery v0.18.2, api/nfd/v1alpha1).
_CRDS_CHANGED: Final = (0, 18)
_NEWER_OPERATOR: Final = '"GeLe"'


@dataclass(frozen=True)
class Found:
    """What a cluster has, as its API shows it.

    Attributes:
        nodes: all of them.
        policies: ClusterPolicies.
    """

    nodes: Sequence[Mapping[str, Any]] = ()
    policies: Sequence[Mapping[str, Any]] = field(default=())


def unfinished(found: Found, driver: str | None, *, operator: bool) -> tuple[list[Problem], list[str]]:
    """What stands in the way, and what is to be known.

    Args:
        found: on the cluster.
        driver: the version that shall be installed; None where it is not known.
        operator: whether the operator itself is another one; else only the driver is.
    """
    problems = [*_failed(found.nodes, driver)]
    running = [one for one in found.nodes if _state(one) not in (*OVER, FAILED)]
    if operator:
        problems += [*_running(running), *_paused(found.nodes), *_changing(found.nodes), *_unready(found.policies)]
        return problems, []
    meanwhile = (
        f"a driver is being replaced already on {_named(running)}: each node takes what is declared now when its turn comes"
    )
    return problems, [meanwhile] if running else []


def _failed(nodes: Sequence[Mapping[str, Any]], driver: str | None) -> Iterator[Problem]:
    for node in nodes:
        has = _labels(node).get(HAS)
        if _state(node) == FAILED and (driver is None or has != driver):
            name = _name(node)
            back = f" Or declare the driver that it still has, {has}." if has else ""
            yield Problem(
                f"node {name}",
                f"its last driver upgrade has failed ({STATE}: {FAILED}): it takes no other driver, and no other node begins",
                "upgrade-done",
                f"End the pods that hold its GPUs, then: kubectl label node {name} {STATE}=upgrade-required --overwrite.{back}",
            )


def _running(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if nodes:
        states = ", ".join(sorted({_state(one) for one in nodes}))
        yield Problem(
            OPERATOR,
            f"the driver of {_named(nodes)} is being replaced ({states}), and another operator must not find it half done",
            "every node without that label, or upgrade-done",
            f"Wait for it: kubectl get nodes -L {STATE}.",
        )


def _paused(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    for node in nodes:
        paused = [key for key, value in _labels(node).items() if key.startswith(_DEPLOY) and value.startswith(_PAUSED)]
        if paused and _state(node) in OVER:
            yield Problem(
                f"node {_name(node)}",
                f"operands are paused on it: {', '.join(f'{key}={_labels(node)[key]}' for key in sorted(paused))}",
                "true",
                f"Let the change end, or set them back: kubectl label node {_name(node)} --overwrite "
                + " ".join(f"{key}=true" for key in sorted(paused)),
            )


def _changing(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    if changing := [one for one in nodes if _labels(one).get(_MIG_STATE) in _CHANGING]:
        yield Problem(
            OPERATOR,
            f"the GPUs of {_named(changing)} are being partitioned ({_MIG_STATE}: {', '.join(_CHANGING)})",
            "success",
            f"Wait for it, or see {name_page('runbooks/stuck-mig-change.md')}.",
        )


def _unready(policies: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    for policy in policies:
        state = at(policy, "status", "state")
        if state in (None, "ready", "ignored"):
            continue
        conditions = at(policy, "status", "conditions")
        why = [one.get("message") for one in conditions if one.get("type") == "Error"] if isinstance(conditions, list) else []
        because = f": {why[0]}" if why and why[0] else ""
        yield Problem(
            OPERATOR,
            f"its ClusterPolicy {_name(policy)} is {state}{because}",
            "ready",
            "Have it ready with the operator that is there, before another one takes it over.",
        )


def old_crd(crd: Mapping[str, Any] | None, version: str) -> Problem | None:
    """Why an NFD must not be upgraded yet: its CRDs are those of an older one.

    Args:
        crd: NodeFeatureRule's, as the cluster has it; None where it has none, and Helm makes it.
        version: the declared one.
    """
    if crd is None or number(version)[:2] < _CRDS_CHANGED or _NEWER_OPERATOR in json.dumps(crd.get("spec")):
        return None
    tag = f"v{version.removeprefix('v')}"
    where = f"https://raw.githubusercontent.com/kubernetes-sigs/node-feature-discovery/{tag}/deployment/base/nfd-crds"
    return Problem(
        NFD_VERSION,
        f"the cluster's {RULES_CRD} is of an NFD before 0.18, and Helm does not upgrade what is in a chart's folder crds",
        f"the CRDs of {tag}",
        f"Apply them first: kubectl apply -f {where}/nfd-api-crds.yaml.",
    )


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels


def _state(node: Mapping[str, Any]) -> str:
    return _labels(node).get(STATE, "")


def _name(one: Mapping[str, Any]) -> str:
    return str(one["metadata"]["name"])


#: More names than these help nobody.
_MOST_NAMES: Final = 5


def named(names: Sequence[str]) -> str:
    """Names of nodes as messages have them: the first few, and how many more."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _named(nodes: Sequence[Mapping[str, Any]]) -> str:
    return named(sorted(map(_name, nodes)))
