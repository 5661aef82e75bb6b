"""Who wrote a value: by the managed fields of a Kubernetes object, or by the system data of an Azure resource. Pure.

The API server notes of each field whoever set it last, by the name that its client gives itself, and when. Of what was taken out
it notes nothing, and nobody's name is proof: a client may give any. Azure's Resource Manager tells who changed a resource last,
not who changed which property, and tells it of few types. Magnum tells nothing; the audit log of each system knows more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.drift.paths import Step


@dataclass(frozen=True)
class Writer:
    """Who wrote something last.

    Attributes:
        name: the field manager, or Azure's identity.
        operation: ``Apply`` or ``Update``; of Azure the type of the identity.
        time: when, as it is written there.
        of: what it is of: ``field``, or ``resource`` where any of its properties may be meant.
    """

    name: str
    operation: str
    time: str
    of: str = "field"

    def __str__(self) -> str:
        """As a table shows it."""
        last = "" if self.of == "field" else ", the last to change any of it"
        how = ", ".join(filter(None, [self.operation, self.time]))
        return self.name + (f" ({how})" if how else "") + last


def writer_of(managed: Sequence[Mapping[str, Any]], steps: Sequence[Step]) -> Writer | None:
    """Who wrote the field last; None where nobody is noted.

    Args:
        managed: the object's `metadata.managedFields`.
        steps: where the field lies. Behind a place in a list nothing is looked up: managed fields name items by their keys.
    """
    names = []
    for step in steps:
        if isinstance(step, int):
            break
        names.append(step)
    found = [entry for entry in managed if not entry.get("subresource") and names and _has(entry.get("fieldsV1"), names)]
    if not found:
        return None
    last = max(found, key=lambda entry: str(entry.get("time") or ""))
    return Writer(str(last.get("manager") or "unknown"), str(last.get("operation") or ""), str(last.get("time") or ""))


def _has(fields: object, names: Sequence[str]) -> bool:
    for name in names:
        if not isinstance(fields, dict) or f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
    return True


def azure_writer(outputs: Mapping[str, Any]) -> Writer | None:
    """Who changed an Azure resource last; None where ARM does not tell it of this type.

    Args:
        outputs: of the resource, as it is.
    """
    data = outputs.get("systemData")
    if not isinstance(data, dict) or not data.get("lastModifiedBy"):
        return None
    kind, time = str(data.get("lastModifiedByType") or ""), str(data.get("lastModifiedAt") or "")
    return Writer(str(data["lastModifiedBy"]), kind, time, "resource")
