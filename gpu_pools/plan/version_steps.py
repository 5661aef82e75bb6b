"""The step from the deployed version of the GPU operator to the declared one: is it one that NVIDIA supports?

NVIDIA supports upgrades within a release (YY.MM) and to the next one (gpu_pools/hardware/releases.yaml). So a step that leaves a
release out is refused, and the steps to take are told. No way back is documented: one release back must be acknowledged, by the
entry that `changes` prints for the versions of the cluster; further back is refused.

Deliberately not here: drivers, between any two of which the operator changes (what a pool needs of one operand_checks.py says),
and Node Feature Discovery, which documents no order of steps but its custom resource definitions (before_upgrade.py). What is
deployed is for whoever asks: the engine's old inputs, or the plan of a file before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.hardware.releases import between, known, number, release_of, said_of
from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.stack.acknowledged import CLUSTER
from gpu_pools.stack.charts import VERSIONS
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.plan.planned import Plan

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
