"""What of a cluster stands against a stack: software that the stack would bring a second time, layouts, an old Kubernetes.

Pure: objects of the API and a version come in. Who asks, and that what is found is none of the stack's own, is
components/kubernetes/owners.py; for the version components/aks/check.py and existing.py.

**What is there already**: a GPU operator, NFD, a device plugin. Two of them in one cluster break each other
(gpu_pools/stack/adoption.py). They are known by their images, which keep the last part of their name in mirrors, and by the
labels of their charts. What the operator itself has made is not meant: its DaemonSets belong to a ClusterPolicy.

Sources: NVIDIA/gpu-operator v26.7.0 (templates/operator.yaml, values.yaml), kubernetes-sigs/node-feature-discovery 0.19 (its
chart's values and _helpers.tpl), NVIDIA/k8s-device-plugin 0.20 (its chart and static manifest); azure-aks-docs, use-nvidia-gpu,
for the plugin that AKS users put in by hand.

**The version of Kubernetes** is held against what the stack needs, where it is known; a cluster that the stack makes has one,
too. What only one platform knows, such as the images of its nodes, its own class adds (gpu_pools/platforms/platform.py). What
MPS needs is in gpu_pools/plan/mps_support.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_pools.hardware.operands import parse_version
from gpu_pools.plan.dra_checks import LEAST_KUBERNETES as LEAST_FOR_CLAIMS
from gpu_pools.plan.dra_checks import allocation_path, too_old_for_claims
from gpu_pools.plan.mps_support import too_old_for_signal
from gpu_pools.platforms.known import platform_of
from gpu_pools.rendering.startup_taint import LEAST_KUBERNETES
from gpu_pools.stack.adoption import NFD, OPERATOR
from gpu_pools.text.errors import Problem, Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpu_pools.hardware.models import Version
    from gpu_pools.stack.settings import Settings

# --- what is there already ----------------------------------------------------------------------------------------

#: ``operator`` looks for device plugins, too: it brings one.
Wanted = Literal["operator", "nfd"]
#: Last part of an image's name.
_IMAGES: Final[Mapping[str, str]] = {
    "gpu-operator": "operator",
    "node-feature-discovery": "nfd",
    "k8s-device-plugin": "plugin",
}
#: Labels of the charts' own workloads.
_LABELS: Final[Mapping[tuple[str, str], str]] = {
    ("app.kubernetes.io/component", "gpu-operator"): "operator",
    ("app.kubernetes.io/name", "node-feature-discovery"): "nfd",
    ("app.kubernetes.io/name", "nvidia-device-plugin"): "plugin",
    ("name", "nvidia-device-plugin-ds"): "plugin",
}
_LISTS: Final = {"operator": ("operator", "plugin"), "nfd": ("nfd",)}
_LAYOUT: Final = "nvidia.com/mig.config"
#: What no stack has to note: MIG that is off, and layouts of stacks, which end in a hash.
_UNTOLD: Final = re.compile(r"all-disabled|.*-[0-9a-f]{8}")
_LEAVE: Final = "and no second one is installed."


@dataclass(frozen=True)
class There:
    """A workload.

    Attributes:
        what: operator, nfd or plugin.
        kind: Deployment or DaemonSet.
        place: its namespace and name, as `namespace/name`.
    """

    what: str
    kind: str
    place: str


def found_in(kind: str, workloads: Iterable[Mapping[str, Any]]) -> Iterator[There]:
    """Those of the workloads that are an operator, NFD or device plugin.

    Args:
        kind: of all of them: Deployment or DaemonSet.
        workloads: as the API shows them.
    """
    for one in workloads:
        metadata = one["metadata"]
        what = _what(one)
        if what and not any(owner.get("kind") == "ClusterPolicy" for owner in metadata.get("ownerReferences") or ()):
            yield There(what, kind, f"{metadata.get('namespace')}/{metadata['name']}")


def _what(workload: Mapping[str, Any]) -> str | None:
    template = (workload.get("spec") or {}).get("template") or {}
    # Static manifests label the pods alone.
    labels = {**((template.get("metadata") or {}).get("labels") or {}), **(workload["metadata"].get("labels") or {})}
    containers = (template.get("spec") or {}).get("containers") or ()
    named = [_IMAGES.get(last_part(one.get("image") or "")) for one in containers]
    labelled = [what for (key, value), what in _LABELS.items() if labels.get(key) == value]
    return next(filter(None, [*named, *labelled]), None)


def last_part(image: str) -> str:
    """`gpu-operator` of `nvcr.io/nvidia/gpu-operator:v26.7.0@sha256:…`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def refusals(wanted: Wanted, found: Iterable[There]) -> list[Problem]:
    """Why it must not be installed.

    Args:
        wanted: what the stack would install.
        found: what is there.
    """
    mine = [one for one in found if one.what in _LISTS[wanted]]
    return [_problem(wanted, one) for one in mine]


