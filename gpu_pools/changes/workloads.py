"""Who asks for which of NVIDIA's resources: workloads of the stack, from the preview, and running pods, where a list is given.

A list is what ``kubectl get pods --all-namespaces --output json`` prints: whoever may reach the cluster fetches it, and no
credentials come in here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.text.errors import InvalidStackError, Problem
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpu_pools.changes.steps import Step

_PREFIX: Final = "nvidia.com/"
_ENDED: Final = {"Succeeded", "Failed"}
_TEMPLATES: Final = {
    "kubernetes:core/v1:Pod": ("spec",),
    "kubernetes:batch/v1:CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **{
        f"kubernetes:{kind}": ("spec", "template", "spec")
        for kind in ("apps/v1:Deployment", "apps/v1:StatefulSet", "apps/v1:ReplicaSet", "apps/v1:DaemonSet", "batch/v1:Job")
    },
}


@dataclass(frozen=True, order=True)
class Asking:
    """Something that asks for a resource.

    Attributes:
        who: e.g. ``Deployment web`` or ``pod shop/web-1``.
        resource: its name.
        selector: node labels that it asks for, by name.
    """

    who: str
    resource: str
    selector: tuple[tuple[str, str], ...] = ()

    def may_run(self, labels: Mapping[str, str]) -> bool:
        """Whether nothing that is known of a node's labels keeps it off."""
        return all(labels.get(name, value) == value for name, value in self.selector)


def of_stack(steps: Iterable[Step]) -> tuple[Asking, ...]:
    """Workloads that the stack will have after the change."""
    found: set[Asking] = set()
    for step in steps:
        if step.type in _TEMPLATES and step.op != "delete":
            who = f"{step.type.rpartition(':')[2]} {step.name}"
            spec = at(step.new or step.old, *_TEMPLATES[step.type])
            found |= {Asking(who, name, _selector(spec)) for name in _resources(spec)}
    return tuple(sorted(found))


def of_cluster(name: str, text: str) -> tuple[Asking, ...]:
    """Pods of a cluster that have not ended.

    Raises:
        InvalidStackError: if the text is not a list of pods.
    """
    try:
        items = json.loads(text)["items"]
        pods = [(one["metadata"], one["spec"], at(one, "status", "phase")) for one in items]
        found = {
            Asking(f"pod {metadata.get('namespace', 'default')}/{metadata.get('name')}", resource, _selector(spec))
            for metadata, spec, phase in pods
            if phase not in _ENDED
            for resource in _resources(spec)
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        allowed = "the output of `kubectl get pods --all-namespaces --output json`"
        raise InvalidStackError([Problem(name, "it is not a list of pods", allowed, "Write that into the file.")]) from error
    return tuple(sorted(found))


def _selector(spec: object) -> tuple[tuple[str, str], ...]:
    wanted = at(spec, "nodeSelector")
    return tuple(sorted((str(name), str(value)) for name, value in wanted.items())) if isinstance(wanted, dict) else ()


def _resources(spec: object) -> Iterator[str]:
    for group in ("initContainers", "containers"):
        containers = at(spec, group)
        for container in containers if isinstance(containers, list) else ():
            for section in ("limits", "requests"):
                asked = at(container, "resources", section)
                yield from (str(name) for name in asked if str(name).startswith(_PREFIX)) if isinstance(asked, dict) else ()
