"""Objects of a stack that its state records and the cluster lacks.

The engine compares a program with its state, not with the cluster. An object that was deleted there without the engine counts as
present, so nothing creates it again and the deploy ends well. This happens to a pool that is removed and put back: the hook that
gives its nodes back deletes its rule and its verifier early, and an update that ends in between leaves both in the state.

Only a refresh changes the state, so this module finds what is missing and names the command. It deletes and creates nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_COLLECTIONS: Final = {
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "DaemonSet": "/apis/apps/v1/namespaces/{namespace}/daemonsets",
    "NodeFeatureRule": "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules",
}


@dataclass(frozen=True, order=True)
class RecordedObject:
    """An object that the engine's state records.

    Attributes:
        kind: ConfigMap, DaemonSet or NodeFeatureRule.
        namespace: its namespace; empty for a NodeFeatureRule.
        name: its name.
        keys: keys of its data that the stack wrote; empty where the whole object is the stack's.
    """

    kind: str
    namespace: str
    name: str
    keys: tuple[str, ...] = ()

    @property
    def collection(self) -> str:
        """The path of the API at which all objects of its kind are listed."""
        return _COLLECTIONS[self.kind].format(namespace=self.namespace)

    def __str__(self) -> str:
        """Kind and name, and the keys."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}" + (f", key {', '.join(self.keys)}" if self.keys else "")


def missing_from(
    recorded: Iterable[RecordedObject], found: Mapping[str, Mapping[str, frozenset[str]]]
) -> tuple[RecordedObject, ...]:
    """Return the recorded objects that the cluster lacks, each once and in order.

    Args:
        recorded: what the state records.
        found: path of a collection -> name of each object in it -> keys of its data.
    """
    return tuple(sorted({one for one in recorded if not _is_present(one, found[one.collection])}))


def _is_present(recorded: RecordedObject, found: Mapping[str, frozenset[str]]) -> bool:
    return recorded.name in found and found[recorded.name].issuperset(recorded.keys)


def describe_missing(missing: Sequence[RecordedObject]) -> str:
    """Return the error that names all missing objects and the remedy.

    Args:
        missing: one or more objects.
    """
    first = (
        "1 object of this stack is missing in the cluster"
        if len(missing) == 1
        else f"{len(missing)} objects of this stack are missing in the cluster"
    )
    return "\n".join(
        [
            f"{first}, and the state of the engine still records them (W97).",
            *(f"- {one}" for one in missing),
            "    reason:  An update did not finish, or somebody deleted them. The engine does not look for them by itself.",
            "    remedy:  Run `pulumi up --refresh`: it looks at the cluster first, and then creates what is missing.",
        ]
    )