def _problem(wanted: Wanted, there: There) -> Problem:
    path, shown = OPERATOR if wanted == "operator" else NFD, f"{there.kind} {there.place}"
    if there.what == "plugin":
        return Problem(
            path,
            f"the cluster has a device plugin of its own ({shown}), and the operator would run a second one on the same nodes",
            "a cluster without it",
            f"Have its owner take it away: kubectl delete {there.kind.lower()} --namespace {there.place.replace('/', ' ')}.",
        )
    name = "a GPU operator" if there.what == "operator" else "Node Feature Discovery"
    return Problem(
        path,
        f"the cluster has {name} already ({shown}), and two of them break each other",
        "false",
        f"Write `install: false` there: the one that is there is used, {_LEAVE}",
    )


def layouts_in(nodes: Iterable[Mapping[str, Any]], selectors: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Node -> the layout that somebody has asked mig-manager for, of nodes that one of these selectors selects.

    An operator that was uninstalled leaves the label (NVIDIA/gpu-operator#1391), and the GPUs as they are.
    """
    wanted, found = [*selectors], {}
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        layout = labels.get(_LAYOUT, "")
        if layout and not _UNTOLD.fullmatch(layout) and any(one.items() <= labels.items() for one in wanted):
            found[str(node["metadata"]["name"])] = str(layout)
    return found


def of_layouts(found: Mapping[str, str]) -> str:
    """What is said of them before they go."""
    shown = ", ".join(f"{node} {layout}" for node, layout in sorted(found.items()))
    return (
        f"nodes have a MIG layout already (label {_LAYOUT}): {shown}. The declared sharing takes its place, and when the stack "
        "goes MIG is off: note what it was, or declare it"
    )


# --- the version of Kubernetes ------------------------------------------------------------------------------------

#: Bound tokens of pods that name their node: on by default since then (gpu_pools/proof/verifier_rights.py).
LEAST_FOR_VERIFIERS: Final = "1.30"


def check_kubernetes(settings: Settings, version: str | None, whose: str) -> list[Problem]:
    """List what of the stack needs a newer Kubernetes than a cluster has, or will have.

    Args:
        settings: of the stack.
        version: of the cluster, such as 1.34.2; None where it is not known.
        whose: how a message names the origin of the version.
    """
    has = parse_version(version or "")
    if version is None or has is None:
        return []
    problems = Problems()
    if settings.verification.startup_taint and has < _numbers(LEAST_KUBERNETES):
        problems.add(
            "gpu-pools:verification.startupTaint",
            f"needs Kubernetes {LEAST_KUBERNETES}, and {whose} {version}",
            allowed=f"true in a cluster of Kubernetes {LEAST_KUBERNETES} or newer",
            remedy="Leave it out; the deploy still waits until the nodes have passed.",
        )
    if problem := too_old_for_signal(settings, version, whose):
        problems.add(problem.path, problem.message, allowed=problem.allowed, remedy=problem.remedy)
    if settings.dra_pools and too_old_for_claims(version):
        problems.add(
            allocation_path(settings.dra_pools[0]),
            f"claims need Kubernetes {LEAST_FOR_CLAIMS}, and {whose} {version} (E01)",
            allowed=f"dra in a cluster of Kubernetes {LEAST_FOR_CLAIMS} or newer",
            remedy="Upgrade the cluster, or write `allocation: devicePlugin`.",
        )
    if settings.verification.enabled and has < _numbers(LEAST_FOR_VERIFIERS):
        problems.add(
            "gpu-pools:verification",
            f"needs Kubernetes {LEAST_FOR_VERIFIERS}, whose tokens of pods name their node, and {whose} {version}",
            allowed=f"a cluster of Kubernetes {LEAST_FOR_VERIFIERS} or newer",
            remedy="Upgrade the cluster, or leave the section out.",
        )
    platform_of(settings.cluster).check_kubernetes(settings, version, whose, problems)
    return list(problems.found)


def _numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))
