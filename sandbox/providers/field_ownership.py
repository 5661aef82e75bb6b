"""Who owns which field of an object, and the object as the engine keeps it: with its own field manager and nobody else's.

Creates have a manager that all share; the first update makes what it has set the resource's own manager's, as the real provider
does. What is asked for, and when, is the provider's (kubernetes).
"""

from __future__ import annotations

import json
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster.api_errors import ApiError
from sandbox.providers import kube_rules
from sandbox.providers.base import PartialFailure
from sandbox.providers.values import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox.providers.kube_objects import Objects
    from sandbox.providers.values import Value

_FIELD_MANAGER: Final = "__fieldManager"
#: Of every create. The first update makes what it has set the resource's own manager's.
CREATOR: Final = "pulumi-kubernetes"
#: What an update takes over, as it does from kubectl: (how the manager's name begins, operation) of entries of whole objects.
#: `kubectl-edit` and `kubectl-label` are among them: fluxcd/pkg/ssa, matchFieldManager, compares beginnings.
_TAKEN_OVER: Final = (
    *((CREATOR, "Update"), ("pulumi-resource-kubernetes", "Update")),
    *(("kubectl", "Update"), ("kubectl", "Apply"), ("before-first-apply", "Update")),
)
#: Of the texts about an object that was refused, or that is waited for in vain.
NOT_LIVE: Final = "reported that {} failed to fully initialize or become live"


def managed_fields(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Who has set what, an entry each."""
    return live["metadata"].get("managedFields") or []


def manager_of(outputs: Mapping[str, Value], inputs: Mapping[str, Value]) -> str:
    """The field manager of a resource: made up once, and kept in its state."""
    given = kube_rules.annotations_of(inputs).get("pulumi.com/patchFieldManager")
    return str(given or outputs.get(_FIELD_MANAGER) or f"{CREATOR}-{secrets.token_hex(4)}")


def take_over(objects: Objects, obj: Mapping[str, Value], manager: str) -> None:
    """Make what a create has set into what an apply has set; otherwise a later apply could take nothing away."""
    live = objects.live(obj)
    entries = managed_fields(live) if live is not None else []
    # Until the creates had a manager of their own, a state's manager had created its object.
    wanted = (*_TAKEN_OVER, (manager, "Update"))
    mine = [entry for entry in entries if _matches(entry, wanted) or _matches(entry, [(manager, "Apply")], exactly=True)]
    if live is None or not any(entry.get("operation") == "Update" or entry.get("manager") != manager for entry in mine):
        return
    fields: dict[str, Any] = {}
    for entry in mine:
        fields = _united(fields, entry.get("fieldsV1") or {})
    taken = {**mine[-1], "manager": manager, "operation": "Apply", "fieldsV1": fields}
    operations = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [*(one for one in entries if one not in mine), taken]},
        # Should somebody have changed the object meanwhile, this fails.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
    ]
    try:
        objects.patch(live, operations)
    except ApiError as error:
        if error.status == HTTPStatus.CONFLICT:
            take_over(objects, obj, manager)
            return
        reason = f"the Kubernetes API server {NOT_LIVE.format(json.dumps(kube_rules.identity(obj)))}: {error}"
        raise PartialFailure(kube_rules.identity(obj), outputs_of(live, manager), [reason]) from error


def _matches(entry: Mapping[str, Any], wanted: Iterable[tuple[str, str]], *, exactly: bool = False) -> bool:
    name, operation = str(entry.get("manager")), entry.get("operation")
    named = any(operation == wished and (name == begin if exactly else name.startswith(begin)) for begin, wished in wanted)
    return named and not entry.get("subresource")


def _united(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two sets of fields, as managedFields has them."""
    return {key: _united(first.get(key) or {}, second.get(key) or {}) for key in {**first, **second}}


def outputs_of(live: Mapping[str, Any], manager: str) -> dict[str, Value]:
    """An object as the engine keeps it: without the field ownership, with a Secret's data secret."""
    metadata = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    outputs: dict[str, Value] = {**live, "metadata": metadata}
    if manager:
        outputs[_FIELD_MANAGER] = manager
    if live.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if key in outputs:
                outputs[key] = Secret(outputs[key])
    return outputs


def importable(live: Mapping[str, Any]) -> dict[str, Value]:
    """The inputs that would make a live object, for an import."""
    keep = ("name", "namespace", "labels", "annotations")
    metadata = {key: live["metadata"][key] for key in keep if key in live["metadata"]}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}
