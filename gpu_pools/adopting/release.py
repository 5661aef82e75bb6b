"""What a stack leaves when it lets go of everything: all of it runs on, and nobody renews it.

Judges the engine's state alone, as `pulumi stack export` prints it. Letting go is the engine's own `pulumi state delete --all`:
it forgets, and asks no cloud (pulumi/pulumi 3.259, pkg/cmd/pulumi/state/state_delete.go). `retainOnDelete` would need a deploy
first, in which anything may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import NotAdoptableError
from gpu_pools.adopting.adopter import Remains
from gpu_pools.adopting.exported import pulumi_name
from gpu_pools.adopting.known import ADOPTERS
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: How the types of the project's components begin.
_OURS: Final = "gpu-pools:index:"
#: Types that are nothing in a cloud or cluster, by how they begin.
_ONLY_STATE: Final = ("pulumi:", "gpu-pools:")
#: What remains beside the platforms' own resources.
_REMAINS: Final = (
    Remains(
        "kubernetes:helm.sh/v3:Release",
        "NFD and the GPU operator stay installed, as Helm releases: upgrade and uninstall them with helm",
    ),
    Remains(
        "kubernetes:nvidia.com/v1:ClusterPolicyPatch",
        "the ClusterPolicy keeps what the stack has set; its owner's next upgrade may take it back",
    ),
    Remains(
        "kubernetes:core/v1:ConfigMapPatch",
        "configs of the device plugin stay as they are: they say what the pools' labels name",
    ),
    Remains(
        "kubernetes:apps/v1:DaemonSet",
        "the verifiers go on comparing each node with what was declared last; `gpu-pools evidence STACK` has no outputs to "
        "read any more",
        part="verifier",
    ),
    Remains(
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy",
        "admission policies stay in force, also against whoever changes what they guard by hand",
    ),
)


@dataclass(frozen=True)
class Released:
    """What a stack would leave.

    Attributes:
        resources: type -> Pulumi names, of all that is in a cloud or a cluster.
        no_longer: what nobody does any more, a sentence each.
        protected: how many are protected, which is the engine's word only.
    """

    resources: Mapping[str, Sequence[str]]
    no_longer: Sequence[str]
    protected: int

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        found = {type_: list(names) for type_, names in self.resources.items()}
        return {"resources": found, "noLonger": list(self.no_longer), "protected": self.protected}


def released(exported: object) -> Released:
    """What the stack of this state would leave.

    Args:
        exported: what `pulumi stack export` prints, secrets encrypted.

    Raises:
        NotAdoptableError: if it is none, if it is another program's, or if something is still being done.
    """
    deployment = exported.get("deployment") if isinstance(exported, dict) else None
    if not isinstance(deployment, dict):
        raise _refused("is not a state of a stack", "what `pulumi stack export` prints", "Name a stack that was deployed.")
    if pending := deployment.get("pending_operations"):
        names = ", ".join(pulumi_name(one.get("resource", {})) for one in pending if isinstance(one, dict))
        raise _refused(
            f"says that {names} were being changed when the engine ended",
            "a state without pending operations",
            "Look what became of them, then `pulumi refresh`, and release it again: half of it would be in nobody's hands.",
        )
    known = [one for one in deployment.get("resources") or [] if isinstance(one, dict) and isinstance(one.get("type"), str)]
    found: dict[str, list[str]] = {}
    for one in known:
        if one.get("custom") and not one.get("external") and not one["type"].startswith(_ONLY_STATE):
            found.setdefault(one["type"], []).append(pulumi_name(one))
    if not found:
        raise _refused("has nothing in it", "a stack with resources", "There is nothing to release.")
    if not any(one["type"].startswith(_OURS) for one in known):
        # The engine would forget whatever it is: a network, a database.
        message = "has no component of gpu-pools in it: it is that of another program"
        raise _refused(message, "a stack that has GPU pools", "Name that one; `pulumi stack ls --all` shows all.")
    no_longer = (*_no_longer(known), *_beside(known))
    return Released(dict(sorted(found.items())), no_longer, sum(bool(one.get("protect")) for one in known))


def _beside(resources: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """What the program has made itself, beside the components: the engine forgets that, too."""
    own = [
        pulumi_name(one)
        for one in resources
        if one.get("custom")
        and not one.get("external")
        and not one["type"].startswith(_ONLY_STATE)
        # A type in a URN is behind those of what it lies in.
        and _OURS not in str(one.get("urn", ""))
    ]
    if own:
        yield f"what the program has beside gpu-pools' components is let go, too: {', '.join(own)}"


def _no_longer(resources: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    platforms = [one for adopter in ADOPTERS.values() for one in adopter.remains]
    for one in (*platforms, *_REMAINS):
        if any(found["type"].startswith(one.type) and one.part in pulumi_name(found) for found in resources):
            yield one.sentence
    for adopter in ADOPTERS.values():
        yield from adopter.marks_left(resources)


def _refused(message: str, allowed: str, remedy: str) -> NotAdoptableError:
    return NotAdoptableError([Problem("the state", message, allowed, remedy)])
